"""Words of a page and its headers that forbid archiving, and for whom."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.capture.plain_visit import read_page
from crawler.policy.robots import forbidding_reason

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def header(*values: str) -> str:
    """Return why these X-Robots-Tag headers forbid archiving; empty if they do not."""
    return forbidding_reason(values, (), agent="Weboid", now=NOW)


def meta(name: str, content: str) -> str:
    """Return why this meta element forbids archiving; empty if it does not."""
    return forbidding_reason((), [(name, content)], agent="Weboid", now=NOW)


@pytest.mark.parametrize(
    "value",
    [
        "noarchive",
        "NoArchive",
        " noindex ,  noarchive ",
        "nocache",
        "weboid: noarchive",
        "Weboid : noindex, noarchive",
        "*: noarchive",
        "otherbot: noindex, weboid: noarchive",
        "noindex\nnoarchive",
        "noarchive, otherbot: noindex",
        "noindex nocache",
        "max-snippet: 20, noarchive",
        "unavailable_after: 2020-01-01, noindex",
        "unavailable_after: 25 Jun 2010 15:00:00 PST",
        "unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT",
        "unavailable_after: Friday, 25-Jun-10 15:00:00 GMT",
        "weboid: unavailable_after: 2020-01-01T00:00:00Z",
    ],
)
def test_headers_that_forbid(value: str) -> None:
    """In any letter case, among others, for everybody or for us, or since a moment that is over."""
    assert header(value).startswith("noarchive: X-Robots-Tag says ")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "none",
        "noindex, nofollow",
        "all",
        "otherbot: noarchive",
        "otherbot: noindex, noarchive",
        "weboid: noindex, otherbot: noarchive",
        "weboid-news: noarchive",
        "noarchived",
        "unavailable_after: 2999-01-01",
        "unavailable_after: soon",
        "unavailable_after:",
        ",,,:,",
    ],
)
def test_headers_that_do_not_forbid(value: str) -> None:
    """For other robots, about searching, for later, or no directives at all."""
    assert header(value) == ""


def test_several_headers_count_each() -> None:
    """A name in one header does not hold in the next."""
    assert header("otherbot: noarchive", "noarchive")


@pytest.mark.parametrize("name", ["robots", "weboid", "http-equiv:x-robots-tag"])
def test_metas_that_forbid(name: str) -> None:
    """The robots meta, one with our name, and the one that stands for the header."""
    assert meta(name, "noindex, NOARCHIVE").startswith("noarchive: <meta ")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("otherbot", "noarchive"),
        ("description", "noarchive"),
        ("robots", "none"),
        ("http-equiv:refresh", "noarchive"),
        ("http-equiv:x-robots-tag", "otherbot: noarchive"),
    ],
)
def test_metas_that_do_not_forbid(name: str, content: str) -> None:
    """Those for other robots and those that say something else."""
    assert meta(name, content) == ""


def test_the_reason_names_place_and_word() -> None:
    """The recorded reason names the place where the word was found."""
    assert header("nocache") == "noarchive: X-Robots-Tag says nocache"
    assert meta("robots", "noarchive") == "noarchive: <meta name=robots> says noarchive"


def test_a_page_that_is_not_rendered_is_read_for_the_same_words() -> None:
    """Metas of a fetched document are told as the browser tells them."""
    document = (
        b'<META NAME=" Robots " CONTENT="NoArchive"><meta name=description content="x">'
        b"<meta http-equiv=X-Robots-Tag content='weboid: nocache'><meta content=noarchive>"
    )
    directives = read_page(document, "utf-8", "http://example.org/").robots
    assert directives == [("robots", "NoArchive"), ("http-equiv:x-robots-tag", "weboid: nocache")]
    for each in directives:
        assert meta(*each).startswith("noarchive: ")


@given(st.text(max_size=300), st.text(max_size=20), st.text(max_size=300))
def test_no_text_is_too_odd(value: str, name: str, content: str) -> None:
    """Whatever a site says is read without an error."""
    forbidding_reason([value, f"unavailable_after: {value}"], [(name, content)], agent="Weboid", now=NOW)
