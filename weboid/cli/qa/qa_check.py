"""Command group `weboid qa`, which checks copies against their captures, and `repair` of broken ones."""

import asyncio
import os
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from core.config.settings import Settings
from core.errors import InputError
from core.hosts import host_name
from core.json_values import json_facts
from core.layout import Layout
from crawler.collection import read_collection
from crawler.profiles import load_profile
from crawler.worker.crawl_events import Event, PageRepaired
from links.registry.database import open_registry_store
from net.backoff import WaitStarted
from playback.access.levels import DEFAULT_LEVEL, Level
from proxy.control.handshake import ClusterSecret
from qa.check_run import RecordsSummary, write_checks
from qa.local_replay import ENGINE
from qa.repair import OPEN_REPAIRS_LIMIT
from qa.sample import CandidateFilter
from weboid.app.collection_repair import CollectionRepair, RepairRunOptions, RepairSummary
from weboid.app.qa_run import QaOptions, QaRun
from weboid.app.text_table import clean
from weboid.cli.support import options
from weboid.cli.support.command_target import CLUSTER_SECRET
from weboid.cli.support.commands import CLOCK, COMMANDS, ExitCode, LazyGroupWithDefault, argument, cli_command, option
from weboid.cli.support.options import output
from weboid.cli.support.run_options import open_stored_levels, open_webhooks, unlock_logins
from weboid.cli.support.stores import STORES, CollectionStores

_NOTHING = "No page needs another capture."


