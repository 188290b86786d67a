"""`weboid archive` as its user meets it: what it stores, reports, refuses and survives."""

import fcntl
import json
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

import pytest

from core.clock import SystemClock
from core.layout import Layout
from core.urls import host_of
from crawler.collection import make_collection
from crawler.frontier.sqlite_frontier import SqliteFrontier
from tests.support.commands import CommandResult, WeboidRunner, profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb
from tests.support.stored_records import RULES, check, index, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

# (path on the host of the rule pages, outcome, HTTP status)
ANSWERS = [
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
]
# (URL, begin of the reason)
UNREACHABLE = [
    (f"http://{hosts.NOWHERE}/", "dns:"),
    (f"http://{hosts.REFUSED}/", "connect:"),
    ("http://10.1.2.3/", "address:"),
    (f"https://{hosts.REFUSED}/", "connect:"),
]
PLAIN, SHORT = f"{RULES}/page/plain", f"{RULES}/broken/short"


class ArchivedList(NamedTuple):
    """A list that was archived once for many tests."""

    weboid: WeboidRunner
    ran: CommandResult
    requests: list[str]  # heads of the requests that the test web got
    records: list[tuple[str, str, dict[str, str], bytes]]


@pytest.fixture(scope="module")
def archived(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> ArchivedList:
    """Archive good, broken and unreachable pages from a list that also has lines that are not URLs."""
    folder = tmp_path_factory.mktemp("list")
    # Two URLs of one host fail three times each, in any order: it must not count as down before.
    profile = profile_for(web, folder / "profile.toml", politeness={"host_failures": 7})
    weboid = WeboidRunner(folder, profile)
    web.clear()
    lines = ["\ufeff# comment\r", "", PLAIN, "not a url", "ftp://x.example/", PLAIN, SHORT]
    lines += [f"{RULES}{path}" for path, *_ in ANSWERS]
    lines += [f"https://{host}/page/plain" for host in hosts.BAD_TLS]
    lines += [url for url, _ in UNREACHABLE]
    ran = weboid.archive("--list", "-", "--workers", "4", given="\n".join(lines) + "\n")
    requests = [each.head for each in web.requests()]
    return ArchivedList(weboid, ran, requests, records(weboid.collection))


def test_every_record_is_sound_and_summed_up(archived: ArchivedList) -> None:
    """`warcio check` finds no fault; records and bytes of the summary are those of the pages."""
    check(archived.weboid.collection)
    pages, summary = archived.ran.pages.values(), archived.ran.summary

    assert archived.ran.code == 1
    assert summary["records"] == sum(page.get("records", 0) for page in pages)
    assert summary["bytes"] == sum(page.get("bytes", 0) for page in pages)
    assert summary["outcomes"]["partial"] == 1


def test_a_list_is_read_line_by_line_and_its_faults_are_named(archived: ArchivedList) -> None:
    """A line that is no URL is named with its number; the rest goes on; duplicates count once."""
    assert "4" in archived.ran.err
    assert "not a url" in archived.ran.err
    assert "5" in archived.ran.err
    count = 2 + len(ANSWERS) + len(hosts.BAD_TLS) + len(UNREACHABLE)
    assert len(archived.ran.pages) == archived.ran.summary["added"] == count


def test_a_page_is_kept_with_its_artifacts_and_manifest(archived: ArchivedList) -> None:
    """Captures, screenshots, DOM, text and manifest; one line and a summary say so."""
    page = archived.ran.pages[PLAIN]
    kinds = {
        target.split(":")[1]
        for kind, target, *_ in archived.records
        if kind == "resource" and target.endswith(f":{PLAIN}")
    }

    assert (page["outcome"], page["status"], page["attempts"]) == ("complete", 200, 1)
    assert kinds == {"view", "fullPage", "thumbnail", "dom", "text", "pageinfo"}


@pytest.mark.parametrize(("path", "outcome", "status"), ANSWERS)
def test_each_kind_of_answer_has_its_outcome(
    archived: ArchivedList, path: str, outcome: str, status: int | None
) -> None:
    """An HTTP error is a capture; a failure is one that nobody answered."""
    page = archived.ran.pages[f"{RULES}{path}"]

    assert page["outcome"] == outcome
    if outcome == "complete":
        assert page["status"] == status
        query = f"SELECT count(*) FROM captures WHERE url = '{RULES}{path}'"
        count = 2 if path == "/status/404" else 1  # /redirect/to-404 leads there
        assert index(archived.weboid.collection, query) == [(count,)]


def test_a_pdf_is_fetched_once_and_kept_whole(archived: ArchivedList) -> None:
    """The first response decides: no HEAD or GET before, no second request after."""
    requests = [head for head in archived.requests if "/document.pdf" in head]
    (payload,) = (
        payload
        for kind, target, _, payload in archived.records
        if kind == "response" and target == f"{RULES}/document.pdf"
    )

    assert len(requests) == 1
    assert payload.startswith(b"%PDF")
    assert b"%%EOF" in payload[-1024:]


def test_a_response_that_breaks_off_is_kept_and_said_so(archived: ArchivedList) -> None:
    """WARC-Truncated: disconnect."""
    query = f"SELECT truncated FROM captures WHERE url = '{SHORT}'"

    assert archived.ran.pages[SHORT]["outcome"] == "partial"
    assert index(archived.weboid.collection, query) == [("disconnect",)]


@pytest.mark.parametrize("host", hosts.BAD_TLS)
def test_tls_that_does_not_verify_is_captured_and_recorded(archived: ArchivedList, host: str) -> None:
    """Self-signed, expired or for another name: stored and marked as unverified."""
    url = f"https://{host}/page/plain"
    unverified = [
        target
        for kind, target, headers, _ in archived.records
        if kind in ("response", "revisit") and "WARC-TLS-Verification" in headers
    ]
    (manifest,) = (payload for _, target, _, payload in archived.records if target == f"urn:pageinfo:{url}")

    assert archived.ran.pages[url]["outcome"] == "complete"
    assert url in unverified
    assert b'"tls_verified": false' in manifest


@pytest.mark.parametrize(("url", "reason"), UNREACHABLE)
def test_an_unreachable_host_is_given_up_with_its_reason(archived: ArchivedList, url: str, reason: str) -> None:
    """It is tried as often as the profile says, once where it does not exist; then it is a dead letter."""
    failed = archived.ran.pages[url]
    status = archived.weboid.call("status", "--json").events[0]

    assert failed["outcome"] == "failed"
    assert failed["reason"].startswith(reason)
    assert failed["attempts"] == (1 if reason == "address:" or "no such host" in failed["reason"] else 3)
    assert url in [each for each, *_ in status["dead_letters"]]


def test_what_was_archived_is_left_alone_unless_it_is_asked_for_again(weboid: WeboidRunner) -> None:
    """The same command and --older-than do nothing twice (A02); --again writes revisits."""
    urls = [PLAIN, f"{RULES}/status/404"]
    weboid.archive(*urls)
    before = records(weboid.collection)
    same = weboid.archive(*urls)
    recent = weboid.archive("--older-than", "30d", PLAIN)

    assert same.code == 0
    assert (same.summary["added"], same.summary["duplicates"], same.pages) == (0, 2, {})
    assert recent.pages == {}
    assert records(weboid.collection) == before

    weboid.archive("--again", PLAIN)
    query = f"SELECT record_type FROM captures WHERE url = '{PLAIN}' ORDER BY captured_ms"
    assert index(weboid.collection, query) == [("response",), ("revisit",)]
    assert index(weboid.collection, "SELECT count(*) FROM pages") == [(3,)]


def test_limits_of_time_and_size_cut_a_page_and_say_so(weboid_with: Callable[..., WeboidRunner]) -> None:
    """Data from before the limit is kept and marked (WARC-Truncated); the next page is archived."""
    weboid = weboid_with(visit={"timeout_s": 6.0}, proxy={"body_limit_bytes": 1_000_000})
    slow, large = f"{RULES}/slow/drip/60", f"{RULES}/large/3"
    ran = weboid.archive(slow, large, PLAIN)
    check(weboid.collection)
    query = "SELECT url, truncated FROM captures WHERE truncated IS NOT NULL"

    assert ran.pages[slow]["outcome"] == ran.pages[large]["outcome"] == "partial"
    assert ran.pages[large]["reason"] == "truncated: length"
    assert ran.pages[PLAIN]["outcome"] == "complete"
    truncated = dict(index(weboid.collection, query))
    assert (truncated[slow], truncated[large]) == ("time", "length")


def test_a_host_that_says_later_is_asked_later(weboid: WeboidRunner) -> None:
    """503 with Retry-After: the host is left alone until then, and the page is archived."""
    url = f"{RULES}/status/503/2"
    ran = weboid.archive(url)

    assert ran.pages[url]["outcome"] == "complete"
    retries = [event for event in ran.events if event["event"] == "retry"]
    assert retries
    assert index(weboid.collection, "SELECT count(*) FROM pages") == [(1,)]


def test_a_check_for_robots_is_met_again_later_and_kept_as_what_it_is(weboid: WeboidRunner) -> None:
    """Three attempts; then the capture stays, with its class and its evidence."""
    url = f"{RULES}/challenge"
    ran = weboid.archive(url)
    status = weboid.call("status", "--json").events[0]

    retries = [event for event in ran.events if event["event"] == "retry"]
    assert [event["reason"] for event in retries] == ["challenge", "challenge"]
    assert ran.pages[url]["outcome"] == "complete"
    query = "SELECT page_class, class_evidence LIKE '%cf-mitigated%' FROM pages"
    assert index(weboid.collection, query) == [("challenge", 1)]
    assert status["classes"] == {"challenge": 1}


def test_a_collection_in_use_by_another_process_is_refused(
    weboid: WeboidRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code says so."""
    monkeypatch.setattr("crawler.collection.LOCK_WAIT_S", 0.1)
    make_collection(Layout(weboid.collection), SystemClock())
    with (weboid.collection / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = weboid.call("archive", PLAIN)

    assert ran.code == 5
    assert "Another process" in ran.err


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ((), "", "Name what to archive"),
        (("--list", "-"), "", "empty"),
        (("--list", "-"), "# only a comment\n", ""),
        (("--list", "nowhere.txt"), "", "nowhere.txt"),
        (("--profile", "unknown", "http://a.example/"), "", "default"),
        (("not a url",), "", "nothing to archive"),
        (("--workers", "0", "http://a.example/"), "", "--workers"),
    ],
)
def test_bad_input_ends_with_a_sentence_and_code_2(
    weboid: WeboidRunner, arguments: tuple[str, ...], given: str, words: str
) -> None:
    """Nothing is made, nothing is lost, and the text says what to mend."""
    ran = weboid.call("archive", *arguments, given=given)

    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert not weboid.collection.exists()


def test_ctrl_c_finishes_the_pages_begun_and_the_next_run_goes_on(weboid_with: Callable[..., WeboidRunner]) -> None:
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
    process.communicate(timeout=120)
    rest = weboid.archive(*urls)
    done = [line for line in lines if '"event": "page"' in line]
    check(weboid.collection)

    assert process.returncode == 6
    assert 0 < len(done) < 8
    assert len(done) + len(rest.pages) == 8
    assert index(weboid.collection, "SELECT count(*), count(DISTINCT url) FROM pages") == [(8, 8)]


def test_sigterm_to_the_process_group_finishes_the_pages_begun(weboid: WeboidRunner) -> None:
    """A unit's KillMode=control-group and timeout(1) signal every process; the proxy goes on to the end."""
    urls = [f"{RULES}/slow/first-byte/1?{number}" for number in range(16)]
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), "--workers", "2", *urls)
    assert process.stdout is not None
    for line in process.stdout:
        if '"event": "page"' in line:
            os.killpg(process.pid, signal.SIGTERM)
            break
    out, err = process.communicate(timeout=120)

    assert process.returncode == 6
    assert "proxy.died" not in err
    assert '"event": "retry"' not in out
    check(weboid.collection)


