"""Frames of the control socket: a length, a JSON object, and as many raw bytes as it announces.

``uint32 size | JSON of that size | body``, where the object's ``"body"`` says how long the body is.
The socket is private, but a frame is believed only as far as it goes: memory is taken as bytes
arrive, not as they are announced, and whatever is no frame ends the connection with one error class.
"""

import asyncio
import json
import socket
import struct
from typing import Any

from core.errors import BodyTooLargeError, InputError, ProxyUnavailableError

HEAD_LIMIT_BYTES = 64 << 20  # an answer: a manifest of a page with 100,000 requests still fits
REQUEST_HEAD_LIMIT_BYTES = 4 << 20  # what a worker may ask: a page's artifacts, and awaited URLs
BODY_LIMIT_BYTES = 1 << 30
_SIZE = struct.Struct(">I")
_PIECE_BYTES = 1 << 20

Message = dict[str, Any]


def pack(message: Message, body: bytes = b"") -> bytes:
    """The frame that carries the message and its body."""
    head = json.dumps({**message, "body": len(body)}).encode()
    return b"".join((_SIZE.pack(len(head)), head, body))


def receive(
    sock: socket.socket,
    *,
    head_limit: int = REQUEST_HEAD_LIMIT_BYTES,
    body_limit: int = BODY_LIMIT_BYTES,
) -> tuple[Message, bytes] | None:
    """The next frame from a blocking socket; None when the peer is done.

    Raises:
        ProxyUnavailableError: the peer left in the midst of a frame.
        BodyTooLargeError: it announces more than anyone should send.
        InputError: it is no frame.
    """
    prefix = _exactly(sock, _SIZE.size, may_end=True)
    if not prefix:
        return None
    message = _message(_exactly(sock, _head_size(prefix, head_limit)))
    return message, _exactly(sock, _body_size(message, body_limit))


async def receive_async(reader: asyncio.StreamReader) -> tuple[Message, bytes]:
    """The next frame from a stream.

    Raises:
        ProxyUnavailableError: the peer left.
        BodyTooLargeError: it announces more than anyone should send.
        InputError: it is no frame.
    """
    try:
        prefix = await reader.readexactly(_SIZE.size)
        message = _message(await reader.readexactly(_head_size(prefix, HEAD_LIMIT_BYTES)))
        return message, await reader.readexactly(_body_size(message, BODY_LIMIT_BYTES))
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
