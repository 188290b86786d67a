"""Offset of a server's clock from ours."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.redis_store import CHECK_EVERY_S, ServerClock, pack, page_id, to_bytes, to_text, unpack

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
spans = st.timedeltas(timedelta(days=-400), timedelta(days=400))


class DelayedClocks:
    """Two clocks that go alike, and a way between them that takes time."""

    def __init__(self, ahead: timedelta, latency_s: float = 0.0) -> None:
        self.ahead = ahead
        self.latency_s = latency_s
        self.ours = timedelta(0)
        self.passed_s = 1_000.0
        self.request_count = 0
        self.clock = ServerClock(self._server_now, lambda: self.passed_s)

    @property
    def now(self) -> datetime:
        """Return the local time."""
        return START + self.ours + timedelta(seconds=self.passed_s)

    def _server_now(self) -> datetime:
        self.request_count += 1
        self.passed_s += self.latency_s / 2
        server_time = START + self.ahead + timedelta(seconds=self.passed_s)
        self.passed_s += self.latency_s / 2
        return server_time


@given(spans, st.floats(0, 2))
def test_the_way_there_and_back_is_taken_off(ahead: timedelta, latency_s: float) -> None:
    """An answer was given half-way between question and answer."""
    world = DelayedClocks(ahead, latency_s)

    assert abs(world.clock.offset(world.now) - ahead) < timedelta(milliseconds=1)
    assert world.clock.last == world.clock.offset(world.now)


def test_the_server_is_asked_about_once_a_minute() -> None:
    """Not with every verb."""
    world = DelayedClocks(timedelta(hours=1))
    world.clock.offset(world.now)
    query_count = world.request_count
    world.passed_s += CHECK_EVERY_S - 1
    world.clock.offset(world.now)
    assert world.request_count == query_count

    world.ahead += timedelta(milliseconds=300)
    world.passed_s += 2
    offset = world.clock.offset(world.now)

    assert abs(offset - timedelta(hours=1, milliseconds=300)) < timedelta(milliseconds=1)


@given(spans.filter(lambda span: abs(span) > timedelta(seconds=2)))
def test_a_clock_of_ours_that_is_set_is_noticed_at_once(step: timedelta) -> None:
    """The monotonic clock says that no such time has passed."""
    world = DelayedClocks(timedelta(0))
    world.clock.offset(world.now)
    world.ours += step

    assert abs(world.clock.offset(world.now) + step) < timedelta(milliseconds=1)


def test_without_a_server_our_own_time_counts() -> None:
    """Tests and collections of one machine use the local clock."""
    clock = ServerClock(None, lambda: 0.0)

    assert clock.offset(START) == timedelta(0)


@given(st.text(st.characters()))
def test_texts_come_back_from_messages(text: str) -> None:
    """Surrogates included, which UTF-8 does not know."""
    assert to_text(to_bytes(text)) == text
    assert to_text(unpack(pack(text))) == text


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**48), st.integers(0, 2**48))
def test_an_identifier_is_made_of_what_it_is_for(identity: bytes, one: int, other: int) -> None:
    """The same page has one; another number, another frontier has another."""
    salt = b"s" * 16

    assert page_id(salt, identity, one) == page_id(salt, identity, one)
    assert page_id(b"t" * 16, identity, one) != page_id(salt, identity, one)
    if one != other:
        assert page_id(salt, identity, one) != page_id(salt, identity, other)
