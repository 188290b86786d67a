"""The acid pages, archived and played back: a table of what is in the WARC, was seen, and is played.

``python -m bench.acid ['group.key = value' …]`` prints it, and beneath it what is missing. Figures:
``in_warc``, ``seen`` and ``played``, shares of URLs and marks, and ``shared``, the share of pages in a browser
context that an earlier page has used (0 with ``visit.fresh = true``).
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import tempfile
import time
import tomllib
from typing import Any

from bench import report
from tests.support.acid_run import CellResult, archive, play, served, shared_share, table
from tests.support.commands import WeboidRunner, profile_for
from tests.support.sites.acid import CELLS
from tests.support.sites.web import TestWeb


def main() -> None:
    """Run it once and print."""
    groups: dict[str, Any] = {}
    for argument in sys.argv[1:]:
        for name, group in tomllib.loads(argument).items():
            groups.setdefault(name, {}).update(group)
    with TestWeb.start(real=False) as web, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml", **groups))
        start = time.perf_counter()
        ran, results = archive(weboid, CELLS)
        archived = time.perf_counter() - start
        shared = shared_share(web.requests(), CELLS)
        start = time.perf_counter()
        with served(weboid) as address:
            asyncio.run(play(address, results))
        played = time.perf_counter() - start
    print(table(results))
    print(f"\nArchived in {archived:.1f} s, played back in {played:.1f} s; exit code {ran.code}.")
    for each in results:
        _tell(each)
    urls, marks = sum(1 + len(each.must) for each in CELLS), sum(each.marks for each in CELLS)
    missing = sum(len(each.missing) for each in results)
    seen, played = (
        sum(share > 0.9 for each in results for share in getattr(each, name)) for name in ("seen", "played")
    )
    figures = {"in_warc": 1 - missing / urls, "seen": seen / marks, "played": played / marks, "shared": shared}
    report.figures("acid", figures)


def _tell(each: CellResult) -> None:
    """Print the failures of one cell."""
    outcome = f"{each.page.outcome} {each.page.reason}" if each.page else "no manifest"
    if each.missing or each.kept or min(each.seen or [0]) < 0.9 or outcome[:8] != "complete":
        print(f"{each.cell.name}: {outcome}; missing {each.missing}; seen {each.seen}", each.kept)
    if min(each.played or [0]) < 0.9 or each.strays:
        print(f"{each.cell.name}: played {each.played}", each.strays)
    for text in (each.text, each.played_text):
        if each.cell.text not in text:
            print(f"{each.cell.name}: text {text[:100]!r}")


if __name__ == "__main__":
    main()
