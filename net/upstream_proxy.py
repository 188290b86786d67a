"""Client side of upstream proxies: SOCKS5 (RFC 1928, 1929), less code than a library's adapter; HTTP CONNECT."""

import base64
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from core.hosts import UpstreamProxy, join_host_port
from net.connect_errors import ConnectError, TunnelRefusedError
from net.http1 import MalformedMessageError, ResponseHead, find_head_end, parse_response_head
from net.timeouts import CancellableTimeout

_HEAD_LIMIT_BYTES = 1 << 16
_SOCKS_REPLIES = {  # RFC 1928, 6
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}
_RULES_STATUSES = (400, 403, 405, 501)  # how proxies refuse a tunnel by their rules
# Server names of common proxies in their own answers.
_PROXY_SERVERS = (b"tinyproxy", b"squid", b"privoxy", b"3proxy")


@contextmanager
def socket_timeout(sock: socket.socket, patience: CancellableTimeout, peer: str) -> Iterator[None]:
    """Apply the time limit to a socket during the block; it is closed on failure (ConnectError)."""
    try:
        with patience.cut.waking(lambda: shut_socket(sock)):
            sock.settimeout(max(patience.left_s, 0.001))
            yield
    except OSError as error:
        sock.close()
        raise ConnectError(f"{peer} does not answer: {error}.") from error
    except BaseException:
        sock.close()
        raise


def shut_socket(sock: socket.socket) -> None:
    """Shut the plain socket down (with `ssl`'s own, readers would take ciphertext as data); never raises."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def open_socks_tunnel(sock: socket.socket, via: UpstreamProxy, host: str, port: int) -> None:
    """Connect through SOCKS5 to an address, or a name that the proxy resolves; raises ConnectError or OSError."""
    sock.sendall(b"\x05\x02\x00\x02" if via.username else b"\x05\x01\x00")
    version, method = _exactly(sock, 2, via)
    if version != 5:
        raise ConnectError(f"{via} does not speak SOCKS5.")
    if method == 2 and via.username:
        # Username and password (RFC 1929).
        user, password = via.username.encode(), via.password.encode()
        sock.sendall(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if _exactly(sock, 2, via)[1] != 0:
            raise ConnectError(f"{via} refuses our credentials.")
    elif method != 0:
        raise ConnectError(f"{via} accepts none of our authentication methods.")
    try:
        address = ipaddress.ip_address(host)
        wanted = (b"\x01" if address.version == 4 else b"\x04") + address.packed
    except ValueError:
        name = host.encode("ascii")
        wanted = b"\x03" + bytes([len(name)]) + name
    sock.sendall(b"\x05\x01\x00" + wanted + port.to_bytes(2, "big"))
    _, reply, _, kind = _exactly(sock, 4, via)
    if reply != 0:
        reason = _SOCKS_REPLIES.get(reply, f"reply {reply}")
        raise ConnectError(f"{via} cannot connect to {host}:{port}: {reason}.")
    length = {1: 4, 4: 16}.get(kind) or _exactly(sock, 1, via)[0]
    _exactly(sock, length + 2, via)  # the address that it connects from, unused


def open_http_tunnel(sock: socket.socket, via: UpstreamProxy, host: str, port: int) -> None:
    """Open a tunnel (RFC 9110, 9.3.6); raises TunnelRefusedError (its rules), ConnectError or OSError."""
    authority = join_host_port(host, port)
    sock.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n".encode() + authorization(via) + b"\r\n")
    head = bytearray()
    while (end := find_head_end(head)) < 0:
        piece = sock.recv(4096)
        if not piece or len(head) > _HEAD_LIMIT_BYTES:
            raise ConnectError(f"{via} did not answer CONNECT.")
        head += piece
    try:
        answer = parse_response_head(bytes(head[:end]))
    except MalformedMessageError as error:
        raise ConnectError(f"{via} does not speak HTTP.") from error
    if not 200 <= answer.status < 300:
        refused = TunnelRefusedError if answer.status in _RULES_STATUSES else ConnectError
        raise refused(f"{via} refuses to connect to {authority}: {_status_line(answer)}.")
    if end != len(head):
        raise ConnectError(f"{via} sends data before the request.")


def authorization(via: UpstreamProxy) -> bytes:
    """Return the Proxy-Authorization header (RFC 7617); empty without credentials."""
    if not via.username:
        return b""
    token = base64.b64encode(f"{via.username}:{via.password}".encode())
    return b"Proxy-Authorization: Basic " + token + b"\r\n"


def absolute_request(request: bytes, via: UpstreamProxy, authority: str) -> bytes:
    """Convert a request from origin form to absolute form, with the proxy's credentials."""
    line, _, rest = request.partition(b"\r\n")
    method, _, target = line.partition(b" ")
    if target.startswith(b"*"):  # OPTIONS * (RFC 9112, 3.2.4): the last proxy makes it that again
        target = target[1:]
    absolute = b"%s http://%s%s\r\n" % (method, authority.encode(), target)
    return absolute + authorization(via) + rest


def proxy_fault(head: ResponseHead, via: UpstreamProxy) -> str:
    """Return the reason if the HTTP proxy answered in the origin's place, which must not be archived; else empty."""
    if head.status == 407:
        return f"{via} refuses our credentials: {_status_line(head)}."
    own_name = (head.get(b"server") or b"").lower().startswith(_PROXY_SERVERS)
    marked = head.get(b"x-squid-error") or b"error=" in (head.get(b"proxy-status") or b"")
    if head.status >= 400 and (own_name or marked):  # RFC 9209: Proxy-Status
        return f"{via} answered by itself: {_status_line(head)}."
    return ""


def _exactly(sock: socket.socket, size: int, via: UpstreamProxy) -> bytes:
    data = b""
    while len(data) < size:
        if not (piece := sock.recv(size - len(data))):
            raise ConnectError(f"{via} closed the connection.")
        data += piece
    return data


def _status_line(head: ResponseHead) -> str:
    return f"{head.status} {head.reason.decode('latin-1')[:100]}".strip()
