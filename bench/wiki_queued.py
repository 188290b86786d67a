"""Time until an editor sees that a saved link is queued: from the click on "Save" to the mark beside the link.

A real MediaWiki with the extension, watched by `weboid wiki watch --serve` as an operator runs it, and a
real browser that saves a page with one link nobody has seen, and stays on what the wiki shows then. The
cited site answers when the round is over, so the link stays queued. The parts are the browser's own
timings; what the front says is asked beside it.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from statistics import median

from bench import report
from bench.wiki_playable import p95
from tests.support.browser_screen import BrowserScreen, open_screen
from tests.support.linked_site import LinkedSite
from tests.support.wiki_deployment import WikiDeployment, article, running_deployment

TARGET_S = 2.0
LIMIT_S = 60.0
HOST = "www.saved-links.org"
_ROUNDS = {True: 3, False: 20}
_TIMINGS = """(() => {
    const one = performance.getEntriesByType('navigation')[0];
    return [one.redirectEnd - one.redirectStart, one.responseEnd - one.redirectEnd];
})()"""


@dataclass(frozen=True)
class SaveRound:
    """Seconds of one save.

    Attributes:
        seen: until the mark stands beside the link.
        saved: until the wiki's answer to the save.
        viewed: from there until the page has arrived.
        front: until the front says that the link is queued.
    """

    seen: float
    saved: float
    viewed: float
    front: float


class DelayedSite(LinkedSite):
    """A site whose pages answer when they may."""

    def __init__(self, count: int) -> None:
        pages = {f"{HOST}/{each}": article(f"Page {each}", "<p>Slow.</p>") for each in range(count)}
        super().__init__(pages)
        self.released = {f"/{each}": threading.Event() for each in range(count)}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request, when it may."""
        if (gate := self.released.get(handler.path)) is not None:
            gate.wait(LIMIT_S)
        super().answer(handler)


def figures(*, quick: bool) -> dict[str, float]:
    """Return all figures; a table of them is printed."""
    count = _ROUNDS[quick]
    with DelayedSite(count + 1) as site, running_deployment([site]) as deployment:
        added = deployment.add()
        assert added.code == 0, added
        with deployment.watched("--links-internal=127.0.0.1"):
            deployment.until("the front", lambda: deployment.cached(f"http://{HOST}/0"))
            rounds = asyncio.run(_rounds(deployment, site, count))
    rows = [("save to “queued”, s", "median", "p95", "target")]
    for name, values, target in (
        ("seen by the editor", [each.seen for each in rounds], f"< {TARGET_S:.0f}"),
        ("the wiki saves", [each.saved for each in rounds], ""),
        ("the wiki shows the page", [each.viewed for each in rounds], ""),
        ("the front says so", [each.front for each in rounds], ""),
    ):
        rows.append((name, f"{median(values):.2f}", f"{p95(values):.2f}", target))
    report.table(rows)
    return {
        "queued_p95_s": p95([each.seen for each in rounds]),
        "queued_median_s": median([each.seen for each in rounds]),
        "queued_front_p95_s": p95([each.front for each in rounds]),
    }


async def _rounds(deployment: WikiDeployment, site: DelayedSite, count: int) -> list[SaveRound]:
    async with open_screen() as screen:
        rounds = []
        for number in range(count + 1):
            rounds.append(await _round(deployment, screen, number))
            site.released[f"/{number}"].set()
        return rounds[1:]  # the first one warms MediaWiki's caches


async def _round(deployment: WikiDeployment, screen: BrowserScreen, number: int) -> SaveRound:
    """Save a page in the browser; wait for the mark, and for the front."""
    url = f"http://{HOST}/{number}"
    await screen.open(f"{deployment.wiki.base}/index.php?title=Queued_{number}&action=edit")
    begun = time.monotonic()
    front = asyncio.create_task(asyncio.to_thread(_until_queued, deployment, url, begun))
    await screen.value(
        f"document.querySelector('#wpTextbox1').value = {json.dumps(f'It cites [{url} a page].')};"
        "document.querySelector('#wpSave').click()"
    )
    mark = json.dumps(f"a[href='{url}'] + .weboid-queued")
    while not await screen.value(f"!!document.querySelector({mark})"):
        assert time.monotonic() - begun < LIMIT_S, "The mark is not seen."
        await asyncio.sleep(0.02)
    seen = time.monotonic() - begun
    saved, viewed = await screen.value(_TIMINGS)
    return SaveRound(seen, saved / 1_000, viewed / 1_000, await front)


def _until_queued(deployment: WikiDeployment, url: str, begun: float) -> float:
    """Ask the front until it says that the link is queued; return the seconds since the click."""
    pause = threading.Event()
    while deployment.cached(url)[0]["answer"] not in ("queued", "copy"):
        assert time.monotonic() - begun < LIMIT_S, "The front does not say that it is queued."
        pause.wait(0.05)
    return time.monotonic() - begun


if __name__ == "__main__":
    report.figures("wiki_queued", figures(quick=report.arguments(__doc__ or "").quick))
