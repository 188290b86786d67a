"""Pages of wikis and the links on them, as written by synchronisation.

Synchronisation reads stale pages, oldest first, each every week or two (A25). A removed reference is kept for a while,
with the day of its removal (A24, W64); a restored one keeps its first day. A page's number has the wiki in its high
bits and the wiki's own page id in its low bits, so that it survives a move (W33).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, or_, select, update

from core.errors import InputError
from links.registry.schema import additions, citations, invalid, page_revisions, pages, refs, spam_hits, wanted, wikis
from links.registry.statements import Reader, SqlStatement, batches, insert_missing, many, one, upsert
from links.registry.urls import ensure_urls
from links.rules.exclusion_list import add_entry_counts
from links.rules.link_class import ClassifiedLink, LinkClass
from links.rules.wiki_rules import hits_of, write_spam_hits
from links.url_parts import key_of

PAGE_BITS = 40
MAX_PAGE_ID = (1 << PAGE_BITS) - 1
_NO_TITLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Stored with the page, as written there.
_NOTED = frozenset({LinkClass.INVALID, LinkClass.MISSING, LinkClass.NOT_CHECKED})
MAX_TITLE_LENGTH = 1024  # MediaWiki's are of 255 bytes at most, and the namespace's name


@dataclass(frozen=True, slots=True)
class PageName:
    """Identity of a page on its wiki."""

    page_id: int  # the wiki's number for it, which a move does not change
    title: str  # with the namespace's name; empty: not known, the stored one is kept
    namespace: int = 0  # its number


@dataclass(frozen=True, slots=True)
class PutPage:
    """Page that was read, with all its links."""

    name: PageName
    links: tuple[ClassifiedLink, ...]


class WikiPageRow(NamedTuple):
    """Row of a page; days are `links.check_history` numbers."""

    id: int  # the registry's number for it, `number_of`
    wiki_id: int
    page_id: int
    namespace: int
    title: str
    touched_day: int  # day on which synchronisation last saw it
    asked_day: int | None  # day of the last request for it (W34); None without any
    listed_day: int | None  # day on which its URLs were last read; None when never
    is_stale: bool  # its URLs are to be read again


class LinkRef(NamedTuple):
    """Link of a page, by the registry's numbers for both."""

    page: int
    url_id: int


class WrittenLinks(NamedTuple):
    """Changed links by writing pages."""

    pages: int  # pages written
    urls: int  # URLs that they have, each page's counted
    ids: Mapping[str, int]  # of the URLs that the pages have, by their identity keys
    added: tuple[LinkRef, ...]  # references that are new or restored
    gone: tuple[LinkRef, ...]  # references that were removed
    new: tuple[LinkRef, ...] = ()  # of those added the ones that the page never had


