"""`weboid policy`: what is not archived although it is asked for, and why."""

import asyncio
import getpass
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import click

from core.clock import SystemClock
from core.durations import parse_duration, parse_moment
from core.errors import InputError
from core.urls import fetch_key, host_of
from crawler.cli.exits import Exit
from crawler.cli.tables import clean, table, width
from crawler.cli.where import Where, where_options
from crawler.collection import open_collection
from crawler.fetching import CA_FILE, Fetcher, agent_of, visits_at
from crawler.frontier.base import Frontier, FrontierItem, Lane
from crawler.jobs import Jobs
from crawler.policy.entries import ORDERS, Kind, PolicyEntry, new_entry, read_entries
from crawler.policy.judging import Opinion
from crawler.policy.making import make_policy
from crawler.policy.patterns import target_of
from crawler.rules import Action
from crawler.supervisor import running

_CLOCK = SystemClock()
_KINDS = click.Choice([str(kind) for kind in Kind])
_WORDS = {
    Action.VISIT: "visited",
    Action.SKIP: "skipped",
    Action.FAIL: "failed",
    Action.LATER: "put off",
}


@click.group("policy")
def command() -> None:
    """Say what must not be archived, what must, and see what decides on a URL.

    A pattern is a host (example.org, with all below it; =example.org alone), the beginning of a URL
    (example.org/path, https://example.org/private/), a URL, a SURT prefix (org,example)/path) or a
    regular expression (re:...). Crawls follow a change within a second. See docs/policy.md.
    """


@command.command("list")
@click.option("--kind", type=_KINDS, help="Only these.")
@click.option("--for", "url", metavar="URL", help="Only those that match the URL.")
@click.option("--by", "actor", help="Only those of that actor; crawl: what the crawl found out.")
@click.option("--expired", is_flag=True, help="Also those that are over.")
@where_options
def list_command(
    *,
    kind: str | None,
    url: str | None,
    actor: str | None,
    expired: bool,
    where: Where,
    as_json: bool,
) -> int:
    """Show the entries."""
    with where.frontier() as frontier:
        entries = read_entries(frontier.orders(ORDERS))
    now = _CLOCK.now()
    shown = dict(entries.by_id)
    if url is not None:
        target = target_of(fetch_key(url, allow_single_label=True))
        matching = entries.of(target, tuple(Kind), now=datetime.min.replace(tzinfo=now.tzinfo))
        shown = {entry.id: entry for entry in matching}
    shown = {
        key: entry
        for key, entry in shown.items()
        if kind in (None, entry.kind)
        and actor in (None, entry.actor)
        and (expired or entry.holds(now))
    }
    if as_json:
        facts = {key: {"id": key, **entry.facts} for key, entry in shown.items()}
        unread = [{"id": key, "reason": why} for key, why in entries.unread.items()]
        document = {"entries": list(facts.values()), "unreadable": unread}
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    for line in _lines(shown):
        click.echo(line)
    for key, why in entries.unread.items():
        click.echo(f"{clean(key)} cannot be read: {clean(why)}", err=True)
    return Exit.OK


@command.command("add")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@click.option("--kind", type=_KINDS, default=None, help="What they are.  [default: blacklist]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting for what matches: robots=ignore, noarchive=obey, archive=never, ban_s=3600.",
)
@click.option("--reason", required=True, help="Why, for whoever asks later.")
@click.option("--expires", metavar="WHEN", help="After so long (30d), or then (2026-12-31).")
@click.option("--by", "actor", default=None, help="Who says so.  [default: you]")
@where_options
def add_command(
    *,
    patterns: tuple[str, ...],
    kind: str | None,
    settings: tuple[str, ...],
    reason: str,
    expires: str | None,
    actor: str | None,
    where: Where,
    as_json: bool,
) -> int:
    """Add entries, or change those about the same pattern."""
    now = _CLOCK.now()
    chosen = Kind(kind) if kind else Kind.SETTING if settings else Kind.BLACKLIST
    if (chosen is Kind.SETTING) != bool(settings):
        raise InputError("Settings, and only they, need --set KEY=VALUE.")
    expires_at = None if expires is None else _expiry(expires, now=now)
    made = [
        new_entry(
            PolicyEntry(
                kind=chosen,
                pattern=pattern.strip(),
                reason=reason,
                actor=actor if actor is not None else getpass.getuser(),
                made_at=now,
                expires_at=expires_at,
                key=key,
                value=value,
            )
        )
        for pattern in patterns
        for key, value in ([_pair(each) for each in settings] or [("", "")])
    ]
    if not where.is_shared and not where.layout.marker.exists():
        asyncio.run(_make_collection(where))  # what a crawl must not do is said before it begins
    with where.frontier(make=True) as frontier:
        for entry in made:
            frontier.give_order(ORDERS, entry.id, entry.to_json())
    for entry in made:
        facts = {"id": entry.id, **entry.facts}
        text = f"{entry.id}  {clean(str(entry))}"
        click.echo(json.dumps(facts, ensure_ascii=False) if as_json else text)
    return Exit.OK


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="ID|PATTERN...")
@click.option("--kind", type=_KINDS, help="Only entries of that kind.")
@where_options
def remove_command(*, names: tuple[str, ...], kind: str | None, where: Where, as_json: bool) -> int:
    """Take entries out, by their ids or by all that has that pattern."""
    removed = []
    with where.frontier() as frontier:
        orders = frontier.orders(ORDERS)
        entries = read_entries(orders).by_id
        for name in names:
            found = [
                key
                for key in orders
                if (key == name or (key in entries and entries[key].pattern == name.strip()))
                and (kind is None or (key in entries and entries[key].kind == kind))
            ]
            if not found:
                raise InputError(
                    f"No entry has the id or pattern {name[:200]!r}; `weboid policy list` shows them."
                )
            removed += [key for key in found if frontier.take_back(ORDERS, key)]
    if as_json:
        click.echo(json.dumps({"removed": removed}))
    for key in () if as_json else removed:
        click.echo(f"Removed {key}  {clean(str(entries[key])) if key in entries else ''}".rstrip())
    return Exit.OK


