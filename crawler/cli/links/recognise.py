"""`weboid links recognise`: what an archive's address means."""

import asyncio
import json
from typing import Any

import click

from core.timestamps import warc_date
from crawler.cli.exits import Exit
from crawler.cli.links.archives_asked import opened_archives
from crawler.cli.options import json_option, profile_option
from crawler.cli.tables import clean
from crawler.profiles import load_profile
from links.archives.looking import Seen, look
from links.archives.recognising import ArchiveUrl, belongs, recognise
from links.archives.services import OTHER, SERVICES, Fault

_FAULTS = {
    Fault.GONE: "The service is gone: no copy can be read there.",
    Fault.LIST: "It is a list of versions, and none of them.",
    Fault.REQUEST: "It asks for a copy to be taken, or leads away from one.",
    Fault.NOT_WEB: "What it is of is no http(s) URL.",
    Fault.TOO_DEEP: "It is an archive's copy of an archive's copy of …, too often to be followed.",
}


@click.command("recognise")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--of", "reference", metavar="URL", help="Say whether it is a copy of that page.")
@click.option("--front", multiple=True, metavar="ORIGIN", help="An origin of our own pages.")
@click.option("--ask", is_flag=True, help="Look at it, too: needs --of, and asks the archive.")
@profile_option
@json_option
def command(
    *,
    urls: tuple[str, ...],
    reference: str | None,
    front: tuple[str, ...],
    ask: bool,
    profile: str,
    as_json: bool,
) -> int:
    """Say which archive an address is of, of what page, and when.

    Nothing is asked without --ask. Ends with 1 when one of the addresses is no archive's, or is no copy
    of the page that --of names. See docs/archives.md.
    """
    if ask and reference is None:
        raise click.UsageError("--ask needs --of: what the address should be a copy of.")
    seen: list[Seen | None] = [None] * len(urls)
    if ask and reference is not None:
        seen = asyncio.run(_asked(urls, reference, front, profile))
    documents = [
        _facts(url, recognise(url, own=front), reference, each)
        for url, each in zip(urls, seen, strict=True)
    ]
    for document in documents:
        if as_json:
            click.echo(json.dumps(document, ensure_ascii=False))
        else:
            click.echo("\n".join(_lines(document)))
    failed = any(each["service"] is None or each.get("belongs") is False for each in documents)
    return Exit.SOME_FAILED if failed else Exit.OK


async def _asked(
    urls: tuple[str, ...], reference: str, own: tuple[str, ...], profile: str
) -> list[Seen | None]:
    async with opened_archives(load_profile(profile), origins=own) as archives:
        return [await look(archives.asker, url, reference, own=own) for url in urls]


def _facts(
    url: str, found: ArchiveUrl | None, reference: str | None, seen: Seen | None
) -> dict[str, Any]:
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
        document["belongs"] = None if found is None else belongs(found, reference)
    if seen is not None:
        document["seen"] = {"sight": str(seen.sight), "address": seen.address, "note": seen.note}
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
            ("of", document["original"] or "not said: the archive must be asked"),
            ("when", document["timestamp"] or "no version is named"),
            ("first seen", document["seen_at"] if document["chain"] else ""),
            ("through", ", ".join(each["service"] for each in document["chain"])),
            ("better as", document["address"] if document["address"] != document["url"] else ""),
            ("but", _FAULTS.get(Fault(document["fault"]), "")),
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
