"""Request log of a page, built from DevTools network events. Pure."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

# A page that exceeds this continues without network access (C-17).
REQUEST_LIMIT = 5_000
FRAME_LIMIT = 200  # documents of frames; no ordinary page has more
URL_LIMIT_CHARS = 65_536
# Long polls never answer; one that is silent for so long no longer counts as loading.
PATIENCE_S = 5.0
# A response that no script reads never finishes; its head is what counts.
UNREAD_S = 1.5
# More requests than this to one path are polling, which soon no longer delays anything.
POLL_TIMES = 5
POLL_HELD_TIMES = 40
POLL_PATIENCE_S = 0.5
ERROR_HEADER = "weboid-proxy-error"  # marks responses made by the proxy itself
HEADERS_KEPT = 100

DOWNLOAD = "Download"  # not a CDP type: a download, which has an event of its own

_LOGGED_SCHEMES = ("http://", "https://", "ws://", "wss://")
# Never waited for: they stream, or nothing on the page depends on them.
_NEVER_HOLD = frozenset({"EventSource", "WebSocket", "Ping", "CSPViolationReport", "Prefetch", "SignedExchange"})
_SCRIPTS = frozenset({"Script", "XHR", "Fetch", "EventSource", "WebSocket"})
_DATA = _SCRIPTS - {"Script"}
# Conditional requests without a script's condition, for resources in memory from the previous page.
_IN_MEMORY = frozenset({"Stylesheet", "Script", "Image", "Font"})
_HOLD_FOR_A_WHILE = frozenset({"XHR", "Fetch", "Media", "Other", "Preflight", "TextTrack"})


@dataclass(frozen=True, slots=True)
class RequestLog:
    """One request; each hop of a redirect is a separate one."""

    url: str  # as requested, without its fragment
    method: str = "GET"  # HTTP method
    status: int | None = None  # HTTP status; None when no response came
    mime: str = ""  # bare media type as determined by the browser
    resource_type: str = ""  # CDP resource type: Document, Image, Script, …
    from_cache: bool = False  # True when it was served without a network request
    failed: str = ""  # failure reason, e.g. ``net::ERR_ABORTED``; empty when it succeeded
    # Start time in milliseconds since the first request of the visit; None when unknown
    started_ms: float | None = None
    # Milliseconds from the start to the end of the response head; None without a response
    ttfb_ms: float | None = None
    # Milliseconds from the start to the end of the response; None when it did not end
    duration_ms: float | None = None
    # Bytes received as counted by the browser, head included; None when unknown
    wire_bytes: int | None = None
    initiator: str = ""  # initiator type: parser, script, preload, preflight, other, …
    protocol: str = ""  # protocol between the browser and the local proxy: ``http/1.1``, ``h2``, …
    from_worker: bool = False  # True when a service worker answered; its own requests are others
    # When the response came from the network, in Unix milliseconds; of a cached one that is before the visit
    received_ms: float | None = None


@dataclass(frozen=True, slots=True)
class DocumentResponse:
    """Response that a main document was made from."""

    url: str  # URL without its fragment
    status: int | None  # None without a response
    mime: str  # bare media type
    headers: dict[str, str]  # names in lower case; at most `HEADERS_KEPT`

    @property
    def proxy_error(self) -> str:
        """Return the error that the proxy reported instead of an origin's response; empty: none."""
        # Only a proxy sends 407 (RFC 9110, 15.5.8): it refused the credentials.
        return "proxy: 407" if self.status == 407 else self.headers.get(ERROR_HEADER, "")


