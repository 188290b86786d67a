"""`weboid status`: what is in a collection, what goes on, and what is still to be done."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from importlib import import_module
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from core.clock import SystemClock
from core.errors import InputError, WeboidError
from crawler.cli.exits import Exit
from crawler.cli.status_lines import lines
from crawler.cli.tables import width
from crawler.cli.where import Where, where_options
from crawler.collection import read_collection
from crawler.frontier.base import Frontier
from crawler.reporting import Checks, StatusReader

REFRESH_S = 1.0


@click.command("status")
@where_options
@click.option("--watch", is_flag=True, help="Show it anew each second, until Ctrl-C.")
def command(*, where: Where, watch: bool, as_json: bool) -> int:
    """Say what is there, what goes on, what is left.

    Reads counts that are kept anyway, and disturbs nobody: as quick for ten million URLs as for ten.
    """
    if watch and as_json:
        raise InputError("Say --watch or --json; `weboid monitor` serves JSON again and again.")
    with reader_of(where) as reader:
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(reader)
        elif as_json:
            click.echo(json.dumps(reader.status().to_dict(), ensure_ascii=False))
        else:
            for line in lines(reader.status(), columns=width()):
                click.echo(line)
    return Exit.OK


@contextmanager
def reader_of(where: Where) -> Iterator[StatusReader]:
    """A reader of what the options name; the frontier is opened when it is there.

    Raises:
        UnavailableError: there is no collection, and no frontier in Redis is named.
        CollectionVersionError: the collection was made by another version.
    """
    layout = where.layout
    if not where.is_shared or layout.marker.exists():
        read_collection(layout.root)
    with ExitStack() as stack:
        opened: list[Frontier] = []
        readers: list[Any] = []

        def frontier() -> Frontier | None:
            if not opened and (where.is_shared or layout.frontier_db.exists()):
                opened.append(stack.enter_context(where.frontier()))
            return opened[0] if opened else None

        def checks(now: datetime) -> Checks | None:
            url = where.settings.index.url
            if not readers and (url or layout.links_db.is_file()):
                # Loaded where there is a registry: most that steers a crawl needs no such library.
                counting = import_module("crawler.quality.counting")
                readers.append(stack.enter_context(counting.ChecksReader(layout, url)))
            return readers[0].read(now) if readers else None

        yield StatusReader(
            layout if layout.marker.exists() else None,
            frontier,
            settings=where.settings,
            clock=SystemClock(),
            checks=checks,
        )


def _watch(reader: StatusReader) -> None:
    console = Console(highlight=False)
    tick = threading.Event()
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            try:
                text = "\n".join(lines(reader.status(), columns=console.width))
            except WeboidError as error:  # a store that is away comes back
                text = f"It cannot be read at the moment: {error}"
            live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            tick.wait(REFRESH_S)
