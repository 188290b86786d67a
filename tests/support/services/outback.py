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
    """Its own canonical form: an artifact's scheme before the key of the URL within it."""
    match = _SPECIAL.match(url)
    return f"{match[1].lower()}:{replay_key(match[2])}" if match else replay_key(url)


class OutbackServer:
    """Collections of captures. `fault` is called before each answer.

    Attributes:
        collections: by name, captures by key, time, file and offset.
        asked: every query's parameters.
    """

    def __init__(self) -> None:
        self.collections: dict[str, dict[tuple[Any, ...], dict[str, str]]] = {}
        self.asked: list[dict[str, list[str]]] = []
        self.raw: str | None = None
        self.status = 200
        self.hang = threading.Event()
        self.hang.set()

    def post(self, name: str, body: str) -> tuple[int, str]:
        """What the server says to lines that are sent."""
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
        """What the server says to a question."""
        self.asked.append(wanted)
        if name not in self.collections:
            return 404, "Collection does not exist"
        said = {key: values[0] for key, values in wanted.items()}
        match, sort = said.get("matchType", "exact"), said.get("sort", "default")
        if match != "exact" and (sort != "default" or "from" in said or "to" in said):
            return 400, "only implemented for exact matches"
        if sort == "closest" and not said.get("closest"):
            return 400, "closest={timestamp} is mandatory when using sort=closest"
        key = key_of(said["url"])
        found = [
            capture
            for _, capture in sorted(self.collections[name].items())
            if (capture["urlkey"] == key if match == "exact" else capture["urlkey"].startswith(key))
            and int(said.get("from", "0").ljust(14, "0")) <= int(capture["timestamp"])
            and int(capture["timestamp"]) <= int(said.get("to", "9").ljust(14, "9")[:14])
            and all(_fits(capture, each) for each in wanted.get("filter", []))
        ]
        if sort == "closest":
            found.sort(key=lambda each: abs(int(each["timestamp"]) - int(said["closest"])))
        elif sort == "reverse":
            found.reverse()
        names = said.get("fl", ",".join(NAMES[:11])).split(",")
        limit = int(said.get("limit", "1000000"))
        return 200, "".join(" ".join(each[name] for name in names) + "\n" for each in found[:limit])


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
        """A question."""
        target = urlsplit(self.path)
        self._say(*self.outback.query(target.path.strip("/"), parse_qs(target.query)))

    def do_POST(self) -> None:
        """Lines of CDX."""
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
        """Nothing."""


@contextmanager
def running_outback() -> Iterator[tuple[OutbackServer, str]]:
    """The server, and the URL of a collection that does not exist yet."""
    outback = OutbackServer()
    handler = type("Handler", (_OutbackHandler,), {"outback": outback})
    with LoopbackServer(handler) as server:
        try:
            yield outback, f"cdx+{server.origin}/weboid"
        finally:
            outback.hang.set()
