"""What a crew needs, put together in one place: the rules in their order, turns, patience.

The order of the rules is the order in which they are asked before a visit: what costs nothing first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.clock import Clock
from core.settings import Settings
from crawler.budgets import BudgetRule
from crawler.courtesy import CourtesyRule
from crawler.errand import Means
from crawler.events import Event
from crawler.fetching import Fetcher, agent_of, visits_at
from crawler.following import ScopeRule
from crawler.frontier.base import Frontier, FrontierItem
from crawler.jobs import Jobs
from crawler.linklog import LinkLog
from crawler.logins import NO_LOGINS, Logins
from crawler.memory import free_bytes
from crawler.network import Network
from crawler.patience import Patience
from crawler.plain import PlainVisits
from crawler.policy.making import make_policy
from crawler.recrawl import RecrawlRule
from crawler.repairs import RepairRule
from crawler.room import Room
from crawler.rules import Rule
from crawler.sitemap_rule import SitemapRule
from crawler.space import Space
from crawler.stored_levels import StoredLevelOf, StoredLevels, everything_stored
from crawler.supervisor import Supervisor
from crawler.turns import Turns
from proxy import cuts
from proxy.disk import Disk
from proxy.egress import Egress
from proxy.index.protocol import CaptureIndex

LOOKUP_LIMIT_S = 5.0  # a name that takes longer takes its own host's turn


@dataclass(frozen=True, slots=True)
class Stores:
    """What a crew reads and writes.

    Attributes:
        disk: the collection's; None when proxies elsewhere look after theirs.
        name: of this process, for the books.
        reports: the folder for what was decided on links; None: it is not kept.
        ca: the certificate authority of the proxies, for what is fetched without a browser.
        logins: opened.
        stored_level_of: knows what was decided on how much is recorded.
    """

    frontier: Frontier
    supervisor: Supervisor
    index: CaptureIndex
    disk: Disk | None
    name: str = ""
    reports: Path | None = None
    ca: Path | None = None
    logins: Logins = NO_LOGINS
    stored_level_of: StoredLevelOf = everything_stored


def compose(
    stores: Stores, settings: Settings, *, clock: Clock, report: Callable[[Event], None]
) -> Means:
    """The means of a crew.

    Args:
        stores: opened by the caller, who also closes them.
        settings: the profile; a job's and a sheet's settings are laid over it item by item.
        clock: the time.
        report: told what happens.
    """
    frontier, patience = stores.frontier, Patience(clock, report)
    jobs = Jobs(frontier, settings, clock=clock)

    def settings_for(item: FrontierItem) -> Settings:
        settings, repair = jobs.settings_for(item.url, item.job), jobs.repair_of(item.url)
        return settings if repair is None else repair.lay_over(settings)

    async def reach(host: str, port: int) -> bool:
        async with stores.supervisor.proxy() as proxy:
            return await proxy.client.reach(host, port)

    turns = turns_for(settings)
    record = None if stores.reports is None else LinkLog(stores.reports)
    rules: list[Rule] = [
        ScopeRule(jobs, frontier, patience, name=stores.name, record=record),
        BudgetRule(jobs, frontier, patience),
    ]
    fetch = None
    if stores.ca is not None:
        fetch = Fetcher(
            visits_at(
                stores.supervisor,
                bucket=settings.proxy.dedup_bucket,
                headers=settings.visit.headers,
            ),
            ca=stores.ca,
            agent=agent_of(stores.supervisor, settings.visit),
        )
    network = Network(reach, clock, report)
    policy = make_policy(
        frontier,
        settings.policy,
        fetcher=fetch,
        settings_for=settings_for,
        clock=clock,
        ask=patience.ask,
        judge_network=network.judge,
    )
    rules.append(policy)
    if fetch is not None:
        rules.append(SitemapRule(jobs, frontier, patience, fetch, turns=turns, clock=clock))
    recrawl = RecrawlRule(settings_for)
    space = None
    if stores.disk is not None:
        patience_s = settings.proxy.disk_wait_s
        space = Space(stores.disk, patience_s=patience_s, clock=clock, report=report)
    return Means(
        frontier=frontier,
        supervisor=stores.supervisor,
        index=stores.index,
        rules=(
            *rules,
            CourtesyRule(settings_for),
            recrawl,
            RepairRule(jobs.repair_of, stores.logins),
        ),
        settings_for=settings_for,
        policy=policy,
        recrawl=recrawl,
        turns=turns,
        space=space,
        room=Room(
            free_bytes,
            stores.supervisor.visits_bytes,
            reserve_bytes=settings.browser.memory_reserve_mb * 1_000_000,
            clock=clock,
            report=report,
        ),
        network=network,
        plain=None if fetch is None else PlainVisits(fetch, clock),
        patience=patience,
        clock=clock,
        report=report,
        stored_levels=StoredLevels(frontier, stores.stored_level_of),
        logins=stores.logins,
    )


def turns_for(settings: Settings) -> Turns:
    """Whose turns URLs take under these settings."""
    egress = Egress(settings.egress, connect_timeout_s=LOOKUP_LIMIT_S)

    def resolve(host: str) -> str:
        return egress.address_of(host, patience=cuts.Patience(LOOKUP_LIMIT_S))

    return Turns(resolve, per_address=settings.politeness.per_address)
