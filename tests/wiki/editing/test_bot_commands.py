"""`weboid wiki bot` as an operator runs it, on a real MediaWiki."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from core.errors import WeboidError
from crawler.cli import weboid
from crawler.cli.exits import exit_for
from crawler.cli.links.opening import opened_registry
from links.states import State
from tests.wiki.editing.shop import Shop, open_shop
from tests.wiki.writing import BOT, BOT_SECRET, Writer

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
PAGE = f"A fact.<ref>{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}</ref>\n\nMore."


@dataclass
class Desk:
    """A collection whose registry knows the wiki; the bot is off."""

    shop: Shop
    collection: Path
    password: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """What a command of `weboid wiki bot` prints."""
        whole = ["wiki", "bot", *arguments, "--collection", str(self.collection)]
        done = CliRunner().invoke(weboid, whole, standalone_mode=False)
        said = done.output
        ended = done.return_value if done.exception is None else done.exit_code
        if isinstance(done.exception, WeboidError):
            said, ended = f"{said}{done.exception}", exit_for(done.exception)
        assert ended == code, said + repr(done.exception)
        return said

    def told(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """The same as JSON lines."""
        return [json.loads(line) for line in self.run(*arguments, "--json", code=code).splitlines()]


@pytest.fixture
def desk(writer: Writer, bot_name: str, tmp_path: Path) -> Iterator[Desk]:
    """A desk of its own for each test."""
    collection = tmp_path / "collection"
    password = tmp_path / "password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    with opened_registry(collection, "", make=True) as store:
        shop = open_shop(store, writer, bot_name)
        shop.set(enabled=False, account="", password_file="", edits_per_minute=6.0)
        yield Desk(shop, collection, password)


def test_the_way_from_a_dry_run_to_a_review(desk: Desk) -> None:
    """Look, switch on, mend, see the revert, judge it, switch off: each step says what is next."""
    shop = desk.shop
    title, _ = shop.page(PAGE, {URL: State.DEAD})
    copy = shop.give_copy(URL)

    looked = desk.run("run", "--dry-run")
    assert f"{title}: proposed" in looked
    assert f"|archive-url={copy}" in looked
    assert "weboid wiki bot on" in desk.run("run", code=2)
    assert "own" in desk.run("on", code=2)
    account = ("--account", shop.login, "--password-file", str(desk.password))
    said = desk.run("on", *account, "--front", "https://archive.example")
    assert f"as {BOT}" in said
    assert "no run page" in said
    assert len(shop.revisions(title)) == 1
    *_, summary = desk.told("run")
    assert summary["did"] == {"edited": 1}
    rev = shop.revisions(title)[0]["revid"]
    shop.writer.act(action="edit", title=title, undo=rev)
    *_, summary = desk.told("run", "--look-back")
    assert (summary["undone"], summary["did"]) == (1, {})
    (waiting,) = desk.told("review")
    assert (waiting["state"], waiting["undone_by"], waiting["page"]) == ("reverted", "Admin", title)
    assert waiting["changes"][0]["url"] == URL
    assert "declined" in desk.run("review", "--decline", str(waiting["edit"]), "--why", "no page")
    assert "Nothing awaits" in desk.run("review")
    assert "1 declined" in desk.run("status")
    assert "no more" in desk.run("off")
    assert desk.told("status")[0]["enabled"] is False


def test_a_dry_run_says_what_is_left_and_why(desk: Desk) -> None:
    """A citation that is ambiguous, one that a person asked to leave alone, a page that wants no bots."""
    shop = desk.shop
    text = f"{{{{cite web|url={URL}|url={URL}|title=A}}}} [{URL} B] {{{{cbignore}}}}"
    left, _ = shop.page(text, {URL: State.DEAD})
    barred, _ = shop.page("{{nobots}}" + PAGE, {URL: State.DEAD})
    shop.give_copy(URL)

    said = desk.run("run", "--dry-run")

    assert f"{left}: nothing to do (double, held)" in said
    assert f"left as it is (double: a parameter stands there twice): {URL}" in said
    assert f"left as it is (held: a person asked bots to leave it alone): {URL}" in said
    assert f"{barred}: bots are asked to stay away ({{{{bots}}}} or {{{{nobots}}}})" in said
    assert "Left as they are: 1 double, 1 held." in said
    (page,) = [each for each in desk.told("run", "--dry-run") if each.get("page") == left]
    assert [each["reason"] for each in page["refused"]] == ["double", "held"]


def test_what_cannot_work_is_said_before_anything_is_switched_on(desk: Desk) -> None:
    """A wrong password, a file that others can read, a front that is no origin: each its own words."""
    shop = desk.shop
    wrong = desk.password.with_name("wrong")
    wrong.write_text("f" * 32)
    wrong.chmod(0o644)
    account = ("--account", shop.login, "--password-file", str(wrong))

    assert "chmod 600" in desk.run("on", *account, code=2)
    wrong.chmod(0o600)
    assert "does not take the account" in desk.run("on", *account, code=2)
    assert "no origin" in desk.run("on", *account, "--front", "ftp://x", code=2)
    assert desk.told("status")[0]["enabled"] is False


def test_a_page_that_nobody_knows_is_told(desk: Desk) -> None:
    """`--page` with a title that the registry does not have ends with a failure."""
    shop = desk.shop
    desk.run("on", "--account", shop.login, "--password-file", str(desk.password))

    said = desk.run("run", "--page", "No such page", code=1)

    assert "No such page" in said
