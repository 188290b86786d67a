"""Lists of a million lines: CPU time to read them, memory, and CPU time of a look-up.

``python -m bench.policy [--lines N]``; the last line is ``{"bench": "policy", "figures": {…}}``.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report
from crawler.policy.policy_entries import read_lists

LOOK_UPS = 5_000


def hosts(count: int) -> Iterator[str]:
    """Return hosts, as most spam lists have them."""
    return (f"host{number:x}.spam{number % 977}.example" for number in range(count))


def prefixes(count: int) -> Iterator[str]:
    """Return folders of fewer hosts."""
    return (f"site{number % 50_000}.example/dir{number:x}/" for number in range(count))


def fragments(count: int) -> Iterator[str]:
    """Return ``count // 100`` lines in the form of MediaWiki's Spam blacklist."""
    return (rf"\bspam{number:x}-casino[0-9]*\.(?:com|net)\b" for number in range(count // 100))


def urls(count: int) -> list[str]:
    """Return URLs of which some are named."""
    rng = random.Random(1)
    kinds = (
        lambda: f"https://www.host{(n := rng.randrange(count)):x}.spam{n % 977}.example/a/b?c=d",
        lambda: f"http://site{(n := rng.randrange(count)) % 50_000}.example/dir{n:x}/page",
        lambda: f"http://www.spam{rng.randrange(count // 100):x}-casino7.com/",
        lambda: f"https://example.org/{rng.random()}",
    )
    return [rng.choice(kinds)() for _ in range(LOOK_UPS)]


def measure(folder: Path, name: str, lines: Iterator[str], count: int) -> dict[str, float]:
    """Write the list, read it, look URLs up."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    before, began = _memory_mb(), time.process_time()
    lists = read_lists([str(path)])
    took = time.process_time() - began
    targets = list(urls(count))
    lists.refusing(targets[0])
    began = time.process_time()
    refusals = sum(lists.refusing(target) is not None for target in targets)
    each = (time.process_time() - began) / len(targets)
    memory = _memory_mb() - before
    print(
        f"{name:<16} {lists.lines:>9,} lines  read in {took:6.1f} s  {memory:5.0f} MB"
        f"  look-up {each * 1e6:6.1f} us  {refusals} of {len(targets)} found"
    )
    stem = name.partition(".")[0]
    return {f"{stem}_read_s": round(took, 2), f"{stem}_us": round(each * 1e6, 1)}


def _memory_mb() -> float:
    """Return the resident memory of the process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    """Measure the three kinds, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    count = parser.parse_args().lines
    kinds: dict[str, Callable[[int], Iterator[str]]] = {
        "hosts.txt": hosts,
        "prefixes.txt": prefixes,
        "wiki.spamlist": fragments,
    }
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in kinds.items():
            figures |= measure(Path(folder), name, lines(count), count)
    report.figures("policy", figures)


if __name__ == "__main__":
    main()
