"""Commands beside a wiki's watch, and their output."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.config.settings import LinksSettings, store_environment
from core.errors import ConfigError, InputError
from tests.support.clocks import ManualClock
from weboid.cli.main import weboid
from weboid.cli.support.child_commands import (
    CHILD_NAMES,
    ChildCommandOptions,
    ManagedProcess,
    ProcessExit,
    ProcessOutput,
    child_output_printer,
    watch_children,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOME = ChildCommandOptions(Path("c"), "default", workers=3)
SERVE_OPTIONS = (
    "--replay-port=8091",
    "--origin=https://archive.example",
    "--replay-origin=https://copies.example",
    "--behind=127.0.0.1",
    "--links-internal=::1",
    "--links-token-file=token",
    "--reviewers=127.0.0.1",
)
ALWAYS = {"archive", "check", "confirm", "bot", "copies", "replace", "purge", "lists"}


def named(parts: list[ManagedProcess]) -> dict[str, ManagedProcess]:
    return {part.name: part for part in parts}


def test_one_machine_does_all_that_links_need() -> None:
    """Archives elsewhere are asked only where the profile names some; readers are served on request."""
    assert set(named(watch_children(HOME, LinksSettings()))) == ALWAYS
    served = replace(HOME, serve=("127.0.0.1", 8080))
    settings = LinksSettings(archives=("wayback",), mirror="failed")
    assert set(named(watch_children(served, settings))) == ALWAYS | {"verify", "mirror", "serve"}
    watched = named(watch_children(replace(HOME, console="127.0.0.1:8090", as_json=True), LinksSettings()))
    assert "--json" not in watched["console"].command
    beside = replace(HOME, console="127.0.0.1:8090", console_origin="https://c.example", front="https://a.example")
    command = named(watch_children(beside, LinksSettings()))["console"].command
    assert {"--front=https://a.example", "--origin=https://c.example", "--no-worker"} <= set(command)


def test_what_is_archived_is_scanned_where_there_is_a_scanner() -> None:
    """Once: readers are served by a part that leaves it to the household."""
    home = replace(HOME, clamd="127.0.0.1:3310", serve=("127.0.0.1", 8080))
    parts = named(watch_children(home, LinksSettings()))
    assert {"--watch", "--clamd=127.0.0.1:3310"} <= set(parts["scan"].command)
    assert "--no-scan" in parts["serve"].command


def test_workers_of_a_shared_frontier_archive() -> None:
    """Then nobody here does."""
    shared = replace(HOME, frontier_url="redis://127.0.0.1:1/0?frontier=a")
    assert set(named(watch_children(shared, LinksSettings()))) == ALWAYS - {"archive"}


@pytest.mark.parametrize("as_json", [False, True])
def test_each_part_is_a_command_that_knows_its_options(as_json: bool) -> None:
    """A flag that was renamed must not be found out at night."""
    home = replace(
        HOME, serve=("127.0.0.1", 8080), serve_options=SERVE_OPTIONS, as_json=as_json, clamd="unix:/run/clamd.ctl"
    )
    for part in watch_children(home, LinksSettings(archives=("wayback",), mirror="always")):
        words = list(part.command[3:])
        result = CliRunner().invoke(weboid, [*words, "--help"])
        assert result.exit_code == 0, result.output
        given = {each.partition("=")[0] for each in words if each.startswith("--")}
        assert all(option in result.output for option in given), (part, result.output)


@pytest.mark.parametrize(("qa", "words"), [(None, ""), (True, "--qa"), (False, "--no-qa")])
def test_who_archives_is_told_whether_to_look_at_copies(qa: bool | None, words: str) -> None:
    """Without the option the profile decides."""
    command = named(watch_children(replace(HOME, qa=qa), LinksSettings()))["archive"].command
    assert [each for each in command if each.endswith("qa")] == ([words] if words else [])


def test_addresses_of_shared_stores_stand_in_no_command_line() -> None:
    """They may hold passwords, and everybody sees command lines."""
    home = replace(HOME, database_url="postgresql://u:hidden@h/d", frontier_url="redis://:hidden@h")
    assert "hidden" not in str(watch_children(home, LinksSettings()))
    assert store_environment(home.database_url, home.frontier_url) == {
        "WEBOID_DATABASE": home.database_url,
        "WEBOID_FRONTIER": home.frontier_url,
    }


def test_parts_speak_behind_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    """With what would move the cursor taken out."""
    tell = child_output_printer(as_json=False, clock=ManualClock(NOW))
    tell(ProcessOutput("check", "a\x1b[2Jb"))
    tell(ProcessExit("archive", -9, 2.0))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("2026-11-22 12:00:00    check | a")
    assert "\x1b" not in first
    assert second == "2026-11-22 12:00:00  archive | ended (signal SIGKILL), started again in 2 s"


def test_retries_of_a_host_do_not_flood_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """The first is told, then one an hour, which says how many there were; all else is told always."""
    clock = ManualClock(NOW)
    tell = child_output_printer(as_json=False, clock=clock)
    for _ in range(24):
        tell(ProcessOutput("archive", "again     http://down.org/a: connect: refused"))
        tell(ProcessOutput("archive", "later     http://down.org/b: host down; not before tomorrow"))
        clock.advance(minutes=5)
    tell(ProcessOutput("archive", "again     http://other.org/a: connect: refused"))
    tell(ProcessOutput("archive", "complete  200 http://down.org/a"))
    tell(ProcessOutput("archive", "complete  200 http://down.org/a"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("| ")[1].split()[0] for line in lines] == [
        *("again", "later", "again", "later", "again", "complete", "complete")
    ]
    assert lines[2].endswith("(11 more of down.org since the last line)")


def test_machines_get_every_line_as_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A part's own objects with its name; what is none as a line."""
    tell = child_output_printer(as_json=True, clock=ManualClock(NOW))
    tell(ProcessOutput("archive", '{"event": "page", "url": "http://a/"}'))
    tell(ProcessOutput("serve", "http://127.0.0.1:8080"))
    tell(ProcessOutput("serve", "[1]"))
    tell(ProcessExit("check", 3, 1.0))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"part": "archive", "event": "page", "url": "http://a/"},
        {"part": "serve", "event": "said", "line": "http://127.0.0.1:8080"},
        {"part": "serve", "event": "said", "line": "[1]"},
        {"part": "check", "event": "ended", "code": 3, "again_s": 1.0},
    ]


