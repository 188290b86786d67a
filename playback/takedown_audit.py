"""Audit of take-downs: every route is requested and every response searched for leaks (P-22).

Routes are listed from the applications themselves, so new ones are included; a route whose
parameters cannot be filled in is reported as not proved. Conditional requests repeat ETags that
were issued before the take-down: `HeldValidators` stores them if it was recorded then.
"""

import contextlib
import http.client
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette

from core.captures import ArtifactKind, Capture, artifact_uri
from core.errors import UnavailableError
from core.layout import Layout
from playback.access.control import AccessControl
from playback.access.decision_store import DecisionStore
from playback.access.level_store import LevelStore
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, url_within
from playback.full_origins import FullOrigins, FullPermission
from playback.replay.capture_lookup import CAPTURE_COLUMNS, capture_of
from playback.takedown_coverage import TakedownCoverage
from playback.takedown_probes import (
    AuditCase,
    AuditRequest,
    LeakTraces,
    front_probes,
    leak_traces,
    read_payload,
    replay_probes,
    request_variants,
)
from playback.url_paths import escape_url
from playback.web.asgi_app import WebOptions, create_app
from playback.web.copy_levels import FullCopyAccess
from warc.index.database import IndexDatabase, escape_like

_TIMEOUT_S = 60.0
_MOST_WAITS = 20  # for one rate-limited request
_LONGEST_WAIT_S = 10
HELD = "held addresses"
_MOST_CAPTURES = 500
_MOST_LISTED = 200  # other pages with a title like this one's
_ADDRESS = re.compile(rb"https?://[^\s\"'<>\\]+")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Result of an audit request."""

    probe: AuditRequest
    status: int
    leak: str = ""  # description of leaked content; empty: none
    # False when the server could not answer, so that the result is inconclusive
    is_answer: bool = True


@dataclass(slots=True)
class HeldValidators:
    """ETags by request and addresses in responses, recorded before a take-down."""

    etags: dict[str, str] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the content as a JSON object."""
        return json.dumps({"etags": self.etags, "addresses": self.addresses})

    @classmethod
    def from_json(cls, text: str) -> "HeldValidators":
        """Parse the output of `to_json`.

        Raises:
            ValueError: the text has another format.
        """
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 one error for all that is wrong
        return cls(dict(document["etags"]), list(document["addresses"]))


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
        for (server, route), found in rows.items():
            counts: dict[int, int] = {}
            for each in found:
                counts[each.status] = counts.get(each.status, 0) + 1
            answers = ", ".join(f"{status} x{count}" for status, count in sorted(counts.items()))
            leaks = sum(1 for each in found if each.leak)
            silent = sum(1 for each in found if not each.is_answer)
            verdict = f"LEAK x{leaks}" if leaks else f"no answer x{silent}" if silent else "ok"
            yield server, route, answers, verdict
        for route in self.unproved:
            yield "front", route, "", "not proved"


