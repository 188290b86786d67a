"""Rules of each wiki in the registry: cache, spam lists, spam hits, pages to re-read.

After a new entry or spam list, pages with matching URLs are marked stale and read again. A spam hit that is no longer
on its page keeps its row. Read from a wiki's settings: ``servers``, its server names; ``excluded_domains`` and
``exclusion_list``; ``registers_own``, to store links to its own hosts, too (X02); ``is_private``.
"""

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update

from core.errors import InputError
from links.registry.schema import farms, pages, refs, spam_hits, spam_lists, wikis
from links.registry.statements import batches, upsert
from links.rules.exclusion_list import exclusions_of, warning_for
from links.rules.link_class import ClassifiedLink, OwnHosts, WikiRules
from links.rules.link_pattern import LinkPattern
from links.rules.spam_list import SpamLine, SpamList, SpamListKind, SpamLists
from links.url_parts import key_of


@dataclass(frozen=True, slots=True)
class SpamHit:
    """URL of a page that matches a spam list."""

    page: int  # the registry's number of the page
    page_id: int  # the wiki's number of it
    title: str  # the page's
    url: str  # the URL's identity key
    hit: SpamLine  # the matching line
    first_day: int  # day on which it was first found on the page
    last_day: int  # day on which it was last found there


def hits_of(links: Iterable[ClassifiedLink]) -> dict[str, SpamLine]:
    """Map the identity keys of spam URLs to the matching lines."""
    return {link.identity: link.hit for link in links if link.hit is not None}


def write_spam_hits(rows: Connection, wiki_id: int, spam: Mapping[int, Mapping[str, SpamLine]], *, today: int) -> None:
    """Write the spam hits of the pages that were written today; empty for a page that has none."""
    table = spam_hits.c
    columns = (table.page, table.key, table.list, table.line, table.first_day, table.last_day)
    stored_hits = {
        (row.page, bytes(row.key)): row
        for some in batches(sorted(spam))
        for row in rows.execute(select(*columns).where(table.page.in_(some)).order_by(table.page, table.key))
    }
    put = []
    for page, hits in spam.items():
        for url, hit in hits.items():
            old = stored_hits.pop((page, key_of(url)), None)
            if old is None or (old.list, old.line, old.last_day) != (hit.list, hit.line, today):
                place = {"page": page, "key": key_of(url), "wiki_id": wiki_id, "url": url}
                days = {"first_day": today if old is None else old.first_day, "last_day": today}
                put.append({**place, "list": hit.list, "line": hit.line, **days})
    for (page, key), old in stored_hits.items():
        same = and_(table.page == page, table.key == key)
        if old.first_day >= today:
            rows.execute(delete(spam_hits).where(same))
        elif old.last_day >= today:
            rows.execute(update(spam_hits).where(same).values(last_day=today - 1))
    upsert(rows, spam_hits, ("page", "key"), put)


def is_present() -> ColumnElement[bool]:
    """Return the condition that a hit is on its page now, for a statement that has `pages`, too (W05)."""
    return or_(pages.c.listed_day.is_(None), spam_hits.c.last_day >= pages.c.listed_day)


def spam_on(rows: Connection, wiki_id: int, *, limit: int = 100, after: tuple[int, bytes] = (0, b"")) -> list[SpamHit]:
    """Return the next current hits on pages of the wiki (W05), after that page and key, by page."""
    table = spam_hits.c
    page, key = after
    hit_rows = rows.execute(
        select(*table, pages.c.page_id, pages.c.title)
        .where(
            table.wiki_id == wiki_id,
            table.page >= page,
            or_(table.page > page, table.key > key),
            pages.c.id == table.page,
            is_present(),
        )
        .order_by(table.page, table.key)
        .limit(limit)
    )
    return [
        SpamHit(
            *(row.page, row.page_id, row.title, row.url, SpamLine(row.list, row.line)), *(row.first_day, row.last_day)
        )
        for row in hit_rows
    ]


def forget_spam_hits(rows: Connection, *, before_day: int) -> int:
    """Delete hits that were last seen before that day; return the number."""
    return rows.execute(delete(spam_hits).where(spam_hits.c.last_day < before_day)).rowcount


def mark_pages_stale(rows: Connection, wiki_ids: Iterable[int], url_ids: Iterable[int]) -> int:
    """Mark the pages of these wikis that have one of the URLs; return the number."""
    having = select(refs.c.page).where(refs.c.url_id.in_(list(url_ids)), refs.c.gone_day.is_(None))
    return _mark_stale(rows, pages.c.id.in_(having), pages.c.wiki_id.in_(list(wiki_ids)))


def mark_pages_of_entry(rows: Connection, wiki_id: int, entry: str) -> int:
    """Mark the pages stale that have links excluded by the entry; return the number."""
    return _mark_stale(rows, pages.c.wiki_id == wiki_id, pages.c.excluded.contains(entry, autoescape=True))


def _mark_stale(rows: Connection, *conditions: ColumnElement[bool]) -> int:
    return rows.execute(update(pages).where(*conditions, pages.c.is_stale.is_(False)).values(is_stale=True)).rowcount


FARM_WIDE = 0  # the wiki of a list that is the farm's
NAME_LIMIT_CHARS = 200
_WIKIS_KEPT = 64

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListRow:
    """Spam list in the registry, without its text."""

    farm_id: int
    wiki_id: int  # the wiki that it is limited to; `FARM_WIDE`: all of the farm's
    name: str  # its display name
    kind: SpamListKind  # its format
    loaded_day: int  # day of the last update


