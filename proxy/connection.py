"""One open connection to an origin."""

import select
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from core.via import Via
from proxy.http1 import ResponseHead
from proxy.tls import TlsFacts
from proxy.via import absolute_request, fault_of_proxy, shut

READ_BYTES = 1 << 16
TLS_READ_BYTES = 1 << 14  # OpenSSL hands out a record at a time, and none is longer

Origin = tuple[str, int, bool]  # host, port, whether TLS


@dataclass(slots=True, eq=False)
class Connection:
    """One open connection to an origin; owned by one exchange at a time.

    Its owner gives it back or closes it, whatever happens: until then it counts.

    Attributes:
        remote_ip: the origin's address; empty when only a proxy on the way knows it.
        tls: what was spoken; empty values for plain http.
        via: the proxy on the way.
        absolute: whether requests are in absolute form, because `via` speaks HTTP for us.
        reused: whether it has served an earlier exchange, so that a silent close means little.
        on_close: called once, when it is closed.
    """

    sock: socket.socket
    origin: Origin
    remote_ip: str
    tls: TlsFacts = field(default_factory=TlsFacts)
    via: Via | None = None
    absolute: bool = False
    reused: bool = False
    idle_since: float = 0.0
    poller: "select.poll | None" = None
    on_close: Callable[["Connection"], None] | None = None

    @property
    def read_bytes(self) -> int:
        """How much is worth asking for at once."""
        return TLS_READ_BYTES if self.origin[2] else READ_BYTES

    def send(self, request: bytes) -> None:
        """Send a request that is in origin form, as the next hop wants it.

        Raises:
            OSError: the peer went away.
        """
        if self.absolute and self.via is not None:
            host, port, _ = self.origin
            authority = host if port == 80 else f"{host}:{port}"
            request = absolute_request(request, self.via, authority)
        self.sock.sendall(request)

    def fault_of(self, head: ResponseHead) -> str:
        """Why the response is not the origin's but a proxy's on the way; empty when it is."""
        if self.absolute and self.via is not None:
            return fault_of_proxy(head, self.via)
        return ""

    def close(self) -> None:
        """Close it; never raises."""
        try:
            self.sock.close()
        except OSError:
            pass
        finally:
            on_close, self.on_close = self.on_close, None
            if on_close is not None:
                on_close(self)

    def abort(self) -> None:
        """Wake whoever reads from it, from another thread; never raises."""
        shut(self.sock)

    def readable(self) -> bool:
        """Whether something has come; for an idle connection, that it was closed or spoke early."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        poller = self.poller
        if poller is None:
            self.poller = poller = select.poll()
            poller.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poller.poll(0))
