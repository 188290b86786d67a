"""A year of a small wiki's links by the rules themselves, with the clock as argument.

The real rules (`links.states`, `links.checker.check_schedule`, `links.checker.timetable`, `links.states`) look at the links of
a simulated web (`bench.links_web`) for 365 days: who is due is asked, one request a host with its gap;
what the browser must see, it sees on the same day. Then what they said is held against the truth.

Baseline: preset `iabot` over a smaller web of the same kind, with the same looks: its numbers are scaled
up to ours. It has no browser, so what parks or turns to a page that says that there is none, it never
finds.
"""

import math
import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import gc
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from multiprocessing import get_context

from bench import report
from bench.links_web import DAYS, FINE, SLOW_DOWN, TOO_MANY, ProbeFinding, SimulatedLink, web
from links.check_result import CheckResult
from links.checker.check_schedule import next_due
from links.checker.timetable import AddOutcome, CheckTurn, Timetable, TurnAction
from links.states import PRESETS, CheckPreset, LinkHealth, LinkState, may_infer, needs_browser, next_health
from links.url_parts import bucket_of

GAP_S = 6.0
CONNECTIONS = 500
ROOM = 50_000  # URLs in the timetable at once
DAY_S = 86_400.0
_TICK_S = 0.2  # looks that end so close to one another are followed by others together
LIMIT_DAYS = 28
_LONG_S = 300.0  # longer than any gap that a host is owed
_FULL, _QUICK = (100_000, 10_000), (3_000, 1_500)  # links by our preset, and by the baseline's
_ALIVE = LinkHealth(LinkState.ALIVE)  # of which a good look makes the same, as tests hold
_FOUND = frozenset({LinkState.DEAD, LinkState.USURPED})


@dataclass(slots=True)
class YearTally:
    """Counts of a year.

    Attributes:
        false_dead: links that were called dead, or usurped, while they lived or were away.
        delays: days from the end of each link that was gone to the day it was called so; what was not
            found at all counts to the year's end.
        hidden: links that were gone for long and not found, at hosts that refuse us.
        revived: days from the return of each link that was called dead to a look that saw it.
        requests: what hosts were asked, without the browser's looks.
        inferred: looks that were spared.
        opinions: how often the browser looked.
        gap_kept: the smallest gap between two requests to a host, over the one that it is owed.
        smallest_gap_s: the smallest gap.
        put_back: turns that were handed back because the host was to be left alone.
    """

    false_dead: int = 0
    delays: list[float] = field(default_factory=list)
    hidden: int = 0
    revived: list[float] = field(default_factory=list)
    requests: int = 0
    inferred: int = 0
    opinions: int = 0
    gap_kept: float = math.inf
    smallest_gap_s: float = math.inf
    put_back: int = 0

    def join(self, other: "YearTally") -> None:
        """Add what another part of the hosts showed."""
        self.false_dead += other.false_dead
        self.delays += other.delays
        self.hidden += other.hidden
        self.revived += other.revived
        self.requests += other.requests
        self.inferred += other.inferred
        self.opinions += other.opinions
        self.gap_kept = min(self.gap_kept, other.gap_kept)
        self.smallest_gap_s = min(self.smallest_gap_s, other.smallest_gap_s)
        self.put_back += other.put_back


