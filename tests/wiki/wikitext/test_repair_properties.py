"""Properties of every page and every remedy: nothing else changes, and once is enough."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadUrlError
from core.urls import identity_key
from tests.support.examples import examples
from tests.support.sites.articles import articles
from tests.support.sites.docs import library
from tests.wiki.wikitext.mending import OPTIONS, STAMP, address, read
from wiki.wikitext.citation_model import (
    ArchivedCopy,
    Citation,
    CitationForm,
    LinkCondition,
    LinkRemedy,
    NoRepairReason,
    RepairedText,
)
from wiki.wikitext.page_repair import repair_page
from wiki.wikitext.template_map import TemplateRules, rules_for

pytestmark = pytest.mark.slow

URLS = [f"http://x.test/{name}" for name in "abcdef"] + ["https://y.test/p?q=1&r=2#s", "http://z.test/a(b)"]
GAP = st.sampled_from(["", " ", "\n", "\n  "])
URL = st.one_of(
    st.sampled_from(URLS),
    st.sampled_from(URLS).map(lambda url: address(url, "20130405060708").replace("https", "http")),
)
DATE = st.sampled_from(
    ["", "2014-03-05", "5 March 2014", "March 5, 2014", "5. März 2014", "05.03.2014", "May", "<!-- ? -->"]
)
ARCHIVE = st.one_of(st.just(""), URL, st.sampled_from(URLS).map(address), st.just("<!-- none -->"), st.just("{{x}}"))
STATUS = st.sampled_from(["", "live", "dead", "usurped", "unfit", "yes", "no", "1", "ja", "deviated"])
TEXT = st.text("ab ,.\n'[]{}|<>=*#é", max_size=12)
TITLE = st.sampled_from(["T", "", "A [[B]] | ''C''", "}} {{evil}}", "404", "العنوان \u202e", "~~~~ <b>"])


def _parameter(names: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.tuples(
        GAP, st.sampled_from(["", " "]), st.sampled_from(names), st.sampled_from(["=", " = ", "= "]), values
    )
    return parts.map(lambda p: f"{p[0]}|{p[1]}{p[2]}{p[3]}{p[4]}")


PARAMETERS = st.one_of(
    _parameter(
        ["title", "titel", "publisher", "x"], st.sampled_from(["T", "", "{{nowrap|a|b=c}}", "[[a|b]]", "a<!-- | -->b"])
    ),
    _parameter(["access-date", "accessdate", "abruf"], DATE),
    _parameter(["archive-url", "archiveurl", "archiv-url"], ARCHIVE),
    _parameter(["archive-date", "archivedate", "archiv-datum"], DATE),
    _parameter(["url-status", "deadurl", "offline"], STATUS),
    _parameter(["chapter-url", "url"], URL),
)
CITATION = st.tuples(
    st.sampled_from(["cite web", "Cite_news", "Internetquelle", "citation", "Literatur", "Cite book"]),
    st.lists(PARAMETERS, max_size=5),
    _parameter(["url", "URL"], URL),
    st.lists(PARAMETERS, max_size=3),
    GAP,
).map(lambda p: f"{{{{{p[0]}{''.join(p[1])}{p[2]}{''.join(p[3])}{p[4]}}}}}")
LINK = st.one_of(
    URL,
    st.tuples(URL, st.sampled_from(["", " T", " ''T''", " a {{b}}"])).map(lambda p: f"[{p[0]}{p[1]}]"),
    st.sampled_from(URLS).map(lambda url: f"{{{{Official website|{url}}}}}"),
    st.sampled_from(URLS).map(lambda url: f"{{{{webarchive|url={address(url)}|date=2015}}}}"),
    st.sampled_from(URLS).map(lambda url: f"{{{{wayback|url={url}|date=20150102030405}}}}"),
    st.sampled_from(URLS).map(lambda url: f"{{{{Infobox|site={url}|a=[{url} x]}}}}"),
)
TAG = st.sampled_from(
    ["", "", " {{dead link|date=May 2019}}", "{{Toter Link|url=http://x.test/a}}", " {{cbignore}}"]
    + [f" {{{{webarchive|url={address(url)}|date=2015-01-02}}}}" for url in URLS[:2]]
)
PIECE = st.tuples(st.one_of(CITATION, LINK), TAG).map("".join)
RUNNING = st.sampled_from(
    [
        "{}",
        " {} ",
        "<ref>{}</ref>",
        '<ref name="a">{}, p. 4.</ref>',
        "* {}\n",
        "{{{{Infobox|a=<ref>{}</ref>}}}}",
        "{{|\n| {} || x\n|}}\n",
        "[[File:A.png|thumb|{}]]",
    ]
)
ODD = st.sampled_from(
    ["== {} ==\n", "<!-- {} -->", "<nowiki>{}</nowiki>", "{{{{Infobox|a={}}}}}", "<ref>{}", "{{{{x|{}"]
)
AROUND = st.one_of(RUNNING, RUNNING, RUNNING, ODD)
MENDED = st.tuples(AROUND, PIECE).map(lambda p: p[0].format(p[1]))
BLOCKS = st.lists(st.one_of(MENDED, MENDED, TEXT), max_size=8)
# What stands beside what is a matter of distance, where everything is in one line: there, a tag may come
# to stand beside another link when something is put in between.
PAGE = BLOCKS.map("".join)
LINES = BLOCKS.map("\n".join)
REMEDY = st.one_of(
    st.tuples(
        st.sampled_from(LinkCondition), st.booleans(), st.booleans(), TITLE, st.sampled_from(["wayback", "arquivo", ""])
    )
)
Drawn = dict[str, tuple[LinkCondition, bool, bool, str, str]]
REMEDIES = st.fixed_dictionaries(dict.fromkeys(URLS[:4], REMEDY), optional=dict.fromkeys(URLS[4:], REMEDY))


def made(citations: tuple[Citation, ...], drawn: Drawn) -> dict[str, LinkRemedy]:
    """Return the drawn remedies, for the links that are there."""
    remedies = {}
    for citation in citations:
        choice = drawn.get(citation.url)
        if choice is None:
            continue
        condition, is_ours, has_copy, title, service = choice
        host = "arquivo.pt/wayback" if service == "arquivo" else "web.archive.org/web"
        copy = ArchivedCopy(f"https://{host}/{STAMP}/{citation.url}", STAMP, service, title)
        remedies[citation.url] = LinkRemedy(condition, copy if has_copy else None, is_ours)
    return remedies


def keys(citations: tuple[Citation, ...], *, with_tags: bool = True) -> list[str]:
    """Return the identity keys of the links; without tags, those of tags and templates without a link are omitted."""
    identities = []
    for each in citations:
        is_dead_tag = each.dead_tag is not None and each.dead_tag.span == each.span
        if not with_tags and (is_dead_tag or each.way is CitationForm.ARCHIVE_TEMPLATE):
            continue
        try:
            identities.append(identity_key(each.url))
        except BadUrlError:
            identities.append(each.url)
    return identities


def hold(text: str, rules: TemplateRules, drawn: Drawn, *, with_tags: bool = True) -> RepairedText:
    """Repair, and see that all properties hold."""
    citations = read(text, rules)
    remedies = made(citations, drawn)
    done = repair_page(text, citations, remedies, rules, OPTIONS)
    pieces = sorted((each for change in done.changes for each in change.replacements), key=lambda each: each.span.start)
    at = new_at = 0
    for piece in pieces:
        assert text[at : piece.span.start] == done.text[new_at : piece.new_span.start]
        assert text[piece.span.start : piece.span.end] == piece.before
        assert done.text[piece.new_span.start : piece.new_span.end] == piece.after
        at, new_at = piece.span.end, piece.new_span.end
    assert text[at:] == done.text[new_at:]
    assert keys(read(done.text, rules), with_tags=with_tags) == keys(citations, with_tags=with_tags)
    return done


def hold_once(text: str, rules: TemplateRules, drawn: Drawn) -> RepairedText:
    """Repair, and see that nothing is left to do then."""
    done = hold(text, rules, drawn)
    if NoRepairReason.LATER in {each.reason for each in done.refused}:
        return done
    again = read(done.text, rules)
    twice = repair_page(done.text, again, made(again, drawn), rules, OPTIONS)
    assert twice.text == done.text, [each.kind for each in twice.changes]
    return done


@settings(max_examples=examples(80))
@given(PAGE, REMEDIES, st.sampled_from(["en", "de"]))
def test_nothing_else_changes(text: str, drawn: Drawn, language: str) -> None:
    """Outside of what is told every byte stays, and the links are the same, in their order (B13).

    What is told gives the original when it is taken back. Where all is in one line, a longer address between a link
    and its tag may part them.
    """
    hold(text, rules_for(language), drawn, with_tags=False)


@settings(max_examples=examples(80))
@given(LINES, REMEDIES, st.sampled_from(["en", "de"]))
def test_once_is_enough(text: str, drawn: Drawn, language: str) -> None:
    """Repairing what is repaired changes nothing (B15)."""
    hold_once(text, rules_for(language), drawn)


def _article(number: int) -> str:
    """Return the wikitext of one of the articles of the test web's wiki."""
    return articles(library().root / "handbook")[4 + number].text


