"""Link states, their transitions, and the failure thresholds of each preset.

A failure is sure when the server itself says that the page is gone; all else may pass: an error, a
time-out, and everything that strikes a whole host, its name included, since domains lapse and are
renewed. A run of failures in which one may pass is held against the larger toll.

`DEFAULT`'s tolls: sure failures are at least 3 over 9 days (research links.md 2.5). Those that may pass
are at least 5 over 18 days: an outage of two weeks spans 14 days and, with a stray failure three days
before it, 17; and a host that goes the day after it was seen fails first a week later, so that its links
are dead 26 days after it went, which leaves two of the four weeks' days for a checker that is late.

A state is a function of a history of looks, never of one (`links.check_result.CheckVerdict` is one look's).
`TRANSITIONS` says what is done for each state and verdict, `next_health` does it; how many failures over how
many days are too many, `links.states` says. These hold whatever comes:

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

from core.errors import ConfigError, InvariantError
from links.check_result import REEXAMINED, CheckMethod, CheckResult, CheckVerdict, StatusCode


@dataclass(frozen=True, slots=True)
class FailureThreshold:
    """What a run of failures must reach.

    Attributes:
        fails: failures that count, at least.
        days: from the first of them to the last look, at least.
    """

    fails: int
    days: int


@dataclass(frozen=True, slots=True)
class CheckPreset:
    """Rules for states and schedules.

    Attributes:
        name: what the setting says.
        sure: the toll when every failure says that the page is gone.
        passing: the toll when one of them may pass.
        apart_days: a failure sooner after the last that counted does not count.
        needs_get: one failure at least must be an own GET, or the browser's.
        needs_browser: where there is a browser, the last failure must be its.
        trusts_tags: what a wiki's page calls dead is dead at its first failure, permalive or not.
        alive_days: from a good look to the next.
        first_days: from a link's first good look to the next, by its key in between: what was
            imported on one day is not due on one day for ever after.
        spread_days: by its key so many days more at most, after `alive_days` and the seldom ones.
        failing_days: from a failure to the next look.
        undecided_days: from a look that said nothing to the next, unless the host said when.
        dead_days: from the failure that made it dead to the next look, growing by `dead_growth` …
        dead_growth: … days with each look that finds it dead …
        dead_limit_days: … up to so many.
        blocked_days: from a refusal to the next look.
        seldom_days: between two looks at a usurped or deviated one.
    """

    name: str
    sure: FailureThreshold
    passing: FailureThreshold
    apart_days: int
    needs_get: bool
    needs_browser: bool
    trusts_tags: bool = False
    alive_days: int = 7
    first_days: int = 7
    spread_days: int = 1
    failing_days: int = 3
    undecided_days: int = 3
    dead_days: int = 7
    dead_growth: int = 1
    dead_limit_days: int = 30
    blocked_days: int = 7
    seldom_days: int = 28


DEFAULT = CheckPreset(
    "default",
    *(FailureThreshold(3, 9), FailureThreshold(5, 18), 2),
    needs_get=True,
    needs_browser=True,
    # A host that answers 429 more often than not is asked often enough to be found gone in four weeks.
    undecided_days=2,
)
# As written (B09): three failures three days apart are six days, so it is mostly the fourth that is
# at least nine days after the first. Nothing is spread, nobody is asked for a second opinion.
IABOT = CheckPreset(
    "iabot",
    *(FailureThreshold(3, 9), FailureThreshold(3, 9), 3),
    needs_get=False,
    needs_browser=False,
    first_days=0,
    spread_days=0,
    dead_growth=0,
)
# The German Wikipedia's: four times, each two weeks after the other (research links.md 2.3).
DEWIKI = CheckPreset(
    "dewiki",
    *(FailureThreshold(4, 42), FailureThreshold(4, 42), 14),
    needs_get=True,
    needs_browser=True,
    failing_days=14,
)
PRESETS = {preset.name: preset for preset in (DEFAULT, IABOT, DEWIKI)}


def preset_of(name: str, *, trusts_tags: bool = False) -> CheckPreset:
    """The preset that the setting names.

    Args:
        name: of the preset.
        trusts_tags: as `[links] trust_tags` says.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        raise ConfigError(f"[links] preset: there is no {name!r}. Choose one of: {known}.")
    return replace(PRESETS[name], trusts_tags=trusts_tags)


class LinkState(IntEnum):
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


class FailureProof(IntFlag):
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


class TransitionRule(Enum):
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
class LinkHealth:
    """Where a link stands.

    Attributes:
        state: its state.
        fails: failures in a row that count.
        first_fail: the day of the first of them; None without any.
        last_fail: the day of the last of them, of a dead link that of the last look; None without any.
        proofs: what saw them.
    """

    state: LinkState = LinkState.UNKNOWN
    fails: int = 0
    first_fail: int | None = None
    last_fail: int | None = None
    proofs: FailureProof = FailureProof.NONE


