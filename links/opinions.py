"""A browser's visit as a finding: the second opinion, without which no link is called dead.

A browser is let in where a checker is turned away, runs the page's scripts, and sees what it says
(`core.classes`): so it also tells a page that is gone from one that only has a bad status, and a
domain that was sold from a site.
"""

from dataclasses import dataclass

from core.classes import PageClass
from core.pages import Outcome
from links.findings import Finding, How, Verdict
from links.status import Code, of_http, verdict_of


@dataclass(frozen=True, slots=True)
class Seen:
    """What a visit's manifest says of the page.

    Attributes:
        url: what was asked for.
        final_url: where it ended.
        outcome: how the visit ended.
        reason: why it is not COMPLETE, a constant first; empty when it is.
        status: HTTP status of the final document; None when none came.
        mime: its bare media type.
        page_class: what sort of page it is.
        evidence: what speaks for that, a sentence each.
    """

    url: str
    final_url: str
    outcome: Outcome
    reason: str
    status: int | None
    mime: str = ""
    page_class: PageClass = PageClass.UNJUDGED
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Failure:
    code: Code
    verdict: Verdict
    whole_host: bool = False


# How a failed visit's reason begins (`proxy.ways_out`, or the browser's own words), and what that
# says of the site. Whatever is not here was no fault of the site's: the browser died, a rule refused.
_FAILURES = {
    "dns:": _Failure(Code.DNS_UNKNOWN, Verdict.FAILING, whole_host=True),
    "net::ERR_NAME_NOT_RESOLVED": _Failure(Code.DNS_UNKNOWN, Verdict.FAILING, whole_host=True),
    "connect:": _Failure(Code.NETWORK, Verdict.FAILING, whole_host=True),
    "tls:": _Failure(Code.TLS, Verdict.FAILING),
    "net::ERR_SSL": _Failure(Code.TLS, Verdict.FAILING),
    "net::ERR_ADDRESS_UNREACHABLE": _Failure(Code.NO_ROUTE, Verdict.FAILING, whole_host=True),
    "net::ERR_CONNECTION_REFUSED": _Failure(Code.REFUSED, Verdict.FAILING, whole_host=True),
    "net::ERR_CONNECTION_TIMED_OUT": _Failure(Code.TIMEOUT, Verdict.FAILING),
    "net::ERR_CONNECTION": _Failure(Code.BROKEN_OFF, Verdict.FAILING),
    "net::ERR_EMPTY_RESPONSE": _Failure(Code.BROKEN_OFF, Verdict.FAILING),
    "net::ERR_TIMED_OUT": _Failure(Code.TIMEOUT, Verdict.FAILING),
    "net::ERR_TOO_MANY_REDIRECTS": _Failure(Code.REDIRECTS, Verdict.FAILING),
    "redirect-loop": _Failure(Code.REDIRECTS, Verdict.FAILING),
    "net::ERR_INVALID": _Failure(Code.NO_HTTP, Verdict.FAILING),
    "net::ERR_RESPONSE": _Failure(Code.NO_HTTP, Verdict.FAILING),
    "net::ERR_CONTENT": _Failure(Code.NO_HTTP, Verdict.FAILING),
    "net::ERR_INCOMPLETE": _Failure(Code.BROKEN_OFF, Verdict.FAILING),
    "origin:": _Failure(Code.NO_HTTP, Verdict.FAILING),
    "deadline": _Failure(Code.TIMEOUT, Verdict.FAILING),
}
_CLASSES = {
    PageClass.SOFT_404: (Code.SOFT_404, Verdict.GONE),
    PageClass.PARKED: (Code.PARKED, Verdict.USURPED),
    PageClass.CHALLENGE: (Code.CHALLENGE, Verdict.REFUSED),
    PageClass.LOGIN_WALL: (Code.LOGIN, Verdict.REFUSED),
    # A page whose scripts found nothing to show: not the page, and nothing against it.
    PageClass.NEAR_EMPTY: (Code.NOT_RENDERED, Verdict.UNDECIDED),
}
# Who speaks there is not the site: a 404 of theirs says nothing of the page.
_OTHERS = frozenset({PageClass.CHALLENGE, PageClass.PARKED})
_NO_OPINION = _Failure(Code.NONE, Verdict.UNDECIDED)


def finding_of(seen: Seen) -> Finding:
    """What the browser's visit says of the link.

    A visit that a rule forbade, or that failed by our own fault, is UNDECIDED: no opinion.
    """
    final_url = seen.final_url if seen.final_url != seen.url else ""
    if seen.outcome is Outcome.SKIPPED or (seen.outcome is Outcome.FAILED and seen.status is None):
        failure = _failure(seen)
        return Finding(
            code=failure.code,
            verdict=failure.verdict,
            how=How.BROWSER,
            final_url=final_url,
            note=f"browser: {seen.reason}",
            whole_host=failure.whole_host,
        )
    code, verdict, note = _page(seen)
    return Finding(
        code=code,
        verdict=verdict,
        how=How.BROWSER,
        http=seen.status,
        final_url=final_url,
        note=note,
        mime=seen.mime,
    )


def _page(seen: Seen) -> tuple[Code, Verdict, str]:
    status = seen.status if seen.status is not None else 200  # a document that a script wrote
    code, verdict = of_http(status), verdict_of(of_http(status))
    evidence = "; ".join(seen.evidence[:2])
    note = f"{seen.page_class}: {evidence}" if evidence else ""
    if verdict is Verdict.GONE and seen.page_class not in _OTHERS:
        return code, verdict, note
    judged = _CLASSES.get(seen.page_class)
    if judged is None or (status >= 400 and seen.page_class is PageClass.NEAR_EMPTY):
        return code, verdict, note
    return *judged, note or str(seen.page_class)


def _failure(seen: Seen) -> _Failure:
    if seen.outcome is Outcome.SKIPPED:
        return _NO_OPINION
    found = [each for each in _FAILURES if seen.reason.startswith(each)]
    return _FAILURES[max(found, key=len)] if found else _NO_OPINION
