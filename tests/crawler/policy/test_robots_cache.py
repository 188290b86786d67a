"""robots.txt as sites really serve it: through a real proxy, from sockets that misbehave."""

import asyncio
import gzip
import socket
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import PolitenessSettings
from core.digests import sha256_digest
from crawler.capture.proxy_fetcher import FetchedFile
from crawler.frontier.base import Lane, NewItem
from crawler.policy import robots_cache
from crawler.policy.robots import ROBOTS_LIMIT_BYTES
from crawler.policy.robots_cache import ROBOTS_NOTE, parse_robots_record
from crawler.rules.visit_rule import RuleAction
from net.connect_errors import NO_SUCH_HOST
from tests.crawler.policy.conftest import SITE, PolicyHarness, PolicyHosts, item, requested_paths
from tests.support.proxy_fixtures import ScriptedOrigin, ok

pytestmark = pytest.mark.proxy
PRIVATE = b"User-agent: *\nDisallow: /private\n"
TO_ITSELF = "Location: /robots.txt\r\n"


def says(origin: ScriptedOrigin, body: bytes = PRIVATE, **about: str) -> None:
    """Let the origin's robots.txt say that."""
    origin.answers["/robots.txt"] = ok(body, mime="text/plain", **about)


async def test_what_is_disallowed_is_skipped_with_the_rule_as_the_reason(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """The reason is the line of robots.txt; what it does not name is visited."""
    says(origin)
    verdict = await obeying.before("/private/x")
    assert (verdict.action, verdict.reason) == (RuleAction.SKIP, "robots: Disallow: /private")
    assert (await obeying.before("/public")).action is RuleAction.VISIT


async def test_robots_txt_is_in_the_archive(obeying: PolicyHarness, origin: ScriptedOrigin, hosts: PolicyHosts) -> None:
    """The robots.txt that the crawl obeyed is in the WARC."""
    body = b"# only here\n" + PRIVATE
    says(origin, body)
    await obeying.before()
    query = "SELECT record_type FROM captures WHERE url = ? AND digest = ?"
    wanted = (f"{SITE}/robots.txt", sha256_digest(body))
    with closing(sqlite3.connect(hosts.proxy.layout.captures_db)) as index:
        assert index.execute(query, wanted).fetchall() == [("response",)]


async def test_it_is_asked_for_once_a_day_by_all_machines(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """One fetch serves every process for `robots_lifetime_s`; whoever asked says so (2.4)."""
    says(origin)
    assert (await obeying.before("/a")).was_asked
    assert not (await obeying.before("/b")).was_asked
    obeying.another_process()
    assert not (await obeying.before("/c")).was_asked
    obeying.clock.advance(hours=23)
    await obeying.before("/d")
    assert len(origin.requests) == 1
    obeying.clock.advance(hours=2)
    assert (await obeying.before("/e")).was_asked
    assert len(origin.requests) == 2
    obeying.set(robots_lifetime_s=9e9)
    obeying.clock.advance(hours=25)
    assert (await obeying.before("/f")).was_asked


async def test_one_fetch_at_a_time(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """Many items of one origin wait for one fetch."""
    says(origin)
    verdicts = await asyncio.gather(*(obeying.before(f"/private/{number}") for number in range(20)))
    assert {each.action for each in verdicts} == {RuleAction.SKIP}
    assert len(origin.requests) == 1


async def test_origins_are_told_apart(
    obeying: PolicyHarness, origin: ScriptedOrigin, secure_origin: ScriptedOrigin
) -> None:
    """Scheme and host have a robots.txt of their own each (RFC 9309, 2.3)."""
    says(origin)
    says(secure_origin, b"User-agent: *\nDisallow: /")
    assert (await obeying.before("/x", site="https://secure.example")).action is RuleAction.SKIP
    assert (await obeying.before("/x")).action is RuleAction.VISIT
    assert (await obeying.before("/x", site="http://other.example")).action is RuleAction.VISIT
    assert len(origin.requests) == 2


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "410", "451", "300", "304"])
async def test_what_is_not_there_forbids_nothing(obeying: PolicyHarness, origin: ScriptedOrigin, status: str) -> None:
    """4xx, and 3xx that lead nowhere: unavailable, so everything is allowed (2.3.1.3)."""
    says(origin, status=f"{status} So")
    assert (await obeying.before("/private")).action is RuleAction.VISIT
    await obeying.before("/more")
    assert len(origin.requests) == 1


@pytest.mark.parametrize("status", ["500", "502", "503", "504", "429", "599"])
async def test_a_server_error_means_wait(obeying: PolicyHarness, origin: ScriptedOrigin, status: str) -> None:
    """5xx and 429: nothing is visited for now, and the host is blocked, each time longer (2.3.1.4)."""
    says(origin, status=f"{status} So")
    verdict = await obeying.before()
    assert verdict.action is RuleAction.LATER
    assert verdict.was_asked
    assert verdict.reason == f"robots: robots.txt cannot be fetched (status {status})"
    report = obeying.frontier.host("origin.example", now=obeying.clock.now())
    assert report is not None
    assert report.blocked_until == verdict.until
    assert report.failures == 1
    assert status in report.blocked_reason

    again = await obeying.before("/other")
    assert (again.action, again.was_asked, again.until) == (RuleAction.LATER, False, verdict.until)
    assert verdict.until is not None
    obeying.clock.moment = verdict.until
    later = await obeying.before()
    assert len(origin.requests) == 2
    assert later.until is not None
    assert later.until - obeying.clock.now() > timedelta(seconds=60)

    says(origin)
    obeying.clock.moment = later.until
    assert (await obeying.before()).action is RuleAction.VISIT


async def test_retry_after_is_obeyed(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """The host is left alone for as long as it says."""
    says(origin, status="503 Busy", more="Retry-After: 7200\r\n")
    verdict = await obeying.before()
    assert verdict.until == obeying.clock.now() + timedelta(hours=2)


async def test_a_host_that_cannot_be_reached_is_given_up_after_a_few_times(obeying: PolicyHarness) -> None:
    """No connection: wait, and in the end the frontier says that the host is down."""
    failures = obeying.settings.politeness.host_failures
    for _ in range(failures):
        verdict = await obeying.before(site="http://refused.example")
        assert verdict.action is RuleAction.LATER
        assert verdict.until is not None
        obeying.clock.moment = verdict.until
    report = obeying.frontier.host("refused.example", now=obeying.clock.now() - timedelta(seconds=1))
    assert report is not None
    assert report.down_until is not None


@pytest.mark.parametrize(
    ("lane", "waits", "action"),
    [
        (Lane.STANDARD, False, RuleAction.FAIL),
        (Lane.STANDARD, True, RuleAction.LATER),
        (Lane.NOW, True, RuleAction.FAIL),
    ],
)
async def test_a_host_that_does_not_exist_ends_its_page(
    obeying: PolicyHarness, monkeypatch: pytest.MonkeyPatch, lane: Lane, waits: bool, action: RuleAction
) -> None:
    """At once, without a block of the host, unless the profile waits for sites and no user waits for the page."""
    frontier = replace(obeying.settings.frontier, wait_for_sites=waits)
    obeying.settings = replace(obeying.settings, frontier=frontier)
    monkeypatch.setattr(obeying.fetcher, "get", AsyncMock(return_value=FetchedFile(0, error=f"{NO_SUCH_HOST}: a.")))
    verdict = await obeying.before(site="http://unknown.example", lane=lane)
    wakeup = obeying.frontier.host("unknown.example", now=obeying.clock.now())

    assert verdict.action is action
    assert verdict.reason.startswith(NO_SUCH_HOST) == (action is RuleAction.FAIL)
    assert wakeup is not None
    assert (wakeup.blocked_until, wakeup.down_until) == (None, None)


async def test_after_thirty_days_what_was_known_holds_or_nothing_is_forbidden(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """A site cannot keep crawlers waiting for ever by a broken robots.txt (2.3.1.4)."""
    says(origin)
    await obeying.before()
    origin.answers["/robots.txt"] = ok(b"", status="500 Broken")
    obeying.clock.advance(days=2)
    since = obeying.clock.now()
    assert (await obeying.before()).action is RuleAction.LATER
    assert (await obeying.before(site="http://other.example")).action is RuleAction.LATER
    obeying.clock.advance(days=29)
    assert (await obeying.before()).action is RuleAction.LATER
    obeying.another_process()
    note = obeying.frontier.note(ROBOTS_NOTE, SITE, now=obeying.clock.now())
    known = parse_robots_record(note or "")
    assert known is not None
    assert known.since == since

    obeying.clock.advance(days=2)
    assert (await obeying.before("/public")).action is RuleAction.VISIT
    assert (await obeying.before("/private")).action is RuleAction.SKIP
    assert (await obeying.before("/private", site="http://other.example")).action is RuleAction.VISIT


async def test_redirects_are_followed_to_other_hosts_and_loops_forbid_nothing(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """Five hops (2.3.1.2)."""
    target = "Location: http://other.example/moved\r\n"
    origin.answers["/robots.txt"] = ok(b"", status="301 Moved", more=target)
    origin.answers["/moved"] = ok(PRIVATE)
    assert (await obeying.before("/private")).action is RuleAction.SKIP

    obeying.clock.advance(days=2)
    origin.answers["/robots.txt"] = ok(b"", status="301 Moved", more=TO_ITSELF)
    assert (await obeying.before("/private")).action is RuleAction.VISIT


async def test_a_redirect_to_where_we_may_not_go_forbids_nothing(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """A private address is not asked, and does not keep the site from being visited."""
    target = "Location: http://private.example/robots.txt\r\n"
    origin.answers["/robots.txt"] = ok(b"", status="301 Moved", more=target)
    assert (await obeying.before("/private")).action is RuleAction.VISIT


async def test_a_huge_file_is_read_to_its_limit(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """Of an endless file the first 500 KiB count, and the rest is not waited for (2.5)."""

    def endless(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /private\n")
        while True:
            connection.sendall(b"# nothing to see here\n" * 4_000)

    origin.answers["/robots.txt"] = endless
    assert (await obeying.before("/private")).action is RuleAction.SKIP
    assert (await obeying.before("/public")).action is RuleAction.VISIT


async def test_a_compressed_bomb_is_read_to_its_limit(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """A file that unpacks to 30 MB is unpacked to 500 KiB only."""
    says(origin, gzip.compress(PRIVATE + b"#" * 30_000_000), more="Content-Encoding: gzip\r\n")
    assert (await obeying.before("/private")).action is RuleAction.SKIP


async def test_a_file_that_drips_means_wait(
    obeying: PolicyHarness, origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that does not end in time may still have forbidden everything."""
    monkeypatch.setattr(robots_cache, "TIMEOUT_S", 1.0)
    over = threading.Event()

    def drip(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\n")
        while not over.wait(0.05):
            connection.sendall(b"#")

    origin.answers["/robots.txt"] = drip
    verdict = await obeying.before()
    over.set()
    assert (verdict.action, verdict.reason) == (
        RuleAction.LATER,
        "robots: robots.txt cannot be fetched (it was interrupted: timeout)",
    )


async def test_a_file_that_breaks_off_means_wait(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """Half a file is no file."""

    def half(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nUser-agent: *\nDis")

    origin.answers["/robots.txt"] = half
    assert (await obeying.before()).action is RuleAction.LATER


@pytest.mark.parametrize(
    "body", [b"\x00\xff\xfe" * 1_000, b"<!doctype html><p>Not found", b"", b"\x89PNG\r\n" + PRIVATE[:13]]
)
async def test_what_is_no_robots_txt_forbids_nothing(
    obeying: PolicyHarness, origin: ScriptedOrigin, body: bytes
) -> None:
    """A page, a picture and noise have no rules."""
    says(origin, body)
    assert (await obeying.before("/private")).action is RuleAction.VISIT


async def test_a_crawl_delay_is_wished_for_as_far_as_it_is_bearable(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """The host rests so long, but no longer than `crawl_delay_limit_s`."""
    says(origin, b"User-agent: *\nCrawl-delay: 12.5\n")
    await obeying.before()
    assert (await obeying.after()).delay == timedelta(seconds=12.5)
    obeying.clock.advance(days=2)
    says(origin, b"User-agent: *\nCrawl-delay: 99999999\n")
    await obeying.before()
    limit_s = obeying.settings.politeness.crawl_delay_limit_s
    assert (await obeying.after()).delay == timedelta(seconds=limit_s)


async def test_the_host_rests_between_its_robots_txt_and_the_page(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """Asking for the rules is asking: the item waits its turn, and so do others of the host."""
    obeying.settings = replace(obeying.settings, politeness=PolitenessSettings(min_delay_s=2.0))
    says(origin)
    now = obeying.clock.now()
    obeying.frontier.add([NewItem(f"{SITE}/a"), NewItem(f"{SITE}/b")], now=now)
    (first,) = obeying.frontier.claim(now=now, worker="w", limit=9)
    verdict = await obeying.rule.before(first, now=now)
    assert (verdict.action, verdict.until) == (RuleAction.LATER, now + timedelta(seconds=2))
    obeying.frontier.release(first, now=now, reason=verdict.reason, not_before=verdict.until)
    almost = now + timedelta(seconds=1.9)
    assert obeying.frontier.claim(now=almost, worker="w") == []
    obeying.clock.advance(seconds=2)
    (again,) = obeying.frontier.claim(now=obeying.clock.now(), worker="w")
    assert (await obeying.rule.before(again, now=obeying.clock.now())).action is RuleAction.VISIT
    assert len(origin.requests) == 1


async def test_an_answer_that_is_not_kept_does_not_put_a_page_off_for_ever(
    obeying: PolicyHarness, origin: ScriptedOrigin
) -> None:
    """With a lifetime of nothing the file is asked for each time, and the page is visited."""
    obeying.settings = replace(obeying.settings, politeness=PolitenessSettings(min_delay_s=2.0))
    obeying.set(robots_lifetime_s=0.0)
    says(origin)
    for _ in range(2):
        assert (await obeying.before("/public")).action is RuleAction.VISIT
        obeying.clock.advance(seconds=3)
    assert len(origin.requests) == 2


async def test_rules_are_read_for_our_own_name(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """A change of `robots_agent` lets the file be read again."""
    says(origin, b"User-agent: weboid\nDisallow: /\nAllow: /ok\n\nUser-agent: tester\nDisallow:\n")
    assert (await obeying.before("/x")).action is RuleAction.SKIP
    obeying.set(robots_agent="Tester")
    assert (await obeying.before("/x")).action is RuleAction.VISIT
    assert len(origin.requests) == 2


async def test_a_site_that_is_closed_altogether_is_left_alone(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """``Disallow: /`` bans the site for a while, with the reason (A05)."""
    says(origin, b"User-agent: *\nDisallow: /\n")
    assert (await obeying.before("/x")).reason == "robots: Disallow: /"
    obeying.clock.advance(seconds=1)
    verdict = await obeying.before("/y")
    assert verdict.reason.startswith("autoblacklist: =origin.example (robots.txt forbids the whole")
    obeying.clock.advance(days=6)
    assert (await obeying.before("/y")).action is RuleAction.SKIP
    says(origin)
    obeying.clock.advance(days=2)
    assert (await obeying.before("/y")).action is RuleAction.VISIT
    assert requested_paths(origin) == ["/robots.txt", "/robots.txt"]


async def test_large_rules_are_kept_for_other_machines(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """Half a megabyte of rules travels through the frontier and comes back as it was."""
    line = b"Disallow: /private/%06d\n"
    body = b"User-agent: *\n" + b"".join(line % number for number in range(ROBOTS_LIMIT_BYTES // 26))
    says(origin, body)
    assert (await obeying.before("/private/000077")).action is RuleAction.SKIP
    obeying.another_process()
    assert (await obeying.before("/private/000078")).action is RuleAction.SKIP
    assert (await obeying.before("/private/99999x")).action is RuleAction.VISIT
    assert len(origin.requests) == 1
    note = obeying.frontier.note(ROBOTS_NOTE, SITE, now=obeying.clock.now())
    assert note is not None
    assert len(note) < len(body) / 2


@given(st.text(max_size=200) | st.sampled_from(["{}", "[]", '{"version":1}', "eJw="]))
def test_a_note_of_another_version_is_no_note(note: str) -> None:
    """Whatever stands there, the file is asked for again."""
    assert parse_robots_record(note) is None


async def test_explain_asks_nobody(obeying: PolicyHarness, origin: ScriptedOrigin) -> None:
    """Without a fetcher, what is not known stays unknown."""
    obeying.fetcher = None
    obeying.another_process()
    opinions = await obeying.rule.explain(item("/private"), now=obeying.clock.now())
    assert [each.rule for each in opinions][-1] == "robots.txt"
    assert "not known" in opinions[-1].text
    assert origin.requests == []
