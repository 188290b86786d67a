"""Tests of `playback.web.cdx_query`."""

from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from playback.web import cdx_query
from playback.web.cdx_query import parse_query, resume_key
from playback.web.machine_api import MachineAccess
from tests.support.examples import examples
from tests.support.playback_fixtures import ServedCollection
from warc.index.queries import IndexPosition, KeyRange, TimeRange

pytestmark = pytest.mark.playback


def test_whole_hosts_are_told_where_a_setting_allows_it(tmp_path: Path) -> None:
    """A host without its subdomains, a domain with them, and neither's neighbours."""
    keys = {
        match: parse_query([("url", "https://www.b.example/x"), ("matchType", match)], wide=True).keys
        for match in ("host", "domain")
    }
    inside = {"host": ["example,b)/", "example,b)/z"], "domain": ["example,b)/", "example,b,c)/"]}
    outside = {"host": ["example,b,c)/"], "domain": ["example,b-c)/", "example,bc)/", "example)/"]}
    for match, key_range in keys.items():
        assert all(key_range.low <= key < key_range.high for key in inside[match])
        assert not any(key_range.low <= key < key_range.high for key in outside[match])


def test_a_key_belongs_to_its_question(served: ServedCollection, site: str) -> None:
    """It leads nowhere else in the index."""
    key = resume_key(IndexPosition("com,secret)/", 1, 1))
    with pytest.raises(InputError, match="another query"):
        parse_query([("url", f"{site}/"), ("resumeKey", key)])


_WORDS = st.sampled_from(
    ("url", "matchType", "limit", "from", "to", "closest", "filter", "fl", "output", "page",
     "pageSize", "showNumPages", "showResumeKey", "resumeKey", "collapse", "collapseTime", "sort",
     "reverse", "offset", "fields")
)  # fmt: skip


_VALUES = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.sampled_from(
        ("true", "json", "cdxj", "link", "text", "prefix", "exact", "reverse", "closest", "*",
         "https://a.example/", "a.example/*", "*.a", "urn:view:https://a.example/", "~url:.*",
         "!status:2..", "=mime:", "timestamp:4", "99991231235959", "00010101000000", "\0", "https://[",
         "http://999999999999999999999/", "2", "0", "-1", "filedesc:x", "-", "urn:", "http://%00/")
    ),
)  # fmt: skip


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(_WORDS, _VALUES), max_size=6), st.sampled_from(["/cdx", "/cdx/search/cdx"]))
@example([("url", "https://a.example/"), ("resumeKey", "W10")], "/cdx")
@example([("url", "a"), ("resumeKey", resume_key(IndexPosition("a)/", 10**18, 10**19)))], "/cdx")
@example([("url", "a"), ("closest", "99991231235959"), ("limit", "-5"), ("page", "3")], "/cdx")
def test_no_parameters_break_the_server(served: ServedCollection, parameters: list[tuple[str, str]], path: str) -> None:
    """Whatever is asked, it answers, and never with a fault of its own."""
    target = f"{path}?{urlencode(parameters, errors='replace')}"

    assert served.get(target).status in {200, 400, 403, 404}


@given(st.binary(max_size=60))
def test_no_query_string_breaks_the_reading(query: bytes) -> None:
    """Bytes that are no text included."""
    pairs = [("url", "a.example"), ("filter", query.decode("latin-1")), ("fl", quote(query))]
    try:
        parse_query(pairs)
    except InputError as error:
        assert str(error)  # noqa: PT017 either is right


@given(st.text(max_size=30), st.integers(-(2**60), 2**60), st.integers(0, 2**60))
def test_resumption_keys_lead_back(urlkey: str, captured_ms: int, number: int) -> None:
    """The inverse, for every place."""
    place = IndexPosition(urlkey, captured_ms, number)
    keys = KeyRange(urlkey, urlkey + "\0")
    assert cdx_query._position(resume_key(place), keys) == place


def test_defaults_are_closed() -> None:
    """Nothing is open that nobody opened."""
    assert not MachineAccess().cdx_hosts
    assert TimeRange() == parse_query([("url", "a.example")]).between
