"""The one thing that a request changes: the day a page was last asked for (W22, W34).

It is written once a day for each page. A ping also marks the page, so that the feeder reads its links
again. Nothing is made: a page that nobody observes stays unknown (W10, W12).
"""

from sqlalchemy import ColumnElement, Select, and_, false, or_, select, update

from links.store.schema import pages
from links.store.store import Store
from playback.front.registry.asking import PageQuestion
from playback.front.registry.reading import Reading, spellings


def note_request(store: Store, question: PageQuestion, day: int) -> None:
    """Note that the pages were asked for today, those of them that are observed.

    The registry is written to only when there is news, so that who asks for a page again and again
    keeps no writer waiting.

    Raises:
        TransientError: the registry does not answer; nothing was noted.
    """
    with store.reading() as connection:
        wiki = Reading(connection, day).wiki(question.wiki)
        if wiki is None:
            return
        new = list(connection.execute(unnoted(question, wiki.id, day)).scalars())
    if new:
        stale = {"is_stale": True} if question.is_ping else {}
        with store.writing() as connection:
            connection.execute(
                update(pages).where(pages.c.id.in_(sorted(new))).values(asked_day=day, **stale)
            )


def unnoted(question: PageQuestion, wiki_id: int, day: int) -> Select[tuple[int]]:
    """The rows of those pages that something is to be noted of."""
    named: ColumnElement[bool] = or_(
        pages.c.page_id.in_(question.page_ids), pages.c.title.in_(spellings(question.titles))
    )
    news = or_(pages.c.asked_day.is_(None), pages.c.asked_day < day)
    if question.is_ping:
        news = or_(news, pages.c.is_stale == false())
    return select(pages.c.id).where(pages.c.wiki_id == wiki_id, and_(named, news))
