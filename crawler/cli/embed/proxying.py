"""`weboid embed proxy`: a reverse proxy before any wiki."""

import asyncio
import ipaddress
from typing import Any

import click

from core.clock import SystemClock
from core.errors import ConfigError
from core.hostport import join_host_port, split_host_port
from crawler.cli.embed.sharing import lookup_of, marking_of, marking_options
from crawler.cli.exits import Exit
from proxy.http_server import open_listener
from wiki.embedding.heads import Network, Private
from wiki.embedding.proxying import (
    NEVER_MARKED,
    PAGE_LIMIT_BYTES,
    PATIENCE_S,
    ProxySettings,
    upstream_of,
)
from wiki.embedding.serving import serve


@click.command("proxy")
@click.option(
    "--upstream",
    required=True,
    metavar="URL",
    help="The wiki as it is reached from here: http://127.0.0.1:8080.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8081",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen; port 0: a free one.",
)
@marking_options
@click.option(
    "--host",
    type=click.Choice(["keep", "upstream"]),
    default="keep",
    show_default=True,
    help="The host that the wiki is asked for: the reader's, or its own.",
)
@click.option(
    "--private",
    type=click.Choice([str(each) for each in Private]),
    default=str(Private.SKIP),
    show_default=True,
    help="Pages made for one reader (Authorization, Set-Cookie): leave them, or ask about their links.",
)
@click.option(
    "--behind",
    multiple=True,
    metavar="NETWORK",
    help="A reverse proxy whose X-Forwarded-* is believed; may be given several times.",
)
@click.option(
    "--skip-path",
    "skip_paths",
    multiple=True,
    metavar="START",
    help="Paths that begin so are never marked, beside MediaWiki's interfaces for programs.",
)
@click.option(
    "--limit-mb",
    type=click.FloatRange(0.01, 256),
    default=PAGE_LIMIT_BYTES / (1 << 20),
    show_default=True,
    help="Larger pages pass as they are.",
)
@click.option(
    "--patience",
    "patience_s",
    type=click.FloatRange(0.1, 600),
    default=PATIENCE_S,
    show_default=True,
    help="Pages that take more seconds to come pass as they are.",
)
def command(
    *,
    upstream: str,
    listen: str,
    host: str,
    private: str,
    behind: tuple[str, ...],
    skip_paths: tuple[str, ...],
    limit_mb: float,
    patience_s: float,
    **options: Any,
) -> int:
    """Stand before a wiki of any engine, and mark the links of the pages that readers see.

    Everything else passes as it is, both ways. Pages do so too while the archive's front is away.
    Prints the address it listens on. Ctrl-C ends it.
    """
    marking = marking_of(options)
    upstream_of(upstream)  # before anything listens
    settings = ProxySettings(
        upstream.rstrip("/"),
        host == "keep",
        Private(private),
        _networks(behind),
        (*NEVER_MARKED, *skip_paths),
        int(limit_mb * (1 << 20)),
        patience_s,
    )
    address, port = split_host_port(listen)
    lookup = lookup_of(options, is_patient=False)
    listener = open_listener(address, port)
    port = listener.getsockname()[1]
    asyncio.run(
        serve(
            settings,
            marking,
            lookup,
            clock=SystemClock(),
            listener=listener,
            on_ready=lambda: click.echo(f"http://{join_host_port(address, port)}/"),
        )
    )
    return Exit.OK


def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise ConfigError(f"--behind is a network such as 10.0.0.0/8: {error}.") from error
