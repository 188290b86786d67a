"""`weboid qa`: check whether copies show what the visitors of their pages saw."""

import asyncio
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import InputError, WeboidError
from core.quality import Verdict
from crawler.cli.exits import Exit
from crawler.cli.options import (
    cluster_secret_option,
    collection_option,
    database_option,
    dedup_option,
    frontier_option,
    json_option,
    profile_option,
    shared_settings,
)
from crawler.cli.params import begin_of, host_name
from crawler.cli.qa.asked import Asked
from crawler.cli.qa.candidates import Wanted, candidates, newest
from crawler.cli.qa.opening import is_looked_at, looking_browsers, opened_checkers
from crawler.cli.qa.playing import ENGINE
from crawler.cli.qa.repair import Household, Repaired, Teller, Workshop
from crawler.cli.qa.shown import NOTHING, Show, left_out, planned
from crawler.cli.qa.unlisted import Unlisted, is_to_come, without_manifest
from crawler.cli.qa.writing import Written, write_checks
from crawler.collection import read_collection
from crawler.frontier.opening import open_frontier
from crawler.profiles import load_profile
from crawler.quality.checking import Checked
from crawler.quality.keeping import keep
from crawler.quality.repairing import AT_ONCE
from crawler.quality.running import Tally, check_pages
from crawler.quality.sampling import Candidate, Chosen, Sample, by_risk, suspected
from crawler.stopping import Stop
from links.books.quality import (
    CheckedPage,
    RepairState,
    already_checked,
    checks_of,
)
from links.store.store import Store, open_store
from playback.choosing import OFFERED
from playback.database import Database, open_database
from playback.decisions.level_book import LevelBook
from playback.decisions.levels import DEFAULT_LEVEL, Level
from playback.decisions.store import open_decisions
from proxy.handshake import Secret

_CLOCK = SystemClock()
_LEVELS = click.Choice([str(level) for level in Level])


