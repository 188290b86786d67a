"""`weboid links passes` and `purge`: statistics of check passes, and retention."""

from datetime import UTC, datetime

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.clock import SystemClock
from core.layout import Layout
from core.timestamps import format_duration
from crawler.profiles import load_profile
from links.check_history import day_of
from links.checker import due_urls
from links.checker.check_schedule import STATE_DAYS, CheckRunRow, latest_runs, longest_due, run_forecast, states_by_day
from links.registry.retention import purge, to_purge
from weboid.app.copy_sources import count_without_copy, no_archives_notice
from weboid.app.link_facts import moment_text, states_json
from weboid.app.text_table import table, width
from weboid.cli.links.link_check import open_existing_registry
from weboid.cli.support.commands import cli_command, option
from weboid.cli.support.options import OUTPUT, PROFILE, CommandOutput
from weboid.cli.support.stores import STORES, CollectionStores, registry_settings

_CLOCK = SystemClock()


@cli_command("passes")
def passes_command(
    *,
    limit: int = option(type=click.IntRange(1, 1000), default=20),
    stores: CollectionStores = STORES,
    profile: str = PROFILE,
    output: CommandOutput = OUTPUT,
) -> None:
    """Show the latest passes, links by state, and whether all links are checked in time.

    A pass over all URLs should not take longer than [links] pass_days. This counts all URLs, which
    takes a while when there are many millions.
    """
    settings = registry_settings(profile, stores.database_url, stores.root)
    now = _CLOCK.now()
    layout = Layout(stores.root)
    with open_existing_registry(layout, settings) as store:
        with store.reading() as rows:
            passes = latest_runs(rows, limit=limit)
            seen = run_forecast(rows, settings.links, now=now)
            late = longest_due(rows, day=day_of(now))
            awaiting = due_urls.count_awaiting(rows)
            states = states_json(states_by_day(rows, since=day_of(now) - STATE_DAYS))
        lacking = 0 if settings.links.archives else count_without_copy(store, layout, settings)
    document = {
        "passes": [
            {
                "part": row.part,
                "started": moment_text(row.started),
                "ended": moment_text(row.ended),
                "due": row.due,
                "done": row.done,
            }
            for row in passes
        ],
        "outlook": None
        if seen is None
        else {"fits": seen.fits, "load": round(seen.load, 3), "sentence": seen.sentence},
        "states": states,
        "longest_due_days": late,
        "awaiting_opinion": awaiting,
        "unasked": lacking,
    }
    lines = _lines(passes, int(now.timestamp()))
    if states:
        first, last = states[0], states[-1]
        parts = [f"{name} {first['links'].get(name, 0):,} → {links:,}" for name, links in last["links"].items()]
        lines.append(f"Links by state, {first['day']} → {last['day']}: {', '.join(parts)}.")
    if seen is not None:
        lines.append(seen.sentence if seen.fits else f"Warning: {seen.sentence}")
    elif passes:
        lines.append("No pass was long enough yet to judge whether all links are checked in time.")
    if late > settings.links.pass_days:
        lines.append(f"Warning: a URL has been due for {late} days.")
    if awaiting:
        lines.append(f"{awaiting} links wait for a browser's word: run `weboid links confirm`.")
    if lacking:
        lines.append(no_archives_notice(lacking))
    output.show(document, lines)


def _lines(found: list[CheckRunRow], now: int) -> list[str]:
    if not found:
        return ["There was no pass yet: `weboid links check` makes one."]
    rows = [
        (
            f"{datetime.fromtimestamp(row.started, UTC):%Y-%m-%d %H:%M}",
            row.part,
            f"{row.due}",
            f"{row.done}",
            (f"{row.done / max((row.ended or now) - row.started, 1):.1f}"),
            format_duration(row.ended - row.started) if row.ended is not None else "not at its end",
        )
        for row in found
    ]
    return table(("began", "part", "due>", "done>", "a second>", "took"), rows, columns=width())


@cli_command("purge")
def purge_command(
    *,
    dry_run: bool = option("Show the amount, without deleting."),
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
    output: CommandOutput = OUTPUT,
) -> None:
    """Delete old check results, and URLs, links and pages not seen for `[links] keep_days`.

    To be run once a day. It works in small steps, concurrently with other commands, and may be stopped at any moment.
    """
    keep_days = load_profile(profile).links.keep_days
    today = day_of(_CLOCK.now())
    with stores.registry() as store:
        if dry_run:
            gone = to_purge(store, day=today, keep_days=keep_days)
        else:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            with Progress(*columns, transient=True, disable=output.is_json) as progress:
                task = progress.add_task("forgetting")
                gone = purge(
                    store,
                    day=today,
                    keep_days=keep_days,
                    progress=lambda what, _: progress.update(task, description=f"forgetting {what}"),
                )
    counts = gone._asdict()
    parts = [f"{count:,} {what}" for what, count in counts.items() if count]
    verb = "Would forget" if dry_run else "Forgot"
    output.show({**counts, "dry_run": dry_run}, f"{verb} {', '.join(parts) or 'nothing'}.")
