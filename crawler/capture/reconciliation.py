"""Reconciliation of browser and proxy after a visit: gaps, refetching, page manifest.

Resources that were cut off or never requested from the proxy are fetched again within the same visit, once each, as
GET, within the profile's `refetch_…` limits. An origin's response counts, whatever its status; a resource that the
browser refuses to load, or whose host cannot be resolved or reached, is not a gap.
"""

import re
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from types import MappingProxyType
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

from core.captures import ArtifactKind, RecordLocation
from core.config.settings import Settings
from core.media_types import effective_type, format_name
from core.page_manifest import MissingResource, PageInfo, PageResource, VisitOutcome
from core.timestamps import warc_date
from crawler.pools.shared_contexts import CachedRecord
from proxy.control.client import ProxyVisit, RequestLogSnapshot
from proxy.request_log import RefetchRequest, RequestLogEntry, RequestOutcome
from render.network_log import DOWNLOAD, RequestLog
from render.visit import Visit

NAME_LIMIT_CHARS = 255
_VALUE_LIMIT_CHARS = 4_000
# A parameter: its value a token, or quoted (RFC 6266, 4.1); nothing here is matched twice.
_PARAMETER = re.compile(r';[ \t]*+(filename\*?)[ \t]*+=[ \t]*+("(?:[^"\\]|\\.)*+"?|[^;]*+)', re.IGNORECASE)
_QUOTED_PAIR = re.compile(r"\\(.)")
_EXTENDED = re.compile(r"(utf-8|iso-8859-1)'[^']*'(.*)", re.IGNORECASE)  # RFC 8187, 3.2
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def attachment_name(value: str) -> str:
    """Return the file name from Content-Disposition, without a path; empty when there is none.

    >>> attachment_name('attachment; filename="a b.pdf"')
    'a b.pdf'
    >>> attachment_name("attachment; filename=x.txt; filename*=UTF-8''%e2%82%ac.txt")
    '€.txt'
    """
    parameters: dict[str, str] = {}
    for name, text_value in _PARAMETER.findall(";" + value[:_VALUE_LIMIT_CHARS].partition("\n")[0]):
        parameters.setdefault(name.lower(), text_value.strip())
    # The extended one goes first (RFC 6266, 4.3).
    extended = _EXTENDED.fullmatch(parameters.get("filename*", "").strip('"'))
    text = unquote_to_bytes(extended[2]).decode(extended[1], "replace") if extended else ""
    if not text:
        text = parameters.get("filename", "")
        if text.startswith('"'):
            text = _QUOTED_PAIR.sub(r"\1", text[1:].removesuffix('"'))
        # Headers are read as Latin-1; most servers send UTF-8.
        with suppress(UnicodeError):
            text = text.encode("latin-1").decode("utf-8")
    return _UNSEEN.sub("", text).replace("\\", "/").rpartition("/")[2].strip()[:NAME_LIMIT_CHARS]


# Content that a reader sees or hears: needed even when its page did not wait for it.
PARTS = frozenset((*("Document", "Image", "Stylesheet", "Script", "Font", "Media", "TextTrack", "Manifest"), DOWNLOAD))
_NEVER = frozenset(
    (*("EventSource", "WebSocket", "Ping", "CSPViolationReport", "Prefetch", "Preflight"), "SignedExchange")
)
_TRANSIENT = ("disconnected:", "timeout", "silence:", "cut:")  # reasons in the ledger that may be temporary
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
_ACCEPT = {
    "Document": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
    "image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    "Image": "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "Stylesheet": "text/css,*/*;q=0.1",
}


@dataclass(frozen=True, slots=True)
class CompletenessResult:
    """Result of the completeness check."""

    gaps: tuple[MissingResource, ...] = ()  # missing when the browser was done, before refetching
    awaited: tuple[str, ...] = ()  # URLs that the seal must wait for as for the page itself
    grace_s: float = 0.0  # how long the seal waits for requests in flight; the grace is given once


