"""`weboid links report`, `replace` and `mark`: what operators say, and are told."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from core.layout import COLLECTION_VERSION, Layout
from links.registry.schema import copies, urls
from links.states import LinkState
from tests.support.feedback_reports import watch
from tests.support.services.registries import open_registry
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

DEAD = "https://gone.example.net/a"
Links = Callable[..., tuple[int, str, str]]


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Links:
    """Return a function that runs `weboid links` on a collection with three dead links: exit code, stdout, stderr."""
    layout = Layout(tmp_path)
    layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    with closing(open_registry(layout)) as store, store.writing() as rows:
        watch(rows, DEAD, f"{DEAD}/b", "https://www.example.net/")

    def run(*arguments: str) -> tuple[int, str, str]:
        command = ["weboid", "links", *arguments, "--collection", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return run


def facts(ran: tuple[int, str, str]) -> Any:
    """Return the command's JSON; assert exit code 0."""
    code, out, err = ran
    assert code == ExitCode.OK, err
    return json.loads(out)


def states(folder: Path) -> list[LinkState]:
    """Return the states of the links in the order of their ids."""
    with closing(open_registry(Layout(folder))) as store, store.reading() as rows:
        return [LinkState(each) for each in rows.execute(select(urls.c.state).order_by(urls.c.id)).scalars()]


def test_a_report_is_made_and_withdrawn(links: Links) -> None:
    """Several URLs are one report; a domain with a path means what is watched below it."""
    report = facts(links("report", DEAD, "https://www.example.net/", "--actor", "ann", "--json"))
    assert report["reported"] == [DEAD, "https://www.example.net/"]
    assert report["domain_presumed_reachable"] is False
    below = facts(links("report", "--domain", "gone.example.net/a", "--actor", "bob", "--json"))
    assert below["reported"] == [DEAD, f"{DEAD}/b"]
    gone = facts(links("report", "--withdraw", "--domain", "example.net", "--json"))
    assert gone == {"withdrawn": 4, "domain_no_longer_presumed": False}


def test_reports_that_cannot_be_made_say_why(links: Links) -> None:
    """Unknown URLs are wrong input; too often is worth another try."""
    code, _, err = links("report", "https://unknown.example.net/")
    assert (code, "is not watched" in err) == (ExitCode.INPUT, True)
    links("report", DEAD)
    code, _, err = links("report", f"{DEAD}/b")
    assert (code, "try again in" in err) == (ExitCode.UNAVAILABLE, True)


def test_a_replacement_is_proposed_seen_and_removed(links: Links, tmp_path: Path) -> None:
    """A copy in an archive goes to the copies; what leads nowhere is refused."""
    new = "https://new.example.net/"
    assert facts(links("replace", DEAD, new, "--actor", "ann", "--json"))["new"] is True
    shown = facts(links("replace", DEAD, "--json"))["replacement"]
    assert shown == {"address": new, "stage": "waiting", "tested": None}
    assert links("replace", DEAD, "https://other.example.net/", "--approve")[0] == ExitCode.INPUT
    assert facts(links("replace", DEAD, new, "--approve", "--json"))["replacement"]["stage"] == "works"
    assert facts(links("replace", DEAD, "--remove", "--json")) == {"removed": new}

    copy = f"https://web.archive.org/web/20150102030405/{DEAD}"
    proposal = facts(links("replace", DEAD, copy, "--actor", "bob", "--json"))
    assert proposal["archive"] == "wayback"
    with closing(open_registry(Layout(tmp_path))) as store, store.reading() as rows:
        (timestamp,) = rows.execute(select(copies.c.timestamp)).scalars()
    assert timestamp == "20150102030405"
    other = "https://web.archive.org/web/2015/https://other.example.net/"
    for wrong in ("http://10.0.0.1/", DEAD, other):
        assert links("replace", DEAD, wrong, "--actor", "eve")[0] == ExitCode.INPUT


@pytest.mark.parametrize("words", [(), (DEAD, DEAD, "--remove"), ("--test", DEAD), ("--test", "--remove")], ids=str)
def test_replace_wants_one_thing_at_a_time(words: tuple[str, ...], links: Links) -> None:
    """Other combinations are refused with a message that names the valid ones."""
    code, _, err = links("replace", *words)
    assert (code, "replace URL NEW" in err) == (ExitCode.INPUT, True)


def test_marks_change_states_and_are_lifted(links: Links, tmp_path: Path) -> None:
    """A dry run only counts; the list tells who, why and until when."""
    made = ("mark", "permadead", "example.net", "--reason", "sold", "--actor", "ann")
    foreseen = facts(links(*made, "--dry-run", "--json"))
    assert foreseen["changed"] == {"permadead": 3}
    assert states(tmp_path) == [LinkState.DEAD] * 3

    assert facts(links(*made, "--until", "90d", "--json"))["changed"] == {"permadead": 3}
    links("mark", "permalive", DEAD, "--reason", "seen")
    links("mark", "always", "www.example.net", "--reason", "theirs")
    assert states(tmp_path) == [LinkState.PERMALIVE, LinkState.PERMADEAD, LinkState.UNKNOWN]
    listed = facts(links("mark", "--json"))
    assert next((each["kind"], each["actor"], each["settled"]) for each in listed) == (
        "permadead", "ann", True
    )  # fmt: skip
    (decides,) = facts(links("mark", "--for", DEAD, "--json"))
    assert decides["kind"] == "permalive"

    back = facts(links("mark", "--remove", "example.net", "1", DEAD, "--dry-run", "--json"))
    assert back["changed"] == {"unknown": 2}
    facts(links("mark", "--remove", "example.net", "--json"))
    assert states(tmp_path) == [LinkState.PERMALIVE, LinkState.UNKNOWN, LinkState.UNKNOWN]
    assert len(facts(links("mark", "--all", "--json"))) == 3
    assert "permadead" not in links("mark")[1]
    assert facts(links("mark", "--settle", "--json"))["changed"] == {}


@pytest.mark.parametrize(
    "words",
    [
        ("permalive", "re:(", "--reason", "x"),
        ("permalive", "example.org", "--reason", " "),
        ("permalive", "example.org", "--reason", "x", "--until", "2001-01-01"),
        ("colour=red", "example.org", "--reason", "x"),
        ("--remove", "nothing.example.net"),
        ("never", "example.org"),
        ("often", "example.org", "--reason", "x"),
        ("--remove",),
        ("--remove", "--settle"),
        ("never", "example.org", "--reason", "x", "--all"),
    ],
    ids=str,
)
def test_marks_that_cannot_be_made_change_nothing(words: tuple[str, ...], links: Links) -> None:
    """With a sentence about what is wrong."""
    code, _, err = links("mark", *words)
    assert (code, err.startswith("weboid: ")) == (ExitCode.INPUT, True)
    assert facts(links("mark", "--all", "--json")) == []
