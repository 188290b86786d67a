"""`weboid scan lists`: addresses that readers are warned of."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import InputError
from core.timestamps import warc_date
from crawler.cli.exits import Exit
from crawler.cli.links.confirm import rested
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.params import DURATION
from crawler.cli.tables import clean, table, width
from crawler.collection import read_collection
from playback.decisions.lists import (
    ListEffect,
    UrlList,
    add_list,
    folder_of,
    known_lists,
    load_lists,
    remove_list,
)
from playback.decisions.prefix_files import binary_prefixes, hex_prefixes
from playback.decisions.store import DecisionStore, open_decisions
from playback.decisions.url_hashes import full_hashes

_CLOCK = SystemClock()
_SOURCES = "sources.json"


@click.group("lists")
def lists() -> None:
    """Keep lists of bad addresses, in files of this machine: nobody is asked about a URL."""


@lists.command("add")
@click.argument("name")
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["hex", "binary", "urls"]),
    default="hex",
    show_default=True,
    help="Hash prefixes, one a line or one behind the other; or URLs and hosts, one a line.",
)
@click.option("--width", "bytes_each", type=click.IntRange(4, 32), default=4, show_default=True,
              help="Bytes of a prefix, with --format binary.")  # fmt: skip
@click.option("--warn", is_flag=True, help="Show the copy beside the notice, not behind it.")
@click.option("--reason", default="", help="What is on the list, for readers.")
@click.option("--dry-run", is_flag=True, help="Read the file, and change nothing.")
@collection_option
@database_option
@json_option
def add_command(
    *,
    name: str,
    file: Path,
    form: str,
    bytes_each: int,
    warn: bool,
    reason: str,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Add the list NAME from FILE, or bring it up to date; - reads standard input.

    Prefixes are of 4 to 32 bytes of the SHA-256 of Safe Browsing's expressions. See docs/scanning.md.
    """
    effect = ListEffect.WARN if warn else ListEffect.HOLD
    with (
        _store(collection, database_url) as (store, folder),
        click.open_file(str(file), "rb") as source,
    ):
        prefixes = _prefixes(source, form, bytes_each)
        about = UrlList(name, "", effect, reason, 0, _CLOCK.now())
        if dry_run:
            count = len(set(prefixes))
            click.echo(f"{count:,} entries would be on the list {clean(name)}.")
            return Exit.OK
        made = add_list(store, folder, about, prefixes)
        remember_source(folder, name, None if str(file) == "-" else _Source(file, form, bytes_each))
    _tell(made, f"{made.entries:,} entries are on the list {clean(name)}.", as_json=as_json)
    return Exit.OK


@lists.command("remove")
@click.argument("name")
@collection_option
@database_option
@json_option
def remove_command(*, name: str, collection: Path, database_url: str, as_json: bool) -> int:
    """Take the list NAME away: nobody is warned of what was on it."""
    with _store(collection, database_url) as (store, folder):
        gone = remove_list(store, folder, name)
        remember_source(folder, name, None)
    _tell(gone, f"The list {clean(name)} of {gone.entries:,} entries is gone.", as_json=as_json)
    return Exit.OK


@lists.command("refresh")
@collection_option
@database_option
@click.option("--every", type=DURATION, metavar="LENGTH", help="Again and again, so often: 1h.")
@json_option
def refresh_command(
    *, collection: Path, database_url: str, every: timedelta | None, as_json: bool
) -> int:
    """Bring lists up to date whose files have changed since they were added; `wiki watch` does it hourly.

    A list comes from where `lists add` read it; one from standard input is left alone.
    """
    while True:
        failed = _refresh(collection, database_url, as_json=as_json)
        if every is None:
            return Exit.SOME_FAILED if failed else Exit.OK
        if not asyncio.run(rested(every)):
            return Exit.OK


