"""Counts of checks and repairs for the status of a run, read from the registry."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Self, TypeVar

from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.status.collection_status import WINDOWS_MIN, CopyCheckSummary
from links.registry.database import RegistryStore, open_registry_read_only
from qa.check_store import (
    ENDED_STATES,
    count_by_verdict,
    count_checked_since,
    count_repairs,
    count_unrecorded,
)
from qa.check_table import REPAIR_STATES, VERDICT_ORDER, CheckFilter, RepairState

MOST_COUNTED = 1_000_000  # of each verdict
_ENDED = tuple(state for state in REPAIR_STATES if state in ENDED_STATES)
_Name = TypeVar("_Name", QaVerdict, RepairState)


class ChecksReader(AbstractContextManager["ChecksReader"]):
    """Repeated reader of check counts; closes the registry on exit. Not thread-safe.

    The registry is opened when it exists and never created: reading changes nothing.
    """

    def __init__(self, layout: Layout, url: str) -> None:
        """Use the collection, and the URL of its index when that is on a server."""
        self._layout = layout
        self._url = url
        self._store: RegistryStore | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def read(self, now: datetime) -> CopyCheckSummary | None:
        """Return the summary of checks at `now`; None when there is no registry yet."""
        if self._store is None:
            self._store = open_registry_read_only(self._layout, self._url)
        return None if self._store is None else count_checks(self._store, now=now)


def count_checks(store: RegistryStore, *, now: datetime) -> CopyCheckSummary:
    """Count the checks in the registry at `now`."""
    with store.snapshot() as reader:
        since = {minutes: now - timedelta(minutes=minutes) for minutes in WINDOWS_MIN}
        return CopyCheckSummary(
            verdicts=_named(
                count_by_verdict(reader, CheckFilter(), limit=MOST_COUNTED), VERDICT_ORDER
            ),
            per_minute={
                minutes: _each_minute(count_checked_since(reader, moment), VERDICT_ORDER, minutes)
                for minutes, moment in since.items()
            },
            repairs=_named(count_repairs(reader), REPAIR_STATES[1:]),
            repairs_per_minute={
                minutes: _each_minute(count_repairs(reader, moment), _ENDED, minutes)
                for minutes, moment in since.items()
            },
            unrecorded=count_unrecorded(reader),
        )


def _each_minute(
    counts: Mapping[_Name, int], names: Sequence[_Name], minutes: int
) -> dict[str, float]:
    return {name: count / minutes for name, count in _named(counts, names).items()}


def _named(counts: Mapping[_Name, int], names: Sequence[_Name]) -> dict[str, int]:
    """Return a count for each name, 0 by default; copies that could not be checked have no name."""
    return {str(name) or "unchecked": counts.get(name, 0) for name in names}
