"""Comparing two pictures of a page: milliseconds of one core, with decoding.

The pages are drawn here: text, headings and photos, as the browser packs its screenshots. Every pair is
measured by itself, since what differs decides what there is to do; `compare_ms` and `compare_tall_ms` are
medians over the pairs that checks mostly see: the same page, a small change, a banner that moves
everything, noise; and a small change in pictures that another program packed. The last rows are the
worst: nothing in common. The baseline counts the pixels that match, without alignment, and cannot tell a
banner from another page.
Milliseconds are those of the process' own CPU, since others use the machine; the best of some rounds.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import io
import time
from collections.abc import Callable, Collection

import numpy as np
from PIL import Image, ImageChops

from bench import report
from qa.compare.picture_comparison import compare_pictures
from qa.compare.picture_tiles import decode_picture
from tests.support.drawing import Pixels, banner, browsers_png, noisy, packed, page, photo

TALL_PX = 10_000
ROUNDS = {False: 9, True: 3}
BY_PILLOW = "a small change, packed by Pillow"  # rows told in other ways than the browser's
USUAL = ("the same", "a small change", "a banner", "noise", BY_PILLOW)
WORST = ("another page", "photos, others")


def pairs(height: int) -> dict[str, tuple[Pixels, Pixels]]:
    """Return pictures to compare, by what differs."""
    seen = page(1, height, photos=max(4, height // 700))
    small = seen.copy()
    small[300:380, 400:700] = 255 - small[300:380, 400:700]
    photos = photo(7, 1280, height)
    return {
        "the same": (seen, seen.copy()),
        "a small change": (seen, small),
        "a banner": (seen, banner(seen)),
        "noise": (seen, noisy(seen, 3)),
        BY_PILLOW: (seen, small),
        "another page": (seen, page(2, height, photos=max(4, height // 700))),
        "photos, others": (photos, photo(8, 1280, height)),
    }


def milliseconds(task: Callable[[], object], rounds: int) -> float:
    """Return the CPU milliseconds of the best round."""
    best = 1e9
    for _ in range(rounds):
        begun = time.process_time()
        task()
        best = min(best, time.process_time() - begun)
    return best * 1000


def baseline(seen: bytes, shown: bytes) -> float:
    """Return the share of pixels that match, by Pillow alone."""
    one, other = (Image.open(io.BytesIO(data)).convert("RGB") for data in (seen, shown))
    size = (min(one.width, other.width), min(one.height, other.height))
    apart = ImageChops.difference(one.crop((0, 0, *size)), other.crop((0, 0, *size))).convert("L")
    return float((np.asarray(apart) < 25).mean())


def measured(height: int, rounds: int, names: Collection[str]) -> dict[str, tuple[float, float, float, float, float]]:
    """Return for each of these pairs the ms of ours, of decoding alone and of the baseline, and both scores."""
    measurements = {}
    for name, pictures in pairs(height).items():
        if name not in names:
            continue
        pack = packed if name == BY_PILLOW else browsers_png
        seen, shown = (pack(each) for each in pictures)
        measurements[name] = (
            milliseconds(lambda a=seen, b=shown: compare_pictures(a, b), rounds),  # type: ignore[misc]
            milliseconds(lambda a=seen, b=shown: (decode_picture(a), decode_picture(b)), rounds),  # type: ignore[misc]
            milliseconds(lambda a=seen, b=shown: baseline(a, b), rounds),  # type: ignore[misc]
            compare_pictures(seen, shown).score,
            baseline(seen, shown),
        )
    return measurements


def figures(*, quick: bool) -> dict[str, float]:
    """Measure pictures of a screen and of a tall page; a table is printed."""
    rounds = ROUNDS[quick]
    screen = measured(800, rounds, USUAL + WORST)
    tall = measured(TALL_PX, max(rounds // 3, 2), USUAL if quick else USUAL + WORST)
    rows = [("ms of one core", "ours", "decoding", "pixels only", "score", "pixels' score", "target")]
    for height, measurements, target in ((800, screen, "< 40"), (TALL_PX, tall, "< 400")):
        for name, (ours, decoding, base, score, base_score) in measurements.items():
            ms = (f"{ours:.1f}", f"{decoding:.1f}", f"{base:.1f}")
            scores = (f"{score:.3f}", f"{base_score:.3f}")
            rows.append((f"1280 x {height:,}, {name}", *ms, *scores, target if name in USUAL else ""))
    report.table(rows)
    return {
        "compare_ms": report.median([screen[name][0] for name in USUAL]),
        "compare_tall_ms": report.median([tall[name][0] for name in USUAL]),
        "compare_worst_ms": max(screen[name][0] for name in WORST),
        **({} if quick else {"compare_tall_worst_ms": max(tall[name][0] for name in WORST)}),
        "decode_ms": report.median([screen[name][1] for name in USUAL]) / 2,
        "decode_tall_ms": report.median([tall[name][1] for name in USUAL]) / 2,
    }


if __name__ == "__main__":
    report.figures("qa_compare", figures(quick=report.arguments(__doc__ or "").quick))
