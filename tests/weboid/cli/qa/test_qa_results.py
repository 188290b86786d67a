"""`weboid qa ls --html`, `marks` and `ls`: what checks found, on the terminal and in files."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.layout import COLLECTION_VERSION
from core.page_classes import PageClass
from core.playback_check import LostPart, QaVerdict
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from qa.check_table import RepairState
from tests.support.playback_fixtures import NOW
from tests.support.quality_builder import QualityBuilder, open_quality_builder, webp
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

Qa = Callable[..., tuple[int, str, str]]
SITE = "https://quality.example"


@pytest.fixture
def quality(tmp_path: Path) -> Iterator[QualityBuilder]:
    """Yield a collection with three checked pages."""
    with open_quality_builder(tmp_path) as it:
        it.builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        it.check(f"{SITE}/good", QaVerdict.GOOD, 0.99)
        lost = (LostPart(f"{SITE}/x.css", "missing"),)
        it.check(f"{SITE}/bad", score=0.2, lost=lost, pictures={"seen": webp(), "shown": webp()})
        it.check("https://other.example/doubt", QaVerdict.DOUBTFUL, 0.7, reason="=cmd()")
        yield it


@pytest.fixture
def qa(quality: QualityBuilder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Qa:
    """Return a function that runs `weboid qa`: exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        root = str(quality.builder.layout.root)
        monkeypatch.setattr(sys, "argv", ["weboid", "qa", *arguments, "--collection", root])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return run


def marks_file(root: Path, *marks: dict[str, Any], **facts: Any) -> Path:
    """Write a file of marks as a report does and return its path."""
    path = root / "marks.json"
    path.write_text(json.dumps({"weboid_marks": 1, "by": "Ada", "marks": marks, **facts}))
    return path


def test_ls_lists_the_worst_first(qa: Qa) -> None:
    """As a table, as JSON and as CSV, narrowed by the filters."""
    code, table, _ = qa("ls")
    objects = [json.loads(line) for line in qa("ls", "--json")[1].splitlines()]
    rows = list(csv.DictReader(io.StringIO(qa("ls", "--csv")[1])))
    narrow = [json.loads(line)["url"] for line in qa("ls", "--json", "--below", "80%")[1].splitlines()]

    assert code == ExitCode.OK
    assert [line.split()[0] for line in table.splitlines()] == ["score", "0.200", "0.700", "0.990"]
    assert [each["verdict"] for each in objects] == ["broken", "doubtful", "good"]
    assert objects[0]["lost"] == [{"url": f"{SITE}/x.css", "reason": "missing"}]
    assert [each["url"] for each in rows] == [each["url"] for each in objects]
    assert rows[1]["reason"] == "'=cmd()"
    assert narrow == [f"{SITE}/bad", "https://other.example/doubt"]
    assert len(qa("ls", "--json", "--host", "other.example")[1].splitlines()) == 1
    assert len(qa("ls", "--json", "--limit", "2")[1].splitlines()) == 2
    assert qa("ls", "--host", "a b")[0] == ExitCode.INPUT
    assert qa("ls", "--json", "--csv")[0] == ExitCode.INPUT


def test_report_writes_one_file(qa: Qa, tmp_path: Path) -> None:
    """With the pictures of the worst; written whole or not at all; narrowed, in a language."""
    out = tmp_path / "report.html"
    code, output, _ = qa("report", "--out", str(out))
    text = out.read_text()
    fewer = tmp_path / "fewer.html"
    qa("report", "--out", str(fewer), "--limit-pictures", "0", "--verdict", "broken", "--language", "de")

    assert code == ExitCode.OK
    assert "3 results" in output
    assert 'id="p0-seen"' in text
    assert f"{SITE}/good" in text
    assert 'id="p0-' not in fewer.read_text()
    assert f"{SITE}/good" not in fewer.read_text()
    assert "Qualität der Kopien" in fewer.read_text()
    assert qa("report", "--out", str(tmp_path / "no" / "x.html"))[0] == ExitCode.INPUT
    assert qa("report", "--out", str(out), "--origin", "archive.example")[0] == ExitCode.INPUT
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["fewer.html", "report.html"]
    assert list(tmp_path.glob(".*part*")) == []


