"""`weboid status`: what is in a collection, and what is still to be done."""

import json
from pathlib import Path

import click

from core.clock import SystemClock
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, json_option
from crawler.cli.show import size
from crawler.collection import read_collection
from crawler.reporting import Status, status_of


@click.command("status")
@collection_option
@json_option
def command(*, collection: Path, as_json: bool) -> int:
    """Say what a collection holds and what is left to do; works while it is being written."""
    status = status_of(read_collection(collection), now=SystemClock().now())
    if as_json:
        click.echo(json.dumps(status.to_dict(), ensure_ascii=False))
    else:
        for line in lines(status):
            click.echo(line)
    return Exit.OK


def lines(status: Status) -> list[str]:
    """The status for people."""
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(status.outcomes.items()))
    found = [
        f"Collection  {status.root}" + ("  (being written)" if status.in_use else ""),
        f"Pages       {outcomes or 'none'}",
        f"To do       {status.queued} queued, {status.claimed} in work, {status.dead} given up",
        f"Captures    {status.responses} responses, {status.revisits} revisits,"
        f" {status.artifacts} artifacts",
        f"WARCs       {status.warcs} files, {size(status.warc_bytes)};"
        f" {size(status.free_bytes)} free on the disk",
    ]
    found += [f"  given up  {url}: {reason}" for url, reason in status.dead_letters]
    return found
