"""Control server: workers open, write, seal and close visits, over a socket or TCP (`proxy.control.frames`).

A connection handles one visit at a time. An error, or an invalid field, is answered with its class and text, and the
connection stays open. Data that is not a frame ends it, as the next frame boundary is unknown.
"""

import logging
import math
import os
import re
import socket
import socketserver
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.captures import check_login_name, dedup_bucket
from core.config.added_headers import check_headers
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import InputError, LimitReachedError, ListenError, ProxyUnavailableError, WeboidError
from core.timestamps import parse_warc_date
from net.timeouts import enable_keepalive
from proxy.archiving_proxy import ArchivingProxy
from proxy.archivist_jobs import PendingArtifact
from proxy.control.frames import BODY_LIMIT_BYTES, UNTAGGED, FrameTags, Message, pack_frame, receive_frame
from proxy.control.handshake import ClusterSecret, ForgedFrameError, admit_worker
from proxy.refetch import refetch
from proxy.request_log import BRIEF_FIELDS, RefetchRequest, to_table
from proxy.visit_registry import VisitSession

log = logging.getLogger(__name__)

WAIT_LIMIT_S = 86_400.0  # no seal waits for longer
CONFIRM_LIMIT_S = 1e9  # 31 years
REPEATS_LIMIT = 1_000  # requests to make again, of one message
_CREDENTIAL = re.compile(r"[0-9a-f]{16,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


MAX_UNAUTHENTICATED = 256  # connections that have proved nothing yet


class ControlServer(socketserver.ThreadingTCPServer):
    """Control server: `serve_forever`, `shutdown`, `server_close`.

    On a unix socket, whose folder limits access; with a secret on a TCP port, where other peers are dropped cheaply.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 512  # workers that open visits all at once

    def __init__(
        self, address: Path | tuple[str, int], proxy: ArchivingProxy, secret: ClusterSecret | None = None
    ) -> None:
        """Start listening, or raise ListenError."""
        self.proxy = proxy
        self.started = time.monotonic()
        self.admitted = self.refused = 0  # connections so far, over TCP
        self._secret = secret
        self._unauthenticated = threading.BoundedSemaphore(MAX_UNAUTHENTICATED)
        if isinstance(address, Path):
            self.address_family = socket.AF_UNIX
            super().__init__(str(address), _ControlSession)  # type: ignore[arg-type] # as of that family
            address.chmod(0o600)
            self.port = 0
            return
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _ControlSession)
        except OSError as error:
            raise ListenError(*address, error) from error
        self.port = int(self.socket.getsockname()[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve the connection in a thread, unless too many handshakes are in progress already."""
        if self._secret is not None and not self._unauthenticated.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            if self._secret is not None:
                self._unauthenticated.release()
            raise

    def admits(self, request: socket.socket) -> FrameTags | None:
        """Run the handshake; return the tags of later frames, None for an unauthenticated peer."""
        if self._secret is None:
            return UNTAGGED
        try:
            enable_keepalive(request)
            tags = admit_worker(request, self._secret)
        except OSError:
            tags = None
        finally:
            self._unauthenticated.release()
        if tags is not None:
            self.admitted += 1
        else:
            self.refused += 1
            log.info("control.stranger")
        return tags


class _ControlSession(socketserver.BaseRequestHandler):
    """One control connection: reads messages, sends answers."""

    server: ControlServer
    request: socket.socket
    _visit: VisitSession | None = None

    def handle(self) -> None:
        if (tags := self.server.admits(self.request)) is None:
            return
        try:
            # Large bodies (artifacts) are accepted only when a visit is open.
            while frame := receive_frame(self.request, tags.received, body_limit=BODY_LIMIT_BYTES * bool(self._visit)):
                self.request.sendall(pack_frame(self._answer(*frame), tags=tags.sent))
        except ForgedFrameError as error:
            log.warning("control.forged peer=%s %s", self.client_address[0], error)
        except (OSError, ProxyUnavailableError) as error:
            log.debug("control.lost %s", error)
        except WeboidError as error:
            with suppress(OSError):
                self.request.sendall(pack_frame(_error_message(error), tags=tags.sent))
        finally:
            self._end()

    def _answer(self, message: Message, body: bytes) -> Message:
        verbs = {
            "open": self._open,
            "write": self._write,
            "seal": self._seal,
            "ledger": self._ledger,
            "close": self._close,
            "status": self._status,
            "reach": self._reach,
            "secrets": self._secrets,
        }
        try:
            return verbs[message["verb"]](message, body)
        except WeboidError as error:
            return _error_message(error)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            return {"error": "InputError", "message": f"A malformed message: {error!r}."}

    def _open(self, message: Message, _: bytes) -> Message:
        if self._visit is not None:
            raise InputError("This connection already has a visit.")
        proxy = self.server.proxy
        if proxy.leaving:
            raise ProxyUnavailableError("The proxy is shutting down; use another.")
        proxy.disk.require_reserve()
        proxy.archivist.require_stores()
        if proxy.limits.crawl_is_over():
            raise LimitReachedError("The run has reached its size limit; raise [proxy] crawl_limit_bytes, and resume.")
        page_id, bucket = _text(message, "page_id"), _text(message, "bucket")
        # The headers to add to each request of the visit.
        table = message.get("headers", {})
        if not isinstance(table, dict) or not all(isinstance(each, str) for each in table.values()):
            raise InputError("headers must be an object of strings.")
        check_headers(table)
        headers = tuple((name.lower().encode(), name.encode(), value.encode()) for name, value in table.items())
        login = _text(message, "login") if "login" in message else ""
        if login:
            check_login_name(login)
            bucket = dedup_bucket(bucket, login)
        shared: dict[str, Any] = {}
        if "username" in message:  # of a context whose visits take turns
            shared = {name: _text(message, name) for name in ("username", "password")}
            if not all(_CREDENTIAL.fullmatch(each) for each in shared.values()):
                raise InputError("Credentials are 16 to 64 hexadecimal digits.")
        stored = StoredLevel(message.get("stored", DEFAULT_STORED_LEVEL))
        keeps_all = stored is DEFAULT_STORED_LEVEL
        confirm_s = float(message.get("confirm_within_s", 0.0))
        if not 0 <= confirm_s <= CONFIRM_LIMIT_S:
            raise InputError(f"confirm_within_s is not between 0 and {CONFIRM_LIMIT_S:.0f} seconds.")
        visit = VisitSession(
            page_id,
            bucket,
            limit_requests=proxy.exchanges.settings.visit_limit_requests,
            headers=headers,
            login=login,
            strict_tls=bool(login) and message.get("unverified_tls") is not True,
            stored=stored,
            confirm_within_ms=int(confirm_s * 1000) if not login and keeps_all else 0,
            browser_hosts=frozenset(map(str, message.get("browser_hosts", ()))),
            **shared,
        )
        proxy.visits.add(visit, shared=bool(shared))
        self._visit = visit
        place = dict(zip(("host", "port"), proxy.reached_at, strict=True))
        return {**place, "username": visit.username, "password": visit.password, "token": visit.token}

    def _write(self, message: Message, body: bytes) -> Message:
        visit = self._current()
        artifacts, at = [], 0
        for each in message["artifacts"]:
            size = each["size"]
            if type(size) is not int or size < 0:
                raise InputError("An artifact's size is not a number of bytes.")
            uri, kind, date, document = (_text(each, name) for name in ("uri", "content_type", "date", "document"))
            data = body[at : at + size]
            artifacts.append(PendingArtifact(uri, kind, parse_warc_date(date), document, visit, data))
            at += size
        if at != len(body):
            raise InputError("The artifacts' sizes do not add up to the body's.")
        locations = self.server.proxy.archivist.write(tuple(artifacts))
        return {"locations": [[each.filename, each.offset, each.length] for each in locations]}

    def _seal(self, message: Message, _: bytes) -> Message:
        visit = self._current()
        grace_s, await_s = _seconds(message, "grace_s"), _seconds(message, "await_s")
        visit.seal(grace_s=grace_s, awaited=frozenset(message["awaited"]), await_s=await_s)
        self.server.proxy.archivist.flush()
        if visit.failure is not None:
            raise visit.failure
        return {"entries": to_table(visit.entries), "refused": visit.refused}

    def _ledger(self, message: Message, _: bytes) -> Message:
        """Return finished requests and those in flight; first repeat the requests in ``again``."""
        visit = self._current()
        names = ("url", "reason", "accept", "referer")
        repeats = [RefetchRequest(**{name: _text(each, name) for name in names}) for each in message["again"]]
        if len(repeats) > REPEATS_LIMIT:
            raise InputError(f"More than {REPEATS_LIMIT} requests to make again.")
        limit_bytes = message["limit_bytes"]
        if type(limit_bytes) is not int or limit_bytes < 0:
            raise InputError("limit_bytes is not a number of bytes.")
        grace_s, await_s = _seconds(message, "grace_s"), _seconds(message, "await_s")
        awaited = frozenset(message["awaited"])
        refetch(self.server.proxy.exchanges, visit, repeats, limit_bytes=limit_bytes)
        going = visit.wait(grace_s=grace_s, awaited=awaited, await_s=await_s)
        return {"entries": to_table(list(visit.entries), BRIEF_FIELDS), "in_flight": going}

    def _close(self, _: Message, __: bytes) -> Message:
        self._end()
        return {}

    def _status(self, _: Message, __: bytes) -> Message:
        return {
            "pid": os.getpid(),
            "visits": len(self.server.proxy.visits),
            "uptime_s": time.monotonic() - self.server.started,
            "free_bytes": self.server.proxy.disk.free_bytes,
            "reserve_bytes": self.server.proxy.disk.reserve_bytes,
            "spki": self.server.proxy.ca.spki,
            "authority": self.server.proxy.ca.certificate,
        }

    def _reach(self, message: Message, _: bytes) -> Message:
        host, port = _text(message, "host"), message["port"]
        if type(port) is not int or not 0 < port < 65_536:
            raise InputError("A port is a number from 1 to 65535.")
        try:
            self.server.proxy.egress.connect(host, port).close()
        except WeboidError:
            return {"reached": False}
        return {"reached": True}

    def _secrets(self, message: Message, _: bytes) -> Message:
        """Take secrets of TLS connections that a browser makes itself, as lines of its key log."""
        self.server.proxy.secrets.add(map(str, message["lines"]))
        return {}

    def _current(self) -> VisitSession:
        if self._visit is None:
            raise InputError("Open a visit first.")
        return self._visit

    def _end(self) -> None:
        visit, self._visit = self._visit, None
        if visit is not None:
            self.server.proxy.visits.close(visit)
            visit.abandon()


def _error_message(error: WeboidError) -> Message:
    return {"error": type(error).__name__, "message": str(error)}


def _text(message: Message, name: str) -> str:
    """Return a text field that is safe in a WARC header (C-12)."""
    text = message[name]
    if not isinstance(text, str) or _CONTROL.search(text):
        raise InputError(f"{name} is not a string, or contains control characters.")
    return text


def _seconds(message: Message, name: str) -> float:
    seconds = float(message[name])
    if not (math.isfinite(seconds) and 0 <= seconds <= WAIT_LIMIT_S):
        raise InputError(f"{name} is not between 0 and {WAIT_LIMIT_S:.0f} seconds.")
    return seconds
