"""`weboid policy`: archiving policy entries, and the rules that decide on a URL."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import click

from core.errors import InputError
from core.layout import CA_FILE
from core.urls import fetch_key, host_of
from crawler.capture.proxy_fetcher import pool_fetcher
from crawler.collection import open_collection
from crawler.frontier.base import POLICY_ORDER, Frontier, FrontierItem, ItemRecord, Lane
from crawler.jobs.job_settings import JobSettings
from crawler.policy.policy_entries import PolicyEntry, PolicyKind, new_entry, read_entries
from crawler.policy.policy_evaluator import PolicyOpinion
from crawler.policy.policy_rule import make_policy
from crawler.pools.resource_pool import open_local_pool
from crawler.rules.visit_rule import RuleAction, RuleDecision
from weboid.app.text_table import clean, table
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, CommandGroup, argument, cli_command, option
from weboid.cli.support.options import end_moment, output
from weboid.cli.support.stores import actor_name, make_collection

_WORDS = {
    RuleAction.VISIT: "visited",
    RuleAction.SKIP: "skipped",
    RuleAction.FAIL: "failed",
    RuleAction.LATER: "put off",
}


def _show_rules(url: str, job: str, where: CommandTarget, *, fetch: bool) -> None:
    """Print the result of each rule for a URL, and which one decides."""
    key = fetch_key(url)
    with where.frontier() as frontier:
        record = frontier.find(key)
        job = job or (record.item.job if record is not None else "")
        opinions = asyncio.run(_rule_opinions(key, job, record, frontier, where, fetch=fetch))
    deciding = next((each for each in opinions if each.is_against), None)
    outcome = _WORDS[deciding.verdict.action if deciding else RuleAction.VISIT]
    history = "The frontier does not know it."
    if record is not None:
        ended = f": {record.outcome}" if record.outcome else ""
        when = record.ended_at or record.added_at
        history = f"In the frontier it is {record.state} since {when:%Y-%m-%d %H:%M} UTC{ended}."
    rules = [
        {"rule": each.rule, "against": each.is_against, "text": each.text, "decides": each is deciding}
        for each in opinions
    ]
    reason = deciding.verdict.reason if deciding else ""
    rows = [
        (each.rule, "against" if each.is_against else "", f"{each.text}  <- decides" if each is deciding else each.text)
        for each in opinions
    ]
    lines = table(("rule", "", "says"), rows, columns=None, indent="  ")[1:]
    facts = {"url": key, "outcome": outcome, "reason": reason, "rules": rules, "frontier": history}
    output.show(facts, [clean(key), *lines, f"It would be {outcome}. {clean(history)}"])


async def _rule_opinions(
    url: str, job: str, record: ItemRecord | None, frontier: Frontier, where: CommandTarget, *, fetch: bool
) -> list[PolicyOpinion]:
    jobs = JobSettings(frontier, where.settings, clock=CLOCK)
    jobs.refresh()
    new = FrontierItem("", url, host_of(url), Lane.STANDARD, 0, "", 0, job=job)

    async def ask(verb: Callable[[], Any]) -> Any:
        return verb()

    async with AsyncExitStack() as stack:
        fetcher = None
        if fetch:  # for robots.txt, through an own proxy
            settings = where.settings
            collection = await stack.enter_async_context(open_collection(where.layout.root, clock=CLOCK))
            pool = await stack.enter_async_context(open_local_pool(collection, settings, clock=CLOCK))
            fetcher = pool_fetcher(pool, settings, ca=collection.layout.ca / CA_FILE)
        policy = make_policy(
            frontier,
            where.settings.policy,
            fetcher=None if fetcher is None else lambda: fetcher,
            settings_for=lambda each: jobs.settings_for(each.url, job),
            clock=CLOCK,
            ask=ask,
        )
        opinions = await policy.explain(new if record is None else record.item, now=CLOCK.now())
    return [_scope_opinion(jobs, url, job, is_known=record is not None), *opinions]


def _scope_opinion(jobs: JobSettings, url: str, job: str, *, is_known: bool) -> PolicyOpinion:
    """Return the scope's opinion; for a queued URL only exclusions are checked."""
    scope = jobs.scope_for(url, job)
    excluded = scope.excluded(url)
    if excluded is not None:
        reason = f"scope: exclude {excluded}"
        return PolicyOpinion("scope", reason, RuleDecision(RuleAction.SKIP, reason))
    if jobs.job(job) is None or is_known:
        return PolicyOpinion("scope", "not excluded")
    decision = scope.decide(url, hops=1, hops_off=0)
    if decision.followed:
        return PolicyOpinion("scope", f"a link to it from a seed is followed: {decision.reason}")
    reason = f"scope: {decision.reason}"
    return PolicyOpinion("scope", f"{reason}, for a link from a seed", RuleDecision(RuleAction.SKIP, reason))


@click.group("policy", cls=CommandGroup)
def policy_group() -> None:
    """Manage archiving rules, and show which rule decides on a URL.

    A pattern is a host (example.org with its subdomains; =example.org alone), the beginning of a
    URL (example.org/path, https://example.org/private/), a URL, a SURT prefix (org,example)/path)
    or a regular expression (re:...). Crawls follow a change within a second. See docs/how-to/policy.md.
    """


