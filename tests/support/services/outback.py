"""A server that answers as OutbackCDX does: its lines, its parameters, its errors (1.0, CDX 14).

OutbackCDX itself is a Java program. What is written here follows its documentation and what its sources
do with each parameter: a POST of CDX lines with 9, 10, 11 or 14 fields, whose first is ignored; digests
kept as the bytes that base32 stands for; a status of 0 where none was sent; queries with matchType,
sort, closest, from, to, limit, filter and fl.
"""

import base64
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from core.url_keys import replay_key
from tests.support.loopback import LoopbackServer

NAMES = (
    "urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "redirecturl",
    "robotflags", "length", "offset", "filename", "originalLength", "originalOffset",
    "originalFilename",
)  # fmt: skip
_SPECIAL = re.compile(r"^([^/]+):(https?://.*)", re.IGNORECASE)


def key_of(url: str) -> str:
    """Return OutbackCDX's canonical form: an artifact's scheme before the key of the URL within it."""
    match = _SPECIAL.match(url)
    return f"{match[1].lower()}:{replay_key(match[2])}" if match else replay_key(url)


class OutbackServer:
    """Collections of captures. `fault` is called before each answer.

    Attributes:
        collections: by name, captures by key, time, file and offset.
        queries: every query's parameters.
    """

    def __init__(self) -> None:
        self.collections: dict[str, dict[tuple[Any, ...], dict[str, str]]] = {}
        self.queries: list[dict[str, list[str]]] = []
        self.raw: str | None = None
        self.status = 200
        self.hang = threading.Event()
        self.hang.set()

    def post(self, name: str, body: str) -> tuple[int, str]:
        """Add CDX lines to a collection; return status and text of the response."""
        collection, added = self.collections.setdefault(name, {}), 0
        for line in body.splitlines():
            if line.startswith(" CDX"):
                continue
            fields = line.split(" ")
            try:
                capture = _capture(fields)
            except (ValueError, IndexError) as error:
                return 400, f"At line: {line}\n{error!r}"
            key = (capture["urlkey"], int(capture["timestamp"]), capture["filename"], int(capture["offset"]))
            collection[key] = capture
            added += 1
        return 200, f"Added {added} records\n"

    def query(self, name: str, wanted: dict[str, list[str]]) -> tuple[int, str]:
        """Return status and text of the response to a query."""
        self.queries.append(wanted)
        if name not in self.collections:
            return 404, "Collection does not exist"
        parameters = {key: values[0] for key, values in wanted.items()}
        match, sort = parameters.get("matchType", "exact"), parameters.get("sort", "default")
        if match != "exact" and (sort != "default" or "from" in parameters or "to" in parameters):
            return 400, "only implemented for exact matches"
        if sort == "closest" and not parameters.get("closest"):
            return 400, "closest={timestamp} is mandatory when using sort=closest"
        key = key_of(parameters["url"])
        captures = [
            capture
            for _, capture in sorted(self.collections[name].items())
            if (capture["urlkey"] == key if match == "exact" else capture["urlkey"].startswith(key))
            and int(parameters.get("from", "0").ljust(14, "0")) <= int(capture["timestamp"])
            and int(capture["timestamp"]) <= int(parameters.get("to", "9").ljust(14, "9")[:14])
            and all(_fits(capture, each) for each in wanted.get("filter", []))
        ]
        if sort == "closest":
            captures.sort(key=lambda each: abs(int(each["timestamp"]) - int(parameters["closest"])))
        elif sort == "reverse":
            captures.reverse()
        names = parameters.get("fl", ",".join(NAMES[:11])).split(",")
        limit = int(parameters.get("limit", "1000000"))
        return 200, "".join(" ".join(each[name] for name in names) + "\n" for each in captures[:limit])


def _capture(fields: list[str]) -> dict[str, str]:
    if len(fields) not in (9, 10, 11, 14):
        raise ValueError("fields")
    digest = fields[5].split(":")[-1]
    stored = base64.b32decode(digest.upper() + "=" * (-len(digest) % 8)) if digest != "-" else b""
    has_length = len(fields) >= 11
    place = fields[8:11] if has_length else ["-", *fields[-2:]]
    origin = fields[11:14] if len(fields) == 14 else ["-", "-", "-"]
    values = [
        key_of(fields[2]), str(int(fields[1])), fields[2], fields[3],
        "0" if fields[4] == "-" else str(int(fields[4])),
        base64.b32encode(stored).decode() or "-", fields[6], fields[7], *place,
        *("-" if each in ("-", "0") else each for each in origin[:2]), origin[2],
    ]  # fmt: skip
    return dict(zip(NAMES, values, strict=True))


def _fits(capture: dict[str, str], spec: str) -> bool:
    negated, spec = spec.startswith("!"), spec.lstrip("!")
    name, _, pattern = spec.lstrip("=~").partition(":")
    return bool(re.fullmatch(pattern, capture[name])) is not negated


class _OutbackHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    outback: OutbackServer

    def do_GET(self) -> None:
        """Answer a query."""
        target = urlsplit(self.path)
        self._say(*self.outback.query(target.path.strip("/"), parse_qs(target.query)))

    def do_POST(self) -> None:
        """Add CDX lines."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._say(*self.outback.post(self.path.strip("/"), body))

    def _say(self, status: int, text: str) -> None:
        self.outback.hang.wait(120)
        if self.outback.status != 200 or self.outback.raw is not None:
            status, text = self.outback.status, self.outback.raw or text
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def running_outback() -> Iterator[tuple[OutbackServer, str]]:
    """Run the server; yield it and the URL of a collection that does not exist yet."""
    outback = OutbackServer()
    handler = type("Handler", (_OutbackHandler,), {"outback": outback})
    with LoopbackServer(handler) as server:
        try:
            yield outback, f"cdx+{server.origin}/weboid"
        finally:
            outback.hang.set()
