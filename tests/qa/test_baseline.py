"""Playback before and after an upgrade, and the folder that keeps it."""

import io
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from core.errors import InputError, UnavailableError
from core.playback_check import PlaybackCheck, PlaybackFault, QaVerdict
from qa.baseline import AFTER, BEFORE, BaselineFolder, BaselineHeader, encode_picture, list_baselines, open_baseline
from qa.page_changes import BaselineView, RegressionKind, compare_playback, count_by_kind, sort_worst_first
from tests.links.checker.test_browser_check import ARTICLE, OTHER
from tests.qa.test_page_changes import drawn, other_picture
from tests.qa.test_sample_strata import page

AT = "2026-01-01T00:00:00.000Z"
SEED = drawn()


def checked(score: float | None = 0.99, verdict: QaVerdict = QaVerdict.GOOD, **more: Any) -> PlaybackCheck:
    check = PlaybackCheck("id-1", "https://a.example/", AT, "images", AT, "engine 1", verdict, score=score)
    return replace(check, **more)


def shown(picture: bytes | None = SEED, text: str | None = ARTICLE, check: PlaybackCheck | None = None) -> BaselineView:
    return BaselineView(check or checked(), picture, text)


NOT_SHOWN = checked(0.0, QaVerdict.BROKEN, faults=(PlaybackFault.NOT_SHOWN,), reason="Status 503.")
TAKEN_DOWN = checked(None, QaVerdict.UNCHECKED, reason="Taken down.")


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (shown(), shown(), RegressionKind.UNCHANGED),
        (shown(), shown(check=checked(0.985)), RegressionKind.UNCHANGED),
        (shown(), shown(check=checked(0.9)), RegressionKind.WORSE),
        (shown(), shown(check=checked(0.986, QaVerdict.DOUBTFUL)), RegressionKind.WORSE),
        (shown(check=checked(0.9)), shown(), RegressionKind.BETTER),
        (shown(), shown(text=OTHER), RegressionKind.WORSE),
        (shown(), shown(text=ARTICLE + " And more."), RegressionKind.CHANGED),
        (shown(), shown(picture=other_picture()), RegressionKind.WORSE),
        (shown(), shown(check=NOT_SHOWN), RegressionKind.WORSE),
        (shown(check=NOT_SHOWN), shown(), RegressionKind.BETTER),
        (shown(check=NOT_SHOWN), shown(check=NOT_SHOWN), RegressionKind.UNCHANGED),
        (shown(), shown(check=TAKEN_DOWN), RegressionKind.GONE),
        (shown(None, None), shown(None, None), RegressionKind.UNCHANGED),
        (shown(picture=other_picture(), check=checked(0.5)), shown(check=checked(0.99)), RegressionKind.BETTER),
    ],
    ids=[
        *("same", "noise", "less-alike", "falls", "more-alike", "other-words", "more-words"),
        *("other-picture", "not-shown", "shown-again", "never-shown", "taken-down", "nothing"),
        "better-though-other",
    ],
)
def test_a_page_gets_better_or_worse(before: BaselineView, after: BaselineView, kind: RegressionKind) -> None:
    """By both looks held against each other, and by their likeness to the capture."""
    regression = compare_playback(before, after)

    assert (regression.kind, bool(regression.reason)) == (kind, kind is not RegressionKind.UNCHANGED), regression


def test_the_worst_come_first() -> None:
    """And every kind is counted."""
    regressions = [
        compare_playback(shown(), shown()),
        compare_playback(shown(), shown(check=checked(0.9))),
        compare_playback(shown(check=checked(0.9)), shown()),
        compare_playback(shown(), shown(check=checked(0.5))),
        compare_playback(shown(), shown(check=TAKEN_DOWN)),
    ]

    order = [(each.kind, each.after.score) for each in sort_worst_first(regressions)]

    assert order[:3] == [(RegressionKind.WORSE, 0.5), (RegressionKind.WORSE, 0.9), (RegressionKind.GONE, None)]
    assert count_by_kind(regressions)[RegressionKind.WORSE] == 2
    assert count_by_kind([])[RegressionKind.CHANGED] == 0


