"""Links of whole wikis, brought in."""

import gzip
import io
import ipaddress
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from core.errors import InputError
from links.registry import link_import
from links.registry.database import RegistryStore
from links.registry.link_import import (
    LINE_LIMIT_BYTES,
    DumpLink,
    LinkImporter,
    MalformedLine,
    PageSpool,
    SqlDump,
    read_links,
    url_of_index,
)
from links.registry.lookups import page_facts
from links.registry.schema import imports, refs
from links.registry.urls import find_urls
from links.registry.wikis import Wiki, all_wikis, change_wiki, known_wiki, parse_wiki
from links.rules.link_class import LinkClass
from links.url_parts import domain_index
from tests.links.registry.conftest import Putting


def _read(data: bytes, *, one_wiki: bool = False) -> list[DumpLink | MalformedLine]:
    return list(read_links(io.BytesIO(data), one_wiki=one_wiki))


FULL = DumpLink("dewiki@WMF", 7, "Foo bar", 4, "https://a.net/x")


@pytest.mark.parametrize(
    ("data", "one_wiki", "row"),
    [
        ("dewiki@WMF\t7\tFoo bar\t4\thttps://a.net/x\n", False, FULL),
        ("7\tFoo bar\t4\thttps://a.net/x\r\n", True, FULL._replace(wiki="")),
        ("7\thttps://a.net/x", True, DumpLink("", 7, "", 0, "https://a.net/x")),
        ("7\thttps://net.a.\t/x\n", True, DumpLink("", 7, "", 0, "https://a.net/x")),
        ("7\thttps://net.a.\tNULL\n", True, DumpLink("", 7, "", 0, "https://a.net")),
        ("7\thttps://a.net/\\\\\\t\n", True, DumpLink("", 7, "", 0, "https://a.net/\\\t")),
        (
            "el_id\tel_to_path\tel_to_domain_index\tel_from\n1\t/x\thttps://net.a.\t7\n",
            True,
            DumpLink("", 7, "", 0, "https://a.net/x"),
        ),
        ("\ufeffurl\tpage_id\ttitle\twiki\tnamespace\nhttps://a.net/x\t7\tFoo bar\tdewiki@WMF\t4\n\n", False, FULL),
        (
            json.dumps(
                {"wiki": "dewiki@WMF", "page_id": 7, "title": "Foo bar", "namespace": 4, "url": "https://a.net/x"}
            ),
            False,
            FULL,
        ),
        ('{"page_id": 7, "urls": ["https://a.net/x"]}\n', True, DumpLink("", 7, "", 0, "https://a.net/x")),
    ],
    ids=range(10),
)
def test_each_form_is_read(data: str, one_wiki: bool, row: DumpLink) -> None:
    """With a line of names or without, plain or compressed."""
    raw = data.encode()

    assert _read(raw, one_wiki=one_wiki) == [row]
    assert _read(gzip.compress(raw), one_wiki=one_wiki) == [row]


def test_a_bad_line_is_named_and_the_rest_is_read() -> None:
    """By its number, with a reason."""
    lines = ["1\tA\t0\thttps://a.net/", "x\tB\t0\thttps://b.net/", "3\tC", "4\tD\t0\thttps://d.net/"]
    rows = _read("\n".join(lines).encode(), one_wiki=True)

    assert [row.page_id for row in rows if isinstance(row, DumpLink)] == [1, 4]
    assert [(row.number, row.why) for row in rows if isinstance(row, MalformedLine)] == [
        (2, "'x' is not the number of a page or namespace"),
        (3, "it has 2 columns, not 4"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        '{"page_id": 7, "url": 8}',
        '{"page_id": true, "url": "https://a.net/"}',
        '{"page_id": 7, "url": "https://a.net/", "wiki": 5}',
        '{"page_id": 7, "urls": "https://a.net/"}',
        '{"page_id": 7, "urls": [null]}',
        '{"page_id": 1e999, "url": "https://a.net/"}',
        '{"a":' * 100_000,
    ],
    ids=range(9),
)
def test_json_that_says_no_link_is_a_bad_line(line: str) -> None:
    """Whatever it is instead."""
    assert [type(row) for row in _read(line.encode())] == [MalformedLine]


def test_a_line_without_end_is_passed_over() -> None:
    """It fills no memory, and what follows is read."""
    data = b'{"page_id": 1, "url": "' + b"x" * LINE_LIMIT_BYTES + b'"}\n'
    rows = _read(data + b'{"page_id": 2, "url": "https://a.net/"}\n')

    assert [type(row) for row in rows] == [MalformedLine, DumpLink]


