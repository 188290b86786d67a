"""What must not be found in an answer: payloads, and what is distinctive of their text."""

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from core.captures import Capture, RecordLocation
from core.layout import Layout
from core.records import RecordType

_MOST_BYTES = 64_000_000  # of one payload
_SHORTEST_SLICE = 16  # bytes of a payload that no other is likely to hold
_SHORTEST_TEXT = 12  # characters
_LONGEST_TEXT = 48
_MOST_TEXTS = 24
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_BREAKS = re.compile(r"[\r\n\t\x00]+")


@dataclass(frozen=True, slots=True)
class Needles:
    """What to look for.

    Attributes:
        payloads: as they are kept, decoded.
        texts: that stand in them, and in nothing that may be shown.
    """

    payloads: tuple[bytes, ...]
    texts: tuple[str, ...]
    _spelled: tuple[tuple[str, frozenset[bytes]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Spell the texts once."""
        spelled = tuple((text, frozenset(_spellings(text))) for text in self.texts)
        object.__setattr__(self, "_spelled", spelled)

    def found_in(self, body: bytes) -> str:
        """What of it is in the answer, as a sentence; empty: nothing."""
        if any(body == each for each in self.payloads if each):
            return f"It is a payload: sha256:{hashlib.sha256(body).hexdigest()}."
        for each in self.payloads:
            if len(body) >= _SHORTEST_SLICE and body in each:
                return "It is a part of a payload."
            if len(each) >= _SHORTEST_SLICE and (each in body or _in_base64(each, body)):
                return "It holds a payload."
        for text, spellings in self._spelled:
            if any(spelled in body for spelled in spellings):
                return f"It says {text!r}."
        return ""


def needles(
    payloads: Iterable[bytes],
    titles: Iterable[str],
    shown: Iterable[bytes],
    *,
    manifests: Iterable[bytes] = (),
) -> Needles:
    """What to look for, given the payloads and titles that must not be shown, and what may be.

    Of page manifests only the whole is looked for: their lines are facts of the index, too.
    """
    kept = tuple(dict.fromkeys(payloads))
    others = tuple(shown)
    texts = dict.fromkeys(title.strip() for title in titles if len(title.strip()) > 3)
    for payload in kept:
        texts |= dict.fromkeys(_texts(payload))
    own = [text for text in texts if not any(text.encode() in other for other in others)]
    whole = tuple(each for each in (*kept, *manifests) if each not in others)
    return Needles(whole, tuple(own[:_MOST_TEXTS]))


def payload_of(layout: Layout, capture: Capture) -> bytes:
    """The capture's payload, decoded; empty when it cannot be read."""
    place = capture.location
    if capture.record_type is RecordType.REVISIT:
        if capture.original is None:
            return b""
        place = capture.original
    try:
        with io.BytesIO(_slice(layout, place)) as stream:
            for record in ArchiveIterator(stream):
                found: bytes = record.content_stream().read(_MOST_BYTES)
                return found
    except (ArchiveLoadFailed, OSError, EOFError, ValueError):
        pass
    return b""


def _slice(layout: Layout, place: RecordLocation) -> bytes:
    for path in layout.warc(place.filename):
        if path.is_file():
            with path.open("rb") as file:
                file.seek(place.offset)
                return file.read(place.length)
    return b""


def _texts(payload: bytes) -> Iterator[str]:
    """The longest runs of text, cut to what stays together when a page is made safe."""
    if b"\0" in payload[:1000]:
        return
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return
    runs = {
        " ".join(line.split())
        for part in _TAGS.sub("\n", text).split("\n")
        for line in _BREAKS.split(html.unescape(part))
    }
    longest = sorted((run for run in runs if len(run) >= _SHORTEST_TEXT), key=len, reverse=True)
    for run in longest[:_MOST_TEXTS]:
        yield run[:_LONGEST_TEXT].strip()


def _spellings(text: str) -> set[bytes]:
    """The text as HTML, JSON and addresses have it."""
    return {
        text.encode(),
        html.escape(text).encode(),
        html.escape(text, quote=False).encode(),
        json.dumps(text)[1:-1].encode(),
        quote(text).encode(),
    }


def _in_base64(payload: bytes, body: bytes) -> bool:
    """Whether the beginning of the payload is in the body as a data URL has it."""
    start = base64.b64encode(payload[:45])
    return len(start) >= _SHORTEST_SLICE and start.rstrip(b"=") in body
