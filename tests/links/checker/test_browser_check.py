"""Comparison of a page with its copy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.browser_check import (
    DriftEvidence,
    PageText,
    VisitSummary,
    compare_with_copy,
    hijack_words,
    page_likeness,
    result_of_visit,
)
from tests.support.examples import examples

ARTICLE = (
    "The lighthouse on the northern cape was built in 1871 after three ships had been lost in one "
    "winter. Its lamp burned whale oil until 1902, when the first electric line reached the village. "
    "Keepers lived there with their families and kept a log of every vessel that passed, which is "
    "now in the county's archive and may be read on Thursdays."
)
OTHER = (
    "Our office helps companies of every size to plan their taxes. We offer consultations by "
    "telephone, and our team of experts has more than thirty years of experience in the field. "
    "Contact us today for an appointment and receive the first hour of advice free of charge."
)
GAMBLING = (
    "Daftar situs slot gacor hari ini dengan RTP live tertinggi. Link alternatif resmi, slot deposit "
    "pulsa tanpa potongan, jackpot dan maxwin setiap hari. Bandar togel terpercaya, judi bola online "
    "dan live casino dengan bonus member baru."
)
FOUND = CheckResult(1, CheckVerdict.OK, CheckMethod.BROWSER)


def face(text: str, title: str = "") -> PageText:
    return PageText(title, text)


@pytest.mark.parametrize(
    ("then", "now", "verdict"),
    [
        (face(ARTICLE, "Cape"), face(ARTICLE, "Cape"), CheckVerdict.OK),
        (face(ARTICLE), face("Menu Home News " + ARTICLE + " Share this Comments (12)"), CheckVerdict.OK),
        (face(ARTICLE), face(ARTICLE.upper().replace(".", " ·")), CheckVerdict.OK),
        (face(ARTICLE, "Daily Post"), face(OTHER, "Daily Post - News"), CheckVerdict.OK),
        (face(ARTICLE, "The cape's lighthouse"), face(OTHER, "Tax advice"), CheckVerdict.DEVIATED),
        (face(ARTICLE, "Cape"), face("", ""), CheckVerdict.DEVIATED),
        (face(ARTICLE, "Cape"), face(GAMBLING, "SLOT GACOR maxwin"), CheckVerdict.USURPED),
        (face(ARTICLE, "Cape"), face(GAMBLING, "Cape"), CheckVerdict.USURPED),
        (face(GAMBLING, "Slot gacor"), face(GAMBLING, "Slot gacor"), CheckVerdict.OK),
        (face(GAMBLING, "Slot gacor"), face(OTHER, "Tax"), CheckVerdict.DEVIATED),
        (face(ARTICLE), face(ARTICLE + " " + GAMBLING), CheckVerdict.OK),
        (face("Too short"), face(OTHER), CheckVerdict.OK),
        (face(""), face(""), CheckVerdict.OK),
        (
            face(ARTICLE, "Cape"),
            face("cape.example: buy this domain. This domain is for sale, make an offer today."),
            CheckVerdict.USURPED,
        ),
    ],
    ids=[
        *("same", "new-frame", "other-signs", "front-page", "other-page", "empty-now"),
        *("gambling", "gambling-under-the-old-title", "always-gambling", "gambling-gone"),
        *("spam-in-comments", "too-short", "both-empty", "for-sale"),
    ],
)
def test_a_page_is_held_against_its_copy(then: PageText, now: PageText, verdict: CheckVerdict) -> None:
    """The same words are the same page; another owner's words are told from another page's."""
    finding, _ = compare_with_copy(FOUND, then, now)

    assert finding.verdict is verdict


def test_text_without_spaces_is_compared_too() -> None:
    """Chinese, Japanese and Thai set none between words."""
    then = "灯台は一八七一年に三隻の船が一冬に失われた後に建てられ一九〇二年まで鯨油で灯りをともした"
    changed = "当社はあらゆる規模の企業の税務計画を支援し三十年以上の経験を持つ専門家が電話で相談に応じます"

    assert page_likeness(face(then), face(then + "お知らせ")).text == 1.0
    assert page_likeness(face(then), face(changed)).verdict is CheckVerdict.DEVIATED
    assert page_likeness(face(then), face("線上百家乐老虎机開戶娱乐城博彩網站")).verdict is CheckVerdict.USURPED


@pytest.mark.parametrize("verdict", [each for each in CheckVerdict if each is not CheckVerdict.OK])
def test_only_a_good_answer_is_compared(verdict: CheckVerdict) -> None:
    """An error page differs from the copy, and that is not the site's new content."""
    finding = CheckResult(18, verdict, CheckMethod.BROWSER)

    assert compare_with_copy(finding, face(ARTICLE), face(OTHER))[0] is finding


