"""`weboid index`: the captures index."""

import asyncio
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.clock import SystemClock
from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.index_push import push
from crawler.cli.options import (
    collection_option,
    database_option,
    dedup_option,
    json_option,
    profile_option,
    with_database,
)
from crawler.collection import open_collection, read_collection
from crawler.profiles import load_profile
from proxy.checksums import closed_warcs
from proxy.payloads.opening import open_shared
from proxy.rebuilding import rebuild
from proxy.recovery import interrupted


@click.group("index")
def command() -> None:
    """Look after the captures index."""


@command.command("rebuild")
@collection_option
@database_option
@dedup_option
@profile_option
@json_option
def rebuild_command(
    *, collection: Path, database_url: str, dedup_url: str, profile: str, as_json: bool
) -> int:
    """Make the index anew from the WARCs; the old one stays until the new one is whole."""
    read_collection(collection)
    settings = with_database(load_profile(profile), database_url)
    if dedup_url:
        settings = replace(settings, proxy=replace(settings.proxy, dedup_url=dedup_url))
    counts = asyncio.run(_rebuild(collection, settings, quiet=as_json))
    if as_json:
        click.echo(json.dumps(counts))
    else:
        click.echo(
            f"{counts['captures']} captures of {counts['pages']} pages"
            f" in {counts['files']} WARCs indexed."
        )
    return Exit.OK


command.add_command(push)


async def _rebuild(collection: Path, settings: Settings, *, quiet: bool) -> dict[str, int]:
    async with open_collection(collection, clock=SystemClock()) as opened:
        layout = opened.layout
        total = len(closed_warcs(layout)) + len(interrupted(layout))
        columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with ExitStack() as stack:
            shared = open_shared(layout, settings.proxy)
            if shared is not None:
                stack.callback(shared.close)
            progress = stack.enter_context(Progress(*columns, transient=True, disable=quiet))
            task = progress.add_task("", total=total)
            return rebuild(
                layout,
                bucket=settings.proxy.dedup_bucket,
                min_bytes=settings.proxy.dedup_min_bytes,
                also=settings.proxy.dedup_also,
                shared=shared,
                progress=lambda _name, _rows: progress.advance(task),
                told=lambda text: click.echo(text, err=True),
                index=settings.index,
            )
