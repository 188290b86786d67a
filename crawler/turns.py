"""Whose turn an item takes: its host's, or that of the address that several hosts share.

Thousands of hosts may live on one machine, which does not get stronger by having many names
(heritrix3#754). With `politeness.per_address` a URL waits in the slot of its host's address; a host
without one, because it does not resolve or because only a proxy on the way resolves it, keeps its
own. The address is that of the moment when the URL was added.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from core.errors import WeboidError
from core.urls import host_of
from crawler.frontier.base import NewItem

AT_ONCE = 32


class Turns:
    """Says whose turn URLs take."""

    def __init__(self, resolve: Callable[[str], str], *, per_address: bool) -> None:
        """Take the look-up: the first address of a host; it raises `WeboidError` when there is none."""
        self._resolve = resolve
        self._per_address = per_address
        self._free = asyncio.Semaphore(AT_ONCE)

    async def assign(self, items: Iterable[NewItem]) -> list[NewItem]:
        """The items, each with its host's name for the frontier."""
        found = list(items)
        if not self._per_address:
            return found
        hosts = sorted({host_of(item.url) for item in found})
        names = await asyncio.gather(*map(self._turn, hosts))
        turns = dict(zip(hosts, names, strict=True))
        return [replace(item, host=turns[host_of(item.url)]) for item in found]

    async def _turn(self, host: str) -> str:
        async with self._free:
            try:
                return await asyncio.to_thread(self._resolve, host)
            except WeboidError:
                return host
