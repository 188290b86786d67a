"""`weboid links import`: the links of whole wikis, from a file."""

import json
import os
import sys
from contextlib import ExitStack, closing
from hashlib import blake2b
from io import BufferedIOBase
from pathlib import Path
from typing import cast

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from core.clock import SystemClock
from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean
from links.books.dumps import BadLine, read_links
from links.books.importing import Imported, Importer, Spool
from links.books.wikis import WikiName, parse_wiki
from links.days import day_of
from links.sorting import Sort

_CLOCK = SystemClock()
_BAD_SHOWN = 20  # bad lines that are told of one by one


@click.command("import")
@click.argument("file", metavar="FILE|-")
@click.option("--wiki", "wiki_name", metavar="NAME", help="Whose links these are: dewiki@WMF.")
@click.option(
    "--restart", is_flag=True, help="From the first page, although a run was interrupted."
)
@click.option("--dry-run", is_flag=True, help="Say what is in the file, and write nothing.")
@collection_option
@database_option
@json_option
def command(
    *,
    file: str,
    wiki_name: str | None,
    restart: bool,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Bring in the links of wikis from FILE, or from standard input.

    \b
    JSON lines     {"wiki": "dewiki@WMF", "page_id": 7, "title": "Foo", "url": "https://..."}
                   or "urls": [...]
    tabs between   wiki, page id, title, namespace, URL; without wiki when --wiki says it
    MediaWiki's    el_from, el_to; or el_from, el_to_domain_index, el_to_path; with --wiki
    externallinks  (a first line may name the columns, in any order), or its dump in SQL

    Files may be compressed by gzip. What the file says of a page is taken for all links of that page.
    A run that was interrupted goes on where it stopped when the same file is imported again.
    """  # noqa: D301 a sign for click
    wiki = None if wiki_name is None else parse_wiki(wiki_name)
    with ExitStack() as stack:
        store = stack.enter_context(opened_registry(collection, database_url, make=not dry_run))
        stream = _opened(stack, file)
        spool = stack.enter_context(closing(Spool()))
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()),
            *(MofNCompleteColumn(), TimeRemainingColumn()),
        )
        progress = stack.enter_context(Progress(*columns, transient=True, disable=as_json))
        bad = _read(stream, spool, wiki, progress, size=_size(stream))
        task = progress.add_task("writing", total=spool.pages())
        importer = Importer(store, day=day_of(_CLOCK.now()), digest=_digest(file, wiki))
        if dry_run:
            done = importer.look(spool, progress=lambda more: progress.advance(task, more))
        else:
            done = importer.run(
                spool, anew=restart, progress=lambda more: progress.advance(task, more)
            )
    _say(done, bad, spool, dry_run=dry_run, as_json=as_json)
    return Exit.SOME_FAILED if bad else Exit.OK


def _opened(stack: ExitStack, file: str) -> BufferedIOBase:
    if file == "-":
        return cast("BufferedIOBase", sys.stdin.buffer)
    try:
        return stack.enter_context(Path(file).open("rb"))
    except OSError as error:
        raise InputError(f"{clean(file)} cannot be read: {error.strerror}.") from error


def _size(stream: BufferedIOBase) -> int | None:
    try:
        return os.fstat(stream.fileno()).st_size or None
    except OSError:
        return None


def _digest(file: str, wiki: WikiName | None) -> bytes:
    """What tells this import from others; empty for what cannot be read again."""
    if file == "-":
        return b""
    found = Path(file).stat()
    facts = (str(Path(file).absolute()), found.st_size, found.st_mtime_ns, str(wiki or ""))
    return blake2b(repr(facts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _read(
    stream: BufferedIOBase,
    spool: Spool,
    wiki: WikiName | None,
    progress: Progress,
    *,
    size: int | None,
) -> int:
    """Put all rows of the file aside; how many lines were none."""
    bad = number = 0
    task = progress.add_task("reading", total=size)
    rows = read_links(
        stream,
        one_wiki=wiki is not None,
        progress=lambda more: progress.advance(task, more),
    )
    for row in rows:
        number += 1
        if isinstance(row, BadLine):
            place, why = f"Line {row.number}", row.why
        else:
            try:
                spool.add(row, wiki)
            except InputError as error:
                place, why = f"Link {number}", str(error)
            else:
                continue
        bad += 1
        if bad <= _BAD_SHOWN:
            click.echo(f"{place} is passed over: {clean(why).rstrip('.')}.", err=True)
    if bad > _BAD_SHOWN:
        click.echo(f"… and {bad - _BAD_SHOWN} more lines.", err=True)
    progress.remove_task(task)
    return bad


def _say(done: Imported, bad: int, spool: Spool, *, dry_run: bool, as_json: bool) -> None:
    sorts = {str(sort): done.sorts[sort] for sort in Sort if done.sorts[sort]}
    if as_json:
        facts = {
            "wikis": [str(name) for name in spool.names],
            "pages": done.pages,
            "resumed_after": done.resumed,
            "links": done.links,
            "sorts": sorts,
            "added": done.added,
            "gone": done.gone,
            "bad_lines": bad,
            "dry_run": dry_run,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    if done.resumed:
        click.echo(f"Went on after {done.resumed:,} pages that were written before.")
    would = "Would write" if dry_run else "Wrote"
    click.echo(f"{would} {done.pages:,} pages with {done.links:,} links.")
    for sort, count in sorts.items():
        click.echo(f"  {count:,} {sort}")
    if not dry_run:
        click.echo(f"{done.added:,} links are new or back, {done.gone:,} are gone.")
