"""The proxy and the archive's real server together, as a reader meets them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from links.states import LinkState
from playback.web.rate_limits import RateLimitPolicy, parse_networks
from playback.web.registry.registry_service import LinkRegistry
from tests.support.browser_screen import BrowserScreen
from tests.support.embed_fixtures import running_proxy
from tests.support.embed_front import StubFront
from tests.support.embed_upstream import page, running_upstream
from tests.support.playback_fixtures import CollectionBuilder, serving
from tests.support.registry_builder import FixedRegistry, RegistryBuilder
from tests.support.services.registries import open_registry
from wiki.embed.link_lookup import CopyDisplay

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DEAD, FINE, NEW = ("https://gone.bridges.org/a/page?x=1", "https://fine.bridges.org/", "https://new.bridges.org/")
HTML = "".join(f'<p><a href="{url}">{url}</a></p>' for url in (DEAD, FINE, NEW)).encode()


@dataclass
class ArchiveAndWiki:
    """The archive's server, and a wiki that cites."""

    front: str
    wiki: str


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[ArchiveAndWiki]:
    """Yield an archive, and a wiki with a dead and a working link, each with a copy, and an unchecked link."""
    with (
        contextlib.closing(CollectionBuilder(tmp_path / "collection")) as builder,
        contextlib.closing(open_registry(builder.layout)) as store,
        running_upstream() as upstream,
    ):
        registry_builder = RegistryBuilder(store)
        registry_builder.page(1, "Page", DEAD, FINE)
        registry_builder.state(DEAD, LinkState.DEAD, code=18)
        registry_builder.state(FINE, LinkState.ALIVE, code=1)
        for url in (DEAD, FINE):
            builder.page(url, "<p>As it was cited.</p>")
        upstream.answer = lambda _: page(HTML)
        access = RateLimitPolicy(internal=parse_networks(["127.0.0.0/8"]))  # as docs/how-to/embedding.md says
        with serving(builder, links=LinkRegistry(FixedRegistry(store), access)) as it:
            yield ArchiveAndWiki(it.front.rstrip("/"), upstream.origin)


@pytest.mark.parametrize(("show", "count"), [(CopyDisplay.ALWAYS, 2), (CopyDisplay.DEAD, 1)])
async def test_a_reader_follows_a_dead_link_into_the_archive(
    show: CopyDisplay, count: int, reading: ArchiveAndWiki, screen: BrowserScreen
) -> None:
    """The front's answer becomes a link to the page of the copy."""
    with running_proxy(reading.wiki, StubFront(origin=reading.front), show=show, wiki="dewiki@WMF") as port:
        await screen.open(f"http://127.0.0.1:{port}/")
        dead = await screen.value("document.querySelector('a').className")
        shown = await screen.value("document.querySelectorAll('sup.weboid-copy').length")
        address = await screen.value("document.querySelector('sup.weboid-copy a').href")
        title = await screen.value("document.querySelector('sup.weboid-copy a').title")
    await screen.open(address)

    assert (dead, shown) == ("weboid-link weboid-unreachable", count)
    assert address.startswith(reading.front)
    assert "copy of" in title
    assert "gone.bridges.org" in await screen.value("document.body.innerText")
