"""Looking at a copy in an archive: is it there, is it of the page, and is it worth being read?

Archives answer with copies of error pages, of redirects and of "not found" with status 200; bots have
led readers there for years (T193158). What an archive could not answer says nothing of the copy.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from urllib.parse import urljoin

from core.errors import BadUrlError
from core.urls import authority_of, fetch_key
from links.archives.asking import ArchiveTroubleError as TroubleError
from links.archives.asking import Asker, Question, Reply, Trouble
from links.archives.formats import links_of, stamp_of
from links.archives.recognising import belongs, is_same_page, recognise
from links.archives.services import OTHER
from links.asking.challenges import guard
from links.asking.heads import Head
from links.asking.pages import page_of, says_not_found, says_parked

HOPS: Final = 6
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_GONE = frozenset((404, 410, 451))
# Those that say of each copy when it was taken; a page there that does not is no copy.
_SPEAKERS: Final = frozenset(
    (
        *("wayback", "archive-it", "arquivo", "loc", "stanford", "uk-national-archives"),
        *("uk-parliament", "ukwa", "vefsafn", "bibalex", "archive-today", "weboid", OTHER),
    )
)
_EXCLUDED = re.compile(
    rb"has been excluded from the Wayback Machine|Blocked Site Error|AdministrativeAccessControl"
    rb"|not available due to (?:robots|a takedown|legal)",
    re.IGNORECASE,
)
_CAPTURED_REDIRECT = re.compile(
    rb"Got an HTTP 30\d response at crawl time|Redirecting to\.\.\.", re.IGNORECASE
)


class Sight(StrEnum):
    """What was seen at a copy's address."""

    GOOD = "good"
    MOVED = "moved"  # another version of the page is shown in its place
    GONE = "gone"  # the archive has none, or does not show it any more
    BAD = "bad"  # a copy of an error, of a redirect, or of "not found"
    OTHER_PAGE = "other-page"  # a copy of something else
    UNCLEAR = "unclear"  # nothing was seen that says anything


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen.

    Attributes:
        sight: in a word.
        address: where the copy is; another than asked when it moved.
        timestamp: when it was taken, 14 digits; empty when that was not said.
        note: the evidence in a few words.
    """

    sight: Sight
    address: str = ""
    timestamp: str = ""
    note: str = ""


async def look(asker: Asker, address: str, url: str, *, own: tuple[str, ...] = ()) -> Seen:
    """What is at the copy's address. Redirects are followed within the archive only."""
    cited = recognise(address, own=own)
    service = cited.service if cited is not None else OTHER
    asked = address
    try:
        for _ in range(HOPS):
            reply = await asker.ask(_door(service, asked), Question(asked, is_head_enough=True))
            target = reply.headers.get("location", "")
            if reply.status not in _REDIRECTS or not target:
                seen = _judged(service, reply, asked, url)
                return _moved(seen, address, asked, own)
            asked = fetch_key(urljoin(asked, target), allow_single_label=True)
            stray = _strayed(service, address, asked, url, own)
            if stray is not None:
                return stray
    except TroubleError as error:
        note = "it is refused" if error.trouble is Trouble.REFUSED else str(error)
        return Seen(Sight.UNCLEAR, note=note)
    except (BadUrlError, ValueError):
        return Seen(Sight.UNCLEAR, note="it leads to what is no address")
    return Seen(Sight.UNCLEAR, note="it leads on and on")


def _door(service: str, address: str) -> str:
    """Hosts that nobody knows do not wait for each other."""
    return authority_of(address) if service == OTHER else service


def _strayed(
    service: str, address: str, target: str, url: str, own: tuple[str, ...]
) -> Seen | None:
    """What a redirect says that leads away from the page's copies; None when it does not."""
    found = recognise(target, own=own)
    if found is not None and found.service == service:
        if belongs(found, url) is False or (
            service == OTHER and not is_same_page(found.original, url)
        ):
            return Seen(Sight.BAD, note=f"a copy of a redirect to {found.original[:200]}")
        return None
    if authority_of(target) == authority_of(fetch_key(address)):
        return None
    # A parked domain leads elsewhere: the archive's death, and not the copy's (W32).
    return Seen(Sight.UNCLEAR, note=f"it leads to another host, {authority_of(target)[:200]}")


def _judged(service: str, reply: Reply, address: str, url: str) -> Seen:
    stamp = stamp_of(reply.headers.get("memento-datetime", ""))
    if not stamp and reply.status >= 400:
        return _refused(reply)
    if stamp and reply.status >= 400:
        return Seen(Sight.BAD, address, stamp, f"a copy of an error {reply.status}")
    if reply.status not in (200, 203, 206):
        return Seen(Sight.UNCLEAR, note=f"the archive answered {reply.status}")
    for link in links_of(reply.headers.get("link", "")):
        if "original" in link.rels and not is_same_page(link.target, url):
            return Seen(Sight.OTHER_PAGE, address, stamp, f"a copy of {link.target[:200]}")
    if not stamp and service in _SPEAKERS:
        return Seen(Sight.UNCLEAR, note="a page that does not say when it was taken")
    return _of_page(reply, address, stamp, url)


def _refused(reply: Reply) -> Seen:
    """The archive's own error: whether it says that there is no such copy."""
    if reply.status in _GONE:
        return Seen(Sight.GONE, note=f"the archive answered {reply.status}")
    told = reply.headers.get("x-archive-wayback-runtime-error", "").encode() + reply.body
    if reply.status == 403 and _EXCLUDED.search(told):
        return Seen(Sight.GONE, note="the archive does not show it any more")
    return Seen(Sight.UNCLEAR, note=f"the archive answered {reply.status}")


def _of_page(reply: Reply, address: str, stamp: str, url: str) -> Seen:
    mime = reply.headers.get("content-type", "")
    if "html" in mime:
        if not stamp and says_parked(page_of(reply.body, mime)):
            return Seen(Sight.UNCLEAR, note="the archive's domain is for sale")
        if _CAPTURED_REDIRECT.search(reply.body[:20_000]):
            return Seen(Sight.BAD, address, stamp, "a copy of a redirect")
        guarded = guard(Head(200), reply.body) if stamp else ""
        if guarded:
            return Seen(Sight.BAD, address, stamp, f"a copy of a challenge ({guarded})")
        if says_not_found(page_of(reply.body, mime), url):
            return Seen(Sight.BAD, address, stamp, "a copy of a page that says it is not found")
    return Seen(Sight.GOOD, address, stamp)


def _moved(seen: Seen, address: str, asked: str, own: tuple[str, ...]) -> Seen:
    """The same as another version, when that is what was shown."""
    if seen.sight is not Sight.GOOD or asked == address:
        return seen
    before, after = recognise(address, own=own), recognise(asked, own=own)
    if before is None or after is None or before.address == after.address:
        return replace(seen, address=before.address if before is not None else address)
    if not before.timestamp or before.timestamp == after.timestamp:
        return replace(seen, address=after.address)
    note = f"the version of {after.timestamp} is shown"
    return Seen(Sight.MOVED, after.address, seen.timestamp or after.timestamp, note)