def test_a_damaged_file_is_told_of() -> None:
    """And what was read before it counts."""
    data = gzip.compress(b"1\thttps://a.net/\n" * 5_000)

    with pytest.raises(InputError, match="damaged"):
        _read(data[: len(data) // 2], one_wiki=True)


@pytest.mark.parametrize("data", [b"a\tb\tc\td\te\tf\n", b"just words\n", b"1\tA\t0\thttps://a.net/\n"])
def test_a_file_of_another_form_is_refused(data: bytes) -> None:
    """With the forms that are known."""
    with pytest.raises(InputError, match="columns"):
        _read(data)


def test_bytes_that_are_no_text_make_no_url_and_no_error() -> None:
    """A dump may hold anything."""
    assert _read(b"1\thttps://a.net/\xff\n", one_wiki=True) == [DumpLink("", 1, "", 0, "https://a.net/\udcff")]


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z][a-z0-9]{0,8}){1,3}", fullmatch=True)
ADDRESSES = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(
    lambda address: f"[{ipaddress.IPv6Address(int(address))}]"
)


@given(NAMES | ADDRESSES, st.sampled_from(["", ":8080"]), st.sampled_from(["/", "/a?b=c#d"]))
def test_an_index_is_its_url(host: str, port: str, path: str) -> None:
    """MediaWiki's index of a URL leads back to it."""
    assert url_of_index(f"https://{domain_index(host)}{port}", path) == f"https://{host}{port}{path}"


DUMP = """-- MariaDB dump 10.19
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `externallinks`;
CREATE TABLE `externallinks` (
  `el_id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `el_from` int(10) unsigned NOT NULL DEFAULT 0,
  `el_to_domain_index` varbinary(255) NOT NULL DEFAULT '',
  `el_to_path` blob DEFAULT NULL,
  PRIMARY KEY (`el_id`),
  KEY `el_from` (`el_from`)
) ENGINE=InnoDB;
INSERT INTO `externallinks` VALUES (1,7,'https://net.a.','/it\\'s,(x);'),(2,7,'http://org.b.www.:81',NULL);
INSERT INTO `externallinks` VALUES (3,9,'https://net.c.','/'),(4,9,'https://net.d.','/
-- Dump completed
"""


def test_a_published_dump_is_read() -> None:
    """Quotes and brackets within values are theirs; what is cut off is named."""
    rows = _read(gzip.compress(DUMP.encode()), one_wiki=True)

    assert rows == [
        DumpLink("", 7, "", 0, "https://a.net/it's,(x);"),
        DumpLink("", 7, "", 0, "http://www.b.org:81"),
        DumpLink("", 9, "", 0, "https://c.net/"),
        MalformedLine(13, "it cannot be read from character 85 on"),
    ]


def test_a_dump_of_another_table_is_told() -> None:
    """Its rows are no links."""
    rows = _read(b"INSERT INTO `page` (`page_id`, `page_title`) VALUES (1,'A');\n", one_wiki=True)

    assert [type(row) for row in rows] == [MalformedLine]
    assert "externallinks" in str(rows[0])


@given(st.lists(st.tuples(st.integers(1, 99), st.text()), min_size=1, max_size=5))
def test_a_dumps_texts_are_read_as_they_were_written(rows: list[tuple[int, str]]) -> None:
    """Whatever they hold, escaped as MySQL does."""
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"}
    values = ",".join(f"({number},'{''.join(escapes.get(char, char) for char in text)}')" for number, text in rows)
    dump = SqlDump()
    dump.columns = ["el_from", "el_to"]

    records = list(dump.rows(f"INSERT INTO `externallinks` VALUES {values};"))
    assert [(int(row["el_from"]), row["el_to"]) for row in records] == rows


WIKI = parse_wiki("dewiki")
DIGEST = b"d" * 16
BATCH = 20  # pages of one transaction


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_import, "BATCH", BATCH)


@contextmanager
def _spool(*rows: tuple[str, int, str, str]) -> Iterator[PageSpool]:
    """Yield a spool with rows: wiki, page id, title, URL."""
    with closing(PageSpool()) as spool:
        for wiki, page_id, title, url in rows:
            spool.add(DumpLink(wiki, page_id, title, 0, url), WIKI)
        yield spool


def _many(pages: int) -> list[tuple[str, int, str, str]]:
    return [("", number % pages + 1, "T", f"https://a.net/{number}") for number in range(3 * pages)]


def _links(store: RegistryStore) -> int:
    with store.reading() as rows:
        return int(rows.execute(select(func.count()).select_from(refs)).scalar_one())


def test_a_pages_links_may_stand_anywhere_in_a_file(store: RegistryStore) -> None:
    """They are gathered, and wikis kept apart."""
    rows = (
        ("", 7, "Foo", "https://a.net/1"),
        ("enwiki", 7, "Bar", "https://a.net/1"),
        ("", 3, "Baz", "https://a.net/2"),
        ("dewiki@WMF", 7, "Foo", "https://b.net/"),
        ("", 7, "Foo", "https://a.net/1"),
        ("", 7, "Foo", "http://http://bad/"),
        ("", 7, "Foo", "mailto:me@a.net"),
    )
    with _spool(*rows) as spool:
        done = LinkImporter(store, day=5).run(spool)

    assert (done.pages, done.links, done.added) == (3, 6, 4)
    assert done.sorts == {LinkClass.WATCHED: 4, LinkClass.INVALID: 1, LinkClass.PASSED_OVER: 1}
    with store.snapshot() as reader:
        wikis = {str(wiki.name): wiki.id for wiki in all_wikis(reader)}
        facts = page_facts(reader, wikis["dewiki@WMF"], [7], day=5)[7]
        assert {link.facts.row.url for link in facts.links} == {"https://a.net/1", "https://b.net/"}
        assert page_facts(reader, wikis["enwiki@WMF"], [7], day=5)[7].page.title == "Bar"


