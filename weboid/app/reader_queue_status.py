"""Queue status of URLs without a copy, as readers see it, with one or two look-ups per URL; pages that they save."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.clock import Clock
from core.config.settings import Settings
from core.errors import BadUrlError, TransientError, UnavailableError, WeboidError
from core.layout import Layout
from core.urls import fetch_key, has_one_spelling, host_of
from crawler.frontier.base import POLICY_ORDER, STOP_ORDER, Frontier, ItemRecord, ItemState, Lane, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.policy.policy_entries import PolicyEntries, PolicyEntry, PolicyKind, read_entries
from links.feedback.replacements import AddressRefusal, refusal_of, refused_address_error
from links.feedback.reporter_limits import open_reporter_digests
from links.url_parts import url_parts_of
from net.address_policy import EgressPolicy
from net.connect_errors import BlockedHostError, BlockedPortError
from playback.web.copy_lookup import FailedAttempt, UrlQueueState, UrlQueueStatus

_PRIVATE = frozenset({*PolicyKind, "list"})
_NO_ATTEMPT = "release"  # a claim that was given back unvisited
_COUNTER = "save-quota"  # kind of the notes that count readers' saves


@dataclass(slots=True)
class ReaderQueueStatus:
    """Queue status of URLs in one frontier, opened when it exists. Thread-safe; `close` it."""

    layout: Layout
    settings: Settings
    clock: Clock
    server_time: bool = True  # of a shared frontier
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _frontier: Frontier | None = field(default=None, init=False)
    _entries: PolicyEntries = field(default_factory=PolicyEntries, init=False)
    _version: int | None = field(default=None, init=False)

    def standing(self, url: str) -> UrlQueueStatus | None:
        """Return the URL's queue status; None when it was never added and no policy refuses it."""
        return self._statuses([url], with_blocks=True).get(url)

    def standings(self, urls: Sequence[str]) -> Mapping[str, UrlQueueStatus]:
        """Return the queue status of those URLs that were added or that a policy refuses."""
        return self._statuses(urls, with_blocks=False)

    def _statuses(self, urls: Sequence[str], *, with_blocks: bool) -> dict[str, UrlQueueStatus]:
        """Return the status of each known or refused URL; `with_blocks`: with its host's block."""
        keys = {url: key for url in urls if (key := _key(url))}
        now = self.clock.now()
        statuses = {}
        with self._opened() as frontier:
            if frontier is None or not keys:
                return {}
            records = frontier.find_all(list(keys.values()))
            version = frontier.stats(now).version
            if version != self._version:
                self._entries = read_entries(frontier.orders(POLICY_ORDER), known=self._entries)
                self._version = version
            for (url, key), record in zip(keys.items(), records, strict=True):
                entry = self._entries.deciding(key, now=now) if self._entries.by_id else None
                entry = None if entry is not None and entry.allows else entry
                block: tuple[datetime | None, str] = (None, "")
                if with_blocks and record is not None and record.state is ItemState.QUEUED:
                    host = frontier.host(record.item.host, now=now)
                    if host is not None and host.blocked_until is not None:
                        block = host.blocked_until, host.blocked_reason
                status = _status_of(record, entry, block)
                if status is not None:
                    statuses[url] = status
        return statuses

    def check(self, url: str) -> None:
        """Raise RefusedAddressError when the key, by host, port and `[egress]`, is not on the public web."""
        reason = refusal_of(url)
        policy, host, port = EgressPolicy(self.settings.egress), host_of(url), url_parts_of(url).port or None
        known = policy.known_addresses(host, port or 0)
        if known is not None and reason is not AddressRefusal.TOO_LONG:
            reason = AddressRefusal.PRIVATE if any(policy.against(host, each) for each in known[0]) else None
        try:
            policy.check_target(host, port)
        except BlockedHostError:
            reason = AddressRefusal.PRIVATE
        except BlockedPortError:
            reason = AddressRefusal.PORT
        if reason is not None:
            raise refused_address_error(url, reason)

    def save(self, url: str, *, again: timedelta, counters: Mapping[str, tuple[str, float]]) -> None:
        """Queue a fetch key in the first lane, unless it ended less than `again` ago; TransientError: not now.

        `counters`, which name readers' addresses, are stored under keyed digests, each for its time in seconds.
        """
        now = self.clock.now()
        with self._opened(make=True) as frontier:
            assert frontier is not None
            frontier.add([NewItem(url, Lane.NOW)], now=now, again=again)
            for name, (text, seconds) in counters.items():
                until = now + timedelta(seconds=seconds)
                frontier.put_note(_COUNTER, self._counter_key(name), text, now=now, until=until)

    def counter(self, name: str) -> str | None:
        """Return a counter that was stored; None when its time is over; TransientError: not now."""
        with self._opened() as frontier:
            return None if frontier is None else frontier.note(_COUNTER, self._counter_key(name), now=self.clock.now())

    def is_stopped(self) -> bool:
        """Return True while a stop order of the crawl holds; False where the queue cannot be read."""
        with suppress(WeboidError), self._opened() as frontier:
            return frontier is not None and bool(frontier.orders(STOP_ORDER))
        return False

    def _counter_key(self, name: str) -> str:
        return open_reporter_digests(self.layout).digest(_COUNTER, name).hex()

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[Frontier | None]:
        """Yield the frontier to one thread, opened when it exists or to `make` it; TransientError: not now."""
        settings = self.settings
        try:
            with self._lock:
                if self._frontier is None and (make or settings.frontier.url or self.layout.frontier_db.exists()):
                    self._frontier = open_frontier(
                        self.layout, settings.frontier, settings.politeness, server_time=self.server_time
                    )
                yield self._frontier
        except UnavailableError as error:
            raise TransientError(str(error)) from error

    def close(self) -> None:
        """Close the frontier."""
        with self._lock:
            if self._frontier is not None:
                self._frontier.close()
                self._frontier = None


