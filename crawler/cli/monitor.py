"""`weboid monitor`: the status over HTTP, for people, scripts and Prometheus."""

import asyncio
import contextlib
import signal

import click

from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.status import reader_of
from crawler.cli.where import Where, where_options
from crawler.monitoring import DEFAULT_LISTEN, serve_metrics
from crawler.reporting import StatusReader


@click.command("monitor")
@where_options
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where; :PORT is every address.",
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="A host name that it may be asked by."
)
def command(*, where: Where, listen: str, names: tuple[str, ...], as_json: bool) -> int:
    """Serve the status to scripts and Prometheus.

    Prints the address of /stats.json, /metrics and /healthz, and serves them until Ctrl-C. It reads
    what `weboid status` reads, also while nobody works. Asked by a name, it answers only to
    localhost and to those given with --name; asked by an address, always.
    """
    if as_json:
        raise InputError("JSON is at /stats.json; or use `weboid status --json`.")
    with reader_of(where) as reader:
        reader.status()  # what cannot be read at all is said now
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(reader, listen, names))
    return Exit.OK


async def _serve(reader: StatusReader, listen: str, names: tuple[str, ...]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serve_metrics(reader, listen, names=names) as address:
        click.echo(address)
        await stop.wait()