async def check_completeness(
    recording: ProxyVisit, visit: Visit, settings: Settings, cached: Mapping[str, Sequence[CachedRecord]]
) -> CompletenessResult:
    """Compare the visit with the ledger, wait for requests in flight, fetch gaps again; or ProxyUnavailableError."""
    limits, grace_s = settings.visit, settings.proxy.seal_grace_s
    if not limits.refetch_requests:
        return CompletenessResult(grace_s=grace_s)
    way = {visit.url.partition("#")[0], *visit.redirects}
    spared = frozenset(way | {visit.final_url} if visit.artifacts else way - {visit.final_url})
    left_s = max(limits.timeout_s - visit.seconds, 0.0)
    so_far = await recording.ledger()
    answered = (each.url == visit.final_url and each.status not in (None, 304) for each in so_far.entries)
    if visit.final_url in cached and not any(answered):
        spared -= {visit.final_url}  # an earlier page has loaded it, in a frame or ahead of time
    # URLs that the browser refused as downloads and that are still in flight.
    refused = {
        each.url
        for each in visit.requests
        if each.resource_type == DOWNLOAD
        or (each.resource_type == "Document" and each.status is not None and each.failed)
    }
    downloads = so_far.in_flight & (refused if visit.artifacts else refused | {visit.final_url})
    if so_far.in_flight:
        parts = frozenset(each.url for each in visit.requests if each.resource_type in PARTS) & so_far.in_flight
        so_far = await recording.ledger(grace_s=grace_s, awaited=sorted(parts), await_s=min(limits.refetch_s, left_s))
        downloads &= so_far.in_flight
    gaps = find_gaps(visit.requests, so_far, spared=spared | downloads, cached=cached)
    chosen = [gap for gap in gaps if gap.reason != UNFINISHED][: limits.refetch_requests]
    if chosen:
        kinds = {each.url: each.resource_type for each in visit.requests}
        await recording.ledger(
            again=[
                RefetchRequest(
                    gap.url,
                    gap.reason[:200],
                    _ACCEPT.get(kinds.get(gap.url, ""), "*/*"),
                    referer(visit.final_url, gap.url),
                )
                for gap in chosen
            ],
            limit_bytes=limits.refetch_bytes,
            await_s=max(min(limits.refetch_s, left_s), grace_s),
        )
    return CompletenessResult(tuple(gaps), tuple(sorted(downloads)))


def find_gaps(
    requests: Sequence[RequestLog],
    so_far: RequestLogSnapshot,
    *,
    spared: Iterable[str] = (),
    cached: Container[str] = (),
) -> list[MissingResource]:
    """Return what the page requested and the archive lacks but could have; never `spared` and `cached` URLs."""
    requested: dict[str, list[RequestLog]] = {}
    for request in requests:
        is_web = request.url.startswith(("http://", "https://"))
        if request.method == "GET" and is_web and not request.from_worker:
            requested.setdefault(request.url, []).append(request)
    entries: dict[str, list[RequestLogEntry]] = {}
    for entry in so_far.entries:
        if entry.method == "GET":
            entries.setdefault(entry.url, []).append(entry)
    if not requests:  # without a browser's log all that the proxy saw are resources
        requested = {url: [RequestLog(url, resource_type="Image")] for url in entries}
    never = set(spared)
    gaps = []
    for url, group in requested.items():
        # A document has a record of its own, by which take-downs of framed documents find the page.
        known = url in cached and all(each.resource_type != "Document" for each in group)
        if url in never or (known and all(each.from_cache for each in group)):
            continue
        reason = _gap_reason(url, group, entries, so_far.in_flight, known=known)
        if reason:
            gaps.append(MissingResource(url, reason))
    return gaps


def is_whole(entries: Iterable[RequestLogEntry]) -> bool:
    """Return True when one entry has the origin's whole response; a 206 part counts only by itself."""
    answers = [entry for entry in entries if entry.status is not None and not entry.truncated]
    broken_whole = any(not entry.status or entry.truncated for entry in entries)
    return any(entry.status != 206 for entry in answers) or bool(answers and not broken_whole)


