"""`weboid qa`, run on a small collection with its real playback in a real browser."""

import fcntl
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from core.captures import ArtifactKind
from core.errors import InputError, UnavailableError
from core.playback_check import picture_name
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, LevelScope, LevelTarget
from qa.check_store import find_checks
from tests.qa.conftest import drawn_page
from tests.support.drawing import packed
from tests.support.playback_fixtures import NOW, CollectionBuilder, collection  # noqa: F401 fixtures
from tests.support.services.registries import open_registry
from tests.support.sites.acid_parts import typeface
from weboid.cli.main import weboid
from weboid.cli.qa.qa_check import command as qa

pytestmark = [pytest.mark.browser, pytest.mark.playback, pytest.mark.slow]


@pytest.fixture
def made(collection: CollectionBuilder) -> CollectionBuilder:  # noqa: F811 a fixture
    """Mark the folder as a collection, so that commands accept it."""
    collection.layout.marker.write_text("version = 1\n")
    return collection


def run(made: CollectionBuilder, *arguments: str) -> tuple[Result, list[dict[str, Any]]]:
    """Run `weboid qa --json …` and return the result and its JSON lines."""
    options = ("--collection", str(made.layout.root), "--json")
    ran = CliRunner().invoke(qa, [*arguments, *options], standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    return ran, [json.loads(line) for line in ran.stdout.splitlines()]


def lettered_page(made: CollectionBuilder, url: str) -> str:
    """Add a page whose typeface draws boxes: letters in their place would not be good."""
    made.response(f"{url}boxes.ttf", typeface(url), mime="font/ttf")
    rule = f"@font-face{{font-family:B;src:url({url}boxes.ttf)}}"
    style = f"<style>{rule} p{{margin:0;font:100px/100px B;color:#008000}}</style>"
    html = f"<!DOCTYPE html>{style}<body style='margin:0'>{'<p>XXXXXXXX</p>' * 4}"
    seen = Image.new("RGB", (1280, 800), "white")
    seen.paste("#008000", (0, 0, 800, 400))
    return made.page(url, html, shot=packed(np.asarray(seen)))


@dataclass(frozen=True)
class LookedAt:
    """A collection of three pages, what was planned of it, and the run that checked them all."""

    made: CollectionBuilder
    ids: dict[str, str]  # of pages, by host
    planned: list[dict[str, Any]]
    ran: Result
    lines: list[dict[str, Any]]


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookedAt]:
    """Check a page that is whole, one that lost its look and is shown in full, and one with a typeface."""
    with closing(CollectionBuilder(tmp_path_factory.mktemp("looked") / "collection")) as made:
        made.layout.marker.write_text("version = 1\n")
        ids = {
            "good": drawn_page(made, "https://good.example/"),
            "bad": drawn_page(made, "https://bad.example/", is_there=False),
            "type": lettered_page(made, "https://type.example/"),
        }
        with closing(open_decisions(made.layout)) as decisions:
            target = LevelTarget(LevelScope.DOMAIN, what="bad.example")
            LevelStore(decisions).decide([target], Level.FULL, actor=LevelActor("me"), now=NOW)
        _, planned = run(made, "--dry-run")
        yield LookedAt(made, ids, planned, *run(made, "--no-record"))


