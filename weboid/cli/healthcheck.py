"""`weboid alive`: health check of a proxy or worker container."""

import socket
from pathlib import Path

import click

from core.clock import SystemClock
from core.layout import Layout
from crawler.frontier.backend import open_frontier
from crawler.pools.cluster import SERVICE_KINDS, lives_here
from crawler.profiles import load_profile
from weboid.cli.support.commands import ExitCode, argument, cli_command
from weboid.cli.support.options import COLLECTION, FRONTIER, PROFILE, SharedStores


@cli_command("alive")
def command(
    *,
    kind: str = argument(type=click.Choice(SERVICE_KINDS)),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    frontier_url: str = FRONTIER,
) -> int:
    """Check that a proxy or worker of this machine reports that it is alive.

    Exit code 0: one does; 1: none does; 3: the frontier does not answer.
    """
    settings = SharedStores(frontier_url=frontier_url).applied_to(load_profile(profile))
    with open_frontier(Layout(collection), settings.frontier, settings.politeness) as frontier:
        alive = lives_here(frontier, kind, socket.gethostname(), SystemClock())
    click.echo("alive" if alive else f"No {kind} of this machine has reported in time.")
    return ExitCode.OK if alive else ExitCode.SOME_FAILED
