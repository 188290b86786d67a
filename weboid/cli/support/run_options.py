"""Options of commands that archive, and runs with them: background checks, webhooks, stored levels, logins."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core.config.settings import Settings
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import InputError
from core.layout import CONFIG_FILE, Layout
from weboid.cli.support.commands import CLOCK, option

QA = option(
    "Check the copies of pages as they are archived, and capture broken ones again.  [default: as set in the profile]",
    "--qa/--no-qa",
    default=None,
)
STORE = option(
    "Recording level of each page.  [default: as set by `weboid level`, else everything]", choices=StoredLevel
)
SCAN = option(
    "Scan archived payloads with clamd, if one is running (docs/how-to/scanning.md).  [default: scan]",
    "--scan/--no-scan",
    default=True,
    show_default=False,
)
WEBOID = (sys.executable, "-m", "weboid")

if TYPE_CHECKING:
    from crawler.capture.page_capture import StoredLevelOf
    from crawler.run.context_builder import RunExtension
    from crawler.run.crawl_run import RunSummary
    from crawler.worker.crawl_events import Event
    from playback.access.level_store import LevelStore
    from render.sign_in import SiteLogins
    from weboid.app.webhooks.webhook_sender import WebhookEmitter


def background_checks(settings: Settings, *, qa: bool | None) -> RunExtension | None:
    """Return the background checks of the run; None, and nothing is imported, without them."""
    if qa and settings.frontier.url:
        raise InputError("Pages of a shared frontier are archived elsewhere: check their copies with `weboid qa`.")
    wanted = settings.quality.check if qa is None else qa
    if not wanted or settings.frontier.url:
        return None
    from weboid.app.collection_repair import create_live_checks

    return create_live_checks(settings.quality)


def open_webhooks(root: Path, settings: Settings) -> AbstractContextManager[WebhookEmitter | None]:
    """Return the emitter of events to the collection's webhooks; None, and nothing is imported, without them."""
    config = root / CONFIG_FILE
    if not config.exists() or "webhooks" not in config.read_text(encoding="utf-8"):
        return nullcontext()
    from weboid.app.webhooks.webhook_sender import WebhookEmitter

    return WebhookEmitter(root, settings, clock=CLOCK)


def run_with_reports(
    run: Callable[..., Coroutine[Any, Any, RunSummary]],
    root: Path,
    settings: Settings,
    workers: int,
    *,
    qa: bool | None,
    stays: bool,
    jobs: Sequence[str] = (),
) -> RunSummary:
    """Run `archive_urls` or the like with the collection's logins, levels and webhooks; print progress and summary.

    `run` takes the run's configuration and the callbacks of `archive_urls`; `jobs` are its crawls' names.
    """
    from crawler.run.crawl_run import RunConfig
    from weboid.cli.support.run_output import run_reporter

    logins = None if settings.frontier.url else unlock_logins(settings, root)
    extension, layout = background_checks(settings, qa=qa), Layout(root)
    with open_stored_levels(layout, settings.index.url) as level_of, open_webhooks(root, settings) as hooks:
        config = RunConfig(root, settings, workers, stays, logins, extension, stored_level_of=level_of)
        reporter = run_reporter()
        report = reporter.event if hooks is None else hooks.reporting(reporter.event)
        events = {"started": reporter.started, "report": report, "stopping": reporter.stopping}
        summary = asyncio.run(run(config, clock=CLOCK, **events))
        reporter.ended(summary)
        if hooks is not None:
            hooks.put_summary(summary, jobs)
    return summary


async def visit_once(
    urls: Sequence[str], root: Path, settings: Settings, workers: int, report: Callable[[Event], None]
) -> RunSummary:
    """Visit URLs once each, also when they were archived before; failures are results, too, and are not retried."""
    from crawler.run.crawl_run import RunConfig, archive_urls

    once = replace(settings, frontier=replace(settings.frontier, attempts=1))
    with open_stored_levels(Layout(root), settings.index.url) as level_of:
        config = RunConfig(root, once, workers, stored_level_of=level_of)
        return await archive_urls(config, urls, again=timedelta(0), clock=CLOCK, report=report)


def with_store(settings: Settings, level: str | None) -> Settings:
    """Return the settings with the option's level; unchanged for None."""
    return settings if level is None else replace(settings, visit=replace(settings.visit, store=level))


@contextmanager
def open_stored_levels(layout: Layout, database_url: str) -> Iterator[StoredLevelOf]:
    """Yield a lookup of stored levels in a collection's decisions, opened once there are any."""
    levels: list[LevelStore] = []
    lock = threading.Lock()
    with ExitStack() as stack:

        def level_of(url: str, wiki: str) -> StoredLevel:
            with lock:
                if not levels:
                    if not (database_url or layout.decisions_db.exists()):
                        return DEFAULT_STORED_LEVEL
                    from playback.access.decision_store import open_decisions
                    from playback.access.level_store import LevelStore

                    store = open_decisions(layout, database_url)
                    levels.append(LevelStore(stack.enter_context(closing(store))))
            return levels[0].now().stored.ruling(url, wiki).level

        yield level_of


PASSPHRASE_VARIABLE = "WEBOID_LOGIN_PASSPHRASE"  # noqa: S105 its name


def unlock_logins(settings: Settings, root: Path) -> SiteLogins | None:
    """Unlock the logins that the settings name; None, and no passphrase is requested, when none are named."""
    if not settings.login.names:
        os.environ.pop(PASSPHRASE_VARIABLE, None)  # what we start need not know it
        return None
    from crawler.capture.site_logins import open_logins
    from weboid.cli.login import ask_passphrase

    return open_logins(
        Layout(root).logins,
        settings.login,
        now=CLOCK.now(),
        ask=lambda: ask_passphrase("Passphrase of the logins"),
        warn=lambda text: click.echo(text, err=True),
    )
