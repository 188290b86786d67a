"""Reader of capture payloads in WARCs, subject to access control.

An index can be manipulated: only plain names inside ``archive/`` are opened, only at the place that the index gives,
and only when the record there is the requested one (P-20). A file that replaces another is used at once.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice

import gevent

from core.captures import LOGIN_HEADER, Capture, RecordLocation, RecordType
from core.errors import BodyTooLargeError, PermanentError
from core.layout import Layout
from playback.access.control import AccessControl, TakenDownError, digests_of
from warc import record_reader

_LOGIN = LOGIN_HEADER.lower()
_BLOCKS_A_TURN = 8  # half a megabyte, then others have theirs


@dataclass(frozen=True, slots=True)
class Payload:
    """Payload of a capture."""

    body: bytes  # decoded content
    content_type: str  # the archived Content-Type with its parameters; empty without one
    location: str = ""  # the archived Location header; empty without one
    status: int | None = None  # HTTP status; None for artifacts


@dataclass(frozen=True, slots=True)
class CaptureArchive:
    """Read access to the WARCs of one collection."""

    layout: Layout
    permits: AccessControl | None = None  # access control; None: everything may be read
    # finds other records for a revisit whose original is missing or damaged
    twins: record_reader.FindTwins = lambda _digest: ()

    def load(self, capture: Capture, *, limit: int) -> Payload:
        """Return the capture's payload, at most `limit` bytes after decoding.

        That of a revisit is read from the record it refers to, or else from another one with the same digest. Raises
        TakenDownError; BodyTooLargeError: it is longer, or expands too much; PermanentError: the record is missing,
        damaged, or not the capture's.
        """
        self._check(capture)
        place = capture.original or capture.location
        # A stored byte is at least a byte of the record that is inflated, but for what gzip adds.
        if place.length > limit + limit // 256 + record_reader.LONGEST_HEAD:
            raise BodyTooLargeError(f"A record of {place.length} bytes is not shown.")
        if capture.record_type is RecordType.REVISIT:
            with self._record(capture.location) as revisit:
                self._check_record(capture, revisit)
                shown = revisit.http
        elif capture.record_type in (RecordType.RESPONSE, RecordType.RESOURCE):
            shown = None
        else:
            raise PermanentError("A record of that type is not a capture.")
        try:
            with self._payload_record(capture) as record:
                payload = _payload(capture, shown, record, limit)
        except BodyTooLargeError:
            raise
        except PermanentError:
            if (twin := self._twin(capture, limit)) is None:
                raise
            with self._record(twin) as record:
                payload = _payload(capture, shown, record, limit)
        if self.permits is not None:
            self.permits.check_payload(payload.body)
        return payload

    def request(self, capture: Capture, *, limit: int) -> tuple[str, str, bytes] | None:
        """Return method, Content-Type and body (up to `limit` bytes) of the request, the capture's next record."""
        place = capture.location
        after = replace(place, offset=place.offset + place.length, length=limit + record_reader.LONGEST_HEAD)
        try:
            with self._record(after) as record:
                facts = record.warc.get("warc-type"), record.warc.get("warc-target-uri").strip("<>")
                if facts != ("request", capture.url) or record.http is None or record.size > limit:
                    return None
                method = record.http.first_line.partition(" ")[0]
                return method, record.http.get("content-type"), b"".join(record.content)
        except PermanentError:
            return None

    def _check(self, capture: Capture) -> None:
        if self.permits is not None and (takedown := self.permits.capture(capture)) is not None:
            raise TakenDownError(takedown)

    @contextmanager
    def open(self, capture: Capture, *, limit: int) -> Iterator[tuple[int | None, Iterator[bytes]]]:
        """Yield size and blocks of a capture's payload that is too large for memory; raises as `load`, also in blocks.

        Other greenlets run between blocks. A payload under a content coding has neither size nor blocks: load it.
        """
        self._check(capture)
        if capture.record_type is RecordType.REVISIT:
            with self._record(capture.location) as revisit:
                self._check_record(capture, revisit)
        with self._playable_record(capture, limit) as record:
            fields = record.http or record_reader.HeaderFields("", {})
            is_coded = record_reader.codings_of(fields.get("content-encoding")) or fields.get("transfer-encoding")
            if record.size > limit:
                raise BodyTooLargeError(f"A body of {record.size} bytes is not shown.")
            if is_coded:
                yield None, iter(())
                return
            if self.permits is None or not self.permits.depend_on_payloads():
                yield record.size, _yield_turns(record.content)
                return
            # The payload is compared with its digests before it is sent, so it is read once in advance.
            self.permits.check_digests(digests_of(_yield_turns(record.content)))
        with self._playable_record(capture, limit) as record:
            yield record.size, _yield_turns(record.content)

    @contextmanager
    def _payload_record(self, capture: Capture) -> Iterator[record_reader.Record]:
        """Yield the record that holds the payload, after a check that it is the capture's."""
        if capture.record_type is not RecordType.REVISIT:
            with self._record(capture.location) as record:
                self._check_record(capture, record)
                yield record
            return
        if capture.original is None:
            raise PermanentError("A revisit of a payload that is not indexed.")
        with self._record(capture.original) as record:
            facts = record.warc.get("warc-type"), record.warc.get("warc-payload-digest")
            if facts != (RecordType.RESPONSE, capture.digest):
                raise PermanentError("A revisit's payload is not the one it refers to.")
            yield record

    @contextmanager
    def _playable_record(self, capture: Capture, limit: int) -> Iterator[record_reader.Record]:
        """Yield the record of the payload, or of a twin when it is missing."""
        with ExitStack() as opened:
            try:
                record = opened.enter_context(self._payload_record(capture))
            except PermanentError:
                if (twin := self._twin(capture, limit)) is None:
                    raise
                record = opened.enter_context(self._record(twin))
            yield record

    def _twin(self, capture: Capture, limit: int) -> RecordLocation | None:
        """Return the location of another record with the payload of a revisit, or None."""
        if capture.record_type is not RecordType.REVISIT:
            return None
        for each in self.twins(capture.digest):
            place = each.location
            if place == capture.original or place.length > limit + limit // 256 + record_reader.LONGEST_HEAD:
                continue
            with suppress(PermanentError), self._record(place) as record:
                self._check_record(each, record)
                if record.size <= limit and record_reader.holds_payload(record, capture.digest, _yield_turns):
                    return place
        return None

    def _record(self, place: RecordLocation) -> AbstractContextManager[record_reader.Record]:
        in_thread = gevent.get_hub().threadpool.apply  # other greenlets run meanwhile
        return record_reader.open_record(self.layout.archive, place.filename, place.offset, place.length, run=in_thread)

    def _check_record(self, capture: Capture, record: record_reader.Record) -> None:
        """Raise unless the record is the indexed one and its login may be shown."""
        target = record.warc.get("warc-target-uri").strip("<>")
        if target != capture.url or record.warc.get("warc-type") != capture.record_type:
            raise PermanentError("The index points to another record.")
        why = None if self.permits is None else self.permits.login(record.warc.get(_LOGIN))
        if why is not None:
            raise TakenDownError(why)


def _payload(
    capture: Capture, shown: record_reader.HeaderFields | None, record: record_reader.Record, limit: int
) -> Payload:
    content = _yield_turns(record.content)
    if capture.record_type is RecordType.RESOURCE:
        return Payload(record_reader.decode_blocks(content, "", limit=limit), record.warc.get("content-type"))
    stored = record.http or record_reader.HeaderFields("", {})
    head = shown or stored  # a revisit may carry no HTTP headers of its own (WARC/1.1, 6.7)
    return Payload(
        body=record_reader.decoded_body(replace(record, content=content), limit=limit),
        content_type=head.get("content-type") or stored.get("content-type"),
        location=head.get("location"),
        status=capture.status,
    )


def _yield_turns(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks; other greenlets run in between."""
    while turn := list(islice(blocks, _BLOCKS_A_TURN)):
        yield from turn
        if len(turn) == _BLOCKS_A_TURN:
            gevent.sleep(0)
