"""Link search of `weboid links ls PATTERN`, and `links exclude`: hosts kept out of it."""

from collections.abc import Sequence
from typing import Any

import click

from core.errors import InputError
from core.json_values import json_facts
from links.check_history import date_of
from links.registry.database import RegistryStore
from links.registry.link_search import LIMIT, FoundLink, LinkQuery, search_links
from links.registry.wikis import Wiki, all_wikis, change_wiki
from links.rules import exclusion_list
from links.rules.link_pattern import parse_link_pattern
from links.rules.wiki_rules import RuleBook, mark_pages_of_entry, mark_pages_stale, parse_wiki_settings, search_warnings
from links.states import LinkState
from links.url_parts import url_parts_of
from weboid.app.link_facts import found_link_json
from weboid.app.text_table import clean, fitted, table, width
from weboid.cli.support.commands import argument, cli_command, option
from weboid.cli.support.options import output
from weboid.cli.support.stores import STORES, CollectionStores, wiki_named

_WARNINGS_SHOWN = 3
_WIKIS_ASKED = 200  # exclusion lists are compared with for a search over all wikis


def print_search(
    pattern: str,
    stores: CollectionStores,
    *,
    wiki: str | None,
    namespaces: tuple[int, ...],
    states: frozenset[LinkState],
    limit: int,
    after: str,
) -> None:
    """Print the links that match the pattern, with warnings about exclusions; no `states`: those of every state."""
    meant = parse_link_pattern(pattern)
    with stores.registry() as store:
        with store.reading() as rows:
            of_wiki = None if wiki is None else wiki_named(rows, wiki)
            # Entries of the exclusion lists of the searched wikis.
            wikis = all_wikis(rows)[:_WIKIS_ASKED] if of_wiki is None else [of_wiki]
            named = {each.id: str(each.name) for each in wikis}
            warnings = search_warnings(rows, RuleBook(), meant, named)
        wanted = LinkQuery(wiki_id=None if of_wiki is None else of_wiki.id, namespaces=namespaces, states=states)
        matches: list[FoundLink] = []
        while True:
            with store.reading() as rows:
                part = search_links(rows, meant, wanted, limit=limit - len(matches), after=after)
            matches += part.links
            after = part.after
            if not after or len(matches) >= limit:
                break
    links = [found_link_json(link) for link in matches]
    if output.json({"pattern": meant.text, "links": links, "after": after, "warnings": warnings}):
        return
    for line in _search_lines(matches):
        click.echo(line)
    if after:
        click.echo(f"There may be more: --after {after}", err=True)
    for warning in warnings[:_WARNINGS_SHOWN]:
        click.echo(clean(warning), err=True)
    if (others := len(warnings) - _WARNINGS_SHOWN) > 0:
        click.echo(f"{others} other wikis do, too; --wiki searches one of them.", err=True)


def _search_lines(matches: Sequence[FoundLink]) -> list[str]:
    if not matches:
        return ["There is no such link."]
    rows = [
        (link.state.name.lower(), "never" if link.checked_day is None else str(date_of(link.checked_day)), link.url)
        for link in matches
    ]
    head, *links = table(("state", "checked", "link"), rows, columns=width())
    lines = [head]
    for link, line in zip(matches, links, strict=True):
        lines.append(line)
        if link.pages:
            pages = ", ".join(f"{page.title} ({page.wiki})" for page in link.pages)
            more = ", …" if link.more_pages else ""
            lines.append(fitted(f"    on {pages}{more}", width()))
    return lines


_FORMS = {"pattern": exclusion_list.EntryForm.PATTERN, "domain": exclusion_list.EntryForm.DOMAIN}
_WORDS = {form: word for word, form in _FORMS.items()}


