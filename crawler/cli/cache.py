"""`weboid cache`: what playback made safe and keeps, so that it need not make it again."""

import json
from pathlib import Path

import click

from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, json_option
from crawler.collection import read_collection
from playback.replay.files import Kept, clear, kept


@click.group("cache")
def command() -> None:
    """See or delete the safe copies that playback keeps beside the archive.

    They are made again when they are asked for; nothing that was archived is lost.
    """


@command.command("show")
@collection_option
@json_option
def show_command(*, collection: Path, as_json: bool) -> int:
    """Say how much is kept."""
    folder = read_collection(collection).made
    _tell(kept(folder), "kept", "Kept", folder, as_json=as_json)
    return Exit.OK


@command.command("clear")
@collection_option
@click.option("--dry-run", is_flag=True, help="Only say how much it would be.")
@json_option
def clear_command(*, collection: Path, dry_run: bool, as_json: bool) -> int:
    """Delete all of it; also while the collection is served."""
    folder = read_collection(collection).made
    gone = kept(folder) if dry_run else clear(folder)
    words = ("would_delete", "Would delete") if dry_run else ("deleted", "Deleted")
    _tell(gone, *words, folder, as_json=as_json)
    return Exit.OK


def _tell(what: Kept, key: str, verb: str, folder: Path, *, as_json: bool) -> None:
    if as_json:
        document = {key: {"copies": what.values, "bytes": what.size}, "folder": str(folder)}
        click.echo(json.dumps(document))
        return
    copies = "1 copy" if what.values == 1 else f"{what.values:,} copies"
    click.echo(f"{verb} {copies}, {what.size / 1e6:,.1f} MB, in {folder}.")
