"""`weboid wiki bot run`: repair of dead citations, or a dry run of it."""

import asyncio
import json
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from core.errors import WeboidError
from links.registry.bot_edits import BotEdit
from links.registry.database import RegistryStore
from links.registry.wikis import Wiki
from net.stop_signals import StopSignals
from weboid.app.copy_sources import OwnCaptures
from weboid.app.text_table import clean
from weboid.app.wiki.bot_run import BotRun, edit_facts, outcome_facts, tally_facts
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import ExitCode, argument, cli_command, option
from weboid.cli.support.options import OUTPUT, CommandOutput
from weboid.cli.support.progress import terminal_progress
from weboid.cli.wiki.bot_setup import CLOCK, choose_wiki, front_origin, source_warnings, wikis_with_bot
from weboid.cli.wiki.wikitext_files import skip_reason_line
from wiki.bot.page_edit import PageEditResult, PageEditStatus
from wiki.bot.wiki_bot import BotOptions, BotRunSummary, check_settings

_QUIET = (PageEditStatus.NOTHING, PageEditStatus.GONE, PageEditStatus.UNFIT)
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@cli_command("run")
def command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    dry_run: bool = option("Show what would be changed; write nothing anywhere."),
    limit: int | None = option("Edits at most.", type=click.IntRange(1)),
    titles: tuple[str, ...] = option("Only this page.", "--page", metavar="TITLE"),
    look_back: bool = option("Only check the outcome of earlier edits."),
    front: str | None = option("With --dry-run: where readers find our own copies.", metavar="ORIGIN"),
    is_all: bool = option("On every wiki that has its bot switched on.", "--all"),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Repair citations of links that are confirmed dead.

    Earlier edits are reviewed first.

    Each page is read right before it is edited. A run can be stopped and killed at any point: the next continues where
    it stopped, and does nothing twice. Ends with 1 when pages could not be edited.
    """
    if look_back and (dry_run or titles or limit):
        raise click.UsageError("--look-back edits nothing: it goes with none of the others.")
    if front is not None and not dry_run:
        raise click.UsageError("--front goes with --dry-run; `weboid wiki bot on --front` sets it.")
    if is_all and (name or titles):
        raise click.UsageError("--all is about every wiki: leave out NAME and --page.")
    show = _BotRunReporter(as_json=output.is_json, is_dry=dry_run)

    def begin(store: RegistryStore, wiki: Wiki, own: str | None = None) -> int:
        wish = BotOptions(titles, limit, dry_run)
        return _begin(BotRun(store, where.layout, where.settings, wiki, CLOCK, wish, own), where, show, look_back)

    with where.stores.registry() as store:
        if is_all:
            # One wiki after the other; the trouble of one is not the others'.
            worst: int = ExitCode.OK
            for wiki in wikis_with_bot(store):
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


def _begin(task: BotRun, where: CommandTarget, show: "_BotRunReporter", is_look_back: bool) -> int:  # noqa: FBT001
    bot = task.bot
    if not task.wish.is_dry:
        check_settings(bot, str(task.wiki.name))
    if not is_look_back:
        for line in source_warnings(task.store, where, task.wiki, bot):
            show.line(line)
    with task.own_captures() as own, show.progress():
        return asyncio.run(_run(task, own, show, is_look_back=is_look_back))


async def _run(task: BotRun, own: OwnCaptures | None, show: "_BotRunReporter", *, is_look_back: bool) -> int:
    done: list[tuple[BotRunSummary, str]] = []
    with StopSignals(lambda: show.line("Ending with this page …")) as stop, stop.cut_short():
        done.append(await task.run(own, show.show, stop.event, is_look_back=is_look_back))
    for tally, job in done:
        show.end(task, tally, job)
    if stop.event.is_set():
        return ExitCode.STOPPED
    tally, status = done[0][0], PageEditStatus
    bad = (status.REFUSED, status.UNSAFE, status.UNKNOWN, status.BROKEN)
    is_bad = sum(tally.did[each] for each in bad)
    return ExitCode.SOME_FAILED if is_bad or tally.unknown else ExitCode.OK


class _BotRunReporter:
    """Output of a run: coloured diffs as text, or one JSON line per page."""

    def __init__(self, *, as_json: bool, is_dry: bool) -> None:
        self._as_json = as_json
        self._is_dry = is_dry
        self._console = Console(highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._task: Any = None

    def progress(self) -> Progress:
        columns = (
            *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn()),
            *(TextColumn("{task.completed} pages"), TimeElapsedColumn()),
        )
        self._progress = terminal_progress(*columns, quiet=self._as_json)
        self._task = self._progress.add_task("looking", total=None)
        return self._progress

    def line(self, text: str) -> None:
        click.echo(text, err=True)

    def show(self, each: PageEditResult | BotEdit) -> None:
        if self._as_json:
            facts = edit_facts(each) if isinstance(each, BotEdit) else outcome_facts(each)
            click.echo(json.dumps(facts, ensure_ascii=False))
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
        if self._as_json:
            click.echo(json.dumps(tally_facts(tally, job), ensure_ascii=False))
            return
        for title in tally.unknown:
            click.echo(f"The registry does not know the page {clean(title)}.", err=True)
        click.echo(clean(run_summary(tally, str(task.wiki.name))))


def run_summary(tally: BotRunSummary, name: str) -> str:
    """Return the summary of a run in a sentence or two."""
    did = ", ".join(f"{count:,} {what}" for what, count in tally.did.most_common())
    parts = [f"{name}: {did or 'nothing to do'}."]
    if tally.changes:
        parts.append(", ".join(f"{n:,} links {kind}" for kind, n in tally.changes.most_common()) + ".")
    if tally.refused:
        whys = ", ".join(f"{n:,} {why}" for why, n in tally.refused.most_common())
        parts.append(f"Left as they are: {whys}.")
    if tally.skipped:
        parts.append(f"{tally.skipped:,} pages unchanged: --dry-run --page TITLE shows why.")
    if tally.messages:
        parts.append(f"{tally.messages:,} messages left.")
    if tally.settled:
        parts.append(f"{tally.settled:,} edits of an earlier run settled.")
    if tally.undone:
        waiting = f", {tally.to_review:,} of them await a review" if tally.to_review else ""
        parts.append(f"{tally.undone:,} edits were undone{waiting}: see `weboid wiki bot review`.")
    return " ".join(parts)
