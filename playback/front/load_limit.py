"""Limits for routes that cost more than an index look-up, so that they hold up no other page.

Each such route has threads of its own, waits for them without holding one of the pool that all pages
share, and is refused with 503 or 429 and ``Retry-After`` when too many wait or a neighbourhood asks too
often.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from playback.front.registry.access import Access, Door
from playback.front.registry.throttle import Rate, Rates

# A person who follows links of a calendar asks a few times a second, a program that lists a site more.
COSTLY_RATES = Rates(Rate(10, 300), Rate(30, 900), Rate(300, 3_000))
_BUSY_RETRY_S = 5

Endpoint = Callable[[Request], Response]
AsyncEndpoint = Callable[[Request], Awaitable[Response]]


class BlockStream(StreamingResponse):
    """An answer whose blocks are made while it is sent, in the threads of its route."""

    def __init__(self, blocks: Iterator[bytes], headers: dict[str, str]) -> None:
        super().__init__((), headers=headers)
        self.blocks = blocks
        self.on_end: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; `on_end` is called however that ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.on_end()


class LoadLimit:
    """Runs endpoints in threads of their own.

    Args:
        door: who may ask how often.
        monotonic: tells the time, in seconds.
        threads: how many requests are answered at once.
        most_waiting: how many more may wait for that.
    """

    def __init__(
        self, door: Door, monotonic: Callable[[], float], *, threads: int, most_waiting: int
    ) -> None:
        self._door = door
        self._monotonic = monotonic
        self._limiter = anyio.CapacityLimiter(threads)
        self._most = threads + most_waiting
        self._count = 0

    def __call__(
        self, endpoint: Endpoint, *, when: Callable[[Request], bool] = lambda _: True
    ) -> AsyncEndpoint:
        """Return the endpoint with the limits; requests for which `when` is false have none."""
        assert not inspect.iscoroutinefunction(endpoint)

        async def answer(request: Request) -> Response:
            if not when(request):
                return await anyio.to_thread.run_sync(endpoint, request)
            wait = self._door.wait_s(request, self._monotonic())
            if wait:
                raise HTTPException(429, headers={"Retry-After": str(wait)})
            if self._count >= self._most:
                raise HTTPException(503, headers={"Retry-After": str(_BUSY_RETRY_S)})
            self._count += 1
            is_streaming = False
            try:
                response = await anyio.to_thread.run_sync(endpoint, request, limiter=self._limiter)
                if isinstance(response, BlockStream):
                    response.body_iterator = self._streamed(response.blocks)
                    response.on_end = self._end
                    is_streaming = True
                return response
            finally:
                if not is_streaming:
                    self._end()

        return answer

    async def _streamed(self, blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the blocks, each made in one of the threads."""
        while True:
            block = await anyio.to_thread.run_sync(next, blocks, None, limiter=self._limiter)
            if block is None:
                return
            yield block

    def _end(self) -> None:
        self._count -= 1


def load_limits(access: Access, monotonic: Callable[[], float]) -> tuple[LoadLimit, LoadLimit]:
    """Return the limits of lists and searches, and those of comparisons, which take a core for a second."""
    door = Door(replace(access, rates=COSTLY_RATES), "pages")
    return (
        LoadLimit(door, monotonic, threads=4, most_waiting=28),
        LoadLimit(door, monotonic, threads=1, most_waiting=7),
    )