@pytest.mark.parametrize("effect", TakedownEffect)
def test_report_leaves_out_what_was_taken_down(
    effect: TakedownEffect, qa: Qa, quality: QualityBuilder, tmp_path: Path
) -> None:
    """Rows and pictures; the operator's own list has it until it is erased."""
    takedown = Takedown(
        number=0, kind=TakedownKind.URL, what=f"{SITE}/bad", timestamp="", effect=effect, reason="Order.",
        ticket="T", actor="anna", decided_at=SystemClock().now() - timedelta(days=1), expires_at=None,
    )  # fmt: skip
    with closing(open_decisions(quality.builder.layout)) as store:
        takedowns.add_takedowns(store, [takedown])
    out = tmp_path / "report.html"
    output = qa("report", "--out", str(out))[1]

    assert "2 results" in output
    assert "/bad" not in out.read_text()
    assert 'id="p0-' not in out.read_text()
    assert f"{SITE}/bad" in qa("ls")[1]


def test_marks_count_as_if_given_on_the_front(qa: Qa, quality: QualityBuilder, tmp_path: Path) -> None:
    """Verdicts with their note and name, what is taken back, what is to be captured again."""
    good = quality.check(f"{SITE}/one", QaVerdict.DOUBTFUL, 0.8)
    again = quality.check(f"{SITE}/two", QaVerdict.GOOD, 0.95)
    path = marks_file(
        tmp_path,
        {"page_id": good, "level": "images", "verdict": "good", "recrawl": False, "note": "Fine."},
        {"page_id": again, "level": "images", "verdict": None, "recrawl": True, "note": ""},
    )
    code, output, _ = qa("marks", str(path))

    assert (code, output.strip()) == (ExitCode.OK, "good 1, recrawl 1")
    assert quality.row(good).review is QaVerdict.GOOD
    assert (quality.row(good).reviewed_by, quality.row(good).note) == ("Ada", "Fine.")
    assert quality.row(again).review is QaVerdict.UNCHECKED
    assert quality.row(again).repair is RepairState.WANTED
    clear = {"page_id": good, "level": "images", "verdict": "", "recrawl": False}
    qa("marks", str(marks_file(tmp_path, clear)), "--by", "Bo")
    assert quality.row(good).review is QaVerdict.UNCHECKED


def test_marks_of_unknown_captures_are_told(qa: Qa, tmp_path: Path) -> None:
    """The others are taken; the exit code says that some failed."""
    mark = {"page_id": "feedbeef", "level": "images", "verdict": "good", "recrawl": True}
    code, output, _ = qa("marks", str(marks_file(tmp_path, mark)))

    assert (code, output.strip()) == (ExitCode.SOME_FAILED, "unknown 2")


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"weboid_marks": 2, "marks": []}', '{"weboid_marks": 1}',
        '{"weboid_marks": 1, "marks": [{}]}', '{"weboid_marks": 1, "marks": [7]}', "[" * 100_000,
        '{"weboid_marks": 1, "marks": [{"page_id": 1, "level": "images", "verdict": "good"}]}',
        '{"weboid_marks": 1, "marks": [{"page_id": "a", "level": "images", "verdict": "splendid"}]}',
        '{"weboid_marks": 1, "marks": [{"page_id": "a", "level": "images", "verdict": "doubtful"}]}',
        "\xff\xfe",
    ],
)  # fmt: skip
def test_what_is_no_file_of_marks_changes_nothing(text: str, qa: Qa, quality: QualityBuilder, tmp_path: Path) -> None:
    """It ends with a sentence, before anything was written."""
    page_id = quality.check(f"{SITE}/one", page_class=PageClass.OK, at=NOW)
    path = tmp_path / "marks.json"
    path.write_text(text, encoding="latin-1")
    code, _, message = qa("marks", str(path))

    assert code == ExitCode.INPUT
    assert message.startswith("weboid: ")
    assert quality.row(page_id).review is QaVerdict.UNCHECKED
