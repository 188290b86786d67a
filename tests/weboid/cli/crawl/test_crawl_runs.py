"""`weboid archive` as its user meets it: what it keeps, says, refuses and survives."""

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from core.clock import SystemClock
from core.layout import Layout
from core.urls import host_of
from crawler.frontier.sqlite_frontier import SqliteFrontier
from tests.support.commands import Weboid
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

RULES = f"http://{hosts.RULES}"


def records(collection: Path) -> list[tuple[str, str, dict[str, str], bytes]]:
    """(type, target, headers, payload) of every record."""
    found = []
    for path in sorted((collection / "archive").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                headers = record.rec_headers
                target = headers.get_header("WARC-Target-URI") or ""
                payload = record.content_stream().read()
                found.append((record.rec_type, target, dict(headers.headers), payload))
    return found


def index(collection: Path, query: str) -> list[tuple[Any, ...]]:
    """What the captures index says."""
    database = sqlite3.connect(collection / "db" / "captures.sqlite")
    rows = database.execute(query).fetchall()
    database.close()
    return rows


def check(collection: Path) -> None:
    """`warcio check` finds no fault, and no file was left open."""
    paths = [str(path) for path in sorted((collection / "archive").glob("*.warc.gz*"))]
    command = [str(Path(sys.executable).with_name("warcio")), "check", *paths]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert paths
    assert not [path for path in paths if path.endswith(".open")]


def test_a_page_is_kept_with_its_artifacts_and_manifest(weboid: Weboid) -> None:
    """Captures, screenshots, DOM, text and manifest; one line and a summary say so."""
    ran = weboid.archive(f"{RULES}/page/plain")
    page = ran.pages[f"{RULES}/page/plain"]
    check(weboid.collection)
    kinds = {
        target.split(":")[1]
        for kind, target, *_ in records(weboid.collection)
        if kind == "resource"
    }

    assert ran.code == 0
    assert (page["outcome"], page["status"], page["attempts"]) == ("complete", 200, 1)
    assert kinds == {"view", "fullPage", "thumbnail", "dom", "text", "pageinfo"}
    assert ran.summary["outcomes"] == {"complete": 1}


def test_the_same_command_again_does_nothing_twice(weboid: Weboid) -> None:
    """What is done is known; nothing is fetched, nothing is written."""
    urls = [f"{RULES}/page/plain", f"{RULES}/status/404"]
    weboid.archive(*urls)
    before = records(weboid.collection)
    ran = weboid.archive(*urls)

    assert ran.code == 0
    assert (ran.summary["added"], ran.summary["duplicates"], ran.pages) == (0, 2, {})
    assert records(weboid.collection) == before


def test_again_archives_what_is_there_already(weboid: Weboid) -> None:
    """A second capture beside the first; equal payloads become revisits."""
    url = f"{RULES}/page/plain"
    weboid.archive(url)
    weboid.archive("--again", url)

    query = f"SELECT record_type FROM captures WHERE url = '{url}' ORDER BY captured_ms"
    assert index(weboid.collection, query) == [("response",), ("revisit",)]
    assert index(weboid.collection, "SELECT count(*) FROM pages") == [(2,)]


def test_what_was_archived_a_reasonable_time_ago_is_left_alone(weboid: Weboid) -> None:
    """--older-than says what is reasonable (A02)."""
    url = f"{RULES}/page/plain"
    weboid.archive(url)
    recent = weboid.archive("--older-than", "30d", url)
    old = weboid.archive("--older-than", "0s", url)

    assert recent.pages == {}
    assert list(old.pages) == [url]
    assert index(weboid.collection, "SELECT count(*) FROM pages") == [(2,)]


@pytest.mark.parametrize(
    ("path", "outcome", "status"),
    [
        ("/status/404", "complete", 404),
        ("/status/410", "complete", 410),
        ("/status/500", "complete", 500),
        ("/status/204", "complete", 204),
        ("/redirect/chain/5", "complete", 200),
        ("/redirect/to-404", "complete", 404),
        ("/redirect/loop", "failed", None),
        ("/document.pdf", "complete", 200),
        ("/picture/1.jpg", "complete", 200),
        ("/slow/drip/1", "complete", 200),
        ("/encoding/gzip", "complete", 200),
        ("/broken/garbage", "failed", None),
        ("/broken/empty", "failed", None),
    ],
)
def test_each_kind_of_answer_has_its_outcome(
    weboid: Weboid, path: str, outcome: str, status: int | None
) -> None:
    """An HTTP error is a capture; a failure is one that nobody answered."""
    ran = weboid.archive(f"{RULES}{path}")
    page = ran.pages[f"{RULES}{path}"]
    check(weboid.collection)

    assert page["outcome"] == outcome
    if outcome == "complete":
        assert page["status"] == status
        query = f"SELECT count(*) FROM captures WHERE url = '{RULES}{path}'"
        assert index(weboid.collection, query) == [(1,)]
    assert ran.code == (1 if outcome == "failed" else 0)


def test_a_pdf_is_fetched_once_and_kept_whole(weboid: Weboid, web: Any) -> None:
    """The first response decides: no HEAD or GET before, no second request after."""
    web.clear()
    weboid.archive(f"{RULES}/document.pdf")
    asked = [seen for seen in web.requests() if "/document.pdf" in seen.head]
    (payload,) = (p for kind, target, _, p in records(weboid.collection) if kind == "response")

    assert len(asked) == 1
    assert payload.startswith(b"%PDF")
    assert b"%%EOF" in payload[-1024:]


def test_a_page_that_never_ends_is_partial_and_costs_its_deadline_only(
    weboid_with: Callable[..., Weboid],
) -> None:
    """What came before the deadline is kept and marked; the next page is archived."""
    weboid = weboid_with(visit={"timeout_s": 6.0})
    endless, next_one = f"{RULES}/endless/body", f"{RULES}/page/plain"
    ran = weboid.archive(endless, next_one)
    check(weboid.collection)
    query = f"SELECT truncated FROM captures WHERE url = '{endless}'"

    assert ran.pages[endless]["outcome"] == "partial"
    assert ran.pages[next_one]["outcome"] == "complete"
    assert index(weboid.collection, query) == [("time",)]


def test_a_body_over_the_limit_is_cut_and_said_so(weboid_with: Callable[..., Weboid]) -> None:
    """WARC-Truncated: length; the page is PARTIAL."""
    weboid = weboid_with(proxy={"body_limit_bytes": 1_000_000})
    url = f"{RULES}/large/3"
    ran = weboid.archive(url)
    check(weboid.collection)

    assert ran.pages[url]["outcome"] == "partial"
    assert ran.pages[url]["reason"] == "truncated: length"
    assert index(weboid.collection, f"SELECT truncated FROM captures WHERE url = '{url}'") == [
        ("length",)
    ]


def test_a_response_that_breaks_off_is_kept_and_said_so(weboid: Weboid) -> None:
    """WARC-Truncated: disconnect."""
    url = f"{RULES}/broken/short"
    ran = weboid.archive(url)
    check(weboid.collection)

    assert ran.pages[url]["outcome"] == "partial"
    assert index(weboid.collection, f"SELECT truncated FROM captures WHERE url = '{url}'") == [
        ("disconnect",)
    ]


@pytest.mark.parametrize("host", hosts.BAD_TLS)
def test_tls_that_does_not_verify_is_captured_and_recorded(weboid: Weboid, host: str) -> None:
    """Self-signed, expired or for another name: kept, and said that nobody vouched for it."""
    url = f"https://{host}/page/plain"
    ran = weboid.archive(url)
    check(weboid.collection)
    unverified = [
        target
        for kind, target, headers, _ in records(weboid.collection)
        if kind == "response" and "WARC-TLS-Verification" in headers
    ]
    (manifest,) = (
        payload
        for _, target, _, payload in records(weboid.collection)
        if target == f"urn:pageinfo:{url}"
    )

    assert ran.pages[url]["outcome"] == "complete"
    assert url in unverified
    assert b'"tls_verified": false' in manifest


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"http://{hosts.NOWHERE}/", "dns:"),
        (f"http://{hosts.REFUSED}/", "connect:"),
        ("http://10.1.2.3/", "address:"),
        (f"https://{hosts.REFUSED}/", "connect:"),
    ],
)
def test_an_unreachable_host_is_given_up_with_its_reason(
    weboid: Weboid, url: str, reason: str
) -> None:
    """It is tried again as often as the profile says, then it is a dead letter."""
    ran = weboid.archive(url, f"{RULES}/page/plain")
    failed = ran.pages[url]
    status = weboid.run("status", "--json")

    assert ran.code == 1
    assert failed["outcome"] == "failed"
    assert failed["reason"].startswith(reason)
    assert failed["attempts"] == (1 if reason == "address:" else 3)
    assert ran.pages[f"{RULES}/page/plain"]["outcome"] == "complete"
    assert status.events[0]["dead"] == 1
    assert status.events[0]["dead_letters"][0][0] == url