_ORDER = tuple(
    CheckVerdict
)  # ok, gone, failing, refused, undecided, suspect, deviated, usurped, invalid
_K, _COUNT, _BLOCK, _DOUBT, _SEEN = (
    TransitionRule.KEEP,
    TransitionRule.COUNT,
    TransitionRule.BLOCK,
    TransitionRule.DOUBT,
    TransitionRule.SEEN,
)
_OTHERS = (
    _K,
    _DOUBT,
    TransitionRule.DEVIATE,
    TransitionRule.USURP,
)  # undecided, suspect, deviated, usurped
_OPEN = (TransitionRule.CLEAR, _COUNT, _COUNT, _BLOCK, *_OTHERS, _K)
_BY_EYE = (_SEEN, _SEEN, _K, _K, *_OTHERS, _K)
_CLOSED = (_K,) * len(_ORDER)
_ROWS: Mapping[LinkState, tuple[TransitionRule, ...]] = {
    LinkState.UNKNOWN: (*_OPEN[:-1], TransitionRule.VOID),
    LinkState.ALIVE: _OPEN,
    LinkState.DYING: _OPEN,
    LinkState.DEAD: _OPEN,
    LinkState.BLOCKED: (TransitionRule.CLEAR, _COUNT, _K, _BLOCK, *_OTHERS, _K),
    LinkState.USURPED: _BY_EYE,
    LinkState.DEVIATED: _BY_EYE,
    LinkState.PERMALIVE: _CLOSED,
    LinkState.PERMADEAD: _CLOSED,
    LinkState.INVALID: _CLOSED,
    LinkState.EXCLUDED: _CLOSED,
}
# What is done for each state and verdict. A pair that is not in here is a mistake of ours.
TRANSITIONS: Mapping[tuple[LinkState, CheckVerdict], TransitionRule] = {
    (state, verdict): rule
    for state, row in _ROWS.items()
    for verdict, rule in zip(_ORDER, row, strict=True)
}
MARKS = frozenset({LinkState.PERMALIVE, LinkState.PERMADEAD, LinkState.EXCLUDED})
_INFERABLE = frozenset({LinkState.UNKNOWN, LinkState.ALIVE, LinkState.DEAD})
_MOST_FAILS = 255
_BY = {
    CheckMethod.GET: FailureProof.GET,
    CheckMethod.BROWSER: FailureProof.GET | FailureProof.BROWSER,
}  # a browser asks by GET
_ON_THE_SPOT = FailureThreshold(1, 0)


def next_health(
    standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset, *, browser: bool
) -> LinkHealth:
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
    if finding.how is CheckMethod.PERSON:
        return _told(standing, finding, day, preset)
    if finding.how is CheckMethod.INFERRED and (
        rule is not TransitionRule.COUNT or not may_infer(standing)
    ):
        return standing
    seen = finding.how is CheckMethod.BROWSER
    if (
        seen
        and standing.proofs & FailureProof.SUSPECT
        and standing.state not in MARKS
        and finding.verdict is not CheckVerdict.UNDECIDED
    ):
        standing = replace(standing, proofs=standing.proofs & ~FailureProof.SUSPECT)
    if rule is TransitionRule.COUNT or (
        rule is TransitionRule.SEEN and seen and finding.verdict is CheckVerdict.GONE
    ):
        return _counted(standing, finding, day, preset, browser=browser)
    if rule is TransitionRule.CLEAR or (rule is TransitionRule.SEEN and seen):
        if standing.state is LinkState.ALIVE and not standing.fails and not standing.proofs:
            return standing
        if FailureProof.SOFT in standing.proofs and browser and not seen:
            return replace(standing, proofs=standing.proofs | FailureProof.SUSPECT)
        return LinkHealth(LinkState.ALIVE)
    return _changed(standing, finding, rule)


def needs_browser(standing: LinkHealth, preset: CheckPreset, day: int) -> bool:
    """Whether the browser must look before anything more can be said, on that day.

    Its next failure would make the link dead, or a look saw what only the browser can judge.
    """
    if FailureProof.SUSPECT in standing.proofs:
        return True
    if not preset.needs_browser or standing.state is not LinkState.DYING:
        return False
    fails = standing.fails + _counts(standing, day, preset)
    return _reached(
        replace(standing, fails=fails, proofs=standing.proofs | FailureProof.GET), preset, day
    )


def may_infer(standing: LinkHealth) -> bool:
    """Whether a failure of the link's host may stand for a look at the link itself (W46).

    Only as the first failure of a run, or once it is dead: so an inference is undone or confirmed by the
    link's own next look, and one outage never makes up a run of failures.
    """
    return standing.state in _INFERABLE


