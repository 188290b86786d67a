"""Asking an archive what a short address of it is of (B07): perma.cc/AB12-CD34, archive.today/AbC12.

Perma.cc has an API for it; archives that speak Memento say it in a header of the copy; archive.today and
FreezePage say it on the page. What is said is held to the reference by whoever asked.
"""

import re
from dataclasses import dataclass
from html import unescape
from typing import Any

from core.errors import BadUrlError
from core.urls import fetch_key
from links.archives.adapters import NOT_THERE, expect, nonsense
from links.archives.asking import Asker, Question, Reply
from links.archives.formats import FormatError, links_of, read_object, stamp_of
from links.archives.recognising import ArchiveUrl, recognise

PERMA_API = "https://api.perma.cc/v1/public/archives/"
_PERMA_ID = re.compile(r"https://perma\.cc/([0-9A-Z-]{9,13})")
_LONG = re.compile(
    r"""id=["']?SHARE_LONGLINK["']?[^>]{0,200}?value=["']([^"']{1,8000})""", re.IGNORECASE
)
_AS_OF = re.compile(r"<a[^>]{0,500}>(https?://[^<]{1,8000})</a>\s*as of\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What an address is of.

    Attributes:
        original: the page; empty when the archive has no such copy, or does not say.
        timestamp: when it was taken, 14 digits; empty when that is not said.
        address: the copy's, in a form that says both when there is one.
    """

    original: str = ""
    timestamp: str = ""
    address: str = ""


async def resolve(asker: Asker, found: ArchiveUrl) -> Resolved:
    """What the archive says that its address is of; what the address says itself is not asked for.

    Raises:
        ArchiveTroubleError: it gave no answer.
    """
    if not found.must_ask:
        return Resolved(found.original, found.timestamp, found.address)
    within = found.chain[-1] if found.chain else found
    if not within.is_usable:
        return Resolved(timestamp=within.timestamp, address=within.address)
    identifier = _PERMA_ID.match(within.address)
    if within.service == "perma" and identifier is not None:
        return await _by_perma(asker, within, identifier[1])
    reply = await asker.ask(within.service, Question(within.address, hops=4, is_head_enough=True))
    if reply.status in NOT_THERE and "memento-datetime" not in reply.headers:
        return Resolved(address=within.address)
    return _by_page(within, reply)


async def _by_perma(asker: Asker, found: ArchiveUrl, identifier: str) -> Resolved:
    reply = await asker.ask(found.service, Question(f"{PERMA_API}{identifier}/", hops=1))
    if reply.status in NOT_THERE:
        return Resolved(address=found.address)
    expect(found.service, reply, (200,))
    try:
        told = read_object(reply.text)
    except FormatError as error:
        raise nonsense(found.service, str(error)) from error
    if str(told.get("guid", "")).upper() != identifier:
        raise nonsense(found.service, "it answers about another copy")
    taken = _said(told, "capture_time") or _said(told, "creation_timestamp")
    return Resolved(_url(_said(told, "url")), stamp_of(taken), found.address)


def _by_page(found: ArchiveUrl, reply: Reply) -> Resolved:
    stamp = stamp_of(reply.headers.get("memento-datetime", "")) or found.timestamp
    for link in links_of(reply.headers.get("link", "")):
        if "original" in link.rels:
            return Resolved(_url(link.target), stamp, found.address)
    long = _LONG.search(reply.text)
    if long is not None:
        further = recognise(unescape(long[1]))
        if further is not None and further.service == found.service and further.original:
            return Resolved(further.original, further.timestamp, further.address)
    told = _AS_OF.search(reply.text) if found.service == "freezepage" else None
    original = _url(unescape(told[1])) if told is not None else ""
    return Resolved(original, stamp, found.address)


def _said(told: dict[str, Any], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _url(text: str) -> str:
    try:
        return fetch_key(text)
    except BadUrlError:
        return ""
