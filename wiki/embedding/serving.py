"""The reverse proxy on a port."""

import asyncio
import socket
from collections.abc import Callable

from core.clock import Clock
from proxy.http_server import ConnectionLimits, HttpServer, connection_limit
from wiki.embedding.asking import HttpLookup
from wiki.embedding.proxying import EmbeddingProxy, ProxySettings
from wiki.embedding.sites import Marking

_MOST_CONNECTIONS = 1_000  # at once; beyond that readers are told to come back
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
    # A page being passed on takes a second descriptor, to the wiki.
    limits = ConnectionLimits(connection_limit(_MOST_CONNECTIONS, files_each=2))
    server = HttpServer(
        proxy,
        limits,
        on_ready=on_ready,
        signals=True,
        date_header=False,
        h11_max_incomplete_event_size=_HEAD_LIMIT_BYTES,
        timeout_graceful_shutdown=5,
    )
    try:
        await server.serve(sockets=[listener])
    except asyncio.CancelledError:
        server.force_exit = True
        await server.shutdown([listener])  # it closes its connections only when it ends by itself
        raise
    finally:
        await asyncio.gather(proxy.close(), lookup.close())
