"""What the browser asked for held against what the proxy has, before the visit is sealed.

A page's parts that were cut, or that nobody came to ask for, are asked for again within the same
visit, once each, as GET, within the profile's `refetch_…` limits. What is still on its way is waited
for instead. An answer of the origin's is an answer, whatever its status; what a browser refuses to
load, no visitor has seen; what never had a host to answer is no gap. A page with all its parts costs
one question to the proxy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.pages import Gap
from core.settings import Settings
from proxy.client import LedgerSoFar, ProxyVisit
from proxy.ledger import LedgerEntry, Wish
from render.network import DOWNLOAD, RequestLog
from render.visit import Visit

# What a reader sees or hears of a page: wanted even when its page did not wait for it.
PARTS = frozenset(
    (
        *("Document", "Image", "Stylesheet", "Script", "Font", "Media", "TextTrack", "Manifest"),
        DOWNLOAD,
    )
)
_NEVER = frozenset(
    (
        *("EventSource", "WebSocket", "Ping", "CSPViolationReport", "Prefetch", "Preflight"),
        "SignedExchange",
    )
)
# Of the ledger's reasons, those that may be gone the next moment.
_TRANSIENT = ("disconnected:", "timeout", "silence:", "cut:")
# Of Chromium's, those of a connection that broke.
_BROKEN = frozenset(
    f"net::ERR_{name}"
    for name in (
        *("CONNECTION_RESET", "CONNECTION_CLOSED", "CONNECTION_ABORTED", "EMPTY_RESPONSE"),
        *("TIMED_OUT", "NETWORK_CHANGED", "SOCKET_NOT_CONNECTED", "INCOMPLETE_CHUNKED_ENCODING"),
        *("CONTENT_LENGTH_MISMATCH", "TUNNEL_CONNECTION_FAILED", "PROXY_CONNECTION_FAILED"),
    )
)
_GIVEN_UP = {"net::ERR_ABORTED": "cancelled", "detached": "cancelled", "": "unasked"}
UNFINISHED = "unfinished"
# As Chromium says them.
_ACCEPT = {
    "Document": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
    "image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    "Image": "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "Stylesheet": "text/css,*/*;q=0.1",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check found.

    Attributes:
        gaps: what was lacking when the browser was done; the seal's ledger tells what came of it.
        awaited: URLs that the seal is to wait for as for the page itself.
        grace_s: how long the seal is to wait for what is in flight: the grace is given once.
    """

    gaps: tuple[Gap, ...] = ()
    awaited: tuple[str, ...] = ()
    grace_s: float = 0.0


async def check(kept: ProxyVisit, seen: Visit, settings: Settings) -> Checked:
    """Hold what was seen against the ledger, wait for what is on its way, ask again for what broke.

    Raises:
        ProxyUnavailableError: the proxy is gone.
    """
    limits, grace_s = settings.visit, settings.proxy.seal_grace_s
    if not limits.refetch_requests:
        return Checked(grace_s=grace_s)
    spared = _own_documents(seen)
    left_s = max(limits.timeout_s - seen.seconds, 0.0)
    so_far = await kept.ledger()
    downloads = _downloads(seen, so_far)
    if so_far.in_flight:
        parts = _parts_of(seen.requests) & so_far.in_flight
        so_far = await kept.ledger(
            grace_s=grace_s, awaited=sorted(parts), await_s=min(limits.refetch_s, left_s)
        )
        downloads &= so_far.in_flight
    gaps = find_gaps(seen.requests, so_far, spared=spared | downloads)
    chosen = [gap for gap in gaps if gap.reason != UNFINISHED][: limits.refetch_requests]
    if chosen:
        await kept.ledger(
            again=_wishes(chosen, seen),
            limit_bytes=limits.refetch_bytes,
            await_s=max(min(limits.refetch_s, left_s), grace_s),
        )
    return Checked(tuple(gaps), tuple(sorted(downloads)))


