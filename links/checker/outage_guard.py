"""Detection of own network outages, in which failures are held back.

A host that does not answer is one thing, twenty hosts in a row that do not is another. Then their results
are held back, and URLs that were alive lately are asked. When one of those answers, the failures are the
hosts' own, and are kept. When none does, nothing that was held back was found out: it is looked at
again when somebody answers.
"""

import asyncio
from collections import OrderedDict

from sqlalchemy import Connection, select

from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.checker.due_urls import DueUrl
from links.checker.host_turns import HostTurns
from links.checker.probe_protocol import LinkProber
from links.checker.result_store import UrlCheckResult
from links.registry.schema import hosts, urls
from links.registry.thread import RegistryThread
from links.states import LinkState
from links.url_parts import SCHEMES, UrlParts

SILENT_HOSTS = 20  # that do not answer, one after the other, before we doubt ourselves
CONTROLS = 5  # URLs that are asked then, each of another host …
FEWEST_CONTROLS = 3  # … of those that are known: fewer tell nothing
_CANDIDATES = 50
HeldResult = tuple[DueUrl, UrlCheckResult]


class OutageGuard:
    """Holds results back while nobody answers. Pure, but for what it is told."""

    def __init__(self, *, silent_hosts: int = SILENT_HOSTS) -> None:
        """Doubt after so many hosts."""
        self._most = silent_hosts
        self._silent: OrderedDict[str, None] = OrderedDict()
        self._held: list[HeldResult] = []

    @property
    def doubts(self) -> bool:
        """Whether too many hosts in a row were silent: no look may begin until that is settled."""
        return len(self._silent) >= self._most

    @property
    def held(self) -> int:
        """Results that are held back."""
        return len(self._held)

    def take(self, url: DueUrl, result: UrlCheckResult) -> list[HeldResult]:
        """A result came; those that may be kept now."""
        if is_silent(result.finding):
            self._silent[url.host] = None
            self._held.append((url, result))
            return []
        if result.finding.http is None:
            return [(url, result)]  # nothing was asked, or it says nothing of any network
        return [*self.let_go(), (url, result)]

    def let_go(self) -> list[HeldResult]:
        """Somebody answered: whoever was silent was so by itself."""
        self._silent.clear()
        held, self._held = self._held, []
        return held


def is_silent(finding: CheckResult) -> bool:
    """Whether nobody answered; what a browser or a person says is no matter of our network."""
    return (
        finding.http is None
        and finding.verdict in (CheckVerdict.FAILING, CheckVerdict.GONE)
        and finding.how in (CheckMethod.HEAD, CheckMethod.GET, CheckMethod.INFERRED)
    )


class ControlChecks:
    """Asks hosts that were alive lately, a few at a time, never the same ones twice in a row."""

    def __init__(self, desk: RegistryThread, looks: LinkProber, turns: HostTurns) -> None:
        self._desk = desk
        self._looks = looks
        self._turns = turns
        self._asked = 0

    async def somebody_answers(self) -> bool:
        """Whether one of them does; also when too few are known to ask."""
        known = await self._desk.read(control_urls)
        if len(known) < FEWEST_CONTROLS:
            return True
        start = self._asked % len(known)
        self._asked += CONTROLS
        asked = (known[start:] + known[:start])[:CONTROLS]
        tasks = [asyncio.create_task(self._answers(url)) for url in asked]
        try:
            return any([await task for task in tasks])
        finally:
            for task in tasks:
                task.cancel()

    async def _answers(self, url: str) -> bool:
        with self._turns.look() as look:
            try:
                return not is_silent(await self._looks.probe(url, get_only=True))
            except asyncio.CancelledError:
                if not look.is_crowded:
                    raise
                look.task.uncancel()
                return False


def control_urls(connection: Connection) -> list[str]:
    """URLs that were alive when they were last looked at, each of another host: the latest."""
    asked = (
        select(urls.c.scheme, urls.c.port, urls.c.path, hosts.c.name)
        .join_from(urls, hosts, hosts.c.id == urls.c.host_id)
        .where(urls.c.state == int(LinkState.ALIVE), urls.c.due_day.is_not(None))
        .order_by(urls.c.due_day.desc(), urls.c.key.desc())
        .limit(_CANDIDATES)
    )
    found = {
        row.name: UrlParts(SCHEMES[row.scheme], row.name, row.port, row.path).url
        for row in connection.execute(asked)
    }
    return list(found.values())
