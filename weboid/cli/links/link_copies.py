"""`weboid links copies` and `recognise`: copies of links in archives, and addresses of archives."""

import asyncio
import getpass
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from core.errors import InputError
from core.json_values import json_facts
from core.timestamps import parse_moment, warc_date
from crawler.profiles import load_profile
from links.archives import copy_store
from links.archives.archive_urls import OTHER, SERVICES, AddressFault, ArchiveUrl, is_copy_of, recognise
from links.archives.copy_check import check_copy, resolve_address
from links.archives.copy_search import CopySearchResult, SearchStep, citation_day, search_copies
from links.archives.copy_upkeep import CopyVisit, check_due_copies
from links.check_history import date_of, day_of
from links.registry.archive_backlog import want_urls
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow, require_observed
from weboid.app import copy_sources
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, GroupWithDefault, argument, cli_command, made_by, option
from weboid.cli.support.options import PROFILE, output, table_lines
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.stores import STORES, CollectionStores, registry_settings

_SAYS = {
    SearchStep.KEPT: "remembered",
    SearchStep.OWN: "our own capture",
    SearchStep.FOUND: "found",
    SearchStep.SAVE: "no copy is known: archive the page while it can be reached",
    SearchStep.UNFIXABLE: "dead, without a copy in any archive",
    SearchStep.LATER: "not every archive answered; try again later",
}


class _CopiesContext:
    """Stores and settings of the commands."""

    def __init__(
        self,
        front: str = option("Public origin of our own copies.", default="", metavar="ORIGIN"),
        profile: str = PROFILE,
        stores: CollectionStores = STORES,
    ) -> None:
        self.layout, self.front = stores.layout, front
        self.settings = registry_settings(profile, stores.database_url, stores.root)
        self.registry = CollectionStores(stores.root, self.settings.index.url).registry
        self.origins = (front,) if front else ()


_CONTEXT = made_by(_CopiesContext)
_LIMIT = option("Maximum number of links.", within=(1, None), default=100)
_DRY_RUN = option("List the links, without requests.")


@cli_command("show")
def show_command(*, url: str = argument(), context: _CopiesContext = _CONTEXT) -> None:
    """Show, find, choose and verify the copies of links in archives.

    With a URL alone: its known copies. [links] archives in the profile lists the archives to query;
    none by default. See docs/how-to/archives.md.
    """
    with context.registry() as store:
        with store.reading() as rows:
            observed = require_observed(rows, url)
        _show(context, store, observed)


command = GroupWithDefault(
    "copies",
    callback=show_command.callback,
    params=show_command.params,
    help=show_command.help,
    invoke_without_command=True,
)


@cli_command("find", command)
def find_command(
    *,
    url: str = argument("[URL]", required=False, default=""),
    thorough: bool = option("Query every archive, even if a copy is known."),
    accessed: str | None = option("Date on which the page was read for the citation.", metavar="DATE"),
    limit: int = _LIMIT,
    dry_run: bool = _DRY_RUN,
    context: _CopiesContext = _CONTEXT,
) -> int:
    """Search archives for copies of URL, or of links that have none."""
    now, has_archives = CLOCK.now(), bool(context.settings.links.archives)
    with context.registry() as store:
        if not url and not has_archives and not dry_run:
            lacking = copy_sources.count_without_copy(store, context.layout, context.settings)
            output.json({"lacking": lacking, "archives": 0})
            if lacking:
                output.say(copy_sources.no_archives_notice(lacking), err=True)
            return ExitCode.OK
        with store.reading() as rows:
            living = context.settings.links.archive_living
            if url:
                wanted = [require_observed(rows, url)]
            else:
                wanted = copy_store.urls_without_copy(rows, day_of(now), limit, living=living)
        if dry_run:
            for each in wanted:
                output.show({"url": each.url}, clean(each.url))
            return ExitCode.OK
        at = citation_day(None if accessed is None else parse_moment(accessed), None, now)
        sought = asyncio.run(_search_all(context, store, wanted, at, is_thorough=thorough))
    for each, search in zip(wanted, sought, strict=True):
        _print_result(each, search)
    lacking = sum(search.best is None for search in sought)
    if lacking and not has_archives:
        output.say(copy_sources.no_archives_notice(lacking), err=True)
    return ExitCode.SOME_FAILED if any(each.troubles for each in sought) else ExitCode.OK


