"""`weboid links`: what is cited where, and whether it still works."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "add-page": "crawler.cli.links.add_page",
    "import": "crawler.cli.links.importing",
    "ls": "crawler.cli.links.listing",
    "purge": "crawler.cli.links.purge",
    "show": "crawler.cli.links.show",
    "wiki": "crawler.cli.links.wiki",
    "check": "crawler.cli.links.check",
    "exclude": "crawler.cli.links.exclude",
    "search": "crawler.cli.links.search",
    "spam": "crawler.cli.links.spam",
    "confirm": "crawler.cli.links.confirm",
    "mark": "crawler.cli.links.mark",
    "passes": "crawler.cli.links.passes",
    "replace": "crawler.cli.links.replace",
    "report": "crawler.cli.links.report",
    "copies": "crawler.cli.links.copies",
    "recognise": "crawler.cli.links.recognise",
}


@click.command("links", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Know what is cited where, and whether it still works.

    The registry keeps every external link of every page it is told of, looks at each for years, and
    answers at once. See docs/registry.md.
    """
