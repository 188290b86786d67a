"""Citation data of links (access dates, archive URLs, dead-link tags), and the accounts that added links.

Of several occurrences of a link on a page the most informative citation is stored. Without an access date the day
counts on which the page was first seen with the link (B06).

An addition is attributed only when it is certain: the page was read before at the parent of its newest revision, or
has only that revision, and it is not a revert. IP addresses as account names are public in the wiki, too; rows are
deleted after `KEEP_DAYS`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from core.storable_text import storable
from links.registry import schema
from links.registry.bot_edits import called_dead_by_us
from links.registry.pages import LinkRef
from links.registry.schema import additions, citations, farms, hosts, page_revisions, pages, refs, urls, wikis
from links.registry.statements import Reader, SqlStatement, insert_missing, many, one, upsert
from links.states import LinkState
from links.url_parts import SCHEMES, UrlParts

ARCHIVE_URL_LIMIT_CHARS = 8_192
USES_LIMIT = 100


class CitationFlag(IntFlag):
    """Bit flags of a citation; the values are stored and must not change."""

    DEAD = 1
    PAYWALL = 2
    MALFORMED = 4
    REFERENCE = 8  # it stands in a <ref>
    HELD = 16  # excluded from bots
    LIVE = 32  # stated explicitly


NO_CITATION_FLAGS = CitationFlag(0)


@dataclass(frozen=True, slots=True)
class CitationRow:
    """Citation of a link on a page."""

    link: LinkRef
    way: str  # form of the citation: ``wiki.wikitext.citation_model.CitationForm``
    access_day: int | None = None  # access date, as written (a number of `links.check_history`)
    archive_url: str = ""  # archive URL of the citation; empty without one
    archive_timestamp: str = ""  # of that archive copy, as precise as given: ``20240131``
    flags: CitationFlag = NO_CITATION_FLAGS  # further flags

    @property
    def weight(self) -> tuple[bool, bool, bool, int]:
        """Return a sort key by information content; the greater of two citations is stored."""
        return (self.access_day is not None, bool(self.archive_url), self.way == "citation", int(self.flags))


class CitingPageUse(NamedTuple):
    """Page that has the link: day of first sight there, and access date if given."""

    link: LinkRef
    first_day: int
    access_day: int | None


# `links.archives.copy_store.CopySearchOutcome`: a search that found versions; and one that missed a later day.
ANSWERED = (1, 3)
OUTDATED = 7
_COLUMNS = (
    *(citations.c.page, citations.c.url_id, citations.c.way, citations.c.access_day),
    *(citations.c.archive_url, citations.c.archive_timestamp, citations.c.facts),
)
OF_PAGES = SqlStatement(select(*_COLUMNS).where(citations.c.page.in_(many("pages"))), "pages")
USES = SqlStatement(
    select(refs.c.page, refs.c.first_day, citations.c.access_day)
    .select_from(refs.outerjoin(citations, (citations.c.page == refs.c.page) & (citations.c.url_id == refs.c.url_id)))
    .where(refs.c.url_id == one("url"), refs.c.gone_day.is_(None))
    .order_by(refs.c.first_day, refs.c.page)
    .limit(one("most"))
)
OUTDATE = SqlStatement(
    update(schema.copy_searches)
    .where(schema.copy_searches.c.url_id.in_(many("urls")), schema.copy_searches.c.outcome.in_(ANSWERED))
    .values(outcome=OUTDATED),
    "urls",
)
TAGGED_DEAD = SqlStatement(
    select(citations.c.page, citations.c.url_id).where(
        citations.c.url_id.in_(many("urls")), citations.c.facts.op("%")(2 * CitationFlag.DEAD) >= CitationFlag.DEAD
    ),
    "urls",
)
# A tag may end `permalive` (`links.checker.timetable_feed`): such a link has a due day.
LOOK_AT_MARKED = SqlStatement(
    update(urls)
    .where(urls.c.id.in_(many("ids")), urls.c.state == int(LinkState.PERMALIVE), urls.c.due_day.is_(None))
    .values(due_day=one("today")),
    "ids",
)
FORGET = SqlStatement(delete(citations).where(citations.c.page.in_(many("pages"))), "pages")
FIRST_SEEN = SqlStatement(select(refs.c.url_id, refs.c.first_day).where(refs.c.page == one("of")))


def links_tagged_dead(reader: Reader, url_ids: Iterable[int]) -> frozenset[int]:
    """Return those of the links that a page tags as dead, other than by the bot's own tags (B10)."""
    tagged = [LinkRef(*row) for row in TAGGED_DEAD.each(reader, "urls", sorted(set(url_ids)))]
    tagged_by_bot = called_dead_by_us(reader, tagged)
    return frozenset(link.url_id for link in tagged if link not in tagged_by_bot)


