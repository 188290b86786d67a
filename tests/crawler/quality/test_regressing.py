"""Playback before and after an upgrade, and the folder that keeps it."""

import io
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from core.errors import InputError, UnavailableError
from core.quality import Check, Fault, Verdict
from crawler.quality.baselines import (
    AFTER,
    BEFORE,
    Baseline,
    Header,
    Shown,
    baseline_at,
    baselines_in,
    kept_picture,
)
from crawler.quality.regressing import Course, counted, regression, worst_first
from tests.crawler.quality.test_changes import drawn, other_picture
from tests.crawler.quality.test_strata import page
from tests.links.test_drift import ARTICLE, OTHER

AT = "2026-01-01T00:00:00.000Z"
SEED = drawn()


def checked(score: float | None = 0.99, verdict: Verdict = Verdict.GOOD, **more: Any) -> Check:
    check = Check("id-1", "https://a.example/", AT, "images", AT, "engine 1", verdict, score=score)
    return replace(check, **more)


def shown(
    picture: bytes | None = SEED, text: str | None = ARTICLE, check: Check | None = None
) -> Shown:
    return Shown(check or checked(), picture, text)


NOT_SHOWN = checked(0.0, Verdict.BROKEN, faults=(Fault.NOT_SHOWN,), reason="Status 503.")
TAKEN_DOWN = checked(None, Verdict.UNCHECKED, reason="Taken down.")


@pytest.mark.parametrize(
    ("before", "after", "course"),
    [
        (shown(), shown(), Course.UNCHANGED),
        (shown(), shown(check=checked(0.985)), Course.UNCHANGED),
        (shown(), shown(check=checked(0.9)), Course.WORSE),
        (shown(), shown(check=checked(0.986, Verdict.DOUBTFUL)), Course.WORSE),
        (shown(check=checked(0.9)), shown(), Course.BETTER),
        (shown(), shown(text=OTHER), Course.WORSE),
        (shown(), shown(text=ARTICLE + " And more."), Course.CHANGED),
        (shown(), shown(picture=other_picture()), Course.WORSE),
        (shown(), shown(check=NOT_SHOWN), Course.WORSE),
        (shown(check=NOT_SHOWN), shown(), Course.BETTER),
        (shown(check=NOT_SHOWN), shown(check=NOT_SHOWN), Course.UNCHANGED),
        (shown(), shown(check=TAKEN_DOWN), Course.GONE),
        (shown(None, None), shown(None, None), Course.UNCHANGED),
        (
            shown(picture=other_picture(), check=checked(0.5)),
            shown(check=checked(0.99)),
            Course.BETTER,
        ),
    ],
    ids=[
        *("same", "noise", "less-alike", "falls", "more-alike", "other-words", "more-words"),
        *("other-picture", "not-shown", "shown-again", "never-shown", "taken-down", "nothing"),
        "better-though-other",
    ],
)
def test_a_page_gets_better_or_worse(before: Shown, after: Shown, course: Course) -> None:
    """By both looks held against each other, and by their likeness to the capture."""
    found = regression(before, after)

    assert (found.course, bool(found.reason)) == (course, course is not Course.UNCHANGED), found


def test_the_worst_come_first() -> None:
    """And every course is counted."""
    found = [
        regression(shown(), shown()),
        regression(shown(), shown(check=checked(0.9))),
        regression(shown(check=checked(0.9)), shown()),
        regression(shown(), shown(check=checked(0.5))),
        regression(shown(), shown(check=TAKEN_DOWN)),
    ]

    order = [(each.course, each.after.score) for each in worst_first(found)]

    assert order[:3] == [(Course.WORSE, 0.5), (Course.WORSE, 0.9), (Course.GONE, None)]
    assert counted(found)[Course.WORSE] == 2
    assert counted([])[Course.CHANGED] == 0


HEADER = Header(
    "spring", "images", "engine 1", AT, 7, tuple(page(number, "a.example") for number in range(3))
)


