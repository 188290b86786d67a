"""`weboid wiki read`: what a person or a program is shown of a page's citations."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

PAGE = (
    "Text.<ref>{{cite web|url=http://a.test/x|title=A title|access-date=5 March 2020}}</ref>"
    "{{dead link}}\n\n* [https://web.archive.org/web/2015/http://b.test/ B]\n"
)
Read = Callable[..., tuple[int, str, str]]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Read:
    """Return a function that runs `weboid wiki read` on a page as `main` does: exit code, stdout and stderr."""

    def run(page: str | bytes, *options: str) -> tuple[int, str, str]:
        file = tmp_path / "page.wiki"
        file.write_bytes(page if isinstance(page, bytes) else page.encode())
        monkeypatch.setattr(sys, "argv", ["weboid", "wiki", "read", str(file), *options])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return run


def test_citations_are_shown_with_their_lines(read: Read) -> None:
    """For people: where, what, and what the text says of it."""
    code, out, _ = read(PAGE)
    assert code == ExitCode.OK
    assert "line 1: http://a.test/x  (citation cite web)" in out
    assert "seen: 2020-03-05" in out
    assert "marked by: dead link" in out
    assert "line 3: http://b.test/  (brackets)" in out
    assert "the archive's address replaces the original" in out


def test_machines_get_places_that_hold_in_the_text(read: Read) -> None:
    """Offsets count code points."""
    code, out, _ = read("é " + PAGE, "--json")
    assert code == ExitCode.OK
    first, second = json.loads(out)["citations"]
    start, end = first["url_span"]
    assert ("é " + PAGE)[start:end] == first["url"] == "http://a.test/x"
    assert (first["access_date"], first["is_said_dead"]) == ("2020-03-05", True)
    assert (second["archive_date"], second["line"]) == ("2015-01-01", 3)


def test_a_template_map_can_be_tried(read: Read, tmp_path: Path) -> None:
    """Laid over the language's, as a wiki's settings are."""
    own = tmp_path / "own.toml"
    own.write_text('[[citation]]\nnames = ["Quelle"]\nparameters.url = ["adresse"]\n')
    page = "{{Quelle|adresse=http://a.test/x}}"
    assert "(template Quelle)" in read(page)[1]
    assert "(citation Quelle)" in read(page, "--templates", str(own))[1]
    own.write_text("citation = 1")
    code, _, err = read(page, "--templates", str(own))
    assert (code, "templates.citation must be a list" in err) == (ExitCode.INPUT, True)
    own.write_text("citation = ")
    assert "is not TOML" in read(page, "--templates", str(own))[2]


def test_a_language_without_a_template_map_is_reported(read: Read) -> None:
    """The map that is used instead is named; a variant has that of its language."""
    code, out, message = read(PAGE, "--language", "xx")
    _, _, silent = read(PAGE, "--language", "de-AT")

    assert (code, silent) == (ExitCode.OK, "")
    assert out.startswith("line 1: ")
    assert message == "xx has no template map, so that of en is used; maps: de, en.\n"


def test_a_malformed_url_ends_with_1(read: Read) -> None:
    """So that a check of a page fails."""
    assert read("{{cite web|url=www.a.test}}")[0] == ExitCode.SOME_FAILED
    assert read("nothing here")[:2] == (ExitCode.OK, "No link was found.\n")


def test_what_is_no_text_is_refused_with_the_reason(read: Read) -> None:
    """Bytes that are no UTF-8."""
    code, _, err = read(b"\xff\xfe")
    assert (code, "is not UTF-8 (byte 0)" in err) == (ExitCode.INPUT, True)


def test_what_a_page_holds_cannot_steer_a_terminal(read: Read) -> None:
    """Control characters and direction marks are shown as what they are: hostile."""
    _, out, _ = read("[http://a.test/x \x1b[2Jtitle\u202e]")
    assert "\x1b" not in out
    assert "\u202e" not in out
