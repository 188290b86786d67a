"""Import of the links of whole wikis from JSON Lines, TSV and SQL dumps of MediaWiki (docs/reference/cli.md).

MediaWiki's table externallinks comes as Wikimedia publishes it (SQL) or as its command line client writes it: with
backslash escapes, and NULL. The first line of a TSV file may name the columns; without it their number determines
them. Gzip is detected by its first bytes. An unreadable line is reported and skipped. Links are sorted by page on
disk and written in batches.

A page's links may be anywhere in a file, and replace all its links. Each batch has the import position: an
interrupted import resumes there, and a repeated one changes nothing.
"""

import gzip
import ipaddress
import json
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from io import BufferedIOBase, BufferedReader, RawIOBase
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import delete, select

from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.pages import PageName, PutPage, check_name, number_of, put_pages
from links.registry.schema import imports
from links.registry.statements import SqlStatement, batches, one, upsert
from links.registry.wikis import WikiName, ensure_wiki, find_wiki, parse_wiki
from links.rules.link_class import ClassifiedLink, LinkClass, WikiRules, classify_link
from links.rules.wiki_rules import RuleBook

BEGINNINGS = ("--", "/*", "DROP TABLE", "CREATE TABLE", "INSERT INTO", "LOCK TABLES")
_COLUMN = re.compile(r"\s*`(\w+)` ")
_INSERT = re.compile(r"INSERT INTO `?\w+`?\s*(?:\(([^)]*)\))?\s*VALUES\s*")
_VALUE = re.compile(r"\s*(?:'([^'\\]*(?:(?:\\.|'')[^'\\]*)*)'|(NULL)|([-+.\w]+))\s*([,)])", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "r": "\r", "b": "\b", "Z": "\x1a"}


class SqlDump:
    """Line-by-line reader of an SQL dump; `columns` is empty until its CREATE TABLE was read."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._is_creating = False

    def rows(self, line: str) -> Iterator[dict[str, str]]:
        """Yield the rows that the line inserts; NULL is empty. ValueError follows those before a malformed one."""
        if line.startswith("CREATE TABLE"):
            self.columns, self._is_creating = [], True
        elif self._is_creating:
            column = _COLUMN.match(line)
            if column is not None:
                self.columns.append(column[1])
            self._is_creating = not line.startswith(")")
        elif (insert := _INSERT.match(line)) is not None:
            named = [name.strip(" `") for name in (insert[1] or "").split(",") if name.strip()]
            yield from _tuples(line, insert.end(), named or self.columns)


def unescape_sql(text: str) -> str:
    """Decode MySQL's backslash escapes."""
    if "\\" not in text and "''" not in text:
        return text
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else "'", text)


def _tuples(line: str, at: int, columns: list[str]) -> Iterator[dict[str, str]]:
    while at < len(line) and line[at] == "(":
        values, end = [], ","
        at += 1
        while end == ",":
            match = _VALUE.match(line, at)
            if match is None:
                raise ValueError(f"it cannot be read from character {at + 1:,} on")
            text, null, number, end = match.groups()
            values.append("" if null else number or unescape_sql(text or ""))
            at = match.end()
        if len(values) != len(columns):
            raise ValueError(f"a row has {len(values)} values, and the table {len(columns)} columns")
        yield dict(zip(columns, values, strict=True))
        if line[at : at + 1] != ",":
            break
        at += 1
        while line[at : at + 1].isspace():
            at += 1
    if line[at : at + 1] != ";":
        raise ValueError("its end is missing")


LINE_LIMIT_BYTES = 16 << 20  # an INSERT holds many rows, a JSON line all URLs of a page
_GZIP = b"\x1f\x8b"
_SPELLINGS = {
    "wiki": "wiki dbname",
    "page": "page_id pageid curid el_from",
    "title": "title page_title",
    "namespace": "namespace page_namespace",
    "url": "url el_to",
    "index": "el_to_domain_index",
    "path": "el_to_path",
}
_NAMES = {name: column for column, names in _SPELLINGS.items() for name in names.split()}
_INDEX = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)([^/@:]*)(:\d*)?(?:@(.*))?", re.DOTALL)


class DumpLink(NamedTuple):
    """Link of a page in a dump."""

    wiki: str  # its name; empty when the file has none
    page_id: int
    title: str  # empty when the file has none
    namespace: int
    url: str


class MalformedLine(NamedTuple):
    """Unreadable line: its number and the reason."""

    number: int
    why: str


def read_links(
    stream: BufferedIOBase, *, one_wiki: bool, progress: Callable[[int], None] = lambda _: None
) -> Iterator[DumpLink | MalformedLine]:
    """Yield the links of a file; InputError when it is damaged, or of no known format.

    `one_wiki`: TSV has no column for the wiki; `progress` gets the number of bytes read since its last call.
    """
    source = BufferedReader(_CountingStream(stream, progress), 1 << 16)
    plain = gzip.GzipFile(fileobj=source, mode="rb") if source.peek(2)[:2] == _GZIP else source
    try:
        yield from _rows(plain, one_wiki=one_wiki)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"The file is damaged: {error}. Nothing after that place can be read.") from error


