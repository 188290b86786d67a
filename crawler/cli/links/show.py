"""`weboid links show`: everything that is known of a URL."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import BadUrlError, InputError
from core.layout import Layout
from core.timestamps import warc_date
from core.urls import fetch_key, identity_key
from crawler.cli.exits import Exit
from crawler.cli.links.archives_asked import own_copy
from crawler.cli.links.listing import day_text, url_facts_of
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean
from links.books.looking import (
    Quirk,
    RefusedUse,
    UrlFacts,
    Use,
    refused_uses,
    url_facts,
    uses_anywhere,
)
from links.books.looks import Look, latest_looks
from links.books.urls import find_urls
from links.books.wikis import all_wikis
from links.days import date_of, day_of
from links.history import unpack
from links.quirks import HostQuirk, UrlQuirk
from links.sorting import FTP, MISSING_TARGET
from links.stages import Stage
from links.status import words_of

_CLOCK = SystemClock()
_REASONS = {
    FTP: "FTP is not checked",
    MISSING_TARGET: "a wiki of the farm has no such page (it was asked when the page was read)",
}


@click.command("show")
@click.argument("url")
@click.option(
    "--pages", "limit", type=click.IntRange(0, 100_000), default=50, help="Pages to name at most."
)
@collection_option
@database_option
@json_option
def command(*, url: str, limit: int, collection: Path, database_url: str, as_json: bool) -> int:
    """Show what is known of a URL: its state, its history, where it is cited, copies, quirks.

    Of a link that is not watched, since it is no valid address or leads to a missing page of the farm, the
    reason and the pages that have it are shown.
    """
    identity, fault = _identity(url)
    today = day_of(_CLOCK.now())
    with opened_registry(collection, database_url) as store, store.snapshot() as reader:
        found = find_urls(reader, [identity]).get(identity) if identity else None
        refused = [] if found is not None else refused_uses(reader, url, limit=max(limit, 1))
        if refused:
            names = {wiki.id: str(wiki.name) for wiki in all_wikis(reader)}
            _say_refused(url, refused, names, as_json=as_json)
            return Exit.OK
        if fault is not None:
            raise fault
        if found is None:
            raise InputError(
                f"The registry does not know {clean(identity)[:500]}; `weboid links add-page` makes it known "
                "with a page that has it."
            )
        facts = url_facts(reader, [found.id], day=today)[found.id]
        uses = uses_anywhere(reader, found.id, limit=limit)
        looks = latest_looks(reader, found.id)
        names = {wiki.id: str(wiki.name) for wiki in all_wikis(reader)}
    document = {**_document(facts, uses, names), "looks": list(map(_look, looks))}
    own = own_copy(Layout(collection), database_url, "", identity)
    if own is not None:
        about = {"service": own.service, "address": own.address, "timestamp": own.timestamp}
        document["copies"].insert(0, {**about, "checked": None, "locked": False})
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for line in _lines(document):
            click.echo(line)
    return Exit.OK


def _identity(url: str) -> tuple[str, BadUrlError | None]:
    """Return the URL's identity key; empty, and why, when it has none."""
    try:
        return identity_key(fetch_key(url, allow_single_label=True)), None
    except BadUrlError as error:
        return "", error


def _say_refused(url: str, uses: list[RefusedUse], names: dict[int, str], *, as_json: bool) -> None:
    """Tell of a link that is on pages and not watched."""
    pages = [
        {
            "wiki": names.get(use.page.wiki_id, ""),
            "page_id": use.page.page_id,
            "title": use.page.title,
            "since": day_text(use.first_day),
            "gone": None,
        }
        for use in uses
    ]
    reason = uses[0].reason
    if as_json:
        document = {"url": url, "is_watched": False, "reason": reason, "pages": pages}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    said = _REASONS.get(reason, f"no valid address ({clean(reason)})")
    click.echo(f"{clean(url)}\n  not watched: {said}")
    for line in _part("Pages", map(_page_line, pages)):
        click.echo(line)


