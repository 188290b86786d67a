"""Facts that a page states about itself, read for citations."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.page_facts import VALUE_LIMIT_CHARS, PageFact, main_work, read_facts
from core.web_dates import PAGE_DATE_LIMIT_CHARS, iso_date
from tests.support.examples import examples

URL = "https://example.org/a/b"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["@type", "@id", "@graph", "author", "name", "datePublished", "mainEntity"])
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


def read(headers: dict[str, str] | None = None, **raw: Any) -> tuple[PageFact, ...]:
    return read_facts(raw, url=URL, headers=headers or {})


def fact_value(facts: tuple[PageFact, ...], name: str) -> str:
    return next((each.value for each in facts if each.name == name), "")


def ld(*nodes: Any) -> list[str]:
    return [json.dumps(node) for node in nodes]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2024", "2024"), ("2024-05", "2024-05"), ("2024-5-1", "2024-05-01"),
        ("2024/05/01", "2024-05-01"), ("20240501", "2024-05-01"),
        ("2024-05-01T10:00:00.123Z", "2024-05-01T10:00:00Z"),
        ("2024-05-01 10:00", "2024-05-01T10:00:00"),
        ("2024-05-01T10:00:00+0200", "2024-05-01T10:00:00+02:00"),
        ("20240501T101112Z", "2024-05-01T10:11:12Z"),
        ("Wed, 01 May 2024 10:00:00 GMT", "2024-05-01T10:00:00Z"),
        ("1st May 2024", "2024-05-01"), ("May 1, 2024", "2024-05-01"),
        ("3 Sept. 2024", "2024-09-03"), ("13/05/2024", "2024-05-13"), ("5/13/2024", "2024-05-13"),
        ("1.1.2024", "2024-01-01"),
        # Read in two ways, or no day at all: left as it was.
        ("01/02/2024", "01/02/2024"), ("2024-02-30", "2024-02-30"), ("1 Ju 2024", "1 Ju 2024"),
        ("2024-13", "2024-13"), ("yesterday", "yesterday"), ("", ""),
    ],
)  # fmt: skip
def test_a_date_is_iso_8601_when_it_is_sure(text: str, meant: str) -> None:
    """And as it was said otherwise."""
    assert iso_date(text) == meant


@given(st.text(max_size=200))
def test_any_text_is_a_date_or_stays(text: str) -> None:
    """It never raises, is bounded, and is read the same a second time."""
    once = iso_date(text)

    assert len(once) <= PAGE_DATE_LIMIT_CHARS
    assert iso_date(once) == once


@given(st.dates(min_value=date(1000, 1, 1)), st.times(), st.integers(-14 * 60, 14 * 60))
def test_moments_keep_their_meaning(day: date, clock: Any, offset: int) -> None:
    """Whatever ISO form Python writes is the same moment afterwards, to the second."""
    zone = timezone(timedelta(minutes=offset))
    moment = datetime.combine(day, clock.replace(microsecond=0), tzinfo=zone)

    assert datetime.fromisoformat(iso_date(moment.isoformat())) == moment
    assert iso_date(day.isoformat()) == day.isoformat()
    if 1000 < day.year < 9999:
        basic = f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        assert datetime.fromisoformat(iso_date(basic)) == moment


def test_the_work_is_found_among_the_nodes() -> None:
    """An article before its page and its site; authors by reference; a comment is none of it."""
    facts = read(
        scripts=ld(
            {
                "@context": "https://schema.org",
                "@graph": [
                    {"@type": "WebSite", "name": "The Paper"},
                    {"@type": "WebPage", "datePublished": "2001-01-01"},
                    {"@type": "NewsArticle", "headline": "News", "author": [{"@id": "#ann"}, {"@type": "Person", "name": "Bob"}],
                     "datePublished": "2024-05-01T08:00:00+02:00", "dateModified": "2024-05-02",
                     "publisher": {"@type": "Organization", "name": "The Paper"}, "inLanguage": "en",
                     "comment": {"@type": "Article", "headline": "No"}},
                    {"@type": "Person", "@id": "#ann", "name": "Ann"},
                ],
            }
        )
    )  # fmt: skip

    assert fact_value(facts, "title") == "News"
    assert [each.value for each in facts if each.name == "author"] == ["Ann", "Bob"]
    assert fact_value(facts, "published") == "2024-05-01T08:00:00+02:00"
    assert fact_value(facts, "modified") == "2024-05-02"
    assert (fact_value(facts, "publisher"), fact_value(facts, "language")) == ("The Paper", "en")
    assert next(each for each in facts if each.name == "type") == PageFact("type", "NewsArticle", "ld:@type")


def test_highwire_is_trusted_before_the_rest() -> None:
    """Journals write it for citations; each fact says where it is from."""
    facts = read(
        metas=[
            ["citation_title", "On Links"], ["citation_author", "Doe, Jane"],
            ["citation_author", "Roe, R."], ["citation_publication_date", "2020/03/04"],
            ["citation_journal_title", "J. Links"], ["citation_doi", "doi:10.1234/ab.c"],
            ["og:title", "On Links | Journal"], ["author", "webmaster"],
        ],
        html=[["title", "On Links - Publisher"]],
    )  # fmt: skip

    assert PageFact("title", "On Links", "meta:citation_title") in facts
    assert [each.value for each in facts if each.name == "author"] == ["Doe, Jane", "Roe, R."]
    assert fact_value(facts, "published") == "2020-03-04"
    assert (fact_value(facts, "journal"), fact_value(facts, "doi")) == ("J. Links", "10.1234/ab.c")


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        ({"metas": [["DC.creator", "A"]]}, "author", "A"),
        ({"metas": [["DCTERMS:issued", "2019"]]}, "published", "2019"),
        ({"metas": [["article:published_time", "2019-01-02"]]}, "published", "2019-01-02"),
        ({"metas": [["og:site_name", "Site"]]}, "site", "Site"),
        ({"metas": [["og:locale", "pt_BR"]]}, "language", "pt-BR"),
        ({"metas": [["article:author", "https://facebook.com/x"], ["author", "By  Z "]]}, "author", "Z"),
        ({"items": [["author", "M"], ["datePublished", "2018-07-06"]]}, "author", "M"),
        ({"html": [["time", "2017-06-05"]]}, "published", "2017-06-05"),
        ({"html": [["lang", "de-AT"]]}, "language", "de-AT"),
        ({"html": [["canonical", "../c"]]}, "canonical", "https://example.org/c"),
        ({"html": [["canonical", "javascript:1"]], "metas": [["og:url", "/d"]]}, "canonical", "https://example.org/d"),
    ],
)  # fmt: skip
def test_every_source_is_read(raw: dict[str, Any], name: str, value: str) -> None:
    """One fact from each."""
    assert fact_value(read(**raw), name) == value


def test_headers_say_what_the_page_does_not() -> None:
    """The language, and the canonical address of a file (RFC 6596)."""
    facts = read(headers={"content-language": "fr, en", "link": '</x>; rel="canonical"'})

    assert fact_value(facts, "language") == "fr"
    assert fact_value(facts, "canonical") == "https://example.org/x"


@settings(max_examples=examples(30))
@given(
    raw=st.dictionaries(
        st.sampled_from(["metas", "items", "html", "scripts", "base"]),
        JSON | st.lists(st.lists(st.text(max_size=30), min_size=2, max_size=2), max_size=5),
    ),
    scripts=st.lists(JSON, max_size=3),
)
def test_nothing_a_page_says_raises(raw: dict[str, Any], scripts: list[Any]) -> None:
    """And every value is bounded, and not empty."""
    for given_raw in (raw, {"scripts": ld(*scripts)}):
        for each in read_facts(given_raw, url=URL, headers={"link": "<" * 50}):
            assert 0 < len(each.value) <= 4 * VALUE_LIMIT_CHARS


def test_deep_and_long_data_costs_no_more_than_its_limit() -> None:
    """A million brackets, a million nodes, a name that is its own."""
    assert main_work(["[" * 400_000]) == ({}, {})
    assert main_work(["x" * 600_000]) == ({}, {})
    work, known = main_work(ld([{"@type": "Thing", "@id": str(n), "name": "x"} for n in range(9_000)]))
    assert (work, len(known) <= 2_000) == ({}, True)
    loop = {"@type": "Article", "author": {"@id": "#a"}, "@graph": [{"@id": "#a", "name": {"@id": "#a"}}]}
    assert fact_value(read(scripts=ld(loop)), "author") == ""
