"""Checks into WARCs: what was found, and what people said, as ``urn:pageinfo:`` records.

The registry is where people look, but the WARCs are the truth: from these records the captures index
learns what counts for choosing among captures, and can learn it again. A check is marked as recorded
when its record is on disk. A run that dies in between writes it once more, which changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from core.quality import check_record
from core.records import ArtifactKind, artifact_uri
from core.settings import Settings
from core.timestamps import parse_warc_date
from crawler.collection import Collection
from crawler.lending import LentProxy
from crawler.proxies import LocalProxies
from crawler.stopping import first_of
from links.books.quality import CheckedPage, CheckKey, recorded, unrecorded
from links.store.store import Store
from proxy.client import NewArtifact
from proxy.scratch import Scratch, scratch_folder

AT_ONCE = 8  # visits at the same time: their records share a commit
_CHUNK = 200

LendProxy = Callable[[], AbstractAsyncContextManager[LentProxy]]


async def record_checks(
    store: Store,
    lend: LendProxy,
    *,
    bucket: str,
    new_id: Callable[[], str],
    told: Callable[[int], None] = lambda _count: None,
) -> int:
    """Write every check that changed since it was last written; how many they were.

    Args:
        store: the registry.
        lend: lends a proxy for one visit.
        bucket: of dedup.
        new_id: makes the identifier of a record.
        told: told how many were written so far.

    Raises:
        TransientError: the registry cannot be read or written.
        ProxyUnavailableError, DiskFullError, WeboidError: a record cannot be written.
    """
    count, after = 0, CheckKey("", "", 0)
    while rows := await asyncio.to_thread(_unrecorded, store, after):
        todo = iter(rows)

        async def write(todo: Iterator[CheckedPage] = todo) -> None:
            for row in todo:
                await _write(row, lend, bucket=bucket, page_id=new_id())

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(write())
        except BaseExceptionGroup as error:
            raise first_of(error) from error
        keys = [row.key for row in rows]
        await asyncio.to_thread(_recorded, store, keys)
        count, after = count + len(rows), keys[-1]
        told(count)
    return count


async def _write(row: CheckedPage, lend: LendProxy, *, bucket: str, page_id: str) -> None:
    """One record, on disk when this returns."""
    check = row.said
    artifact = NewArtifact(
        artifact_uri(ArtifactKind.PAGEINFO, check.url),
        "application/json",
        check_record(check, page_id),
    )
    async with lend() as proxy, proxy.client.visit(page_id, bucket=bucket) as visit:
        await visit.write(
            [artifact],
            document=check.url,
            date=parse_warc_date(check.checked_at),
        )
        await visit.seal(grace_s=0.0)


def _unrecorded(store: Store, after: CheckKey) -> list[CheckedPage]:
    with store.reading() as reader:
        return unrecorded(reader, _CHUNK, after)


def _recorded(store: Store, keys: list[CheckKey]) -> None:
    with store.writing() as rows:
        recorded(rows, keys)


@asynccontextmanager
async def proxies_of(collection: Collection, settings: Settings) -> AsyncIterator[LendProxy]:
    """Proxies of our own that write into the collection, until the end of the block.

    Raises:
        ProxyUnavailableError: one does not start.
    """
    # A unix socket's path is at most 107 bytes, so it does not lie in the collection.
    with scratch_folder(Scratch.RUN) as folder:
        proxies = LocalProxies(collection, settings, folder, lambda _recovered: None)
        try:
            await proxies.start()
            yield proxies.lend
        finally:
            await asyncio.shield(proxies.stop())
