"""`weboid links ls`: pages or URLs that the registry knows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.params import host_name
from crawler.cli.tables import clean, table, width
from links.books.looking import (
    EVERY_STATE,
    Use,
    links_of_wiki,
    list_urls,
    pages_of_wiki,
    uses_of_host,
)
from links.books.pages import PageRow
from links.books.urls import UrlRow, urls_by_id
from links.books.wikis import Wiki, known_wiki, parse_wiki
from links.days import date_of
from links.states import State
from links.store.statements import Reader

_STATES = click.Choice([state.name.lower() for state in State])


class _Asked(NamedTuple):
    wiki: Wiki | None
    host: str
    states: Sequence[int]
    limit: int
    after: tuple[int, ...]


class _Line(NamedTuple):
    """What is shown, and the place from which to go on."""

    facts: dict[str, Any]
    place: tuple[int, ...]


@click.command("ls")
@click.option("--wiki", "wiki_name", metavar="NAME", help="Only the links of its pages.")
@click.option("--host", metavar="HOST", help="Only URLs of that host.")
@click.option("--state", "states", type=_STATES, multiple=True, help="Only URLs in it; repeatable.")
@click.option("--pages", "as_pages", is_flag=True, help="The wiki's pages instead of links.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option("--after", metavar="PLACE", default="", help="Go on where an earlier answer ended.")
@collection_option
@database_option
@json_option
def command(
    *,
    wiki_name: str | None,
    host: str | None,
    states: tuple[str, ...],
    as_pages: bool,
    limit: int,
    after: str,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """List URLs, a wiki's links, or its pages.

    With --json a line is an object, and the last line says where to go on: {"after": PLACE}.
    """
    if as_pages and wiki_name is None:
        raise InputError("Say whose pages: --wiki NAME.")
    if as_pages and (host is not None or states):
        raise InputError("Pages have neither hosts nor states: leave out --pages, or the others.")
    with opened_registry(collection, database_url) as store, store.snapshot() as reader:
        asked = _Asked(
            wiki=known_wiki(reader, parse_wiki(wiki_name)) if wiki_name else None,
            host=host_name(host) if host else "",
            states=[int(State[name.upper()]) for name in states] or EVERY_STATE,
            limit=limit,
            after=_place(after),
        )
        lines = _pages(reader, asked) if as_pages else _links(reader, asked)
    place = ".".join(map(str, lines[-1].place)) if len(lines) == limit else ""
    if as_json:
        for line in lines:
            click.echo(json.dumps(line.facts, ensure_ascii=False))
        click.echo(json.dumps({"after": place or None}))
        return Exit.OK
    for text in _table([line.facts for line in lines], is_filtered=bool(states or host)):
        click.echo(text)
    if place:
        click.echo(f"There may be more: --after {place}", err=True)
    return Exit.OK


def _place(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(".")) if text else ()
    except ValueError:
        found = (-1,)
    if len(found) > 2 or any(not 0 <= part < 1 << 63 for part in found):
        raise InputError(f"{text[:80]!r} is no place: take it from the end of an earlier answer.")
    return found


def _pages(reader: Reader, asked: _Asked) -> list[_Line]:
    assert asked.wiki is not None
    after = asked.after[0] if asked.after else 0
    rows = pages_of_wiki(reader, asked.wiki, limit=asked.limit, after=after)
    return [_Line(_page_facts(row), (row.page_id,)) for row in rows]


def _links(reader: Reader, asked: _Asked) -> list[_Line]:
    first, second = (*asked.after, 0, 0)[:2]
    if asked.wiki is None:
        rows = list_urls(
            reader, limit=asked.limit, after=first, host=asked.host, states=asked.states
        )
        return [_Line(url_facts_of(row), (row.id,)) for row in rows]
    known = {"limit": asked.limit, "after": (first, second), "states": asked.states}
    if asked.host:
        uses = uses_of_host(reader, asked.host, asked.wiki, **known)  # type: ignore[arg-type]
        places = [(use.url_id, use.page.id) for use in uses]
    else:
        uses = links_of_wiki(reader, asked.wiki, **known)  # type: ignore[arg-type]
        places = [(use.page.id, use.url_id) for use in uses]
    urls = urls_by_id(reader, (use.url_id for use in uses))
    return [
        _Line(_use_facts(use, urls[use.url_id]), place)
        for use, place in zip(uses, places, strict=True)
    ]


def url_facts_of(row: UrlRow) -> dict[str, Any]:
    """A URL as JSON values."""
    return {
        "url": row.url,
        "state": row.state.name.lower(),
        "code": row.code,
        "fails": row.fails,
        "added": day_text(row.added_day),
        "checked": day_text(row.checked_day),
        "due": day_text(row.due_day),
        "mime": row.mime,
        "kib": row.kib,
    }


def day_text(day: int | None) -> str | None:
    """The day's date; None for none."""
    return None if day is None else str(date_of(day))


def _use_facts(use: Use, row: UrlRow) -> dict[str, Any]:
    page = {"page_id": use.page.page_id, "title": use.page.title, "since": day_text(use.first_day)}
    return {**url_facts_of(row), **page, "gone": day_text(use.gone_day)}


def _page_facts(row: PageRow) -> dict[str, Any]:
    return {
        "page_id": row.page_id,
        "namespace": row.namespace,
        "title": row.title,
        "read": day_text(row.listed_day),
        "seen": day_text(row.touched_day),
        "asked": day_text(row.asked_day),
        "stale": row.is_stale,
    }


def _table(facts: list[dict[str, Any]], *, is_filtered: bool) -> list[str]:
    if not facts:
        return ["None is like that." if is_filtered else "There is none."]
    if "url" not in facts[0]:
        head = ("id>", "read", "stale", "title")
        rows = [
            (
                str(each["page_id"]),
                each["read"] or "never",
                "yes" if each["stale"] else "no",
                each["title"],
            )
            for each in facts
        ]
        return table(head, rows, columns=width())
    has_pages = "title" in facts[0]
    head = ("state", "checked", *(("page",) if has_pages else ()), "url")
    rows = [
        (
            each["state"] + (" (gone)" if each.get("gone") else ""),
            each["checked"] or "never",
            *((clean(each["title"]) or str(each["page_id"]),) if has_pages else ()),
            each["url"],
        )
        for each in facts
    ]
    return table(head, rows, columns=width())
