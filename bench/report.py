"""Output of all benchmarks: a table for people, one JSON line for machines."""

import argparse
import json
import statistics
from collections.abc import Sequence
from importlib import import_module


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser for ``--quick``, which every benchmark takes; callers may add more arguments."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--quick", action="store_true", help="honest, smaller numbers within 50 s")
    return made


def arguments(description: str) -> argparse.Namespace:
    """Parse the arguments that every benchmark takes."""
    return parser(description).parse_args()


def median(values: Sequence[float]) -> float:
    """Return the median. Use it for ratios, never for rates from different runs."""
    return statistics.median(values)


def table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of equal length in columns: mostly (what, ours, baseline, ratio or target)."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print(row[0].ljust(widths[0]), *cells, sep="  ")


def parts(bench: str, description: str, names: Sequence[str]) -> None:
    """Run a benchmark of several modules, ``bench.BENCH_NAME`` each with its own `figures`, and print all."""
    asking = parser(description)
    asking.add_argument("--part", choices=names, action="append", help="only this part; all")
    options = asking.parse_args()
    measurements: dict[str, float] = {}
    for name in options.part or names:
        own: dict[str, float] = import_module(f"bench.{bench}_{name}").figures(quick=options.quick)
        measurements |= own
        print(flush=True)
    figures(bench, measurements)


def figures(bench: str, values: dict[str, float]) -> None:
    """Print the last line."""
    rounded = {name: round(value, 4) for name, value in values.items()}
    print(json.dumps({"bench": bench, "figures": rounded}))
