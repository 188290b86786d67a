"""Reading archives' answers: whatever comes is understood or refused, never more."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from links.archives.archive_answers import (
    FormatError,
    ListedCopy,
    parse_links,
    read_availability,
    read_cdx,
    read_json_timemap,
    read_link_timemap,
    timestamp_of,
)
from tests.support.examples import examples

READERS = [read_link_timemap, read_json_timemap, read_availability, read_cdx]
_KEYS = st.sampled_from(
    ["mementos", "list", "closest", "uri", "datetime", "results", "tag", "archived_snapshots", "available"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.just("20150102030405"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
_LINES = st.text('<>;,="rel memento datetime 20150102030405 {}[]:\n', max_size=120)


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=examples(40))
@given(st.one_of(st.text(max_size=200), _LINES, _JSON.map(json.dumps)))
def test_any_answer_is_read_or_refused(reader: Callable[[str], Any], text: str) -> None:
    """Nothing else is raised, and each copy that is read has a moment of 14 digits."""
    try:
        read = reader(text)
    except FormatError:
        return
    entries = getattr(read, "entries", read.values() if isinstance(read, dict) else read)

    for entry in entries:
        assert entry is None or (isinstance(entry, ListedCopy) and len(entry.timestamp) == 14)


_URLS = st.text("abc:/?=&%,;.~", min_size=1, max_size=30).map(lambda path: f"http://a.test/{path}")
_STAMPS = st.datetimes().map(lambda when: when.strftime("%Y%m%d%H%M%S").rjust(14, "0"))


@given(st.lists(st.tuples(_URLS, _STAMPS), max_size=8))
def test_a_timemap_is_read_as_it_was_written(copies: list[tuple[str, str]]) -> None:
    """In both forms: commas and semicolons stand in addresses and in dates."""
    lines = ['<http://a.test/>; rel="original"']
    lines += [f'<{url}>; rel="memento"; datetime="{stamp}"' for url, stamp in copies]
    timemap = {"original_uri": "http://a.test/", "mementos": {"list": [{"uri": u, "datetime": s} for u, s in copies]}}

    linked, listed = read_link_timemap(",\n".join(lines)), read_json_timemap(json.dumps(timemap))

    assert [(each.address, each.timestamp) for each in linked.entries] == copies
    assert [(each.address, each.timestamp) for each in listed.entries] == list(dict.fromkeys(copies))
    assert linked.original == listed.original == "http://a.test/"


def test_a_link_has_its_parameters_in_any_order() -> None:
    """With and without quotes, several relations in one, names in any case (RFC 8288, 3)."""
    (link,) = parse_links(
        '<http://a.test/1,2;3> ; datetime = "Tue, 18 Sep 2012 09:26:00 GMT";REL="first Memento";type=text/html'
    )

    assert link.target == "http://a.test/1,2;3"
    assert link.rels == {"first", "memento"}
    assert timestamp_of(link.parameters["datetime"]) == "20120918092600"


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("Tue, 18 Sep 2012 09:26:00 GMT", "20120918092600"),
        ("2012-09-18T09:26:00Z", "20120918092600"),
        ("2012-09-18T11:26:00+02:00", "20120918092600"),
        ("2012-09-18", "20120918000000"),
        ("20120918092600", "20120918092600"),
        ("0001-01-01T00:00:00+14:00", ""),
        ("soon", ""),
        ("", ""),
    ],
)
def test_moments_are_read(text: str, stamp: str) -> None:
    """As HTTP, ISO 8601 and CDX write them, in UTC; what is none is none."""
    assert timestamp_of(text) == stamp


def test_captures_are_read_in_every_dialect() -> None:
    """The Internet Archive's lists, pywb's JSON lines, CDXJ, and plain fields."""
    capture = ListedCopy("", "20130115102033", "http://a.test/", 200, "text/html")
    fields = {"timestamp": "20130115102033", "url": "http://a.test/", "mime": "text/html", "status": "200"}
    listed = [
        ["urlkey", "timestamp", "original", "mimetype", "statuscode"],
        ["test,a)/", "20130115102033", "http://a.test/", "text/html", "200"],
    ]
    del fields["timestamp"]

    assert read_cdx(json.dumps(listed)) == [capture]
    assert read_cdx(json.dumps(fields | {"timestamp": "20130115102033"})) == [capture]
    assert read_cdx(f"test,a)/ 20130115102033 {json.dumps(fields)}\n") == [capture]
    assert read_cdx("test,a)/ 20130115102033 http://a.test/ text/html 200 AAAA 500") == [capture]
