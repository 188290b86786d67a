"""Level decisions in the decision store, append-only; the last one about a target is in force."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from core.config.stored_level import StoredLevel
from core.errors import InputError
from core.timestamps import from_unix_milliseconds, unix_milliseconds
from playback.access.decision_store import DecisionStore, WatchedValue, numbered_row
from playback.access.levels import Level, LevelActor, LevelDecision, LevelRight, LevelRules, LevelScope, LevelTarget

_LONGEST_REASON = 2_000  # characters
_SHOWN, _STORED, _RIGHTS = "levels", "stored_levels", "level_rights"  # tables


class LevelStore:
    """Level decisions in a store owned by the caller. Thread-safe; all methods raise TransientError."""

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
        level: Level | StoredLevel | None,
        *,
        actor: LevelActor,
        now: datetime,
        reason: str = "",
        is_stored: bool = False,
    ) -> None:
        """Set the shown or stored level of all targets, or remove their rules (None), in one transaction.

        Raises InputError, changing nothing: the actor lacks a right, there is no rule, or the reason is too long.
        """
        self.check(targets, level, actor=actor, is_stored=is_stored)
        rows = [
            {"scope": each.scope.value, "wiki": each.wiki, "what": each.what, "level": level or ""} for each in targets
        ]
        self._add(_STORED if is_stored else _SHOWN, rows, actor, now, reason)

    def check(
        self,
        targets: Sequence[LevelTarget],
        level: Level | StoredLevel | None,
        *,
        actor: LevelActor,
        is_stored: bool = False,
    ) -> None:
        """Raise InputError unless the actor may `decide` this, and there is a rule to remove."""
        rules = self.now().of_kind(is_stored=is_stored)
        for target in targets:
            rules.check_right(actor, target, level)
            if level is None and rules.at(target) is None:
                raise InputError(f"There is no rule for {target} to remove.")

    def allow(self, right: LevelRight) -> None:
        """Grant editors a right, or with ``most=None`` withdraw it; InputError: no operator, or no such right."""
        if not right.actor.is_operator:
            raise InputError(f"{right.actor} may not grant rights: only operators do.")
        existing = {(each.wiki, each.editor) for each in self.now().rights}
        if right.most is None and (right.wiki, right.editor) not in existing:
            whose = f"{right.editor}@{right.wiki}" if right.editor else f"Editors of {right.wiki}"
            raise InputError(f"{whose} have no right that could be withdrawn.")
        values = {"wiki": right.wiki, "editor": right.editor, "scope": right.scope.value, "most": str(right.most or "")}
        self._add(_RIGHTS, [values], right.actor, right.decided_at, right.reason)

    def history(self, *, is_stored: bool = False) -> list[LevelDecision[Any]]:
        """Return every decision about shown or stored levels, oldest first."""
        return self._after(_STORED if is_stored else _SHOWN)

    def rights_history(self) -> list[LevelRight]:
        """Return every decision about rights, oldest first."""
        return self._after(_RIGHTS)

    def _load(self, _store: DecisionStore) -> LevelRules:
        rules, last = self._read
        for table, (number, decided_ms) in last.items():
            query = f"SELECT decided_ms FROM {table} WHERE number = :number"  # noqa: S608 ours
            rows = self._store.rows(query, {"number": number})
            if not rows or rows[0]["decided_ms"] != decided_ms:
                rules, last = LevelRules(), {}  # another file has replaced the store
                break
        new = {table: self._after(table, last) for table in _DECODE}
        if any(new.values()):
            rules = LevelRules(new[_SHOWN], new[_RIGHTS], new[_STORED], before=rules)
            last = last | {
                table: (rows[-1].number, unix_milliseconds(rows[-1].decided_at)) for table, rows in new.items() if rows
            }
        self._read = rules, last
        return rules

    def _after(self, table: str, last: Mapping[str, tuple[int, int]] = {}) -> list[Any]:
        query = f"SELECT * FROM {table} WHERE number > :number ORDER BY number"  # noqa: S608 ours
        number = last[table][0] if table in last else 0
        return [_DECODE[table](row) for row in self._store.rows(query, {"number": number})]

    def _add(
        self, table: str, rows: Sequence[Mapping[str, str]], actor: LevelActor, now: datetime, reason: str
    ) -> None:
        if len(reason) > _LONGEST_REASON:
            raise InputError(f"A reason has at most {_LONGEST_REASON} characters.")
        decided = {
            "actor": actor.name,
            "actor_wiki": actor.wiki,
            "decided_ms": unix_milliseconds(now),
            "reason": reason,
        }
        self._store.change([numbered_row(table, {**row, **decided}) for row in rows])


def _rule(row: Any, kind: type[Level | StoredLevel] = Level) -> LevelDecision[Any]:
    target = LevelTarget(LevelScope(row["scope"]), row["wiki"], row["what"])
    level = kind(row["level"]) if row["level"] else None
    return LevelDecision(row["number"], target, level, *_who_when_why(row), is_stored=kind is StoredLevel)


def _right(row: Any) -> LevelRight:
    most = Level(row["most"]) if row["most"] else None
    scope = LevelScope(row["scope"])
    return LevelRight(row["number"], row["wiki"], row["editor"], scope, most, *_who_when_why(row))


def _who_when_why(row: Any) -> tuple[LevelActor, datetime, str]:
    return LevelActor(row["actor"], row["actor_wiki"]), from_unix_milliseconds(row["decided_ms"]), row["reason"]


_DECODE: Mapping[str, Callable[[Any], Any]] = {
    _SHOWN: _rule,
    _RIGHTS: _right,
    _STORED: partial(_rule, kind=StoredLevel),
}
