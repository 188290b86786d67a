"""Policy from the command line to the archive: what is skipped is not offered, and explain says why."""

import json
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from core.layout import Layout
from crawler.policy.policy_evaluator import ENTRIES_POLL_S
from playback.replay.capture_lookup import CaptureLookup
from tests.crawler.policy.conftest import requested_paths
from tests.support.commands import WeboidRunner
from tests.support.proxy_fixtures import ScriptedOrigin, ok
from tests.support.services.redis_server import RedisServer
from warc.index.database import SqliteDatabase

pytestmark = [pytest.mark.browser, pytest.mark.proxy]
SITE = "http://policy.example"
OTHER = "http://other-policy.example"
PAGE = b"<!doctype html><title>A page</title><p>Words."


@pytest.fixture
def site() -> Iterator[ScriptedOrigin]:
    """Serve the pages of policy.example and other-policy.example."""
    server = ScriptedOrigin()
    server.answers["/robots.txt"] = ok(b"", status="404 None")
    server.answers["/favicon.ico"] = ok(b"", status="404 None")
    for path in ("/plain", "/private/x", "/more"):
        server.answers[path] = ok(PAGE)
    server.answers["/tagged"] = ok(PAGE, more="X-Robots-Tag: otherbot: all\r\nX-Robots-Tag: noarchive\r\n")
    server.answers["/meta"] = ok(PAGE + b'<meta name="ROBOTS" content="NoArchive"><img src="/i.png">')
    server.answers["/file.pdf"] = ok(b"%PDF-1.4\n", mime="application/pdf", more="X-Robots-Tag: noarchive\r\n")
    yield server
    server.close()


@pytest.fixture
def obeying(weboid_with: Callable[..., WeboidRunner], site: ScriptedOrigin) -> WeboidRunner:
    """Return a runner that obeys robots.txt and noarchive."""
    address = f"127.0.0.1:{site.port}"
    resolve = {"policy.example": address, "other-policy.example": address}
    policy = {"robots": "obey", "noarchive": "obey", "ban_s": 0.0}
    return weboid_with(policy=policy, egress={"resolve": resolve})


