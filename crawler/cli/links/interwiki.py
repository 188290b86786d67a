"""`weboid links interwiki`: a wiki's interwiki links as URLs, for the import."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.tables import clean
from links.interwiki import InterwikiMap, read_interwikis

_HEAD = "iwl_from"
_TOLD = 10
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "r": "\r"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@click.command("interwiki")
@click.argument(
    "known", metavar="MAP", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("file", metavar="FILE|-")
def command(*, known: Path, file: str) -> int:
    """Write the interwiki links in FILE as URLs, which `weboid links import` reads.

    MAP is the wiki's answer to api.php?action=query&meta=siteinfo&siprop=interwikimap&format=json.
    FILE has iwl_from, iwl_prefix and iwl_title between tabs, as MediaWiki's table of interwiki links.
    Links to wikis of the same farm are left out.

    \b
    weboid links interwiki map.json iwlinks.tsv > iwlinks.jsonl
    cat externallinks.tsv iwlinks.jsonl | weboid links import - --wiki dewiki
    """  # noqa: D301 a sign for click
    try:
        prefixes = read_interwikis(known.read_bytes())
    except OSError as error:
        raise InputError(f"{known} cannot be read: {error.strerror or error}.") from error
    bad = 0
    with ExitStack() as stack:
        lines: Iterable[str] = sys.stdin
        if file != "-":
            try:
                path = Path(file)
                lines = stack.enter_context(path.open(encoding="utf-8", errors="replace"))
            except OSError as error:
                raise InputError(f"{clean(file)} cannot be read: {error.strerror}.") from error
        for found in _converted(lines, prefixes):
            if isinstance(found, str):
                click.echo(found)
                continue
            bad += 1
            if bad <= _TOLD:
                click.echo(f"Line {found} is no page id, prefix and title between tabs.", err=True)
    if bad > _TOLD:
        click.echo(f"… and {bad - _TOLD:,} more.", err=True)
    return Exit.SOME_FAILED if bad else Exit.OK


def _converted(lines: Iterable[str], prefixes: InterwikiMap) -> Iterator[str | int]:
    """A JSON line for each link that has a URL; the number of a line that is none."""
    for number, line in enumerate(lines, start=1):
        cells = line.rstrip("\r\n").split("\t")
        if cells == [""] or (number == 1 and cells[0].strip().lower() == _HEAD):
            continue
        if len(cells) != 3 or not re.fullmatch(r"\d{1,12}", cells[0], re.ASCII):
            yield number
            continue
        prefix, title = map(_plain, cells[1:])
        for url in prefixes.urls([(prefix, title)]):
            yield json.dumps({"page_id": int(cells[0]), "url": url}, ensure_ascii=False)


def _plain(cell: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), cell)
