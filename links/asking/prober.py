"""One look at one URL over the network: the `Looks` that asks.

HEAD first, and GET when that says anything but a clear yes; redirects followed by hand, with every
address on the way judged anew; never longer than `[links] timeout_s` (waiting for turns apart), never
more of a body than its beginning. Nothing that a server does raises. What is asked is decided here,
what it means in `links.asking.judging`.

robots.txt is not obeyed: whether a page is there is asked as a reader's browser would ask, and nothing
is kept of it.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Self

from core.addresses import Address
from core.clock import Clock, SystemClock
from core.errors import BadUrlError
from core.settings import Settings
from core.urls import fetch_key
from links.asking.chains import Budget, Chain, untold
from links.asking.exchanges import Answer, exchange
from links.asking.judging import Trace, is_clear, is_useful, judge
from links.asking.names import Names
from links.asking.pages import page_of, simhash
from links.asking.protocol import Turns
from links.asking.requests import Requests
from links.asking.siblings import Seen, invented, same_answer
from links.asking.troubles import NoAnswerError, Trouble
from links.asking.ways import Ways, target_of
from links.domains import warm_up
from links.findings import Finding, Hop, How, Verdict
from links.status import Code

NOT_SENT = 0  # the status of a hop that no server sent: from http to https, or back
HEAD_S = 20.0  # HEAD may take so long, and at most a third of all
_log = logging.getLogger(__name__)


class Prober:
    """Looks at URLs; belongs to one event loop. Used as ``async with``, which closes it."""

    def __init__(
        self,
        settings: Settings,
        *,
        is_own: Callable[[Address], bool],
        names: Names | None = None,
        turns: Turns | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Take what is asked with.

        Args:
            settings: of them [links] and [egress].
            is_own: whether an address is this machine's own (`proxy.addresses.is_own`).
            names: who looks names up; None: by the system's name servers. The caller closes its own.
            turns: what spaces requests to one host; None: nothing does.
            clock: tells the time.
            rng: invents paths.

        Raises:
            ConfigError: a setting is no good, or the system has no name server.
        """
        self._clock = clock or SystemClock()
        asked = names or Names(monotonic=self._clock.monotonic, rng=rng)
        self._own_names = None if names else asked
        self._ways = Ways(settings.egress, asked, is_own=is_own)
        self._requests = Requests(settings.links)
        self._timeout_s = settings.links.timeout_s
        self._turns = turns
        self._rng = rng or random.SystemRandom()
        warm_up()

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """End look-ups that nobody waits for any more."""
        if self._own_names is not None:
            await self._own_names.close()

    async def probe(
        self,
        url: str,
        *,
        get_only: bool = False,
        compare: Callable[[Finding], bool] | None = None,
    ) -> Finding:
        """One look at the URL; see `links.asking.protocol.Looks`."""
        return await self._guarded(url, partial(self._look, get_only=get_only, compare=compare))

    async def probe_sibling(self, url: str) -> Finding:
        """A look at the URL and beside it; see `links.asking.protocol.Looks`."""
        return await self._guarded(url, self._compared)

    async def _guarded(self, url: str, look: Callable[[str], Awaitable[Finding]]) -> Finding:
        """The look's finding, whatever becomes of it."""
        began = self._clock.monotonic()
        try:
            finding = await look(fetch_key(url, allow_single_label=True))
        except BadUrlError as error:
            finding = judge(untold(url, Trouble.URL, error.reason), self._clock.now())
        except Exception as error:  # noqa: BLE001 one URL must not end a pass over millions
            _log.exception("A look at %s failed: this is a bug.", url[:200])
            finding = judge(untold(url, Trouble.FAULT, type(error).__name__), self._clock.now())
        return replace(finding, seconds=self._clock.monotonic() - began)

    async def _look(
        self, url: str, *, get_only: bool, compare: Callable[[Finding], bool] | None
    ) -> Finding:
        trace, finding = await self._asked(url, get_only=get_only)
        if compare is None or not compare(finding):
            return finding
        compared = finding
        if trace.how is How.HEAD:
            budget = Budget(self._timeout_s, self._clock.monotonic)
            trace = await self._chain(url, How.GET, budget)
            compared = judge(trace, self._clock.now())
        compared = await self._beside(url, trace, compared)
        if compared.verdict is not Verdict.SUSPECT:  # it may say nothing, or fail for want of luck
            return finding
        return replace(compared, hops=finding.hops, head_fails=finding.head_fails)

    async def _asked(self, url: str, *, get_only: bool) -> tuple[Trace, Finding]:
        budget = Budget(self._timeout_s, self._clock.monotonic)
        head: Finding | None = None
        useful = True
        if not get_only:
            part = budget.part(min(HEAD_S, self._timeout_s / 3))
            trace = await self._chain(url, How.HEAD, part)
            head = judge(trace, self._clock.now())
            useful = is_useful(trace)
            if is_clear(trace, head):
                return await self._otherwise(url, trace, head, budget)
        trace = await self._chain(url, How.GET, budget)
        finding = judge(trace, self._clock.now())
        if head is not None:
            fails = head.verdict is not finding.verdict or (
                finding.verdict is Verdict.OK and not useful
            )
            finding = replace(finding, head_fails=fails)
        return await self._otherwise(url, trace, finding, budget)

    async def _otherwise(
        self, url: str, trace: Trace, found: Finding, budget: Budget
    ) -> tuple[Trace, Finding]:
        """The finding, or that of the same URL with the other scheme where only that works (W47)."""
        if trace.hops or trace.trouble not in _TRY_OTHER_SCHEME:
            return trace, found
        target = target_of(url)
        if target.authority != target.host or budget.left_s <= 0:
            return trace, found
        scheme = "http" if target.scheme == "https" else "https"
        other = f"{scheme}{url.removeprefix(target.scheme)}"
        beside = await self._chain(other, How.GET, budget)
        finding = judge(beside, self._clock.now())
        if finding.verdict is not Verdict.OK:
            # Whoever answers there, the host is not down: its other URLs may be fine.
            return trace, found if beside.answer is None else replace(found, whole_host=False)
        return trace, replace(
            finding,
            code=Code.OTHER_SCHEME,
            final_url=beside.final,
            hops=(Hop(NOT_SENT, other), *beside.hops),
            note=f"scheme: {scheme} alone answers",
        )

    async def _compared(self, url: str) -> Finding:
        budget = Budget(self._timeout_s, self._clock.monotonic)
        trace = await self._chain(url, How.GET, budget)
        return await self._beside(url, trace, judge(trace, self._clock.now()))

    async def _beside(self, url: str, trace: Trace, finding: Finding) -> Finding:
        """Return the finding, or a suspicion when an invented path is answered as the page was by GET."""
        beside = invented(url, self._rng)
        if not beside or finding.verdict not in (Verdict.OK, Verdict.SUSPECT):
            return finding
        if trace.answer is None:  # only the other scheme answers
            return finding
        sibling = await self._chain(beside, How.GET, Budget(self._timeout_s, self._clock.monotonic))
        if sibling.answer is None:
            return finding
        why = same_answer(_seen(trace, trace.answer), _seen(sibling, sibling.answer))
        if not why:
            return finding
        note = f"soft 404: {why}"
        return replace(finding, code=Code.SOFT_404, verdict=Verdict.SUSPECT, note=note)

    async def _chain(self, url: str, how: How, budget: Budget) -> Trace:
        """Ask, and follow where it leads."""
        chain = Chain(Trace(url, how))
        try:
            while True:
                answer, fault = await self._ask(chain.next_url(), chain, budget)
                if not chain.take(answer, fault):
                    return chain.trace
        except NoAnswerError as error:
            return chain.failed(error)

    async def _ask(self, url: str, chain: Chain, budget: Budget) -> tuple[Answer, str]:
        target = target_of(url)
        if self._turns is not None:
            began = self._clock.monotonic()
            await self._turns.take(target.host)
            budget.put_off(self._clock.monotonic() - began)
        if budget.left_s <= 0:
            raise NoAnswerError(Trouble.SILENT, "no time was left")
        method, cookies = chain.trace.how.name, chain.cookies.header(target.host)
        way = await self._ways.open(target, budget.left_s)
        try:
            request = self._requests.write(method, target, cookies)
            answer = await exchange(way, request, limit_s=budget.left_s)
        finally:
            way.close()
        return answer, way.tls_fault


# No answer at all, or none that is TLS: readers' browsers try https for http by themselves.
_TRY_OTHER_SCHEME = frozenset(
    (Trouble.REFUSED, Trouble.NO_CONNECTION, Trouble.TLS, Trouble.TLS_SILENT, Trouble.NO_HTTP)
)


def _seen(trace: Trace, answer: Answer) -> Seen:
    page = page_of(answer.body, answer.head.first("content-type"))
    return Seen(answer.head.status, trace.final, bool(trace.hops), simhash(page))
