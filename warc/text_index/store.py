"""Full-text index in a SQLite file (FTS5) or PostgreSQL (tsvector): schema and writers.

A row of `text_versions` is a text that a URL had, found once however often it was captured. Its number is the URL's
number times 2^20 plus that of the text, so that newer URLs come first, and a search can skip all texts of one URL.
Facets are tokens of a private-use character that no query can contain. Access is decided by the captures of a result.
"""

import hashlib
import sqlite3
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.layout import Layout
from core.timestamps import from_unix_milliseconds
from core.urls import host_or_empty
from warc.local_storage import enable_wal, write_transaction
from warc.text_index.analysis import TEXT_LIMIT_CHARS, UNSTEMMED, tokens

TEXT_VERSION = 2  # of schema and analysis: a file of another is written again
URL_SHIFT = 20  # bits of a number that count the texts of a URL
_FACET = "\ue000"
_BUSY_TIMEOUT_MS = 60_000
_CACHE_KIB = 65_536
_POSITIONS = 16_383  # PostgreSQL's last position of a lexeme
_COMMON_DDL = """
CREATE TABLE IF NOT EXISTS text_urls (number {number} PRIMARY KEY{identity}, digest TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS text_versions (number {number} PRIMARY KEY, digest TEXT NOT NULL UNIQUE,
    language TEXT NOT NULL, title TEXT NOT NULL, url TEXT NOT NULL, facets TEXT NOT NULL, body {blob} NOT NULL{terms});
CREATE TABLE IF NOT EXISTS text_pages (page_id TEXT PRIMARY KEY, number {number} NOT NULL,
    captured_ms {number} NOT NULL);
CREATE INDEX IF NOT EXISTS text_pages_by_number ON text_pages (number, captured_ms);
CREATE TABLE IF NOT EXISTS text_languages (language TEXT PRIMARY KEY)
"""
_SQLITE_DDL = _COMMON_DDL.format(number="INTEGER", identity="", blob="BLOB", terms="") + (
    ";CREATE VIRTUAL TABLE IF NOT EXISTS text_terms USING fts5 (title, url, body, facets, content='',"
    " tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'\")"
)
_POSTGRES_DDL = _COMMON_DDL.format(
    number="BIGINT", identity=" GENERATED ALWAYS AS IDENTITY", blob="BYTEA", terms=", terms tsvector NOT NULL"
).replace(" TEXT", ' TEXT COLLATE "C"') + ("; CREATE INDEX IF NOT EXISTS text_terms ON text_versions USING gin (terms)")


@dataclass(frozen=True, slots=True)
class TextDocument:
    """Text of a captured page."""

    page_id: str
    url: str
    captured_ms: int
    title: str
    text: str
    language: str  # primary language; empty when unknown
    media: str  # `MEDIA`
    state: str  # `STATES`


MEDIA = ("page", "pdf", "text", "image", "video", "audio", "file")
STATES = ("good", "doubtful", "error")


@dataclass(frozen=True, slots=True)
class TextFilter:
    """Facets that results must have; empty ones do not restrict."""

    host: str = ""  # a host and its subdomains
    year: str = ""
    media: str = ""
    state: str = ""
    language: str = ""

    def tokens(self) -> list[str]:
        """Return the facets' tokens."""
        names = ("host", "year", "media", "state", "language")
        return [_facet(name, value) for name in names if (value := getattr(self, name))]


def _facet(name: str, value: str) -> str:
    return f"{_FACET}{name[0]}{hashlib.sha256(value.encode()).hexdigest()[:12]}"


def url_host(url: str) -> str:
    """Return the URL's host without ``www.``; empty without one."""
    return host_or_empty(url).removeprefix("www.")


def _host_facets(url: str) -> list[str]:
    host = url_host(url)
    is_address = ":" in host or host.rpartition(".")[2].isdigit()
    labels = [host] if is_address else host.split(".")
    return [_facet("host", ".".join(labels[at:])) for at in range(max(1, len(labels) - 1))][:20] if host else []


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