@cli_command("check", command, hidden=True)
def check_command(*, limit: int = _LIMIT, dry_run: bool = _DRY_RUN, context: _CopiesContext = _CONTEXT) -> None:
    """Check the copies whose last check was more than three months ago."""
    now = CLOCK.now()
    with context.registry() as store:
        with store.reading() as rows:
            waiting = copy_store.due_copies(rows, day_of(now), limit)
        if dry_run:
            for url, copy in waiting:
                output.show({"url": url.url, **_facts(copy)}, f"{copy.service}  {clean(copy.address)}")
            return

        async def check() -> list[CopyVisit]:
            with progress_bar("Looking at copies", len(waiting)) as step:
                own = context.origins
                async with copy_sources.open_archives(context.settings, origins=own) as archives:
                    return await check_due_copies(store, archives.client, now=now, limit=limit, own=own, on_check=step)

        visits = asyncio.run(check())
    for done in visits:
        facts = {"url": done.url.url, "outcome": str(done.visit)}
        facts |= json_facts(done.copy, "address", archive="service")
        facts |= json_facts(done.seen, "verdict note", now_at="address")
        if not output.json(facts) and done.visit is not copy_store.CopyCheckEffect.GOOD:
            note = f": {clean(done.seen.note)}" if done.seen.note else ""
            click.echo(f"{done.visit}  {clean(done.copy.address)}{note}")
    counts = ", ".join(f"{count} {name}" for name, count in sorted(Counter(each.visit for each in visits).items()))
    output.say(f"{len(visits)} copies checked{': ' + counts if counts else ''}.")


@cli_command("set", command)
def set_command(
    *,
    url: str = argument(),
    archive: str | None = argument("[ARCHIVE]"),
    address: str | None = argument("[ADDRESS]"),
    is_locked: bool | None = option(
        "Keep the choice in later searches, or release it; for pages that change all the time.",
        "--lock/--unlock",
        default=None,
    ),
    context: _CopiesContext = _CONTEXT,
) -> None:
    """Choose the version in ARCHIVE that is shown for URL, or lock it.

    ARCHIVE is named as in the list of copies, such as wayback; ADDRESS is the version's URL there. An empty
    ADDRESS, "", chooses no version of that archive.
    """
    if (archive is None) != (address is None) or (archive is None) == (is_locked is None):
        raise click.UsageError("Name ARCHIVE and ADDRESS, or use --lock or --unlock.")
    with context.registry() as store:
        with store.writing() as rows:
            observed = require_observed(rows, url)
            if archive is not None and address is not None:
                choice = copy_store.CopyChoice(getpass.getuser(), address, archive, is_admin=True)
                copy_store.choose_copy(rows, observed, choice, day=day_of(CLOCK.now()), own=context.origins)
            else:
                copy_store.lock_copies(rows, observed, is_locked=bool(is_locked), is_admin=True)
        _show(context, store, observed)


@cli_command("rm", command)
def remove_command(*, url: str = argument(), archive: str = argument(), context: _CopiesContext = _CONTEXT) -> None:
    """Remove the copy of URL in ARCHIVE."""
    with context.registry() as store:
        with store.writing() as rows:
            observed = require_observed(rows, url)
            if not copy_store.drop_copy(rows, observed.id, archive):
                raise InputError(f"{clean(url)} has no copy in {clean(archive)[:80]!r}.")
        _show(context, store, observed)


