"""Time until a saved link has a copy that plays: from the save's answer to the copy's page, nothing queued.

A real MediaWiki with the extension, watched by `weboid wiki watch --serve` as an operator runs it. Pages
are saved one after the other, each with one link to a page nobody has seen; the next is saved when the
copy of the one before plays. Once with the webhook, and, as the baseline, by polling alone.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import statistics
import time
import urllib.request

from bench import report
from tests.support.linked_site import LinkedSite
from tests.support.wiki_deployment import WikiDeployment, article, running_deployment

TARGET_S = 60
HOST = "www.saved-links.org"
_COUNTS = {True: (3, 0), False: (20, 10)}  # with the webhook, without


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    counts = _COUNTS[quick]
    answers = {
        f"{HOST}/{number}": article(f"Page {number}", "<p>Nobody has seen it.</p>" * 20)
        for number in range(sum(counts))
    }
    with LinkedSite(answers) as site, running_deployment([site]) as deployment:
        added = deployment.add()
        assert added.code == 0, added
        with deployment.watched():
            deployment.until("the front", lambda: deployment.cached(f"http://{HOST}/0"))
            notified = [seconds(deployment, number) for number in range(counts[0])]
        polled: list[float] = []
        if counts[1]:
            with deployment.watched(notifies=False):
                deployment.until("the front", lambda: deployment.cached(f"http://{HOST}/0"))
                polled = [seconds(deployment, counts[0] + number) for number in range(counts[1])]
    rows = [("save to playable", "with the webhook", "polling alone", "target")]
    for name, of in (("median s", statistics.median), ("p95 s", p95)):
        rows.append((name, f"{of(notified):.1f}", f"{of(polled):.1f}" if polled else "-", f"< {TARGET_S}"))
    report.table(rows)
    measurements = {"playable_p95_s": p95(notified), "playable_median_s": statistics.median(notified)}
    if polled:
        measurements["playable_polled_p95_s"] = p95(polled)
    return measurements


def seconds(deployment: WikiDeployment, number: int) -> float:
    """Save a page; how long it takes until its link's copy can be opened."""
    url = f"http://{HOST}/{number}"
    deployment.writer.write(f"Saved {number}", f"It cites [{url} a page].")
    begun = time.monotonic()
    (link,) = deployment.until(
        f"a copy of {url}", lambda: [each for each in deployment.cached(url) if each["answer"] == "copy"]
    )
    with urllib.request.urlopen(link["href"], timeout=30) as answer:
        assert answer.status == 200
    return time.monotonic() - begun


def p95(values: list[float]) -> float:
    """Return the 95th percentile; of up to 20 values the largest."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


if __name__ == "__main__":
    report.figures("wiki_playable", figures(quick=report.arguments(__doc__ or "").quick))
