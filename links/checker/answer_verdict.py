"""Verdict on a chain of HTTP answers: status, wording, redirects, implausible errors.

`read_status` holds the status of an answer to GET against its body. It must never make a missing page a good
one, so pages, texts, pictures and data are never taken for good against their status, however large.

The order is the rule: a guard's answer says nothing of the page behind it, whatever its status; a host
that asks to be left alone has said nothing either; only then does the status count, and of what it
calls fine, redirects and the page's own words may still raise a suspicion.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from classify.challenge import detect_guard
from classify.page_excerpt import (
    PageExcerpt,
    is_placeholder,
    page_refresh_target,
    parse_page_excerpt,
    parse_refresh,
    says_not_found,
    says_parked,
)
from classify.redirect_target import RedirectEnding, classify_ending
from core.media_types import effective_type, is_textual, types_agree
from core.mime_sniffer import sniff
from core.web_dates import parse_retry_after
from links import check_result
from links.check_result import (
    CheckMethod,
    CheckResult,
    CheckVerdict,
    RedirectHop,
    StatusCode,
    code_of_http,
    verdict_of,
)
from links.checker.connection import request_target
from links.checker.fetch_errors import FAILURE_MEANINGS, FetchFailure
from links.checker.http_exchange import HttpAnswer


@dataclass(frozen=True, slots=True)
class StatusReading:
    """What an answer is, its status held against its body.

    Attributes:
        code: the status byte, `Code.CORRECTED` when the status cannot be true.
        verdict: what that says.
        note: why it was corrected, a constant first; empty when it was not.
    """

    code: StatusCode
    verdict: CheckVerdict
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


def read_status(status: int, mime: str, length: int | None, body: bytes) -> StatusReading:
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
    code = code_of_http(status)
    plain = StatusReading(code, verdict_of(code))
    if status not in _DENIALS and status not in _FAULTS:
        return plain
    if plain.verdict in (CheckVerdict.REFUSED, CheckVerdict.UNDECIDED):
        return plain  # who refuses us may say so by any means
    size = len(body) if length is None else length
    kind = _document(mime, body) if size >= _DOCUMENT_BYTES else ""
    if kind:
        verdict = CheckVerdict.OK if kind == mime and body else CheckVerdict.SUSPECT
        return StatusReading(StatusCode.CORRECTED, verdict, f"false status: {status} with {kind}")
    if _is_too_long(status, mime, size):
        return StatusReading(
            StatusCode.CORRECTED, CheckVerdict.SUSPECT, f"false status: {status} with {size} bytes"
        )
    return plain


def _document(mime: str, body: bytes) -> str:
    """What document the answer carries: the declared type where the bytes do not deny it; or empty."""
    sniffed = sniff(body) if body else ""
    if _is_document(mime) and (not sniffed or types_agree(sniffed, mime)):
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


RETRY_LIMIT_S = 604_800.0  # what a host asks for beyond a week is a week
REDIRECTS = frozenset((301, 302, 303, 307, 308))
_PERMANENT = frozenset((301, 308))
_NOTE_BYTES = 300
_PAGES = frozenset(("", "text/html", "application/xhtml+xml"))


@dataclass(frozen=True, slots=True)
class ProbeTrace:
    """What was asked for and where that ended.

    Attributes:
        url: what was asked for.
        how: by HEAD or by GET.
        hops: the redirects on the way, oldest first.
        answer: the last answer; None when there is none.
        trouble: why there is none, or why it cannot be followed.
        detail: more of that.
        unfollowed: why the last answer, a redirect, leads nowhere; a note.
        tls_fault: the first certificate's on the way that does not verify.
    """

    url: str
    how: CheckMethod
    hops: tuple[RedirectHop, ...] = ()
    answer: HttpAnswer | None = None
    trouble: FetchFailure | None = None
    detail: str = ""
    unfollowed: str = ""
    tls_fault: str = ""

    @property
    def final(self) -> str:
        """Where it ended."""
        return self.hops[-1].url if self.hops else self.url


def judge_trace(trace: ProbeTrace, now: datetime) -> CheckResult:
    """What the trace says; `seconds` and `head_fails` are the prober's to add."""
    answer = trace.answer
    mime = ""
    if answer is not None:
        mime = answer.head.mime
        if answer.body:
            mime = effective_type(sniff(answer.body), mime)
    finding = CheckResult(
        code=StatusCode.NONE,
        verdict=CheckVerdict.UNDECIDED,
        how=trace.how,
        http=answer.head.status if answer else None,
        final_url=trace.final if trace.hops else "",
        hops=trace.hops,
        mime=mime,
        length=answer.length if answer else None,
        tls_fault=trace.tls_fault,
    )
    if trace.trouble is not None:
        trouble = trace.trouble
        says = FAILURE_MEANINGS[trouble]
        note = f"{trouble}: {trace.detail}" if trace.detail else str(trouble)
        # What lies on the way says nothing of the host that was asked for first.
        verdict = says.verdict
        if trace.hops and verdict is CheckVerdict.INVALID:
            verdict = CheckVerdict.SUSPECT
        return replace(
            finding,
            code=says.code,
            verdict=verdict,
            note=note,
            whole_host=says.whole_host and not trace.hops and _is_all_of_host(trouble, trace.url),
        )
    assert answer is not None
    return _of_answer(finding, trace, answer, now)


