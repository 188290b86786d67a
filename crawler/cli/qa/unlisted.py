"""Visits whose manifest is gone: all else of them may be there, and no reader is offered their pages.

A page is known by its manifest, so that no check of pages ever meets one without. What tells of it is
another record of the same visit: its final document.
"""

from dataclasses import dataclass

from core.errors import BadUrlError
from core.records import ArtifactKind, parse_artifact_uri
from crawler.frontier.base import Frontier, ItemState
from playback.captures_queries import KeyRange, range_values
from playback.database import Database

MOST = 1_000
_TO_COME = frozenset({ItemState.QUEUED, ItemState.CLAIMED})
_DOCUMENTS = KeyRange.of_prefix(f"urn:{ArtifactKind.DOM.lower()}:")


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A visit without a manifest.

    Attributes:
        page_id: in the records that there are.
        url: what was visited.
    """

    page_id: str
    url: str


def without_manifest(database: Database) -> list[Unlisted]:
    """The first `MOST` visits that the index has a document of, and no page.

    Raises:
        TransientError: the index cannot be read.
    """
    rows = database.rows(
        f"SELECT url, page_id FROM captures WHERE {database.in_range} AND page_id IS NOT NULL"  # noqa: S608 constants of ours
        " AND NOT EXISTS (SELECT 1 FROM pages WHERE pages.page_id = captures.page_id)"
        f" ORDER BY {', '.join(database.by_key)}, captured_ms LIMIT {MOST}",
        range_values(_DOCUMENTS),
    )
    artifacts = ((row["page_id"], parse_artifact_uri(row["url"])) for row in rows)
    return [Unlisted(page_id, found[1]) for page_id, found in artifacts if found is not None]


def is_to_come(frontier: Frontier, visit: Unlisted) -> bool:
    """Whether the visit goes on, or is to be made again because it broke off.

    Raises:
        TransientError: the frontier cannot be read.
    """
    try:
        record = frontier.find(visit.url)
    except BadUrlError:
        return False
    return record is not None and record.item.id == visit.page_id and record.state in _TO_COME
