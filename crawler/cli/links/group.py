"""`weboid links`: what is cited where, and whether it still works."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "add-page": "crawler.cli.links.add_page",
    "additions": "crawler.cli.links.additions",
    "check": "crawler.cli.links.check",
    "confirm": "crawler.cli.links.confirm",
    "copies": "crawler.cli.links.copies",
    "exclude": "crawler.cli.links.exclude",
    "import": "crawler.cli.links.importing",
    "interwiki": "crawler.cli.links.interwiki",
    "ls": "crawler.cli.links.listing",
    "mark": "crawler.cli.links.mark",
    "mirror": "crawler.cli.links.mirror",
    "passes": "crawler.cli.links.passes",
    "purge": "crawler.cli.links.purge",
    "recognise": "crawler.cli.links.recognise",
    "replace": "crawler.cli.links.replace",
    "report": "crawler.cli.links.report",
    "search": "crawler.cli.links.search",
    "show": "crawler.cli.links.show",
    "spam": "crawler.cli.links.spam",
    "wiki": "crawler.cli.links.wiki",
}


@click.command("links", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Know what is cited where, and whether it still works.

    The registry keeps every external link of every page it is told of, looks at each for years, and
    answers at once. See docs/registry.md.
    """
