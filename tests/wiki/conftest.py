"""A real MediaWiki for each module of tests that asks for one, and who writes on it."""

from collections.abc import Iterator

import pytest

from tests.support.browser_screen import screen, windows  # noqa: F401 fixtures
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.wiki_writer import WikiWriter, make_bot


@pytest.fixture(scope="module")
def wiki() -> Iterator[RunningWiki]:
    """Yield a wiki that knows its own address, shared by a module's tests (mark them slow)."""
    with running_wiki(server="self") as running:
        yield running


@pytest.fixture(scope="module")
def writer(wiki: RunningWiki) -> WikiWriter:
    """Return the wiki's administrator, logged in."""
    return WikiWriter(wiki.api())


@pytest.fixture(scope="module")
def bot_name(wiki: RunningWiki) -> str:
    """Return the login of an account with the bot flag; its password: `tests.support.wiki_writer.BOT_SECRET`."""
    return make_bot(wiki)
