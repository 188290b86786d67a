"""Backlog of links to be archived, with priority, due time and attempts.

A link gets its row in the transaction that adds it to a page, due after the wiki's grace period, so that reverted
vandalism is not archived, and dropped when it is then no longer on the page. The row is deleted when the archive has
taken the link (at-least-once delivery). Archived copies are kept (A24).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, literal_column, select, update

from links.registry.pages import PAGE_BITS, LinkRef
from links.registry.schema import pages, refs, wanted, wikis
from links.registry.statements import Reader, SqlStatement, insert_missing, many, one

HELD = timedelta(days=200)  # longer than any page stays that is not observed
MAX_ATTEMPTS = 32_000  # what the column holds
# Links of a page that its save may bring before those of others: more than most edits add.
AT_ONCE = 20


class ArchivePriority(IntEnum):
    """Priority of a backlog row, the most urgent first; the values are stored in registries."""

    SAVED = 0  # the page has just been saved
    CROWD = 2  # the same, but the page added so many that other pages' links go first
    REVIVED = 3  # the checker finds it alive, or no archive has it: if there is no good copy
    SWEPT = 1  # it stood there already
    WITHOUT_COPY = 4  # a sweep found it without a copy


# Links with a good copy are skipped.
UNLESS_ARCHIVED = frozenset({ArchivePriority.REVIVED, ArchivePriority.WITHOUT_COPY})


class BacklogRow(NamedTuple):
    """Link to archive."""

    page: int  # the registry's number for its page
    url_id: int
    since: datetime  # time when the page was found to have it
    due: datetime  # time of the next attempt
    attempts: int  # number of failed hand-overs
    priority: ArchivePriority
    title: str  # the page's
    # day when the page lost it; None: it has it. The title is empty, and the page unknown, when
    # there is no such link at all.
    gone_day: int | None
    is_there: bool
    spelling: str = ""  # the URL as written on the page; empty: as its identity key

    @property
    def page_id(self) -> int:
        """Return the page's number on its wiki."""
        return self.page & ((1 << PAGE_BITS) - 1)


