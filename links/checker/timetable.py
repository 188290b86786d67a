"""Timetable of checks within a run: one request per host at a time, with a gap (docs/explanation/checking.md).

Without I/O: `now` is seconds of a monotonic clock. Every added URL is returned exactly once. Turns come in the
order of adding, so add in the random order of the keys (W40); URLs of waiting hosts are overtaken. Every operation
takes O(log n) steps; memory is bounded by `room` and `memory`.
"""

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from core.errors import BadUrlError, InvariantError
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode

BACKOFF_LIMIT_S = 60.0  # 429 makes a gap no longer than this
CALM = 8  # answers in a row after which a gap that 429 made longer is halved
LEAST_GAP_S = 0.05  # that people may set for a host …
LARGEST_GAP_S = 120.0  # … and the largest: a check of two requests must end within its turns
GAP_SETTING = "gap_s"

Deciding = Callable[[str, str], str | None]  # `links.feedback.marks.MarkSet.setting`


def parse_gap(text: str) -> float | None:
    """Parse the value of a setting in seconds; None when it is not valid.

    >>> parse_gap("0.5"), parse_gap("0"), parse_gap("nan")
    (0.5, None, None)
    """
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if LEAST_GAP_S <= seconds <= LARGEST_GAP_S else None


_HOSTS_REMEMBERED = 50_000  # with 429


class HostGaps:
    """Request gaps of one checker; `learned_day` is when earlier rate limits were loaded."""

    def __init__(self, gap_s: float) -> None:
        """Set the general gap."""
        self.gap_s = gap_s
        self.learned_day: int | None = None
        self._backoffs: dict[str, tuple[float, int]] = {}  # the gap after 429, and the answers in a row since
        self._setting: Deciding = lambda _url, _key: None

    def decide(self, setting: Deciding) -> None:
        """Set the manual settings of hosts."""
        self._setting = setting

    def of(self, host: str) -> float:
        """Return the seconds from the end of one request to the host to the next."""
        base = self.base(host)
        return max(base, self._backoffs[host][0]) if host in self._backoffs else base

    def base(self, host: str) -> float:
        """Return the host's gap without any 429."""
        with suppress(BadUrlError):
            text = self._setting(f"https://{host}/", GAP_SETTING)
            gap_s = None if text is None else parse_gap(text)
            if gap_s is not None:
                return gap_s
        return self.gap_s

    def refused(self, host: str) -> bool:
        """Update the gap after a 429 (doubled); return True when it was at its maximum before."""
        was, _ = self._backoffs.get(host, (0.0, 0))
        self._set(host, min(max(2 * self.base(host), 2 * was), BACKOFF_LIMIT_S))
        return was >= BACKOFF_LIMIT_S

    def answered(self, host: str) -> None:
        """Count an answer other than 429."""
        if host not in self._backoffs:
            return
        seconds, calm = self._backoffs[host]
        if calm + 1 < CALM:
            self._backoffs[host] = seconds, calm + 1
        elif seconds > 2 * self.base(host):
            self._set(host, seconds / 2)
        else:
            del self._backoffs[host]

    def begin_slowly(self, host: str) -> None:
        """Set twice the gap for a host with earlier rate limits; it shortens as after a 429."""
        if host not in self._backoffs:
            self._set(host, min(2 * self.base(host), BACKOFF_LIMIT_S))

    def _set(self, host: str, seconds: float) -> None:
        while len(self._backoffs) >= _HOSTS_REMEMBERED and host not in self._backoffs:
            del self._backoffs[next(iter(self._backoffs))]
        self._backoffs[host] = seconds, 0


P = TypeVar("P")

REST_S = 3600.0  # when the longest gap is too short (`links.checker.timetable`), a host is not requested for this long
PATIENCE_S = 60.0  # longest delay of a host whose URLs wait for it
ALIKE = 3  # different URLs in a row that must fail alike before their host is condemned (W46)


class AddOutcome(Enum):
    """Outcome of adding a URL."""

    TAKEN = "taken"
    HELD = "held"  # it is already queued, or being checked
    HOST_FULL = "host full"  # enough of that host wait: offer it again later, it stays due
    FULL = "full"  # the whole table is full: offer it again when there is room


class TurnAction(Enum):
    """Action for a URL whose turn it is."""

    ASK = "ask"  # check it, then call `done`
    INFER = "infer"  # book `Turn.finding`, which another URL of the host had; no request is sent
    LATER = "later"  # the host must not be requested during this run: until `Turn.until`


