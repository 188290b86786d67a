"""Keys and values of the dedup index in Redis: few bytes, the same on every machine.

A payload's key is the hash tag, the bucket, and the digest's raw bytes. Its value begins with a
letter: ``c`` and a process's name for a claim, ``o`` and the packed original for a record on disk.
"""

import re
import struct
from urllib.parse import quote

from core.errors import DedupUnavailableError
from proxy.builder import Original
from proxy.payloads.protocol import PayloadKey

_SHA256 = re.compile("sha256:([0-9a-f]{64})")
_NUMBERS = struct.Struct(">cqQQ")  # the letter, captured_ms, offset, length


def payload_key(tag: str, key: PayloadKey) -> bytes:
    """The key of a payload: SHA-256 as its 32 bytes, any other digest as it is spelled.

    >>> payload_key("{t}", PayloadKey("sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", "a:b"))
    b'{t}:a%3Ab:sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A'
    """
    named = _SHA256.fullmatch(key.digest)
    digest = key.digest.encode() if named is None else bytes.fromhex(named[1])
    return f"{tag}:{quote(key.bucket, safe='')}:".encode() + digest


def pack_original(key: PayloadKey, original: Original) -> bytes:
    """The value of a payload that is on disk."""
    numbers = _NUMBERS.pack(b"o", original.captured_ms, original.offset, original.length)
    spelled = "" if original.digest == key.digest else original.digest
    return numbers + "\0".join((original.filename, spelled, original.url)).encode()


def unpack_original(key: PayloadKey, value: bytes) -> Original:
    """The original in a value of `pack_original`.

    Raises:
        DedupUnavailableError: the value is not ours.
    """
    try:
        _, captured_ms, offset, length = _NUMBERS.unpack_from(value)
        filename, spelled, url = value[_NUMBERS.size :].decode().split("\0", 2)
    except (struct.error, ValueError) as error:
        raise DedupUnavailableError(
            "The dedup index holds values that are not ours: give it another database number, "
            "or another name with ?index=NAME in [proxy] dedup_url."
        ) from error
    return Original(spelled or key.digest, url, captured_ms, filename, offset, length)
