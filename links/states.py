"""Link states, their transitions, and the failure thresholds of each preset (docs/explanation/when-a-link-is-dead.md).

A failure is sure when the server itself reports that the page is gone; a run with one temporary failure must reach the
larger threshold. `DEFAULT`: an outage of two weeks spans 14 days and, with a stray failure
three days before it, 17; a host that disappears the day after a check is dead 26 days later, which leaves two days of
the four weeks for a late checker. Invariants of `TRANSITIONS` and `next_health`:

- Any good check resets the state at once. What only the browser found, only the browser clears.
- A refusal is not evidence: a blocked link becomes dead only after repeated reports of the server itself.
- A failure inferred from another URL of the host (W46) can only be the first of a run, and never the last.
- A possible soft 404 (`CheckVerdict.SUSPECT`) does not count as a failure; the browser is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, IntFlag

from core.errors import ConfigError, InvariantError
from links.check_result import REEXAMINED, CheckMethod, CheckResult, CheckVerdict, StatusCode


@dataclass(frozen=True, slots=True)
class FailureThreshold:
    """Threshold for a run of failures."""

    fails: int  # failures that count, at least
    days: int  # from the first of them to the last check, at least


@dataclass(frozen=True, slots=True)
class CheckPreset:
    """Rules for states and schedules."""

    name: str  # value of the setting
    sure: FailureThreshold  # the threshold when every failure reports that the page is gone
    passing: FailureThreshold  # the threshold when one of them may be temporary
    apart_days: int  # a failure sooner after the last that counted does not count
    needs_get: bool  # one failure at least must be an own GET, or the browser's
    needs_browser: bool  # where there is a browser, the last failure must be its
    trusts_tags: bool = False  # a link tagged as dead is dead at its first failure, permalive too
    alive_days: int = 7  # from a good check to the next
    first_days: int = 7  # from the first good check to the next; spread by the key after imports
    spread_days: int = 1  # maximum extra delay by its key, after `alive_days` and the seldom ones
    failing_days: int = 3  # from a failure to the next check
    undecided_days: int = 3  # from an inconclusive check to the next, unless the host gave a time
    dead_days: int = 7  # from its last failure to the next check, growing by `dead_growth` …
    dead_growth: int = 1  # … days with each check that finds it dead …
    dead_limit_days: int = 30  # … up to this many
    blocked_days: int = 7  # from a refusal to the next check
    seldom_days: int = 28  # between two checks of a usurped or deviated one


DEFAULT = CheckPreset(
    "default",
    *(FailureThreshold(3, 9), FailureThreshold(5, 18), 2),
    needs_get=True,
    needs_browser=True,
    # A host that usually answers 429 is checked often enough to be found gone within four weeks.
    undecided_days=2,
)
# As written (B09): three failures three days apart are six days, so it is mostly the fourth that is
# at least nine days after the first. Checks are not spread, and there is no second check.
IABOT = CheckPreset(
    "iabot",
    *(FailureThreshold(3, 9), FailureThreshold(3, 9), 3),
    needs_get=False,
    needs_browser=False,
    first_days=0,
    spread_days=0,
    dead_growth=0,
)
# The German Wikipedia's: four times, each two weeks after the other.
DEWIKI = CheckPreset(
    "dewiki",
    *(FailureThreshold(4, 42), FailureThreshold(4, 42), 14),
    needs_get=True,
    needs_browser=True,
    failing_days=14,
)
PRESETS = {preset.name: preset for preset in (DEFAULT, IABOT, DEWIKI)}


def preset_of(name: str, *, trusts_tags: bool = False) -> CheckPreset:
    """Return the preset that the setting names; ConfigError when there is none."""
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        raise ConfigError(f"[links] preset: there is no {name!r}. Choose one of: {known}.")
    return replace(PRESETS[name], trusts_tags=trusts_tags)


class LinkState(IntEnum):
    """State of a link; the values are stored in the registry."""

    UNKNOWN = 0  # never checked, or no check was conclusive
    ALIVE = 1
    DYING = 2  # failed, but not often or long enough to be dead
    DEAD = 3
    BLOCKED = 4  # the server refuses checks: not dead, and not known to work
    USURPED = 5  # the domain has a new owner
    DEVIATED = 6  # the content differs from the copy's
    PERMALIVE = 7  # marked as working by a person; not checked
    PERMADEAD = 8
    INVALID = 9  # a URL to MediaWiki, but not a valid address
    EXCLUDED = 10  # excluded by policy; never checked


class FailureProof(IntFlag):
    """Bit flags for the methods that saw the failures of the current run."""

    NONE = 0
    GET = 1
    BROWSER = 2
    PASSING = 4  # one of them may pass: the larger threshold
    INFERRED = 8  # the first was inferred from another URL of the host
    SUSPECT = 16  # the browser must check it
    SOFT = 32  # the browser found a soft 404: a 200 does not reset it
    GUARDED = 64  # it was blocked before: only a missing page counts
    TAGGED = 128  # a wiki's page calls it dead, and that is trusted


class TransitionRule(Enum):
    """Rule for a state and a verdict, with a text for the documentation."""

    KEEP = "nothing changes"
    CLEAR = "alive; the count of failures is reset"
    COUNT = "one more failure: dying, or dead at the threshold"
    BLOCK = "blocked; the count of failures is reset"
    DOUBT = "no change; the browser checks the link"
    SEEN = "in the browser: ok is alive, gone is one more failure; in another client: the browser checks the link"
    USURP = "in the browser: usurped; in another client: the browser checks the link"
    DEVIATE = "in the browser: deviated; in another client: the browser checks the link"
    VOID = "invalid"


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """State and current run of failures of a link."""

    state: LinkState = LinkState.UNKNOWN
    fails: int = 0  # failures in a row that count
    first_fail: int | None = None  # the day of the first of them; None without any
    last_fail: int | None = None  # the day of the last of them, of a dead link's last check
    proofs: FailureProof = FailureProof.NONE  # the methods that saw them


_T = TransitionRule
# Columns: ok, gone, failing, refused, undecided, suspect, deviated, usurped, invalid.
_OTHERS = (_T.KEEP, _T.DOUBT, _T.DEVIATE, _T.USURP)
_OPEN = (_T.CLEAR, _T.COUNT, _T.COUNT, _T.BLOCK, *_OTHERS, _T.KEEP)
_BY_EYE = (_T.SEEN, _T.SEEN, _T.KEEP, _T.KEEP, *_OTHERS, _T.KEEP)
_CLOSED = (_T.KEEP,) * len(CheckVerdict)
_ROWS: Mapping[LinkState, tuple[TransitionRule, ...]] = {
    LinkState.UNKNOWN: (*_OPEN[:-1], _T.VOID),
    LinkState.ALIVE: _OPEN,
    LinkState.DYING: _OPEN,
    LinkState.DEAD: _OPEN,
    LinkState.BLOCKED: (_T.CLEAR, _T.COUNT, _T.KEEP, _T.BLOCK, *_OTHERS, _T.KEEP),
    LinkState.USURPED: _BY_EYE,
    LinkState.DEVIATED: _BY_EYE,
    LinkState.PERMALIVE: _CLOSED,
    LinkState.PERMADEAD: _CLOSED,
    LinkState.INVALID: _CLOSED,
    LinkState.EXCLUDED: _CLOSED,
}
# The action for each state and verdict. A missing pair is a bug.
TRANSITIONS: Mapping[tuple[LinkState, CheckVerdict], TransitionRule] = {
    (state, verdict): rule for state, row in _ROWS.items() for verdict, rule in zip(CheckVerdict, row, strict=True)
}
MARKS = frozenset({LinkState.PERMALIVE, LinkState.PERMADEAD, LinkState.EXCLUDED})
# Decided by people or policy, or not fetchable: a check result changes nothing.
SETTLED = MARKS | {LinkState.INVALID}
_INFERABLE = frozenset({LinkState.UNKNOWN, LinkState.ALIVE, LinkState.DEAD})
_MOST_FAILS = 255
_BY = {  # a browser uses GET
    CheckMethod.GET: FailureProof.GET,
    CheckMethod.BROWSER: FailureProof.GET | FailureProof.BROWSER,
}
_ON_THE_SPOT = FailureThreshold(1, 0)


def next_health(
    standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset, *, browser: bool
) -> LinkHealth:
    """Compute the state after a check of that day; the same object when nothing changes.

    Days must not decrease; a second failure on one day does not count. Without a `browser` nothing waits for it.
    """
    rule = TRANSITIONS.get((standing.state, finding.verdict))
    if rule is None:
        raise InvariantError(f"No rule says what {finding.verdict!r} makes of {standing.state!r}.")
    if finding.how is CheckMethod.PERSON:
        return _marked_or_tagged(standing, finding, day, preset)
    if finding.how is CheckMethod.INFERRED and (rule is not TransitionRule.COUNT or not may_infer(standing)):
        return standing
    seen = finding.how is CheckMethod.BROWSER
    if (
        seen
        and standing.proofs & FailureProof.SUSPECT
        and standing.state not in MARKS
        and finding.verdict is not CheckVerdict.UNDECIDED
    ):
        standing = replace(standing, proofs=standing.proofs & ~FailureProof.SUSPECT)
    if rule is TransitionRule.COUNT or (rule is TransitionRule.SEEN and seen and finding.verdict is CheckVerdict.GONE):
        return _counted(standing, finding, day, preset, browser=browser)
    if rule is TransitionRule.CLEAR or (rule is TransitionRule.SEEN and seen):
        if standing.state is LinkState.ALIVE and not standing.fails and not standing.proofs:
            return standing
        if FailureProof.SOFT in standing.proofs and browser and not seen:
            return replace(standing, proofs=standing.proofs | FailureProof.SUSPECT)
        return LinkHealth(LinkState.ALIVE)
    return _changed(standing, finding, rule)


def needs_browser(standing: LinkHealth, preset: CheckPreset, day: int) -> bool:
    """Return True when the next check must be the browser's: to be dead, or as only it can judge."""
    if FailureProof.SUSPECT in standing.proofs:
        return True
    if not preset.needs_browser or standing.state is not LinkState.DYING:
        return False
    fails = standing.fails + _counts(standing, day, preset)
    return _reached(replace(standing, fails=fails, proofs=standing.proofs | FailureProof.GET), preset, day)


