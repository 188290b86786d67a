"""`weboid worker` and `weboid proxy`: long-running processes of a cluster."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import click

from core.clock import SystemClock
from core.errors import ConfigError
from core.hosts import split_host_port
from core.layout import Layout
from crawler.profiles import load_profile
from crawler.run.worker_process import WorkerOptions, run_worker
from crawler.worker.crawl_events import FileRecovered
from net.backoff import WaitEnded, WaitStarted
from proxy.control.frames import ClusterSecret
from weboid.app.operator_identity import collection_settings
from weboid.app.proxy_service import ProxyServiceOptions, serve_proxy
from weboid.cli.support.commands import cli_command, option
from weboid.cli.support.options import (
    COLLECTION,
    OUTPUT,
    PROFILE,
    SECRET,
    SHARED,
    WORKERS,
    CommandOutput,
    SharedStores,
)
from weboid.cli.support.run_options import open_stored_levels, unlock_logins
from weboid.cli.support.run_output import run_reporter


@cli_command("worker")
def worker_command(
    *,
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    shared: SharedStores = SHARED,
    secret: ClusterSecret = SECRET,
    workers: int = WORKERS,
    reports: Path | None = option(
        "Keep the crawl log and the logs of links there.  [default: the collection's reports/, where"
        " the collection is on this machine]",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
    ),
    output: CommandOutput = OUTPUT,
) -> None:
    """Visit pages of a shared frontier until stopped.

    The WARCs are written by proxies that have registered themselves there. While Redis, the
    database or all proxies are unavailable it waits, and then continues. SIGTERM ends it when the
    pages in progress are done; a second one at once. The collection's folder is needed only where
    the frontier or the index is in it.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    # The URLs may have been given by hand: the profile decides about robots.txt.
    settings = shared.applied_to(
        collection_settings(
            profile, collection, unattended=True, robots=load_profile(profile).policy.robots
        )
    )
    layout = Layout(collection)
    if reports is None and layout.marker.exists():
        reports = layout.reports
    if reports is None:
        click.echo("No crawl log is kept here: --reports names a folder for it.", err=True)
    reporter = run_reporter(as_json=output.is_json)
    with open_stored_levels(layout, settings.index.url) as level_of:
        ended = asyncio.run(
            run_worker(
                WorkerOptions(
                    settings,
                    layout,
                    workers,
                    secret,
                    unlock_logins(settings, collection),
                    reports,
                    stored_level_of=level_of,
                ),
                clock=SystemClock(),
                report=reporter.event,
                stopping=reporter.stopping,
                rng=Random(),  # noqa: S311 no secret depends on it
            )
        )
    if not output.is_json:
        click.echo(f"{ended} pages ended here.")


@cli_command("proxy")
def proxy_command(
    *,
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    shared: SharedStores = SHARED,
    secret: ClusterSecret = SECRET,
    listen: str = option(
        "Where browsers come; port 0: a free one.", default="127.0.0.1:8000", metavar="HOST:PORT"
    ),
    control: str = option(
        "Where workers give orders; port 0: a free one.",
        default="127.0.0.1:8001",
        metavar="HOST:PORT",
    ),
    advertise: str = option(
        "The name or address by which workers reach this machine, if not the one listened on.",
        default="",
        metavar="HOST",
    ),
    drain: float = option(
        "Seconds that visits in progress may take after a stop signal.",
        default=90.0,
        type=click.FloatRange(0, 86_400),
    ),
    output: CommandOutput = OUTPUT,
) -> None:
    """Write WARCs for workers on any machine.

    Shares the collection's folder with other proxies, registers itself in the frontier, and accepts
    control connections with the shared secret. Browser and control traffic is not encrypted: allow
    only the cluster's machines to reach these ports. SIGTERM ends it when the visits in progress
    are done.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    settings = shared.applied_to(load_profile(profile))
    options = ProxyServiceOptions(
        root=collection,
        settings=settings,
        listen=_address(listen, "--listen"),
        control=_address(control, "--control"),
        advertise=advertise,
        secret=secret,
        drain_s=drain,
    )
    reporter = _ProxyReporter(output)
    asyncio.run(
        serve_proxy(
            options,
            clock=SystemClock(),
            ready=reporter.ready,
            report=reporter.event,
            stopping=reporter.stopping,
        )
    )


def _address(text: str, option: str) -> tuple[str, int]:
    try:
        return split_host_port(text)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from error


class _ProxyReporter:
    """Output of a cluster proxy, as text or JSON lines."""

    def __init__(self, output: CommandOutput) -> None:
        self._show = output.show

    def ready(self, about: dict[str, Any]) -> None:
        shown = {name: value for name, value in about.items() if name != "authority"}
        self._show(
            {"event": "ready", **shown},
            f"The proxy serves browsers at {about['browsers']}, workers at {about['address']}.",
        )

    def event(self, event: FileRecovered | WaitStarted | WaitEnded) -> None:
        match event:
            case FileRecovered():
                self._show({"event": "recovered", **event.facts}, event.text)
            case WaitStarted():
                self._show({"event": "waiting", **asdict(event)}, event.text)
            case WaitEnded():
                facts = {"event": "going_on", **asdict(event)}
                self._show(facts, f"Going on after {event.seconds:.0f} s.")

    def stopping(self) -> None:
        self._show({"event": "stopping"}, "Stopping when the visits under way are over.")
