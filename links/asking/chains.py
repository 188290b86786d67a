"""A chain of redirects, followed by hand: where it has come, and whether it goes on.

Every hop is asked for like the first: its host looked up, its address judged. A chain ends at an
answer that leads nowhere, at a URL that was asked for before with the same cookies, or after `HOPS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from links.asking.cookies import Cookies
from links.asking.exchanges import Answer
from links.asking.judging import REDIRECTS, Trace, refresh_of
from links.asking.redirects import BadLocationError, follow
from links.asking.troubles import NoAnswerError, Trouble
from links.asking.ways import target_of
from links.findings import Hop, How

HOPS = 20  # as browsers


class Budget:
    """What is left of a look's time. Waiting for turns does not count: it is put off by that."""

    def __init__(
        self, seconds: float, monotonic: Callable[[], float], whole: "Budget | None" = None
    ) -> None:
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        self._whole = whole

    @property
    def left_s(self) -> float:
        """Seconds; negative when it is used up."""
        return self._until - self._monotonic()

    def part(self, seconds: float) -> "Budget":
        """One that ends after so many seconds, and no later than this."""
        return Budget(min(seconds, self.left_s), self._monotonic, self)

    def put_off(self, seconds: float) -> None:
        """Give back what was not the server's doing."""
        self._until += seconds
        if self._whole is not None:
            self._whole.put_off(seconds)


@dataclass(slots=True)
class Chain:
    """What was asked for so far.

    Attributes:
        trace: as it stands.
        cookies: what was set on the way.
    """

    trace: Trace
    cookies: Cookies = field(default_factory=Cookies)
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def next_url(self) -> str:
        """What is to be asked for now.

        Raises:
            NoAnswerError: it leads in circles, or too far.
        """
        url = self.trace.final
        here = (url, self.cookies.header(target_of(url).host))
        if here in self._seen:
            raise NoAnswerError(Trouble.LOOP)
        if len(self._seen) > HOPS:
            raise NoAnswerError(Trouble.TOO_MANY)
        self._seen.add(here)
        return url

    def take(self, answer: Answer, tls_fault: str) -> bool:
        """Take the answer to that; whether it leads on."""
        trace = self.trace
        url = trace.final
        self.trace = replace(trace, answer=answer, tls_fault=trace.tls_fault or tls_fault)
        self.cookies.take(target_of(url).host, answer.head.all("set-cookie"))
        status = answer.head.status
        if status in REDIRECTS:
            return self._led(status, url, answer.head.first("location"))
        if trace.how is How.HEAD:
            return False
        refresh = refresh_of(self.trace)
        return bool(refresh) and self._led(status, url, refresh)

    def failed(self, error: NoAnswerError) -> Trace:
        """The trace of a chain that ends here without an answer."""
        return replace(self.trace, answer=None, trouble=error.trouble, detail=error.detail)

    def _led(self, status: int, url: str, location: str) -> bool:
        try:
            to = follow(url, location)
        except BadLocationError as error:
            if status in REDIRECTS:  # a page's own refresh may say what it likes
                self.trace = replace(self.trace, unfollowed=str(error))
            return False
        if to == url and status not in REDIRECTS:
            return False  # a page that renews itself
        self.trace = replace(self.trace, hops=(*self.trace.hops, Hop(status, to)))
        return True


def untold(url: str, trouble: Trouble, detail: str) -> Trace:
    """The trace of a URL that nothing was asked for."""
    return Trace(url, How.HEAD, trouble=trouble, detail=detail)
