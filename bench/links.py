"""The link registry: a year by its rules, page look-ups, and checks a second.

Each part is a module of its own with `figures`: `bench.links_year` lets a simulated year of 10⁵ links pass
(baseline: preset `iabot`), `bench.links_lookups` fills a registry and asks it about pages,
`bench.links_checks` looks at local servers with 2,000 connections (baseline: a plain checker),
`bench.links_passing` makes first looks as `weboid links check` does, with gap, https and registry,
`bench.links_booking` keeps the results of as many looks.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from importlib import import_module
from importlib.util import find_spec

from bench import report

PARTS = ("year", "lookups", "checks", "passing", "booking")


def main() -> None:
    """Run the parts and print their figures."""
    parser = report.parser(__doc__ or "")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; all")
    arguments = parser.parse_args()
    measurements: dict[str, float] = {}
    for part in arguments.part or PARTS:
        name = f"bench.links_{part}"
        if find_spec(name) is None:
            print(f"{name} does not exist.")
            continue
        figures: dict[str, float] = import_module(name).figures(quick=arguments.quick)
        measurements |= figures
        print(flush=True)
    report.figures("links", measurements)


if __name__ == "__main__":
    main()
