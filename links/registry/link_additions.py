"""Accounts that added links, and domains spread over several wikis.

An addition is attributed only when it is certain: the page was read before at the parent of its newest revision, or
has only that revision, and it is no revert. IP addresses as account names are public in the wiki, too; rows are
deleted after `KEEP_DAYS`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, func, select

from core.storable_text import storable
from links.registry.schema import additions, farms, hosts, page_revisions, pages, urls, wikis
from links.registry.statements import Reader, SqlStatement, insert_missing, many, one, upsert
from links.url_parts import SCHEMES, UrlParts

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
OLD_ADDITIONS = SqlStatement(delete(additions).where(additions.c.day <= one("before")))


def revisions_of(reader: Reader, numbers: Iterable[int]) -> dict[int, int]:
    """Return the revisions at which the pages were read, by the registry's numbers of pages."""
    return {
        page: abs(rev_id)  # below zero: it is not certain whose the links of that revision are
        for page, rev_id in REVISIONS.each(reader, "pages", sorted(set(numbers)))
    }


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
    if rows:
        insert_missing(connection, additions, rows)
    return len(rows)


def additions_of(
    rows: Connection, *, since_day: int, domain: str = "", account: str = "", limit: int
) -> list[LinkAddition]:
    """Return links, of a domain or by an account, that were added since that day, the latest first."""
    found = (
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
        found = found.where(hosts.c.domain == domain)
    if account:
        found = found.where(additions.c.account == account)
    return [
        LinkAddition(f"{dbname}@{farm}", page_id, title, UrlParts(SCHEMES[scheme], host, port, path).url, *rest)
        for dbname, farm, page_id, title, scheme, host, port, path, *rest in rows.execute(found)
    ]


def domain_spreads(rows: Connection, *, since_day: int, least_wikis: int, limit: int) -> list[DomainSpread]:
    """Return accounts that added links to one domain on several wikis of a farm, most wikis first (X11)."""
    many_wikis = func.count(wikis.c.id.distinct())
    links = func.count()
    found = (
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
    return [DomainSpread(*row) for row in rows.execute(found)]


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
