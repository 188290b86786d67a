"""The bot in the console's API."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from core.clock import SystemClock
from core.config.settings import LinksSettings, Settings
from core.layout import Layout
from links.registry.database import open_registry_store
from links.states import LinkState
from tests.support.bot_harness import BotHarness, open_bot_harness
from tests.support.console_server import ServedConsole, api_client, serving
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.playback_fixtures import serving as serving_front
from tests.support.registry_builder import WIKI, RegistryBuilder
from tests.support.wiki_writer import BOT_SECRET, WikiWriter
from weboid.console.accounts import ConsoleRole
from weboid.console.server import create_app, open_stores

GONE = "https://gone.example.org/b"
PAGE = f"A fact.<ref>{{{{cite web|url={GONE}|title=A|access-date=2025-03-11}}}}</ref>\n\nMore."


@pytest.fixture
def client(console: ServedConsole) -> Iterator[httpx.Client]:
    """Yield an HTTP client with an operator's session."""
    with api_client(console.address, console.sessions["operator"]) as it:
        yield it


def test_edits_are_read_in_parts_with_their_changes(client: httpx.Client) -> None:
    """The newest first, of one state too; and one of them."""
    edits = []
    cursor: str | None = ""
    while cursor is not None:
        part = client.get("/bot/edits", params={"limit": 3, "cursor": cursor}).json()
        edits += part["edits"]
        cursor = part["next"]
    (failed,) = client.get("/bot/edits", params={"state": "failed", "wiki": WIKI}).json()["edits"]

    assert [each["state"] for each in edits][0::2] == ["failed", "made"]
    assert len({each["edit"] for each in edits}) == 4
    assert "{{Webarchive" in edits[0]["changes"][0]["after"]
    assert client.get("/bot/edit", params={"edit": failed["edit"]}).json() == failed
    assert client.get("/bot/edit", params={"edit": 999}).status_code == 404


def test_of_two_reviews_of_an_edit_the_second_is_refused(client: httpx.Client) -> None:
    """412, when the edit is another one than was seen."""
    (undone,) = client.get("/bot/edits", params={"state": "reverted"}).json()["edits"]
    seen = {"If-Match": client.get("/bot/edit", params={"edit": undone["edit"]}).headers["etag"]}
    reviews = [
        client.post("/bot/reviews", json={"edit": undone["edit"], "verdict": verdict}, headers=seen).status_code
        for verdict in ("accept", "decline")
    ]

    assert reviews == [200, 412]


def test_pages_and_domains_are_switched_off(client: httpx.Client, console: ServedConsole) -> None:
    """They are in the list of pages to repair until then; the switch is in the audit log."""
    registry_builder = RegistryBuilder(console.stores.registry.store())
    registry_builder.page(4, "Bell tower", "https://www.belfry.org/rings")
    registry_builder.state("https://www.belfry.org/rings", LinkState.DEAD)
    switches = [
        client.post("/bot/switches", json={"wiki": WIKI, "enabled": False, **what})
        for what in ({"title": "Bell_tower"}, {"domain": "https://Belfry.org/"}, {"title": "None"}, {})
    ]
    entry = next(each for each in console.accounts.log_entries() if each["outcome"] == "done")
    (page,) = (each for each in client.get("/bot/pages", params={"wiki": WIKI}).json()["pages"] if each["page_id"] == 4)
    bot = client.get("/bot/wiki", params={"wiki": WIKI}).json()
    client.post("/bot/switches", json={"wiki": WIKI, "enabled": True, "title": "Bell tower"})

    assert [each.status_code for each in switches] == [200, 200, 422, 422]
    assert page["off"] is True
    assert (bot["not_pages"], bot["not_domains"], bot["enabled"]) == (["Bell tower"], ["belfry.org"], False)
    assert (entry["before"], entry["after"]) == ('{"not_domains": []}', '{"not_domains": ["belfry.org"]}')
    assert client.get("/bot").json()["wikis"][0]["not_pages"] == []


@pytest.mark.slow
def test_a_repair_is_previewed_and_approved(writer: WikiWriter, bot_name: str, tmp_path: Path) -> None:
    """On a wiki where the bot is off: only the edit that was seen is made, and a page that was skipped is left alone."""
    layout = Layout(tmp_path / "collection")
    password = tmp_path / "password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    builder = CollectionBuilder(layout.root)
    builder.page(GONE, "<p>As it was cited.</p>", at=datetime(2025, 3, 10, 12, tzinfo=UTC))
    open_registry_store(layout).close()
    settings = Settings(links=LinksSettings(archives=()))
    with (
        open_stores(layout, settings, clock=SystemClock()) as stores,
        serving_front(builder) as front,
        serving(lambda origin: create_app(stores, origin=origin)) as address,
    ):
        stores.accounts.set_user("Grace", ConsoleRole.CURATOR)
        harness: BotHarness = open_bot_harness(stores.registry.store(), writer, bot_name)
        harness.set(enabled=False, account=bot_name, password_file=str(password), front=front.front.rstrip("/"))
        title, _ = harness.page(PAGE, {GONE: LinkState.DEAD})
        page = {"wiki": str(harness.wiki.name), "title": title}
        with api_client(address, stores.accounts.use_link(stores.accounts.make_link("Grace"))) as client:
            seen = client.get("/bot/preview", params=page).json()
            harness.writer.write(title, f"New. {PAGE}")
            changed = client.post("/bot/repairs", json={**page, "digest": seen["digest"]})
            again = client.get("/bot/preview", params=page).json()
            made = client.post("/bot/repairs", json={**page, "digest": again["digest"]})
            other, _ = harness.page(PAGE, {GONE: LinkState.DEAD})
            shown = client.get(f"{address}/console/bot/preview", params={**page, "title": other}).text
            csrf = shown.partition('name="csrf" value="')[2].partition('"')[0]
            form = {**page, "title": other, "csrf": csrf, "back": "/console/bot"}
            skipped = client.post(f"{address}/do/skip_repair", data=form)
        harness.set(enabled=True)
        summary, _ = asyncio.run(harness.run())

        assert seen["did"] == "proposed"
        assert any(line.startswith("+") and "archive-url" in line for line in seen["diff"])
        assert (changed.status_code, made.status_code) == (409, 200)
        assert re.search(r"A fact\..*<ins>[^<]*archive-url=", shown, re.DOTALL)
        assert all(f"/do/{name}" in shown for name in ("approve_repair", "skip_repair", "switch_bot"))
        assert skipped.headers["location"] == "/console/bot?done=skip_repair"
        assert "archive-url" in harness.text(title)
        assert summary.skipped == 1
        assert harness.text(other) == PAGE
        assert made.json()["rev"] == harness.revisions(title)[0]["revid"]
