"""The arithmetic of a host's slot."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import InvariantError
from crawler.frontier.base import Lane
from crawler.frontier.host_slots import (
    EPOCH_BITS,
    HostSlot,
    epoch_of,
    host_delay,
    is_longest_turn,
    lane_order,
    retry_at,
)

SLOT = HostSlot(id=1)
lanes = st.sampled_from(Lane)


def test_an_older_item_that_comes_back_moves_the_head_back() -> None:
    """A released item of an early epoch is found before later ones."""
    slot = SLOT.pushed(Lane.STANDARD, 7).pushed(Lane.STANDARD, 3)

    assert slot.heads[Lane.STANDARD] == 3
    assert slot.waiting[Lane.STANDARD] == 2


def test_the_head_of_an_empty_lane_is_the_item_that_joins_it() -> None:
    """Epochs that were passed are not searched again."""
    slot = SLOT.pushed(Lane.HIGH, 3).pulled(Lane.HIGH, 3).pushed(Lane.HIGH, 9)

    assert slot.heads[Lane.HIGH] == 9


@given(st.lists(st.tuples(lanes, st.integers(0, 9)), max_size=9))
def test_a_slot_stands_for_its_highest_lane(pushed: list[tuple[Lane, int]]) -> None:
    """The index of ready hosts is by that lane."""
    slot = SLOT
    for lane, epoch in pushed:
        slot = slot.pushed(lane, epoch)

    assert slot.settled(1).lane == min((lane for lane, _ in pushed), default=None)
    assert all(
        slot.heads[lane] == min(epoch for other, epoch in pushed if other is lane)
        for lane in {lane for lane, _ in pushed}
    )


def test_a_slot_at_its_limit_stands_for_no_lane() -> None:
    """No search finds a host that may not be claimed from."""
    slot = SLOT.pushed(Lane.NOW, 0).pushed(Lane.NOW, 0).taken()

    assert slot.settled(1).lane is None
    assert slot.settled(2).lane is Lane.NOW
    assert slot.freed().settled(1).lane is Lane.NOW


def test_a_rest_and_a_block_hold_whichever_is_longer() -> None:
    """They are different fields (U12), and both are kept to."""
    slot = SLOT.rested(50)

    assert slot.blocked(80, now_ms=10).settled(1).ready_ms == 80
    assert slot.blocked(20, now_ms=10).settled(1).ready_ms == 50
    assert slot.blocked(80, now_ms=10).blocked(10, now_ms=10).settled(1).ready_ms == 50


def test_a_shorter_rest_never_replaces_a_longer_one() -> None:
    """Visits end in any order."""
    assert SLOT.rested(50).rested(20).next_ms == 50


def test_taking_more_than_there_is_is_our_own_mistake() -> None:
    """Books that contradict are reported, not papered over."""
    with pytest.raises(InvariantError):
        SLOT.pulled(Lane.NOW, 0)
    with pytest.raises(InvariantError):
        SLOT.freed()


def test_epochs_follow_the_numbers() -> None:
    """An item keeps its epoch, so it keeps its place."""
    assert [epoch_of(seq) for seq in (0, (1 << EPOCH_BITS) - 1, 1 << EPOCH_BITS)] == [0, 0, 1]


def test_items_with_a_place_of_their_own_share_an_epoch() -> None:
    """In random order every item of a host is a candidate."""
    assert epoch_of(5 << EPOCH_BITS, place=7) == 0


@pytest.mark.parametrize(("token", "first"), [(1, Lane.NOW), (5, Lane.HIGH), (10, Lane.STANDARD), (11, Lane.NOW)])
def test_tokens_share_the_claims_among_the_lanes(token: int, first: Lane) -> None:
    """Every order has every lane."""
    order = lane_order(token, high_every=5, standard_every=10)

    assert order[0] is first
    assert sorted(order) == list(Lane)


@given(st.integers(1, 40), st.integers(1, 40))
def test_every_lane_has_turns_of_its_longest_ready_host(high_every: int, standard_every: int) -> None:
    """Whatever the shares are, also while higher lanes are never empty."""
    tokens = range(1, 17 * high_every * standard_every + 1)
    firsts = {token: lane_order(token, high_every=high_every, standard_every=standard_every)[0] for token in tokens}

    assert {firsts[token] for token in tokens if is_longest_turn(token)} == set(firsts.values())


def test_a_new_host_in_random_order_stands_where_it_was_drawn() -> None:
    """A moment below zero is a place, not a time."""
    slot = HostSlot(id=1, next_ms=-7).pushed(Lane.NOW, 0)

    assert slot.settled(1).ready_ms == -7
    assert slot.blocked(80, now_ms=10).settled(1).ready_ms == 80


def test_a_host_that_is_down_need_not_rest_until_it_is_up() -> None:
    """Its items are ended, not visited; a block holds all the same."""
    slot = SLOT.rested(50).downed(90)

    assert slot.settled(1).ready_ms == 0
    assert slot.blocked(70, now_ms=10).settled(1).ready_ms == 70
    assert slot.revived().settled(1).ready_ms == 50
    assert slot.refused(60).settled(1).ready_ms == 60


@given(st.integers(0, 1 << 40))
def test_a_queues_size_changes_seldom(waiting: int) -> None:
    """It is indexed: within a factor of two."""
    size = HostSlot(id=1, waiting=(waiting, 0, 0)).settled(1).size

    assert (1 << size) // 2 <= waiting < 1 << size


NOW = datetime(2026, 11, 21, tzinfo=UTC)
SETTINGS = PolitenessSettings(delay_factor=2.0, min_delay_s=1.0, max_delay_s=30.0)


@pytest.mark.parametrize(("duration", "delay"), [(0, 1), (0.4, 1), (3, 6), (15, 30), (600, 30), (-5, 1)])
def test_a_host_rests_in_proportion_within_bounds(duration: float, delay: float) -> None:
    """A slow host is asked more slowly; none is hammered, none forgotten."""
    rested = host_delay(timedelta(seconds=duration), SETTINGS)

    assert rested == timedelta(seconds=delay)


def test_where_settings_contradict_the_longer_delay_holds() -> None:
    """A mistake in a profile must not hurt a host."""
    contradicting = PolitenessSettings(min_delay_s=10.0, max_delay_s=5.0)

    assert host_delay(timedelta(seconds=7), contradicting) == timedelta(seconds=10)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9)))
def test_a_longer_visit_never_shortens_the_rest(duration: timedelta) -> None:
    """The rule is monotonic."""
    longer = host_delay(duration + timedelta(seconds=1), SETTINGS)

    assert longer >= host_delay(duration, SETTINGS)


def test_retries_double_up_to_a_week() -> None:
    """A04: exponential back-off, without end and without overflow."""
    settings = FrontierSettings(retry_delay_s=30.0)
    delays = [retry_at(NOW, failures, settings.retry_delay_s) - NOW for failures in (1, 2, 3, 50, 10_000)]

    assert delays[:3] == [timedelta(seconds=s) for s in (30, 60, 120)]
    assert delays[3:] == [timedelta(days=7)] * 2