@cli_command("exclude")
def exclude_command(
    *,
    texts: tuple[str, ...] = argument("[ENTRY]..."),
    wiki: str = option("The wiki whose list it is.", required=True, metavar="DBNAME@FARM"),
    word: str = option("Patterns of link search, or bare domains.", "--as", choices=list(_FORMS), default="pattern"),
    is_removal: bool = option("Remove the entries; searches show such links again.", "--remove"),
    suggest: bool = option("Show hosts to exclude, with their figures."),
    share: float = option(
        "With --suggest: minimum share of all pages that link to the host.",
        type=click.FloatRange(0.001, 1),
        default=0.1,
    ),
    most_urls: int = option(
        "With --suggest: maximum number of different links to it.", "--urls", within=(1, 100_000), default=50
    ),
    dry_run: bool = option("Show the changes without making them."),
    stores: CollectionStores = STORES,
) -> None:
    """Exclude hosts from link search; without ENTRY show the list.

    For trusted hosts that nearly every page links to, such as a licence's. Their links are archived, checked and
    counted as all others, and a search for them reports the exclusion. See docs/how-to/link-search.md.

    As a pattern, example.com is the host with its subdomains, example.org/foo a URL prefix on that
    host, https://example.org/foo the same under https only. Searches follow at once; pages that
    have such links now are marked, so that `weboid wiki watch` reads their links again and they are
    counted. The list shows the number of links that each entry excludes.

    --suggest shows hosts that very many pages link to, always with the same few links, so that a
    search for them is of no use. Whether they can be trusted is your decision.
    """
    if (suggest and (texts or is_removal)) or (is_removal and not texts):
        raise InputError(
            "Write `exclude ENTRY...` to exclude, `exclude ENTRY... --remove` to undo it,"
            " `exclude` to see the list, or `exclude --suggest`."
        )
    if suggest:
        _suggest(stores, wiki, share, most_urls)
    elif is_removal:
        _remove_entries(stores, wiki, texts, word, dry_run=dry_run)
    elif texts:
        _add_entries(stores, wiki, texts, word, dry_run=dry_run)
    else:
        _list_entries(stores, wiki)


def _add_entries(stores: CollectionStores, wiki: str, texts: Sequence[str], word: str, *, dry_run: bool) -> None:
    entries = [exclusion_list.parse_entry(text, _FORMS[word]) for text in texts]
    with stores.registry() as store:
        with store.reading() if dry_run else store.writing() as rows:
            wiki_row = wiki_named(rows, wiki)
            settings = parse_wiki_settings(wiki_row.settings)
            for entry in entries:
                settings = exclusion_list.with_entry(settings, entry)
            if not dry_run:
                change_wiki(rows, wiki_row, settings=settings)
        counts = [_known_links(store, wiki_row, entry, mark=not dry_run) for entry in entries]
    facts, lines, verb = [], [], "Would exclude" if dry_run else "Excluded"
    for entry, count in zip(entries, counts, strict=True):
        facts.append({"entry": entry.text, "as": word, "known_links": count})
        note = f" (known links to it: {count:,})" if count else ""
        lines.append(f"{verb} {clean(entry.text)} for {wiki_row.name}{note}.")
    if any(counts) and not dry_run:
        lines.append("Searches omit them from now on; they are still archived and checked.")
    output.show({"wiki": str(wiki_row.name), "entries": facts, "dry_run": dry_run}, lines)


def _remove_entries(stores: CollectionStores, wiki: str, texts: Sequence[str], word: str, *, dry_run: bool) -> None:
    marked = 0
    with stores.registry() as store, store.writing() as rows:
        wiki_row = wiki_named(rows, wiki)
        settings: Any = parse_wiki_settings(wiki_row.settings)
        for text in texts:
            left = exclusion_list.without_entry(settings, text, _FORMS[word])
            if left is None:
                raise InputError(
                    f"The list of {wiki_row.name} has no {word} {text[:200]!r}; "
                    f"`weboid links exclude --wiki {wiki_row.name}` shows what it has."
                )
            settings = left
        if not dry_run:
            change_wiki(rows, wiki_row, settings=settings)
            named = {_spelled(text, _FORMS[word]) for text in texts}
            marked = sum(mark_pages_of_entry(rows, wiki_row.id, text) for text in sorted(named))
    facts = {"wiki": str(wiki_row.name), "removed": list(texts), "pages_marked": marked}
    lines = [f"{'Would remove' if dry_run else 'Removed'} {clean(text)} from {wiki_row.name}." for text in texts]
    if marked:
        lines.append(f"Pages with such links, marked to be read again: {marked:,}.")
    output.show({**facts, "dry_run": dry_run}, lines)


