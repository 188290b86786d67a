"""What people decided about links: always alive, always dead, never looked at (B10, B11, A16).

A mark is about what a pattern matches (`core.url_patterns`: a URL, a prefix, a host, a domain, an
expression), has a reason and somebody who made it, and ends when it expires or is lifted. The most specific
pattern decides; of equal ones the newest mark. ALWAYS takes what it matches out of the less specific.
A setting is decided for each key alone, by the same order.

`Marks` is a table that is only read; `LiveMarks` reads the book when it changed. `links.marking` writes
the book, and the states of the URLs that marks match.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Final

from sqlalchemy import Connection, Row, func, select

from core.clock import Clock
from core.errors import InputError
from core.pattern_table import PatternTable
from core.url_patterns import parse_pattern, target_of
from links.states import State
from links.store.schema import marks as book
from links.store.store import Store

REFRESH_S: Final = 1.0


class MarkKind(StrEnum):
    """What a mark says."""

    PERMALIVE = "permalive"
    PERMADEAD = "permadead"
    NEVER = "never"
    ALWAYS = "always"
    SETTING = "setting"


STATES: Final = {
    MarkKind.PERMALIVE: State.PERMALIVE,
    MarkKind.PERMADEAD: State.PERMADEAD,
    MarkKind.NEVER: State.EXCLUDED,
}
MARKED: Final = frozenset(STATES.values())


class Settled(IntEnum):
    """Which URLs' states follow a mark, by the numbers that the registry keeps."""

    NOT_YET = 0
    APPLIED = 1
    TAKEN_BACK = 2


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark; moments are seconds since 1970 UTC.

    Attributes:
        id: its row.
        kind: what it says.
        pattern: what it is about, as it was written.
        reason: why.
        actor: who made it.
        moment: when.
        expires: when it ends; None: never.
        lifted: when it was lifted; None: it was not.
        lifted_by: who did that.
        settled: which URLs follow it.
        key: of a setting.
        value: of a setting.
    """

    id: int
    kind: MarkKind
    pattern: str
    reason: str
    actor: str
    moment: int
    expires: int | None = None
    lifted: int | None = None
    lifted_by: str = ""
    settled: Settled = Settled.NOT_YET
    key: str = ""
    value: str = ""

    def holds(self, now: datetime) -> bool:
        """Whether it decides at that moment."""
        return self.lifted is None and (self.expires is None or self.expires > now.timestamp())

    @property
    def state(self) -> State | None:
        """What it makes of a link; None: it leaves it to be looked at."""
        return STATES.get(self.kind)

    @property
    def until(self) -> datetime | None:
        """When it expires."""
        return None if self.expires is None else datetime.fromtimestamp(self.expires, UTC)

    def is_pending(self, now: datetime) -> bool:
        """Whether there may be URLs whose states do not follow it yet."""
        if self.kind is MarkKind.SETTING:
            return False
        if self.holds(now):
            return self.settled is not Settled.APPLIED
        return self.settled is not Settled.TAKEN_BACK


class Marks:
    """Marks by what they match. From any thread.

    A mark in the book that cannot be read decides nothing; `unread` says which, and why.
    """

    def __init__(self, found: Iterable[Mark], clock: Clock) -> None:
        self._clock = clock
        self._table: PatternTable[Mark] = PatternTable()
        self.unread: dict[int, str] = {}
        for mark in found:
            try:
                self._table.add(parse_pattern(mark.pattern), mark)
            except InputError as error:
                self.unread[mark.id] = str(error)
        self._table.ready()

    def __len__(self) -> int:
        return self._table.size

    def first(self, url: str) -> Mark | None:
        """The mark that comes before all others, ALWAYS among them; None when none matches."""
        return self._first(url, "")

    def deciding(self, url: str) -> Mark | None:
        """The mark that decides on a link's state; None when it is watched as any other.

        Raises:
            BadUrlError: it is no http(s) URL.
        """
        mark = self._first(url, "")
        return None if mark is None or mark.kind is MarkKind.ALWAYS else mark

    def state_of(self, url: str) -> State | None:
        """The state that a mark gives the link; None when none does."""
        mark = self.deciding(url)
        return None if mark is None else mark.state

    def setting(self, url: str, key: str) -> str | None:
        """What a setting is for the link; None when no mark says."""
        mark = self._first(url, key)
        return None if mark is None else mark.value

    def refuses(self, url: str) -> str:
        """Why the URL may not be anybody's replacement, in a few words; empty when it may."""
        mark = self.deciding(url)
        if mark is None or mark.kind is MarkKind.PERMALIVE:
            return ""
        said = {MarkKind.NEVER: "it is excluded here", MarkKind.PERMADEAD: "it is marked as dead"}
        return f"{said[mark.kind]} ({mark.pattern})"

    def _first(self, url: str, key: str) -> Mark | None:
        if not self._table.size:
            return None
        now = self._clock.now()
        fitting = [
            match for match in self._table.find(target_of(url))
            if match.value.key == key and match.value.holds(now)
        ]  # fmt: skip
        if not fitting:
            return None
        best = fitting[0].rank  # the most specific comes first
        return max((each.value for each in fitting if each.rank == best), key=lambda mark: mark.id)


class LiveMarks:
    """The marks of a registry as they are now, read again when they changed. From any thread.

    A registry that does not answer is a TransientError, as of the store.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._marks = Marks((), clock)
        self._stamp: tuple[int, int] | None = None
        self._asked = float("-inf")

    def current(self) -> Marks:
        """The marks that hold; at most `REFRESH_S` old."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self._asked >= REFRESH_S:
                with self._store.reading() as rows:
                    stamp = stamp_of(rows)
                    if stamp != self._stamp:
                        self._marks = Marks(standing(rows), self._clock)
                        self._stamp = stamp
                self._asked = now
            return self._marks

    def deciding(self, url: str) -> Mark | None:
        """`Marks.deciding`, now."""
        return self.current().deciding(url)

    def state_of(self, url: str) -> State | None:
        """`Marks.state_of`, now."""
        return self.current().state_of(url)

    def setting(self, url: str, key: str) -> str | None:
        """`Marks.setting`, now."""
        return self.current().setting(url, key)

    def refuses(self, url: str) -> str:
        """`Marks.refuses`, now."""
        return self.current().refuses(url)


def stamp_of(connection: Connection) -> tuple[int, int]:
    """What changes whenever the book does: rows are added and lifted, and never leave."""
    row = connection.execute(select(func.max(book.c.id), func.count(book.c.lifted))).one()
    return row[0] or 0, row[1]


def standing(connection: Connection) -> list[Mark]:
    """The marks that were not lifted, expired ones among them."""
    return read_marks(connection, with_lifted=False)


def read_marks(connection: Connection, *, with_lifted: bool = True) -> list[Mark]:
    """The book, oldest first."""
    question = select(book).order_by(book.c.id)
    if not with_lifted:
        question = question.where(book.c.lifted.is_(None))
    return [_mark_of(row) for row in connection.execute(question)]


def _mark_of(row: Row[tuple[object, ...]]) -> Mark:
    return Mark(
        id=row.id,
        kind=MarkKind(row.kind),
        pattern=row.pattern,
        reason=row.reason,
        actor=row.actor,
        moment=row.moment,
        expires=row.expires,
        lifted=row.lifted,
        lifted_by=row.lifted_by,
        settled=Settled(row.settled),
        key=row.key,
        value=row.value,
    )
