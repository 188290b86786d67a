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
    """What is done about a verdict, in words for the documentation."""

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


_ORDER = tuple(
    Verdict
)  # ok, gone, failing, refused, undecided, suspect, deviated, usurped, invalid
_K, _COUNT, _BLOCK, _DOUBT, _SEEN = Rule.KEEP, Rule.COUNT, Rule.BLOCK, Rule.DOUBT, Rule.SEEN
_OTHERS = (_K, _DOUBT, Rule.DEVIATE, Rule.USURP)  # undecided, suspect, deviated, usurped
_OPEN = (Rule.CLEAR, _COUNT, _COUNT, _BLOCK, *_OTHERS, _K)
_BY_EYE = (_SEEN, _SEEN, _K, _K, *_OTHERS, _K)
_CLOSED = (_K,) * len(_ORDER)
_ROWS: Mapping[State, tuple[Rule, ...]] = {
    State.UNKNOWN: (*_OPEN[:-1], Rule.VOID),
    State.ALIVE: _OPEN,
    State.DYING: _OPEN,
    State.DEAD: _OPEN,
    State.BLOCKED: (Rule.CLEAR, _COUNT, _K, _BLOCK, *_OTHERS, _K),
    State.USURPED: _BY_EYE,
    State.DEVIATED: _BY_EYE,
    State.PERMALIVE: _CLOSED,
    State.PERMADEAD: _CLOSED,
    State.INVALID: _CLOSED,
    State.EXCLUDED: _CLOSED,
}
# What is done for each state and verdict. A pair that is not in here is a mistake of ours.
TRANSITIONS: Mapping[tuple[State, Verdict], Rule] = {
    (state, verdict): rule
    for state, row in _ROWS.items()
    for verdict, rule in zip(_ORDER, row, strict=True)
}
MARKS = frozenset({State.PERMALIVE, State.PERMADEAD, State.EXCLUDED})
_INFERABLE = frozenset({State.UNKNOWN, State.ALIVE, State.DEAD})
_MOST_FAILS = 255
_BY = {How.GET: Proof.GET, How.BROWSER: Proof.GET | Proof.BROWSER}  # a browser asks by GET
_ON_THE_SPOT = Toll(1, 0)


def after(
    standing: Standing, finding: Finding, day: int, preset: Preset, *, browser: bool
) -> Standing:
    """Where the link stands after a look.

    The same object comes back when nothing changes. Looks are to come in the order of their days; a
    second failure of one day is no second failure.

    Args:
        standing: where it stood.
        finding: what the look found.
        day: the day of the look.
        preset: what it takes.
        browser: whether there is a browser to ask; without one nothing waits for its word.

    Raises:
        InvariantError: the table has no rule for the state and the verdict.
    """
    rule = TRANSITIONS.get((standing.state, finding.verdict))
    if rule is None:
        raise InvariantError(f"No rule says what {finding.verdict!r} makes of {standing.state!r}.")
    if finding.how is How.PERSON:
        return _told(standing, finding, day, preset)
    if finding.how is How.INFERRED and (rule is not Rule.COUNT or not may_infer(standing)):
        return standing
    seen = finding.how is How.BROWSER
    if (
        seen
        and standing.proofs & Proof.SUSPECT
        and standing.state not in MARKS
        and finding.verdict is not Verdict.UNDECIDED
    ):
        standing = replace(standing, proofs=standing.proofs & ~Proof.SUSPECT)
    if rule is Rule.COUNT or (rule is Rule.SEEN and seen and finding.verdict is Verdict.GONE):
        return _counted(standing, finding, day, preset, browser=browser)
    if rule is Rule.CLEAR or (rule is Rule.SEEN and seen):
        return _cleared(standing, seen=seen, browser=browser)
    return _changed(standing, finding, rule)


def needs_browser(standing: Standing, preset: Preset, day: int) -> bool:
    """Whether the browser must look before anything more can be said, on that day.

    Its next failure would make the link dead, or a look saw what only the browser can judge.
    """
    if Proof.SUSPECT in standing.proofs:
        return True
    if not preset.needs_browser or standing.state is not State.DYING:
        return False
    fails = standing.fails + _counts(standing, day, preset)
    return _reached(replace(standing, fails=fails, proofs=standing.proofs | Proof.GET), preset, day)


def may_infer(standing: Standing) -> bool:
    """Whether a failure of the link's host may stand for a look at the link itself (W46).

    Only as the first failure of a run, or once it is dead: so an inference is undone or confirmed by the
    link's own next look, and one outage never makes up a run of failures.
    """
    return standing.state in _INFERABLE


