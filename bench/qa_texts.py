"""Comparing texts of pages: MB/s of one core as they grow, beside edit distance and difflib on small ones.

The texts: pages of the manuals on the test web, put together until they are long enough, each held against
itself with a tenth of its words taken out. The baselines are what others score texts by, written as plainly
as anyone would: Levenshtein's distance by character in two rows, and `difflib.SequenceMatcher` by word. Both
grow with the square of the length, so each gets small texts only, and ours is measured on the same ones.
Seconds are those of the process' own CPU; the median of some rounds.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import random
import time
from collections.abc import Callable
from difflib import SequenceMatcher

from bench import report
from qa.compare.content_comparison import compare_texts
from tests.support.sites.articles import articles
from tests.support.sites.docs import library

SMALL, MIDDLE = 2_000, 20_000  # characters that the baselines get
SIZES = (4_000, 40_000, 400_000)
ROUNDS = {False: 9, True: 5}


def texts(size: int, prose: str, chance: random.Random) -> tuple[str, str]:
    """Return a text of `size` characters, and the same without about every tenth word."""
    begin = chance.randrange(max(1, len(prose) - size))
    seen = (prose[begin:] + prose)[:size]
    shown = " ".join(word for word in seen.split(" ") if chance.random() > 0.1)
    return seen, shown


def levenshtein(seen: str, shown: str) -> float:
    """Edit distance by character, as a share of the longer text."""
    before = list(range(len(shown) + 1))
    for row, one in enumerate(seen, 1):
        now = [row]
        for column, other in enumerate(shown, 1):
            least = before[column - 1] + (one != other)
            now.append(min(least, before[column] + 1, now[-1] + 1))
        before = now
    return 1 - before[-1] / max(len(seen), len(shown), 1)


def words(seen: str, shown: str) -> float:
    """Return the share of words that difflib matches."""
    return SequenceMatcher(None, seen.split(), shown.split(), autojunk=False).ratio()


def ours(seen: str, shown: str) -> float:
    """Return the score of our comparison."""
    return compare_texts(seen, shown).score


def speed(task: Callable[[str, str], float], pairs: list[tuple[str, str]]) -> tuple[float, float]:
    """Return MB/s of both texts together, and the score, each the median of the pairs."""
    rates, scores = [], []
    for seen, shown in pairs:
        begun = time.process_time()
        scores.append(task(seen, shown))
        taken = time.process_time() - begun
        rates.append((len(seen) + len(shown)) / 1e6 / max(taken, 1e-6))
    return report.median(rates), report.median(scores)


def figures(*, quick: bool) -> dict[str, float]:
    """Measure all on the same texts; a table is printed."""
    chance = random.Random(9)
    prose = "\n".join(each.text for each in articles(library().root / "handbook"))
    made = {size: [texts(size, prose, chance) for _ in range(ROUNDS[quick])] for size in (SMALL, MIDDLE, *SIZES)}
    rows = [("comparing texts", "MB/s", "score", "target")]

    def measured(name: str, task: Callable[[str, str], float], size: int) -> float:
        rate, score = speed(task, made[size])
        rows.append((f"{name}, {size:,} characters", f"{rate:,.4f}", f"{score:.3f}", ""))
        return rate

    by_size = {size: measured("ours", ours, size) for size in SIZES}
    edits = measured("ours", ours, SMALL) / measured("Levenshtein", levenshtein, SMALL)
    matches = measured("ours", ours, MIDDLE) / measured("difflib by word", words, MIDDLE)
    growth = by_size[SIZES[-1]] / by_size[SIZES[0]]
    rows.append(("speed at 400,000 over that at 4,000", f"{growth:.2f}", "", "no less than 0.5"))
    report.table(rows)
    return {
        "text_mb_per_s": by_size[SIZES[1]],
        "text_scale_ratio": growth,
        "text_levenshtein_ratio": edits,
        "text_difflib_ratio": matches,
    }


if __name__ == "__main__":
    report.figures("qa_texts", figures(quick=report.arguments(__doc__ or "").quick))
