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
from collections.abc import Generator
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
    if not (prefix := _exactly(sock, _SIZE.size, may_end=True)):
        return None
    frame = _parse_frame(prefix, tags, head_limit, body_limit)
    size = next(frame)
    while True:
        try:
            size = frame.send(_exactly(sock, size))
        except StopIteration as end:
            whole: tuple[Message, bytes] = end.value
            return whole


async def receive_frame_async(reader: asyncio.StreamReader, tags: DirectionTags | None = None) -> tuple[Message, bytes]:
    """Receive the next frame from a stream; raises as `receive_frame`, also at the end."""
    try:
        frame = _parse_frame(await reader.readexactly(_SIZE.size), tags, HEAD_LIMIT_BYTES, BODY_LIMIT_BYTES)
        size = next(frame)
        while True:
            piece = await reader.readexactly(size)
            try:
                size = frame.send(piece)
            except StopIteration as end:
                whole: tuple[Message, bytes] = end.value
                return whole
    except (asyncio.IncompleteReadError, OSError) as error:
        raise ProxyUnavailableError("The proxy closed its control socket.") from error


def _parse_frame(
    prefix: bytes, tags: DirectionTags | None, head_limit: int, body_limit: int
) -> Generator[int, bytes, tuple[Message, bytes]]:
    """Yield the sizes of a frame's parts, which are sent back in; return message and body."""
    (size,) = _SIZE.unpack(prefix)
    if size > head_limit:
        raise BodyTooLargeError(f"A control message of {size:,} bytes.")
    head = yield size
    if tags is not None:
        tags.check((yield TAG_BYTES), prefix, head)
    try:
        message = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise InputError("A control message is not JSON.") from error
    if not isinstance(message, dict):
        raise InputError("A control message is not a JSON object.")
    size = message.get("body")
    if type(size) is not int or size < 0:
        raise InputError("A control message has no body length.")
    if size > body_limit:
        raise BodyTooLargeError(f"A control message with a body of {size:,} bytes.")
    body = yield size
    if tags is not None and body:
        tags.check((yield TAG_BYTES), body)
    return message, body


def _exactly(sock: socket.socket, size: int, *, may_end: bool = False) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (piece := sock.recv(min(size - len(data), _PIECE_BYTES))):
            if may_end and not data:
                return b""
            raise ProxyUnavailableError("The control socket closed within a message.")
        data += piece
    return bytes(data)
