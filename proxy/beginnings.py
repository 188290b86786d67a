"""What a response's payload is, by its first bytes, taken out of their coding as far as needed."""

import zlib

from core.sniffing import SNIFF_BYTES, sniff
from proxy.http1 import ResponseHead

_PLAIN = (b"", b"identity")
_GZIP = (b"gzip", b"x-gzip")
_ANY_GZIP = 32 + zlib.MAX_WBITS  # a gzip or a zlib wrapper


def identify(head: ResponseHead, beginning: bytes) -> str:
    """The media type of the payload by itself, as `core.sniffing.sniff` names it.

    Args:
        head: of its response.
        beginning: the body's first bytes without their transfer coding.

    Returns:
        Empty when nobody can tell: there is no payload, a part from its midst, or a coding that is
        not read here (br).
    """
    if not beginning or (head.status == 206 and not _from_the_start(head)):
        return ""
    coding = (head.get(b"content-encoding") or b"").strip().lower()
    if coding in _PLAIN:
        return sniff(beginning)
    if coding not in _GZIP and coding != b"deflate":
        return ""
    try:
        return sniff(zlib.decompressobj(_ANY_GZIP).decompress(beginning, SNIFF_BYTES))
    except zlib.error:
        return sniff(beginning)  # it is not what its header says: browsers fail, archives keep


def _from_the_start(head: ResponseHead) -> bool:
    said = (head.get(b"content-range") or b"").strip().lower()
    return said.startswith(b"bytes 0-")
