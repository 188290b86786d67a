"""Checks as records: what is written can be read, and a page's manifest is no check."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.page_manifest import PageInfo, VisitOutcome, parse_pageinfo
from core.playback_check import (
    LostPart,
    PlaybackCheck,
    PlaybackFault,
    QaVerdict,
    VerdictSource,
    check_record,
    choice_penalty,
    parse_check,
    picture_name,
)

CHECK = PlaybackCheck("p1", "https://example.org/", "2026-01-01T00:00:00.000Z", "images",
              "2026-01-02T00:00:00.000Z", "1", QaVerdict.GOOD)  # fmt: skip
_words = st.text(st.characters(codec="utf-8"), max_size=60)
_scores = st.none() | st.floats(0, 1)


@given(
    st.builds(
        PlaybackCheck,
        page_id=_words,
        url=_words,
        captured_at=_words,
        level=_words,
        checked_at=_words,
        engine=_words,
        verdict=st.sampled_from(QaVerdict),
        judge=st.sampled_from(VerdictSource),
        score=_scores,
        picture=_scores,
        text=_scores,
        resources=_scores,
        faults=st.lists(st.sampled_from(PlaybackFault), max_size=3).map(tuple),
        lost=st.lists(st.builds(LostPart, _words, _words), max_size=3).map(tuple),
        reason=_words,
        better=_words,
        note=_words,
    )
)
def test_a_record_says_what_was_found(check: PlaybackCheck) -> None:
    """`parse_check` is the inverse of `check_record`."""
    assert parse_check(check_record(check, "own")) == check


def test_a_check_is_no_manifest_and_a_manifest_no_check() -> None:
    """A reader of checks ignores manifests, and a reader of manifests refuses checks."""
    page = PageInfo("p1", "https://example.org/", "https://example.org/", "x", VisitOutcome.COMPLETE)

    assert parse_check(page.to_json()) is None
    with pytest.raises(InputError):
        parse_pageinfo(check_record(CHECK, "own"))


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"{}", b'{"checked"', b"\xff"])
def test_what_is_no_check_is_none(data: bytes) -> None:
    """Whatever a WARC of another tool has under that name."""
    assert parse_check(data) is None


@pytest.mark.parametrize("changed", [{"verdict": "fine"}, {"lost": 3}, {"faults": ["x"]}, {"lost": [["a"]]}])
def test_a_check_that_cannot_be_read_is_told(changed: dict[str, object]) -> None:
    """And is not taken for a good one."""
    document = json.loads(check_record(CHECK, "own"))
    document["checked"].update(changed)
    with pytest.raises(InputError):
        parse_check(json.dumps(document).encode())


def test_what_is_broken_is_moved_back() -> None:
    """And further, whatever it is, when something better is known."""
    penalties = [
        choice_penalty(PlaybackCheck("p", "u", "", "images", "", "", verdict, better=better))
        for verdict in QaVerdict
        for better in ("", "q")
    ]

    assert penalties == [0, 2, 0, 2, 0, 2, 1, 2]


def test_what_a_person_finds_good_is_not_moved_back() -> None:
    """Whatever a machine has found better."""
    check = PlaybackCheck("p", "u", "", "images", "", "", QaVerdict.GOOD, VerdictSource.PERSON, better="q")

    assert choice_penalty(check) == 0


@pytest.mark.parametrize("page_id", ["../x", "", "a/b", "a.b", "é"])
def test_a_pictures_name_leads_nowhere_else(page_id: str) -> None:
    """Ids are from an index that may be poisoned."""
    with pytest.raises(InputError):
        picture_name(page_id, "images", "heat")
