"""`weboid level`: what operators and editors decide, see, and are refused."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.layout import COLLECTION_VERSION, Layout
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

LINK = "https://a.example.org/page"
Level = Callable[..., tuple[int, str, str]]


@pytest.fixture
def level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Level:
    """Return a function that runs `weboid level` as `main` does: exit code, stdout and stderr."""
    Layout(tmp_path).marker.write_text(f"version = {COLLECTION_VERSION}\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        command = ["weboid", "level", *arguments, "--collection", str(tmp_path)]
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


def test_show_explains_which_rule_decides(level: Level) -> None:
    """The rule that goes before the others, and those that stand behind it."""
    level("set", "limited", "--default", "--actor", "root")
    level("set", "text", "--domain", "example.org", "--actor", "ann", "--reason", "shock images")
    level("set", "full", "--link", LINK, "--wiki", "w", "--actor", "root")

    plain = facts(level("show", f"{LINK}#part", "--json"))
    of_wiki = facts(level("show", LINK, "--wiki", "w", "--json"))

    assert (plain["url"], plain["level"], plain["wiki"]) == (LINK, "text", "")
    assert plain["rule"]["actor"] == "ann"
    assert plain["rule"]["reason"] == "shock images"
    assert (of_wiki["level"], of_wiki["rule"]["scope"]) == ("full", "link")
    assert [each["scope"] for each in of_wiki["rules"]] == ["link", "domain", "default"]
    _, output, _ = level("show", LINK, "--wiki", "w")
    assert "is shown to readers of w at the level full" in output
    assert "root set link" in output
    assert "shock images" in output
    assert "No rule applies" not in output


def test_without_rules_everything_is_shown_with_images(level: Level) -> None:
    """And the command says that nothing decided it."""
    code, output, _ = level("show", LINK)

    assert (code, "at the level images" in output, "No rule" in output) == (ExitCode.OK, True, True)
    assert "There is no rule" in level("list")[1]
    assert "No editor" in level("rights")[1]
    assert "Nothing was decided" in level("ls", "--history")[1]


def test_history_keeps_what_was_replaced_and_cleared(level: Level) -> None:
    """History has actor, time and reason of each decision, the oldest first; the list has the rules in force."""
    level("set", "text", "--link", LINK, "--actor", "ann", "--reason", "one")
    level("set", "html", "--link", LINK, "--actor", "bob", "--reason", "two")
    level("set", "text", "--domain", "other.example", "--actor", "bob")
    level("rm", "--link", LINK, "--actor", "eve", "--reason", "three")

    decisions = facts(level("ls", "--history", "--link", LINK, "--json"))["decisions"]

    assert [(each["level"], each["actor"], each["reason"]) for each in decisions] == [
        ("text", "ann", "one"),
        ("html", "bob", "two"),
        (None, "eve", "three"),
    ]
    assert all(each["decided_at"].endswith("Z") for each in decisions)
    assert len(facts(level("ls", "--history", "--json"))["decisions"]) == 4
    assert [each["what"] for each in facts(level("list", "--json"))["rules"]] == ["other.example"]
    assert "(cleared)" in level("ls", "--history")[1]


def test_editors_do_what_they_were_allowed_and_are_told_what_not(level: Level) -> None:
    """Refusals say what would be allowed, or who may; nothing is changed by them."""
    ask = ("--link", LINK, "--wiki", "w", "--actor", "Ann Lee@w")
    code, _, message = level("set", "text", *ask)
    assert (code, "no right" in message, "rights --wiki w" in message) == (ExitCode.INPUT, True, True)

    assert level("rights", "--wiki", "w", "--most", "html")[0] == ExitCode.OK
    assert level("set", "html", *ask)[0] == ExitCode.OK
    for arguments, reason in (
        (("set", "images", *ask), "at most html"),
        (("set", "text", "--domain", "a.example", "--wiki", "w", "--actor", "Ann Lee@w"), "links"),
        (("set", "text", "--wiki", "w", "--actor", "Ann Lee@w"), "links"),
        (("set", "text", "--link", LINK, "--actor", "Ann Lee@w"), "their own wiki"),
        (("rights", "--wiki", "w", "--most", "full", "--actor", "Ann@w"), "only operators"),
    ):
        code, _, message = level(*arguments)
        assert (code, reason in message) == (ExitCode.INPUT, True), message
    assert facts(level("show", LINK, "--wiki", "w", "--json"))["level"] == "html"

    level("rights", "--wiki", "w", "--editor", "Ann Lee", "--most", "full", "--domains")
    assert level("set", "full", "--domain", "a.example", *ask[2:])[0] == ExitCode.OK
    rights = facts(level("rights", "--json"))["rights"]
    assert [(each["editor"], each["scope"], each["most"]) for each in rights] == [
        (None, "link", "html"),
        ("Ann Lee", "domain", "full"),
    ]


def test_lowered_rights_show_in_what_counts(level: Level) -> None:
    """`show` says that a rule counts no further than editors may go now."""
    level("rights", "--wiki", "w", "--most", "full")
    level("set", "full", "--link", LINK, "--wiki", "w", "--actor", "ann@w")
    level("rights", "--wiki", "w", "--most", "limited")

    explanation = facts(level("show", LINK, "--wiki", "w", "--json"))

    assert (explanation["level"], explanation["is_capped"], explanation["rule"]["level"]) == ("limited", True, "full")
    assert "may not allow that much" in level("show", LINK, "--wiki", "w")[1]
    assert level("rights", "--remove", "--wiki", "w")[0] == ExitCode.OK
    assert facts(level("show", LINK, "--wiki", "w", "--json"))["level"] == "images"
    assert len(facts(level("rights", "--history", "--json"))["rights"]) == 3


def test_several_change_together_and_a_dry_run_changes_nothing(level: Level) -> None:
    """It refuses what the real one would refuse."""
    both = ("--link", LINK, "--domain", "b.example", "--domain", "*.B.example")
    preview = facts(level("set", "html", *both, "--dry-run", "--json"))
    assert [each["what"] for each in preview["changes"]] == [LINK, "b.example"]
    assert (preview["dry_run"], facts(level("list", "--json"))["rules"]) == (True, [])

    facts(level("set", "html", *both, "--json"))
    changes = facts(level("set", "text", *both, "--json"))["changes"]

    assert [(each["before"], each["level"]) for each in changes] == [("html", "text")] * 2
    assert level("rm", *both, "--domain", "c.example", "--dry-run")[0] == ExitCode.INPUT
    assert level("rm", *both, "--domain", "c.example")[0] == ExitCode.INPUT
    assert len(facts(level("list", "--json"))["rules"]) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("set", "text"), "Name the subject"),
        (("set", "most", "--default"), "most"),
        (("set", "text", "--default", "--wiki", "w"), "--default"),
        (("set", "text", "--wiki", "../w"), "not a name for a wiki"),
        (("set", "text", "--domain", "http://a.example/"), "without scheme"),
        (("set", "text", "--link", "javascript:alert(1)"), "not a URL"),
        (("set", "text", "--default", "--actor", "a@b@c"), "not a name for a wiki"),
        (("rm", "--default"), "no rule"),
        (("show", "javascript:alert(1)"), "not a URL"),
        (("rights", "--remove", "--wiki", "w"), "no right"),
        (("rights", "--most", "html"), "Name the wiki"),
        (("rights", "--wiki", "w", "--domains"), "need --most"),
        (("rights", "--wiki", "w", "--most", "html", "--remove"), "not both"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_meant_is_refused(level: Level, arguments: tuple[str, ...], reason: str) -> None:
    """With a sentence, and the exit code for what must be mended."""
    code, _, message = level(*arguments)

    assert (code, reason in message) == (ExitCode.INPUT, True), message


def test_a_name_cannot_steer_the_terminal(level: Level) -> None:
    """Escape sequences in text that comes from a wiki are not printed."""
    level("set", "text", "--default", "--reason", "a\x1b[2Jb", "--actor", "root")

    for command in (("ls", "--history"), ("list",), ("show", LINK)):
        assert "\x1b" not in level(*command)[1]


def test_stored_levels_are_set_shown_listed_and_cleared(level: Level) -> None:
    """By the same options as shown levels, and apart from them."""
    level("set", "--store", "no-media", "--wiki", "w", "--actor", "root", "--reason", "disk")
    level("set", "--store", "text", "--domain", "example.org", "--wiki", "w", "--actor", "ann")
    level("set", "html", "--wiki", "w", "--actor", "bob")

    explanation = facts(level("show", LINK, "--wiki", "w", "--json"))
    assert (explanation["level"], explanation["stored"]["level"]) == ("html", "text")
    assert [each["scope"] for each in explanation["stored"]["rules"]] == ["domain", "wiki"]
    output = level("show", LINK, "--wiki", "w")[1]
    assert "It is recorded when a page of w cites it at the level text." in output
    assert "store no-media" in output
    listed = facts(level("list", "--json"))["rules"]
    assert sorted((each["kind"], each["level"]) for each in listed) == [
        ("shown", "html"),
        ("stored", "no-media"),
        ("stored", "text"),
    ]
    assert [each["level"] for each in facts(level("list", "--level", "no-media", "--json"))["rules"]] == ["no-media"]

    assert level("rm", "--store", "--wiki", "w")[0] == ExitCode.OK
    assert facts(level("show", "https://b.example/", "--wiki", "w", "--json"))["level"] == "html"
    history = facts(level("ls", "--history", "--wiki", "w", "--json"))["decisions"]
    assert [(each["kind"], each["level"]) for each in history] == [
        ("stored", "no-media"),
        ("shown", "html"),
        ("stored", None),
    ]


@pytest.mark.parametrize("words", [(), ("text", "--store", "text")])
def test_a_level_is_set_of_one_kind_at_a_time(level: Level, words: tuple[str, ...]) -> None:
    """Neither and both are refused with what to say instead."""
    code, _, err = level("set", *words, "--default")
    assert code == ExitCode.INPUT
    assert "Name the level to show" in err
