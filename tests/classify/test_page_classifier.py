"""Page classes, judged from facts alone."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classify.evidence import PageEvidence, PageTraits, normalize_text, prose
from classify.page_classifier import SURE, classify
from classify.source_traits import read_traits
from core.page_classes import GOOD, PageClass, class_rank, parse_page_class
from tests.support.labelled_pictures import LABELLED, QUOTES, LabelledPage, article, page

URL = "https://site.example/2021/05/a-story.html"


@pytest.mark.parametrize("labelled", LABELLED, ids=lambda each: f"{each.kind}: {each.name}")
def test_a_labelled_page_is_of_its_class(labelled: LabelledPage) -> None:
    """Each with evidence and some certainty; a page that is ok needs none."""
    classification = classify(labelled.evidence)

    assert (classification.kind, classification.evidence) == (labelled.kind, classification.evidence)
    assert (classification.evidence == ()) == (classification.kind is PageClass.OK)
    assert classification.kind is PageClass.OK or SURE <= classification.score <= 1.0


def test_the_labelled_pages_have_every_class() -> None:
    """Half of them are ordinary, or nearly."""
    kinds = Counter(each.kind for each in LABELLED)

    assert set(kinds) == set(PageClass) - {PageClass.UNJUDGED}
    assert len({(each.kind, each.name) for each in LABELLED}) == len(LABELLED)
    assert kinds[PageClass.OK] >= 30


@pytest.mark.parametrize(
    "labelled",
    [each for each in LABELLED if each.kind not in GOOD and each.status < 400 and "<h1>" in each.html],
    ids=lambda each: f"{each.kind}: {each.name}",
)
def test_what_walls_say_is_no_wall_in_an_article(labelled: LabelledPage) -> None:
    """The same words and the same title with a long text between them are a page."""
    title = labelled.evidence.title
    traits = read_traits(article(title, labelled.html + QUOTES))
    page = PageEvidence(URL, URL, 200, {}, "text/html", title, (), traits)

    assert classify(page).kind in GOOD or any("default pages" in s for s in classify(page).evidence)


def test_an_errors_status_is_named() -> None:
    """The evidence says what came."""
    classification = classify(PageEvidence(URL, URL, 451, {}, "text/html", "", (), PageTraits(text="x" * 500)))

    assert classification.kind is PageClass.HTTP_ERROR
    assert classification.evidence == ("The document came with status 451.",)


def test_what_could_not_be_looked_at_is_not_judged() -> None:
    """Neither a page that never came nor one that hung; a header may still say what it is."""
    assert classify(PageEvidence(URL, URL, None)).kind is PageClass.UNJUDGED
    assert classify(PageEvidence(URL, URL, 200)).kind is PageClass.UNJUDGED
    page = PageEvidence(URL, URL, 200, {"cf-mitigated": "challenge"})
    assert classify(page).kind is PageClass.CHALLENGE


def test_without_a_browser_no_page_is_called_empty() -> None:
    """A script would have filled it."""
    shell = PageEvidence(URL, URL, 200, traits=read_traits(page("App", "<div id=root></div>")))

    assert classify(shell).kind is PageClass.NEAR_EMPTY
    assert classify(replace(shell, is_rendered=False)).kind is PageClass.OK


@given(st.text(max_size=300), st.text(max_size=300), st.sampled_from((None, 200, 403, 503)))
def test_whatever_a_page_says_it_is_judged(title: str, html: str, status: int | None) -> None:
    """Nothing is raised, and the score is a share."""
    known = PageEvidence(title, html, status, {"server": html}, "text/html", title, (html,), read_traits(html))
    classification = classify(known)

    assert 0.0 <= classification.score <= 1.0
    assert len(classification.evidence) <= 5
    assert all(len(each) <= 200 for each in classification.evidence)


@pytest.mark.parametrize("unit", ["page ", "page was not ", "the domain ", "cookie ", "a" * 79 + ".\n"])
def test_a_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    """Only its beginning is read, and in one pass: a long one is judged like a short one."""
    long = PageEvidence(URL, URL, 200, traits=PageTraits(text=unit * 1_000_000 if len(unit) < 20 else unit * 9))

    assert classify(long).kind in PageClass


def test_prose_is_what_has_sentences() -> None:
    """Menus, tables and headings are none; dense writings need fewer characters."""
    menu = " ".join(f"Topic {n}" for n in range(40))

    assert prose(menu) == 0
    assert prose("A short sentence.") == 0
    assert (
        prose("She said that it was late, and that the bread would be baked tomorrow, as she always had said before.")
        > 70
    )
    assert prose("谷のパン職人たちは二百年前からこの春も集まり、小麦粉や薪の値段について話し合った。") > 80


def test_quotes_and_spaces_are_made_alike() -> None:
    """Typographic quotes, ellipses and white space become ASCII; case is folded."""
    assert normalize_text("Can\u2019t\u00a0\n find\u2026") == "can't find..."


def test_good_goes_before_everything_and_a_challenge_after() -> None:
    """An unjudged capture is ranked by its status; a class that this version does not know is the worst."""
    ranks = {each: class_rank(each) for each in PageClass}

    assert {each for each, number in ranks.items() if number == 0} == GOOD
    assert max(ranks, key=lambda each: ranks[each]) is PageClass.CHALLENGE
    assert class_rank("", 404) == class_rank("http-error") > class_rank("", 200) == 0
    assert class_rank("from tomorrow") == class_rank("challenge")
    assert parse_page_class("from tomorrow") is PageClass.UNJUDGED
