"""An edit by the API of a real MediaWiki, with the extension and without: what a save takes longer.

Rounds of one edit each, which changes one link, one after the other: without the extension, and with a
webhook that answers, one that hangs, and one where nobody listens. The time is that until the answer is
there. Telling is a job's: the queue's runner takes it, here as on every wiki of some size.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
from statistics import median

from bench import report
from bench.wiki_with import TimedWikis, added, timed_wiki
from tests.support.sites.mediawiki import ADMIN, PASSWORD, RunningWiki
from tests.support.wiki_visitor import WikiVisitor

KINDS = ("without", "with", "hanging", "refused")


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    rounds = 20 if quick else 80
    with timed_wiki() as timed:
        sessions = {kind: _session(timed.of(kind)) for kind in KINDS}
        for number in range(3):
            for kind in KINDS:
                _save(timed, kind, f"warm {number}", sessions[kind])
        taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(rounds):
            turn = number % len(KINDS)
            for kind in KINDS[turn:] + KINDS[:turn]:
                taken[kind].append(_save(timed, kind, str(number), sessions[kind]))
        timed.wiki.maintain("runJobs.php", "--maxjobs", "1")
    measurements = {f"{kind}_added_ms": added(taken["without"], taken[kind]) for kind in KINDS[1:]}
    report.table(
        [
            ("a save, ms", "median", "added", "target"),
            ("without the extension", f"{median(taken['without']):.1f}", "", ""),
            *(
                (f"webhook: {kind}", f"{median(taken[kind]):.1f}", f"{measurements[f'{kind}_added_ms']:.1f}", "< 5")
                for kind in KINDS[1:]
            ),
        ]
    )  # fmt: skip
    return {"save_added_ms": max(measurements.values()), **measurements}


def _session(wiki: RunningWiki) -> tuple[str, str]:
    visitor = WikiVisitor(wiki.base, ADMIN, PASSWORD)
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies().items())
    return cookie, visitor.token()


def _save(timed: TimedWikis, kind: str, name: str, session: tuple[str, str]) -> float:
    cookie, token = session
    form = {
        "action": "edit",
        "format": "json",
        "title": f"Saved {kind}",
        "token": token,
        "text": f"Some words, and a [https://site.example/{kind}/{name} source].",
    }
    taken, text = timed.ask("/api.php", kind, form, cookie)
    assert json.loads(text)["edit"]["result"] == "Success", text
    return taken


if __name__ == "__main__":
    report.figures("wiki_save", figures(quick=report.arguments(str(__doc__)).quick))