def test_a_reader_that_closes_the_pipe_stops_the_run(weboid: WeboidRunner) -> None:
    """As Ctrl-C does, once and without a word: `weboid archive --json … | grep -m1 page`."""
    urls = [f"{RULES}/slow/first-byte/1?{number}" for number in range(16)]
    given = ("--json", "--profile", str(weboid.profile), "--workers", "2")
    with weboid.start("archive", *given, *urls) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert next(line for line in process.stdout if '"event": "page"' in line)
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(timeout=120)
    left = weboid.call("status", "--json").events[0]
    check(weboid.collection)

    assert process.returncode == 6
    assert "Broken" not in errors
    assert left["queued"] > 0


def test_a_second_ctrl_c_stops_at_once_and_leaves_nothing_running(weboid: WeboidRunner) -> None:
    """A page that takes long does not hold the user; every WARC is whole."""
    url = f"{RULES}/slow/first-byte/30"
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), url)
    assert process.stdout is not None
    assert '"started"' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert '"stopping"' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    rest = weboid.call("status", "--json").events[0]

    assert process.returncode == 6
    assert (rest["queued"], rest["in_use"]) == (1, False)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_refusals_that_are_kept_add_up(weboid_with: Callable[..., WeboidRunner]) -> None:
    """Each archived 503 blocks its host twice as long as the one before; as answers they count for none."""
    weboid = weboid_with(frontier={"attempts": 1}, politeness={"host_retry_s": 0.05})
    ran = weboid.archive(*(f"{RULES}/status/503?{number}" for number in range(2)))
    with SqliteFrontier(Layout(weboid.collection).frontier_db) as frontier:
        report = frontier.host(host_of(RULES), now=SystemClock().now())

    assert [page["status"] for page in ran.pages.values()] == [503, 503]
    assert report is not None
    assert report.failures == 2


