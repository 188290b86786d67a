"""`weboid links ls`, `show`, `passes` and `purge`: URLs and pages of the registry, check passes, retention."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from core.errors import BadUrlError, InputError
from core.hosts import host_name
from core.json_values import json_facts
from core.layout import Layout
from core.timestamps import format_duration
from core.urls import fetch_key, identity_key
from crawler.profiles import load_profile
from links.check_history import day_of
from links.checker import due_urls
from links.checker.check_schedule import STATE_DAYS, latest_runs, longest_due, run_forecast, states_by_day
from links.registry import lookups
from links.registry.link_search import STATES, StateClass
from links.registry.retention import purge, to_purge
from links.registry.statements import Reader
from links.registry.urls import find_urls, latest_observations, urls_by_id
from links.registry.wikis import Wiki, all_wikis, known_wiki, parse_wiki
from links.rules.link_class import FTP, MISSING_TARGET
from links.states import LinkState
from weboid.app.copy_sources import count_without_copy, no_archives_notice, own_copy
from weboid.app.link_facts import day_text, link_document, moment_text, states_json, url_json, use_json
from weboid.app.text_table import clean
from weboid.cli.links.link_search_commands import print_search
from weboid.cli.support.commands import CLOCK, argument, cli_command, option
from weboid.cli.support.options import PROFILE, output, table_lines
from weboid.cli.support.progress import session_progress
from weboid.cli.support.stores import STORES, CollectionStores, open_existing_registry, registry_settings

_GROUPS = {str(each): states for each, states in STATES.items() if each is not StateClass.UNKNOWN}  # it is a state, too
_STATES = click.Choice([*(state.name.lower() for state in LinkState), *_GROUPS])


_ListingRow = tuple[dict[str, Any], tuple[int, ...]]  # JSON values of a row, and the position after it


@cli_command("ls")
def list_command(
    *,
    pattern: str = argument("[PATTERN]", required=False, default=""),
    wiki_name: str | None = option("Only the links of its pages.", "--wiki", metavar="NAME"),
    host: str | None = option("Only URLs of that host.", metavar="HOST"),
    states: tuple[str, ...] = option(
        f"Only URLs in this state; repeatable: {', '.join(_STATES.choices)}.", "--state", type=_STATES, metavar="STATE"
    ),
    as_pages: bool = option("List the wiki's pages instead of links.", "--pages"),
    namespaces: tuple[int, ...] = option(
        "With PATTERN: only links on pages of that namespace; repeatable.", "--namespace", type=int
    ),
    limit: int = option(within=(1, 100_000), default=100),
    after: str = option("Continue at the place that an earlier answer ended with.", metavar="PLACE", default=""),
    stores: CollectionStores = STORES,
) -> None:
    """List URLs: all, of a pattern, or a wiki's; or the wiki's pages.

    With --json a line is an object, and the last line holds the continuation: {"after": PLACE}.

    PATTERN is as in MediaWiki's LinkSearch: example.org is that host, *.example.org with all its subdomains,
    example.org/path a URL prefix, 127.0.* and [2001:db8:*] networks; http and https are equivalent, unless the pattern
    names one. See docs/how-to/link-search.md.
    """
    chosen = frozenset(each for name in states for each in _GROUPS.get(name) or {LinkState[name.upper()]})
    if (pattern and (host is not None or as_pages)) or (namespaces and not pattern):
        raise InputError("With PATTERN leave out --host and --pages; --namespace needs PATTERN.")
    if pattern:
        chosen = STATES[StateClass.UNKNOWN] if states == ("unknown",) else chosen
        print_search(pattern, stores, wiki=wiki_name, namespaces=namespaces, states=chosen, limit=limit, after=after)
        return
    if as_pages and wiki_name is None:
        raise InputError("Name the wiki of the pages: --wiki NAME.")
    if as_pages and (host is not None or states):
        raise InputError("Pages have neither hosts nor states: leave out --pages, or the others.")
    try:
        start = tuple(int(part) for part in after.split(".")) if after else ()
    except ValueError:
        start = (-1,)
    if len(start) > 2 or any(not 0 <= part < 1 << 63 for part in start):
        raise InputError(f"{after[:80]!r} is not a position: copy it from the end of an earlier answer.")
    with stores.registry() as store, store.snapshot() as reader:
        wiki = known_wiki(reader, parse_wiki(wiki_name)) if wiki_name else None
        rows: list[_ListingRow]
        if as_pages and wiki is not None:
            rows = [
                (
                    {
                        **json_facts(row, "page_id namespace title", stale="is_stale"),
                        "read": day_text(row.listed_day),
                        "seen": day_text(row.touched_day),
                        "asked": day_text(row.asked_day),
                    },
                    (row.page_id,),
                )
                for row in lookups.pages_of_wiki(reader, wiki, limit=limit, after=start[0] if start else 0)
            ]
        else:
            numbers = sorted(map(int, chosen)) or lookups.EVERY_STATE
            rows = _links(reader, wiki, host_name(host) if host else "", numbers, limit, start)
    place = ".".join(map(str, rows[-1][1])) if len(rows) == limit else ""
    listed = [facts for facts, _ in rows]
    if output.is_json:
        for facts in [*listed, {"after": place or None}]:
            output.json(facts)
        return
    click.echo("\n".join(_table(listed, is_filtered=bool(states or host))))
    if place:
        click.echo(f"There may be more: --after {place}", err=True)


def _links(
    reader: Reader, wiki: Wiki | None, host: str, states: Sequence[int], limit: int, after: tuple[int, ...]
) -> list[_ListingRow]:
    first, second = (*after, 0, 0)[:2]
    if wiki is None:
        rows = lookups.list_urls(reader, limit=limit, after=first, host=host, states=states)
        return [(url_json(row), (row.id,)) for row in rows]
    if host:
        uses = lookups.uses_of_host(reader, host, wiki, limit=limit, after=(first, second), states=states)
        places = [(use.url_id, use.page.id) for use in uses]
    else:
        uses = lookups.links_of_wiki(reader, wiki, limit=limit, after=(first, second), states=states)
        places = [(use.page.id, use.url_id) for use in uses]
    urls = urls_by_id(reader, (use.url_id for use in uses))
    return [
        (
            {
                **url_json(urls[use.url_id]),
                "page_id": use.page.page_id,
                "title": use.page.title,
                "since": day_text(use.first_day),
                "gone": day_text(use.gone_day),
            },
            place,
        )
        for use, place in zip(uses, places, strict=True)
    ]


def _table(facts: list[dict[str, Any]], *, is_filtered: bool) -> list[str]:
    if not facts:
        return ["None matches." if is_filtered else "There is none."]
    if "url" not in facts[0]:
        pages = [
            (str(each["page_id"]), each["read"] or "never", "yes" if each["stale"] else "no", each["title"])
            for each in facts
        ]
        return table_lines(("id>", "read", "stale", "title"), pages)
    has_pages, rows = "title" in facts[0], []
    for each in facts:
        page = (each["title"] or str(each["page_id"]),) if has_pages else ()
        state = each["state"] + " (gone)" * bool(each.get("gone"))
        rows.append((state, each["checked"] or "never", *page, each["url"]))
    return table_lines(("state", "checked", *["page"] * has_pages, "url"), rows)


_REASONS = {
    FTP: "FTP is not checked",
    MISSING_TARGET: "a wiki of the farm has no such page (it was asked when the page was read)",
}


@cli_command("show")
def show_command(
    *,
    url: str = argument(),
    limit: int = option(
        "Maximum number of pages to list.", "--pages", within=(0, 100_000), default=50, show_default=False
    ),
    stores: CollectionStores = STORES,
) -> None:
    """Show a URL's state, history, citations and copies.

    For a link that is not watched, because it is invalid or its target is a missing page of the
    farm, the reason and the pages that have it are shown.
    """
    identity, fault = "", None
    try:
        identity = identity_key(fetch_key(url, allow_single_label=True))
    except BadUrlError as error:
        fault = error
    today = day_of(CLOCK.now())
    with stores.registry() as store, store.snapshot() as reader:
        row = find_urls(reader, [identity]).get(identity) if identity else None
        refused = [] if row is not None else lookups.refused_uses(reader, url, limit=max(limit, 1))
        names = {wiki.id: str(wiki.name) for wiki in all_wikis(reader)}
        if refused:
            pages = [use_json(use.page, names, use.first_day) for use in refused]
            reason = refused[0].reason
            why = _REASONS.get(reason, f"no valid address ({clean(reason)})")
            lines = [f"{clean(url)}\n  not watched: {why}", *_part("Pages", map(_page_line, pages))]
            output.show({"url": url, "is_watched": False, "reason": reason, "pages": pages}, lines)
            return
        if fault is not None:
            raise fault
        if row is None:
            raise InputError(
                f"The registry does not know {clean(identity)[:500]}; `weboid wiki add` or "
                "`weboid links import` adds the links of a wiki."
            )
        facts = lookups.url_facts(reader, [row.id], day=today)[row.id]
        uses = lookups.uses_anywhere(reader, row.id, limit=limit)
        document = link_document(facts, uses, latest_observations(reader, row.id), names)
    own = own_copy(Layout(stores.root), stores.database_url, "", identity)
    if own is not None:
        own_facts = {"service": own.service, "address": own.address, "timestamp": own.timestamp}
        document["copies"].insert(0, {**own_facts, "checked": None, "locked": False})
    output.show(document, _lines(document))


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield clean(document["url"])
    count = document["fails"]
    fails = f", {count} failure{'s' * (count > 1)} in a row" if count else ""
    yield f"  {document['state']}{fails}"
    checked, due = (document[name] or "never" for name in ("checked", "due"))
    yield f"  known since {document['added']}, checked {checked}, next {due}"
    if document["mime"]:
        yield f"  {clean(document['mime'])}, {document['kib']} KiB"
    history = []
    for run in document["history"]:
        days = run["first"] if run["first"] == run["last"] else f"{run['first']} to {run['last']}"
        history.append(f"{days}: {run['description']} ({run['code']})")
    yield from _part("History", history)
    yield from _part("Latest checks", map(_check_line, document["checks"]))
    quirks = []
    for name, whose in (("quirks", ""), ("host_quirks", " (host)")):
        for quirk in document[name]:
            value = f" {clean(quirk['value'])}" if quirk["value"] else ""
            quirks.append(f"{quirk['kind']}{whose}{value}, {quirk['first']} to {quirk['last']}")
    yield from _part("Quirks", quirks)
    copies = ((each, ", locked" if each["locked"] else "") for each in document["copies"])
    names = (f"{clean(each['service'])}: {clean(each['address'] or 'none chosen')}{lock}" for each, lock in copies)
    yield from _part("Copies", names)
    if document["reports"]:
        yield f"Reached by {document['reports']} readers; counts until {document['reports_until']}"
    if document["replacement"]:
        proposed = document["replacement"]
        yield f"Replacement ({proposed['stage']}): {clean(proposed['address'])}"
    yield from _part("Pages", map(_page_line, document["pages"]))


def _part(head: str, lines: Any) -> Iterator[str]:
    entries = list(lines)
    if entries:
        yield head
        yield from (f"  {line}" for line in entries)


def _check_line(check: dict[str, Any]) -> str:
    facts = [
        f"{check['how']}: {check['verdict']}",
        f"HTTP {check['http']}" if check["http"] is not None else "",
        clean(check["note"]),
        f"ended at {clean(check['final_url'])}" if check["final_url"] else "",
        f"{check['similarity']} % of the copy's text" if check["similarity"] is not None else "",
    ]
    return f"{check['moment'][:16].replace('T', ' ')}  {', '.join(filter(None, facts))}"


def _page_line(page: dict[str, Any]) -> str:
    until = f", gone {page['gone']}" if page["gone"] else ""
    title = clean(page["title"]) or page["page_id"]
    return f"{page['wiki']}: {title}, since {page['since']}{until}"


@cli_command("passes")
def passes_command(
    *, limit: int = option(within=(1, 1000), default=20), stores: CollectionStores = STORES, profile: str = PROFILE
) -> None:
    """Show the latest passes, links by state, and whether all links are checked in time.

    A pass over all URLs should not take longer than [links] pass_days. This counts all URLs, which
    takes a while when there are many millions.
    """
    settings = registry_settings(profile, stores.database_url, stores.root)
    now, layout = CLOCK.now(), Layout(stores.root)
    with open_existing_registry(layout, settings) as store:
        with store.reading() as rows:
            passes = latest_runs(rows, limit=limit)
            forecast = run_forecast(rows, settings.links, now=now)
            late = longest_due(rows, day=day_of(now))
            awaiting = due_urls.count_awaiting(rows)
            states = states_json(states_by_day(rows, since=day_of(now) - STATE_DAYS))
        lacking = 0 if settings.links.archives else count_without_copy(store, layout, settings)
    document = {
        "passes": [
            {**json_facts(row, "part due done"), "started": moment_text(row.started), "ended": moment_text(row.ended)}
            for row in passes
        ],
        "outlook": forecast and {**json_facts(forecast, "fits sentence"), "load": round(forecast.load, 3)},
        "states": states,
        "longest_due_days": late,
        "awaiting_opinion": awaiting,
        "unasked": lacking,
    }
    lines, rows_shown = ["There was no pass yet: `weboid links check` starts one."], []
    for row in passes:
        rate = f"{row.done / max((row.ended or int(now.timestamp())) - row.started, 1):.1f}"
        took = format_duration(row.ended - row.started) if row.ended is not None else "not at its end"
        began = datetime.fromtimestamp(row.started, UTC)
        rows_shown.append((began, row.part, str(row.due), str(row.done), rate, took))
    if rows_shown:
        lines = table_lines(("began", "part", "due>", "done>", "a second>", "took"), rows_shown)
    if states:
        first, last = states[0], states[-1]
        parts = [f"{name} {first['links'].get(name, 0):,} → {links:,}" for name, links in last["links"].items()]
        lines.append(f"Links by state, {first['day']} → {last['day']}: {', '.join(parts)}.")
    if forecast is not None:
        lines.append(forecast.sentence if forecast.fits else f"Warning: {forecast.sentence}")
    elif passes:
        lines.append("No pass has been long enough yet to tell whether all links are checked in time.")
    if late > settings.links.pass_days:
        lines.append(f"Warning: a URL has been due for {late} days.")
    if awaiting:
        lines.append(f"{awaiting} links await confirmation by a browser: run `weboid links confirm`.")
    if lacking:
        lines.append(no_archives_notice(lacking))
    output.show(document, lines)


@cli_command("purge")
def purge_command(
    *,
    dry_run: bool = option("Show the number of entries, without deleting."),
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
) -> None:
    """Delete old check results, and URLs, links and pages not seen for `[links] keep_days`.

    To be run once a day. It works in small steps, concurrently with other commands, and may be stopped at any moment.
    """
    keep_days = load_profile(profile).links.keep_days
    today = day_of(CLOCK.now())
    with stores.registry() as store:
        if dry_run:
            counts = to_purge(store, day=today, keep_days=keep_days)
        else:
            with session_progress() as show:
                counts = purge(store, day=today, keep_days=keep_days, progress=lambda kind, _: show(f"deleting {kind}"))
    parts = [f"{count:,} {kind}" for kind, count in counts._asdict().items() if count]
    verb = "Would delete" if dry_run else "Deleted"
    output.show({**counts._asdict(), "dry_run": dry_run}, f"{verb} {', '.join(parts) or 'nothing'}.")