def may_infer(standing: LinkHealth) -> bool:
    """Return True when a failure of the host may replace a check (W46): as a run's first, or when dead."""
    return standing.state in _INFERABLE


def _marked_or_tagged(standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset) -> LinkHealth:
    """Compute the state after a check of a marked or tagged link: a trusted tag needs one failure."""
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
    """Compute the state after a verdict that neither resets nor counts."""
    seen = finding.how is CheckMethod.BROWSER
    match rule:
        case TransitionRule.BLOCK:
            doubtful = finding.code in REEXAMINED and not seen
            return LinkHealth(LinkState.BLOCKED, proofs=FailureProof.SUSPECT if doubtful else FailureProof.NONE)
        case TransitionRule.VOID:
            return LinkHealth(LinkState.INVALID)
        case TransitionRule.USURP if seen:
            return LinkHealth(LinkState.USURPED)
        case TransitionRule.DEVIATE if seen:
            return LinkHealth(LinkState.DEVIATED)
        case TransitionRule.KEEP:
            return standing
        case _ if seen:  # the browser itself is undecided: there is no further check
            return standing
        case _:
            return replace(standing, proofs=standing.proofs | FailureProof.SUSPECT)


def _counted(standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset, *, browser: bool) -> LinkHealth:
    if standing.state is LinkState.DEAD:
        if standing.last_fail is not None and day <= standing.last_fail:
            return standing
        return replace(standing, fails=min(standing.fails + 1, _MOST_FAILS), last_fail=day)
    sure = finding.verdict is CheckVerdict.GONE and not finding.whole_host
    if FailureProof.GUARDED in standing.proofs and finding.verdict is not CheckVerdict.GONE:
        return standing
    counts = _counts(standing, day, preset)
    proofs = standing.proofs | _BY.get(finding.how, FailureProof.NONE)
    if not sure:
        proofs |= FailureProof.PASSING
    if finding.how is CheckMethod.INFERRED:
        proofs |= FailureProof.INFERRED
    if finding.how is CheckMethod.BROWSER and finding.code == StatusCode.SOFT_404:
        proofs |= FailureProof.SOFT
    if standing.state is LinkState.BLOCKED:
        proofs |= FailureProof.GUARDED
    new = LinkHealth(
        LinkState.DYING,
        min(standing.fails + counts, _MOST_FAILS),
        day if standing.first_fail is None else standing.first_fail,
        day if counts else standing.last_fail,
        proofs,
    )
    waits = browser and preset.needs_browser and finding.how is not CheckMethod.BROWSER
    if finding.how is CheckMethod.INFERRED or waits or not _reached(new, preset, day):
        return new
    return replace(new, state=LinkState.DEAD)


def _counts(standing: LinkHealth, day: int, preset: CheckPreset) -> bool:
    return standing.last_fail is None or day - standing.last_fail >= preset.apart_days


def _reached(standing: LinkHealth, preset: CheckPreset, day: int) -> bool:
    if preset.needs_get and FailureProof.GET not in standing.proofs:
        return False
    if FailureProof.TAGGED in standing.proofs and preset.trusts_tags:
        threshold = _ON_THE_SPOT
    else:
        threshold = preset.passing if FailureProof.PASSING in standing.proofs else preset.sure
    first = day if standing.first_fail is None else standing.first_fail
    return standing.fails >= threshold.fails and day - first >= threshold.days
