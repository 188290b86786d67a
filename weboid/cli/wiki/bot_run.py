"""`weboid wiki bot run`, `show`, `ls` and `review`: repair of dead citations, past edits and their outcome."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from core.errors import InputError, WeboidError
from links.registry.bot_edits import BotEdit, EditKind, EditState, count_edits, last_made, newest_edits
from links.registry.database import RegistryStore
from links.registry.pages import find_pages
from links.registry.urls import urls_by_id
from links.registry.wikis import Wiki, all_wikis
from net.stop_signals import StopSignals
from weboid.app.copy_sources import OwnCaptures
from weboid.app.link_facts import moment_text
from weboid.app.text_table import clean
from weboid.app.wiki.bot_run import BotRun, edit_facts, outcome_facts, tally_facts
from weboid.app.wiki.wiki_clients import settings_of_wiki
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import output, table_lines
from weboid.cli.support.progress import terminal_progress
from weboid.cli.support.stores import actor_name
from weboid.cli.wiki.bot_setup import choose_wiki, front_origin, source_warnings
from weboid.cli.wiki.wikitext_files import skip_reason_line
from wiki.bot.page_edit import PageEditResult, PageEditStatus
from wiki.bot.past_edits import RevertReview, edits_to_review, review_revert
from wiki.bot.wiki_bot import BotOptions, BotRunSummary, check_settings
from wiki.settings import to_json

_QUIET = (PageEditStatus.NOTHING, PageEditStatus.GONE, PageEditStatus.UNFIT)
_BAD = (PageEditStatus.REFUSED, PageEditStatus.UNSAFE, PageEditStatus.UNKNOWN, PageEditStatus.BROKEN)
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@cli_command("run")
def command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    dry_run: bool = option("Show what would be changed; write nothing anywhere."),
    limit: int | None = option("Maximum number of edits.", within=(1, None)),
    titles: tuple[str, ...] = option("Only this page.", "--page", metavar="TITLE"),
    look_back: bool = option("Only check the outcome of earlier edits."),
    front: str | None = option("With --dry-run: public origin of our own copies.", metavar="ORIGIN"),
    is_all: bool = option("Run on every wiki whose bot is switched on.", "--all"),
    where: CommandTarget = TARGET,
) -> int:
    """Repair citations of links that are confirmed dead.

    Earlier edits are reviewed first.

    Each page is read right before it is edited. A run can be stopped and killed at any point: the next continues where
    it stopped, and does nothing twice. Ends with 1 when pages could not be edited.
    """
    if look_back and (dry_run or titles or limit):
        raise click.UsageError("--look-back edits nothing: use it without other options.")
    if front is not None and not dry_run:
        raise click.UsageError("--front needs --dry-run; `weboid wiki bot on --front` sets it.")
    if is_all and (name or titles):
        raise click.UsageError("--all is for every wiki: omit NAME and --page.")
    show = _BotRunReporter(is_dry=dry_run)

    async def run(task: BotRun, own: OwnCaptures | None) -> int:
        with StopSignals(lambda: click.echo("Stopping after this page …", err=True)) as stop, stop.cut_short():
            tally, job = await task.run(own, show.show, stop.event, is_look_back=look_back)
            show.end(task, tally, job)
        if stop.event.is_set():
            return ExitCode.STOPPED
        is_bad = any(tally.did[each] for each in _BAD)
        return ExitCode.SOME_FAILED if is_bad or tally.unknown else ExitCode.OK

    def begin(store: RegistryStore, wiki: Wiki, own: str | None = None) -> int:
        run_options = BotOptions(titles, limit, dry_run)
        task = BotRun(store, where.layout, where.settings, wiki, CLOCK, run_options, own)
        if not dry_run:
            check_settings(task.bot, str(wiki.name))
        for line in () if look_back else source_warnings(store, where, wiki, task.bot):
            click.echo(line, err=True)
        with task.own_captures() as own_copies, show.progress():
            return asyncio.run(run(task, own_copies))

    with where.stores.registry() as store:
        if is_all:
            # One wiki after the other; the trouble of one is not the others'.
            worst: int = ExitCode.OK
            with store.reading() as rows:
                known = [wiki for wiki in all_wikis(rows) if wiki.url]
            known = [each for each in known if settings_of_wiki(each).bot.enabled]
            if not known:
                click.echo("The bot is off on every wiki: `weboid wiki bot on` switches it on.", err=True)
            for wiki in known:
                try:
                    code = begin(store, wiki)
                except WeboidError as error:
                    click.echo(f"{wiki.name}: {clean(str(error))}", err=True)
                    code = ExitCode.SOME_FAILED
                worst = worst or code
                if code == ExitCode.STOPPED:
                    return code
            return worst
        return begin(store, choose_wiki(store, name), front_origin(front))


class _BotRunReporter:
    """Output of a run: coloured diffs as text, or one JSON line per page."""

    def __init__(self, *, is_dry: bool) -> None:
        self._is_dry = is_dry
        self._console = Console(highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._task: Any = None

    def progress(self) -> Progress:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} pages"))
        self._progress = terminal_progress(*columns, TimeElapsedColumn())
        self._task = self._progress.add_task("looking", total=None)
        return self._progress

    def show(self, each: PageEditResult | BotEdit) -> None:
        if output.json(edit_facts(each) if isinstance(each, BotEdit) else outcome_facts(each)):
            return
        if isinstance(each, BotEdit):
            self._console.print(Text(clean(f"Edit {each.id} is {each.state.name.lower()}: {each.note}")))
            return
        if self._progress is not None:
            self._progress.advance(self._task)
            self._progress.update(self._task, description=clean(each.title)[:40])
        refused = () if each.repaired is None else each.repaired.refused
        if each.did in _QUIET and not (refused and self._is_dry):
            return
        heading = f"{each.title}: {each.did}" + (f" ({each.note})" if each.note else "")
        self._console.print(Text(clean(heading), style="bold"))
        for line in each.diff():
            style = "" if line.startswith(("---", "+++")) else _STYLES.get(line[:1], "")
            self._console.print(Text("  " + clean(line), style=style))
        for link in refused:
            self._console.print(Text("  " + skip_reason_line(link)))

    def end(self, task: BotRun, tally: BotRunSummary, job: str) -> None:
        if output.json(tally_facts(tally, job)):
            return
        for title in tally.unknown:
            click.echo(f"The registry does not know the page {clean(title)}.", err=True)
        click.echo(clean(run_summary(tally, str(task.wiki.name))))


def run_summary(tally: BotRunSummary, name: str) -> str:
    """Return the summary of a run in a sentence or two."""
    did = ", ".join(f"{count:,} {status}" for status, count in tally.did.most_common())
    parts = [f"{name}: {did or 'nothing to do'}."]
    if tally.changes:
        parts.append(", ".join(f"{n:,} links {kind}" for kind, n in tally.changes.most_common()) + ".")
    if tally.refused:
        reasons = ", ".join(f"{n:,} {why}" for why, n in tally.refused.most_common())
        parts.append(f"Left unchanged: {reasons}.")
    if tally.skipped:
        parts.append(f"{tally.skipped:,} pages unchanged: --dry-run --page TITLE shows why.")
    if tally.messages:
        parts.append(f"{tally.messages:,} messages posted.")
    if tally.settled:
        parts.append(f"{tally.settled:,} edits of an earlier run completed.")
    if tally.undone:
        waiting = f", {tally.to_review:,} of them await a review" if tally.to_review else ""
        parts.append(f"{tally.undone:,} edits were undone{waiting}: see `weboid wiki bot review`.")
    return " ".join(parts)


_MOST_LINKS: Final = 2  # of an edit in a line; --json has all
_MOST_OFF: Final = 10  # pages and domains; --json has all
_LONGEST: Final = 1_000  # characters of a citation that are shown
_STATES = [each.name.lower() for each in EditState]


@cli_command("show")
def show_command(*, name: str = argument("[NAME]", required=False, default=""), where: CommandTarget = TARGET) -> None:
    """Show whether the bot is on, its account, and its edits' outcomes."""
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        bot = settings_of_wiki(wiki).bot
        with store.reading() as rows:
            pages, talk = (count_edits(rows, wiki.id, kind) for kind in (EditKind.PAGE, EditKind.TALK))
            last = last_made(rows, wiki.id)
        try:
            warnings = source_warnings(store, where, wiki, bot)
        except InputError as error:
            warnings = [str(error)]
    page_counts = {state.name.lower(): count for state, count in sorted(pages.items())}
    document = {
        "wiki": str(wiki.name),
        "enabled": bot.enabled,
        "settings": to_json(bot),
        "edits": page_counts,
        "messages": {state.name.lower(): count for state, count in sorted(talk.items())},
        "last": moment_text(last),
        "warnings": warnings,
    }
    lines = [f"The bot is {f'on, as {bot.account}' if bot.enabled else 'off'} on {wiki.name}."]
    if bot.run_page:
        lines.append(f"It runs while {bot.run_page} says yes.")
    if off := [*bot.not_pages, *bot.not_domains]:
        more = f" and {len(off) - _MOST_OFF:,} more" if len(off) > _MOST_OFF else ""
        lines.append(f"It skips {', '.join(off[:_MOST_OFF])}{more}.")
    lines += [f"- {warning}" for warning in warnings]
    lines += [f"{count:>9,} {state}" for state, count in page_counts.items()]
    if last:
        lines.append(f"The last edit: {moment_text(last)}.")
    if pages.get(EditState.REVERTED):
        lines.append("Reverted edits await a review: `weboid wiki bot review` shows them.")
    output.show(document, map(clean, lines))


