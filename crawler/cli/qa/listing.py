"""`weboid qa ls`: what checks found, on the terminal, as JSON or as CSV."""

import csv
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.qa.filters import filter_of, filter_options
from crawler.cli.tables import clean, table, width
from links.books.quality import CheckedPage, Filter, Place, worst
from links.store.statements import Reader
from playback.front.quality.asking import verdict_name
from playback.front.quality.programs import facts_of

_AT_ONCE = 1_000
# What a spreadsheet would take for a formula is no address of the web: it gets a letter before it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@click.command("ls")
@filter_options
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV for spreadsheets.")
@collection_option
@database_option
@json_option
def command(
    *,
    limit: int,
    as_csv: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
    **given: Any,
) -> int:
    """List what checks of copies found, the worst first.

    With --json a line is an object. This is for whoever runs the archive: what was taken down is listed
    as long as it is not erased; reports and the pages at /quality leave it out.
    """
    if as_csv and as_json:
        raise InputError("Either --json or --csv.")
    wanted = filter_of(given)
    with opened_registry(collection, database_url) as store, store.snapshot() as reader:
        rows = islice(_rows(reader, wanted), limit)
        if as_json:
            for row in rows:
                click.echo(json.dumps(facts_of(row)))
        elif as_csv:
            _write_csv(rows)
        else:
            _show(list(rows))
    return Exit.OK


def _rows(reader: Reader, wanted: Filter) -> Iterator[CheckedPage]:
    after: Place | None = None
    while part := worst(reader, wanted, after, _AT_ONCE):
        yield from part
        after = part[-1].place


def _write_csv(rows: Iterator[CheckedPage]) -> None:
    writer: Any = None
    for row in rows:
        facts = facts_of(row)
        if writer is None:
            writer = csv.DictWriter(sys.stdout, fieldnames=list(facts))
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in facts.items()})


def _cell(value: object) -> str:
    """A value as a spreadsheet may have it.

    >>> _cell("=1+1"), _cell(["a", "b"]), _cell(None), _cell(-0.5)
    ("'=1+1", 'a b', '', '-0.5')
    """
    if value is None:
        return ""
    if isinstance(value, list):
        value = " ".join(
            f"{each['url']} ({each['reason']})" if isinstance(each, dict) else str(each)
            for each in value
        )
    if not isinstance(value, str):
        return str(value)
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _show(rows: list[CheckedPage]) -> None:
    if not rows:
        click.echo("No check of that sort; without any, `weboid qa` makes some.", err=True)
        return
    lines = [
        (
            "-" if row.check.score is None else f"{row.check.score:.3f}",
            verdict_name(row.verdict) + ("*" if row.review else ""),
            row.check.level,
            ",".join(row.check.faults),
            row.check.captured_at[:19],
            row.check.url,
        )
        for row in rows
    ]
    head = ("score>", "verdict", "level", "faults", "captured", "url")
    for line in table(head, lines, columns=width()):
        click.echo(line)
