"""Digests: three spellings read, one written, and other tools agree with it."""

import base64
import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.digests import Digest, sha256_digest
from core.errors import InputError

PAYLOAD = b"<html>hello</html>"
HASHES = st.sampled_from(["md5", "sha1", "sha256", "sha512"])


def _warc(path: Path, digest: str) -> Path:
    """Write a WARC of one response with the payload digest `digest`; return its path."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(PAYLOAD)
    block += PAYLOAD
    head = (
        "WARC/1.1\r\nWARC-Type: response\r\n"
        "WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\n"
        "WARC-Date: 2026-01-01T00:00:00.000Z\r\nWARC-Target-URI: http://example.org/\r\n"
        f"WARC-Payload-Digest: {digest}\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    path.write_bytes(gzip.compress(head.encode() + block + b"\r\n\r\n"))
    return path


def _warcio_check(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("warcio"), "check", "-v", path],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


@given(HASHES, st.binary())
def test_every_spelling_is_one_digest(algorithm: str, data: bytes) -> None:
    """Digests are compared as bytes, never as texts."""
    made = hashlib.new(algorithm, data, usedforsecurity=False)
    base32 = base64.b32encode(made.digest()).decode()
    expected = Digest(algorithm, made.hexdigest())

    for spelled in (made.hexdigest(), made.hexdigest().upper(), base32, base32.rstrip("=")):
        assert Digest.parse(f"{algorithm}:{spelled}") == expected
    assert Digest.parse(str(expected)) == expected
    assert Digest.parse(expected.base32) == expected
    if algorithm in ("sha1", "sha256"):
        assert Digest.parse(expected.bare) == expected


def test_a_bare_digest_is_read_as_pywb_writes_it() -> None:
    """Pywb's CDXJ drops `sha1:`."""
    made = hashlib.sha1(PAYLOAD, usedforsecurity=False)
    bare = base64.b32encode(made.digest()).decode()

    assert Digest.parse(bare).base32 == f"sha1:{bare}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "sha1:", "sha256:zz", "crc32:00000000", "sha256:" + "g" * 64, "x" * 1000),
        *("sha1:" + "1" * 32, "sha256:" + "A" * 40, "sha256:" + "é" * 64, "sha256:" + "٣" * 64),
    ],
)
def test_what_is_no_digest_is_refused(text: str) -> None:
    """A header from somebody else's WARC may say anything."""
    with pytest.raises(InputError):
        Digest.parse(text)


@given(st.text())
def test_any_text_is_either_a_digest_or_an_input_error(text: str) -> None:
    """No other error leaves the parser."""
    try:
        digest = Digest.parse(text)
    except InputError:
        return

    assert Digest.parse(str(digest)) == digest


def test_what_we_write_is_the_digest_in_lower_case_hexadecimal() -> None:
    """Bytes and hash objects give the same text."""
    made = hashlib.sha256(PAYLOAD)

    assert sha256_digest(PAYLOAD) == f"sha256:{made.hexdigest()}"
    assert sha256_digest(made) == sha256_digest(memoryview(PAYLOAD)) == sha256_digest(PAYLOAD)
    assert str(Digest.parse(sha256_digest(PAYLOAD))) == sha256_digest(PAYLOAD)


def test_a_hash_of_another_algorithm_is_not_passed_off_as_sha256() -> None:
    """The label must be true."""
    with pytest.raises(InputError, match="md5"):
        sha256_digest(hashlib.md5(PAYLOAD, usedforsecurity=False))


def test_warcio_verifies_the_digest_that_we_write(tmp_path: Path) -> None:
    """`warcio check` really computes it: the right one passes, a wrong one fails."""
    right = _warcio_check(_warc(tmp_path / "right.warc.gz", sha256_digest(PAYLOAD)))
    wrong = _warcio_check(_warc(tmp_path / "wrong.warc.gz", sha256_digest(b"other")))

    assert (right.returncode, "digest pass" in right.stdout) == (0, True)
    assert (wrong.returncode, "payload digest failed" in wrong.stdout) == (1, True)


@pytest.mark.playback
def test_pywb_indexes_the_digest_that_we_write_as_it_stands(tmp_path: Path, replay_python: Path) -> None:
    """A revisit finds its original in pywb because both have the same text."""
    warc = _warc(tmp_path / "a.warc.gz", sha256_digest(PAYLOAD))
    index = subprocess.run(
        [replay_python.with_name("cdx-indexer"), "-j", warc], capture_output=True, check=True, text=True, timeout=120
    )

    assert f'"digest": "{sha256_digest(PAYLOAD)}"' in index.stdout
