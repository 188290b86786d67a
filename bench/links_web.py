"""A small wiki's part of the web for a simulated year: hosts, links, and what becomes of them.

What a look finds depends on the link, the moment and who looks, never on the order of the looks.
Hosts have links as Zipf has it. A host, or a link, has episodes: spans of days in which a look finds
something else than a page. Whether an episode is an outage (two weeks at most; the links live) or an end
(they are gone until it ends) is the truth that a checker is held against.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode, verdict_of
from links.url_parts import key_of

DAYS = 365
APART_DAYS = 14.0  # between two outages of a host, or of a host and one of its links
FOR_EVER = 10_000.0
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _finding(code: StatusCode, *, wide: bool = False, retry_s: float | None = None) -> CheckResult:
    verdict = CheckVerdict.UNDECIDED if retry_s is not None else verdict_of(code)
    return CheckResult(code, verdict, CheckMethod.GET, whole_host=wide, retry_after_s=retry_s)


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """Result of a check, for each who checks, and the seconds that it takes.

    Attributes:
        plain: what the checker finds.
        seen: what the browser finds.
        seconds: how long the checker's look takes.
    """

    plain: CheckResult
    seen: CheckResult
    seconds: float


def _sight(
    code: StatusCode, seen: StatusCode | None = None, *, seconds: float = 0.4, wide: bool = False
) -> ProbeFinding:
    by_eye = code if seen is None else seen
    verdict = CheckVerdict.GONE if by_eye is StatusCode.SOFT_404 else verdict_of(by_eye)
    return ProbeFinding(
        _finding(code, wide=wide), CheckResult(by_eye, verdict, CheckMethod.BROWSER, whole_host=wide), seconds
    )


FINE = ProbeFinding(
    CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.HEAD, http=200),
    CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.BROWSER),
    0.3,
)
MOVED = ProbeFinding(CheckResult(StatusCode.MOVED, CheckVerdict.OK, CheckMethod.HEAD, http=200), FINE.seen, 0.6)
NOT_FOUND = _sight(StatusCode.NOT_FOUND)
GONE = _sight(StatusCode.GONE)
NO_NAME = _sight(StatusCode.DNS_UNKNOWN, wide=True, seconds=0.1)
REFUSED = _sight(StatusCode.REFUSED, wide=True, seconds=0.1)
NO_ROUTE = _sight(StatusCode.NO_ROUTE, wide=True, seconds=10.0)
TIMEOUT = _sight(StatusCode.TIMEOUT, seconds=60.0)
BAD_GATEWAY = _sight(StatusCode.BAD_GATEWAY)
BROKEN = _sight(StatusCode.BAD_REQUEST)  # 500
DOWN = _sight(StatusCode.UNAVAILABLE)
BLOCKED = _sight(StatusCode.NO_ACCESS, StatusCode.FINE)
CHALLENGE = _sight(StatusCode.CHALLENGE)
PARKED = _sight(StatusCode.TO_THE_ROOT, StatusCode.PARKED)
SOFT = _sight(StatusCode.TO_THE_ROOT, StatusCode.SOFT_404)
MAINTAINED = ProbeFinding(_finding(StatusCode.UNAVAILABLE, retry_s=7200.0), _sight(StatusCode.UNAVAILABLE).seen, 0.4)
SLOW_DOWN = ProbeFinding(_finding(StatusCode.TOO_MANY, retry_s=30.0), FINE.seen, 0.2)
TOO_MANY = ProbeFinding(_finding(StatusCode.TOO_MANY), FINE.seen, 0.2)

_OUTAGES = (NO_NAME, REFUSED, NO_ROUTE, TIMEOUT, BAD_GATEWAY, BROKEN, DOWN, MAINTAINED)
_ENDS_OF_HOSTS = (NO_NAME, REFUSED, NO_ROUTE, TIMEOUT, PARKED, BAD_GATEWAY)
_ENDS_OF_LINKS = (NOT_FOUND, NOT_FOUND, NOT_FOUND, GONE, SOFT)
_HICCUPS = (TIMEOUT, BAD_GATEWAY, BROKEN, DOWN, REFUSED)


@dataclass(frozen=True, slots=True)
class FailureEpisode:
    """From one day to another, in days and their parts, every look finds this.

    `gone` is the truth: whether the links are gone, or merely away.
    """

    start: float
    end: float
    sight: ProbeFinding
    gone: bool = False


@dataclass(slots=True)
class SimulatedHost:
    """A host as it really is.

    Attributes:
        name: its name.
        base: what a look finds when nothing is the matter.
        flaky: the part of looks that fail for nothing.
        limit_s: asked sooner than so many seconds after the last time, it says 429; 0: never.
        episodes: what happens to it.
        last_request_s: end of the last request to it.
    """

    name: str
    base: ProbeFinding = FINE
    flaky: float = 0.0
    limit_s: float = 0.0
    episodes: list[FailureEpisode] = field(default_factory=list)
    last_request_s: float = -math.inf


@dataclass(slots=True)
class SimulatedLink:
    """A link as it really is: its host, its key, and what happens to it alone."""

    host: SimulatedHost
    key: bytes
    seed: int
    moved_on: float = FOR_EVER
    episodes: list[FailureEpisode] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Return whether every check finds a page."""
        host = self.host
        quiet = not (self.episodes or host.episodes or host.flaky or host.limit_s)
        return quiet and host.base is FINE and self.moved_on == FOR_EVER

    def sight(self, moment: float) -> ProbeFinding:
        """Return what a check at `moment` finds, in days and their parts."""
        for episode in self.host.episodes:
            if episode.start <= moment < episode.end:
                return episode.sight
        if self.host.base is BLOCKED:
            return BLOCKED  # whatever has become of the link
        for episode in self.episodes:
            if episode.start <= moment < episode.end:
                return episode.sight
        if self.host.flaky and _chance(self.seed, int(moment)) < self.host.flaky:
            return _HICCUPS[(self.seed + int(moment)) % len(_HICCUPS)]
        if self.moved_on <= moment and self.host.base is FINE:
            return MOVED
        return self.host.base

    @property
    def ends(self) -> list[FailureEpisode]:
        """Return the merged episodes in which it is gone, in order, as far as any client could know."""
        own = [] if self.host.base is BLOCKED else self.episodes
        both = [each for each in (*self.host.episodes, *own) if each.gone]
        merged: list[FailureEpisode] = []
        for each in sorted(both, key=lambda episode: episode.start):
            if merged and each.start <= merged[-1].end:
                merged[-1] = replace(merged[-1], end=max(merged[-1].end, each.end))
            else:
                merged.append(each)
        return merged

    @property
    def is_hidden(self) -> bool:
        """Return whether its host refuses even the browser some day, so that its state cannot be known."""
        return any(each.sight is CHALLENGE for each in self.host.episodes)

    def gone_since(self, moment: float) -> float | None:
        """Return the day since which it is gone at `moment` (in days); None when it lives."""
        return next((each.start for each in self.ends if each.start <= moment < each.end), None)


