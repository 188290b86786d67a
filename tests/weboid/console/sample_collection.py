"""A collection in the middle of a crawl: pages with pictures, a queue, hosts in trouble, a wiki's links and bot edits."""

import io
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image, ImageDraw

from classify.page_excerpt import visible_text
from core.config.settings import FrontierSettings, PolitenessSettings, Settings
from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import PageResource, VisitOutcome
from core.timestamps import warc_date
from crawler.frontier.base import JOB_ORDER, Frontier, Lane, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.jobs.crawl_orders import Job
from links.check_history import day_of
from links.registry.bot_edits import EditChange, EditState, IntendedEdit, edits_by_id, move_edit, record_intended_edit
from links.registry.database import open_registry_store
from links.registry.schema import state_counts
from links.registry.statements import insert_missing
from links.states import LinkState
from tests.support import drawing
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.registry_builder import RegistryBuilder
from warc.text_index.indexer import rebuild_texts

NOW = datetime.now(UTC).replace(microsecond=0)
DAYS_COUNTED = 60  # days that have links by state
MINUTE = timedelta(minutes=1)
STORY = "https://library.example/news/reading-room"
HOSTILE = '<img src=x onerror="window.pwned=1">&"quoted"'
SITES = {
    "library.example": ("Reading room opens on Sundays", "Catalogue of maps, 1600 to 1900", "Opening hours", "Contact"),
    "museum.example": ("Steam engines of the valley", "Visit us", "The collection of clocks"),
    "council.example": ("Minutes of the meeting of May", "Budget 2027", "Roadworks in the old town"),
}


def make_collection(root: Path) -> Layout:
    """Make the collection; its frontier is at work, as `weboid crawl` leaves it for a look."""
    builder = CollectionBuilder(root)
    layout = builder.layout
    layout.marker.write_text('version = 1\nname = "Example Library"\n')
    layout.reports.mkdir()
    lines = []
    number = 0
    for site, titles in SITES.items():
        for title in titles:
            number += 1
            url = f"https://{site}/" + title.lower().replace(" ", "-").replace(",", "")
            at = NOW - timedelta(minutes=3 * number)
            outcome = VisitOutcome.PARTIAL if number % 4 == 0 else VisitOutcome.COMPLETE
            page_id = builder.page(
                url, f"<h1>{title}</h1>", at=at, title=title, shot=picture(number, title), text=f"{title}\nAll of it.",
                outcome=outcome, reason="missing: 2 of 31 resources" if number % 4 == 0 else "",
            )  # fmt: skip
            lines.append(log_line(at, str(outcome), url, page_id=page_id))
    for days, words in ((400, "open on weekdays"), (30, "open on Sundays"), (0, "open on Sundays and Mondays")):
        at = NOW - timedelta(days=days, hours=1)
        resources = (
            PageResource(STORY, status=200, mime="text/html", resource_type="Document", wire_bytes=18_211),
            PageResource("https://library.example/style.css", status=200, mime="text/css", resource_type="Stylesheet",
                         wire_bytes=7_120),
            PageResource("https://cdn.example/photo.jpg", status=404, mime="text/html", resource_type="Image",
                         wire_bytes=512),
            PageResource("https://tracker.example/pixel", resource_type="Image", kept="blocked", reason="policy: list"),
        )  # fmt: skip
        page_id = builder.page(
            STORY, f"<h1>Reading room {words}</h1>", at=at, title="Reading room", shot=picture(days + 40),
            text=f"The reading room is {words}.\nAdmission is free.\nBring a card.", resources=resources,
        )  # fmt: skip
        builder.response(STORY, f"<h1>{words}</h1>".encode(), at=at, page_id=page_id)
        lines.append(log_line(at, "complete", STORY, page_id=page_id))
    builder.page(
        "https://hostile.example/", "<p>x</p>", at=NOW - timedelta(minutes=50), title=HOSTILE, page_class=PageClass.OK
    )
    lines.append(log_line(NOW, "failed", "https://gone.example/1", reason="dns: gone.example does not resolve"))
    layout.crawl_log.write_text("".join(sorted(lines)))
    builder.close()
    rebuild_texts(layout, "", visible_text)
    # Pages in work stay so for as long as the tests take.
    settings = FrontierSettings(lease_s=3_600.0)
    with open_frontier(layout, settings, PolitenessSettings(min_delay_s=0, max_delay_s=0)) as frontier:
        fill_frontier(frontier)
    fill_registry(layout)
    return layout


