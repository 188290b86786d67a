"""Frames of the control socket, their authentication tags, and the handshake over TCP.

``uint32 size | JSON of that size | body``, where the object's ``"body"`` is the size of the body. Memory is allocated
as bytes arrive, and anything that is not a frame ends the connection.

Over TCP a tag follows the JSON, and another the body, if there is one: HMAC-SHA-256 over the part's number and the
part, with a key of this connection and direction, so that nothing can be changed,
dropped, repeated or reordered. A tag is checked before its part is parsed. Frames are authenticated, not encrypted.

In the handshake worker and proxy each prove that they hold the cluster's secret:

    worker  HELLO, nonce W                       40 bytes
    proxy   nonce P                              32 bytes
    worker  HMAC(secret, "worker", W, P)         32 bytes
    proxy   HMAC(secret, "proxy", W, P)          32 bytes, and from now on frames

Compared in constant time. The nonces prevent replay, the labels reflection. The proxy proves itself last: a peer
without the secret receives 32 random bytes, or nothing. The handshake takes at most `HANDSHAKE_LIMIT_S`.
"""

import asyncio
import hmac
import json
import os
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from core.errors import BodyTooLargeError, ConfigError, InputError, ProxyUnavailableError

HEAD_LIMIT_BYTES = 64 << 20  # an answer: a manifest of a page with 100,000 requests still fits
REQUEST_HEAD_LIMIT_BYTES = 4 << 20  # what a worker may ask: a page's artifacts, and awaited URLs
BODY_LIMIT_BYTES = 1 << 30
_SIZE = struct.Struct(">I")
_PIECE_BYTES = 1 << 20

TAG_BYTES = 32

Message = dict[str, Any]


class ForgedFrameError(ProxyUnavailableError):
    """Wrong frame tag: the connection between worker and proxy was tampered with."""