def _gap_reason(
    url: str,
    group: list[RequestLog],
    entries: Mapping[str, list[RequestLogEntry]],
    in_flight: frozenset[str],
    *,
    known: bool,
) -> str:
    """Return why it is a gap, of a resource that an earlier visit recorded if `known`; empty for none."""
    kinds = {request.resource_type for request in group}
    is_part = bool(kinds & PARTS)
    if kinds <= _NEVER:
        return ""
    if url in in_flight:
        return UNFINISHED if is_part else ""
    ledger = entries.get(url)
    if ledger and all(entry.status == 304 for entry in ledger):
        # They confirm cached content; a page may also send its own conditional request.
        shown = any(request.status not in (None, 304) for request in group)
        return "unrecorded" if shown and not known else ""
    if ledger:
        # Empty when another fetch would not succeed.
        reason = ledger[-1].reason
        may_succeed = reason.startswith(_TRANSIENT) and (is_part or not reason.startswith("cut:"))
        return reason if may_succeed and not is_whole(ledger) else ""
    # The same for requests that the proxy has not seen.
    last = group[-1]
    if last.status is not None:
        return "unrecorded"
    if last.failed in _GIVEN_UP:
        return _GIVEN_UP[last.failed] if is_part else ""
    return last.failed if last.failed in _BROKEN else ""


def referer(page: str, target: str) -> str:
    """Return the Referer that browsers send by default (Referrer Policy 8.3).

    >>> referer("https://a.test/b?c", "https://a.test/d"), referer("https://a.test/b", "https://x.test/")
    ('https://a.test/b?c', 'https://a.test/')
    >>> referer("https://a.test/b", "http://a.test/d")
    ''
    """
    here, destination = urlsplit(page), urlsplit(target)
    if here.scheme == "https" and destination.scheme != "https":
        return ""
    if (here.scheme, here.netloc) == (destination.scheme, destination.netloc):
        return page.partition("#")[0]
    return f"{here.scheme}://{here.netloc.rpartition('@')[2]}/"


MISSING = "missing"
SYNTHESISED = "synthesised"  # a service worker made it; a `resource` record has it
CACHED = "cached"  # by the browser, from an earlier visit
# Values of a visit that its manifest has, too.
_SAME_IN_MANIFEST = (
    *("url", "final_url", "mime", "outlinks", "redirects", "console", "restless", "behaviours", "facts", "links"),
    *("pictures", "favicon", "notes", "tried", "screen"),
)
# Values of the browser's log that a resource of the manifest has, too.
_SAME_IN_RESOURCE = (
    *("url", "method", "mime", "resource_type", "started_ms", "ttfb_ms", "duration_ms", "wire_bytes"),
    *("initiator", "protocol"),
)
HOPS_LIMIT = 20  # redirects that browsers follow (Fetch, 4.4)


