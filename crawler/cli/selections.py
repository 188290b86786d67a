"""The options that say which items are meant, and the terminal's line while they are looked through."""

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.patterns import compile_pattern
from crawler.cli.params import host_name
from crawler.selecting import Selection

host_option = click.option("--host", type=host_name, metavar="HOST", help="Only this host's.")
job_option = click.option("--job", metavar="NAME", help="Only this crawl's; '': of plain lists.")
reason_option = click.option(
    "--reason", default="", metavar="TEXT", help="Only those whose reason holds this."
)
match_option = click.option(
    "--match", metavar="PATTERN", help="Only URLs in which this pattern (RE2) is found."
)
dry_option = click.option("--dry-run", is_flag=True, help="Say what would be done, do nothing.")


def selection_of(host: str | None, job: str | None, reason: str, match: str | None) -> Selection:
    """What the options mean.

    Raises:
        ConfigError: the pattern cannot be run.
    """
    pattern = None if match is None else compile_pattern(match, where="--match")
    return Selection(host=host, job=job, reason=reason, pattern=pattern)


def progress(what: str, *, quiet: bool) -> Progress:
    """A line on the terminal that says how far it is; none elsewhere."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn(f"{what} {{task.completed:,.0f}}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
