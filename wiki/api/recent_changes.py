"""Changes of wikis: recent changes since a cursor, each entry once, and server-sent change events.

Entries appear when the wiki's transaction ends, stamped with its begin, and later still on a replica: so the last
`OVERLAP` before the cursor's position is read again each time, and known entries are skipped by number.
"""

import codecs
import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from core.errors import ConfigError, InputError
from core.json_values import json_facts, read_json
from net.backoff import ExponentialBackoff
from wiki.api import models
from wiki.api.client import ApiTiming, WikiApi
from wiki.api.transport import ApiTransport

OVERLAP: Final = timedelta(seconds=120)
CHANGES_LIMIT: Final = 5_000  # changes of one batch, about
SEEN_LIMIT: Final = 50_000
RECENT_DAYS: Final = 90  # MediaWiki's $wgRCMaxAge; a wiki does not tell its own
_YOUNG: Final = timedelta(hours=12)  # every wiki stores recent changes for longer
_PROPS: Final = "ids|title|timestamp|loginfo"
_TYPES: Final = "edit|new|log"  # never categorize: it accompanies an edit that is listed as well

_LOGS: Final[Mapping[models.ChangeKind, str]] = {
    models.ChangeKind.MOVE: "move/move move/move_redir",
    models.ChangeKind.DELETE: "delete/delete delete/delete_redir delete/delete_redir2 suppress/delete",
    models.ChangeKind.RESTORE: "delete/restore",
    models.ChangeKind.IMPORT: "import/upload import/interwiki",
    models.ChangeKind.MERGE: "merge/merge merge/merge-into",
    models.ChangeKind.NEW: "create/create upload/upload contentmodel/new",
    models.ChangeKind.EDIT: "upload/overwrite upload/revert contentmodel/change",
}
_KINDS: Final[Mapping[str, models.ChangeKind]] = {
    "edit": models.ChangeKind.EDIT,
    "new": models.ChangeKind.NEW,
    **{log: kind for kind, logs in _LOGS.items() for log in logs.split()},
}


