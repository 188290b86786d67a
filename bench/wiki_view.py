"""A page of a hundred links on a real MediaWiki, with the extension and without: what a view takes longer.

Rounds of one view each, one after the other; both have the page in the parser cache. Warm, the extension
knows the answers; cold, it asks a front on this machine that answers at once, before the page is sent.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import sqlite3
from contextlib import closing
from statistics import median

from bench import report
from bench.wiki_with import TimedWikis, added, timed_wiki
from tests.support.wiki_writer import WikiWriter

LINKS = 100
PATH = "/index.php?title=Hundred"


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    rounds = 60 if quick else 200
    with timed_wiki() as timed:
        text = "\n\n".join(
            f"Sentence {number} has a source.<ref>[https://site{number % 40}.example/a/{number} Title {number}], "
            f"''Journal'', p. {number}</ref> [[Main Page|A link]] and more words that say nothing."
            for number in range(LINKS)
        )
        for wiki in (timed.plain, timed.wiki):
            WikiWriter(wiki.api()).write("Hundred", f"{text}\n<references/>")
        warm = _rounds(timed, rounds, is_cold=False)
        cold = _rounds(timed, rounds // 4, is_cold=True)
        html = timed.ask(PATH, "with")[1]
        assert html.count('class="weboid-cached') == LINKS
    measurements = {"view_added_ms": added(*warm), "view_ms": median(warm[1]), "cold_added_ms": added(*cold)}
    report.table(
        [
            (f"a view of {LINKS} links, ms", "with", "without", "added", "target"),
            ("warm", *_cells(warm), "< 5"),
            ("cold: the front is asked first", *_cells(cold), ""),
        ]
    )
    return measurements


def _cells(pair: tuple[list[float], list[float]]) -> tuple[str, str, str]:
    return f"{median(pair[1]):.1f}", f"{median(pair[0]):.1f}", f"{added(*pair):.1f}"


def _rounds(timed: TimedWikis, count: int, *, is_cold: bool) -> tuple[list[float], list[float]]:
    without, with_it = [], []
    for kind in ("without", "with") * 5:
        timed.ask(PATH, kind)
    for number in range(count):
        if is_cold:
            _forget(timed)
        order = ("without", "with") if number % 2 else ("with", "without")
        taken = {kind: timed.ask(PATH, kind)[0] for kind in order}
        without.append(taken["without"])
        with_it.append(taken["with"])
    return without, with_it


def _forget(timed: TimedWikis) -> None:
    path = timed.wiki.folder / "data" / "wikicache.sqlite"
    with closing(sqlite3.connect(path, timeout=60)) as db, db:
        db.execute("DELETE FROM objectcache WHERE keyname LIKE '%:weboid-%'")


if __name__ == "__main__":
    report.figures("wiki_view", figures(quick=report.arguments(str(__doc__)).quick))
