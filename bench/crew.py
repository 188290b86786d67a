"""A crew that archives into a collection of its own, as `weboid archive` does it."""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

from core.clock import Clock
from core.config.settings import Settings
from crawler.collection import open_collection
from crawler.frontier.base import Frontier, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.pools.resource_pool import open_local_pool
from crawler.run.context_builder import RunContext, build_crawl_context
from crawler.worker.crawl_events import Event
from crawler.worker.worker_pool import WorkerPool
from warc.index.database import SqliteDatabase


class ArchiveWorkers:
    """A crew and its empty frontier, ready to work; browser and proxies run."""

    def __init__(self, crew: WorkerPool, frontier: Frontier, clock: Clock) -> None:
        self._crew = crew
        self._frontier = frontier
        self._clock = clock

    async def archive(self, urls: Iterable[str], at_a_time: int) -> None:
        """Archive them, again if they were, so many at the same time."""
        items = (NewItem(url) for url in urls)
        self._frontier.add(items, now=self._clock.now(), again=timedelta(0))
        await self._crew.run(at_a_time)


@asynccontextmanager
async def archivists(
    settings: Settings, report: Callable[[Event], None], *, clock: Clock, root: Path | None = None
) -> AsyncIterator[ArchiveWorkers]:
    """Yield workers for the collection at `root`, or for one in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_collection(root or Path(folder) / "collection", clock=clock) as collection,
            open_local_pool(collection, settings, clock=clock) as supervisor,
        ):
            layout = collection.layout
            with (
                closing(SqliteDatabase(layout.captures_db)) as index,
                SqliteFrontier(
                    layout.frontier_db, settings=settings.frontier, politeness=settings.politeness
                ) as frontier,
            ):
                context = build_crawl_context(RunContext(layout, settings, frontier, supervisor, index, clock, report))
                crew = WorkerPool(context, lease_s=settings.frontier.lease_s, name="bench")
                yield ArchiveWorkers(crew, frontier, clock)
