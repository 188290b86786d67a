"""`weboid frontier`: the books, by hand."""

import click

from crawler.cli.carry import export, snapshot, take_in
from crawler.cli.look import ls, show
from crawler.cli.mend import purge, retry


@click.group("frontier")
def command() -> None:
    """Look into the books, and put them right."""


for _each in (ls, show, retry, purge, export, take_in, snapshot):
    command.add_command(_each)
