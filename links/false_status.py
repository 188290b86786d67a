"""Error statuses that cannot be true, told by the body that came with them (W53; pure).

`plausible` holds the status of an answer to GET against its body. It must never make a missing page a good
one, so pages, texts, pictures and data are never taken for good against their status, however large.
"""

from dataclasses import dataclass

from core.formats import agree, is_textual
from core.sniffing import sniff
from links.findings import Verdict
from links.status import Code, of_http, verdict_of


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer is, its status held against its body.

    Attributes:
        code: the status byte, `Code.CORRECTED` when the status cannot be true.
        verdict: what that says.
        note: why it was corrected, a constant first; empty when it was not.
    """

    code: Code
    verdict: Verdict
    note: str = ""


# A document of less bytes than this may be a placeholder; a PDF of one line of text has about 900.
_DOCUMENT_BYTES = 4096
# Error texts that no browser renders, and pages of failing servers, are smaller than this: the error
# pages of servers, proxies and frameworks have up to a few KB, those of sites' own design mostly less
# than 100 KB. Past it somebody sends a page with the wrong status, or with a very large design; the
# browser tells them apart.
_ERROR_PAGE_BYTES = 128 * 1024
_ERROR_TEXT_BYTES = 64 * 1024
_DENIALS = range(400, 500)
_FAULTS = range(500, 600)
# What is sent in place of what there is not: pictures of "not found", and whatever an API or a
# framework says its errors in.
# An error page that was packed twice, or whose packing nobody undid.
_WRAPPERS = frozenset(
    {"application/gzip", "application/zstd", "application/x-bzip2", "application/x-compress"}
)
_PLACEHOLDERS = ("image/", "text/", "message/", "multipart/", "font/")


def plausible(status: int, mime: str, length: int | None, body: bytes) -> Reading:
    """What an answer to GET is: its status, unless the body gives that the lie (W53).

    No page, no text and no picture is ever taken for good against its status, however large: sites send
    whole pages and pictures with a rightful 404. What cannot be an error's body is a document, a
    recording or a container of at least 4 KiB that its declared type and its first bytes agree on; then
    the answer is OK. Where only one of these speaks against the status it is SUSPECT: nobody's failure,
    and the browser looks. So are long plain texts with 4xx, and long pages with 5xx.

    Args:
        status: the HTTP status.
        mime: the bare media type that it declares, in lower case; empty when it declares none.
        length: bytes of the whole body; None when nobody knows.
        body: how the body begins; empty when it was not read.
    """
    code = of_http(status)
    plain = Reading(code, verdict_of(code))
    if status not in _DENIALS and status not in _FAULTS:
        return plain
    if plain.verdict in (Verdict.REFUSED, Verdict.UNDECIDED):
        return plain  # who refuses us may say so by any means
    size = len(body) if length is None else length
    kind = _document(mime, body) if size >= _DOCUMENT_BYTES else ""
    if kind:
        verdict = Verdict.OK if kind == mime and body else Verdict.SUSPECT
        return Reading(Code.CORRECTED, verdict, f"false status: {status} with {kind}")
    if _is_too_long(status, mime, size):
        return Reading(Code.CORRECTED, Verdict.SUSPECT, f"false status: {status} with {size} bytes")
    return plain


def _document(mime: str, body: bytes) -> str:
    """What document the answer carries: the declared type where the bytes do not deny it; or empty."""
    sniffed = sniff(body) if body else ""
    if _is_document(mime) and (not sniffed or agree(sniffed, mime)):
        return mime
    return sniffed if _is_document(sniffed) and sniffed not in _WRAPPERS else ""


def _is_document(mime: str) -> bool:
    """Whether nobody would send that as an error: no page, no text, no picture, no data."""
    if not mime or mime == "application/octet-stream" or mime.startswith(_PLACEHOLDERS):
        return False
    return not is_textual(mime)


def _is_too_long(status: int, mime: str, size: int) -> bool:
    if status in _FAULTS:
        return size > _ERROR_PAGE_BYTES
    return mime == "text/plain" and size > _ERROR_TEXT_BYTES
