"""The control socket: a unix socket in a private folder, which no page can reach (C-01).

A connection speaks for one visit at a time: ``open``, any number of ``write``, ``seal``, ``write``
again, ``close``. When it ends without ``close`` the visit is over all the same. Each message gets
one answer; an error is answered with its class and text, and the connection goes on.
"""

import logging
import os
import socket
import socketserver
import time
from pathlib import Path
from typing import Any

from core.errors import InputError, LimitReachedError, WeboidError
from core.timestamps import parse_warc_date
from proxy.frames import Message, pack, receive
from proxy.jobs import Artifact
from proxy.ledger import to_table
from proxy.server import ArchivingProxy
from proxy.visits import Visit

log = logging.getLogger(__name__)


class ControlServer(socketserver.ThreadingUnixStreamServer):
    """Listens at `path`. `serve_forever` in a thread, then `shutdown` and `server_close`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512  # workers that open visits all at once

    def __init__(self, path: Path, proxy: ArchivingProxy) -> None:
        self.proxy = proxy
        self.started = time.monotonic()
        super().__init__(str(path), _Conversation)
        path.chmod(0o600)


class _Conversation(socketserver.BaseRequestHandler):
    """One connection: messages in, answers out."""

    server: ControlServer
    request: socket.socket

    def handle(self) -> None:
        self._visit: Visit | None = None
        try:
            while (frame := receive(self.request)) is not None:
                self.request.sendall(pack(self._answer(*frame)))
        except (OSError, ValueError, WeboidError) as error:
            log.debug("control.lost %s", error)
        finally:
            self._end()

    def _answer(self, message: Message, body: bytes) -> Message:
        verbs = {
            "open": self._open,
            "write": self._write,
            "seal": self._seal,
            "close": self._close,
            "status": self._status,
        }
        try:
            return verbs[message["verb"]](message, body)
        except WeboidError as error:
            return {"error": type(error).__name__, "message": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": "InputError", "message": f"A malformed message: {error!r}."}

    def _open(self, message: Message, _: bytes) -> Message:
        if self._visit is not None:
            raise InputError("This connection has a visit already.")
        proxy = self.server.proxy
        proxy.disk.require_reserve()
        proxy.archivist.require_dedup()
        if proxy.limits.crawl_is_over():
            raise LimitReachedError(
                "The run has received all that it may; raise [proxy] crawl_limit_bytes, and go on."
            )
        self._visit = visit = proxy.visits.open(str(message["page_id"]), str(message["bucket"]))
        host, port = proxy.server_address[:2]
        return {
            "host": host,
            "port": port,
            "username": visit.username,
            "password": visit.password,
        }

    def _write(self, message: Message, body: bytes) -> Message:
        visit = self._current()
        artifacts, at = [], 0
        for each in message["artifacts"]:
            size = int(each["size"])
            artifacts.append(_artifact(each, visit, body[at : at + size]))
            at += size
        if at != len(body):
            raise InputError("The artifacts' sizes do not add up to the body's.")
        locations = self.server.proxy.archivist.write(tuple(artifacts))
        return {"locations": [[each.filename, each.offset, each.length] for each in locations]}

    def _seal(self, message: Message, _: bytes) -> Message:
        visit = self._current()
        visit.seal(
            grace_s=float(message["grace_s"]),
            awaited=frozenset(message["awaited"]),
            await_s=float(message["await_s"]),
        )
        self.server.proxy.archivist.flush()
        if visit.failure is not None:
            raise visit.failure
        return {"entries": to_table(visit.entries), "refused": visit.refused}

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
        }

    def _current(self) -> Visit:
        if self._visit is None:
            raise InputError("Open a visit first.")
        return self._visit

    def _end(self) -> None:
        visit, self._visit = self._visit, None
        if visit is not None:
            self.server.proxy.visits.close(visit)
            visit.abandon()


def _artifact(described: dict[str, Any], visit: Visit, data: bytes) -> Artifact:
    for name in ("uri", "content_type", "target", "document"):
        text = described[name]
        if not isinstance(text, str) or any(ord(char) < 32 or ord(char) == 127 for char in text):
            raise InputError(f"An artifact's {name} holds control characters.")  # C-12
    return Artifact(
        uri=described["uri"],
        content_type=described["content_type"],
        date=parse_warc_date(described["date"]),
        target=described["target"],
        document=described["document"],
        visit=visit,
        data=data,
    )
