"""Level decisions in the decision store, append-only.

What holds is the last decision about each thing. Reading goes on where it stopped, so a change costs
what it says and not what was said before.
"""

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
    """What was read of the book, and up to where."""

    rules: LevelRules
    last_rule: tuple[int, int] = (0, 0)  # number and moment
    last_right: tuple[int, int] = (0, 0)
    last_stored: tuple[int, int] = (0, 0)


class LevelStore:
    """The decisions about levels in a store, which belongs to whoever lends it. From any thread."""

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._read = _LevelLogState(LevelRules())
        self._watched = WatchedValue(store, self._load)

    def now(self) -> LevelRules:
        """What holds now.

        Raises:
            TransientError: the store cannot be read.
        """
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
        """Give all of the targets that level; None: take their rules away.

        Raises:
            InputError: the actor may not do that to one of them, there is no rule to take away, or
                the reason is too long; then none of them is changed.
            TransientError: the store cannot be written.
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
        """Give all of the targets that stored level; arguments and errors as of `decide`."""
        self.check_stored(targets, level, actor=actor)
        by = _by(actor, now, reason)
        self._store.change(_additions(_STORED_TABLE, targets, level, by))

    def check(
        self, targets: Sequence[LevelTarget], level: Level | None, *, actor: LevelActor
    ) -> None:
        """Return when the actor may `decide` that.

        Raises:
            InputError: not of all of the targets, or there is no rule to take away.
            TransientError: the store cannot be read.
        """
        _check(self.now(), targets, level, actor)

    def check_stored(
        self, targets: Sequence[LevelTarget], level: StoredLevel | None, *, actor: LevelActor
    ) -> None:
        """Return when the actor may `decide_stored` that; raises as `check`."""
        _check(self.now().stored, targets, level, actor)

    def allow(self, right: LevelRight) -> None:
        """Let editors decide what `right` says; with ``most=None`` no longer. Its number is not read.

        Raises:
            InputError: its actor is no operator, or there is no such right to withdraw.
            TransientError: the store cannot be written.
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
        """Every decision about shown levels, the oldest first.

        Raises:
            TransientError: the store cannot be read.
        """
        return self._rules_after(0)

    def stored_history(self) -> list[StoredRule]:
        """Every decision about stored levels, the oldest first.

        Raises:
            TransientError: the store cannot be read.
        """
        return self._stored_after(0)

    def rights_history(self) -> list[LevelRight]:
        """Every decision about rights, the oldest first.

        Raises:
            TransientError: the store cannot be read.
        """
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
