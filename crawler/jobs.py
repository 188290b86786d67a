"""Which settings hold for a URL: the machine's, the job's, and those of the sheets, one upon another.

Jobs, sheets, repairs and redirected seeds are orders in the frontier. `FrontierStats.version` says when one of
them has changed; it is looked at every `LOOK_S`, so a change reaches every worker within a second.
"""

import json
import logging
from dataclasses import dataclass, field

from core.clock import Clock
from core.errors import BadUrlError, ConfigError, TransientError
from core.profile import parse_sheet, with_sheets
from core.settings import Settings
from core.sheets import ByPrefix, Sheet, surt
from core.urls import fetch_key, identity_key
from crawler.frontier.base import Frontier, Lane
from crawler.job import JOB_ORDER, Job, merged, parse_job
from crawler.repairs import Repair, read_repairs
from crawler.scope import Scope, Territory

log = logging.getLogger(__name__)

SHEET_ORDER = "sheet"  # the key is the prefix, the value its changes as JSON
SEED_ORDER = "seed"  # where a seed redirects to; the key is the job and the seed
LOOK_S = 0.5
MOVED_LIMIT = 1_000


@dataclass(slots=True)
class _Settled:
    """What holds for one job, or for lists; made anew when an order changes.

    Attributes:
        base: the settings without sheets.
        sheets: by prefix, the live ones included.
        territory: where the job's seeds are; None for lists.
        by_sheets: the settings and the scope for each combination of sheets that was met.
    """

    base: Settings
    sheets: ByPrefix[Sheet]
    territory: Territory | None = None
    by_sheets: dict[tuple[str, ...], tuple[Settings, Scope]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the orders said when they were last read; replaced as a whole.

    Attributes:
        texts: the orders of jobs, by name.
        jobs: those that could be read, by name.
        faults: why a job cannot be read, by name.
        moved: where seeds redirect to, by job and seed.
        live: the sheets that were set while the crawl runs.
        repairs: how the next visits of some URLs are made, by identity key.
        settled: what holds for each job, filled on use.
    """

    texts: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    moved: dict[str, dict[str, str]] = field(default_factory=dict)
    live: list[Sheet] = field(default_factory=list)
    repairs: dict[str, Repair] = field(default_factory=dict)
    settled: dict[str, _Settled] = field(default_factory=dict)


class Jobs:
    """Looks settings up, per item; cheap enough to be asked for every link, from any thread."""

    def __init__(self, frontier: Frontier, local: Settings, *, clock: Clock) -> None:
        """Take what is needed, and read nothing yet.

        Args:
            frontier: where the orders are.
            local: this machine's settings, which hold as a whole for what belongs to no job.
            clock: the time.
        """
        self._frontier = frontier
        self._local = local
        self._clock = clock
        self._version = -1
        self._looked_at = float("-inf")
        self._known = _Known()
        self._territories: dict[str, tuple[Job, dict[str, str], Territory]] = {}

    def look(self) -> None:
        """Read the orders when they have changed since; at most every `LOOK_S`.

        Raises:
            TransientError: the frontier is away.
        """
        moment = self._clock.monotonic()
        if moment < self._looked_at + LOOK_S:
            return
        version = self._frontier.stats(self._clock.now()).version
        if version != self._version:
            self._known = self._read()
            self._version = version
        self._looked_at = moment

    def settings_for(self, url: str, job: str) -> Settings:
        """What holds for a fetch key in a job; an unknown job and the empty one are a list.

        While the frontier is away, what was known last.
        """
        return self._for(url, job)[0]

    def scope_for(self, url: str, job: str) -> Scope:
        """Decides on a fetch key as a link of the job; for a list, what is excluded."""
        return self._for(url, job)[1]

    def job(self, name: str) -> Job | None:
        """The job of that name; None when there is none, or it cannot be read."""
        self._look_if_it_answers()
        return self._known.jobs.get(name)

    def fault(self, name: str) -> str:
        """Why the job cannot be read; empty when it can, or is not there."""
        return self._known.faults.get(name, "")

    def repair_of(self, url: str) -> Repair | None:
        """How the next visit of the URL makes good an earlier one; None when it is a usual one."""
        self._look_if_it_answers()
        repairs = self._known.repairs
        return repairs.get(identity_key(url)) if repairs else None

    def lane(self, name: str) -> Lane:
        """Where the job's links are queued."""
        job = self._known.jobs.get(name)
        return Lane.STANDARD if job is None else job.lane

    def move_seed(self, job: str, seed: str, target: str) -> None:
        """Let the scope be seen from where the seed redirects to as well; on all machines.

        Only where that changes something, and for at most `MOVED_LIMIT` seeds of a job: each is an
        order that every worker reads.

        Raises:
            TransientError: the frontier is away.
        """
        known = self._known
        moved = known.moved.get(job, {})
        if job not in known.jobs or moved.get(seed) == target or len(moved) >= MOVED_LIMIT:
            return
        kind = known.jobs[job].settings.scope.kind
        if kind in ("page", "any") or target in self._territory(known.jobs[job], moved):
            return
        if identity_key(seed) in {identity_key(each) for each in known.jobs[job].seeds}:
            self._frontier.give_order(SEED_ORDER, f"{job} {seed}", target)
            self._looked_at = float("-inf")
            self.look()

    def _for(self, url: str, job: str) -> tuple[Settings, Scope]:
        self._look_if_it_answers()
        known = self._known
        name = job if job in known.jobs else ""
        settled = known.settled.get(name)
        if settled is None:
            settled = known.settled[name] = self._settle(known, name)
        sheets = settled.sheets.of(surt(url)) if settled.sheets else ()
        key = tuple(sheet.prefix for sheet in sheets)
        found = settled.by_sheets.get(key)
        if found is None:
            settings = with_sheets(settled.base, sheets)
            territory = settled.territory or Territory("any", ())
            found = settled.by_sheets[key] = (settings, Scope(territory, settings.scope))
        return found

    def _look_if_it_answers(self) -> None:
        try:
            self.look()
        except TransientError as error:
            log.debug("jobs.stale error=%s", error)

    def _settle(self, known: _Known, name: str) -> _Settled:
        if not name:
            sheets = (*self._local.sheets, *known.live)
            return _Settled(self._local, ByPrefix((each.prefix, each) for each in sheets))
        job = known.jobs[name]
        sheets = (*job.settings.sheets, *known.live)
        return _Settled(
            merged(self._local, job.settings),
            ByPrefix((each.prefix, each) for each in sheets),
            self._territory(job, known.moved.get(name, {})),
        )

    def _territory(self, job: Job, moved: dict[str, str]) -> Territory:
        """The job's; with many seeds it is costly to make, so the last one is used while it holds."""
        last = self._territories.get(job.name)
        if last is None or last[0] is not job or last[1] != moved:
            seeds = (*job.seeds, *moved.values())
            last = job, moved, Territory(job.settings.scope.kind, seeds)
            self._territories[job.name] = last
        return last[2]

    def _read(self) -> _Known:
        """Read all orders that matter here; what cannot be read is told and left out."""
        jobs: dict[str, Job] = {}
        faults: dict[str, str] = {}
        before, texts = self._known, self._frontier.orders(JOB_ORDER)
        for name, text in texts.items():
            try:
                same = before.texts.get(name) == text and name in before.jobs
                jobs[name] = before.jobs[name] if same else parse_job(name, text)
            except ConfigError as error:
                faults[name] = str(error)
                if before.faults.get(name) != str(error):
                    log.warning("job.unreadable error=%s", error)
        moved = _moved(self._frontier.orders(SEED_ORDER))
        live, repairs = live_sheets(self._frontier), read_repairs(self._frontier)
        return _Known(texts, jobs, faults, moved, live, repairs)


def live_sheets(frontier: Frontier) -> list[Sheet]:
    """The sheets that were set while the crawl runs; what cannot be read is told and left out."""
    found = []
    for prefix, text in frontier.orders(SHEET_ORDER).items():
        try:
            found.append(parse_live_sheet(prefix, text))
        except ConfigError as error:
            log.warning("sheet.unreadable error=%s", error)
    return found


def parse_live_sheet(prefix: str, text: str) -> Sheet:
    """The sheet in an order.

    Raises:
        ConfigError: it is none, or changes what this program does not know.
    """
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ConfigError(f"sheet {prefix!r} is no table.")
    except ValueError as error:
        raise ConfigError(f"sheet {prefix!r} cannot be read: {error}.") from error
    return parse_sheet(prefix, document)


def _moved(orders: dict[str, str]) -> dict[str, dict[str, str]]:
    """Where seeds redirect to, by job and seed."""
    found: dict[str, dict[str, str]] = {}
    for key, target in orders.items():
        job, _, seed = key.partition(" ")
        try:
            found.setdefault(job, {})[seed] = fetch_key(target, allow_single_label=True)
        except BadUrlError as error:
            log.warning("seed.unreadable error=%s", error)
    return found
