"""Audit of take-downs: every route is requested and every response searched for leaks (P-22).

Routes are listed from the applications themselves, so new ones are included; a route whose
parameters cannot be filled in is reported as not proved. Conditional requests repeat ETags that
were issued before the take-down: `HeldValidators` stores them if it was recorded then.
"""

import base64
import contextlib
import hashlib
import html
import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from http import HTTPStatus
from itertools import islice, product
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from core.captures import ArtifactKind, Capture, artifact_uri
from core.errors import PermanentError, UnavailableError
from core.layout import Layout
from core.timestamps import parse_timestamp14, timestamp14
from playback.access.control import PAGE_FACTS, AccessControl, page_facts
from playback.access.decision_store import DecisionStore
from playback.access.level_store import LevelStore
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, url_within
from playback.replay.archive import CaptureArchive
from playback.replay.capture_lookup import CAPTURE_COLUMNS, captures_of
from playback.takedown_coverage import TakedownCoverage
from playback.url_paths import FullOrigins, MementoModifier, escape_url
from playback.web.asgi_app import WebOptions, create_app
from playback.web.reader_page import FullCopyAccess
from playback.web.site_pages import ABOUT_PATH
from warc.index.database import IndexDatabase, escape_like

_TIMEOUT_S = 60.0
_MOST_WAITS = 20  # for one rate-limited request
_LONGEST_WAIT_S = 10
_HELD = "held addresses"
_MOST_CAPTURES = 500
_MOST_LISTED = 200  # other pages with a title like this one's
_MOST_BYTES = 64_000_000  # of one payload
_SHORTEST_SLICE = 16  # bytes of a payload that are unlikely to occur in another
_SHORTEST_TEXT = 12  # characters
_LONGEST_TEXT = 48
_MOST_TEXTS = 24
_ADDRESS = re.compile(rb"https?://[^\s\"'<>\\]+")
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_BREAKS = re.compile(r"[\r\n\t\x00]+")
_STATIC = "/static"  # Weboid's own files
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
# Routes of pywb and other archives: none may return captured content, known or not.
_FOREIGN = ("id_", "if_", "im_", "js_", "cs_", "fr_", "oe_", "mp_", "wkr_", "wkrf_", "vi_", "bn_")
_INCONCLUSIVE = (429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class AuditCase:
    """Capture to request; `effect` None: it may be shown, and is requested as a control."""

    capture: Capture
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
    is_plain: bool = False  # one request variant suffices

    @property
    def key(self) -> str:
        """Return the identity of the request, independent of validators."""
        return f"{self.server} {self.host}{self.target}"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Result of an audit request; `leak` describes leaked content, or is empty."""

    probe: AuditRequest
    status: int
    leak: str = ""

    @property
    def is_answer(self) -> bool:
        """Return False when the server could not answer, so that the result is inconclusive."""
        return self.status not in _INCONCLUSIVE


@dataclass(slots=True)
class HeldValidators:
    """ETags by request and addresses in responses, recorded before a take-down."""

    etags: dict[str, str] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)


@dataclass(slots=True)
class AuditReport:
    """All requests of an audit with their results."""

    cases: list[AuditCase] = field(default_factory=list)
    findings: list[AuditFinding] = field(default_factory=list)
    unproved: list[str] = field(default_factory=list)
    warm: HeldValidators = field(default_factory=HeldValidators)

    @property
    def leaks(self) -> list[AuditFinding]:
        """Return the findings with a leak."""
        return [each for each in self.findings if each.leak]

    @property
    def is_sound(self) -> bool:
        """Return True when every route was requested, answered, and leaked nothing."""
        answered = all(each.is_answer for each in self.findings)
        return not self.leaks and not self.unproved and answered and bool(self.findings)

    def by_route(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield server, route, answers and result for each route."""
        rows: dict[tuple[str, str], list[AuditFinding]] = {}
        for each in self.findings:
            rows.setdefault((each.probe.server, each.probe.route), []).append(each)
        for (server, route), findings in rows.items():
            counts = Counter(each.status for each in findings)
            answers = ", ".join(f"{status} x{count}" for status, count in sorted(counts.items()))
            leaks = sum(1 for each in findings if each.leak)
            silent = sum(1 for each in findings if not each.is_answer)
            verdict = f"LEAK x{leaks}" if leaks else f"no answer x{silent}" if silent else "ok"
            yield server, route, answers, verdict
        for route in self.unproved:
            yield "front", route, "", "not proved"


class LeakTraces:
    """Byte strings to search responses for: decoded payloads, and text of them and titles."""

    def __init__(
        self,
        payloads: Iterable[bytes],  # payloads that must not be shown
        titles: Iterable[str],  # titles that must not be shown
        shown: Iterable[bytes],  # content that may be shown; text that occurs in it is not a trace
        # page manifests, searched as a whole only: the index holds their lines, too
        manifests: Iterable[bytes],
    ) -> None:
        contents, others = tuple(dict.fromkeys(payloads)), tuple(shown)
        texts = dict.fromkeys(title.strip() for title in titles if len(title.strip()) > 3)
        for payload in contents:
            if b"\0" in payload[:1000]:
                continue
            try:
                text = payload.decode()
            except UnicodeDecodeError:
                continue
            runs = {
                " ".join(line.split())
                for part in _TAGS.sub("\n", text).split("\n")
                for line in _BREAKS.split(html.unescape(part))
            }
            long = (run for run in runs if len(run) >= _SHORTEST_TEXT)
            longest = sorted(long, key=len, reverse=True)[:_MOST_TEXTS]
            # Cut to pieces that survive sanitising.
            texts |= dict.fromkeys(run[:_LONGEST_TEXT].strip() for run in longest)
        own = [text for text in texts if not any(text.encode() in other for other in others)]
        self.texts = tuple(own[:_MOST_TEXTS])
        self._payloads = [each for each in (*contents, *manifests) if each and each not in others]
        self._spelled = {
            text: {
                text.encode(),
                html.escape(text).encode(),
                html.escape(text, quote=False).encode(),
                json.dumps(text)[1:-1].encode(),
                quote(text).encode(),
            }
            for text in self.texts
        }

    def omit_texts_of(self, body: bytes) -> None:
        """Search no more for texts that occur in the body, a page of the program itself."""
        self._spelled = {text: each for text, each in self._spelled.items() if not any(word in body for word in each)}

    def search(self, body: bytes) -> str:
        """Return a description of the trace found in the body; empty: none."""
        for each in self._payloads:
            if body == each:
                return f"It is a payload: sha256:{hashlib.sha256(body).hexdigest()}."
            if len(body) >= _SHORTEST_SLICE and body in each:
                return "It is a part of a payload."
            # As it is, or its start as in a data URL.
            start = base64.b64encode(each[:45])
            in_base64 = len(start) >= _SHORTEST_SLICE and start.rstrip(b"=") in body
            if len(each) >= _SHORTEST_SLICE and (each in body or in_base64):
                return "It holds a payload."
        for text, spellings in self._spelled.items():
            if any(spelled in body for spelled in spellings):
                return f"It says {text!r}."
        return ""


class TakedownAuditor:
    """HTTP client that audits a running archive, by its two origins. `close` after use."""

    def __init__(self, front: str, replay: str) -> None:
        self._origins = {"front": front, "replay": replay}
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def close(self) -> None:
        """Close the connections."""
        for each in self._connections.values():
            each.close()

    def prove(
        self, cases: list[AuditCase], traces: LeakTraces, app: Starlette, warm: HeldValidators | None = None
    ) -> AuditReport:
        """Request each case on every route of the front's `app` and of replay; UnavailableError: an origin is away."""
        proof = AuditReport(cases=cases)
        # A title such as "About" is no trace: this page has the program's words, and nothing of the collection.
        traces.omit_texts_of(self._ask(AuditRequest("front", ABOUT_PATH, ABOUT_PATH))[2])
        warm = warm or HeldValidators()
        hidden = _hidden_entries(cases)
        probes = dict.fromkeys((*front_probes(app, cases, proof.unproved), *_replay_probes(cases)))
        for address in warm.addresses:
            server, _, rest = address.partition(" ")
            host, slash, target = rest.partition("/")
            probes[AuditRequest(server, _HELD, slash + target, host=host)] = None
        for probe in probes:
            for each in _variants(probe, cases, warm.etags):
                status, headers, body = self._ask(each)
                if status != HTTPStatus.NOT_MODIFIED:
                    leak = _leak(each, status, headers, body, traces, hidden)
                else:  # with the same ETag the reader's cache has the present content
                    status, headers, body = self._ask(replace(each, headers=()))
                    held = ("If-None-Match", headers.get("etag")) in each.headers
                    stale = "" if held else "It confirms that the reader's cached copy is still valid."
                    leak = stale or _leak(each, status, headers, body, traces, hidden)
                proof.findings.append(AuditFinding(each, status, leak))
                if "etag" in headers:
                    proof.warm.etags.setdefault(each.key, headers["etag"])
                if each.method == "GET" and probe.server == "front":
                    proof.warm.addresses += self._addresses(body)
        proof.warm.addresses = sorted(set(proof.warm.addresses))
        return proof

    def _addresses(self, body: bytes) -> Iterator[str]:
        """Yield addresses of this archive in the body, including full copies."""
        for match in _ADDRESS.finditer(body):
            address = match[0].decode("latin-1").replace("&amp;", "&")
            with contextlib.suppress(ValueError):
                parts = urlsplit(address)
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                for server, origin in self._origins.items():
                    if address == origin or address.startswith(f"{origin}/"):
                        yield f"{server} {target}"
                        break
                else:
                    if (parts.hostname or "").endswith(".localhost"):
                        yield f"full {parts.netloc}{target}"

    def _ask(self, probe: AuditRequest) -> tuple[int, dict[str, str], bytes]:
        origin = urlsplit(f"http://{probe.host}" if probe.host else self._origins[probe.server])
        failed = waited = 0
        while True:
            if (connection := self._connections.get(origin.netloc)) is None:
                is_tls = origin.scheme == "https"
                kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
                host = origin.hostname or ""
                host = "127.0.0.1" if host.endswith(".localhost") else host  # RFC 6761, 6.3
                connection = kind(host, origin.port, timeout=_TIMEOUT_S)
                self._connections[origin.netloc] = connection
            try:
                connection.putrequest(probe.method, probe.target, skip_host=True, skip_accept_encoding=True)
                for name, value in (("Host", origin.netloc), *probe.headers):
                    connection.putheader(name, value)
                connection.endheaders()
                response = connection.getresponse()
                headers = {name.lower(): value for name, value in response.getheaders()}
                body = response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connections.pop(origin.netloc).close()
                failed += 1
                if failed == 2:
                    if probe.route == _HELD:
                        return 0, {}, b""  # of an archive that no longer exists
                    raise UnavailableError(f"{origin.geturl()} does not answer: {error}.") from error
                continue
            if response.status != HTTPStatus.TOO_MANY_REQUESTS or waited >= _MOST_WAITS:
                return response.status, headers, body
            waited += 1
            threading.Event().wait(min(_LONGEST_WAIT_S, int(headers.get("retry-after", "1"))))


def _hidden_entries(cases: list[AuditCase]) -> re.Pattern[bytes] | None:
    """Return a pattern of hidden captures in lists, TimeMaps and CDX; None without any."""
    marks = set()
    for case in cases:
        if case.effect is TakedownEffect.HIDE:
            url, at = case.capture.url, case.timestamp
            for spelled in {url, escape_url(url)}:
                marks.add(f"{at}(?:[a-z]{{2}}_)?/{re.escape(spelled)}(?![A-Za-z0-9?&=/_-])")
            marks.add(f'(?:^|["\\s]){re.escape(case.capture.urlkey)}[", ]+{at}')
    return re.compile("|".join(sorted(marks)).encode(), re.MULTILINE) if marks else None


def _leak(
    probe: AuditRequest,
    status: int,
    headers: Mapping[str, Any],
    body: bytes,
    traces: LeakTraces,
    hidden: re.Pattern[bytes] | None,
) -> str:
    """Return a description of what the response leaks; empty without a leak."""
    header_lines = "\n".join(f"{name}: {value}" for name, value in headers.items()).encode()
    trace = traces.search(body) or traces.search(header_lines)
    if trace or hidden is None:
        return trace
    if hidden.search(probe.target.encode()) is None:
        if mark := hidden.search(body) or hidden.search(header_lines):
            return f"It reveals what is hidden: {mark[0].decode(errors='replace')}."
    elif status == HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS:
        return "It reveals that something is hidden."
    return ""


def front_paths(app: Starlette) -> list[str]:
    """Return the path patterns of the front's routes."""
    return [each.path for each in app.routes if isinstance(each, Route | Mount)]


def front_probes(app: Starlette, cases: list[AuditCase], unproved: list[str]) -> Iterator[AuditRequest]:
    """Yield requests to every front route for every capture; collect patterns that cannot be filled."""
    facts = {(url_within(each.capture.url), each.timestamp, each.capture.page_id or "") for each in cases}
    digests = sorted({each.capture.digest for each in cases})
    moments = sorted({timestamp for _, timestamp, _ in facts})
    for path in front_paths(app):
        if path == _STATIC:
            continue
        names = _PARAMETER.findall(path)
        form = _PARAMETER.sub("{}", path)
        for url, timestamp, page_id in sorted(facts):
            values = _parameter_values(url, timestamp, page_id, moments) | {"digest": digests}
            if any(name not in values for name in names):
                unproved.append(path)
                break
            # Intended parameter values are requested in all variants, other values in one.
            quoted = quote(url, safe="")
            queries = ["", "?page=2", f"?q={quoted}", f"?q={urlsplit(url).hostname or ''}"]
            narrower = ["", f"&timestamp={timestamp}", "&output=json"]
            narrower += [f"&matchType={each}" for each in ("prefix", "host", "domain")]
            queries += [f"?url={quoted}{more}" for more in narrower]
            queries.append(f"?q={quoted}&page=1&year={timestamp[:4]}")
            usual = {tuple(values[name][:2][place] for name in names) for place in (0, -1)}
            for chosen in product(*(values[name] for name in names)):
                target = form.format(*chosen)
                for place, query in enumerate([""] if names else queries):
                    is_plain = bool(place) or chosen not in usual
                    yield AuditRequest("front", path, target + query, is_plain=is_plain)


def _parameter_values(url: str, timestamp: str, page_id: str, moments: list[str]) -> dict[str, list[str]]:
    """Return candidate values for route parameters, by name."""
    escaped = escape_url(url)
    first, last, year = moments[0], moments[-1], timestamp[:4]
    before = ["", f"{timestamp}/", f"{timestamp}tx_/", "*/", f"{year}/", f"{first}/{last}/"]
    before += [f"{first}..{last}/", f"{first}-{last}/", "1/", "link/", "json/"]
    rest = [each + escaped for each in before]
    return {
        "rest": rest,
        "path": rest,
        "url": [escaped],
        "timestamp": [timestamp],
        "moment": [timestamp],
        "page_id": [page_id or "none"],
        "number": ["1"],
        "page": ["1"],
        "year": [year],
        "format": ["link", "json", "cdxj"],
        "language": ["en", "de"],
        "wiki": ["any"],
    }


def _replay_probes(cases: list[AuditCase]) -> Iterator[AuditRequest]:
    """Yield every modifier for every address, at the capture's time and a day later."""
    for case in {(each.capture.url, each.timestamp): each for each in cases}.values():
        later = timestamp14(parse_timestamp14(case.timestamp) + timedelta(days=1))
        scheme, colon, rest = case.capture.url.partition("://")
        other = {"http": "https", "https": "http"}.get(scheme, scheme)
        for url in map(escape_url, dict.fromkeys((case.capture.url, f"{other}{colon}{rest}"))):
            for modifier in MementoModifier:
                route, path = f"/c/…{modifier}/…", f"/c/{case.timestamp}{modifier}/{url}"
                yield AuditRequest("replay", route, path)
                yield AuditRequest("replay", route, f"/c/{later}{modifier}/{url}", is_plain=True)
                yield AuditRequest("replay", route, f"/w/any{path}", is_plain=True)
            for foreign in _FOREIGN:
                if foreign not in set(MementoModifier):
                    yield AuditRequest("replay", "/c/…??_/…", f"/c/{case.timestamp}{foreign}/{url}", is_plain=True)


def _variants(probe: AuditRequest, cases: list[AuditCase], etags: Mapping[str, str]) -> Iterator[AuditRequest]:
    """Yield the request as sent by a browser, cache, downloader and Memento client."""
    yield probe
    named = replace(probe, is_plain=False)
    if probe.key in etags:
        yield replace(named, headers=(("If-None-Match", etags[probe.key]),))
    if probe.is_plain:
        return
    yield replace(named, method="HEAD")
    yield replace(named, headers=(("Range", "bytes=0-1023"),))
    if probe.server == "front" and cases:
        moment = format_datetime(cases[0].capture.captured_at, usegmt=True)
        yield replace(named, headers=(("Accept-Datetime", moment),))


def cases_of(database: IndexDatabase, permits: AccessControl | None, url: str, now: datetime) -> list[AuditCase]:
    """Return captures of a canonical URL, its pages' artifacts and equal payloads; with `permits` those not to be shown."""

    def covered(kind: TakedownKind, target: str) -> Iterator[Capture]:
        return islice(TakedownCoverage(database, Takedown(0, kind, target), now).captures(), _MOST_CAPTURES)

    captures = list(covered(TakedownKind.URL, url))
    for digest in dict.fromkeys(each.digest for each in captures if url_within(each.url) == each.url):
        if ":" in digest:
            with contextlib.suppress(ValueError, KeyError):
                captures += covered(TakedownKind.DIGEST, digest)
    unique = {(each.location.filename, each.location.offset): each for each in captures}
    if permits is None:
        return [AuditCase(each, None) for each in unique.values()]
    judged = [(each, permits.capture(each)) for each in unique.values()]
    return [AuditCase(each, why.effect) for each, why in judged if why is not None]


def traces_of(
    layout: Layout, database: IndexDatabase, cases: Iterable[AuditCase], permits: AccessControl, now: datetime
) -> LeakTraces:
    """Return the traces of taken-down content that occur in no permitted capture of the URLs."""

    def payload(capture: Capture) -> bytes:
        try:
            return CaptureArchive(layout).load(capture, limit=_MOST_BYTES).body
        except PermanentError:
            return b""

    covered = [each.capture for each in cases]
    places = {each.location for each in covered}
    urls = {url_within(each.url) for each in covered}
    shown = [
        case.capture
        for url in sorted(urls)
        for case in cases_of(database, None, url, now)
        if case.capture.location not in places and permits.capture(case.capture) is None
    ]
    own = _page_rows(database, covered)
    titles = [row["title"] for row in own if urls & {row["url"], row["final_url"]}]
    may = [payload(each) for each in shown]
    may += [row["title"].encode() for row in _page_rows(database, shown)]
    may += [url.encode() for url in urls]
    # Permitted pages whose titles contain one of these, e.g. a site's name.
    for title in dict.fromkeys(titles):
        query = (
            f"SELECT {PAGE_FACTS}, title FROM pages"  # noqa: S608 constants of ours
            f" WHERE title {database.contains} :pattern ESCAPE '\\' LIMIT {_MOST_LISTED}"
        )
        rows = database.rows(query, {"pattern": f"%{escape_like(title.strip())}%"})
        refused = {*permits.pages(map(page_facts, rows)), *(row["page_id"] for row in own)}
        may += [row["title"].encode() for row in rows if row["page_id"] not in refused]
    is_manifest = artifact_uri(ArtifactKind.PAGEINFO, "")
    manifests = [each for each in covered if each.url.startswith(is_manifest)]
    others = [each for each in covered if not each.url.startswith(is_manifest)]
    return LeakTraces(map(payload, others), titles, may, map(payload, manifests))


def _page_rows(database: IndexDatabase, captures: Iterable[Capture]) -> list[Any]:
    """Return facts and titles of the captures' pages."""
    query = f"SELECT {PAGE_FACTS}, title FROM pages WHERE page_id = :page"  # noqa: S608 constants of ours
    page_ids = sorted({each.page_id for each in captures if each.page_id})
    return [row for page_id in page_ids for row in database.rows(query, {"page": page_id})]


def embedding_cases(database: IndexDatabase, permits: AccessControl, cases: Iterable[AuditCase]) -> list[AuditCase]:
    """Return captures of pages that frame a covered document; they may be shown without it."""
    pages = list(map(page_facts, _page_rows(database, [each.capture for each in cases])))
    refused = permits.pages(pages)
    embedded = permits.embedded([each.page_id for each in pages])
    query = (
        f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE page_id = :page"  # noqa: S608 constants of ours
        " AND (url = :url OR url = :final OR substr(url, 1, 4) = 'urn:')"
    )
    embedding = []
    for page in pages:
        if page.page_id in refused or page.page_id not in embedded:
            continue
        values = {"page": page.page_id, "url": page.url, "final": page.final_url}
        artifacts = list(captures_of(database.rows(query, values)))
        embedding += [AuditCase(each, None) for each in artifacts]
        embedding += [AuditCase(replace(each, url=page.url), None) for each in artifacts[:1]]
    return embedding


def every_route(database: IndexDatabase, decisions: DecisionStore, replay: str) -> Starlette:
    """Create a front with all optional parts, for its list of routes only."""
    full = FullCopyAccess(FullOrigins("http://*.localhost:1", b"\0" * 32), LevelStore(decisions))
    return create_app(database, decisions, replay_origin=replay, around=WebOptions(full=full))
