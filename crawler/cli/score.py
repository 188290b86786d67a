"""`weboid playback score`: how much the copies look like what was captured, and which do not."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx

from core.clock import SystemClock
from core.errors import PermanentError, UnavailableError
from core.layout import Layout
from core.records import ArtifactKind, artifact_uri
from core.settings import BrowserSettings, VisitSettings
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, table, width
from crawler.collection import read_collection
from playback.addresses import LEVEL_MODIFIERS, Memento, Modifier, memento_path
from playback.database import Database, open_database
from playback.decisions.levels import DEFAULT_LEVEL, Level
from playback.decisions.scores import PageScore, read_scores, score_changes
from playback.decisions.store import open_decisions
from playback.replay.allowed import SANITISER_VERSION
from playback.scoring import Likeness, compare
from playback.server import serve
from render.behaviours.running import NO_BEHAVIOURS
from render.browser import Browser
from render.executable import find_browser
from render.visit import VisitRequest, visit

_CLOCK = SystemClock()
_READERS = 2
_LEVELS = click.Choice([str(level) for level in LEVEL_MODIFIERS])


@dataclass(frozen=True, slots=True)
class _Look:
    """A page that was looked at: how alike it is, or why that cannot be said."""

    url: str
    timestamp: str
    likeness: Likeness | None = None
    reason: str = ""


@click.group("playback")
def playback() -> None:
    """Look after the copies that readers are shown."""


@playback.command("score")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--level", type=_LEVELS, default=str(DEFAULT_LEVEL), show_default=True, help="Look at this one."
)
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Pages at most."
)
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for both pictures of each page, side by side.",
)
@click.option("--dry-run", is_flag=True, help="Keep no score.")
@collection_option
@database_option
@json_option
def command(
    *,
    urls: tuple[str, ...],
    level: str,
    limit: int,
    pictures: Path | None,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Compare copies with the screenshots of their captures; the worst first.

    Starts a playback of its own on this machine, opens each page's newest capture in the browser, and
    compares with the picture of the whole page that was kept: 1 is the same, below 0.8 something is
    lost. Without a URL, the newest pages. Scores are kept with the decisions about the collection.
    Exit code 1: a page could not be compared.
    """
    layout = read_collection(collection)
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    with closing(open_database(layout, database_url)) as database:
        pages = _pages(database, urls, limit)
    looks = asyncio.run(_look_at(layout, database_url, pages, Level(level), pictures))
    looks += [_Look(url, "", reason="not captured") for url in urls if url not in dict(pages)]
    looks.sort(key=lambda each: (each.likeness is not None, each.likeness and each.likeness.score))
    scores = [
        PageScore(
            each.url, each.timestamp, level, SANITISER_VERSION, each.likeness.score, _CLOCK.now()
        )
        for each in looks
        if each.likeness is not None
    ]
    if not dry_run and scores:
        with closing(open_decisions(layout, database_url)) as store:
            store.change(score_changes(scores))
    _tell(looks, level, as_json=as_json)
    return Exit.OK if all(each.likeness for each in looks) else Exit.SOME_FAILED


@playback.command("scores")
@collection_option
@database_option
@json_option
def scores_command(*, collection: Path, database_url: str, as_json: bool) -> int:
    """Show the scores that were kept, the lowest first."""
    with closing(open_decisions(read_collection(collection), database_url)) as store:
        scores = read_scores(store)
    if as_json:
        click.echo(json.dumps([_as_json(each) for each in scores], indent=2))
        return Exit.OK
    rows = [(f"{each.score:.3f}", each.level, each.timestamp, clean(each.url)) for each in scores]
    click.echo("\n".join(table(("score>", "level", "captured", "page"), rows, columns=width())))
    return Exit.OK


def _as_json(score: PageScore) -> dict[str, Any]:
    return {
        "url": score.url,
        "timestamp": score.timestamp,
        "level": score.level,
        "sanitiser": score.version,
        "score": score.score,
    }


