"""`weboid policy explain`: what every rule says of a URL."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import click

from core.clock import SystemClock
from core.urls import fetch_key, host_of
from crawler.cli.exits import Exit
from crawler.cli.tables import clean, table
from crawler.cli.where import Where, where_options
from crawler.collection import open_collection
from crawler.fetching import CA_FILE, Fetcher, agent_of, visits_at
from crawler.frontier.base import Frontier, FrontierItem, ItemRecord, Lane
from crawler.jobs import Jobs
from crawler.policy.judging import Opinion
from crawler.policy.making import make_policy
from crawler.rules import VISIT, Action, Verdict
from crawler.supervisor import running

_CLOCK = SystemClock()
_WORDS = {
    Action.VISIT: "visited",
    Action.SKIP: "skipped",
    Action.FAIL: "failed",
    Action.LATER: "put off",
}


@click.command("explain")
@click.argument("url")
@click.option("--job", default="", metavar="NAME", help="The crawl whose scope and settings hold.")
@click.option(
    "--fetch",
    is_flag=True,
    help="Ask for a robots.txt that is not known, through a proxy; nobody else may be archiving.",
)
@where_options
def explain(*, url: str, job: str, fetch: bool, where: Where, as_json: bool) -> int:
    """Show what each rule says of a URL, in their order, and which one decides.

    Without --fetch nobody is asked: a robots.txt that no crawl has read yet is said to be unknown.
    """
    key = fetch_key(url)
    with where.frontier() as frontier:
        record = frontier.find(key)
        job = job or (record.item.job if record is not None else "")
        opinions = asyncio.run(_opinions(key, job, record, frontier, where, fetch=fetch))
    deciding = next((each for each in opinions if each.is_against), None)
    outcome = _WORDS[deciding.verdict.action if deciding else Action.VISIT]
    history = _history(record)
    if as_json:
        rules = [
            {
                "rule": each.rule,
                "against": each.is_against,
                "text": each.text,
                "decides": each is deciding,
            }
            for each in opinions
        ]
        reason = deciding.verdict.reason if deciding else ""
        facts = {"outcome": outcome, "reason": reason, "rules": rules, "frontier": history}
        click.echo(json.dumps({"url": key, **facts}, ensure_ascii=False))
        return Exit.OK
    rows = [
        (
            each.rule,
            "against" if each.is_against else "",
            f"{each.text}  <- decides" if each is deciding else each.text,
        )
        for each in opinions
    ]
    click.echo(clean(key))
    for line in table(("rule", "", "says"), rows, columns=None, indent="  ")[1:]:
        click.echo(line)
    click.echo(f"It would be {outcome}. {clean(history)}")
    return Exit.OK


def _history(record: ItemRecord | None) -> str:
    """Where the URL stands in the frontier, in a sentence."""
    if record is None:
        return "The frontier does not know it."
    outcome = f": {record.outcome}" if record.outcome else ""
    when = record.ended_at or record.added_at
    return f"In the frontier it is {record.state} since {when:%Y-%m-%d %H:%M} UTC{outcome}."


async def _opinions(
    url: str,
    job: str,
    record: ItemRecord | None,
    frontier: Frontier,
    where: Where,
    *,
    fetch: bool,
) -> list[Opinion]:
    """What scope says, and then every part of policy."""
    jobs = Jobs(frontier, where.settings, clock=_CLOCK)
    jobs.look()
    item = FrontierItem("", url, host_of(url), Lane.STANDARD, 0, "", 0, job=job)
    if record is not None:
        item = record.item

    async def ask(verb: Callable[[], Any]) -> Any:
        return verb()

    async with _fetcher(where, wanted=fetch) as fetcher:
        policy = make_policy(
            frontier,
            where.settings.policy,
            fetcher=fetcher,
            settings_for=lambda each: jobs.settings_for(each.url, job),
            clock=_CLOCK,
            ask=ask,
        )
        opinions = await policy.explain(item, now=_CLOCK.now())
    return [_scope(jobs, url, job, is_known=record is not None), *opinions]


def _scope(jobs: Jobs, url: str, job: str, *, is_known: bool) -> Opinion:
    """What scope says: of a URL that is queued already only whether it is excluded by now."""
    scope = jobs.scope_for(url, job)
    excluded = scope.excluded(url)
    if excluded is not None:
        reason = f"scope: exclude {excluded}"
        return Opinion("scope", Verdict(Action.SKIP, reason), reason)
    if jobs.job(job) is None or is_known:
        return Opinion("scope", VISIT, "not excluded")
    decision = scope.decide(url, hops=1, hops_off=0)
    if decision.followed:
        return Opinion("scope", VISIT, f"a link to it from a seed is followed: {decision.reason}")
    reason = f"scope: {decision.reason}"
    return Opinion("scope", Verdict(Action.SKIP, reason), f"{reason}, for a link from a seed")


@asynccontextmanager
async def _fetcher(where: Where, *, wanted: bool) -> AsyncIterator[Fetcher | None]:
    """What asks for a robots.txt, through a proxy of our own; None when it is not wanted."""
    if not wanted:
        yield None
        return
    settings = where.settings
    async with (
        open_collection(where.layout.root, clock=_CLOCK) as collection,
        running(collection, settings, clock=_CLOCK) as supervisor,
    ):
        yield Fetcher(
            visits_at(
                supervisor, bucket=settings.proxy.dedup_bucket, headers=settings.visit.headers
            ),
            ca=collection.layout.ca / CA_FILE,
            agent=agent_of(supervisor, settings.visit),
        )