def test_a_copy_that_lost_its_look_is_broken_and_the_others_are_not(looked_at: LookedAt) -> None:
    """Each is in the registry when the command ends, the broken one with its pictures; exit code 1.

    Copies are shown in the typefaces of their pages.
    """
    made, lines, good, bad = looked_at.made, looked_at.lines, looked_at.ids["good"], looked_at.ids["bad"]
    verdicts = {
        ("https://good.example/", "images"): "good",
        ("https://bad.example/", "images"): "broken",
        ("https://bad.example/", "full"): "broken",
        ("https://type.example/", "images"): "good",
    }

    assert {(each["url"], each["level"]): each["verdict"] for each in lines if each["event"] == "check"} == verdicts
    assert looked_at.ran.return_value == 1
    assert lines[-1]["event"] == "summary"
    assert (lines[-1]["good"], lines[-1]["broken"]) == (2, 2)
    with closing(open_registry(made.layout, "")) as store, store.reading() as reader:
        rows = find_checks(reader, list(looked_at.ids.values()))
    assert {(each.check.url, each.check.level): str(each.verdict) for each in rows} == verdicts
    for kind in ("seen", "shown"):
        path = made.layout.quality_pictures / picture_name(bad, "images", kind)
        with Image.open(io.BytesIO(path.read_bytes())) as image:
            assert (image.format, image.size) == ("WEBP", (1280, 800))
        assert not (made.layout.quality_pictures / picture_name(good, "images", kind)).exists()


def test_copies_are_looked_at_in_full_where_rules_show_them_so(looked_at: LookedAt) -> None:
    """Without being asked for; what no rule shows in full is not even counted."""
    lines = looked_at.lines

    looked = {(each["url"], each["level"]) for each in lines if each["event"] == "check"}
    assert looked == {(each["url"], each["level"]) for each in looked_at.planned}
    assert looked == {
        ("https://good.example/", "images"),
        ("https://bad.example/", "images"),
        ("https://bad.example/", "full"),
        ("https://type.example/", "images"),
    }
    assert (lines[-1]["checked"], lines[-1]["unchecked"]) == (4, 0)


