"""`weboid takedown`: add, list and remove take-downs."""

from dataclasses import asdict, replace
from typing import Any

import click

from core.errors import InputError
from core.json_values import json_facts
from core.timestamps import parse_timestamp14
from playback.access import takedowns as book
from playback.takedown_coverage import TakedownCoverage, not_in_force, takedown_targets
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, COMMANDS, LazyGroup, argument, cli_command, option
from weboid.cli.support.options import counted, end_moment, output
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.stores import STORES, CollectionStores, actor_name

_MOST_SHOWN = 20  # entries of one `add` that are listed individually


@click.group("takedown", cls=LazyGroup, commands_at=COMMANDS["takedown"])
def takedown_group() -> None:
    """Take down content, and prove that it is not shown.

    A take-down applies from the next request on, on every route of playback; only `erase` removes
    data from the WARCs. See docs/how-to/takedown.md for what each kind covers.
    """


@cli_command("add")
def add_command(
    *,
    names: tuple[str, ...] = argument("[URL|HOST|DIGEST]..."),
    prefix: bool = option("Match each URL and everything below its path."),
    host: bool = option("Match whole hosts with their subdomains."),
    capture: str | None = option("Match only the URL's capture at this time.", metavar="TIMESTAMP"),
    digest: bool = option("Match payloads by digest, wherever they were captured."),
    file: Any = option(
        "Read more of them, one per line; - is standard input.",
        "--list",
        type=click.File(encoding="utf-8"),
        metavar="FILE",
    ),
    hide: bool = option("Show nothing, as if it had never been captured, instead of a notice."),
    reason: str = option("Reason; shown to readers, unless it is hidden.", default=""),
    ticket: str = option("Reference of the request; not shown to readers.", default=""),
    actor: str | None = option("Author of the decision.  [default: you]"),
    until: str | None = option("Expires after this time (30d), or on this day (2026-12-31).", metavar="WHEN"),
    dry_run: bool = option("Show what would be covered, without taking it down."),
    stores: CollectionStores = STORES,
) -> None:
    """Take down URLs, or the content that the options name.

    Content that is already taken down is left as it is. Lines of --list that begin with # are
    ignored; nothing is taken down when any line cannot be read.
    """
    now = CLOCK.now()
    options = {
        book.TakedownKind.PREFIX: prefix,
        book.TakedownKind.HOST: host,
        book.TakedownKind.CAPTURE: capture is not None,
        book.TakedownKind.DIGEST: digest,
    }
    kinds = [kind for kind, is_chosen in options.items() if is_chosen]
    if len(kinds) > 1:
        raise InputError("Use only one of --prefix, --host, --capture and --digest.")
    listed = (line.strip() for line in (file or ()))
    words = [*names, *(line for line in listed if line and not line.startswith("#"))]
    if not words:
        raise InputError("Name what to take down: a URL, or --list FILE.")
    if capture is not None:
        parse_timestamp14(capture)
    model = book.Takedown(
        number=0,
        kind=kinds[0] if kinds else book.TakedownKind.URL,
        what="",
        timestamp=capture or "",
        effect=book.TakedownEffect.HIDE if hide else book.TakedownEffect.BLOCK,
        reason=reason.strip(),
        ticket=ticket.strip(),
        actor=actor_name(actor),
        decided_at=now,
        expires_at=None if until is None else end_moment(until, now=now, option="--until"),
    )
    covered: list[tuple[book.Takedown, int, int]] = []
    with stores.index() as database, stores.decisions() as decisions:
        wanted = takedown_targets(database, model, words)
        new_takedowns = not_in_force(decisions, wanted, now)
        with progress_bar("looking", len(new_takedowns)) as step:
            for each in new_takedowns:
                coverage = TakedownCoverage(database, each, now)
                pages, captures = (sum(1 for _ in of) for of in (coverage.pages(), coverage.captures()))
                covered.append((each, pages, captures))
                step(1)
        framing = [page for each in new_takedowns for page in TakedownCoverage(database, each, now).embedding_pages()]
        if not dry_run and new_takedowns:
            book.add_takedowns(decisions, new_takedowns)
        entries = [
            each
            for each in book.list_takedowns(decisions)
            if each.holds(now) and each.decided_at >= now.replace(microsecond=0)
        ]
    numbers = {each.identity: each.number for each in entries}
    already = len(wanted) - len(new_takedowns)
    added, lines = [], []
    for each, pages, captures in covered:
        number, facts = numbers.get(each.identity), json_facts(each, "kind what timestamp effect")
        added.append({"number": number, **facts, "pages": pages, "captures": captures})
        verb = "Would take down" if dry_run else f"#{number} takes down"
        lines.append(f"{verb} {_name(each)}: {counted(pages, 'page')}, {counted(captures, 'capture')}.")
    embedded = [{"url": each.url, "timestamp": each.timestamp} for each in framing]
    document = {"added": added, "already": already, "embedded_in": embedded, "dry_run": dry_run}
    if len(lines) > _MOST_SHOWN:
        lines[_MOST_SHOWN:] = [f"… and {len(lines) - _MOST_SHOWN:,} more."]
    if framing:
        lines.append(
            f"Framed in {len(framing):,} other captures, whose copies are shown without it and whose"
            " text and pictures are not shown:"
        )
        lines += [f"  {page.timestamp} {clean(page.url)}" for page in framing[:_MOST_SHOWN]]
    if len(framing) > _MOST_SHOWN:
        lines.append(f"… and {len(framing) - _MOST_SHOWN:,} more.")
    if already:
        lines.append(f"{already:,} taken down already.")
    output.show(document, lines)