@command.command("explain")
@click.argument("url")
@click.option("--job", default="", metavar="NAME", help="The crawl whose settings hold.")
@click.option(
    "--fetch",
    is_flag=True,
    help="Ask for a robots.txt that is not known, through a proxy; nobody else may be archiving.",
)
@where_options
def explain_command(*, url: str, job: str, fetch: bool, where: Where, as_json: bool) -> int:
    """Show what each rule says of a URL, in their order, and which one decides."""
    key = fetch_key(url)
    with where.frontier() as frontier:
        opinions = asyncio.run(_explain(key, job, frontier, where, fetch=fetch))
    deciding = next((each for each in opinions if each.is_against), None)
    outcome = _WORDS[deciding.verdict.action if deciding else Action.VISIT]
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
        document = {"url": key, "outcome": outcome, "reason": reason, "rules": rules}
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    rows = [
        (each.rule, "against" if each.is_against else "", _marked(each, deciding))
        for each in opinions
    ]
    click.echo(clean(key))
    for line in table(("rule", "", "says"), rows, columns=None, indent="  ")[1:]:
        click.echo(line)
    click.echo(f"It would be {outcome}.")
    return Exit.OK


def _marked(opinion: Opinion, deciding: Opinion | None) -> str:
    return f"{opinion.text}  <- decides" if opinion is deciding else opinion.text


async def _make_collection(where: Where) -> None:
    async with open_collection(where.layout.root, clock=_CLOCK):
        pass


async def _explain(
    url: str, job: str, frontier: Frontier, where: Where, *, fetch: bool
) -> list[Opinion]:
    jobs = Jobs(frontier, where.settings, clock=_CLOCK)
    jobs.look()
    record = frontier.find(url)
    host = record.item.host if record is not None else host_of(url)
    lane = record.item.lane if record is not None else Lane.STANDARD
    item = FrontierItem("", url, host, lane, 0, "", 0, job=job)

    async def ask(verb: Callable[[], Any]) -> Any:
        return verb()

    async with _fetcher(where, wanted=fetch) as fetcher:
        policy = make_policy(
            frontier,
            where.settings.policy,
            fetcher=fetcher,
            settings_for=lambda each: jobs.settings_for(each.url, each.job),
            clock=_CLOCK,
            ask=ask,
        )
        opinions = await policy.explain(item, now=_CLOCK.now())
    for problem in policy.problems.kept:
        click.echo(clean(str(problem)), err=True)
    return opinions


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
            visits_at(supervisor, bucket=settings.proxy.dedup_bucket),
            ca=collection.layout.ca / CA_FILE,
            agent=agent_of(supervisor, settings.visit),
        )


def _lines(entries: dict[str, PolicyEntry]) -> list[str]:
    """The entries for people, those of a kind together."""
    if not entries:
        return ["There is no entry."]
    ordered = sorted(entries.items(), key=lambda each: (each[1].kind, each[1].pattern))
    rows = [
        (
            key,
            str(entry.kind),
            f"{entry.pattern}  {entry.key}={entry.value}" if entry.key else entry.pattern,
            "never" if entry.expires_at is None else f"{entry.expires_at:%Y-%m-%d %H:%M}",
            entry.actor,
            f"{entry.made_at:%Y-%m-%d}",
            entry.reason,
        )
        for key, entry in ordered
    ]
    head = ("id", "kind", "pattern", "expires", "by", "made", "reason")
    return table(head, rows, columns=width())


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text[:80]!r} sets nothing: write KEY=VALUE, such as robots=ignore.")
    return key.strip(), value.strip()


def _expiry(text: str, *, now: datetime) -> datetime:
    """The moment that a length of time from now, or a date, names.

    Raises:
        InputError: it names none, or one that is over.
    """
    try:
        return now + parse_duration(text)
    except InputError:
        moment = parse_moment(text)
    if moment <= now:
        raise InputError(f"{text} is over already; leave --expires out for an entry without end.")
    return moment
