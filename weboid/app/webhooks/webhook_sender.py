"""Sender of webhook deliveries, and emitter of a command's events to them.

A thread collects equal events for `BATCH_S`, at most `BATCH_ITEMS`, into one delivery for each receiver. Deliveries
survive the process: the next command on the collection, or ``weboid webhooks send``, continues. A claimed delivery is
due again after `LEASE_S`, so one may arrive twice, with the same ``webhook-id``. A failure delays all of its receiver.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from core.clock import Clock
from core.config.profile import link_user_agent
from core.config.settings import Settings
from core.errors import ConfigError, WeboidError
from core.json_values import json_facts
from core.layout import Layout
from core.page_classes import NOT_THE_PAGE
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import QaVerdict
from core.timestamps import parse_warc_date, timestamp14, unix_milliseconds
from core.url_keys import replay_key
from core.web_dates import parse_retry_after
from crawler.worker.crawl_events import DiskSpaceLow, Event, PageChecked, PageDone
from links.states import LinkState
from net.backoff import ExponentialBackoff
from playback.url_paths import page_path
from warc.artifact_reader import read_manifest
from warc.index.database import IndexDatabase, key_values, open_database
from weboid.app.collection_config import WebhookConfig, read_config
from weboid.app.webhooks.webhook_store import WebhookDelivery, WebhookStore, event_body, read_secrets, signed_headers

if TYPE_CHECKING:
    from crawler.run.crawl_run import RunSummary
    from links.archives.archive_client import HttpFetch
    from links.checker.result_store import RecordedResult

log = logging.getLogger(__name__)
BATCH_ITEMS: Final = 100
BATCH_S: Final = 3.0
QUEUED_ITEMS: Final = 100_000  # of a process, before they are batches
TIMEOUT_S: Final = 15.0
FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 7_200.0
EXPIRES_S: Final = 28 * 3_600.0
ENDING_S: Final = 20.0  # for the last deliveries of a command that ends
TEXT_LIMIT: Final = 2_000  # characters of a text in an item

_OTHER: Final = ", ".join(f"'{each}'" for each in sorted(NOT_THE_PAGE))


class WebhookSender:
    """Sender of queued deliveries; an asynchronous context manager. Redirects are failures, answers are bounded."""

    def __init__(self, root: Path, settings: Settings, store: WebhookStore, clock: Clock) -> None:
        """Set the collection; receivers are read from its ``weboid.toml`` at each `send_due`."""
        self._root, self._settings, self._store, self._clock = root, settings, store, clock
        self._fetch: HttpFetch

    async def __aenter__(self) -> Self:
        from links.archives.archive_client import HttpFetch
        from net.address_policy import is_own

        agent = link_user_agent(self._settings.links)
        self._fetch = HttpFetch(self._settings.egress, is_own=is_own, user_agent=agent, limit_s=TIMEOUT_S)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._fetch.__aexit__(*error)

    async def send_due(self) -> int:
        """Send one due delivery of each receiver; return how many were due. Raises ConfigError for weboid.toml."""
        return await self.send_claimed(self._store.claim(now=self._clock.now().timestamp()))

    async def send_claimed(self, claimed: Sequence[tuple[WebhookDelivery, bytes]]) -> int:
        """Send claimed deliveries, all at the same time; return how many they are. Raises as `send_due`."""
        hooks = {each.url: each for each in read_config(self._root).webhooks()}
        await asyncio.gather(*(self._send(*each, hooks.get(each[0].url)) for each in claimed))
        return len(claimed)

    async def send_all(self) -> int:
        """Send all due deliveries; return the number of attempts. Errors of the store are logged."""
        count = 0
        try:
            while sent := await self.send_due():
                count += sent
        except (WeboidError, sqlite3.Error, OSError) as error:
            log.warning("webhook.delayed reason=%s", error)
        return count

    async def _send(self, delivery: WebhookDelivery, body: bytes, hook: WebhookConfig | None) -> None:
        from links.archives.archive_client import ArchiveRequest, NoReplyError

        if hook is None:
            self._store.end(delivery, "failed", status=None, reason="the webhook was removed")
            return
        status, retry_after = None, None
        try:
            headers = signed_headers(read_secrets(hook.secret_file), delivery.id, body, now=self._clock.now())
            request = ArchiveRequest(hook.url, "POST", headers, body, is_head_enough=True)
            answer = await self._fetch(request)
            status, reason = answer.status, f"HTTP {answer.status}"
            limit = timedelta(seconds=LONGEST_PAUSE_S)
            retry_after = parse_retry_after(answer.headers.get("retry-after", ""), now=self._clock.now(), limit=limit)
        except (NoReplyError, ConfigError) as error:
            reason = str(error)
        now = self._clock.now().timestamp()
        if status is not None and 200 <= status < 300:
            self._store.end(delivery, "delivered", status=status, reason="")
            return
        pauses = ExponentialBackoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        pause_s = [pauses.next_s() for _ in range(delivery.attempts)][-1]
        due = now + max(pause_s, retry_after.total_seconds() if retry_after else 0.0)
        if status == 410 or due - delivery.made > EXPIRES_S:
            log.warning("webhook.failed url=%s attempts=%d reason=%s", hook.url, delivery.attempts, reason)
            self._store.end(delivery, "failed", status=status, reason=reason)
        else:
            self._store.delay(delivery, due, status=status, reason=reason)


# Kind and facts of an event; a page archived just now, whose change is looked up by the thread.
_NewItem = tuple[str, dict[str, Any], PageInfo | None]


class WebhookEmitter:
    """Events of one command, written and sent by a thread; without webhooks nothing is done."""

    def __init__(self, root: Path, settings: Settings, *, clock: Clock) -> None:
        """Read the webhooks. Raises ConfigError; a secret that cannot be read is reported before work begins."""
        self._root, self._settings, self._clock = root, settings, clock
        self._hooks = read_config(root).webhooks()
        for each in self._hooks:
            read_secrets(each.secret_file)
        self._wanted = {kind for each in self._hooks for kind in each.events}
        self._news: queue.Queue[_NewItem | None] = queue.Queue(QUEUED_ITEMS)
        self._lost = 0
        self._batches: dict[str, list[dict[str, Any]]] = {}
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def put(self, kind: str, facts: dict[str, Any], page: PageInfo | None = None) -> None:
        """Queue an event, if a webhook wants it. Thread-safe; never blocks."""
        if kind in self._wanted or (page is not None and "page.changed" in self._wanted):
            try:
                self._news.put_nowait((kind, facts, page))
            except queue.Full:
                self._lost += 1

    def reporting(self, report: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return `report`, extended by `note`."""

        def both(event: Event) -> None:
            report(event)
            self.note(event)

        return both

    def put_summary(self, summary: RunSummary, jobs: Sequence[str] = ()) -> None:
        """Queue the end of a run."""
        facts: dict[str, Any] = {"jobs": list(jobs), "outcomes": dict(summary.outcomes)}
        facts |= json_facts(summary, "failures records left stopped", bytes="stored_bytes")
        self.put("crawl.finished", facts | {"seconds": round(summary.seconds, 3)})

    def put_results(self, results: Iterable[RecordedResult]) -> None:
        """Queue the links that these results changed to dead."""
        for each in results:
            if each.after is LinkState.DEAD and each.before is not LinkState.DEAD:
                facts = {"url": each.url, "before": each.before.name.lower(), "verdict": str(each.finding.verdict)}
                self.put("link.died", facts | {"http": each.finding.http, "note": each.finding.note})

    def note(self, event: Event) -> None:
        """Queue an event of a crawl."""
        match event:
            case PageDone(page=PageInfo() as page) if not event.error and page.outcome is not VisitOutcome.FAILED:
                facts = json_facts(page, "url final_url page_id captured_at status mime title")
                facts |= {"outcome": str(page.outcome), "class": str(page.page_class)}
                facts["path"] = page_path(timestamp14(parse_warc_date(page.captured_at)), page.url)
                self.put("page.archived", facts, page)
            case PageChecked(verdict=QaVerdict.BROKEN):
                facts = {"url": event.url, "page_id": event.page_id, "level": event.level}
                self.put("qa.failed", facts | {"score": event.score, "reason": event.reason})
            case DiskSpaceLow():
                self.put("disk.low", {"free_bytes": event.free_bytes, "wanted_bytes": event.wanted_bytes})
            case _:
                pass

    def __enter__(self) -> Self:
        if self._hooks:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._hooks:
            while self._thread.is_alive():
                with suppress(queue.Full):
                    self._news.put(None, timeout=1)
                    break
            self._thread.join(ENDING_S + TIMEOUT_S)
        if self._lost:
            log.warning("webhook.lost events=%d", self._lost)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception:
            log.exception("webhook.ended")  # a fault here must not stop the command

    async def _work(self) -> None:
        """Collect, store and send until the command ends; errors of store and network are retried."""
        layout = Layout(self._root)
        with (
            closing(WebhookStore(layout.webhooks_db)) as store,
            closing(open_database(layout, self._settings.index.url)) as index,
        ):
            async with WebhookSender(self._root, self._settings, store, self._clock) as sender:
                sending, begun, is_open = asyncio.create_task(sender.send_all()), time.monotonic(), True
                while is_open:
                    with suppress(queue.Empty):
                        item = await asyncio.to_thread(self._news.get, True, BATCH_S)  # noqa: FBT003 of queue
                        while is_open := item is not None:
                            self._collect(*item, layout, index)
                            if max(map(len, self._batches.values()), default=0) >= BATCH_ITEMS:
                                break
                            item = self._news.get_nowait()
                    is_full = any(len(each) >= BATCH_ITEMS for each in self._batches.values())
                    if is_open and not is_full and time.monotonic() - begun < BATCH_S:
                        continue
                    begun = time.monotonic()
                    try:
                        self._store_batches(store)
                    except (sqlite3.Error, OSError) as error:
                        log.warning("webhook.delayed reason=%s", error)
                    if sending.done():
                        sending = asyncio.create_task(sender.send_all())
                with suppress(TimeoutError):  # the rest is sent by the next process
                    async with asyncio.timeout(ENDING_S):
                        await sending
                        await sender.send_all()

    def _collect(
        self, kind: str, facts: dict[str, Any], page: PageInfo | None, layout: Layout, index: IndexDatabase
    ) -> None:
        facts = {key: each[:TEXT_LIMIT] if isinstance(each, str) else each for key, each in facts.items()}
        if kind in self._wanted:
            self._batches.setdefault(kind, []).append(facts)
        if (
            page is None
            or "page.changed" not in self._wanted
            or not page.text_digest
            or page.page_class in NOT_THE_PAGE
        ):
            return
        try:
            values = {"url": page.url, "ms": unix_milliseconds(parse_warc_date(page.captured_at))}
            rows = index.rows(
                f"SELECT page_id FROM pages WHERE {index.has_key} AND url = :url AND captured_ms < :ms"  # noqa: S608
                f" AND page_class NOT IN ({_OTHER}) ORDER BY captured_ms DESC LIMIT 1",
                values | key_values(replay_key(page.url)),
            )
            older = read_manifest(layout, index, rows[0]["page_id"]) if rows else None
        except (WeboidError, sqlite3.Error, OSError) as error:
            log.warning("webhook.unknown_change url=%s reason=%s", page.url, error)
            return
        if older is not None and older.text_digest and older.text_digest != page.text_digest:
            changed = facts | {"previous_page_id": older.page_id, "previous_captured_at": older.captured_at}
            self._batches.setdefault("page.changed", []).append(changed)

    def _store_batches(self, store: WebhookStore) -> None:
        for kind, items in self._batches.items():
            while items:
                now = self._clock.now()
                body = event_body(kind, self._root, items[:BATCH_ITEMS], now=now)
                for hook in self._hooks:
                    if kind in hook.events:
                        store.add(hook.url, kind, body, now=now.timestamp())
                del items[:BATCH_ITEMS]
