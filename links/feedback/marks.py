"""Operator marks on URLs: always alive, always dead, excluded, and check settings.

The most specific pattern (`core.url_patterns`) decides; of equal ones the newest mark. ALWAYS exempts its matches
from less specific marks. A setting is decided for each key separately. A mark is effective as soon as it is stored;
the states that readers see follow by `apply_marks`. A URL to which no mark applies any more is watched again, with an
unknown state, within the next week.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Final

from sqlalchemy import Connection, func, insert, select, update

from core.clock import Clock
from core.errors import InputError
from core.url_patterns import PatternTable, UrlPattern, parse_pattern, pattern_target
from links.check_history import day_of
from links.checker.timetable import GAP_SETTING as GAP
from links.checker.timetable import LARGEST_GAP_S, LEAST_GAP_S, parse_gap
from links.registry.database import RegistryStore
from links.registry.schema import marks as book
from links.registry.schema import urls
from links.registry.statements import MOST, batches
from links.registry.urls import UrlRow, health_columns, hosts_of, matcher, urls_by_id
from links.states import MARKS, LinkHealth, LinkState

REFRESH_S: Final = 1.0


class MarkKind(StrEnum):
    """Kind of a mark."""

    PERMALIVE = "permalive"
    PERMADEAD = "permadead"
    NEVER = "never"
    ALWAYS = "always"
    SETTING = "setting"


STATE_OF_MARK: Final = {
    MarkKind.PERMALIVE: LinkState.PERMALIVE,
    MarkKind.PERMADEAD: LinkState.PERMADEAD,
    MarkKind.NEVER: LinkState.EXCLUDED,
}


class MarkProgress(IntEnum):
    """Progress of applying a mark to URL states; the values are stored in the registry."""

    NOT_YET = 0
    APPLIED = 1
    TAKEN_BACK = 2


@dataclass(frozen=True, slots=True)
class LinkMark:
    """Operator mark; times are seconds since 1970 UTC."""

    id: int  # its row
    kind: MarkKind
    pattern: str  # the pattern, as written
    reason: str
    actor: str  # its author
    moment: int  # time of creation
    expires: int | None = None  # expiry; None: never
    lifted: int | None = None  # time of lifting; None: it was not lifted
    lifted_by: str = ""  # the person who lifted it
    settled: MarkProgress = MarkProgress.NOT_YET  # progress of applying it to URLs
    key: str = ""  # of a setting
    value: str = ""  # of a setting

    def holds(self, now: datetime) -> bool:
        """Return True when it is effective at that time."""
        return self.lifted is None and (self.expires is None or self.expires > now.timestamp())

    @property
    def state(self) -> LinkState | None:
        """Return the link state that it sets; None when links are checked as usual."""
        return STATE_OF_MARK.get(self.kind)

    @property
    def until(self) -> datetime | None:
        """Return its expiry."""
        return None if self.expires is None else datetime.fromtimestamp(self.expires, UTC)

    def is_pending(self, now: datetime) -> bool:
        """Return True when URLs may have states that do not reflect it yet."""
        if self.kind is MarkKind.SETTING:
            return False
        if self.holds(now):
            return self.settled is not MarkProgress.APPLIED
        return self.settled is not MarkProgress.TAKEN_BACK


class MarkSet:
    """Marks indexed by pattern; those whose pattern cannot be read are ignored. Thread-safe."""

    def __init__(self, marks: Iterable[LinkMark], now: Callable[[], datetime]) -> None:
        self._now = now
        self._table: PatternTable[LinkMark] = PatternTable()
        for mark in marks:
            with suppress(InputError):
                self._table.add(parse_pattern(mark.pattern), mark)
        self._table.ready()

    def deciding(self, url: str) -> LinkMark | None:
        """Return the mark that determines a link's state; None when it is watched as any other."""
        mark = self.first(url)
        return None if mark is None or mark.kind is MarkKind.ALWAYS else mark

    def state_of(self, url: str) -> LinkState | None:
        """Return the state that a mark gives the link; None when none does."""
        mark = self.deciding(url)
        return None if mark is None else mark.state

    def setting(self, url: str, key: str) -> str | None:
        """Return the value of a setting for the link; None when no mark has it."""
        mark = self.first(url, key)
        return None if mark is None else mark.value

    def refuses(self, url: str) -> str:
        """Return the reason that the URL may not be a replacement; empty when it may."""
        mark = self.deciding(url)
        if mark is None or mark.kind is MarkKind.PERMALIVE:
            return ""
        reasons = {MarkKind.NEVER: "it is excluded here", MarkKind.PERMADEAD: "it is marked as dead"}
        return f"{reasons[mark.kind]} ({mark.pattern})"

    def first(self, url: str, key: str = "") -> LinkMark | None:
        """Return the mark with the highest precedence, or that of a setting; ALWAYS counts. None when none matches."""
        if not self._table.size:
            return None
        now = self._now()
        fitting = [
            match for match in self._table.find(pattern_target(url))
            if match.value.key == key and match.value.holds(now)
        ]  # fmt: skip
        if not fitting:
            return None
        best = fitting[0].rank  # the most specific comes first
        return max((each.value for each in fitting if each.rank == best), key=lambda mark: mark.id)


