"""The frontier: URLs added and claimed a second, and what a thousand times the size costs.

Batches of 1,000 URLs over 10,000 hosts, 45 % of them known before, the host of each drawn at random
(worse than a page's links, which share hosts); claims in batches of 50, every host polite. A small
frontier of 10⁴ URLs and a large one of 10⁷ (``--quick``: 10⁶) take turns batch by batch, so that
a noisy machine troubles both alike. Rates are the large one's.

The frontiers are filled by their stores' own means to the state that the verbs would have left,
since adding 10⁷ URLs one way or the other takes minutes. What a URL takes is what the store takes
divided by its URLs: all of them queued, or all of them done ("seen").
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import gc
import tempfile
import time
from collections.abc import Callable

from bench import report
from bench.frontier_load import BATCH, CLAIMS, FrontierUnderLoad, MeasuredFrontier
from bench.frontier_redis import RedisKept
from bench.frontier_sqlite import SqliteKept

SMALL = 10_000
SEEN = 100_000
QUICK = (1_000_000, 60)
FULL = (10_000_000, 300)

# How the frontiers are kept: a new, empty one of that name, its files in the folder.
KINDS: dict[str, Callable[[Path, str], FrontierUnderLoad]] = {"sqlite": SqliteKept, "redis": RedisKept}


def measured(kind: str, folder: Path, size: int, turns: int) -> dict[str, float]:
    """Measure one kind of frontier; its figures."""
    started = time.perf_counter()
    seen = KINDS[kind](folder, "seen")
    seen.fill(SEEN, done=True)
    per_seen = seen.bytes() / SEEN
    seen.close()
    large = MeasuredFrontier(KINDS[kind](folder, "large"), size)
    small = MeasuredFrontier(KINDS[kind](folder, "small"), SMALL)
    filled = time.perf_counter() - started
    print(f"{kind}: filled with {size:,} URLs in {filled:.0f} s: {large.bytes / 1e6:,.0f} MB")
    gc.collect()
    gc.freeze()  # what was made to fill them is not the frontiers' to look through
    for _ in range(turns):
        for subject in (small, large):
            subject.add()
    for _ in range(turns):
        for subject in (small, large):
            subject.claim()
            subject.complete()
    for subject in (small, large):
        subject.backend.close()
    show(kind, small, large)
    return {
        f"{kind}_adds_per_s": large.rate("add", BATCH),
        f"{kind}_claims_per_s": large.rate("claim", CLAIMS),
        f"{kind}_scale_ratio": min(ratio(small, large, what) for what in ("add", "claim")),
        f"{kind}_bytes_per_queued_url": large.bytes / size,
        f"{kind}_bytes_per_seen_url": per_seen,
    }


def ratio(small: MeasuredFrontier, large: MeasuredFrontier, what: str) -> float:
    """Return the large one's speed over the small one's, across all turns, checkpoints included."""
    return sum(small.seconds[what]) / sum(large.seconds[what])


def show(kind: str, small: MeasuredFrontier, large: MeasuredFrontier) -> None:
    """Print the table of rates."""
    each = {"add": BATCH, "claim": CLAIMS, "complete": CLAIMS}
    rows = [(kind, f"{large.size:,} URLs", f"{small.size:,} URLs", "ratio")]
    for what, number in each.items():
        big, little = (f"{subject.rate(what, number):,.0f}/s" for subject in (large, small))
        rows.append((what, big, little, f"{ratio(small, large, what):.2f}"))
    report.table(rows)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = report.parser(__doc__ or "")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind; all")
    arguments = parser.parse_args()
    size, turns = QUICK if arguments.quick else FULL
    figures: dict[str, float] = {}
    for kind in arguments.kind or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            figures |= measured(kind, Path(folder), size, turns)
    # What the requirements ask of each holds for the worst.
    figures["scale_ratio"] = min(value for name, value in figures.items() if name.endswith("_scale_ratio"))
    report.figures("frontier", figures)


if __name__ == "__main__":
    main()
