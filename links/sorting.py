"""What becomes of a URL that stands on a page: watched, or why not (W50).

In this order: a scheme that no server answers is passed over; what breaks the rules of URLs is invalid
and never asked for (W48); example domains are passed over (W45); the farm's own hosts are not kept;
what a spam list names is noted and not asked for (W52); what the wiki's exclusion list names stays out
of the table (X05). All else is watched.
"""

from dataclasses import dataclass
from enum import StrEnum

from core.errors import BadUrlError
from core.urls import UrlFault, fetch_key, identity_key


class Sort(StrEnum):
    """What a URL on a page is to the registry."""

    WATCHED = "watched"
    PASSED_OVER = "passed-over"  # mailto:, tel:, …
    INVALID = "invalid"
    EXAMPLE = "example"
    INTERNAL = "internal"
    SPAM = "spam"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class Sorted:
    """A URL of a page, sorted.

    Attributes:
        text: as it stands on the page.
        sort: what it is.
        identity: its identity key; empty when it has none.
        note: why, a constant first: a fault, a list's line, an entry; empty when nothing is to be said.
    """

    text: str
    sort: Sort
    identity: str = ""
    note: str = ""


def sort_link(text: str) -> Sorted:
    """What the URL is, as far as its own text tells."""
    try:
        identity = identity_key(fetch_key(text))
    except BadUrlError as error:
        passed = error.reason == UrlFault.SCHEME
        return Sorted(text, Sort.PASSED_OVER if passed else Sort.INVALID, note=error.reason)
    return Sorted(text, Sort.WATCHED, identity)