class TextIndexWriter(ABC):
    """Writer of a full-text index. For use from one thread; `close` it. Raises sqlite3.Error or IndexUnavailableError."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Lock the index for writing; commit at the end of the block, or roll back on any error."""

    _db: Any  # the connection

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    @abstractmethod
    def purge(self) -> None:
        """Overwrite what removed texts have left in the index."""

    @abstractmethod
    def _run(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement whose values are ``?``; return its cursor."""

    @abstractmethod
    def _put(self, number: int, fields: Sequence[Sequence[str]]) -> None:
        """Add the tokens of title, URL, text and facets."""

    def _drop(self, number: int, fields: Sequence[Sequence[str]]) -> None:  # noqa: B027 PostgreSQL: in the row
        """Remove the tokens, which are those that were added, unless they are in the row, which is changed or deleted."""

    def add(self, documents: Collection[TextDocument]) -> None:
        """Add captured pages in one transaction; a page that is there is replaced."""
        if not documents:
            return
        with self.transaction():
            for language in sorted({each.language for each in documents} - {""}):
                self._run("INSERT INTO text_languages (language) VALUES (?) ON CONFLICT DO NOTHING", (language,))
            for each in documents:
                self._add(each)

    def _add(self, page: TextDocument) -> None:
        url = _digest(page.url.replace("http://", "https://", 1) if page.url.startswith("http://") else page.url)
        text = page.text[:TEXT_LIMIT_CHARS].replace("\0", "\ufffd")
        title = page.title[:1_000].replace("\0", "\ufffd")
        digest = _digest(url, title, page.language, page.media, page.state, text)
        year = _facet("year", str(from_unix_milliseconds(page.captured_ms).year))
        version = self._run("SELECT number, facets FROM text_versions WHERE digest = ?", (digest,)).fetchone()
        if version is None:
            query = "SELECT number FROM text_urls WHERE digest = ?"
            if (row := self._run(query, (url,)).fetchone()) is None:
                self._run("INSERT INTO text_urls (digest) VALUES (?)", (url,))
                row = self._run(query, (url,)).fetchone()
            base = int(row[0]) << URL_SHIFT
            query = "SELECT coalesce(max(number), ?) + 1 FROM text_versions WHERE number > ? AND number < ?"
            number = self._run(query, (base, base, base + (1 << URL_SHIFT) - 1)).fetchone()[0]
            facets = [*_host_facets(page.url), _facet("media", page.media), _facet("state", page.state), year]
            facets += [_facet("language", page.language)] if page.language else []
            self._put(number, _fields(title, page.url, text, page.language, facets))
            body = zlib.compress(text.encode("utf-8", "replace"), 6)
            self._insert_version((number, digest, page.language, title, page.url[:8_192], " ".join(facets), body))
        else:
            number, facets = version[0], version[1].split()
            if year not in facets:
                language, title, address, _, body = self._version(number)
                text = unpack_text(body)
                self._drop(number, _fields(title, address, text, language, facets))
                facets = [*facets, year]
                self._put(number, _fields(title, address, text, language, facets))
                self._run("UPDATE text_versions SET facets = ? WHERE number = ?", (" ".join(facets), number))
        self._forget(page.page_id, number)
        query = (
            "INSERT INTO text_pages (page_id, number, captured_ms) VALUES (?, ?, ?)"
            " ON CONFLICT (page_id) DO UPDATE SET captured_ms = excluded.captured_ms"
        )
        self._run(query, (page.page_id, number, page.captured_ms))

    def _insert_version(self, row: tuple[Any, ...]) -> None:
        query = "INSERT INTO text_versions (number, digest, language, title, url, facets, body) VALUES (?,?,?,?,?,?,?)"
        self._run(query, row)

    def _version(self, number: int) -> Any:
        query = "SELECT language, title, url, facets, body FROM text_versions WHERE number = ?"
        return self._run(query, (number,)).fetchone()

    def _forget(self, page_id: str, unless: int | None = None) -> None:
        """Remove the page, unless it has that text, and its text when no other page has it."""
        row = self._run("SELECT number FROM text_pages WHERE page_id = ?", (page_id,)).fetchone()
        if row is None or row[0] == unless:
            return
        number = row[0]
        self._run("DELETE FROM text_pages WHERE page_id = ?", (page_id,))
        if self._run("SELECT 1 FROM text_pages WHERE number = ? LIMIT 1", (number,)).fetchone() is None:
            language, title, url, facets, body = self._version(number)
            self._drop(number, _fields(title, url, unpack_text(body), language, facets.split()))
            self._run("DELETE FROM text_versions WHERE number = ?", (number,))

    def remove(self, page_ids: Collection[str]) -> None:
        """Remove captured pages."""
        with self.transaction():
            for page_id in page_ids:
                self._forget(page_id)

    def pages_after(self, page_id: str, limit: int) -> dict[str, int]:
        """Return capture times of the next pages by id, in the order of their ids."""
        query = "SELECT page_id, captured_ms FROM text_pages WHERE page_id > ? ORDER BY page_id LIMIT ?"
        return dict(self._run(query, (page_id, limit)).fetchall())


def _fields(title: str, url: str, text: str, language: str, facets: Sequence[str]) -> list[Sequence[str]]:
    return [tokens(title, language), tokens(url[:2_000], UNSTEMMED), tokens(text, language), facets]


def unpack_text(body: bytes) -> str:
    """Return the text that is stored with a version."""
    return zlib.decompress(body).decode("utf-8", "replace")


class SqliteTextWriter(TextIndexWriter):
    """Full-text index of one collection, in a file of its own: its writers never hold the captures index."""

    def __init__(self, path: Path) -> None:
        """Open the index; create it when it is missing or was written by another version."""
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            enable_wal(self._db, path)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            with self.transaction():
                if self._db.execute("PRAGMA user_version").fetchone()[0] != TEXT_VERSION:
                    for table in ("text_terms", "text_urls", "text_versions", "text_pages", "text_languages"):
                        self._db.execute(f"DROP TABLE IF EXISTS {table}")
                    for statement in _SQLITE_DDL.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {TEXT_VERSION}")
        except BaseException:
            self._db.close()
            raise

    def transaction(self) -> AbstractContextManager[None]:
        """Lock the index for writing."""
        return write_transaction(self._db)

    def purge(self) -> None:
        """Merge all segments and write the file again."""
        # Deleted entries stay in segments until these are merged, and in free pages.
        self._db.execute("INSERT INTO text_terms (text_terms) VALUES ('optimize')")
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _run(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._db.execute(query, values)

    def _put(self, number: int, fields: Sequence[Sequence[str]]) -> None:
        query = "INSERT INTO text_terms (rowid, title, url, body, facets) VALUES (?, ?, ?, ?, ?)"
        self._db.execute(query, (number, *map(" ".join, fields)))

    def _drop(self, number: int, fields: Sequence[Sequence[str]]) -> None:
        query = "INSERT INTO text_terms (text_terms, rowid, title, url, body, facets) VALUES ('delete', ?, ?, ?, ?, ?)"
        self._db.execute(query, (number, *map(" ".join, fields)))


class PostgresTextWriter(TextIndexWriter):
    """Full-text index in the database of the captures index."""

    def __init__(self, url: str) -> None:
        """Connect, and create missing tables. Raises IndexUnavailableError."""
        from core.config.database_urls import parse_index_url
        from net.postgres_client import PostgresConnection

        address = parse_index_url(url)
        self._name = f"weboid.texts.{address.index}"
        self._db = PostgresConnection(address, holds=False)
        with self.transaction():
            self._db.execute(f'CREATE SCHEMA IF NOT EXISTS "{address.index}"')
            self._db.execute(_POSTGRES_DDL)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lock the index for writing."""
        with self._db.transaction():
            # One writer at a time: the numbers of URLs and texts are counted.
            self._db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._name,))
            yield

    def clear(self) -> None:
        """Remove all texts."""
        self._db.execute("TRUNCATE text_pages, text_versions, text_urls, text_languages", patient=True)

    def purge(self) -> None:
        """Write the table again."""
        self._db.execute("VACUUM FULL text_versions", patient=True)

    def _run(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._db.execute(query.replace("?", "%s"), list(values))

    def _put(self, number: int, fields: Sequence[Sequence[str]]) -> None:
        places: dict[str, list[str]] = {}
        at = 0
        for weight, words in zip("ABDC", fields, strict=True):
            for word in words:
                at += 1
                places.setdefault(word, []).append(f"{min(at, _POSITIONS)}{weight}")
            at += 1
        self._terms = " ".join(f"{quoted_lexeme(word)}:{','.join(marks[:255])}" for word, marks in places.items())
        self._run("UPDATE text_versions SET terms = ?::tsvector WHERE number = ?", (self._terms, number))

    def _insert_version(self, row: tuple[Any, ...]) -> None:
        query = (
            "INSERT INTO text_versions (number, digest, language, title, url, facets, body, terms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?::tsvector)"
        )
        self._run(query, (*row, self._terms))


def quoted_lexeme(word: str) -> str:
    """Return the word as PostgreSQL reads it in a tsvector and a tsquery."""
    return "'" + word.replace("'", "''").replace("\\", "\\\\") + "'"


def open_text_writer(layout: Layout, url: str) -> TextIndexWriter:
    """Open the index for writing, at `url` or in the collection. Raises sqlite3.Error or IndexUnavailableError."""
    return PostgresTextWriter(url) if url else SqliteTextWriter(layout.texts_db)
