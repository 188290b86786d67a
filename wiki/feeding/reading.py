"""Pages read from the wiki, with what their wikitext says of links; a few at a time."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from core.errors import BodyTooLargeError
from wiki.api.facts import WikiPage
from wiki.feeding.putting import Read
from wiki.feeding.source import PAGES_AT_ONCE, Source
from wiki.wikitext.citations import Citation

Cite = Callable[[str], Sequence[Citation]]

log = logging.getLogger(__name__)


def nothing_cited(_text: str) -> Sequence[Citation]:
    """No citations: for whoever wants links alone."""
    return ()


async def read_pages(
    source: Source,
    cite: Cite,
    *,
    ids: Collection[int] = (),
    titles: Collection[str] = (),
    is_classed: bool = False,
    items_at: str | None = None,
) -> Read:
    """What the wiki tells of pages, of at most `PAGES_AT_ONCE` ids or titles.

    What is too large to be read at once is read page by page; a page that alone is too large is passed
    over, and read again with the next sweep.

    Args:
        source: the wiki.
        cite: reads its wikitext.
        ids: of pages.
        titles: instead of ids.
        is_classed: with categories and templates.
        items_at: as in `Source.pages`.

    Raises:
        WeboidError: the wiki, or the repository of its items, could not be asked.
    """
    try:
        pages = await source.pages(ids, titles, is_classed=is_classed, items_at=items_at)
    except BodyTooLargeError:
        if len(ids) + len(titles) <= 1:
            log.warning("page %s is too large to be read", next(iter([*ids, *titles]), "?"))
            return Read(asked=frozenset(ids))
        again = partial(read_pages, source, cite, is_classed=is_classed, items_at=items_at)
        halves = _halves(list(ids), list(titles))
        return joined([await again(ids=some, titles=named) for some, named in halves])
    there = tuple(page for page in pages if not page.is_missing and page.page_id)
    missing = {page.page_id for page in pages if page.is_missing and page.page_id}
    citations = await asyncio.to_thread(_cited, there, cite)
    return Read(there, frozenset(missing), citations, frozenset(ids))


def joined(parts: Iterable[Read]) -> Read:
    """All of what was read, together."""
    found = list(parts)
    citations: dict[int, Sequence[Citation]] = {}
    for each in found:
        citations |= each.citations
    pages = tuple(page for each in found for page in each.pages)
    there = {page.page_id for page in pages}
    return Read(
        pages,
        frozenset().union(*(each.missing for each in found)) - there,
        citations,
        frozenset().union(*(each.asked for each in found)),
    )


def parts(values: Iterable[int], size: int = PAGES_AT_ONCE) -> Iterator[list[int]]:
    """The numbers in lists that one question may have."""
    rest = iter(values)
    while part := list(islice(rest, size)):
        yield part


def text_parts(values: Iterable[str], size: int = PAGES_AT_ONCE) -> Iterator[list[str]]:
    """The titles in lists that one question may have."""
    rest = iter(values)
    while part := list(islice(rest, size)):
        yield part


def _halves(ids: list[int], titles: list[str]) -> list[tuple[list[int], list[str]]]:
    if titles:
        middle = (len(titles) + 1) // 2
        return [(ids, titles[:middle]), ([], titles[middle:])]
    middle = (len(ids) + 1) // 2
    return [(ids[:middle], []), (ids[middle:], [])]


def _cited(pages: Sequence[WikiPage], cite: Cite) -> dict[int, Sequence[Citation]]:
    found = {}
    for page in pages:
        if page.text is not None and page.model == "wikitext":
            try:
                found[page.page_id] = cite(page.text)
            except RecursionError:
                log.warning("the citations of page %s cannot be read", page.page_id)
            except Exception:
                log.exception("the citations of page %s cannot be read", page.page_id)
    return found