def _document(facts: UrlFacts, uses: list[Use], names: dict[int, str]) -> dict[str, Any]:
    row = facts.row
    replacement = facts.replacement
    return {
        **url_facts_of(row),
        "host": row.host,
        "says": words_of(row.code),
        "history": [
            {
                "code": run.code,
                "says": words_of(run.code),
                "first": str(date_of(run.first)),
                "last": str(date_of(run.last)),
            }
            for run in reversed(unpack(row.history))
        ],
        "quirks": [_quirk(each, UrlQuirk) for each in facts.quirks],
        "host_quirks": [_quirk(each, HostQuirk) for each in facts.host_quirks],
        "copies": [
            {
                "service": copy.service,
                "address": copy.address or None,
                "timestamp": copy.timestamp or None,
                "checked": day_text(copy.checked_day),
                "locked": copy.is_locked,
            }
            for copy in facts.copies
        ],
        "reports": facts.reports,
        "reports_until": day_text(facts.reports_until),
        "replacement": None
        if replacement is None
        else {"address": replacement.address, "stage": Stage(replacement.state).name.lower()},
        "pages": [
            {
                "wiki": names.get(use.page.wiki_id, ""),
                "page_id": use.page.page_id,
                "title": use.page.title,
                "since": day_text(use.first_day),
                "gone": day_text(use.gone_day),
            }
            for use in uses
        ],
    }


def _look(look: Look) -> dict[str, Any]:
    return {
        "moment": warc_date(datetime.fromtimestamp(look.moment, UTC)),
        "how": look.how.name.lower(),
        "verdict": look.verdict,
        "code": look.code,
        "http": look.http,
        "final_url": look.final_url or None,
        "note": look.note,
        "similarity": look.similarity,
    }


def _quirk(quirk: Quirk, kinds: type[UrlQuirk] | type[HostQuirk]) -> dict[str, Any]:
    return {
        "kind": kinds(quirk.kind).name.lower().replace("_", "-"),
        "value": quirk.value,
        "first": day_text(quirk.first_day),
        "last": day_text(quirk.last_day),
    }


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield clean(document["url"])
    count = document["fails"]
    fails = f", {count} failure{'s' * (count > 1)} in a row" if count else ""
    yield f"  {document['state']}{fails}"
    yield (
        f"  known since {document['added']}, looked at {_or(document['checked'], 'never')}, "
        f"next {_or(document['due'], 'never')}"
    )
    if document["mime"]:
        yield f"  {clean(document['mime'])}, {document['kib']} KiB"
    yield from _part("History", (_run_line(run) for run in document["history"]))
    yield from _part("Looks", map(_look_line, document["looks"]))
    quirks = [*document["quirks"], *({**each, "of": "host"} for each in document["host_quirks"])]
    yield from _part("Quirks", map(_quirk_line, quirks))
    yield from _part("Copies", map(_copy_line, document["copies"]))
    if document["reports"]:
        yield f"Reached by {document['reports']} readers, who are believed until {document['reports_until']}"
    if document["replacement"]:
        proposed = document["replacement"]
        yield f"Replacement ({proposed['stage']}): {clean(proposed['address'])}"
    yield from _part("Pages", map(_page_line, document["pages"]))


def _part(head: str, lines: Any) -> Iterator[str]:
    found = list(lines)
    if found:
        yield head
        yield from (f"  {line}" for line in found)


def _run_line(run: dict[str, Any]) -> str:
    days = run["first"] if run["first"] == run["last"] else f"{run['first']} to {run['last']}"
    return f"{days}: {run['says']} ({run['code']})"


def _look_line(look: dict[str, Any]) -> str:
    facts = [
        f"{look['how']}: {look['verdict']}",
        f"HTTP {look['http']}" if look["http"] is not None else "",
        clean(look["note"]),
        f"ended at {clean(look['final_url'])}" if look["final_url"] else "",
        f"{look['similarity']} % of the copy's text" if look["similarity"] is not None else "",
    ]
    return f"{look['moment'][:16].replace('T', ' ')}  {', '.join(filter(None, facts))}"


def _quirk_line(quirk: dict[str, Any]) -> str:
    whose = " (host)" if quirk.get("of") else ""
    value = f" {clean(quirk['value'])}" if quirk["value"] else ""
    return f"{quirk['kind']}{whose}{value}, {quirk['first']} to {quirk['last']}"


def _copy_line(copy: dict[str, Any]) -> str:
    locked = ", locked" if copy["locked"] else ""
    return f"{clean(copy['service'])}: {clean(copy['address'] or 'none chosen')}{locked}"


def _page_line(page: dict[str, Any]) -> str:
    until = f", gone {page['gone']}" if page["gone"] else ""
    title = clean(page["title"]) or page["page_id"]
    return f"{page['wiki']}: {title}, since {page['since']}{until}"


def _or(value: str | None, other: str) -> str:
    return other if value is None else value