@pytest.mark.parametrize(
    ("then", "now", "evidence", "verdict"),
    [
        (face(ARTICLE, "Cape"), face(OTHER, "Tax"), DriftEvidence(0.2, 0.3), CheckVerdict.DEVIATED),
        (face(ARTICLE, "Cape"), face(OTHER, "Tax"), DriftEvidence(None, None), CheckVerdict.DEVIATED),
        (face(ARTICLE, "Cape"), face(OTHER, "Tax"), DriftEvidence(0.6, 0.3), CheckVerdict.OK),
        (face(ARTICLE, "Cape"), face(OTHER, "Tax"), DriftEvidence(0.1, 0.95), CheckVerdict.OK),
        (face("Map", "Cape"), face("Plan", "Tax"), DriftEvidence(0.0, 0.1), CheckVerdict.DEVIATED),
        (face("Map", "Cape"), face("Plan", "Tax"), DriftEvidence(0.0, 0.5), CheckVerdict.OK),
        (face("Map", "Cape"), face("Plan", "Tax"), DriftEvidence(0.0, None), CheckVerdict.OK),
        (face("Map", "Cape"), face("Plan", "Cape"), DriftEvidence(0.0, 0.0), CheckVerdict.OK),
        (face("Map"), face("Plan", "Tax"), DriftEvidence(0.0, 0.0), CheckVerdict.OK),
        (face(ARTICLE, "Cape"), face(GAMBLING, "Slot"), DriftEvidence(0.9, 0.95), CheckVerdict.USURPED),
    ],
    ids=[
        *("nothing-speaks-for-it", "nobody-compared", "sorted-anew", "looks-the-same"),
        *("another-map", "a-map-with-changes", "no-pictures", "same-title", "no-title"),
        "an-owner-in-the-old-clothes",
    ],
)
def test_other_evidence_settles_what_runs_of_words_do_not(
    then: PageText, now: PageText, evidence: DriftEvidence, verdict: CheckVerdict
) -> None:
    """Words in any order and pictures clear a page, or accuse one with few words."""
    assert compare_with_copy(FOUND, then, now, ask=lambda: evidence)[0].verdict is verdict


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (face(ARTICLE, "Cape"), face(ARTICLE, "Tax")),
        (face(ARTICLE, "Cape"), face(OTHER, "Cape")),
        (face(ARTICLE, "Cape"), face(GAMBLING, "Slot")),
        (face("Map"), face("Plan")),
    ],
)
def test_evidence_is_not_asked_for_where_it_would_change_nothing(then: PageText, now: PageText) -> None:
    """Pictures cost a hundred times as much as words."""

    def ask() -> DriftEvidence:
        raise AssertionError("asked")

    compare_with_copy(FOUND, then, now, ask=ask)


def test_one_word_is_no_usurper() -> None:
    """An article may speak of a jackpot."""
    assert hijack_words(face("He won the jackpot, twice the jackpot")) == ("jackpot",)
    assert page_likeness(face(ARTICLE), face("He won the jackpot")).usurper_words == ()


@settings(max_examples=examples(30))
@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=30), st.text(max_size=30))
def test_any_texts_can_be_compared(one: str, other: str, title: str, name: str) -> None:
    """And a page is always like itself."""
    likeness = page_likeness(PageText(title, one), PageText(name, other))

    assert likeness.text is None or 0 <= likeness.text <= 1
    assert page_likeness(PageText(title, one), PageText(title, one)).verdict is CheckVerdict.OK


VISITED = "https://example.com/page"


def seen(
    outcome: VisitOutcome = VisitOutcome.COMPLETE,
    reason: str = "",
    status: int | None = 200,
    page_class: PageClass = PageClass.OK,
) -> VisitSummary:
    return VisitSummary(VISITED, VISITED, outcome, reason, status, "text/html", page_class, ("It says so.",))


