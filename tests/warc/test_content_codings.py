"""Content codings of stored bodies: what is decoded, what is returned unchanged, and what is refused."""

import gzip
import zlib

import brotlicffi
import pytest

from core.errors import BodyTooLargeError, PermanentError
from warc.record_reader import codings_of, decode_blocks

BODY = b"The words of a page. " * 400
RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
ENCODED = {
    "gzip": gzip.compress(BODY),
    "x-gzip": gzip.compress(BODY),
    "deflate": zlib.compress(BODY),
    "br": brotlicffi.compress(BODY),
}


def decoded(body: bytes, codings: str, *, limit: int = 1 << 20) -> bytes:
    """Decode in blocks of 100 bytes."""
    blocks = [body[at : at + 100] for at in range(0, len(body), 100)]
    return decode_blocks(iter(blocks), codings, limit=limit)


@pytest.mark.parametrize("coding", ENCODED)
def test_each_coding_is_removed(coding: str) -> None:
    """Names are compared without case."""
    assert decoded(ENCODED[coding], coding.upper()) == BODY


def test_deflate_without_a_zlib_wrapper_is_decoded_as_browsers_do() -> None:
    """RFC 9110, 8.4.1.2 asks for the wrapper; servers leave it out."""
    assert decoded(RAW_DEFLATE.compress(BODY) + RAW_DEFLATE.flush(), "deflate") == BODY


def test_several_codings_are_removed_from_the_outermost() -> None:
    """Content-Encoding names them in the order of application."""
    assert decoded(brotlicffi.compress(gzip.compress(BODY)), "gzip, br") == BODY


@pytest.mark.parametrize("coding", ENCODED)
def test_a_body_that_is_not_encoded_is_returned_unchanged(coding: str) -> None:
    """Archives hold decoded bodies under the headers of encoded ones."""
    assert decoded(b"<!doctype html>", coding) == b"<!doctype html>"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_truncated_body_is_decoded_as_far_as_possible(coding: str) -> None:
    """The beginning of a page is better than nothing."""
    body = decoded(ENCODED[coding][:-20], coding)
    assert body
    assert BODY.startswith(body)


@pytest.mark.parametrize("coding", ENCODED)
def test_a_body_longer_than_the_limit_is_refused(coding: str) -> None:
    """The limit holds for the decoded body."""
    with pytest.raises(BodyTooLargeError):
        decoded(ENCODED[coding], coding, limit=len(BODY) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_an_implausible_ratio_is_refused_below_the_limit(coding: str) -> None:
    """A decompression bomb ends before it reaches a large limit."""
    zeros = bytes(64 << 20)
    bomb = gzip.compress(zeros) if coding == "gzip" else brotlicffi.compress(zeros)
    with pytest.raises(BodyTooLargeError):
        decoded(bomb, coding, limit=1 << 30)


@pytest.mark.parametrize("codings", ["zstd", "gzip, gzip, gzip"])
def test_unknown_and_too_many_codings_are_refused(codings: str) -> None:
    """Before anything is read."""
    with pytest.raises(PermanentError):
        codings_of(codings)


def test_identity_is_no_coding() -> None:
    """RFC 9110, 8.4.1: it is reserved for Accept-Encoding, and servers send it all the same."""
    assert codings_of(" identity , GZIP,") == ["gzip"]