def checked(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Return the verdicts by URL."""
    return {each["url"]: each["verdict"] for each in lines if each["event"] == "check"}


def test_what_was_checked_is_not_checked_again(looked_at: LookedAt) -> None:
    """Unless it is asked for; a page that is new is, and a dry run says what would be, and why."""
    made, plain = looked_at.made, ("--no-record",)
    drawn_page(made, "https://new.example/")

    _, planned = run(made, "--dry-run")
    _, second = run(made, *plain)
    ran, third = run(made, *plain)
    _, again = run(made, *plain, "--again", "https://new.example/")

    assert [(each["url"], each["why"]) for each in planned] == [("https://new.example/", ["host: never checked"])]
    assert set(checked(second)) == {"https://new.example/"}
    assert (checked(third), third[-1]["checked"], ran.return_value) == ({}, 0, 0)
    assert set(checked(again)) == {"https://new.example/"}


def test_records_are_written_when_nobody_else_writes(made: CollectionBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the registry has what was found, and the command ends well all the same."""
    monkeypatch.setattr("crawler.collection.LOCK_WAIT_S", 0.1)
    page_id = drawn_page(made, "https://one.example/")
    database = sqlite3.connect(made.layout.captures_db)
    with closing(database), made.layout.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran, before = run(made)
        fcntl.flock(lock, fcntl.LOCK_UN)
        monkeypatch.undo()
        unwritten = database.execute("SELECT count(*) FROM qualities").fetchone()
        _, after = run(made)
        written = database.execute("SELECT page_id FROM qualities").fetchall()
        pages = database.execute("SELECT count(*) FROM pages").fetchone()

    assert (ran.return_value, before[-1]["unrecorded"], unwritten) == (0, "in use", (0,))
    assert (after[-1]["checked"], after[-1]["unrecorded"]) == (0, "")
    assert written == [(page_id,)]
    assert pages == (1,), "a record of a check is no page"


def test_a_run_that_is_cut_short_loses_nothing(made: CollectionBuilder) -> None:
    """Killed, or ended by Ctrl-C: printed results are in the registry; the same command does the rest.

    Its pipe holds less than a line: however late it is read, it cannot come to its end before.
    """
    urls = {f"https://h{each}.example/{'x' * 8_500}" for each in range(5)}
    page_ids = [drawn_page(made, url) for url in urls]
    before = set[str]()
    for number, code in ((signal.SIGKILL, -9), (signal.SIGINT, 6)):
        ended, reported = cut_short(made, number)
        with closing(open_registry(made.layout, "")) as store, store.reading() as reader:
            stored = {each.check.url for each in find_checks(reader, page_ids)}

        assert ended == code
        assert set(checked(reported)) <= stored - before, "nothing twice"
        assert stored < urls
        before = stored
    _, rest = run(made, "--no-record")

    assert set(checked(rest)) == urls - before, "the rest, and nothing twice"


def cut_short(made: CollectionBuilder, number: signal.Signals) -> tuple[int, list[dict[str, Any]]]:
    """Run the command until it printed a result, send the signal; return exit code and what it printed."""
    arguments = ["qa", "--json", "--no-record", "--jobs=1"]
    command = [sys.executable, "-m", "weboid", *arguments]
    with subprocess.Popen(
        [*command, "--collection", str(made.layout.root)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4_096)
        reported = [json.loads(process.stdout.readline())]
        if number is signal.SIGINT:
            process.send_signal(number)  # its parts mind themselves
        else:
            os.killpg(process.pid, number)
        reported += [json.loads(line) for line in process.stdout if line.endswith("}\n")]
    return process.returncode, reported


def test_an_empty_collection_is_soon_checked(made: CollectionBuilder, tmp_path: Path) -> None:
    """And without one the user is told what to do."""
    ran, lines = run(made)

    assert (ran.return_value, lines[-1]["checked"]) == (0, 0)
    with pytest.raises(UnavailableError, match="There is no collection"):
        CliRunner().invoke(
            qa, ["--collection", str(tmp_path / "none")], standalone_mode=False,
            catch_exceptions=False,
        )  # fmt: skip


def test_a_url_without_a_copy_is_told(made: CollectionBuilder) -> None:
    """Exit code 1: what was asked for could not be checked."""
    ran, lines = run(made, "https://never.example/")

    assert (ran.return_value, lines[-1]["checked"]) == (1, 0)


def test_a_beginning_that_is_none_is_told_with_what_to_write(made: CollectionBuilder) -> None:
    """It may be a moment or a length of time."""
    with pytest.raises(InputError, match=r"neither a date nor a duration.*12h or 3d"):
        run(made, "--since", "yesterday")


def test_why_nothing_is_checked_is_told(made: CollectionBuilder) -> None:
    """Rather than so many times nothing."""
    made.page("https://a.example/", "<p>some words</p>", text="some words")
    outputs = [
        CliRunner().invoke(qa, [*more, "--collection", str(made.layout.root)], standalone_mode=False)
        for more in (["--since", "2099-01-01"], ["https://a.example/", "--level", "full"])
    ]

    assert "Nothing is left to check" in outputs[0].output
    assert "https://a.example/: no level rule shows it at level full" in outputs[1].output


def test_the_usage_of_a_command_below_has_none_of_the_arguments_above() -> None:
    """`weboid qa [URL]... repair` cannot be typed."""
    usage = CliRunner().invoke(weboid, ["qa", "repair", "--help"]).output.splitlines()[0]

    assert usage == "Usage: weboid qa repair [OPTIONS]"


def test_a_visit_whose_manifest_is_gone_is_told(made: CollectionBuilder) -> None:
    """Nobody is offered its page, and no check of pages meets it; one that is to come again is not lost."""
    gone, waiting = "https://gone.example/", "https://waiting.example/"
    made.artifact(ArtifactKind.DOM, gone, b"<p>words", mime="text/html", at=NOW, page_id="lost")
    with SqliteFrontier(made.layout.frontier_db) as frontier:
        frontier.add([NewItem(waiting)], now=NOW)
        record = frontier.find(waiting)
        assert record is not None
        page_id = record.item.id
    made.artifact(ArtifactKind.DOM, waiting, b"<p>words", mime="text/html", at=NOW, page_id=page_id)

    ran, lines = run(made)

    assert (ran.return_value, lines[-1]["without_manifest"]) == (1, [[gone, "lost"]])
