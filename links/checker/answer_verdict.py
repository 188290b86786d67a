"""Verdict on a chain of HTTP answers: status, wording, redirects, implausible errors.

The order of the rules matters: a bot challenge is not evidence about the page, whatever its status; nor is a
request to slow down; only then the status counts, and good statuses are examined.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from classify import page_excerpt
from classify.redirect_target import RedirectEnding, classify_ending
from classify.source_traits import detect_guard
from core.media_types import effective_type, is_textual, types_agree
from core.mime_sniffer import sniff
from core.web_dates import parse_retry_after
from links import check_result
from links.check_result import CheckMethod, CheckResult, CheckVerdict, FetchFailure, StatusCode, code_of_http
from links.checker.http_exchange import HttpAnswer, request_target

# A document of less bytes than this may be a placeholder; a PDF of one line of text has about 900.
_DOCUMENT_BYTES = 4096
# Bare error texts and pages of failing servers are smaller than this: the error pages of servers,
# proxies and frameworks have up to a few KB, those of sites' own design mostly less than 100 KB. What is larger
# is a page with the wrong status, or an error page with a very large design; the browser tells them apart.
_ERROR_PAGE_BYTES = 128 * 1024
_ERROR_TEXT_BYTES = 64 * 1024
_DENIALS = range(400, 500)
_FAULTS = range(500, 600)
# What is sent in place of what there is not: pictures of "not found", and whatever an API or a
# framework says its errors in.
# An error page that was compressed twice, or is still compressed.
_WRAPPERS = frozenset({"application/gzip", "application/zstd", "application/x-bzip2", "application/x-compress"})
_PLACEHOLDERS = ("image/", "text/", "message/", "multipart/", "font/")


def read_status(status: int, mime: str, length: int | None, body: bytes) -> tuple[StatusCode, CheckVerdict, str]:
    """Return code, verdict and note of a GET answer by its status, unless the body contradicts it (W53).

    HTML, text and images never override an error status, however large: sites send whole pages and pictures with a
    correct 404. A document or recording of at least 4 KiB whose declared type and first bytes agree is OK. Where only
    one of these contradicts the status it is SUSPECT: no failure, and the browser is asked; so are long plain texts
    with 4xx and long pages with 5xx.
    """
    code = code_of_http(status)
    plain = code, code.verdict, ""
    if status not in _DENIALS and status not in _FAULTS:
        return plain
    if code.verdict in (CheckVerdict.REFUSED, CheckVerdict.UNDECIDED):
        return plain  # who refuses us may say so by any means
    size = len(body) if length is None else length
    kind = ""
    if size >= _DOCUMENT_BYTES:
        sniffed = sniff(body) if body else ""
        if _is_document(mime) and (not sniffed or types_agree(sniffed, mime)):
            kind = mime
        elif _is_document(sniffed) and sniffed not in _WRAPPERS:
            kind = sniffed
    if kind:
        verdict = CheckVerdict.OK if kind == mime and body else CheckVerdict.SUSPECT
        return StatusCode.CORRECTED, verdict, f"false status: {status} with {kind}"
    is_too_long = size > _ERROR_PAGE_BYTES if status in _FAULTS else mime == "text/plain" and size > _ERROR_TEXT_BYTES
    if is_too_long:
        return StatusCode.CORRECTED, CheckVerdict.SUSPECT, f"false status: {status} with {size} bytes"
    return plain


def _is_document(mime: str) -> bool:
    """Return True for types that are not sent as errors: no HTML, text, image or data."""
    if not mime or mime == "application/octet-stream" or mime.startswith(_PLACEHOLDERS):
        return False
    return not is_textual(mime)


RETRY_LIMIT_S = 604_800.0  # upper limit of a host's Retry-After: a week
REDIRECTS = frozenset((301, 302, 303, 307, 308))
_PERMANENT = frozenset((301, 308))
_NOTE_BYTES = 300
_PAGES = frozenset(("", "text/html", "application/xhtml+xml"))


@dataclass(frozen=True, slots=True)
class ProbeTrace:
    """Requests of a probe and their result."""

    url: str  # the requested URL
    how: CheckMethod  # by HEAD or by GET
    hops: tuple[check_result.RedirectHop, ...] = ()  # the redirects, oldest first
    answer: HttpAnswer | None = None  # the last answer; None without one
    trouble: FetchFailure | None = None  # reason of a missing answer, or that it cannot be followed
    detail: str = ""  # details of that
    unfollowed: str = ""  # reason that the last redirect was not followed; a note
    tls_fault: str = ""  # of the first certificate that does not verify

    @property
    def final(self) -> str:
        """Return the final URL."""
        return self.hops[-1].url if self.hops else self.url


def judge_trace(trace: ProbeTrace, now: datetime) -> CheckResult:
    """Derive the check result from a trace; `seconds` and `head_fails` are set by the prober."""
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
        note = f"{trouble}: {trace.detail}" if trace.detail else str(trouble)
        # Intermediate hosts are no evidence about the host that was requested first.
        verdict = trouble.verdict
        if trace.hops and verdict is CheckVerdict.INVALID:
            verdict = CheckVerdict.SUSPECT
        if trouble in check_result.CONNECTION_DOUBTS and trace.final.startswith("https:"):
            verdict, note = CheckVerdict.SUSPECT, f"{note}; a browser's connection may be answered"
        whole_host = trouble.whole_host and not trace.hops
        if whole_host and not trouble.startswith("dns"):  # one on an unusual port may not be
            whole_host = not request_target(trace.url).port
        return replace(finding, code=trouble.code, verdict=verdict, note=note, whole_host=whole_host)
    assert answer is not None
    return _of_answer(finding, trace, answer, now)


def head_is_conclusive(trace: ProbeTrace, finding: CheckResult) -> bool:
    """Return True when an answer to HEAD suffices (W42): success with type and length, 429, no connection."""
    if trace.trouble is not None:
        return not trace.hops and trace.trouble.settled
    assert trace.answer is not None
    head = trace.answer.head
    if head.status == 429 or (head.status == 503 and finding.retry_after_s is not None):
        return True
    return finding.verdict is CheckVerdict.OK and head_is_informative(trace)


def head_is_informative(trace: ProbeTrace) -> bool:
    """Return True when an answer to HEAD has type, length and status as W42 requires."""
    answer = trace.answer
    if answer is None or not answer.whole:
        return False
    head = answer.head
    return bool(head.mime) and bool(head.length) and not head.first("refresh")


def retry_after_s(value: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header requests, at most `RETRY_LIMIT_S`; None for none."""
    wait = parse_retry_after(value, now=now, limit=timedelta(seconds=RETRY_LIMIT_S))
    return None if wait is None else wait.total_seconds()