class LiveMarks:
    """Current marks of a registry, reloaded when they changed. Thread-safe."""

    def __init__(self, store: RegistryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._marks = MarkSet((), clock.now)
        self._stamp: tuple[int, int] | None = None
        self._read_at = float("-inf")

    def current(self) -> MarkSet:
        """Return the effective marks; at most `REFRESH_S` old."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self._read_at >= REFRESH_S:
                with self._store.reading() as rows:
                    stamp = marks_version(rows)
                    if stamp != self._stamp:
                        self._marks = MarkSet(read_marks(rows), self._clock.now)
                        self._stamp = stamp
                self._read_at = now
            return self._marks


def marks_version(connection: Connection) -> tuple[int, int]:
    """Return a version that changes with the table: rows are added and lifted, but never deleted."""
    row = connection.execute(select(func.max(book.c.id), func.count(book.c.lifted))).one()
    return row[0] or 0, row[1]


def read_marks(connection: Connection, *, with_lifted: bool = False) -> list[LinkMark]:
    """Return the marks, including expired ones, oldest first."""
    question = select(book).order_by(book.c.id)
    if not with_lifted:
        question = question.where(book.c.lifted.is_(None))
    return [
        LinkMark(**{**row, "kind": MarkKind(row["kind"]), "settled": MarkProgress(row["settled"])})
        for row in connection.execute(question).mappings()
    ]


WATCHED_AGAIN_DAYS: Final = 7
MOST_TEXT: Final = 2_000  # characters of a reason


MARK_SETTINGS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "every_days": (
        lambda text: text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 100,
        "1 to 100: interval of checks while it works",
    ),
    "method": (lambda text: text in ("head", "get"), "head or get: first request method"),
    GAP: (
        lambda text: parse_gap(text) is not None,
        f"{LEAST_GAP_S:g} to {LARGEST_GAP_S:g}: seconds between two requests to a host",
    ),
    "preset": (lambda text: text in ("default", "iabot", "dewiki"), "default, iabot or dewiki: rules for dead links"),
}


@dataclass
class MarkTally:
    """Result of applying marks, or its preview."""

    looked: int = 0  # number of URLs that match a mark
    changed: Counter[LinkState] = field(default_factory=Counter)  # number of URLs by new state


def check_mark(mark: LinkMark) -> LinkMark:
    """Validate a mark for `put_marks`; InputError when its pattern, reason or setting is invalid."""
    mark = replace(mark, pattern=mark.pattern.strip(), reason=mark.reason.strip())
    parse_pattern(mark.pattern)
    if not 0 < len(mark.reason) <= MOST_TEXT:
        raise InputError(f"A mark needs a reason of at most {MOST_TEXT:,} characters at most.")
    if (mark.kind is MarkKind.SETTING) != bool(mark.key):
        raise InputError("KEY=VALUE is required for settings, and possible only there.")
    if mark.key:
        if mark.key not in MARK_SETTINGS:
            raise InputError(f"{mark.key[:80]!r} is not a setting; there is {', '.join(MARK_SETTINGS)}.")
        check, meaning = MARK_SETTINGS[mark.key]
        if not check(mark.value):
            raise InputError(f"{mark.key} is {meaning}; not {mark.value[:80]!r}.")
        if mark.key == GAP and not parse_pattern(mark.pattern).names_site:
            raise InputError(f"{GAP} is for hosts, such as example.org or =example.org; {mark.pattern[:80]!r} is none.")
    return mark


def put_marks(connection: Connection, marks: Iterable[LinkMark]) -> list[LinkMark]:
    """Store marks, each in place of the one with the same pattern; return them as stored."""
    marks_by_place: dict[tuple[UrlPattern | None, str], list[LinkMark]] = {}
    for mark in read_marks(connection):
        marks_by_place.setdefault((_pattern(mark.pattern), mark.key), []).append(mark)
    stored_marks = []
    for mark in marks:
        place = (parse_pattern(mark.pattern), mark.key)
        _lift(connection, marks_by_place.get(place, ()), mark.actor, mark.moment)
        as_given = ("pattern", "key", "value", "reason", "actor", "moment", "expires")
        row = {"kind": str(mark.kind), "settled": int(MarkProgress.NOT_YET)}
        row |= {name: getattr(mark, name) for name in as_given}
        number = connection.execute(insert(book).values(row).returning(book.c.id)).scalar_one()
        stored_marks.append(replace(mark, id=number))
        marks_by_place[place] = [stored_marks[-1]]
    return stored_marks


def named_marks(connection: Connection, names: Sequence[str]) -> list[LinkMark]:
    """Return the marks with these numbers or patterns that were not lifted; InputError if one is unknown."""
    marks = read_marks(connection)
    chosen: dict[int, LinkMark] = {}
    for name in names:
        matches = [mark for mark in marks if _is_named(mark, name)]
        if not matches:
            raise InputError(
                f"No mark in force has the number or the pattern {name[:200]!r}; `weboid links mark` shows them."
            )
        chosen |= {mark.id: mark for mark in matches}
    return list(chosen.values())


def lift_marks(connection: Connection, marks: Iterable[LinkMark], actor: str, now: datetime) -> None:
    """Mark the marks as lifted; their rows are kept."""
    _lift(connection, marks, actor, int(now.timestamp()))


def pending_marks(connection: Connection, now: datetime) -> list[LinkMark]:
    """Return the marks that are not applied yet: new, lifted and expired ones."""
    return [mark for mark in read_marks(connection, with_lifted=True) if mark.is_pending(now)]


def apply_marks(
    store: RegistryStore, clock: Clock, *, on_progress: Callable[[int], None] = lambda _count: None
) -> MarkTally:
    """Update the states of all URLs to the pending marks, in transactions that each respect concurrent changes."""
    tally = MarkTally()
    stamp, decided = None, MarkSet((), clock.now)
    with store.reading() as rows:
        waiting = pending_marks(rows, clock.now())
    for mark in waiting:
        for chosen in _matched(store, mark):
            with store.writing() as rows:
                now_there = marks_version(rows)
                if now_there != stamp:
                    stamp, decided = now_there, MarkSet(read_marks(rows), clock.now)
                _follow(rows, chosen, decided, clock, tally)
            on_progress(tally.looked)
        done = MarkProgress.APPLIED if mark.holds(clock.now()) else MarkProgress.TAKEN_BACK
        with store.writing() as rows:
            # Not when it was lifted in the meantime: then its effect has to be reverted.
            unchanged = (book.c.id == mark.id) & (book.c.lifted.is_(None) == (mark.lifted is None))
            rows.execute(update(book).where(unchanged).values(settled=int(done)))
    return tally


def preview_marks(store: RegistryStore, marks: Sequence[LinkMark], lifted: Collection[int], clock: Clock) -> MarkTally:
    """Compute the effect of `apply_marks` after these changes; nothing is written."""
    tally = MarkTally()
    with store.reading() as rows:
        stored_marks = read_marks(rows)
    replaced = {(_pattern(mark.pattern), mark.key) for mark in marks}
    left = [m for m in stored_marks if m.id not in lifted and (_pattern(m.pattern), m.key) not in replaced]
    newest = max((mark.id for mark in stored_marks), default=0) + 1
    fresh = [replace(mark, id=newest + place) for place, mark in enumerate(marks)]
    decided = MarkSet([*left, *fresh], clock.now)
    removed_marks = [mark for mark in stored_marks if mark not in left]
    seen: set[int] = set()
    for mark in (*fresh, *removed_marks):
        for chosen in _matched(store, mark):
            with store.reading() as rows:
                new = [each for each in chosen if each not in seen]
                seen.update(new)
                for each in urls_by_id(rows, new).values():
                    _count(each, decided, tally)
    return tally


def _matched(store: RegistryStore, mark: LinkMark) -> Iterable[list[int]]:
    """Yield the ids of URLs on the hosts that the mark can match, in batches."""
    pattern = _pattern(mark.pattern)
    if mark.kind is MarkKind.SETTING or pattern is None:
        return
    matches = matcher(pattern)
    with store.reading() as rows:
        host_ids = list(hosts_of(rows, pattern))
    for host_id in host_ids:
        with store.reading() as rows:
            ids = list(rows.execute(select(urls.c.id).where(urls.c.host_id == host_id).order_by(urls.c.id)).scalars())
        for batch in batches(ids, MOST):
            with store.reading() as rows:
                chosen = [each.id for each in urls_by_id(rows, batch).values() if matches(each.url)]
            if chosen:
                yield chosen


def _count(url: UrlRow, marks: MarkSet, tally: MarkTally) -> LinkState | None:
    """Return the new state of the URL and count it; None when it does not change."""
    tally.looked += 1
    wanted = marks.state_of(url.url)
    if wanted is None and url.state in MARKS:
        wanted = LinkState.UNKNOWN
    if wanted is None or wanted is url.state or url.state is LinkState.INVALID:
        return None
    tally.changed[wanted] += 1
    return wanted


def _follow(connection: Connection, ids: Sequence[int], marks: MarkSet, clock: Clock, tally: MarkTally) -> None:
    day = day_of(clock.now())
    groups: dict[tuple[LinkState, int | None], list[int]] = {}
    for each in urls_by_id(connection, ids).values():
        wanted = _count(each, marks, tally)
        if wanted is not None:
            # Spread over a week, so that the URLs of a large domain are not all requested on one day.
            due = day + each.id % WATCHED_AGAIN_DAYS if wanted is LinkState.UNKNOWN else None
            groups.setdefault((wanted, due), []).append(each.id)
    for (state, due), some in groups.items():
        set_marked_state(connection, some, state, due_day=due)


def set_marked_state(connection: Connection, ids: Sequence[int], state: LinkState, *, due_day: int | None) -> None:
    """Set the state of URLs by a manual decision (B10, B11), and their next due day."""
    values = health_columns(LinkHealth(state)) | {"due_day": due_day, "opinion_day": None}
    connection.execute(update(urls).where(urls.c.id.in_(ids)).values(values))


def _lift(connection: Connection, marks: Iterable[LinkMark], actor: str, moment: int) -> None:
    for some in batches(mark.id for mark in marks):
        connection.execute(
            update(book).where(book.c.id.in_(some), book.c.lifted.is_(None)).values(lifted=moment, lifted_by=actor)
        )


def _pattern(text: str) -> UrlPattern | None:
    """Parse a stored or given pattern; None when it is not valid."""
    with suppress(InputError):
        return parse_pattern(text)
    return None


def _is_named(mark: LinkMark, name: str) -> bool:
    if name.removeprefix("#").isdecimal():
        return mark.id == int(name.removeprefix("#"))
    named = _pattern(name)
    return mark.pattern == name.strip() or (named is not None and _pattern(mark.pattern) == named)
