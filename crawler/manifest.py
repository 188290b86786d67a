"""What the browser saw, held against what the proxy kept: the page's manifest (pure)."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from core.captures import RecordLocation
from core.formats import format_name, true_type
from core.pages import Gap, Outcome, PageBehaviour, PageInfo, PageResource
from core.records import ArtifactKind
from core.timestamps import warc_date
from crawler.dispositions import attachment_name
from crawler.refetching import is_whole
from proxy.ledger import Kept, LedgerEntry
from render.network import RequestLog
from render.visit import Visit

MISSING = "missing"


def page_info(
    page_id: str,
    visit: Visit,
    ledger: Sequence[LedgerEntry],
    artifacts: Sequence[RecordLocation],
    *,
    refused: int = 0,
    gaps: Sequence[Gap] = (),
) -> PageInfo:
    """The manifest of a visit.

    `gaps` is what was lacking before the seal; `ledger` has what was asked again for it. What the
    visit's stored level left out is counted, and is not missing.

    The outcome is the visit's, but a visit that the browser finished is PARTIAL when the page's own
    document was cut short, when something that the browser loaded is not in the archive, or when a
    limit of ours has cut something.
    """
    resources = match(visit.requests, ledger)
    main = main_entry(visit, ledger)
    outcome, reason = visit.outcome, visit.reason
    if outcome in (Outcome.COMPLETE, Outcome.PARTIAL) and main is not None and main.truncated:
        outcome, reason = Outcome.PARTIAL, f"truncated: {main.truncated}"
    refetched, missing = _filled(gaps, ledger, resources)
    limited = refused + sum(resource.reason.startswith("limit:") for resource in resources)
    if outcome is Outcome.COMPLETE and limited:
        outcome, reason = Outcome.PARTIAL, f"limit: {limited} of {len(resources)} resources"
    if outcome is Outcome.COMPLETE and missing:
        outcome, reason = Outcome.PARTIAL, f"missing: {len(missing)} of {len(resources)} resources"
    kept = [entry for entry in ledger if entry.filename]
    return PageInfo(
        page_id=page_id,
        url=visit.url,
        final_url=visit.final_url,
        captured_at=warc_date(visit.started_at),
        outcome=outcome,
        reason=reason,
        status=visit.status if main is None else main.status,
        mime=visit.mime,
        records=len(kept) + len(artifacts),
        stored_bytes=sum(each.length for each in kept) + sum(each.length for each in artifacts),
        seconds=round(visit.seconds, 3),
        resources=tuple(resources),
        artifacts=tuple(str(artifact.kind) for artifact in visit.artifacts),
        outlinks=visit.outlinks,
        timings={step: round(seconds, 3) for step, seconds in visit.timings.items()},
        settled={name: round(seconds, 3) for name, seconds in visit.settled.items()},
        restless=visit.restless,
        console=visit.console,
        redirects=visit.redirects,
        tls_verified=_tls_verified(main),
        text_digest=_text_digest(visit, main),
        behaviours=tuple(
            PageBehaviour(each.name, each.found, each.done, each.seconds, each.error, each.notes)
            for each in visit.behaviours
        ),
        facts=visit.facts,
        links=visit.links,
        pictures=visit.pictures,
        favicon=visit.favicon,
        notes=visit.notes,
        page_class=visit.classification.kind,
        class_score=visit.classification.score,
        class_evidence=visit.classification.evidence,
        refetched=refetched,
        missing=missing,
        **_document_facts(visit, main),
        tried=visit.tried,
        screen=visit.screen,
        left_out=sum(entry.kept is Kept.LEFT_OUT for entry in ledger),
    )


def _document_facts(visit: Visit, main: LedgerEntry | None) -> dict[str, Any]:
    """What the final document is by itself, how large, and what it is called."""
    true = visit.mime if main is None else true_type(main.identified, main.mime) or visit.mime
    name = attachment_name(visit.headers.get("content-disposition", ""))
    return {
        "true_type": true,
        "format": format_name(true) if true else "",
        "size": main.payload_bytes if main is not None else 0,
        "filename": name,
        # A file has no other title.
        "title": visit.title or ("" if visit.artifacts else name),
    }


def main_entry(visit: Visit, ledger: Iterable[LedgerEntry]) -> LedgerEntry | None:
    """The ledger's entry for the page's own document, the last one asked for."""
    found = None
    for entry in ledger:
        if entry.url == visit.final_url:
            found = entry if found is None or entry.status == visit.status else found
    return found


def _filled(
    gaps: Iterable[Gap], ledger: Sequence[LedgerEntry], resources: Sequence[PageResource]
) -> tuple[tuple[Gap, ...], tuple[Gap, ...]]:
    """What was asked again, with how it ended; and what stays missing."""
    entries: dict[str, list[LedgerEntry]] = defaultdict(list)
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
            kept = str(again[-1].kept) if again else ""
            missing[gap.url] = Gap(gap.url, last or gap.reason, kept)
    for each in resources:
        if each.kept == MISSING:
            missing.setdefault(each.url, Gap(each.url, each.reason or "unrecorded"))
    return tuple(refetched), tuple(missing.values())


def match(requests: Iterable[RequestLog], ledger: Sequence[LedgerEntry]) -> list[PageResource]:
    """Every request of the page with how it was kept; then what only the proxy saw.

    Requests to one URL are matched in the order in which they were made. What came from the
    browser's cache was kept when it was first loaded.
    """
    second = {entry.url: entry for entry in ledger if entry.again}
    open_entries: dict[tuple[str, str], deque[LedgerEntry]] = defaultdict(deque)
    last: dict[str, LedgerEntry] = {}
    for entry in ledger:
        if not entry.again:
            open_entries[entry.method, entry.url].append(entry)
    resources = []
    for request in requests:
        entries = open_entries.get((request.method, request.url))
        if entries and not request.from_cache:
            last[request.url] = entries.popleft()
        resources.append(_resource(request, last.get(request.url), second.get(request.url)))
    asked = {resource.url for resource in resources if resource.refetched}
    resources += [_unseen(entry) for url, entry in second.items() if url not in asked]
    unseen = (entry for entries in open_entries.values() for entry in entries)
    resources += [_unseen(entry) for entry in unseen]
    return resources


def _resource(
    request: RequestLog, entry: LedgerEntry | None, second: LedgerEntry | None
) -> PageResource:
    if second is not None and request.method == "GET" and (entry is None or not is_whole([entry])):
        if entry is None or is_whole([second]):
            return _unseen(replace(second, mime=second.mime or request.mime), request.resource_type)
        return replace(_unseen(entry, request.resource_type), refetched=second.again)
    if entry is None:
        # Without a response nothing was there to keep: the browser itself refused the request.
        gone = request.status is not None and not request.from_cache
        kept, reason, digest = (MISSING if gone else str(Kept.FAILED)), request.failed, ""
    else:
        kept, reason, digest = str(entry.kept), entry.reason or entry.truncated, entry.digest
    return PageResource(
        url=request.url,
        method=request.method,
        status=request.status if request.status or entry is None else entry.status,
        mime=request.mime,
        resource_type=request.resource_type,
        kept=kept,
        reason=reason or request.failed,
        digest=digest,
        started_ms=request.started_ms,
        ttfb_ms=request.ttfb_ms,
        duration_ms=request.duration_ms,
        wire_bytes=request.wire_bytes,
        initiator=request.initiator,
        protocol=request.protocol,
    )


def _unseen(entry: LedgerEntry, resource_type: str = "") -> PageResource:
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


def _tls_verified(main: LedgerEntry | None) -> bool | None:
    if main is None or not main.url.startswith("https:"):
        return None
    return not main.tls_error


def _text_digest(visit: Visit, main: LedgerEntry | None) -> str:
    for artifact in visit.artifacts:
        if artifact.kind is ArtifactKind.TEXT and (words := artifact.data.split()):
            return f"text:{sha256(b' '.join(words)).hexdigest()}"
    return main.digest if main is not None else ""
