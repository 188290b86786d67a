"""Requests that might reveal a taken-down capture, and the traces to search answers for."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from itertools import product
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from core.captures import Capture
from core.errors import PermanentError
from core.layout import Layout
from core.timestamps import parse_timestamp14, timestamp14
from playback.access.takedowns import TakedownEffect, url_within
from playback.replay.archive import CaptureArchive
from playback.url_paths import MementoModifier, escape_url

_MOST_BYTES = 64_000_000  # of one payload
_SHORTEST_SLICE = 16  # bytes of a payload that no other is likely to hold
_SHORTEST_TEXT = 12  # characters
_LONGEST_TEXT = 48
_MOST_TEXTS = 24
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_BREAKS = re.compile(r"[\r\n\t\x00]+")


@dataclass(frozen=True, slots=True)
class LeakTraces:
    """Byte strings to search responses for."""

    payloads: tuple[bytes, ...]  # decoded payloads
    texts: tuple[str, ...]  # text of the payloads that occurs in no permitted content
    _spelled: tuple[tuple[str, frozenset[bytes]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Precompute the encodings of the texts."""
        spelled = tuple((text, frozenset(_spellings(text))) for text in self.texts)
        object.__setattr__(self, "_spelled", spelled)

    def found_in(self, body: bytes) -> str:
        """Return a description of the trace found in the body; empty: none."""
        if any(body == each for each in self.payloads if each):
            return f"It is a payload: sha256:{hashlib.sha256(body).hexdigest()}."
        for each in self.payloads:
            if len(body) >= _SHORTEST_SLICE and body in each:
                return "It is a part of a payload."
            if len(each) >= _SHORTEST_SLICE and (each in body or _in_base64(each, body)):
                return "It holds a payload."
        for text, spellings in self._spelled:
            if any(spelled in body for spelled in spellings):
                return f"It says {text!r}."
        return ""


def leak_traces(
    payloads: Iterable[bytes],
    titles: Iterable[str],
    shown: Iterable[bytes],
    *,
    manifests: Iterable[bytes] = (),
) -> LeakTraces:
    """Build the traces from payloads and titles that must not be shown, and content that may.

    Page manifests are searched as a whole only, since their lines also occur in the index.
    """
    kept = tuple(dict.fromkeys(payloads))
    others = tuple(shown)
    texts = dict.fromkeys(title.strip() for title in titles if len(title.strip()) > 3)
    for payload in kept:
        texts |= dict.fromkeys(_texts(payload))
    own = [text for text in texts if not any(text.encode() in other for other in others)]
    whole = tuple(each for each in (*kept, *manifests) if each not in others)
    return LeakTraces(whole, tuple(own[:_MOST_TEXTS]))


def read_payload(layout: Layout, capture: Capture) -> bytes:
    """Return the capture's decoded payload; empty when it cannot be read."""
    try:
        return CaptureArchive(layout).load(capture, limit=_MOST_BYTES).body
    except PermanentError:
        return b""


def _texts(payload: bytes) -> Iterator[str]:
    """Yield the longest runs of text, cut to pieces that survive sanitising."""
    if b"\0" in payload[:1000]:
        return
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return
    runs = {
        " ".join(line.split())
        for part in _TAGS.sub("\n", text).split("\n")
        for line in _BREAKS.split(html.unescape(part))
    }
    longest = sorted((run for run in runs if len(run) >= _SHORTEST_TEXT), key=len, reverse=True)
    for run in longest[:_MOST_TEXTS]:
        yield run[:_LONGEST_TEXT].strip()


def _spellings(text: str) -> set[bytes]:
    """Return the text as encoded in HTML, JSON and URLs."""
    return {
        text.encode(),
        html.escape(text).encode(),
        html.escape(text, quote=False).encode(),
        json.dumps(text)[1:-1].encode(),
        quote(text).encode(),
    }


def _in_base64(payload: bytes, body: bytes) -> bool:
    """Return True when the body contains the start of the payload as in a data URL."""
    start = base64.b64encode(payload[:45])
    return len(start) >= _SHORTEST_SLICE and start.rstrip(b"=") in body


_STATIC = "/static"  # files of ours
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
# Of pywb and of other archives: none may be answered with what was captured, known or not.
_FOREIGN = ("id_", "if_", "im_", "js_", "cs_", "fr_", "oe_", "mp_", "wkr_", "wkrf_", "vi_", "bn_")


@dataclass(frozen=True, slots=True)
class AuditCase:
    """Capture to request in an audit."""

    capture: Capture
    # effect of its take-down; None: it may be shown, and is requested as a control
    effect: TakedownEffect | None

    @property
    def timestamp(self) -> str:
        """Return the capture time, 14 digits."""
        return timestamp14(self.capture.captured_at)


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """HTTP request of an audit."""

    server: str  # front, replay, or full
    route: str  # the route that handles it
    target: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    host: str = ""  # Host header, if it differs from the server's
    is_plain: bool = False  # True when one request variant suffices

    @property
    def key(self) -> str:
        """Return the identity of the request, independent of validators."""
        return f"{self.server} {self.host}{self.target}"


def front_paths(app: Starlette) -> list[str]:
    """Return the path patterns of the front's routes."""
    return [each.path for each in app.routes if isinstance(each, Route | Mount)]