@cli_command("ls")
def list_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    states: tuple[str, ...] = option(
        f"Only edits in this state: {', '.join(_STATES)}.", "--state", choices=_STATES, metavar="STATE"
    ),
    limit: int = option("Maximum number of edits.", within=(1, 10_000), default=50),
    where: CommandTarget = TARGET,
) -> None:
    """List the bot's edits, newest first."""
    wanted = [EditState[each.upper()] for each in states] or list(EditState)
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        with store.reading() as rows:
            edits = newest_edits(rows, wiki.id, wanted, limit=limit)
        _show(store, wiki, edits, f"The bot has made no such edit on {wiki.name}.")


@cli_command("review")
def review_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    accept: tuple[int, ...] = option("Accept the revert: make no such edit again.", type=int, metavar="ID"),
    decline: tuple[int, ...] = option("The edit was right: it may be repeated.", type=int, metavar="ID"),
    reason: str = option("Reason, in a few words.", default="", metavar="TEXT"),
    actor: str | None = option("Author of the change.  [default: you]", metavar="NAME"),
    limit: int = option("Maximum number of edits.", within=(1, 10_000), default=50),
    where: CommandTarget = TARGET,
) -> None:
    """Show the edits that people reverted; accept or decline each revert.

    A reverted edit is not repeated on its page until the revert is declined here, and its link counts
    as reported by the user who reverted it. An accepted revert is final.
    """
    if both := set(accept) & set(decline):
        raise click.UsageError(f"{min(both)} cannot be accepted and declined.")
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        done = [
            review_revert(store, wiki.id, number, RevertReview(is_right, actor_name(actor), reason), now=CLOCK.now())
            for numbers, is_right in ((accept, True), (decline, False))
            for number in numbers
        ]
        edits = done or edits_to_review(store, wiki.id, limit=limit)
        _show(store, wiki, edits, "Nothing awaits a review.")
    for edit in edits:
        for change in edit.changes:
            if change.is_undone:
                output.say(f"Edit {edit.id}, {change.kind}:")
                output.say(f"  - {clean(change.before)[:_LONGEST]}")
                output.say(f"  + {clean(change.after)[:_LONGEST]}")


