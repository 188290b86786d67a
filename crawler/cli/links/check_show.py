"""How `weboid links check` shows itself: a bar on a terminal, lines of changes, JSON for machines."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from crawler.cli.tables import clean
from links.checking.booking import Booked
from links.checking.due import DueUrl
from links.checking.leases import LeaseHeldError
from links.checking.plans import Tally
from links.days import date_of
from links.states import State

_SHOWN = (State.ALIVE, State.DYING, State.DEAD, State.BLOCKED)


@dataclass(slots=True)
class Lines:
    """What is said at the end besides the figures.

    Attributes:
        warnings: sentences.
        awaiting: links that wait for a browser's opinion.
    """

    warnings: list[str] = field(default_factory=list)
    awaiting: int = 0


class CheckShow:
    """Shows a check. A context: the bar ends with it."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[states]}"),
            TimeRemainingColumn(),
        )
        shown = not as_json and sys.stderr.isatty()
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not shown)
        self._task = self._bar.add_task("Checking", total=None, rate="", states="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, due: int) -> None:
        """So many URLs are to be looked at."""
        self._bar.update(self._task, total=due)

    def kept(self, booked: Sequence[Booked], tally: Tally) -> None:
        """Some results are kept."""
        for each in booked:
            if self._as_json:
                click.echo(json.dumps(facts_of(each), ensure_ascii=False))
            elif is_news(each):
                self._print(line_of(each))
        speed = self._bar.tasks[0].speed
        self._bar.update(
            self._task,
            completed=tally.kept,
            rate="" if speed is None else f"{speed:.0f}/s",
            states=states_text(tally),
        )
        if self._as_json:
            sys.stdout.flush()

    def passed(self, tally: Tally) -> None:
        """A pass is over; the next one begins when something is due."""
        if tally.kept or tally.put_off:
            self._say(_summary(tally))
        self._bar.reset(self._task, total=None, rate="", states="")

    def held(self, error: LeaseHeldError) -> None:
        """Another checker has the part."""
        self._say(
            f"Another checker ({clean(error.holder)}) has these hosts; waiting to see whether it lives."
        )

    def handed_over(self, error: LeaseHeldError, named: Sequence[DueUrl]) -> None:
        """The URLs are left to the checker that has their hosts."""
        if self._as_json:
            for each in named:
                facts = {"url": each.url, "handed_to": error.holder}
                click.echo(json.dumps(facts, ensure_ascii=False))
            return
        self._say(
            f"A checker is at work on these hosts ({clean(error.holder)}): it looks at them next. "
            "`weboid links show URL` tells what it finds."
        )

    def stopping(self) -> None:
        """It was told to stop."""
        self._say("Stopping: what was begun is noted. A second signal ends it at once.")

    def end(self, tally: Tally, lines: Lines | None = None) -> None:
        """Everything is done, or as much as was asked for."""
        said = lines or Lines()
        self._bar.stop()
        if tally.kept == 0 and tally.put_off == 0 and tally.is_complete:
            self._say("Nothing is due.")
        else:
            self._say(_summary(tally))
        if said.awaiting:
            self._say(
                f"{said.awaiting} links wait for a browser's word before more is said of them: "
                "`weboid links confirm` lets it see them."
            )
        self.warn(said.warnings)

    def warn(self, warnings: Sequence[str]) -> None:
        """What somebody should do something about."""
        for warning in warnings:
            self._say(f"Warning: {warning}")

    def _print(self, line: str) -> None:
        if self._bar.disable:
            click.echo(line)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def _say(self, line: str) -> None:
        if self._bar.disable:
            click.echo(line, err=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False)


def facts_of(booked: Booked) -> dict[str, object]:
    """A result as JSON values."""
    finding = booked.finding
    return {
        "url": booked.url,
        "before": booked.before.name.lower(),
        "state": booked.after.name.lower(),
        "verdict": str(finding.verdict),
        "how": finding.how.name.lower(),
        "code": int(finding.code),
        "http": finding.http,
        "final_url": finding.final_url or None,
        "note": finding.note,
        "due": None if booked.due_day is None else date_of(booked.due_day).isoformat(),
        "awaits_opinion": booked.awaits_opinion,
    }


def is_news(booked: Booked) -> bool:
    """Whether a person wants to know: a state has changed, and not from unknown to alive."""
    is_first = booked.before is State.UNKNOWN and booked.after is State.ALIVE
    return booked.before is not booked.after and not is_first


def line_of(booked: Booked) -> str:
    """A result for people."""
    finding = booked.finding
    said = finding.note or (f"HTTP {finding.http}" if finding.http is not None else "")
    change = f"{booked.before.name.lower()} -> {booked.after.name.lower()}"
    return clean(f"{change}  {booked.url}" + (f"  ({said})" if said else ""))


def states_text(tally: Tally) -> str:
    """How many looks led to which state.

    >>> states_text(Tally(states={State.DYING: 2, State.ALIVE: 5, State.USURPED: 1}))
    '5 alive, 2 dying, 1 other'
    """
    counts = tally.states or {}
    parts = [f"{counts[state]} {state.name.lower()}" for state in _SHOWN if counts.get(state)]
    other = sum(count for state, count in counts.items() if state not in _SHOWN)
    return ", ".join([*parts, f"{other} other"] if other else parts)


def _summary(tally: Tally) -> str:
    text = f"{tally.kept} URLs looked at: {states_text(tally) or 'nothing was found out'}."
    if tally.inferred:
        text += f" {tally.inferred} of them were not asked for, since their hosts are down."
    if tally.put_off:
        text += f" {tally.put_off} were put off, since their hosts want to be left alone."
    return text
