"""What is fuzzed besides the proxy: whatever a server, an archive or a wiki says, and we read."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import cache

from core.errors import InputError, WeboidError
from core.http_dates import parse_http_date, parse_mail_date, parse_retry_after, parse_web_date
from core.pages import parse_pageinfo
from core.quality import parse_manifest
from core.said_dates import iso_date
from crawler.policy.directives import forbidden
from crawler.policy.robots import parse_robots, robots_from
from crawler.sitemaps import parse_sitemap, sitemap_lines
from links.archives.formats import (
    FormatError,
    links_of,
    read_availability,
    read_cdx,
    read_json_timemap,
    read_link_timemap,
    stamp_of,
)
from wiki.api.changes import change_of
from wiki.api.http import Reply
from wiki.api.refusals import check_answer, reading, retry_after
from wiki.wikitext.escaping import as_plain, as_value, is_url_safe, url_value
from wiki.wikitext.permission import may_edit, objection
from wiki.wikitext.reading import read_citations
from wiki.wikitext.rules import Rules, rules_for

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMIT = timedelta(days=1)


def dates(data: bytes) -> None:
    """Whatever a header or a page says of time is a moment, a wait within its limit, or nothing."""
    text = data.decode("utf-8", "replace")
    for read in (parse_http_date, parse_web_date):
        moment = read(text)
        assert moment is None or moment.tzinfo is UTC
    parse_mail_date(text)
    wait = parse_retry_after(text, now=NOW, limit=LIMIT)
    assert wait is None or timedelta(0) <= wait <= LIMIT
    assert stamp_of(text) == "" or len(stamp_of(text)) == 14
    iso_date(text)
    forbidden([text], [("robots", text)], agent="weboid", now=NOW)


def robots(data: bytes) -> None:
    """A robots.txt is read, and what was read can be kept."""
    said = parse_robots(data, "weboid")
    for url in ("https://a.test/", "https://a.test/a%20b?c=*$"):
        assert said.allows(url) in (True, False)
    kept = robots_from(json.loads(json.dumps(said.to_facts())))
    assert kept.allows("https://a.test/a") == said.allows("https://a.test/a")
    sitemap_lines(data)


def sitemap(data: bytes) -> None:
    """A sitemap has pages, sitemaps, or a problem."""
    for page in parse_sitemap(data).pages:
        assert page.lastmod is None or page.lastmod.tzinfo is UTC


def manifest(data: bytes) -> None:
    """A manifest of another tool is refused, or read again as it was."""
    with suppress(InputError):
        parse_manifest(data)
    with suppress(InputError):
        written = parse_pageinfo(data).to_json()
        assert parse_pageinfo(written).to_json() == written


def archive_answer(data: bytes) -> None:
    """What an archive says is refused, or each copy has a moment."""
    text = data.decode("utf-8", "replace")
    list(links_of(text))
    for read in (read_link_timemap, read_json_timemap, read_availability, read_cdx):
        with suppress(FormatError):
            read(text)
    for entry in _entries(text):
        assert len(entry) == 14


def _entries(text: str) -> list[str]:
    with suppress(FormatError):
        return [entry.timestamp for entry in read_cdx(text)]
    return []


def wikitext(data: bytes) -> None:
    """Citations lie within the page, and what is written into one means nothing but itself."""
    text = data.decode("utf-8", "replace")
    for citation in read_citations(text, _rules(), today=date(2026, 11, 21)):
        assert 0 <= citation.span.start < citation.span.end <= len(text)
    may_edit(text, "Weboid")
    objection(text)
    written = url_value(f"http://x.test/{text}")
    assert url_value(written) == written
    assert is_url_safe(written) or not written.isascii()
    for shown in (as_value(text), as_plain(text)):
        assert "|" not in shown
        assert "\n" not in shown


def api_answer(data: bytes) -> None:
    """A wiki's answer is an error of the one tree, or rows that are changes or are refused."""
    text = data.decode("latin-1")[:200]
    reply = Reply(200, "https://w.test/api.php", {"retry-after": text, "date": text}, data)
    assert 0.0 <= retry_after(reply) <= LIMIT.total_seconds()
    told = reading(reply)
    if told is None:
        return
    with suppress(WeboidError):
        check_answer(told, reply, host="w.test")
        change_of(told)


@cache
def _rules() -> Rules:
    return rules_for("en")


READERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (dates, robots, sitemap, manifest, archive_answer, wikitext, api_answer)
}