class TakedownAuditor:
    """HTTP client that audits a running archive. `close` after use.

    Args:
        front: the origin of the reader pages.
        replay: the origin of the copies.
    """

    def __init__(self, front: str, replay: str) -> None:
        self._origins = {"front": front, "replay": replay}
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def close(self) -> None:
        """Close the connections."""
        for each in self._connections.values():
            each.close()

    def prove(
        self,
        cases: list[AuditCase],
        sought: LeakTraces,
        app: Starlette,
        warm: HeldValidators | None = None,
    ) -> AuditReport:
        """Request each case on every route of the front's `app` and of replay.

        Raises:
            UnavailableError: an origin does not answer.
        """
        proof = AuditReport(cases=cases)
        # Names of hidden captures in lists, TimeMaps and CDX.
        marks = set()
        for case in cases:
            if case.effect is TakedownEffect.HIDE:
                url, at = case.capture.url, case.timestamp
                for spelled in {url, escape_url(url)}:
                    marks.add(f"{at}(?:[a-z]{{2}}_)?/{re.escape(spelled)}(?![A-Za-z0-9?&=/_-])")
                key = re.escape(case.capture.urlkey)
                marks.add(f'(?:^|["\\s]){key}[", ]+{at}')
        hidden = re.compile("|".join(sorted(marks)).encode(), re.MULTILINE) if marks else None
        probes = dict.fromkeys(
            (*front_probes(app, cases, proof.unproved), *replay_probes(cases), *self._again(warm))
        )
        for probe in probes:
            for each in request_variants(probe, cases, {} if warm is None else warm.etags):
                status, headers, body = self._ask(each)
                leak = _leak(each, status, headers, body, sought, hidden)
                proof.findings.append(
                    AuditFinding(each, status, leak, status not in (429, 500, 502, 503, 504))
                )
                if "etag" in headers:
                    proof.warm.etags.setdefault(each.key, headers["etag"])
                if each.method == "GET" and probe.server == "front":
                    proof.warm.addresses += self._addresses(body)
        proof.warm.addresses = sorted(set(proof.warm.addresses))
        return proof

    def _again(self, warm: HeldValidators | None) -> Iterator[AuditRequest]:
        """Yield requests for addresses found in earlier responses."""
        for address in warm.addresses if warm is not None else ():
            server, _, rest = address.partition(" ")
            host, slash, target = rest.partition("/")
            yield AuditRequest(server, HELD, slash + target, host=host)

    def _addresses(self, body: bytes) -> list[str]:
        """Return addresses of this archive in the body, including full copies."""
        found = []
        for match in _ADDRESS.finditer(body):
            address = match[0].decode("latin-1").replace("&amp;", "&")
            with contextlib.suppress(ValueError):
                parts = urlsplit(address)
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                for server, origin in self._origins.items():
                    if address == origin or address.startswith(f"{origin}/"):
                        found.append(f"{server} {target}")
                        break
                else:
                    if (parts.hostname or "").endswith(".localhost"):
                        found.append(f"full {parts.netloc}{target}")
        return found

    def _ask(self, probe: AuditRequest) -> tuple[int, dict[str, str], bytes]:
        origin = f"http://{probe.host}" if probe.host else self._origins[probe.server]
        netloc = urlsplit(origin).netloc
        attempt = waited = 0
        while True:
            connection = self._connection(origin)
            try:
                connection.putrequest(
                    probe.method, probe.target, skip_host=True, skip_accept_encoding=True
                )
                for name, value in (("Host", netloc), *probe.headers):
                    connection.putheader(name, value)
                connection.endheaders()
                response = connection.getresponse()
                headers = {name.lower(): value for name, value in response.getheaders()}
                body = response.read()
                if response.status != HTTPStatus.TOO_MANY_REQUESTS or waited >= _MOST_WAITS:
                    return response.status, headers, body
                waited += 1
                wait_s = int(headers.get("retry-after", "1"))
                threading.Event().wait(min(_LONGEST_WAIT_S, wait_s))
            except (OSError, http.client.HTTPException) as error:
                self._connections.pop(origin).close()
                attempt += 1
                if attempt == 2:
                    if probe.route == HELD:
                        return 0, {}, b""  # of an archive that is no more
                    raise UnavailableError(f"{origin} does not answer: {error}.") from error

    def _connection(self, origin: str) -> http.client.HTTPConnection:
        if origin not in self._connections:
            parts = urlsplit(origin)
            host = parts.hostname or ""
            kind = (
                http.client.HTTPSConnection
                if parts.scheme == "https"
                else http.client.HTTPConnection
            )
            if host.endswith(".localhost"):
                host = "127.0.0.1"  # RFC 6761, 6.3
            self._connections[origin] = kind(host, parts.port, timeout=_TIMEOUT_S)
        return self._connections[origin]


@dataclass(frozen=True, slots=True)
class AuditedPage:
    """Fields of a page used to build cases."""

    page_id: str
    url: str
    timestamp: str
    final_url: str
    title: str
    login: str


_LISTED = ", ".join(AuditedPage.__slots__)


def cases_of(
    database: IndexDatabase, permits: AccessControl | None, url: str, now: datetime
) -> list[AuditCase]:
    """Return the captures of a URL, its pages' artifacts, and captures with the same payloads.

    Args:
        database: the captures index.
        permits: access control, to select only items that must not be shown; None: select all.
        url: canonical URL.
        now: current time.
    """
    named = _imagined(TakedownKind.URL, url, now)
    found = list(_first(TakedownCoverage(database, named, now).captures()))
    for digest in dict.fromkeys(each.digest for each in found if url_within(each.url) == each.url):
        if digest and ":" in digest:
            with contextlib.suppress(ValueError, KeyError):
                same = _imagined(TakedownKind.DIGEST, digest, now)
                found += _first(TakedownCoverage(database, same, now).captures())
    unique = {(each.location.filename, each.location.offset): each for each in found}
    if permits is None:
        return [AuditCase(each, None) for each in unique.values()]
    judged = [(each, permits.capture(each)) for each in unique.values()]
    return [AuditCase(each, why.effect) for each, why in judged if why is not None]


