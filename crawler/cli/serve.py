"""`weboid serve`: a collection to readers."""

import asyncio
from pathlib import Path

import click

from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option
from crawler.collection import read_collection
from playback.server import serve


@click.command("serve")
@collection_option
@database_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, help="The pages' port; 0: a free one.")
@click.option("--replay-port", default=0, help="The copies' port, another origin; 0: a free one.")
def command(*, collection: Path, database_url: str, host: str, port: int, replay_port: int) -> int:
    """Show a collection's pages, and play their copies back.

    Prints one address. The copies come from another port, which is another origin: nothing that was
    archived shares one with these pages. Works while the collection is being written. Ctrl-C ends it.
    """
    layout = read_collection(collection)
    try:
        asyncio.run(
            serve(
                layout,
                host=host,
                port=port,
                replay_port=replay_port,
                on_ready=click.echo,
                index_url=database_url,
            )
        )
    except KeyboardInterrupt:
        return Exit.OK
    return Exit.OK
