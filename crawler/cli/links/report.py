"""`weboid links report`: a link that is shown as dead, and that somebody reaches."""

import json
from pathlib import Path

import click

from core.clock import SystemClock
from core.settings import LinksSettings
from crawler.cli.exits import Exit
from crawler.cli.links.saying import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean
from links.days import date_of
from links.limits import limits_of
from links.reports import Reported, Withdrawn, report, withdraw

_CLOCK = SystemClock()
_MOST_SHOWN = 20


@click.command("report")
@click.argument("named", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--domain",
    "is_pattern",
    is_flag=True,
    help="What is named is a domain, with as much of a path as is meant: example.org/docs/.",
)
@click.option("--withdraw", "is_withdrawal", is_flag=True, help="Take all such reports back.")
@click.option("--actor", default=None, metavar="NAME", help="Who says so.  [default: you]")
@click.option(
    "--per-day",
    type=click.IntRange(min=1),
    default=LinksSettings().reports_per_day,
    show_default=True,
    help="Reports of all people together on a day.",
)
@collection_option
@database_option
@json_option
def command(
    *,
    named: tuple[str, ...],
    is_pattern: bool,
    is_withdrawal: bool,
    actor: str | None,
    per_day: int,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Say that links can be reached, though they are shown as dead.

    A report adds a note beside a link for six months; nothing else changes. The next regular look
    that finds the page ends it, and anybody may withdraw it. One report a minute, of any number of
    URLs that are watched. When three reporters on two days report half of a domain, a note says that
    all of it is presumed reachable, and the bot leaves its links alone.
    """
    now = _CLOCK.now()
    with opened_registry(collection, database_url) as registry:
        who = registry.reporter(actor)
        with registry.store.writing() as rows:
            done: Reported | Withdrawn
            if is_withdrawal:
                done = withdraw(rows, named, who, now, is_pattern=is_pattern)
            else:
                limits = limits_of(per_day)
                done = report(rows, named, who, now, is_pattern=is_pattern, limits=limits)
    if isinstance(done, Withdrawn):
        _say_withdrawn(done, as_json=as_json)
    else:
        _say_reported(done, as_json=as_json)
    return Exit.OK


def _say_reported(done: Reported, *, as_json: bool) -> None:
    until = date_of(done.until_day).isoformat()
    if as_json:
        facts = {
            "reported": done.urls,
            "until": until,
            "renewed": done.renewed,
            "domain_presumed_reachable": done.presumed,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    for url in done.urls[:_MOST_SHOWN]:
        click.echo(clean(url))
    if len(done.urls) > _MOST_SHOWN:
        click.echo(f"… and {len(done.urls) - _MOST_SHOWN:,} more.")
    again = f", {done.renewed:,} of them again" if done.renewed else ""
    click.echo(f"{len(done.urls):,} reported as reachable until {until}{again}.")
    if done.presumed:
        click.echo("Enough of the domain is reported: all of it is presumed reachable.")


def _say_withdrawn(gone: Withdrawn, *, as_json: bool) -> None:
    if as_json:
        facts = {"withdrawn": gone.reports, "domain_no_longer_presumed": gone.presumption}
        click.echo(json.dumps(facts))
        return
    click.echo(f"{gone.reports:,} reports withdrawn.")
    if gone.presumption:
        click.echo("The domain is no longer presumed reachable.")
