"""Server-sent change events of wiki farms (Wikimedia's EventStreams, RCFeed).

    async for notice in listen_to_stream(transport, RECENT, watched=names, last_id=stored):
        notice.wiki, notice.page_id   # what has changed, if anything
        notice.last_id                # to be stored: the position to resume from

Events only name pages to read; what is stored comes from the API. A stream's history is about a week
long; after a longer outage every page is read again.
"""

import codecs
import json
import math
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from typing import Final

from wiki.api.client import ApiTiming
from wiki.api.errors import WikiAwayError
from wiki.api.models import count_field, object_field, text_field
from wiki.api.transport import ApiTransport

EVENT_CHARS: Final = 4_000_000
ID_CHARS: Final = 20_000
MARKER_S: Final = 30.0
IDLE_S: Final = 90.0  # EventStreams sends something every few seconds, and be it a comment
_PAUSE_S: Final = 2.0
_PAUSE_MOST_S: Final = 120.0
_FAILURES_MOST: Final = 12
_PROMISED: Final = {"edit", "new", "log"}
_CANARY: Final = "canary"  # the domain of events that only show that a stream is alive


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream (WHATWG HTML 9.2.6)."""

    data: str  # its data lines, joined
    last_id: str  # the id to send for the events after it
    kind: str = "message"  # the event type; ``message`` by default


@dataclass(frozen=True, slots=True)
class StreamNotice:
    """Change of a wiki (by database), or only a position in the stream."""

    last_id: str  # the position to resume from
    wiki: str = ""
    page_id: int = 0  # whose links changed; 0: the wiki has recent changes


class EventReader:
    """Incremental parser of an event stream; accepts chunks cut at any byte."""

    def __init__(self, last_id: str = "") -> None:
        """Start after the event with this id."""
        self.last_id = last_id
        self.retry_s: float | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest: list[str] = []  # of the last line
        self._rest_chars = 0
        self._data: list[str] = []
        self._length = 0
        self._id = last_id
        self._kind = ""

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """Return the events completed by this chunk. Raises WikiAwayError: an event is too large."""
        text = self._decoder.decode(piece)
        if not text:
            return []
        self._rest.append(text)
        self._rest_chars += len(text)
        if self._rest_chars > EVENT_CHARS:
            raise WikiAwayError("The stream sends a line without end.")
        # Chunks without a line end are only collected, to stay linear for small chunks; so is a final CR,
        # which may be half of a CRLF.
        if "\n" not in text and "\r" not in "".join(self._rest[-2:])[:-1]:
            return []
        text = "".join(self._rest)
        held = "\r" if text.endswith("\r") else ""
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = [lines.pop() + held]
        self._rest_chars = len(self._rest[0])
        events = (self._line(line) for line in lines)
        return [event for event in events if event is not None]

    def _line(self, line: str) -> StreamEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._length += len(value) + 1
            if self._length > EVENT_CHARS:
                raise WikiAwayError("The stream sends an event without end.")
            self._data.append(value)
        elif name == "id" and "\0" not in value and len(value) <= ID_CHARS:
            self._id = value
        elif name == "event":
            self._kind = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = min(int(value[:9]) / 1000, _PAUSE_MOST_S)
        return None

    def _dispatch(self) -> StreamEvent | None:
        self.last_id = self._id
        data, kind = self._data, self._kind
        self._data, self._kind, self._length = [], "", 0
        return StreamEvent("\n".join(data), self.last_id, kind or "message") if data else None


async def listen_to_stream(
    wire: ApiTransport,
    url: str,
    *,
    watched: Callable[[], Collection[str]],
    last_id: str = "",
    timing: ApiTiming | None = None,
) -> AsyncGenerator[StreamNotice, None]:
    """Yield the stream's events of watched wikis (databases); reconnect after disconnections.

    `last_id`: position to resume from; empty: now.

    Raises:
        WikiRefusedError: the server refuses the subscription.
        WikiAwayError: too many failed attempts; poll the wiki's API meanwhile.
    """
    timing = timing or ApiTiming()
    failures = 0
    marked = timing.clock.monotonic()
    while True:
        reader = EventReader(last_id)
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        why: WikiAwayError | None = None
        try:
            async for piece in wire.pieces(url, headers, idle_s=IDLE_S):
                for event in reader.feed(piece):
                    last_id, failures = event.last_id, 0
                    notice = parse_event(event, watched())
                    now = timing.clock.monotonic()
                    if notice is None and now - marked >= MARKER_S:
                        notice = StreamNotice(last_id=last_id)
                    if notice is not None:
                        marked = now
                        yield notice
        except WikiAwayError as error:
            why = error
        failures += 1
        if failures > _FAILURES_MOST:
            raise why or WikiAwayError(f"{url} ends whenever it is opened.")
        requested_s = max(reader.retry_s or 0.0, why.retry_s if why is not None else 0.0)
        await timing.sleep(max(requested_s, reconnect_delay(failures, timing.chance.random())))


def reconnect_delay(failures: int, chance: float) -> float:
    """Return the pause in seconds after this many failures in a row: exponential with jitter."""
    most = min(_PAUSE_S * math.exp2(min(failures, 30) - 1), _PAUSE_MOST_S)
    return most * (0.5 + chance / 2)


def parse_event(event: StreamEvent, wikis: Collection[str]) -> StreamNotice | None:
    """Parse an event; None when it concerns none of these wikis or is of an unused kind."""
    try:
        document = json.loads(event.data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or event.kind != "message":
        return None
    wiki = text_field(document, "wiki", "database")
    if wiki not in wikis or object_field(document, "meta").get("domain") == _CANARY:
        return None
    if "added_links" in document or "removed_links" in document:
        return StreamNotice(event.last_id, wiki, count_field(document, "page_id"))
    is_change = text_field(document, "type") in _PROMISED
    return StreamNotice(event.last_id, wiki) if is_change else None
