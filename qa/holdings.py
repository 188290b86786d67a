"""Verification that the archive holds every part that a page's manifest names.

Each record is read where the index locates it, and checked against its own digests and the manifest's. `weboid verify`
checks whole files; this module the records of one page.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from core.captures import ArtifactKind, RecordType, parse_artifact_uri
from core.digests import Digest
from core.errors import InputError, PermanentError
from core.layout import Layout, is_warc_name
from core.page_manifest import PageInfo
from core.playback_check import LostPart
from warc.file_check import find_warc
from warc.file_reader import DamagedSpan, walk_records
from warc.record_reader import open_record

MOST_PARTS = 500  # of a page
MOST_BYTES = 64 << 20  # compressed, that are read for a page
MOST_READ = 2_000_000  # bytes of a payload that is looked into
_BEGINNING = 20_000  # bytes of a document, which usually contain a word
_MOST_ROWS = 20_000
_MOST_KNOWN = 50_000  # records that are not read again

MISSING = "missing"
DIGEST = "digest"
DAMAGED = "damaged"
ORIGINAL_GONE = "original-gone"
EMPTY = "empty"

# Reading order: the most important parts of a copy first.
_FIRST = ("Document", "Stylesheet", "Image", "Font", "Media")
_TAG = re.compile(rb"<[^>]*>?")
_UNSEEN = re.compile(rb"<(?:style|title)\b[^<]*(?:<(?!/)[^<]*)*", re.IGNORECASE)
# Visible content other than words, also in frames.
_SEEN = re.compile(rb"<(?:img|svg|video|object|embed|input)\b|data-weboid-document=", re.IGNORECASE)


class HoldingsRow(NamedTuple):
    """Row of a record in the captures index, with fields named as its columns."""

    url: str
    record_type: str
    digest: str
    filename: str
    offset: int
    length: int
    orig_filename: str | None
    orig_offset: int | None
    orig_length: int | None


# Quoted: offset is a word of PostgreSQL's.
_COLUMNS = ", ".join(f'"{name}"' for name in HoldingsRow._fields)
ROWS_OF_PAGE = (
    f"SELECT {_COLUMNS} FROM captures"  # noqa: S608 constants
    f" WHERE page_id = :page_id ORDER BY captured_ms LIMIT {_MOST_ROWS}"
)
# Most rows of a frequent payload are revisits: only this many are tested.
ROWS_OF_PAYLOAD = (
    f"SELECT {_COLUMNS} FROM"  # noqa: S608 constants
    f" (SELECT {_COLUMNS} FROM captures WHERE digest = :digest LIMIT 2000) AS same"
    " WHERE record_type = 'response' LIMIT 4"
)
# All rows of a page: the answer to `ROWS_OF_PAGE`; or a few of a payload, to `ROWS_OF_PAYLOAD`.
RowsOf = Callable[[str], Sequence[HoldingsRow]]


class _PayloadLocation(NamedTuple):
    filename: str
    offset: int
    length: int


class _RequiredPart(NamedTuple):
    """Part or artifact that must be held; without a digest any content matches."""

    url: str
    digest: str = ""
    is_cached: bool = False  # recorded by an earlier visit in the same browser context


@dataclass(frozen=True, slots=True)
class HoldingsVerifier:
    """Verifier of a collection's holdings. Thread-safe; a record that was found sound is not read again."""

    layout: Layout
    rows_of: RowsOf
    is_hidden: Callable[[str, str], bool] = lambda _url, _digest: False  # such a part may be gone
    twins_of: RowsOf = lambda _digest: ()  # playback uses these where a revisit's original is gone
    _sound: set[tuple[_PayloadLocation, str]] = field(default_factory=set, init=False)

    def check(self, page: PageInfo) -> tuple[LostPart, ...]:
        """Return the parts of the page that are not held as captured; TransientError: the index cannot be read.

        Reasons: ``missing: index``, ``missing: file``, ``digest``, ``damaged: …``, ``original-gone``, ``empty``.
        """
        rows = self.rows_of(page.page_id)
        by_url: dict[str, list[HoldingsRow]] = {}
        for row in rows:
            by_url.setdefault(row.url, []).append(row)
        lost: dict[str, str] = {}
        left = MOST_BYTES
        for part in islice(_required_parts(page, rows), MOST_PARTS):
            known: Sequence[HoldingsRow] = by_url.get(part.url, ())
            if part.is_cached and not known:
                known = self.twins_of(part.digest)
            same = [row for row in known if not part.digest or _is_same(row.digest, part.digest)]
            reason = "" if same else DIGEST if known else f"{MISSING}: index"
            if same and (size := max(0, _payload_place(same[-1]).length)) <= left:
                left -= size
                reason = self._fault(same[-1])
            if reason and not self.is_hidden(part.url, part.digest):
                lost.setdefault(part.url, reason)
        for url, reason in self._without_content(page, rows):
            lost.setdefault(url, reason)
        return tuple(LostPart(url, reason) for url, reason in lost.items())

    def _fault(self, row: HoldingsRow) -> str:
        """Return the fault of the record, or of the one with its payload; empty: none."""
        own = _PayloadLocation(row.filename, row.offset, row.length)
        reason = self._read(own, row.digest, row.record_type)
        if reason or row.record_type != RecordType.REVISIT:
            return reason
        if row.orig_filename is not None and not self._read(_payload_place(row), row.digest, RecordType.RESPONSE):
            return ""
        # Look for an intact record with the same payload.
        for each in self.twins_of(row.digest):
            place = _PayloadLocation(each.filename, each.offset, each.length)
            if place.length <= MOST_BYTES and not self._read(place, row.digest, RecordType.RESPONSE):
                return ""
        return ORIGINAL_GONE

    def _read(self, place: _PayloadLocation, digest: str, kind: str) -> str:
        key = (place, digest)
        if key in self._sound:
            return ""
        reason = _record_reason(self.layout, place, digest, kind)
        if not reason:
            if len(self._sound) >= _MOST_KNOWN:
                self._sound.clear()
            self._sound.add(key)
        return reason

    def _without_content(self, page: PageInfo, rows: Iterable[HoldingsRow]) -> Iterator[tuple[str, str]]:
        """Yield artifacts without content that the manifest says they have, such as words."""
        if not page.text_digest.startswith("text:"):
            return
        for row in rows:
            artifact, payload = parse_artifact_uri(row.url), b""
            is_checked = artifact is not None and artifact[0] in (ArtifactKind.TEXT, ArtifactKind.DOM)
            if artifact is None or not is_checked or row.length > MOST_BYTES:
                continue
            try:
                with open_record(self.layout.archive, row.filename, row.offset, row.length) as record:
                    for block in record.content:
                        payload += block
                        if len(payload) >= MOST_READ:
                            break
            except PermanentError:
                continue  # reported already
            payload = payload[:MOST_READ]
            if artifact[0] is ArtifactKind.DOM:
                if _is_empty(payload):
                    yield row.url, EMPTY
            elif len(payload) < MOST_READ and text_digest(payload) != page.text_digest:
                yield row.url, DIGEST


