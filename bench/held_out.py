"""The part of `bench.qa_labelled` that judges pairs which no rule was made with (`tests/support/heldout`).

Each has one of three labels: good; broken; either, when something beside the page's matter is missing or
looks otherwise. Of the last it is wrong to say broken, and right to say good or doubtful; since people
would not agree about many of these, figures without them are printed, too, and those of the half of the
designs on which the last bound was not set.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from bench import report
from bench.pixel_only import picture_match
from core.playback_check import QaVerdict
from qa.compare.content_comparison import ResourceComparison, TextComparison, compare_resources, compare_texts
from qa.compare.picture_comparison import PictureComparison, compare_pictures
from qa.compare.verdict_rules import CopyJudgement, judge_copy
from tests.support.heldout.kinds import PairLabel
from tests.support.heldout.pairs import HeldOut, read_held_out, sites

_IN_A_HURRY = 8  # every so many-th design is compared


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair's figures, without its pictures; `pixels` is the baseline's.

    Attributes:
        site: its page's design.
        kind: what is between the two.
        label: what is right to say.
        picture: its pictures compared.
        text: its texts.
        parts: what its pages asked for.
        pixels: share of the pixels that match; 1 when it was not asked for.
    """

    site: str
    kind: str
    label: PairLabel
    picture: PictureComparison
    text: TextComparison
    parts: ResourceComparison
    pixels: float = 1.0

    @property
    def name(self) -> str:
        """Return ``site: kind``, for output."""
        return f"{self.site}: {self.kind}"

    def by_picture(self) -> CopyJudgement:
        """Judge by the pictures alone, as `weboid qa compare SEEN SHOWN` does."""
        return judge_copy(self.picture)

    def by_all(self) -> CopyJudgement:
        """Judge by pictures, texts and resources, as `weboid qa` does."""
        return judge_copy(self.picture, self.text, self.parts)


def judged(pair: HeldOut, *, pixels: bool) -> JudgedPair:
    """Return a pair's figures; `pixels` adds the baseline's, which take as long again."""
    one, other = pair.seen, pair.shown
    return JudgedPair(
        pair.site,
        pair.kind,
        pair.label,
        compare_pictures(one.picture, other.picture),
        compare_texts(one.text, other.text),
        compare_resources(one.parts, other.parts),
        picture_match(one.picture, other.picture) if pixels else 1.0,
    )


def was_fitted_on(site: str) -> bool:
    """Return whether the bound of other text was set with this design in view: half of them, by a hash."""
    return bool(sha256(site.encode()).digest()[0] & 1)


@dataclass(frozen=True, slots=True)
class VerdictShares:
    """Shares of right and wrong verdicts on broken and on good pages."""

    rightly: int
    wrongly: int
    missed: int
    doubted: int
    good: int

    @property
    def precision(self) -> float:
        """Share of those called broken that are."""
        return self.rightly / max(self.rightly + self.wrongly, 1)

    @property
    def recall(self) -> float:
        """Share of those that are broken that are called so."""
        return self.rightly / max(self.rightly + self.missed, 1)


def shares(rows: Iterable[JudgedPair], judge: Callable[[JudgedPair], QaVerdict]) -> VerdictShares:
    """Hold what is said of each against its label."""
    pairs = [(judge(row), row.label) for row in rows]
    broken, good = QaVerdict.BROKEN, [verdict for verdict, label in pairs if label is PairLabel.GOOD]
    return VerdictShares(
        rightly=sum(v is broken and each is PairLabel.BROKEN for v, each in pairs),
        wrongly=sum(v is broken and each is not PairLabel.BROKEN for v, each in pairs),
        missed=sum(v is not broken and each is PairLabel.BROKEN for v, each in pairs),
        doubted=sum(verdict is not QaVerdict.GOOD for verdict in good),
        good=len(good),
    )


def by_pixels(least: float) -> Callable[[JudgedPair], QaVerdict]:
    """Return the baseline: a pair is broken when less than the share `least` of its pixels match."""
    return lambda row: QaVerdict.BROKEN if row.pixels < least else QaVerdict.GOOD


def best_pixels(rows: Sequence[JudgedPair]) -> tuple[float, VerdictShares]:
    """Return the bound that suits the baseline best on the very pairs it is measured on, and its counts."""

    def middle(counts: VerdictShares) -> float:
        return 2 * counts.rightly / (2 * counts.rightly + counts.wrongly + counts.missed)

    bounds = sorted({row.pixels for row in rows} | {1.01})
    scored = [(each, shares(rows, by_pixels(each))) for each in bounds]
    return max(scored, key=lambda each: middle(each[1]))


_ALL = "ours, texts and parts too"
JUDGES: dict[str, Callable[[JudgedPair], QaVerdict]] = {
    "ours, pictures alone": lambda row: row.by_picture().verdict,
    _ALL: lambda row: row.by_all().verdict,
}


def wrong(rows: Iterable[JudgedPair], judge: Callable[[JudgedPair], QaVerdict]) -> list[str]:
    """Return the pairs that are called broken and are not, or are broken and not called so."""
    return [
        f"{row.name} ({row.label}) {judge(row)}"
        for row in rows
        if (judge(row) is QaVerdict.BROKEN) != (row.label is PairLabel.BROKEN)
    ]


def figures(*, quick: bool) -> dict[str, float]:
    """Compare, and hold against the labels; tables are printed."""
    began = time.process_time()
    chosen = read_held_out(sites()[:: _IN_A_HURRY if quick else 1])
    rows = [judged(pair, pixels=True) for pair in chosen]
    least, pixels = best_pixels(rows)
    lines = {name: shares(rows, judge) for name, judge in JUDGES.items()}
    decided = [row for row in rows if row.label is not PairLabel.EITHER]
    lines |= {f"{name}, either left out": shares(decided, judge) for name, judge in JUDGES.items()}
    unfitted = [row for row in decided if not was_fitted_on(row.site)]
    lines |= {f"{name}, and fitted half too": shares(unfitted, judge) for name, judge in JUDGES.items()}
    lines[f"pixel-only, its best bound {least:.3f}"] = pixels
    print(f"Held out: {len(rows)} pairs of {len({row.site for row in rows})} pages:\n")
    head = ("judge", "precision", "recall", "rightly", "wrongly", "missed", "good doubted")
    cells = [
        (
            name,
            f"{each.precision:.3f}",
            f"{each.recall:.3f}",
            *map(str, (each.rightly, each.wrongly, each.missed)),
            f"{each.doubted} of {each.good}",
        )
        for name, each in lines.items()
    ]
    report.table([head, *cells])
    for name, judge in JUDGES.items():
        print(f"\nWrong, {name}:", *wrong(rows, judge), sep="\n  ")
    print(f"\n{time.process_time() - began:.1f} s of CPU, the baseline's too")
    alone, all_ = (lines[name] for name in JUDGES)
    return {
        "unseen_precision": all_.precision,
        "unseen_recall": all_.recall,
        "unseen_pictures_precision": alone.precision,
        "unseen_pictures_recall": alone.recall,
        "unseen_pixel_precision": pixels.precision,
        "unseen_pixel_recall": pixels.recall,
        "unseen_decided_precision": shares(decided, JUDGES[_ALL]).precision,
        "unseen_pairs": float(len(rows)),
    }


if __name__ == "__main__":
    report.figures("held_out", figures(quick=report.arguments(__doc__ or "").quick))
