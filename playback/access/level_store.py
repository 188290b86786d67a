"""Level decisions in the decision store, append-only; the last one about a target is in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    LevelDecision,
    LevelRight,
    LevelRules,
    LevelScope,
    LevelTarget,
    Rule,
    RuleTable,
    StoredRule,
)

_LONGEST_REASON = 2_000  # characters
_RULE_COLUMNS = "number, scope, wiki, what, level, actor, actor_wiki, decided_ms, reason"
_SHOWN_TABLE = "levels"
_STORED_TABLE = "stored_levels"
_L = TypeVar("_L", Level, StoredLevel)
_RIGHT_COLUMNS = "number, wiki, editor, scope, most, actor, actor_wiki, decided_ms, reason"


@dataclass(frozen=True, slots=True)
class _LevelLogState:
    """State of the incremental read: decisions read so far, and the position."""

    rules: LevelRules
    last_rule: tuple[int, int] = (0, 0)  # number and moment
    last_right: tuple[int, int] = (0, 0)
    last_stored: tuple[int, int] = (0, 0)


class LevelStore:
    """Level decisions in a store owned by the caller. Thread-safe.

    Only rows that are new since the last read are fetched. All methods raise TransientError when the
    store cannot be read or written.
    """

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._read = _LevelLogState(LevelRules())
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
        by = _by(actor, now, reason)
        self._store.change(_additions(_SHOWN_TABLE, targets, level, by))

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
        by = _by(actor, now, reason)
        self._store.change(_additions(_STORED_TABLE, targets, level, by))

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
        held = {(each.wiki, each.editor) for each in self.now().rights}
        if right.most is None and (right.wiki, right.editor) not in held:
            whose = f"{right.editor}@{right.wiki}" if right.editor else f"Editors of {right.wiki}"
            raise InputError(f"{whose} have no right of their own to withdraw.")
        self._store.change(
            [
                (
                    f"INSERT INTO level_rights ({_RIGHT_COLUMNS}) VALUES"  # noqa: S608 constants of ours
                    " ((SELECT COALESCE(MAX(number), 0) + 1 FROM level_rights), :wiki, :editor,"
                    " :scope, :most, :actor, :actor_wiki, :decided_ms, :reason)",
                    {
                        "wiki": right.wiki,
                        "editor": right.editor,
                        "scope": right.scope.value,
                        "most": right.most.value if right.most is not None else "",
                        **_by(right.actor, right.decided_at, right.reason),
                    },
                )
            ]
        )

    def history(self) -> list[Rule]:
        """Return every decision about shown levels, oldest first."""
        return self._rules_after(0)

    def stored_history(self) -> list[StoredRule]:
        """Return every decision about stored levels, oldest first."""
        return self._stored_after(0)

    def rights_history(self) -> list[LevelRight]:
        """Return every decision about rights, oldest first."""
        return self._rights_after(0)

    def _load(self, _store: DecisionStore) -> LevelRules:
        read = self._read
        if not self._still_holds(read):  # another file lies where the store was
            read = _LevelLogState(LevelRules())
        rules = self._rules_after(read.last_rule[0])
        rights = self._rights_after(read.last_right[0])
        stored = self._stored_after(read.last_stored[0])
        is_new = rules or rights or stored
        self._read = _LevelLogState(
            read.rules.after(rules, rights, stored) if is_new else read.rules,
            _last(rules) or read.last_rule,
            _last(rights) or read.last_right,
            _last(stored) or read.last_stored,
        )
        return self._read.rules

    def _still_holds(self, read: _LevelLogState) -> bool:
        for table, (number, decided_ms) in (
            (_SHOWN_TABLE, read.last_rule),
            ("level_rights", read.last_right),
            (_STORED_TABLE, read.last_stored),
        ):
            query = f"SELECT decided_ms FROM {table} WHERE number = :number"  # noqa: S608 ours
            found = self._store.rows(query, {"number": number}) if number else []
            if number and (not found or found[0]["decided_ms"] != decided_ms):
                return False
        return True

    def _rules_after(self, number: int) -> list[Rule]:
        return [
            Rule(
                row["number"],
                _target_in(row),
                Level(row["level"]) if row["level"] else None,
                *_who_when_why(row),
            )
            for row in self._rows_after(_SHOWN_TABLE, number)
        ]

    def _stored_after(self, number: int) -> list[StoredRule]:
        return [
            StoredRule(
                row["number"],
                _target_in(row),
                StoredLevel(row["level"]) if row["level"] else None,
                *_who_when_why(row),
                is_stored=True,
            )
            for row in self._rows_after(_STORED_TABLE, number)
        ]

    def _rows_after(self, table: str, number: int) -> list[Any]:
        query = f"SELECT {_RULE_COLUMNS} FROM {table} WHERE number > :number ORDER BY number"  # noqa: S608 ours
        return self._store.rows(query, {"number": number})

    def _rights_after(self, number: int) -> list[LevelRight]:
        query = f"SELECT {_RIGHT_COLUMNS} FROM level_rights WHERE number > :number ORDER BY number"  # noqa: S608 ours
        return [
            LevelRight(
                row["number"],
                row["wiki"],
                row["editor"],
                LevelScope(row["scope"]),
                Level(row["most"]) if row["most"] else None,
                *_who_when_why(row),
            )
            for row in self._store.rows(query, {"number": number})
        ]


def _check(
    rules: RuleTable[_L], targets: Sequence[LevelTarget], level: _L | None, actor: LevelActor
) -> None:
    for target in targets:
        rules.check_right(actor, target, level)
        if level is None and rules.at(target) is None:
            raise InputError(f"There is no rule about {target} to take away.")


def _additions(
    table: str, targets: Sequence[LevelTarget], level: StrEnum | None, by: Mapping[str, object]
) -> list[tuple[str, Mapping[str, object]]]:
    return [
        (
            f"INSERT INTO {table} ({_RULE_COLUMNS}) VALUES"  # noqa: S608 constants of ours
            f" ((SELECT COALESCE(MAX(number), 0) + 1 FROM {table}), :scope, :wiki, :what,"
            " :level, :actor, :actor_wiki, :decided_ms, :reason)",
            {
                "scope": target.scope.value,
                "wiki": target.wiki,
                "what": target.what,
                "level": level.value if level is not None else "",
                **by,
            },
        )
        for target in targets
    ]


def _target_in(row: Any) -> LevelTarget:
    return LevelTarget(LevelScope(row["scope"]), row["wiki"], row["what"])


def _by(actor: LevelActor, now: datetime, reason: str) -> dict[str, object]:
    if len(reason) > _LONGEST_REASON:
        raise InputError(f"A reason has at most {_LONGEST_REASON} characters.")
    return {
        "actor": actor.name,
        "actor_wiki": actor.wiki,
        "decided_ms": unix_milliseconds(now),
        "reason": reason,
    }


def _who_when_why(row: Any) -> tuple[LevelActor, datetime, str]:
    decided_at = from_unix_milliseconds(row["decided_ms"])
    return LevelActor(row["actor"], row["actor_wiki"]), decided_at, row["reason"]


def _last(decisions: Sequence[LevelDecision[Any]] | Sequence[LevelRight]) -> tuple[int, int] | None:
    if not decisions:
        return None
    last = decisions[-1]
    return last.number, unix_milliseconds(last.decided_at)
