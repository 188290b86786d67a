"""Import of the links of whole wikis, sorted by page on disk and written in batches.

A page's links may be anywhere in a file, and replace all its links. Each batch has the import position: an
interrupted import resumes there, and a repeated one changes nothing.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import delete, select

from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.dump_reader import DumpLink
from links.registry.pages import PageName, PutPage, check_name, number_of, put_pages
from links.registry.schema import imports
from links.registry.statements import SqlStatement, batches, one, upsert
from links.registry.wikis import WikiName, ensure_wiki, find_wiki, parse_wiki
from links.rules.link_class import ClassifiedLink, LinkClass, WikiRules, classify_link
from links.rules.wiki_rules import RuleBook

BATCH = 500  # pages of one transaction
_ROWS = 5_000  # rows that are put aside at once

HOW_FAR = SqlStatement(select(imports.c.page, imports.c.pages).where(imports.c.digest == one("of")))
FORGET = SqlStatement(delete(imports).where(imports.c.digest == one("of")))


@dataclass(slots=True)
class ImportSummary:
    """Result of an import."""

    pages: int = 0  # number written
    resumed: int = 0  # number that an earlier run had written
    links: int = 0  # on the pages, each page's counted once
    added: int = 0  # references that are new or restored
    gone: int = 0  # references that were removed
    sorts: Counter[LinkClass] = field(default_factory=Counter)  # links by class


class _SpooledPage(NamedTuple):
    wiki: int
    name: PageName
    urls: tuple[str, ...]


class PageSpool:
    """Rows on disk, sorted by page. Must be closed."""

    def __init__(self) -> None:
        self._wikis: dict[str, int] = {}
        self.names: list[WikiName] = []
        self.rows = 0
        self._rows: list[tuple[int, int, str, int, bytes]] = []
        self._disk = sqlite3.connect("", isolation_level=None)  # a private temporary file
        self._disk.execute("PRAGMA journal_mode = OFF")
        self._disk.execute("CREATE TABLE row (wiki INTEGER, page INTEGER, title TEXT, namespace INTEGER, url BLOB)")

    def add(self, row: DumpLink, wiki: WikiName | None) -> None:
        """Add a row, of the default wiki when it names none; InputError when it has no wiki or no page."""
        check_name(PageName(row.page_id, row.title, row.namespace))
        url = row.url.encode("utf-8", "surrogatepass")
        text = row.wiki
        place = self._wikis.get(text)
        if place is None:
            name = parse_wiki(text) if text else wiki
            if name is None:
                raise InputError("it names no wiki; --wiki NAME says whose pages these are")
            if name not in self.names:
                self.names.append(name)
            place = self._wikis[text] = self.names.index(name)
        self._rows.append((place, row.page_id, row.title, row.namespace, url))
        self.rows += 1
        if len(self._rows) >= _ROWS:
            self._flush()

    def pages(self) -> int:
        """Count the pages."""
        self._flush()
        found = self._disk.execute("SELECT count(*) FROM (SELECT DISTINCT wiki, page FROM row)")
        return int(found.fetchone()[0])

    def of_wiki(self, place: int) -> Iterator[_SpooledPage]:
        """Yield the pages of the wiki with that index in `names`, by their ids."""
        self._flush()
        found = self._disk.execute("SELECT * FROM row WHERE wiki = ? ORDER BY page, rowid", (place,))
        for (wiki, page), rows in groupby(found, key=lambda row: (row[0], row[1])):
            title, namespace = "", 0
            urls: dict[bytes, None] = {}
            for row in rows:
                if row[2]:
                    title, namespace = row[2], row[3]
                urls[row[4]] = None
            texts = tuple(url.decode("utf-8", "surrogatepass") for url in urls)
            yield _SpooledPage(wiki, PageName(page, title, namespace), texts)

    def close(self) -> None:
        """Delete the spooled rows."""
        self._disk.close()

    def _flush(self) -> None:
        if self._rows:
            self._disk.execute("BEGIN")
            self._disk.executemany("INSERT INTO row VALUES (?, ?, ?, ?, ?)", self._rows)
            self._disk.execute("COMMIT")
            self._rows.clear()


class LinkImporter:
    """Writer of spooled pages. For one import; not thread-safe."""

    def __init__(self, store: RegistryStore, *, day: int, digest: bytes = b"") -> None:
        """Store the registry, the day, and the import's digest, without which it cannot be resumed."""
        self._store = store
        self._day = day
        self._digest = digest
        self._rules = RuleBook()

    def run(
        self, spool: PageSpool, *, restart: bool = False, progress: Callable[[int], None] = lambda _: None
    ) -> ImportSummary:
        """Write all pages, from the first one with `restart`; `progress` gets the number of pages after each batch.

        InputError for an unknown farm: nothing was written. After a TransientError the next run resumes.
        """
        with self._store.writing() as connection:
            ids = [ensure_wiki(connection, name, day=self._day).id for name in spool.names]
            if restart:
                FORGET.run(connection, {"of": self._digest})
            found = HOW_FAR.rows(connection, {"of": self._digest}) if self._digest else []
        last, before = found[0] if found else (0, 0)
        done = ImportSummary(resumed=before)
        # In the order of their numbers here: the names' order is that of the file.
        order = sorted(range(len(ids)), key=ids.__getitem__)
        pages = (
            page for place in order for page in spool.of_wiki(place) if number_of(ids[place], page.name.page_id) > last
        )
        progress(before)
        for wiki, group in groupby(pages, key=lambda page: page.wiki):
            for batch in batches(group, BATCH):
                with self._store.writing() as connection:
                    rules = self._rules.rules_of(connection, ids[wiki])
                    put = [PutPage(page.name, sorted_links(page.urls, rules)) for page in batch]
                    result = put_pages(connection, ids[wiki], put, day=self._day)
                    if self._digest:
                        last = number_of(ids[wiki], batch[-1].name.page_id)
                        count = done.resumed + done.pages + len(batch)
                        row = {"digest": self._digest, "page": last, "pages": count, "day": self._day}
                        upsert(connection, imports, ["digest"], [row])
                for each in put:
                    self._count(done, each.links)
                done.added += result.added
                done.gone += result.gone
                progress(len(batch))
        with self._store.writing() as connection:
            FORGET.run(connection, {"of": self._digest})
        return done

    def look(self, spool: PageSpool, *, progress: Callable[[int], None] = lambda _: None) -> ImportSummary:
        """Compute the summary of `run` without writing."""
        done = ImportSummary()
        rules: dict[int, WikiRules] = {}
        with self._store.reading() as connection:
            for place, name in enumerate(spool.names):
                there = find_wiki(connection, name)
                rules[place] = WikiRules() if there is None else self._rules.rules_of(connection, there.id)
        for place in rules:
            for batch in batches(spool.of_wiki(place), BATCH):
                for page in batch:
                    self._count(done, sorted_links(page.urls, rules[place]))
                progress(len(batch))
        return done

    def _count(self, done: ImportSummary, links: Iterable[ClassifiedLink]) -> None:
        done.pages += 1
        for link in links:
            done.links += 1
            done.sorts[link.sort] += 1


def sorted_links(urls: Iterable[str], rules: WikiRules) -> tuple[ClassifiedLink, ...]:
    """Classify the links of a page by its wiki's rules."""
    return tuple(classify_link(url, rules) for url in urls)
