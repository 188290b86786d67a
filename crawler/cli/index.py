"""`weboid index`: the captures index."""

import asyncio
import json
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.clock import SystemClock
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, json_option, profile_option
from crawler.collection import open_collection, read_collection
from crawler.profiles import load_profile
from proxy.recovery import rebuild


@click.group("index")
def command() -> None:
    """Look after the captures index."""


@command.command("rebuild")
@collection_option
@profile_option
@json_option
def rebuild_command(*, collection: Path, profile: str, as_json: bool) -> int:
    """Make the index anew from the WARCs; the old one stays until the new one is whole."""
    read_collection(collection)
    bucket = load_profile(profile).proxy.dedup_bucket
    counts = asyncio.run(_rebuild(collection, bucket, quiet=as_json))
    if as_json:
        click.echo(json.dumps(counts))
    else:
        click.echo(
            f"{counts['captures']} captures of {counts['pages']} pages"
            f" in {counts['files']} WARCs indexed."
        )
    return Exit.OK


async def _rebuild(collection: Path, bucket: str, *, quiet: bool) -> dict[str, int]:
    async with open_collection(collection, clock=SystemClock()) as opened:
        layout = opened.layout
        total = len(list(layout.archive.glob("*.warc.gz*")))
        columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, transient=True, disable=quiet) as progress:
            task = progress.add_task("", total=total)
            return rebuild(
                layout, bucket=bucket, progress=lambda _name, _rows: progress.advance(task)
            )
