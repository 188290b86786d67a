"""The pages of checks in a real browser: slider, keys, marks with and without a script, and for everyone.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the pictures of the documentation.
"""

import io
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from core.quality import Verdict
from links.books.quality import RepairState
from playback.front.quality.rights import Reviewers
from playback.front.readers import parse_networks
from playback.front.registry.access import Access
from playback.front.registry.desk import LinkRegistry
from tests.playback.conftest import serving
from tests.playback.quality.gallery import fill
from tests.playback.quality.hall import Hall, open_hall
from tests.playback.registry.shelf import Given
from tests.playback.screen import Screen

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.slow]

AT = "getComputedStyle(document.querySelector('[data-panes]')).getPropertyValue('--at')"
SAYS = "document.querySelector('[data-says]').textContent.trim()"
MODE = "document.querySelector('[data-look]').dataset.mode"


@dataclass
class Shown:
    """A served front, its registry, and its results, the worst first."""

    front: str
    hall: Hall
    ids: list[str]

    def address(self, place: int | None = None, query: str = "") -> str:
        """The list, or a result."""
        path = "" if place is None else f"/{self.ids[place]}/images"
        return f"{self.front}/quality{path}{query}"


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    """An empty collection and its registry."""
    with open_hall(tmp_path) as it:
        yield it


@pytest_asyncio.fixture
async def shown(hall: Hall, screen: Screen) -> AsyncIterator[Shown]:
    """The real server of a collection with five checked copies, whose reader is a reviewer."""
    ids = await fill(hall, screen)
    links = LinkRegistry(Given(hall.store), Access())
    reviewers = Reviewers(networks=parse_networks(["127.0.0.1"]))
    with serving(hall.builder, links=links, reviewers=reviewers) as it:
        yield Shown(it.front, hall, ids)


async def keep(screen: Screen, name: str) -> None:
    """Keep the window as a picture of the documentation, when one is asked for."""
    if folder := os.environ.get("WEBOID_PICTURES"):
        picture = Image.open(io.BytesIO(await screen.picture()))
        picture.quantize(128).save(Path(folder, f"{name}.png"), optimize=True)


async def test_pictures(shown: Shown, screen: Screen) -> None:
    """Look."""
    await screen.open(shown.address(), size=(1200, 860))
    await keep(screen, "quality-list")
    await screen.open(shown.address(2), size=(1200, 1000))
    await keep(screen, "quality-slider")
    await screen.open(shown.address(2), size=(1200, 1000), dark=True)
    await keep(screen, "dark")
    await screen.open(shown.address(2), size=(390, 844))
    await keep(screen, "phone")
    await screen.open(shown.address(), size=(390, 844))
    await keep(screen, "phonelist")