@pytest.fixture
def baseline(tmp_path: Path) -> Baseline:
    """One that was begun."""
    found = baseline_at(tmp_path / "quality", "spring")
    found.create(HEADER)
    return found


def test_a_baseline_reads_back(baseline: Baseline) -> None:
    """Its pages, and what each showed, without loss."""
    baseline.keep(BEFORE, shown(kept_picture(SEED)))

    (check,) = baseline.checks(BEFORE).values()
    back = baseline.shown(BEFORE, check)

    assert baseline.header() == HEADER
    assert (back.text, check) == (ARTICLE, checked())
    assert back.picture is not None
    with Image.open(io.BytesIO(back.picture)) as one, Image.open(io.BytesIO(SEED)) as other:
        assert one.convert("RGB").tobytes() == other.convert("RGB").tobytes()
    assert [each.name for each in baselines_in(baseline.folder.parent)] == ["spring"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=50))
def test_any_text_is_kept(text: str) -> None:
    """Lone surrogates, which no file can hold, are no change."""
    with TemporaryDirectory() as folder:
        baseline = Baseline(Path(folder))
        baseline.keep(BEFORE, shown(text=text))
        baseline.keep(AFTER, shown(text=text))
        before, after = (baseline.shown(when, checked()) for when in (BEFORE, AFTER))

    assert regression(before, after).course is Course.UNCHANGED


def test_an_interrupted_run_goes_on_after_its_last_whole_line(baseline: Baseline) -> None:
    """A line that a crash tore is no check, and the next one is not glued to it."""
    baseline.keep(BEFORE, shown())
    lines = baseline.folder / BEFORE / "checks.jsonl"
    lines.write_text(lines.read_text() + '{"page_id": "id-2", "ur')

    baseline.keep(BEFORE, shown(check=checked(page_id="id-3")))

    assert list(baseline.checks(BEFORE)) == ["id-1", "id-3"]


def test_looks_of_another_engine_are_begun_anew(baseline: Baseline) -> None:
    """Those of the same one are gone on with, unless it is asked otherwise."""
    counts = []
    for engine, again in (("2", False), ("2", False), ("3", False), ("3", True)):
        baseline.begin_after(engine, again=again)
        counts.append(len(baseline.checks(AFTER)))
        baseline.keep(AFTER, shown())

    assert counts == [0, 1, 0, 0]


def test_what_is_no_baseline_is_told(tmp_path: Path, baseline: Baseline) -> None:
    """A name that leads elsewhere, one that is taken, one that is not there, a damaged one."""
    root = baseline.folder.parent
    for name in ("../spring", "", "a/b", ".hidden", "x" * 65):
        with pytest.raises(InputError):
            baseline_at(root, name)
    with pytest.raises(InputError):
        baseline.create(HEADER)
    with pytest.raises(UnavailableError):
        baseline_at(root, "summer").header()
    (baseline.folder / "baseline.json").write_text("[1]")
    with pytest.raises(InputError):
        baseline.header()
    assert list(baselines_in(root)) == []
    baseline.remove()
    assert not baseline.folder.exists()
    with pytest.raises(UnavailableError):
        baseline.remove()


def test_a_poisoned_page_id_writes_nowhere(baseline: Baseline, tmp_path: Path) -> None:
    """Page ids come from an index."""
    for page_id in ("../../evil", "a/b", "", "é"):
        with pytest.raises(InputError):
            baseline.keep(BEFORE, shown(check=checked(page_id=page_id)))
    assert not list(tmp_path.rglob("evil*"))
    assert kept_picture(b"no picture") is None
    assert kept_picture(None) is None


def test_a_tall_picture_is_kept_whole() -> None:
    """WebP ends at 16,383 pixels."""
    image = Image.new("RGB", (20, 17_000), "white")
    out = io.BytesIO()
    image.save(out, "PNG")

    kept = kept_picture(out.getvalue())

    assert kept is not None
    with Image.open(io.BytesIO(kept)) as back:
        assert back.size == (20, 17_000)
