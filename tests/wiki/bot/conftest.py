"""A real wiki for all tests of the bot in a process, and a registry for each."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.layout import Layout
from tests.support.bot_harness import BotHarness, open_bot_harness
from tests.support.services.registries import open_registry
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.wiki_writer import WikiWriter, make_bot


@pytest.fixture(scope="session")
def wiki() -> Iterator[RunningWiki]:
    """Yield a wiki for all tests; each test has its own page names."""
    with running_wiki(server="self") as running:
        yield running


@pytest.fixture(scope="session")
def writer(wiki: RunningWiki) -> WikiWriter:
    """Return the wiki's administrator, logged in."""
    return WikiWriter(wiki.api())


@pytest.fixture(scope="session")
def bot_name(wiki: RunningWiki) -> str:
    """Return the login of the bot."""
    return make_bot(wiki)


@pytest_asyncio.fixture
async def harness(writer: WikiWriter, bot_name: str, tmp_path: Path) -> AsyncIterator[BotHarness]:
    """Yield a harness with a registry of its own for each test, on the shared wiki."""
    store = open_registry(Layout(tmp_path))
    harness = open_bot_harness(store, writer, bot_name)
    yield harness
    await harness.close()
    store.close()