def url_of_index(index: str, path: str) -> str:
    """Build the URL from MediaWiki's domain index and path (X08).

    >>> url_of_index("https://org.creativecommons.", "/licenses/by-sa/3.0")
    'https://creativecommons.org/licenses/by-sa/3.0'
    >>> url_of_index("http://V4.192.0.2.1.:8080", "/"), url_of_index("mailto:org.example.@me", "")
    ('http://192.0.2.1:8080/', 'mailto:me@example.org')
    """
    match = _INDEX.fullmatch(index)
    if match is None:
        return index + path
    start, domain, port, user = match[1], match[2].removesuffix("."), match[3] or "", match[4]
    if domain.startswith("V4."):
        host = domain[3:]
    elif domain.startswith("V6."):
        host = f"[{domain[3:]}]"
        with suppress(ValueError):
            host = f"[{ipaddress.IPv6Address(domain[3:].replace('.', ':'))}]"
    else:
        host = ".".join(reversed(domain.split(".")))
    return f"{start}{user}@{host}{port}{path}" if user else f"{start}{host}{port}{path}"


class _CountingStream(RawIOBase):
    """Stream that counts the bytes read."""

    def __init__(self, stream: BufferedIOBase, progress: Callable[[int], None]) -> None:
        self._stream = stream
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._stream.readinto(buffer)
        self._progress(size)
        return size


def _rows(stream: Any, *, one_wiki: bool) -> Iterator[DumpLink | MalformedLine]:
    columns: list[str] | None = None
    sql: SqlDump | None = None
    for number, line in _lines(stream):
        if line is None:
            yield MalformedLine(number, f"it is longer than {LINE_LIMIT_BYTES:,} bytes")
            continue
        if not line.strip():
            continue
        try:
            if line.startswith("{"):
                yield from _json_rows(line)
                continue
            if sql is None and columns is None and line.startswith(BEGINNINGS):
                sql = SqlDump()
            if sql is not None:
                yield from map(_link_of, sql.rows(line))
                continue
            cells = line.split("\t")
            if columns is None:
                columns, is_head = _columns(cells, one_wiki=one_wiki)
                if is_head:
                    continue
            if len(cells) != len(columns):
                yield MalformedLine(number, f"it has {len(cells)} columns, not {len(columns)}")
                continue
            values = dict(zip(columns, cells, strict=True))
            for name in ("index", "path", *(("url",) if len(columns) == 2 else ())):
                if name in values:
                    text = values[name]
                    values[name] = "" if text in ("NULL", "\\N") else unescape_sql(text)
            yield _row_of(values)
        except ValueError as error:
            yield MalformedLine(number, str(error))


