"""Fixtures: a stub front, and the embedding proxy for an upstream of the test."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from core.clock import SystemClock
from net.http_server import open_listener
from tests.support.embed_front import StubFront, running_front
from wiki.embed.link_lookup import HttpLinkLookup, LookupOptions
from wiki.embed.reverse_proxy import EmbedProxySettings, serve_proxy
from wiki.embed.static_site import MarkOptions

Running = Callable[..., Any]


@pytest.fixture
def front() -> Iterator[StubFront]:
    with running_front() as running:
        yield running


@contextmanager
def running_proxy(upstream: str, front: StubFront, **more: Any) -> Iterator[int]:
    """Run the proxy in a thread; `more` are settings of the proxy and of the marks. Return the port."""
    marking_fields = {key: more.pop(key) for key in ("show", "rules", "own") if key in more}
    wiki = more.pop("wiki", "me@me")
    marking = MarkOptions(wiki, fronts=(front.origin,), **marking_fields)
    timeout_s = more.pop("timeout_s_front", 5.0)
    settings = EmbedProxySettings(upstream, **more)
    listener = open_listener("127.0.0.1", 0)
    port = listener.getsockname()[1]
    ready = threading.Event()
    ended: list[asyncio.AbstractEventLoop] = []
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        lookup = HttpLinkLookup(front.origin, clock=SystemClock(), timeout_s=timeout_s, manner=LookupOptions())
        ended.append(asyncio.get_running_loop())
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await serve_proxy(settings, marking, lookup, clock=SystemClock(), listener=listener, on_ready=ready.set)

    def target() -> None:
        try:
            asyncio.run(run())
        except asyncio.CancelledError:
            pass
        finally:
            listener.close()

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    assert ready.wait(120)
    yield port
    ended[0].call_soon_threadsafe(tasks[0].cancel)
    thread.join(120)
    assert not thread.is_alive()


@pytest.fixture
def proxied(front: StubFront) -> Iterator[Running]:
    """Yield a function that starts a proxy for an upstream; the proxy stops with the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(upstream: str, **more: Any) -> int:
            return stack.enter_context(running_proxy(upstream, front, **more))

        yield start
