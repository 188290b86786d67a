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
from crawler.cli.unlocking import unlocked
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
    as_json: bool,
) -> int:
    """Visit whatever the frontier holds, for as long as it runs.

    Proxies that have announced themselves there write the WARCs. While Redis, the database or all
    proxies are away it waits, and goes on. SIGTERM ends it when the pages begun are done; a second
    one at once. The collection's folder is needed only where the frontier or the index lies in it.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    settings = shared_settings(
        load_profile(profile),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    show = choose(as_json=as_json)
    ended = asyncio.run(
        work(
            Work(settings, Layout(collection), workers, secret, unlocked(settings, collection)),
            clock=SystemClock(),
            report=show.event,
            stopping=show.stopping,
            dice=Random(),  # noqa: S311 no secret depends on it
        )
    )
    if not as_json:
        click.echo(f"{ended} pages ended here.")
    return Exit.OK
