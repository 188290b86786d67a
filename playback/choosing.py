"""Which of a URL's captures is offered, as SQL that both databases understand.

Never a second-best capture where there is a good one: captures are ordered by the rank of their class
(`core.classes`), then by their distance from the moment asked for. The very URL comes first, then the
same under the other scheme, then its other equals by replay key, which merges distinct pages; an error
at the very URL is still its own, but a check for robots is nobody's.
"""

from core.classes import rank_sql, withheld_sql
from core.pages import Outcome

OFFERED = f"outcome NOT IN ('{Outcome.FAILED}', '{Outcome.SKIPPED}')"
WITHHELD = withheld_sql()
_RANK = rank_sql()
_DISTANCE = "abs(captured_ms - :at)"

# How a row's URL is the one asked for; `twin_of` gives the value of :twin.
_NEARNESS = (
    "CASE WHEN url = :url THEN 0 WHEN url = :twin THEN 1 ELSE 2 END"
)
# Good ones of the very URL or its twin, then whatever there is of these, then the rest.
BEST_FIRST = (
    f"{WITHHELD},"
    f" CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END,"
    f" {_RANK}, {_NEARNESS}, {_DISTANCE}, captured_ms, page_id"
)
GOOD = f"{_RANK} = 0"


def twin_of(url: str) -> str:
    """The same URL under the other of the web's schemes.

    >>> twin_of("http://example.org/a")
    'https://example.org/a'
    """
    scheme, colon, rest = url.partition(":")
    return f"{ {'http': 'https', 'https': 'http'}.get(scheme, scheme)}{colon}{rest}"
