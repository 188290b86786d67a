"""Every page of the console in a real browser: for everyone, in both themes and sizes, and refreshed while someone looks.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the pictures of the documentation.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import TransientError
from core.layout import CONFIG_FILE
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.console_server import ROLES, ServedConsole, api_client
from tests.support.documentation_pictures import save_sheet
from tests.support.registry_builder import DEAD, WIKI
from tests.weboid.console.sample_collection import STORY
from weboid.console.accounts import ConsoleRole, SignedInUser
from weboid.console.api import perform
from weboid.console.operations import OPERATIONS, OperationContext
from weboid.console.page_frame import next_step

pytestmark = pytest.mark.browser
IN_BROWSER = pytest.mark.asyncio(loop_scope="session")
PAGES = {
    "overview": "",
    "crawl": "/crawl",
    "crawl-new": "/crawl/new",
    "crawl-job": "/crawl/job?name=council-2026",
    "queue": "/crawl/queue?host=refuses.example",
    "log": "/crawl/log",
    "captures": "/captures",
    "text-search": "/captures?in=text&q=all",
    "versions": f"/captures/url?url={STORY}",
    "capture": "/captures/{newest}",
    "compare": "/captures/compare?a={newest}&b={older}",
    "links": "/links",
    "link": "/links/{link}",
    "page-links": f"/links/page?wiki={WIKI}&title=Foo+bar",
    "bot": "/bot",
    "repairs": f"/bot/repairs?wiki={WIKI}",
    "rules": "/rules",
    "settings": "/settings",
    "health": "/health",
    "users": "/users",
    "audit": "/audit",
}

CHANGES: dict[str, dict[str, Any]] = {  # that pictures show
    "add_policy": {"pattern": "*.ads.example", "reason": "advertisements", "duration": "365d"},
    "add_takedown": {"url": "museum.example/visit-us", "reason": "asked by its author", "ticket": "#4711"},
    "set_level": {"domain": "council.example", "level": "text", "reason": "pictures of private persons"},
    "pause_host": {"host": "council.example", "reason": "asked by mail", "duration": "30d"},
    "add_token": {"name": "statistics", "scopes": ["read"]},
}
FAULTS = """[
    document.querySelector('.said.bad') && 'not found',
    'pwned' in window && 'markup of a page ran',
].filter(each => each)"""
HIDDEN_PATHS = """
for (const each of document.querySelectorAll('.url, td, td *'))
    for (const text of each.childNodes)
        if (text.nodeType === 3) text.data = text.data.replace(/(^|\\s)\\/(?!usr)\\S*\\/(?=\\w)/g, '$1/srv/')
