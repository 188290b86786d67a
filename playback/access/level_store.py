"""Level decisions in the decision store, append-only; the last one about a target is in force."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from core.config.stored_level import StoredLevel
from core.errors import InputError
from core.timestamps import from_unix_milliseconds, unix_milliseconds
from playback.access.decision_store import DecisionStore, WatchedValue
from playback.access.levels import (
    Level,
    LevelActor,
    LevelRight,
    LevelRules,
    LevelScope,
    LevelTarget,
    Rule,
    RuleTable,
    StoredRule,
)

_LONGEST_REASON = 2_000  # characters
_SHOWN, _STORED, _RIGHTS = "levels", "stored_levels", "level_rights"  # tables
_L = TypeVar("_L", Level, StoredLevel)
_T = TypeVar("_T")


class LevelStore:
    """Level decisions in a store owned by the caller. Thread-safe.

    Only rows that are new since the last read are fetched. All methods raise TransientError when the
    store cannot be read or written.
    """

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        # The rules read so far, and number and moment of the last decision in each table.
        self._read: tuple[LevelRules, dict[str, tuple[int, int]]] = (LevelRules(), {})
        self._watched = WatchedValue(store, self._load)

    def now(self) -> LevelRules:
        """Return the rules in force."""
        return self._watched.now()

    def decide(
        self,
        targets: Sequence[LevelTarget],
        level: Level | None,
        *,
        actor: LevelActor,
        now: datetime,
        reason: str = "",
    ) -> None:
        """Set the level of all targets, or remove their rules (None), in one transaction.

        Raises:
            InputError: the actor lacks the right for one of them, there is no rule to remove, or
                the reason is too long; then no target is changed.
        """
        self.check(targets, level, actor=actor)
        self._add(_SHOWN, [_values(each, level) for each in targets], _by(actor, now, reason))

    def decide_stored(
        self,
        targets: Sequence[LevelTarget],
        level: StoredLevel | None,
        *,
        actor: LevelActor,
        now: datetime,
        reason: str = "",
    ) -> None:
        """Set the stored level of all targets; arguments and errors as for `decide`."""
        self.check_stored(targets, level, actor=actor)
        self._add(_STORED, [_values(each, level) for each in targets], _by(actor, now, reason))

    def check(
        self, targets: Sequence[LevelTarget], level: Level | None, *, actor: LevelActor
    ) -> None:
        """Raise InputError unless the actor may `decide` this, and there is a rule to remove."""
        _check(self.now(), targets, level, actor)

    def check_stored(
        self, targets: Sequence[LevelTarget], level: StoredLevel | None, *, actor: LevelActor
    ) -> None:
        """Check that the actor may `decide_stored` this; raises as `check`."""
        _check(self.now().stored, targets, level, actor)

    def allow(self, right: LevelRight) -> None:
        """Grant editors a right, or withdraw it with ``most=None``. The right's number is ignored.

        Raises:
            InputError: its actor is not an operator, or there is no such right to withdraw.
        """
        if not right.actor.is_operator:
            raise InputError(f"{right.actor} may not give rights: an operator does.")
        existing = {(each.wiki, each.editor) for each in self.now().rights}
        if right.most is None and (right.wiki, right.editor) not in existing:
            whose = f"{right.editor}@{right.wiki}" if right.editor else f"Editors of {right.wiki}"
            raise InputError(f"{whose} have no right of their own to withdraw.")
        values = {
            "wiki": right.wiki,
            "editor": right.editor,
            "scope": right.scope.value,
            "most": str(right.most or ""),
        }
        self._add(_RIGHTS, [values], _by(right.actor, right.decided_at, right.reason))

    def history(self) -> list[Rule]:
        """Return every decision about shown levels, oldest first."""
        return self._after(_SHOWN, _rule)

    def stored_history(self) -> list[StoredRule]:
        """Return every decision about stored levels, oldest first."""
        return self._after(_STORED, _stored_rule)

    def rights_history(self) -> list[LevelRight]:
        """Return every decision about rights, oldest first."""
        return self._after(_RIGHTS, _right)

    def _load(self, _store: DecisionStore) -> LevelRules:
        rules, last = self._read
        for table, (number, decided_ms) in last.items():
            query = f"SELECT decided_ms FROM {table} WHERE number = :number"  # noqa: S608 ours
            rows = self._store.rows(query, {"number": number})
            if not rows or rows[0]["decided_ms"] != decided_ms:
                rules, last = LevelRules(), {}  # another file has replaced the store
                break
        shown = self._after(_SHOWN, _rule, last)
        rights = self._after(_RIGHTS, _right, last)
        stored = self._after(_STORED, _stored_rule, last)
        if shown or rights or stored:
            new: dict[str, Sequence[Rule | StoredRule | LevelRight]]
            new = {_SHOWN: shown, _RIGHTS: rights, _STORED: stored}
            rules = rules.after(shown, rights, stored)
            last = last | {
                table: (rows[-1].number, unix_milliseconds(rows[-1].decided_at))
                for table, rows in new.items()
                if rows
            }
        self._read = rules, last
        return rules

    def _after(
        self, table: str, decode: Callable[[Any], _T], last: Mapping[str, tuple[int, int]] = {}
    ) -> list[_T]:
        query = f"SELECT * FROM {table} WHERE number > :number ORDER BY number"  # noqa: S608 ours
        number = last[table][0] if table in last else 0
        return [decode(row) for row in self._store.rows(query, {"number": number})]

    def _add(self, table: str, rows: Sequence[Mapping[str, str]], by: Mapping[str, object]) -> None:
        changes: list[tuple[str, Mapping[str, object]]] = []
        for row in rows:
            values = {**row, **by}
            marks = ", ".join(f":{name}" for name in values)
            query = (
                f"INSERT INTO {table} (number, {', '.join(values)}) VALUES"  # noqa: S608 ours
                f" ((SELECT COALESCE(MAX(number), 0) + 1 FROM {table}), {marks})"
            )
            changes.append((query, values))
        self._store.change(changes)


def _check(
    rules: RuleTable[_L], targets: Sequence[LevelTarget], level: _L | None, actor: LevelActor
) -> None:
    for target in targets:
        rules.check_right(actor, target, level)
        if level is None and rules.at(target) is None:
            raise InputError(f"There is no rule about {target} to take away.")


def _values(target: LevelTarget, level: StrEnum | None) -> dict[str, str]:
    scope = target.scope.value
    return {"scope": scope, "wiki": target.wiki, "what": target.what, "level": str(level or "")}


def _by(actor: LevelActor, now: datetime, reason: str) -> dict[str, object]:
    if len(reason) > _LONGEST_REASON:
        raise InputError(f"A reason has at most {_LONGEST_REASON} characters.")
    return {
        "actor": actor.name,
        "actor_wiki": actor.wiki,
        "decided_ms": unix_milliseconds(now),
        "reason": reason,
    }


def _rule(row: Any) -> Rule:
    level = Level(row["level"]) if row["level"] else None
    return Rule(row["number"], _target(row), level, *_who_when_why(row))


def _stored_rule(row: Any) -> StoredRule:
    level = StoredLevel(row["level"]) if row["level"] else None
    return StoredRule(row["number"], _target(row), level, *_who_when_why(row), is_stored=True)


def _right(row: Any) -> LevelRight:
    most = Level(row["most"]) if row["most"] else None
    scope = LevelScope(row["scope"])
    who = _who_when_why(row)
    return LevelRight(row["number"], row["wiki"], row["editor"], scope, most, *who)


def _target(row: Any) -> LevelTarget:
    return LevelTarget(LevelScope(row["scope"]), row["wiki"], row["what"])


def _who_when_why(row: Any) -> tuple[LevelActor, datetime, str]:
    decided_at = from_unix_milliseconds(row["decided_ms"])
    return LevelActor(row["actor"], row["actor_wiki"]), decided_at, row["reason"]