def _chance(seed: int, day: int) -> float:
    """Return a pseudo-random number between 0 and 1 for a link and a day."""
    mixed = ((seed ^ (day * _MIX)) * _MIX) & _MASK
    mixed ^= mixed >> 29
    return ((mixed * _MIX) & _MASK) / 2**64


def web(count: int, seed: int) -> list[SimulatedLink]:
    """Return `count` links over a quarter as many hosts at most, the same for the same seed."""
    rng = random.Random(seed)
    names = max(count // 4, 10)
    weights = [1 / (place + 10) for place in range(names)]
    hosts = [_host(rng, number) for number in range(names)]
    chosen = rng.choices(hosts, weights, k=count)
    return [_link(rng, host, number) for number, host in enumerate(chosen)]


def _host(rng: random.Random, number: int) -> SimulatedHost:
    host = SimulatedHost(f"host{number}.test")
    kinds: tuple[tuple[float, Callable[[random.Random, SimulatedHost], None]], ...] = (
        (0.45, _nothing),
        (0.15, _flaky),
        (0.15, _outages),
        (0.05, _flaky_with_outages),
        (0.06, _bot_refusing),
        (0.03, _challenging),
        (0.03, _rate_limiting),
        (0.06, _dying),
    )
    drawn = rng.random()
    for share, make in kinds:
        drawn -= share
        if drawn < 0:
            make(rng, host)
            break
    return host


def _nothing(rng: random.Random, host: SimulatedHost) -> None:
    del rng, host


def _flaky(rng: random.Random, host: SimulatedHost) -> None:
    host.flaky = rng.uniform(0.01, 0.05)


def _outages(rng: random.Random, host: SimulatedHost) -> None:
    """Add one to four outages of an hour to twelve days, at least two weeks from one another."""
    start = rng.uniform(0, 90)
    for _ in range(rng.randint(1, 4)):
        days = rng.choice((rng.uniform(1, 24) / 24, rng.uniform(1, 5), rng.uniform(5, 12)))
        host.episodes.append(FailureEpisode(start, start + days, rng.choice(_OUTAGES)))
        start += days + rng.uniform(APART_DAYS, 90)


def _flaky_with_outages(rng: random.Random, host: SimulatedHost) -> None:
    _flaky(rng, host)
    _outages(rng, host)


def _bot_refusing(rng: random.Random, host: SimulatedHost) -> None:
    """Make the host refuse the checker; a tenth of these lose their names some day."""
    host.base = BLOCKED
    if rng.random() < 0.1:
        host.episodes.append(FailureEpisode(rng.uniform(0, DAYS), FOR_EVER, NO_NAME, gone=True))


def _challenging(rng: random.Random, host: SimulatedHost) -> None:
    """Make the host refuse the browser, too, from the beginning or from some day on."""
    host.episodes.append(FailureEpisode(rng.choice((0.0, rng.uniform(0, DAYS))), FOR_EVER, CHALLENGE))


def _rate_limiting(rng: random.Random, host: SimulatedHost) -> None:
    host.limit_s = rng.uniform(4.0, 40.0)


def _dying(rng: random.Random, host: SimulatedHost) -> None:
    """Make the host end some day; a part of them comes back after a month or more."""
    start = rng.uniform(0, DAYS)
    end = start + rng.uniform(40, 150) if rng.random() < 0.2 else FOR_EVER
    host.episodes.append(FailureEpisode(start, end, rng.choice(_ENDS_OF_HOSTS), gone=True))


def _link(rng: random.Random, host: SimulatedHost, number: int) -> SimulatedLink:
    link = SimulatedLink(host, key_of(f"https://{host.name}/{number}"), rng.getrandbits(64))
    drawn = rng.random()
    if drawn < 0.06:
        start = rng.uniform(0, DAYS)
        end = start + rng.uniform(40, 150) if drawn < 0.01 else FOR_EVER
        link.episodes.append(FailureEpisode(start, end, rng.choice(_ENDS_OF_LINKS), gone=True))
    elif drawn < 0.09:
        link.moved_on = rng.uniform(0, DAYS)
    elif drawn < 0.11:  # away for a while, by itself, without being called gone
        start = rng.uniform(0, DAYS)
        away = FailureEpisode(start, start + rng.uniform(0.1, 12), rng.choice((BROKEN, DOWN, TIMEOUT)))
        if all(_apart(away, each) for each in host.episodes):
            link.episodes.append(away)
    return link


def _apart(one: FailureEpisode, other: FailureEpisode) -> bool:
    """Return whether two weeks lie between them; else they would be one outage longer than any we judge."""
    return one.end + APART_DAYS <= other.start or other.end + APART_DAYS <= one.start
