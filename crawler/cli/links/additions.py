"""`weboid links additions`: who added links, and to which domain on how many wikis (X11)."""

import json
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, table, width
from links.books.additions import KEEP_DAYS, Addition, Spread, additions_of, spreads
from links.days import date_of, day_of
from links.domains import registrable

_CLOCK = SystemClock()


@click.command("additions")
@click.option("--domain", metavar="DOMAIN", help="Each link to that domain, with its page.")
@click.option("--user", "account", metavar="NAME", help="Each link by that account.")
@click.option(
    "--wikis",
    "least_wikis",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Without --domain and --user: on so many wikis of a farm at least.",
)
@click.option(
    "--days",
    type=click.IntRange(1, KEEP_DAYS),
    default=KEEP_DAYS,
    show_default=True,
    help="Of the last so many days.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@collection_option
@database_option
@json_option
def command(
    *,
    domain: str | None,
    account: str | None,
    least_wikis: int,
    days: int,
    limit: int,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Show which accounts add links to one domain on several wikis.

    For people who look into conflicts of interest and spam. A link is an account's only where the
    revision that brought it is certain; look at the revision before you conclude anything. Additions
    leave after 90 days. See docs/link-search.md.
    """
    since = day_of(_CLOCK.now()) - days + 1
    named = _domain(domain) if domain else ""
    with opened_registry(collection, database_url) as store, store.reading() as rows:
        if named or account:
            added = additions_of(
                rows, since_day=since, domain=named, account=account or "", limit=limit
            )
            facts = list(map(_addition_facts, added))
        else:
            found = spreads(rows, since_day=since, least_wikis=least_wikis, limit=limit)
            facts = list(map(_spread_facts, found))
    if as_json:
        key = "additions" if named or account else "spreads"
        click.echo(json.dumps({key: facts}, ensure_ascii=False))
        return Exit.OK
    if not facts:
        click.echo("No such addition is known.")
        return Exit.OK
    cells = [[clean(f"{each:,}" if isinstance(each, int) else each) for each in fact.values()]
             for fact in facts]  # fmt: skip
    heads = [f"{name}>" if isinstance(value, int) else name for name, value in facts[0].items()]
    for line in table(heads, cells, columns=width()):
        click.echo(line)
    return Exit.OK


def _domain(text: str) -> str:
    try:
        return registrable(canonical_host(text.strip()))
    except BadUrlError as error:
        raise InputError(f"{text[:80]!r} is no domain: {error}.") from error


def _spread_facts(each: Spread) -> dict[str, int | str]:
    return {
        "account": each.account,
        "domain": each.domain,
        "farm": each.farm,
        "wikis": each.wikis,
        "pages": each.pages,
        "links": each.links,
        "first": str(date_of(each.first_day)),
        "last": str(date_of(each.last_day)),
    }


def _addition_facts(each: Addition) -> dict[str, int | str]:
    return {
        "day": str(date_of(each.day)),
        "wiki": each.wiki,
        "title": each.title,
        "account": each.account,
        "revision": str(each.rev_id),
        "page_id": str(each.page_id),
        "url": each.url,
    }