def picture(seed: int, title: str = "Reading room") -> bytes:
    """Return a screenshot of a page with a heading, a photo and text, as PNG."""
    chosen = random.Random(seed)
    image = Image.new("RGB", (640, 400), "white")
    pen = ImageDraw.Draw(image)
    tint = tuple(chosen.randrange(30, 130) for _ in range(3))
    pen.rectangle((0, 0, 640, 44), fill=tint)
    pen.text((24, 10), title, fill="white", font=drawing.font(20))
    for row in range(150):  # a hill under a sky
        sky = tuple(min(255, 120 + value + row // 2) for value in tint)
        pen.line((24, 64 + row, 374, 64 + row), fill=sky)
    ridge = [(24 + 7 * x, 180 - chosen.randrange(60) // 3 - 2 * min(x, 50 - x)) for x in range(51)]
    pen.polygon([*ridge, (374, 214), (24, 214)], fill=tuple(value // 2 + 30 for value in tint))
    for line in range(7):
        pen.text((396, 64 + 22 * line), drawing.words(chosen, 3), fill="#333", font=drawing.font(13))
    for line in range(7):
        pen.text((24, 232 + 22 * line), drawing.words(chosen, 9), fill="#333", font=drawing.font(13))
    with io.BytesIO() as file:
        image.save(file, "PNG")
        return file.getvalue()


def log_line(at: datetime, outcome: str, url: str, *, reason: str = "", page_id: str = "") -> str:
    """Return a line of the crawl log."""
    facts = {"time": warc_date(at), "outcome": outcome, "url": url, "reason": reason, "attempt": 1}
    if page_id:
        facts |= {"status": 200, "mime": "text/html", "bytes": 48_213, "seconds": 4.2, "page_id": page_id}
    return json.dumps(facts) + "\n"


def fill_frontier(frontier: Frontier) -> None:
    """Add an hour of a crawl: ended, failed, skipped, waiting and claimed items."""
    rng = random.Random(7)
    job = Job("council-2026", ("https://council.example/",), Settings(), Lane.STANDARD, NOW - 60 * MINUTE)
    frontier.give_order(JOB_ORDER, job.name, job.to_json())
    for ago in range(59, -1, -1):
        at = NOW - ago * MINUTE - timedelta(seconds=10)
        hosts = [*SITES, "archive.example", "journal.example", "gone.example"]
        done = rng.randrange(4, 11)
        frontier.add(
            [
                NewItem(f"https://{host}/{ago}/{n}", job="council-2026")
                for n in range(done)
                for host in hosts[n % 6 :][:1]
            ],
            now=at - MINUTE,
        )
        for item in frontier.claim(now=at, worker="vm:4711.0", limit=done):
            use = {"now": at, "duration": timedelta(seconds=rng.randrange(2, 9)), "delay": timedelta(seconds=1)}
            if item.host == "gone.example":
                frontier.fail(item, reason="dns: gone.example does not resolve", **use)  # type: ignore[arg-type]
            elif rng.random() < 0.06:
                frontier.fail(item, reason="deadline: settle", **use)  # type: ignore[arg-type]
            elif rng.random() < 0.1:
                frontier.skip(item, reason="robots: /private/ is disallowed", **use)  # type: ignore[arg-type]
            else:
                frontier.complete(item, outcome="complete", stored_bytes=rng.randrange(90_000, 4_000_000), **use)  # type: ignore[arg-type]
    waiting = [NewItem(f"https://{host}/wait/{n}") for host in (*SITES, "journal.example") for n in range(40)]
    waiting += [NewItem(f"https://refuses.example/{n}") for n in range(17)]
    frontier.add([*waiting, NewItem(f"https://hostile.example/?q={'%3Cscript%3E'}")], now=NOW)
    frontier.block_until("refuses.example", NOW + timedelta(hours=5), "status 429", now=NOW)
    frontier.block_until("gone.example", NOW + timedelta(minutes=40), "dns: gone.example does not resolve", now=NOW)
    for worker in range(3):
        frontier.claim(now=NOW, worker=f"vm:4711.{worker}")


def fill_registry(layout: Layout) -> None:
    """Add a wiki with links in several states, and edits of its bot."""
    store = open_registry_store(layout)
    try:
        registry_builder = RegistryBuilder(store)
        urls = [f"https://{host}/cited/{n}" for host in SITES for n in range(12)]
        registry_builder.page(11, "Public library", *urls[:20])
        registry_builder.page(12, "Steam engine", *urls[20:])
        registry_builder.fill_richly()
        states = (LinkState.ALIVE,) * 7 + (LinkState.DEAD, LinkState.DYING, LinkState.BLOCKED, LinkState.UNKNOWN)
        ids = [registry_builder.state(url, states[place % len(states)]) for place, url in enumerate(urls)]
        wiki_id = registry_builder.wiki()
        counts = []
        for ago in range(DAYS_COUNTED):
            day = {LinkState.ALIVE: 30 + ago // 9, LinkState.DEAD: 9 - ago // 12, LinkState.BLOCKED: 3 + ago % 3 // 2}
            counts += [{"day": day_of(NOW) - ago, "state": state, "links": links} for state, links in day.items()]
        with store.writing() as rows:
            insert_missing(rows, state_counts, counts)
        for place, state in enumerate((EditState.MADE, EditState.MADE, EditState.REVERTED, EditState.FAILED)):
            moment = int((NOW - timedelta(hours=5 - place)).timestamp())
            change = EditChange(
                ids[place], "archived", "<ref>[https://library.example/cited/7 Maps]</ref>",
                "<ref>[https://library.example/cited/7 Maps] {{Webarchive|url=https://archive.example/7}}</ref>",
            )  # fmt: skip
            with store.writing() as rows:
                made = record_intended_edit(
                    rows, wiki_id, IntendedEdit(11 + place % 2, "job-1", 100 + place, changes=(change,)), moment=moment
                )
                edit = edits_by_id(rows, [made])[made]
                if state is EditState.FAILED:
                    move_edit(rows, edit, state, moment=moment, note="abusefilter-disallowed")
                    continue
                edit = move_edit(rows, edit, EditState.MADE, moment=moment, rev=900 + place)
                if state is not EditState.MADE:
                    move_edit(rows, edit, state, moment=moment, undone={0}, undone_rev=950, undone_by="Marta")
    finally:
        store.close()
