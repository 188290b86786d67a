"""Files of links, in the forms that wikis and people have them."""

import gzip
import io
import ipaddress
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from links.registry.dump_reader import LINE_LIMIT_BYTES, DumpLink, MalformedLine, SqlDump, read_links, url_of_index
from links.url_parts import domain_index


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
    found = _read("\n".join(lines).encode(), one_wiki=True)

    assert [row.page_id for row in found if isinstance(row, DumpLink)] == [1, 4]
    assert [(row.number, row.why) for row in found if isinstance(row, MalformedLine)] == [
        (2, "'x' is no number of a page or namespace"),
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
    found = _read(data + b'{"page_id": 2, "url": "https://a.net/"}\n')

    assert [type(row) for row in found] == [MalformedLine, DumpLink]


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
    """What MediaWiki keeps of a URL leads back to it."""
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
    found = _read(gzip.compress(DUMP.encode()), one_wiki=True)

    assert found == [
        DumpLink("", 7, "", 0, "https://a.net/it's,(x);"),
        DumpLink("", 7, "", 0, "http://www.b.org:81"),
        DumpLink("", 9, "", 0, "https://c.net/"),
        MalformedLine(13, "it cannot be read from its character 85 on"),
    ]


def test_a_dump_of_another_table_is_told() -> None:
    """Its rows are no links."""
    found = _read(b"INSERT INTO `page` (`page_id`, `page_title`) VALUES (1,'A');\n", one_wiki=True)

    assert [type(row) for row in found] == [MalformedLine]
    assert "externallinks" in str(found[0])


@given(st.lists(st.tuples(st.integers(1, 99), st.text()), min_size=1, max_size=5))
def test_a_dumps_texts_are_read_as_they_were_written(rows: list[tuple[int, str]]) -> None:
    """Whatever they hold, escaped as MySQL does."""
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"}
    told = ",".join(f"({number},'{''.join(escapes.get(char, char) for char in text)}')" for number, text in rows)
    dump = SqlDump()
    dump.columns = ["el_from", "el_to"]

    found = list(dump.rows(f"INSERT INTO `externallinks` VALUES {told};"))
    assert [(int(row["el_from"]), row["el_to"]) for row in found] == rows
