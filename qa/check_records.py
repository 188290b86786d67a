"""WARC records of checks and reviews, written by local proxies or by a cluster's.

The registry serves queries, but the WARCs are authoritative: from these records the captures index
gets what it needs to choose among captures, and can be rebuilt. A check is marked as recorded when
its record is on disk. A run that dies in between writes the record a second time, without effect.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random

from core.captures import ArtifactKind, artifact_uri
from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import CollectionInUseError, WeboidError
from core.layout import CA_FILE, Layout
from core.playback_check import check_record
from core.timestamps import parse_warc_date
from crawler.collection import open_collection
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.pools.cluster import RemoteProxyPool, living_proxies
from crawler.pools.resource_pool import LocalProxyPool
from links.registry.database import RegistryStore
from net.stop_signals import first_error
from proxy.control.client import NewArtifact, ProxyClient
from proxy.control.handshake import ClusterSecret
from qa.check_store import list_unrecorded, mark_recorded
from qa.check_table import CheckedPage, CheckKey
from warc.local_storage import ScratchKind, scratch_folder

AT_ONCE = 8  # visits at the same time: their records share a commit
_CHUNK = 200

LendProxy = Callable[[], AbstractAsyncContextManager[ProxyClient]]


async def record_checks(store: RegistryStore, lend: LendProxy, *, bucket: str) -> int:
    """Write records of all checks changed since they were last recorded; return their number.

    Raises:
        TransientError: the registry cannot be read or written.
        ProxyUnavailableError, DiskFullError, WeboidError: a record cannot be written.
    """
    count, after = 0, CheckKey("", "", 0)

    def unrecorded() -> list[CheckedPage]:
        with store.reading() as reader:
            return list_unrecorded(reader, _CHUNK, after)

    async def write(todo: Iterator[CheckedPage]) -> None:
        for row in todo:
            # One record, on disk when this returns.
            page_id = str(uuid.uuid4())
            check = row.effective_check
            artifact = NewArtifact(
                artifact_uri(ArtifactKind.PAGEINFO, check.url), "application/json", check_record(check, page_id)
            )
            async with lend() as proxy, proxy.visit(page_id, bucket=bucket) as visit:
                date = parse_warc_date(check.checked_at)
                await visit.write([artifact], document=check.url, date=date)
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
_LEFT = "what was found is in the registry, and is written into WARCs by the next `weboid qa`"


@dataclass(frozen=True, slots=True)
class RecordsSummary:
    """Result of writing the unrecorded checks.

    Attributes:
        error: None without one, also when another process has the collection.
    """

    left: str = ""  # keyword of the reason for which they were left to the next run; empty: none
    text: str = ""  # the reason as a sentence
    error: WeboidError | None = None


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
        text = f"Another process writes the collection: {_LEFT}."
        if settings.frontier.url and secret is None:
            text = f"The proxies of a cluster write the collection: {_LEFT} with --secret-file."
        return RecordsSummary("in use", text)
    except WeboidError as error:
        return RecordsSummary(str(error), f"Not written into WARCs: {error}", error)
    return RecordsSummary()


@asynccontextmanager
async def _proxies(layout: Layout, settings: Settings, secret: ClusterSecret | None) -> AsyncIterator[LendProxy]:
    """Yield the proxies of a running cluster, else local ones, until the end of the block.

    Raises:
        CollectionInUseError: another process writes the collection and accepts no requests.
    """
    # A unix socket's path is at most 107 bytes, so it does not lie in the collection.
    with ExitStack() as stack:
        if settings.frontier.url and secret is not None:
            frontier = stack.enter_context(open_frontier(layout, settings.frontier, settings.politeness))
            if living_proxies(frontier, _CLOCK, secret):
                folder = stack.enter_context(scratch_folder(ScratchKind.RUN))
                impatient = asyncio.Event()  # no visit waits for one of the cluster's proxies
                impatient.set()
                proxies = RemoteProxyPool(
                    frontier,
                    secret,
                    _CLOCK,
                    stopping=impatient,
                    rng=Random(),  # noqa: S311 no secret depends on it
                    authority=folder / CA_FILE,
                    report=lambda _event: None,
                )
                async with _running(proxies) as lend:
                    yield lend
                return
            stack.close()
        async with open_collection(layout.root, clock=_CLOCK) as collection:
            folder = stack.enter_context(scratch_folder(ScratchKind.RUN))
            local = LocalProxyPool(collection, settings, folder, lambda _recovered: None)
            async with _running(local) as lend:
                yield lend


@asynccontextmanager
async def _running(proxies: RemoteProxyPool | LocalProxyPool) -> AsyncIterator[LendProxy]:
    try:
        await proxies.start()
        yield proxies.lend
    finally:
        await asyncio.shield(proxies.stop())
