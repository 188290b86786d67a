"""What the feeder asks of a wiki: each answer is bounded, and a token says how to go on.

`ApiSource` (`wiki.feeding.asking`) asks the action API. Whoever asks twice with the same token is
told of the same place, so a token may be kept for weeks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wiki.api.changes import ChangeBatch
from wiki.api.facts import SiteFacts, WikiPage

PAGES_AT_ONCE = 50  # what every account may ask for in one question


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list."""

    page_id: int
    title: str
    namespace: int


@dataclass(frozen=True)
class Listing:
    """A part of a list of pages; `resume` says where it goes on, and is empty at its end."""

    pages: tuple[Listed, ...]
    resume: str = ""


class Source(Protocol):
    """A wiki. All may raise what `wiki.api.errors` has."""

    async def facts(self) -> SiteFacts:
        """The wiki as it describes itself now."""
        ...

    async def changes(self, cursor: str) -> ChangeBatch:
        """What changed since that cursor was told; without one, a cursor for now."""
        ...

    async def pages(
        self,
        ids: Collection[int] = (),
        titles: Collection[str] = (),
        *,
        is_classed: bool = False,
        items_at: str | None = None,
    ) -> Sequence[WikiPage]:
        """Pages as they are now, with links and text; those that are not there as missing.

        Args:
            ids: up to `PAGES_AT_ONCE`.
            titles: instead of ids; redirects are not followed.
            is_classed: with categories and templates.
            items_at: with what the pages' Wikidata items say, by the repository whose api.php that is;
                empty: the wiki says where it is. None: without.
        """
        ...

    async def texts(self, titles: Sequence[str], address: str = "") -> Mapping[str, str | None]:
        """The texts of pages of the wiki, or of the one whose api.php is at that address; None: no page."""
        ...

    async def missing(self, titles: Sequence[str], address: str = "") -> frozenset[str]:
        """Those of the titles that have no page, as they were given.

        Args:
            titles: any number of them.
            address: the api.php of another wiki of the farm; empty: this one's.
        """
        ...

    async def size(self, namespaces: Collection[int]) -> int:
        """How many pages these namespaces have, about; for people who wait."""
        ...

    async def listed(self, namespace: int, start: str = "") -> Listing:
        """Pages of a namespace by their titles, from that token or title on."""
        ...

    async def using(self, title: str, resume: str = "") -> Listing:
        """Pages that use a template."""
        ...

    async def members(self, category: str, resume: str = "", *, are_categories: bool) -> Listing:
        """What is in a category itself: pages, or categories."""
        ...