def _refresh(collection: Path, database_url: str, *, as_json: bool) -> bool:
    """Read again the lists whose files have changed; return True when one could not be read."""
    failed = False
    with _store(collection, database_url) as (store, folder):
        sources = _sources(folder)
        for about in known_lists(store):
            source = sources.get(about.name)
            if source is None:
                continue
            try:
                if datetime.fromtimestamp(source.file.stat().st_mtime, UTC) <= about.added_at:
                    continue
                with source.file.open("rb") as stream:
                    prefixes = list(_prefixes(stream, source.form, source.bytes_each))
                made = add_list(store, folder, replace(about, added_at=_CLOCK.now()), prefixes)
            except (OSError, InputError) as error:  # the older list stays
                click.echo(f"The list {clean(about.name)} stays as it was: {error}", err=True)
                failed = True
                continue
            told = f"{made.entries:,} entries are on the list {clean(made.name)}."
            _tell(made, told, as_json=as_json)
    return failed


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a list comes from, and in which form."""

    file: Path
    form: str
    bytes_each: int


def remember_source(folder: Path, name: str, source: _Source | None) -> None:
    """Keep where a list comes from; None forgets it."""
    found = _sources(folder)
    found.pop(name, None)
    if source is not None:
        found[name] = replace(source, file=source.file.absolute())
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        each: [str(source.file), source.form, source.bytes_each] for each, source in found.items()
    }
    partial = folder / f"{_SOURCES}.new"
    partial.write_text(json.dumps(facts), encoding="utf-8")
    partial.replace(folder / _SOURCES)


def _sources(folder: Path) -> dict[str, _Source]:
    try:
        facts = json.loads((folder / _SOURCES).read_text(encoding="utf-8"))
        return {
            name: _Source(Path(file), str(form), int(size))
            for name, (file, form, size) in facts.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


@lists.command("show")
@collection_option
@database_option
@json_option
def show_command(*, collection: Path, database_url: str, as_json: bool) -> int:
    """Show the lists."""
    with _store(collection, database_url) as (store, _):
        found = known_lists(store)
    if as_json:
        click.echo(json.dumps({"lists": [_facts(each) for each in found]}))
        return Exit.OK
    rows = [
        (clean(each.name), f"{each.entries:,}", each.effect, f"{each.added_at:%Y-%m-%d %H:%M}",
         clean(each.reason))
        for each in found
    ]  # fmt: skip
    for line in table(("list", "entries>", "effect", "as of", "reason"), rows, columns=width()):
        click.echo(line)
    return Exit.OK


@lists.command("check")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@collection_option
@database_option
@json_option
def check_command(
    *, urls: tuple[str, ...], collection: Path, database_url: str, as_json: bool
) -> int:
    """Say on which lists each URL is. Exit code 1: one of them is on one."""
    with _store(collection, database_url) as (store, folder):
        known = load_lists(store, folder)
    found = {url: known.all_on(url) for url in urls}
    if as_json:
        document = [
            {"url": url, "lists": [{**_facts(hit.on), "sure": hit.is_sure} for hit in hits]}
            for url, hits in found.items()
        ]
        click.echo(json.dumps({"urls": document}))
    else:
        for url, hits in found.items():
            names = [f"{clean(hit.on.name)}{'' if hit.is_sure else ' (maybe)'}" for hit in hits]
            click.echo(f"{clean(url)}: {', '.join(names) or 'on no list'}")
    return Exit.SOME_FAILED if any(found.values()) else Exit.OK


@contextmanager
def _store(collection: Path, database_url: str) -> Iterator[tuple[DecisionStore, Path]]:
    layout = read_collection(collection)
    store = open_decisions(layout, database_url)
    try:
        yield store, folder_of(layout.decisions_db)
    finally:
        store.close()


def _prefixes(source: Any, form: str, bytes_each: int) -> Iterable[bytes]:
    if form == "binary":
        return binary_prefixes(source.read(), bytes_each)
    return hex_prefixes(source) if form == "hex" else _hashed(source)


def _hashed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The whole hash of each URL, or of each host with all that is below it."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            url = text.decode()
        except UnicodeDecodeError:
            raise InputError(f"Line {number} is no text.") from None
        yield full_hashes(url)[0]


def _tell(about: UrlList, words: str, *, as_json: bool) -> None:
    click.echo(json.dumps(_facts(about)) if as_json else words)


def _facts(about: UrlList) -> dict[str, Any]:
    return {
        "name": about.name,
        "entries": about.entries,
        "effect": about.effect,
        "reason": about.reason,
        "added_at": warc_date(about.added_at),
    }