def _show(context: _CopiesContext, store: RegistryStore, url: UrlRow) -> None:
    with store.reading() as rows:
        stored, search = copy_store.copies_of_url(rows, url.id), copy_store.last_search(rows, url.id)
    own = copy_sources.own_copy(context.layout, context.settings.index.url, context.front, url.url)
    document: dict[str, Any] = {
        "url": url.url,
        "state": url.state.name.lower(),
        "copies": [_facts(each) for each in stored],
        "own": own and json_facts(own, "address timestamp"),
        "asked": None,
    }
    known = []
    for each in stored:
        by = (each.chosen_by or "-") + (" (locked)" if each.is_locked else "")
        checked = str(date_of(each.checked_day)) if each.missed_day is None else f"missed {date_of(each.missed_day)}"
        known.append((each.service, each.timestamp[:8] or "-", checked, by, each.address or "(no version is chosen)"))
    if own is not None:
        known.insert(0, (own.service, own.timestamp[:8], "-", "-", own.address))
    head = ("archive", "taken", "seen", "by", "address")
    lines = table_lines(head, known) if known else ["No copy is known."]
    if search is not None:
        day, again = str(date_of(search.day)), str(date_of(search.again_day))
        outcome = search.outcome.name.lower()
        document["asked"] = {"day": day, "outcome": outcome, "again": again, "note": search.note}
        lines.append(f"Archives were asked on {day} ({outcome}), and will be again from {again} on.")
    output.show(document, lines)


def _facts(copy: copy_store.StoredCopy) -> dict[str, Any]:
    return {
        **json_facts(copy, "address timestamp chosen_by is_locked", archive="service"),
        "found": str(date_of(copy.found_day)),
        "seen": str(date_of(copy.checked_day)),
        "missed": None if copy.missed_day is None else str(date_of(copy.missed_day)),
    }


async def _search_all(
    context: _CopiesContext,
    store: RegistryStore,
    wanted: Sequence[UrlRow],
    accessed: datetime | None,
    *,
    is_thorough: bool,
) -> list[CopySearchResult]:
    settings, searches = context.settings, []
    cited = copy_sources.CitationDays(store, settings, asks_wikis=bool(settings.links.archives))
    with (
        copy_sources.open_own_captures(context.layout, settings.index.url, context.front) as own,
        progress_bar("Asking archives", len(wanted)) as step,
    ):
        async with copy_sources.open_archives(settings, own, context.origins) as archives:
            for each in wanted:
                now = CLOCK.now()
                days = [*([] if accessed is None else [accessed]), *await cited.of(each.id, now)]
                searches.append(await search_copies(store, archives, each, now=now, days=days, is_thorough=is_thorough))
                if searches[-1].is_wanted:  # who watches its wiki has our own crawler archive it
                    with store.writing() as rows:
                        want_urls(rows, [each.id], now=now)
                step(1)
    return searches


def _print_result(url: UrlRow, sought: CopySearchResult) -> None:
    best = sought.best
    document = {
        "url": url.url,
        "outcome": str(sought.step),
        "best": best and json_facts(best, "address", archive="service"),
        "copies": [json_facts(each, "address timestamp", archive="service") for each in sought.copies],
        **json_facts(sought, "troubles is_wanted note"),
    }
    if output.json(document):
        return
    click.echo(f"{clean(url.url)}: {_SAYS[sought.step]}")
    for each in sought.copies:
        mark = "*" if best is not None and each == best else " "
        click.echo(f" {mark} {each.service:<16} {clean(each.address) or '(no good version)'}")
    for trouble in (*sought.troubles, *([sought.note] if sought.note else [])):
        click.echo(f"   {clean(trouble)}", err=True)


_FAULTS = {
    AddressFault.GONE: "The service was shut down: no copy can be read there.",
    AddressFault.LIST: "It is a list of versions, not one of them.",
    AddressFault.REQUEST: "It requests a new copy, or leads away from a copy.",
    AddressFault.NOT_WEB: "The archived address is not an http(s) URL.",
    AddressFault.TOO_DEEP: "It is a copy of a copy of a copy …, nested too deeply to follow.",
}