def test_stored_levels_hold_for_the_next_visit_unless_the_run_says_otherwise(
    weboid: WeboidRunner, web: TestWeb
) -> None:
    """`weboid level set --store` for a domain, then `--store` for a run: manifest, WARC and size say so."""
    first, second = web.gallery(301), web.gallery(302)
    make_collection(Layout(weboid.collection), SystemClock())
    at = ("--collection", str(weboid.collection))
    words = ("level", "set", "--store", "text", "--domain", hosts.GALLERY, *at)
    assert weboid.call(*words).code == 0
    assert weboid.archive(first, PLAIN).code == 0
    assert weboid.archive(second, "--store", "no-media").code == 0

    warc_records = records(weboid.collection)
    manifests = {
        target.partition(":")[2].partition(":")[2]: json.loads(payload)
        for kind, target, _, payload in warc_records
        if target.startswith("urn:pageinfo:")
    }
    images = {target for kind, target, *_ in warc_records if kind == "response" and target.endswith(".png")}
    wanted = {url for url in web.gallery_subresources(302) if url.endswith(".png")}
    assert wanted
    assert images == wanted
    assert manifests[PLAIN]["stored"] == "everything"
    assert (manifests[first]["stored"], manifests[first]["outcome"]) == ("text", "complete")
    assert manifests[first]["left_out"] >= len(wanted)
    assert not manifests[first]["missing"]
    assert (manifests[second]["stored"], manifests[second]["left_out"]) == ("no-media", 0)
    assert manifests[first]["stored_bytes"] < manifests[second]["stored_bytes"] / 2