@dataclass(frozen=True)
class ChangesCursor:
    """Position in the list of recent changes."""

    moment: datetime  # by the wiki's clock; entries older by more than `OVERLAP` are complete
    seen: frozenset[tuple[int, int]] = frozenset()  # (number, moment) of entries within the overlap
    last_id: int = 0  # the highest number seen
    floor_id: int = 0  # complete up to here, whatever the time: the clock was set back
    go_on: str = ""  # continuation of a list that was too long for one batch; empty: at its end

    def text(self) -> str:
        """Return the cursor in its stored form."""
        facts = {"moment": _format_moment(self.moment), "seen": sorted(map(list, self.seen))}
        return json.dumps({**facts, **json_facts(self, "last_id floor_id go_on")}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "ChangesCursor":
        """Parse a stored cursor. Raises ConfigError: it is invalid."""
        try:
            return read_json(cls, json.loads(text))
        except (ValueError, RecursionError, InputError) as error:
            raise ConfigError(
                "The stored position in the wiki's changes is not readable; remove it and sweep the wiki."
            ) from error


@dataclass(frozen=True)
class ChangeBatch:
    """Batch of recent changes."""

    changes: tuple[models.PageChange, ...]  # in the wiki's order, without those of earlier batches
    cursor: str  # to be stored once they are processed, and passed to the next call
    is_gap: bool  # earlier changes are lost: every page must be read again
    is_end: bool  # no more changes for now
    now: datetime  # the wiki's clock


async def changes_since(api: WikiApi, cursor: str = "", *, most: int = CHANGES_LIMIT) -> ChangeBatch:
    """Return the changes since the cursor; without one only a cursor for now. Raises ConfigError for an invalid one."""
    if not cursor:
        answer = await api.get(action="query", meta="siteinfo", curtimestamp=True)
        now = models.parse_moment(answer.get("curtimestamp"))
        return ChangeBatch((), ChangesCursor(now).text(), is_gap=True, is_end=True, now=now)
    at = ChangesCursor.parse(cursor)
    changes, end, now, is_end = await _read(api, at, most)
    is_gap = False
    if not at.go_on:
        if now < at.moment - OVERLAP / 2:  # the wiki's clock was set back
            at = replace(at, moment=now, floor_id=max(at.floor_id, at.last_id))
            changes, end, now, is_end = await _read(api, at, most)
        is_gap = await _has_gap(api, at, now)
    changes = await _resolved(api, changes)
    return ChangeBatch(tuple(changes), end.text(), is_gap, is_end, now)


async def _has_gap(api: WikiApi, at: ChangesCursor, now: datetime) -> bool:
    """Return True if changes since the cursor may have expired on the wiki."""
    if now - at.moment < _YOUNG:
        return False
    answer = await api.get(action="query", list="recentchanges", rcdir="newer", rclimit=1, rcprop="ids|timestamp")
    rows = models.json_rows(models.query_result(answer), "recentchanges")
    if not rows:
        return now - at.moment > timedelta(days=RECENT_DAYS)
    is_younger = models.parse_moment(rows[0].get("timestamp")) > at.moment
    return is_younger and models.count_field(rows[0], "rcid") > at.last_id + 1


async def _read(
    api: WikiApi, at: ChangesCursor, most: int
) -> tuple[list[models.PageChange], ChangesCursor, datetime, bool]:
    """Read the list from the cursor; return (new changes, next cursor, wiki clock, end reached)."""
    changes: list[models.PageChange] = []
    seen = dict.fromkeys(at.seen)
    last_id, go_on, newest = at.last_id, at.go_on, at.moment
    params = {"rcstart": _format_moment(at.moment - OVERLAP), "rcprop": _PROPS, "rctype": _TYPES, "rclimit": "max"}
    while True:
        params |= {"rccontinue": go_on, "continue": "-||"} if go_on else {}
        answer = await api.get(action="query", list="recentchanges", rcdir="newer", curtimestamp=True, **params)
        now = models.parse_moment(answer.get("curtimestamp"))
        for row in models.json_rows(models.query_result(answer), "recentchanges"):
            change = parse_change(row)
            mark = change.rc_id, int(change.moment.timestamp())
            if mark not in seen and change.rc_id > at.floor_id:
                seen[mark] = None
                last_id, newest = max(last_id, change.rc_id), max(newest, change.moment)
                changes.append(change)
        next_page = models.object_field(answer, "continue").get("rccontinue")
        if next_page is None:
            break
        if not isinstance(next_page, str) or next_page == go_on or len(next_page) > 200:
            raise models.WikiRefusedError("endless", "its list of recent changes repeats the same position.")
        go_on = next_page
        if len(changes) >= most:
            end = replace(at, seen=_trim_seen(seen, newest), last_id=last_id, go_on=go_on)
            return changes, end, now, False
    # Never before the stored position, even if the wiki's servers disagree about the time.
    return changes, ChangesCursor(now, _trim_seen(seen, now), last_id, at.floor_id), now, True


def _trim_seen(seen: Iterable[tuple[int, int]], end: datetime) -> frozenset[tuple[int, int]]:
    start = int((end - 2 * OVERLAP).timestamp())
    near = sorted(mark for mark in seen if mark[1] >= start)
    return frozenset(near[-SEEN_LIMIT:])


def parse_change(row: Mapping[str, Any]) -> models.PageChange:
    """Parse an entry of the list. Raises WikiAwayError: it is malformed."""
    type_ = models.text_field(row, "type")
    log = f"{models.text_field(row, 'logtype')}/{models.text_field(row, 'logaction')}"
    kind = _KINDS.get(type_ if type_ in {"edit", "new"} else log, models.ChangeKind.OTHER)
    if models.bool_field(row, "actionhidden"):
        kind = models.ChangeKind.OTHER
    params = models.object_field(row, "logparams")
    return models.PageChange(
        rc_id=models.count_field(row, "rcid"),
        kind=kind,
        moment=models.parse_moment(row.get("timestamp")),
        page_id=models.count_field(row, "pageid"),
        namespace=models.count_field(row, "ns"),
        title=models.text_field(row, "title"),
        target_title=models.text_field(params, "target_title") or models.text_field(params, "dest_title"),
        target_namespace=models.count_field(params, "target_ns") or models.count_field(params, "dest_ns"),
    )


async def _resolved(api: WikiApi, changes: list[models.PageChange]) -> list[models.PageChange]:
    """Add page ids that the list left out (moved, restored, imported); a deleted page keeps 0."""
    wanted = {_title_now(each) for each in changes if _lacks_id(each)}
    ids: dict[str, int] = {}
    for titles in models.split_batches(sorted(wanted)):
        answer = await api.get(action="query", titles=titles)
        query = models.query_result(answer)
        for page in models.json_rows(query, "pages"):
            ids[models.text_field(page, "title")] = models.count_field(page, "pageid")
        ids |= {written: ids.get(name, 0) for written, name in models.normalized_titles(query).items()}
    return [replace(each, page_id=ids.get(_title_now(each), 0)) if _lacks_id(each) else each for each in changes]


def _lacks_id(change: models.PageChange) -> bool:
    ends = change.kind in {models.ChangeKind.DELETE, models.ChangeKind.OTHER}
    return not change.page_id and not ends and bool(_title_now(change))


def _title_now(change: models.PageChange) -> str:
    return change.target_title if change.kind is models.ChangeKind.MOVE else change.title


def _format_moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


EVENT_CHARS: Final = 4_000_000
ID_CHARS: Final = 20_000
MARKER_S: Final = 30.0
IDLE_S: Final = 90.0  # EventStreams sends something every few seconds, at least a comment
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
        self._rest, self._rest_chars = list[str](), 0  # of the last line
        self._data, self._length = list[str](), 0
        self._id, self._kind = last_id, ""

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """Return the events completed by this chunk. Raises WikiAwayError: an event is too large."""
        text = self._decoder.decode(piece)
        if not text:
            return []
        self._rest.append(text)
        self._rest_chars += len(text)
        if self._rest_chars > EVENT_CHARS:
            raise models.WikiAwayError("The stream sends an endless line.")
        # Chunks without a line end are only collected, to stay linear for small chunks; so is a final CR,
        # which may be half of a CRLF.
        if "\n" not in text and "\r" not in "".join(self._rest[-2:])[:-1]:
            return []
        text = "".join(self._rest)
        held = "\r" if text.endswith("\r") else ""
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = [lines.pop() + held]
        self._rest_chars = len(self._rest[0])
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> StreamEvent | None:
        if not line:
            self.last_id = self._id
            data, kind = self._data, self._kind
            self._data, self._kind, self._length = [], "", 0
            return StreamEvent("\n".join(data), self.last_id, kind or "message") if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._length += len(value) + 1
            if self._length > EVENT_CHARS:
                raise models.WikiAwayError("The stream sends an endless event.")
            self._data.append(value)
        elif name == "id" and "\0" not in value and len(value) <= ID_CHARS:
            self._id = value
        elif name == "event":
            self._kind = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = min(int(value[:9]) / 1000, _PAUSE_MOST_S)
        return None


async def listen_to_stream(
    wire: ApiTransport,
    url: str,
    *,
    watched: Callable[[], Collection[str]],
    last_id: str = "",
    timing: ApiTiming | None = None,
) -> AsyncGenerator[StreamNotice, None]:
    """Yield events of watched wikis from `last_id` on, reconnecting; WikiRefusedError, in the end WikiAwayError."""
    timing = timing or ApiTiming()
    failures, pauses = 0, ExponentialBackoff(_PAUSE_S, _PAUSE_MOST_S)
    marked = timing.clock.monotonic()
    while True:
        reader = EventReader(last_id)
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        why: models.WikiAwayError | None = None
        try:
            async for piece in wire.pieces(url, headers, idle_s=IDLE_S):
                for event in reader.feed(piece):
                    last_id, failures = event.last_id, 0
                    pauses.reset()
                    notice = parse_event(event, watched())
                    now = timing.clock.monotonic()
                    if notice is None and now - marked >= MARKER_S:
                        notice = StreamNotice(last_id=last_id)
                    if notice is not None:
                        marked = now
                        yield notice
        except models.WikiAwayError as error:
            why = error
        failures += 1
        if failures > _FAILURES_MOST:
            raise why or models.WikiAwayError(f"{url} closes whenever it is opened.")
        requested_s = max(reader.retry_s or 0.0, why.retry_s if why is not None else 0.0)
        await timing.sleep(max(requested_s, pauses.next_s() * (0.5 + timing.chance.random() / 2)))


def parse_event(event: StreamEvent, wikis: Collection[str]) -> StreamNotice | None:
    """Parse an event; None when it concerns none of these wikis or is of an unused kind."""
    try:
        document = json.loads(event.data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or event.kind != "message":
        return None
    wiki = models.text_field(document, "wiki", "database")
    if wiki not in wikis or models.object_field(document, "meta").get("domain") == _CANARY:
        return None
    if "added_links" in document or "removed_links" in document:
        return StreamNotice(event.last_id, wiki, models.count_field(document, "page_id"))
    return StreamNotice(event.last_id, wiki) if models.text_field(document, "type") in _PROMISED else None