def refresh_target(trace: ProbeTrace) -> str:
    """Return the page's own redirect target (meta refresh) as written; empty without one."""
    answer = trace.answer
    if answer is None or not 200 <= answer.head.status < 300 or not _is_page(answer):
        return ""
    target = page_excerpt.parse_refresh(answer.head.first("refresh"))
    if target or b"refresh" not in answer.body[:32_768].lower():
        return target
    return page_excerpt.page_refresh_target(
        page_excerpt.parse_page_excerpt(answer.body, answer.head.first("content-type"))
    )


def _of_answer(finding: CheckResult, trace: ProbeTrace, answer: HttpAnswer, now: datetime) -> CheckResult:
    head = answer.head
    by = detect_guard(head, answer.body)
    wait = retry_after_s(head.first("retry-after"), now) if head.status >= 400 else None
    code = code_of_http(head.status)
    if by:
        code, verdict, note = StatusCode.CHALLENGE, CheckVerdict.REFUSED, f"challenge: {by}"
    elif head.status == 429 or (head.status == 503 and wait is not None):
        verdict, note = CheckVerdict.UNDECIDED, "answer: later"
    elif trace.unfollowed:
        verdict, note, wait = CheckVerdict.SUSPECT, trace.unfollowed, None
    else:
        code, verdict, note = read_status(head.status, head.mime, answer.length, answer.body)
        wait = None
    finding = replace(finding, code=code, verdict=verdict, note=note, retry_after_s=wait)
    if by or trace.unfollowed or verdict is not CheckVerdict.OK:
        return finding
    return _suspected(finding, trace, answer) or _fine(finding, trace)


