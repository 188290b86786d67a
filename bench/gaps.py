"""Proof from access logs that hosts were left in peace: ``python -m bench.gaps LOG… --min-delay 1``.

The logs are those of the servers that were asked, so the crawler's own books are not believed. A line
is a JSON object, or the same values with spaces between them::

    {"host": "a.example", "begin": 1700000000.0, "end": 1700000000.8, "visit": "17"}
    a.example 1700000000.0 1700000000.8 17

Moments are seconds on one clock. Lines of one host with the same ``visit`` are one visit, from the
first begin to the last end; a line without one is a visit of its own, so without visits only lines
for pages belong in a log. Three rules are held against each host:

* never more visits at the same time than `GapRules.visits_per_host`;
* a visit begins no sooner than the delay after the end of any visit that ended before it;
* no visit begins while the host is blocked. (A file of blocks has the same lines, without visits.)

The last line is ``{"bench": "gaps", "figures": {…}}``. Exit code 0: kept; 1: broken; 2: a log cannot
be read, or holds nothing, which would prove nothing.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report
from core.errors import InputError

SHOWN = 20
TEXT_SHOWN_CHARS = 80


class VisitSpan(NamedTuple):
    """Line of the log: a request for a page, or a block, of a host from `begin` to `end`."""

    host: str
    begin: float
    end: float
    visit: str = ""


@dataclass(frozen=True, slots=True)
class GapRules:
    """Limits that hosts were promised.

    Attributes:
        visits_per_host: visits of one host at the same time.
        min_delay_s: seconds between the end of a visit and the begin of the next.
        tolerance_s: how far two readings of the clock may be out, so that nobody is blamed for it.
        delays: hosts that were promised another delay, such as their own Crawl-delay.
    """

    visits_per_host: int = 1
    min_delay_s: float = 1.0
    tolerance_s: float = 0.01
    delays: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A promise that was broken.

    Attributes:
        rule: ``together``, ``gap`` or ``block``.
        host: whose.
        at: when the visit began that broke it.
        text: how, in words.
    """

    rule: str
    host: str
    at: float
    text: str


@dataclass(slots=True)
class GapReport:
    """Facts that the logs prove.

    Attributes:
        hosts: hosts that were visited.
        visits: visits of all of them.
        most_together: visits of one host at the same time, at most.
        smallest_gap_s: between an end and the next begin at one host; infinite when no host was
            visited twice.
        breaches: promises that were broken.
    """

    hosts: int = 0
    visits: int = 0
    most_together: int = 0
    smallest_gap_s: float = math.inf
    breaches: list[RuleViolation] = field(default_factory=list)


def prove(log: Iterable[VisitSpan], rules: GapRules, blocks: Iterable[VisitSpan] = ()) -> GapReport:
    """Hold the log against the rules; lines may come in any order."""
    blocked = defaultdict(list)
    for block in blocks:
        blocked[block.host].append(block)
    proof = GapReport()
    for host, visits in sorted(_visits(log).items()):
        proof.hosts += 1
        proof.visits += len(visits)
        _look_at_gaps(host, visits, rules, proof)
        _look_at_blocks(visits, blocked[host], rules, proof)
    return proof


def _visits(log: Iterable[VisitSpan]) -> dict[str, list[VisitSpan]]:
    """Return the visits of each host, ordered by begin; lines of one visit are merged."""
    visits_by_host: dict[str, dict[object, VisitSpan]] = defaultdict(dict)
    for number, line in enumerate(log):
        visits = visits_by_host[line.host]
        key = line.visit or number
        known = visits.get(key, line)
        visits[key] = known._replace(begin=min(known.begin, line.begin), end=max(known.end, line.end))
    return {host: sorted(each.values(), key=lambda visit: visit[1:3]) for host, each in visits_by_host.items()}


def _look_at_gaps(host: str, visits: Sequence[VisitSpan], rules: GapRules, proof: GapReport) -> None:
    delay = rules.delays.get(host, rules.min_delay_s)
    going_on: list[float] = []  # the ends of visits that began before, as a heap
    last_end = -math.inf
    for visit in visits:
        while going_on and going_on[0] <= visit.begin + rules.tolerance_s:
            last_end = heappop(going_on)
        heappush(going_on, visit.end)
        proof.most_together = max(proof.most_together, len(going_on))
        if len(going_on) > rules.visits_per_host:
            text = f"{len(going_on)} visits at the same time, {rules.visits_per_host} allowed"
            proof.breaches.append(RuleViolation("together", host, visit.begin, text))
        gap = visit.begin - last_end
        proof.smallest_gap_s = min(proof.smallest_gap_s, gap)
        if gap < delay - rules.tolerance_s:
            text = f"{gap:.3f} s after the end of another visit, {delay:.3f} s promised"
            proof.breaches.append(RuleViolation("gap", host, visit.begin, text))