COLUMNS = tuple(pages.c[name] for name in WikiPageRow._fields)  # what `page_of` takes
# Feeders of one wiki take turns; on SQLite all writers do.
LOCK_WIKI = SqlStatement(select(wikis.c.id).where(wikis.c.id == one("wiki")).with_for_update())
_OF_WIKI = pages.c.wiki_id == one("wiki")
_NAMED = (_OF_WIKI, pages.c.page_id.in_(many("ids")))
FIND = SqlStatement(select(*COLUMNS).where(*_NAMED), "ids")
SET_STALE = SqlStatement(update(pages).where(*_NAMED).values(is_stale=one("stale")), "ids")
TITLED = SqlStatement(select(*COLUMNS).where(_OF_WIKI, pages.c.title.in_(many("titles"))), "titles")
UNTOUCHED = SqlStatement(
    select(*COLUMNS)
    .where(_OF_WIKI, pages.c.touched_day < one("before"), pages.c.id > one("after"))
    .order_by(pages.c.id)
    .limit(one("most"))
)
ASK = SqlStatement(
    update(pages)
    .where(*_NAMED, or_(pages.c.asked_day.is_(None), pages.c.asked_day < one("day")))
    .values(asked_day=one("day")),
    "ids",
)
MOVE = SqlStatement(
    update(pages)
    .where(_OF_WIKI, pages.c.page_id == one("page"))
    .values(title=one("new_title"), namespace=one("new_namespace"))
)
NEVER_LISTED = SqlStatement(
    select(*COLUMNS)
    .where(pages.c.is_stale, _OF_WIKI, pages.c.listed_day.is_(None))
    .order_by(pages.c.id)
    .limit(one("most"))
)
LISTED_LONG_AGO = SqlStatement(
    select(*COLUMNS)
    .where(pages.c.is_stale, _OF_WIKI, pages.c.listed_day >= 0)
    .order_by(pages.c.listed_day, pages.c.id)
    .limit(one("most"))
)
REFS = SqlStatement(
    select(refs.c.page, refs.c.url_id, refs.c.gone_day, refs.c.spelling).where(refs.c.page.in_(many("pages"))), "pages"
)
_REF = update(refs).where(refs.c.page == one("of"), refs.c.url_id == one("url"))
SET_SPELLING = SqlStatement(_REF.values(spelling=one("spelled")))
SET_GONE = SqlStatement(_REF.values(gone_day=one("gone")))
FORGET = {
    table.name: SqlStatement(delete(table).where(table.c.page.in_(many("pages"))), "pages")
    for table in (refs, invalid, spam_hits, wanted, citations, additions, page_revisions)
}
FORGET_PAGES = SqlStatement(delete(pages).where(pages.c.id.in_(many("pages"))), "pages")
INVALID = SqlStatement(select(invalid.c.page, invalid.c.key).where(invalid.c.page.in_(many("pages"))), "pages")
TALLIES = SqlStatement(
    select(pages.c.id, pages.c.excluded).where(pages.c.id.in_(many("pages")), pages.c.excluded.is_not(None)), "pages"
)
SET_TALLY = SqlStatement(update(pages).where(pages.c.id == one("of")).values(excluded=one("tally")))
FORGET_INVALID = SqlStatement(delete(invalid).where(invalid.c.page == one("of"), invalid.c.key == one("digest")))


def number_of(wiki_id: int, page_id: int) -> int:
    """Return the registry's number for a page."""
    return wiki_id << PAGE_BITS | page_id


def pages_between(wiki_id: int) -> dict[str, int]:
    """Return the bounds of the registry's numbers for a wiki's pages, as parameters `first` and `beyond`."""
    return {"first": number_of(wiki_id, 0), "beyond": number_of(wiki_id + 1, 0)}


def page_of(row: Sequence[Any]) -> WikiPageRow:
    """Build the page from a row that begins with `COLUMNS`."""
    return WikiPageRow._make((*row[:8], bool(row[8])))


def find_pages(reader: Reader, wiki_id: int, page_ids: Iterable[int]) -> dict[int, WikiPageRow]:
    """Return those of the wiki's pages that the registry knows, by the wiki's ids."""
    return {row[2]: page_of(row) for row in FIND.each(reader, "ids", _ids(page_ids), wiki=wiki_id)}


def put_pages(connection: Connection, wiki_id: int, written: Iterable[PutPage], *, day: int) -> WrittenLinks:
    """Write the URLs of pages that were read today; new pages are created; InputError for an invalid one.

    Of two entries for one page the later one counts. Watched URLs become references; invalid ones are stored with the
    page, spam hits recorded, excluded matches counted (`links.rules.link_class`); the rest is not stored. Batches of
    some hundreds are fastest. The new and removed links are returned (A01).
    """
    put = {each.name.page_id: each for each in written}
    _lock(connection, wiki_id)
    _write_names(connection, wiki_id, [each.name for each in put.values()], day)
    by_number = {number_of(wiki_id, page_id): each.links for page_id, each in put.items()}
    watched = {link.identity for links in by_number.values() for link in links if link.is_watched}
    ids = ensure_urls(connection, sorted(watched), day=day)
    spellings = {
        LinkRef(page, ids[link.identity]): link.spelling or None
        for page, links in by_number.items()
        for link in reversed(links)  # of several spellings on a page the first counts
        if link.is_watched
    }
    new, back, removed = _write_refs(connection, by_number, spellings, day)
    refused = {
        page: {key_of(link.text): link for link in links if link.sort in _NOTED} for page, links in by_number.items()
    }
    _write_invalid(connection, refused, day)
    write_spam_hits(connection, wiki_id, {page: hits_of(links) for page, links in by_number.items()}, today=day)
    tallies = {page: Counter(link.entry for link in links if link.entry) for page, links in by_number.items()}
    _write_tallies(connection, wiki_id, tallies, day)
    return WrittenLinks(len(put), len(spellings), ids, (*new, *back), tuple(removed), tuple(new))