def _suspected(finding: CheckResult, trace: ProbeTrace, answer: HttpAnswer) -> CheckResult | None:
    """Return a changed result when a good answer is suspicious; None when it is not."""
    end = classify_ending(trace.url, trace.final) if trace.hops else RedirectEnding.FINE
    if end is not RedirectEnding.FINE:
        code, verdict = _ENDINGS[end]
        return replace(finding, code=code, verdict=verdict, note=end.value)
    if trace.how is CheckMethod.HEAD or answer.head.status != 200:
        return None
    if not _is_page(answer):
        # Error phrases in short texts: servers' own words, without a page around them.
        text = answer.body[:_NOTE_BYTES].decode("utf-8", "replace").strip()
        is_note = answer.head.mime == "text/plain" and len(answer.body) < _NOTE_BYTES
        if is_note and page_excerpt.says_not_found(page_excerpt.PageExcerpt(text, "", text, text), trace.url):
            code, note = StatusCode.SOFT_404, "page: says not found"
        else:
            code, note = StatusCode.FINE, ""
    else:
        code, note = _page_fault(trace, answer)
    return replace(finding, code=code, verdict=CheckVerdict.SUSPECT, note=note) if note else None


def _page_fault(trace: ProbeTrace, answer: HttpAnswer) -> tuple[StatusCode, str]:
    """Return the code and note of an error message in the page, or of its lack of text; else no note."""
    if not answer.body:
        if answer.head.first("content-encoding") and answer.length != 0:
            return StatusCode.FINE, ""  # a coding that is unknown or broken: browsers know more
        return (StatusCode.SOFT_404, "page: empty") if answer.whole else (StatusCode.BROKEN_OFF, "answer: broken off")
    page = page_excerpt.parse_page_excerpt(answer.body, answer.head.first("content-type"))
    if page_excerpt.says_parked(page):
        return StatusCode.PARKED, "page: parked"
    if page_excerpt.says_not_found(page, trace.url):
        return StatusCode.SOFT_404, "page: says not found"
    return (StatusCode.SOFT_404, "page: stands in") if page_excerpt.is_placeholder(page) else (StatusCode.FINE, "")


_ENDINGS = {
    RedirectEnding.ROOT: (StatusCode.TO_THE_ROOT, CheckVerdict.SUSPECT),
    RedirectEnding.ERROR_PAGE: (StatusCode.SOFT_404, CheckVerdict.SUSPECT),
    RedirectEnding.PARKED: (StatusCode.PARKED, CheckVerdict.SUSPECT),
    RedirectEnding.LOGIN: (StatusCode.LOGIN, CheckVerdict.REFUSED),
    RedirectEnding.CONSENT: (StatusCode.LOGIN, CheckVerdict.REFUSED),
}


def _fine(finding: CheckResult, trace: ProbeTrace) -> CheckResult:
    """Return the result of a good answer, with oddities of its redirects."""
    if trace.tls_fault:
        return replace(finding, code=StatusCode.CERTIFICATE, note=f"tls: {trace.tls_fault}")
    if not trace.hops or finding.code != StatusCode.FINE:
        return finding
    if trace.url.partition("://")[2] == trace.final.partition("://")[2]:
        return replace(finding, code=StatusCode.OTHER_SCHEME, note="scheme: led to the other one")
    moves = [hop for hop in trace.hops if hop.status in REDIRECTS]
    first = ([hop for hop in moves if hop.status in _PERMANENT] or moves)[:1]
    return replace(finding, code=code_of_http(first[0].status)) if first else finding


def _is_page(answer: HttpAnswer) -> bool:
    head = answer.head
    return head.mime in _PAGES and not head.first("content-disposition").startswith("attachment")