def text_digest(text: bytes) -> str:
    """Return the digest of visible text (`core.page_manifest.PageInfo.text_digest`)."""
    return f"text:{sha256(b' '.join(text.split())).hexdigest()}"


def _required_parts(page: PageInfo, rows: Iterable[HoldingsRow]) -> Iterator[_RequiredPart]:
    """Yield the parts that the manifest names, the most important for a copy first; each once."""
    urls_by_kind = {artifact[0]: row.url for row in rows if (artifact := parse_artifact_uri(row.url)) is not None}
    for kind in page.artifacts:
        with suppress(ValueError):  # of a version that knows more kinds
            artifact_kind = ArtifactKind(kind)
            yield _RequiredPart(urls_by_kind.get(artifact_kind, f"urn:{kind}:{page.url}"))
    stored = [each for each in page.resources if each.is_archived and (each.digest or each.kept != "cached")]
    rank = {kind: place for place, kind in enumerate(_FIRST)}
    stored.sort(key=lambda each: rank.get(each.resource_type, len(_FIRST)))
    yield from dict.fromkeys(_RequiredPart(each.url, each.digest, each.kept == "cached") for each in stored)


def _payload_place(row: HoldingsRow) -> _PayloadLocation:
    if row.orig_filename is not None and row.orig_offset is not None:
        return _PayloadLocation(row.orig_filename, row.orig_offset, row.orig_length or 0)
    return _PayloadLocation(row.filename, row.offset, row.length)


def _record_reason(layout: Layout, place: _PayloadLocation, digest: str, kind: str) -> str:
    """Return the difference between the record and its index row; empty: none."""
    record = None
    if is_warc_name(place.filename) and place.offset >= 0 and place.length > 0:
        end = place.offset + place.length
        try:
            path, _ = find_warc(layout, place.filename)
            record = next(walk_records(path, start=place.offset, end=end), None)
        except FileNotFoundError:
            return f"{MISSING}: file"
        except OSError as error:
            return f"{DAMAGED}: {error.strerror or 'unreadable'}"
    if record is None:
        return f"{MISSING}: record"
    if isinstance(record, DamagedSpan):
        return f"{DAMAGED}: {record.problem}"
    if record.problems:
        return f"{DAMAGED}: {record.problems[0][0]}"
    if record.kind != kind:
        return f"{MISSING}: {kind}"
    return "" if _is_same(record.headers.get("warc-payload-digest", ""), digest) else DIGEST


def _is_same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return Digest.parse(one) == Digest.parse(other)
    except InputError:
        return False


def _is_empty(dom: bytes) -> bool:
    """Return whether the document has neither a word nor an element that is drawn."""
    if len(dom) >= MOST_READ or _SEEN.search(dom):
        return False
    return not any(_TAG.sub(b" ", _UNSEEN.sub(b"", dom[:size])).strip() for size in (_BEGINNING, len(dom)))
