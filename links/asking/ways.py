"""Ways to a host: every address is judged before anything is sent there, on every connection.

The address that was judged is the one connected to, so a name server that answers otherwise the next
time gains nothing. Of a host's addresses those that may be asked are tried, overlapping as browsers
try them (RFC 8305); when none may be, that is our refusal and no evidence against the link.
`[egress] via` is not obeyed: there is no way through another proxy here, and a profile that names one
for a host gets that host's links blocked instead of asked from the wrong address.
"""

import asyncio
import errno
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import aiohappyeyeballs

from core.addresses import Address, AddressRules, plain
from core.hosts import BAD_PORTS, HostPatterns, is_local_name, parse_endpoint, resolve_key
from core.settings import EgressSettings
from core.urls import host_of
from links.asking.certificates import (
    HANDSHAKE,
    fault_of,
    lenient_context,
    refusal_of,
    strict_context,
)
from links.asking.names import Addresses, Names
from links.asking.troubles import NO_FILES, NoAnswerError, Trouble

_PARTS = re.compile(r"(https?)://(?:\[[^\]]*\]|[^/:?#]*)(?::(\d+))?([^#]*)")
CONNECT_S = 15.0  # a connection with its handshakes
TRIED = 4  # addresses of one host
STAGGER_S = 0.25  # RFC 8305, 5
BUFFER = 16_384  # half of what a connection may hold unread
_OLD = frozenset(("SSLv3", "TLSv1", "TLSv1.1"))
_LOOPBACK: Addresses = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
_OURS = frozenset(
    (
        *(errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETDOWN),
        *(errno.ENOBUFS, errno.ENOMEM, errno.EACCES, errno.EPERM),
    )
)
_NOT_THERE = frozenset((errno.EHOSTUNREACH, errno.EHOSTDOWN))


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL is asked for.

    Attributes:
        scheme: ``http`` or ``https``.
        host: canonical: lower case, punycode, no final dot; IPv6 in brackets.
        port: the port, the scheme's own included.
        path: path and query, as they stand in a request.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """As the Host header names it."""
        own = {"http": 80, "https": 443}[self.scheme]
        return self.host if self.port == own else f"{self.host}:{self.port}"


@lru_cache(maxsize=8192)
def target_of(url: str) -> Target:
    """Where a fetch key is asked for."""
    parts = _PARTS.match(url)
    assert parts is not None, url
    scheme, port, path = parts[1], parts[2], parts[3]
    own = 443 if scheme == "https" else 80
    return Target(scheme, host_of(url), int(port) if port else own, path or "/")