def test_what_a_file_says_of_a_page_is_all_it_has(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """Pages that it does not name stay as they are; a dump without titles forgets none."""
    put(7, "https://old.net/", day=1, title="Foo")
    put(8, "https://old.net/", day=1)
    with _spool(("", 7, "", "https://new.net/")) as spool:
        done = LinkImporter(store, day=5).run(spool)

    assert (done.added, done.gone) == (1, 1)
    with store.snapshot() as reader:
        facts = page_facts(reader, wiki.id, [7, 8], day=5)
    assert [link.facts.row.url for link in facts[7].links] == ["https://new.net/"]
    assert facts[7].page.title == "Foo"
    assert [link.facts.row.url for link in facts[8].links] == ["https://old.net/"]


def test_an_interrupted_import_goes_on_where_it_stopped(store: RegistryStore) -> None:
    """No page is written twice, none is left out; then nothing is left to resume."""
    rows = _many(2 * BATCH + 10)
    seen: list[int] = []

    def stop(more: int) -> None:
        seen.append(more)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with _spool(*rows) as spool, pytest.raises(KeyboardInterrupt):
        LinkImporter(store, day=5, digest=DIGEST).run(spool, progress=stop)
    assert _links(store) == 3 * BATCH
    with _spool(*rows) as spool:
        done = LinkImporter(store, day=5, digest=DIGEST).run(spool)

    assert (done.resumed, done.pages) == (BATCH, BATCH + 10)
    assert _links(store) == len(rows)
    with store.reading() as connection:
        assert connection.execute(select(imports)).all() == []


def test_another_file_and_a_restart_begin_at_the_first_page(store: RegistryStore) -> None:
    """The progress of one file says nothing about another."""
    rows = _many(BATCH + 1)

    def stop(more: int) -> None:
        if more:
            raise KeyboardInterrupt

    with _spool(*rows) as spool, pytest.raises(KeyboardInterrupt):
        LinkImporter(store, day=5, digest=DIGEST).run(spool, progress=stop)
    with _spool(*rows) as spool:
        assert LinkImporter(store, day=5, digest=b"e" * 16).run(spool).resumed == 0
    with _spool(*rows) as spool:
        assert LinkImporter(store, day=5, digest=DIGEST).run(spool, restart=True).pages == BATCH + 1


def test_importing_twice_changes_nothing(store: RegistryStore) -> None:
    """The second time there is nothing new, and nothing gone."""
    rows = _many(20)
    with _spool(*rows) as spool:
        LinkImporter(store, day=5).run(spool)
    with _spool(*rows) as spool:
        again = LinkImporter(store, day=6).run(spool)

    assert (again.pages, again.added, again.gone) == (20, 0, 0)


def test_a_dry_run_writes_nothing(store: RegistryStore) -> None:
    """But says what would be."""
    with _spool(*_many(20), ("frwiki", 1, "A", "https://b.net/")) as spool:
        done = LinkImporter(store, day=5).preview(spool)

    assert (done.pages, done.links) == (21, 61)
    with store.reading() as rows:
        assert all_wikis(rows) == []


def test_a_wikis_own_rules_sort_its_links(store: RegistryStore, wiki: Wiki) -> None:
    """W50: its farm's own hosts are not kept; what link search leaves out is watched as all else (X05)."""
    with store.writing() as rows:
        change_wiki(rows, known_wiki(rows, WIKI), settings={"excluded_domains": ["spiegel.de"]})
    urls = ("https://en.wikipedia.org/wiki/X", "https://www.spiegel.de/x", "https://a.net/")
    with _spool(*(("", 7, "Foo", url) for url in urls)) as spool:
        done = LinkImporter(store, day=5).run(spool)

    assert done.sorts == {LinkClass.INTERNAL: 1, LinkClass.EXCLUDED: 1, LinkClass.WATCHED: 1}
    with store.snapshot() as reader:
        assert set(find_urls(reader, urls)) == {"https://www.spiegel.de/x", "https://a.net/"}


def test_a_row_that_names_no_wiki_is_refused() -> None:
    """Unless somebody says whose pages these are."""
    with closing(PageSpool()) as spool:
        with pytest.raises(InputError, match="--wiki"):
            spool.add(DumpLink("", 1, "A", 0, "https://a.net/"), None)
        with pytest.raises(InputError, match="number above 0"):
            spool.add(DumpLink("dewiki", 0, "A", 0, "https://a.net/"), None)
        assert spool.pages() == 0
