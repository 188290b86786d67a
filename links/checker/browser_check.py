"""Check results from browser visits: page class, and drift from the archived copy.

Two texts are compared by runs of three words: the share of the copy's runs that is still there. Titles are
compared separately, as a front page changes daily and keeps its title. Short texts are not judged.

    the same title, or a quarter of the copy's runs of words                 ─> OK
    neither, and no other evidence for the page                              ─> DEVIATED
    … and the page now has the typical words of domain grabbers              ─> USURPED

Other evidence (`DriftEvidence`) is computed only where runs of words are inconclusive. Usurpers have several
words of ``usurpers.toml`` where the copy had none.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode, code_of_http, verdict_of


@dataclass(frozen=True, slots=True)
class VisitSummary:
    """Facts about the page from a visit's manifest."""

    url: str  # the requested URL
    final_url: str
    outcome: VisitOutcome
    reason: str  # reason that it is not COMPLETE, a constant first; empty when it is
    status: int | None  # HTTP status of the final document; None without one
    mime: str = ""  # its bare media type
    page_class: PageClass = PageClass.UNJUDGED
    evidence: tuple[str, ...] = ()  # evidence for the class, a sentence each


# How a failed visit's reason begins (`net.connect_errors`, or the browser's own words), by what that says of the site.
# Other reasons are not the site's fault: the browser crashed, a rule refused.
_REASONS = {
    StatusCode.DNS_UNKNOWN: "dns: net::ERR_NAME_NOT_RESOLVED",
    StatusCode.NETWORK: "connect:",
    StatusCode.TLS: "net::ERR_SSL",
    StatusCode.NO_ROUTE: "net::ERR_ADDRESS_UNREACHABLE",
    StatusCode.REFUSED: "net::ERR_CONNECTION_REFUSED",
    StatusCode.TIMEOUT: "net::ERR_CONNECTION_TIMED_OUT net::ERR_TIMED_OUT deadline timeout",
    StatusCode.BROKEN_OFF: "net::ERR_CONNECTION net::ERR_EMPTY_RESPONSE net::ERR_INCOMPLETE disconnected:",
    StatusCode.REDIRECTS: "net::ERR_TOO_MANY_REDIRECTS redirect-loop",
    StatusCode.NO_HTTP: "net::ERR_INVALID net::ERR_RESPONSE net::ERR_CONTENT origin: malformed:",
}
_FAILURES = {beginning: code for code, beginnings in _REASONS.items() for beginning in beginnings.split()}
_OF_ALL_URLS = frozenset({StatusCode.DNS_UNKNOWN, StatusCode.NETWORK, StatusCode.NO_ROUTE, StatusCode.REFUSED})
# Of an https page these end the recorder's connections, not the browser's own.
_RECORDERS = ("tls:", "timeout", "disconnected:", "malformed:")
_CLASSES = {
    PageClass.SOFT_404: (StatusCode.SOFT_404, CheckVerdict.GONE),
    PageClass.PARKED: (StatusCode.PARKED, CheckVerdict.USURPED),
    PageClass.CHALLENGE: (StatusCode.CHALLENGE, CheckVerdict.REFUSED),
    PageClass.LOGIN_WALL: (StatusCode.LOGIN, CheckVerdict.REFUSED),
    # A page whose scripts had nothing to show: neither the page nor evidence against it.
    PageClass.NEAR_EMPTY: (StatusCode.NOT_RENDERED, CheckVerdict.UNDECIDED),
}
# The answer is not the site's: its 404 is no evidence about the page.
_OTHERS = frozenset({PageClass.CHALLENGE, PageClass.PARKED})


def result_of_visit(visit: VisitSummary) -> CheckResult:
    """Convert a visit to a check result; UNDECIDED for one ended by a rule, our error, or the recorder's TLS."""
    final_url = visit.final_url if visit.final_url != visit.url else ""
    is_skipped = visit.outcome is VisitOutcome.SKIPPED
    if is_skipped or (visit.outcome is VisitOutcome.FAILED and visit.status is None):
        is_recorders = (final_url or visit.url).startswith("https:") and visit.reason.startswith(_RECORDERS)
        prefixes = [] if is_skipped or is_recorders else [each for each in _FAILURES if visit.reason.startswith(each)]
        failure = _FAILURES[max(prefixes, key=len)] if prefixes else StatusCode.NONE
        return CheckResult(
            code=failure,
            verdict=CheckVerdict.FAILING if prefixes else CheckVerdict.UNDECIDED,
            how=CheckMethod.BROWSER,
            final_url=final_url,
            note=f"browser: {visit.reason}",
            whole_host=failure in _OF_ALL_URLS,
        )
    status = visit.status if visit.status is not None else 200  # a document that a script wrote
    code, verdict = code_of_http(status), verdict_of(code_of_http(status))
    evidence = "; ".join(visit.evidence[:2])
    note = f"{visit.page_class}: {evidence}" if evidence else ""
    judged = _CLASSES.get(visit.page_class)
    is_decided_by_status = (verdict is CheckVerdict.GONE and visit.page_class not in _OTHERS) or (
        status >= 400 and visit.page_class is PageClass.NEAR_EMPTY
    )
    if judged is not None and not is_decided_by_status:
        code, verdict = judged
        note = note or str(visit.page_class)
    return CheckResult(
        *(code, verdict, CheckMethod.BROWSER), http=visit.status, final_url=final_url, note=note, mime=visit.mime
    )