def mark_stale(connection: Connection, wiki_id: int, page_ids: Iterable[int], *, is_stale: bool = True) -> int:
    """Mark these pages to be read again, or, no longer observed (W36), not to be; return how many are known."""
    return SET_STALE.run_each(connection, "ids", _ids(page_ids), wiki=wiki_id, stale=is_stale)


def find_titled(reader: Reader, wiki_id: int, titles: Iterable[str]) -> list[WikiPageRow]:
    """Return the wiki's pages that had these titles when last seen; several may share one."""
    wanted_titles = sorted({title for each in titles if (title := plain_title(each))})
    return [page_of(row) for row in TITLED.each(reader, "titles", wanted_titles, wiki=wiki_id)]


def untouched(reader: Reader, wiki_id: int, *, before: int, after: int = 0, limit: int) -> list[WikiPageRow]:
    """Return pages that synchronisation has not seen since before that day, after that one, by number."""
    rows = UNTOUCHED.rows(reader, {"wiki": wiki_id, "before": before, "after": after, "most": limit})
    return [page_of(row) for row in rows]


def ask_for(connection: Connection, wiki_id: int, page_ids: Iterable[int], *, day: int) -> int:
    """Record requests for the pages, once a day (W34), known or not (W10); return how many had none today."""
    return ASK.run_each(connection, "ids", _ids(page_ids), wiki=wiki_id, day=day)


def move_page(connection: Connection, wiki_id: int, name: PageName) -> bool:
    """Set another title of a page (W33); return False when it is not known; InputError if invalid."""
    facts = {"new_title": check_name(name), "new_namespace": name.namespace}
    return MOVE.run(connection, {"wiki": wiki_id, "page": name.page_id, **facts}) > 0


def drop_pages(connection: Connection, wiki_id: int, page_ids: Iterable[int], *, day: int) -> int:
    """Delete pages that their wiki has deleted (W25, W37), not yet their URLs; return how many were known."""
    _lock(connection, wiki_id)
    return forget_pages(connection, wiki_id, [number_of(wiki_id, page_id) for page_id in _ids(page_ids)], day=day)


def forget_pages(connection: Connection, wiki_id: int, numbers: Iterable[int], *, day: int) -> int:
    """Delete pages of a wiki, by the registry's numbers, with all dependent rows."""
    count = 0
    for batch in batches(sorted(numbers)):
        _write_tallies(connection, wiki_id, {page: {} for page in batch}, day)
        for statement in FORGET.values():
            statement.run(connection, {"pages": batch})
        count += FORGET_PAGES.run(connection, {"pages": batch})
    return count


def next_stale(reader: Reader, wiki_id: int, *, limit: int) -> list[WikiPageRow]:
    """Return pages whose URLs are to be read: never read first, then the longest ago (W38)."""
    parameters = {"wiki": wiki_id, "most": limit}
    rows = NEVER_LISTED.rows(reader, parameters)
    if len(rows) < limit:
        rows += LISTED_LONG_AGO.rows(reader, {**parameters, "most": limit - len(rows)})
    return [page_of(row) for row in rows]


def _ids(page_ids: Iterable[int]) -> list[int]:
    """Return the valid page ids, sorted and unique."""
    return sorted({page_id for page_id in page_ids if 0 < page_id <= MAX_PAGE_ID})


def plain_title(text: str) -> str:
    r"""Normalize a title for storage; empty when it is invalid.

    >>> plain_title("Foo_bar "), plain_title("Foo\x00")
    ('Foo bar', '')
    """
    title = " ".join(text.replace("_", " ").split())
    return title if len(title) <= MAX_TITLE_LENGTH and _NO_TITLE.search(title) is None else ""


def _lock(connection: Connection, wiki_id: int) -> None:
    if not LOCK_WIKI.rows(connection, {"wiki": wiki_id}):
        raise InputError(f"The registry has no wiki with the number {wiki_id}.")


