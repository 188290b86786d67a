"""When a link is looked at again, and whether everything can be looked at in time (W38).

Days are those of `links.days`. What is spread is spread by the URL's key and the day alone: the same
look gives the same next day, and what was imported together parts.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from links.days import LAST_DAY
from links.findings import Finding, Verdict
from links.presets import Preset
from links.states import Standing, State

_DAY_S = 86_400
_RETRY_LIMIT_DAYS = 30  # whoever asks for more is looked at all the same
_NEVER = frozenset({State.PERMALIVE, State.PERMADEAD, State.INVALID, State.EXCLUDED})
_SELDOM = frozenset({State.USURPED, State.DEVIATED})
_MIX = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: multiples of it are far apart
_64_BITS = (1 << 64) - 1


def _undecided(preset: Preset) -> int:
    return preset.undecided_days


# After a look that said nothing, a link that nobody hurries for is not hurried for.
_AFTER_NOTHING: Mapping[State, Callable[[Preset], int]] = {
    State.DEAD: lambda preset: preset.dead_days,
    State.BLOCKED: lambda preset: preset.blocked_days,
    State.USURPED: lambda preset: preset.seldom_days,
    State.DEVIATED: lambda preset: preset.seldom_days,
}


def next_due(
    before: Standing, after: Standing, finding: Finding, day: int, preset: Preset, key: bytes
) -> int | None:
    """The day on which the link is to be looked at again, one of the days after; None: never.

    Args:
        before: where it stood before the look.
        after: where it stands now (`links.states.after`).
        finding: what the look found.
        day: the day of the look.
        preset: the intervals.
        key: the URL's key (`links.locator.key_of`).
    """
    if after.state in _NEVER:
        return None
    if finding.verdict is Verdict.UNDECIDED:
        days = _AFTER_NOTHING.get(after.state, _undecided)(preset)
    else:
        days = _interval(before, after, day, preset, key)
    if finding.retry_after_s is not None:
        days = max(days, min(math.ceil(finding.retry_after_s / _DAY_S), _RETRY_LIMIT_DAYS))
    return min(day + max(days, 1), LAST_DAY)


def _interval(before: Standing, after: Standing, day: int, preset: Preset, key: bytes) -> int:
    """Days to the next look."""
    state = after.state
    if state is State.DYING:
        return preset.failing_days
    if state is State.DEAD:
        return _dead_interval(before, after, preset)
    if state is State.ALIVE and before.state is State.UNKNOWN and preset.first_days:
        return 1 + _spread(key, day, preset.first_days)
    days = preset.alive_days
    if state is State.BLOCKED:
        days = preset.blocked_days
    elif state in _SELDOM:
        days = preset.seldom_days
    return days + _spread(key, day, preset.spread_days + 1)


def _dead_interval(before: Standing, after: Standing, preset: Preset) -> int:
    """As long as the last one and a bit more; the last one is told by the days of the two looks."""
    if before.state is not State.DEAD or before.last_fail is None or after.last_fail is None:
        return preset.dead_days
    grown = after.last_fail - before.last_fail + preset.dead_growth if preset.dead_growth else 0
    return min(max(grown, preset.dead_days), preset.dead_limit_days)


def _spread(key: bytes, day: int, days: int) -> int:
    """A number below `days`, another one for each key and day."""
    mixed = (int.from_bytes(key[:8], "big") ^ ((day + 1) * _MIX)) * _MIX & _64_BITS
    return (mixed >> 32) * days >> 32


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether everything is looked at in time.

    Attributes:
        days: a look at every link takes so long; infinite when there are links and nothing is done.
        load: looks that fall due a day as part of those that can be done; above 1 links wait longer
            than their intervals.
        fits: whether `days` is within those that a pass may take.
        sentence: the same for people, with what would help when it does not fit; English.
    """

    days: float
    load: float
    fits: bool
    sentence: str


def pass_outlook(
    links: Mapping[int, int],
    looks_per_s: float,
    *,
    pass_days: int = 28,
    largest_host: int = 0,
    host_gap_s: float = 6.0,
) -> Outlook:
    """How long a look at everything takes (W38).

    Args:
        links: how many links there are by the days from one look to the next.
        looks_per_s: looks that are done a second, as observed.
        pass_days: what it should take at most.
        largest_host: links of the host that has most of them: one at a time, with the gap.
        host_gap_s: the gap, in seconds.

    >>> pass_outlook({7: 30_000}, 0.5).sentence
    'A look at all 30,000 links takes about 17 hours; 10 % of what can be done falls due.'
    """
    total = sum(links.values())
    a_day = max(looks_per_s, 0.0) * _DAY_S
    due = sum(count / max(days, 1) for days, count in links.items())
    by_rate = _part(total, a_day)
    by_host = largest_host * host_gap_s / _DAY_S
    days, load = max(by_rate, by_host), _part(due, a_day)
    fits = days <= pass_days
    sentence = f"A look at all {total:,} links takes {_in_words(days)}"
    if fits and load <= 1:
        sentence += f"; {load:.0%} of what can be done falls due.".replace("%", " %")
    elif fits:
        sentence += f", but {load:.1f} times as many fall due as can be done, so that they wait."
    else:
        sentence += f", and should take {pass_days} days at most. "
        if by_rate > pass_days:
            needed = total / (pass_days * _DAY_S)
            sentence += (
                f"{needed:,.2f} looks a second are needed, {looks_per_s:,.2f} are done: allow more"
                " connections, or let another machine take a part of the hosts."
            )
        else:
            sentence += (
                f"One host has {largest_host:,} of them, {host_gap_s:g} s apart: only a smaller gap"
                " helps, if its owner agrees: `weboid links mark setting gap_s=1 HOST`."
            )
    return Outlook(days, load, fits, sentence)


def _part(many: float, of: float) -> float:
    if not many:
        return 0.0
    return many / of if of else math.inf


def _in_words(days: float) -> str:
    if math.isinf(days):
        return "for ever, since none is done"
    if days < 2:
        hours = days * 24
        return "less than an hour" if hours < 1 else f"about {hours:.0f} hours"
    return f"about {days:,.0f} days"