def test_options_of_the_front_are_passed_on() -> None:
    """As `weboid serve` takes them; none without a word."""
    served = replace(HOME, serve=("127.0.0.1", 8080))
    for options in ((), SERVE_OPTIONS):
        home = replace(served, serve_options=options)
        command = named(watch_children(home, LinksSettings()))["serve"].command
        assert command[-1 - len(options) :] == ("--listen=127.0.0.1:8080", *options)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--links-internal", "192.0.2.7"], "--listen"),
        (["--replay-port", "8081"], "--listen"),
        (["--listen", "127.0.0.1:0", "--links-internal", "10.0.0.1/8"], "is not a network"),
        (["--listen", "127.0.0.1:0", "--behind", "10.0.0.1/8"], "is not a network"),
        (["--listen", "127.0.0.1:0", "--origin", "https://a.example"], "--replay-origin"),
    ],
)
def test_options_of_the_front_must_make_sense(words: list[str], reason: str, tmp_path: Path) -> None:
    """Invalid networks are refused at once, and so are options without those that they require."""
    ran = CliRunner().invoke(weboid, ["wiki", "watch", *words, "--collection", str(tmp_path)])
    assert isinstance(ran.exception, InputError) or ran.exit_code == 2
    assert reason in f"{ran.exception} {ran.stderr}"


@pytest.mark.parametrize("other", ["--once", "--feed-only"])
def test_who_only_watches_serves_nobody(other: str, tmp_path: Path) -> None:
    """It says which command does."""
    words = ["wiki", "watch", "--listen", "127.0.0.1:0", other, "--collection", str(tmp_path)]
    ran = CliRunner().invoke(weboid, words)
    assert isinstance(ran.exception, InputError)
    assert "weboid serve" in str(ran.exception)


SECRET = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"open": (SECRET, 0o644)}, "chmod 600"),
        ({"short": ("short", 0o600)}, "openssl"),
        ({"one@x=a": (SECRET, 0o600), "two@x=b": (SECRET, 0o600)}, "the same secret"),
        ({"one@x=a": (SECRET, 0o600), "one@x=b": (SECRET * 2, 0o600)}, "twice"),
    ],
)
def test_secrets_of_the_webhook_must_make_sense(files: dict[str, tuple[str, int]], reason: str, tmp_path: Path) -> None:
    """Each file is its owner's alone, and each wiki has one secret of its own."""
    words = []
    for given, (text, mode) in files.items():
        name, equals, file = given.rpartition("=")
        path = tmp_path / file
        path.write_text(text)
        path.chmod(mode)
        words.append(f"--webhook-secret-file={name}{equals}{path}")
    line = ["wiki", "watch", "--webhook", "127.0.0.1:0", *words, "--collection", str(tmp_path / "c")]
    ran = CliRunner().invoke(weboid, line)
    assert isinstance(ran.exception, InputError | ConfigError)
    assert reason in str(ran.exception)


def test_a_secret_for_no_wiki_in_particular_is_refused_where_several_are_watched(tmp_path: Path) -> None:
    """Before anything starts, with the option to write instead."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    collection = f"--collection={tmp_path / 'c'}"
    for name in ("one@x", "two@x"):
        url = f"--url=https://{name[:3]}.example/api.php"
        added = CliRunner().invoke(weboid, ["wiki", "set", name, url, "--new-farm", collection])
        assert added.exit_code == 0, added.output
    line = ["wiki", "watch", "--webhook", "127.0.0.1:0", f"--webhook-secret-file={secret}", collection]
    ran = CliRunner().invoke(weboid, line)
    assert isinstance(ran.exception, ConfigError)
    assert "--webhook-secret-file one@x=FILE" in str(ran.exception)


def test_what_runs_elsewhere_is_left_out() -> None:
    """Each name that a part has may be left out, and no other is taken."""
    full = replace(HOME, serve=("127.0.0.1", 8080))
    links = LinksSettings(archives=("wayback",), mirror="failed")
    names = set(named(watch_children(full, links)))
    assert names <= set(CHILD_NAMES)
    left = named(watch_children(replace(full, without=frozenset({"check", "confirm"})), links))
    assert set(left) == names - {"check", "confirm"}

    ran = CliRunner().invoke(weboid, ["wiki", "watch", "--without", "checks"])
    assert ran.exit_code == 2
    assert "'confirm'" in ran.output
