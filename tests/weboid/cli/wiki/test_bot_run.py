"""`weboid wiki bot` as an operator runs it, on a real MediaWiki."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from core.errors import WeboidError
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from links.states import LinkState
from tests.support.bot_harness import BotHarness, open_bot_harness
from tests.support.playback_fixtures import CollectionBuilder, serving
from tests.support.wiki_writer import BOT, BOT_SECRET, WikiWriter
from weboid.cli.main import weboid
from weboid.cli.support.commands import exit_code_for
from weboid.cli.support.stores import CollectionStores

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
PAGE = f"A fact.<ref>{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}</ref>\n\nMore."


STAMP = "20250310120000"
NOWHERE = "https://archive.example"


@dataclass
class BotSetup:
    """A collection whose registry knows the wiki, and its front; the bot is off."""

    harness: BotHarness
    collection: Path
    password: Path
    builder: CollectionBuilder
    running: ExitStack

    @cached_property
    def front(self) -> str:
        """Return the origin of its front, which the first use starts."""
        return self.running.enter_context(serving(self.builder)).front.rstrip("/")

    def capture(self, url: str, **facts: Any) -> str:
        """Capture a page as it was when it was cited and return the address of its copy."""
        at = datetime(2025, 3, 10, 12, tzinfo=UTC)
        self.builder.page(url, "<p>As it was cited.</p>", at=at, **facts)
        return f"{self.front}/page/{STAMP}/{url}"

    def switch_on(self, front: str = "") -> str:
        """Switch the bot on and return the output."""
        account = ("--account", self.harness.login, "--password-file", str(self.password))
        return self.run("on", *account, "--front", front or self.front)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run `weboid wiki bot …`, assert its exit code and return its output."""
        whole = ["wiki", "bot", *arguments, "--collection", str(self.collection)]
        done = CliRunner().invoke(weboid, whole, standalone_mode=False)
        output = done.output
        ended = done.return_value if done.exception is None else done.exit_code
        if isinstance(done.exception, WeboidError):
            output, ended = f"{output}{done.exception}", exit_code_for(done.exception)
        assert ended == code, output + repr(done.exception)
        return output

    def run_json(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """Run the same with `--json` and return its parsed lines."""
        return [json.loads(line) for line in self.run(*arguments, "--json", code=code).splitlines()]


@pytest.fixture
def bot_setup(writer: WikiWriter, bot_name: str, tmp_path: Path) -> Iterator[BotSetup]:
    """Yield a new set-up for each test, with the bot off."""
    collection = tmp_path / "collection"
    password = tmp_path / "password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    with CollectionStores(collection, "").registry(make=True) as store:
        harness = open_bot_harness(store, writer, bot_name)
        harness.set(enabled=False, account="", password_file="", edits_per_minute=6.0)
        with closing(CollectionBuilder(collection, is_there=True)) as builder, ExitStack() as running:
            yield BotSetup(harness, collection, password, builder, running)


def test_the_way_from_a_dry_run_to_a_review(bot_setup: BotSetup) -> None:
    """Look, switch on, mend, see the revert, judge it, switch off: each step says what is next."""
    harness = bot_setup.harness
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    copy = bot_setup.capture(URL)

    looked = bot_setup.run("run", "--dry-run", "--front", bot_setup.front)
    assert f"{title}: proposed" in looked
    assert f"|archive-url={copy}" in looked
    assert "weboid wiki bot on" in bot_setup.run("run", code=2)
    assert "own" in bot_setup.run("on", "--front", bot_setup.front, code=2)
    assert "1 page and 1 domain" in bot_setup.run("off", "--page", title, "--domain", "www.example.org")
    assert bot_setup.run_json("run", "--dry-run", "--front", bot_setup.front)[-1]["did"] == {"off": 1}
    assert f"skips {title}, www.example.org" in bot_setup.run("show")
    assert bot_setup.run_json("on", "--page", title)[0]["not_pages"] == []
    assert bot_setup.run_json("off", "--domain", "example.org")[0]["not_domains"] == ["www.example.org", "example.org"]
    assert bot_setup.run_json("run", "--dry-run", "--front", bot_setup.front)[-1]["did"] == {}
    bot_setup.run("on", "--domain", "example.org")
    output = bot_setup.switch_on()
    assert f"as {BOT}" in output
    assert "no run page" in output
    assert len(harness.revisions(title)) == 1
    *_, summary = bot_setup.run_json("run")
    assert summary["did"] == {"edited": 1}
    rev = harness.revisions(title)[0]["revid"]
    harness.writer.act(action="edit", title=title, undo=rev)
    *_, summary = bot_setup.run_json("run", "--look-back")
    assert (summary["undone"], summary["did"]) == (1, {})
    (waiting,) = bot_setup.run_json("review")
    assert (waiting["state"], waiting["undone_by"], waiting["page"]) == ("reverted", "Admin", title)
    assert waiting["changes"][0]["url"] == URL
    assert f"+ {{{{cite web|url={URL}|title=A|" in bot_setup.run("review")
    assert "declined" in bot_setup.run("review", "--decline", str(waiting["edit"]), "--reason", "no page")
    assert "Nothing awaits" in bot_setup.run("review")
    assert "1 declined" in bot_setup.run("show")
    assert "no longer edits" in bot_setup.run("off")
    assert bot_setup.run_json("show")[0]["enabled"] is False


def test_a_dry_run_says_what_is_left_and_why(bot_setup: BotSetup) -> None:
    """A citation that is ambiguous, one that a person asked to leave alone, a page that wants no bots."""
    harness = bot_setup.harness
    text = f"{{{{cite web|url={URL}|url={URL}|title=A}}}} [{URL} B] {{{{cbignore}}}}"
    left, _ = harness.page(text, {URL: LinkState.DEAD})
    barred, _ = harness.page("{{nobots}}" + PAGE, {URL: LinkState.DEAD})
    bot_setup.capture(URL)
    front = ("--front", bot_setup.front)

    output = bot_setup.run("run", "--dry-run", *front)

    assert f"{left}: nothing to do (double, held)" in output
    assert f"left unchanged (double: a parameter is given twice): {URL}" in output
    assert f"left unchanged (held: a person excluded it from bots): {URL}" in output
    assert f"{barred}: the page excludes bots ({{{{bots}}}} or {{{{nobots}}}})" in output
    assert "Left unchanged: 1 double, 1 held." in output
    (page,) = [each for each in bot_setup.run_json("run", "--dry-run", *front) if each.get("page") == left]
    assert [each["reason"] for each in page["refused"]] == ["double", "held"]


def test_what_cannot_work_is_said_before_anything_is_switched_on(bot_setup: BotSetup) -> None:
    """A wrong password, a file that others can read, a front that is no origin: each its own words."""
    harness = bot_setup.harness
    wrong = bot_setup.password.with_name("wrong")
    wrong.write_text("f" * 32)
    wrong.chmod(0o644)
    account = ("--account", harness.login, "--password-file", str(wrong), "--front", NOWHERE)

    assert "chmod 600" in bot_setup.run("on", *account, code=2)
    wrong.chmod(0o600)
    assert "does not accept the account" in bot_setup.run("on", *account, code=2)
    assert "not an origin" in bot_setup.run("on", *account, "--front", "ftp://x", code=2)
    assert bot_setup.run_json("show")[0]["enabled"] is False


def test_a_page_that_nobody_knows_is_told(bot_setup: BotSetup) -> None:
    """`--page` with a title that the registry does not have ends with a failure."""
    bot_setup.switch_on(NOWHERE)

    output = bot_setup.run("run", "--page", "No such page", code=1)

    assert "No such page" in output


def test_an_address_that_shows_no_copy_is_not_cited(bot_setup: BotSetup) -> None:
    """Nor is its link tagged as one without a copy; a dry run says the same as a live one."""
    title, _ = bot_setup.harness.page(PAGE, {URL: LinkState.DEAD})
    bot_setup.capture(URL)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        front = f"http://127.0.0.1:{closed.getsockname()[1]}"
        looked = bot_setup.run("run", "--dry-run", "--front", front)
        bot_setup.switch_on(front)
        made = bot_setup.run("run")

    for output in (looked, made):
        assert "Left unchanged: 1 unshown." in output
    assert f"{title}: nothing to do (unshown: {front}/page/{STAMP}/{URL}: " in looked
    assert f"left unchanged (unshown: the address of its copy does not show the copy now): {URL}" in looked
    assert bot_setup.harness.text(title) == PAGE
    bot_setup.switch_on()
    assert "1 edited" in bot_setup.run("run")


def test_what_readers_may_not_see_is_not_cited(bot_setup: BotSetup) -> None:
    """A capture that was taken down is none."""
    title, _ = bot_setup.harness.page(PAGE, {URL: LinkState.DEAD})
    copy = bot_setup.capture(URL)
    bot_setup.switch_on()
    take_down = ["takedown", "add", URL, "--reason", "test", "--collection", str(bot_setup.collection)]
    assert CliRunner().invoke(weboid, take_down, standalone_mode=False).exception is None

    bot_setup.run("run")

    assert copy not in bot_setup.harness.text(title)


FAILED_VISITS: dict[str, dict[str, Any]] = {
    f"{URL}/error": {"status": 404, "page_class": PageClass.HTTP_ERROR},
    f"{URL}/soft": {"page_class": PageClass.SOFT_404},
    f"{URL}/challenge": {"page_class": PageClass.CHALLENGE},
    f"{URL}/failed": {"outcome": VisitOutcome.FAILED, "status": None, "page_class": PageClass.UNJUDGED},
}


def test_a_visit_that_brought_no_copy_is_not_cited(bot_setup: BotSetup) -> None:
    """The link is one without a copy, and the tag says that copies were looked for."""
    bot_setup.harness.writer.write("Template:Dead link", "[dead link]")
    text = "\n\n".join(PAGE.replace(URL, url) for url in FAILED_VISITS)
    title, _ = bot_setup.harness.page(text, dict.fromkeys(FAILED_VISITS, LinkState.DEAD))
    for url, facts in FAILED_VISITS.items():
        bot_setup.capture(url, **facts)
    bot_setup.switch_on()

    bot_setup.run("run")

    written = bot_setup.harness.text(title)
    assert "/page/" not in written
    assert written.count("{{dead link|") == len(FAILED_VISITS)
    assert written.count("|fix-attempted=yes}}") == len(FAILED_VISITS)


def test_a_bot_that_can_cite_nothing_is_not_switched_on(bot_setup: BotSetup) -> None:
    """Without a front that readers reach and without archives; it says which copies are here."""
    bot_setup.harness.page(PAGE, {URL: LinkState.DEAD})
    bot_setup.capture(URL)
    account = ("--account", bot_setup.harness.login, "--password-file", str(bot_setup.password))
    missing = "1 dead link has a copy here, but no public address is known"

    assert missing in bot_setup.run("on", *account, code=2)
    assert missing in bot_setup.run("run", "--dry-run", code=2)
    assert missing in bot_setup.run("show")
    assert bot_setup.run_json("show")[0]["enabled"] is False
    profile = bot_setup.collection.parent / "archives.toml"
    profile.write_text('[links]\narchives = ["wayback"]\n')
    output = bot_setup.run("on", *account, "--profile", str(profile))
    assert "has a copy here, but no public address is known, so they are not cited" in output
    assert missing in bot_setup.run("run", code=2)
