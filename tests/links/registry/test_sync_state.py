"""Tests of `links.registry.sync_state`."""

from datetime import UTC, datetime, timedelta

import pytest

from links.registry.database import RegistryStore
from links.registry.sync_state import (
    FeedHeldError,
    feeds_of,
    forget_feed,
    hold_feed_lease,
    put_cursor,
    put_trouble,
    release_feed_lease,
    take_feed_lease,
)
from links.registry.wikis import Wiki

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


MINUTE = timedelta(minutes=1)


def test_a_cursor_is_kept_until_the_next_and_ends_a_trouble(store: RegistryStore, wiki: Wiki) -> None:
    """A feed that comes further has no trouble any more; its trouble alone moves no cursor."""
    with store.writing() as rows:
        put_cursor(rows, wiki.id, "changes", "a", now=NOW)
        put_trouble(rows, wiki.id, ["changes", "sweep"], "The wiki\nis \0away.", now=NOW)
        troubled = feeds_of(rows, wiki.id)
        put_cursor(rows, wiki.id, "changes", "b", now=NOW + MINUTE)
        after = feeds_of(rows, wiki.id)

    assert (troubled["changes"].cursor, troubled["changes"].trouble) == ("a", "The wiki is away.")
    assert troubled["sweep"].trouble == "The wiki is away."
    assert after["changes"][2:] == ("b", NOW + MINUTE, "")


def test_a_feed_can_be_forgotten(store: RegistryStore, wiki: Wiki) -> None:
    """Then it starts again."""
    with store.writing() as rows:
        put_cursor(rows, wiki.id, "site", "a", now=NOW)
        forget_feed(rows, wiki.id, "site")
        assert feeds_of(rows, wiki.id) == {}


def test_one_process_at_a_time_has_the_lease(store: RegistryStore, wiki: Wiki) -> None:
    """It is renewed by its holder, and taken over only when it has ended or was given back."""
    with store.writing() as rows:
        take_feed_lease(rows, wiki.id, "one", now=NOW, length=MINUTE)
        take_feed_lease(rows, wiki.id, "one", now=NOW + MINUTE / 2, length=MINUTE)
        hold_feed_lease(rows, wiki.id, "one")
        with pytest.raises(FeedHeldError):
            take_feed_lease(rows, wiki.id, "two", now=NOW + MINUTE, length=MINUTE)
        take_feed_lease(rows, wiki.id, "two", now=NOW + 2 * MINUTE, length=MINUTE)
        with pytest.raises(FeedHeldError):
            hold_feed_lease(rows, wiki.id, "one")
        release_feed_lease(rows, wiki.id, "one", now=NOW)
        hold_feed_lease(rows, wiki.id, "two")
        release_feed_lease(rows, wiki.id, "two", now=NOW)
        take_feed_lease(rows, wiki.id, "one", now=NOW + 2 * MINUTE, length=MINUTE)
