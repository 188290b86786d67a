"""Former names of commands and options, and hints for misspelt ones."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from weboid.cli.main import weboid, with_current_name
from weboid.cli.support.commands import FORMER_NAMES


def call(*arguments: str) -> Result:
    """Run `weboid` with these arguments."""
    return CliRunner().invoke(weboid, arguments)


def command_of(words: list[str]) -> click.Command:
    """Return the command that the words name, up to the first word that is no command."""
    command: click.Command = weboid
    for word in words:
        if not isinstance(command, click.Group):
            break
        below = command.get_command(click.Context(command), word)
        if below is None:
            break
        command = below
    return command


@pytest.mark.parametrize("former", sorted(FORMER_NAMES))
def test_a_former_name_leads_to_a_command_of_today(former: str) -> None:
    """And is none itself, so that no name means two things."""
    words = FORMER_NAMES[former].split()

    assert command_of(words) is not weboid
    assert with_current_name(words) == words


def test_a_former_name_runs_the_command_and_names_it(tmp_path: Path) -> None:
    """One line on standard error; options are handed on."""
    ran = call("links", "mark", "lift", "example.org", "--reason", "x", f"--collection={tmp_path}")

    assert ran.stderr.startswith("`weboid links mark lift` is now `weboid links mark --remove`.\n")
    assert with_current_name(["links", "exclude", "remove", "a.example"]) == (
        ["links", "exclude", "--remove", "a.example"]
    )
    assert with_current_name(["links", "copies", "http://a.example/", "--find", "--json"]) == (
        ["links", "copies", "find", "http://a.example/", "--json"]
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("crawll",), "crawl"),
        (("crawl", "paus"), "pause"),
        (("qa", "repairr"), "repair"),
        (("links", "confirmm"), "confirm"),
        (("collection", "rebuildd"), "rebuild"),
        (("takedown", "prov"), "prove"),
    ],
)
def test_a_misspelt_command_is_answered_with_its_name(words: tuple[str, ...], hint: str) -> None:
    """Also below groups that take arguments themselves."""
    ran = call(*words)

    assert ran.exit_code == 2
    assert "Did you mean" in ran.stderr
    assert hint in ran.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("archive veriffi", "veriffi is neither a URL nor a file. Did you mean `weboid verify`?"),
        ("crawl statsu", "statsu is neither a URL nor a file. Did you mean `weboid status`?"),
        ("crawl add rezume", "Did you mean `weboid crawl resume`?"),
        ("archive localhost", "localhost is neither a URL nor a file. Write it in full, such as https://"),
    ],
)
def test_a_word_in_place_of_a_url_is_answered_with_the_near_command(words: str, message: str) -> None:
    """Of commands with the same name that whose path is nearest; before a collection is opened."""
    ran = call(*words.split())

    assert ran.exit_code == 2
    assert message in ran.stderr


def test_words_that_are_one_of_several_are_left_to_the_command() -> None:
    """It reports lines that are no URLs by their numbers."""
    assert "is not a URL that can be fetched" in call("archive", "veriffi", "verifq").stderr


@pytest.mark.parametrize("command", [["archive"], ["crawl"], ["crawl", "add"], ["export", "all.wacz"]])
def test_a_file_in_place_of_a_url_is_answered_with_the_option(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`urls.txt` could be a host, too."""
    (tmp_path / "urls.txt").write_text("https://a.example/")
    monkeypatch.chdir(tmp_path)

    ran = call(*command, "https://b.example/", "urls.txt")

    assert ran.exit_code == 2
    assert "urls.txt is a file: read its URLs with --list urls.txt" in ran.stderr


@pytest.mark.parametrize(
    ("words", "usage"),
    [(["-h"], "weboid [OPTIONS]"), (["help"], "weboid [OPTIONS]"), (["help", "qa", "ls"], "weboid qa ls [OPTIONS]")],
)
def test_help_is_given_under_every_usual_name(words: list[str], usage: str) -> None:
    """`-h` works on every command."""
    ran = CliRunner().invoke(weboid, words, prog_name="weboid")

    assert ran.exit_code == 0
    assert ran.output.startswith(f"Usage: {usage}")


def test_a_renamed_option_works_under_its_former_name_which_help_omits() -> None:
    """Exit code 3: both are understood, and there is no collection."""
    for name in ("--lane", "--priority"):
        assert call("crawl", "add", "a.example", name, "no").stderr.endswith(
            "'no' is not one of 'now', 'high', 'standard'.\n"
        )
    assert "--priority" not in call("crawl", "add", "--help").output


def test_rarely_used_commands_are_named_in_one_line_of_the_help() -> None:
    """They run as ever."""
    shown = call("links", "--help").output

    assert "Rarely used: add-page, confirm" in shown
    assert "\n  add-page" not in shown
    assert call("links", "add-page", "--help").exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of groups with a default action, too; the script that a shell reads names the program."""
    monkeypatch.setenv("COMP_WORDS", "weboid crawl pa")
    monkeypatch.setenv("COMP_CWORD", "pa" if shell == "fish" else "2")
    script = CliRunner().invoke(weboid, prog_name="weboid", env={"_WEBOID_COMPLETE": f"{shell}_source"})
    words = CliRunner().invoke(weboid, prog_name="weboid", env={"_WEBOID_COMPLETE": f"{shell}_complete"})

    assert "_WEBOID_COMPLETE" in script.output
    assert "pause" in words.output
    assert "resume" not in words.output


@pytest.mark.parametrize(
    ("words", "completions"),
    [("archive --profile mob", "plain,mobile"), ("archive --list u", "file,u"), ("crawl --scope do", "plain,domain")],
)
def test_shells_complete_values(words: str, completions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets, files and fixed values."""
    monkeypatch.setenv("COMP_WORDS", f"weboid {words}")
    monkeypatch.setenv("COMP_CWORD", "3")

    ran = CliRunner().invoke(weboid, prog_name="weboid", env={"_WEBOID_COMPLETE": "bash_complete"})

    assert ran.output == f"{completions}\n"


def test_a_former_option_hides_no_option_of_its_command() -> None:
    """Each name of an option means one thing on a command."""
    ambiguous: list[tuple[str, str]] = []

    def walk(command: click.Command, path: str) -> None:
        names = [name for each in command.params for name in (*each.opts, *getattr(each, "former", ()))]
        ambiguous.extend((path, name) for name in set(names) if names.count(name) > 1)
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                walk(command_of([*path.split(), name]), f"{path} {name}")

    walk(weboid, "")

    assert ambiguous == []
