"""Run over many pages: concurrent checks, each stored as soon as it is complete, then recorded in WARCs.

The next run skips stored checks. The registry serves queries, but the WARCs are authoritative: from the records the
captures index can be rebuilt. A check is marked as recorded when its record is on disk; a run that dies in between
writes the record again, without effect.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random

from core.captures import ArtifactKind, artifact_uri
from core.clock import Clock, SystemClock
from core.config.settings import BrowserSettings, Settings
from core.errors import CollectionInUseError, InputError, WeboidError
from core.layout import CA_FILE, Layout
from core.playback_check import PICTURES, PlaybackFault, QaVerdict, check_record, picture_name, validate_check_ids
from core.timestamps import parse_warc_date
from crawler.collection import open_collection
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.pools.cluster import RemoteProxyPool, living_proxies
from crawler.pools.resource_pool import LocalProxyPool
from links.registry.database import RegistryStore, open_registry_store
from net.stop_signals import StopSignals, first_error
from playback.access.levels import DEFAULT_LEVEL, Level
from proxy.control.client import NewArtifact, ProxyClient
from proxy.control.handshake import ClusterSecret
from qa.check_store import BEFORE_ALL, delete_checks, list_unrecorded, mark_recorded, store_checks
from qa.check_table import CheckedPage, CheckKey
from qa.checker import CheckOutcome, PlaybackChecker, open_checkers
from qa.compare.picture_tiles import shrink_picture
from qa.local_replay import open_browsers
from qa.sample import SampledPage
from warc.local_storage import ScratchKind, replacing_file, scratch_folder

WIDEST_PX = 1_280
TALLEST_PX = 6_000
_QUALITY = 75
_KEPT_FOR = frozenset({QaVerdict.BROKEN, QaVerdict.DOUBTFUL})


def store_check(store: RegistryStore, folder: Path, checked: CheckOutcome, *, now: datetime) -> None:
    """Store the check in place of the previous one, its pictures first; of a withheld page nothing is stored."""
    check, page = checked.check, checked.page
    wanted = checked.pictures if check.verdict in _KEPT_FOR and not checked.is_withheld else {}
    for kind in PICTURES:
        path, data = folder / picture_name(check.page_id, check.level, kind), None
        if kind in wanted:
            data = shrink_picture(wanted[kind], widest=WIDEST_PX, tallest=TALLEST_PX, quality=_QUALITY)
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, data)
    if not checked.is_withheld:
        with store.writing() as rows:
            store_checks(rows, [CheckedPage(check, page.host, page.page_class)], now)


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file atomically, for concurrent readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as partial:
        partial.write_bytes(data)


def erase_check_results(layout: Layout, database_url: str, page_ids: Iterable[str]) -> None:
    """Delete all check results of these pages; invalid ids, as found in records, are skipped."""
    pages = []
    for page_id in dict.fromkeys(page_ids):
        with suppress(InputError):
            validate_check_ids(page_id, DEFAULT_LEVEL)
            pages.append(page_id)
            for path in (layout.quality_pictures / page_id[:2]).glob(f"{page_id}.*"):
                path.unlink(missing_ok=True)
    if pages and (database_url or layout.links_db.exists()):
        with closing(open_registry_store(layout, database_url)) as store, store.writing() as rows:
            delete_checks(rows, pages)


@dataclass(slots=True)
class CheckRunTally:
    """Pages by verdict, and the duration so far."""

    verdicts: Counter[QaVerdict] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Return the number of pages checked."""
        return self.verdicts.total()

    @property
    def per_minute(self) -> float:
        """Return the pages checked per minute; 0 at the start."""
        return self.done / self.seconds * 60 if self.seconds > 0 else 0.0


async def check_pages(  # noqa: PLR0913 independent options
    pages: Iterable[SampledPage],
    checker: PlaybackChecker,
    *,
    jobs: int,
    clock: Clock,
    keep: Callable[[CheckOutcome], None],
    on_check: Callable[[CheckOutcome, CheckRunTally], None],
    tally: CheckRunTally,
    stop: asyncio.Event,
) -> None:
    """Check the pages in order, `jobs` at a time, until the end or `stop`; `keep` stores a check in a thread."""
    source, turn = iter(pages), asyncio.Lock()
    in_progress: set[str] = set()
    last = clock.monotonic()

    async def next_page() -> SampledPage | None:
        async with turn:
            while not stop.is_set():
                chosen = await asyncio.to_thread(next, source, None)
                if chosen is None or chosen.page.page_id not in in_progress:
                    return chosen
            return None

    async def work() -> None:
        nonlocal last
        while (chosen := await next_page()) is not None:
            in_progress.add(chosen.page.page_id)
            checked = await checker.check(chosen.page)
            if stop.is_set() and PlaybackFault.NOT_SHOWN in checked.check.faults:
                # A signal to the whole process group stops playback, too: not a fault of the copy.
                return
            await asyncio.to_thread(keep, checked)
            in_progress.discard(chosen.page.page_id)
            now = clock.monotonic()
            tally.seconds, last = tally.seconds + now - last, now
            tally.verdicts[checked.check.verdict] += 1
            on_check(checked, tally)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(work())
    except BaseExceptionGroup as error:
        raise first_error(error) from error