@pytest.mark.slow
@pytest.mark.parametrize("own", [{}, {"citation": [{"names": ["Cite page"]}]}], ids=["foreign", "known"])
@pytest.mark.parametrize("number", range(2))
def test_real_articles_keep_every_other_byte(number: int, own: dict[str, Any]) -> None:
    """Articles of real prose, with a remedy for every link and for every second one (B13)."""
    text = _article(number)
    rules = rules_for("en", own)
    urls = list(dict.fromkeys(each.url for each in read(text, rules)))
    assert len(urls) > 1
    for some in (urls, urls[::2]):
        for has_copy in (True, False):
            drawn = dict.fromkeys(some, (LinkCondition.DEAD, False, has_copy, "T", "wayback"))
            done = hold_once(text, rules, drawn)
            assert done.changes
            assert {each.url for each in done.changes} <= set(some)


@pytest.mark.parametrize(
    "text",
    [
        "<ref>[http://x.test/a t]" * 1_000,
        "[http://x.test/a t]" * 1_000,
        "[http://x.test/a t]" + "{{" * 100_000,
        "{{cite web|url=http://x.test/a|title=" + "[[" * 20_000 + "}}",
        "{{cite web|url=http://x.test/a" + "|x=" * 20_000 + "}}",
        "{{a|" * 2_000 + "{{cite web|url=http://x.test/a}}" + "}}" * 2_000,
        "<!--" * 20_000 + "http://x.test/a",
    ],
    ids=["references", "one line", "braces", "brackets", "bars", "nested", "comments"],
)
def test_hostile_pages_end_soon(text: str) -> None:
    """Time is linear in the text: nothing here takes longer than a moment."""
    drawn = {"http://x.test/a": (LinkCondition.DEAD, False, True, "T", "wayback")}
    hold(text, rules_for("en"), drawn)
