"""`weboid worker`: browsers on this machine, proxies elsewhere."""

import asyncio
import os
from pathlib import Path
from random import Random

import click

from core.clock import SystemClock
from core.layout import Layout
from crawler.cli.exits import Exit
from crawler.cli.options import (
    collection_option,
    database_option,
    dedup_option,
    frontier_option,
    json_option,
    profile_option,
    secret_option,
    shared_settings,
    workers_option,
)
from crawler.cli.show import choose
from crawler.cli.stored_levels import opened_stored_levels
from crawler.cli.unlocking import unlocked
from crawler.operator import collection_settings
from crawler.profiles import load_profile
from crawler.working import Work, work
from proxy.handshake import Secret


@click.command("worker")
@collection_option
@profile_option
@frontier_option
@database_option
@dedup_option
@secret_option
@workers_option
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the crawl log and the logs of links there.  [default: the collection's reports/, where"
    " the collection is on this machine]",
)
@json_option
def command(
    *,
    collection: Path,
    profile: str,
    frontier_url: str,
    database_url: str,
    dedup_url: str,
    secret: Secret,
    workers: int,
    reports: Path | None,
    as_json: bool,
) -> int:
    """Visit whatever the frontier holds, for as long as it runs.

    Proxies that have announced themselves there write the WARCs. While Redis, the database or all
    proxies are away it waits, and goes on. SIGTERM ends it when the pages begun are done; a second
    one at once. The collection's folder is needed only where the frontier or the index lies in it.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    settings = shared_settings(
        # Whoever handed the URLs over may be a person: robots.txt means what the profile says.
        collection_settings(
            profile,
            collection,
            unattended=True,
            robots=load_profile(profile).policy.robots,
        ),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    layout = Layout(collection)
    if reports is None and layout.marker.exists():
        reports = layout.reports
    if reports is None:
        click.echo("No crawl log is kept here: --reports names a folder for it.", err=True)
    show = choose(as_json=as_json)
    with opened_stored_levels(layout, settings.index.url) as level_of:
        ended = asyncio.run(
            work(
                Work(
                    settings,
                    layout,
                    workers,
                    secret,
                    unlocked(settings, collection),
                    reports,
                    stored_level_of=level_of,
                ),
                clock=SystemClock(),
                report=show.event,
                stopping=show.stopping,
                dice=Random(),  # noqa: S311 no secret depends on it
            )
        )
    if not as_json:
        click.echo(f"{ended} pages ended here.")
    return Exit.OK
