"""Fuzz targets: each takes any bytes, and raises when a rule of ours does not hold for them.

A refusal (`MalformedMessageError` and the errors that a function names) is an answer like any other.
"""

import ast
import re
import socket
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from core.errors import BodyTooLargeError, InputError, ProxyUnavailableError
from net.http1 import (
    HOP_BY_HOP,
    BodyFraming,
    BodyParser,
    MalformedMessageError,
    RequestHead,
    ResponseHead,
    find_head_end,
    forwarded_request,
    forwarded_response_head,
    keeps_alive,
    parse_request_head,
    parse_response_head,
    request_framing,
    response_framing,
    reusable,
)
from proxy.archiving_proxy import RecorderAuthority
from proxy.browser_connection import host_header, parse_absolute, parse_authority, parse_tunnelled
from proxy.control.frames import pack_frame, receive_frame
from tests.fuzz.readers import READERS

CORPUS = Path(__file__).with_name("corpus")
Target = Callable[[bytes], None]
T = TypeVar("T")
R = TypeVar("R")
# What may stand in a WARC header and in the index as it is (C-12).
_VISIBLE = re.compile(r"[!-~]+")
_BLOCK = 4096  # what a socket takes without anyone reading


def request_head(data: bytes) -> None:
    """Assert that a request is refused, or has a URL fit for a record and is forwarded as one clear message."""
    end = find_head_end(data)
    head = _refusable(parse_request_head, data if end < 0 else data[:end])
    if head is None:
        return
    assert _VISIBLE.fullmatch(head.method)
    assert _VISIBLE.fullmatch(head.target)
    framing = _refusable(request_framing, head)
    for host, where in (
        ("origin.example", _refusable(lambda text: parse_absolute(text)[1:], head.target)),
        ("[::1]:8443", _refusable(lambda text: parse_tunnelled(text, ("[::1]", 8443, True)), head.target)),
    ):
        if where is not None and framing is not None:
            target, url = where
            assert _VISIBLE.fullmatch(url)
            _check_forwarded(head, target, host, None if framing[0] is BodyFraming.NONE else 7)


def _check_forwarded(head: RequestHead, target: str, host: str, length: int | None) -> None:
    """Assert that the origin gets one head that names the host and the length once."""
    sent = forwarded_request(head, target=target, host=host, length=length)
    assert find_head_end(sent) == len(sent)
    again = parse_request_head(sent)
    names = [name for name, _, _ in again.headers]
    assert (again.method, again.target) == (head.method, target)
    assert again.get(b"host") == host.encode()
    assert [names.count(each) for each in (b"host", b"connection")] == [1, 1]
    assert request_framing(again) == ((BodyFraming.NONE, 0) if length is None else (BodyFraming.LENGTH, 7))
    assert not (HOP_BY_HOP - {b"connection"}).intersection(names)


def response_head(data: bytes) -> None:
    """Assert that a response is refused, or that the browser is sent exactly what was parsed."""
    end = find_head_end(data)
    head = _refusable(parse_response_head, data if end < 0 else data[:end])
    if head is None:
        return
    assert head.mime == "" or _VISIBLE.fullmatch(head.mime)
    assert head.is_plain in (True, False)
    assert reusable(head) in (True, False)
    for method in ("GET", "HEAD"):
        _check_passed_on(head, method)


def _check_passed_on(head: ResponseHead, method: str) -> None:
    framing = _refusable(lambda each: response_framing(each, method), head)
    if framing is None:
        return
    for keep_alive in (True, False):
        sent = forwarded_response_head(head, keep_alive=keep_alive)
        assert find_head_end(sent) == len(sent)
        again = parse_response_head(sent)
        names = [name for name, _, _ in again.headers]
        assert again.status == head.status
        assert response_framing(again, method) == framing
        assert keeps_alive(again.version, again.get(b"connection")) == keep_alive
        has_connection = head.get(b"connection") is not None or not keep_alive
        assert names.count(b"connection") == int(has_connection)
        assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
        assert b"weboid-proxy-error" not in names


def chunked_body(data: bytes) -> None:
    """Assert that payload and end do not depend on where reads end; the first byte sets the size of reads."""
    step, stream = (data[0] % 7 + 1 if data else 1), data[1:]
    whole = BodyParser(BodyFraming.CHUNKED)
    taken, payload = whole.feed(stream)
    assert taken <= len(stream)
    assert not (whole.done and whole.malformed)
    pieces, at, got = BodyParser(BodyFraming.CHUNKED), 0, b""
    while at < len(stream) and not pieces.done and not pieces.malformed:
        count, more = pieces.feed(stream[at : at + step])
        at += count
        got += more
    assert (pieces.done, pieces.malformed, at) == (whole.done, whole.malformed, taken)
    assert got == payload


def connect_authority(data: bytes) -> None:
    """Assert that an authority is refused, or is a port and a host for which a certificate can be made."""
    text = data.decode("latin-1")
    authority = _refusable(lambda each: parse_authority(each, 443), text)
    if authority is None:
        return
    host, port = authority
    assert _VISIBLE.fullmatch(host)
    assert 0 < port < 65_536
    assert parse_authority(host_header((host, port, True)), 443) == authority
    _ca().context_for(host)


def control_frames(data: bytes) -> None:
    """Assert that frames are refused, or unchanged when they are packed and received again."""
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        theirs.sendall(data[:_BLOCK])
        theirs.shutdown(socket.SHUT_WR)
        try:
            while (frame := receive_frame(ours, body_limit=_BLOCK)) is not None:
                message, body = frame
                assert message["body"] == len(body)
                theirs_again, again = socket.socketpair()
                with closing(theirs_again), closing(again):
                    theirs_again.sendall(pack_frame(message, body))
                    assert repr(receive_frame(again)) == repr((message, body))
        except (ProxyUnavailableError, BodyTooLargeError, InputError):
            return


TARGETS: dict[str, Target] = {
    each.__name__: each for each in (request_head, response_head, chunked_body, connect_authority, control_frames)
} | READERS


def corpus(name: str) -> list[bytes]:
    """Return the stored inputs of a target; its file has one a line, as a Python bytes literal."""
    lines = (CORPUS / f"{name}.txt").read_text(encoding="ascii").splitlines()
    return [ast.literal_eval(line) for line in lines if line and not line.startswith("#")]


def keep(name: str, data: bytes) -> None:
    """Add an input to what is kept."""
    with (CORPUS / f"{name}.txt").open("a", encoding="ascii") as file:
        file.write(f"{data!r}\n")


def _refusable(function: Callable[[T], R], value: T) -> R | None:
    """Return the function's result; None when it refuses the value."""
    try:
        return function(value)
    except MalformedMessageError:
        return None


@cache
def _ca() -> RecorderAuthority:
    return RecorderAuthority(Path(_folder().name))


@cache
def _folder() -> "TemporaryDirectory[str]":
    """Return a temporary folder that is deleted when this process ends."""
    return TemporaryDirectory(prefix="weboid-fuzz-")
