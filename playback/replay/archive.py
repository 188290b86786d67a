"""Records out of WARCs: pywb's loaders, fenced in.

A WARC is named by the index, and an index can be poisoned: only plain names inside ``archive/`` are
opened, only at the place the index says, and only when the record found there is the one that was
looked for (P-20).
"""

import os
import re
from dataclasses import dataclass
from typing import Any

from pywb.warcserver.resource.blockrecordloader import BlockArcWarcRecordLoader
from pywb.warcserver.resource.resolvingloader import ResolvingLoader
from warcio.bufferedreaders import ChunkedDataReader
from warcio.limitreader import LimitReader

from core.captures import Capture, RecordLocation
from core.errors import PermanentError
from core.layout import OPEN_SUFFIX, Layout
from core.records import RecordType
from playback.permits import Permits, TakenDownError
from playback.replay.decode import decode_body

# P-20: no separators, no schemes, no hidden files.
_WARC_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,250}\.warc(?:\.gz)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Payload:
    """What a capture holds.

    Attributes:
        body: decoded content.
        content_type: the Content-Type as archived, parameters included; empty when it had none.
        location: the Location header as archived; empty when it had none.
        status: HTTP status; None for artifacts.
    """

    body: bytes
    content_type: str
    location: str = ""
    status: int | None = None


class Archive:
    """The WARCs of one collection, for reading."""

    def __init__(self, layout: Layout, permits: Permits | None = None) -> None:
        """Take the folder; without `permits` everything may be read."""
        self._folder = str(layout.archive)
        self._permits = permits
        self._records = ResolvingLoader(
            [self._paths], record_loader=BlockArcWarcRecordLoader(loader=_LocalLoader())
        )

    def load(self, capture: Capture, *, limit: int) -> Payload:
        """The capture's payload, at most `limit` bytes of it after decoding.

        A revisit's comes from the record it refers to, without a second look-up.

        Raises:
            TakenDownError: the capture or its payload must not be shown.
            BodyTooLargeError: the payload is longer, or expands too much.
            PermanentError: the record is missing, damaged, or not the capture's.
        """
        takedown = None if self._permits is None else self._permits.capture(capture)
        if takedown is not None:
            raise TakenDownError(takedown)
        loaded = self._load(capture, limit)
        if self._permits is not None:
            self._permits.check_payload(loaded.body)
        return loaded

    def _load(self, capture: Capture, limit: int) -> Payload:
        try:
            headers, payload = self._records.load_headers_and_payload(
                _cdx(capture), None, _no_lookup
            )
        except Exception as error:
            # pywb and warcio raise whatever the bytes provoke: OSError, EOFError, struct.error, …
            raise PermanentError(f"A record cannot be read: {error}.") from error
        try:
            return _payload(capture, headers, payload, limit)
        except (OSError, EOFError, ValueError, AttributeError) as error:
            raise PermanentError(f"A record is damaged: {error}.") from error
        finally:
            for record in (headers, payload):
                record.raw_stream.close()

    def _paths(self, filename: str, _cdx: object) -> list[str]:
        """Where pywb may look for a WARC of that name: closed, or still open."""
        if not _WARC_NAME.fullmatch(filename):
            return []
        # As text: paths as objects cost more than opening the file.
        closed = f"{self._folder}{os.sep}{filename}"
        return [path for path in (closed, closed + OPEN_SUFFIX) if os.path.isfile(path)]  # noqa: PTH113 see above


class _LocalLoader:
    """What opens files for pywb: files only, where its own opens URLs, too."""

    def load(self, path: str, offset: int = 0, length: int = -1) -> Any:
        if offset < 0 or length <= 0:
            raise PermanentError("The index names a place that no record has.")
        file = open(path, "rb")  # noqa: PTH123, SIM115 `load` closes it; pathlib only adds a call
        file.seek(offset)
        return LimitReader(file, length)


def _cdx(capture: Capture) -> dict[str, Any]:
    """The capture as the fields that pywb's loader reads; ``orig.*`` spares it a second look-up."""
    fields = _place(capture.location, "")
    if capture.record_type is RecordType.REVISIT:
        if capture.original is None:
            raise PermanentError("A revisit of nothing that is indexed.")
        fields |= _place(capture.original, "orig.")
    return fields


def _place(location: RecordLocation, prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}filename": location.filename,
        f"{prefix}offset": location.offset,
        f"{prefix}length": location.length,
    }


def _no_lookup(params: object) -> list[Any]:
    """The second index query that pywb makes for revisits without ``orig.*``; ours always have it."""
    del params
    return []


def _payload(capture: Capture, headers: Any, payload: Any, limit: int) -> Payload:
    _check_identity(capture, headers, payload)
    if capture.record_type is RecordType.RESOURCE:
        content_type = payload.rec_headers.get_header("Content-Type") or ""
        return Payload(decode_body(payload.raw_stream, "", limit=limit), content_type)
    stored = payload.http_headers
    # A revisit may carry no HTTP headers of its own (WARC/1.1, 6.7).
    shown = headers.http_headers if headers.http_headers is not None else stored
    stream = payload.raw_stream
    if (stored.get_header("Transfer-Encoding") or "").lower() == "chunked":
        stream = ChunkedDataReader(stream, decomp_type=None)
    # Codings describe the stored bytes, so they are read beside them.
    codings = stored.get_header("Content-Encoding") or ""
    return Payload(
        body=decode_body(stream, codings, limit=limit),
        content_type=shown.get_header("Content-Type") or stored.get_header("Content-Type") or "",
        location=shown.get_header("Location") or "",
        status=capture.status,
    )


def _check_identity(capture: Capture, headers: Any, payload: Any) -> None:
    """Refuse a record that is not the one the index speaks of."""
    target = (headers.rec_headers.get_header("WARC-Target-URI") or "").strip("<>")
    if target != capture.url or headers.rec_type != capture.record_type:
        raise PermanentError("The index points at another record.")
    digest = payload.rec_headers.get_header("WARC-Payload-Digest")
    if capture.record_type is RecordType.REVISIT and (
        payload.rec_type != RecordType.RESPONSE or digest != capture.digest
    ):
        raise PermanentError("A revisit's payload is not the one it refers to.")