def _write_names(connection: Connection, wiki_id: int, names: list[PageName], day: int) -> None:
    stored_pages = find_pages(connection, wiki_id, (name.page_id for name in names))
    read_today = {"touched_day": day, "listed_day": day, "is_stale": False}
    rows = []
    for name in names:
        facts = {"namespace": name.namespace, "title": check_name(name)}
        old = stored_pages.get(name.page_id)
        if old is not None and not facts["title"]:  # a dump of links has no titles
            facts = {"namespace": old.namespace, "title": old.title}
        its = {"id": number_of(wiki_id, name.page_id), "wiki_id": wiki_id, "page_id": name.page_id}
        rows.append({**its, **facts, **read_today})
    upsert(connection, pages, ("id",), rows)


def check_name(name: PageName) -> str:
    """Return the normalized title of a page's name; InputError when title or id is invalid."""
    title = plain_title(name.title)
    is_kept = bool(title) or not name.title.strip("_ ")
    is_number = 0 < name.page_id <= MAX_PAGE_ID and abs(name.namespace) < 1 << 31
    if not is_kept or not is_number:
        raise InputError(
            f"{name.title[:80]!r}, number {name.page_id}, is not a page of a wiki: it needs a number above 0 "
            f"and a title without control characters, of {MAX_TITLE_LENGTH} characters at most."
        )
    return title


def _write_refs(
    connection: Connection, numbers: Iterable[int], spellings: Mapping[LinkRef, str | None], day: int
) -> tuple[list[LinkRef], list[LinkRef], list[LinkRef]]:
    """Update the references of these pages to the links that they have; return the new, restored and removed ones."""
    stored_refs: dict[LinkRef, tuple[int | None, str | None]] = {
        LinkRef(page, url_id): facts for page, url_id, *facts in REFS.each(connection, "pages", numbers)
    }
    new = [ref for ref in spellings if ref not in stored_refs]
    back = [ref for ref in spellings if ref in stored_refs and stored_refs[ref][0] is not None]
    removed = [ref for ref, (gone_day, _) in stored_refs.items() if gone_day is None and ref not in spellings]
    respelled = [ref for ref, spelling in spellings.items() if ref in stored_refs and stored_refs[ref][1] != spelling]
    if new:
        rows = [{**ref._asdict(), "first_day": day, "spelling": spellings[ref]} for ref in new]
        connection.execute(insert(refs), rows)
    SET_SPELLING.run(connection, [{"of": ref.page, "url": ref.url_id, "spelled": spellings[ref]} for ref in respelled])
    for some, gone_day in ((back, None), (removed, day)):
        SET_GONE.run(connection, [{"of": ref.page, "url": ref.url_id, "gone": gone_day} for ref in some])
    return new, back, removed


def _write_invalid(connection: Connection, lists: Mapping[int, Mapping[bytes, ClassifiedLink]], day: int) -> None:
    stored_keys = {(page, bytes(digest)) for page, digest in INVALID.each(connection, "pages", lists)}
    now = {(page, digest): link for page, has in lists.items() for digest, link in has.items()}
    FORGET_INVALID.run(connection, [{"of": page, "digest": digest} for page, digest in stored_keys - now.keys()])
    new = (
        {"page": page, "key": digest, "text": link.text.encode("utf-8", "surrogatepass"), "reason": link.note}
        for (page, digest), link in now.items()
        if (page, digest) not in stored_keys
    )
    insert_missing(connection, invalid, [each | {"first_day": day} for each in new])


def _write_tallies(connection: Connection, wiki_id: int, now: Mapping[int, Mapping[str, int]], day: int) -> None:
    """Update the counts of excluded links of each page (X05), and the wiki's sums."""
    rows = TALLIES.each(connection, "pages", now)
    before: dict[int, dict[str, int]] = {page: json.loads(text) for page, text in rows}
    changed = [page for page, counts in now.items() if counts != before.get(page, {})]
    add_entry_counts(connection, wiki_id, ((before.get(page, {}), now[page]) for page in changed), today=day)
    tallies = {page: json.dumps(now[page], ensure_ascii=False, sort_keys=True) for page in changed}
    SET_TALLY.run(connection, [{"of": page, "tally": tallies[page] if now[page] else None} for page in changed])
