"""Tests of `playback.web.page_request`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playback.web.page_request import EVERYTHING, CaptureFacets, parse_facets

pytestmark = pytest.mark.playback


@given(st.builds(CaptureFacets, st.sampled_from(["", "phone", "desktop"]), st.sampled_from(["", "de", "en-US"])))
def test_facets_are_read_as_they_are_written(facets: CaptureFacets) -> None:
    """In an address; no facets are no segment of it."""
    assert (parse_facets(facets.segment) or EVERYTHING) == facets


@given(st.text(max_size=30))
def test_whatever_stands_in_an_address_is_a_facet_or_none(segment: str) -> None:
    """And what is one is written in one way."""
    facets = parse_facets(segment)
    assert facets is None or facets.segment == segment