def _key(url: str) -> str:
    """Return the URL's fetch key; empty when it cannot be fetched."""
    with suppress(BadUrlError):
        return url if has_one_spelling(url) else fetch_key(url)
    return ""


def _status_of(
    record: ItemRecord | None, entry: PolicyEntry | None, block: tuple[datetime | None, str]
) -> UrlQueueStatus | None:
    if record is None:
        return None if entry is None else _refused(entry)
    attempts = tuple(
        FailedAttempt(each.ended_at, each.reason) for each in record.attempts if each.ending != _NO_ATTEMPT
    )
    since = record.ended_at or record.claimed_at or record.added_at
    match record.state:
        case ItemState.QUEUED if entry is not None:
            return _refused(entry)
        case ItemState.QUEUED:
            until, reason = block
            latest = max((each for each in (until, record.due_at) if each is not None), default=None)
            return UrlQueueStatus(UrlQueueState.QUEUED, record.added_at, latest, reason, attempts)
        case ItemState.SKIPPED:
            until = entry.expires_at if entry is not None else None
            return UrlQueueStatus(UrlQueueState.REFUSED, since, until, _public(record.outcome))
        case _:
            reason = _public(record.outcome) if record.state is ItemState.DEAD else ""
            return UrlQueueStatus(_STANDINGS[record.state], since, None, reason, attempts)


_STANDINGS = {
    ItemState.CLAIMED: UrlQueueState.VISITING,
    ItemState.DEAD: UrlQueueState.FAILED,
    ItemState.DONE: UrlQueueState.DONE,
}


def _refused(entry: PolicyEntry) -> UrlQueueStatus:
    return UrlQueueStatus(UrlQueueState.REFUSED, entry.made_at, entry.expires_at, f"{entry.kind}:")


def _public(reason: str) -> str:
    """Return the reason for readers: operator decisions and lists are reduced to their kind."""
    kind, colon, _ = reason.partition(":")
    return f"{kind}{colon}" if kind in _PRIVATE else reason
