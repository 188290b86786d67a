"""`weboid links mark`: what people decided about links, whatever was seen."""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.clock import SystemClock
from core.timestamps import warc_date
from core.urls import fetch_key
from crawler.cli.exits import Exit
from crawler.cli.links.saying import Registry, name_of, opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.params import end_of
from crawler.cli.tables import clean, table, width
from links.marking import (
    Tally,
    checked,
    foresee,
    lift_marks,
    named_marks,
    pending,
    put_marks,
    settle,
)
from links.marks import Mark, MarkKind, Marks, read_marks, standing
from links.states import State

_CLOCK = SystemClock()
_Command = TypeVar("_Command", bound=Callable[..., Any])
_BECOMES = {
    State.PERMALIVE: "always alive",
    State.PERMADEAD: "always dead",
    State.EXCLUDED: "never asked",
    State.UNKNOWN: "watched again",
}


@click.group("mark")
def command() -> None:
    """Say of links that they are always alive, always dead, or never to be asked.

    A pattern is a host (example.org, with all below it; =example.org alone), the beginning of a URL
    (example.org/path), a URL, a SURT prefix (org,example)/path) or a regular expression (re:...). The
    most specific one decides. A running checker follows within a second. See docs/registry.md.
    """


def _shared_options(function: _Command) -> _Command:
    for option in (
        json_option,
        database_option,
        collection_option,
        click.option("--dry-run", is_flag=True, help="Say how many links would change, no more."),
        click.option("--actor", default=None, metavar="NAME", help="Who decides.  [default: you]"),
    ):
        function = option(function)
    return function


def _making_options(function: _Command) -> _Command:
    for option in (
        click.option("--until", metavar="WHEN", help="After so long (90d), or then (2027-01-31)."),
        click.option("--reason", required=True, help="Why, for whoever asks later."),
        click.argument("patterns", nargs=-1, required=True, metavar="PATTERN..."),
    ):
        function = option(function)
    return _shared_options(function)


@command.command("permalive")
@_making_options
def permalive_command(**options: Any) -> int:
    """These are alive, and are not looked at."""
    return _make(MarkKind.PERMALIVE, **options)


@command.command("permadead")
@_making_options
def permadead_command(**options: Any) -> int:
    """These are dead, and are not looked at."""
    return _make(MarkKind.PERMADEAD, **options)


@command.command("never")
@_making_options
def never_command(**options: Any) -> int:
    """These are never asked, and nothing is said of them."""
    return _make(MarkKind.NEVER, **options)


@command.command("always")
@_making_options
def always_command(**options: Any) -> int:
    """These are watched, whatever a less specific pattern says."""
    return _make(MarkKind.ALWAYS, **options)


@command.command("setting")
@click.argument("setting", metavar="KEY=VALUE")
@_making_options
def setting_command(*, setting: str, **options: Any) -> int:
    """These are looked at differently: every_days=30, method=get, preset=dewiki.

    For hosts, gap_s=1: seconds between two requests, in place of [links] host_gap_s.
    """
    return _make(MarkKind.SETTING, setting=setting, **options)


def _make(
    kind: MarkKind,
    *,
    patterns: tuple[str, ...],
    reason: str,
    until: str | None,
    actor: str | None,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
    setting: str = "",
) -> int:
    now = _CLOCK.now()
    end = None if until is None else end_of(until, now=now, option="--until")
    key, _, value = (part.strip() for part in setting.partition("="))
    made = [
        checked(
            Mark(
                id=0,
                kind=kind,
                pattern=pattern,
                reason=reason,
                actor=name_of(actor),
                moment=int(now.timestamp()),
                expires=None if end is None else int(end.timestamp()),
                key=key,
                value=value,
            )
        )
        for pattern in patterns
    ]
    with opened_registry(collection, database_url) as registry:
        if dry_run:
            tally = foresee(registry.store, made, (), _CLOCK)
        else:
            with registry.store.writing() as rows:
                made = put_marks(rows, made)
            tally = _settled(registry, quiet=as_json)
    _say("marked", made, tally, dry_run=dry_run, as_json=as_json)
    return Exit.OK


