"""SQL statements compiled once per database, and portable upserts.

Lists are padded to lengths in powers of two. `rows` calls the driver itself, so values are the driver's
(a boolean of SQLite is 0 or 1). Tests check the query plans of all module constants.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from sqlalchemy import BindParameter, ColumnElement, Connection, Dialect, Executable, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite

MOST = 512  # values in one list
T = TypeVar("T")


def one(name: str, type_: Any = None) -> BindParameter[Any]:
    """Create a parameter for a single value."""
    return bindparam(name, type_=type_)


def many(name: str) -> BindParameter[Any]:
    """Create a parameter for a list of values, for ``in_``: at least one, at most `MOST`."""
    return bindparam(name, expanding=True)


def batches(values: Iterable[T], size: int = MOST) -> Iterator[list[T]]:
    """Split the values into lists of at most `size`."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """Snapshot of the database, for read-only statements (`links.registry.database.RegistryStore.snapshot`)."""

    driver: Any  # the driver's connection
    dialect: Dialect


Reader = Connection | DatabaseSnapshot


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """SQL text of a statement for one database, and its parameters."""

    text: str
    # in the order of the text: a value's name, and its index in the list (None: it is no list); or
    # no name, and a constant value
    parts: tuple[tuple[str, int | None, Any], ...]
    keys: tuple[str, ...] | None  # the parameter names of the text; None for positional parameters

    def driver_parameters(self, values: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
        """Build the driver's parameters."""
        parameters: list[Any] = []
        for name, count, constant in self.parts:
            if count is not None:
                listed = values[name]
                parameters += listed
                if len(listed) < count:
                    parameters += [listed[-1]] * (count - len(listed))
            else:
                parameters.append(values[name] if name else constant)
        return parameters if self.keys is None else dict(zip(self.keys, parameters, strict=True))


class SqlStatement:
    """Statement of the registry, compiled on first use; `lists` names its list parameters."""

    def __init__(self, body: Executable, *lists: str) -> None:
        """Store the statement, and find its list parameters."""
        self.body = body
        self.lists = lists
        self._plans: dict[tuple[str, tuple[int, ...]], StatementPlan] = {}

    def rows(self, reader: Reader, values: Mapping[str, Any]) -> list[Any]:
        """Fetch all rows as tuples."""
        dialect = reader.dialect
        sizes = tuple([1 << (len(values[name]) - 1).bit_length() if values[name] else 0 for name in self.lists])
        plan = self._plans.get((dialect.name, sizes))
        if plan is None:
            plan = self._plans[dialect.name, sizes] = self.compiled(dialect, sizes)
        driver: Any = reader.driver if isinstance(reader, DatabaseSnapshot) else reader.connection.driver_connection
        rows: list[Any] = driver.execute(plan.text, plan.driver_parameters(values)).fetchall()
        return rows

    def run(self, connection: Connection, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> int:
        """Run it, once or for each of the mappings; return the number of changed rows."""
        return connection.execute(self.body, values).rowcount if values or isinstance(values, Mapping) else 0

    def each(self, reader: Reader, name: str, values: Iterable[Any], **others: Any) -> Iterator[Any]:
        """Yield the rows for a list of any length, in batches; `name` is the list's."""
        return chain.from_iterable(self.rows(reader, {name: batch, **others}) for batch in batches(values))

    def run_each(self, connection: Connection, name: str, values: Iterable[Any], **others: Any) -> int:
        """Run it for a list of any length, in batches; return the number of changed rows."""
        return sum(self.run(connection, {name: batch, **others}) for batch in batches(values))

    def compiled(self, dialect: Dialect, sizes: Sequence[int]) -> StatementPlan:
        """Return its plan for a database, with lists of these sizes."""
        assert all(size <= MOST for size in sizes), sizes
        size = dict(zip(self.lists, sizes, strict=True))
        body: Any = self.body
        compiled = body.compile(dialect=dialect)
        wanted = [key for key, bind in compiled.binds.items() if bind.required]
        empty = {name: [None] * size[name] if name in size else None for name in wanted}
        state = compiled.construct_expanded_state(empty)
        keys = list(state.parameters) if state.positiontup is None else list(state.positiontup)
        parts: list[tuple[str, int | None, Any]] = []
        for key in keys:
            name, _, number = key.rpartition("_")
            if name not in self.lists or not number.isdigit():
                constant = None if key in wanted else state.parameters[key]
                parts.append((key if key in wanted else "", None, constant))
            elif int(number) == 1:  # a list is one part, at its first value
                parts.append((name, size[name], None))
        return StatementPlan(state.statement, tuple(parts), None if state.positiontup else tuple(keys))


def upsert(connection: Connection, table: Table, keys: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows with the same columns, or update those with the same unique `keys`, no two of which are equal."""
    changed = [name for name in rows[0] if name not in keys] if rows else []
    merge(connection, table, keys, rows, lambda new: ({name: new[name] for name in changed}, None))


def merge(
    connection: Connection,
    table: Table,
    keys: Sequence[str],
    rows: Sequence[dict[str, Any]],
    change: Callable[[Any], tuple[dict[str, Any], ColumnElement[bool] | None]],
) -> None:
    """Insert the rows as `upsert`; `change` maps the new row to the updated values and their condition."""
    if not rows:
        return
    put = insert_into(connection, table)
    becomes, condition = change(put.excluded)
    put = put.on_conflict_do_update(index_elements=list(keys), set_=becomes, where=condition)
    connection.execute(put, rows)


def insert_missing(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert the rows that violate no primary key or unique constraint; others stay as they are."""
    if rows:
        connection.execute(insert_into(connection, table).on_conflict_do_nothing(), rows)


def insert_into(connection: Connection, table: Table) -> sqlite.Insert:
    """Return an INSERT with conflict handling for the connection's database."""
    if connection.dialect.name == "postgresql":
        # Both classes have the members used here, but no common base with them.
        return postgresql.insert(table)  # type: ignore[return-value]
    return sqlite.insert(table)


def insert_new(connection: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Insert the row unless its primary key exists; return True when it was inserted."""
    put = insert_into(connection, table).values(row).on_conflict_do_nothing()
    return connection.execute(put.returning(*table.primary_key)).first() is not None
