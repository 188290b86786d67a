"""`weboid policy`: what is not archived although it is asked for, and why."""

import asyncio
import getpass
import json
from datetime import datetime

import click

from core.clock import SystemClock
from core.errors import InputError
from core.url_patterns import target_of
from core.urls import fetch_key
from crawler.cli.exits import Exit
from crawler.cli.explain import explain
from crawler.cli.params import end_of
from crawler.cli.tables import clean, table, width
from crawler.cli.where import Where, where_options
from crawler.collection import open_collection
from crawler.policy.entries import ORDERS, Kind, PolicyEntry, new_entry, read_entries

_CLOCK = SystemClock()
_KINDS = click.Choice([str(kind) for kind in Kind])


@click.group("policy")
def command() -> None:
    """Say what must not be archived, what must, and see what decides on a URL.

    A pattern is a host (example.org, with all below it; =example.org alone), the beginning of a URL
    (example.org/path, https://example.org/private/), a URL, a SURT prefix (org,example)/path) or a
    regular expression (re:...). Crawls follow a change within a second. See docs/policy.md.
    """


command.add_command(explain)


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
    expires_at = None if expires is None else end_of(expires, now=now, option="--expires")
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


async def _make_collection(where: Where) -> None:
    async with open_collection(where.layout.root, clock=_CLOCK):
        pass


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