def head_is_conclusive(trace: ProbeTrace, finding: CheckResult) -> bool:
    """Whether an answer to HEAD says enough, so that GET need not be asked (W42).

    It does when it is a success with type and length; when the host asked to be left alone; and when
    nobody was there to be asked anything.
    """
    if trace.trouble is not None:
        return not trace.hops and FAILURE_MEANINGS[trace.trouble].settled
    assert trace.answer is not None
    head = trace.answer.head
    if head.status == 429 or (head.status == 503 and finding.retry_after_s is not None):
        return True
    return finding.verdict is CheckVerdict.OK and head_is_informative(trace)


def head_is_informative(trace: ProbeTrace) -> bool:
    """Whether an answer to HEAD has what W42 asks for: type, length and status."""
    answer = trace.answer
    if answer is None or not answer.whole:
        return False
    head = answer.head
    return bool(head.mime) and bool(head.length) and not head.first("refresh")


def retry_after_s(value: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, at most `RETRY_LIMIT_S`; None for none."""
    wait = parse_retry_after(value, now=now, limit=timedelta(seconds=RETRY_LIMIT_S))
    return None if wait is None else wait.total_seconds()


def refresh_target(trace: ProbeTrace) -> str:
    """Where the page that came leads on by itself, as it is written; empty when it does not."""
    answer = trace.answer
    if answer is None or not 200 <= answer.head.status < 300 or not _is_page(answer):
        return ""
    said = parse_refresh(answer.head.first("refresh"))
    if said or b"refresh" not in answer.body[:32_768].lower():
        return said
    return page_refresh_target(parse_page_excerpt(answer.body, answer.head.first("content-type")))


def _is_all_of_host(trouble: FetchFailure, url: str) -> bool:
    """Whether a host that has this trouble there has it everywhere: a name has, a port need not."""
    target = request_target(url)
    return trouble.startswith("dns") or target.authority == target.host


def _of_answer(
    finding: CheckResult, trace: ProbeTrace, answer: HttpAnswer, now: datetime
) -> CheckResult:
    head = answer.head
    by = detect_guard(head, answer.body)
    wait = retry_after_s(head.first("retry-after"), now) if head.status >= 400 else None
    if by:
        return replace(
            finding,
            code=StatusCode.CHALLENGE,
            verdict=CheckVerdict.REFUSED,
            note=f"challenge: {by}",
            retry_after_s=wait,
        )
    if head.status == 429 or (head.status == 503 and wait is not None):
        return replace(
            finding,
            code=check_result.code_of_http(head.status),
            verdict=CheckVerdict.UNDECIDED,
            note="answer: later",
            retry_after_s=wait,
        )
    if trace.unfollowed:
        return replace(
            finding,
            code=check_result.code_of_http(head.status),
            verdict=CheckVerdict.SUSPECT,
            note=trace.unfollowed,
        )
    reading = read_status(head.status, head.mime, answer.length, answer.body)
    finding = replace(finding, code=reading.code, verdict=reading.verdict, note=reading.note)
    if reading.verdict is not CheckVerdict.OK:
        return finding
    return _suspected(finding, trace, answer) or _fine(finding, trace)


def _suspected(finding: CheckResult, trace: ProbeTrace, answer: HttpAnswer) -> CheckResult | None:
    """The finding, when something about a good answer is not."""
    end = classify_ending(trace.url, trace.final) if trace.hops else RedirectEnding.FINE
    if end is not RedirectEnding.FINE:
        code, verdict = _ENDINGS[end]
        return replace(finding, code=code, verdict=verdict, note=end.value)
    if trace.how is CheckMethod.HEAD or answer.head.status != 200:
        return None
    if not _is_page(answer):
        # What a short text says against itself: servers' own words, without a page around them.
        text = answer.body[:_NOTE_BYTES].decode("utf-8", "replace").strip()
        is_note = answer.head.mime == "text/plain" and len(answer.body) < _NOTE_BYTES
        if is_note and says_not_found(PageExcerpt(text, "", text, text), trace.url):
            code, note = StatusCode.SOFT_404, "page: says not found"
        else:
            code, note = StatusCode.FINE, ""
    else:
        code, note = _said(trace, answer) if answer.body else _unsaid(answer)
    return replace(finding, code=code, verdict=CheckVerdict.SUSPECT, note=note) if note else None


def _said(trace: ProbeTrace, answer: HttpAnswer) -> tuple[StatusCode, str]:
    """What the page says against itself; no note when it says nothing."""
    page = parse_page_excerpt(answer.body, answer.head.first("content-type"))
    if says_parked(page):
        return StatusCode.PARKED, "page: parked"
    if says_not_found(page, trace.url):
        return StatusCode.SOFT_404, "page: says not found"
    if is_placeholder(page):
        return StatusCode.SOFT_404, "page: stands in"
    return StatusCode.FINE, ""


def _unsaid(answer: HttpAnswer) -> tuple[StatusCode, str]:
    """What a page without a word means."""
    if answer.head.first("content-encoding") and answer.length != 0:
        return (
            StatusCode.FINE,
            "",
        )  # a coding that we cannot undo, or a broken one: browsers know more
    if answer.whole:
        return StatusCode.SOFT_404, "page: empty"
    return StatusCode.BROKEN_OFF, "answer: broken off"


_ENDINGS = {
    RedirectEnding.ROOT: (StatusCode.TO_THE_ROOT, CheckVerdict.SUSPECT),
    RedirectEnding.ERROR_PAGE: (StatusCode.SOFT_404, CheckVerdict.SUSPECT),
    RedirectEnding.PARKED: (StatusCode.PARKED, CheckVerdict.SUSPECT),
    RedirectEnding.LOGIN: (StatusCode.LOGIN, CheckVerdict.REFUSED),
    RedirectEnding.CONSENT: (StatusCode.LOGIN, CheckVerdict.REFUSED),
}


def _fine(finding: CheckResult, trace: ProbeTrace) -> CheckResult:
    """A good answer, and what is odd about the way to it."""
    if trace.tls_fault:
        return replace(finding, code=StatusCode.CERTIFICATE, note=f"tls: {trace.tls_fault}")
    if not trace.hops or finding.code != StatusCode.FINE:
        return finding
    if _without_scheme(trace.url) == _without_scheme(trace.final):
        return replace(finding, code=StatusCode.OTHER_SCHEME, note="scheme: led to the other one")
    moves = [hop for hop in trace.hops if hop.status in REDIRECTS]
    permanent = [hop for hop in moves if hop.status in _PERMANENT]
    first = (permanent or moves)[:1]
    return replace(finding, code=check_result.code_of_http(first[0].status)) if first else finding


def _is_page(answer: HttpAnswer) -> bool:
    head = answer.head
    return head.mime in _PAGES and not head.first("content-disposition").startswith("attachment")


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]
