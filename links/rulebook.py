"""The rules of each wiki, read from the registry and kept ready while nothing changes in them.

A wiki's settings are a JSON object. Of it are read here: ``servers``, the names it is served under;
``excluded_domains`` and ``exclusion_list`` (`links.exclusion`); ``registers_own``, to keep links to its
own hosts, too (X02); ``is_private`` (`links.sorting.WikiRules`).
"""

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from core.errors import InputError
from links.exclusion import exclusions_of, warning_for
from links.farms import OwnHosts
from links.link_patterns import LinkPattern
from links.sorting import WikiRules
from links.spam import ListKind, SpamList, SpamLists
from links.store.schema import farms, spam_lists, wikis

FARM_WIDE = 0  # the wiki of a list that is the farm's
NAME_LIMIT_CHARS = 200
_WIKIS_KEPT = 64

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListRow:
    """A spam list that the registry keeps, without its text.

    Attributes:
        farm_id: whose it is.
        wiki_id: that wiki's own; `FARM_WIDE`: all of the farm's.
        name: what people know it by.
        kind: how it is read.
        loaded_day: when it was written.
    """

    farm_id: int
    wiki_id: int
    name: str
    kind: ListKind
    loaded_day: int


class RuleBook:
    """The rules of wikis. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, tuple[object, WikiRules]] = {}

    def rules_of(self, rows: Connection, wiki_id: int) -> WikiRules:
        """The wiki's rules as they are now; those of nobody when there is no such wiki."""
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
        seen = (
            tuple(facts),
            tuple(
                sorted((row.wiki_id, row.name, bytes(row.digest)) for row in rows.execute(question))
            ),
        )
        with self._lock:
            kept = self._kept.get(wiki_id)
        if kept is not None and kept[0] == seen:
            return kept[1]
        made = _rules(facts, _read_lists(rows, facts.farm_id, wiki_id))
        with self._lock:
            if len(self._kept) >= _WIKIS_KEPT:
                self._kept.clear()
            self._kept[wiki_id] = (seen, made)
        return made


def search_warnings(
    rows: Connection, book: RuleBook, pattern: LinkPattern, named: Mapping[int, str]
) -> list[str]:
    """What a search is told whose pattern meets entries of exclusion lists (X06).

    Args:
        rows: a connection.
        book: the rules.
        pattern: what is searched for.
        named: the wikis that are searched, by their numbers: their names.
    """
    warnings = (
        warning_for(pattern, book.rules_of(rows, wiki_id).exclusions.meeting(pattern), name)
        for wiki_id, name in named.items()
    )
    return [warning for warning in warnings if warning]


def put_list(
    rows: Connection, farm_id: int, each: SpamList, *, wiki_id: int = FARM_WIDE, today: int
) -> SpamLists:
    """Keep a list in place of the one of that name; what can be used of it.

    Raises:
        InputError: it cannot be read at all, or its name is none.
    """
    if not each.name.strip() or len(each.name) > NAME_LIMIT_CHARS or "\0" in each.name:
        raise InputError(f"A list's name has 1 to {NAME_LIMIT_CHARS} characters.")
    if "\0" in each.content:
        raise InputError(f"{each.name} holds a character that no text has (U+0000).")
    read = SpamLists([each])  # raises before anything is changed
    remove_list(rows, farm_id, each.name, wiki_id=wiki_id)
    row = {
        "farm_id": farm_id,
        "wiki_id": wiki_id,
        "name": each.name,
        "kind": str(each.kind),
        "content": each.content,
        "digest": _digest(each),
        "loaded_day": today,
    }
    rows.execute(insert(spam_lists), [row])
    return read


def is_kept(rows: Connection, farm_id: int, each: SpamList, *, wiki_id: int = FARM_WIDE) -> bool:
    """Return whether the list of that name has this very content."""
    table = spam_lists.c
    its = (table.farm_id == farm_id, table.wiki_id == wiki_id, table.name == each.name)
    found = rows.execute(select(table.digest).where(*its)).scalar()
    return found is not None and bytes(found) == _digest(each)


def _digest(each: SpamList) -> bytes:
    text = f"{each.kind}\n{each.content}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def remove_list(rows: Connection, farm_id: int, name: str, *, wiki_id: int = FARM_WIDE) -> bool:
    """Take the list of that name away; False when there is none."""
    table = spam_lists.c
    found = rows.execute(
        delete(spam_lists).where(
            table.farm_id == farm_id, table.wiki_id == wiki_id, table.name == name
        )
    )
    return found.rowcount > 0


def lists_kept(rows: Connection) -> list[ListRow]:
    """All lists, those of a farm together."""
    table = spam_lists.c
    columns = table.farm_id, table.wiki_id, table.name, table.kind, table.loaded_day
    order = table.farm_id, table.wiki_id, table.name
    found = rows.execute(select(*columns).order_by(*order)).all()
    return [ListRow(row[0], row[1], row[2], ListKind(row[3]), row[4]) for row in found]


def _read_lists(rows: Connection, farm_id: int, wiki_id: int) -> list[SpamList]:
    table = spam_lists.c
    found = rows.execute(
        select(table.wiki_id, table.name, table.kind, table.content)
        .where(table.farm_id == farm_id, table.wiki_id.in_((FARM_WIDE, wiki_id)))
        .order_by(table.wiki_id, table.name)
    )
    return [
        SpamList(row.name, ListKind(row.kind), row.content, is_global=row.wiki_id == FARM_WIDE)
        for row in found
    ]


def _rules(facts: Any, lists: list[SpamList]) -> WikiRules:
    settings = settings_of(facts.settings)
    named = settings.get("servers")
    servers = [str(each) for each in named] if isinstance(named, list) else []
    if settings.get("registers_own") is True:
        own = OwnHosts(_expression(facts.internal))
    else:
        its = [facts.address, *servers, facts.url, facts.pages_url]
        own = OwnHosts(_expression(facts.internal), its)
    return WikiRules(
        own=own,
        spam=SpamLists(lists),
        exclusions=exclusions_of(settings),
        is_private=settings.get("is_private") is True,
    )


def _expression(text: str) -> str:
    """The farm's expression; empty when RE2 cannot run it: other rules must go on."""
    with suppress(InputError):
        OwnHosts(text)
        return text
    log.warning("farm.internal %r cannot be run, so no host is taken for the farm's own", text)
    return ""


def settings_of(text: str) -> Mapping[str, Any]:
    """A wiki's settings; none when they cannot be read."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
