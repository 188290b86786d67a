"""Redirect chain of one probe, with its cookies and time budget.

Cookies live for one check, and are sent to the host that set them, or to the hosts of the domain
that it names when that is its own.

Every hop is handled like the first: its host resolved, its address checked. A chain ends at an
answer without a redirect, at a URL that was requested before with the same cookies, or after
`HOPS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from classify.redirect_target import BadLocationError, resolve_location
from links.check_result import CheckMethod, RedirectHop
from links.checker.answer_verdict import REDIRECTS, ProbeTrace, refresh_target
from links.checker.connection import request_target
from links.checker.fetch_errors import FetchFailure, NoAnswerError
from links.checker.http_exchange import HttpAnswer
from net.public_suffix import registrable

COOKIES = 30
BYTES = 4_096  # one cookie, as browsers allow


class ChainCookies:
    """Cookies set by a chain's servers."""

    def __init__(self) -> None:
        self._set: dict[tuple[str, str], str] = {}  # (host, or "." and its domain; name) -> value

    def take(self, host: str, headers: list[str]) -> None:
        """Store the host's Set-Cookie headers."""
        for header in headers[:COOKIES]:
            pair, _, attributes = header.partition(";")
            name, equals, value = pair.partition("=")
            name, value = name.strip(), value.strip()
            plain = header.isascii() and header.isprintable()
            if not equals or not name or not plain or len(pair) > BYTES:
                continue
            key = (self._reach(host, attributes), name)
            self._set.pop(key, None)
            if "max-age=0" not in attributes.lower().replace(" ", "") and len(self._set) < COOKIES:
                self._set[key] = value

    def header(self, host: str) -> str:
        """Return the Cookie header for the host; empty without cookies."""
        if not self._set:
            return ""
        places = (host, "." + registrable(host))
        return "; ".join(
            f"{name}={value}" for (place, name), value in self._set.items() if place in places
        )

    def _reach(self, host: str, attributes: str) -> str:
        for attribute in attributes.split(";"):
            name, _, value = attribute.partition("=")
            if name.strip().lower() == "domain":
                domain = value.strip().lstrip(".").lower()
                own = registrable(host)
                if domain and (domain == own or domain.endswith("." + own)):
                    return "." + own
        return host


HOPS = 20  # as browsers


class ProbeBudget:
    """Time budget of a check, without waits for turns."""

    def __init__(
        self, seconds: float, monotonic: Callable[[], float], whole: "ProbeBudget | None" = None
    ) -> None:
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        self._whole = whole

    @property
    def left_s(self) -> float:
        """Return the remaining seconds; negative when it is exceeded."""
        return self._until - self._monotonic()

    def part(self, seconds: float) -> "ProbeBudget":
        """Return a budget of that many seconds, ending no later than this one."""
        return ProbeBudget(min(seconds, self.left_s), self._monotonic, self)

    def put_off(self, seconds: float) -> None:
        """Add time that was spent waiting."""
        self._until += seconds
        if self._whole is not None:
            self._whole.put_off(seconds)


@dataclass(slots=True)
class RedirectChain:
    """Requests sent so far."""

    trace: ProbeTrace  # the current trace
    cookies: ChainCookies = field(default_factory=ChainCookies)  # the cookies of the chain
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def next_url(self) -> str:
        """Return the next URL to request; NoAnswerError for a loop or too many redirects."""
        url = self.trace.final
        here = (url, self.cookies.header(request_target(url).host))
        if here in self._seen:
            raise NoAnswerError(FetchFailure.LOOP)
        if len(self._seen) > HOPS:
            raise NoAnswerError(FetchFailure.TOO_MANY)
        self._seen.add(here)
        return url

    def take(self, answer: HttpAnswer, tls_fault: str) -> bool:
        """Add an answer; return True when it redirects."""
        trace = self.trace
        url = trace.final
        self.trace = replace(trace, answer=answer, tls_fault=trace.tls_fault or tls_fault)
        self.cookies.take(request_target(url).host, answer.head.all("set-cookie"))
        status = answer.head.status
        if status in REDIRECTS:
            return self._led(status, url, answer.head.first("location"))
        if trace.how is CheckMethod.HEAD:
            return False
        refresh = refresh_target(self.trace)
        return bool(refresh) and self._led(status, url, refresh)

    def failed(self, error: NoAnswerError) -> ProbeTrace:
        """Return the trace of a chain that ends here without an answer."""
        return replace(self.trace, answer=None, trouble=error.trouble, detail=error.detail)

    def _led(self, status: int, url: str, location: str) -> bool:
        try:
            to = resolve_location(url, location)
        except BadLocationError as error:
            if status in REDIRECTS:  # a page's own refresh may say what it likes
                self.trace = replace(self.trace, unfollowed=str(error))
            return False
        if to == url and status not in REDIRECTS:
            return False  # a page that renews itself
        self.trace = replace(self.trace, hops=(*self.trace.hops, RedirectHop(status, to)))
        return True
