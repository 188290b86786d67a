"""What runs beside a wiki's watch, and how it speaks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.errors import ConfigError, InputError
from core.settings import LinksSettings
from crawler.cli import weboid
from crawler.cli.together import Home, environment_of, parts_of, speaker
from crawler.household import Ended, Part, Said

HOME = Home(Path("c"), "default", workers=3)
ALWAYS = {"archive", "check", "confirm", "bot", "replace", "purge"}


def named(parts: list[Part]) -> dict[str, Part]:
    return {part.name: part for part in parts}


def test_one_machine_does_all_that_links_need() -> None:
    """Archives elsewhere are asked only where the profile names some; readers are served on request."""
    assert set(named(parts_of(HOME, LinksSettings()))) == ALWAYS
    served = replace(HOME, serve=("127.0.0.1", 8080))
    asked = LinksSettings(archives=("wayback",), mirror="failed")
    assert set(named(parts_of(served, asked))) == ALWAYS | {"copies", "verify", "mirror", "serve"}


def test_workers_of_a_shared_frontier_archive() -> None:
    """Then nobody here does."""
    shared = replace(HOME, frontier_url="redis://127.0.0.1:1/0?frontier=a")
    assert set(named(parts_of(shared, LinksSettings()))) == ALWAYS - {"archive"}


@pytest.mark.parametrize("as_json", [False, True])
def test_each_part_is_a_command_that_knows_its_options(as_json: bool) -> None:
    """A flag that was renamed must not be found out at night."""
    home = replace(HOME, serve=("127.0.0.1", 8080), internal=("::1",), as_json=as_json)
    for part in parts_of(home, LinksSettings(archives=("wayback",), mirror="always")):
        words = list(part.command[3:])
        told = CliRunner().invoke(weboid, [*words, "--help"])
        assert told.exit_code == 0, told.output
        given = {each.partition("=")[0] for each in words if each.startswith("--")}
        assert all(option in told.output for option in given), (part, told.output)


@pytest.mark.parametrize(("qa", "words"), [(None, ""), (True, "--qa"), (False, "--no-qa")])
def test_who_archives_is_told_whether_to_look_at_copies(qa: bool | None, words: str) -> None:
    """Where nothing is said, the profile decides."""
    command = named(parts_of(replace(HOME, qa=qa), LinksSettings()))["archive"].command
    assert [each for each in command if each.endswith("qa")] == ([words] if words else [])


def test_addresses_of_shared_stores_stand_in_no_command_line() -> None:
    """They may hold passwords, and everybody sees command lines."""
    home = replace(HOME, database_url="postgresql://u:hidden@h/d", frontier_url="redis://:hidden@h")
    assert "hidden" not in str(parts_of(home, LinksSettings()))
    assert environment_of(home) == {
        "WEBOID_DATABASE": home.database_url,
        "WEBOID_FRONTIER": home.frontier_url,
    }


def test_parts_speak_behind_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    """With what would move the cursor taken out."""
    tell = speaker(as_json=False)
    tell(Said("check", "a\x1b[2Jb"))
    tell(Ended("archive", -9, 2.0))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("   check | a")
    assert "\x1b" not in first
    assert second == " archive | ended (signal SIGKILL), started again in 2 s"


def test_machines_get_every_line_as_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A part's own objects with its name; what is none as a line."""
    tell = speaker(as_json=True)
    tell(Said("archive", '{"event": "page", "url": "http://a/"}'))
    tell(Said("serve", "http://127.0.0.1:8080"))
    tell(Said("serve", "[1]"))
    tell(Ended("check", 3, 1.0))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"part": "archive", "event": "page", "url": "http://a/"},
        {"part": "serve", "event": "said", "line": "http://127.0.0.1:8080"},
        {"part": "serve", "event": "said", "line": "[1]"},
        {"part": "check", "event": "ended", "code": 3, "again_s": 1.0},
    ]


def test_the_front_knows_who_asks_without_counting() -> None:
    """A wiki's own server, as `weboid serve` takes it; nobody without a word."""
    served = replace(HOME, serve=("127.0.0.1", 8080))
    named_two = replace(served, internal=("192.0.2.7", "10.0.0.0/8"))
    for home, words in ((served, ()), (named_two, ("192.0.2.7", "10.0.0.0/8"))):
        command = named(parts_of(home, LinksSettings()))["serve"].command
        found = [each for each in command if each.startswith("--links-internal")]
        assert found == [f"--links-internal={word}" for word in words]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--links-internal", "192.0.2.7"], "--serve"),
        (["--serve", "127.0.0.1:0", "--links-internal", "10.0.0.1/8"], "is no network"),
    ],
)
def test_who_asks_without_counting_must_make_sense(
    words: list[str], told: str, tmp_path: Path
) -> None:
    """A network that is none is refused at once, and so is one where nobody is served."""
    ran = CliRunner().invoke(weboid, ["wiki", "watch", *words, "--collection", str(tmp_path)])
    assert isinstance(ran.exception, InputError | ConfigError)
    assert told in str(ran.exception)


@pytest.mark.parametrize("other", ["--once", "--feed-only"])
def test_who_only_watches_serves_nobody(other: str, tmp_path: Path) -> None:
    """It says which command does."""
    words = ["wiki", "watch", "--serve", "127.0.0.1:0", other, "--collection", str(tmp_path)]
    ran = CliRunner().invoke(weboid, words)
    assert isinstance(ran.exception, InputError)
    assert "weboid serve" in str(ran.exception)
