"""States of a link, as a table: what it is now, and what each look at it makes of that.

A state is a function of a history of looks, never of one (`links.findings.Verdict` is one look's).
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag


class State(IntEnum):
    """What is known of a link, by the numbers that the registry keeps."""

    UNKNOWN = 0  # never looked at, or nothing that was seen says anything
    ALIVE = 1
    DYING = 2  # it failed, not often or not long enough to be dead
    DEAD = 3
    BLOCKED = 4  # it answers, but not to us: not dead, and nobody knows whether it is there
    USURPED = 5  # the domain has another owner
    DEVIATED = 6  # it answers with another content than the copy's
    PERMALIVE = 7  # a person said so, and it is not looked at
    PERMADEAD = 8
    INVALID = 9  # MediaWiki takes it for a URL, nobody can ask for it (W48)
    EXCLUDED = 10  # by policy: never looked at


class Proof(IntFlag):
    """What the failures on the way to DEAD were seen by."""

    NONE = 0
    GET = 1
    BROWSER = 2


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a link stands.

    Attributes:
        state: its state.
        fails: failures in a row that count.
        first_fail: the day of the first of them; None without any.
        last_fail: the day of the last of them; None without any.
        proofs: what saw them.
    """

    state: State = State.UNKNOWN
    fails: int = 0
    first_fail: int | None = None
    last_fail: int | None = None
    proofs: Proof = Proof.NONE
