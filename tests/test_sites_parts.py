"""The test web's parts, each by itself: parsing, codings, wikitext, the sources of apt."""

import asyncio
import zlib
from collections import deque
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import brotlicffi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.apt_sources import AptSource, deb822_sources, one_line_sources, own_sources, read_sources
from scripts.bench import figures_of, section, with_section
from scripts.whitespace import mended
from tests.support.examples import examples
from tests.support.sites.articles import articles
from tests.support.sites.cache import SiteUnavailableError
from tests.support.sites.debian import mirror
from tests.support.sites.encodings import brotli_stored, deflated, gzipped, incompressible, raw_deflated
from tests.support.sites.http1 import Answer, LoggedRequest, PacedWriter, SiteConnection, SiteRequest, response

ROOT = Path(__file__).resolve().parents[1]


class _WireTransport(asyncio.Transport):
    """A transport that keeps what is written, and tells when enough answers have come."""

    def __init__(self, answers: int = 0) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.enough = asyncio.Event()
        self._answers = answers

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)
        if self.written.count(b"]") >= self._answers:
            self.enough.set()

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def _echo(request: SiteRequest) -> Answer:
    body = f"[{request.method} {request.path} {request.body.decode()}]"
    if request.path.startswith("/later"):

        async def later(out: PacedWriter) -> None:
            await asyncio.sleep(0)
            await out.reply(response(body=body))

        return later
    return response(body=body)


async def _bodies(pieces: list[bytes], count: int) -> list[bytes]:
    """Feed the pieces to a connection and return what it answers, once `count` bodies have come."""
    wire = _WireTransport(count)
    connection = SiteConnection("http", _echo, deque[LoggedRequest]())
    connection.connection_made(wire)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    await wire.enough.wait()
    return [part.partition(b"]")[0] for part in wire.written.split(b"[")[1:]]


_REQUESTS = st.lists(st.tuples(st.sampled_from(["/now", "/later"]), st.text("ab", max_size=9)), min_size=1, max_size=6)


@settings(max_examples=examples(60))
@given(wanted=_REQUESTS, cuts=st.lists(st.integers(0, 600), max_size=8))
def test_requests_are_answered_in_order_however_they_are_cut(wanted: list[tuple[str, str]], cuts: list[int]) -> None:
    """Pipelined requests, quick and slow mixed, split anywhere, get their answers in order."""
    whole = b"".join(
        f"POST {path}/{number} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        for number, (path, body) in enumerate(wanted)
    )
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:stop] for start, stop in pairwise(edges)]

    answered = asyncio.run(_bodies(pieces, len(wanted)))

    assert answered == [f"POST {path}/{number} {body}".encode() for number, (path, body) in enumerate(wanted)]


@pytest.mark.parametrize("head", [b"nonsense\r\n\r\n", b"GET /\r\n\r\n", b"x" * 70_000, b"\r\n\r\n"])
async def test_what_is_no_request_ends_the_connection(head: bytes) -> None:
    """Noise gets no answer and no second chance."""
    wire = _WireTransport()
    connection = SiteConnection("http", _echo, deque[LoggedRequest]())
    connection.connection_made(wire)
    connection.data_received(head)

    assert wire.closed
    assert wire.written == b""


@given(st.binary(max_size=3_000))
def test_the_codings_decode_to_what_went_in(data: bytes) -> None:
    """gzip, deflate as zlib, and deflate bare."""
    assert zlib.decompress(gzipped(data), wbits=31) == data
    assert zlib.decompress(deflated(data)) == data
    assert zlib.decompress(raw_deflated(data), wbits=-15) == data


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_stored_brotli_is_brotli(size: int) -> None:
    """A real decoder reads the hand-made stream."""
    data = b"".join(incompressible(size))

    assert brotlicffi.decompress(brotli_stored(data)) == data


@given(st.integers(0, 200_000))
def test_incompressible_bytes_have_the_length_that_was_asked_for(size: int) -> None:
    """To the byte, in blocks of at most 64 KiB."""
    blocks = list(incompressible(size))

    assert sum(map(len, blocks)) == size
    assert all(0 < len(block) <= 65_536 for block in blocks)


def test_an_article_keeps_headings_paragraphs_and_links(tmp_path: Path) -> None:
    """HTML becomes wikitext: what would be markup there is taken out."""
    shelf = tmp_path / "handbook"
    shelf.mkdir()
    (shelf / "one.html").write_text(
        "<html><body><h1>1.2. A [[Title]]</h1><p>First <b>words</b> {{x}}.</p>"
        '<h2>1.2.1. Part</h2><p>See <a href="https://a.example/b">the | page</a>.</p>'
        "<pre>code</pre><p>Last.</p><p>End.</p></body></html>"
    )
    (article,) = [each for each in articles(shelf) if each.title.startswith("A Title")]

    assert "[https://a.example/b the page]" in article.text
    assert "== Part ==" in article.text
    assert "{{x}}" not in article.text
    assert "title=the page" in article.text


