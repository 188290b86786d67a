"""Page manifest: result of a visit as one `urn:pageinfo:` JSON record."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from core.config.stored_level import DEFAULT_STORED_LEVEL
from core.errors import InputError
from core.json_values import read_json
from core.page_classes import PageClass, parse_page_class
from core.page_facts import PageFact
from core.storable_text import parse_json

PAGEINFO_VERSION = 1
_ARCHIVED = frozenset({"response", "revisit", "cached", "synthesised"})


class VisitOutcome(StrEnum):
    """Outcome of a visit."""

    COMPLETE = "complete"
    PARTIAL = "partial"  # the deadline passed, or something is missing; the collected data is stored
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class PageResource:
    """Request of the page, as seen by the browser and as recorded."""

    url: str  # as requested, without its fragment
    method: str = "GET"  # HTTP method
    status: int | None = None  # HTTP status; None without a response
    mime: str = ""  # bare media type as determined by the browser
    resource_type: str = ""  # the browser's type: Document, Image, Script, …
    # ``response``, ``revisit``, ``failed``, ``blocked``, ``left-out``, ``missing``, ``cached``: recorded by
    # an earlier visit, or ``synthesised``: made by a service worker of the page, and stored as `resource`.
    kept: str = "response"
    reason: str = ""  # why it failed, was blocked or is missing; empty otherwise
    digest: str = ""  # payload digest of the record; empty without one
    started_ms: float | None = None  # its start, from the visit's first request on; None when unknown
    ttfb_ms: float | None = None  # from there to the end of the response's head; None without one
    duration_ms: float | None = None  # from there to its end; None when it did not end
    wire_bytes: int | None = None  # received by the browser, head included; None when unknown
    initiator: str = ""  # parser, script, preload, preflight, other, …
    protocol: str = ""  # between browser and proxy: ``http/1.1``, ``h2``, …; empty when not known
    refetched: str = ""  # why it was fetched again, after the browser; empty when it was not
    # WARC-Date of the record of an earlier visit that holds it, when the browser had it in its cache.
    recorded_at: str = ""

    @property
    def is_archived(self) -> bool:
        """Return whether a record holds it, of this visit or an earlier one."""
        return self.kept in _ARCHIVED


@dataclass(frozen=True, slots=True)
class PageLink:
    """Link of the page, with its place."""

    url: str  # absolute, http or https, without its fragment unless that names a state (``#!``)
    text: str = ""  # its visible text, or the label of a linked image; shortened
    rel: str = ""  # its ``rel``, in lower case; empty when it has none
    kind: str = "a"  # ``a``, ``area``, ``link`` (in the head) or ``refresh``
    # The part of the page it is in: ``nav``, ``main``, ``article``, ``aside``, ``header``,
    # ``footer``, ``form``, ``dialog``; empty when it is in none.
    place: str = ""
    heading: str = ""  # the heading above it; shortened, empty when there is none
    visible: bool = True  # whether a reader can see it
    frame: bool = False  # whether it is in a frame of the page


@dataclass(frozen=True, slots=True)
class PagePicture:
    """Stored picture of the page."""

    kind: str  # `view`, `fullPage` or `thumbnail`
    width: int  # in pixels of the picture
    height: int  # in pixels of the picture
    cut_from: int | None = None  # the page's height in such pixels when the picture is cut; else None


class DeviceType(StrEnum):
    """Type of screen; sites send phones other pages than desktops."""

    DESKTOP = "desktop"
    PHONE = "phone"


@dataclass(frozen=True, slots=True)
class PageScreen:
    """Screen that a page was rendered on, so that its copy can be rendered on the same."""

    width: int = 1280  # of the viewport, in CSS pixels
    height: int = 800  # of the viewport, in CSS pixels
    scale: float = 1.0  # device pixels to a CSS pixel
    mobile: bool = False  # whether it was a phone's
    colour_scheme: str = "light"  # value of prefers-color-scheme
    reduced_motion: bool = False  # whether prefers-reduced-motion was set
    css: str = ""  # rules applied for the page's pictures only, such as those that hide a banner
    language: str = ""  # the Accept-Language that the browser sent; empty when that was not recorded


@dataclass(frozen=True, slots=True)
class MissingResource:
    """Resource that the page requested and that its visit did not record."""

    url: str  # without its fragment
    reason: str  # why it is missing: a constant, and its detail after a colon
    kept: str = ""  # result of the second request, as `PageResource.kept`; empty when there was none


@dataclass(frozen=True, slots=True)
class PageBehaviour:
    """Result of one behaviour on the page (docs/reference/behaviours.md)."""

    name: str  # its name; of a user's own, that of its file
    found: int = 0  # number of elements it found
    done: int = 0  # number of elements it acted on
    seconds: float = 0.0  # duration
    error: str = ""  # why it did not finish; empty when it did
    notes: tuple[str, ...] = ()  # further results, e.g. ``OneTrust: refused``.


@dataclass(frozen=True, slots=True)
class PlayerMedia:
    """Media of a page's player."""

    # Of the media: files, and playlists of segments, recorded in this visit, or in an earlier one: `cached` resources.
    urls: tuple[str, ...] = ()
    extractor: str = ""  # the yt-dlp extractor that matched the page
    identifier: str = ""  # the media's name at its site
    title: str = ""  # its title at its site
    uploader: str = ""  # name of the account that published it
    published: str = ""  # its day as YYYYMMDD; empty when unknown
    duration_s: float | None = None  # its playing time
    height: int | None = None  # of the picture, in pixels
    reason: str = ""  # why there is nothing, or not all; empty when all was fetched
    seconds: float = 0.0  # duration of the download