def _tell(looks: Sequence[_Look], level: str, *, as_json: bool) -> None:
    if as_json:
        found = [
            {
                "url": each.url,
                "timestamp": each.timestamp,
                "level": level,
                "score": each.likeness and each.likeness.score,
                "colour": each.likeness and each.likeness.colour,
                "ink": each.likeness and each.likeness.ink,
                "height": each.likeness and each.likeness.height,
                "reason": each.reason,
            }
            for each in looks
        ]
        click.echo(json.dumps(found, indent=2))
        return
    rows = []
    for each in looks:
        likeness = each.likeness
        figures = (
            [
                f"{value:.3f}"
                for value in (likeness.score, likeness.colour, likeness.ink, likeness.height)
            ]
            if likeness is not None
            else [clean(each.reason), "", "", ""]
        )
        rows.append((*figures, clean(each.url)))
    head = ("score>", "colour>", "ink>", "height>", "page")
    click.echo("\n".join(table(head, rows, columns=width())))


def _pages(database: Database, urls: Sequence[str], limit: int) -> list[tuple[str, str]]:
    """URL and timestamp of each page's newest capture."""
    query = (
        "SELECT url, MAX(timestamp) AS timestamp FROM pages WHERE outcome IN ('complete', 'partial')"
        "{} GROUP BY url ORDER BY MAX(captured_ms) DESC LIMIT :limit"
    )
    if not urls:
        rows = database.rows(query.format(""), {"limit": limit})
    else:
        rows = [
            row
            for url in urls
            for row in database.rows(query.format(" AND url = :url"), {"limit": 1, "url": url})
        ]
    return [(row["url"], row["timestamp"]) for row in rows]


async def _look_at(
    layout: Layout,
    database_url: str,
    pages: Sequence[tuple[str, str]],
    level: Level,
    pictures: Path | None,
) -> list[_Look]:
    if not pages:
        return []
    todo, looks = iter(list(enumerate(pages))), list[_Look]()
    async with (
        _playing(layout, database_url) as replay,
        await Browser.launch(BrowserSettings(), find_browser(), clock=_CLOCK) as browser,
        httpx.AsyncClient(base_url=replay, timeout=60, trust_env=False) as client,
    ):

        async def look() -> None:
            for number, (url, timestamp) in todo:
                try:
                    seen = await _seen(client, url, timestamp)
                    shown = await _shown(
                        browser, replay, Memento(timestamp, LEVEL_MODIFIERS[level], url)
                    )
                    likeness = await asyncio.to_thread(compare, seen, shown)
                except PermanentError as error:
                    looks.append(_Look(url, timestamp, reason=str(error)))
                    continue
                looks.append(_Look(url, timestamp, likeness))
                if pictures is not None:
                    (pictures / f"{number:03}-seen.png").write_bytes(seen)
                    (pictures / f"{number:03}-shown.png").write_bytes(shown)

        await asyncio.gather(*(look() for _ in range(_READERS)))
    return looks


@asynccontextmanager
async def _playing(layout: Layout, database_url: str) -> AsyncIterator[str]:
    """A playback on this machine, until the block ends; the origin of its copies.

    Raises:
        UnavailableError: it does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ready = asyncio.Event()
    running = asyncio.create_task(
        serve(layout, replay_port=port, on_ready=lambda _: ready.set(), index_url=database_url)
    )
    started = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([running, started], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            raise UnavailableError("Playback ended before it began.")
        yield f"http://127.0.0.1:{port}"
    finally:
        running.cancel()
        started.cancel()
        await asyncio.gather(running, started, return_exceptions=True)


async def _seen(client: httpx.AsyncClient, url: str, timestamp: str) -> bytes:
    """The picture of the whole page that was kept.

    Raises:
        PermanentError: there is none.
    """
    target = Memento(timestamp, Modifier.IMAGE, artifact_uri(ArtifactKind.FULL_PAGE, url))
    response = await client.get(memento_path(target))
    if response.status_code != httpx.codes.OK:
        raise PermanentError("no screenshot of the whole page")
    return response.content


async def _shown(browser: Browser, replay: str, memento: Memento) -> bytes:
    """A picture of the whole copy.

    Raises:
        PermanentError: the browser could make none.
    """
    settings = VisitSettings(
        view=False, thumbnail=False, dom=False, text=False, favicon=False, settle_s=0.1
    )
    copy = await visit(
        browser,
        VisitRequest(replay + memento_path(memento)),
        settings,
        behaviours=NO_BEHAVIOURS,
        clock=_CLOCK,
    )
    for each in copy.artifacts:
        if each.kind is ArtifactKind.FULL_PAGE and copy.status == httpx.codes.OK:
            return each.data
    raise PermanentError("the copy cannot be shown")
