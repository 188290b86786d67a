"""Type of a response by its first bytes, in any content coding."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from net.http1 import parse_response_head
from proxy.exchange import identify_payload

SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


def head(*lines: str, status: str = "200 OK") -> bytes:
    """Return the head of a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("response_head", "body", "mime"),
    [
        (head(), SVG, "image/svg+xml"),
        (head("Content-Encoding: gzip"), gzip.compress(SVG, mtime=0), "image/svg+xml"),
        (head("Content-Encoding: GZIP"), gzip.compress(SVG * 999, mtime=0)[:40], "image/svg+xml"),
        (head("Content-Encoding: deflate"), zlib.compress(SVG), "image/svg+xml"),
        (head("Content-Encoding: gzip"), SVG, "image/svg+xml"),
        (head("Content-Encoding: br"), b"\x0b\x02\x80abc\x03", ""),
        (head("Content-Encoding: gzip, gzip"), gzip.compress(SVG, mtime=0), ""),
        (head(), b"", ""),
        (head("Content-Range: bytes 5-9/99", status="206 Part"), b"%PDF-", ""),
        (head("Content-Range: bytes 0-9/99", status="206 Part"), b"%PDF-", "application/pdf"),
    ],
)
def test_the_payload_is_looked_at_without_its_coding(response_head: bytes, body: bytes, mime: str) -> None:
    """A coding that lies is looked through; a part from the midst says nothing."""
    assert identify_payload(parse_response_head(response_head), body) == mime


@given(st.binary(max_size=400), st.sampled_from(["", "gzip", "deflate", "br", "x-gzip"]))
def test_whatever_a_body_holds_nothing_is_raised(body: bytes, coding: str) -> None:
    """It is from the web, and the proxy's thread must live."""
    identify_payload(parse_response_head(head(f"Content-Encoding: {coding}")), body)
    identify_payload(parse_response_head(head(f"Content-Encoding: {coding}")), gzip.compress(body)[:-9])
