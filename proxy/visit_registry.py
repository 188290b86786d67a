"""Open visits by their proxy credentials, with their requests in flight.

Consecutive visits of a shared context have the same credentials, and a token each that the browser adds to the requests
of a page and its workers: a late one (a beacon, whatever waited for a connection) is refused, never attributed to the
next visit.
"""

import base64
import secrets
import threading
import time
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from cachetools import LRUCache

from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import InputError, InvariantError, WeboidError
from net.http1 import Headers
from proxy.browser_connection import Origin
from proxy.request_log import RequestLogEntry
from warc.dedup.payloads import OriginalRecord

if TYPE_CHECKING:
    from proxy.exchange import Exchange
    from proxy.warcprox_api import MetaRules

UNANSWERED_LIMIT = 256
UNANSWERED_BYTES = 65_536  # of one
# A name and values that scripts may send to any site without asking it first (Fetch, "CORS-safelisted
# request-header"), that browsers do not send by themselves, and that no cache distinguishes.
TOKEN_HEADER = b"content-language"
CONTEXTS_LIMIT = 256  # shared contexts whose records are remembered, for what a 304 confirms
CONTEXT_RECORDS = 10_000  # of one context


@dataclass(eq=False, repr=False)
class VisitSession:
    """Visit of one page on the proxy's side. Thread-safe; `begin` and `end` frame exchanges, `seal` waits."""

    page_id: str
    bucket: str
    _: KW_ONLY
    limit_requests: int
    headers: Headers = ()  # added to each request, replacing the browser's of the same name
    # The name of the login used; empty without. With a login, session secrets are left out of its
    # records (`proxy.redaction`).
    login: str = ""
    strict_tls: bool = False  # certificates of its origins must verify
    # The stored level; excluded responses are not fetched, or only until their type is known.
    stored: StoredLevel = DEFAULT_STORED_LEVEL
    # Captures no older may be confirmed by their origins instead of being fetched again; 0: none.
    confirm_within_ms: int = 0
    rules: "MetaRules | None" = None  # of a client of warcprox; None: those of the settings
    added_head: bytes = b""  # lines for the client in the head of each response
    # Hosts that the browser connects to itself, "*" for all: their tunnels are observed, not intercepted.
    browser_hosts: frozenset[str] = frozenset()
    # Certificates of observed connections by origin: SHA-256 and fault; empty for none.
    certificates: dict[Origin, tuple[str, str]] = field(default_factory=dict, init=False)
    received: int = field(default=0, init=False)  # bytes received from origins
    refused: int = field(default=0, init=False)  # number of requests over the limit, which are not logged one by one
    first_headers: Headers = field(default=(), init=False)  # of its first GET, names in lower case, names, values
    # Requests without a complete response, by URL, with their origin.
    unanswered: dict[str, tuple[Origin, bytes]] = field(default_factory=dict, init=False)
    # Credentials of its browser context; those of a shared context come from its owner.
    username: str = field(default_factory=partial(secrets.token_hex, 8))
    password: str = field(default_factory=partial(secrets.token_hex, 16))
    # Latest recorded success of each URL in earlier visits of the same context.
    earlier: dict[str, RequestLogEntry] = field(default_factory=dict, init=False)
    token: str = field(default="", init=False)  # value of `TOKEN_HEADER`; empty in a context of its own
    entries: list[RequestLogEntry] = field(default_factory=list, init=False)
    # Cause of the failure of the whole visit; None when it did not fail.
    failure: WeboidError | None = field(default=None, init=False)
    _in_flight: "set[Exchange]" = field(default_factory=set, init=False)
    _fetched_whole: set[str] = field(default_factory=set, init=False)
    _sealed: bool = field(default=False, init=False)
    _change: threading.Condition = field(default_factory=threading.Condition, init=False)

    def begin(self, exchange: "Exchange", entry: RequestLogEntry) -> str:
        """Register a request; return the reason to refuse it, empty when it is allowed."""
        with self._change:
            if self._sealed:
                return "visit: over"
            if len(self.entries) >= self.limit_requests:
                self.refused += 1
                return "limit: visit_limit_requests"
            self._in_flight.add(exchange)
            self.entries.append(entry)
            return ""

    def receive(self, count: int) -> None:
        """Count bytes from an origin."""
        with self._change:
            self.received += count

    def wants_whole(self, url: str) -> bool:
        """Return True, once, for a URL whose whole was not fetched yet; mark it as fetched."""
        with self._change:
            if self._sealed or url in self._fetched_whole:
                return False
            self._fetched_whole.add(url)
            return True

    def remember(self, entry: RequestLogEntry, sent_to: tuple[Origin, bytes] | None) -> None:
        """Keep the request for a repetition when its response is incomplete."""
        lacking = entry.method == "GET" and (entry.status is None or entry.truncated)
        if not lacking or sent_to is None or len(sent_to[1]) > UNANSWERED_BYTES:
            return
        with self._change:
            if len(self.unanswered) < UNANSWERED_LIMIT:
                self.unanswered[entry.url] = sent_to

    def wait(self, *, grace_s: float, awaited: frozenset[str] = frozenset(), await_s: float = 0.0) -> list[str]:
        """Wait as `seal` does, but cut none; return the URLs in flight that have a natural end."""

        def going() -> "list[Exchange]":
            return [each for each in self._in_flight if not each.switches]

        def waited() -> bool:
            return any(each.awaited or each.url in awaited for each in going())

        now = time.monotonic()
        with self._change:
            self._change.wait_for(lambda: not going(), timeout=grace_s)
            left = await_s - (time.monotonic() - now)
            self._change.wait_for(lambda: not waited(), timeout=max(left, 0.0))
            return [each.url for each in going()]

    def end(self, exchange: "Exchange") -> None:
        """Remove an exchange that has handed over its record, or has none."""
        with self._change:
            self._in_flight.discard(exchange)
            self._change.notify_all()

    def seal(self, *, grace_s: float, awaited: frozenset[str], await_s: float) -> None:
        """Refuse new requests, cut those in flight after `grace_s`, of `awaited` URLs (downloads) after `await_s`."""
        now = time.monotonic()
        with self._change:
            self._sealed = True
            for exchange in self._in_flight:
                if exchange.switches:
                    exchange.cut("time")
            self._change.wait_for(lambda: not self._in_flight, timeout=grace_s)
            waited = [e for e in self._in_flight if e.awaited or e.url in awaited]
            if waited:
                for exchange in self._in_flight.difference(waited):
                    exchange.cut("time")
                left = await_s - (time.monotonic() - now)
                self._change.wait_for(lambda: not self._in_flight, timeout=max(left, 0))
            for exchange in self._in_flight:
                exchange.cut("time")
            self._change.wait_for(lambda: not self._in_flight, timeout=30.0)
            if self._in_flight:
                raise InvariantError("Requests of the visit did not end although they were aborted.")

    def records_of(self, url: str) -> list[str]:
        """Return the ids of the records written for the URL so far."""
        with self._change:
            return [each.record_id for each in self.entries if each.url == url and each.record_id]

    def confirmed_by(self, url: str) -> tuple[OriginalRecord, str] | None:
        """Return the record, and its id, of the context's latest success of the URL that a 304 confirms, or None."""
        with self._change:
            own = (each for each in reversed(self.entries) if each.url == url and _is_recorded_success(each))
            it = next(own, None) or self.earlier.get(url)
        if it is None:
            return None
        return OriginalRecord(it.digest, it.url, it.started_ms, it.filename, it.offset, it.length), it.record_id

    def abandon(self) -> None:
        """Cancel all requests without waiting: the manifest is no longer needed."""
        with self._change:
            self._sealed = True
            for exchange in self._in_flight:
                exchange.cut("unspecified")


