"""`weboid qa report`: what checks found, as one file that any browser opens."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from core.clock import SystemClock
from core.errors import ConfigError, InputError, UnavailableError
from core.layout import Layout
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option
from crawler.cli.qa.filters import filter_of, filter_options
from crawler.cli.tables import clean
from crawler.collection import read_collection
from playback.database import open_database
from playback.decisions.level_book import LevelBook
from playback.decisions.lists import folder_of
from playback.decisions.store import open_decisions
from playback.front.cautions import Cautions
from playback.front.languages import SOURCE, Spoken, check_language, spoken
from playback.front.levels import Offers
from playback.front.pages import PageStore
from playback.front.quality.file import Report, Writer
from playback.front.quality.pictures import Pictures
from playback.front.quality.results import Results
from playback.front.registry.source import OpenedWhenAsked
from playback.holds import Holds
from playback.permits import Permits

_CLOCK = SystemClock()
_NOTHING = "No copy of this collection was checked yet; `weboid qa` does it."


@dataclass(frozen=True, slots=True)
class Opened:
    """What may be told of a collection's checks, and what writes it."""

    results: Results
    writer: Writer


@click.command("report")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--limit-pictures",
    type=click.IntRange(0, 5_000),
    default=200,
    show_default=True,
    help="Of how many results, the worst, the pictures go into the file.",
)
@click.option("--title", default="", help="What stands above it.  [default: the folder's name]")
@click.option("--origin", default="", help="Of the pages of `weboid serve`, for links to copies.")
@click.option("--language", default=SOURCE, show_default=True, help="The report's language.")
@filter_options
@collection_option
@database_option
def command(
    *,
    out: Path,
    limit_pictures: int,
    title: str,
    origin: str,
    language: str,
    collection: Path,
    database_url: str,
    **given: Any,
) -> int:
    """Write what checks of copies found into one HTML file, the worst first.

    It asks nobody for anything: pictures, style and script stand in it. Capture and playback are shown
    with a slider; marks made in it come back with `weboid qa marks`. What was taken down is left out.
    """
    wanted = filter_of(given)
    spoken.set(Spoken(check_language(language)))
    layout = read_collection(collection)
    name = title or layout.root.absolute().name
    report = Report(name, _CLOCK.now(), _origin(origin), limit_pictures)
    with opened_results(layout, database_url) as opened, _replacing(out) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            count = opened.writer.write(report, opened.results.every(wanted), file)
        size = partial.stat().st_size / 1e6
    click.echo(f"{clean(str(out))}: {count:,} results, {size:,.1f} MB.")
    return Exit.OK


@contextmanager
def opened_results(layout: Layout, database_url: str) -> Iterator[Opened]:
    """A collection's checks as far as they may be told, until the end of the block.

    Raises:
        UnavailableError: nothing was checked yet.
        TransientError: index, decisions or registry do not answer.
    """
    with ExitStack() as stack:
        database = stack.enter_context(closing(open_database(layout, database_url)))
        decisions = stack.enter_context(closing(open_decisions(layout, database_url)))
        source = stack.enter_context(closing(OpenedWhenAsked(layout, database_url)))
        if not source.is_there():
            raise UnavailableError(_NOTHING)
        holds = Holds(decisions, folder_of(layout.decisions_db))
        permits = Permits(decisions, database.rows, _CLOCK.now, holds)
        results = Results(source, PageStore(database, permits), Cautions(permits))
        offers = Offers(LevelBook(decisions), None)
        yield Opened(results, Writer(Pictures(layout.quality_pictures), offers.shows_pictures))


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file beside the path, which takes its place when the block ends well.

    Raises:
        InputError: nothing can be written there.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            partial.touch(mode=0o644)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"{clean(str(path))} cannot be written: {reason}. Give --out a file in a folder that is there."
            ) from error
        yield partial
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.netloc or any(parts[2:])):
        raise ConfigError(f"--origin must be an origin like https://archive.example, not {text!r}.")
    return text