@cli_command("ls", policy_group)
def list_command(
    *,
    decided: str | None = argument("[URL]"),
    job: str = option("With URL: crawl whose scope and settings apply.", default="", metavar="NAME"),
    fetch: bool = option(
        "With URL: fetch an unknown robots.txt through a proxy; needs exclusive use of the collection."
    ),
    kind: str | None = option("Only these.", choices=PolicyKind),
    url: str | None = option("Only entries that match the URL.", "--for", metavar="URL"),
    actor: str | None = option("Only entries by this actor; crawl: entries that crawls added.", "--by"),
    expired: bool = option("Include expired entries."),
    where: CommandTarget = TARGET,
) -> None:
    """Show the entries, or which rules decide on a URL.

    Without --fetch no request is made: a robots.txt that no crawl has read yet is shown as unknown.
    """
    if (decided is None and (job or fetch)) or (decided is not None and (kind or url or actor or expired)):
        raise InputError("--job and --fetch are for a URL, the other options for the list of entries.")
    if decided is not None:
        _show_rules(decided, job, where, fetch=fetch)
        return
    with where.frontier() as frontier:
        entries = read_entries(frontier.orders(POLICY_ORDER))
    now = CLOCK.now()
    shown = dict(entries.by_id)
    if url is not None:
        key = fetch_key(url, allow_single_label=True)
        matching = entries.of(key, tuple(PolicyKind), now=datetime.min.replace(tzinfo=now.tzinfo))
        shown = {entry.id: entry for entry in matching}
    shown = {
        key: entry
        for key, entry in shown.items()
        if kind in (None, entry.kind) and actor in (None, entry.actor) and (expired or entry.holds(now))
    }
    document = {
        "entries": [{"id": key, **entry.facts} for key, entry in shown.items()],
        "unreadable": [{"id": key, "reason": why} for key, why in entries.unread.items()],
    }
    rows = []
    for key, entry in sorted(shown.items(), key=lambda each: (each[1].kind, each[1].pattern)):
        pattern = f"{entry.pattern}  {entry.key}={entry.value}" if entry.key else entry.pattern
        expires, day = entry.expires_at or "never", entry.made_at.date()
        rows.append((key, entry.kind, pattern, expires, entry.actor, day, entry.reason))
    head = ("id", "kind", "pattern", "expires", "by", "made", "reason")
    output.table(document, head, rows, "There is no entry.")
    for key, why in entries.unread.items():
        output.say(f"{clean(key)} cannot be read: {clean(why)}", err=True)


@cli_command("add", policy_group)
def add_command(
    *,
    patterns: tuple[str, ...] = argument("PATTERN...", required=True),
    kind: str | None = option("Kind of the entries.  [default: blacklist]", choices=PolicyKind),
    settings: tuple[str, ...] = option(
        "Setting for matching URLs: robots=ignore, noarchive=obey, archive=never, ban_s=3600.",
        "--set",
        metavar="KEY=VALUE",
    ),
    reason: str = option("Reason, for the history.", required=True),
    expires: str | None = option("After this time (30d), or on this day (2026-12-31).", metavar="WHEN"),
    actor: str | None = option("Author of the change.  [default: you]", "--by"),
    where: CommandTarget = TARGET,
) -> None:
    """Add entries, or change those about the same pattern."""
    now = CLOCK.now()
    chosen = PolicyKind(kind) if kind else PolicyKind.SETTING if settings else PolicyKind.BLACKLIST
    if (chosen is PolicyKind.SETTING) != bool(settings):
        raise InputError("--set KEY=VALUE is required for settings, and possible only there.")
    pairs = []
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{text[:80]!r} is not a setting: write KEY=VALUE, such as robots=ignore.")
        pairs.append((key.strip(), value.strip()))
    end = None if expires is None else end_moment(expires, now=now, option="--expires")
    by = actor_name(actor)
    entries = [
        new_entry(PolicyEntry(chosen, pattern.strip(), reason, by, now, end, key, value))
        for pattern in patterns
        for key, value in pairs or [("", "")]
    ]
    if not where.is_shared and not where.layout.marker.exists():
        asyncio.run(make_collection(where.layout.root))  # entries may be added before the first crawl
    with where.frontier(make=True) as frontier:
        for entry in entries:
            frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
    for entry in entries:
        output.show({"id": entry.id, **entry.facts}, f"{entry.id}  {clean(str(entry))}")


@cli_command("rm", policy_group)
def remove_command(
    *,
    names: tuple[str, ...] = argument("ID|PATTERN...", required=True),
    kind: str | None = option("Only entries of that kind.", choices=PolicyKind),
    where: CommandTarget = TARGET,
) -> None:
    """Remove entries, by their ids or all of a pattern."""
    removed = []
    with where.frontier() as frontier:
        orders = frontier.orders(POLICY_ORDER)
        entries = read_entries(orders).by_id
        for name in names:
            matches = [
                key
                for key in orders
                if (key == name or (key in entries and entries[key].pattern == name.strip()))
                and (kind is None or (key in entries and entries[key].kind == kind))
            ]
            if not matches:
                raise InputError(f"No entry has the id or pattern {name[:200]!r}; `weboid policy ls` shows them.")
            removed += [key for key in matches if frontier.take_back(POLICY_ORDER, key)]
    named = ((key, clean(str(entries[key])) if key in entries else "") for key in removed)
    output.show({"removed": removed}, (f"Removed {key}  {text}".rstrip() for key, text in named))
