"""`weboid links exclude`: whose links a wiki keeps out of link search."""

import json
from pathlib import Path
from typing import Any

import click

from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.links.named import wiki_named
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, table, width
from links.books.wikis import Wiki, change_wiki
from links.days import date_of
from links.exclusion import (
    Entry,
    Form,
    counts_of,
    exclusions_of,
    parse_entry,
    unreadable,
    with_entry,
    without_entry,
)
from links.link_search import LIMIT, Wanted, search_links
from links.locator import locate
from links.rereading import mark_pages_with, mark_pages_without
from links.rulebook import settings_of
from links.store.store import Store
from links.suggesting import suggest

_FORMS = {"pattern": Form.PATTERN, "domain": Form.DOMAIN}
_WORDS = {form: word for word, form in _FORMS.items()}
_wiki_option = click.option(
    "--wiki", required=True, metavar="DBNAME@FARM", help="Whose list it is."
)
_form_option = click.option(
    "--as",
    "word",
    type=click.Choice(list(_FORMS)),
    default="pattern",
    show_default=True,
    help="Patterns of link search, or bare domains.",
)
_dry_option = click.option("--dry-run", is_flag=True, help="Say what would change, change nothing.")


@click.group("exclude")
def command() -> None:
    """Keep links to some hosts out of link search.

    For hosts that are trusted and stand on nearly every page, such as a licence's. Their links are
    archived, checked and counted as all others, and a search for them says where they are.
    See docs/link-search.md.
    """