def front_probes(
    app: Starlette, cases: list[AuditCase], unproved: list[str]
) -> Iterator[AuditRequest]:
    """Yield requests to every front route for every capture; collect patterns that cannot be filled."""
    facts = {
        (url_within(each.capture.url), each.timestamp, each.capture.page_id or "") for each in cases
    }
    digests = sorted({each.capture.digest for each in cases})
    moments = sorted({timestamp for _, timestamp, _ in facts})
    for path in front_paths(app):
        if path == _STATIC:
            continue
        names = _PARAMETER.findall(path)
        for url, timestamp, page_id in sorted(facts):
            values = _values(url, timestamp, page_id, digests, moments)
            if any(name not in values for name in names):
                unproved.append(path)
                break
            # Intended parameter values are requested in all variants, other values in one.
            usual = {tuple(values[name][:2][place] for name in names) for place in (0, -1)}
            for chosen in product(*(values[name] for name in names)):
                target = _filled(path, chosen)
                for place, query in enumerate(_queries(url, timestamp) if not names else ("",)):
                    is_plain = bool(place) or chosen not in usual
                    yield AuditRequest("front", path, target + query, is_plain=is_plain)


def _filled(path: str, values: tuple[str, ...]) -> str:
    """Return the route's pattern with a value for each parameter."""
    pieces = _PARAMETER.split(path)[::2]
    return pieces[0] + "".join(
        value + piece for value, piece in zip(values, pieces[1:], strict=True)
    )


def _values(
    url: str, timestamp: str, page_id: str, digests: list[str], moments: list[str]
) -> Mapping[str, list[str]]:
    """Return candidate values for route parameters, by name."""
    escaped = escape_url(url)
    first, last = moments[0], moments[-1]
    rest = [
        escaped,
        f"{timestamp}/{escaped}",
        f"{timestamp}tx_/{escaped}",
        f"*/{escaped}",
        f"{timestamp[:4]}/{escaped}",
        f"{first}/{last}/{escaped}",
        f"{first}..{last}/{escaped}",
        f"{first}-{last}/{escaped}",
        f"1/{escaped}",
        f"link/{escaped}",
        f"json/{escaped}",
    ]
    return {
        "rest": rest,
        "path": rest,
        "url": [escaped],
        "timestamp": [timestamp],
        "moment": [timestamp],
        "page_id": [page_id or "none"],
        "digest": digests,
        "number": ["1"],
        "page": ["1"],
        "year": [timestamp[:4]],
        "format": ["link", "json", "cdxj"],
        "language": ["en", "de"],
        "wiki": ["any"],
    }


def _queries(url: str, timestamp: str) -> Iterator[str]:
    quoted = quote(url, safe="")
    host = urlsplit(url).hostname or ""
    yield from ("", "?page=2", f"?q={quoted}", f"?q={host}", f"?url={quoted}")
    yield from (f"?url={quoted}&{each}" for each in (f"timestamp={timestamp}", "output=json"))
    yield from (f"?url={quoted}&matchType={each}" for each in ("prefix", "host", "domain"))
    yield f"?q={quoted}&page=1&year={timestamp[:4]}"


def replay_probes(cases: list[AuditCase]) -> Iterator[AuditRequest]:
    """Yield every modifier for every address, at the capture's time and a day later."""
    for case in {(each.capture.url, each.timestamp): each for each in cases}.values():
        later = timestamp14(parse_timestamp14(case.timestamp) + timedelta(days=1))
        for url in map(escape_url, _spelled(case.capture.url)):
            for modifier in MementoModifier:
                route = f"/c/…{modifier}/…"
                yield AuditRequest("replay", route, f"/c/{case.timestamp}{modifier}/{url}")
                yield AuditRequest("replay", route, f"/c/{later}{modifier}/{url}", is_plain=True)
                yield AuditRequest(
                    "replay", route, f"/w/any/c/{case.timestamp}{modifier}/{url}", is_plain=True
                )
            for foreign in _FOREIGN:
                if foreign not in set(MementoModifier):
                    target = f"/c/{case.timestamp}{foreign}/{url}"
                    yield AuditRequest("replay", "/c/…??_/…", target, is_plain=True)


def _spelled(url: str) -> tuple[str, ...]:
    """Return the URL and its counterpart under the other scheme."""
    head, colon, rest = url.partition("://")
    twins = {"http": "https", "https": "http"}
    return (url, f"{twins[head]}{colon}{rest}") if head in twins else (url,)


def request_variants(
    probe: AuditRequest, cases: list[AuditCase], etags: Mapping[str, str]
) -> Iterator[AuditRequest]:
    """Yield the request as sent by a browser, cache, downloader and Memento client."""

    def as_(method: str, *headers: tuple[str, str]) -> AuditRequest:
        return AuditRequest(probe.server, probe.route, probe.target, method, headers, probe.host)

    yield probe
    if probe.key in etags:
        yield as_("GET", ("If-None-Match", etags[probe.key]))
    if probe.is_plain:
        return
    yield as_("HEAD")
    yield as_("GET", ("Range", "bytes=0-1023"))
    if probe.server == "front" and cases:
        moment = format_datetime(cases[0].capture.captured_at, usegmt=True)
        yield as_("GET", ("Accept-Datetime", moment))