def _list_entries(stores: CollectionStores, wiki: str) -> None:
    with stores.registry() as store, store.reading() as rows:
        wiki_row = wiki_named(rows, wiki)
        settings = parse_wiki_settings(wiki_row.settings)
        entries = exclusion_list.exclusions_of(settings).entries
        counts = exclusion_list.counts_of(rows, wiki_row.id)
    facts = [_entry_facts(entry.text, _WORDS[entry.form], counts) for entry in entries]
    named = {entry.text for entry in entries}
    facts += [_entry_facts(text, "", counts) for text in sorted(set(counts) - named)]
    unreadable = exclusion_list.unreadable(settings)
    document = {"wiki": str(wiki_row.name), "entries": facts, "unreadable": unreadable}
    cells = [
        (each["as"] or "removed", each["links"], each["pages"], each["last"] or "never", each["entry"])
        for each in facts
    ]
    output.table(document, ("as", "links>", "pages>", "last", "entry"), cells, "Nothing is excluded.")
    for why in unreadable:
        output.say(clean(why), err=True)


def _suggest(stores: CollectionStores, wiki: str, share: float, most_urls: int) -> None:
    """Print the hosts that very many pages link to, always with the same few links."""
    with stores.registry() as store, store.reading() as rows:
        wiki_row = wiki_named(rows, wiki)
        excluded = exclusion_list.exclusions_of(parse_wiki_settings(wiki_row.settings))
        hosts = [
            each
            for each in exclusion_list.suggest_exclusions(rows, wiki_row.id, least_share=share, most_urls=most_urls)
            if excluded.entry_for(url_parts_of(f"https://{each.host}/")) is None
        ]
    head, facts, cells = ("host", "pages>", "of all>", "different links>", "rows>", "rows a link>"), [], []
    for each in hosts:
        shares = {"share": round(each.share, 4), "links_per_url": round(each.links_per_url, 1)}
        facts.append(json_facts(each, "host pages urls links") | shares)
        of_all, rows_each = f"{each.share:.1%}", f"{each.links_per_url:,.1f}"
        cells.append((each.host, each.pages, of_all, each.urls, each.links, rows_each))
    empty = f"No host is linked from {share:.1%} of the pages with {most_urls:,} links."
    output.table({"wiki": str(wiki_row.name), "hosts": facts}, head, cells, empty)


def _spelled(text: str, form: exclusion_list.EntryForm) -> str:
    """Return the entry in the list's spelling; as typed when it is invalid today."""
    try:
        return exclusion_list.parse_entry(text, form).text
    except InputError:
        return text.strip()


def _known_links(store: RegistryStore, wiki: Wiki, entry: exclusion_list.ExclusionEntry, *, mark: bool) -> int:
    """Count the wiki's known links that the entry names; mark their pages if `mark` is set."""
    count, after = 0, ""
    wanted = LinkQuery(wiki_id=wiki.id, with_excluded=True)
    while True:
        with store.reading() as rows:
            part = search_links(rows, entry.pattern, wanted, limit=LIMIT, after=after)
        count += len(part.links)
        if mark and part.links:
            with store.writing() as rows:
                mark_pages_stale(rows, [wiki.id], (link.url_id for link in part.links))
        if not (after := part.after):
            return count


def _entry_facts(text: str, word: str, counts: dict[str, tuple[int, int, int]]) -> dict[str, Any]:
    links, pages, day = counts.get(text, (0, 0, 0))
    last = str(date_of(day)) if day else None
    return {"entry": text, "as": word, "links": links, "pages": pages, "last": last}
