"""Statements that are compiled once: what the hot path costs is then the database's work alone.

    PAGE = Statement(select(pages.c.title).where(pages.c.id.in_(many("ids"))))
    PAGE.rows(connection, {"ids": [3, 4]})

A statement is SQLAlchemy's and runs on SQLite and PostgreSQL. It is compiled for each database, and
for lists that are half as long, twice as long and so on: a list is filled up with its last value.
`rows` asks the driver itself; the values that come back are the driver's (a boolean of SQLite is 0
or 1). Whoever keeps its statements in a module's names has their plans checked by the tests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Connection, Executable, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite

MOST = 512  # values in one list
T = TypeVar("T")


def one(name: str, type_: Any = None) -> BindParameter[Any]:
    """A value that is given when the statement is run."""
    return bindparam(name, type_=type_)


def many(name: str) -> BindParameter[Any]:
    """A list of values, for ``in_``: at least one, at most `MOST`."""
    return bindparam(name, expanding=True)


def batches(values: Iterable[T], size: int = MOST) -> Iterator[list[T]]:
    """The values in lists that are not longer than that."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch


def insert_or_leave(connection: Connection, table: Table) -> Executable:
    """An INSERT that leaves rows as they are that are there already."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()


class Statement:
    """A statement of the registry, compiled when it is first needed.

    Attributes:
        body: SQLAlchemy's.
        lists: the names of its lists.
    """

    def __init__(self, body: Executable, *lists: str) -> None:
        """Take the statement, and which of its values are lists."""
        self.body = body
        self.lists = lists
        self._plans: dict[tuple[str, int], _Plan] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """All rows of the answer, as tuples."""
        size = _padded(max((len(values[name]) for name in self.lists), default=0))
        plan = self._plans.get((connection.dialect.name, size))
        if plan is None:
            plan = self.compiled(connection, size)
            self._plans[connection.dialect.name, size] = plan
        driver: Any = connection.connection.driver_connection
        found: list[Any] = driver.execute(plan.text, plan.given(values)).fetchall()
        return found

    def run(
        self, connection: Connection, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> int:
        """Run it, once or for each of the mappings; how many rows it changed."""
        if not values and not isinstance(values, Mapping):
            return 0
        return connection.execute(self.body, values).rowcount  # type: ignore[arg-type]

    def compiled(self, connection: Connection, size: int) -> "Plan":
        """It as the connection's database takes it, with lists of that size."""
        body: Any = self.body
        made = body.compile(dialect=connection.dialect)
        wanted = [key for key, bind in made.binds.items() if bind.required]
        empty = {name: [None] * size if name in self.lists else None for name in wanted}
        state = made.construct_expanded_state(empty)
        keys = list(state.parameters) if state.positiontup is None else state.positiontup
        slots = tuple(self._slot(key, state.parameters) for key in keys)
        return Plan(state.statement, slots, is_named=state.positiontup is None)

    def _slot(self, key: str, constants: Mapping[str, Any]) -> "_Slot":
        for name in self.lists:
            start, _, number = key.rpartition("_")
            if start == name and number.isdigit():
                return key, name, int(number) - 1, None
        if constants.get(key) is not None:
            return key, "", 0, constants[key]
        return key, key, None, None


# The value's key in the text; whose it is, and its place when that is a list; or what is always given.
_Slot = tuple[str, str, int | None, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement's text for one database, and what goes where in it."""

    text: str
    slots: tuple[_Slot, ...]
    is_named: bool

    def given(self, values: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
        """What the driver is given."""
        if self.is_named:
            return {slot[0]: _value(slot, values) for slot in self.slots}
        return [_value(slot, values) for slot in self.slots]


def _value(slot: _Slot, values: Mapping[str, Any]) -> Any:
    _, name, place, constant = slot
    if not name:
        return constant
    if place is None:
        return values[name]
    listed = values[name]
    return listed[place] if place < len(listed) else listed[-1]


def _padded(size: int) -> int:
    assert size <= MOST, size
    return 1 << (size - 1).bit_length() if size else 0
