"""HTTP probe: HEAD, then GET, redirects followed, siblings compared; never raises.

Total time is limited by `[links] timeout_s` (without waits for turns). A chain of redirects ends at an answer
without one, at a URL that was requested before with the same cookies, or after `HOPS`. Cookies live for one check,
and are sent to the host that set them, or to the hosts of its own domain that it names. robots.txt does not apply:
a page is checked as by a reader's browser, and no content is stored.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from classify.page_excerpt import AnswerFingerprint, compare_answers, invent_sibling, parse_page_excerpt, simhash
from classify.redirect_target import BadLocationError, resolve_location
from core.clock import Clock, SystemClock
from core.config.profile import link_user_agent
from core.config.settings import Settings
from core.errors import BadUrlError
from core.hosts import registrable, warm_up
from core.urls import fetch_key
from links import check_result
from links.check_result import CheckMethod, CheckResult, CheckVerdict, FetchFailure, NoAnswerError, StatusCode
from links.checker import answer_verdict
from links.checker.answer_verdict import REDIRECTS, ProbeTrace, judge_trace
from links.checker.dns_resolver import DnsResolver
from links.checker.host_turns import HostTurns
from links.checker.http_exchange import ConnectionOpener, HttpAnswer, encode_request, exchange, request_target
from net.address_policy import Address

NOT_SENT = 0  # the status of a hop that no server sent: from http to https, or back
HEAD_S = 20.0  # HEAD may take so long, and at most a third of all
_log = logging.getLogger(__name__)


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
            reach = host
            for attribute in attributes.split(";"):
                written, _, text = attribute.partition("=")
                if written.strip().lower() == "domain":
                    domain, own = text.strip().lstrip(".").lower(), registrable(host)
                    if domain and (domain == own or domain.endswith("." + own)):
                        reach = "." + own
            key = (reach, name)
            self._set.pop(key, None)
            if "max-age=0" not in attributes.lower().replace(" ", "") and len(self._set) < COOKIES:
                self._set[key] = value

    def header(self, host: str) -> str:
        """Return the Cookie header for the host; empty without cookies."""
        if not self._set:
            return ""
        places = (host, "." + registrable(host))
        return "; ".join(f"{name}={value}" for (place, name), value in self._set.items() if place in places)


HOPS = 20  # as browsers


class ProbeBudget:
    """Time budget of a check, without waits for turns."""

    def __init__(self, seconds: float, monotonic: Callable[[], float], whole: "ProbeBudget | None" = None) -> None:
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
    cookies: ChainCookies = field(default_factory=ChainCookies)
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
        refresh = answer_verdict.refresh_target(self.trace)
        return bool(refresh) and self._led(status, url, refresh)

    def _led(self, status: int, url: str, location: str) -> bool:
        try:
            to = resolve_location(url, location)
        except BadLocationError as error:
            if status in REDIRECTS:  # a page's own refresh is not limited
                self.trace = replace(self.trace, unfollowed=str(error))
            return False
        if to == url and status not in REDIRECTS:
            return False  # a page that renews itself
        self.trace = replace(self.trace, hops=(*self.trace.hops, check_result.RedirectHop(status, to)))
        return True


class HttpProber:
    """Prober of URLs; bound to one event loop. No method raises for server or DNS behaviour."""

    def __init__(
        self,
        settings: Settings,
        *,
        is_own: Callable[[Address], bool],
        names: DnsResolver | None = None,
        turns: HostTurns | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Set up resolver (`names`, closed by the caller), connections and limits; may raise ConfigError."""
        self._clock = clock or SystemClock()
        resolver = names or DnsResolver(monotonic=self._clock.monotonic, rng=rng)
        self._own_names = None if names else resolver
        self._ways = ConnectionOpener(settings.egress, resolver, is_own=is_own)
        self._user_agent = link_user_agent(settings.links)
        self._timeout_s = settings.links.timeout_s
        self._turns = turns
        self._rng = rng or random.SystemRandom()
        warm_up()

    async def __aenter__(self) -> Self:
        """Return the prober."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel running look-ups."""
        if self._own_names is not None:
            await self._own_names.close()

    async def probe(
        self, url: str, *, get_only: bool = False, compare: Callable[[CheckResult], bool] | None = None
    ) -> CheckResult:
        """Check the URL once, following all redirects; `get_only`: without HEAD (W42).

        `compare` decides by the result whether `probe_sibling` follows. The result's first hop has the status 0 when
        only the same URL with the other scheme answers, without a redirect by the server (W47).
        """
        return await self._guarded(url, partial(self._probe, get_only=get_only, compare=compare))

    async def probe_sibling(self, url: str) -> CheckResult:
        """Check the URL and an invented sibling by GET; SUSPECT, ``soft 404``, when both answers are alike."""
        return await self._guarded(url, self._compared)

    async def _guarded(self, url: str, probe: Callable[[str], Awaitable[CheckResult]]) -> CheckResult:
        """Return the check's result, converting every error."""
        began = self._clock.monotonic()
        try:
            finding = await probe(fetch_key(url, allow_single_label=True))
        except BadUrlError as error:
            finding = self._failed(url, FetchFailure.URL, error.reason)
        except Exception as error:  # noqa: BLE001 one URL must not end a pass over millions
            _log.exception("Checking %s failed: this is a bug.", url[:200])
            finding = self._failed(url, FetchFailure.FAULT, type(error).__name__)
        return replace(finding, seconds=self._clock.monotonic() - began)

    def _failed(self, url: str, trouble: FetchFailure, detail: str) -> CheckResult:
        return judge_trace(ProbeTrace(url, CheckMethod.HEAD, trouble=trouble, detail=detail), self._clock.now())

    async def _probe(self, url: str, *, get_only: bool, compare: Callable[[CheckResult], bool] | None) -> CheckResult:
        trace, finding = await self._probe_methods(url, get_only=get_only)
        if compare is None or not compare(finding):
            return finding
        compared = finding
        if trace.how is CheckMethod.HEAD:
            trace = await self._chain(url, CheckMethod.GET, ProbeBudget(self._timeout_s, self._clock.monotonic))
            compared = judge_trace(trace, self._clock.now())
        compared = await self._beside(url, trace, compared)
        if compared.verdict is not CheckVerdict.SUSPECT:  # no result, or a transient failure
            return finding
        return replace(compared, hops=finding.hops, head_fails=finding.head_fails)

    async def _probe_methods(self, url: str, *, get_only: bool) -> tuple[ProbeTrace, CheckResult]:
        budget = ProbeBudget(self._timeout_s, self._clock.monotonic)
        head: CheckResult | None = None
        useful = True
        if not get_only:
            trace = await self._chain(url, CheckMethod.HEAD, budget.part(min(HEAD_S, self._timeout_s / 3)))
            head = judge_trace(trace, self._clock.now())
            useful = answer_verdict.head_is_informative(trace)
            if answer_verdict.head_is_conclusive(trace, head):
                return await self._otherwise(url, trace, head, budget)
        trace = await self._chain(url, CheckMethod.GET, budget)
        finding = judge_trace(trace, self._clock.now())
        if head is not None:
            fails = head.verdict is not finding.verdict or (finding.verdict is CheckVerdict.OK and not useful)
            finding = replace(finding, head_fails=fails)
        return await self._otherwise(url, trace, finding, budget)

    async def _otherwise(
        self, url: str, trace: ProbeTrace, first_finding: CheckResult, budget: ProbeBudget
    ) -> tuple[ProbeTrace, CheckResult]:
        """Return the result, or that of the other scheme where only that works (W47)."""
        if trace.hops or trace.trouble not in _TRY_OTHER_SCHEME:
            return trace, first_finding
        target = request_target(url)
        if target.port or budget.left_s <= 0:
            return trace, first_finding
        scheme = "http" if target.scheme == "https" else "https"
        other = f"{scheme}{url.removeprefix(target.scheme)}"
        beside = await self._chain(other, CheckMethod.GET, budget)
        finding = judge_trace(beside, self._clock.now())
        if finding.verdict is not CheckVerdict.OK:
            # The host answers, so it is not down: its other URLs may be fine.
            return trace, first_finding if beside.answer is None else replace(first_finding, whole_host=False)
        return trace, replace(
            finding,
            code=StatusCode.OTHER_SCHEME,
            final_url=beside.final,
            hops=(check_result.RedirectHop(NOT_SENT, other), *beside.hops),
            note=f"scheme: {scheme} alone answers",
        )

    async def _compared(self, url: str) -> CheckResult:
        trace = await self._chain(url, CheckMethod.GET, ProbeBudget(self._timeout_s, self._clock.monotonic))
        return await self._beside(url, trace, judge_trace(trace, self._clock.now()))

    async def _beside(self, url: str, trace: ProbeTrace, finding: CheckResult) -> CheckResult:
        """Return the result, or a suspicion when an invented path gets the same answer as the page."""
        beside = invent_sibling(url, self._rng)
        if not beside or finding.verdict not in (CheckVerdict.OK, CheckVerdict.SUSPECT):
            return finding
        if trace.answer is None:  # only the other scheme answers
            return finding
        sibling = await self._chain(beside, CheckMethod.GET, ProbeBudget(self._timeout_s, self._clock.monotonic))
        if sibling.answer is None:
            return finding
        why = compare_answers(_seen(trace, trace.answer), _seen(sibling, sibling.answer))
        if not why:
            return finding
        return replace(finding, code=StatusCode.SOFT_404, verdict=CheckVerdict.SUSPECT, note=f"soft 404: {why}")

    async def _chain(self, url: str, method: CheckMethod, budget: ProbeBudget) -> ProbeTrace:
        chain = RedirectChain(ProbeTrace(url, method))
        try:
            while True:
                answer, fault = await self._ask(chain.next_url(), chain, budget)
                if not chain.take(answer, fault):
                    return chain.trace
        except NoAnswerError as error:
            return replace(chain.trace, answer=None, trouble=error.trouble, detail=error.detail)

    async def _ask(self, url: str, chain: RedirectChain, budget: ProbeBudget) -> tuple[HttpAnswer, str]:
        target = request_target(url)
        if self._turns is not None:
            began = self._clock.monotonic()
            await self._turns.take(target.host)
            budget.put_off(self._clock.monotonic() - began)
        if budget.left_s <= 0:
            raise NoAnswerError(FetchFailure.SILENT, "no time was left")
        method, cookies = chain.trace.how.name, chain.cookies.header(target.host)
        way = await self._ways.open(target, budget.left_s)
        try:
            request = encode_request(method, target, self._user_agent, cookies)
            answer = await exchange(way, request, limit_s=budget.left_s)
        finally:
            way.writer.transport.abort()  # without waiting for pending data
        return answer, way.tls_fault


# No answer at all, or none that is TLS: readers' browsers try https for http by themselves.
_TRY_OTHER_SCHEME = frozenset(
    (FetchFailure.REFUSED, FetchFailure.NO_CONNECTION, FetchFailure.TLS, FetchFailure.TLS_SILENT, FetchFailure.NO_HTTP)
)


def _seen(trace: ProbeTrace, answer: HttpAnswer) -> AnswerFingerprint:
    page = parse_page_excerpt(answer.body, answer.head.first("content-type"))
    return AnswerFingerprint(answer.head.status, trace.final, bool(trace.hops), simhash(page))
