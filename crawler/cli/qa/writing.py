"""Checks into the WARCs of a collection that nobody writes, or that a cluster's proxies write."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from core.clock import SystemClock
from core.errors import CollectionInUseError, WeboidError
from core.layout import Layout
from core.settings import Settings
from crawler.collection import open_collection
from crawler.fetching import CA_FILE
from crawler.frontier.base import Frontier
from crawler.frontier.opening import open_frontier
from crawler.quality.recording import LendProxy, proxies_of, record_checks
from crawler.registry import living_proxies
from crawler.remote import RemoteProxies
from links.books.quality import unrecorded
from links.store.store import Store
from proxy.handshake import Secret
from proxy.scratch import Scratch, scratch_folder

_CLOCK = SystemClock()
_LEFT = "what was found is in the registry, and is written into WARCs by the next `weboid qa`"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the checks that were in no WARC.

    Attributes:
        left: why they were left to the next run, a word; empty: all are written.
        text: the same for people, a sentence.
        error: what went wrong; None: nothing, somebody else holds the collection.
    """

    left: str = ""
    text: str = ""
    error: WeboidError | None = None


async def write_checks(
    layout: Layout, settings: Settings, store: Store, secret: Secret | None
) -> Written:
    """Write records of what has none yet.

    Args:
        layout: the collection.
        settings: the profile, shared stores laid over it.
        store: the registry.
        secret: what a cluster's proxies know us by; None: we have none.
    """
    try:
        with store.reading() as reader:
            if not unrecorded(reader, 1):
                return Written()
        async with _proxies(layout, settings, secret) as lend:
            await record_checks(
                store,
                lend,
                bucket=settings.proxy.dedup_bucket,
                new_id=lambda: str(uuid.uuid4()),
            )
    except CollectionInUseError:
        return Written("in use", _said(settings, secret))
    except WeboidError as error:
        return Written(str(error), f"Not written into WARCs: {error}", error)
    return Written()


def _said(settings: Settings, secret: Secret | None) -> str:
    if settings.frontier.url and secret is None:
        return f"The proxies of a cluster write the collection: {_LEFT} with --secret-file."
    return f"Another process writes the collection: {_LEFT}."


@asynccontextmanager
async def _proxies(
    layout: Layout, settings: Settings, secret: Secret | None
) -> AsyncIterator[LendProxy]:
    """The proxies of the cluster that lives, else our own, until the end of the block.

    Raises:
        CollectionInUseError: others write the collection, and take no orders from us.
        ProxyUnavailableError: none can be reached, or ours do not start.
        UnavailableError: the frontier does not answer.
    """
    if settings.frontier.url and secret is not None:
        with open_frontier(layout, settings.frontier, settings.politeness) as frontier:
            if living_proxies(frontier, _CLOCK, secret):
                with scratch_folder(Scratch.RUN) as folder:
                    proxies = _remote(frontier, secret, folder)
                    try:
                        await proxies.start()
                        yield proxies.lend
                    finally:
                        await proxies.stop()
                return
    async with (
        open_collection(layout.root, clock=_CLOCK) as collection,
        proxies_of(collection, settings) as lend,
    ):
        yield lend


def _remote(frontier: Frontier, secret: Secret, folder: Path) -> RemoteProxies:
    """The cluster's proxies; nobody waits for one."""
    impatient = asyncio.Event()
    impatient.set()
    return RemoteProxies(
        frontier,
        secret,
        _CLOCK,
        stopping=impatient,
        dice=Random(),  # noqa: S311 no secret depends on it
        authority=folder / CA_FILE,
        report=lambda _event: None,
    )
