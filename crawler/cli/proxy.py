"""`weboid proxy`: a proxy for workers on other machines."""

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import ConfigError
from core.hostport import split_host_port
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
)
from crawler.profiles import load_profile
from crawler.proxies import FileRecovered
from crawler.standing import Stand, stand
from crawler.waiting import GoingOn, Waiting
from proxy.handshake import Secret


@click.command("proxy")
@collection_option
@profile_option
@frontier_option
@database_option
@dedup_option
@secret_option
@click.option(
    "--listen",
    default="127.0.0.1:8000",
    show_default=True,
    metavar="HOST:PORT",
    help="Where browsers come; port 0: a free one.",
)
@click.option(
    "--control",
    default="127.0.0.1:8001",
    show_default=True,
    metavar="HOST:PORT",
    help="Where workers give orders; port 0: a free one.",
)
@click.option(
    "--advertise",
    default="",
    metavar="HOST",
    help="The name or address by which workers reach this machine, if not the one listened on.",
)
@click.option(
    "--drain",
    default=90.0,
    show_default=True,
    type=click.FloatRange(0, 86_400),
    help="Seconds that visits under way may take when it is told to stop.",
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
    listen: str,
    control: str,
    advertise: str,
    drain: float,
    as_json: bool,
) -> int:
    """Write WARCs for workers on any machine.

    Shares the collection's folder with other proxies, announces itself in the frontier, and takes
    orders from those who hold the secret. Browsers and orders come over the network as it is: let
    only the cluster's machines reach these ports. SIGTERM ends it when the visits under way are over.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    settings = shared_settings(
        load_profile(profile),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    order = Stand(
        root=collection,
        settings=settings,
        listen=_place(listen, "--listen"),
        control=_place(control, "--control"),
        advertise=advertise,
        secret=secret,
        drain_s=drain,
    )
    say = _Speaker(as_json=as_json)
    asyncio.run(
        stand(
            order,
            clock=SystemClock(),
            ready=say.ready,
            report=say.event,
            stopping=say.stopping,
        )
    )
    return Exit.OK


def _place(text: str, option: str) -> tuple[str, int]:
    try:
        return split_host_port(text)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from error


class _Speaker:
    """What it says, for people or as JSON lines."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def ready(self, about: dict[str, Any]) -> None:
        """It serves."""
        shown = {name: value for name, value in about.items() if name != "authority"}
        self._say(
            {"event": "ready", **shown},
            f"The proxy serves browsers at {about['browsers']}, workers at {about['address']}.",
        )

    def event(self, event: FileRecovered | Waiting | GoingOn) -> None:
        """A file was put in order, or something is waited for."""
        match event:
            case FileRecovered():
                self._say({"event": "recovered", **event.facts}, event.text)
            case Waiting():
                self._say({"event": "waiting", **asdict(event)}, event.text)
            case GoingOn():
                facts = {"event": "going_on", **asdict(event)}
                self._say(facts, f"Going on after {event.seconds:.0f} s.")

    def stopping(self) -> None:
        """The first signal came."""
        self._say({"event": "stopping"}, "Stopping when the visits under way are over.")

    def _say(self, facts: dict[str, Any], text: str) -> None:
        click.echo(json.dumps(facts) if self._as_json else text)
