"""Recent changes (list=recentchanges) since a cursor, each entry once.

    batch = await changes_since(api, cursor)      # "" at first: from now on
    … read the pages in `batch.changes`; store `batch.cursor` in the same transaction

A cursor is text: the position in the list and the entries seen near its end. Entries appear when the
wiki's transaction ends, stamped with its begin, and later still on a replica: so the last `OVERLAP`
before the position is read again each time, and known entries are skipped by number.

An entry names a page to read; the page may have changed since.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from core.errors import ConfigError
from wiki.api.client import WikiApi
from wiki.api.errors import WikiAwayError, WikiRefusedError
from wiki.api.models import (
    ChangeKind,
    PageChange,
    bool_field,
    count_field,
    json_rows,
    normalized_titles,
    object_field,
    parse_moment,
    query_result,
    split_batches,
    text_field,
)

OVERLAP: Final = timedelta(seconds=120)
CHANGES_LIMIT: Final = 5_000  # changes of one batch, about
SEEN_LIMIT: Final = 50_000
RECENT_DAYS: Final = 90  # MediaWiki's $wgRCMaxAge; a wiki does not tell its own
_YOUNG: Final = timedelta(hours=12)  # nobody keeps recent changes for less
_PROPS: Final = "ids|title|timestamp|loginfo"
_TYPES: Final = "edit|new|log"  # never categorize: it follows an edit that is there, too

_LOGS: Final[Mapping[ChangeKind, str]] = {
    ChangeKind.MOVE: "move/move move/move_redir",
    ChangeKind.DELETE: "delete/delete delete/delete_redir delete/delete_redir2 suppress/delete",
    ChangeKind.RESTORE: "delete/restore",
    ChangeKind.IMPORT: "import/upload import/interwiki",
    ChangeKind.MERGE: "merge/merge merge/merge-into",
    ChangeKind.NEW: "create/create upload/upload contentmodel/new",
    ChangeKind.EDIT: "upload/overwrite upload/revert contentmodel/change",
}
_KINDS: Final[Mapping[str, ChangeKind]] = {
    "edit": ChangeKind.EDIT,
    "new": ChangeKind.NEW,
    **{log: kind for kind, logs in _LOGS.items() for log in logs.split()},
}


@dataclass(frozen=True)
class ChangesCursor:
    """Position in the list of recent changes."""

    moment: datetime  # by the wiki's clock; entries older by more than `OVERLAP` are complete
    seen: frozenset[tuple[int, int]] = frozenset()  # (number, moment) of entries within the overlap
    last_id: int = 0  # the highest number seen
    floor_id: int = 0  # complete up to here, whatever the moment: the clock went back
    go_on: str = ""  # continuation of a list that was too long for one batch; empty: at its end

    def text(self) -> str:
        """Return the cursor in its stored form."""
        return json.dumps(
            {
                "moment": _format_moment(self.moment),
                "seen": sorted(map(list, self.seen)),
                "last_id": self.last_id,
                "floor_id": self.floor_id,
                "go_on": self.go_on,
            },
            separators=(",", ":"),
        )

    @classmethod
    def parse(cls, text: str) -> "ChangesCursor":
        """Parse a stored cursor. Raises ConfigError: it is invalid."""
        try:
            document = json.loads(text)
            return cls(
                parse_moment(document["moment"]),
                frozenset((int(a), int(b)) for a, b in document["seen"]),
                int(document["last_id"]),
                int(document["floor_id"]),
                str(document["go_on"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError, WikiAwayError) as error:
            raise ConfigError(
                "The place up to which a wiki's changes were read is not readable; take it out and "
                "sweep the wiki."
            ) from error


@dataclass(frozen=True)
class ChangeBatch:
    """Batch of recent changes."""

    changes: tuple[PageChange, ...]  # in the wiki's order, without those of earlier batches
    cursor: str  # to be stored once they are processed, and passed to the next call
    is_gap: bool  # earlier changes are lost: every page must be read again
    is_end: bool  # no more changes for now
    now: datetime  # the wiki's clock


async def changes_since(
    api: WikiApi, cursor: str = "", *, most: int = CHANGES_LIMIT
) -> ChangeBatch:
    """Return the changes since the cursor; without one, no changes and a cursor for now.

    Raises ConfigError: the cursor is invalid; the errors of `WikiApi.get`.
    """
    if not cursor:
        answer = await api.get(action="query", meta="siteinfo", curtimestamp=True)
        now = parse_moment(answer.get("curtimestamp"))
        return ChangeBatch((), ChangesCursor(now).text(), is_gap=True, is_end=True, now=now)
    at = ChangesCursor.parse(cursor)
    changes, end, now, is_end = await _read(api, at, most)
    is_gap = False
    if not at.go_on:
        if now >= at.moment - OVERLAP / 2:
            turned = at
        else:
            turned = replace(at, moment=now, floor_id=max(at.floor_id, at.last_id))
        if turned is not at:
            changes, end, now, is_end = await _read(api, turned, most)
        is_gap = await _has_gap(api, turned, now)
    changes = await _resolved(api, changes)
    return ChangeBatch(tuple(changes), end.text(), is_gap, is_end, now)


async def _has_gap(api: WikiApi, at: ChangesCursor, now: datetime) -> bool:
    """Return True if changes since the cursor may have expired on the wiki."""
    if now - at.moment < _YOUNG:
        return False
    answer = await api.get(
        action="query", list="recentchanges", rcdir="newer", rclimit=1, rcprop="ids|timestamp"
    )
    rows = json_rows(query_result(answer), "recentchanges")
    if not rows:
        return now - at.moment > timedelta(days=RECENT_DAYS)
    oldest = rows[0]
    return (
        parse_moment(oldest.get("timestamp")) > at.moment
        and count_field(oldest, "rcid") > at.last_id + 1
    )


async def _read(
    api: WikiApi, at: ChangesCursor, most: int
) -> tuple[list[PageChange], ChangesCursor, datetime, bool]:
    """Read the list from the cursor; return (new changes, next cursor, wiki clock, end reached)."""
    changes: list[PageChange] = []
    seen = dict.fromkeys(at.seen)
    last_id, go_on, newest = at.last_id, at.go_on, at.moment
    while True:
        start = at.moment - OVERLAP
        further = {"rccontinue": go_on, "continue": "-||"} if go_on else {}
        params = {
            "action": "query",
            "list": "recentchanges",
            "rcdir": "newer",
            "rcstart": _format_moment(start),
            "rcprop": _PROPS,
            "rctype": _TYPES,
            "rclimit": "max",
            **further,
        }
        answer = await api.get(curtimestamp=True, **params)
        now = parse_moment(answer.get("curtimestamp"))
        for row in json_rows(query_result(answer), "recentchanges"):
            change = parse_change(row)
            mark = change.rc_id, int(change.moment.timestamp())
            if mark in seen or change.rc_id <= at.floor_id:
                continue
            seen[mark] = None
            last_id = max(last_id, change.rc_id)
            newest = max(newest, change.moment)
            changes.append(change)
        go_on = _next_page(answer, go_on)
        if not go_on:
            break
        if len(changes) >= most:
            seen_recently = _trim_seen(seen, newest)
            return (
                changes,
                replace(at, seen=seen_recently, last_id=last_id, go_on=go_on),
                now,
                False,
            )
    # Never behind what was read, were the wiki's several machines not of one mind about the time.
    end = ChangesCursor(now, _trim_seen(seen, now), last_id, at.floor_id)
    return changes, end, now, True


def _next_page(answer: Mapping[str, Any], before: str) -> str:
    value = object_field(answer, "continue").get("rccontinue")
    if value is None:
        return ""
    if not isinstance(value, str) or value == before or len(value) > 200:
        raise WikiRefusedError("endless", "its list of recent changes goes on at the same place.")
    return value


def _trim_seen(seen: Iterable[tuple[int, int]], end: datetime) -> frozenset[tuple[int, int]]:
    """Return the seen entries that may occur again."""
    start = int((end - 2 * OVERLAP).timestamp())
    near = sorted(mark for mark in seen if mark[1] >= start)
    return frozenset(near[-SEEN_LIMIT:])


def parse_change(row: Mapping[str, Any]) -> PageChange:
    """Parse an entry of the list. Raises WikiAwayError: it is malformed."""
    type_ = text_field(row, "type")
    log = f"{text_field(row, 'logtype')}/{text_field(row, 'logaction')}"
    kind = _KINDS.get(type_ if type_ in {"edit", "new"} else log, ChangeKind.OTHER)
    if bool_field(row, "actionhidden"):
        kind = ChangeKind.OTHER
    params = object_field(row, "logparams")
    return PageChange(
        rc_id=count_field(row, "rcid"),
        kind=kind,
        moment=parse_moment(row.get("timestamp")),
        page_id=count_field(row, "pageid"),
        namespace=count_field(row, "ns"),
        title=text_field(row, "title"),
        target_title=text_field(params, "target_title") or text_field(params, "dest_title"),
        target_namespace=count_field(params, "target_ns") or count_field(params, "dest_ns"),
    )


async def _resolved(api: WikiApi, changes: list[PageChange]) -> list[PageChange]:
    """Add page ids that the list left out (moved, restored, imported); a deleted page keeps 0."""
    wanted = {_title_now(each) for each in changes if _lacks_id(each)}
    ids: dict[str, int] = {}
    for titles in split_batches(sorted(wanted)):
        answer = await api.get(action="query", titles=titles)
        query = query_result(answer)
        for page in json_rows(query, "pages"):
            ids[text_field(page, "title")] = count_field(page, "pageid")
        ids |= {written: ids.get(name, 0) for written, name in normalized_titles(query).items()}
    return [
        replace(each, page_id=ids.get(_title_now(each), 0)) if _lacks_id(each) else each
        for each in changes
    ]


def _lacks_id(change: PageChange) -> bool:
    ends = change.kind in {ChangeKind.DELETE, ChangeKind.OTHER}
    return not change.page_id and not ends and bool(_title_now(change))


def _title_now(change: PageChange) -> str:
    return change.target_title if change.kind is ChangeKind.MOVE else change.title


def _format_moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