@cli_command("run")
def check_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    sample: int = option(
        "Number of pages to check: those most likely to be broken, and some of every host.",
        within=(1, None),
        default=100,
    ),
    every: bool = option("Check every page, suspect ones first.", "--all"),
    since: str = option(
        "Check captures from this moment on: 2026-11-01, 3d. Without --sample: all of them.",
        metavar="MOMENT|DURATION",
        default="",
    ),
    host: str = option("Only pages of this host.", default="", metavar="HOST"),
    levels: tuple[str, ...] = option("Check at this level.  [default: images]", "--level", choices=Level),
    full: bool = option("Check copies at level full, too, where the levels allow it; the default without --level."),
    again: bool = option("Check again what was checked already."),
    jobs: int = options.CHECK_JOBS,
    seed: int | None = option("Seed of the random sample; the same number draws the same sample."),
    fonts: bool = option(
        "Let copies load their own fonts, as `weboid serve --fonts` does.", "--fonts/--no-fonts", default=True
    ),
    repair: bool = option("Capture broken pages again, once, as by `weboid qa repair`.", "--repair/--no-repair"),
    no_record: bool = option("Write nothing into WARCs: no records, no repairs."),
    dry_run: bool = option("Show what would be checked, and why."),
    stores: CollectionStores = STORES,
    frontier_url: str = options.FRONTIER,
    dedup_url: str = options.DEDUP,
    profile: str = options.PROFILE,
    secret: ClusterSecret | None = CLUSTER_SECRET,
) -> int:
    """Check copies: does playback still show what the crawler saw?

    Starts a playback of its own on this machine, opens copies in the browser, and compares each
    with the data stored at its capture: picture, text, resources. Without a URL, a sample of the
    pages that were not checked yet. With --repair broken pages are captured again. Ctrl-C finishes the pages in progress; the same command continues where it stopped.
    Exit code 1: a copy is broken, and there is no better one.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    layout = read_collection(stores.root)
    settings = options.SharedStores(frontier_url, stores.database_url, dedup_url).applied_to(load_profile(profile))
    with stores.levels() as book:
        rules = book.now()
    if full or (not levels and any(rule.level is Level.FULL for rule in rules.rules)):
        levels = (*(levels or (str(DEFAULT_LEVEL),)), str(Level.FULL))
    chosen_levels = tuple(dict.fromkeys(map(Level, levels))) or (DEFAULT_LEVEL,)
    has_sample = click.get_current_context().get_parameter_source("sample") is not click.core.ParameterSource.DEFAULT
    if every and has_sample:
        raise InputError("Use --sample or --all, not both.")
    start = options.start_moment(since, now=CLOCK.now()) if since else None
    wanted = CandidateFilter(str(chosen_levels[0]), ENGINE, host_name(host) if host else "", start, again)
    count, records = 0 if every or (since and not has_sample) else sample, not no_record
    qa_options = QaOptions(urls, count, wanted, chosen_levels, seed, fonts, records, repair and records, rules)
    repairing = repair_options(layout, settings, jobs, OPEN_REPAIRS_LIMIT, secret)
    with stores.index() as database, stores.registry() as store, open_webhooks(layout.root, settings) as hooks:
        run = QaRun(qa_options, repairing, stores.database_url, database, store)
        if hooks is not None:
            run.report = hooks.note
        if dry_run:
            return ExitCode.OK if run.plan(as_json=output.is_json) else ExitCode.SOME_FAILED
        end = asyncio.run(run.perform(as_json=output.is_json, on_repair=report_repair))
    if end.stopped:
        return ExitCode.STOPPED
    return ExitCode.OK if end.is_well else ExitCode.SOME_FAILED


@cli_command("repair")
def repair_command(
    *,
    limit: int = option(
        "Maximum number of pages to capture again.", within=(1, OPEN_REPAIRS_LIMIT), default=OPEN_REPAIRS_LIMIT
    ),
    dry_run: bool = option("List what would be captured again; do nothing."),
    collection: Path = options.COLLECTION,
    shared: options.SharedStores = options.SHARED,
    profile: str = options.PROFILE,
    workers: int = options.WORKERS,
    secret: ClusterSecret | None = CLUSTER_SECRET,
) -> int:
    """Capture broken pages again, once, with the thorough profile.

    Broken pages are those that a check found broken, that a person marked bad, or whose recapture
    was requested. Each new capture is checked as the old one was; readers are offered the better of
    the two, and both are kept. Robots, politeness and policies apply as for any visit. The same
    command continues where it was stopped. Exit code 1: a repair produced nothing better.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    layout = read_collection(collection)
    settings = shared.applied_to(load_profile(profile))
    with closing(open_registry_store(layout, settings.index.url)) as store:
        repairing = repair_options(layout, settings, workers, limit, secret)
        if dry_run:
            rows = CollectionRepair(repairing, store).wanted()
            for row in rows:
                check, facts = row.check, json_facts(row.check, "url page_id level reason")
                text = f"{row.verdict or 'unchecked':9} {check.captured_at} {check.url}  {check.reason}"
                output.show({"event": "wanted", **facts, "verdict": str(row.verdict)}, clean(text))
            if not rows:
                output.say(_NOTHING)
            return ExitCode.OK

        async def repair() -> tuple[RepairSummary, RecordsSummary]:
            summary = await CollectionRepair(repairing, store).repair(report_repair)
            if not summary.ended:
                return summary, RecordsSummary()
            return summary, await write_checks(layout, settings, store, secret)

        done, written = asyncio.run(repair())
    facts = {"event": "summary", "repaired": dict(done.ended), **json_facts(done, "left why_left stopped")}
    left = [written.text] if written.left and written.error is None else []
    output.show({**facts, "unrecorded": written.left}, [*(done.lines or [_NOTHING]), *left])
    if written.error is not None:
        raise written.error
    if done.stopped:
        return ExitCode.STOPPED
    return ExitCode.OK if done.is_well else ExitCode.SOME_FAILED


def repair_options(
    layout: Layout, settings: Settings, workers: int, limit: int, secret: ClusterSecret | None
) -> RepairRunOptions:
    """Return the options of a repair run; logins are unlocked, and levels opened, when it visits."""
    levels = open_stored_levels(layout, settings.index.url)
    return RepairRunOptions(
        layout, settings, workers, limit, secret, lambda: unlock_logins(settings, layout.root), levels
    )


def report_repair(event: Event) -> None:
    """Print a repair that has ended, or an outage."""
    if isinstance(event, PageRepaired):
        text = clean(f"{event.state:15} {event.url}  {event.reason}")
        output.show({"event": "repaired", **asdict(event)}, text)
    elif isinstance(event, WaitStarted):
        output.show({"event": "waiting", **asdict(event)}, clean(event.text))


command = LazyGroupWithDefault(
    "qa",
    commands_at=COMMANDS["qa"],
    rare="baseline marks",
    callback=check_command.callback,
    params=check_command.params,
    help=check_command.help,
    invoke_without_command=True,
)