@command.command("add")
@click.argument("texts", nargs=-1, required=True, metavar="ENTRY...")
@_wiki_option
@_form_option
@_dry_option
@collection_option
@database_option
@json_option
def add_command(
    *,
    texts: tuple[str, ...],
    wiki: str,
    word: str,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Exclude what the entries name.

    As a pattern, example.com is the host with all below it, example.org/foo what begins so on that
    host, https://example.org/foo the same under https only. Searches follow at once; pages that have such
    links now are marked, so that their feeder brings them anew and they are counted.
    """
    entries = [parse_entry(text, _FORMS[word]) for text in texts]
    with opened_registry(collection, database_url) as store:
        with store.reading() as rows:
            found = wiki_named(rows, wiki)
        changed: dict[str, int] = {}
        if not dry_run:
            with store.writing() as rows:
                found = wiki_named(rows, wiki)
                settings = settings_of(found.settings)
                for entry in entries:
                    settings = with_entry(settings, entry)
                change_wiki(rows, found, settings=settings)
        for entry in entries:
            changed[entry.text] = _known_links(store, found, entry, mark=not dry_run)
    if as_json:
        facts = [
            {"entry": entry.text, "as": word, "known_links": changed[entry.text]}
            for entry in entries
        ]
        document = {"wiki": str(found.name), "entries": facts, "dry_run": dry_run}
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    would = "Would exclude" if dry_run else "Excluded"
    for entry in entries:
        count = changed[entry.text]
        note = f" (links to it that are known now: {count:,})" if count else ""
        click.echo(f"{would} {clean(entry.text)} for {found.name}{note}.")
    if any(changed.values()) and not dry_run:
        click.echo("Searches leave them out from now on; they stay archived and checked.")
    return Exit.OK


@command.command("remove")
@click.argument("texts", nargs=-1, required=True, metavar="ENTRY...")
@_wiki_option
@_form_option
@_dry_option
@collection_option
@database_option
@json_option
def remove_command(
    *,
    texts: tuple[str, ...],
    wiki: str,
    word: str,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Take entries out of the list; searches show such links again at once."""
    marked = 0
    with opened_registry(collection, database_url) as store, store.writing() as rows:
        found = wiki_named(rows, wiki)
        settings: Any = settings_of(found.settings)
        for text in texts:
            left = without_entry(settings, text, _FORMS[word])
            if left is None:
                raise InputError(
                    f"The list of {found.name} has no {word} {text[:200]!r}; "
                    f"`weboid links exclude list --wiki {found.name}` shows what it has."
                )
            settings = left
        if not dry_run:
            change_wiki(rows, found, settings=settings)
            named = {_spelled(text, _FORMS[word]) for text in texts}
            marked = sum(mark_pages_without(rows, found.id, text) for text in sorted(named))
    if as_json:
        facts = {"wiki": str(found.name), "removed": list(texts), "pages_marked": marked}
        click.echo(json.dumps({**facts, "dry_run": dry_run}, ensure_ascii=False))
        return Exit.OK
    for text in texts:
        click.echo(f"{'Would remove' if dry_run else 'Removed'} {clean(text)} from {found.name}.")
    if marked:
        click.echo(f"Pages that had such links, and are marked to be read again: {marked:,}.")
    return Exit.OK


@command.command("list")
@_wiki_option
@collection_option
@database_option
@json_option
def list_command(*, wiki: str, collection: Path, database_url: str, as_json: bool) -> int:
    """Show the list, with how much each entry keeps out."""
    with opened_registry(collection, database_url) as store, store.reading() as rows:
        found = wiki_named(rows, wiki)
        settings = settings_of(found.settings)
        entries = exclusions_of(settings).entries
        counts = counts_of(rows, found.id)
    facts = [_entry_facts(entry.text, _WORDS[entry.form], counts) for entry in entries]
    named = {entry.text for entry in entries}
    facts += [_entry_facts(text, "", counts) for text in sorted(set(counts) - named)]
    if as_json:
        document = {"wiki": str(found.name), "entries": facts, "unreadable": unreadable(settings)}
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    for line in _lines(facts):
        click.echo(line)
    for why in unreadable(settings):
        click.echo(clean(why), err=True)
    return Exit.OK


@command.command("suggest")
@_wiki_option
@click.option(
    "--share",
    type=click.FloatRange(0.001, 1),
    default=0.1,
    show_default=True,
    help="Of all pages, so many at least link to the host.",
)
@click.option(
    "--urls",
    "most_urls",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Different links to it at most.",
)
@collection_option
@database_option
@json_option
def suggest_command(
    *,
    wiki: str,
    share: float,
    most_urls: int,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Name hosts that are worth excluding, with the figures that say so.

    Those that very many pages link to, always with the same few links: a search for them finds
    everything and tells nothing. Whether they are to be trusted is yours to say.
    """
    with opened_registry(collection, database_url) as store, store.reading() as rows:
        found = wiki_named(rows, wiki)
        excluded = exclusions_of(settings_of(found.settings))
        hosts = [
            each
            for each in suggest(rows, found.id, least_share=share, most_urls=most_urls)
            if excluded.entry_for(locate(f"https://{each.host}/")) is None
        ]
    if as_json:
        facts = [
            {
                "host": each.host,
                "pages": each.pages,
                "share": round(each.share, 4),
                "urls": each.urls,
                "links": each.links,
                "links_per_url": round(each.links_per_url, 1),
            }
            for each in hosts
        ]
        click.echo(json.dumps({"wiki": str(found.name), "hosts": facts}, ensure_ascii=False))
        return Exit.OK
    if not hosts:
        click.echo(f"No host is linked from {share:.1%} of the pages with {most_urls:,} links.")
        return Exit.OK
    head = ("host", "pages>", "of all>", "different links>", "rows>", "rows a link>")
    cells = [
        (
            each.host,
            f"{each.pages:,}",
            f"{each.share:.1%}",
            f"{each.urls:,}",
            f"{each.links:,}",
            f"{each.links_per_url:,.1f}",
        )
        for each in hosts
    ]
    for line in table(head, cells, columns=width()):
        click.echo(line)
    return Exit.OK


def _spelled(text: str, form: Form) -> str:
    """The entry as the list spells it; as it was typed when no list would take it today."""
    try:
        return parse_entry(text, form).text
    except InputError:
        return text.strip()


def _known_links(store: Store, wiki: Wiki, entry: Entry, *, mark: bool) -> int:
    """How many links the entry names that are known on the wiki; their pages are marked."""
    count, after = 0, ""
    wanted = Wanted(wiki_id=wiki.id, with_excluded=True)
    while True:
        with store.reading() as rows:
            part = search_links(rows, entry.pattern, wanted, limit=LIMIT, after=after)
        count += len(part.links)
        if mark and part.links:
            with store.writing() as rows:
                mark_pages_with(rows, [wiki.id], (link.url_id for link in part.links))
        after = part.after
        if not after:
            return count


def _entry_facts(text: str, word: str, counts: dict[str, tuple[int, int, int]]) -> dict[str, Any]:
    links, pages, day = counts.get(text, (0, 0, 0))
    last = str(date_of(day)) if day else None
    return {"entry": text, "as": word, "links": links, "pages": pages, "last": last}


def _lines(facts: list[dict[str, Any]]) -> list[str]:
    if not facts:
        return ["Nothing is excluded."]
    rows = [
        (
            each["as"] or "removed",
            f"{each['links']:,}",
            f"{each['pages']:,}",
            each["last"] or "never",
            each["entry"],
        )
        for each in facts
    ]
    return table(("as", "links>", "pages>", "last", "entry"), rows, columns=width())