def test_a_host_that_says_later_is_asked_later(weboid: Weboid) -> None:
    """503 with Retry-After: the host is left alone until then, and the page is archived."""
    url = f"{RULES}/status/503/2"
    ran = weboid.archive(url)

    assert ran.pages[url]["outcome"] == "complete"
    retries = [event for event in ran.events if event["event"] == "retry"]
    assert retries
    assert index(weboid.collection, "SELECT count(*) FROM pages") == [(1,)]


def test_a_check_for_robots_is_met_again_later_and_kept_as_what_it_is(weboid: Weboid) -> None:
    """Three attempts; then the capture stays, with its class and its evidence."""
    url = f"{RULES}/challenge"
    ran = weboid.archive(url)
    status = weboid.run("status", "--json").events[0]

    retries = [event for event in ran.events if event["event"] == "retry"]
    assert [event["reason"] for event in retries] == ["challenge", "challenge"]
    assert ran.pages[url]["outcome"] == "complete"
    query = "SELECT page_class, class_evidence LIKE '%cf-mitigated%' FROM pages"
    assert index(weboid.collection, query) == [("challenge", 1)]
    assert status["classes"] == {"challenge": 1}


def test_a_list_is_read_line_by_line_and_its_faults_are_named(weboid: Weboid) -> None:
    """A line that is no URL is named with its number; the rest goes on; duplicates count once."""
    lines = f"\ufeff# comment\r\n\n{RULES}/page/plain\nnot a url\nftp://x.example/\n{RULES}/page/plain\n"
    ran = weboid.archive("--list", "-", given=lines)

    assert ran.code == 1
    assert "4" in ran.err
    assert "not a url" in ran.err
    assert "5" in ran.err
    assert list(ran.pages) == [f"{RULES}/page/plain"]


