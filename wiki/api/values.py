"""Values out of a wiki's answers, whatever stands there: of the right type, bounded, or an error.

Both formats are read: in the first one a text stands under ``*``, and a flag is there, though empty.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from core.http_dates import parse_web_date
from wiki.api.errors import WikiAwayError

TEXT_LIMIT_CHARS: Final = 16 * 1024 * 1024
_MOST: Final = 2**62
_T = TypeVar("_T")


def query_of(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands under ``query``; nothing when it is missing, as in an answer without results.

    Raises:
        WikiAwayError: it is something else.
    """
    found = told.get("query", {})
    if isinstance(found, dict):
        return found
    if found == []:  # PHP's empty array
        return {}
    raise WikiAwayError("The wiki's answer is not of the form that its API has.")


def rows_of(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects in a list, or in an object whose keys are numbers (the first format).

    Raises:
        WikiAwayError: there is something else.
    """
    rows = found.get(name, [])
    if isinstance(rows, dict):
        rows = list(rows.values())
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise WikiAwayError(f"The wiki's answer is not of the form that its API has ({name}).")
    return rows


def a_text(row: Mapping[str, Any], *names: str) -> str:
    """The first of these that is a text; empty without one."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and len(value) <= TEXT_LIMIT_CHARS:
            return value
    return ""


def a_count(row: Mapping[str, Any], name: str) -> int:
    """A whole number; 0 when it is missing, hidden or something else."""
    value = row.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:19])
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if -_MOST < value < _MOST else 0


def a_bool(row: Mapping[str, Any], name: str) -> bool:
    """A flag: true, or there at all in the first format."""
    return row.get(name, False) not in (False, None, 0)


def a_moment(value: Any) -> datetime:
    """A moment of the API's.

    Raises:
        WikiAwayError: it is none.

    >>> a_moment("2026-11-21T20:15:00Z").isoformat()
    '2026-11-21T20:15:00+00:00'
    """
    found = parse_web_date(value) if isinstance(value, str) else None
    if found is None:
        raise WikiAwayError("The wiki's answer has something else where a time belongs.")
    return found


def continued(told: Mapping[str, Any]) -> dict[str, str]:
    """What is to be sent along for the next part; empty at the end."""
    found = told.get("continue")
    if not isinstance(found, dict):
        return {}
    return {str(k): str(v) for k, v in found.items() if isinstance(v, str | int)}


def token_in(told: Mapping[str, Any], kind: str) -> str:
    """The token of that kind.

    Raises:
        WikiAwayError: there is none.
    """
    query = told.get("query")
    tokens = query.get("tokens") if isinstance(query, dict) else None
    found = tokens.get(f"{kind}token") if isinstance(tokens, dict) else None
    if not isinstance(found, str) or not found:
        raise WikiAwayError(f"The wiki gives no {kind} token.")
    return found


def listed(values: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """The values in lists that are not longer than that."""
    for start in range(0, len(values), size):
        yield list(values[start : start + size])