def put_citations(connection: Connection, numbers: Iterable[int], rows: Iterable[CitationRow], *, day: int) -> None:
    """Replace all citations of these pages; a link that is marked always alive and tagged dead becomes due."""
    best: dict[LinkRef, CitationRow] = {}
    for row in rows:
        other = best.get(row.link)
        if other is None or row.weight > other.weight:
            best[row.link] = row
    wanted = {link: _facts(row) for link, row in best.items()}
    stored = {link: _facts(row) for link, row in citations_of(connection, numbers).items()}
    changed = {link.page for link in wanted.keys() | stored.keys() if wanted.get(link) != stored.get(link)}
    FORGET.run_each(connection, "pages", sorted(changed))
    new = [facts for link, facts in wanted.items() if link.page in changed]
    if new:
        connection.execute(insert(citations), new)
    # A new access date may ask for another version than those that are known.
    known_days = {link: facts["access_day"] for link, facts in stored.items()}
    dated = {link.url_id for link, row in best.items() if row.access_day not in (None, known_days.get(link))}
    OUTDATE.run_each(connection, "urls", sorted(dated))
    tagged = sorted({link.url_id for link, row in best.items() if CitationFlag.DEAD in row.flags})
    LOOK_AT_MARKED.run_each(connection, "ids", tagged, today=day)


def citations_of(reader: Reader, numbers: Iterable[int]) -> dict[LinkRef, CitationRow]:
    """Return the citations of these pages."""
    citation_by_link: dict[LinkRef, CitationRow] = {}
    for page, url_id, way, day, url, timestamp, flags in OF_PAGES.each(reader, "pages", sorted(set(numbers))):
        link = LinkRef(page, url_id)
        citation_by_link[link] = CitationRow(link, way, day, url, timestamp, CitationFlag(flags))
    return citation_by_link


def cited_uses(reader: Reader, url_id: int) -> list[CitingPageUse]:
    """Return up to `USES_LIMIT` pages that have the link now, earliest use first."""
    rows = USES.rows(reader, {"url": url_id, "most": USES_LIMIT})
    return [CitingPageUse(LinkRef(page, url_id), first_day, access) for page, first_day, access in rows]


def days_cited(reader: Reader, page: int) -> Mapping[int, int]:
    """Return the citation day of each link of the page: as written, else first seen (B05, B06)."""
    days: dict[int, int] = dict(FIRST_SEEN.rows(reader, {"of": page}))
    for link, row in citations_of(reader, [page]).items():
        if row.access_day is not None and link.url_id in days:
            days[link.url_id] = row.access_day
    return days


def _facts(row: CitationRow) -> dict[str, object]:
    return {
        "page": row.link.page,
        "url_id": row.link.url_id,
        "way": row.way,
        "access_day": row.access_day,
        "archive_url": storable(row.archive_url)[:ARCHIVE_URL_LIMIT_CHARS],
        "archive_timestamp": storable(row.archive_timestamp),
        "facts": int(row.flags),
    }


KEEP_DAYS = 90
ACCOUNT_LIMIT_CHARS = 255


@dataclass(frozen=True, slots=True)
class PageRevision:
    """Revision of a page that was read."""

    page: int  # the registry's number
    rev_id: int  # of the revision
    parent_id: int | None  # of the one before; 0: there is none; None: not known
    account: str  # its author; empty: not known, or hidden
    day: int  # day of the edit


class LinkAddition(NamedTuple):
    """Link that an account added to a page."""

    wiki: str
    page_id: int
    title: str
    url: str
    domain: str
    account: str
    rev_id: int
    day: int


class DomainSpread(NamedTuple):
    """Links to one domain that an account added on several wikis of a farm."""

    farm: str
    account: str
    domain: str
    wikis: int
    pages: int
    links: int
    first_day: int
    last_day: int


