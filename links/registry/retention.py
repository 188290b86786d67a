"""Retention: removal of pages, links, URLs and observations that have expired.

A page is deleted when synchronisation has not seen it for `keep_days`, counted from the wiki's last synchronisation,
so that a wiki without updates loses nothing. A URL is deleted when no page had it for `keep_days`; a host with its
last URL and quirk. A purge may be interrupted at any time.
"""

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, func, or_, select, tuple_

from links.check_history import date_of
from links.registry import schema
from links.registry.citations import KEEP_DAYS as ADDITION_DAYS
from links.registry.database import RegistryStore
from links.registry.pages import LOCK_WIKI, forget_pages
from links.registry.quirks import GET_ONLY_DAYS, HOST_QUIRK_DAYS, URL_QUIRK_DAYS, HostQuirk
from links.registry.schema import host_quirks, hosts, observations, pages, refs, reports, urls
from links.registry.statements import SqlStatement, batches, many, one
from links.registry.wikis import all_wikis
from links.rules.wiki_rules import forget_spam_hits

KEEP_DAYS = 100  # W39: two to three months, the table says 100 days
OBSERVATION_DAYS = 200
SPAM_DAYS = 200  # source of a spam list entry's links
IMPORT_DAYS = 30  # after this an interrupted import cannot be continued
BATCH = 200  # rows of one transaction: others wait for it
_UNIX = date(1970, 1, 1)
_WINDOW = 20_000  # candidates that are remembered at once
_LONG_KEPT = (HostQuirk.GET_NEEDED, HostQuirk.PRESUMED_REACHABLE, HostQuirk.UNVERIFIABLE)
_OF_URLS = (
    *(refs, observations, reports, schema.url_quirks, schema.replacements, schema.wanted),
    *(schema.copies, schema.copy_versions, schema.copy_searches, schema.citations, schema.additions),
)


class PurgeSummary(NamedTuple):
    """Counts of deleted rows."""

    pages: int = 0
    links: int = 0
    urls: int = 0
    hosts: int = 0
    quirks: int = 0
    observations: int = 0
    reports: int = 0


def _unused(query: Any, *had: Any) -> Any:
    """Build the condition for expired URLs, as a scalar subquery: PostgreSQL joins all references for EXISTS."""
    of_a_page = select(refs.c.page).where(refs.c.url_id == urls.c.id, *had).limit(1)
    return query.where(urls.c.touched_day <= one("before"), of_a_page.scalar_subquery().is_(None))


def _deletion(table: Table, condition: ColumnElement[bool]) -> SqlStatement:
    key = tuple(table.primary_key.columns)
    some = select(*key).where(condition).limit(one("most"))
    return SqlStatement(delete(table).where(tuple_(*key).in_(some)))


NEWEST_PAGE = SqlStatement(select(func.max(pages.c.touched_day)).where(pages.c.wiki_id == one("wiki")))
UNTOUCHED_PAGES = SqlStatement(
    select(pages.c.id).where(pages.c.wiki_id == one("wiki"), pages.c.touched_day <= one("before")).limit(one("most"))
)
UNUSED_URLS = SqlStatement(_unused(select(urls.c.id)).limit(one("most")))
STILL_UNUSED = SqlStatement(
    _unused(select(urls.c.id, urls.c.host_id)).where(urls.c.id.in_(many("ids"))).order_by(urls.c.id).with_for_update(),
    "ids",
)
FORGET_OF_URLS = {
    table.name: SqlStatement(delete(table).where(table.c.url_id.in_(many("ids"))), "ids") for table in _OF_URLS
}
FORGET_URLS = SqlStatement(delete(urls).where(urls.c.id.in_(many("ids"))), "ids")
# A transaction that adds a URL to one of these hosts has locked it (`links.registry.urls`): wait, then test again.
LOCK_HOSTS = SqlStatement(
    select(hosts.c.id).where(hosts.c.id.in_(many("ids"))).order_by(hosts.c.id).with_for_update(), "ids"
)
FORGET_HOSTS = SqlStatement(
    delete(hosts).where(
        hosts.c.id.in_(many("ids")),
        ~exists().where(urls.c.host_id == hosts.c.id),
        ~exists().where(host_quirks.c.host_id == hosts.c.id),
    ),
    "ids",
)
_EXPIRED = {
    "links": (refs, refs.c.gone_day <= one("before")),
    "quirks": (schema.url_quirks, schema.url_quirks.c.last_day <= one("before")),
    "observations": (observations, observations.c.moment < one("before")),
    "reports": (reports, reports.c.expires_day < one("before")),
}
FORGET_EXPIRED = {kind: _deletion(table, condition) for kind, (table, condition) in _EXPIRED.items()}
COUNT_EXPIRED = {
    kind: SqlStatement(select(func.count()).select_from(table).where(condition))
    for kind, (table, condition) in _EXPIRED.items()
}
_OLD_QUIRK = (
    select(host_quirks.c.host_id, host_quirks.c.kind).where(host_quirks.c.last_day <= one("before")).limit(one("most"))
)
VERY_OLD_HOST_QUIRKS = SqlStatement(_OLD_QUIRK)
OLD_HOST_QUIRKS = SqlStatement(_OLD_QUIRK.where(host_quirks.c.kind.not_in(_LONG_KEPT)))
FORGET_HOST_QUIRK = SqlStatement(
    delete(host_quirks).where(
        host_quirks.c.host_id == one("of"), host_quirks.c.kind == one("which"), host_quirks.c.last_day <= one("before")
    )
)
OLD_IMPORTS = SqlStatement(delete(schema.imports).where(schema.imports.c.day <= one("before")))
OLD_ADDITIONS = SqlStatement(delete(schema.additions).where(schema.additions.c.day <= one("before")))
COUNT_PAGES = SqlStatement(
    select(func.count()).where(pages.c.wiki_id == one("wiki"), pages.c.touched_day <= one("before"))
)
COUNT_URLS = SqlStatement(
    _unused(select(func.count()).select_from(urls), or_(refs.c.gone_day.is_(None), refs.c.gone_day > one("before")))
)