def _lines(stream: Any) -> Iterator[tuple[int, str | None]]:
    number = 0
    while line := stream.readline(LINE_LIMIT_BYTES):
        number += 1
        if len(line) >= LINE_LIMIT_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(LINE_LIMIT_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield number, None
            continue
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        # Bytes that are not UTF-8 stay unchanged, and result in a URL that cannot be fetched.
        yield number, text.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def _columns(cells: list[str], *, one_wiki: bool) -> tuple[list[str], bool]:
    """Return the columns, and True when the line is a header that names them; else InputError."""
    named = [_NAMES.get(cell.strip().lower(), "") for cell in cells]
    if "page" in named and ("url" in named or "index" in named):
        return named, True
    full = ["wiki", "page", "title", "namespace", "url"]
    known = {5: full, 4: full[1:], 2: ["page", "url"], 3: ["page", "index", "path"]}
    columns = known.get(len(cells))
    if columns is None or (columns is full) == one_wiki:
        has = "page id, title, namespace, URL" if one_wiki else "wiki, page id, title, namespace, URL"
        raise InputError(
            f"The first line has {len(cells)} columns: expected are {has}, separated by tabs; or a first line "
            "that names them; or JSON lines. `weboid links import --help` shows the forms."
        )
    return columns, False


def _link_of(row: dict[str, str]) -> DumpLink:
    values = {_NAMES.get(name, ""): value for name, value in row.items()}
    if "page" not in values or not ("url" in values or "index" in values):
        raise ValueError("its table is not externallinks: el_from, or el_to and its parts, are missing")
    return _row_of(values)


def _row_of(values: dict[str, str]) -> DumpLink:
    url = url_of_index(values["index"], values.get("path", "")) if "index" in values else values["url"]
    return DumpLink(
        values.get("wiki", "").strip(),
        _number(values["page"]),
        values.get("title", ""),
        _number(values.get("namespace") or "0"),
        url,
    )


def _json_rows(line: str) -> Iterator[DumpLink]:
    try:
        facts = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    values = {_NAMES.get(str(key).lower(), ""): value for key, value in facts.items()}
    urls = facts.get("urls", [values.get("url")])
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise ValueError('"url" must be a string, or "urls" a list of strings')
    wiki, title = values.get("wiki", ""), values.get("title", "")
    if not isinstance(wiki, str) or not isinstance(title, str):
        raise ValueError('"wiki" and "title" must be strings')  # noqa: TRY004
    page_id, namespace = _number(values.get("page")), _number(values.get("namespace") or 0)
    for url in urls:
        yield DumpLink(wiki.strip(), page_id, title, namespace, url)


def _number(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= 18:
        return int(value)  # nearly all
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise ValueError(f"{text[:40]!r} is not the number of a page or namespace")
    return int(text)


BATCH = 500  # pages of one transaction
_ROWS = 5_000  # rows spooled at once

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

    def add_page(self, links: Sequence[ClassifiedLink]) -> None:
        """Count a page with these links."""
        self.pages += 1
        self.links += len(links)
        self.sorts.update(link.sort for link in links)


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
                raise InputError("it names no wiki: set it with --wiki NAME")
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
        return int(self._disk.execute("SELECT count(*) FROM (SELECT DISTINCT wiki, page FROM row)").fetchone()[0])

    def of_wiki(self, place: int) -> Iterator[_SpooledPage]:
        """Yield the pages of the wiki with that index in `names`, by their ids."""
        self._flush()
        cursor = self._disk.execute("SELECT * FROM row WHERE wiki = ? ORDER BY page, rowid", (place,))
        for (wiki, page), rows in groupby(cursor, key=lambda row: (row[0], row[1])):
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


@dataclass(eq=False)
class LinkImporter:
    """Writer of spooled pages. For one import; not thread-safe."""

    store: RegistryStore
    _: KW_ONLY
    day: int
    digest: bytes = b""  # of the import, which cannot be resumed without one
    rules: RuleBook = field(default_factory=RuleBook)

    def run(
        self, spool: PageSpool, *, restart: bool = False, progress: Callable[[int], None] = lambda _: None
    ) -> ImportSummary:
        """Write all pages, from the first one with `restart`; `progress` gets the number of pages after each batch.

        InputError for an unknown farm: nothing was written. After a TransientError the next run resumes.
        """
        with self.store.writing() as connection:
            ids = [ensure_wiki(connection, name, day=self.day).id for name in spool.names]
            if restart:
                FORGET.run(connection, {"of": self.digest})
            rows = HOW_FAR.rows(connection, {"of": self.digest}) if self.digest else []
        last, before = rows[0] if rows else (0, 0)
        done = ImportSummary(resumed=before)
        # In the order of their numbers here: the names' order is that of the file.
        order = sorted(range(len(ids)), key=ids.__getitem__)
        pages = (
            page for place in order for page in spool.of_wiki(place) if number_of(ids[place], page.name.page_id) > last
        )
        progress(before)
        for wiki, group in groupby(pages, key=lambda page: page.wiki):
            for batch in batches(group, BATCH):
                with self.store.writing() as connection:
                    rules = self.rules.rules_of(connection, ids[wiki])
                    put = [PutPage(page.name, sorted_links(page.urls, rules)) for page in batch]
                    result = put_pages(connection, ids[wiki], put, day=self.day)
                    if self.digest:
                        last = number_of(ids[wiki], batch[-1].name.page_id)
                        count = done.resumed + done.pages + len(batch)
                        row = {"digest": self.digest, "page": last, "pages": count, "day": self.day}
                        upsert(connection, imports, ["digest"], [row])
                for each in put:
                    done.add_page(each.links)
                done.added += len(result.added)
                done.gone += len(result.gone)
                progress(len(batch))
        with self.store.writing() as connection:
            FORGET.run(connection, {"of": self.digest})
        return done

    def preview(self, spool: PageSpool, *, progress: Callable[[int], None] = lambda _: None) -> ImportSummary:
        """Compute the summary of `run` without writing."""
        done = ImportSummary()
        rules: dict[int, WikiRules] = {}
        with self.store.reading() as connection:
            for place, name in enumerate(spool.names):
                wiki = find_wiki(connection, name)
                rules[place] = WikiRules() if wiki is None else self.rules.rules_of(connection, wiki.id)
        for place in rules:
            for batch in batches(spool.of_wiki(place), BATCH):
                for page in batch:
                    done.add_page(sorted_links(page.urls, rules[place]))
                progress(len(batch))
        return done


def sorted_links(urls: Iterable[str], rules: WikiRules) -> tuple[ClassifiedLink, ...]:
    """Classify the links of a page by its wiki's rules."""
    return tuple(classify_link(url, rules) for url in urls)