REVISIONS = SqlStatement(
    select(page_revisions.c.page, page_revisions.c.rev_id).where(page_revisions.c.page.in_(many("pages"))), "pages"
)


def revisions_of(reader: Reader, numbers: Iterable[int]) -> dict[int, int]:
    """Return the revisions at which the pages were read, by the registry's numbers of pages."""
    rows = REVISIONS.each(reader, "pages", sorted(set(numbers)))
    return {page: abs(rev_id) for page, rev_id in rows}  # below zero: not certain, see `note_additions`


def note_additions(
    connection: Connection, read: Iterable[PageRevision], new: Iterable[tuple[int, int]], *, day: int
) -> int:
    """Store the revisions read and the accounts that added `new` links; return the number of additions."""
    revisions = {each.page: each for each in read if each.rev_id > 0}
    before: dict[int, int] = dict(REVISIONS.each(connection, "pages", revisions))
    certain, changed = set(), []
    for page, each in revisions.items():
        last = before.get(page)
        follows = last is not None and (last == each.rev_id or abs(last) == each.parent_id)
        if follows or (last is None and each.parent_id == 0):
            certain.add(page)
        # Below zero: whose the links of that revision are is not certain.
        rev_id = each.rev_id if page in certain else -each.rev_id
        if last != rev_id:
            changed.append({"page": page, "rev_id": rev_id})
    upsert(connection, page_revisions, ("page",), changed)
    rows = [
        {
            "page": page,
            "url_id": url_id,
            "day": revisions[page].day,
            "rev_id": revisions[page].rev_id,
            "account": storable(revisions[page].account)[:ACCOUNT_LIMIT_CHARS],
        }
        for page, url_id in new
        if page in certain and revisions[page].account and revisions[page].day > day - KEEP_DAYS
    ]
    insert_missing(connection, additions, rows)
    return len(rows)


def additions_of(
    rows: Connection, *, since_day: int, domain: str = "", account: str = "", limit: int
) -> list[LinkAddition]:
    """Return links, of a domain or by an account, that were added since that day, the latest first."""
    query = (
        _since(
            since_day,
            *(wikis.c.dbname, farms.c.name.label("farm"), pages.c.page_id, pages.c.title),
            *(urls.c.scheme, hosts.c.name.label("host"), urls.c.port, urls.c.path),
            *(hosts.c.domain, additions.c.account, additions.c.rev_id, additions.c.day),
        )
        .order_by(additions.c.day.desc(), additions.c.page, additions.c.url_id)
        .limit(limit)
    )
    if domain:
        query = query.where(hosts.c.domain == domain)
    if account:
        query = query.where(additions.c.account == account)
    return [
        LinkAddition(f"{dbname}@{farm}", page_id, title, UrlParts(SCHEMES[scheme], host, port, path).url, *rest)
        for dbname, farm, page_id, title, scheme, host, port, path, *rest in rows.execute(query)
    ]


def domain_spreads(rows: Connection, *, since_day: int, least_wikis: int, limit: int) -> list[DomainSpread]:
    """Return accounts that added links to one domain on several wikis of a farm, most wikis first (X11)."""
    many_wikis = func.count(wikis.c.id.distinct())
    links = func.count()
    query = (
        _since(
            since_day,
            *(farms.c.name, additions.c.account, hosts.c.domain, many_wikis),
            *(func.count(additions.c.page.distinct()), links),
            *(func.min(additions.c.day), func.max(additions.c.day)),
        )
        .group_by(farms.c.name, additions.c.account, hosts.c.domain)
        .having(many_wikis >= least_wikis)
        .order_by(many_wikis.desc(), links.desc(), additions.c.account, hosts.c.domain)
        .limit(limit)
    )
    return [DomainSpread(*row) for row in rows.execute(query)]


def _since(day: int, *columns: Any) -> Select[Any]:
    """Build the query for these columns of additions since that day, with page, wiki and URL."""
    return (
        select(*columns)
        .join_from(additions, pages, pages.c.id == additions.c.page)
        .join(wikis, wikis.c.id == pages.c.wiki_id)
        .join(farms, farms.c.id == wikis.c.farm_id)
        .join(urls, urls.c.id == additions.c.url_id)
        .join(hosts, hosts.c.id == urls.c.host_id)
        .where(additions.c.day >= day)
    )
