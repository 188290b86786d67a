"""`weboid embed urls`: the links that a site of plain files cites."""

import json
from pathlib import Path
from typing import Any

import click

from crawler.cli.embed.sharing import rule_options, rules_of
from crawler.cli.exits import Exit
from crawler.cli.tables import clean
from links.books.wikis import parse_wiki
from wiki.embedding.sites import Marking, Site, page_number, title_of


@click.command("urls")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--base", default="", metavar="URL", help="Where the site's root lies.")
@click.option(
    "--wiki", "wiki_name", default="", metavar="NAME", help="Whose pages these are, in each line."
)
@rule_options
@click.option("--plain", is_flag=True, help="The addresses alone, each once, a line each.")
def command(*, folder: Path, base: str, wiki_name: str, plain: bool, **options: Any) -> int:
    """List the external links of the HTML files in FOLDER, a JSON line for each page.

    \b
    weboid embed urls public --base https://me.example/ | weboid links import - --wiki handbook@me
    weboid embed urls public --plain | weboid archive --list -

    A page's number is made from its path, so that it is the same in every run.
    """  # noqa: D301 a sign for click
    marking = Marking("", rules=rules_of(options), base=base, own=options["own"])
    wiki = {"wiki": str(parse_wiki(wiki_name))} if wiki_name else {}
    site = Site(folder, marking)
    numbers: dict[int, str] = {}
    told: set[str] = set()
    lost = 0
    for name, urls in site.pages():
        if plain:
            for url in urls:
                if url not in told:
                    told.add(url)
                    click.echo(url)
            continue
        number = page_number(name)
        if numbers.setdefault(number, name) != name:
            lost += 1
            click.echo(f"{clean(name)} is left out: its number is that of another page.", err=True)
        elif urls:
            line = wiki | {
                "page_id": number,
                "title": title_of(name),
                "namespace": 0,
                "urls": list(urls),
            }
            click.echo(json.dumps(line))
    for name, why in site.passed_over.items():
        click.echo(f"{clean(name)} is passed over: {clean(why)}.", err=True)
    return Exit.SOME_FAILED if site.passed_over or lost else Exit.OK
