"""Captures from an OutbackCDX server over its CDX protocol: ``cdx+http://host:8080/collection``.

The protocol has neither pages nor milliseconds: pages stay in SQL, and an artifact is matched to its page by URL and
time (`playback.replay.capture_lookup`). Its URL key merges more URLs than ours, so results are filtered by our key. A
server that is unreachable, slow, or answers with invalid CDX is an error: no failure counts as "never captured".

Lines are those of CDX 14: urlkey, timestamp, original, mimetype, statuscode, digest, redirecturl, robotflags, length,
offset, filename, and for a revisit length, offset and filename of its original.
"""

import http.client
import queue
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from core.captures import RecordType
from core.digests import Digest
from core.errors import BadUrlError, ConfigError, InputError, TransientError
from core.timestamps import parse_timestamp14, timestamp14_at, unix_milliseconds
from core.url_keys import replay_key

CAPTURES_INDEX = "WEBOID_CAPTURES_INDEX"  # environment variable with the source address, for replay
TIMEOUT_S = 5.0
_FIELDS = (
    "urlkey,timestamp,original,mimetype,statuscode,digest,redirecturl,robotflags,length,offset,"
    "filename,originalLength,originalOffset,originalFilename"
)
_MOST_BYTES = 8_000_000
_MOST_KEPT = 8
_REVISIT = "warc/revisit"
_UNFIT = re.compile(r"[\x00-\x20\x7f-\uffff]")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OutbackAddress:
    """Address of a collection on an OutbackCDX server."""

    scheme: str
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"cdx+{self.scheme}://{host}:{self.port}{self.path}"


def parse_outback_url(url: str) -> OutbackAddress:
    """Parse ``cdx+http://host:port/collection``, or raise ConfigError."""
    form = "cdx+http://host:8080/collection"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(f"The captures index must be {form}.") from None
    path = parts.path.rstrip("/")
    fits = parts.scheme in ("cdx+http", "cdx+https") and parts.hostname and len(path) > 1
    if not fits or parts.query or parts.fragment or "@" in parts.netloc or _UNFIT.search(path):
        raise ConfigError(f"The captures index must be {form}, without a user or a query.")
    scheme = parts.scheme.removeprefix("cdx+")
    assert parts.hostname is not None
    return OutbackAddress(scheme, parts.hostname, port or (443 if scheme == "https" else 80), path)


class OutbackCdx:
    """Client for a collection of an OutbackCDX server. Thread-safe; `close` it."""

    def __init__(self, address: OutbackAddress, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue(_MOST_KEPT)

    def near(self, url: str, at_ms: int, limit: int) -> list[Row]:
        """Return captures under the URL's key by our rules, nearest in time first."""
        wanted = {"url": url, "sort": "closest", "closest": timestamp14_at(at_ms), "limit": limit, "fl": _FIELDS}
        text = self._request("GET", f"{self._address.path}?{urlencode(wanted)}", None)
        try:
            key = replay_key(url)
        except BadUrlError:
            return []
        rows = (parse_cdx(line) for line in text.splitlines())
        return [row for row in rows if row is not None and row["urlkey"] == key]

    def add(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Send rows of `captures`, replacing existing ones; return their number. TransientError: send them again."""
        lines = [cdx_line(row) for row in rows]
        text = self._request("POST", self._address.path, "".join(lines).encode())
        match = re.match(r"Added (\d{1,9}) records", text)
        if match is None or int(match[1]) != len(lines):
            raise TransientError(f"{self._address} did not accept all captures: {text[:100]!r}.")
        return len(lines)

    def close(self) -> None:
        """Close the connections."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _request(self, method: str, target: str, body: bytes | None) -> str:
        try:
            pooled = self._idle.get_nowait()
        except queue.Empty:
            pooled = None
        kind = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
        new = kind(self._address.host, self._address.port, timeout=self._timeout_s)
        for connection in filter(None, (pooled, new)):
            try:
                connection.request(method, target, body, {"Content-Type": "text/plain"} if body else {})
                response = connection.getresponse()
                content = response.read(_MOST_BYTES + 1)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if connection is not pooled or isinstance(error, TimeoutError):
                    raise TransientError(f"The captures index {self._address} does not answer: {error!r}.") from error
                continue
            if response.status != 200 or len(content) > _MOST_BYTES:
                connection.close()
                text = content[:100].decode(errors="replace").splitlines()[:1]
                raise TransientError(f"The captures index {self._address} answered {response.status}: {text}.")
            try:
                self._idle.put_nowait(connection)
            except queue.Full:
                connection.close()
            return content.decode("utf-8", "replace")
        raise TransientError(f"The captures index {self._address} does not answer.")


def cdx_line(row: Mapping[str, Any]) -> str:
    """Format a row of `captures` as CDX 14, the digest in base32, the only form that OutbackCDX stores."""
    try:
        digest = Digest.parse(row["digest"]).bare
    except InputError:
        digest = "-"
    fields = (
        row["urlkey"],
        timestamp14_at(row["captured_ms"]),
        row["url"],
        row["mime"] or "-",
        "-" if row["status"] is None else row["status"],
        digest,
        "-",
        "-",
        row["length"],
        row["offset"],
        row["filename"],
        *("-" if row[name] is None else row[name] for name in ("orig_length", "orig_offset", "orig_filename")),
    )
    written = (_UNFIT.sub(lambda match: quote(match[0], safe="", errors="replace"), str(each)) for each in fields)
    return " ".join(each or "-" for each in written) + "\n"


def parse_cdx(line: str) -> Row | None:
    """Parse a line of CDX 11 or 14 into a row of `captures`; None when it is malformed."""
    fields = line.rstrip("\r\n").split(" ")
    if len(fields) not in (11, 14):
        return None
    _, timestamp, url, mime, status, digest, _, _, length, offset, filename, *original = fields
    orig_length, orig_offset, orig_filename = original or ("-", "-", "-")
    is_placed = orig_filename != "-"
    try:
        is_revisit = mime == _REVISIT or is_placed
        kind = RecordType.RESOURCE if url.startswith("urn:") else RecordType.RESPONSE
        # The digest is spelled as in our records, or for SHA-1 as in records that use it.
        spelled = ""
        if digest != "-":
            parsed = Digest.parse(digest)
            spelled = parsed.base32 if parsed.algorithm == "sha1" else str(parsed)
        row = {
            "url": url,
            "urlkey": replay_key(url),
            "captured_ms": unix_milliseconds(parse_timestamp14(timestamp.rjust(14, "0"))),
            "record_type": RecordType.REVISIT if is_revisit else kind,
            "mime": "" if mime in ("-", _REVISIT) else mime,
            "status": int(status) if status.isdigit() and int(status) else None,
            "digest": spelled,
            "filename": filename,
            "offset": int(offset),
            "length": int(length),
            "page_id": None,
            "truncated": None,
            "login": None,
            "orig_filename": orig_filename if is_placed else None,
            # An original at the very beginning of its file is written as no place at all.
            "orig_offset": int(0 if orig_offset == "-" else orig_offset) if is_placed else None,
            "orig_length": int(0 if orig_length == "-" else orig_length) if is_placed else None,
        }
    except (ValueError, InputError):
        return None
    return row
