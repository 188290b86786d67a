"""Who may be asked when, within a run: one request per host at a time, with a gap; nothing waits long.

    timetable = Timetable(gap_s=6.0)
    timetable.add(url_id, host, payload, inferable=may_infer(standing))   # as long as it says TAKEN
    found = timetable.next(now)            # a turn, or the moment to ask again
    … look …
    timetable.done(found, now, finding)    # for a turn of ASK only

Pure: `now` is seconds of any steady clock. What is added comes out exactly once. Turns come in the order
of adding, so add in the random order of the keys (W40); a host that must wait lets the others pass.
Every verb takes O(log n) steps; memory is bounded by `room` and `memory`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from links.findings import Finding

P = TypeVar("P")


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


@dataclass(frozen=True, slots=True)
class Turn(Generic[P]):
    """A URL whose turn it is.

    Attributes:
        url_id: its number.
        host: its host.
        payload: what it was added with.
        move: what is to be done.
        finding: of INFER: what to book, with `How.INFERRED`.
        until: of LATER: when the host may be asked again.
    """

    url_id: int
    host: str
    payload: P
    move: Move = Move.ASK
    finding: Finding | None = None
    until: float = 0.0


class Timetable(Generic[P]):
    """See the module. Not for several threads.

    Args:
        gap_s: from the end of one request to a host to the beginning of the next at least.
        room: URLs that it holds at most.
        host_room: … of one host.
        patience_s: a host that is to be left alone for longer has its URLs handed back (LATER).
        memory: hosts without URLs that are remembered at most, for their condemnation.
    """

    def __init__(
        self,
        *,
        gap_s: float,
        room: int = 50_000,
        host_room: int = 200,
        patience_s: float = 60.0,
        memory: int = 50_000,
    ) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        """URLs that wait or are being looked at."""
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """URLs that wait for their turn."""
        raise NotImplementedError

    @property
    def room(self) -> int:
        """How many more URLs there is room for."""
        raise NotImplementedError

    def add(self, url_id: int, host: str, payload: P, *, inferable: bool = True) -> Added:
        """Let a URL wait for its turn.

        Args:
            url_id: its number.
            host: whom it is asked of.
            payload: comes back in its turn.
            inferable: whether another URL's finding may stand for a look (`links.states.may_infer`).
        """
        raise NotImplementedError

    def next(self, now: float) -> Turn[P] | float:
        """The next turn; or, when there is none now, the moment at which to ask again.

        The moment is infinite when only `done` or `add` can bring a turn.
        """
        raise NotImplementedError

    def done(self, turn: Turn[P], now: float, finding: Finding | None) -> None:
        """The look at a turn of ASK has ended; its host may be asked again after its gap.

        429 doubles the host's gap, up to 60 s, and hands its URLs back when that is not enough;
        Retry-After puts the host off; a finding that holds for all of a host condemns it: an unknown name
        at once, all else when three different URLs in a row found the same (W46).

        Args:
            turn: the turn.
            now: when it ended.
            finding: what it found; None when nothing was asked after all, or nobody knows.

        Raises:
            InvariantError: it was nobody's turn.
        """
        raise NotImplementedError

    def slow(self, host: str, gap_s: float) -> None:
        """The host asks for a gap of its own (Crawl-delay); the larger one holds, as long as it is known."""
        raise NotImplementedError

    def put_off(self, host: str, until: float, now: float) -> None:
        """Leave the host alone until that moment; beyond the patience its URLs are handed back."""
        raise NotImplementedError

    def condemn(self, host: str, finding: Finding) -> None:
        """For the rest of the pass the finding stands for the host's URLs that may be inferred."""
        raise NotImplementedError

    def new_pass(self) -> None:
        """Forget what was inferred: the next pass is unbiased. Gaps and what waits stay."""
        raise NotImplementedError
