"""Detection of own network outages, in which failures are held back.

When twenty hosts in a row do not answer, URLs that were recently alive are requested. If one of those answers,
the failures are the hosts' own. If none does, the results are discarded, and the URLs are checked again later.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from sqlalchemy import Connection

from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.checker.result_store import UrlCheckResult
from links.registry.database import RegistryThread
from links.registry.schema import urls
from links.registry.urls import UrlRow, row_of, select_url_rows
from links.states import LinkState

SILENT_HOSTS = 20  # that do not answer, one after the other, before we doubt ourselves
CONTROLS = 5  # URLs to request then, each of another host …
FEWEST_CONTROLS = 3  # … of the known ones: fewer are not conclusive
_CANDIDATES = 50
HeldResult = tuple[UrlRow, UrlCheckResult]


class OutageGuard:
    """Buffer of failures during a suspected outage. Without I/O."""

    def __init__(self) -> None:
        self._silent: OrderedDict[str, None] = OrderedDict()
        self._held: list[HeldResult] = []

    @property
    def doubts(self) -> bool:
        """Return True while an outage is suspected: no check may start."""
        return len(self._silent) >= SILENT_HOSTS

    @property
    def held(self) -> int:
        """Count the results that are held back."""
        return len(self._held)

    def take(self, url: UrlRow, result: UrlCheckResult) -> list[HeldResult]:
        """Add a result; return those that may be stored now."""
        if is_silent(result.finding):
            self._silent[url.host] = None
            self._held.append((url, result))
            return []
        if result.finding.http is None:
            return [(url, result)]  # no request was made, or it is no evidence about a network
        return [*self.let_go(), (url, result)]

    def let_go(self) -> list[HeldResult]:
        """Release the held results: a control host answered, so the failures are the hosts' own."""
        self._silent.clear()
        held, self._held = self._held, []
        return held


def is_silent(finding: CheckResult) -> bool:
    """Return True when no server answered; results of browsers and persons do not count."""
    return (
        finding.http is None
        and finding.verdict in (CheckVerdict.FAILING, CheckVerdict.GONE)
        and finding.how in (CheckMethod.HEAD, CheckMethod.GET, CheckMethod.INFERRED)
    )


@dataclass(eq=False)
class ControlChecks:
    """Requests to recently alive hosts, a few at a time, never the same ones twice in a row."""

    registry: RegistryThread
    prober: HttpProber
    turns: HostTurns
    _position: int = field(default=0, init=False)

    async def somebody_answers(self) -> bool:
        """Return True when one of them answers, or when too few are known."""
        known = await self.registry.read(control_urls)
        if len(known) < FEWEST_CONTROLS:
            return True
        start = self._position % len(known)
        self._position += CONTROLS
        controls = (known[start:] + known[:start])[:CONTROLS]
        looks = (self.turns.run(self.prober.probe(url, get_only=True)) for url in controls)
        return any(finding is not None and not is_silent(finding) for finding in await asyncio.gather(*looks))


def control_urls(connection: Connection) -> list[str]:
    """Return the latest URLs that were alive at their last check, each of another host."""
    query = (
        select_url_rows()
        .where(urls.c.state == int(LinkState.ALIVE), urls.c.due_day.is_not(None))
        .order_by(urls.c.due_day.desc(), urls.c.key.desc())
        .limit(_CANDIDATES)
    )
    return list({row.host: row.url for row in map(row_of, connection.execute(query))}.values())