@cli_command("ls")
def list_command(
    *,
    url: str | None = option("Only take-downs that cover the URL.", "--for", metavar="URL"),
    with_past: bool = option("Include lifted and expired take-downs.", "--all"),
    stores: CollectionStores = STORES,
) -> None:
    """Show the take-downs."""
    now = CLOCK.now()
    with stores.decisions() as decisions:
        entries = book.list_takedowns(decisions)
    shown = [each for each in entries if with_past or each.holds(now)]
    if url is not None:
        subject = book.normalize_target(book.TakedownKind.URL, url)
        shown = [each for each in shown if _covers(each, book.TakedownSubject(subject, each.timestamp))]
    rows = []
    for each in shown:
        state = f"until {each.expires_at:%Y-%m-%d %H:%M}" if each.expires_at is not None else ""
        if each.lifted_at is not None:
            state = f"lifted {each.lifted_at:%Y-%m-%d} by {each.lifted_by}: {each.lifted_reason}"
        elif not each.holds(now):
            state = f"over since {each.expires_at:%Y-%m-%d}"
        scope, day = f"{each.what} {each.timestamp}".strip(), each.decided_at.date()
        rows.append((str(each.number), each.kind, each.effect, scope, day, each.actor, each.ticket, each.reason, state))
    head = ("#>", "kind", "effect", "what", "decided", "by", "ticket", "reason", "state")
    facts = [{**asdict(each), "holds": each.holds(now)} for each in shown]
    output.table(facts, head, rows, "There is no take-down.")


def _covers(takedown: book.Takedown, subject: book.TakedownSubject) -> bool:
    """Return True if the take-down covered the subject when it was decided, even if it was lifted since."""
    return book.TakedownSet((replace(takedown, lifted_at=None),)).on(subject, takedown.decided_at) is not None


@cli_command("rm")
def remove_command(
    *,
    names: tuple[str, ...] = argument("NUMBER|URL...", required=True),
    reason: str = option("Reason, for the history.", required=True),
    actor: str | None = option("Author of the decision.  [default: you]"),
    dry_run: bool = option("Show which would be lifted, without lifting them."),
    stores: CollectionStores = STORES,
) -> None:
    """Lift take-downs, by their numbers or by what they name.

    They stay in the history.
    """
    now = CLOCK.now()
    with stores.decisions() as decisions:
        standing = [each for each in book.list_takedowns(decisions) if each.lifted_at is None]
        chosen: dict[int, book.Takedown] = {}
        for name in names:
            matches = [each for each in standing if _is_named(each, name)]
            if not matches:
                raise InputError(
                    f"No take-down in force has the number or the name {name[:200]!r};"
                    " `weboid takedown ls --all` shows them."
                )
            chosen |= {each.number: each for each in matches}
        if not dry_run:
            book.lift_takedowns(decisions, chosen, actor=actor_name(actor), reason=reason, now=now)
    verb = "Would lift" if dry_run else "Lifted"
    lines = [f"{verb} #{number}: {_name(each)}" for number, each in chosen.items()]
    output.show({"lifted": list(chosen), "dry_run": dry_run}, lines)


def _name(takedown: book.Takedown) -> str:
    return clean(f"{takedown.kind} {takedown.what} {takedown.timestamp}".strip())


def _is_named(takedown: book.Takedown, name: str) -> bool:
    if name.lstrip("#").isdecimal():
        return takedown.number == int(name.lstrip("#"))
    if takedown.what == name:
        return True
    try:
        return takedown.what == book.normalize_target(takedown.kind, name)
    except InputError:
        return False