def marked(standing: Standing, mark: State | None) -> Standing:
    """Where the link stands once people decided (B10, B11, A16).

    Args:
        standing: where it stood.
        mark: PERMALIVE, PERMADEAD or EXCLUDED; None when no mark is left: a link that was marked
            begins anew as UNKNOWN.

    Raises:
        InvariantError: the mark is no such state.
    """
    if mark is None:
        return Standing() if standing.state in MARKS else standing
    if mark not in MARKS:
        raise InvariantError(f"{mark!r} is nothing that people decide.")
    return Standing(mark)


def _told(standing: Standing, finding: Finding, day: int, preset: Preset) -> Standing:
    """After a person's word: a tag that is trusted waits for a failure, or ends PERMALIVE."""
    if finding.verdict is Verdict.OK and Proof.TAGGED in standing.proofs:
        return replace(standing, proofs=standing.proofs & ~Proof.TAGGED)
    if finding.verdict is not Verdict.GONE or not preset.trusts_tags:
        return standing
    if standing.state is State.PERMALIVE:
        return Standing(State.DEAD, 1, day, day, Proof.TAGGED)
    if TRANSITIONS[standing.state, Verdict.GONE] is Rule.KEEP:
        return standing
    return replace(standing, proofs=standing.proofs | Proof.TAGGED)


def _cleared(standing: Standing, *, seen: bool, browser: bool) -> Standing:
    if standing.state is State.ALIVE and not standing.fails and not standing.proofs:
        return standing
    if Proof.SOFT in standing.proofs and browser and not seen:
        return replace(standing, proofs=standing.proofs | Proof.SUSPECT)
    return Standing(State.ALIVE)


def _changed(standing: Standing, finding: Finding, rule: Rule) -> Standing:
    """After all that neither clears nor counts."""
    seen = finding.how is How.BROWSER
    match rule:
        case Rule.BLOCK:
            doubtful = finding.code in REEXAMINED and not seen
            return Standing(State.BLOCKED, proofs=Proof.SUSPECT if doubtful else Proof.NONE)
        case Rule.VOID:
            return Standing(State.INVALID)
        case Rule.USURP if seen:
            return Standing(State.USURPED)
        case Rule.DEVIATE if seen:
            return Standing(State.DEVIATED)
        case Rule.KEEP:
            return standing
        case _:  # a doubt; of the browser's own nobody else can be asked
            return standing if seen else replace(standing, proofs=standing.proofs | Proof.SUSPECT)


def _counted(
    standing: Standing, finding: Finding, day: int, preset: Preset, *, browser: bool
) -> Standing:
    if standing.state is State.DEAD:
        if standing.last_fail is not None and day <= standing.last_fail:
            return standing
        return replace(standing, fails=min(standing.fails + 1, _MOST_FAILS), last_fail=day)
    sure = finding.verdict is Verdict.GONE and not finding.whole_host
    if Proof.GUARDED in standing.proofs and finding.verdict is not Verdict.GONE:
        return standing
    counts = _counts(standing, day, preset)
    new = Standing(
        State.DYING,
        min(standing.fails + counts, _MOST_FAILS),
        day if standing.first_fail is None else standing.first_fail,
        day if counts else standing.last_fail,
        standing.proofs | _proofs(standing, finding, sure=sure),
    )
    waits = browser and preset.needs_browser and finding.how is not How.BROWSER
    if finding.how is How.INFERRED or waits or not _reached(new, preset, day):
        return new
    return replace(new, state=State.DEAD)


def _proofs(standing: Standing, finding: Finding, *, sure: bool) -> Proof:
    """What a failure adds to what is remembered of the run."""
    proofs = _BY.get(finding.how, Proof.NONE)
    if not sure:
        proofs |= Proof.PASSING
    if finding.how is How.INFERRED:
        proofs |= Proof.INFERRED
    if finding.how is How.BROWSER and finding.code == Code.SOFT_404:
        proofs |= Proof.SOFT
    if standing.state is State.BLOCKED:
        proofs |= Proof.GUARDED
    return proofs


def _counts(standing: Standing, day: int, preset: Preset) -> bool:
    """Whether a failure of that day is one more."""
    return standing.last_fail is None or day - standing.last_fail >= preset.apart_days


def _reached(standing: Standing, preset: Preset, day: int) -> bool:
    """Whether the run of failures is what makes a link dead."""
    if preset.needs_get and Proof.GET not in standing.proofs:
        return False
    if Proof.TAGGED in standing.proofs and preset.trusts_tags:
        toll = _ON_THE_SPOT
    else:
        toll = preset.passing if Proof.PASSING in standing.proofs else preset.sure
    first = day if standing.first_fail is None else standing.first_fail
    return standing.fails >= toll.fails and day - first >= toll.days