def test_the_summary_counts_what_every_page_wrote(weboid: Weboid) -> None:
    """Records and bytes of the summary are those of the pages."""
    ran = weboid.archive(f"{RULES}/page/plain", f"{RULES}/frames", f"{RULES}/lazy")

    assert ran.summary["records"] == sum(page["records"] for page in ran.pages.values())
    assert ran.summary["bytes"] == sum(page["bytes"] for page in ran.pages.values())


def test_a_collection_in_use_by_another_process_is_refused(weboid: Weboid) -> None:
    """The exit code says so; the collection is untouched."""
    weboid.archive(f"{RULES}/page/plain")
    before = records(weboid.collection)
    with (weboid.collection / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = weboid.archive(f"{RULES}/lazy")

    assert ran.code == 5
    assert "Another process" in ran.err
    assert records(weboid.collection) == before


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ((), "", "Say what to archive"),
        (("--list", "-"), "", "empty"),
        (("--list", "-"), "# only a comment\n", ""),
        (("--list", "nowhere.txt"), "", "nowhere.txt"),
        (("--profile", "unknown", "http://a.example/"), "", "default"),
        (("not a url",), "", "nothing to archive"),
        (("--workers", "0", "http://a.example/"), "", "--workers"),
    ],
)
def test_bad_input_ends_with_a_sentence_and_code_2(
    weboid: Weboid, arguments: tuple[str, ...], given: str, words: str
) -> None:
    """Nothing is made, nothing is lost, and the text says what to mend."""
    ran = weboid.run("archive", *arguments, given=given)

    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert not weboid.collection.exists()