class SimulatedYear:
    """One year of one web by one preset."""

    def __init__(self, links: list[SimulatedLink], preset: CheckPreset) -> None:
        for link in links:
            link.host.last_request_s = -math.inf
        self._links = links
        self._preset = preset
        self._tally = YearTally()
        self._standings = [LinkHealth()] * len(links)
        self._plain = [link.plain for link in links]
        self._due: dict[int, list[int]] = defaultdict(list)
        self._due[0] = list(range(len(links)))
        self._table: Timetable[SimulatedLink] = Timetable(gaps=GAP_S, room=ROOM, tries=3)
        self._running: list[tuple[float, CheckTurn[SimulatedLink], ProbeFinding]] = []
        self._called: dict[int, float] = {}  # of the links that are called dead: when
        self._calls: dict[int, list[tuple[float, float]]] = defaultdict(list)  # from when to when
        self._findings: set[tuple[int, float]] = set()
        self._left: list[int] = []  # of hosts of which enough waits
        self._again = 0.0  # when these are offered again

    def run(self) -> YearTally:
        """Let the year pass."""
        for day in range(DAYS):
            self._table.new_pass()
            self._day(day)
        for number, link in enumerate(self._links):
            self._judge(number, link)
        return self._tally

    def _day(self, day: int) -> None:
        """Look at all that is due; what does not fit into the day is due on the next."""
        waiting = sorted(self._due.pop(day, []), reverse=True)  # numbers are random as keys are
        now = day * DAY_S
        end = now + DAY_S
        while (waiting or self._left or self._table.room < ROOM or self._running) and now < end:
            self._feed(waiting, now)
            moment = self._start(now, day)
            if self._running and self._running[0][0] <= moment:
                now = self._running[0][0] + _TICK_S
                while self._running and self._running[0][0] <= now:
                    self._end(day)
            elif math.isfinite(moment):
                now = min(moment, end)
            elif not waiting:
                now = min(max(now, self._again), end)
        while self._running:
            self._end(day)
        self._due[day + 1] += waiting

    def _feed(self, waiting: list[int], now: float) -> None:
        """Add what there is room for."""
        table = self._table
        held = ROOM - table.room - len(self._running)
        if self._left and now >= self._again:
            waiting += self._left
            self._left = []
            self._again = now + 600.0
        if not waiting or held > 2 * CONNECTIONS:
            return
        links, standings, plain = self._links, self._standings, self._plain
        for _ in range(min(len(waiting), 20 * CONNECTIONS - held)):
            number = waiting.pop()
            link = links[number]
            host = link.host
            inferable = plain[number] or may_infer(standings[number])
            if table.add(number, host.name, link, inferable=inferable) is AddOutcome.HOST_FULL:
                self._left.append(number)

    def _start(self, now: float, day: int) -> float:
        """Begin all looks that may begin; the moment to try again."""
        while len(self._running) < CONNECTIONS:
            turn = self._table.next(now)
            if isinstance(turn, float):
                return turn
            if turn.move is TurnAction.ASK:
                self._ask(turn, now)
            elif turn.move is TurnAction.INFER:
                assert turn.finding is not None
                self._tally.inferred += 1
                self._book(turn.url_id, turn.finding, now, day)
            else:
                self._tally.put_back += 1
                self._due[max(day + 1, int(turn.until / DAY_S))].append(turn.url_id)
        return math.inf

    def _ask(self, turn: CheckTurn[SimulatedLink], now: float) -> None:
        host = turn.payload.host
        self._tally.requests += 1
        gap = now - host.last_request_s
        if gap < _LONG_S:
            self._note_gap(gap)
        if self._plain[turn.url_id]:
            sight = FINE
        elif gap < host.limit_s:
            sight = SLOW_DOWN if turn.url_id % 2 else TOO_MANY
        else:
            sight = turn.payload.sight(now / DAY_S)
        heappush(self._running, (now + sight.seconds, turn, sight))

    def _note_gap(self, gap: float) -> None:
        tally = self._tally
        if gap < tally.smallest_gap_s:
            tally.smallest_gap_s = gap
        ratio = gap / GAP_S
        if ratio < tally.gap_kept:
            tally.gap_kept = ratio

    def _end(self, day: int) -> None:
        """End the look that ends first."""
        now, turn, sight = heappop(self._running)
        turn.payload.host.last_request_s = now
        if self._table.done(turn, now, sight.plain):
            self._book(turn.url_id, sight.plain, now, day)

    def _book(self, number: int, finding: CheckResult, now: float, day: int) -> None:
        preset = self._preset
        before = standing = self._standings[number]
        if finding is not FINE.plain or before is not _ALIVE:
            standing = next_health(before, finding, day, preset, browser=preset.needs_browser)
        if standing is not before:
            if preset.needs_browser and needs_browser(standing, preset, day):
                finding = self._links[number].sight(now / DAY_S).seen
                self._tally.opinions += 1
                standing = next_health(standing, finding, day, preset, browser=True)
            self._standings[number] = standing if standing != _ALIVE else _ALIVE
            if (standing.state in _FOUND) != (before.state in _FOUND):
                self._call(number, now / DAY_S, dead=standing.state in _FOUND)
        due = next_due(before, standing, finding, day, preset, self._links[number].key)
        if due is not None and due < DAYS:
            self._due[due].append(number)

    def _call(self, number: int, moment: float, *, dead: bool) -> None:
        """Count that a link is called dead, or no longer is, at `moment` (in days)."""
        tally = self._tally
        link = self._links[number]
        if dead:
            self._called[number] = moment
            since = link.gone_since(moment)
            if since is None:
                tally.false_dead += 1
            elif (number, since) not in self._findings:
                tally.delays.append(moment - since)
                self._findings.add((number, since))
        elif number in self._called:
            called = self._called.pop(number)
            self._calls[number].append((called, moment))
            ended = [each.end for each in link.ends if called < each.end <= moment]
            if ended:
                tally.revived.append(moment - ended[-1])

    def _judge(self, number: int, link: SimulatedLink) -> None:
        """Count what was gone for long and was not found."""
        calls = self._calls.get(number, [])
        for each in link.ends:
            end = min(each.end, DAYS)
            known = any(start < each.start < until for start, until in calls)  # it went, still called
            if end - each.start <= LIMIT_DAYS or known or (number, each.start) in self._findings:
                continue
            if link.is_hidden:
                self._tally.hidden += 1
            elif number not in self._called:
                self._tally.delays.append(end - each.start)