class PendingRequest:
    """Request in progress; becomes a `RequestLog`."""

    __slots__ = (
        "answered_at", "content_type", "document", "ended_at", "failed", "from_cache", "from_worker", "head_at",
        "identifier", "initiator", "loader", "main", "method", "mime", "owner", "protocol", "received_ms",
        "resource_type", "sent_at", "started", "status", "times", "url", "wire_bytes",
    )  # fmt: skip

    def __init__(self, params: dict[str, Any], owner: str, now: float, *, main: bool) -> None:
        request = params["request"]
        self.identifier: str = params.get("requestId", "")
        self.main = main
        self.url: str = without_fragment(request["url"])[:URL_LIMIT_CHARS]
        self.method: str = request["method"]
        self.resource_type: str = params.get("type", "Other")
        self.loader: str = params.get("loaderId", "")
        self.owner = owner  # id of the session that requested it
        self.started = now
        self.answered_at: float | None = None
        self.times = 0
        self.status: int | None = None
        self.mime = ""
        self.from_cache = False
        self.from_worker = False
        self.document: str = params.get("documentURL", "")  # URL of the document that requested it
        self.content_type = ""
        self.failed = ""
        self.initiator: str = params.get("initiator", {}).get("type", "")
        self.protocol = ""
        self.received_ms: float | None = None
        # Moments on the browser's own clock, in seconds; only their differences mean anything.
        self.sent_at: float | None = params.get("timestamp")
        self.head_at: float | None = None
        self.ended_at: float | None = None
        self.wire_bytes: int | None = None

    def answered(self, response: dict[str, Any], at: float | None = None) -> None:
        """Take over the head of its response, which arrived `at` that moment of the browser's clock."""
        self.status = response["status"] or None
        self.mime = response.get("mimeType", "")
        self.protocol = response.get("protocol", "")
        self.received_ms = response.get("responseTime")
        if response.get("fromDiskCache") or response.get("fromPrefetchCache"):
            self.from_cache = True
        if response.get("fromServiceWorker"):
            self.from_worker = True
            self.content_type = lower_headers(response.get("headers", {}).items()).get("content-type", "")
        timing = response.get("timing")
        # Events wait their turn behind others; the network's own times do not.
        self.head_at = (
            timing["requestTime"] + timing["receiveHeadersEnd"] / 1000
            if timing and timing.get("receiveHeadersEnd", -1) >= 0
            else at
        )

    def ended(self, params: dict[str, Any]) -> None:
        """Take over the facts of its end."""
        self.ended_at = params.get("timestamp")
        if (length := params.get("encodedDataLength")) is not None:
            self.wire_bytes = max(int(length), 0)

    def holds_until(self) -> float:
        """Return until when it delays the page's rest: infinity without a limit, 0.0 not at all."""
        if self.resource_type in _NEVER_HOLD or self.times > POLL_HELD_TIMES:
            return 0.0
        if self.resource_type == "Stylesheet" and "xml" in self.mime:
            # An XSLT sheet: its result replaces the document that requested it, and no event
            # reports that it has finished.
            return 0.0
        if self.resource_type not in _HOLD_FOR_A_WHILE:
            return float("inf")
        if self.times > POLL_TIMES:
            return self.started + POLL_PATIENCE_S
        end = self.started + PATIENCE_S
        if self.resource_type in _SCRIPTS and self.answered_at is not None:
            return min(end, self.answered_at + UNREAD_S)
        return end

    def frozen(self, origin: float | None) -> RequestLog:
        """Return it as it is now; `origin`: when the visit's first request was sent."""
        return RequestLog(
            self.url, self.method, self.status, self.mime, self.resource_type, self.from_cache,
            self.failed, _ms(origin, self.sent_at), _ms(self.sent_at, self.head_at),
            _ms(self.sent_at, self.ended_at), self.wire_bytes, self.initiator, self.protocol,
            self.from_worker, self.received_ms,
        )  # fmt: skip


