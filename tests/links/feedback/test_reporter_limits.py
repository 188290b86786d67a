"""Tests of `links.feedback.reporter_limits`."""

from datetime import timedelta

import pytest

from links.feedback.replacements import propose_replacement, remove_replacement
from links.feedback.reporter_limits import TooOftenError
from links.registry.database import RegistryStore
from tests.support.feedback_reports import NOW, watch

OLD = "https://example.org/old"


NEW = "https://new.example.net/page"


ONE, TWO = b"1" * 16, b"2" * 16


def test_proposals_are_limited_and_counted_apart(sqlite_store: RegistryStore) -> None:
    """One a minute; removing costs none of it."""
    with sqlite_store.writing() as rows:
        watch(rows, OLD, f"{OLD}/2")
        propose_replacement(rows, OLD, NEW, ONE, NOW)
        remove_replacement(rows, OLD, ONE, NOW)
    with pytest.raises(TooOftenError), sqlite_store.writing() as rows:
        propose_replacement(rows, f"{OLD}/2", NEW, ONE, NOW + timedelta(seconds=30))