def year(links: list[SimulatedLink], preset: CheckPreset) -> YearTally:
    """Simulate a year of these links; return its counts."""
    return SimulatedYear(links, preset).run()


def years(count: int, names: Sequence[str], *, seed: int = 7) -> dict[str, YearTally]:
    """Simulate a year of `count` links by each preset; a process a core takes a part of the hosts."""
    _links[:] = web(count, seed)
    cores = os.cpu_count() or 1
    parts = [(name, part, cores) for name in names for part in range(cores)]
    gc.freeze()
    with ProcessPoolExecutor(cores, get_context("fork"), gc.disable) as pool:
        tallies = list(pool.map(_share, parts))
    gc.unfreeze()
    tally_by_preset = {name: YearTally() for name in names}
    for (name, _, _), tally in zip(parts, tallies, strict=True):
        tally_by_preset[name].join(tally)
    _links.clear()
    return tally_by_preset


_links: list[SimulatedLink] = []  # for the processes, which are born with it


def _share(task: tuple[str, int, int]) -> YearTally:
    name, part, parts = task
    mine = [link for link in _links if bucket_of(link.host.name) % parts == part]
    return year(mine, PRESETS[name])


def figures(*, quick: bool) -> dict[str, float]:
    """Let the year pass by preset `default` and by `iabot`; their figures."""
    count, few = _QUICK if quick else _FULL
    started = time.perf_counter()
    ours = years(count, ["default"])["default"]
    theirs = years(few, ["iabot"])["iabot"]
    seconds = time.perf_counter() - started
    print(f"A simulated year of {count:,} links ({few:,} by iabot), in {seconds:.0f} s:")
    delays, late = _days(ours.delays), _days(theirs.delays)
    scale = count / few
    report.table(
        [
            ("", "default", "iabot", "target"),
            ("false_dead", f"{ours.false_dead}", f"{theirs.false_dead * scale:,.0f}", "0"),
            ("dead_found_days", *(f"{days[-1]:.1f}" for days in (delays, late)), "28"),
            ("… of half of them", *(f"{days[len(days) // 2]:.1f}" for days in (delays, late)), ""),
            ("links gone", f"{len(delays):,}", f"{len(late) * scale:,.0f}", ""),
            ("… hidden by refusals", f"{ours.hidden:,}", f"{theirs.hidden * scale:,.0f}", ""),
            ("revived_found_days", *(f"{_days(t.revived)[-1]:.1f}" for t in (ours, theirs)), ""),
            ("looks", f"{ours.requests:,}", f"{theirs.requests * scale:,.0f}", ""),
            ("by the browser", f"{ours.opinions:,}", f"{theirs.opinions * scale:,.0f}", ""),
            ("spared by inference", f"{ours.inferred:,}", f"{theirs.inferred * scale:,.0f}", ""),
            ("smallest gap, s", *(f"{t.smallest_gap_s:.3f}" for t in (ours, theirs)), f"{GAP_S:.0f}"),
        ]
    )
    return {
        "false_dead": ours.false_dead,
        "dead_found_days": delays[-1],
        "dead_found_days_median": delays[len(delays) // 2],
        "revived_found_days": _days(ours.revived)[-1],
        "year_looks_per_link": ours.requests / count,
        "host_gap_kept": ours.gap_kept,
        "iabot_false_dead": theirs.false_dead * scale,
        "iabot_dead_found_days": late[-1],
        "year_s": seconds,
    }


def _days(delays: Sequence[float]) -> list[float]:
    return sorted(delays) or [0.0]


if __name__ == "__main__":
    report.figures("links_year", figures(quick=report.arguments(__doc__ or "").quick))
