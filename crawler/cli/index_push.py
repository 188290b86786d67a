"""`weboid index push`: captures to an OutbackCDX server."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from core.errors import TransientError
from core.layout import Layout
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option, json_option
from crawler.collection import read_collection
from playback.database import Database, open_database
from playback.outback import OutbackCdx, parse_outback_url

# Checks of pages are no captures of them; what was captured with a login is told to no other index.
_CAPTURES = """login IS NULL AND NOT EXISTS (SELECT 1 FROM qualities
    WHERE qualities.filename = captures.filename AND qualities."offset" = captures."offset")"""
_ROWS = f"""
SELECT id, url, urlkey, captured_ms, record_type, mime, status, digest, filename, "offset", length,
    orig_filename, orig_offset, orig_length
FROM captures WHERE id > :after AND {_CAPTURES} ORDER BY id LIMIT :limit
"""  # noqa: S608 constants


@click.command("push")
@click.argument("url", metavar="cdx+http://HOST/NAME")
@click.option("--batch", type=click.IntRange(1, 100_000), default=2_000, show_default=True,
              help="Captures a request.")  # fmt: skip
@click.option(
    "--all", "everything", is_flag=True, help="Begin anew: send what was sent before, too."
)
@click.option("--dry-run", is_flag=True, help="Say how many would be sent, and send nothing.")
@collection_option
@database_option
@json_option
def push(
    *,
    url: str,
    batch: int,
    everything: bool,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Send the captures of the index to an OutbackCDX server, those that it does not have yet.

    Captures that were made with a login are not sent.

    Goes on where it stopped: after each request it is noted how far it came. What is sent twice is
    there once. `weboid serve --captures-index` reads it. See docs/index-sources.md.
    """
    layout, address = read_collection(collection), parse_outback_url(url)
    with ExitStack() as stack:
        database = open_database(layout, database_url)
        stack.callback(database.close)
        top = _number(database, "SELECT coalesce(max(id), 0) AS n FROM captures", {})
        after = 0 if everything else _pushed(layout, str(address))
        after = after if after <= top else 0  # the index was made anew
        if dry_run:
            query = f"SELECT count(*) AS n FROM captures WHERE id > :after AND {_CAPTURES}"  # noqa: S608 constants
            _tell(_number(database, query, {"after": after}), "would be sent", as_json=as_json)
            return Exit.OK
        source = OutbackCdx(address)
        stack.callback(source.close)
        columns = (TextColumn("sending"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        progress = stack.enter_context(Progress(*columns, transient=True, disable=as_json))
        task = progress.add_task("", total=top - after)
        sent, begun = 0, after
        while rows := database.rows(_ROWS, {"after": after, "limit": batch}):
            sent += source.add(rows)
            after = rows[-1]["id"]
            _note(layout, str(address), after)
            progress.update(task, completed=after - begun)
    _tell(sent, "sent", as_json=as_json)
    return Exit.OK


def _number(database: Database, query: str, values: dict[str, Any]) -> int:
    found = database.rows(query, values)
    return int(found[0]["n"]) if found else 0


def _file(layout: Layout) -> Path:
    return layout.databases / "pushed.json"


def _known(layout: Layout) -> dict[str, int]:
    try:
        known = json.loads(_file(layout).read_text())
        return {str(url): int(number) for url, number in known.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TransientError(
            f"{_file(layout)} cannot be read: {error}. Remove it to send everything again."
        ) from error


def _pushed(layout: Layout, address: str) -> int:
    """The last row that was sent there."""
    return _known(layout).get(address, 0)


def _note(layout: Layout, address: str, number: int) -> None:
    made = {**_known(layout), address: number}
    temporary = _file(layout).with_suffix(".new")
    temporary.write_text(json.dumps(made))
    temporary.rename(_file(layout))


def _tell(count: int, done: str, *, as_json: bool) -> None:
    click.echo(json.dumps({"captures": count}) if as_json else f"{count:,} captures {done}.")
