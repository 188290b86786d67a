"""A year of a small wiki's links by the rules themselves, with the clock as argument.

The real rules (`links.states`, `links.schedule`, `links.timetable`, `links.presets`) look at the links of
a simulated web (`bench.links_web`) for 365 days: who is due is asked, one request a host with its gap;
what the browser must see, it sees on the same day. Then what they said is held against the truth.

Baseline: preset `iabot`, as InternetArchiveBot does it, over the same web.
"""

import math
import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import gc
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from multiprocessing import get_context

from bench import report
from bench.links_web import DAYS, FINE, FOR_EVER, SLOW_DOWN, TOO_MANY, Host, Link, Sight, web
from links.findings import Finding
from links.presets import PRESETS, Preset
from links.schedule import next_due
from links.states import Standing, State, after, may_infer, needs_browser
from links.timetable import Added, Move, Timetable, Turn

GAP_S = 6.0
CONNECTIONS = 500
DAY_S = 86_400.0
_TICK_S = 0.2  # looks that end so close to one another are followed by others together
LIMIT_DAYS = 28
_FULL, _QUICK = 100_000, 10_000
_FOUND = frozenset({State.DEAD, State.USURPED})


@dataclass(slots=True)
class Tally:
    """What a year showed.

    Attributes:
        false_dead: links that were called dead, or usurped, while they lived or were away.
        found: days from the end of each link that was gone to the day it was called so; what was not
            found at all counts to the year's end.
        late: of these, those over `LIMIT_DAYS`.
        revived: days from the return of each link that was called dead to a look that saw it.
        requests: what hosts were asked, without the browser's looks.
        inferred: looks that were spared.
        opinions: how often the browser looked.
        gap_kept: the smallest gap between two requests to a host, over the one that it is owed.
        smallest_gap_s: the smallest gap.
        put_back: turns that were handed back because the host was to be left alone.
    """

    false_dead: int = 0
    found: list[float] = field(default_factory=list)
    late: int = 0
    revived: list[float] = field(default_factory=list)
    requests: int = 0
    inferred: int = 0
    opinions: int = 0
    gap_kept: float = math.inf
    smallest_gap_s: float = math.inf
    put_back: int = 0


