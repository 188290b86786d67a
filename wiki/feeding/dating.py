"""When a link was cited (B05, B06): as written, else when it came onto its page.

The registry knows the day on which a page was first seen with a link. For a page that had its links
before anybody looked that says nothing, so its history is asked: only when somebody needs the day, since
that takes a few questions for each link.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from links.books.citing import citations_of, days_cited
from links.books.pages import Ref
from links.books.urls import urls_by_id
from links.days import day_of
from links.store.store import Store
from wiki.api.client import Api
from wiki.api.history import first_with


class Dated(StrEnum):
    """How the day is known."""

    WRITTEN = "access-date"
    REVISION = "revision"
    SEEN = "first-seen"


@dataclass(frozen=True, slots=True)
class Cited:
    """The day on which a link was cited (a number of `links.days`), and how it is known."""

    day: int
    how: Dated


async def cited_day(api: Api, store: Store, link: Ref, page_id: int) -> Cited | None:
    """When the link was cited; None when the page never had it.

    Args:
        api: the wiki's.
        store: the registry.
        link: by the registry's numbers.
        page_id: the wiki's number for the page.

    Raises:
        WeboidError: the wiki or the registry cannot be asked.
    """
    found = await asyncio.to_thread(_known, store, link)
    if found is None or found[0].how is Dated.WRITTEN:
        return found and found[0]
    seen, url = found
    revision = await first_with(api, page_id, url)
    if revision is None:  # it comes from a template
        return seen
    day = day_of(revision.moment)
    return Cited(day, Dated.REVISION) if day <= seen.day else seen


def _known(store: Store, link: Ref) -> tuple[Cited, str] | None:
    with store.reading() as reader:
        day = days_cited(reader, link.page).get(link.url_id)
        urls = urls_by_id(reader, [link.url_id])
        row = citations_of(reader, [link.page]).get(link)
    if day is None or link.url_id not in urls:
        return None
    is_written = row is not None and row.access_day is not None
    return Cited(day, Dated.WRITTEN if is_written else Dated.SEEN), urls[link.url_id].url