@pytest.mark.parametrize(
    ("status", "page_class", "code", "verdict"),
    [
        (200, PageClass.OK, StatusCode.FINE, CheckVerdict.OK),
        (200, PageClass.UNJUDGED, StatusCode.FINE, CheckVerdict.OK),
        (200, PageClass.CONSENT_WALL, StatusCode.FINE, CheckVerdict.OK),
        (200, PageClass.SOFT_404, StatusCode.SOFT_404, CheckVerdict.GONE),
        (200, PageClass.PARKED, StatusCode.PARKED, CheckVerdict.USURPED),
        (404, PageClass.PARKED, StatusCode.PARKED, CheckVerdict.USURPED),
        (200, PageClass.CHALLENGE, StatusCode.CHALLENGE, CheckVerdict.REFUSED),
        (403, PageClass.CHALLENGE, StatusCode.CHALLENGE, CheckVerdict.REFUSED),
        (404, PageClass.CHALLENGE, StatusCode.CHALLENGE, CheckVerdict.REFUSED),
        (200, PageClass.LOGIN_WALL, StatusCode.LOGIN, CheckVerdict.REFUSED),
        (200, PageClass.NEAR_EMPTY, StatusCode.NOT_RENDERED, CheckVerdict.UNDECIDED),
        (404, PageClass.HTTP_ERROR, StatusCode.NOT_FOUND, CheckVerdict.GONE),
        (404, PageClass.NEAR_EMPTY, StatusCode.NOT_FOUND, CheckVerdict.GONE),
        (410, PageClass.SOFT_404, StatusCode.GONE, CheckVerdict.GONE),
        (403, PageClass.HTTP_ERROR, StatusCode.NO_ACCESS, CheckVerdict.REFUSED),
        (500, PageClass.HTTP_ERROR, StatusCode.BAD_REQUEST, CheckVerdict.FAILING),
        (500, PageClass.NEAR_EMPTY, StatusCode.BAD_REQUEST, CheckVerdict.FAILING),
        (502, PageClass.HTTP_ERROR, StatusCode.BAD_GATEWAY, CheckVerdict.FAILING),
        (None, PageClass.OK, StatusCode.FINE, CheckVerdict.OK),
    ],
)
def test_what_the_browser_saw_is_a_verdict(
    status: int | None, page_class: PageClass, code: StatusCode, verdict: CheckVerdict
) -> None:
    """The page's sort goes before its status, where another than the site does not speak."""
    finding = result_of_visit(seen(status=status, page_class=page_class))

    assert (finding.code, finding.verdict, finding.how) == (code, verdict, CheckMethod.BROWSER)


@pytest.mark.parametrize(
    ("reason", "verdict", "whole_host"),
    [
        ("dns: example.com does not resolve", CheckVerdict.FAILING, True),
        ("connect: example.com takes no connection", CheckVerdict.FAILING, True),
        ("tls: handshake failure", CheckVerdict.UNDECIDED, False),  # the recorder's, not a browser's
        ("disconnected: closed", CheckVerdict.UNDECIDED, False),
        ("timeout", CheckVerdict.UNDECIDED, False),
        ("net::ERR_CONNECTION_REFUSED", CheckVerdict.FAILING, True),
        ("net::ERR_CONNECTION_RESET", CheckVerdict.FAILING, False),
        ("net::ERR_SSL_PROTOCOL_ERROR", CheckVerdict.FAILING, False),
        ("net::ERR_TOO_MANY_REDIRECTS", CheckVerdict.FAILING, False),
        ("deadline: navigate", CheckVerdict.FAILING, False),
        ("net::ERR_ABORTED", CheckVerdict.UNDECIDED, False),
        ("browser-gone: the browser died", CheckVerdict.UNDECIDED, False),
        ("address: example.com is at 10.0.0.1", CheckVerdict.UNDECIDED, False),
        ("", CheckVerdict.UNDECIDED, False),
    ],
)
def test_a_visit_that_failed_tells_whose_fault_it_was(reason: str, verdict: CheckVerdict, whole_host: bool) -> None:
    """The site's failures count; ours, and what our rules forbid, are no opinion."""
    finding = result_of_visit(seen(VisitOutcome.FAILED, reason, None, PageClass.UNJUDGED))

    assert (finding.verdict, finding.whole_host) == (verdict, whole_host)
    assert finding.note == f"browser: {reason}"


def test_a_page_that_was_not_visited_is_no_opinion() -> None:
    """Robots, a list or a person forbade it."""
    finding = result_of_visit(seen(VisitOutcome.SKIPPED, "robots: disallowed", None, PageClass.UNJUDGED))

    assert finding.verdict is CheckVerdict.UNDECIDED


def test_what_came_before_the_deadline_counts() -> None:
    """A page that is partial was there."""
    assert result_of_visit(seen(VisitOutcome.PARTIAL, "deadline: settle")).verdict is CheckVerdict.OK
