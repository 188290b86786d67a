"""Sitemaps: every form of them, whatever is wrong, and never more than the limits."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.rules.sitemap_rule import BYTES_LIMIT, URLS_LIMIT, parse_sitemap, sitemap_lines

NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
PATHS = st.lists(st.text("abc0", min_size=1, max_size=5), max_size=20)


def urlset(*paths: str, end: str = "</urlset>") -> bytes:
    """Return a sitemap of pages of a.org."""
    entries = "".join(f"<url><loc>https://a.org/{path}</loc></url>" for path in paths)
    return f'<?xml version="1.0" encoding="UTF-8"?><urlset {NS}>{entries}{end}'.encode()


def pages(body: bytes) -> list[str]:
    """Return the paths of the pages that the sitemap names."""
    return [page.removeprefix("https://a.org/") for page in parse_sitemap(body).pages]


@given(PATHS, st.sampled_from(["plain", "gzip", "text", "text-utf-16"]))
def test_each_form_gives_back_what_it_was_made_from(paths: list[str], form: str) -> None:
    """In the file's order."""
    text = "".join(f"https://a.org/{path}\r\n" for path in paths)
    body = {
        "plain": urlset(*paths),
        "gzip": gzip.compress(urlset(*paths)),
        "text": b"\xef\xbb\xbf" + text.encode(),
        "text-utf-16": text.encode("utf-16"),
    }[form]

    assert pages(body) == paths


@pytest.mark.parametrize(
    "body",
    [
        f'<urlset {NS} xmlns:i="i"><url><loc> https://a.org/p </loc>'
        "<i:image><i:loc>https://a.org/i.png</i:loc></i:image></url></urlset>",
        f'<urlset {NS} xmlns:i="i"><url><i:loc>https://a.org/i</i:loc><loc>https://a.org/p</loc></url></urlset>',
        '<s:urlset xmlns:s="q"><s:url><s:loc>https://a.org/p</s:loc></s:url></s:urlset>',
        "<urlset><url><loc><![CDATA[https://a.org/p]]></loc></url></urlset>",
        "<!DOCTYPE urlset><urlset><url><loc>https://a.org/p</loc></url></urlset>",
        "<rss><channel><link>https://a.org/</link><item><link>https://a.org/p</link></item></channel></rss>",
        '<feed><link href="https://a.org/"/><entry><link rel="edit" href="https://a.org/e"/>'
        '<link href="https://a.org/p"/></entry></feed>',
        '<rdf:RDF xmlns:rdf="r"><item><link>https://a.org/p</link></item></rdf:RDF>',
        "\n\n<urlset><url><loc>https://a.org/p</loc></url><url><loc>/relative</loc></url></urlset>",
    ],
)
def test_vocabularies_and_feeds_give_their_pages_and_nothing_else(body: str) -> None:
    """Pictures, alternates and the feed's own address are no pages of the sitemap."""
    assert pages(body.encode()) == ["p"]


def test_an_index_gives_its_sitemaps() -> None:
    """… and no pages."""
    sitemap = parse_sitemap(
        f"<sitemapindex {NS}><sitemap><loc>https://a.org/1.xml.gz</loc></sitemap>"
        "<sitemap><loc>https://a.org/2.xml</loc></sitemap></sitemapindex>".encode()
    )

    assert sitemap.sitemaps == ["https://a.org/1.xml.gz", "https://a.org/2.xml"]
    assert (sitemap.pages, sitemap.problem) == ([], "")


@given(PATHS.filter(bool), st.data())
def test_what_came_before_a_fault_counts(paths: list[str], data: st.DataObject) -> None:
    """Cut anywhere, plain or gzipped: a beginning of the pages, and a problem said."""
    whole = urlset(*paths)
    packed = data.draw(st.booleans())
    body = gzip.compress(whole) if packed else whole
    cut = data.draw(st.integers(1, len(body) - 1))

    sitemap = parse_sitemap(body[:cut])

    got = [page.removeprefix("https://a.org/") for page in sitemap.pages]
    assert got == paths[: len(got)]
    assert sitemap.problem


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            '<!DOCTYPE x [<!ENTITY a "https://a.org/"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>',
            "entities",
        ),
        ('<!DOCTYPE x [<!ENTITY % a SYSTEM "file:///etc/passwd">%a;]><urlset/>', "entities"),
        ("<html><body>Not found</body></html>", "not a sitemap"),
        ("%PDF-1.7 \x00\x01", "not a sitemap"),
        ("", "not a sitemap"),
        ("<urlset>" + "<a>" * 1000, "nested elements"),
        (urlset("a", end="<url><loc>https://a.org/b</locc>").decode(), "mismatched"),
        ("just words\n" * 200, "not a sitemap"),
    ],
)
def test_what_is_hostile_or_no_sitemap_is_said(body: str, problem: str) -> None:
    """Nothing that the file declares is expanded, nothing elsewhere is read."""
    sitemap = parse_sitemap(body.encode("latin-1"))

    assert problem in sitemap.problem
    assert len(sitemap.pages) <= 1


@pytest.mark.slow
def test_a_bomb_is_not_unpacked() -> None:
    """50 MB of spaces in 50 kB; and one that would be longer than any sitemap."""
    bomb = gzip.compress(b"<urlset>" + b" " * (BYTES_LIMIT - 100), 9)
    noise = zlib.compressobj(1, wbits=31)
    long = b"".join(noise.compress(bytes(range(256)) * 4000) for _ in range(60)) + noise.flush()

    assert "times its size" in parse_sitemap(bomb).problem
    assert parse_sitemap(b"<urlset>" + b" " * (BYTES_LIMIT + 1)).problem
    assert parse_sitemap(long).problem


@pytest.mark.slow
def test_a_file_gives_no_more_than_the_protocol_allows() -> None:
    """50,000 URLs; the rest is left, and said."""
    sitemap = parse_sitemap(urlset(*map(str, range(URLS_LIMIT + 10))))

    assert len(sitemap.pages) == URLS_LIMIT
    assert "more than 50000" in sitemap.problem


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(body: bytes) -> None:
    """Also behind a sitemap's beginning, and gzipped."""
    for text in (body, b"<urlset><url><loc>" + body, gzip.compress(body), b"\x1f\x8b" + body):
        parse_sitemap(text)
        sitemap_lines(text)


def test_robots_name_sitemaps() -> None:
    """Wherever the line stands, however it is spelled; only whole URLs, each once."""
    body = (
        b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /\r\nSITEMAP :  https://a.org/s.xml # mine\r"
        b"sitemap:https://b.org/t.xml\nSitemap: /relative.xml\nSitemap: https://a.org/s.xml\n"
    )

    assert sitemap_lines(body) == ("https://a.org/s.xml", "https://b.org/t.xml")
