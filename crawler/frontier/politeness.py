"""Politeness arithmetic: host delays, retry back-off, and the host slot that a URL takes.

Thousands of host names may share one server (heritrix3#754). With `politeness.per_address` a URL uses
the slot of its host's address; a host without one, because it does not resolve or only a remote proxy
resolves it, keeps its own. The address is looked up when the URL is added.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import WeboidError
from core.urls import host_of
from crawler.frontier.base import NewItem

# Limit of a doubling delay, which must not exceed the range of datetime.
LONGEST_RETRY = timedelta(days=7)
# RFC 9110 10.2.3; a site cannot send us away for longer.
RETRY_AFTER_LIMIT = timedelta(hours=24)
_DOUBLINGS = 40


def host_delay(duration: timedelta, settings: PolitenessSettings) -> timedelta:
    """Return the host's delay after a visit: a multiple of its duration between two limits, as in Heritrix.

    Where the settings contradict each other the longer delay applies.
    """
    wanted = max(duration.total_seconds(), 0.0) * settings.delay_factor
    return timedelta(seconds=max(min(wanted, settings.max_delay_s), settings.min_delay_s))


def longest_rest(settings: PolitenessSettings) -> timedelta:
    """Return the longest delay of a host, whatever a visit or a robots.txt asks for."""
    return timedelta(seconds=max(settings.min_delay_s, settings.max_delay_s, settings.crawl_delay_limit_s))


def longest_back_off(settings: PolitenessSettings) -> timedelta:
    """Return the longest back-off of a host that refused us or cannot be reached."""
    configured = max(settings.host_retry_limit_s, settings.host_down_s)
    return max(timedelta(seconds=configured), RETRY_AFTER_LIMIT)


def longest_wait(settings: PolitenessSettings) -> timedelta:
    """Return the longest wait of a queued URL for its next attempt."""
    return max(LONGEST_RETRY, longest_back_off(settings))


def retry_at(now: datetime, failures: int, settings: FrontierSettings) -> datetime:
    """Return when a URL is tried again after `failures` (1 or more): doubling (A04), up to a week."""
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    seconds = settings.retry_delay_s * 2.0**doublings
    return now + timedelta(seconds=min(seconds, LONGEST_RETRY.total_seconds()))


def host_retry_at(now: datetime, failures: int, settings: PolitenessSettings) -> datetime:
    """Return when a host is visited again after `failures` (1 or more) in a row: doubling, up to a limit."""
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    seconds = settings.host_retry_s * 2.0**doublings
    return now + timedelta(seconds=min(seconds, settings.host_retry_limit_s))


PARALLEL_LOOKUPS = 32


class SlotAssigner:
    """Assigns slot keys to URLs."""

    def __init__(self, resolve: Callable[[str], str] | None = None) -> None:
        """Use `resolve`, which returns a host's first address or raises `WeboidError`; None: the host."""
        self._resolve = resolve
        self._free = asyncio.Semaphore(PARALLEL_LOOKUPS)

    async def assign(self, items: Iterable[NewItem]) -> list[NewItem]:
        """Return the items, each with its slot key."""
        assigned, resolve = list(items), self._resolve
        if resolve is None:
            return assigned

        async def slot_key(host: str) -> str:
            async with self._free:
                try:
                    return await asyncio.to_thread(resolve, host)
                except WeboidError:
                    return host

        hosts = sorted({host_of(item.url) for item in assigned})
        names = await asyncio.gather(*map(slot_key, hosts))
        turns = dict(zip(hosts, names, strict=True))
        return [replace(item, host=turns[host_of(item.url)]) for item in assigned]
