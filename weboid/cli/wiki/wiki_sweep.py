"""`weboid wiki sweep`: full scan of a wiki's pages; the first one is its import."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rich.progress import Progress

from core.config.settings import Settings
from core.errors import InputError, WeboidError
from links.registry.database import RegistryStore
from links.registry.wikis import FeedHeldError, Wiki, parse_wiki
from weboid.app.text_table import clean
from weboid.cli.support.command_target import WIKI_TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import counted, output
from weboid.cli.support.progress import count_progress
from weboid.cli.wiki.wiki_watch import sync_services, wiki_opener
from wiki.settings import WikiSettings
from wiki.sync.feed_context import SyncServices, order_lists
from wiki.sync.page_criteria import categories_below, category_title
from wiki.sync.sweep import SweepSurvey, survey_wiki
from wiki.sync.wiki_feed import FeedRound
from wiki.sync.wiki_source import WikiSource
from wiki.sync.wiki_watcher import order_sweep, select_wikis, sweep_wiki


@cli_command("sweep")
def command(
    *,
    names: tuple[str, ...] = argument("[NAME]..."),
    namespaces: tuple[int, ...] = option(
        "Only pages of this namespace, by its number; repeatable.", "--namespace", within=(0, None)
    ),
    categories: tuple[str, ...] = option(
        "Only pages in or below this category; repeatable.", "--category", metavar="TITLE"
    ),
    is_now: bool = option("Sweep even if none is due yet.", "--now"),
    dry_run: bool = option("Show what would be observed, without writing it."),
    where: CommandTarget = WIKI_TARGET,
) -> int:
    """Read every page of wikis again, of all known ones or of those that are named.

    A wiki's first sweep imports its pages, and all of their links into the archive. `weboid wiki
    watch` sweeps on its own schedule; use this to sweep earlier. An interrupted one continues where
    it stopped. While a watch runs, that watch sweeps, and --now makes it start.

    With --namespace and --category only those pages of one wiki are read, at once; the wiki's
    criteria apply to them as to all others.
    """
    wanted = [parse_wiki(name) for name in names]
    lists = [("namespace", str(number)) for number in namespaces]
    lists += [("category", title) for title in categories]  # each including its subcategories
    if lists and (len(wanted) != 1 or is_now or dry_run):
        raise InputError("With --namespace or --category name one wiki, and leave out --now and --dry-run.")
    with ExitStack() as stack:
        store = stack.enter_context(where.stores.registry(make=not dry_run))
        wikis = select_wikis(store, wanted)
        progress = stack.enter_context(count_progress())
        if dry_run:
            reports = [_surveyed(wiki, store, where.settings, progress) for wiki in wikis]
        else:
            frontier = stack.enter_context(where.frontier(make=True))
            shared = sync_services(where, store, frontier)
            reports = [_swept(wiki, shared, where.settings, progress, is_now=is_now, lists=lists) for wiki in wikis]
    for facts in reports:
        output.show(facts, clean(_sentence(facts)))
    return ExitCode.SOME_FAILED if any(facts["trouble"] for facts in reports) else ExitCode.OK


async def _begun(wiki: Wiki, lists: Sequence[tuple[str, str]], source: WikiSource, shared: SyncServices) -> int | None:
    """Request the lists from the wiki's watcher; return the number of pages to read, None: unknown."""
    feed = WikiSettings.parse(wiki.settings).feed
    if not lists:
        return await source.size(feed.namespaces) or None
    wanted = [each for each in lists if each[0] == "namespace"]
    if others := [number for _, number in wanted if int(number) not in feed.namespaces]:
        raise InputError(
            f"Pages of namespace {others[0]} of {wiki.name} are not observed: `weboid wiki add --namespace` adds them."
        )
    if roots := [title for kind, title in lists if kind == "category"]:
        below, _ = await categories_below(source, roots, feed, facts := await source.facts())
        wanted += [("category", category_title(name, facts)) for name in sorted(below)]
    await asyncio.to_thread(order_lists, shared.store, wiki.id, wanted, now=CLOCK.now())
    return None


def _swept(
    wiki: Wiki,
    shared: SyncServices,
    settings: Settings,
    progress: Progress,
    *,
    is_now: bool,
    lists: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Sweep one wiki; return the facts, including errors, so that the other wikis are swept."""
    task = progress.add_task(clean(str(wiki.name)), total=None)
    sums = dict.fromkeys(("pages", "links", "added", "gone", "dropped", "taken"), 0)

    def note(done: FeedRound) -> None:
        both = done.pages.plus(done.swept)
        for name in ("added", "gone", "dropped"):
            sums[name] += getattr(both, name)
        read = both if lists else done.swept
        sums["pages"] += read.pages
        sums["links"] += read.links
        sums["taken"] += done.handed.taken
        if done.sweep is not None:
            progress.update(task, completed=done.sweep.pages)

    opener, trouble, is_left = wiki_opener(settings), "", False

    async def sweep() -> None:
        async with opener(wiki) as source:
            progress.update(task, total=await _begun(wiki, lists, source, shared))
        await sweep_wiki(wiki, opener, shared, is_now=is_now, progress=note, sweeps=not lists)

    try:
        asyncio.run(sweep())
    except FeedHeldError as error:
        is_left = is_now or bool(lists)
        trouble = "" if is_left else str(error)
        if is_now:
            order_sweep(shared.store, wiki, now=CLOCK.now())
    except WeboidError as error:
        trouble = str(error)
    progress.remove_task(task)
    return {"wiki": str(wiki.name), **sums, "left_to_watch": is_left, "trouble": trouble}


def _surveyed(wiki: Wiki, store: RegistryStore, settings: Settings, progress: Progress) -> dict[str, Any]:
    task = progress.add_task(clean(str(wiki.name)), total=None)
    survey, trouble = SweepSurvey(), ""
    opener = wiki_opener(settings)

    async def survey_pages() -> None:
        nonlocal survey
        async with opener(wiki) as source:
            async for survey in survey_wiki(wiki, source, store, CLOCK):
                total = max(survey.expected, survey.examined)
                progress.update(task, completed=survey.examined, total=total or None)

    try:
        asyncio.run(survey_pages())
    except WeboidError as error:
        trouble = str(error)
    progress.remove_task(task)
    return {
        "wiki": str(wiki.name),
        "dry_run": True,
        "pages": survey.pages,
        "links": {str(sort): count for sort, count in sorted(survey.links.items())},
        "not_observed": {str(why): count for why, count in sorted(survey.refused.items())},
        "trouble": trouble,
    }


def _sentence(facts: dict[str, Any]) -> str:
    name = facts["wiki"]
    if facts["trouble"]:
        return f"{name}: {facts['trouble']} Results so far are stored; the next run continues."
    if "dry_run" in facts:
        links = ", ".join(f"{count:,} {sort}" for sort, count in facts["links"].items()) or "none"
        text = f"{name}: {counted(facts['pages'], 'page')} would be observed; their links: {links}."
        others = ", ".join(f"{count:,} ({why})" for why, count in facts["not_observed"].items())
        return f"{text} Not observed: {others}." if others else text
    if facts["left_to_watch"]:
        return f"{name}: `weboid wiki watch` is running on it and was asked to sweep now."
    if not facts["pages"] and not facts["added"]:
        return f"{name}: no sweep is due; --now starts one."
    return (
        f"{name}: {counted(facts['pages'], 'page')} with {counted(facts['links'], 'link')} swept; {facts['added']:,} links "
        f"are new or back, {facts['gone']:,} are gone, {facts['dropped']:,} pages are deleted; "
        f"{facts['taken']:,} links are to be archived."
    )
