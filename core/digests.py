"""Payload and block digests: three spellings read, one written.

    sha256:7e537e90…            hexadecimal, with its algorithm: what we write, and warcprox
    sha1:B2LTWWPUOYAH7UIPQ7…    base32, with its algorithm: warcio, pywb, Heritrix
    B2LTWWPUOYAH7UIPQ7…         bare: pywb's CDXJ drops ``sha1:``

``warcio check`` (1.8.1) rejects SHA-256 in base32 unless it is upper case with its four ``=``; pywb 2.10 compares a
``sha256:`` digest literally, so one spelling everywhere lets a revisit find its original.
"""

import base64
import hashlib
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from core.errors import InputError

if TYPE_CHECKING:
    from _hashlib import HASH

_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}  # bytes
_BASE32 = re.compile(r"[A-Za-z2-7]+")
BASE32_TO_DIGITS = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz234567",
    "0123456789abcdefghijklmnop0123456789abcdefghijklmnopqrstuv",
)
_HEX = frozenset(string.hexdigits)
TRUSTED_DIGESTS = frozenset({"sha1", "sha256", "sha512"})  # MD5 collisions can be constructed


@dataclass(frozen=True, slots=True)
class Digest:
    """Digest; two are equal when algorithm and bytes are, in any spelling."""

    algorithm: str  # ``md5``, ``sha1``, ``sha256`` or ``sha512``
    value: str  # the digest in lower-case hexadecimal

    def __post_init__(self) -> None:
        size = _SIZES.get(self.algorithm)
        if size is None:
            raise InputError(f"The digest algorithm {self.algorithm!r} is unknown.")
        if len(self.value) != 2 * size or not _HEX.issuperset(self.value.lower()):
            raise InputError(f"{self.value!r} is no {self.algorithm} digest in hexadecimal.")
        if self.value != self.value.lower():
            raise InputError("A digest's value is in lower case; use Digest.parse.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a digest in any of the three spellings, a bare one by its length, or raise InputError."""
        prefix, colon, spelled = text.strip().rpartition(":")
        if colon:
            algorithm = prefix.lower().replace("-", "")
            return cls(algorithm, _hexadecimal(spelled, algorithm))
        for algorithm in ("sha1", "sha256"):
            if len(spelled.rstrip("=")) in _lengths(algorithm):
                return cls(algorithm, _hexadecimal(spelled, algorithm))
        raise InputError(f"{text[:200]!r} is not a digest.")

    @property
    def base32(self) -> str:
        """Return ``sha1:`` and upper-case base32, padded: as warcio and pywb write it."""
        return f"{self.algorithm}:{self.bare}"

    @property
    def bare(self) -> str:
        """Return upper-case base32 without the algorithm: as pywb's CDXJ has a SHA-1."""
        return base64.b32encode(bytes.fromhex(self.value)).decode()

    def __str__(self) -> str:
        """Return the spelling that we write: ``sha256:`` and lower-case hexadecimal."""
        return f"{self.algorithm}:{self.value}"


def sha256_digest(payload: "bytes | bytearray | memoryview | HASH") -> str:
    """Return the SHA-256 of the payload, or of a `hashlib.sha256` (else InputError), in our spelling."""
    if isinstance(payload, bytes | bytearray | memoryview):
        payload = hashlib.sha256(payload)
    if payload.name != "sha256":
        raise InputError(f"A SHA-256 digest is expected, not {payload.name}.")
    return f"sha256:{payload.hexdigest()}"


def _lengths(algorithm: str) -> tuple[int, int]:
    """Return a digest's number of characters in hexadecimal, and in base32 without padding."""
    size = _SIZES.get(algorithm, 0)
    return 2 * size, -(-size * 8 // 5)


def _hexadecimal(spelled: str, algorithm: str) -> str:
    """Convert either spelling to lower-case hexadecimal; other texts are returned unchanged."""
    hexadecimal, base32 = _lengths(algorithm)
    if len(spelled) == hexadecimal and "=" not in spelled:  # padded MD5 has this length too
        return spelled.lower()
    unpadded = spelled.rstrip("=")
    if len(unpadded) != base32:
        return spelled
    if not _BASE32.fullmatch(unpadded):
        raise InputError(f"{spelled!r} is not base32.")
    # Five bits a character; the remainder is padding. Several times faster than base64.b32decode.
    number = int(unpadded.translate(BASE32_TO_DIGITS), 32) >> (5 * base32 - 4 * hexadecimal)
    return f"{number:0{hexadecimal}x}"
