"""`weboid links passes`: how long passes over all URLs take, and whether that is fast enough."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.durations import told
from core.layout import Layout
from core.timestamps import warc_date
from crawler.cli.exits import Exit
from crawler.cli.links.archives_asked import count_lacking, unasked
from crawler.cli.links.check import opened
from crawler.cli.links.opening import registry_settings
from crawler.cli.options import (
    collection_option,
    database_option,
    json_option,
    profile_option,
)
from crawler.cli.tables import table, width
from links.checking import due
from links.checking.passes import PassRow, latest, longest_due, outlook
from links.days import day_of
from links.schedule import Outlook

_CLOCK = SystemClock()


@click.command("passes")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@collection_option
@database_option
@profile_option
@json_option
def command(*, limit: int, collection: Path, database_url: str, profile: str, as_json: bool) -> int:
    """Show the latest passes, and whether everything is looked at in time.

    A pass over all URLs should not take longer than [links] pass_days. This counts all URLs, which
    takes a while when there are many millions.
    """
    settings = registry_settings(profile, database_url, collection)
    now = _CLOCK.now()
    layout = Layout(collection)
    with opened(layout, settings) as store:
        with store.reading() as rows:
            found = latest(rows, limit=limit)
            seen = outlook(rows, settings.links, now=now)
            late = longest_due(rows, day=day_of(now))
            awaiting = due.count_awaiting(rows)
        lacking = 0 if settings.links.archives else count_lacking(store, layout, settings)
    if as_json:
        document = {
            "passes": [_facts(row) for row in found],
            "outlook": None if seen is None else _outlook_facts(seen),
            "longest_due_days": late,
            "awaiting_opinion": awaiting,
            "unasked": lacking,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    for line in _lines(found, int(now.timestamp())):
        click.echo(line)
    if seen is not None:
        click.echo(seen.sentence if seen.fits else f"Warning: {seen.sentence}")
    elif found:
        click.echo("No pass was long enough yet to tell whether everything is looked at in time.")
    if late > settings.links.pass_days:
        click.echo(f"Warning: a URL has been due for {late} days.")
    if awaiting:
        click.echo(f"{awaiting} links wait for a browser's word: run `weboid links confirm`.")
    if lacking:
        click.echo(unasked(lacking))
    return Exit.OK


def _lines(found: list[PassRow], now: int) -> list[str]:
    if not found:
        return ["There was no pass yet: `weboid links check` makes one."]
    rows = [
        (
            _moment(row.started),
            row.part,
            f"{row.due}",
            f"{row.done}",
            _rate(row, now),
            told(row.ended - row.started) if row.ended is not None else "not at its end",
        )
        for row in found
    ]
    return table(("began", "part", "due>", "done>", "a second>", "took"), rows, columns=width())


def _rate(row: PassRow, now: int) -> str:
    return f"{row.done / max((row.ended or now) - row.started, 1):.1f}"


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _facts(row: PassRow) -> dict[str, Any]:
    ended = None if row.ended is None else warc_date(datetime.fromtimestamp(row.ended, UTC))
    return {
        "part": row.part,
        "started": warc_date(datetime.fromtimestamp(row.started, UTC)),
        "ended": ended,
        "due": row.due,
        "done": row.done,
    }


def _outlook_facts(seen: Outlook) -> dict[str, Any]:
    return {"fits": seen.fits, "load": round(seen.load, 3), "sentence": seen.sentence}