class RuleBook:
    """Cache of the rules of wikis. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules_by_wiki: dict[int, tuple[object, WikiRules]] = {}

    def rules_of(self, rows: Connection, wiki_id: int) -> WikiRules:
        """Return the wiki's current rules; default rules when there is no such wiki."""
        facts = rows.execute(
            select(
                *(wikis.c.settings, wikis.c.url, wikis.c.pages_url, wikis.c.farm_id),
                *(farms.c.internal, farms.c.address),
            ).where(wikis.c.id == wiki_id, farms.c.id == wikis.c.farm_id)
        ).first()
        if facts is None:
            return WikiRules()
        table = spam_lists.c
        its = (table.farm_id == facts.farm_id, table.wiki_id.in_((FARM_WIDE, wiki_id)))
        question = select(table.wiki_id, table.name, table.digest).where(*its)
        lists = [(row.wiki_id, row.name, bytes(row.digest)) for row in rows.execute(question)]
        fingerprint = (tuple(facts), sorted(lists))
        with self._lock:
            cache_entry = self._rules_by_wiki.get(wiki_id)
        if cache_entry is not None and cache_entry[0] == fingerprint:
            return cache_entry[1]
        contents = rows.execute(
            select(table.wiki_id, table.name, table.kind, table.content).where(*its).order_by(table.wiki_id, table.name)
        )
        spam = [
            SpamList(*(row.name, SpamListKind(row.kind), row.content), is_global=row.wiki_id == FARM_WIDE)
            for row in contents
        ]
        rules = _rules(facts, spam)
        with self._lock:
            if len(self._rules_by_wiki) >= _WIKIS_KEPT:
                self._rules_by_wiki.clear()
            self._rules_by_wiki[wiki_id] = (fingerprint, rules)
        return rules


def search_warnings(rows: Connection, book: RuleBook, pattern: LinkPattern, named: Mapping[int, str]) -> list[str]:
    """Return warnings for a search whose pattern overlaps entries of exclusion lists (X06)."""
    warnings = (
        warning_for(pattern, book.rules_of(rows, wiki_id).exclusions.meeting(pattern), name)
        for wiki_id, name in named.items()
    )
    return [warning for warning in warnings if warning]


def put_list(rows: Connection, farm_id: int, each: SpamList, *, wiki_id: int = FARM_WIDE, today: int) -> SpamLists:
    """Store a list in place of the one of that name; return its compiled form, or raise InputError."""
    if not each.name.strip() or len(each.name) > NAME_LIMIT_CHARS or "\0" in each.name:
        raise InputError(f"A list's name has 1 to {NAME_LIMIT_CHARS} characters.")
    if "\0" in each.content:
        raise InputError(f"{each.name} contains the character U+0000.")
    read = SpamLists([each])  # raises before anything is changed
    remove_list(rows, farm_id, each.name, wiki_id=wiki_id)
    row = {"farm_id": farm_id, "wiki_id": wiki_id, "name": each.name, "kind": str(each.kind)}
    row |= {"content": each.content, "digest": _digest(each), "loaded_day": today}
    rows.execute(insert(spam_lists), [row])
    return read


def has_list(rows: Connection, farm_id: int, each: SpamList, *, wiki_id: int = FARM_WIDE) -> bool:
    """Return True when the list of that name has this exact content."""
    digest = rows.execute(select(spam_lists.c.digest).where(*_is_list(farm_id, wiki_id, each.name))).scalar()
    return digest is not None and bytes(digest) == _digest(each)


def _digest(each: SpamList) -> bytes:
    return key_of(f"{each.kind}\n{each.content}")


def remove_list(rows: Connection, farm_id: int, name: str, *, wiki_id: int = FARM_WIDE) -> bool:
    """Delete the list of that name; return False when there is none."""
    return rows.execute(delete(spam_lists).where(*_is_list(farm_id, wiki_id, name))).rowcount > 0


def _is_list(farm_id: int, wiki_id: int, name: str) -> tuple[ColumnElement[bool], ...]:
    table = spam_lists.c
    return table.farm_id == farm_id, table.wiki_id == wiki_id, table.name == name


def read_lists(rows: Connection) -> list[ListRow]:
    """Return all lists, those of a farm together."""
    place = spam_lists.c.farm_id, spam_lists.c.wiki_id, spam_lists.c.name
    list_rows = rows.execute(select(*place, spam_lists.c.kind, spam_lists.c.loaded_day).order_by(*place))
    return [ListRow(farm_id, wiki_id, name, SpamListKind(kind), day) for farm_id, wiki_id, name, kind, day in list_rows]


def _rules(facts: Any, lists: list[SpamList]) -> WikiRules:
    settings = parse_wiki_settings(facts.settings)
    named = settings.get("servers")
    servers = [str(each) for each in named] if isinstance(named, list) else []
    its = [] if settings.get("registers_own") is True else [facts.address, *servers, facts.url, facts.pages_url]
    try:
        own = OwnHosts(facts.internal, its)
    except InputError:  # the other rules still apply
        log.warning("farm.internal %r cannot be run, so no host counts as the farm's own", facts.internal)
        own = OwnHosts("", its)
    return WikiRules(
        own=own,
        spam=SpamLists(lists),
        exclusions=exclusions_of(settings),
        is_private=settings.get("is_private") is True,
    )


def parse_wiki_settings(text: str) -> Mapping[str, Any]:
    """Parse a wiki's settings; empty when they are invalid."""
    try:
        settings = json.loads(text or "{}")
    except ValueError:
        return {}
    return settings if isinstance(settings, dict) else {}