def build_page_info(  # noqa: PLR0913 parts of one capture
    page_id: str,
    visit: Visit,
    ledger: Sequence[RequestLogEntry],
    artifacts: Sequence[RecordLocation],
    *,
    refused: int = 0,
    gaps: Sequence[MissingResource] = (),
    cached: Mapping[str, Sequence[CachedRecord]] = MappingProxyType({}),
) -> PageInfo:
    """Build the manifest of a visit, from its `ledger` after the seal, the `gaps` before it, and earlier records.

    A finished visit is PARTIAL when its document is truncated, a loaded resource not archived, or a limit reached.
    """
    digests = {}
    if visit.synthesised:
        from core.digests import sha256_digest

        digests = {each.url: sha256_digest(each.data) for each in visit.synthesised}
    resources = match_requests(visit.requests, ledger, digests, cached)
    own = [entry for entry in ledger if entry.url == visit.final_url]  # the last one with the page's status is its own
    main = next((entry for entry in reversed(own) if entry.status == visit.status), own[0] if own else None)
    outcome, reason = visit.outcome, visit.reason
    is_shown = outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL)
    if is_shown and main is not None and main.truncated:
        outcome, reason = VisitOutcome.PARTIAL, f"truncated: {main.truncated}"
    refetched, missing = _completed_gaps(gaps, ledger, resources)
    limited = refused + sum(resource.reason.startswith("limit:") for resource in resources)
    if outcome is VisitOutcome.COMPLETE and limited:
        outcome, reason = VisitOutcome.PARTIAL, f"limit: {limited} of {len(resources)} resources"
    if outcome is VisitOutcome.COMPLETE and missing:
        outcome, reason = (VisitOutcome.PARTIAL, f"missing: {len(missing)} of {len(resources)} resources")
    written = [entry for entry in ledger if entry.filename]
    true = visit.mime if main is None else effective_type(main.identified, main.mime) or visit.mime
    name = attachment_name(visit.headers.get("content-disposition", ""))
    text_digest = main.digest if main is not None else ""
    texts = (each.data.split() for each in visit.artifacts if each.kind is ArtifactKind.TEXT)
    if words := next(filter(None, texts), None):
        text_digest = f"text:{sha256(b' '.join(words)).hexdigest()}"
    return PageInfo(
        **{same: getattr(visit, same) for same in _SAME_IN_MANIFEST},
        page_id=page_id,
        captured_at=warc_date(visit.started_at),
        outcome=outcome,
        reason=reason,
        status=visit.status if main is None else main.status,
        records=len(written) + len(artifacts),
        stored_bytes=sum(each.length for each in written) + sum(each.length for each in artifacts),
        seconds=round(visit.seconds, 3),
        resources=tuple(resources),
        artifacts=tuple(str(artifact.kind) for artifact in visit.artifacts),
        timings={step: round(seconds, 3) for step, seconds in visit.timings.items()},
        settled={name: round(seconds, 3) for name, seconds in visit.settled.items()},
        tls_verified=not main.tls_error if main and main.url.startswith("https:") else None,
        text_digest=text_digest,
        page_class=visit.classification.kind,
        class_score=visit.classification.score,
        class_evidence=visit.classification.evidence,
        refetched=refetched,
        missing=missing,
        true_type=true,
        format=format_name(true) if true else "",
        size=main.payload_bytes if main is not None else 0,
        filename=name,
        title=visit.title or ("" if visit.artifacts else name),  # a file has no other
        left_out=sum(entry.kept is RequestOutcome.LEFT_OUT for entry in ledger),
    )


def _completed_gaps(
    gaps: Iterable[MissingResource], ledger: Sequence[RequestLogEntry], resources: Sequence[PageResource]
) -> tuple[tuple[MissingResource, ...], tuple[MissingResource, ...]]:
    """Return (gaps that were fetched again, with their results; resources still missing)."""
    entries: dict[str, list[RequestLogEntry]] = defaultdict(list)
    for entry in ledger:
        if entry.method == "GET":
            entries[entry.url].append(entry)
    refetched, missing = [], {}
    for gap in gaps:
        own = entries[gap.url]
        again = [entry for entry in own if entry.again]
        if again:
            refetched.append(replace(gap, kept=str(again[-1].kept)))
        if not is_whole(own):
            last = again[-1].reason or again[-1].truncated if again else ""
            outcome = str(again[-1].kept) if again else ""
            missing[gap.url] = MissingResource(gap.url, last or gap.reason, outcome)
    for each in resources:
        if each.kept == MISSING:
            missing.setdefault(each.url, MissingResource(each.url, each.reason or "unrecorded"))
    return tuple(refetched), tuple(missing.values())