"""


def addresses(console: ServedConsole) -> dict[str, str]:
    """Return the paths of all pages by name."""
    newest, older, _ = console.page_ids(STORY)
    link = console.get("/links", q=DEAD).text.partition("/console/links/")[2].partition('"')[0]
    return {name: path.format(newest=newest, older=older, link=link) for name, path in PAGES.items()}


@IN_BROWSER
async def test_axe_finds_nothing_on_any_page(console: ServedConsole, screen: BrowserScreen) -> None:
    """Names, contrast, landmarks; nothing is wider than the window; no markup of the web runs.

    In German, whose words are long; on a desktop with the light theme and on a phone with the dark one.
    """
    console.role = "admin"
    findings = {}
    for name, path in addresses(console).items():
        await console.show(screen, f"/de/console{path}")
        for size, dark in (((1280, 900), False), ((390, 844), True)):
            await screen.adapt(size=size, dark=dark)
            findings[name, size] = await screen.faults() + await screen.value(FAULTS)

    assert {name: each for name, each in findings.items() if each} == {}


@IN_BROWSER
@pytest.mark.skipif("WEBOID_PICTURES" not in os.environ, reason="makes pictures of the documentation")
async def test_pictures_of_the_documentation(console: ServedConsole, screen: BrowserScreen) -> None:
    """Each page in both themes and sizes, side by side."""
    console.role = "admin"
    context = OperationContext(console.stores, SignedInUser("Grace", ConsoleRole.ADMIN))
    for name, fields in CHANGES.items():
        perform(OPERATIONS[name], context, OPERATIONS[name].fields(**fields))
    (console.layout.root / CONFIG_FILE).write_text("# Example Library\n[visit]\ntimeout_s = 90\n[serve]\nsave = true\n")
    for name, path in {**addresses(console), "health": "/health?run=1"}.items():

        async def show(size: tuple[int, int], dark: bool, path: str = path) -> None:
            await console.show(screen, path, size=size, dark=dark)
            await screen.value(HIDDEN_PATHS)

        await save_sheet(Path(os.environ["WEBOID_PICTURES"], f"console-{name}.png"), screen, show)


@IN_BROWSER
async def test_a_keyboard_comes_to_the_content_first(console: ServedConsole, screen: BrowserScreen) -> None:
    """The way past the navigation, then the navigation, each with a visible focus."""
    await console.show(screen, "/captures")
    stops = []
    for _ in range(6):
        await screen.press("Tab", 9)
        stops.append(
            await screen.value(
                "(e => [e.textContent.trim(), getComputedStyle(e).outlineStyle])(document.activeElement)"
            )
        )

    assert stops[0] == ["Skip to content", "solid"]
    assert "Overview" in [text for text, _ in stops]
    assert all(style != "none" for _, style in stops)


@IN_BROWSER
async def test_the_overview_is_refreshed_while_someone_looks(console: ServedConsole, screen: BrowserScreen) -> None:
    """Without a reload: the state of the crawl changes in the page, and an opened cause stays open."""
    await console.show(screen, "")
    await screen.value("document.querySelector('#live details').open = true; window.same = true")
    before = await screen.value("document.querySelector('.tile .state').textContent")
    console.frontier.pause("maintenance")
    try:
        await screen.value("""new Promise(done => {
            const look = () => document.querySelector('.tile .state').textContent === 'Paused'
                ? done(true) : setTimeout(look, 50);
            look();
        })""")
    finally:
        console.frontier.resume()

    assert before == "Running"
    assert await screen.value("window.same && document.querySelector('#live details').open")


@IN_BROWSER
async def test_workers_are_shown_live_only_when_asked(console: ServedConsole, screen: BrowserScreen) -> None:
    """A page without live pictures asks for none; one with them renews its note."""
    await console.show(screen, "/crawl")
    asked_before = console.frontier.notes("live-viewer", now=console.stores.clock.now())
    await console.show(screen, "/crawl?live=1")
    notes = console.frontier.notes("live-viewer", now=console.stores.clock.now())

    assert asked_before == {}
    assert list(notes) == [""]
    assert await screen.value("document.querySelectorAll('.workers .card').length") == 3


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/settings", "operator"),
        ("/health", "operator"),
        ("/audit", "admin"),
        ("/rules", "reviewer"),
        ("/bot", "reviewer"),
        ("/crawl/log", "reviewer"),
        ("/crawl/queue", "reviewer"),
        ("/crawl/new", "operator"),
        ("/captures", "reader"),
        ("", "reader"),
    ],
)
def test_a_page_is_for_its_role_and_higher_ones(path: str, role: str, console: ServedConsole) -> None:
    """Also in German, and below its address."""
    allowed = {}
    for each in ROLES:
        console.role = each
        answers = [console.get(path), console.get(f"/de/console{path}")]
        allowed[each] = {answer.status_code for answer in answers}

    rank = ROLES.index(role)
    assert allowed == {each: {200} if place >= rank else {403} for place, each in enumerate(ROLES)}


@pytest.mark.parametrize(
    ("path", "resource"), [("/crawl/queue", "/queue"), ("/rules", "/policy"), ("/bot", "/bot"), ("/audit", "/audit")]
)
def test_pages_and_api_give_each_role_the_same(path: str, resource: str, console: ServedConsole) -> None:
    """A page and its API resource answer each role with the same status."""
    for console.role in ROLES:
        with api_client(console.address, console.sessions[console.role]) as client:
            assert client.get(resource).status_code == console.get(path).status_code, console.role


@pytest.mark.parametrize("role", ROLES)
def test_navigation_and_acts_are_those_of_the_role(role: str, console: ServedConsole) -> None:
    """A page whose role is missing has no link, an act no button."""
    console.role = role
    text = console.get("/crawl").text

    rank = ROLES.index(role)
    assert (">Settings</span>" in text) == (rank >= ROLES.index("operator"))
    assert (">Bot</span>" in text) == (rank >= ROLES.index("reviewer"))
    assert ("/do/pause_crawl" in text) == (rank >= ROLES.index("operator"))


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("host down", "could not be reached several times"),
        ("host", "not on the public web"),
        ("net::ERR_CERT_INVALID", "TLS failed"),
        ("autoblacklist", "refuses crawlers"),
        ("something new", "See the examples"),
    ],
)
def test_each_cause_has_a_next_step(reason: str, step: str) -> None:
    """By the first words; the more special ones decide."""
    assert step in next_step(reason)


def test_a_missing_page_and_a_store_that_is_away_are_pages_too(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the navigation and the way back, in the user's language; no traceback."""

    def away(*_: object, **__: object) -> None:
        raise TransientError("The frontier is busy.")

    missing = console.get("/captures/none")
    monkeypatch.setattr(console.stores.status, "status", away)
    failing = console.get("/crawl")

    assert (missing.status_code, failing.status_code) == (404, 503)
    assert "There is no such page" in missing.text
    assert "does not answer at the moment" in failing.text
    assert "Overview</span>" in failing.text
    assert "frontier is busy" not in failing.text