def traces_of(
    layout: Layout,
    database: IndexDatabase,
    cases: Iterable[AuditCase],
    permits: AccessControl,
    now: datetime,
) -> LeakTraces:
    """Return the traces of taken-down content that occur in no permitted capture of the URLs."""
    covered = [each.capture for each in cases]
    places = {each.location for each in covered}
    urls = {url_within(each.url) for each in covered}
    shown = [
        case.capture
        for url in sorted(urls)
        for case in cases_of(database, None, url, now)
        if case.capture.location not in places and permits.capture(case.capture) is None
    ]
    titles = [
        each.title for each in _pages_of(database, covered) if urls & {each.url, each.final_url}
    ]
    may = [read_payload(layout, each) for each in shown]
    may += [title.encode() for title in _titles(database, {e.page_id for e in shown if e.page_id})]
    may += [url.encode() for url in urls]
    may += [title.encode() for title in _lists(database, titles, covered, permits)]
    told = artifact_uri(ArtifactKind.PAGEINFO, "")
    return leak_traces(
        (read_payload(layout, each) for each in covered if not each.url.startswith(told)),
        titles,
        may,
        manifests=[read_payload(layout, each) for each in covered if each.url.startswith(told)],
    )


def embedding_cases(
    database: IndexDatabase, permits: AccessControl, cases: Iterable[AuditCase]
) -> list[AuditCase]:
    """Return captures of pages that frame a covered document; they may be shown without it."""
    pages = _pages_of(database, [each.capture for each in cases])
    refused = permits.pages(pages)
    embedded = permits.embedded([each.page_id for each in pages])
    found = []
    for page in pages:
        if page.page_id in refused or page.page_id not in embedded:
            continue
        query = (
            f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE page_id = :page"  # noqa: S608 constants of ours
            " AND (url = :url OR url = :final OR substr(url, 1, 4) = 'urn:')"
        )
        values = {"page": page.page_id, "url": page.url, "final": page.final_url}
        captures = (capture_of(row) for row in database.rows(query, values))
        artifacts = [each for each in captures if each is not None]
        found += [AuditCase(each, None) for each in artifacts]
        found += [AuditCase(replace(each, url=page.url), None) for each in artifacts[:1]]
    return found


def every_route(database: IndexDatabase, decisions: DecisionStore, replay: str) -> Starlette:
    """Create a front with all optional parts, for its list of routes only."""
    full = FullCopyAccess(
        FullOrigins("http://*.localhost:1", b"\0" * 32), FullPermission(LevelStore(decisions))
    )
    return create_app(database, decisions, replay_origin=replay, around=WebOptions(full=full))


def _imagined(kind: TakedownKind, what: str, now: datetime) -> Takedown:
    return Takedown(0, kind, what, "", TakedownEffect.BLOCK, "", "", "", now, None)


def _first(captures: Iterable[Capture]) -> Iterator[Capture]:
    for _, each in zip(range(_MOST_CAPTURES), captures, strict=False):
        yield each


def _pages_of(database: IndexDatabase, captures: Iterable[Capture]) -> list[AuditedPage]:
    """Return the pages that the captures were made for."""
    return [
        AuditedPage(**dict(row))
        for page_id in sorted({each.page_id for each in captures if each.page_id})
        for row in database.rows(
            f"SELECT {_LISTED} FROM pages WHERE page_id = :page",  # noqa: S608 constants of ours
            {"page": page_id},
        )
    ]


def _titles(database: IndexDatabase, page_ids: set[str]) -> list[str]:
    return [
        row["title"]
        for page_id in sorted(page_ids)
        for row in database.rows("SELECT title FROM pages WHERE page_id = :page", {"page": page_id})
    ]


def _lists(
    database: IndexDatabase,
    titles: Iterable[str],
    covered: Iterable[Capture],
    permits: AccessControl,
) -> list[str]:
    """Return titles of permitted pages that contain one of these titles, e.g. a site's name."""
    own = {each.page_id for each in covered}
    found: list[str] = []
    for title in dict.fromkeys(titles):
        pages = [
            AuditedPage(**row)
            for row in map(
                dict,
                database.rows(
                    f"SELECT {_LISTED} FROM pages"  # noqa: S608 constants of ours
                    f" WHERE title {database.contains} :pattern ESCAPE '\\' LIMIT {_MOST_LISTED}",
                    {"pattern": f"%{escape_like(title.strip())}%"},
                ),
            )
            if row["page_id"] not in own
        ]
        refused = permits.pages(pages)
        found += [each.title for each in pages if each.page_id not in refused]
    return found


def _leak(
    probe: AuditRequest,
    status: int,
    headers: Mapping[str, Any],
    body: bytes,
    sought: LeakTraces,
    hidden: re.Pattern[bytes] | None,
) -> str:
    """Return a description of what the response leaks; empty without a leak."""
    if status == HTTPStatus.NOT_MODIFIED:
        return "It says that what the reader holds is still good."
    said = "\n".join(f"{name}: {value}" for name, value in headers.items()).encode()
    found = sought.found_in(body) or sought.found_in(said)
    if found or hidden is None:
        return found
    if hidden.search(probe.target.encode()) is None:
        mark = hidden.search(body) or hidden.search(said)
        if mark is not None:
            return f"It tells of what is hidden: {mark[0].decode(errors='replace')}."
    elif status == HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS:
        return "It tells that something is hidden."
    return ""
