"""Tests of `wiki.wikitext.citation_model`."""

from datetime import date

import pytest

from tests.wiki.wikitext.reading import one, read
from wiki.wikitext.citation_model import CitationForm, ParameterRole

A = "http://a.test/x"


COPY = f"https://web.archive.org/web/20150102030405/{A}"


FIFTH = date(2020, 3, 5)


def test_the_last_parameter_of_a_name_counts_and_an_empty_alias_does_not() -> None:
    """As MediaWiki and the citation modules read them."""
    assert one(f"{{{{cite web|url=http://b.test/|url={A}}}}}").url == A
    for text in (f"{{{{cite web|url=|URL={A}}}}}", f"{{{{cite web|URL={A}|url=}}}}"):
        assert (one(text).url, one(text).way) == (A, CitationForm.CITATION)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (f"[{COPY} b]", CitationForm.BRACKETS),
        (COPY, CitationForm.BARE),
        (f"{{{{cite web|url={COPY}|title=b}}}}", CitationForm.CITATION),
        (f"{{{{cite web|archive-url={COPY}|title=b}}}}", CitationForm.CITATION),
        (f"{{{{infobox|site={COPY}}}}}", CitationForm.TEMPLATE),
        (f"{{{{webarchive|url={COPY}|title=b}}}}", CitationForm.ARCHIVE_TEMPLATE),
        (f"[https://archive.today/20150102030405/{COPY} b]", CitationForm.BRACKETS),
    ],
)
def test_an_archives_address_stands_for_its_original(text: str, way: CitationForm) -> None:
    """Wherever it stands in the original's place; copies of copies are followed."""
    citation = one(text)
    assert (citation.url, citation.way) == (A, way)
    assert (citation.archive_url, citation.archive_date) == (citation.address, date(2015, 1, 2))
    assert text[citation.url_span.start : citation.url_span.end] == citation.address


def test_a_dead_link_tag_with_a_link_of_its_own_is_a_citation() -> None:
    """As the German one is often used; beside that link, it is a tag."""
    alone = one(f"{{{{Toter Link|url={A}|text=Titel}}}}", "de")
    assert (alone.url, alone.way, alone.title) == (A, CitationForm.TEMPLATE, "Titel")
    assert alone.is_said_dead
    beside = one(f"[{A} Titel] {{{{Toter Link|url={A}}}}}", "de")
    assert (beside.way, beside.is_said_dead) == (CitationForm.BRACKETS, True)
    twice = one(f"[{A} Titel] {{{{dead link}}}} {{{{Toter Link|url={A}}}}}", "de")
    assert twice.dead_tag is not None
    assert twice.dead_tag.name == "dead link"
    both = read(f"[http://b.test/ Titel] {{{{Toter Link|url={A}}}}}", "de")
    assert [each.is_said_dead for each in both] == [False, True]


@pytest.mark.parametrize(
    ("tag", "language", "address"),
    [
        (f"{{{{webarchive|url={COPY}|date=January 2, 2015}}}}", "en", COPY),
        (f"{{{{wayback|url={A}|date=20150102030405}}}}", "en", COPY),
        (f"{{{{Webarchiv|url={A}|wayback=20150102030405|text=b}}}}", "de", COPY),
        (f"{{{{Webarchiv|url={COPY}|text=b}}}}", "de", COPY),
        (f"{{{{Webarchiv|url={A}|archive-is=20150102030405}}}}", "de", f"https://archive.today/20150102030405/{A}"),
    ],
)
def test_an_archive_template_belongs_to_its_link(tag: str, language: str, address: str) -> None:
    """Beside the link it is of; a citation of its own alone, or beside another link."""
    beside = one(f"[{A} b] {tag}", language)
    assert (beside.way, beside.archive_url) == (CitationForm.BRACKETS, address)
    assert beside.archive_tag is not None
    assert beside.archive_date == date(2015, 1, 2)
    alone = one(f"* {tag}", language)
    assert (alone.url, alone.way, alone.archive_url) == (A, CitationForm.ARCHIVE_TEMPLATE, address)
    first, second = read(f"[http://other.test/ b] {tag}", language)
    assert (first.archive_url, second.url) == ("", A)


@pytest.mark.parametrize(
    ("tag", "language", "address"),
    [
        (f"{{{{Webarchiv|url={A}|wayback=*|text=b}}}}", "de", ""),
        (f"{{{{Webarchiv|url={A}|webciteID=6AbCdEfGh}}}}", "de", ""),
        (f"{{{{Webarchiv|url={A}|archive-today=AbC12}}}}", "de", "https://archive.today/AbC12"),
        (f"{{{{wayback|url={A}}}}}", "en", ""),
    ],
)
def test_an_archive_template_that_names_no_moment_is_of_its_link(tag: str, language: str, address: str) -> None:
    """The link is known, and the template beside it, whether or not anybody knows its copy."""
    alone = one(f"* {tag}", language)
    assert (alone.url, alone.way, alone.archive_url) == (A, CitationForm.ARCHIVE_TEMPLATE, address)
    beside = one(f"[{A} b] {tag}", language)
    assert (beside.way, beside.archive_url) == (CitationForm.BRACKETS, address)
    assert beside.archive_tag is not None
    assert not read(f"* {tag.replace(A, '')}", language)


def test_a_parameter_that_may_hold_wikitext_does() -> None:
    """``Online`` of the German template for literature is a URL, or text with links."""
    citation = one(f"{{{{Literatur|Titel=b|Online={A}|Abruf=2020-03-05}}}}", "de")
    assert (citation.way, citation.access_date) == (CitationForm.CITATION, FIFTH)
    assert one(f"{{{{Literatur|Titel=b|Online=[{A} PDF]}}}}", "de").way is CitationForm.BRACKETS


def test_roles_name_the_parameter_that_holds_the_url() -> None:
    """Also one that stands in for ``url``."""
    citation = one(f"{{{{cite book|chapter-url={A}}}}}")
    assert citation.parameters[ParameterRole.URL].name == "chapter-url"
