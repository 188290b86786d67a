"""The reverse proxy on a port."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from core.clock import Clock
from core.errors import UnavailableError
from wiki.embedding.asking import HttpLookup
from wiki.embedding.proxying import EmbeddingProxy, ProxySettings
from wiki.embedding.sites import Marking

_CONNECTIONS = 1_000  # at once; beyond that readers are told to come back
_HEAD_LIMIT_BYTES = 64 << 10


async def serve(
    settings: ProxySettings,
    marking: Marking,
    lookup: HttpLookup,
    *,
    clock: Clock,
    listener: socket.socket,
    on_ready: Callable[[], object],
) -> None:
    """Answer until the process is asked to end.

    Args:
        settings: how the proxy behaves.
        marking: how pages are marked.
        lookup: who is asked; closed at the end.
        clock: tells how long a page takes.
        listener: where to listen.
        on_ready: called when it does.

    Raises:
        ConfigError: the wiki's address is none.
    """
    proxy = EmbeddingProxy(settings, marking, lookup, clock=clock)
    config = uvicorn.Config(
        proxy,
        http="h11",  # strict about what a request is
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,  # who is believed is `ProxySettings.behind`'s to say
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_LIMIT_BYTES,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config, on_ready)
    try:
        await server.serve(sockets=[listener])
    except asyncio.CancelledError:
        server.force_exit = True
        await server.shutdown([listener])  # it closes its connections only when it ends by itself
        raise
    finally:
        await asyncio.gather(proxy.close(), lookup.close())


class _Server(uvicorn.Server):
    """Uvicorn that says when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening."""
        await super().startup(sockets)
        self._on_ready()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        UnavailableError: nothing can.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise UnavailableError(f"Nothing can listen on {host} port {port}: {error}.") from error
    # Its connections inherit it; without it a kept-alive one waits 40 ms for each answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
