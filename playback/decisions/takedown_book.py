"""Take-downs in a store of decisions: written, lifted, listed, and followed as they change.

Nothing is ever deleted: a lifted take-down keeps who lifted it, when and why.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.errors import TransientError
from core.timestamps import milliseconds, moment
from playback.decisions.store import DecisionStore
from playback.decisions.takedowns import Effect, Takedown, TakedownKind, Takedowns

_VERSION = "(SELECT n FROM decision_version WHERE id = 1)"
# Writers stand in line (`DecisionStore.change`), so the next number is free.
_ADD = f"""
INSERT INTO takedowns (number, kind, what, timestamp, effect, reason, ticket, actor, decided_ms,
    expires_ms, lifted_ms, lifted_by, lifted_reason, changed)
VALUES ((SELECT coalesce(max(number), 0) + 1 FROM takedowns), :kind, :what, :timestamp, :effect,
    :reason, :ticket, :actor, :decided_ms, :expires_ms, NULL, '', '', {_VERSION})
"""  # noqa: S608 a constant of ours
_LIFT = f"""
UPDATE takedowns SET lifted_ms = :lifted_ms, lifted_by = :actor, lifted_reason = :reason,
    changed = {_VERSION} WHERE number = :number AND lifted_ms IS NULL
"""  # noqa: S608 a constant of ours


@dataclass(frozen=True, slots=True)
class Entry:
    """A take-down and what became of it.

    Attributes:
        takedown: the decision.
        lifted_at: when it was taken back; None: it was not.
        lifted_by: who took it back.
        lifted_reason: why.
    """

    takedown: Takedown
    lifted_at: datetime | None = None
    lifted_by: str = ""
    lifted_reason: str = ""

    def holds(self, now: datetime) -> bool:
        """Whether it counts at `now`."""
        return self.lifted_at is None and self.takedown.holds(now)


def add(store: DecisionStore, takedowns: Iterable[Takedown]) -> None:
    """Keep new take-downs, all or none; they get the next numbers in this order.

    Raises:
        TransientError: they could not be kept.
    """
    store.change([(_ADD, _values(each)) for each in takedowns])


def lift(
    store: DecisionStore, numbers: Iterable[int], *, actor: str, reason: str, now: datetime
) -> None:
    """Take take-downs back; those that were taken back before stay as they are.

    Raises:
        TransientError: it could not be kept.
    """
    said = {"lifted_ms": milliseconds(now), "actor": actor, "reason": reason}
    store.change([(_LIFT, {**said, "number": number}) for number in numbers])


def entries(store: DecisionStore) -> list[Entry]:
    """Every take-down there ever was, in the order of their numbers.

    Raises:
        TransientError: they cannot be read.
    """
    return [_entry(row) for row in store.rows("SELECT * FROM takedowns ORDER BY number", {})]


class LiveTakedowns:
    """The take-downs of a store as they are now; of a change only what is new is read.

    From any thread.
    """

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._held = Takedowns()
        self._version = 0

    def now(self) -> Takedowns:
        """All that were not lifted.

        Raises:
            TransientError: they cannot be read, or were there and are gone.
        """
        version = self._store.version()
        if version == self._version:
            return self._held
        with self._lock:
            if version != self._version:
                self._follow(version)
            return self._held

    def _follow(self, version: int) -> None:
        if version == 0:
            # The first change creates the store, and nothing of ours removes it.
            raise TransientError("The decisions are gone; restore them, or start anew.")
        # The version was read first: what is read now is at least as new, and is read again if newer.
        if version < self._version or self._version == 0:
            rows = self._rows("SELECT * FROM takedowns WHERE lifted_ms IS NULL", 0)
            self._held = Takedowns(_entry(row).takedown for row in rows)
        else:
            for row in self._rows("SELECT * FROM takedowns WHERE changed >= :since", self._version):
                entry = _entry(row)
                if entry.lifted_at is None:
                    self._held.put(entry.takedown)
                else:
                    self._held.drop(entry.takedown.number)
        self._version = version

    def _rows(self, query: str, since: int) -> Sequence[Any]:
        return self._store.rows(query, {"since": since} if since else {})


def _values(takedown: Takedown) -> dict[str, Any]:
    expires = takedown.expires_at
    return {
        "kind": str(takedown.kind),
        "what": takedown.what,
        "timestamp": takedown.timestamp,
        "effect": str(takedown.effect),
        "reason": takedown.reason,
        "ticket": takedown.ticket,
        "actor": takedown.actor,
        "decided_ms": milliseconds(takedown.decided_at),
        "expires_ms": None if expires is None else milliseconds(expires),
    }


def _entry(row: Any) -> Entry:
    lifted, expires = row["lifted_ms"], row["expires_ms"]
    takedown = Takedown(
        number=int(row["number"]),
        kind=TakedownKind(row["kind"]),
        what=row["what"],
        timestamp=row["timestamp"],
        effect=Effect(row["effect"]),
        reason=row["reason"],
        ticket=row["ticket"],
        actor=row["actor"],
        decided_at=moment(int(row["decided_ms"])),
        expires_at=None if expires is None else moment(int(expires)),
    )
    return Entry(
        takedown,
        None if lifted is None else moment(int(lifted)),
        row["lifted_by"],
        row["lifted_reason"],
    )
