"""Tests of `playback.web.registry.link_messages`."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.urls import UrlFault
from links.check_result import StatusCode
from links.states import LinkState
from playback.web.i18n import PageLanguage, languages, page_language
from playback.web.registry import link_messages
from playback.web.registry.registry_values import GROUPS, Group, HintNote, LinkHint, LinkRecord

TODAY = 4_000


@pytest.fixture(params=languages())
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield each language that there is, set as that of the page."""
    token = page_language.set(PageLanguage(request.param))
    yield request.param
    page_language.reset(token)


@given(st.integers(0, 65_535), st.integers(0, 65_535))
def test_more_time_is_never_said_to_be_less(one: int, other: int) -> None:
    """The order of the days is that of the words."""
    order = ("day", "week", "month", "year")
    first, second = (link_messages.rough_duration(min(one, other)), link_messages.rough_duration(max(one, other)))

    assert (order.index(first[0]), first[1]) <= (order.index(second[0]), second[1])


@pytest.mark.parametrize("state", LinkState)
def test_every_state_has_a_name(state: LinkState, language: str) -> None:
    """And a group, in each language."""
    assert link_messages.state_name(state)
    assert link_messages.group_name(GROUPS[state])


@pytest.mark.parametrize("code", [each for each in StatusCode if each not in (StatusCode.NONE, StatusCode.FINE)])
def test_every_failure_has_its_likely_cause(code: StatusCode, language: str) -> None:
    """A sentence (W06, W55)."""
    if code in (StatusCode.CORRECTED, StatusCode.OTHER_SCHEME, StatusCode.NOT_ALLOWED, StatusCode.OUR_NETWORK):
        return  # fine, or nothing that the site is to blame for
    sentence = link_messages.cause_of(LinkRecord("https://a.de/", LinkState.DYING, code=code))

    assert sentence.endswith(".")


@pytest.mark.parametrize("state", LinkState)
@given(code=st.integers(0, 255), evidence=st.text(max_size=20))
def test_nothing_that_is_known_is_too_odd_for_words(state: LinkState, code: int, evidence: str) -> None:
    """A later version may have kept other numbers."""
    link = LinkRecord("https://a.de/", state, code=code, evidence=evidence, since_day=TODAY - 9)

    assert link_messages.standing_of(link)
    assert bool(link_messages.cause_of(link)) <= (link.group is not Group.WORKING)


@pytest.mark.parametrize("hint", LinkHint)
def test_every_hint_is_a_sentence(hint: LinkHint, language: str) -> None:
    assert link_messages.hint_of(HintNote(hint)).endswith(".")


@pytest.mark.parametrize("fault", UrlFault)
def test_every_fault_of_an_address_is_explained(fault: UrlFault) -> None:
    """After the sentence that nobody can follow it (W48)."""
    link = LinkRecord("x", LinkState.INVALID, code=StatusCode.INVALID, evidence=fault)

    assert link_messages.cause_of(link).count(".") >= 2