@command.command("lift")
@click.argument("names", nargs=-1, required=True, metavar="NUMBER|PATTERN...")
@_shared_options
def lift_command(
    *,
    names: tuple[str, ...],
    actor: str | None,
    dry_run: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Lift marks: what they matched is watched again within a week. They stay in the book."""
    with opened_registry(collection, database_url) as registry:
        with registry.store.reading() as rows:
            lifted = named_marks(rows, names)
        if dry_run:
            tally = foresee(registry.store, (), [mark.id for mark in lifted], _CLOCK)
        else:
            with registry.store.writing() as rows:
                lift_marks(rows, lifted, name_of(actor), _CLOCK.now())
            tally = _settled(registry, quiet=as_json)
    _say("lifted", lifted, tally, dry_run=dry_run, as_json=as_json)
    return Exit.OK


@command.command("settle")
@collection_option
@database_option
@json_option
def settle_command(*, collection: Path, database_url: str, as_json: bool) -> int:
    """Go on where a change was interrupted, and take back what has expired."""
    with opened_registry(collection, database_url) as registry:
        tally = _settled(registry, quiet=as_json)
    _say("settled", (), tally, dry_run=False, as_json=as_json)
    return Exit.OK


@command.command("list")
@click.option("--for", "url", metavar="URL", help="The one that decides on the URL.")
@click.option("--all", "with_all", is_flag=True, help="Also those that are over.")
@collection_option
@database_option
@json_option
def list_command(
    *, url: str | None, with_all: bool, collection: Path, database_url: str, as_json: bool
) -> int:
    """Show the marks."""
    now = _CLOCK.now()
    with opened_registry(collection, database_url) as registry, registry.store.reading() as rows:
        marks = read_marks(rows, with_lifted=with_all)
        waiting = {mark.id for mark in pending(rows, now)}
        if url is not None:
            decides = Marks(standing(rows), _CLOCK).first(fetch_key(url))
            marks = [mark for mark in marks if decides is not None and mark.id == decides.id]
    shown = [mark for mark in marks if with_all or mark.holds(now) or mark.id in waiting]
    if as_json:
        found = [{**_facts(mark), "settled": mark.id not in waiting} for mark in shown]
        click.echo(json.dumps(found, ensure_ascii=False))
        return Exit.OK
    for line in _lines(shown, now) if shown else ["There is no mark."]:
        click.echo(line)
    if waiting:
        click.echo(
            f"{len(waiting):,} of the marks are not in all links' states yet:"
            " `weboid links mark settle` goes on."
        )
    return Exit.OK


def _settled(registry: Registry, *, quiet: bool) -> Tally:
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} links"), TimeElapsedColumn())
    console = Console(stderr=True)
    hidden = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)
        return settle(
            registry.store, _CLOCK, told=lambda count: progress.update(task, completed=count)
        )


def _say(done: str, marks: Sequence[Mark], tally: Tally, *, dry_run: bool, as_json: bool) -> None:
    counts = {state: tally.changed[state] for state in _BECOMES if tally.changed[state]}
    if as_json:
        facts = {
            done: [_facts(mark) for mark in marks],
            "links": tally.looked,
            "changed": {state.name.lower(): count for state, count in counts.items()},
            "dry_run": dry_run,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    for mark in marks:
        number = "" if dry_run and not mark.id else f"#{mark.id} "
        click.echo(f"{done}: {number}{clean(_what(mark))}" if not dry_run else clean(_what(mark)))
    would = "would be " if dry_run else ""
    for state, count in counts.items():
        click.echo(f"{count:,} links {would}{_BECOMES[state]}.")
    if not counts:
        click.echo("No link's state would change." if dry_run else "No link's state changed.")


def _what(mark: Mark) -> str:
    setting = f" {mark.key}={mark.value}" if mark.key else ""
    return f"{mark.kind}{setting} {mark.pattern}"


def _facts(mark: Mark) -> dict[str, object]:
    return {
        "number": mark.id or None,
        "kind": str(mark.kind),
        "pattern": mark.pattern,
        "key": mark.key,
        "value": mark.value,
        "reason": mark.reason,
        "actor": mark.actor,
        "made": _moment(mark.moment),
        "expires": _moment(mark.expires),
        "lifted": _moment(mark.lifted),
        "lifted_by": mark.lifted_by,
    }


def _moment(seconds: int | None) -> str | None:
    return None if seconds is None else warc_date(datetime.fromtimestamp(seconds, UTC))


def _lines(marks: Sequence[Mark], now: datetime) -> list[str]:
    rows = []
    for mark in marks:
        ends = "never" if mark.until is None else f"{mark.until:%Y-%m-%d %H:%M}"
        if mark.lifted is not None:
            ends = f"lifted {(_moment(mark.lifted) or '')[:10]} by {mark.lifted_by}"
        elif not mark.holds(now):
            ends = f"over since {mark.until:%Y-%m-%d}"
        rows.append(
            (
                str(mark.id), f"{mark.kind} {mark.key}={mark.value}" if mark.key else mark.kind,
                mark.pattern, ends, mark.actor, (_moment(mark.moment) or "")[:10], mark.reason,
            )
        )  # fmt: skip
    return table(("#>", "kind", "pattern", "ends", "by", "made", "reason"), rows, columns=width())