class CheckTurn(NamedTuple, Generic[P]):
    """URL whose turn it is."""

    url_id: int  # its number
    host: str
    payload: P  # as given when it was added
    move: TurnAction = TurnAction.ASK
    finding: CheckResult | None = None  # of INFER: the result to store, with `CheckMethod.INFERRED`
    until: float = 0.0  # of LATER: end of the host's delay
    tries: int = 0  # number of earlier requests in this run
    inferable: bool = True  # another URL's result may replace a check


class _TimetableHost(Generic[P]):
    """State of a host while it has URLs in the timetable, or is delayed."""

    __slots__ = ("alike", "away", "busy", "code", "name", "queue", "ready", "token")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[tuple[int, CheckTurn[P]]] = deque()  # place, turn
        self.busy: int | None = None  # the URL that is being requested from it
        self.ready = -math.inf  # earliest time of the next request
        self.away = False  # its URLs are handed back
        self.code = -1  # the last whole-host failure
        self.alike: set[int] = set()  # URLs in a row that had it
        self.token = 0  # of its one entry in a heap that counts


class Timetable(Generic[P]):
    """Schedule of one run. Not thread-safe; `room`, `host_room`, `memory`: limits of URLs and failed hosts.

    URLs of a host with a longer delay than `PATIENCE_S` are returned (LATER).
    """

    def __init__(
        self, *, gaps: HostGaps | float, room: int = 50_000, host_room: int = 200, tries: int = 1, memory: int = 50_000
    ) -> None:
        self.gaps = gaps if isinstance(gaps, HostGaps) else HostGaps(gaps)
        self._room = room
        self._host_room = host_room
        self._tries = tries
        self._memory = memory
        self._now = -math.inf
        self._number = 0
        self._hosts: dict[str, _TimetableHost[P]] = {}
        self._held: set[int] = set()
        self._condemned: dict[str, CheckResult] = {}
        self._judged: deque[CheckTurn[P]] = deque()
        self._ready: list[tuple[int, int, _TimetableHost[P]]] = []  # by the place of its first URL
        # By the moment it may be asked, and by the one it may be forgotten.
        self._waiting: list[tuple[float, int, _TimetableHost[P]]] = []
        self._idle: list[tuple[float, int, _TimetableHost[P]]] = []

    @property
    def room(self) -> int:
        """Return the number of URLs that can be added."""
        return self._room - len(self._held)

    def add(self, url_id: int, host: str, payload: P, *, inferable: bool = True) -> AddOutcome:
        """Add a URL; `inferable`: another URL's result may replace its check (`links.states.may_infer`)."""
        if url_id in self._held:
            return AddOutcome.HELD
        if len(self._held) >= self._room:
            return AddOutcome.FULL
        turn: CheckTurn[P] = CheckTurn(url_id, host, payload, inferable=inferable)
        finding = self._condemned.get(host) if inferable else None
        if finding is not None:
            self._judged.append(turn._replace(move=TurnAction.INFER, finding=finding))
        else:
            known = self._hosts.get(host)
            if known is None:
                known = self._hosts[host] = _TimetableHost(host)
            elif known.away:
                self._judged.append(turn._replace(move=TurnAction.LATER, until=known.ready))
                self._held.add(url_id)
                return AddOutcome.TAKEN
            elif len(known.queue) >= self._host_room:
                return AddOutcome.HOST_FULL
            self._number += 1
            known.queue.append((self._number, turn))
            if known.busy is None and len(known.queue) == 1:
                self._place(known)
        self._held.add(url_id)
        return AddOutcome.TAKEN

    def next(self, now: float) -> CheckTurn[P] | float:
        """Return the next turn, or the time of the next attempt: infinite until the next `done` or `add`."""
        self._now = now
        while self._idle and self._idle[0][0] <= now:  # hosts without URLs and delay
            _, token, host = heappop(self._idle)
            if token == host.token:
                del self._hosts[host.name]
        if self._judged:
            turn = self._judged.popleft()
            self._held.remove(turn.url_id)
            return turn
        waiting = self._waiting
        while waiting and waiting[0][0] <= now:
            _, token, host = heappop(waiting)
            if token == host.token:
                self._place(host)
        while self._ready:
            _, token, host = heappop(self._ready)
            if token == host.token:
                _, turn = host.queue.popleft()
                host.busy = turn.url_id
                return turn
        while waiting and waiting[0][1] != waiting[0][2].token:
            heappop(waiting)
        return waiting[0][0] if waiting else math.inf

    def done(self, turn: CheckTurn[P], now: float, finding: CheckResult | None) -> bool:
        """Complete a turn of ASK; False when its turn comes again: store nothing.

        429 doubles the host's gap, Retry-After delays the host, a host-wide failure marks the host: an unknown name at
        once, all else when three URLs in a row had the same (W46). The finding is None without a request.
        """
        host = self._hosts.get(turn.host)
        if host is None or host.busy != turn.url_id:
            raise InvariantError(f"URL {turn.url_id} at {turn.host} was not being looked at.")
        self._now = now
        host.busy = None
        again = False
        if finding is not None:
            self._learn(host, turn.url_id, finding)
            # Adapt the host's interval; pause when it requests a pause.
            if finding.code == StatusCode.TOO_MANY:
                if self.gaps.refused(host.name):
                    self._leave(host, now + REST_S, now)
            else:
                self.gaps.answered(host.name)
            if finding.retry_after_s is not None:
                self._leave(host, now + finding.retry_after_s, now)
            again = finding.code == StatusCode.TOO_MANY and not host.away and turn.tries + 1 < self._tries
        host.ready = max(host.ready, now + self.gaps.of(host.name))
        if again:
            self._number += 1
            host.queue.appendleft((self._number, turn._replace(tries=turn.tries + 1)))
        else:
            self._held.remove(turn.url_id)
        self._place(host)
        return not again

    def condemn(self, host: str, finding: CheckResult) -> None:
        """Mark the host as failed: for the rest of the run the result applies to its inferable URLs."""
        inferred = replace(finding, how=CheckMethod.INFERRED, note=f"inferred: {finding.note}")
        inferred = replace(inferred, final_url="", hops=(), retry_after_s=None, seconds=0.0)
        while len(self._condemned) >= self._memory and host not in self._condemned:
            del self._condemned[next(iter(self._condemned))]
        self._condemned[host] = inferred
        known = self._hosts.get(host)
        if known is None:
            return
        own = deque(entry for entry in known.queue if not entry[1].inferable)
        self._judged.extend(
            turn._replace(move=TurnAction.INFER, finding=inferred) for _, turn in known.queue if turn.inferable
        )
        known.queue = own
        if known.busy is None:
            self._place(known)

    def new_pass(self) -> None:
        """Clear inferred failures for the next run. Gaps and waiting URLs are kept."""
        self._condemned.clear()
        for host in self._hosts.values():
            host.code = -1
            host.alike.clear()

    def _place(self, host: _TimetableHost[P]) -> None:
        """Set the single queue entry of an idle host: ready, waiting, or without URLs."""
        self._number += 1
        host.token = self._number
        if not host.queue:
            heappush(self._idle, (host.ready, host.token, host))
        elif host.ready <= self._now:
            heappush(self._ready, (host.queue[0][0], host.token, host))
        else:
            heappush(self._waiting, (host.ready, host.token, host))

    def _learn(self, host: _TimetableHost[P], url_id: int, finding: CheckResult) -> None:
        """Mark the host as failed when its URLs fail alike; clear it when it answers."""
        is_failure = finding.verdict in (CheckVerdict.FAILING, CheckVerdict.GONE)
        if not is_failure or not (finding.whole_host or finding.code == StatusCode.BAD_GATEWAY):
            if host.alike:
                host.code = -1
                host.alike.clear()
            if finding.http is not None and self._condemned:
                self._condemned.pop(host.name, None)
            return
        if host.code != finding.code:
            host.alike.clear()
        host.code = finding.code
        if len(host.alike) < ALIKE:
            host.alike.add(url_id)
        if finding.code == StatusCode.DNS_UNKNOWN or len(host.alike) >= ALIKE:
            self.condemn(host.name, finding)

    def _leave(self, host: _TimetableHost[P], until: float, now: float) -> None:
        """Pause the host until then; the caller calls `_place`."""
        host.ready = max(host.ready, until)
        if until - now <= PATIENCE_S:
            return
        host.away = True
        self._judged.extend(turn._replace(move=TurnAction.LATER, until=host.ready) for _, turn in host.queue)
        host.queue.clear()
