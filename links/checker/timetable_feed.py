"""Feed of due URLs from the registry into the timetable, with their check methods.

A thorough check, of one or two more requests, is made only where it may yield more. A host
with more URLs than the timetable takes of one is read separately whenever some of its URLs are done. URLs that were
read and are not yet stored are not read again.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from sqlalchemy import Connection

from core.errors import BadUrlError
from links.check_result import CheckResult, CheckVerdict
from links.checker import due_urls
from links.checker.due_urls import START, URGENT_DAY, DuePosition, HostShare
from links.checker.timetable import AddOutcome, Deciding, Timetable
from links.feedback.marks import LiveMarks, set_marked_state
from links.registry.citations import links_tagged_dead
from links.registry.database import RegistryThread
from links.registry.quirks import HostQuirk, quirks_of
from links.registry.urls import UrlRow
from links.states import SETTLED, LinkState, may_infer

_SOFT = "soft 404"  # how the notes of such findings begin
# An answer to HEAD does not reveal a soft 404, and the page itself does not reveal that its content was
# replaced: so these checks are stricter without a specific reason.
GET_EACH = 4  # about one in so many uses GET …
SIBLING_EACH = 16  # … and compares a good page with a sibling


def is_stricter(url: UrlRow, day: int, each: int) -> bool:
    """Return True for a link's first check, and for about one in `each`: it is made more thorough."""
    # Seven days from check to check, a spread of one: the days run through all remainders.
    return url.is_new or (day + url.key[0]) % each == 0


def wants_sibling(url: UrlRow, finding: CheckResult, *, is_beside: bool = False) -> bool:
    """Return True when a good result is to be compared with an invented sibling.

    That is with `is_beside`, when the link was failing before, and when the result is already suspicious.
    """
    if finding.verdict is CheckVerdict.SUSPECT:
        return not finding.note.startswith(_SOFT)
    if finding.verdict is not CheckVerdict.OK:
        return False
    return is_beside or url.fails > 0 or url.state in (LinkState.DEAD, LinkState.USURPED)


_MARKED_DAYS = 28  # until a marked URL's mark is evaluated again: a mark may expire


@dataclass(frozen=True, slots=True)
class CheckCandidate:
    """Due URL in the timetable, with its check method."""

    url: UrlRow
    get_only: bool  # use GET: its host answers HEAD badly, by a setting, or by the random choice
    is_beside: bool = False  # request an invented sibling, too, when the result is good


Table = Timetable[CheckCandidate]