def purge(
    store: RegistryStore,
    *,
    day: int,
    keep_days: int = KEEP_DAYS,
    progress: Callable[[str, int], None] = lambda _kind, _count: None,
) -> PurgeSummary:
    """Delete all rows not seen for `keep_days`; `progress` gets kind and number after each transaction."""
    before = day - keep_days
    with store.snapshot() as reader:
        wikis = all_wikis(reader)
    gone_pages = 0
    for wiki in wikis:
        count = 1
        while count:
            with store.writing() as connection:
                LOCK_WIKI.rows(connection, {"wiki": wiki.id})
                newest = NEWEST_PAGE.rows(connection, {"wiki": wiki.id})[0][0] or 0
                limits = {"wiki": wiki.id, "before": newest - keep_days, "most": BATCH}
                page_numbers = [row[0] for row in UNTOUCHED_PAGES.rows(connection, limits)]
                count = forget_pages(connection, wiki.id, page_numbers, day=day)
            gone_pages += count
            progress("pages", count)
    counts = {}
    for kind, limit in _limits(day, keep_days).items():  # links first: URLs without any go next
        counts[kind] = 0
        while True:
            with store.writing() as connection:
                count = FORGET_EXPIRED[kind].run(connection, {"before": limit, "most": BATCH})
            if not count:
                break
            counts[kind] += count
            progress(kind, count)
    gone_urls, gone_hosts = _purge_urls(store, before, progress)
    for statement, days in ((OLD_HOST_QUIRKS, HOST_QUIRK_DAYS), (VERY_OLD_HOST_QUIRKS, GET_ONLY_DAYS)):
        while True:
            with store.writing() as connection:
                rows = statement.rows(connection, {"before": day - days, "most": BATCH})
                parameters = [{"of": host, "which": kind, "before": day - days} for host, kind in rows]
                FORGET_HOST_QUIRK.run(connection, parameters)
                gone_hosts += _forget_hosts(connection, (row[0] for row in rows))
            if not rows:
                break
            counts["quirks"] += len(rows)
            progress("quirks", len(rows))
    with store.writing() as connection:
        OLD_IMPORTS.run(connection, {"before": day - IMPORT_DAYS})
        forget_spam_hits(connection, before_day=day - SPAM_DAYS)
        OLD_ADDITIONS.run(connection, {"before": day - ADDITION_DAYS})
    return PurgeSummary(pages=gone_pages, urls=gone_urls, hosts=gone_hosts, **counts)


def to_purge(store: RegistryStore, *, day: int, keep_days: int = KEEP_DAYS) -> PurgeSummary:
    """Count the rows that `purge` would delete today, except dependent ones; nothing is changed."""
    with store.snapshot() as reader:
        gone_pages = 0
        for wiki in all_wikis(reader):
            newest = NEWEST_PAGE.rows(reader, {"wiki": wiki.id})[0][0] or 0
            gone_pages += COUNT_PAGES.rows(reader, {"wiki": wiki.id, "before": newest - keep_days})[0][0]
        counts = {
            kind: COUNT_EXPIRED[kind].rows(reader, {"before": limit})[0][0]
            for kind, limit in _limits(day, keep_days).items()
            if kind != "quirks"
        }
        return PurgeSummary(pages=gone_pages, urls=COUNT_URLS.rows(reader, {"before": day - keep_days})[0][0], **counts)


def _limits(day: int, keep_days: int) -> dict[str, int]:
    """Return the days, and of observations the second, before which rows have expired."""
    second = (date_of(max(day - OBSERVATION_DAYS, 0)) - _UNIX).days * 86_400
    return {"links": day - keep_days, "quirks": day - URL_QUIRK_DAYS, "observations": second, "reports": day}


def _purge_urls(store: RegistryStore, before: int, progress: Callable[[str, int], None]) -> tuple[int, int]:
    gone_urls = gone_hosts = 0
    while True:
        with store.snapshot() as reader:
            candidates = [row[0] for row in UNUSED_URLS.rows(reader, {"before": before, "most": _WINDOW})]
        went = 0
        for batch in batches(sorted(candidates), BATCH):
            with store.writing() as connection:
                rows = STILL_UNUSED.rows(connection, {"before": before, "ids": batch})
                if not rows:
                    continue
                ids = [row[0] for row in rows]
                for statement in FORGET_OF_URLS.values():
                    statement.run(connection, {"ids": ids})
                went += FORGET_URLS.run(connection, {"ids": ids})
                gone_hosts += _forget_hosts(connection, (row[1] for row in rows))
            progress("urls", len(ids))
        gone_urls += went
        if not went:
            return gone_urls, gone_hosts


def _forget_hosts(connection: Connection, ids: Iterable[int]) -> int:
    """Delete those of the hosts that have neither URLs nor quirks; return the number."""
    count = 0
    for batch in batches(sorted(set(ids))):
        LOCK_HOSTS.rows(connection, {"ids": batch})
        count += FORGET_HOSTS.run(connection, {"ids": batch})
    return count
