"""Faults planted in the WARCs of a collection at rest: what rot, a bug or a hand could do to them.

A fault looks at every record and says which one it takes, and what becomes of its payload. What no fault
takes stays as it is, byte for byte. A changed record gets the digests of what it holds now, so that nothing
but that tells of it. Afterwards the captures index is to be rebuilt.
"""

import gzip
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from core.layout import Layout

_KINDS = ("response", "resource", "revisit")
_OF_CODING = {"content-length", "content-encoding", "transfer-encoding"}


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """A record as a fault sees it.

    Attributes:
        kind: its WARC type.
        uri: its target.
        page_id: of the page whose visit wrote it.
        mime: of its payload, without parameters.
        payload: without its transfer and content coding.
    """

    kind: str
    uri: str
    page_id: str
    mime: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault.

    Attributes:
        name: what it is, for people.
        takes: whether it takes this record.
        change: the payload that is to stand there; None: the record is left out.
    """

    name: str
    takes: Callable[[RecordFacts], bool]
    change: Callable[[RecordFacts], bytes | None] = lambda _held: None


def held(archive: Path) -> Iterator[RecordFacts]:
    """Yield every record that can be played back."""
    for path in sorted(archive.glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type in _KINDS:
                    yield _held(record)


def plant(layout: Layout, faults: Iterable[PlantedFault]) -> dict[str, list[RecordFacts]]:
    """Rewrite every WARC with these faults; return the records that each fault took, by its name."""
    wanted, took = list(faults), dict[str, list[RecordFacts]]()
    for path in sorted(layout.archive.glob("*.warc.gz")):
        whole, fresh = path.read_bytes(), []
        iterator = ArchiveIterator(io.BytesIO(whole))
        for record in iterator:
            member = None
            if record.rec_type in _KINDS:
                member = _planted(record, _held(record), wanted, took)
            begin = iterator.get_record_offset()
            end = begin + iterator.get_record_length()
            fresh.append(whole[begin:end] if member is None else member)
        path.write_bytes(b"".join(fresh))
    layout.checksums.unlink(missing_ok=True)
    for old in layout.databases.glob("captures.sqlite*"):
        old.unlink()
    return took


def _held(record: Any) -> RecordFacts:
    headers = record.rec_headers
    named = record.http_headers if record.http_headers is not None else headers
    return RecordFacts(
        record.rec_type,
        headers.get_header("WARC-Target-URI") or "",
        headers.get_header("WARC-Page-ID") or "",
        (named.get_header("Content-Type") or "").partition(";")[0].strip().lower(),
        record.content_stream().read(),
    )


def _planted(
    record: Any, seen: RecordFacts, faults: Iterable[PlantedFault], took: dict[str, list[RecordFacts]]
) -> bytes | None:
    """Return the record's replacement: empty when it is left out, None when no fault takes it."""
    for fault in faults:
        if fault.takes(seen):
            took.setdefault(fault.name, []).append(seen)
            changed = fault.change(seen)
            return b"" if changed is None else _member(record, changed)
    return None


def _member(record: Any, payload: bytes) -> bytes:
    head = b""
    if record.http_headers is not None:
        http = record.http_headers
        headers = [(name, value) for name, value in http.headers if name.lower() not in _OF_CODING]
        headers.append(("Content-Length", str(len(payload))))
        lines = [f"{http.protocol} {http.statusline}", *(f"{name}: {value}" for name, value in headers)]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    remade = {
        "content-length": str(len(head) + len(payload)),
        "warc-block-digest": _digest(head + payload),
        "warc-payload-digest": _digest(payload),
    }
    lines = [f"{name}: {remade.get(name.lower(), value)}" for name, value in record.rec_headers.headers]
    text = ("WARC/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode()
    return gzip.compress(text + head + payload + b"\r\n\r\n", mtime=0)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