class DirectionTags:
    """Tags of one direction of a connection, made or checked part by part."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def make(self, *pieces: bytes) -> bytes:
        """Return the tag of the next part, which consists of these pieces."""
        mac = hmac.new(self._key, self._number.to_bytes(8, "big"), "sha256")
        self._number += 1
        for piece in pieces:
            mac.update(piece)
        return mac.digest()

    def check(self, tag: bytes, *pieces: bytes) -> None:
        """Verify the tag of the next part. Raises ForgedFrameError if it does not match."""
        if not hmac.compare_digest(self.make(*pieces), tag):
            raise ForgedFrameError(
                "A control message was changed on its way: let only the cluster's machines "
                "reach the proxies' control ports."
            )


@dataclass(frozen=True, slots=True)
class FrameTags:
    """Tags of both directions of a connection; None on a unix socket, which needs none."""

    sent: DirectionTags | None = None
    received: DirectionTags | None = None


UNTAGGED = FrameTags()


def pack_frame(message: Message, body: bytes = b"", tags: DirectionTags | None = None) -> bytes:
    """Return the frame that carries the message and its body."""
    head = json.dumps({**message, "body": len(body)}).encode()
    size = _SIZE.pack(len(head))
    if tags is None:
        return b"".join((size, head, body))
    parts = [size, head, tags.make(size, head)]
    if body:
        parts += [body, tags.make(body)]
    return b"".join(parts)


def receive_frame(
    sock: socket.socket,
    tags: DirectionTags | None = None,
    *,
    head_limit: int = REQUEST_HEAD_LIMIT_BYTES,
    body_limit: int = BODY_LIMIT_BYTES,
) -> tuple[Message, bytes] | None:
    """Receive the next frame; None when the peer has closed, ProxyUnavailableError within a frame.

    Raises BodyTooLargeError for an announced size, ForgedFrameError for a wrong tag, InputError for no frame.
    """
    prefix = _exactly(sock, _SIZE.size, may_end=True)
    if not prefix:
        return None
    head = _exactly(sock, _head_size(prefix, head_limit))
    if tags is not None:
        tags.check(_exactly(sock, TAG_BYTES), prefix, head)
    message = _message(head)
    body = _exactly(sock, _body_size(message, body_limit))
    if tags is not None and body:
        tags.check(_exactly(sock, TAG_BYTES), body)
    return message, body


async def receive_frame_async(reader: asyncio.StreamReader, tags: DirectionTags | None = None) -> tuple[Message, bytes]:
    """Receive the next frame from a stream; raises as `receive_frame`, also at the end."""
    try:
        prefix = await reader.readexactly(_SIZE.size)
        head = await reader.readexactly(_head_size(prefix, HEAD_LIMIT_BYTES))
        if tags is not None:
            tags.check(await reader.readexactly(TAG_BYTES), prefix, head)
        message = _message(head)
        body = await reader.readexactly(_body_size(message, BODY_LIMIT_BYTES))
        if tags is not None and body:
            tags.check(await reader.readexactly(TAG_BYTES), body)
        return message, body
    except (asyncio.IncompleteReadError, OSError) as error:
        raise ProxyUnavailableError("The proxy closed its control socket.") from error


def _head_size(prefix: bytes, limit: int) -> int:
    (size,) = _SIZE.unpack(prefix)
    if size > limit:
        raise BodyTooLargeError(f"A control message of {size:,} bytes.")
    return int(size)


def _message(head: bytes) -> Message:
    try:
        message = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise InputError("A control message is not JSON.") from error
    if not isinstance(message, dict):
        raise InputError("A control message is not a JSON object.")
    return message


def _body_size(message: Message, limit: int) -> int:
    size = message.get("body")
    if type(size) is not int or size < 0:
        raise InputError("A control message has no body length.")
    if size > limit:
        raise BodyTooLargeError(f"A control message with a body of {size:,} bytes.")
    return size


def _exactly(sock: socket.socket, size: int, *, may_end: bool = False) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(min(size - len(data), _PIECE_BYTES))
        if not piece:
            if may_end and not data:
                return b""
            raise ProxyUnavailableError("The control socket closed within a message.")
        data += piece
    return bytes(data)


HELLO = b"WEBOID2\n"  # no browser begins like that
NONCE_BYTES = 32
PROOF_BYTES = 32
HANDSHAKE_LIMIT_S = 3.0
MIN_SECRET_CHARS = 32
MAX_SECRET_CHARS = 4096


@dataclass(frozen=True, slots=True)
class ClusterSecret:
    """Secret shared by the workers and proxies of a cluster. Its `repr` does not reveal it."""

    key: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "ClusterSecret":
        """Return the secret in the text, white space around it removed; ConfigError for its length."""
        text = text.strip()
        if not MIN_SECRET_CHARS <= len(text) <= MAX_SECRET_CHARS:
            raise ConfigError(
                f"The cluster's secret must have at least {MIN_SECRET_CHARS} characters "
                f"and at most {MAX_SECRET_CHARS}: make one with `openssl rand -hex 32`."
            )
        return cls(text.encode())

    def proof(self, role: bytes, ours: bytes, theirs: bytes) -> bytes:
        """Return the HMAC of role and nonces by which a peer proves that it holds the secret."""
        return hmac.digest(self.key, b"weboid control 2 " + role + b"\n" + ours + theirs, "sha256")

    def tags(self, role: bytes, worker_nonce: bytes, proxy_nonce: bytes) -> DirectionTags:
        """Return the tags for frames sent by `role` in the session with these nonces."""
        label = b"weboid control 2 frames " + role + b"\n"
        return DirectionTags(hmac.digest(self.key, label + worker_nonce + proxy_nonce, "sha256"))

    def signature(self, message: bytes) -> str:
        """Return the signature of a message (`crawler.pools.cluster`), in hexadecimal."""
        return hmac.digest(self.key, b"weboid note 1\n" + message, "sha256").hex()

    def has_signed(self, message: bytes, signature: str) -> bool:
        """Return whether the signature is that of the message."""
        return hmac.compare_digest(self.signature(message).encode(), signature.encode())


def admit_worker(sock: socket.socket, secret: ClusterSecret) -> FrameTags | None:
    """Run the proxy's side of the handshake on a blocking socket; None for an unauthenticated peer."""
    deadline = time.monotonic() + HANDSHAKE_LIMIT_S
    begun = _receive_by(sock, len(HELLO), deadline)
    if begun != HELLO:
        return None
    theirs = _receive_by(sock, NONCE_BYTES, deadline)
    ours = os.urandom(NONCE_BYTES)
    sock.sendall(ours)
    proof = _receive_by(sock, PROOF_BYTES, deadline)
    if not hmac.compare_digest(proof, secret.proof(b"worker", theirs, ours)):
        return None
    sock.sendall(secret.proof(b"proxy", theirs, ours))
    sock.settimeout(None)
    return FrameTags(sent=secret.tags(b"proxy", theirs, ours), received=secret.tags(b"worker", theirs, ours))


def _receive_by(sock: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


async def introduce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: ClusterSecret) -> FrameTags:
    """Run the worker's side of the handshake; return the tags once the proxy has proved itself."""
    ours = os.urandom(NONCE_BYTES)
    try:
        async with asyncio.timeout(HANDSHAKE_LIMIT_S):
            writer.write(HELLO + ours)
            theirs = await reader.readexactly(NONCE_BYTES)
            writer.write(secret.proof(b"worker", ours, theirs))
            proof = await reader.readexactly(PROOF_BYTES)
    except (asyncio.IncompleteReadError, OSError) as error:  # TimeoutError is an OSError
        raise ProxyUnavailableError(
            "The proxy does not take us for one of its workers: give both the same secret "
            "(WEBOID_SECRET or --secret-file), and run the same release on both machines."
        ) from error
    if not hmac.compare_digest(proof, secret.proof(b"proxy", ours, theirs)):
        raise ProxyUnavailableError("What answers in the proxy's place does not hold the cluster's secret.")
    return FrameTags(sent=secret.tags(b"worker", ours, theirs), received=secret.tags(b"proxy", ours, theirs))
