"""Frames of the control socket: a length, a JSON object, and as many raw bytes as it announces.

``uint32 size | JSON of that size | body``, where the object's ``"body"`` says how long the body is.
The socket is private, but a frame is believed only as far as it goes: memory is taken as bytes
arrive, not as they are announced, and whatever is no frame ends the connection with one error class.

Over TCP a tag follows the JSON, and another the body, if there is one: HMAC-SHA-256 with a key of this
connection and direction (`proxy.handshake`), over the part's number and the part. So nobody in between
can change, add, leave out, repeat or reorder anything. A tag is checked before its part is read.
"""

import asyncio
import hmac
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

from core.errors import BodyTooLargeError, InputError, ProxyUnavailableError

HEAD_LIMIT_BYTES = 64 << 20  # an answer: a manifest of a page with 100,000 requests still fits
REQUEST_HEAD_LIMIT_BYTES = 4 << 20  # what a worker may ask: a page's artifacts, and awaited URLs
BODY_LIMIT_BYTES = 1 << 30
_SIZE = struct.Struct(">I")
_PIECE_BYTES = 1 << 20

TAG_BYTES = 32

Message = dict[str, Any]


class ForgedFrameError(ProxyUnavailableError):
    """A frame's tag is wrong: somebody between worker and proxy changes what they say."""


class Tags:
    """Make or check the tags of one direction of a connection, part by part."""

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
        """Return when the tag is that of the next part.

        Raises:
            ForgedFrameError: it is not.
        """
        if not hmac.compare_digest(self.make(*pieces), tag):
            raise ForgedFrameError(
                "A control message was changed on its way: let only the cluster's machines "
                "reach the proxies' control ports."
            )


@dataclass(frozen=True, slots=True)
class FrameTags:
    """The tags of both directions of a connection; None on a unix socket, which needs none."""

    sent: Tags | None = None
    received: Tags | None = None


UNTAGGED = FrameTags()


def pack(message: Message, body: bytes = b"", tags: Tags | None = None) -> bytes:
    """Return the frame that carries the message and its body."""
    head = json.dumps({**message, "body": len(body)}).encode()
    size = _SIZE.pack(len(head))
    if tags is None:
        return b"".join((size, head, body))
    parts = [size, head, tags.make(size, head)]
    if body:
        parts += [body, tags.make(body)]
    return b"".join(parts)


def receive(
    sock: socket.socket,
    tags: Tags | None = None,
    *,
    head_limit: int = REQUEST_HEAD_LIMIT_BYTES,
    body_limit: int = BODY_LIMIT_BYTES,
) -> tuple[Message, bytes] | None:
    """The next frame from a blocking socket; None when the peer is done.

    Raises:
        ProxyUnavailableError: the peer left in the midst of a frame.
        BodyTooLargeError: it announces more than anyone should send.
        ForgedFrameError: a tag is wrong.
        InputError: it is no frame.
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


async def receive_async(
    reader: asyncio.StreamReader, tags: Tags | None = None
) -> tuple[Message, bytes]:
    """The next frame from a stream.

    Raises:
        ProxyUnavailableError: the peer left; ForgedFrameError: a tag is wrong.
        BodyTooLargeError: it announces more than anyone should send.
        InputError: it is no frame.
    """
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
        raise InputError("A control message is no JSON.") from error
    if not isinstance(message, dict):
        raise InputError("A control message is no JSON object.")
    return message


def _body_size(message: Message, limit: int) -> int:
    size = message.get("body")
    if type(size) is not int or size < 0:
        raise InputError("A control message does not say how long its body is.")
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
            raise ProxyUnavailableError("The control socket closed in the midst of a message.")
        data += piece
    return bytes(data)