@cli_command("recognise")
def recognise_command(
    *,
    urls: tuple[str, ...] = argument("URL...", required=True),
    reference: str | None = option("Check that it is a copy of that page.", "--of", metavar="URL"),
    front: tuple[str, ...] = option("Another origin of this archive.", metavar="ORIGIN"),
    ask: bool = option("Query the archive for the page, or with --of fetch the copy."),
    profile: str = PROFILE,
) -> int:
    """Recognise archive URLs: the archive, the archived page, and the time.

    No request is made without --ask. Ends with 1 when one of the addresses is not an archive's, or
    is not a copy of the page that --of names. See docs/how-to/archives.md.
    """
    documents = [_recognised(url, recognise(url, own=front), reference) for url in urls]
    if ask:
        answers = asyncio.run(_query_archives(urls, reference, front, profile))
        documents = [one | more for one, more in zip(documents, answers, strict=True)]
    for document in documents:
        output.show(document, _recognised_lines(document))
    failed = any(each["service"] is None or each.get("belongs") is False for each in documents)
    return ExitCode.SOME_FAILED if failed else ExitCode.OK


async def _query_archives(
    urls: tuple[str, ...], reference: str | None, own: tuple[str, ...], profile: str
) -> list[dict[str, Any]]:
    async with copy_sources.open_archives(load_profile(profile), origins=own) as archives:
        if reference is not None:
            checks = [await check_copy(archives.client, url, reference, own=own) for url in urls]
            return [{"seen": json_facts(each, "verdict address note")} for each in checks]
        documents: list[dict[str, Any]] = [{} for _ in urls]
        for url, document in zip(urls, documents, strict=True):
            address = recognise(url, own=own)
            if address is not None and address.must_ask:
                answer = await resolve_address(archives.client, address)
                document["original"] = answer.original
                document["timestamp"] = answer.timestamp or address.timestamp
        return documents


def _recognised(url: str, archive_url: ArchiveUrl | None, reference: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"url": url, "service": None}
    if archive_url is not None:
        moment = archive_url.moment
        document |= {
            **json_facts(archive_url, "service is_known original timestamp address modifier is_usable must_ask"),
            "seen_at": None if moment is None else warc_date(moment),
            "fault": str(archive_url.fault),
            "chain": [{"service": each.service, "address": each.address} for each in archive_url.chain],
        }
    if reference is not None:
        document["belongs"] = None if archive_url is None else is_copy_of(archive_url, reference)
    return document


def _recognised_lines(document: dict[str, Any]) -> list[str]:
    lines = [clean(document["url"])]
    service = document["service"]
    if service is None:
        lines.append("  It is not an address of a known archive.")
    else:
        title = SERVICES[service].title if service in SERVICES else service
        title = "An unknown archive" if service == OTHER else title
        rows = [
            ("archive", f"{title} ({service})"),
            ("of", document["original"] or "unknown: use --ask"),
            ("when", document["timestamp"] or "no version is named"),
            ("first seen", document["seen_at"] if document["chain"] else ""),
            ("through", ", ".join(each["service"] for each in document["chain"])),
            ("better as", document["address"] if document["address"] != document["url"] else ""),
            ("but", _FAULTS.get(AddressFault(document["fault"]), "")),
        ]
        lines += [f"  {name:<10}  {clean(str(text))}" for name, text in rows if text]
    if "belongs" in document:
        says = {True: "yes", False: "no: it is a copy of another page", None: "only that archive can tell"}
        lines.append(f"  {'belongs':<10}  {says[document['belongs']]}")
    if "seen" in document:
        check = document["seen"]
        note = f": {check['note']}" if check["note"] else ""
        lines.append(f"  {'seen':<10}  {clean(check['verdict'] + note)}")
    return lines