RUN_WORDS = 3
FEW_RUNS = 20  # a copy with fewer is not compared
STILL_THERE = 0.25  # of the copy's runs; a page that was redesigned keeps more of its text
SAME_TITLE = 0.6
SAME_WORDS = 0.5  # of the copy's, in any order; another page of the same site has less than 0.4
SAME_LOOK = 0.9  # of the content of the copy's picture
OTHER_LOOK = 0.2
USURPERS_WORDS = 3  # different ones, in the title and the first words
WORDS_LOOKED_AT = 2_000
_TEXT_LIMIT_CHARS = 500_000
_WORD = re.compile(r"[^\W_]+")
# Scripts that set no spaces between words: each character counts as one.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class PageText:
    """Title and visible text of a page."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class DriftEvidence:
    """Further comparisons of page and copy; None: not computed."""

    words: float | None = None  # share of the copy's words that is there, in any order, from 0 to 1
    picture: float | None = None  # share of the copy's picture content that is there, from 0 to 1

    @property
    def is_for(self) -> bool:
        """Return True when it shows that this is still the page."""
        return (self.words or 0.0) >= SAME_WORDS or (self.picture or 0.0) >= SAME_LOOK

    @property
    def is_against(self) -> bool:
        """Return True when it shows that this is another page."""
        return not self.is_for and self.picture is not None and self.picture < OTHER_LOOK


@dataclass(frozen=True, slots=True)
class PageLikeness:
    """Similarity of a page and its copy."""

    text: float | None  # share of the copy's runs of words, from 0 to 1; None: too few of them
    title: float | None  # share of both titles' words, from 0 to 1; None when one has no title
    usurper_words: tuple[str, ...] = ()  # listed words that indicate a new owner; empty without any
    evidence: DriftEvidence = DriftEvidence()  # further comparisons

    @property
    def percent(self) -> int | None:
        """Return the text's similarity in percent, as stored in the registry."""
        return None if self.text is None else round(100 * self.text)

    @property
    def verdict(self) -> CheckVerdict:
        """Return the resulting verdict."""
        if self.usurper_words:
            return CheckVerdict.USURPED
        if (self.title or 0.0) >= SAME_TITLE:
            return CheckVerdict.OK
        if self.text is None:
            # Without two titles only the picture is evidence, and a picture may change daily.
            return CheckVerdict.DEVIATED if self.title is not None and self.evidence.is_against else CheckVerdict.OK
        return CheckVerdict.OK if self.text >= STILL_THERE or self.evidence.is_for else CheckVerdict.DEVIATED

    @property
    def is_settled(self) -> bool:
        """Return True when no other evidence could change the verdict."""
        if self.usurper_words or (self.title or 0.0) >= SAME_TITLE:
            return True
        return self.title is None if self.text is None else self.text >= STILL_THERE


def page_likeness(then: PageText, now: PageText) -> PageLikeness:
    """Compute the share of the copied page that is in the current page."""
    before, after = _words(then.text), _words(now.text)
    old, new = set(_runs(before)), set(_runs(after))
    text = len(old & new) / len(old) if len(old) >= FEW_RUNS else None
    words = hijack_words(now)
    mine = words if len(words) >= USURPERS_WORDS and not hijack_words(then) else ()
    if mine and text is not None and text >= STILL_THERE:
        mine = ()  # an article about gambling, or a comment under the page
    was, is_now = set(_words(then.title)), set(_words(now.title))
    title = len(was & is_now) / len(was | is_now) if was and is_now else None
    return PageLikeness(text, title, mine)


def compare_with_copy(
    finding: CheckResult, then: PageText, now: PageText, *, ask: Callable[[], DriftEvidence] = DriftEvidence
) -> tuple[CheckResult, PageLikeness]:
    """Compare a good result with the copy: unchanged, DEVIATED, or USURPED; `ask` where inconclusive."""
    likeness = page_likeness(then, now)
    if finding.verdict is not CheckVerdict.OK:
        return finding, likeness
    if not likeness.is_settled:
        likeness = replace(likeness, evidence=ask())
    finding = replace(finding, similarity=likeness.percent)
    if likeness.verdict is CheckVerdict.OK:
        return finding, likeness
    if likeness.usurper_words:
        note = f"usurped: {', '.join(likeness.usurper_words[:5])}"
    elif likeness.text is None:
        note = "deviated: another picture and another title"
    else:
        note = f"deviated: {likeness.percent} % of the copy's text"
    code = StatusCode.PARKED if likeness.usurper_words else StatusCode.OTHER_CONTENT
    return replace(finding, code=code, verdict=likeness.verdict, note=note), likeness


def hijack_words(face: PageText) -> tuple[str, ...]:
    """Return the words of `usurpers.toml` in the title and the first words, each once, in order."""
    start = " ".join(_words(face.title) + _words(face.text[:_TEXT_LIMIT_CHARS])[:WORDS_LOOKED_AT])
    return tuple(dict.fromkeys(match[0] for match in _hijack_expression().finditer(start)))


@cache
def _hijack_expression() -> re.Pattern[str]:
    """Compile all words and phrases of the list, the longest first, for normalized text."""
    lists = tomllib.loads(files("links.checker").joinpath("usurpers.toml").read_text("utf-8"))
    spelled = {" ".join(_words(phrase)) for each in lists.values() for phrase in each}
    longest_first = sorted(spelled, key=lambda phrase: (-len(phrase), phrase))
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")


def _words(text: str) -> list[str]:
    spaced = _UNSPACED.sub(lambda match: f" {match[0]} ", text[:_TEXT_LIMIT_CHARS].casefold())
    return _WORD.findall(spaced)


def _runs(words: list[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN_WORDS)), strict=False)