def test_ctrl_c_finishes_the_pages_begun_and_the_next_run_goes_on(
    weboid_with: Callable[..., Weboid],
) -> None:
    """The first SIGINT stops gently with its own exit code; nothing is done twice."""
    weboid = weboid_with()
    urls = [f"{RULES}/slow/first-byte/1?{number}" for number in range(8)]
    profile = ("--profile", str(weboid.profile))
    process = weboid.start("archive", "--json", *profile, "--workers", "2", *urls)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if '"event": "page"' in line:
            process.send_signal(signal.SIGINT)
            break
    lines += process.stdout.read().splitlines()  # what the loop had buffered included
    process.communicate(timeout=60)
    rest = weboid.archive(*urls)
    done = [line for line in lines if '"event": "page"' in line]
    check(weboid.collection)

    assert process.returncode == 6
    assert 0 < len(done) < 8
    assert len(done) + len(rest.pages) == 8
    assert index(weboid.collection, "SELECT count(*), count(DISTINCT url) FROM pages") == [(8, 8)]


def test_sigterm_to_the_process_group_finishes_the_pages_begun(weboid: Weboid) -> None:
    """A unit's KillMode=control-group and timeout(1) signal every process; the proxy goes on to the end."""
    urls = [f"{RULES}/slow/first-byte/1?{number}" for number in range(6)]
    process = weboid.start(
        "archive", "--json", "--profile", str(weboid.profile), "--workers", "2", *urls
    )
    assert process.stdout is not None
    for line in process.stdout:
        if '"event": "page"' in line:
            os.killpg(process.pid, signal.SIGTERM)
            break
    out, err = process.communicate(timeout=60)

    assert process.returncode == 6
    assert "proxy.died" not in err
    assert '"event": "retry"' not in out
    check(weboid.collection)


def test_a_second_ctrl_c_stops_at_once_and_leaves_nothing_running(weboid: Weboid) -> None:
    """A page that takes long does not hold the user; every WARC is whole."""
    url = f"{RULES}/slow/first-byte/30"
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), url)
    assert process.stdout is not None
    assert '"started"' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert '"stopping"' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=25)
    rest = weboid.run("status", "--json").events[0]

    assert process.returncode == 6
    assert (rest["queued"], rest["in_use"]) == (1, False)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_refusals_that_are_kept_add_up(weboid_with: Callable[..., Weboid]) -> None:
    """Each archived 503 blocks its host twice as long as the one before; as answers they count for none."""
    weboid = weboid_with(frontier={"attempts": 1}, politeness={"host_retry_s": 0.05})
    ran = weboid.archive(*(f"{RULES}/status/503?{number}" for number in range(3)))
    with SqliteFrontier(Layout(weboid.collection).frontier_db) as frontier:
        report = frontier.host(host_of(RULES), now=SystemClock().now())

    assert [page["status"] for page in ran.pages.values()] == [503, 503, 503]
    assert report is not None
    assert report.failures == 3


def test_stored_levels_hold_for_the_next_visit_unless_the_run_says_otherwise(
    weboid: Weboid, web: TestWeb
) -> None:
    """`weboid level set --store` for a domain, then `--store` for a run: manifest, WARC and size say so."""
    first, second = web.gallery(301), web.gallery(302)
    assert weboid.archive(f"{RULES}/page/plain").code == 0
    at = ("--collection", str(weboid.collection))
    words = ("level", "set", "--store", "text", "--domain", hosts.GALLERY, *at)
    assert weboid.run(*words).code == 0
    assert weboid.archive(first).code == 0
    assert weboid.archive(second, "--store", "no-media").code == 0

    found = records(weboid.collection)
    manifests = {
        target.partition(":")[2].partition(":")[2]: json.loads(payload)
        for kind, target, _, payload in found
        if target.startswith("urn:pageinfo:")
    }
    images = {
        target for kind, target, *_ in found if kind == "response" and target.endswith(".png")
    }
    wanted = {url for url in web.gallery_subresources(302) if url.endswith(".png")}
    assert wanted
    assert images == wanted
    assert manifests[f"{RULES}/page/plain"]["stored"] == "everything"
    assert (manifests[first]["stored"], manifests[first]["outcome"]) == ("text", "complete")
    assert manifests[first]["left_out"] >= len(wanted)
    assert not manifests[first]["missing"]
    assert (manifests[second]["stored"], manifests[second]["left_out"]) == ("no-media", 0)
    assert manifests[first]["stored_bytes"] < manifests[second]["stored_bytes"] / 2
