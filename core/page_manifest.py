"""Page manifest: result of a visit as one `urn:pageinfo:` JSON record."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from core.config.stored_level import DEFAULT_STORED_LEVEL
from core.errors import InputError
from core.page_classes import PageClass, parse_page_class
from core.page_facts import PageFact
from core.storable_text import parse_json

PAGEINFO_VERSION = 1


class VisitOutcome(StrEnum):
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
        kept: ``response``, ``revisit``, ``failed``, ``blocked``, ``left-out``, or ``missing``.
        reason: why it failed, was blocked or is missing; empty otherwise.
        digest: payload digest of what was kept; empty otherwise.
        started_ms: when it was made, from the visit's first request on; None when nobody saw it.
        ttfb_ms: from there to the end of the response's head; None when none came.
        duration_ms: from there to its end; None when it did not end.
        wire_bytes: received by the browser, head included; None when it did not count.
        initiator: what made it: parser, script, preload, preflight, other, …
        protocol: between browser and proxy: ``http/1.1``, ``h2``, …; empty when not known.
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
    started_ms: float | None = None
    ttfb_ms: float | None = None
    duration_ms: float | None = None
    wire_bytes: int | None = None
    initiator: str = ""
    protocol: str = ""
    refetched: str = ""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link of the page, and where on it it stands.

    Attributes:
        url: absolute, http or https, without its fragment unless that names a state (``#!``).
        text: what a reader sees of it, or its label where it is a picture; shortened.
        rel: its ``rel``, in lower case; empty when it has none.
        kind: ``a``, ``area``, ``link`` (in the head) or ``refresh``.
        place: the part of the page it is in: ``nav``, ``main``, ``article``, ``aside``, ``header``,
            ``footer``, ``form``, ``dialog``; empty when it is in none.
        heading: the heading above it; shortened, empty when there is none.
        visible: whether a reader can see it.
        frame: whether it stands in a frame of the page.
    """

    url: str
    text: str = ""
    rel: str = ""
    kind: str = "a"
    place: str = ""
    heading: str = ""
    visible: bool = True
    frame: bool = False


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A picture of the page that was kept.

    Attributes:
        kind: which artifact it is.
        width: in pixels of the picture.
        height: in pixels of the picture.
        cut_from: how high the page is, in such pixels, when the picture ends before it; else None.
    """

    kind: str
    width: int
    height: int
    cut_from: int | None = None


class DeviceType(StrEnum):
    """A sort of screen; sites send phones other pages than desktops."""

    DESKTOP = "desktop"
    PHONE = "phone"


@dataclass(frozen=True, slots=True)
class PageScreen:
    """The screen that a page was seen on, so that its copy can be looked at on the same.

    Attributes:
        width: of the viewport, in CSS pixels.
        height: of the viewport, in CSS pixels.
        scale: device pixels to a CSS pixel.
        mobile: whether it was a phone's.
        colour_scheme: what prefers-color-scheme said.
        reduced_motion: whether prefers-reduced-motion was said.
        css: rules that held in the page's pictures only, such as those that hide a banner.
        language: the Accept-Language that the browser sent; empty when that was not recorded.
    """

    width: int = 1280
    height: int = 800
    scale: float = 1.0
    mobile: bool = False
    colour_scheme: str = "light"
    reduced_motion: bool = False
    css: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class MissingResource:
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
class PageBehaviour:
    """What one behaviour did on the page (docs/behaviours.md).

    Attributes:
        name: its name; of a user's own, that of its file.
        found: how many things it met.
        done: how many it acted on.
        seconds: how long it took.
        error: why it did not come to its end; empty when it did.
        notes: what else there is to say, e.g. ``OneTrust: refused``.
    """

    name: str
    found: int = 0
    done: int = 0
    seconds: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlayerMedia:
    """What was found behind a page's player.

    Attributes:
        urls: where the media lies: files, and playlists of segments, all kept in the same visit.
        extractor: what of yt-dlp knew the page.
        identifier: the media's name at its site.
        title: of the media.
        uploader: whose it is.
        published: its day as YYYYMMDD; empty when unknown.
        duration_s: how long it plays.
        height: of the picture, in pixels.
        reason: why there is nothing, or not all; empty when all came.
        seconds: how long the fetching took.
    """

    urls: tuple[str, ...] = ()
    extractor: str = ""
    identifier: str = ""
    title: str = ""
    uploader: str = ""
    published: str = ""
    duration_s: float | None = None
    height: int | None = None
    reason: str = ""
    seconds: float = 0.0


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
        links: the same and those of its head, each with where it stands; the first so many.
        timings: seconds by step.
        settled: seconds of the step ``settle`` by what held the page; ``quiet`` is the moment for
            which nothing did.
        restless: what did not come to rest within its limit, by the same names.
        console: error lines the page printed, shortened.
        redirects: URLs passed on the way to `final_url`.
        tls_verified: False when the final document's certificate did not verify; None for http.
        text_digest: of the visible text, white space aside; for what has none, of the document's
            payload; empty when neither was kept. Equal ones mean that a reader sees no change.
        behaviours: what was done on the page, in this order.
        facts: what the page says of itself, for citations; `core.page_facts` says which.
        pictures: the pictures that were kept, with their sizes.
        favicon: URL of the page's icon, which is kept like any part of it; empty when it has none.
        notes: what is less than whole in an artifact, a sentence each.
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
        tried: what the page tried that no visit allows, by kind, and how often: ``popup``, ….
        media: what its player played; None when nobody looked.
        screen: the one that it was seen on; None when it was not rendered, or by a version that
            did not say.
        stored: the level at which it was recorded (`core.config.stored_level`).
        left_out: how many requests were not recorded because of that; they are not missing.
    """

    page_id: str
    url: str
    final_url: str
    captured_at: str
    outcome: VisitOutcome
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
    behaviours: tuple[PageBehaviour, ...] = ()
    facts: tuple[PageFact, ...] = ()
    links: tuple[PageLink, ...] = ()
    pictures: tuple[PagePicture, ...] = ()
    favicon: str = ""
    notes: tuple[str, ...] = ()
    page_class: PageClass = PageClass.UNJUDGED
    class_score: float = 0.0
    class_evidence: tuple[str, ...] = ()
    login: str = ""
    true_type: str = ""
    format: str = ""
    size: int = 0
    filename: str = ""
    refetched: tuple[MissingResource, ...] = ()
    missing: tuple[MissingResource, ...] = ()
    tried: dict[str, int] | None = None
    media: PlayerMedia | None = None
    screen: PageScreen | None = None
    stored: str = str(DEFAULT_STORED_LEVEL)
    left_out: int = 0

    @property
    def device(self) -> str:
        """Return the `DeviceType` that it was seen on; empty when that was not recorded."""
        if self.screen is None:
            return ""
        return str(DeviceType.PHONE if self.screen.mobile else DeviceType.DESKTOP)

    @property
    def language(self) -> str:
        """Return the first language that the browser asked for; empty when that was not recorded."""
        accepted = self.screen.language if self.screen is not None else ""
        return accepted.partition(",")[0].partition(";")[0].strip()

    def to_json(self) -> bytes:
        """The manifest as UTF-8 JSON, newline at its end."""
        lines = [f' "version": {PAGEINFO_VERSION}']
        lines += [f' "{field.name}": {_json(getattr(self, field.name))}' for field in fields(self)]
        # A page's script can make a text with half a surrogate pair, which UTF-8 has no form for.
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "replace")


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
        document: dict[str, Any] = parse_json(data)
        if document.get("version") != PAGEINFO_VERSION:
            raise InputError(f"A page manifest of version {document.get('version')!r}.")
        values = _known(PageInfo, document)
        for name, kind in _ENTRIES.items():
            values[name] = _each(kind, values.get(name, ()))
        for name, kind in _SINGLE.items():
            if values.get(name) is not None:
                (values[name],) = _each(kind, [values[name]])
        values["outcome"] = VisitOutcome(values["outcome"])
        values["page_class"] = parse_page_class(values.get("page_class", ""))
        return PageInfo(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"Not a page manifest: {error}.") from error


_ENTRIES: dict[str, type[Any]] = {
    "resources": PageResource,
    "facts": PageFact,
    "links": PageLink,
    "pictures": PagePicture,
    "behaviours": PageBehaviour,
    "refetched": MissingResource,
    "missing": MissingResource,
}
_SINGLE: dict[str, type[Any]] = {"media": PlayerMedia, "screen": PageScreen}


def _each(kind: type[Any], entries: Any) -> tuple[Any, ...]:
    """Values of a dataclass from their JSON."""
    return tuple(kind(**_known(kind, entry)) for entry in entries)


def _known(kind: type[Any], entry: dict[str, Any]) -> dict[str, Any]:
    """What of a JSON object the dataclass has fields for; lists as tuples."""
    known = {each.name for each in fields(kind)}
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry.items()
        if key in known
    }
