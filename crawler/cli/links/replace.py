"""`weboid links replace`: the one other URL for a dead one."""

import asyncio
import json
from dataclasses import replace as changed
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import InputError
from core.settings import LinksSettings, Settings
from crawler.cli.exits import Exit
from crawler.cli.links.opening import registry_settings
from crawler.cli.links.saying import Registry, opened_registry
from crawler.cli.options import collection_option, database_option, json_option, profile_option
from crawler.cli.tables import clean
from links.archives.copies import ArchiveCopies
from links.asking.prober import Prober
from links.checking.turns import HostTurns
from links.days import date_of
from links.limits import limits_of
from links.marks import LiveMarks
from links.observed import need_observed
from links.replacements import (
    Proposed,
    Replacement,
    Surroundings,
    propose,
    remove,
    replacements_of,
)
from links.stages import Stage
from links.trying import Examiner, try_replacements
from proxy.addresses import is_own

_CLOCK = SystemClock()
_STAGES = {
    Stage.WAITING: "waits for its test; nobody is shown it yet",
    Stage.WORKS: "works, and is shown",
    Stage.FAILED: "failed its test; nobody is shown it",
}


@click.command("replace")
@click.argument("url", required=False, metavar="[URL]")
@click.argument("address", required=False, metavar="[NEW]")
@click.option("--remove", "is_removal", is_flag=True, help="Remove what is proposed for URL.")
@click.option("--test", "is_test", is_flag=True, help="Look at what waits or is due again.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="With --test: at most so many.",
)
@click.option("--actor", default=None, metavar="NAME", help="Who says so.  [default: you]")
@collection_option
@database_option
@profile_option
@json_option
def command(
    *,
    url: str | None,
    address: str | None,
    is_removal: bool,
    is_test: bool,
    limit: int,
    actor: str | None,
    collection: Path,
    database_url: str,
    profile: str,
    as_json: bool,
) -> int:
    """Propose one other URL for a dead one, remove it, or see what is proposed.

    It is shown once a test has found it working; --test makes those tests, and repeats them each
    month. That both say the same is for whoever proposes to know. A copy in a known archive goes to
    the copies of the link.
    """
    if is_test == bool(url) or (is_removal and address is not None) or (is_test and is_removal):
        raise InputError(
            "Write `replace URL NEW` to propose, `replace URL --remove` to remove,"
            " `replace URL` to see, or `replace --test`."
        )
    settings = registry_settings(profile, database_url, collection)
    with opened_registry(collection, database_url) as registry:
        if url is None:
            return _test(registry, settings, limit, as_json=as_json)
        if is_removal:
            with registry.store.writing() as rows:
                gone = remove(rows, url, registry.reporter(actor), _CLOCK.now())
            facts = {"removed": gone}
            click.echo(json.dumps(facts) if as_json else f"Removed {clean(gone)}.")
        elif address is None:
            _show(registry, url, as_json=as_json)
        else:
            around = _surroundings(registry, settings.links)
            who = registry.reporter(actor)
            with registry.store.writing() as rows:
                done = propose(rows, url, address, who, _CLOCK.now(), around)
            _say(done, as_json=as_json)
    return Exit.OK


def _surroundings(registry: Registry, settings: LinksSettings) -> Surroundings:
    return Surroundings(
        refuses=LiveMarks(registry.store, _CLOCK).refuses,
        archives=ArchiveCopies(),
        limits=limits_of(settings.reports_per_day),
    )


def _say(done: Proposed, *, as_json: bool) -> None:
    if as_json:
        facts = {"address": done.address, "archive": done.archive or None, "new": done.is_new}
        click.echo(json.dumps(facts, ensure_ascii=False))
    elif done.archive:
        click.echo(f"{clean(done.address)} is a copy in {done.archive}: kept among the copies.")
    elif done.is_new:
        click.echo(f"{clean(done.address)} is shown once a test has found it working.")
    else:
        click.echo(f"{clean(done.address)} is proposed already.")


def _show(registry: Registry, url: str, *, as_json: bool) -> None:
    with registry.store.reading() as rows:
        observed = need_observed(rows, url)
        found = replacements_of(rows, [observed.id]).get(observed.id)
    if as_json:
        click.echo(json.dumps({"url": observed.url, "replacement": found and _facts(found)}))
    elif found is None:
        click.echo(f"No replacement is proposed for {clean(observed.url)}.")
    else:
        click.echo(f"{clean(found.address)} {_STAGES[found.stage]}.")
        if found.tested_day is not None:
            click.echo(f"It was tested on {date_of(found.tested_day).isoformat()}.")


def _facts(found: Replacement) -> dict[str, object]:
    tested = None if found.tested_day is None else date_of(found.tested_day).isoformat()
    return {"address": found.address, "stage": found.stage.name.lower(), "tested": tested}


def _test(registry: Registry, settings: Settings, limit: int, *, as_json: bool) -> int:
    def told(which: Replacement, stage: Stage) -> None:
        if as_json:
            facts = {"url": which.url, **_facts(changed(which, stage=stage))}
            click.echo(json.dumps(facts, ensure_ascii=False))
        else:
            click.echo(f"{clean(which.address)} {_STAGES[stage]}.")

    async def run() -> int:
        turns = HostTurns(settings.links.host_gap_s, monotonic=_CLOCK.monotonic)
        async with Prober(settings, is_own=is_own, turns=turns, clock=_CLOCK) as prober:
            around = _surroundings(registry, settings.links)
            examiner = Examiner(prober, turns, _CLOCK)
            stages = await try_replacements(
                registry.store, examiner, limit=limit, around=around, told=told
            )
            return stages.total()

    count = asyncio.run(run())
    if not as_json:
        click.echo(f"{count:,} tested." if count else "Nothing waits for a test.")
    return Exit.OK