ONE_LINE = """\
# deb http://ignored.example/ trixie main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian trixie main contrib
deb http://a.example/debian/ trixie-updates main # with a remark
deb-src http://a.example/debian trixie main
deb http://third.example/ stable main
"""
DEB822 = """\
Types: deb deb-src
# a remark in between
URIs: http://a.example/debian
Suites: trixie
 trixie-updates
Components: main
Signed-By: /usr/share/keyrings/a.gpg

Enabled: no
Types: deb
URIs: http://off.example/
Suites: trixie
Components: main

Types: deb
URIs: http://s.example/security/
Suites: trixie-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
"""


def test_apts_one_line_sources_are_read() -> None:
    """Remarks and sources of source code are passed over (sources.list(5))."""
    key = "/usr/share/keyrings/a.gpg"

    assert list(one_line_sources(ONE_LINE)) == [
        AptSource("http://a.example/debian", "trixie", ("main", "contrib"), key),
        AptSource("http://a.example/debian/", "trixie-updates", ("main",)),
        AptSource("http://third.example/", "stable", ("main",)),
    ]


def test_apts_stanzas_are_read() -> None:
    """Lists fold over lines, stanzas can be off, and an embedded key is no file."""
    key = "/usr/share/keyrings/a.gpg"

    assert list(deb822_sources(DEB822)) == [
        AptSource("http://a.example/debian", "trixie", ("main",), key),
        AptSource("http://a.example/debian", "trixie-updates", ("main",), key),
        AptSource("http://s.example/security/", "trixie-security", ("main",)),
    ]


def test_only_the_distributions_own_sources_go_along(tmp_path: Path) -> None:
    """Release, updates and security suites, each once; other subscriptions stay."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(ONE_LINE)
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    own = own_sources(read_sources(tmp_path), "trixie")

    assert [source.suite for source in own].count("trixie-security") == 1
    assert not [source for source in own if "third" in source.uri or "off" in source.uri]
    assert all(str(source).startswith("deb ") for source in own)


def test_other_releases_are_taken_from_the_machines_own_mirror(tmp_path: Path) -> None:
    """Another distribution, and a Debian whose sources name no archive of its release, take debootstrap's default."""
    etc = tmp_path / "etc"
    folder = etc / "apt" / "sources.list.d"
    folder.mkdir(parents=True)
    (folder / "debian.sources").write_text(DEB822)
    facts = etc / "os-release"

    facts.write_text("ID=debian\nVERSION_CODENAME=trixie\n")
    assert mirror(etc) == "http://a.example/debian"
    for other in ('ID=debian\nVERSION_CODENAME="forky"\n', "ID=ubuntu\nVERSION_CODENAME=trixie\n"):
        facts.write_text(other)
        with pytest.raises(SiteUnavailableError, match="install debootstrap"):
            mirror(etc)
    script = tmp_path / "usr/sbin/debootstrap"
    script.parent.mkdir(parents=True)
    script.write_text('VERSION=1\nDEF_MIRROR="http://public.example/debian"\n')
    assert mirror(etc) == "http://public.example/debian"


@given(st.text(" \ta\n", max_size=40))
def test_mending_whitespace_is_done_once(text: str) -> None:
    """A second pass finds nothing, and no line keeps a blank at its end."""
    once = mended(text)

    assert mended(once) == once
    assert not any(line != line.rstrip(" \t") for line in once.split("\n"))
    assert once == "" or (once.endswith("\n") and not once.endswith("\n\n"))


def test_a_benchmarks_last_line_holds_its_figures() -> None:
    """Anything before it is for people; anything else is no result."""
    assert figures_of('fast!\n{"bench": "x", "figures": {"a": 1}}\n') == {"a": 1.0}
    assert figures_of("fast!\n") is None
    assert figures_of("") is None
    assert figures_of('{"bench": "x"}') is None


def test_the_benchmarks_table_has_the_newest_run_first() -> None:
    """Every run stays on the page."""
    now = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)
    first = section({"x": {"a": 1.5}, "y": None}, now=now, options="--quick")
    page = with_section("", first)
    second = section({"x": {"a": 2.5}}, now=now, options="")
    page = with_section(page, second)

    assert page.index("2.5") < page.index("1.5") < page.index("failed")
    assert page.count("# Benchmarks") == 1
