"""The page manifest: what a visit found and kept, as one ``urn:pageinfo:`` JSON record."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from core.classes import PageClass, page_class
from core.errors import InputError

PAGEINFO_VERSION = 1


class Outcome(StrEnum):
    """How a visit ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"  # the deadline came, or something is missing; what was gathered is kept
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class PageResource:
    """One request of the page, as the browser saw it and as it was kept.

    Attributes:
        url: as requested, without its fragment.
        method: HTTP method.
        status: HTTP status; None when no response came.
        mime: bare media type as the browser judged it.
        resource_type: the browser's word: Document, Image, Script, ….
        kept: ``response``, ``revisit``, ``failed``, ``blocked``, or ``missing``.
        reason: why it failed, was blocked or is missing; empty otherwise.
        digest: payload digest of what was kept; empty otherwise.
        refetched: why it was asked for again, after the browser; empty when it was not.
    """

    url: str
    method: str = "GET"
    status: int | None = None
    mime: str = ""
    resource_type: str = ""
    kept: str = "response"
    reason: str = ""
    digest: str = ""
    refetched: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that the page asked for and that its visit did not bring.

    Attributes:
        url: without its fragment.
        reason: why the archive has it not: a constant, and its detail after a colon.
        kept: how the second request for it ended, as `PageResource.kept`; empty when there was none.
    """

    url: str
    reason: str
    kept: str = ""


@dataclass(frozen=True, slots=True)
class PageInfo:
    """The manifest of one page.

    Attributes:
        page_id: the page's identifier, in every record of the visit as WARC-Page-ID.
        url: what was asked for.
        final_url: where redirects led.
        captured_at: WARC-Date of the visit's start.
        outcome: how the visit ended.
        reason: why it is not COMPLETE; empty when it is.
        status: HTTP status of the final document.
        mime: its media type.
        title: the page's title; empty when it has none.
        records: captures and artifacts written for the page, without this manifest.
        stored_bytes: their compressed size.
        seconds: duration of the visit.
        resources: every request.
        artifacts: kinds kept beside the captures.
        outlinks: absolute URLs that the page links to.
        timings: seconds by step.
        settled: seconds of the step ``settle`` by what held the page; ``quiet`` is the moment for
            which nothing did.
        restless: what did not come to rest within its limit, by the same names.
        console: error lines the page printed, shortened.
        redirects: URLs passed on the way to `final_url`.
        tls_verified: False when the final document's certificate did not verify; None for http.
        text_digest: of the visible text, white space aside; for what has none, of the document's
            payload; empty when neither was kept. Equal ones mean that a reader sees no change.
        page_class: what sort of page it is; `PageClass.UNJUDGED` when that was not judged.
        class_score: how sure that is, from 0 to 1.
        class_evidence: what speaks for it, a sentence each; empty for a page that is ok.
        login: the name of the login that the page was visited with; empty without.
        true_type: the final document's media type by its own bytes, where they say otherwise than
            its header; else the header's.
        format: the short name that citations have for a type that is no page; empty for pages.
        size: bytes of its payload, as it came, content coding included.
        filename: the name that a download was given (RFC 6266); empty otherwise.
        refetched: what did not come at first and was asked for again, with how that ended.
        missing: what stays missing.
    """

    page_id: str
    url: str
    final_url: str
    captured_at: str
    outcome: Outcome
    reason: str = ""
    status: int | None = None
    mime: str = ""
    title: str = ""
    records: int = 0
    stored_bytes: int = 0
    seconds: float = 0.0
    resources: tuple[PageResource, ...] = ()
    artifacts: tuple[str, ...] = ()
    outlinks: tuple[str, ...] = ()
    timings: dict[str, float] | None = None
    settled: dict[str, float] | None = None
    restless: tuple[str, ...] = ()
    console: tuple[str, ...] = ()
    redirects: tuple[str, ...] = ()
    tls_verified: bool | None = None
    text_digest: str = ""
    page_class: PageClass = PageClass.UNJUDGED
    class_score: float = 0.0
    class_evidence: tuple[str, ...] = ()
    login: str = ""
    true_type: str = ""
    format: str = ""
    size: int = 0
    filename: str = ""
    refetched: tuple[Gap, ...] = ()
    missing: tuple[Gap, ...] = ()

    def to_json(self) -> bytes:
        """The manifest as UTF-8 JSON, newline at its end."""
        lines = [f' "version": {PAGEINFO_VERSION}']
        lines += [f' "{field.name}": {_json(getattr(self, field.name))}' for field in fields(self)]
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _json(value: object) -> str:
    """JSON of a field, an entry a line: `json` itself indents twenty times more slowly."""
    if isinstance(value, tuple) and value:
        return "[\n  " + ",\n  ".join(map(_ENCODE, value)) + "\n ]"
    return _ENCODE(value)


def _entry(value: Any) -> dict[str, Any]:
    """The fields of an entry."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


_ENCODE = json.JSONEncoder(ensure_ascii=False, default=_entry).encode


def parse_pageinfo(data: bytes) -> PageInfo:
    """The manifest that `PageInfo.to_json` wrote; keys it does not know are left out.

    Raises:
        InputError: it is no JSON object, of another version, or lacks a required key.
    """
    try:
        document: dict[str, Any] = json.loads(data)
        if document.get("version") != PAGEINFO_VERSION:
            raise InputError(f"A page manifest of version {document.get('version')!r}.")
        known = {f.name for f in fields(PageInfo)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in document.items()
            if key in known
        }
        values["resources"] = tuple(PageResource(**each) for each in values.get("resources", ()))
        for name in ("refetched", "missing"):
            values[name] = tuple(Gap(**each) for each in values.get(name, ()))
        values["outcome"] = Outcome(values["outcome"])
        values["page_class"] = page_class(values.get("page_class", ""))
        return PageInfo(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"Not a page manifest: {error}.") from error
