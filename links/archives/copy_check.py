"""Check of a copy in an archive, and resolution of short archive addresses.

Archives serve copies of errors, redirects and "not found" with status 200 (T193158): the content is examined.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from html import unescape
from typing import Final
from urllib.parse import urljoin

from classify.page_excerpt import parse_page_excerpt, says_not_found, says_parked
from classify.source_traits import detect_guard
from core.errors import BadUrlError
from core.urls import authority_of, fetch_key
from links.archives import archive_answers, archive_client
from links.archives.archive_client import ArchiveClient, ArchiveRequest, ArchiveResponse
from links.archives.archive_urls import OTHER, SERVICES, WEBOID, ArchiveUrl, is_copy_of, is_same_page, recognise
from net.http1 import LenientHead

HOPS: Final = 6
_GONE = frozenset((404, 410, 451))
_EXCLUDED = re.compile(
    rb"has been excluded from the Wayback Machine|Blocked Site Error|AdministrativeAccessControl"
    rb"|not available due to (?:robots|a takedown|legal)",
    re.IGNORECASE,
)
_CAPTURED_REDIRECT = re.compile(rb"Got an HTTP 30\d response at crawl time|Redirecting to\.\.\.", re.IGNORECASE)


class CopyVerdict(StrEnum):
    """Result of a check of a copy's address."""

    GOOD = "good"
    MOVED = "moved"  # another version of the page is shown in its place
    GONE = "gone"  # the archive has none, or no longer shows it
    BAD = "bad"  # a copy of an error, of a redirect, or of "not found"
    OTHER_PAGE = "other-page"  # a copy of something else
    UNCLEAR = "unclear"  # nothing conclusive was received


@dataclass(frozen=True, slots=True)
class CopyCheckResult:
    """Result of a copy check."""

    verdict: CopyVerdict
    address: str = ""  # the copy's address; differs from the requested one when it moved
    timestamp: str = ""  # capture time, 14 digits; empty when not given
    note: str = ""  # the evidence in a few words


_unclear = partial(CopyCheckResult, CopyVerdict.UNCLEAR, "", "")


async def check_copy(client: ArchiveClient, address: str, url: str, *, own: tuple[str, ...] = ()) -> CopyCheckResult:
    """Fetch a copy's address and classify the answer. Redirects are followed within the archive only."""
    cited = recognise(address, own=own)
    service = cited.service if cited is not None else OTHER
    requested = address
    try:
        for _ in range(HOPS):
            # Hosts of unknown archives are queried independently of each other.
            queue = authority_of(requested) if service == OTHER else service
            response = await client.ask(queue, ArchiveRequest(requested, is_head_enough=True))
            target = response.headers.get("location", "")
            if response.status not in archive_client.REDIRECTS or not target:
                return _moved(_judged(service, response, requested, url), address, requested, own)
            requested = fetch_key(urljoin(requested, target), allow_single_label=True)
            parsed = recognise(requested, own=own)
            if parsed is not None and parsed.service == service:
                if is_copy_of(parsed, url) is False or (service == OTHER and not is_same_page(parsed.original, url)):
                    note = f"a copy of a redirect to {parsed.original[:200]}"
                    return CopyCheckResult(CopyVerdict.BAD, note=note)
            elif authority_of(requested) != authority_of(fetch_key(address)):
                # The archive's own domain may be parked: this says nothing about the copy (W32).
                return _unclear(f"it redirects to another host, {authority_of(requested)[:200]}")
    except archive_client.ArchiveUnavailableError as error:
        note = "it is refused" if error.failure is archive_client.ArchiveFailure.REFUSED else str(error)
        return _unclear(note)
    except (BadUrlError, ValueError):
        return _unclear("it redirects to an invalid address")
    return _unclear("it redirects in a loop")


def _judged(service: str, response: ArchiveResponse, address: str, url: str) -> CopyCheckResult:
    stamp = archive_answers.timestamp_of(response.headers.get("memento-datetime", ""))
    if not stamp and response.status >= 400:  # the archive's own error
        if response.status in _GONE:
            return CopyCheckResult(CopyVerdict.GONE, note=f"the archive answered {response.status}")
        runtime_error = response.headers.get("x-archive-wayback-runtime-error", "")
        if response.status == 403 and _EXCLUDED.search(runtime_error.encode() + response.body):
            return CopyCheckResult(CopyVerdict.GONE, note="the archive no longer shows it")
        return _unclear(f"the archive answered {response.status}")
    if response.status >= 400:
        return CopyCheckResult(CopyVerdict.BAD, address, stamp, f"a copy of an error {response.status}")
    if response.status not in (200, 203, 206):
        return _unclear(f"the archive answered {response.status}")
    for link in archive_answers.parse_links(response.headers.get("link", "")):
        if "original" in link.rels and not is_same_page(link.target, url):
            return CopyCheckResult(CopyVerdict.OTHER_PAGE, address, stamp, f"a copy of {link.target[:200]}")
    if not stamp and (service in (WEBOID, OTHER) or SERVICES[service].says_time):
        return _unclear("a page without a capture date")
    return _of_page(response, address, stamp, url)


