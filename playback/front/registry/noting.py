"""What a request changes: the day a page was last asked for, and what the feeder is handed (W22, W34).

It is written once a day for each page. A ping also marks the page, so that the feeder reads its links
again; so does a question that names another revision of the page than the one that was read (W08). A page that is not observed is handed to the feeder of its wiki, which applies the wiki's criteria;
asking makes no page and no URL (W10, W12).
"""

from collections.abc import Sequence

from links.books import asked_pages
from links.books.additions import revisions_of
from links.books.pages import PageRow, ask_for, find_pages, find_titled, mark_stale
from links.store.statements import Reader
from links.store.store import Store
from playback.front.registry.asking import PageQuestion
from playback.front.registry.reading import Reading, capital


def note_request(store: Store, question: PageQuestion, day: int) -> None:
    """Note that the pages were asked for today.

    The registry is written to only when there is news, so that who asks for a page again and again
    keeps no writer waiting.

    Args:
        store: the registry.
        question: the pages; of a wiki that the asker is told of.
        day: today.

    Raises:
        TransientError: the registry does not answer; nothing was noted.
    """
    with store.reading() as connection:
        wiki = Reading(connection, day, is_internal=True).wiki(question.wiki)
        if wiki is None:
            return
        known = find_pages(connection, wiki.id, question.page_ids)
        titled = {title: [title, capital(title)] for title in question.titles}
        rows = find_titled(connection, wiki.id, [each for two in titled.values() for each in two])
        there = {row.title for row in rows}
        news = {
            row.page_id
            for row in (*known.values(), *rows)
            if row.asked_day is None
            or row.asked_day < day
            or (question.is_ping and not row.is_stale)
        }
        late = _outdated(connection, question, [*known.values(), *rows])
        news |= late
        ids = [each for each in question.page_ids if each not in known]
        titles = [title for title, two in titled.items() if there.isdisjoint(two)]
        is_noted = asked_pages.is_noted(connection, wiki.id, ids, titles, day=day)
    if not news and is_noted:
        return
    with store.writing() as connection:
        ask_for(connection, wiki.id, news, day=day)
        if question.is_ping:
            late |= news
        if late:
            mark_stale(connection, wiki.id, late)
        if not is_noted:
            asked_pages.put_asked(connection, wiki.id, ids, titles, day=day)


def _outdated(reader: Reader, question: PageQuestion, rows: Sequence[PageRow]) -> set[int]:
    """Return the page, by the wiki's number, when its links were read from another revision."""
    if not question.revision:
        return set()
    read = revisions_of(reader, [row.id for row in rows if not row.is_stale])
    return {
        row.page_id for row in rows if not row.is_stale and read.get(row.id) != question.revision
    }