@dataclass(frozen=True, slots=True)
class CheckRunOptions:
    """Collection, browser and playback of a run."""

    layout: Layout
    database_url: str
    browser: BrowserSettings
    jobs: int
    clock: Clock
    fonts: bool = True  # copies load their own fonts
    cached: bool = True  # copies may come from playback's cache


async def check_copies(
    options: CheckRunOptions,
    turns: Sequence[tuple[Level, Iterable[SampledPage]]],
    stop: StopSignals,
    *,
    keep: Callable[[CheckOutcome], None],
    on_check: Callable[[CheckOutcome, CheckRunTally], None],
) -> CheckRunTally:
    """Check the pages of each turn at its level; those of a later turn may depend on the results of an earlier one."""
    tally, clock, layout, url = CheckRunTally(), options.clock, options.layout, options.database_url
    levels = list(dict.fromkeys(level for level, _ in turns))
    with stop.cut_short():
        async with (
            open_browsers(options.browser, clock=clock) as lend,
            open_checkers(
                layout, url, levels, lend, clock=clock, fonts=options.fonts, cached=options.cached
            ) as checkers,
        ):
            stop.listen()  # playback handles SIGTERM, too, once it runs
            check = partial(check_pages, jobs=options.jobs, clock=clock, keep=keep, on_check=on_check)
            for level, pages in turns:
                await check(pages, checkers[level], tally=tally, stop=stop.event)
    return tally


AT_ONCE = 8  # visits at the same time: their records share a commit
_CHUNK = 200

LendProxy = Callable[[], AbstractAsyncContextManager[ProxyClient]]


async def record_checks(store: RegistryStore, lend: LendProxy, *, bucket: str) -> int:
    """Write records of all checks changed since they were last recorded; return their number. Raises WeboidError."""
    count, after = 0, BEFORE_ALL

    def unrecorded() -> list[CheckedPage]:
        with store.reading() as reader:
            return list_unrecorded(reader, _CHUNK, after)

    async def write(todo: Iterator[CheckedPage]) -> None:
        for row in todo:
            # One record, on disk when this returns.
            page_id, check = str(uuid.uuid4()), row.effective_check
            uri = artifact_uri(ArtifactKind.PAGEINFO, check.url)
            artifact = NewArtifact(uri, "application/json", check_record(check, page_id))
            async with lend() as proxy, proxy.visit(page_id, bucket=bucket) as visit:
                await visit.write([artifact], document=check.url, date=parse_warc_date(check.checked_at))
                await visit.seal(grace_s=0.0)

    def mark(keys: list[CheckKey]) -> None:
        with store.writing() as connection:
            mark_recorded(connection, keys)

    while rows := await asyncio.to_thread(unrecorded):
        todo = iter(rows)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(write(todo))
        except BaseExceptionGroup as error:
            raise first_error(error) from error
        keys = [row.key for row in rows]
        await asyncio.to_thread(mark, keys)
        count, after = count + len(rows), keys[-1]
    return count


_CLOCK = SystemClock()
_LEFT = "the results are in the registry, and the next `weboid qa` writes them into WARCs"


@dataclass(frozen=True, slots=True)
class RecordsSummary:
    """Result of writing the unrecorded checks."""

    left: str = ""  # keyword of the reason for which they were left to the next run; empty: none
    text: str = ""  # the reason as a sentence
    error: WeboidError | None = None  # None without one, also when another process has the collection


async def write_checks(
    layout: Layout, settings: Settings, store: RegistryStore, secret: ClusterSecret | None
) -> RecordsSummary:
    """Write records of all unrecorded checks, through a cluster's proxies where `secret` opens them."""
    try:
        with store.reading() as reader:
            if not list_unrecorded(reader, 1):
                return RecordsSummary()
        async with _proxies(layout, settings, secret) as lend:
            await record_checks(store, lend, bucket=settings.proxy.dedup_bucket)
    except CollectionInUseError:
        text = f"Another process is writing the collection: {_LEFT}."
        if settings.frontier.url and secret is None:
            text = f"The proxies of a cluster are writing the collection: {_LEFT} with --secret-file."
        return RecordsSummary("in use", text)
    except WeboidError as error:
        return RecordsSummary(str(error), f"Not written into WARCs: {error}", error)
    return RecordsSummary()


@asynccontextmanager
async def _proxies(layout: Layout, settings: Settings, secret: ClusterSecret | None) -> AsyncIterator[LendProxy]:
    """Yield the proxies of a running cluster, else local ones; CollectionInUseError: another process writes."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder(ScratchKind.RUN))  # a unix socket's path is at most 107 bytes
        proxies: RemoteProxyPool | LocalProxyPool | None = None
        if settings.frontier.url and secret is not None:
            frontier = stack.enter_context(open_frontier(layout, settings.frontier, settings.politeness))
            if living_proxies(frontier, _CLOCK, secret):
                stopping = asyncio.Event()  # no visit waits for one of the cluster's proxies
                stopping.set()
                proxies = RemoteProxyPool(
                    frontier,
                    secret,
                    _CLOCK,
                    stopping=stopping,
                    rng=Random(),  # noqa: S311 no secret depends on it
                    authority=folder / CA_FILE,
                    report=lambda _event: None,
                )
        if proxies is None:
            collection = await stack.enter_async_context(open_collection(layout.root, clock=_CLOCK))
            proxies = LocalProxyPool(collection, settings, folder, lambda _recovered: None)
        try:
            await proxies.start()
            yield proxies.lend
        finally:
            await asyncio.shield(proxies.stop())
