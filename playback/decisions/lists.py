"""Lists of bad addresses: kept here, looked up here, so that nobody learns what is read (C-16).

A list is a file of hash prefixes beside the decisions (`playback.decisions.prefix_files`) and a row that
says what it is for. A file never changes: a newer list of the same name is another file.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.timestamps import milliseconds, moment
from playback.decisions.prefix_files import PrefixFile, write_prefixes
from playback.decisions.store import DecisionStore
from playback.decisions.url_hashes import full_hashes

_SURE = (
    8  # bytes of a prefix: fewer are shared by addresses that have nothing to do with each other
)
_COLUMNS = "name, file, effect, reason, entries, added_ms"


class ListEffect(StrEnum):
    """What a reader of a listed address meets."""

    HOLD = "hold"  # a notice before the copy
    WARN = "warn"  # a notice beside the copy


@dataclass(frozen=True, slots=True)
class UrlList:
    """A list as its row says.

    Attributes:
        name: for readers, too.
        file: its file's name, in the folder of lists.
        reason: what is on it, for readers.
        added_at: when it was added, or brought up to date.
    """

    name: str
    file: str
    effect: ListEffect
    reason: str
    entries: int
    added_at: datetime


@dataclass(frozen=True, slots=True)
class ListHit:
    """An address found on a list.

    Attributes:
        is_sure: False when the entry is so short that another address may be meant.
    """

    on: UrlList
    is_sure: bool


class UrlLists:
    """All lists, ready to be asked for each address. From any thread."""

    def __init__(self, lists: Iterable[tuple[UrlList, PrefixFile]] = ()) -> None:
        self._lists = tuple(lists)

    def __bool__(self) -> bool:
        return bool(self._lists)

    def on(self, url: str) -> ListHit | None:
        """Where the address is found, what holds it back before what only warns; None: nowhere."""
        hits = self.all_on(url)
        return min(hits, key=lambda hit: hit.on.effect is not ListEffect.HOLD, default=None)

    def all_on(self, url: str) -> list[ListHit]:
        """Every list on which the address is."""
        if not self._lists:
            return []
        hashes = full_hashes(url)
        hits = []
        for about, file in self._lists:
            size = max(map(file.find, hashes), default=0)
            if size:
                hits.append(ListHit(about, size >= _SURE))
        return hits


def folder_of(decisions_db: Path) -> Path:
    """Where the files of lists are: beside the decisions of the collection."""
    return decisions_db.with_name("lists")


def load_lists(store: DecisionStore, folder: Path) -> UrlLists:
    """All lists that the store knows.

    Raises:
        TransientError: the store or a list cannot be read; nothing is taken for unlisted.
    """
    return UrlLists((each, PrefixFile(folder / each.file)) for each in known_lists(store))


def known_lists(store: DecisionStore) -> list[UrlList]:
    """The lists' rows, by name."""
    rows = store.rows(f"SELECT {_COLUMNS} FROM url_lists ORDER BY name", {})  # noqa: S608 constants
    return [_list(row) for row in rows]


def add_list(
    store: DecisionStore, folder: Path, about: UrlList, prefixes: Iterable[bytes]
) -> UrlList:
    """Add a list, or take this one for an older one of the same name; as it is kept.

    Raises:
        InputError: the name cannot be one, or there are no prefixes.
        TransientError: it cannot be kept.
    """
    if not about.name.strip() or len(about.name) > 100 or not about.name.isprintable():
        raise InputError("A list's name has 1 to 100 characters that can be seen.")
    old = next((each for each in known_lists(store) if each.name == about.name), None)
    stem = hashlib.sha256(f"{about.name} {milliseconds(about.added_at)}".encode()).hexdigest()[:24]
    file = f"{stem}.prefixes"
    entries = write_prefixes(folder / file, prefixes)
    values = {
        "name": about.name,
        "file": file,
        "effect": about.effect,
        "reason": about.reason,
        "entries": entries,
        "added_ms": milliseconds(about.added_at),
    }
    store.change(
        [
            ("DELETE FROM url_lists WHERE name = :name", {"name": about.name}),
            (
                f"INSERT INTO url_lists ({_COLUMNS}) VALUES"  # noqa: S608 constants
                " (:name, :file, :effect, :reason, :entries, :added_ms)",
                values,
            ),
        ]
    )
    if old is not None and old.file != file:
        _forget(folder / old.file)
    return _list(values)


def remove_list(store: DecisionStore, folder: Path, name: str) -> UrlList:
    """Take the list away; as it was.

    Raises:
        InputError: there is none of that name.
        TransientError: it cannot be taken away.
    """
    old = next((each for each in known_lists(store) if each.name == name), None)
    if old is None:
        raise InputError(f"There is no list {name[:100]!r}; `weboid scan lists show` names them.")
    store.change([("DELETE FROM url_lists WHERE name = :name", {"name": name})])
    _forget(folder / old.file)
    return old


def _forget(path: Path) -> None:
    # Whoever has it mapped goes on reading it; a file that stays behind is of no consequence.
    with suppress(OSError):
        path.unlink()


def _list(row: Any) -> UrlList:
    return UrlList(
        row["name"],
        row["file"],
        ListEffect(row["effect"]),
        row["reason"],
        row["entries"],
        moment(row["added_ms"]),
    )
