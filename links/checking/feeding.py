"""From the registry into the timetable: all that is due, no more at once than there is room for.

A pass reads what is due once, in its order (`links.checking.due`). A host with more URLs than the timetable
takes of one is remembered, and read on by itself whenever some of its URLs are done; so a host of a
million URLs neither fills the room nor is forgotten. What is `in_hand` was read and is not yet booked:
it is not read again, though the registry still calls it due.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from core.errors import BadUrlError
from links.books.citing import said_dead
from links.checking import due
from links.checking.booking import SETTLED, settle_marked
from links.checking.desk import Desk
from links.checking.due import START, URGENT_DAY, DueUrl, Place
from links.checking.parts import Part
from links.checking.quirk_rows import quirks_of
from links.checking.siblings import is_beside, is_by_get
from links.quirks import HostQuirk
from links.states import State, may_infer
from links.timetable import Added, Timetable

_MARKED_DAYS = 28  # until a marked URL's mark is looked at again: a mark may end


class Deciding(Protocol):
    """What people decided about URLs (B10, B11, A16), as it is at a moment."""

    def state_of(self, url: str) -> State | None:
        """PERMALIVE, PERMADEAD or EXCLUDED; None when nobody decided anything.

        Raises:
            BadUrlError: it is no URL.
        """

    def setting(self, url: str, key: str) -> str | None:
        """What a setting is for the URL (`links.marking.SETTINGS`); None when nobody decided."""

    def refuses(self, url: str) -> str:
        """Why the URL may replace no other, in a few words; empty when it may."""


class Marks(Protocol):
    """Where decisions are read."""

    def current(self) -> Deciding:
        """Those that hold now.

        Raises:
            TransientError: the registry does not answer.
        """


@dataclass(frozen=True, slots=True)
class Live:
    """Settings as they are whenever they are asked for."""

    marks: Marks

    def setting(self, url: str, key: str) -> str | None:
        """What a setting is for the URL now; None when nobody decided."""
        return self.marks.current().setting(url, key)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A due URL in the timetable, with what its look has to know.

    Attributes:
        url: the URL.
        get_only: its host answers HEAD badly, somebody said so, or it is its turn.
        is_beside: an invented page beside it is asked for, too, when it looks well.
    """

    url: DueUrl
    get_only: bool
    is_beside: bool = False


Table = Timetable[Candidate]