class Year:
    """One year of one web by one preset."""

    def __init__(self, links: list[Link], preset: Preset) -> None:
        self._links = links
        self._preset = preset
        self._tally = Tally()
        self._standings = [Standing()] * len(links)
        self._plain = [link.plain for link in links]
        self._due: dict[int, list[int]] = defaultdict(list)
        self._due[0] = list(range(len(links)))
        self._table: Timetable[Link] = Timetable(gap_s=GAP_S)
        self._running: list[tuple[float, Turn[Link], Sight]] = []
        self._last: dict[str, float] = {}  # the end of the last request to each host
        self._called: dict[int, float] = {}  # of the links that are called dead: when
        self._found: set[tuple[int, float]] = set()
        self._left: list[int] = []  # of hosts of which enough waits
        self._again = 0.0  # when these are offered again

    def run(self) -> Tally:
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
        while (waiting or self._left or self._table or self._running) and now < end:
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
        if self._left and now >= self._again:
            waiting += self._left
            self._left = []
            self._again = now + 600.0
        if not waiting or table.waiting > 2 * CONNECTIONS:
            return
        while waiting and table.waiting < 20 * CONNECTIONS:
            number = waiting.pop()
            link = self._links[number]
            host = link.host
            inferable = self._plain[number] or may_infer(self._standings[number])
            if table.add(number, host.name, link, inferable=inferable) is Added.HOST_FULL:
                self._left.append(number)
            elif host.delay_s:
                table.slow(host.name, host.delay_s)

    def _start(self, now: float, day: int) -> float:
        """Begin all looks that may begin; the moment to try again."""
        while len(self._running) < CONNECTIONS:
            turn = self._table.next(now)
            if isinstance(turn, float):
                return turn
            if turn.move is Move.ASK:
                self._ask(turn, now)
            elif turn.move is Move.INFER:
                assert turn.finding is not None
                self._tally.inferred += 1
                self._book(turn.url_id, turn.finding, now, day)
            else:
                self._tally.put_back += 1
                self._due[max(day + 1, int(turn.until / DAY_S))].append(turn.url_id)
        return math.inf

    def _ask(self, turn: Turn[Link], now: float) -> None:
        name = turn.host
        host = turn.payload.host
        self._tally.requests += 1
        last = self._last.get(name)
        gap = math.inf if last is None else now - last
        if last is not None:
            self._note_gap(host, gap)
        if self._plain[turn.url_id]:
            sight = FINE
        elif gap < host.limit_s:
            sight = SLOW_DOWN if turn.url_id % 2 else TOO_MANY
        else:
            sight = turn.payload.sight(now / DAY_S)
        heappush(self._running, (now + sight.seconds, turn, sight))

    def _note_gap(self, host: Host, gap: float) -> None:
        tally = self._tally
        if gap < tally.smallest_gap_s:
            tally.smallest_gap_s = gap
        kept = gap / max(GAP_S, host.delay_s)
        if kept < tally.gap_kept:
            tally.gap_kept = kept

    def _end(self, day: int) -> None:
        """End the look that ends first."""
        now, turn, sight = heappop(self._running)
        self._last[turn.host] = now
        self._table.done(turn, now, sight.plain)
        self._book(turn.url_id, sight.plain, now, day)

    def _book(self, number: int, finding: Finding, now: float, day: int) -> None:
        preset = self._preset
        before = self._standings[number]
        standing = after(before, finding, day, preset, browser=preset.needs_browser)
        if standing is not before:
            if preset.needs_browser and needs_browser(standing, preset, day):
                finding = self._links[number].sight(now / DAY_S).seen
                self._tally.opinions += 1
                standing = after(standing, finding, day, preset, browser=True)
            self._standings[number] = standing
            if (standing.state in _FOUND) != (before.state in _FOUND):
                self._call(number, now / DAY_S, dead=standing.state in _FOUND)
        due = next_due(before, standing, finding, day, preset, self._links[number].key)
        if due is not None and due < DAYS:
            self._due[due].append(number)

    def _call(self, number: int, moment: float, *, dead: bool) -> None:
        """It was called dead, or no longer is."""
        tally = self._tally
        link = self._links[number]
        if dead:
            self._called[number] = moment
            since = link.gone_since(moment)
            if since is None:
                tally.false_dead += 1
            else:
                tally.found.append(moment - since)
                self._found.add((number, since))
        elif number in self._called:
            called = self._called.pop(number)
            since = link.gone_since(called)
            ended = [each.end for each in link.ends if each.start == since]
            if ended and ended[0] <= moment:
                tally.revived.append(moment - ended[0])

    def _judge(self, number: int, link: Link) -> None:
        """Count what was gone for long and was not found."""
        for each in link.ends:
            end = min(each.end, DAYS)
            if end - each.start > LIMIT_DAYS and (number, each.start) not in self._found:
                self._tally.found.append(end - each.start)


def share(count: int, seed: int, part: int, parts: int, name: str) -> Tally:
    """The year of a part of the hosts, as a checker has it (`--part`)."""
    gc.disable()
    links = web(count, seed)
    names = {link.host.name: None for link in links}
    mine = set(list(names)[part::parts])
    return Year([link for link in links if link.host.name in mine], PRESETS[name]).run()


if __name__ == "__main__":
    import cProfile, pstats

    t = time.perf_counter()
    count = int(sys.argv[1])
    pr = cProfile.Profile() if len(sys.argv) > 3 else None
    if pr:
        pr.enable()
    tally = share(count, 1, 0, 1, sys.argv[2])
    if pr:
        pr.disable()
        pstats.Stats(pr).sort_stats("tottime").print_stats(18)
    f = sorted(tally.found)
    r = sorted(tally.revived)
    print(
        time.perf_counter() - t,
        tally.false_dead,
        len(f),
        f[-5:],
        len(r),
        r[-3:],
        tally.requests,
        tally.inferred,
        tally.opinions,
        tally.gap_kept,
        tally.smallest_gap_s,
        tally.put_back,
    )
