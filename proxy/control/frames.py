"""Frames of the control socket, and their authentication tags.

``uint32 size | JSON of that size | body``, where the object's ``"body"`` is the size of the body.

Over TCP a tag follows the JSON, and another the body, if there is one: HMAC-SHA-256 over the part's number and the
part, with a key of this connection and direction (`proxy.control.handshake`), so that nothing can be changed,
dropped, repeated or reordered. A tag is checked before its part is parsed. Frames are authenticated, not encrypted.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import BodyTooLargeError, InputError, ProxyUnavailableError

if TYPE_CHECKING:
    from proxy.control.handshake import DirectionTags  # over TCP only

HEAD_LIMIT_BYTES = 64 << 20  # an answer: a manifest of a page with 100,000 requests still fits
REQUEST_HEAD_LIMIT_BYTES = 4 << 20  # what a worker may ask: a page's artifacts, and awaited URLs
BODY_LIMIT_BYTES = 1 << 30
_SIZE = struct.Struct(">I")
_PIECE_BYTES = 1 << 20

TAG_BYTES = 32

Message = dict[str, Any]


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
