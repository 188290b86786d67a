"""Readers' reports on links, in a real browser: pressing the buttons, and for everyone."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from sqlalchemy import select

from links.registry.database import RegistryStore
from links.registry.schema import replacements, reports
from links.states import LinkState
from playback.web.rate_limits import RateLimitPolicy
from playback.web.registry.registry_service import LinkRegistry, ReportOptions
from tests.playback.web.registry.test_user_reports import FREE
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.playback_fixtures import CollectionBuilder, serving
from tests.support.registry_builder import FixedRegistry, RegistryBuilder
from tests.support.services.registries import open_registry

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DEAD, FINE = "https://gone.bridges.org/a/page?x=1", "https://fine.bridges.org/"


@dataclass
class ReportingFront:
    """A front whose readers may speak, and its registry."""

    front: str
    store: RegistryStore

    def address(self, act: str = "", url: str = DEAD, before: str = "") -> str:
        """Return the address of a report page about a URL; `act` names its form."""
        path = f"{before}/links/say/{act}" if act else f"{before}/links/say"
        return f"{self.front}{path}?{urlencode({'url': url})}"


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportingFront]:
    """Run the real server of a collection with a dead link and one that works; readers may report."""
    with (
        contextlib.closing(CollectionBuilder(tmp_path_factory.mktemp("speaking") / "collection")) as builder,
        contextlib.closing(open_registry(builder.layout)) as store,
    ):
        registry_builder = RegistryBuilder(store)
        registry_builder.page(1, "Page", DEAD, FINE)
        registry_builder.state(DEAD, LinkState.DEAD, code=18)
        registry_builder.state(FINE, LinkState.ALIVE, code=1)
        registry = LinkRegistry(FixedRegistry(store), RateLimitPolicy(form_rates=FREE), ReportOptions(builder.layout))
        with serving(builder, links=registry) as it:
            yield ReportingFront(it.front, store)


async def press(screen: BrowserScreen) -> None:
    """Press the form's button, as a reader does, and wait for the next page."""
    await screen.value("window.old = true")
    await screen.value("document.querySelector('form.speak button').click()")
    await screen.value("""new Promise(done => {
        const look = () => document.readyState === 'complete' && !window.old
            ? done(true) : setTimeout(look, 10);
        look();
    })""")


async def test_a_reader_says_everything_there_is_to_say(speaking: ReportingFront, screen: BrowserScreen) -> None:
    """The browser tells where its forms come from; the front believes it and does what is asked."""
    await screen.open(speaking.address("report"))
    await press(screen)
    assert "Your report has been saved" in await screen.value("document.body.innerText")
    await screen.open(speaking.address("replace"))
    await screen.value("document.querySelector('#address').value = 'https://new.example.net/'")
    await press(screen)
    assert "will be checked" in await screen.value("document.body.innerText")
    with speaking.store.reading() as rows:
        assert len(rows.execute(select(reports)).all()) == 1
        assert len(rows.execute(select(replacements)).all()) == 1
    for act in ("withdraw", "remove"):
        await screen.open(speaking.address(act))
        await press(screen)
    with speaking.store.reading() as rows:
        assert rows.execute(select(reports)).all() == []
        assert rows.execute(select(replacements)).all() == []


async def test_a_form_of_another_site_is_refused(speaking: ReportingFront, screen: BrowserScreen) -> None:
    """Even with the token of the reader's own form: nothing is said, and the page says why."""
    await screen.open(speaking.address("report"))
    token = await screen.value("document.querySelector('[name=token]').value")
    form = (
        f"<form method=post action='{speaking.front}/links/say/report'>"
        f"<input name=url value='{DEAD}'><input name=token value='{token}'><button>x</button></form>"
    )
    await screen.open(f"data:text/html,{form.replace('#', '%23')}")
    await screen.value("window.old = true; document.querySelector('button').click()")
    await screen.value("""new Promise(done => {
        const look = () => document.readyState === 'complete' && !window.old
            ? done(true) : setTimeout(look, 10);
        look();
    })""")
    assert "another site" in await screen.value("document.body.innerText")
    with speaking.store.reading() as rows:
        assert rows.execute(select(reports)).all() == []


async def test_axe_finds_nothing_serious(speaking: ReportingFront, screen: BrowserScreen) -> None:
    """Each page, in both colours, widths and languages; nothing is wider than the window."""
    findings = {}
    for before, size in (("", (1200, 900)), ("/de", (390, 844))):
        is_german = bool(before)
        pages = {
            "nothing": f"{speaking.front}{before}/links/say",
            "about": speaking.address(before=before),
            "works": speaking.address(url=FINE, before=before),
            "unknown": speaking.address(url="https://unknown.example.net/", before=before),
            "wrong": speaking.address(url="ftp://x", before=before),
            "replace": speaking.address("replace", before=before),
            # Forms of a button alone.
            **{
                act: speaking.address(act, before=before)
                for act in (("withdraw",) if is_german else ("report", "remove"))
            },
        }
        for name, address in pages.items():
            await screen.open(address, size=size, dark=is_german)
            findings[name, before] = await screen.faults()

    assert {name: each for name, each in findings.items() if each} == {}