def find_gaps(
    requests: Sequence[RequestLog], so_far: LedgerSoFar, *, spared: Iterable[str] = ()
) -> list[Gap]:
    """What a page asked for and the archive has not, but could have (pure).

    Args:
        requests: the browser's; without any, all that the ledger has are parts.
        so_far: the proxy's.
        spared: URLs that are never gaps.
    """
    asked: dict[str, list[RequestLog]] = {}
    for request in requests:
        if request.method == "GET" and request.url.startswith(("http://", "https://")):
            asked.setdefault(request.url, []).append(request)
    entries: dict[str, list[LedgerEntry]] = {}
    for entry in so_far.entries:
        if entry.method == "GET":
            entries.setdefault(entry.url, []).append(entry)
    if not requests:
        asked = {url: [RequestLog(url, resource_type="Image")] for url in entries}
    never = set(spared)
    found = []
    for url, group in asked.items():
        reason = "" if url in never else _lacking(url, group, entries, so_far.in_flight)
        if reason:
            found.append(Gap(url, reason))
    return found


def is_whole(entries: Iterable[LedgerEntry]) -> bool:
    """Whether one of the entries has all of the origin's answer; a part counts only by itself."""
    answers = [entry for entry in entries if entry.status is not None and not entry.truncated]
    broken_whole = any(not entry.status or entry.truncated for entry in entries)
    return any(entry.status != 206 for entry in answers) or bool(answers and not broken_whole)


def _lacking(
    url: str,
    group: list[RequestLog],
    entries: Mapping[str, list[LedgerEntry]],
    in_flight: frozenset[str],
) -> str:
    """Why it is a gap; empty when it is none."""
    kinds = {request.resource_type for request in group}
    is_part = bool(kinds & PARTS)
    if kinds <= _NEVER:
        return ""
    if url in in_flight:
        return UNFINISHED if is_part else ""
    ledger = entries.get(url)
    if ledger:
        return "" if is_whole(ledger) else _broken(ledger[-1], is_part=is_part)
    return _unasked(group, is_part=is_part)


def _broken(entry: LedgerEntry, *, is_part: bool) -> str:
    """Why it may come when it is asked for again; empty when it would not."""
    if entry.reason.startswith(_TRANSIENT) and (is_part or not entry.reason.startswith("cut:")):
        return entry.reason
    return ""


def _unasked(group: list[RequestLog], *, is_part: bool) -> str:
    """The same of what the proxy has never heard of."""
    if any(request.from_cache for request in group):
        return ""
    last = group[-1]
    if last.status is not None:
        return "unrecorded"
    if last.failed in _GIVEN_UP:
        return _GIVEN_UP[last.failed] if is_part else ""
    return last.failed if last.failed in _BROKEN else ""


def _own_documents(seen: Visit) -> frozenset[str]:
    """The page, if it was shown, and the way to it: what was seen must not be fetched behind its back."""
    way = {seen.url.partition("#")[0], *seen.redirects}
    return frozenset(way | {seen.final_url} if seen.artifacts else way - {seen.final_url})


def _parts_of(requests: Iterable[RequestLog]) -> frozenset[str]:
    return frozenset(each.url for each in requests if each.resource_type in PARTS)


def _downloads(seen: Visit, so_far: LedgerSoFar) -> frozenset[str]:
    """Files that the browser turned down and that are still on their way, as the page's own may be."""
    turned_down = {
        each.url
        for each in seen.requests
        if each.resource_type == DOWNLOAD
        or (each.resource_type == "Document" and each.status is not None and each.failed)
    }
    if not seen.artifacts:
        turned_down.add(seen.final_url)
    return so_far.in_flight & turned_down


def _wishes(gaps: Iterable[Gap], seen: Visit) -> list[Wish]:
    kinds = {each.url: each.resource_type for each in seen.requests}
    return [
        Wish(
            gap.url,
            gap.reason[:200],
            _ACCEPT.get(kinds.get(gap.url, ""), "*/*"),
            referer(seen.final_url, gap.url),
        )
        for gap in gaps
    ]


def referer(page: str, target: str) -> str:
    """What browsers send by default (Referrer Policy, 8.3: strict-origin-when-cross-origin).

    >>> referer("https://a.test/b?c", "https://a.test/d"), referer("https://a.test/b", "https://x.test/")
    ('https://a.test/b?c', 'https://a.test/')
    >>> referer("https://a.test/b", "http://a.test/d")
    ''
    """
    here, there = urlsplit(page), urlsplit(target)
    if here.scheme == "https" and there.scheme != "https":
        return ""
    if (here.scheme, here.netloc) == (there.scheme, there.netloc):
        return page.partition("#")[0]
    return f"{here.scheme}://{here.netloc.rpartition('@')[2]}/"
