"""`weboid archive`: a run over a list of URLs. `weboid record`: a session of a command or a person."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from core.errors import InputError
from core.json_values import json_facts
from core.layout import Layout
from core.page_manifest import VisitOutcome
from crawler.jobs.list_files import GivenUrls
from crawler.run.crawl_run import archive_urls
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, DURATION, PROFILE, SHARED, WORKERS, SharedStores, counted, output
from weboid.cli.support.run_options import QA, SCAN, STORE, run_with_reports, with_store
from weboid.cli.support.run_output import run_exit_code

if TYPE_CHECKING:
    from render.sign_in import ShownPage
    from weboid.app.recorded_session import SessionAccess, SessionCounts, SessionResult


@cli_command("archive")
def archive_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    list_file: str | None = option(
        "One URL per line; - is standard input.", "--list", metavar="FILE", type=click.Path(allow_dash=True)
    ),
    collection: Path = COLLECTION,
    shared: SharedStores = SHARED,
    profile: str = PROFILE,
    workers: int = WORKERS,
    again: bool = option("Archive URLs again that are already in the collection."),
    older_than: timedelta | None = option(
        "Archive URLs again whose last capture is at least this old: 30d, 12h.", type=DURATION
    ),
    no_wait: bool = option("End the run when the disk is nearly full, instead of waiting for space."),
    stay: bool = option("Keep running: wait for URLs that others add to the collection's queue."),
    robots: str | None = option(
        "Treatment of robots.txt in this run.  [default: ignore, as browsers do for URLs that a user enters; obey "
        "with --stay]",
        choices=("obey", "ignore"),
    ),
    store: str | None = STORE,
    qa: bool | None = QA,
    scan: bool = SCAN,
    dry_run: bool = option("Read the list and show what would be done."),
) -> int:
    """Archive URLs into a collection.

    Every URL is rendered in a real browser through a WARC-writing proxy. The same command run again
    continues where it stopped, and does nothing twice. Without URLs it processes the collection's
    frontier, such as URLs from `weboid crawl add`. With --frontier the URLs are left to the workers
    of that frontier. Ctrl-C finishes the pages in progress and stops; a second one stops at once.
    """
    if again and older_than is not None:
        raise InputError("Use --again or --older-than, not both.")
    if stay and shared.frontier_url:
        raise InputError("--stay is for a collection's own queue: run `weboid worker` for a shared frontier.")
    settings = shared.applied_to(collection_settings(profile, collection, unattended=stay, robots=robots))
    settings = with_store(settings, store)
    if store is not None and settings.frontier.url:
        raise InputError(
            "The workers of a shared frontier use the stored levels: omit --store and run"
            " `weboid level set --store`, or name a crawl with `weboid crawl --store`."
        )
    if no_wait:
        settings = replace(settings, proxy=replace(settings.proxy, disk_wait_s=0.0))
    goes_on = not urls and list_file is None and (stay or Layout(collection).frontier_db.exists())
    with GivenUrls(urls, list_file, report=lambda text: click.echo(text, err=True), needed=not goes_on) as url_list:
        count = sum(1 for _ in url_list)  # report every error before anything is created
        if not goes_on:
            url_list.require_some()
        bad = url_list.bad
        if dry_run:
            facts = {"event": "dry_run", "urls": count, "collection": str(collection)}
            output.show(facts, f"{counted(count, 'URL')} would be archived into {collection}.")
            return ExitCode.SOME_FAILED if bad else ExitCode.OK
        run = partial(archive_urls, urls=url_list, again=timedelta(0) if again else older_than)
        summary = run_with_reports(run, collection, settings, workers, qa=qa, stays=stay)
        if scan and not stay and not settings.frontier.url:
            from weboid.app.malware_scanner import scan_once

            scan_once(collection, settings.index.url)
        return run_exit_code(summary, bad=bad)


@cli_command("record")
def record_command(
    *,
    words: tuple[str, ...] = argument("[URL | -- COMMAND...]"),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    no_window: bool = option("Do not open a browser; print the proxy's address and certificate for other clients."),
) -> int:
    """Record what you do in a browser, or what a command requests.

    Without COMMAND a browser window opens at URL. All that it loads is archived, each page with its picture, until you
    close it or press Ctrl-C. Without a screen the address of the proxy is printed, for a browser or program of yours.
    COMMAND (curl, wget, yt-dlp, a script) is run with proxy and certificate in its environment; its requests are one
    page, and its exit status is that of `weboid record`. See docs/how-to/record.md.
    """
    from net.stop_signals import StopSignals
    from weboid.app.recorded_session import record_session, run_command, show_window
    from weboid.app.text_table import clean
    from weboid.cli.support.progress import session_progress, stopped_by_enter

    is_url = len(words) == 1 and words[0].lower().startswith(("http://", "https://"))
    command = () if is_url else words
    settings = collection_settings(profile, collection)
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    ended = 0

    async def record() -> "SessionResult | None":
        with StopSignals(lambda: None) as stop, session_progress() as show:

            async def clients(access: "SessionAccess") -> "Sequence[ShownPage]":
                nonlocal ended
                if command:
                    ended = await run_command(command, access, stop.event)
                    return ()
                if no_window or not has_screen:
                    proxy = access.endpoint
                    click.echo(
                        f"Recording requests that come through the proxy {proxy.server}\n"
                        f"  user name    {proxy.username}\n  password     {proxy.password}\n"
                        f"  certificate  {access.authority}\n"
                        "The client must trust the certificate. Ctrl-C or Enter ends the session.",
                        err=True,
                    )
                    with stopped_by_enter(stop.event):
                        await stop.event.wait()
                    return ()
                from render.chromium import find_browser, find_window_browser
                from render.sign_in import display_variables

                named = settings.browser.executable
                executable = find_browser(named) if named else find_window_browser()
                click.echo("Recording. Close the window, or press Ctrl-C, to end.", err=True)
                url, screen = words[0] if is_url else "about:blank", display_variables(os.environ)
                return await show_window(url, executable, access, stop.event, screen=screen, clock=CLOCK)

            result: SessionResult | None = None
            with stop.cut_short():
                result = await record_session(
                    collection, settings, clients, clock=CLOCK, on_counts=lambda each: show(_counts_text(each))
                )
            return result  # noqa: RET504 the block may end early

    result = asyncio.run(record())
    if result is None:  # by a second signal
        click.echo("Stopped at once: recorded responses are in the WARCs, but belong to no page.", err=True)
        return ExitCode.STOPPED
    pages = [json_facts(each, "url page_id outcome status title") for each in result.pages]
    counts = json_facts(result.counts, "requests failed") | json_facts(result, "records stored_bytes")
    listed = [f"  {each.url}" for each in result.pages] + [f"  failed: {clean(each)}" for each in result.failures]
    if not result.counts.requests:
        listed.append("  No request came through the proxy: docs/how-to/record.md lists what clients need.")
    text = f"Recorded {_counts_text(result.counts)}, {result.stored_bytes / 1e6:.1f} MB; pages: {len(pages)}"
    if not output.json({"pages": pages, **counts, "exit_status": ended}):
        click.echo("\n".join((text, *listed)), err=True)  # standard output is the command's
    is_whole = bool(pages) and all(each.outcome is VisitOutcome.COMPLETE for each in result.pages)
    if ended < 0:  # by a signal, as shells report it
        return 128 - ended
    return ended or (ExitCode.OK if is_whole else ExitCode.SOME_FAILED)


def _counts_text(counts: "SessionCounts") -> str:
    text = f"{counted(counts.requests, 'request')} to {counted(counts.hosts, 'host')}"
    text += f", {counts.failed} failed" if counts.failed else ""
    return text + (f", {counts.in_flight} in progress" if counts.in_flight else "")