def health_after_mark(standing: LinkHealth, mark: LinkState | None) -> LinkHealth:
    """Where the link stands once people decided (B10, B11, A16).

    Args:
        standing: where it stood.
        mark: PERMALIVE, PERMADEAD or EXCLUDED; None when no mark is left: a link that was marked
            begins anew as UNKNOWN.

    Raises:
        InvariantError: the mark is no such state.
    """
    if mark is None:
        return LinkHealth() if standing.state in MARKS else standing
    if mark not in MARKS:
        raise InvariantError(f"{mark!r} is nothing that people decide.")
    return LinkHealth(mark)


def _told(standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset) -> LinkHealth:
    """After a person's word: a tag that is trusted waits for a failure, or ends PERMALIVE."""
    if finding.verdict is CheckVerdict.OK and FailureProof.TAGGED in standing.proofs:
        return replace(standing, proofs=standing.proofs & ~FailureProof.TAGGED)
    if finding.verdict is not CheckVerdict.GONE or not preset.trusts_tags:
        return standing
    if standing.state is LinkState.PERMALIVE:
        return LinkHealth(LinkState.DEAD, 1, day, day, FailureProof.TAGGED)
    if TRANSITIONS[standing.state, CheckVerdict.GONE] is TransitionRule.KEEP:
        return standing
    return replace(standing, proofs=standing.proofs | FailureProof.TAGGED)


def _changed(standing: LinkHealth, finding: CheckResult, rule: TransitionRule) -> LinkHealth:
    """After all that neither clears nor counts."""
    seen = finding.how is CheckMethod.BROWSER
    match rule:
        case TransitionRule.BLOCK:
            doubtful = finding.code in REEXAMINED and not seen
            return LinkHealth(
                LinkState.BLOCKED, proofs=FailureProof.SUSPECT if doubtful else FailureProof.NONE
            )
        case TransitionRule.VOID:
            return LinkHealth(LinkState.INVALID)
        case TransitionRule.USURP if seen:
            return LinkHealth(LinkState.USURPED)
        case TransitionRule.DEVIATE if seen:
            return LinkHealth(LinkState.DEVIATED)
        case TransitionRule.KEEP:
            return standing
        case _:  # a doubt; of the browser's own nobody else can be asked
            return (
                standing
                if seen
                else replace(standing, proofs=standing.proofs | FailureProof.SUSPECT)
            )


def _counted(
    standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset, *, browser: bool
) -> LinkHealth:
    if standing.state is LinkState.DEAD:
        if standing.last_fail is not None and day <= standing.last_fail:
            return standing
        return replace(standing, fails=min(standing.fails + 1, _MOST_FAILS), last_fail=day)
    sure = finding.verdict is CheckVerdict.GONE and not finding.whole_host
    if FailureProof.GUARDED in standing.proofs and finding.verdict is not CheckVerdict.GONE:
        return standing
    counts = _counts(standing, day, preset)
    new = LinkHealth(
        LinkState.DYING,
        min(standing.fails + counts, _MOST_FAILS),
        day if standing.first_fail is None else standing.first_fail,
        day if counts else standing.last_fail,
        standing.proofs | _proofs(standing, finding, sure=sure),
    )
    waits = browser and preset.needs_browser and finding.how is not CheckMethod.BROWSER
    if finding.how is CheckMethod.INFERRED or waits or not _reached(new, preset, day):
        return new
    return replace(new, state=LinkState.DEAD)


def _proofs(standing: LinkHealth, finding: CheckResult, *, sure: bool) -> FailureProof:
    """What a failure adds to what is remembered of the run."""
    proofs = _BY.get(finding.how, FailureProof.NONE)
    if not sure:
        proofs |= FailureProof.PASSING
    if finding.how is CheckMethod.INFERRED:
        proofs |= FailureProof.INFERRED
    if finding.how is CheckMethod.BROWSER and finding.code == StatusCode.SOFT_404:
        proofs |= FailureProof.SOFT
    if standing.state is LinkState.BLOCKED:
        proofs |= FailureProof.GUARDED
    return proofs


def _counts(standing: LinkHealth, day: int, preset: CheckPreset) -> bool:
    """Whether a failure of that day is one more."""
    return standing.last_fail is None or day - standing.last_fail >= preset.apart_days


def _reached(standing: LinkHealth, preset: CheckPreset, day: int) -> bool:
    """Whether the run of failures is what makes a link dead."""
    if preset.needs_get and FailureProof.GET not in standing.proofs:
        return False
    if FailureProof.TAGGED in standing.proofs and preset.trusts_tags:
        toll = _ON_THE_SPOT
    else:
        toll = preset.passing if FailureProof.PASSING in standing.proofs else preset.sure
    first = day if standing.first_fail is None else standing.first_fail
    return standing.fails >= toll.fails and day - first >= toll.days
