"""`weboid qa compare`: what became of a page between two captures, or until now."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import InputError, PermanentError, UnavailableError
from core.layout import Layout
from core.settings import Settings
from core.urls import fetch_key
from crawler.archiving import Order, archive
from crawler.cli.exits import Exit
from crawler.cli.options import (
    collection_option,
    database_option,
    dedup_option,
    json_option,
    profile_option,
    shared_settings,
)
from crawler.cli.qa.sights import Sights, opened_sights
from crawler.cli.qa.standalone import embedded, standalone
from crawler.cli.stored_levels import opened_stored_levels
from crawler.cli.tables import clean
from crawler.collection import read_collection
from crawler.profiles import load_profile
from crawler.quality.changes import Changes, Differing, Drift, Sight, changes, facts_of
from playback.front.differing import Difference, Kind, Piece, Row, differences
from playback.front.pages import Page

_CLOCK = SystemClock()
_ROWS_SHOWN = 40  # paragraphs, for people
_URLS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Compared:
    """Two looks at a page and what differs.

    Attributes:
        then: the older.
        now: the newer.
        found: what changed.
        difference: of the texts, by paragraphs; None when one is missing.
    """

    then: Sight
    now: Sight
    found: Changes
    difference: Difference | None


@click.command("compare")
@click.argument("url")
@click.option(
    "--at", "first", default="", metavar="MOMENT", help="The older one.  [default: the oldest good]"
)
@click.option(
    "--to", "second", default="", metavar="MOMENT", help="The newer one.  [default: the newest]"
)
@click.option(
    "--live",
    is_flag=True,
    help="Capture the page now, and compare with that. The capture is kept in the collection.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write all of it as one HTML page, pictures included.",
)
@click.option(
    "--heat",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png",
    help="Write the picture that shows where both differ.",
)
@collection_option
@database_option
@dedup_option
@profile_option
@json_option
def command(
    *,
    url: str,
    first: str,
    second: str,
    live: bool,
    out: Path | None,
    heat: Path | None,
    collection: Path,
    database_url: str,
    dedup_url: str,
    profile: str,
    as_json: bool,
) -> int:
    """Say what became of a page: picture, words, title, address, links, parts, owner.

    Compares two captures of URL, and says in one word what the page is now: unchanged, changed a
    little, rewritten, another page, another owner, gone, hidden (behind a login or a check for
    robots), or unknown. A MOMENT is a date (2026-01-31), a date and time, or a capture's 14 digits;
    it takes the good capture nearest to it. Exit code 1: there is nothing to compare.
    """
    if live and second:
        raise InputError("--live is the newer one: leave --to out.")
    layout = read_collection(collection)
    settings = shared_settings(
        load_profile(profile),
        database_url=database_url,
        dedup_url=dedup_url,
    )
    url = fetch_key(url)
    with opened_sights(layout, database_url) as sights:
        then = _older(sights, url, first)
        now = _newer(sights, url, second)
        if live:
            _capture(url, collection, settings)
            now = sights.latest(url)
        if now is None or now.page_id == then.page_id:
            raise UnavailableError(
                f"There is no other capture of {url} to compare that one with: --live makes one."
            )
        older, newer = sorted((then, now), key=lambda page: page.captured_at)
        compared = compare(sights, older, newer, heat=heat is not None or out is not None)
    _write(compared, out, heat)
    _tell(compared, as_json=as_json)
    return Exit.SOME_FAILED if compared.found.drift is Drift.UNKNOWN else Exit.OK


def compare(sights: Sights, older: Page, newer: Page, *, heat: bool = False) -> Compared:
    """Everything that differs between two captures."""
    then, now = sights.pair(older, newer)
    texts = then.text, now.text
    difference = None
    if texts[0] is not None and texts[1] is not None:
        difference = differences(texts[0], texts[1])
    return Compared(then, now, changes(then, now, heat=heat), difference)


def _older(sights: Sights, url: str, moment: str) -> Page:
    if moment:
        return sights.at(url, moment)
    page = sights.oldest_good(url) or sights.newest(url)
    if page is None:
        raise UnavailableError(f"There is no capture of {url}: `weboid archive` makes one.")
    return page


def _newer(sights: Sights, url: str, moment: str) -> Page | None:
    return sights.at(url, moment) if moment else sights.newest(url)


def _capture(url: str, root: Path, settings: Settings) -> None:
    """Visit the page once more; what fails is an answer, too, and is not tried again."""
    once = replace(settings, frontier=replace(settings.frontier, attempts=1))
    with opened_stored_levels(Layout(root), settings.index.url) as level_of:
        order = Order([url], root, once, 1, again=timedelta(0), stored_level_of=level_of)
        account = asyncio.run(
            archive(order, clock=_CLOCK, started=lambda *_: None, report=lambda _: None)
        )
    if account.skipped:
        why = ", ".join(account.skipped)
        raise PermanentError(f"{url} was not captured: {why}.")


def _write(compared: Compared, out: Path | None, heat: Path | None) -> None:
    picture = compared.found.picture
    drawn = None if picture is None else picture.heat
    if heat is not None:
        if drawn is None:
            raise PermanentError("There is no heat map: a picture is missing or damaged.")
        heat.write_bytes(drawn)
    if out is not None:
        out.write_text(page_of(compared), encoding="utf-8", errors="replace")


def page_of(compared: Compared) -> str:
    """All that changed as one HTML page."""
    then, now, found = compared.then, compared.now, compared.found
    heat = None if found.picture is None else found.picture.heat
    return standalone(
        "changes.html",
        drift=str(found.drift),
        found=found,
        now=now,
        facts=_facts(then, now),
        difference=compared.difference,
        pictures=[
            ("Before", embedded(then.picture)),
            ("After", embedded(now.picture)),
            ("Where they differ", embedded(heat)),
        ],
    )


def _facts(then: Sight, now: Sight) -> list[tuple[str, str, str]]:
    def row(sight: Sight) -> tuple[str, ...]:
        return (
            f"{sight.captured_at:%Y-%m-%d %H:%M:%S} UTC",
            sight.title,
            "" if sight.status is None else str(sight.status),
            sight.page_class or "not judged",
            sight.final_url,
            ", ".join(each for each in (sight.outcome, sight.reason) if each),
        )

    names = ("Captured", "Title", "Status", "Class", "Final URL", "Visit")
    return list(zip(names, row(then), row(now), strict=True))


def _tell(compared: Compared, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_as_json(compared), ensure_ascii=False))
        return
    found = compared.found
    click.echo(f"{found.drift}: {clean(compared.now.url)}")
    if found.reason:
        click.echo(f"  {clean(found.reason)}")
    for name, before, after in _facts(compared.then, compared.now):
        same = before == after
        click.echo(f"  {name:<10}{clean(before) if same else f'{clean(before)} -> {clean(after)}'}")
    if found.picture is not None:
        click.echo(f"  {'Picture':<10}{found.picture.score:.3f}")
    if found.text is not None:
        click.echo(f"  {'Text':<10}{found.text.score:.3f}")
    for label, differing in (("Links", found.links), ("Parts", found.parts)):
        _tell_urls(label, differing)
    if compared.difference is not None:
        _tell_rows(compared.difference)


def _tell_urls(label: str, differing: Differing | None) -> None:
    if differing is None or not (differing.added_count or differing.removed_count):
        return
    click.echo(
        f"  {label:<10}{differing.added_count} added, {differing.removed_count} removed,"
        f" {differing.kept_count} kept"
    )
    for sign, urls in (("-", differing.removed), ("+", differing.added)):
        for url in urls[:_URLS_SHOWN]:
            click.echo(f"    {sign} {clean(url)}")


def _tell_rows(difference: Difference) -> None:
    rows = [row for row in difference.rows if row.kind not in (Kind.SAME, Kind.FOLDED)]
    for row in rows[:_ROWS_SHOWN]:
        for sign, pieces in (("-", row.before), ("+", row.after)):
            if pieces:
                click.echo(f"  {sign} {clean(_plain(pieces))}")
    if len(rows) > _ROWS_SHOWN or difference.is_cut:
        click.echo("  … and more: --out FILE.html shows all of it.")


def _plain(pieces: tuple[Piece, ...]) -> str:
    return "".join("…" if piece.is_gap else piece.text for piece in pieces)


def _as_json(compared: Compared) -> dict[str, Any]:
    facts = facts_of(compared.found, compared.then, compared.now)
    difference = compared.difference
    if difference is not None:
        facts["paragraphs"] = {
            "added": difference.added,
            "removed": difference.removed,
            "changed": difference.changed,
            "is_cut": difference.is_cut,
            "rows": [_row(row) for row in difference.rows if row.kind in _TOLD],
        }
    return facts


_TOLD = (Kind.CHANGED, Kind.ADDED, Kind.REMOVED)


def _row(row: Row) -> dict[str, str]:
    return {
        "kind": str(row.kind),
        "before": _plain(row.before),
        "after": _plain(row.after),
    }
