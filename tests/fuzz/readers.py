"""Fuzz targets besides the proxy: everything that servers, archives and wikis send and we read."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import cache

from core.errors import InputError, WeboidError
from core.page_manifest import parse_pageinfo
from core.playback_check import parse_manifest
from core.web_dates import iso_date, parse_http_date, parse_mail_date, parse_retry_after, parse_web_date
from crawler.policy.robots import forbidding_reason, parse_robots, robots_from_facts
from crawler.rules.sitemap_rule import parse_sitemap, sitemap_lines
from links.archives.archive_answers import (
    FormatError,
    parse_links,
    read_availability,
    read_cdx,
    read_json_timemap,
    read_link_timemap,
    timestamp_of,
)
from wiki.api.edit_request import edit_objection
from wiki.api.recent_changes import parse_change
from wiki.api.transport import ApiResponse, check_answer, parse_response, retry_after
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.repair_markup import escape_plain, escape_url, escape_value, is_url_safe
from wiki.wikitext.template_map import TemplateRules, rules_for

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMIT = timedelta(days=1)


def dates(data: bytes) -> None:
    """Assert that a date in a header or page is a moment in UTC, a wait within its limit, or nothing."""
    text = data.decode("utf-8", "replace")
    for read in (parse_http_date, parse_web_date):
        moment = read(text)
        assert moment is None or moment.tzinfo is UTC
    parse_mail_date(text)
    wait = parse_retry_after(text, now=NOW, limit=LIMIT)
    assert wait is None or timedelta(0) <= wait <= LIMIT
    assert timestamp_of(text) == "" or len(timestamp_of(text)) == 14
    iso_date(text)
    forbidding_reason([text], [("robots", text)], agent="weboid", now=NOW)


def robots(data: bytes) -> None:
    """Assert that a robots.txt is parsed, and that its rules survive storage as JSON."""
    rules = parse_robots(data, "weboid")
    for url in ("https://a.test/", "https://a.test/a%20b?c=*$"):
        rules.rule_for(url)
    restored_rules = robots_from_facts(json.loads(json.dumps(rules.to_facts())))
    assert restored_rules.rule_for("https://a.test/a") == rules.rule_for("https://a.test/a")
    sitemap_lines(data)


def sitemap(data: bytes) -> None:
    """Assert that a sitemap yields only HTTP and HTTPS URLs of pages and sitemaps."""
    parsed_sitemap = parse_sitemap(data)
    for url in (*parsed_sitemap.pages, *parsed_sitemap.sitemaps):
        assert url.startswith(("http://", "https://"))


def manifest(data: bytes) -> None:
    """Assert that a manifest of another tool is refused, or reads back as it was written."""
    with suppress(InputError):
        parse_manifest(data)
    with suppress(InputError):
        written = parse_pageinfo(data).to_json()
        assert parse_pageinfo(written).to_json() == written


def archive_answer(data: bytes) -> None:
    """Assert that an archive's answer is refused, or that its CDX entries have 14-digit timestamps."""
    text = data.decode("utf-8", "replace")
    list(parse_links(text))
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
    """Assert that citations lie within the page, and that escaped text has no effect as wikitext."""
    text = data.decode("utf-8", "replace")
    for citation in read_citations(text, _rules(), today=date(2026, 11, 21)):
        assert 0 <= citation.span.start < citation.span.end <= len(text)
    edit_objection(text, "Weboid")
    written = escape_url(f"http://x.test/{text}")
    assert escape_url(written) == written
    assert is_url_safe(written) or not written.isascii()
    for shown in (escape_value(text), escape_plain(text)):
        assert "|" not in shown
        assert "\n" not in shown


def api_answer(data: bytes) -> None:
    """Assert that a wiki's answer is a WeboidError, or rows that are changes or are refused."""
    text = data.decode("latin-1")[:200]
    reply = ApiResponse(200, "https://w.test/api.php", {"retry-after": text, "date": text}, data)
    assert 0.0 <= retry_after(reply.headers) <= LIMIT.total_seconds()
    document = parse_response(reply)
    if document is None:
        return
    with suppress(WeboidError):
        check_answer(document, reply, host="w.test")
        parse_change(document)


@cache
def _rules() -> TemplateRules:
    return rules_for("en")


READERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (dates, robots, sitemap, manifest, archive_answer, wikitext, api_answer)
}