def _of_page(response: ArchiveResponse, address: str, stamp: str, url: str) -> CopyCheckResult:
    mime = response.headers.get("content-type", "")
    if "html" in mime:
        if not stamp and says_parked(parse_page_excerpt(response.body, mime)):
            return _unclear("the archive's domain is for sale")
        if _CAPTURED_REDIRECT.search(response.body[:20_000]):
            return CopyCheckResult(CopyVerdict.BAD, address, stamp, "a copy of a redirect")
        guarded = detect_guard(LenientHead(200), response.body) if stamp else ""
        if guarded:
            return CopyCheckResult(CopyVerdict.BAD, address, stamp, f"a copy of a bot challenge ({guarded})")
        if says_not_found(parse_page_excerpt(response.body, mime), url):
            return CopyCheckResult(CopyVerdict.BAD, address, stamp, "a copy of a page that reports 404")
    return CopyCheckResult(CopyVerdict.GOOD, address, stamp)


def _moved(check: CopyCheckResult, address: str, requested: str, own: tuple[str, ...]) -> CopyCheckResult:
    """Return the result with the version that was served, when that is another one."""
    if check.verdict is not CopyVerdict.GOOD or requested == address:
        return check
    before, after = recognise(address, own=own), recognise(requested, own=own)
    if before is None or after is None or before.address == after.address:
        return replace(check, address=before.address if before is not None else address)
    if not before.timestamp or before.timestamp == after.timestamp:
        return replace(check, address=after.address)
    note = f"the version of {after.timestamp} is shown"
    return CopyCheckResult(CopyVerdict.MOVED, after.address, check.timestamp or after.timestamp, note)


PERMA_API = "https://api.perma.cc/v1/public/archives/"
_PERMA_ID = re.compile(r"https://perma\.cc/([0-9A-Z-]{9,13})")
_LONG = re.compile(r"""id=["']?SHARE_LONGLINK["']?[^>]{0,200}?value=["']([^"']{1,8000})""", re.IGNORECASE)
_AS_OF = re.compile(r"<a[^>]{0,500}>(https?://[^<]{1,8000})</a>\s*as of\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """Original of a short archive address."""

    original: str = ""  # the page; empty when the archive has no such copy, or does not name it
    timestamp: str = ""  # capture time, 14 digits; empty when not given
    address: str = ""  # the copy's, in a form with original and time when there is one


async def resolve_address(client: ArchiveClient, parsed: ArchiveUrl) -> ResolvedAddress:
    """Fetch what an address does not contain: its original and time; ArchiveUnavailableError if it fails."""
    if not parsed.must_ask:
        return ResolvedAddress(parsed.original, parsed.timestamp, parsed.address)
    within = parsed.chain[-1] if parsed.chain else parsed
    if not within.is_usable:
        return ResolvedAddress(timestamp=within.timestamp, address=within.address)
    identifier = _PERMA_ID.match(within.address)
    if within.service == "perma" and identifier is not None:
        response = await client.ask("perma", ArchiveRequest(f"{PERMA_API}{identifier[1]}/", hops=1))
        if response.status in archive_client.NOT_THERE:
            return ResolvedAddress(address=within.address)
        archive_answers.expect_status("perma", response, (200,))
        document = archive_answers.parse_answer("perma", response, archive_answers.read_object)
        if str(document.get("guid", "")).upper() != identifier[1]:
            raise archive_answers.malformed_answer_error("perma", "it answered for another copy")
        times = (archive_answers.text_value(document, name) for name in ("capture_time", "creation_timestamp"))
        capture_time = next(filter(None, times), "")
        original = _url(archive_answers.text_value(document, "url"))
        return ResolvedAddress(original, archive_answers.timestamp_of(capture_time), within.address)
    response = await client.ask(within.service, ArchiveRequest(within.address, hops=4, is_head_enough=True))
    if response.status in archive_client.NOT_THERE and "memento-datetime" not in response.headers:
        return ResolvedAddress(address=within.address)
    stamp = archive_answers.timestamp_of(response.headers.get("memento-datetime", "")) or within.timestamp
    for link in archive_answers.parse_links(response.headers.get("link", "")):
        if "original" in link.rels:
            return ResolvedAddress(_url(link.target), stamp, within.address)
    long = _LONG.search(response.text)
    further = recognise(unescape(long[1])) if long is not None else None
    if further is not None and further.service == within.service and further.original:
        return ResolvedAddress(further.original, further.timestamp, further.address)
    note = _AS_OF.search(response.text) if within.service == "freezepage" else None
    original = _url(unescape(note[1])) if note is not None else ""
    return ResolvedAddress(original, stamp, within.address)


def _url(text: str) -> str:
    try:
        return fetch_key(text)
    except BadUrlError:
        return ""