@dataclass(frozen=True, slots=True)
class Way:
    """An open connection. Whoever opened it closes it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    tls_fault: str = ""

    def close(self) -> None:
        """End it at once: nothing that is still to come is of use."""
        self.writer.transport.abort()


class Ways:
    """Opens ways, and none that the settings and the rules of addresses forbid."""

    def __init__(
        self, egress: EgressSettings, names: Names, *, is_own: Callable[[Address], bool]
    ) -> None:
        """Take the settings.

        Raises:
            ConfigError: `ca_file` has no certificates.
        """
        self._rules = AddressRules(allow=egress.allow, refuse=egress.refuse, is_own=is_own)
        self._resolve = {
            resolve_key(name): parse_endpoint(text) for name, text in egress.resolve.items()
        }
        self._block = HostPatterns(dict.fromkeys(egress.block, True))
        self._via = HostPatterns({host: text != "direct" for host, text in egress.via.items()})
        self._strict = strict_context(egress.ca_file)
        self._lenient = lenient_context()
        self._names = names

    async def open(self, target: Target, limit_s: float) -> Way:
        """A way to the target, with TLS spoken when it is https.

        Raises:
            NoAnswerError: there is none; its trouble says why.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        try:
            async with asyncio.timeout_at(deadline):
                addresses, port = await self._addresses(target)
        except TimeoutError:
            raise NoAnswerError(Trouble.DNS_UNFINISHED) from None
        deadline = min(deadline, loop.time() + CONNECT_S)
        sock = await self._connected(addresses, port, deadline - loop.time())
        if target.scheme == "http":
            return await _plain(sock)
        try:
            return await self._secured(sock, target, self._strict, deadline - loop.time())
        except _StrictError as error:
            fault = error.fault
        sock = await self._connected(addresses, port, deadline - loop.time())
        try:
            way = await self._secured(sock, target, self._lenient, deadline - loop.time())
        except _StrictError as error:
            raise NoAnswerError(Trouble.TLS, error.fault) from error
        if fault == HANDSHAKE and way.writer.get_extra_info("ssl_object").version() in _OLD:
            fault = "old protocol"
        return Way(way.reader, way.writer, fault)

    async def _addresses(self, target: Target) -> tuple[Addresses, int]:
        """Those that may be asked, and the port.

        Raises:
            NoAnswerError: there is none.
        """
        host, port = target.host, target.port
        if self._block.of(host):
            raise NoAnswerError(Trouble.BLOCKED, f"[egress] block names {host}")
        if self._via.of(host):
            raise NoAnswerError(
                Trouble.BLOCKED, f"[egress] via names a way to {host} that checks lack"
            )
        if port in BAD_PORTS:
            raise NoAnswerError(Trouble.PORT, f"{port} is no port of the web")
        found = self._resolve.get(f"{host}:{port}") or self._resolve.get(host)
        if found is not None:
            return self._judged(host, (ipaddress.ip_address(found[0]),)), found[1] or port
        return self._judged(host, _literal(host) or await self._names.addresses(host)), port

    def _judged(self, host: str, addresses: Addresses) -> Addresses:
        fine: list[Address] = []
        said = ""
        for address in addresses:
            why = self._rules.against(host, address)
            said = said or why
            if not why:
                fine.append(plain(address))
        if not fine:
            raise NoAnswerError(Trouble.ADDRESS, said)
        # Both families have a turn within the first few.
        first = fine[:TRIED]
        others = [each for each in fine[TRIED:] if each.version != first[0].version]
        if others and len({each.version for each in first}) == 1:
            first[-1] = others[0]
        return tuple(first)

    async def _connected(self, addresses: Addresses, port: int, limit_s: float) -> socket.socket:
        infos = [_info(address, port) for address in addresses]
        try:
            async with asyncio.timeout(max(limit_s, 0)):
                return await aiohappyeyeballs.start_connection(
                    infos, happy_eyeballs_delay=STAGGER_S, interleave=1
                )
        except TimeoutError:  # an OSError too, which the kernel's own time-out is as well
            raise NoAnswerError(Trouble.NO_CONNECTION) from None
        except OSError as error:
            raise NoAnswerError(_trouble(error)) from error

    async def _secured(
        self, sock: socket.socket, target: Target, context: ssl.SSLContext, limit_s: float
    ) -> Way:
        """Speak TLS on the socket, which is closed when that fails."""
        try:
            reader, writer = await asyncio.open_connection(
                sock=sock,
                ssl=context,
                server_hostname=target.host.strip("[]"),
                ssl_handshake_timeout=max(limit_s, 0.001),
                ssl_shutdown_timeout=1.0,
                limit=BUFFER,
            )
        except ssl.SSLError as error:
            sock.close()
            refusal = refusal_of(error)
            if refusal is not None:
                raise NoAnswerError(refusal) from error
            raise _StrictError(fault_of(error)) from error
        except (TimeoutError, ConnectionAbortedError) as error:  # asyncio's word for the time-out
            sock.close()
            raise NoAnswerError(Trouble.TLS_SILENT) from error
        except (OSError, ValueError) as error:  # old servers hang up on a hello that is new to them
            sock.close()
            raise _StrictError(fault_of(error)) from error
        return Way(reader, writer)


async def _plain(sock: socket.socket) -> Way:
    try:
        return Way(*await asyncio.open_connection(sock=sock, limit=BUFFER))
    except OSError as error:  # it was reset meanwhile
        sock.close()
        raise NoAnswerError(Trouble.RESET) from error


class _StrictError(Exception):
    """The handshake failed for a reason that a lenient one may not mind."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


def _literal(host: str) -> Addresses:
    """The address that the host is by its spelling; none for a name."""
    if is_local_name(host):
        return _LOOPBACK
    try:
        return (ipaddress.ip_address(host.strip("[]")),)
    except ValueError:
        return ()


def _info(
    address: Address, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)


def _trouble(error: OSError) -> Trouble:
    if error.errno in NO_FILES:
        return Trouble.NO_FILES
    if error.errno in _OURS:
        return Trouble.NO_NETWORK
    if error.errno in _NOT_THERE:
        return Trouble.UNREACHABLE
    if error.errno == errno.ETIMEDOUT:
        return Trouble.NO_CONNECTION
    return Trouble.REFUSED
