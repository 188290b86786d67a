"""Tests of `qa.web.check_query`."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.page_classes import PageClass
from core.playback_check import PlaybackFault, QaVerdict
from playback.access.levels import Level
from qa.check_table import CheckFilter
from qa.web.check_query import filter_values, parse_check_filter

pytestmark = pytest.mark.slow


@given(
    st.builds(
        CheckFilter,
        verdict=st.none() | st.sampled_from(QaVerdict),
        host=st.none() | st.from_regex(r"[a-z0-9]{1,20}\.example", fullmatch=True),
        page_class=st.none() | st.sampled_from([each for each in PageClass if each]),
        level=st.none() | st.sampled_from([str(each) for each in Level]),
        fault=st.none() | st.sampled_from(PlaybackFault),
        below=st.none() | st.integers(0, 10_000).map(lambda number: number / 10_000),
        unreviewed=st.booleans(),
    )
)
def test_a_filter_survives_its_address(wanted: CheckFilter) -> None:
    """Parsing the filter's address returns the same filter."""
    assert parse_check_filter(filter_values(wanted)) == wanted


@given(st.dictionaries(st.sampled_from(["verdict", "host", "below", "class", "level", "unreviewed"]), st.text()))
def test_any_text_is_a_filter_or_is_refused(values: dict[str, str]) -> None:
    """Nothing that anybody types is an error of ours."""
    with contextlib.suppress(InputError):
        parse_check_filter(values)
