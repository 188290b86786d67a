"""Payload reader for the malware scanner: entry point of its process.

Archived content can attack the program that unpacks it, so the scanner reads it through this process.
A request is a line of JSON that names a record; the answer is a line of JSON with the sizes of the
bodies, then the bodies. Only closed or open WARCs inside ``archive/`` are opened (P-20), and memory use
is bounded by the limit of the request.

    > {"filename": "…", "offset": 0, "length": 99, "url": "https://…", "type": "response", "limit": 25000000}
    < {"sizes": [812, 411]}           the content, then the body as it is stored where that differs
    < {"error": "too-large"}          or "unreadable: …"
"""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import ChunkedDataReader
from warcio.limitreader import LimitReader

from core.errors import BodyTooLargeError, PermanentError
from core.layout import OPEN_SUFFIX, Layout, is_warc_name
from warc.content_decoder import decode_body

TOO_LARGE = "too-large"


def main() -> None:
    """Answer requests on stdin until it ends; the only argument is the collection."""
    layout = Layout(Path(sys.argv[1]))
    for line in sys.stdin.buffer:
        bodies, error = _answered(layout, json.loads(line))
        head = {"error": error} if error else {"sizes": [len(body) for body in bodies]}
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + b"".join(bodies))
        sys.stdout.buffer.flush()


def _answered(layout: Layout, asked: dict[str, Any]) -> tuple[list[bytes], str]:
    try:
        return read_bodies(layout, asked), ""
    except BodyTooLargeError:
        return [], TOO_LARGE
    except PermanentError as error:
        return [], f"unreadable: {error}"
    except Exception as error:  # noqa: BLE001 warcio raises whatever the bytes provoke
        return [], f"unreadable: {type(error).__name__}: {error}"


def read_bodies(layout: Layout, asked: dict[str, Any]) -> list[bytes]:
    """Return the record's decoded content, and its body as stored when that differs.

    A body with unknown content codings is returned as stored.

    Raises:
        BodyTooLargeError: either is longer than the limit.
        PermanentError: the record is missing, or not the requested one.
        Exception: the record is damaged.
    """
    limit = int(asked["limit"])
    with _opened(layout, asked["filename"]) as file:
        stored, codings = _read(file, asked, limit)
    if not codings:
        return [stored]
    try:
        content = decode_body(_BlockReader(stored), codings, limit=limit)
    except BodyTooLargeError:
        raise
    except PermanentError:
        return [stored]
    return [content] if content == stored else [content, stored]


def _opened(layout: Layout, filename: str) -> BinaryIO:
    if not is_warc_name(filename):
        raise PermanentError("the index names no WARC")
    for name in (filename, filename + OPEN_SUFFIX):
        with suppress(FileNotFoundError):
            return (layout.archive / name).open("rb")
    raise PermanentError("its WARC is not there")


def _read(file: BinaryIO, asked: dict[str, Any], limit: int) -> tuple[bytes, str]:
    """Return the body as stored, without chunked encoding, and its content codings."""
    offset, length = int(asked["offset"]), int(asked["length"])
    if offset < 0 or length <= 0:
        raise PermanentError("the index names a place that no record has")
    file.seek(offset)
    for record in _records(LimitReader(file, length)):
        target = (record.rec_headers.get_header("WARC-Target-URI") or "").strip("<>")
        if (target, record.rec_type) != (asked["url"], asked["type"]):
            raise PermanentError("the index points at another record")
        codings, stream = "", record.raw_stream
        if record.http_headers is not None:
            codings = record.http_headers.get_header("Content-Encoding") or ""
            transfer = record.http_headers.get_header("Transfer-Encoding") or ""
            if transfer.lower() == "chunked":
                stream = ChunkedDataReader(stream, decomp_type=None)
        return decode_body(stream, "", limit=limit), codings
    raise PermanentError("there is no record at its place")


def _records(stream: Any) -> Iterator[Any]:
    yield from ArchiveIterator(stream)


class _BlockReader:
    """Byte stream over bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def read(self, size: int, /) -> bytes:
        part = bytes(self._data[self._at : self._at + size])
        self._at += len(part)
        return part


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