def _look_at_blocks(
    visits: Sequence[VisitSpan], blocks: Sequence[VisitSpan], rules: GapRules, proof: GapReport
) -> None:
    for visit in visits:
        for block in blocks:
            begin, end = block.begin + rules.tolerance_s, block.end - rules.tolerance_s
            if begin <= visit.begin < end:
                text = f"{end - visit.begin:.3f} s before the end of a block"
                proof.breaches.append(RuleViolation("block", visit.host, visit.begin, text))


def read_log(path: Path) -> list[VisitSpan]:
    """Read the lines of a log, or of a file of blocks; blank lines and ``#`` lines are left out.

    Raises:
        InputError: it cannot be read, or a line is none; the text names it.
    """
    spans = []
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                text = line.strip()
                if text and not text.startswith("#"):
                    spans.append(_span(text, f"{path}, line {number}"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    return spans


def _span(text: str, where: str) -> VisitSpan:
    try:
        if text.startswith("{"):
            line = json.loads(text)
            values = [line["host"], line["begin"], line["end"], line.get("visit") or ""]
        else:
            values = [*text.split(), ""][:4]
        host, begin, end, visit = values
        span = VisitSpan(str(host).lower().removesuffix("."), float(begin), float(end), str(visit))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        shown = text[:TEXT_SHOWN_CHARS]
        raise InputError(f"{where} is no line of host, begin, end and perhaps visit: {shown!r}.") from error
    if not -math.inf < span.begin <= span.end < math.inf:
        raise InputError(f"{where}: it ends before it begins, or at no moment.")
    return span


def _delay(text: str) -> tuple[str, float]:
    host, _, seconds = text.partition("=")
    try:
        return host.lower(), float(seconds)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST=SECONDS") from error


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Prove from access logs that hosts were in peace.")
    made.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    made.add_argument("--visits-per-host", type=int, default=1)
    made.add_argument("--min-delay", type=float, default=1.0, metavar="SECONDS")
    made.add_argument("--tolerance", type=float, default=0.01, metavar="SECONDS")
    made.add_argument("--delay", type=_delay, action="append", default=[], metavar="HOST=SECONDS", help="its own")
    made.add_argument("--blocked", type=Path, metavar="FILE", help="lines of host, begin, end")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the logs, say what they show, and return the exit code."""
    given = _parser().parse_args(arguments)
    rules = GapRules(given.visits_per_host, given.min_delay, given.tolerance, dict(given.delay))
    try:
        log = [line for path in given.logs for line in read_log(path)]
        blocks = read_log(given.blocked) if given.blocked else []
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    proof = prove(log, rules, blocks)
    if not proof.visits:
        print("The logs hold no visit: they prove nothing.", file=sys.stderr)
        return 2
    tell(proof, rules)
    return 1 if proof.breaches else 0


def tell(proof: GapReport, rules: GapRules) -> None:
    """Print what the logs show; the last line is for machines."""
    for breach in proof.breaches[:SHOWN]:
        print(f"{breach.rule:8}  {breach.host}  at {breach.at:.3f}: {breach.text}")
    if len(proof.breaches) > SHOWN:
        print(f"... and {len(proof.breaches) - SHOWN} more")
    figures = {
        "gaps_hosts": float(proof.hosts),
        "gaps_visits": float(proof.visits),
        "gaps_most_together": float(proof.most_together),
        "gaps_breaches": float(len(proof.breaches)),
    }
    gap = f"{proof.smallest_gap_s:.3f} s" if math.isfinite(proof.smallest_gap_s) else "none"
    rows = [
        ("visits", f"{proof.visits} of {proof.hosts} hosts", "", ""),
        ("at one host together", f"{proof.most_together}", "", f"<= {rules.visits_per_host}"),
        ("smallest gap", gap, "", f">= {rules.min_delay_s:.3f} s"),
        ("promises broken", f"{len(proof.breaches)}", "", "0"),
    ]
    if math.isfinite(proof.smallest_gap_s):
        figures["gaps_smallest_s"] = proof.smallest_gap_s
    report.table(rows)
    report.figures("gaps", figures)


if __name__ == "__main__":
    sys.exit(main())
