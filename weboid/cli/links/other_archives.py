"""`weboid links mirror` and `recognise`: copies and addresses of other web archives."""

import asyncio
import logging
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import click

from core.errors import InputError
from core.layout import Layout
from core.timestamps import warc_date
from crawler.profiles import load_profile
from links.archives.archive_urls import OTHER, SERVICES, AddressFault, ArchiveUrl, is_copy_of, recognise
from links.archives.copy_check import check_copy, resolve_address
from links.archives.copy_upkeep import MirrorMode, MirrorOutcome
from links.registry.database import open_registry_store
from net.backoff import ExponentialBackoff
from net.stop_signals import wait_unless_stopped
from warc.index.database import open_database
from weboid.app.copy_sources import CLOCK, open_archives
from weboid.app.text_table import clean
from weboid.app.visit_results import CaptureMirror
from weboid.cli.support.commands import ExitCode, argument, cli_command, option
from weboid.cli.support.options import DURATION, OUTPUT, PROFILE, CommandOutput
from weboid.cli.support.stores import STORES, CollectionStores, registry_settings

_FAULTS = {
    AddressFault.GONE: "The service was shut down: no copy can be read there.",
    AddressFault.LIST: "It is a list of versions, and none of them.",
    AddressFault.REQUEST: "It asks for a copy to be taken, or leads away from one.",
    AddressFault.NOT_WEB: "What it is of is no http(s) URL.",
    AddressFault.TOO_DEEP: "It is an archive's copy of an archive's copy of …, too often to be followed.",
}


@cli_command("recognise")
def recognise_command(
    *,
    urls: tuple[str, ...] = argument("URL...", required=True),
    reference: str | None = option("Check that it is a copy of that page.", "--of", metavar="URL"),
    front: tuple[str, ...] = option("An origin of our own pages.", metavar="ORIGIN"),
    ask: bool = option("Query the archive for the page, or with --of fetch the copy."),
    profile: str = PROFILE,
    output: CommandOutput = OUTPUT,
) -> int:
    """Recognise archive URLs: the archive, the archived page, and the time.

    No request is made without --ask. Ends with 1 when one of the addresses is not an archive's, or
    is not a copy of the page that --of names. See docs/how-to/archives.md.
    """
    documents = [_facts(url, recognise(url, own=front), reference) for url in urls]
    if ask:
        answers = asyncio.run(_query_archives(urls, reference, front, profile))
        documents = [one | more for one, more in zip(documents, answers, strict=True)]
    for document in documents:
        output.show(document, "\n".join(_lines(document)))
    failed = any(each["service"] is None or each.get("belongs") is False for each in documents)
    return ExitCode.SOME_FAILED if failed else ExitCode.OK


async def _query_archives(
    urls: tuple[str, ...], reference: str | None, own: tuple[str, ...], profile: str
) -> list[dict[str, Any]]:
    async with open_archives(load_profile(profile), origins=own) as archives:
        if reference is not None:
            seen = [await check_copy(archives.asker, url, reference, own=own) for url in urls]
            return [{"seen": {"sight": str(each.sight), "address": each.address, "note": each.note}} for each in seen]
        documents: list[dict[str, Any]] = [{} for _ in urls]
        for url, document in zip(urls, documents, strict=True):
            address = recognise(url, own=own)
            if address is not None and address.must_ask:
                answer = await resolve_address(archives.asker, address)
                document["original"] = answer.original
                document["timestamp"] = answer.timestamp or address.timestamp
        return documents


def _facts(url: str, found: ArchiveUrl | None, reference: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"url": url, "service": None}
    if found is not None:
        moment = found.moment
        document |= {
            "service": found.service,
            "is_known": found.is_known,
            "original": found.original,
            "timestamp": found.timestamp,
            "seen_at": None if moment is None else warc_date(moment),
            "address": found.address,
            "modifier": found.modifier,
            "is_usable": found.is_usable,
            "must_ask": found.must_ask,
            "fault": str(found.fault),
            "chain": [{"service": each.service, "address": each.address} for each in found.chain],
        }
    if reference is not None:
        document["belongs"] = None if found is None else is_copy_of(found, reference)
    return document


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [clean(document["url"])]
    service = document["service"]
    if service is None:
        lines.append("  It is no address of an archive that is known here.")
    else:
        title = SERVICES[service].title if service in SERVICES else service
        title = "An archive that is not known here" if service == OTHER else title
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
        says = {True: "yes", False: "no: it is of another page", None: "only who has it knows"}
        lines.append(f"  {'belongs':<10}  {says[document['belongs']]}")
    if "seen" in document:
        seen = document["seen"]
        note = f": {seen['note']}" if seen["note"] else ""
        lines.append(f"  {'seen':<10}  {clean(seen['sight'] + note)}")
    return lines


