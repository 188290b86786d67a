"""Import of the links of whole wikis, sorted by page and written in batches.

A page's links may stand anywhere in a file, and a page is written as a whole, so the rows are first
put in the order of pages, on the disk. Then a few hundred pages at a time are written, each batch with
a note of how far it has come: an import that was interrupted goes on there, and one that is repeated
changes nothing. What the file says of a page is all that the page has.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import Connection, delete, select

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
    """What an import has done.

    Attributes:
        pages: that were written.
        resumed: that an earlier run had written.
        links: on the pages, each page's counted once.
        added: references that are new or back.
        gone: references that are no more.
        sorts: how many links of each sort the pages have.
    """

    pages: int = 0
    resumed: int = 0
    links: int = 0
    added: int = 0
    gone: int = 0
    sorts: Counter[LinkClass] = field(default_factory=Counter)


class _SpooledPage(NamedTuple):
    wiki: int
    name: PageName
    urls: tuple[str, ...]


class PageSpool:
    """Rows that wait on the disk, in the order of their pages. `close` it."""

    def __init__(self) -> None:
        self._wikis: dict[str, int] = {}
        self.names: list[WikiName] = []
        self.rows = 0
        self._rows: list[tuple[int, int, str, int, bytes]] = []
        self._disk = sqlite3.connect("", isolation_level=None)  # a file that nobody else sees
        self._disk.execute("PRAGMA journal_mode = OFF")
        self._disk.execute(
            "CREATE TABLE row (wiki INTEGER, page INTEGER, title TEXT, namespace INTEGER, url BLOB)"
        )

    def add(self, row: DumpLink, wiki: WikiName | None) -> None:
        """Put a row aside.

        Args:
            row: the row.
            wiki: whose page it is when it does not say.

        Raises:
            InputError: it names no wiki, or no page.
        """
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
        """How many pages wait."""
        self._flush()
        found = self._disk.execute("SELECT count(*) FROM (SELECT DISTINCT wiki, page FROM row)")
        return int(found.fetchone()[0])

    def of_wiki(self, place: int) -> Iterator[_SpooledPage]:
        """The pages of the wiki at that place of `names`, by their ids."""
        self._flush()
        found = self._disk.execute(
            "SELECT * FROM row WHERE wiki = ? ORDER BY page, rowid", (place,)
        )
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
        """Forget what waits."""
        self._disk.close()

    def _flush(self) -> None:
        if self._rows:
            self._disk.execute("BEGIN")
            self._disk.executemany("INSERT INTO row VALUES (?, ?, ?, ?, ?)", self._rows)
            self._disk.execute("COMMIT")
            self._rows.clear()


class LinkImporter:
    """Writes what a spool holds. One import; not from several threads."""

    def __init__(self, store: RegistryStore, *, day: int, digest: bytes = b"") -> None:
        """Take the registry, today, and a digest that tells this import from others.

        Without a digest it cannot be resumed.
        """
        self._store = store
        self._day = day
        self._digest = digest
        self._rules = RuleBook()

    def run(
        self,
        spool: PageSpool,
        *,
        anew: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> ImportSummary:
        """Write all pages; what was done.

        Args:
            spool: the pages.
            anew: from the first on, although an earlier run had begun.
            progress: told how many pages were written, after each batch.

        Raises:
            InputError: a wiki's farm is not known; nothing was written.
            TransientError: the database does not answer; the next run goes on.
        """
        with self._store.writing() as connection:
            ids = [ensure_wiki(connection, name, day=self._day).id for name in spool.names]
            if anew:
                FORGET.run(connection, {"of": self._digest})
            found = HOW_FAR.rows(connection, {"of": self._digest}) if self._digest else []
        last, before = found[0] if found else (0, 0)
        done = ImportSummary(resumed=before)
        # In the order of their numbers here: the names' order is that of the file.
        order = sorted(range(len(ids)), key=ids.__getitem__)
        pages = (
            page
            for place in order
            for page in spool.of_wiki(place)
            if number_of(ids[place], page.name.page_id) > last
        )
        progress(before)
        for wiki, group in groupby(pages, key=lambda page: page.wiki):
            for batch in batches(group, BATCH):
                self._write(ids[wiki], batch, done)
                progress(len(batch))
        with self._store.writing() as connection:
            FORGET.run(connection, {"of": self._digest})
        return done

    def look(
        self, spool: PageSpool, *, progress: Callable[[int], None] = lambda _: None
    ) -> ImportSummary:
        """What `run` would find on the pages; nothing is written."""
        done = ImportSummary()
        rules: dict[int, WikiRules] = {}
        with self._store.reading() as connection:
            for place, name in enumerate(spool.names):
                there = find_wiki(connection, name)
                rules[place] = (
                    WikiRules() if there is None else self._rules.rules_of(connection, there.id)
                )
        for place in rules:
            for batch in batches(spool.of_wiki(place), BATCH):
                for page in batch:
                    self._count(done, sorted_links(page.urls, rules[place]))
                progress(len(batch))
        return done

    def _write(self, wiki_id: int, batch: list[_SpooledPage], done: ImportSummary) -> None:
        with self._store.writing() as connection:
            rules = self._rules.rules_of(connection, wiki_id)
            put = [PutPage(page.name, sorted_links(page.urls, rules)) for page in batch]
            result = put_pages(connection, wiki_id, put, day=self._day)
            self._note(connection, number_of(wiki_id, batch[-1].name.page_id), done, len(batch))
        for each in put:
            self._count(done, each.links)
        done.added += result.added
        done.gone += result.gone

    def _count(self, done: ImportSummary, links: Iterable[ClassifiedLink]) -> None:
        done.pages += 1
        for link in links:
            done.links += 1
            done.sorts[link.sort] += 1

    def _note(self, connection: Connection, last: int, done: ImportSummary, more: int) -> None:
        if self._digest:
            pages = done.resumed + done.pages + more
            row = {"digest": self._digest, "page": last, "pages": pages, "day": self._day}
            upsert(connection, imports, ["digest"], [row])


def sorted_links(urls: Iterable[str], rules: WikiRules) -> tuple[ClassifiedLink, ...]:
    """The links of a page, each sorted by its wiki's rules; in this one place."""
    return tuple(classify_link(url, rules) for url in urls)