def policy(weboid: WeboidRunner, *arguments: str, code: int = 0) -> Any:
    """Run `weboid policy … --json`, assert its exit code and return its JSON lines."""
    profile = ("--profile", str(weboid.profile))
    ran = weboid.call("policy", arguments[0], "--json", *profile, *arguments[1:])
    assert ran.code == code, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def skipped(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return the reason for which each page was skipped, by URL."""
    return {each["url"]: each["reason"] for each in events if each["event"] == "skipped"}


def offered(weboid: WeboidRunner, url: str) -> int:
    """Return how many captures of the URL replay finds, of the page itself and of its artifacts."""
    now = datetime.now(UTC)
    with closing(SqliteDatabase(Layout(weboid.collection).captures_db)) as database:
        index = CaptureLookup(database)
        names = (url, *(f"urn:{kind}:{url}" for kind in ("view", "dom", "text", "thumbnail")))
        return sum(len(list(index.captures(name, now))) for name in names)


def test_pages_that_forbid_archiving_are_skipped_and_not_offered(obeying: WeboidRunner, site: ScriptedOrigin) -> None:
    """By header, by meta, and for a file; the reason is recorded, and replay finds nothing (A05)."""
    urls = [f"{SITE}/{path}" for path in ("plain", "tagged", "meta", "file.pdf")]
    ran = obeying.archive(*urls)
    why = skipped(ran.events)
    assert set(why) == set(urls[1:])
    assert why[f"{SITE}/tagged"] == "noarchive: X-Robots-Tag says noarchive"
    assert why[f"{SITE}/meta"] == "noarchive: <meta name=robots> says noarchive"
    assert list(ran.pages) == [f"{SITE}/plain"]

    assert offered(obeying, f"{SITE}/plain") == 5
    assert [offered(obeying, url) for url in urls[1:]] == [0, 0, 0]
    assert offered(obeying, f"{SITE}/i.png") == 0
    verified = obeying.call("verify", "--json")
    assert verified.code == 0, verified.out
    assert obeying.call("collection", "rebuild").code == 0
    assert offered(obeying, f"{SITE}/plain") == 5
    assert [offered(obeying, url) for url in urls[1:]] == [0, 0, 0]
    with closing(sqlite3.connect(Layout(obeying.collection).captures_db)) as index:
        rows = index.execute("SELECT url, outcome FROM pages WHERE title = ''").fetchall()
    assert {outcome for _, outcome in rows} == {"skipped"}

    (explained,) = policy(obeying, "show", f"{SITE}/meta")
    assert explained["outcome"] == "visited"  # nothing is known against it before it is seen
    assert "skipped" in explained["frontier"]
    assert "noarchive" in explained["frontier"]


def test_robots_txt_is_obeyed_and_archived(obeying: WeboidRunner, site: ScriptedOrigin) -> None:
    """The disallowed page is not asked for; explain says which line forbids it."""
    site.answers["/robots.txt"] = ok(b"User-agent: Weboid\nDisallow: /private\n", mime="text/plain")
    ran = obeying.archive(f"{SITE}/private/x", f"{SITE}/plain")
    assert skipped(ran.events) == {f"{SITE}/private/x": "robots: Disallow: /private"}
    assert "/private/x" not in requested_paths(site)
    assert requested_paths(site).count("/robots.txt") == 1
    assert offered(obeying, f"{SITE}/robots.txt") == 1

    (explained,) = policy(obeying, "show", f"{SITE}/private/y")
    (deciding,) = [each for each in explained["rules"] if each["decides"]]
    assert (explained["outcome"], deciding["rule"]) == ("skipped", "robots.txt")
    assert deciding["text"].startswith("robots: Disallow: /private (read ")


def test_explain_fetches_a_robots_txt_only_when_told_to(obeying: WeboidRunner, site: ScriptedOrigin) -> None:
    """Without --fetch nobody is asked; with it the file is read through a proxy."""
    site.answers["/robots.txt"] = ok(b"User-agent: *\nDisallow: /private\n")
    policy(obeying, "add", "nobody.example", "--reason", "make the collection")
    (unknown,) = policy(obeying, "show", f"{SITE}/private/x")
    assert unknown["outcome"] == "visited"
    assert requested_paths(site) == []
    (known,) = policy(obeying, "show", f"{SITE}/private/x", "--fetch")
    assert (known["outcome"], known["reason"]) == ("skipped", "robots: Disallow: /private")
    assert requested_paths(site) == ["/robots.txt"]


def test_entries_are_added_listed_and_removed(obeying: WeboidRunner) -> None:
    """With kind, expiry, reason and actor; before there is a crawl, too (A16)."""
    long = f"https://long.example/{'a' * 3_000}"
    (first,) = policy(obeying, "add", "spam.example", "--reason", "spam", "--by", "alice", "--expires", "30d")
    assert (first["kind"], first["actor"], first["reason"]) == ("blacklist", "alice", "spam")
    policy(obeying, "add", "good.example", long, "--kind", "whitelist", "--reason", "ours")
    policy(obeying, "add", "site.example", "--set", "robots=ignore", "--reason", "they agreed")

    (listed,) = policy(obeying, "list")
    assert len(listed["entries"]) == 4
    assert long in [each["pattern"] for each in listed["entries"]]
    (white,) = policy(obeying, "list", "--kind", "whitelist")
    assert len(white["entries"]) == 2
    (matching,) = policy(obeying, "list", "--for", "http://www.spam.example/x")
    assert [each["id"] for each in matching["entries"]] == [first["id"]]
    people = obeying.call("policy", "list").out
    assert "spam.example" in people
    assert "robots=ignore" in people

    (removed,) = policy(obeying, "remove", first["id"], "good.example")
    assert len(removed["removed"]) == 2
    (left,) = policy(obeying, "list")
    assert {each["pattern"] for each in left["entries"]} == {long, "site.example"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "re:(?=x)", "--reason", "r"), "look-ahead"),
        (("add", "two words", "--reason", "r"), "not a pattern"),
        (("add", "a.example", "--reason", "r", "--expires", "2001-01-01"), "in the past"),
        (("add", "a.example", "--reason", "r", "--expires", "soon"), "not a date"),
        (("add", "a.example", "--reason", "r", "--set", "robots"), "KEY=VALUE"),
        (("add", "a.example", "--reason", "r", "--set", "robots=no"), "obey, ignore"),
        (("add", "a.example", "--reason", "r", "--kind", "setting"), "--set"),
        (("add", "a.example"), "--reason"),
        (("show", "ftp://a.example/"), "neither http nor https"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_the_next_step(
    obeying: WeboidRunner, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, a sentence, and nothing is kept."""
    ran = obeying.call("policy", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_an_entry_reaches_a_crawl_that_runs(obeying: WeboidRunner, site: ScriptedOrigin) -> None:
    """Given while a page is being visited, it holds for the next one of the same run."""
    reached, go_on = threading.Event(), threading.Event()

    def slowly(connection: Any, _head: bytes) -> None:
        reached.set()
        go_on.wait(120)
        connection.sendall(ok(PAGE))

    site.answers["/slow"] = slowly
    profile = ("--profile", str(obeying.profile))
    urls = (f"{SITE}/slow", f"{OTHER}/plain")
    running = obeying.start("archive", "--json", "--workers", "1", *profile, *urls)
    assert reached.wait(120)
    policy(obeying, "add", "other-policy.example", "--reason", "stop that", "--by", "bob")
    threading.Timer(2 * ENTRIES_POLL_S, go_on.set).start()  # a run reads entries so often
    out, err = running.communicate(timeout=120)
    if running.returncode is None:
        running.send_signal(signal.SIGKILL)
    events = [json.loads(line) for line in out.splitlines()]
    assert running.returncode == 0, err
    (reason,) = skipped(events).values()
    assert reason.startswith("blacklist: other-policy.example (stop that, by bob, ")
    assert "/plain" not in requested_paths(site)


def test_a_list_of_the_profile_is_obeyed_and_its_bad_lines_named(
    weboid_with: Callable[..., WeboidRunner], site: ScriptedOrigin, tmp_path: Any
) -> None:
    """The reason is file and line; a line that is no pattern stands on standard error."""
    spam = tmp_path / "wiki.spamlist"
    spam.write_text("other-pol[a-z]+\\.example\n(?=bad)\n")
    address = f"127.0.0.1:{site.port}"
    resolve = {"policy.example": address, "other-policy.example": address}
    weboid = weboid_with(policy={"lists": [str(spam)]}, egress={"resolve": resolve})
    ran = weboid.archive(f"{OTHER}/plain", f"{SITE}/plain")
    assert skipped(ran.events) == {f"{OTHER}/plain": "list: wiki.spamlist, line 1"}
    assert f"{spam}, line 2" in ran.err
    assert list(ran.pages) == [f"{SITE}/plain"]


def test_entries_of_a_shared_frontier_are_kept_from_anywhere(obeying: WeboidRunner, redis_server: RedisServer) -> None:
    """With --frontier no collection is needed, and another machine sees what one has added."""
    there = ("--frontier", f"{redis_server.url}?frontier=policy")
    policy(obeying, "add", "spam.example", "--reason", "spam", *there)
    assert not obeying.collection.exists()
    (listed,) = policy(obeying, "list", *there)
    assert [each["pattern"] for each in listed["entries"]] == ["spam.example"]
    (explained,) = policy(obeying, "show", "http://www.spam.example/", *there)
    assert explained["outcome"] == "skipped"
    policy(obeying, "remove", "spam.example", *there)
    assert policy(obeying, "list", *there) == [{"entries": [], "unreadable": []}]