HEADER = BaselineHeader("spring", "images", "engine 1", AT, 7, tuple(page(number, "a.example") for number in range(3)))


@pytest.fixture
def baseline(tmp_path: Path) -> BaselineFolder:
    """Return a baseline that was begun."""
    folder = open_baseline(tmp_path / "quality", "spring")
    folder.create(HEADER)
    return folder


def test_a_baseline_reads_back(baseline: BaselineFolder) -> None:
    """Its pages, and what each showed, without loss."""
    baseline.store(BEFORE, shown(encode_picture(SEED)))

    (check,) = baseline.checks(BEFORE).values()
    back = baseline.shown(BEFORE, check)

    assert baseline.header() == HEADER
    assert (back.text, check) == (ARTICLE, checked())
    assert back.picture is not None
    with Image.open(io.BytesIO(back.picture)) as one, Image.open(io.BytesIO(SEED)) as other:
        assert one.convert("RGB").tobytes() == other.convert("RGB").tobytes()
    assert [each.name for each in list_baselines(baseline.folder.parent)] == ["spring"]


@given(st.text(max_size=50))
def test_any_text_is_kept(text: str) -> None:
    """Lone surrogates, which no file can hold, are no change."""
    with TemporaryDirectory() as folder:
        baseline = BaselineFolder(Path(folder))
        baseline.store(BEFORE, shown(None, text))
        baseline.store(AFTER, shown(None, text))
        before, after = (baseline.shown(when, checked()) for when in (BEFORE, AFTER))

    assert compare_playback(before, after).kind is RegressionKind.UNCHANGED


def test_an_interrupted_run_goes_on_after_its_last_whole_line(baseline: BaselineFolder) -> None:
    """A line that a crash tore is no check, and the next one is not glued to it."""
    baseline.store(BEFORE, shown())
    lines = baseline.folder / BEFORE / "checks.jsonl"
    lines.write_text(lines.read_text() + '{"page_id": "id-2", "ur')

    baseline.store(BEFORE, shown(check=checked(page_id="id-3")))

    assert list(baseline.checks(BEFORE)) == ["id-1", "id-3"]


def test_looks_of_another_engine_are_started_again(baseline: BaselineFolder) -> None:
    """Those of the same one are gone on with, unless it is asked otherwise."""
    counts = []
    for engine, again in (("2", False), ("2", False), ("3", False), ("3", True)):
        baseline.begin_after(engine, again=again)
        counts.append(len(baseline.checks(AFTER)))
        baseline.store(AFTER, shown())

    assert counts == [0, 1, 0, 0]


def test_what_is_no_baseline_is_told(tmp_path: Path, baseline: BaselineFolder) -> None:
    """A name that leads elsewhere, one that is taken, one that is not there, a damaged one."""
    root = baseline.folder.parent
    for name in ("../spring", "", "a/b", ".hidden", "x" * 65):
        with pytest.raises(InputError):
            open_baseline(root, name)
    with pytest.raises(InputError):
        baseline.create(HEADER)
    with pytest.raises(UnavailableError):
        open_baseline(root, "summer").header()
    (baseline.folder / "baseline.json").write_text("[1]")
    with pytest.raises(InputError):
        baseline.header()
    assert list(list_baselines(root)) == []
    baseline.remove()
    assert not baseline.folder.exists()
    with pytest.raises(UnavailableError):
        baseline.remove()


def test_a_poisoned_page_id_writes_nowhere(baseline: BaselineFolder, tmp_path: Path) -> None:
    """Page ids come from an index."""
    for page_id in ("../../evil", "a/b", "", "é"):
        with pytest.raises(InputError):
            baseline.store(BEFORE, shown(check=checked(page_id=page_id)))
    assert not list(tmp_path.rglob("evil*"))
    assert encode_picture(b"no picture") is None
    assert encode_picture(None) is None


def test_a_tall_picture_is_kept_whole() -> None:
    """WebP ends at 16,383 pixels."""
    image = Image.new("RGB", (20, 17_000), "white")
    out = io.BytesIO()
    image.save(out, "PNG")

    picture = encode_picture(out.getvalue())

    assert picture is not None
    with Image.open(io.BytesIO(picture)) as back:
        assert back.size == (20, 17_000)
