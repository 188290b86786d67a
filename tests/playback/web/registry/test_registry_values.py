"""Descriptions of links in words (W06, W55, W60)."""

from collections.abc import Iterator

import pytest

from playback.web.i18n import PageLanguage, languages, page_language
from playback.web.registry import link_messages

TODAY = 4_000


@pytest.fixture(params=languages())
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield each language that there is, set as that of the page."""
    token = page_language.set(PageLanguage(request.param))
    yield request.param
    page_language.reset(token)


def ages_in(language: str, days: int) -> tuple[str, str]:
    """Return the texts for a day so many days ago: how long ago it was, and for how long it has been."""
    token = page_language.set(PageLanguage(language))
    try:
        return link_messages.ago(TODAY - days, TODAY), link_messages.for_duration(TODAY - days, TODAY)
    finally:
        page_language.reset(token)


@pytest.mark.parametrize(
    ("days", "ago", "lasting"),
    [
        (0, "today", "since today"),
        (1, "yesterday", "since yesterday"),
        (2, "two days ago", "for two days"),
        (13, "13 days ago", "for 13 days"),
        (14, "two weeks ago", "for two weeks"),
        (59, "eight weeks ago", "for eight weeks"),
        (60, "two months ago", "for two months"),
        (183, "six months ago", "for six months"),
        (364, "eleven months ago", "for eleven months"),
        (365, "more than one year ago", "for more than one year"),
        (800, "more than two years ago", "for more than two years"),
        (4_000, "more than ten years ago", "for more than ten years"),
        (-5, "today", "since today"),
    ],
)
def test_times_are_rough(days: int, ago: str, lasting: str) -> None:
    """As people say them (W60)."""
    assert ages_in("en", days) == (ago, lasting)


@pytest.mark.parametrize(
    ("days", "ago", "lasting"),
    [
        (14, "vor zwei Wochen", "seit zwei Wochen"),
        (30, "vor vier Wochen", "seit vier Wochen"),
        (183, "vor sechs Monaten", "seit sechs Monaten"),
        (365, "vor mehr als einem Jahr", "seit mehr als einem Jahr"),
        (800, "vor mehr als zwei Jahren", "seit mehr als zwei Jahren"),
    ],
)
def test_times_are_rough_in_german(days: int, ago: str, lasting: str) -> None:
    """With the cases that it needs."""
    assert ages_in("de", days) == (ago, lasting)