@dataclass(frozen=True, slots=True)
class PageImport:
    """Origin of an imported page. Weboid wrote its manifest from the statements of the imported file."""

    source: str  # name of the file, or its address; of an entry of a WACZ ``FILE!ENTRY``
    sha256: str  # of the file, in hexadecimal
    software: str = ""  # program that made the file, as its `warcinfo` states
    imported_at: str = ""  # WARC-Date of the import
    listed_in: str = ""  # ``manifest``, ``list``, ``pageinfo``, or ``document``: a response that looks like a page


@dataclass(frozen=True, slots=True)
class PageInfo:
    """Manifest of one page."""

    page_id: str  # the page's identifier, in every record of the visit as WARC-Page-ID
    url: str  # the requested URL
    final_url: str  # the URL after redirects
    captured_at: str  # WARC-Date of the visit's start
    outcome: VisitOutcome  # `complete`, `partial`, `failed` or `skipped`
    reason: str = ""  # why it is not COMPLETE; empty when it is
    status: int | None = None  # HTTP status of the final document
    mime: str = ""  # its media type
    title: str = ""  # the page's title; empty when it has none
    records: int = 0  # captures and artifacts written for the page, without this manifest
    stored_bytes: int = 0  # their compressed size
    seconds: float = 0.0  # duration of the visit
    resources: tuple[PageResource, ...] = ()  # every request
    artifacts: tuple[str, ...] = ()  # kinds of the stored artifacts
    outlinks: tuple[str, ...] = ()  # absolute URLs that the page links to
    timings: dict[str, float] | None = None  # seconds by step
    # Seconds of the step ``settle`` by cause of the wait; ``quiet`` is the time without any.
    settled: dict[str, float] | None = None
    restless: tuple[str, ...] = ()  # causes that did not settle within the limit, by the same names
    console: tuple[str, ...] = ()  # error lines the page printed, shortened
    redirects: tuple[str, ...] = ()  # URLs passed on the way to `final_url`
    tls_verified: bool | None = None  # False when the final document's certificate did not verify; None for http
    # Of the visible text, ignoring white space; without text, of the document's payload; empty when
    # neither was stored. Equal digests mean no visible change.
    text_digest: str = ""
    behaviours: tuple[PageBehaviour, ...] = ()  # result of each that was run
    facts: tuple[PageFact, ...] = ()  # statements of the page about itself, for citations; see `core.page_facts`
    links: tuple[PageLink, ...] = ()  # the same and those of its head, each with its position; the first ones only
    pictures: tuple[PagePicture, ...] = ()  # the stored pictures, with their sizes
    favicon: str = ""  # URL of the page's icon, which is recorded like any resource; empty when it has none
    notes: tuple[str, ...] = ()  # defects of artifacts, a sentence each
    page_class: PageClass = PageClass.UNJUDGED  # the page's class; `PageClass.UNJUDGED` when it was not classified
    class_score: float = 0.0  # confidence in the class, from 0 to 1
    class_evidence: tuple[str, ...] = ()  # evidence for the class, a sentence each; empty for a page that is ok
    login: str = ""  # the name of the login that the page was visited with; empty without
    true_type: str = ""  # the final document's sniffed media type where it differs from its header; else the header's
    format: str = ""  # the short format name, for citations, of a type that is not a page; empty for pages
    size: int = 0  # bytes of its payload as received, content coding included
    filename: str = ""  # the file name of a download (RFC 6266); empty otherwise
    refetched: tuple[MissingResource, ...] = ()  # resources that were fetched again, with the result
    missing: tuple[MissingResource, ...] = ()  # resources that stay missing
    tried: dict[str, int] | None = None  # forbidden actions of the page, by kind, with their number: ``popup``, …
    media: PlayerMedia | None = None  # the media of its player; None when none was searched for
    # The screen that it was rendered on; None when it was not rendered, or by a version that did not record it.
    screen: PageScreen | None = None
    stored: str = str(DEFAULT_STORED_LEVEL)  # the stored level (`core.config.stored_level`)
    left_out: int = 0  # number of requests not recorded because of that; they are not missing
    imported: PageImport | None = None  # its origin, when another archive captured it

    @property
    def device(self) -> str:
        """Return its screen's `DeviceType`; empty when that was not recorded."""
        if self.screen is None:
            return ""
        return str(DeviceType.PHONE if self.screen.mobile else DeviceType.DESKTOP)

    @property
    def language(self) -> str:
        """Return the first requested language; empty when that was not recorded."""
        accepted = self.screen.language if self.screen is not None else ""
        return accepted.partition(",")[0].partition(";")[0].strip()

    def to_json(self) -> bytes:
        """Encode the manifest as UTF-8 JSON, with a newline at its end."""
        lines = [f' "version": {PAGEINFO_VERSION}']
        lines += [f' "{field.name}": {_json(getattr(self, field.name))}' for field in fields(self)]
        # A page's script can make a text with half a surrogate pair, which UTF-8 has no form for.
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "replace")


def _json(value: object) -> str:
    """Encode a field, one entry per line: `json` itself indents twenty times more slowly."""
    if isinstance(value, tuple) and value:
        return "[\n  " + ",\n  ".join(map(_ENCODE, value)) + "\n ]"
    return _ENCODE(value)


_ENCODE = json.JSONEncoder(
    ensure_ascii=False, default=lambda value: {field.name: getattr(value, field.name) for field in fields(value)}
).encode


def parse_pageinfo(data: bytes) -> PageInfo:
    """Parse a manifest of `PageInfo.to_json`, or raise InputError; unknown keys are ignored."""
    try:
        document: dict[str, Any] = parse_json(data)
        version, page_class = document.get("version"), parse_page_class(document.get("page_class", ""))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"Not a page manifest: {error}.") from error
    if version != PAGEINFO_VERSION:
        raise InputError(f"A page manifest of version {version!r}.")
    return read_json(PageInfo, {**document, "page_class": page_class}, name="manifest")