@click.command("run")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Check so many pages: those that are likeliest to be broken, and some of every host.",
)
@click.option("--all", "every", is_flag=True, help="Check every page, the suspect ones first.")
@click.option(
    "--since",
    metavar="MOMENT|LENGTH",
    default="",
    help="Check what was captured from then on: 2026-11-01, 3d. Without --sample: all of it.",
)
@click.option("--host", default="", metavar="HOST", help="Only pages of this host.")
@click.option(
    "--level", "levels", type=_LEVELS, multiple=True, help="Look at this one.  [default: images]"
)
@click.option(
    "--full",
    is_flag=True,
    help="Look also at copies in full, where the levels allow it; without --level that is the default.",
)
@click.option("--again", is_flag=True, help="Check also what was checked already.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=lambda: 1 + (os.cpu_count() or 1),
    show_default="one more than cores",
    help="Pages at the same time.",
)
@click.option("--seed", type=int, default=None, help="Draw the same sample as with this number.")
@click.option(
    "--fonts/--no-fonts",
    default=True,
    show_default=True,
    help="Copies load their own fonts, as in `weboid serve --fonts`.",
)
@click.option("--no-repair", is_flag=True, help="Capture nothing again.")
@click.option("--no-record", is_flag=True, help="Write nothing into WARCs: no records, no repairs.")
@click.option("--dry-run", is_flag=True, help="Say what would be checked, and why.")
@collection_option
@database_option
@frontier_option
@dedup_option
@profile_option
@cluster_secret_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    urls: tuple[str, ...],
    sample: int,
    every: bool,
    since: str,
    host: str,
    levels: tuple[str, ...],
    full: bool,
    again: bool,
    jobs: int,
    seed: int | None,
    fonts: bool,
    no_repair: bool,
    no_record: bool,
    dry_run: bool,
    collection: Path,
    database_url: str,
    frontier_url: str,
    dedup_url: str,
    profile: str,
    secret: Secret | None,
    as_json: bool,
) -> int:
    """Check copies: is what was kept what the visitor saw, and does it still play back?

    Starts a playback of its own on this machine, opens copies in the browser, and holds each against
    what was kept when its page was captured: its picture, its text, its parts. Without a URL, a sample
    of what was not checked yet. What is broken is captured again, once, as `weboid qa repair` does.
    Ctrl-C finishes the pages begun; the same command goes on where it stopped. Exit code 1: a copy is
    broken, and there is no better one.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    layout = read_collection(collection)
    settings = shared_settings(
        load_profile(profile),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    with closing(open_decisions(layout, database_url)) as decisions:
        rules = LevelBook(decisions).now()
    if full or (not levels and any(rule.level is Level.FULL for rule in rules.rules)):
        levels = (*(levels or (str(DEFAULT_LEVEL),)), str(Level.FULL))
    chosen_levels = tuple(dict.fromkeys(map(Level, levels))) or (DEFAULT_LEVEL,)
    was_said = ctx.get_parameter_source("sample") is not click.core.ParameterSource.DEFAULT
    if every and was_said:
        raise InputError("Say --sample or --all, not both.")
    wanted = Wanted(
        str(chosen_levels[0]),
        ENGINE,
        host=host_name(host) if host else "",
        since=begin_of(since, now=_CLOCK.now()) if since else None,
        again=again,
    )
    asked = Asked(
        urls,
        0 if every or (since and not was_said) else sample,
        wanted,
        chosen_levels,
        jobs,
        seed,
        fonts,
        records=not no_record,
        repairs=not (no_repair or no_record),
        rules=rules,
    )
    with (
        closing(open_database(layout, database_url)) as database,
        closing(open_store(layout, database_url)) as store,
    ):
        home = Household(layout, settings, asked.jobs, AT_ONCE, secret)
        run = _Run(home, database_url, database, store, asked)
        if dry_run:
            return run.plan(as_json=as_json)
        return asyncio.run(run.perform(as_json=as_json))


class _Run:
    """One run of the command."""

    def __init__(
        self,
        home: Household,
        database_url: str,
        database: Database,
        store: Store,
        asked: Asked,
    ) -> None:
        self._home = home
        self._layout = home.layout
        self._database_url = database_url
        self._database = database
        self._store = store
        self._asked = asked
        self.missing: list[str] = []
        self.forbidden: list[str] = []
        self.known: list[CheckedPage] = []
        self.unlisted: list[Unlisted] = []
        self._broken: list[str] = []

    def chosen(self, level: Level) -> Iterable[Chosen]:
        """The pages to check at a level, in their order."""
        asked = self._asked
        wanted = replace(asked.wanted, level=str(level))
        if asked.urls:
            return self._named(asked.urls, wanted)
        if not asked.sample:
            return by_risk(lambda: self._candidates(wanted))
        drawn = Sample(asked.sample, random.Random(asked.seed))  # noqa: S311 no secret
        for page in self._candidates(wanted):
            drawn.add(page)
        return drawn.drawn()

    def _candidates(self, wanted: Wanted) -> Iterator[Candidate]:
        """The pages that may be checked; in full, those that the level rules show so."""
        found = candidates(self._database, self._store, wanted)
        return (page for page in found if self._is_allowed(page, wanted.level))

    def _is_allowed(self, page: Candidate, level: str) -> bool:
        return is_looked_at(Level(level), (page.url, page.final_url), self._asked.rules)

    def _named(self, urls: Sequence[str], wanted: Wanted) -> list[Chosen]:
        """The newest captures of these URLs, as far as they are still to be checked."""
        found = list(newest(self._database, urls))
        self.missing = [url for url, page in found if page is None]
        pages = [page for _, page in found if page is not None]
        self.forbidden += [page.url for page in pages if not self._is_allowed(page, wanted.level)]
        pages = [page for page in pages if self._is_allowed(page, wanted.level)]
        if not wanted.again:
            with self._store.reading() as reader:
                page_ids = [page.page_id for page in pages]
                done = already_checked(reader, page_ids, wanted.level, wanted.engine)
                known = checks_of(reader, done)
            self.known += [each for each in known if each.check.level == wanted.level]
            pages = [page for page in pages if page.page_id not in done]
        return list(map(suspected, pages))

    def plan(self, *, as_json: bool) -> Exit:
        """Say what would be checked at which level; nothing is started."""
        found = ((level, each) for level in self._asked.levels for each in self.chosen(level))
        planned(found, as_json=as_json)
        for line in self._left_out():
            click.echo(line, err=True)
        return Exit.SOME_FAILED if self.missing else Exit.OK

    def _left_out(self) -> Iterator[str]:
        """What becomes of what was named, or is known of, and is not checked."""
        return left_out(self.missing, self.forbidden, self.known, self.unlisted)

    def total(self) -> int:
        """How many pages will be checked at most; 0: that is not known yet."""
        asked = self._asked
        if asked.urls or asked.sample or asked.wanted.host or asked.wanted.since:
            return 0
        rows = self._database.rows(f"SELECT count(*) AS many FROM pages WHERE {OFFERED}", {})  # noqa: S608 constants of ours
        return int(rows[0]["many"]) * len(asked.levels) if rows else 0

    async def perform(self, *, as_json: bool) -> Exit:
        """Check, record, tell."""
        with (
            Show(as_json=as_json, total=self.total()) as show,
            Stop(lambda: show.say("Stopping: what is begun is finished.")) as stop,
        ):
            self.unlisted = self._unlisted()
            tally = await self._check(show, stop)
            written = Written()
            if self._asked.records and not stop.at_once:
                written = await self._write(show)
            error = written.error
            is_stopped = stop.event.is_set()
        repaired = Repaired()
        if self._asked.repairs and not is_stopped and error is None:
            try:
                repaired = await self._repair(as_json=as_json)
            except WeboidError as failed:
                error = failed
            if repaired.ended and error is None:
                written = await self._write(show)
                error = written.error
        for line in (*self._left_out(), *repaired.lines):
            show.say(line)
        if not (tally.done or self._asked.urls or is_stopped or repaired.lines):
            show.say(NOTHING[self._asked.wanted.again])
        is_stopped = is_stopped or repaired.stopped
        show.ended(
            tally,
            stopped=is_stopped,
            unrecorded=written.left,
            missing=self.missing,
            repaired=dict(repaired.ended),
            without_manifest=[[each.url, each.page_id] for each in self.unlisted],
        )
        if error is not None:
            raise error
        if is_stopped:
            return Exit.STOPPED
        is_well = not (self.missing or self.unlisted or self._stays_broken())
        return Exit.OK if is_well else Exit.SOME_FAILED

    def _unlisted(self) -> list[Unlisted]:
        """Visits whose manifest is gone; of a part of the archive nobody asks for them."""
        asked, settings = self._asked, self._home.settings
        if asked.urls or asked.wanted.host or asked.wanted.since:
            return []
        found = without_manifest(self._database)
        if not found:
            return []
        with open_frontier(self._layout, settings.frontier, settings.politeness) as frontier:
            return [each for each in found if not is_to_come(frontier, each)]

    def _stays_broken(self) -> bool:
        """Whether a copy is broken, and no better capture of its page is known."""
        broken = [each.check.page_id for each in self.known if each.verdict is Verdict.BROKEN]
        with self._store.reading() as reader:
            found = checks_of(reader, [*self._broken, *broken])
        return any(
            each.verdict is Verdict.BROKEN and each.repair is not RepairState.DONE_BETTER
            for each in found
        )

    async def _repair(self, *, as_json: bool) -> Repaired:
        """Capture again what is broken, of this run and of those before."""
        return await Workshop(self._home, self._store).repair(Teller(as_json=as_json))

    async def _check(self, show: Show, stop: Stop) -> Tally:
        """Check what is chosen; nothing is started when there is nothing."""
        asked, tally = self._asked, Tally()
        chosen: dict[Level, Iterable[Chosen]]
        chosen = {level: self.chosen(level) for level in asked.levels}
        if asked.urls or asked.sample:
            listed = {level: list(pages) for level, pages in chosen.items()}
            chosen = {**listed}
            many = sum(map(len, listed.values()))
            show.expect(many)
            if not many:
                return tally
        with stop.cut_short():
            async with (
                looking_browsers(self._home.settings.browser, clock=_CLOCK) as lend,
                opened_checkers(
                    self._layout,
                    self._database_url,
                    asked.levels,
                    lend,
                    clock=_CLOCK,
                    fonts=asked.fonts,
                ) as checkers,
            ):
                # Playback minds SIGTERM, too, once it runs.
                stop.listen()
                for level, pages in chosen.items():
                    await check_pages(
                        pages,
                        checkers[level],
                        jobs=asked.jobs,
                        clock=_CLOCK,
                        keep=self._keep,
                        told=show.checked,
                        tally=tally,
                        stopping=stop.event,
                    )
        return tally

    def _keep(self, checked: Checked) -> None:
        keep(self._store, self._layout.quality_pictures, checked, now=_CLOCK.now())
        if checked.check.verdict is Verdict.BROKEN:
            self._broken.append(checked.check.page_id)

    async def _write(self, show: Show) -> Written:
        """Write records of what has none yet; why that was left to the next run is said."""
        home = self._home
        written = await write_checks(home.layout, home.settings, self._store, home.secret)
        if written.left and written.error is None:
            show.say(written.text)
        return written