def _show(store: RegistryStore, wiki: Wiki, edits: Sequence[BotEdit], empty: str) -> None:
    with store.reading() as rows:
        pages = find_pages(rows, wiki.id, {edit.page_id for edit in edits})
        links = urls_by_id(rows, {change.url_id for edit in edits for change in edit.changes})
    titles = {number: page.title for number, page in pages.items()}
    names = {number: row.url for number, row in links.items()}
    if output.is_json:
        for edit in edits:
            facts = edit_facts(edit)
            facts["page"] = titles.get(edit.page_id)
            facts["moment"] = moment_text(edit.moment)
            for each, change in zip(facts["changes"], edit.changes, strict=True):
                each["url"] = names.get(change.url_id)
            output.json(facts)
        return
    lines = []
    for edit in edits:
        changes = sorted(edit.changes, key=lambda each: not each.is_undone)
        cited = [
            f"{names.get(each.url_id, '?')} ({each.kind}{', undone' if each.is_undone else ''})"
            for each in changes[:_MOST_LINKS]
        ]
        if len(changes) > _MOST_LINKS:
            cited.append(f"and {len(changes) - _MOST_LINKS:,} more")
        when, state = (moment_text(edit.moment) or "")[:16], edit.state.name.lower()
        state += " (talk)" if edit.kind is EditKind.TALK else ""
        page, revision = titles.get(edit.page_id, f"number {edit.page_id}"), str(edit.rev or "")
        lines.append((str(edit.id), when, state, page, " ".join(cited), revision, edit.undone_by, edit.note))
    head = ("edit>", "when", "state", "page", "links", "revision>", "undone by", "note")
    click.echo("\n".join(table_lines(head, lines)) if lines else empty)
