"""What a chain of answers says of the URL that was asked for. Pure.

The order is the rule: a guard's answer says nothing of the page behind it, whatever its status; a host
that asks to be left alone has said nothing either; only then does the status count, and of what it
calls fine, redirects and the page's own words may still raise a suspicion.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core.formats import true_type
from core.http_dates import parse_retry_after
from core.sniffing import sniff
from links import status
from links.asking.challenges import guard
from links.asking.exchanges import Answer
from links.asking.pages import (
    Page,
    leads_on,
    page_of,
    refresh_to,
    says_not_found,
    says_parked,
    stands_in,
)
from links.asking.redirects import Ending, ending
from links.asking.troubles import SAYS, Trouble
from links.asking.ways import target_of
from links.false_status import plausible
from links.findings import Finding, Hop, How, Verdict
from links.status import Code

RETRY_LIMIT_S = 604_800.0  # what a host asks for beyond a week is a week
REDIRECTS = frozenset((301, 302, 303, 307, 308))
_PERMANENT = frozenset((301, 308))
_NOTE_BYTES = 300
_PAGES = frozenset(("", "text/html", "application/xhtml+xml"))


@dataclass(frozen=True, slots=True)
class Trace:
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
    how: How
    hops: tuple[Hop, ...] = ()
    answer: Answer | None = None
    trouble: Trouble | None = None
    detail: str = ""
    unfollowed: str = ""
    tls_fault: str = ""

    @property
    def final(self) -> str:
        """Where it ended."""
        return self.hops[-1].url if self.hops else self.url


def judge(trace: Trace, now: datetime) -> Finding:
    """What the trace says; `seconds` and `head_fails` are the prober's to add."""
    answer = trace.answer
    mime = ""
    if answer is not None:
        mime = answer.head.mime
        if answer.body:
            mime = true_type(sniff(answer.body), mime)
    finding = Finding(
        code=Code.NONE,
        verdict=Verdict.UNDECIDED,
        how=trace.how,
        http=answer.head.status if answer else None,
        final_url=trace.final if trace.hops else "",
        hops=trace.hops,
        mime=mime,
        length=answer.length if answer else None,
        tls_fault=trace.tls_fault,
    )
    if trace.trouble is not None:
        return _of_trouble(finding, trace, trace.trouble)
    assert answer is not None
    return _of_answer(finding, trace, answer, now)


def is_clear(trace: Trace, finding: Finding) -> bool:
    """Whether an answer to HEAD says enough, so that GET need not be asked (W42).

    It does when it is a success with type and length; when the host asked to be left alone; and when
    nobody was there to be asked anything.
    """
    if trace.trouble is not None:
        return not trace.hops and SAYS[trace.trouble].settled
    assert trace.answer is not None
    head = trace.answer.head
    if head.status == 429 or (head.status == 503 and finding.retry_after_s is not None):
        return True
    return finding.verdict is Verdict.OK and is_useful(trace)


def is_useful(trace: Trace) -> bool:
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


def refresh_of(trace: Trace) -> str:
    """Where the page that came leads on by itself, as it is written; empty when it does not."""
    answer = trace.answer
    if answer is None or not 200 <= answer.head.status < 300 or not _is_page(answer):
        return ""
    said = refresh_to(answer.head.first("refresh"))
    if said or b"refresh" not in answer.body[:32_768].lower():
        return said
    return leads_on(page_of(answer.body, answer.head.first("content-type")))


def _of_trouble(finding: Finding, trace: Trace, trouble: Trouble) -> Finding:
    says = SAYS[trouble]
    note = f"{trouble}: {trace.detail}" if trace.detail else str(trouble)
    # What lies on the way says nothing of the host that was asked for first.
    verdict = says.verdict
    if trace.hops and verdict is Verdict.INVALID:
        verdict = Verdict.SUSPECT
    return replace(
        finding,
        code=says.code,
        verdict=verdict,
        note=note,
        whole_host=says.whole_host and not trace.hops and _is_all_of_host(trouble, trace.url),
    )


def _is_all_of_host(trouble: Trouble, url: str) -> bool:
    """Whether a host that has this trouble there has it everywhere: a name has, a port need not."""
    target = target_of(url)
    return trouble.startswith("dns") or target.authority == target.host


