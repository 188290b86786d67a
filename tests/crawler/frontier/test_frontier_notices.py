"""Orders, which every worker hears of, and notes, which workers leave for each other."""

from datetime import datetime, timedelta

from crawler.frontier.base import Frontier
from tests.crawler.frontier.conftest import OpenFrontier
from tests.crawler.frontier.support import HOUR, MINUTE, SECOND


def test_an_order_is_kept_under_its_kind_and_key(frontier: Frontier) -> None:
    """Jobs, policies, sheets: each kind by itself, in the order of keys."""
    frontier.give_order("policy", "b.test", "skip")
    frontier.give_order("policy", "a.test", "skip")
    frontier.give_order("job", "a.test", "{}")
    frontier.give_order("policy", "b.test", "allow")

    assert list(frontier.orders("policy").items()) == [("a.test", "skip"), ("b.test", "allow")]
    assert frontier.orders("job") == {"a.test": "{}"}
    assert frontier.orders("sheet") == {}


def test_every_order_raises_the_version(frontier: Frontier, now: datetime) -> None:
    """Workers compare one number to learn that something changed."""
    start = frontier.stats(now).version
    first = frontier.give_order("stop", "", "now")
    second = frontier.give_order("stop", "", "now")

    assert start < first < second == frontier.stats(now).version


def test_an_order_that_is_taken_back_is_gone(frontier: Frontier, now: datetime) -> None:
    """Taking an order back changes the version; taking back an unknown order does not."""
    given = frontier.give_order("stop", "", "now")

    assert frontier.take_back("stop", "")
    taken_back = frontier.stats(now).version
    assert taken_back > given
    assert frontier.orders("stop") == {}
    assert not frontier.take_back("stop", "")
    assert frontier.stats(now).version == taken_back


def test_orders_and_notes_reach_other_processes_and_outlive_them(open_frontier: OpenFrontier, now: datetime) -> None:
    """That is what they are for."""
    one, other = open_frontier(), open_frontier()
    version = one.give_order("stop", "", "now")
    one.put_note("robots", "a.test", "User-agent: *", now=now)
    one.close()

    assert other.orders("stop") == {"": "now"}
    assert other.stats(now).version == version
    assert open_frontier().note("robots", "a.test", now=now) == "User-agent: *"


def test_a_note_is_kept_and_replaced(frontier: Frontier, now: datetime) -> None:
    """The last one counts, and no version is raised."""
    version = frontier.stats(now).version
    assert frontier.note("robots", "a.test", now=now) is None
    frontier.put_note("robots", "a.test", "one", now=now)
    frontier.put_note("robots", "a.test", "two", now=now)
    frontier.put_note("beat", "a.test", "x", now=now)

    assert frontier.note("robots", "a.test", now=now + 9_999 * HOUR) == "two"
    assert frontier.notes("robots", now=now) == {"a.test": "two"}
    assert frontier.stats(now).version == version


def test_a_note_holds_until_its_moment(frontier: Frontier, now: datetime) -> None:
    """Not a millisecond longer; a new one has a moment of its own."""
    frontier.put_note("robots", "a.test", "x", now=now, until=now + HOUR)
    just_before = now + HOUR - timedelta(milliseconds=1)

    assert frontier.note("robots", "a.test", now=just_before) == "x"
    assert frontier.notes("robots", now=just_before) == {"a.test": "x"}
    assert frontier.note("robots", "a.test", now=now + HOUR) is None
    assert frontier.notes("robots", now=now + HOUR) == {}

    frontier.put_note("robots", "a.test", "y", now=now + HOUR)
    assert frontier.note("robots", "a.test", now=now + 2 * HOUR) == "y"


def test_a_claim_leaves_the_note_of_another_until_that_is_over(open_frontier: OpenFrontier, now: datetime) -> None:
    """Of several processes one has it; it may claim again, and a note without an end is never another's."""
    one, other = open_frontier(), open_frontier()

    def claims(frontier: Frontier, name: str, at: datetime) -> bool:
        return frontier.put_note("claim", "film", name, now=at, until=at + HOUR, is_claim=True)

    assert claims(one, "one", now)
    assert not claims(other, "other", now)
    assert claims(one, "one", now + MINUTE)
    assert one.note("claim", "film", now=now + MINUTE) == "one"
    assert not claims(other, "other", now + HOUR)
    assert claims(other, "other", now + HOUR + MINUTE)
    assert other.put_note("claim", "film", "one", now=now + HOUR + MINUTE)
    assert not claims(other, "other", now + 9_999 * HOUR)
    other.erase_note("claim", "film")
    assert claims(other, "other", now)


def test_notes_that_are_over_make_room(frontier: Frontier, now: datetime) -> None:
    """Heartbeats of workers long gone are not told, and the living are."""
    for beat in range(50):
        moment = now + beat * SECOND
        frontier.put_note("beat", f"w{beat}", "", now=moment, until=moment + 2 * SECOND)

    assert list(frontier.notes("beat", now=now + 49 * SECOND)) == ["w48", "w49"]


def test_a_note_can_be_erased(frontier: Frontier, now: datetime) -> None:
    """Twice does no harm."""
    frontier.put_note("beat", "w1", "", now=now, until=now + MINUTE)
    frontier.erase_note("beat", "w1")
    frontier.erase_note("beat", "w1")

    assert frontier.note("beat", "w1", now=now) is None


def test_long_and_odd_texts_are_kept_as_they_are(frontier: Frontier, now: datetime) -> None:
    """Half a megabyte of robots.txt, keys with colons, spaces and other alphabets."""
    text = "Disallow: /ü\n\x00" * 40_000
    for kind, key in (("robots", "a:b c"), ("röbots", ""), ("robots", "{x}:*?")):
        frontier.put_note(kind, key, text, now=now)
        frontier.give_order(kind, key, text)
        assert (frontier.note(kind, key, now=now) == text, key in frontier.orders(kind)) == (True, True)
