"""How checks of copies stand, for those who watch a run: read from the registry, which keeps them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Self, TypeVar

from core.layout import Layout
from core.quality import Verdict
from crawler.overview import WINDOWS_MIN
from crawler.reporting import Checks
from links.books.quality import Filter, tally
from links.books.quality_counts import checked_since, count_unrecorded, repairs_by_state
from links.books.quality_rows import REPAIRS, VERDICTS, RepairState
from links.books.repairs import ENDED
from links.store.store import Store, open_to_read

MOST_COUNTED = 1_000_000  # of each verdict
_EVERYTHING = Filter()
_ENDED = tuple(state for state in REPAIRS if state in ENDED)
_Name = TypeVar("_Name", Verdict, RepairState)


class ChecksReader(AbstractContextManager["ChecksReader"]):
    """Reads how checks stand, again and again. From one thread at a time; its end closes the registry.

    The registry is opened when it is there, and nothing is made: who watches changes nothing.
    """

    def __init__(self, layout: Layout, url: str) -> None:
        """Take the collection, and the address of its index when that is a server's."""
        self._layout = layout
        self._url = url
        self._store: Store | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def read(self, now: datetime) -> Checks | None:
        """How checks stand at `now`; None when there is no registry yet.

        Raises:
            TransientError: it does not answer.
        """
        if self._store is None:
            self._store = open_to_read(self._layout, self._url)
        return None if self._store is None else checks_in(self._store, now=now)


def checks_in(store: Store, *, now: datetime) -> Checks:
    """How the checks in the registry stand at `now`.

    Raises:
        TransientError: it does not answer.
    """
    with store.snapshot() as reader:
        since = {minutes: now - timedelta(minutes=minutes) for minutes in WINDOWS_MIN}
        return Checks(
            verdicts=_named(tally(reader, _EVERYTHING, limit=MOST_COUNTED), VERDICTS),
            per_minute={
                minutes: _each_minute(checked_since(reader, moment), VERDICTS, minutes)
                for minutes, moment in since.items()
            },
            repairs=_named(repairs_by_state(reader), REPAIRS[1:]),
            repairs_per_minute={
                minutes: _each_minute(repairs_by_state(reader, moment), _ENDED, minutes)
                for minutes, moment in since.items()
            },
            unrecorded=count_unrecorded(reader),
        )


def _each_minute(
    counts: Mapping[_Name, int], names: Sequence[_Name], minutes: int
) -> dict[str, float]:
    return {name: count / minutes for name, count in _named(counts, names).items()}


def _named(counts: Mapping[_Name, int], names: Sequence[_Name]) -> dict[str, int]:
    """A count of each, none is 0; what nobody could check has no name of its own."""
    return {str(name) or "unchecked": counts.get(name, 0) for name in names}
