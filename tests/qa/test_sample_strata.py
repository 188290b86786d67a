"""A sample in which every host and class has its share."""

import random
from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from core.page_classes import PageClass
from qa.sample import MOST_PAGES, SampleCandidate, StratifiedSample

AT = datetime(2026, 1, 1, tzinfo=UTC)


def page(number: int, host: str, page_class: PageClass = PageClass.OK) -> SampleCandidate:
    url = f"https://{host}/{number}"
    return SampleCandidate(f"id-{number}-{host}", url, url, AT, "20260101000000", host, page_class=page_class)


def drawn(pages: list[SampleCandidate], size: int, seed: int = 0) -> list[SampleCandidate]:
    strata = StratifiedSample(size, seed)
    strata.add_all(pages)
    return strata.drawn()


def test_a_large_host_takes_no_place_that_another_needs() -> None:
    """Of ten thousand pages of one host and one of each of nine others, ten are one of each."""
    pages = [page(number, "large.example") for number in range(10_000)]
    pages += [page(0, f"small{number}.example") for number in range(9)]

    assert len({each.host for each in drawn(pages, 10)}) == 10
    assert Counter(each.host for each in drawn(pages, 20))["large.example"] == 11


def test_every_class_of_a_host_has_its_share() -> None:
    """A consent wall is played back otherwise than an article."""
    pages = [page(number, "a.example") for number in range(100)]
    pages.append(page(100, "a.example", PageClass.CONSENT_WALL))

    assert {each.page_class for each in drawn(pages, 2)} == {PageClass.OK, PageClass.CONSENT_WALL}


hosts = st.lists(st.integers(0, 6), max_size=60)


@given(hosts, st.integers(0, 30), st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_same_seed_draws_the_same_pages(numbers: list[int], size: int, seed: int, dice: random.Random) -> None:
    """In whatever order they come; no page twice, and as many as are asked for and there."""
    pages = [page(place, f"{host}.example") for place, host in enumerate(numbers)]
    mixed = list(pages)
    dice.shuffle(mixed)

    first = drawn(pages, size, seed)

    assert first == drawn(mixed, size, seed)
    assert len(first) == len({each.page_id for each in first}) == min(size, len(pages))
    if size:
        assert {each.host for each in first} == {each.host for each in pages} or len(first) == size


def test_another_seed_draws_others() -> None:
    """And a size without bound is bounded."""
    pages = [page(number, "a.example") for number in range(MOST_PAGES + 10)]

    assert drawn(pages, 10, 1) != drawn(pages, 10, 2)
    assert len(drawn(pages, 10**9)) == MOST_PAGES