_IS_LINK = (wanted.c.page == one("of"), wanted.c.url_id == one("url"))
DUE = SqlStatement(
    select(
        *(wanted.c.page, wanted.c.url_id, wanted.c.since, wanted.c.due, wanted.c.attempts),
        *(wanted.c.priority, pages.c.title, refs.c.gone_day, refs.c.first_day, refs.c.spelling),
    )
    .select_from(
        wanted.outerjoin(pages, pages.c.id == wanted.c.page).outerjoin(
            refs, (refs.c.page == wanted.c.page) & (refs.c.url_id == wanted.c.url_id)
        )
    )
    .where(wanted.c.wiki_id == one("wiki"), wanted.c.priority == one("which"), wanted.c.due <= one("now"))
    .order_by(wanted.c.due)
    .limit(one("most"))
)
NEXT_DUE = SqlStatement(
    select(func.min(wanted.c.due)).where(wanted.c.wiki_id == one("wiki"), wanted.c.priority == one("which"))
)
FORGET = SqlStatement(delete(wanted).where(*_IS_LINK))
POSTPONE = SqlStatement(update(wanted).where(*_IS_LINK).values(due=one("later"), attempts=one("tries")))
HURRY = SqlStatement(
    update(wanted).where(*_IS_LINK, wanted.c.priority == one("before")).values(priority=one("which"), due=one("later"))
)
HOLD_BACK = SqlStatement(update(wanted).where(wanted.c.page.in_(many("pages"))).values(due=one("later")), "pages")
LET_GO = SqlStatement(
    update(wanted).where(wanted.c.page.in_(many("pages")), wanted.c.due > one("far")).values(due=one("later")), "pages"
)
FIRST_USES = SqlStatement(
    select(func.min(refs.c.page), refs.c.url_id)
    .select_from(refs.join(wikis, wikis.c.id == refs.c.page // literal_column(str(1 << PAGE_BITS))))
    .where(refs.c.url_id.in_(many("urls")), refs.c.gone_day.is_(None), wikis.c.url != "")
    .group_by(refs.c.url_id),
    "urls",
)
_CURRENT = select(refs.c.page, refs.c.url_id).where(refs.c.page.in_(many("pages")), refs.c.gone_day.is_(None))
CURRENT = SqlStatement(_CURRENT, "pages")
STANDING = SqlStatement(_CURRENT.where(refs.c.first_day < one("before")), "pages")


def want_links(
    connection: Connection,
    links: Iterable[LinkRef],
    *,
    priority: ArchivePriority,
    now: datetime,
    grace: timedelta = timedelta(0),
) -> None:
    """Add links to the backlog, due after `grace`; only a saved page's first `AT_ONCE` get the highest priority."""
    moment, due = int(now.timestamp()), int((now + grace).timestamp())
    counts: Counter[int] = Counter()
    rows = []
    for link in links:
        counts[link.page] += 1
        is_crowd = priority is ArchivePriority.SAVED and counts[link.page] > AT_ONCE
        row = {"page": link.page, "url_id": link.url_id, "since": moment, "due": due, "attempts": 0}
        which = ArchivePriority.CROWD if is_crowd else priority
        rows.append(row | {"wiki_id": link.page >> PAGE_BITS, "priority": int(which)})
    insert_missing(connection, wanted, rows)
    order = list(map(int, ArchivePriority))
    for place, before in enumerate(order):
        facts = {"before": before, "later": due}
        hurried = (row for row in rows if row["priority"] in order[:place])
        HURRY.run(
            connection, [facts | {"of": row["page"], "url": row["url_id"], "which": row["priority"]} for row in hurried]
        )


def want_urls(connection: Connection, url_ids: Iterable[int], *, now: datetime) -> None:
    """Add these URLs to the backlog, for the first page that has each, on a wiki watched by its API."""
    links = [LinkRef(*row) for row in FIRST_USES.each(connection, "urls", sorted(set(url_ids)))]
    want_links(connection, links, priority=ArchivePriority.REVIVED, now=now)


def forget_links(connection: Connection, links: Iterable[LinkRef]) -> None:
    """Delete links from the backlog: their pages lost them, or the archive has them."""
    FORGET.run(connection, [{"of": link.page, "url": link.url_id} for link in links])


def postpone_links(connection: Connection, rows: Iterable[BacklogRow], *, until: datetime) -> None:
    """Set the next attempt of links that could not be handed over."""
    later = int(until.timestamp())
    postponed = ({"of": row.page, "url": row.url_id, "tries": min(row.attempts + 1, MAX_ATTEMPTS)} for row in rows)
    POSTPONE.run(connection, [each | {"later": later} for each in postponed])


def hold_back_pages(connection: Connection, numbers: Iterable[int], *, now: datetime) -> None:
    """Pause the backlog rows of these pages; they may be released later."""
    HOLD_BACK.run_each(connection, "pages", sorted(numbers), later=int((now + HELD).timestamp()))


def release_pages(connection: Connection, numbers: Iterable[int], *, now: datetime, grace: timedelta) -> None:
    """Release the paused backlog rows of these pages."""
    times = {"far": int((now + HELD / 2).timestamp()), "later": int((now + grace).timestamp())}
    LET_GO.run_each(connection, "pages", sorted(numbers), **times)


def due_links(reader: Reader, wiki_id: int, *, now: datetime, limit: int) -> list[BacklogRow]:
    """Return due links of a wiki: those of just saved pages first, then the longest waiting."""
    backlog: list[BacklogRow] = []
    for priority in ArchivePriority:
        if len(backlog) < limit:
            parameters = {"wiki": wiki_id, "which": int(priority), "now": int(now.timestamp())}
            rows = DUE.rows(reader, {**parameters, "most": limit - len(backlog)})
            for page, url_id, since, due, attempts, rank, title, gone_day, first_day, spelling in rows:
                times = (datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(due, UTC))
                link = (page, url_id, *times, attempts, ArchivePriority(rank), title or "")
                backlog.append(BacklogRow(*link, gone_day, first_day is not None, spelling or ""))
    return backlog


def next_due(reader: Reader, wiki_id: int) -> datetime | None:
    """Return when the next link of the wiki is due; None when none waits."""
    backlog = (NEXT_DUE.rows(reader, {"wiki": wiki_id, "which": int(priority)})[0][0] for priority in ArchivePriority)
    moments = [moment for moment in backlog if moment is not None]
    return datetime.fromtimestamp(min(moments), UTC) if moments else None


def current_links(reader: Reader, numbers: Sequence[int], *, before: int | None = None) -> list[LinkRef]:
    """Return the links that these pages have (and had before that day), by the registry's numbers of the pages."""
    statement = CURRENT if before is None else STANDING
    return [LinkRef(*row) for row in statement.each(reader, "pages", sorted(numbers), before=before)]
