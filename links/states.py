"""States of a link, as a table: what it is now, and what each look at it makes of that.

A state is a function of a history of looks, never of one (`links.findings.Verdict` is one look's).
`TRANSITIONS` says what is done for each state and verdict, `after` does it; how many failures over how
many days are too many, `links.presets` says. These hold whatever comes:

- Any good look resets at once. What only the browser saw (another owner, another content, a page that
  says with a 200 that there is none), only the browser takes back.
- Who was refused knows nothing: blocked is never dead, until the server itself says that the page is
  gone, every time.
- A failure inferred from another URL of the host (W46) can only be the first of a run, and never the
  last: what makes a link dead is its own.
- What may be no page (`Verdict.SUSPECT`) is nobody's failure; the browser is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, IntFlag

from core.errors import InvariantError
from links.findings import Finding, How, Verdict
from links.presets import Preset, Toll
from links.status import REEXAMINED, Code


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
    """What the failures of the present run were seen by, and what else must be remembered of it."""

    NONE = 0
    GET = 1
    BROWSER = 2
    PASSING = 4  # one of them may pass: the larger toll
    INFERRED = 8  # the first was inferred from another URL of the host
    SUSPECT = 16  # the browser is to look at it
    SOFT = 32  # the browser saw a page that says that there is none: a 200 does not reset it
    GUARDED = 64  # it was blocked before: only what is gone counts
    TAGGED = 128  # a wiki's page calls it dead, and that is trusted


class Rule(Enum):
    """What is done about a verdict."""

    KEEP = "nothing changes"
    CLEAR = "alive, and all failures forgotten"
    COUNT = "one failure more: dying, or dead when the toll is reached"
    BLOCK = "blocked, and all failures forgotten"
    DOUBT = "as it is; the browser is asked"
    SEEN = (
        "the browser's: good is alive, gone is a failure more; anybody else's: the browser is asked"
    )
    USURP = "the browser's: usurped; anybody else's: the browser is asked"
    DEVIATE = "the browser's: deviated; anybody else's: the browser is asked"
    VOID = "invalid"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a link stands.

    Attributes:
        state: its state.
        fails: failures in a row that count.
        first_fail: the day of the first of them; None without any.
        last_fail: the day of the last of them, of a dead link that of the last look; None without any.
        proofs: what saw them.
    """

    state: State = State.UNKNOWN
    fails: int = 0
    first_fail: int | None = None
    last_fail: int | None = None
    proofs: Proof = Proof.NONE


# For each state, what is done about each verdict in the order of `Verdict`:
# ok, gone, failing, refused, undecided, suspect, deviated, usurped, invalid.
TRANSITIONS: Mapping[tuple[State, Verdict], Rule] = {}


def after(
    standing: Standing, finding: Finding, day: int, preset: Preset, *, browser: bool
) -> Standing:
    """Where the link stands after a look.

    The same object comes back when nothing changes. A finding may come late or twice: a second one of
    a day is no second failure.

    Args:
        standing: where it stood.
        finding: what the look found, in the order of the looks.
        day: the day of the look.
        preset: what it takes.
        browser: whether there is a browser to ask; without one nothing waits for its word.

    Raises:
        InvariantError: the table has no rule for the state and the verdict.
    """
    raise NotImplementedError


def needs_browser(standing: Standing, preset: Preset, day: int) -> bool:
    """Whether the browser must look before anything more can be said, on that day.

    Its next failure would make the link dead, or a look saw what only the browser can judge.
    """
    raise NotImplementedError


def may_infer(standing: Standing) -> bool:
    """Whether a failure of the link's host may stand for a look at the link itself (W46).

    Only as the first failure of a run, or once it is dead: so an inference is undone or confirmed by the
    link's own next look, and one outage never makes up a run of failures.
    """
    raise NotImplementedError


def marked(standing: Standing, mark: State | None) -> Standing:
    """Where the link stands once people decided (B10, B11, A16).

    Args:
        standing: where it stood.
        mark: PERMALIVE, PERMADEAD or EXCLUDED; None when no mark is left: a link that was marked
            begins anew as UNKNOWN.

    Raises:
        InvariantError: the mark is no such state.
    """
    raise NotImplementedError
