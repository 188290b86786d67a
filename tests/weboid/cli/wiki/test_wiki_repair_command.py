"""`weboid wiki repair`: what an edit would do, shown without a wiki."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode
from weboid.cli.wiki.wikitext_files import skip_reason_line
from wiki.wikitext.citation_model import Citation, CitationForm, NoRepairReason, TextSpan, UnrepairedCitation

A = "http://x.test/a"
COPY = f"https://web.archive.org/web/20150102030405/{A}"
REMEDIES = {A: {"condition": "dead", "copy": {"address": COPY, "timestamp": "20150102030405"}}}
PAGE = f"é\n* [{A} T]\n* other\n"
MENDED = f"é\n* [{A} T] {{{{webarchive|url={COPY}|date=2 January 2015}}}}\n* other\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `weboid wiki repair` on a page as `main` does: exit code, stdout and stderr."""

    def repair(page: str, remedies: object, *options: str) -> tuple[int, str, str]:
        file, known = tmp_path / "page.wiki", tmp_path / "remedies.json"
        file.write_text(page, "utf-8")
        known.write_text(remedies if isinstance(remedies, str) else json.dumps(remedies), "utf-8")
        argv = ["weboid", "wiki", "repair", str(file), "--remedies", str(known), *options]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return repair


def test_the_text_is_printed_mended(run: Run) -> None:
    """To the byte, so that it can be saved."""
    assert run(PAGE, REMEDIES) == (ExitCode.OK, MENDED, "")


def test_a_diff_shows_what_would_change(run: Run) -> None:
    """With the lines around it."""
    code, out, _ = run(PAGE, REMEDIES, "--diff")
    assert code == ExitCode.OK
    assert out.splitlines()[:2] == ["--- page.wiki", "+++ page.wiki (repaired)"]
    assert f"-* [{A} T]" in out.splitlines()


def test_machines_get_each_change(run: Run) -> None:
    """Kind, link, before and after."""
    _, out, _ = run(PAGE, REMEDIES, "--json")
    document = json.loads(out)
    assert document["text"] == MENDED
    (change,) = document["changes"]
    assert (change["kind"], change["url"], change["archive_url"]) == ("archived", A, COPY)


def test_what_is_left_is_told(run: Run) -> None:
    """With its reason, and another exit code."""
    code, out, err = run(f"== [{A} T] ==\n", REMEDIES)
    assert (code, out) == (ExitCode.SOME_FAILED, f"== [{A} T] ==\n")
    why = "it is in a parameter, a heading or a gallery"
    assert err == f"left unchanged (place: {why}): {A}\n"


@pytest.mark.parametrize("wish", ["{{nobots}}", "{{bots|deny=Weboid}}", "{{in use}}"])
def test_a_page_that_wants_no_bots_is_left_alone(run: Run, wish: str) -> None:
    """As the bot leaves it, and every link that has a remedy is told."""
    code, out, err = run(wish + PAGE, REMEDIES, "--bot", "Weboid")
    assert (code, out) == (ExitCode.SOME_FAILED, wish + PAGE)
    assert err.startswith("left unchanged (forbidden: the page excludes bots")
    *_, last_line = run(wish + PAGE, REMEDIES, "--bot", "Weboid", "--json")[1].splitlines()
    assert json.loads(last_line)["refused"] == [{"url": A, "reason": "forbidden"}]


@pytest.mark.parametrize("reason", NoRepairReason)
def test_each_reason_has_words(reason: NoRepairReason) -> None:
    """Nobody has to look one up."""
    where = TextSpan(0, 1)
    line = skip_reason_line(UnrepairedCitation(Citation(A, CitationForm.BARE, where, where), reason))
    assert line.startswith(f"left unchanged ({reason}: ")


@pytest.mark.parametrize(
    ("remedies", "words"),
    [
        ("no json", "is not JSON"),
        ([], "must be an object"),
        ({A: {"condition": "gone"}}, "is one of dead, usurped, alive"),
        ({A: {"condition": "dead", "copies": []}}, "must be an object with"),
        ({A: {"condition": "dead", "copy": {"adress": "x"}}}, "has an invalid copy"),
        ({A: {"condition": "dead", "bad_archives": "x"}}, "not a list of addresses"),
    ],
    ids=["no json", "a list", "a condition", "a key", "a copy", "bad archives"],
)
def test_a_mistake_in_the_remedies_is_named(run: Run, remedies: object, words: str) -> None:
    """The message says what is wrong and what would be valid."""
    code, _, err = run(PAGE, remedies)
    assert code == ExitCode.INPUT
    assert words in " ".join(err.split())