class NetworkLog:
    """Requests of one visit, from all of its frames and workers."""

    def __init__(self, main_frame: str, *, limit: int = REQUEST_LIMIT) -> None:
        self._main_frame = main_frame
        self._limit = limit
        self._requests: list[PendingRequest] = []
        self._open: dict[str, PendingRequest] = {}
        self._framed = 0
        # Called whenever network quiet may have begun or ended
        self.on_change: Callable[[], None] = lambda: None
        # Called with each request that a service worker has answered, and the network not in this visit
        self.on_worker_response: Callable[[PendingRequest], None] = lambda _: None
        # Responses of the main frame by loader id, oldest first
        self.documents: dict[str, DocumentResponse] = {}
        # URLs that redirected to a main document, by its loader id
        self.hops: dict[str, list[str]] = {}
        self.document_errors: dict[str, str] = {}  # failure reasons of main documents, by loader id
        self.overflowed = False  # True once the page made more requests, or frames, than the limit
        # Number of requests that restart the wait for quiet; those of polls are left out
        self.news = 0
        self.scripted = False  # True once a script or worker was requested
        self.data_requested = False  # True once a script requested data, or opened a stream or socket
        self._times: dict[str, int] = {}
        self._answered: set[str] = set()  # URLs with a response that no service worker has given
        self._now = 0.0
        self._handlers: dict[str, Callable[[dict[str, Any], str], None]] = {
            "Network.requestWillBeSent": self._will_be_sent,
            "Network.responseReceived": self._received,
            "Network.requestServedFromCache": self._from_cache,
            "Network.loadingFinished": self._finished,
            "Network.loadingFailed": self._failed,
            "Network.webSocketCreated": self._socket_created,
            "Network.webSocketHandshakeResponseReceived": self._socket_answered,
            "Network.webSocketFrameError": self._socket_failed,
            "Network.webSocketClosed": self._finished,
            "Page.downloadWillBegin": self._download_began,
        }

    def handle_event(self, method: str, params: dict[str, Any], *, owner: str, now: float) -> None:
        """Record one event of the session `owner`; unknown events are ignored."""
        if (handler := self._handlers.get(method)) is not None:
            self._now = now
            handler(params, owner)

    def owner_gone(self, owner: str) -> None:
        """Mark the pending requests of an ended frame or worker as failed."""
        for identifier, request in list(self._open.items()):
            if request.owner == owner:
                request.failed = request.failed or "detached"
                del self._open[identifier]
        self.on_change()

    def holding_until(self, now: float) -> float | None:
        """Return until when pending requests delay the page's rest, infinity without a limit; or None."""
        return max((end for each in self._open.values() if (end := each.holds_until()) > now), default=None)

    def loading_since(self, began: float) -> bool:
        """Return whether a request that was made after `began` is pending and waited for."""
        return any(
            request.started >= began and request.resource_type not in _NEVER_HOLD for request in self._open.values()
        )

    def arriving(self, until: float, committed: Container[str]) -> bool:
        """Return whether a main document requested by `until` is pending and not yet committed."""
        return any(
            request.main and request.started <= until and request.loader not in committed
            for request in self._open.values()
        )

    def entries(self) -> tuple[RequestLog, ...]:
        """Return every request so far, in request order."""
        origin = self._requests[0].sent_at if self._requests else None
        return tuple(request.frozen(origin) for request in self._requests)

    def _will_be_sent(self, params: dict[str, Any], owner: str) -> None:
        redirect = params.get("redirectResponse")
        previous = self._open.pop(params["requestId"], None)
        if redirect is not None and previous is not None:
            previous.answered(redirect, params.get("timestamp"))
            previous.ended({**redirect, "timestamp": params.get("timestamp")})
            if self._is_main(params):
                self.hops.setdefault(params.get("loaderId", ""), []).append(previous.url)
        if not params["request"]["url"].startswith(_LOGGED_SCHEMES):
            return
        main = params.get("type") == "Document" and self._is_main(params)
        self._add(PendingRequest(params, owner, self._now, main=main))

    def _add(self, request: PendingRequest) -> None:
        self._framed += request.resource_type == "Document" and not request.main
        if len(self._requests) >= self._limit or self._framed > FRAME_LIMIT:
            self.overflowed = True
            self.on_change()
            return
        self._requests.append(request)
        self._open[request.identifier] = request
        self.data_requested = self.data_requested or request.resource_type in _DATA
        if request.resource_type not in _NEVER_HOLD:
            self.scripted = self.scripted or request.resource_type in _SCRIPTS
            if request.resource_type in _HOLD_FOR_A_WHILE:
                place = request.url.partition("?")[0]
                request.times = self._times[place] = self._times.get(place, 0) + 1
            if request.times <= POLL_TIMES:  # otherwise it belongs to polling
                self.news += 1
        self.on_change()

    def _received(self, params: dict[str, Any], _: str) -> None:
        response = params["response"]
        if (request := self._open.get(params["requestId"])) is not None:
            request.answered(response, params.get("timestamp"))
            request.answered_at = self._now
            if not request.from_worker:
                self._answered.add(request.url)
            request.resource_type = params.get("type", request.resource_type)
            if request.status == 304 and request.resource_type in _IN_MEMORY:
                request.status, request.from_cache = 200, True
            if request.resource_type in _NEVER_HOLD:
                self.on_change()
        if params.get("type") == "Document" and self._is_main(params):
            self.documents[params["loaderId"]] = DocumentResponse(
                without_fragment(response["url"]),
                response["status"],
                response.get("mimeType", ""),
                lower_headers(response.get("headers", {}).items()),
            )

    def _from_cache(self, params: dict[str, Any], _: str) -> None:
        if (request := self._open.get(params["requestId"])) is not None:
            request.from_cache = True

    def _finished(self, params: dict[str, Any], _: str) -> None:
        if (request := self._open.pop(params["requestId"], None)) is not None:
            request.ended(params)
            is_made = request.from_worker and (request.method, request.status) == ("GET", 200)
            if is_made and request.url not in self._answered:
                self.on_worker_response(request)
            self.on_change()

    def _failed(self, params: dict[str, Any], _: str) -> None:
        if (request := self._open.pop(params["requestId"], None)) is not None:
            request.failed = params.get("blockedReason") or params.get("errorText") or "failed"
            request.ended(params)
            if request.main:
                self.document_errors[request.loader] = request.failed
            self.on_change()

    def _download_began(self, params: dict[str, Any], owner: str) -> None:
        """Handle a download, which may start without a request event."""
        url = without_fragment(params["url"])[:URL_LIMIT_CHARS]
        if not url.startswith(_LOGGED_SCHEMES) or len(self._requests) >= self._limit:
            return
        if all(request.url != url for request in self._requests):
            event = {"request": {"url": url, "method": "GET"}, "type": DOWNLOAD}
            self._requests.append(PendingRequest(event, owner, self._now, main=False))

    def _socket_created(self, params: dict[str, Any], owner: str) -> None:
        request = {"request": {"url": params["url"], "method": "GET"}, "type": "WebSocket"}
        self._add(PendingRequest({**params, **request}, owner, self._now, main=False))

    def _socket_answered(self, params: dict[str, Any], _: str) -> None:
        if (request := self._open.get(params["requestId"])) is not None:
            request.answered(params["response"], params.get("timestamp"))

    def _socket_failed(self, params: dict[str, Any], _: str) -> None:
        if (request := self._open.get(params["requestId"])) is not None:
            request.failed = params.get("errorMessage", "failed")

    def _is_main(self, params: dict[str, Any]) -> bool:
        return bool(params.get("frameId") == self._main_frame)


def without_fragment(url: str) -> str:
    """Return the URL without its fragment."""
    return url.partition("#")[0]


def lower_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first `HEADERS_KEPT` headers with names in lower case."""
    return {name.lower(): value[:URL_LIMIT_CHARS] for name, value in islice(headers, HEADERS_KEPT)}


def _ms(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(max(end - start, 0.0) * 1000, 1)


def origin_of(url: str) -> str:
    """Return the origin of a URL as the browser writes it, such as ``https://example.org:8443``; or ``""``."""
    return "/".join(url.split("/", 3)[:3]) if url.startswith(("http:", "https:")) else ""