class Feed:
    """What is due in a part up to a day, given to a timetable."""

    def __init__(  # noqa: PLR0913 - the parts of a pass
        self,
        desk: Desk,
        table: Table,
        part: Part,
        *,
        marks: Marks,
        window: int,
        host_room: int,
        closer: bool,
        trusts_tags: bool = False,
    ) -> None:
        """Read windows of so many URLs; of a host hold so many at a time; some looks go closer.

        With `trusts_tags` a link that a page calls dead is looked at, though a mark says PERMALIVE (B10).
        """
        self.in_hand: dict[int, dict[int, DueUrl]] = {}  # by host's and URL's row
        self._desk = desk
        self._table = table
        self._part = part
        self._marks = marks
        self._window = window
        self._host_room = host_room
        self._closer = closer
        self._trusts_tags = trusts_tags
        self._horizon = 0
        self._today = 0
        self._after: dict[bool, Place | None] = {True: None, False: None}  # by whether new alone
        self._crowded: set[int] = set()  # hosts with more than was taken
        self._ready: set[int] = set()  # … of which some may be taken again
        self._named: deque[DueUrl] = deque()
        self._named_fit = False

    def begin(self, horizon: int) -> None:
        """Begin a pass over what is due up to that day."""
        self._horizon = self._today = horizon
        self._after = {True: START, False: START}
        self._crowded.clear()
        self._ready.clear()

    def begin_named(self, named: Sequence[DueUrl]) -> None:
        """Begin a pass over these alone, due or not."""
        self._named.extend(named)
        self._named_fit = True

    @property
    def is_empty(self) -> bool:
        """Whether the pass has nothing more to read."""
        if self._named or self._crowded:
            return False
        return self._after == {True: None, False: None}

    @property
    def has_work(self) -> bool:
        """Whether there is something to read that there is room for."""
        if self._named:
            return self._named_fit and self._table.room > 0
        if self._ready:
            return self._table.room >= self._host_room
        unread = any(place is not None for place in self._after.values())
        return unread and self._table.room >= self._window

    async def fill(self, today: int) -> None:
        """Read one window, or the next URLs of one host."""
        self._today = today
        if self._named:
            await self._take_named()
            return
        if self._ready and self._table.room >= self._host_room:
            await self._read_host(self._ready.pop())
            return
        for is_new in (True, False):
            after = self._after[is_new]
            if after is not None:
                await self._read_window(after, is_new=is_new)
                return

    async def fill_urgent(self) -> None:
        """Read what somebody asked for by name."""
        found = await self._desk.read(
            lambda rows: due.old_ones(rows, self._part, URGENT_DAY, after=START, limit=self._window)
        )
        await self._take(found)

    @property
    def count_in_hand(self) -> int:
        """URLs that were read and are not yet booked."""
        return sum(map(len, self.in_hand.values()))

    def put_back(self, url: DueUrl) -> None:
        """Let a URL wait for its turn again: what was found of it is not believed."""
        self.release(url)
        self._add(url, frozenset(), None)

    def release(self, url: DueUrl) -> None:
        """The URL's result is booked, or it was given up."""
        held = self.in_hand.get(url.host_id, {})
        held.pop(url.id, None)
        if url.host_id in self._crowded and len(held) <= self._host_room // 2:
            self._ready.add(url.host_id)
        if not held:
            self.in_hand.pop(url.host_id, None)
        self._named_fit = True

    def forget_host(self, host_id: int) -> None:
        """The host's other URLs are not due any more."""
        self._crowded.discard(host_id)
        self._ready.discard(host_id)

    async def _read_window(self, after: Place, *, is_new: bool) -> None:
        read = due.new_ones if is_new else due.old_ones
        found = await self._desk.read(
            lambda rows: read(rows, self._part, self._horizon, after=after, limit=self._window)
        )
        self._after[is_new] = found[-1].place if len(found) == self._window else None
        await self._take(found)

    async def _take_named(self) -> None:
        """Give what there is room for; what finds its host full comes again when a look has ended."""
        self._named_fit = False
        some = [self._named.popleft() for _ in range(min(len(self._named), self._table.room))]
        await self._take(some)
        self._named.extend(
            url for url in some if url.host_id in self._crowded and not self._is_held(url)
        )
        self._crowded.clear()
        self._ready.clear()

    def _is_held(self, url: DueUrl) -> bool:
        return url.id in self.in_hand.get(url.host_id, ())

    async def _read_host(self, host_id: int) -> None:
        passing = set(self.in_hand.get(host_id, ()))
        limit = self._host_room - len(passing)
        if limit <= 0:
            return
        found = await self._desk.read(
            lambda rows: due.of_host(rows, host_id, self._horizon, passing=passing, limit=limit)
        )
        if len(found) < limit:
            self._crowded.discard(host_id)
        await self._take(found)

    async def _take(self, found: Sequence[DueUrl]) -> None:
        fresh = [url for url in found if not self._is_held(url)]
        if not fresh:
            return
        decided = await self._desk.do(lambda: _decided(self._marks, fresh))
        alive = [number for number, state in decided.items() if state is State.PERMALIVE]
        if alive and self._trusts_tags:
            tagged = await self._desk.read(lambda rows: said_dead(rows, alive))
            decided |= dict.fromkeys(tagged)
        settled = [url for url in fresh if decided[url.id] is not None or _is_settled(url)]
        if settled:
            again = self._today + _MARKED_DAYS
            await self._desk.write(lambda rows: _settle(rows, settled, decided, due_day=again))
        deciding = await self._desk.do(self._marks.current)
        self._table.gaps.decide(deciding.setting)
        methods = await self._desk.do(lambda: _methods(self._marks, fresh))
        names = {url.host for url in fresh}
        quirks = await self._desk.read(lambda rows: quirks_of(rows, names, day=self._today))
        for url in fresh:
            is_asked = decided[url.id] is None and url.standing.state is not State.INVALID
            if is_asked and not self._is_held(url):
                self._add(url, quirks.get(url.host, frozenset()), methods.get(url.id))

    def _add(self, url: DueUrl, quirks: frozenset[HostQuirk], method: str | None) -> None:
        inferable = may_infer(url.standing) and HostQuirk.UNVERIFIABLE not in quirks
        by_get = self._closer and is_by_get(url, self._today)
        get_only = HostQuirk.GET_NEEDED in quirks or by_get
        if method is not None:
            get_only = method == "get"
        candidate = Candidate(url, get_only, self._closer and is_beside(url, self._today))
        match self._table.add(url.id, url.host, candidate, inferable=inferable):
            case Added.TAKEN:
                self.in_hand.setdefault(url.host_id, {})[url.id] = url
            case Added.HELD:
                pass
            case Added.HOST_FULL | Added.FULL:
                self._crowded.add(url.host_id)
                if len(self.in_hand.get(url.host_id, ())) <= self._host_room // 2:
                    self._ready.add(url.host_id)


def _is_settled(url: DueUrl) -> bool:
    return url.standing.state in SETTLED


def _decided(marks: Marks, urls: Sequence[DueUrl]) -> dict[int, State | None]:
    """What people decided about each."""
    deciding = marks.current()
    found: dict[int, State | None] = {}
    for url in urls:
        try:
            found[url.id] = deciding.state_of(url.url)
        except BadUrlError:  # a rule of URLs that is newer than the row
            found[url.id] = None
    return found


def _methods(marks: Marks, urls: Sequence[DueUrl]) -> dict[int, str]:
    """How some of them are to be asked: ``head`` or ``get``."""
    deciding = marks.current()
    found: dict[int, str] = {}
    for url in urls:
        with suppress(BadUrlError):
            method = deciding.setting(url.url, "method")
            if method is not None:
                found[url.id] = method
    return found


def _settle(
    rows: Connection, urls: Sequence[DueUrl], decided: dict[int, State | None], *, due_day: int
) -> None:
    """Let each be what was decided; what nobody decides on any more begins anew."""
    for url in urls:
        state = decided[url.id]
        if state is not None:
            settle_marked(rows, url.id, state, due_day=due_day)
        elif url.standing.state is State.INVALID:
            settle_marked(rows, url.id, State.INVALID, due_day=None)
        else:
            settle_marked(rows, url.id, State.UNKNOWN, due_day=url.due_day)
