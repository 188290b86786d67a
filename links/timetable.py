"""Who may be asked when, within a run: one request per host at a time, with a gap; nothing waits long.

    timetable = Timetable(gaps=6.0)
    timetable.add(url_id, host, payload, inferable=may_infer(standing))   # as long as it says TAKEN
    found = timetable.next(now)            # a turn, or the moment to ask again
    … look …
    timetable.done(found, now, finding)    # for a turn of ASK only

Pure: `now` is seconds of any steady clock. What is added comes out exactly once. Turns come in the order
of adding, so add in the random order of the keys (W40); a host that must wait lets the others pass.
Every verb takes O(log n) steps; memory is bounded by `room` and `memory`.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from core.errors import InvariantError
from links.findings import Finding, How, Verdict
from links.host_gaps import HostGaps
from links.status import Code

P = TypeVar("P")

REST_S = 3600.0  # when the longest gap is too short (`links.host_gaps`), a host is left alone for so long
ALIKE = 3  # different URLs in a row that must fail alike before their host is condemned (W46)


class Added(Enum):
    """What became of a URL that was added."""

    TAKEN = "taken"
    HELD = "held"  # it is in here already, or being looked at
    HOST_FULL = "host full"  # enough of that host wait: offer it again later, it stays due
    FULL = "full"  # the whole table is full: offer it again when there is room


class Move(Enum):
    """What is to be done about a URL."""

    ASK = "ask"  # look at it, then say `done`
    INFER = "infer"  # book `Turn.finding`, which another URL of the host had; nobody is asked
    LATER = "later"  # the host is to be left alone beyond this run's patience: until `Turn.until`


class Turn(NamedTuple, Generic[P]):
    """A URL whose turn it is.

    Attributes:
        url_id: its number.
        host: its host.
        payload: what it was added with.
        move: what is to be done.
        finding: of INFER: what to book, with `How.INFERRED`.
        until: of LATER: when the host may be asked again.
        tries: how often it was asked already, in this run.
        inferable: whether another URL's finding may stand for a look.
    """

    url_id: int
    host: str
    payload: P
    move: Move = Move.ASK
    finding: Finding | None = None
    until: float = 0.0
    tries: int = 0
    inferable: bool = True


class _Host(Generic[P]):
    """What is known of a host as long as it has URLs in here, or must be left alone."""

    __slots__ = (
        "alike",
        "away",
        "busy",
        "code",
        "name",
        "queue",
        "ready",
        "token",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[tuple[int, Turn[P]]] = deque()  # place, turn
        self.busy: int | None = None  # the URL that it is being asked for
        self.ready = -math.inf  # when it may be asked next
        self.away = False  # its URLs are handed back
        self.code = -1  # the last whole-host failure
        self.alike: set[int] = set()  # URLs in a row that had it
        self.token = 0  # of its one entry in a heap that counts


class Timetable(Generic[P]):
    """See the module. Not for several threads; `now` never goes back.

    Args:
        gaps: from the end of one request to a host to the beginning of the next at least; a number
            is that of every host.
        room: URLs that it holds at most.
        host_room: … of one host.
        patience_s: a host that is to be left alone for longer has its URLs handed back (LATER).
        tries: a URL that got a 429 is asked again, so often in all, at its host's longer gap.
        memory: condemned hosts that are remembered at most; of more the first are asked again.
    """

    def __init__(
        self,
        *,
        gaps: HostGaps | float,
        room: int = 50_000,
        host_room: int = 200,
        patience_s: float = 60.0,
        tries: int = 1,
        memory: int = 50_000,
    ) -> None:
        self.gaps = gaps if isinstance(gaps, HostGaps) else HostGaps(gaps)
        self._room = room
        self._host_room = host_room
        self._patience_s = patience_s
        self._tries = tries
        self._memory = memory
        self._now = -math.inf
        self._number = 0
        self._hosts: dict[str, _Host[P]] = {}
        self._held: set[int] = set()
        self._asked = 0
        self._condemned: dict[str, Finding] = {}
        self._judged: deque[Turn[P]] = deque()
        self._ready: list[tuple[int, int, _Host[P]]] = []  # by the place of its first URL
        self._waiting: list[tuple[float, int, _Host[P]]] = []  # by the moment it may be asked
        self._idle: list[tuple[float, int, _Host[P]]] = []  # by the moment it may be forgotten

    def __len__(self) -> int:
        """URLs that wait or are being looked at."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """URLs that wait for their turn."""
        return len(self._held) - self._asked

    @property
    def room(self) -> int:
        """How many more URLs there is room for."""
        return self._room - len(self._held)

    def add(self, url_id: int, host: str, payload: P, *, inferable: bool = True) -> Added:
        """Let a URL wait for its turn.

        Args:
            url_id: its number.
            host: whom it is asked of.
            payload: comes back in its turn.
            inferable: whether another URL's finding may stand for a look (`links.states.may_infer`).
        """
        if url_id in self._held:
            return Added.HELD
        if len(self._held) >= self._room:
            return Added.FULL
        turn: Turn[P] = Turn(url_id, host, payload, inferable=inferable)
        finding = self._condemned.get(host) if inferable else None
        if finding is not None:
            self._judged.append(turn._replace(move=Move.INFER, finding=finding))
        else:
            known = self._hosts.get(host)
            if known is None:
                known = self._hosts[host] = _Host(host)
            elif known.away:
                self._judged.append(turn._replace(move=Move.LATER, until=known.ready))
                self._held.add(url_id)
                return Added.TAKEN
            elif len(known.queue) >= self._host_room:
                return Added.HOST_FULL
            self._number += 1
            known.queue.append((self._number, turn))
            if known.busy is None and len(known.queue) == 1:
                self._place(known)
        self._held.add(url_id)
        return Added.TAKEN

    def next(self, now: float) -> Turn[P] | float:
        """The next turn; or, when there is none now, the moment at which to ask again.

        The moment is infinite when only `done` or `add` can bring a turn.
        """
        self._now = now
        if self._idle and self._idle[0][0] <= now:
            self._forget(now)
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
                self._asked += 1
                return turn
        while waiting and waiting[0][1] != waiting[0][2].token:
            heappop(waiting)
        return waiting[0][0] if waiting else math.inf

    def done(self, turn: Turn[P], now: float, finding: Finding | None) -> bool:
        """The look at a turn of ASK has ended; its host may be asked again after its gap.

        429 doubles the host's gap, up to 60 s, and hands its URLs back when that is not enough;
        Retry-After puts the host off; a finding that holds for all of a host condemns it: an unknown name
        at once, all else when three different URLs in a row found the same (W46). An answer from a host
        that was condemned acquits it.

        Args:
            turn: the turn.
            now: when it ended.
            finding: what it found; None when nothing was asked after all, or nobody knows.

        Returns:
            Whether the look counts. False: it got a 429 and has tries left; book nothing, its turn comes
            again.

        Raises:
            InvariantError: it was nobody's turn.
        """
        host = self._hosts.get(turn.host)
        if host is None or host.busy != turn.url_id:
            raise InvariantError(f"URL {turn.url_id} at {turn.host} was not being looked at.")
        self._now = now
        self._asked -= 1
        host.busy = None
        again = False
        if finding is not None:
            self._learn(host, turn.url_id, finding)
            self._pace(host, finding, now)
            hurried = finding.code == Code.TOO_MANY and not host.away
            again = hurried and turn.tries + 1 < self._tries
        host.ready = max(host.ready, now + self.gaps.of(host.name))
        if again:
            self._number += 1
            host.queue.appendleft((self._number, turn._replace(tries=turn.tries + 1)))
        else:
            self._held.remove(turn.url_id)
        self._place(host)
        return not again

    def put_off(self, host: str, until: float, now: float) -> None:
        """Leave the host alone until that moment; beyond the patience its URLs are handed back."""
        known = self._known(host)
        self._leave(known, until, now)
        if known.busy is None:
            self._place(known)

    def condemn(self, host: str, finding: Finding) -> None:
        """For the rest of the pass the finding stands for the host's URLs that may be inferred."""
        inferred = replace(
            finding,
            how=How.INFERRED,
            note=f"inferred: {finding.note}",
            final_url="",
            hops=(),
            retry_after_s=None,
            seconds=0.0,
        )
        while len(self._condemned) >= self._memory and host not in self._condemned:
            del self._condemned[next(iter(self._condemned))]
        self._condemned[host] = inferred
        known = self._hosts.get(host)
        if known is None:
            return
        own = deque(entry for entry in known.queue if not entry[1].inferable)
        self._judge(
            turn._replace(move=Move.INFER, finding=inferred)
            for _, turn in known.queue
            if turn.inferable
        )
        known.queue = own
        if known.busy is None:
            self._place(known)

    def new_pass(self) -> None:
        """Forget what was inferred: the next pass is unbiased. Gaps and what waits stay."""
        self._condemned.clear()
        for host in self._hosts.values():
            host.code = -1
            host.alike.clear()

    def _known(self, name: str) -> _Host[P]:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name)
            self._place(host)
        return host

    def _place(self, host: _Host[P]) -> None:
        """Give a host that is not busy its one entry: it can be asked, must wait, or has no URL."""
        self._number += 1
        host.token = self._number
        if not host.queue:
            heappush(self._idle, (host.ready, host.token, host))
        elif host.ready <= self._now:
            heappush(self._ready, (host.queue[0][0], host.token, host))
        else:
            heappush(self._waiting, (host.ready, host.token, host))

    def _forget(self, now: float) -> None:
        """Let go of hosts that have no URL and need not be left alone."""
        while self._idle and self._idle[0][0] <= now:
            _, token, host = heappop(self._idle)
            if token == host.token:
                del self._hosts[host.name]

    def _learn(self, host: _Host[P], url_id: int, finding: Finding) -> None:
        """Condemn the host when its URLs fail alike; acquit it when it answers."""
        if not _is_host_wide(finding):
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
        at_once = finding.code == Code.DNS_UNKNOWN
        if at_once or len(host.alike) >= ALIKE:
            self.condemn(host.name, finding)

    def _pace(self, host: _Host[P], finding: Finding, now: float) -> None:
        """Let the host's gap grow or shrink; leave it alone when it says so."""
        if finding.code == Code.TOO_MANY:
            if self.gaps.refused(host.name):
                self._leave(host, now + REST_S, now)
        else:
            self.gaps.answered(host.name)
        if finding.retry_after_s is not None:
            self._leave(host, now + finding.retry_after_s, now)

    def _leave(self, host: _Host[P], until: float, now: float) -> None:
        """Leave it alone until then; the caller places it."""
        host.ready = max(host.ready, until)
        if until - now <= self._patience_s:
            return
        host.away = True
        self._judge(turn._replace(move=Move.LATER, until=host.ready) for _, turn in host.queue)
        host.queue.clear()

    def _judge(self, turns: Iterable[Turn[P]]) -> None:
        """Hand these out before anything is asked."""
        self._judged.extend(turns)


def _is_host_wide(finding: Finding) -> bool:
    """Whether the finding may hold for all URLs of its host."""
    if finding.verdict is not Verdict.FAILING and finding.verdict is not Verdict.GONE:
        return False
    return finding.whole_host or finding.code == Code.BAD_GATEWAY
