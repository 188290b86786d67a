"""`weboid takedown erase`: what was taken down, taken out of the WARCs. It cannot be undone."""

import asyncio
import getpass
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from core.captures import Capture
from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from core.settings import Settings
from core.timestamps import milliseconds, parse_warc_date, warc_date
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option, json_option, with_database
from crawler.cli.tables import clean
from crawler.cli.takedown_store import Opened, opened
from crawler.collection import open_collection
from crawler.quality.forgetting import forget_pages
from playback.coverage import Coverage, revisits_of
from playback.decisions import takedown_book as book
from playback.decisions.store import DecisionStore
from playback.decisions.takedowns import Takedown
from playback.replay.files import clear
from proxy.erasing import Erased, Tombstone, erase, finish, is_interrupted
from proxy.rebuilding import rebuild

_CLOCK = SystemClock()
_MOST_SHOWN = 50
_KEEP = """
INSERT INTO erasures (record_id, takedown, filename, url, captured_ms, erased_ms, actor)
VALUES (:record_id, :takedown, :filename, :url, :captured_ms, :erased_ms, :actor)
ON CONFLICT DO NOTHING
"""


@click.command("erase")
@click.argument("number", type=int, required=False, metavar="NUMBER")
@click.option("--yes", is_flag=True, help="Do it. Without it, only what would be done is said.")
@click.option("--finish", "only_finish", is_flag=True, help="End an erasing that was interrupted.")
@click.option("--actor", default=None, help="Who does it.  [default: you]")
@collection_option
@database_option
@json_option
def erase_command(
    *,
    number: int | None,
    yes: bool,
    only_finish: bool,
    actor: str | None,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Take the payloads that take-down NUMBER covers out of the WARCs, for good.

    In the place of each record stands a tombstone that says what was erased, when, why and by whom;
    every other record stays byte for byte. Revisits of an erased payload, at whatever URL, are erased
    with it, and what checks said and showed of the pages (`weboid qa`). Needs the collection for itself, and room for one copy of each WARC concerned.
    """
    if (number is None) != only_finish:
        raise InputError("Say which take-down: its number, as `weboid takedown list` shows it.")
    said = actor if actor is not None else getpass.getuser()
    return asyncio.run(_run(collection, database_url, number, said, yes=yes, as_json=as_json))


async def _run(
    collection: Path,
    database_url: str,
    number: int | None,
    actor: str,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    async with open_collection(collection, clock=_CLOCK) as held:
        with ExitStack() as stack:
            at = opened(stack, collection, database_url)
            if number is None:
                if not is_interrupted(held.layout):
                    raise InputError("No erasing was interrupted.")
                return _finished(held.layout, at.decisions, database_url, actor, as_json=as_json)
            if is_interrupted(held.layout):
                raise InputError("An erasing was interrupted: end it first, with --finish.")
            takedown = _standing(at.decisions, number)
            captures = list(Coverage(at.database, takedown, _CLOCK.now()).captures())
            lost = revisits_of(at.database, captures)
            _announce(takedown, captures, lost, quiet=as_json)
            if not yes:
                return _not_done(captures, lost, as_json=as_json)
            erased = _erase(held.layout, at, takedown, (captures, lost), database_url, actor)
        _say(erased, as_json=as_json)
        return Exit.OK


def _standing(decisions: DecisionStore, number: int) -> Takedown:
    now = _CLOCK.now()
    for each in book.entries(decisions):
        if each.takedown.number == number:
            if not each.holds(now):
                raise InputError(f"Take-down {number} was lifted or is over, so nothing is erased.")
            return each.takedown
    raise InputError(f"There is no take-down {number}; `weboid takedown list` shows them.")


def _erase(
    layout: Layout,
    at: Opened,
    takedown: Takedown,
    found: tuple[list[Capture], list[Capture]],
    database_url: str,
    actor: str,
) -> list[Erased]:
    now = _CLOCK.now()
    captures, lost = found
    lines = (
        ("erased", warc_date(now)),
        ("erased-by", actor),
        ("takedown", str(takedown.number)),
        ("reason", takedown.reason),
    )
    why = {"revisit-of": "The payload that it referred to was erased."}
    tombstones: dict[str, list[Tombstone]] = {}
    places: set[tuple[str, int]] = set()
    for each, more in (*((one, {}) for one in captures), *((one, why) for one in lost)):
        place = (each.location.filename, each.location.offset)
        if place not in places:
            places.add(place)
            stone = Tombstone(each.location.offset, (*lines, *more.items()))
            tombstones.setdefault(each.location.filename, []).append(stone)
    erased = erase(layout, tombstones, with_index=not database_url)
    _after(layout, at.decisions, database_url, erased, takedown.number, actor)
    return erased


def _finished(
    layout: Layout, decisions: DecisionStore, database_url: str, actor: str, *, as_json: bool
) -> int:
    erased = finish(layout, with_index=not database_url)
    _after(layout, decisions, database_url, erased, 0, actor)
    _say(erased, as_json=as_json)
    return Exit.OK


def _after(  # what is left to do when the WARCs are as they should be
    layout: Layout,
    decisions: DecisionStore,
    database_url: str,
    erased: list[Erased],
    number: int,
    actor: str,
) -> None:
    clear(layout.made)  # safe copies of what is gone are gone, too
    forget_pages(layout, database_url, (each.page_id for each in erased))
    if database_url and erased:
        settings = with_database(Settings(), database_url)
        rebuild(
            layout,
            bucket=settings.proxy.dedup_bucket,
            min_bytes=settings.proxy.dedup_min_bytes,
            index=settings.index,
        )
    erased_ms = milliseconds(_CLOCK.now())
    decisions.change(
        [
            (
                _KEEP,
                {
                    "record_id": each.record_id,
                    "takedown": number,
                    "filename": each.filename,
                    "url": each.url,
                    "captured_ms": milliseconds(parse_warc_date(each.date)),
                    "erased_ms": erased_ms,
                    "actor": actor,
                },
            )
            for each in erased
        ]
    )


def _announce(
    takedown: Takedown, captures: list[Capture], lost: list[Capture], *, quiet: bool
) -> None:
    """Say what will be no more, what nobody would expect first."""
    if quiet:
        return
    for each in lost[:_MOST_SHOWN]:
        click.echo(
            clean(f"Lost with it: {each.url}, captured {each.captured_at:%Y-%m-%d %H:%M:%S}")
        )
    if len(lost) > _MOST_SHOWN:
        click.echo(f"… and {len(lost) - _MOST_SHOWN:,} more revisits of the same payloads.")
    files = len({each.location.filename for each in (*captures, *lost)})
    size = sum(each.location.length for each in (*captures, *lost))
    click.echo(
        clean(
            f"Take-down {takedown.number} ({takedown.kind} {takedown.what}): {len(captures):,}"
            f" records and {len(lost):,} revisits in {files:,} WARCs, {size:,} bytes."
        )
    )


def _not_done(captures: list[Capture], lost: list[Capture], *, as_json: bool) -> int:
    if as_json:
        document: dict[str, Any] = {
            "erased": 0,
            "records": len(captures),
            "lost_revisits": [each.url for each in lost],
        }
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        click.echo("Nothing was erased. It cannot be undone: say --yes to do it.")
    return Exit.OK


def _say(erased: list[Erased], *, as_json: bool) -> None:
    if as_json:
        records = [
            {"record": each.record_id, "url": each.url, "warc": each.filename} for each in erased
        ]
        click.echo(json.dumps({"erased": len(erased), "records": records}, ensure_ascii=False))
        return
    click.echo(
        f"{len(erased):,} records erased. Copies and backups of the WARCs still hold them;"
        " `weboid archive verify` checks what is here."
    )