def _of_answer(finding: Finding, trace: Trace, answer: Answer, now: datetime) -> Finding:
    head = answer.head
    by = guard(head, answer.body)
    wait = retry_after_s(head.first("retry-after"), now) if head.status >= 400 else None
    if by:
        return replace(
            finding,
            code=Code.CHALLENGE,
            verdict=Verdict.REFUSED,
            note=f"challenge: {by}",
            retry_after_s=wait,
        )
    if head.status == 429 or (head.status == 503 and wait is not None):
        return replace(
            finding,
            code=status.of_http(head.status),
            verdict=Verdict.UNDECIDED,
            note="answer: later",
            retry_after_s=wait,
        )
    if trace.unfollowed:
        return replace(
            finding,
            code=status.of_http(head.status),
            verdict=Verdict.SUSPECT,
            note=trace.unfollowed,
        )
    reading = plausible(head.status, head.mime, answer.length, answer.body)
    finding = replace(finding, code=reading.code, verdict=reading.verdict, note=reading.note)
    if reading.verdict is not Verdict.OK:
        return finding
    return _suspected(finding, trace, answer) or _fine(finding, trace)


def _suspected(finding: Finding, trace: Trace, answer: Answer) -> Finding | None:
    """The finding, when something about a good answer is not."""
    end = ending(trace.url, trace.final) if trace.hops else Ending.FINE
    if end is not Ending.FINE:
        code, verdict = _ENDINGS[end]
        return replace(finding, code=code, verdict=verdict, note=end.value)
    if trace.how is How.HEAD or answer.head.status != 200:
        return None
    if not _is_page(answer):
        code, note = _noted(trace, answer)
    else:
        code, note = _said(trace, answer) if answer.body else _unsaid(answer)
    return replace(finding, code=code, verdict=Verdict.SUSPECT, note=note) if note else None


def _said(trace: Trace, answer: Answer) -> tuple[Code, str]:
    """What the page says against itself; no note when it says nothing."""
    page = page_of(answer.body, answer.head.first("content-type"))
    if says_parked(page):
        return Code.PARKED, "page: parked"
    if says_not_found(page, trace.url):
        return Code.SOFT_404, "page: says not found"
    if stands_in(page):
        return Code.SOFT_404, "page: stands in"
    return Code.FINE, ""


def _noted(trace: Trace, answer: Answer) -> tuple[Code, str]:
    """What a short text says against itself: servers' own words, without a page around them."""
    text = answer.body[:_NOTE_BYTES].decode("utf-8", "replace").strip()
    is_note = answer.head.mime == "text/plain" and len(answer.body) < _NOTE_BYTES
    if is_note and says_not_found(Page(text, "", text, text), trace.url):
        return Code.SOFT_404, "page: says not found"
    return Code.FINE, ""


def _unsaid(answer: Answer) -> tuple[Code, str]:
    """What a page without a word means."""
    if answer.head.first("content-encoding") and answer.length != 0:
        return Code.FINE, ""  # a coding that we cannot undo, or a broken one: browsers know more
    if answer.whole:
        return Code.SOFT_404, "page: empty"
    return Code.BROKEN_OFF, "answer: broken off"


_ENDINGS = {
    Ending.ROOT: (Code.TO_THE_ROOT, Verdict.SUSPECT),
    Ending.ERROR_PAGE: (Code.SOFT_404, Verdict.SUSPECT),
    Ending.PARKED: (Code.PARKED, Verdict.SUSPECT),
    Ending.LOGIN: (Code.LOGIN, Verdict.REFUSED),
    Ending.CONSENT: (Code.LOGIN, Verdict.REFUSED),
}


def _fine(finding: Finding, trace: Trace) -> Finding:
    """A good answer, and what is odd about the way to it."""
    if trace.tls_fault:
        return replace(finding, code=Code.CERTIFICATE, note=f"tls: {trace.tls_fault}")
    if not trace.hops or finding.code != Code.FINE:
        return finding
    if _without_scheme(trace.url) == _without_scheme(trace.final):
        return replace(finding, code=Code.OTHER_SCHEME, note="scheme: led to the other one")
    moves = [hop for hop in trace.hops if hop.status in REDIRECTS]
    permanent = [hop for hop in moves if hop.status in _PERMANENT]
    first = (permanent or moves)[:1]
    return replace(finding, code=status.of_http(first[0].status)) if first else finding


def _is_page(answer: Answer) -> bool:
    head = answer.head
    return head.mime in _PAGES and not head.first("content-disposition").startswith("attachment")


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]
