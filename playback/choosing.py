"""Which of a URL's captures is offered, as SQL that both databases understand.

Never a second-best capture where there is a good one: captures are ordered by the rank of their class
(`core.classes`), then by their distance from the moment asked for. The very URL comes first, then the
same under the other scheme, then its other equals by replay key, which merges distinct pages; an error
at the very URL is still its own, but a check for robots is nobody's. A phone's capture is offered only
where no other one lies within `PHONE_BEHIND_MS` more of the moment.
"""

from typing import Any

from core.classes import rank_sql, usable_sql, withheld_sql
from core.pages import Device, Outcome

OFFERED = f"outcome NOT IN ('{Outcome.FAILED}', '{Outcome.SKIPPED}')"
WITHHELD = withheld_sql()
# Of these `core.classes.is_usable` holds, if replay shows them.
USABLE = f"({OFFERED} AND {usable_sql()})"

# Sites send phones other pages than most readers, who read on desktops, would have seen.
PHONE_BEHIND_MS = 30 * 86_400_000
DISTANCE = f"abs(captured_ms - :at) + CASE WHEN device = '{Device.PHONE}' THEN {PHONE_BEHIND_MS} ELSE 0 END"

# How a row's URL is the one asked for; `twin_of` gives the value of :twin.
_NEARNESS = "CASE WHEN url = :url THEN 0 WHEN url = :twin THEN 1 ELSE 2 END"
BEST_FIRST = (
    f"CASE WHEN {WITHHELD} THEN 1 ELSE 0 END, CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END,"
    f" {rank_sql()}, {_NEARNESS}, {DISTANCE}, captured_ms, page_id"
)


def distance_of(row: Any, at_ms: int) -> int:
    """Return what `DISTANCE` is of a row with `captured_ms` and `device`."""
    behind = PHONE_BEHIND_MS if row["device"] == Device.PHONE else 0
    return int(abs(row["captured_ms"] - at_ms)) + behind


# Before them the very capture whose timestamp was asked for.
EXACT_FIRST = "CASE WHEN timestamp = :timestamp AND url IN (:url, :twin) THEN 0 ELSE 1 END"


def twin_of(url: str) -> str:
    """The same URL under the other of the web's schemes.

    >>> twin_of("http://example.org/a")
    'https://example.org/a'
    """
    scheme, colon, rest = url.partition(":")
    return {"http": "https", "https": "http"}.get(scheme, scheme) + colon + rest
