"""Verdicts on labelled pairs: ours, by pictures alone and with texts, beside pixels alone.

The pairs are those of `tests/support/labelled`: pages of made and of real sites, changed in the real browser, of
some forty kinds, each with its rule. A page that is doubtful counts as not broken. The baseline
(`bench.pixel_only`) is what browsertrix scores; it is given the bound that suits the whole set best, and
browsertrix's own besides. Pairs that no rule was made with follow (`bench.held_out`). Cross-validated means: the bounds of our rules are fitted again on all sites
but some, and hold for those that were left out.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice

from bench import held_out as unseen
from bench import report
from bench.pixel_only import MODERATE, SEVERE, picture_match, text_match
from core.playback_check import QaVerdict
from qa.compare.content_comparison import TextComparison, compare_texts
from qa.compare.picture_comparison import PictureComparison, compare_pictures
from qa.compare.verdict_rules import THRESHOLDS, VerdictThresholds, judge_copy
from tests.support.labelled.kinds import RULES, LabelledKind
from tests.support.labelled.pairs import LabelledPair, read_pairs, sites

FOLDS = 5
_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6)  # of each bound, when bounds are fitted again
_IN_A_HURRY = 3  # every so many-th site and, of these, pair is compared


@dataclass(frozen=True, slots=True)
class PairFigures:
    """A pair's figures; `pixels` and `letters` are the baseline's."""

    site: str
    kind: LabelledKind
    broken: bool
    picture: PictureComparison
    text: TextComparison
    pixels: float
    letters: float


@dataclass(frozen=True, slots=True)
class LabelledShares:
    """Counts of right and wrong verdicts."""

    rightly: int
    wrongly: int
    missed: int

    @property
    def precision(self) -> float:
        """Share of those called broken that are."""
        called = self.rightly + self.wrongly
        return self.rightly / called if called else 1.0

    @property
    def recall(self) -> float:
        """Share of those that are broken that are called so."""
        broken = self.rightly + self.missed
        return self.rightly / broken if broken else 1.0

    @property
    def middle(self) -> float:
        """Return the harmonic mean of precision and recall."""
        return 2 * self.rightly / max(2 * self.rightly + self.wrongly + self.missed, 1)


def compare(pairs: Iterable[LabelledPair]) -> tuple[list[PairFigures], float]:
    """Return the figures of all pairs, and the CPU seconds that ours took."""
    rows, spent = [], 0.0
    for pair in pairs:
        began = time.process_time()
        picture = compare_pictures(pair.seen, pair.shown)
        text = compare_texts(pair.seen_text, pair.shown_text)
        spent += time.process_time() - began
        pixels = picture_match(pair.seen, pair.shown)
        letters = text_match(pair.seen_text, pair.shown_text)
        rows.append(PairFigures(pair.site, pair.kind, pair.broken, picture, text, pixels, letters))
    return rows, spent


def count(rows: Iterable[PairFigures], called: Callable[[PairFigures], bool]) -> LabelledShares:
    """Hold what is called broken against what is."""
    tally = Counter((called(row), row.broken) for row in rows)
    return LabelledShares(tally[True, True], tally[True, False], tally[False, True])


def by_pictures(bounds: VerdictThresholds = THRESHOLDS) -> Callable[[PairFigures], bool]:
    """Return our verdict by pictures alone."""
    return lambda row: judge_copy(row.picture, bounds=bounds).verdict is QaVerdict.BROKEN


def by_both(bounds: VerdictThresholds = THRESHOLDS) -> Callable[[PairFigures], bool]:
    """Return our verdict by pictures and texts."""
    return lambda row: judge_copy(row.picture, row.text, bounds=bounds).verdict is QaVerdict.BROKEN


def by_pixels(least: float) -> Callable[[PairFigures], bool]:
    """Return the baseline by pictures alone: broken when less than the share `least` of the pixels match."""
    return lambda row: row.pixels < least


def by_pixels_and_letters(least: float, least_letters: float) -> Callable[[PairFigures], bool]:
    """Return the baseline by pictures and texts: broken when either match is below its bound."""
    return lambda row: row.pixels < least or row.letters < least_letters


def fitted(
    rows: Sequence[PairFigures], called: Callable[[VerdictThresholds], Callable[[PairFigures], bool]]
) -> VerdictThresholds:
    """Return bounds that suit the rows best, found from far too strict ones, a bound at a time."""
    best = VerdictThresholds(**{each.name: getattr(THRESHOLDS, each.name) * 0.5 for each in fields(VerdictThresholds)})
    best = replace(best, kept=THRESHOLDS.kept, parts=THRESHOLDS.parts, doubt=THRESHOLDS.doubt)
    for _ in range(2):
        for name in ("lost", "changed", "harm", "rewritten", "wall", "emptied"):
            tried = [replace(best, **{name: getattr(THRESHOLDS, name) * factor}) for factor in _FACTORS]
            scored = [(count(rows, called(each)).middle, each) for each in tried]
            most = max(score for score, _ in scored)
            fitting = [each for score, each in scored if score == most]
            best = fitting[len(fitting) // 2]  # in the middle of the gap
    return best


def held_out(
    rows: Sequence[PairFigures], called: Callable[[VerdictThresholds], Callable[[PairFigures], bool]]
) -> LabelledShares:
    """Judge each site with bounds that were fitted on other sites (cross-validation)."""
    names = sorted({row.site for row in rows})
    tally: Counter[tuple[bool, bool]] = Counter()
    for fold in range(FOLDS):
        left_out = set(names[fold::FOLDS])
        bounds = fitted([row for row in rows if row.site not in left_out], called)
        decide = called(bounds)
        tally.update((decide(row), row.broken) for row in rows if row.site in left_out)
    return LabelledShares(tally[True, True], tally[True, False], tally[False, True])


def best_pixels(rows: Sequence[PairFigures]) -> tuple[float, LabelledShares]:
    """Return the bound that suits the baseline best on the very pairs it is measured on, and its counts."""
    bounds = sorted({row.pixels for row in rows} | {1.01})
    scored = [(each, count(rows, by_pixels(each))) for each in bounds]
    return max(scored, key=lambda each: each[1].middle)


def best_pixels_and_letters(rows: Sequence[PairFigures]) -> tuple[float, float, LabelledShares]:
    """Return the best bounds of the baseline with texts, tried in steps of 0.02 (finer near 1), and their counts."""
    steps = [step / 50 for step in range(51)] + [0.99, 0.995, 0.999]
    scored = [(one, other, count(rows, by_pixels_and_letters(one, other))) for one in steps for other in steps]
    return max(scored, key=lambda each: each[2].middle)


def by_kind(rows: Sequence[PairFigures], pixels: float) -> list[tuple[str, ...]]:
    """Return a row for each kind: how often each method called it broken."""
    table: list[tuple[str, ...]] = [("kind", "label", "pairs", "ours, pictures", "with texts", "pixel-only")]
    for kind in LabelledKind:
        some = [row for row in rows if row.kind is kind]
        if some:
            called = (by_pictures(), by_both(), by_pixels(pixels))
            counts = [str(sum(map(decide, some))) for decide in called]
            label = "broken" if RULES[kind].broken else "fine"
            table.append((str(kind), label, str(len(some)), *counts))
    return table


def figures(*, quick: bool) -> dict[str, float]:
    """Compare, and hold against the labels; tables are printed."""
    step = _IN_A_HURRY if quick else 1
    rows, spent = compare(islice(read_pairs(sites()[::step]), 0, None, step))
    pictures, both = count(rows, by_pictures()), count(rows, by_both())
    pictures_out, both_out = held_out(rows, by_pictures), held_out(rows, by_both)
    pixels, pixels_best = best_pixels(rows)
    one, other, letters_best = best_pixels_and_letters(rows)
    broken = sum(row.broken for row in rows)
    print(f"{len(rows)} pairs of {len({row.site for row in rows})} sites, {broken} broken; called broken:\n")
    report.table(by_kind(rows, pixels))
    print()
    lines = {
        "ours, pictures alone": pictures,
        "ours, pictures and texts": both,
        "ours, pictures, sites held out": pictures_out,
        "ours, both, sites held out": both_out,
        f"pixel-only, its best bound {pixels:.3f}": pixels_best,
        f"pixel-only below {SEVERE}": count(rows, by_pixels(SEVERE)),
        f"pixel-only below {MODERATE}": count(rows, by_pixels(MODERATE)),
        f"pixels and edit distance, best {one:.2f}, {other:.2f}": letters_best,
    }
    head = ("judge", "precision", "recall", "rightly", "wrongly", "missed")
    report.table(
        [head]
        + [
            (name, f"{f.precision:.3f}", f"{f.recall:.3f}", *map(str, (f.rightly, f.wrongly, f.missed)))
            for name, f in lines.items()
        ]
    )
    print()
    return unseen.figures(quick=quick) | {
        "precision": both.precision,
        "recall": both.recall,
        "pictures_precision": pictures.precision,
        "pictures_recall": pictures.recall,
        "held_out_precision": both_out.precision,
        "held_out_recall": both_out.recall,
        "pictures_held_out_precision": pictures_out.precision,
        "pictures_held_out_recall": pictures_out.recall,
        "pixel_precision": pixels_best.precision,
        "pixel_recall": pixels_best.recall,
        "pixel_text_precision": letters_best.precision,
        "pixel_text_recall": letters_best.recall,
        "labelled_pairs": float(len(rows)),
        "labelled_ms": spent / len(rows) * 1_000,
    }


if __name__ == "__main__":
    report.figures("qa_labelled", figures(quick=report.arguments(__doc__ or "").quick))
