"""Rows of a table in a dump of MySQL or MariaDB, as Wikimedia publishes them.

A dump is lines: comments, a CREATE TABLE that names the columns, and INSERTs with many rows each.
"""

import re
from collections.abc import Iterator

BEGINNINGS = ("--", "/*", "DROP TABLE", "CREATE TABLE", "INSERT INTO", "LOCK TABLES")
_COLUMN = re.compile(r"\s*`(\w+)` ")
_INSERT = re.compile(r"INSERT INTO `?\w+`?\s*(?:\(([^)]*)\))?\s*VALUES\s*")
_VALUE = re.compile(
    r"\s*(?:'([^'\\]*(?:(?:\\.|'')[^'\\]*)*)'|(NULL)|([-+.\w]+))\s*([,)])", re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "r": "\r", "b": "\b", "Z": "\x1a"}


class SqlDump:
    """Reads a dump line by line.

    Attributes:
        columns: of the table, in their order; empty until its CREATE TABLE was read.
    """

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._is_creating = False

    def rows(self, line: str) -> Iterator[dict[str, str]]:
        """The rows that the line inserts, by columns; NULL is empty.

        Raises:
            ValueError: it cannot be read to its end; the rows before that place were given.
        """
        if line.startswith("CREATE TABLE"):
            self.columns, self._is_creating = [], True
        elif self._is_creating:
            column = _COLUMN.match(line)
            if column is not None:
                self.columns.append(column[1])
            self._is_creating = not line.startswith(")")
        elif (insert := _INSERT.match(line)) is not None:
            named = [name.strip(" `") for name in (insert[1] or "").split(",") if name.strip()]
            yield from _tuples(line, insert.end(), named or self.columns)


def unescaped(text: str) -> str:
    """What MySQL writes with backslashes."""
    if "\\" not in text and "''" not in text:
        return text
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else "'", text)


def _tuples(line: str, at: int, columns: list[str]) -> Iterator[dict[str, str]]:
    while at < len(line) and line[at] == "(":
        values, end = [], ","
        at += 1
        while end == ",":
            found = _VALUE.match(line, at)
            if found is None:
                raise ValueError(f"it cannot be read from its character {at + 1:,} on")
            text, null, number, end = found.groups()
            values.append("" if null else number or unescaped(text or ""))
            at = found.end()
        if len(values) != len(columns):
            raise ValueError(
                f"a row has {len(values)} values, and the table {len(columns)} columns"
            )
        yield dict(zip(columns, values, strict=True))
        if line[at : at + 1] != ",":
            break
        at += 1
        while line[at : at + 1].isspace():
            at += 1
    if line[at : at + 1] != ";":
        raise ValueError("its end is missing")