log = logging.getLogger(__name__)

_AT_ONCE = 500
_LONGEST_S = 3_600.0  # between two rounds after one failed
_AGAIN = timedelta(hours=1)  # visits may become known a little late


@cli_command("mirror")
def mirror_command(
    *,
    since: timedelta = option("Visits of this last time.", type=DURATION, default="7d", metavar="DURATION"),
    limit: int = option("Number of links, at most.", default=100),
    every: timedelta | None = option("Repeat at this interval: 10m.", type=DURATION, metavar="DURATION"),
    dry_run: bool = option("Show the links, without querying archives."),
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
    output: CommandOutput = OUTPUT,
) -> int:
    """Submit visited pages to other archives, or find copies of those that failed.

    [links] mirror selects the visits: `failed` (those without a result), `always`, or `never`. After a good one Save
    Page Now is asked to archive the page, too; after one that failed it is asked as well, and the archives of [links]
    archives are queried for copies. See docs/how-to/archives.md.
    """
    settings = registry_settings(profile, stores.database_url, stores.root)
    if MirrorMode(settings.links.mirror) is MirrorMode.NEVER:
        raise InputError('Nothing is mirrored: set mirror = "failed" or "always" under [links].')
    layout = Layout(stores.root)
    with (
        closing(open_registry_store(layout, settings.index.url)) as store,
        closing(open_database(layout, settings.index.url)) as database,
    ):
        task = CaptureMirror(store, database, layout, settings)
        start = CLOCK.now() - since
        if dry_run:
            for url, visited in islice(task.waiting(start), limit):
                output.show({"url": url.url}, f"{visited}  {url.url}")
            return ExitCode.OK
        if every is None:
            _, failed = _round(task, start, limit, output=output)
            return ExitCode.SOME_FAILED if failed else ExitCode.OK
        backoff = ExponentialBackoff(every.total_seconds(), max(_LONGEST_S, every.total_seconds()))
        failed, goes_on = False, True
        while goes_on:
            try:
                start, failed = _round(task, start, limit, output=output)
            except InputError:
                raise
            except Exception as error:
                log.exception("mirror.round_failed")
                failed, pause_s = True, backoff.next_s()
                click.echo(f"weboid: {error} Trying again in {pause_s:g} s.", err=True)
            else:
                backoff.reset()
                pause_s = every.total_seconds()
            goes_on = asyncio.run(wait_unless_stopped(timedelta(seconds=pause_s)))
    return ExitCode.SOME_FAILED if failed else ExitCode.OK


def _round(task: CaptureMirror, start: datetime, limit: int, output: CommandOutput) -> tuple[datetime, bool]:
    """Mirror waiting visits; return the next start time, and whether some are to be retried."""
    begun = CLOCK.now()
    todo = list(islice(task.waiting(start), limit))
    done = asyncio.run(task.mirror(todo))
    for each in done:
        copy = each.copy
        facts = {
            "url": each.url,
            "outcome": str(each.done),
            "copy": None if copy is None else {"archive": copy.service, "address": copy.address},
            "note": each.note,
        }
        where = clean(each.note if copy is None else copy.address)
        output.show(facts, f"{each.done:<6} {clean(each.url)}  {where}")
    if not output.is_json:
        counted = Counter(str(each.done) for each in done)
        counts = ", ".join(f"{count} {name}" for name, count in sorted(counted.items()))
        click.echo(f"{len(done)} links{': ' + counts if counts else ''}.", err=True)
    if len(todo) < limit:  # else more is waiting
        start = max(start, begun - _AGAIN)
    return start, any(each.done is MirrorOutcome.LATER for each in done)
