"""What a checker works with, how a pass is made, and how it stands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.clock import Clock
from links.asking.protocol import Looks
from links.checking.booking import Booked
from links.checking.desk import Desk
from links.checking.feeding import Marks
from links.checking.judging import Rules
from links.checking.keeping import Tenure
from links.checking.parts import WHOLE, Part
from links.checking.turns import HostTurns
from links.states import State


@dataclass(frozen=True, slots=True)
class Means:
    """What a checker works with, pass for pass; whoever made it closes it.

    Attributes:
        desk: the registry.
        looks: who looks; it takes its turns at `turns`.
        turns: at the hosts.
        tenure: the right to ask the hosts of a part.
        clock: the time.
        marks: what people decided.
    """

    desk: Desk
    looks: Looks
    turns: HostTurns
    tenure: Tenure
    clock: Clock
    marks: Marks


@dataclass(frozen=True, slots=True)
class Plan:
    """How a pass is made.

    Attributes:
        rules: what findings are judged by.
        part: of the hosts.
        connections: looks side by side.
        limit: looks at most; None: all that is due.
        waiting: results that may wait for the database.
        host_room: URLs of a host that are held at the same time.
        closer: now and then a look goes closer though nothing calls for it (`links.checking.siblings`).
    """

    rules: Rules
    part: Part = WHOLE
    connections: int = 500
    limit: int | None = None
    waiting: int = 20_000
    host_room: int = 200
    closer: bool = True


@dataclass(slots=True)
class Tally:
    """How a pass stands.

    Attributes:
        due: URLs that were due when it began.
        kept: looks whose results are kept.
        states: … by the state they led to.
        inferred: … of which nothing was asked.
        put_off: URLs whose hosts want to be left alone for now.
        active: looks that go on.
        waiting: results that wait for the database.
        is_complete: everything that was due was looked at.
    """

    due: int = 0
    kept: int = 0
    states: dict[State, int] | None = None
    inferred: int = 0
    put_off: int = 0
    active: int = 0
    waiting: int = 0
    is_complete: bool = False

    def count(self, booked: Booked) -> None:
        """Count a result that was kept."""
        self.states = self.states if self.states is not None else {}
        self.states[booked.after] = self.states.get(booked.after, 0) + 1


OnKept = Callable[[Sequence[Booked], Tally], None]