@dataclass(eq=False)
class TimetableFeed:
    """Reader of a share's due URLs up to a day, for a timetable."""

    registry: RegistryThread
    table: Table
    part: HostShare
    _: KW_ONLY
    marks: LiveMarks
    window: int  # URLs that are read at once
    host_room: int  # loaded URLs of a host
    closer: bool  # make some checks more thorough
    trusts_tags: bool = False  # check a tagged link, though a mark is PERMALIVE (B10)

    def __post_init__(self) -> None:
        self.in_hand: dict[int, dict[int, UrlRow]] = {}  # by host's and URL's row
        self._horizon = 0
        self._today = 0
        self._after: dict[bool, DuePosition | None] = {True: None, False: None}  # True: of new URLs alone
        self._crowded: set[int] = set()  # hosts with more than was taken
        self._ready: set[int] = set()  # … of which some may be taken again
        self._named: deque[UrlRow] = deque()
        self._named_fit = False

    def begin(self, horizon: int) -> None:
        """Start a run over the URLs due up to that day."""
        self._horizon = self._today = horizon
        self._after = {True: START, False: START}
        self._crowded.clear()
        self._ready.clear()

    def begin_named(self, named: Sequence[UrlRow]) -> None:
        """Start a run over only these, due or not."""
        self._named.extend(named)
        self._named_fit = True

    @property
    def is_empty(self) -> bool:
        """Return True when the run has nothing more to read."""
        return not self._named and not self._crowded and self._after == {True: None, False: None}

    @property
    def has_work(self) -> bool:
        """Return True when there is something to read and room for it."""
        if self._named:
            return self._named_fit and self.table.room > 0
        if self._ready:
            return self.table.room >= self.host_room
        return any(place is not None for place in self._after.values()) and self.table.room >= self.window

    async def fill(self, today: int) -> None:
        """Read one window, or the next URLs of one host."""
        self._today = today
        if self._named:
            self._named_fit = False
            some = [self._named.popleft() for _ in range(min(len(self._named), self.table.room))]
            await self._take(some)
            self._named.extend(url for url in some if url.host_id in self._crowded and not self._is_held(url))
            self._crowded.clear()
            self._ready.clear()
            return
        if self._ready and self.table.room >= self.host_room:
            host_id = self._ready.pop()
            passing = set(self.in_hand.get(host_id, ()))
            limit = self.host_room - len(passing)
            if limit > 0:
                urls = await self.registry.read(
                    lambda rows: due_urls.due_urls_of_host(rows, host_id, self._horizon, passing=passing, limit=limit)
                )
                if len(urls) < limit:
                    self._crowded.discard(host_id)
                await self._take(urls)
            return
        for is_new in (True, False):
            after = self._after[is_new]
            if after is not None:
                read = partial(due_urls.due_window, part=self.part, day=self._horizon, after=after)
                urls = await self.registry.read(partial(read, limit=self.window, only_new=is_new))
                is_more = len(urls) == self.window
                self._after[is_new] = DuePosition(urls[-1].due_day or 0, urls[-1].key) if is_more else None
                await self._take(urls)
                return

    async def fill_urgent(self) -> None:
        """Read URLs that were requested by name."""
        urls = await self.registry.read(
            lambda rows: due_urls.due_window(rows, self.part, URGENT_DAY, after=START, limit=self.window)
        )
        await self._take(urls)

    def put_back(self, url: UrlRow) -> None:
        """Add a URL to the timetable again after its result was discarded."""
        self.release(url)
        self._add(url, frozenset(), None)

    def release(self, url: UrlRow) -> None:
        """Release a URL whose result is stored or was given up."""
        held = self.in_hand.get(url.host_id, {})
        held.pop(url.id, None)
        if url.host_id in self._crowded and len(held) <= self.host_room // 2:
            self._ready.add(url.host_id)
        if not held:
            self.in_hand.pop(url.host_id, None)
        self._named_fit = True

    def forget_host(self, host_id: int) -> None:
        """Remove the host's other URLs, which are no longer due."""
        self._crowded.discard(host_id)
        self._ready.discard(host_id)

    def _is_held(self, url: UrlRow) -> bool:
        return url.id in self.in_hand.get(url.host_id, ())

    async def _take(self, urls: Sequence[UrlRow]) -> None:
        fresh = [url for url in urls if not self._is_held(url)]
        if not fresh:
            return
        setting, decided, methods = await self.registry.do(lambda: _decided(self.marks, fresh))
        alive = [number for number, state in decided.items() if state is LinkState.PERMALIVE]
        if alive and self.trusts_tags:
            decided |= dict.fromkeys(await self.registry.read(lambda rows: links_tagged_dead(rows, alive)))
        settled = [url for url in fresh if decided[url.id] is not None or url.state in SETTLED]
        if settled:
            again = self._today + _MARKED_DAYS
            await self.registry.write(lambda rows: _settle(rows, settled, decided, due_day=again))
        self.table.gaps.decide(setting)
        names = {url.host for url in fresh}
        quirks = await self.registry.read(lambda rows: quirks_of(rows, names, day=self._today))
        for url in fresh:
            if decided[url.id] is None and url.state is not LinkState.INVALID and not self._is_held(url):
                self._add(url, quirks.get(url.host, frozenset()), methods.get(url.id))

    def _add(self, url: UrlRow, quirks: frozenset[HostQuirk], method: str | None) -> None:
        inferable = may_infer(url.standing) and HostQuirk.UNVERIFIABLE not in quirks
        by_get = HostQuirk.GET_NEEDED in quirks or (self.closer and is_stricter(url, self._today, GET_EACH))
        get_only = by_get if method is None else method == "get"
        candidate = CheckCandidate(url, get_only, self.closer and is_stricter(url, self._today, SIBLING_EACH))
        match self.table.add(url.id, url.host, candidate, inferable=inferable):
            case AddOutcome.TAKEN:
                self.in_hand.setdefault(url.host_id, {})[url.id] = url
            case AddOutcome.HELD:
                pass
            case AddOutcome.HOST_FULL | AddOutcome.FULL:
                self._crowded.add(url.host_id)
                if len(self.in_hand.get(url.host_id, ())) <= self.host_room // 2:
                    self._ready.add(url.host_id)


def _decided(
    marks: LiveMarks, urls: Sequence[UrlRow]
) -> tuple[Deciding, dict[int, LinkState | None], dict[int, str | None]]:
    """Return the current settings, and of each URL the manual decision and the method (head, get)."""
    deciding = marks.current()
    decided: dict[int, LinkState | None] = {}
    methods: dict[int, str | None] = {}
    for url in urls:
        try:
            decided[url.id] = deciding.state_of(url.url)
            methods[url.id] = deciding.setting(url.url, "method")
        except BadUrlError:  # a rule of URLs that is newer than the row
            decided[url.id] = None
    return deciding.setting, decided, methods


def _settle(rows: Connection, urls: Sequence[UrlRow], decided: dict[int, LinkState | None], *, due_day: int) -> None:
    """Set the decided states; a URL without a decision any more restarts as UNKNOWN."""
    for url in urls:
        state = decided[url.id]
        if state is not None:
            due: int | None = due_day
        elif url.state is LinkState.INVALID:
            state, due = LinkState.INVALID, None
        else:
            state, due = LinkState.UNKNOWN, URGENT_DAY if url.due_day is None else url.due_day
        set_marked_state(rows, [url.id], state, due_day=due)
