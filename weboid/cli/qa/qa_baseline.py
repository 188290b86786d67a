"""Commands `weboid qa baseline`: playback before and after an upgrade."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from core.errors import InputError
from core.json_values import json_facts
from core.playback_check import QaVerdict, picture_name
from core.timestamps import warc_date
from crawler.collection import read_collection
from crawler.profiles import load_profile
from playback.access.levels import DEFAULT_LEVEL, Level
from qa import baseline as baselines
from qa.check_run import CheckRunOptions
from qa.page_changes import RegressionKind, count_by_kind, regression_as_json, sort_worst_first
from qa.sample import MOST_PAGES, CandidateFilter, SampleCandidate, StratifiedSample, read_candidates
from weboid.app.standalone_page import baseline_report_page
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, argument, cli_command, option
from weboid.cli.support.options import CHECK_JOBS, COLLECTION, PROFILE, counted, output
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.stores import STORES, CollectionStores


@click.group("baseline", cls=CommandGroup)
def command() -> None:
    """Compare playback before and after an upgrade.

    Run `save` before the sanitiser, pywb or the browser change, and `check` afterwards: it checks
    the same pages again and reports what got better or worse. See docs/how-to/quality.md.
    """


@cli_command("save", command)
def save(
    *,
    name: str = argument(),
    sample: int = option("Pages.", within=(1, MOST_PAGES), default=100),
    seed: int = option("Seed of the random sample.", default=0),
    level: str = option("Check at this level.", choices=Level, default=str(DEFAULT_LEVEL)),
    dry_run: bool = option("List the pages, without checking them."),
    jobs: int = CHECK_JOBS,
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
) -> int:
    """Save how playback shows a sample of pages, under NAME.

    Every host and every class of page has its share of the sample. Pictures, texts and verdicts are
    stored in the collection's folder reports/quality/NAME. Ctrl-C finishes the pages in progress;
    the same command continues where it stopped.
    """
    layout = read_collection(stores.root)
    baseline = baselines.open_baseline(layout.quality_baselines, name)
    if dry_run:
        for page in _sample(stores, sample, seed, level):
            plan = {"page_id": page.page_id, "url": page.url, "class": str(page.page_class)}
            output.show(plan, f"{page.timestamp}  {clean(page.url)}")
        return ExitCode.OK
    engine = baselines.playback_fingerprint()
    if any(each.name == name for each in baselines.list_baselines(layout.quality_baselines)):
        header = baseline.header()
        is_whole = len(baseline.checks(baselines.BEFORE)) >= len(header.pages)
        if is_whole or header.engine != engine:
            baseline.create(header)  # which is refused
    else:
        pages = tuple(_sample(stores, sample, seed, level))
        header = baselines.BaselineHeader(name, level, engine, warc_date(CLOCK.now()), seed, pages)
        baseline.create(header)
    left = max(len(header.pages) - len(baseline.checks(baselines.BEFORE)), 0)
    options = _run_options(stores, profile, jobs)
    with progress_bar("looking", left) as step:
        whole = asyncio.run(baselines.record_before(options, baseline, header, lambda _checked, _tally: step(1)))
    verdicts = [each.verdict for each in baseline.checks(baselines.BEFORE).values()]
    facts = {
        "name": name,
        "pages": len(header.pages),
        "checked": len(verdicts),
        "verdicts": {each or "unchecked": verdicts.count(each) for each in QaVerdict},
        "engine": header.engine,
        "folder": str(baseline.folder),
    }
    text = f"{name}: {len(verdicts)} of {len(header.pages)} pages kept ({_counts_text(facts['verdicts'])})."
    output.show(facts, text)
    return ExitCode.OK if whole else ExitCode.STOPPED


@cli_command("check", command)
def check(
    *,
    name: str = argument(),
    again: bool = option("Check all pages, even if nothing was upgraded."),
    dry_run: bool = option("Show the number of pages, without checking them."),
    jobs: int = CHECK_JOBS,
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
) -> int:
    """Check the pages of NAME again, and report what got better or worse.

    Compares the playback then with the playback now, and each with the capture. Pages that differ are checked twice.
    Writes reports/quality/NAME/index.html. With --json one line per page, and a last one with the counts. Ctrl-C
    finishes the pages in progress; the same command continues where it stopped. Exit code 1: something got worse.
    """
    layout = read_collection(stores.root)
    baseline = baselines.open_baseline(layout.quality_baselines, name)
    header, engine = baseline.header(), baselines.playback_fingerprint()
    before = baseline.checks(baselines.BEFORE)
    pages = [page for page in header.pages if page.page_id in before]
    if dry_run:
        plan = {"pages": len(pages), "before": header.engine, "after": engine}
        output.show(plan, f"{counted(len(pages), 'page')}, played back by {engine}.")
        return ExitCode.OK
    baseline.begin_after(engine, again=again)
    left = max(len(pages) - len(baseline.checks(baselines.AFTER)), 0)
    options = _run_options(stores, profile, jobs)
    with progress_bar("looking", left) as step:
        record = baselines.record_after(options, baseline, header, lambda _checked, _tally: step(1))
        whole, unsorted = asyncio.run(record)
    results = sort_worst_first(unsorted)
    page = baseline_report_page(baseline, header, engine, results)
    baseline.report.write_text(page, encoding="utf-8", errors="replace")
    for each in results:
        line = f"{each.kind:<9} {clean(each.after.url)}  ({clean(each.reason)})"
        is_changed = each.kind is not RegressionKind.UNCHANGED
        output.show(regression_as_json(each), line if is_changed else ())
    counts = {str(kind): count for kind, count in count_by_kind(results).items()}
    facts = {"counts": counts, "before": header.engine, "after": engine, "report": str(baseline.report)}
    output.show(facts, f"{_counts_text(counts) or 'nothing to compare'}. {baseline.report} shows them.")
    if not whole:
        return ExitCode.STOPPED
    return ExitCode.SOME_FAILED if counts[RegressionKind.WORSE] else ExitCode.OK


@cli_command("ls", command)
def ls(*, collection: Path = COLLECTION) -> None:
    """List the saved baselines."""
    root = read_collection(collection).quality_baselines
    facts, rows = [], []
    for each in baselines.list_baselines(root):
        count, stored = len(each.pages), len(baselines.open_baseline(root, each.name).checks(baselines.BEFORE))
        facts.append({**json_facts(each, "name saved_at level engine"), "pages": count, "kept": stored})
        rows.append((each.name, each.saved_at, each.level, f"{stored}/{count}", each.engine))
    output.table(facts, ("name", "saved", "level", "pages>", "engine"), rows)


@cli_command("rm", command, has_json=False)
def rm(*, name: str = argument(), collection: Path = COLLECTION) -> None:
    """Remove a baseline with its pictures."""
    baselines.open_baseline(read_collection(collection).quality_baselines, name).remove()
    click.echo(f"{name} is removed.")


def _sample(stores: CollectionStores, sample: int, seed: int, level: str) -> list[SampleCandidate]:
    strata = StratifiedSample(sample, seed)
    wanted = CandidateFilter(level, "", again=True)
    with stores.index() as database, stores.registry() as store:
        for page in read_candidates(database, store, wanted):
            # An id that is unsafe as a file name is left out: an index may be manipulated.
            with suppress(InputError):
                picture_name(page.page_id, str(DEFAULT_LEVEL), "seen")
                strata.add_all([page])
    return strata.drawn()


def _run_options(stores: CollectionStores, profile: str, jobs: int) -> CheckRunOptions:
    browser = load_profile(profile).browser
    return CheckRunOptions(stores.layout, stores.database_url, browser, jobs, CLOCK, cached=False)


def _counts_text(counts: Any) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