class VisitRegistry:
    """Open visits by their credentials. Thread-safe."""

    def __init__(self) -> None:
        self._by_authorization: dict[bytes, VisitSession] = {}
        # Records of shared contexts, by their credentials.
        self._recorded: LRUCache[bytes, dict[str, RequestLogEntry]] = LRUCache(CONTEXTS_LIMIT)
        self._lock = threading.Lock()

    def add(self, visit: VisitSession, *, shared: bool = False) -> None:
        """Make the visit's credentials valid, `shared` by visits in turn; InputError: another visit has them."""
        key = authorization(visit.username, visit.password)
        with self._lock:
            if key in self._by_authorization:
                raise InputError("Another visit of the browser context is open.")
            if shared:
                visit.token = f"weboid-{secrets.token_hex(8)}"
                visit.earlier = self._recorded.setdefault(key, {})
            self._by_authorization[key] = visit

    def close(self, visit: VisitSession) -> None:
        """Remove the visit; its credentials become invalid."""
        key = authorization(visit.username, visit.password)
        with self._lock:
            if self._by_authorization.get(key) is visit:
                del self._by_authorization[key]
            if key in self._recorded and len(visit.earlier) < CONTEXT_RECORDS:
                visit.earlier |= {each.url: each for each in visit.entries if _is_recorded_success(each)}

    def authorised(self, proxy_authorization: bytes | None) -> VisitSession | None:
        """Return the visit with these credentials, None when there is none (RFC 7617)."""
        return self._by_authorization.get(proxy_authorization or b"")

    def is_between_visits(self, proxy_authorization: bytes | None) -> bool:
        """Return whether these are credentials of a shared context that has no open visit."""
        return proxy_authorization in self._recorded

    def __len__(self) -> int:
        return len(self._by_authorization)


def authorization(username: str, password: str) -> bytes:
    """Return the value of Proxy-Authorization for these credentials (RFC 7617)."""
    return b"Basic " + base64.b64encode(f"{username}:{password}".encode())


def _is_recorded_success(entry: RequestLogEntry) -> bool:
    return bool(entry.record_id) and entry.status is not None and 200 <= entry.status < 300