def match_requests(
    requests: Iterable[RequestLog],
    ledger: Sequence[RequestLogEntry],
    synthesised: Mapping[str, str] = MappingProxyType({}),
    cached: Mapping[str, Sequence[CachedRecord]] = MappingProxyType({}),
) -> list[PageResource]:
    """Return every request of the page with its record; then those that only the proxy saw.

    `synthesised` has the digests of responses that service workers made, by URL. Requests for one URL are matched in
    their order; what the browser's cache answered was recorded by this visit or by an earlier one in the same context
    (`cached`).
    """
    second = {entry.url: entry for entry in ledger if entry.again}
    open_entries: dict[tuple[str, str], deque[RequestLogEntry]] = defaultdict(deque)
    last: dict[str, RequestLogEntry] = {}
    own: dict[str, dict[CachedRecord, RequestLogEntry]] = defaultdict(dict)
    for entry in ledger:
        if not entry.again:
            open_entries[entry.method, entry.url].append(entry)
            if entry.method == "GET" and entry.status not in (None, 304):
                own[entry.url][CachedRecord.of(entry)] = entry
    resources = []
    for request in requests:
        if request.from_worker:
            # The log has the service worker's own requests; its answer may come from one of them.
            answers = (e for e in ledger if e.url == request.url and e.status is not None)
            digest = synthesised.get(request.url, "")
            resource = _resource(request, next(answers, None), None)
            if resource.kept == MISSING:
                outcome = SYNTHESISED if digest else str(RequestOutcome.LEFT_OUT)
                reason = "" if digest else "service-worker"
                resource = replace(resource, kept=outcome, reason=reason, digest=digest)
            resources.append(resource)
            continue
        entries = open_entries.get((request.method, request.url))
        # The browser's cache answers by itself, or after the origin has confirmed its entry.
        if entries and (not request.from_cache or entries[0].status == 304):
            last[request.url] = entries.popleft()
        known, record = last.get(request.url), None
        is_confirmed = known is not None and known.status == 304 and request.status != 304
        if is_confirmed:
            record = _held_record(cached.get(request.url, ()), request)
        elif request.from_cache:
            record = _held_record((*cached.get(request.url, ()), *own[request.url]), request)
            if record in own[request.url]:
                known, record = own[request.url][record], None
        resource = _resource(request, known, second.get(request.url))
        for _ in range(HOPS_LIMIT):
            if record is None or resource.refetched:
                break
            resource = replace(resource, kept=CACHED, reason="", digest=record.digest, recorded_at=record.date)
            if not record.location or request.status == record.status:
                break
            # For what a process has in its memory the browser reports no redirects.
            resources.append(replace(resource, status=record.status, mime=""))
            target = urljoin(resource.url, record.location).partition("#")[0]
            resource = replace(resource, url=target, kept=MISSING, digest="", recorded_at="")
            record = _held_record(cached.get(target, ()), request)
        resources.append(resource)
    refetched = {resource.url for resource in resources if resource.refetched}
    resources += [_proxy_only_resource(entry) for url, entry in second.items() if url not in refetched]
    unseen = (entry for entries in open_entries.values() for entry in entries)
    resources += [_proxy_only_resource(entry) for entry in unseen]
    return resources


def _held_record(records: Sequence[CachedRecord], request: RequestLog) -> CachedRecord | None:
    """Return the record of what was in the cache, the latest from before it was received; the whole's, not a part's."""
    records = [each for each in records if each.status != 206] or records
    received_ms = inf if request.status == 206 or request.received_ms is None else request.received_ms
    before = [each for each in records if each.started_ms <= received_ms]
    return next(iter(before[-1:] or records), None)


def _resource(request: RequestLog, entry: RequestLogEntry | None, second: RequestLogEntry | None) -> PageResource:
    is_lacking = entry is None or entry.status == 304 or not is_whole([entry])
    if second is not None and request.method == "GET" and is_lacking:
        if entry is None or is_whole([second]):
            return _proxy_only_resource(replace(second, mime=second.mime or request.mime), request.resource_type)
        return replace(_proxy_only_resource(entry, request.resource_type), refetched=second.again)
    if entry is None:
        # Without a response there was nothing to store: the browser itself refused the request.
        is_missing = request.status is not None and not request.from_cache
        outcome, reason, digest = (MISSING if is_missing else str(RequestOutcome.FAILED)), request.failed, ""
    else:
        outcome, reason, digest = str(entry.kept), entry.reason or entry.truncated, entry.digest
    return PageResource(
        **{same: getattr(request, same) for same in _SAME_IN_RESOURCE},
        status=request.status if request.status or entry is None else entry.status,
        kept=outcome,
        reason=reason or request.failed,
        digest=digest,
    )


def _proxy_only_resource(entry: RequestLogEntry, resource_type: str = "") -> PageResource:
    return PageResource(
        url=entry.url,
        method=entry.method,
        status=entry.status,
        mime=entry.mime,
        resource_type=resource_type,
        kept=str(entry.kept),
        reason=entry.reason or entry.truncated,
        digest=entry.digest,
        refetched=entry.again,
    )
