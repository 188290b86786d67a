"""What a response's payload is, by its first bytes, taken out of their coding as far as needed."""

from isal import isal_zlib

from core.sniffing import HEADER_BYTES, sniff
from proxy.http1 import ResponseHead

_PLAIN = (b"", b"identity")
_GZIP = (b"gzip", b"x-gzip")
_GZIP_WRAPPER, _ZLIB_WRAPPER = 31, 15  # window bits, as zlib has them


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
        wrapper = _GZIP_WRAPPER if coding in _GZIP else _ZLIB_WRAPPER
        return sniff(isal_zlib.decompressobj(wrapper).decompress(beginning, HEADER_BYTES))
    except isal_zlib.IsalError:  # type: ignore[misc] # the stub makes it an instance
        return sniff(beginning)  # it is not what its header says: browsers fail, archives keep


def _from_the_start(head: ResponseHead) -> bool:
    said = (head.get(b"content-range") or b"").strip().lower()
    return said.startswith(b"bytes 0-")
