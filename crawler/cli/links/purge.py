"""`weboid links purge`: forget what nobody sees any more."""

import json
from pathlib import Path

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.clock import SystemClock
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option, profile_option
from crawler.profiles import load_profile
from links.books.retention import Purged, purge, to_purge
from links.days import day_of

_CLOCK = SystemClock()


@click.command("purge")
@click.option("--dry-run", is_flag=True, help="Say how much would go, and forget nothing.")
@profile_option
@collection_option
@database_option
@json_option
def command(
    *, dry_run: bool, profile: str, collection: Path, database_url: str, as_json: bool
) -> int:
    """Forget URLs, links and pages that nobody has seen for `[links] keep_days`, and old looks.

    To be run once a day. It works in small steps, beside all else, and may be stopped at any moment.
    """
    keep_days = load_profile(profile).links.keep_days
    today = day_of(_CLOCK.now())
    with opened_registry(collection, database_url) as store:
        if dry_run:
            gone = to_purge(store, day=today, keep_days=keep_days)
        else:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            with Progress(*columns, transient=True, disable=as_json) as progress:
                task = progress.add_task("forgetting")
                gone = purge(
                    store,
                    day=today,
                    keep_days=keep_days,
                    progress=lambda what, _: progress.update(
                        task, description=f"forgetting {what}"
                    ),
                )
    _say(gone, dry_run=dry_run, as_json=as_json)
    return Exit.OK


def _say(gone: Purged, *, dry_run: bool, as_json: bool) -> None:
    counts = gone._asdict()
    if as_json:
        click.echo(json.dumps({**counts, "dry_run": dry_run}))
        return
    parts = [f"{count:,} {what}" for what, count in counts.items() if count]
    verb = "Would forget" if dry_run else "Forgot"
    click.echo(f"{verb} {', '.join(parts) or 'nothing'}.")
