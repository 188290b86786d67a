"""`weboid status`, `index rebuild`, `doctor`, `serve` and the command line itself."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.commands import Weboid
from tests.support.services.clamav import ClamdServer
from tests.weboid.cli.crawl.test_crawl_runs import RULES, index

pytestmark = [pytest.mark.browser, pytest.mark.proxy]


def test_status_counts_what_the_collection_holds(weboid: Weboid) -> None:
    """Pages by outcome, captures by type, what is left, for people and for machines."""
    weboid.archive(f"{RULES}/page/plain", f"{RULES}/broken/empty")
    status = json.loads(weboid.run("status", "--json").out)
    told = weboid.run("status")

    assert status["outcomes"] == {"complete": 1, "failed": 1}
    assert (status["done"], status["dead"], status["in_use"]) == (1, 1, False)
    assert status["responses"] >= 1
    assert status["artifacts"] == 7
    assert status["bytes_per_page"] == status["warc_bytes"]
    assert told.code == 0
    assert "1 complete, 1 failed" in told.out
    assert " a page" in told.out
    assert f"{RULES}/broken/empty" in told.out


def test_the_index_is_made_again_as_it_was(weboid: Weboid) -> None:
    """`index rebuild` reads nothing but the WARCs."""
    weboid.archive(f"{RULES}/page/plain", f"{RULES}/frames", f"{RULES}/status/404")
    query = "SELECT url, captured_ms, record_type, digest, filename, offset FROM captures"
    before = index(weboid.collection, f"{query} ORDER BY filename, offset")
    for path in (weboid.collection / "db").glob("captures.sqlite*"):
        path.unlink()
    ran = weboid.run("index", "rebuild")

    assert ran.code == 0
    assert f"{len(before)} captures of 3 pages" in ran.out
    assert index(weboid.collection, f"{query} ORDER BY filename, offset") == before
    again = weboid.archive(f"{RULES}/page/plain")
    assert again.summary["outcomes"] == {}


def test_the_doctor_starts_what_it_reports(weboid: Weboid) -> None:
    """Browser, sandbox, proxy, replay, disk: each found well, or with its remedy."""
    ran = weboid.run("doctor", "--json")
    findings = {each["subject"]: each for each in json.loads(ran.out)}

    assert ran.code == 0
    parts = {"python", "browser", "sandbox", "proxy", "level full", "memory", "disk"}
    assert parts | {"fonts", "limits", "clock", "scanner"} <= set(findings)
    assert findings["sandbox"]["health"] == "good"


def test_the_doctor_tells_of_a_collection_that_anybody_can_read(weboid: Weboid) -> None:
    """As older releases made them; what archiving writes into it now is no longer for all."""
    weboid.archive(f"{RULES}/page/plain")
    files = [path for path in weboid.collection.rglob("*") if path.is_file()]
    private = weboid.run("doctor", "--json").out
    weboid.collection.chmod(0o755)
    found = {each["subject"]: each for each in json.loads(weboid.run("doctor", "--json").out)}

    assert '"privacy"' not in private
    assert found["privacy"]["health"] == "warn"
    assert found["privacy"]["remedy"].startswith("Run: chmod 700 ")
    assert [path.name for path in files if path.stat().st_mode & 0o007] == []


def test_the_doctor_says_whether_a_virus_scanner_answers(
    weboid: Weboid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one it warns, with the package to install; nothing else fails for that."""
    monkeypatch.setenv("WEBOID_CLAMD", "unix:/nowhere/clamd.ctl")
    ran = weboid.run("doctor", "--json")
    found = {each["subject"]: each for each in json.loads(ran.out)}["scanner"]
    assert (ran.code, found["health"]) == (0, "warn")
    assert "does not answer" in found["text"]


def test_what_was_archived_is_scanned_after_the_run(
    weboid: Weboid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where clamd is found, and unless --no-scan says otherwise."""
    clamd = ClamdServer()
    try:
        monkeypatch.setenv("WEBOID_CLAMD", clamd.address)
        skipped = weboid.archive("--no-scan", f"{RULES}/page/plain")
        ran = weboid.archive(f"{RULES}/page/plain", "--again")
    finally:
        clamd.stop()
    assert "payloads of" not in skipped.err
    assert "scanned with ClamAV" in ran.err
    assert ran.summary["outcomes"] == {"complete": 1}


def test_the_doctor_says_what_to_do_about_a_missing_browser(weboid: Weboid) -> None:
    """The exit code says that something must be installed; the text says what."""
    profile = weboid.folder / "lost.toml"
    profile.write_text('[browser]\nexecutable = "/nowhere/chromium"\n')
    ran = weboid.run("doctor", "--profile", str(profile))
    archiving = weboid.run("archive", "--profile", str(profile), f"{RULES}/page/plain")

    assert ran.code == 3
    assert "/nowhere/chromium" in ran.out
    assert archiving.code == 3
    assert "/nowhere/chromium" in archiving.err


@pytest.mark.playback
def test_serve_prints_one_address_and_shows_what_is_being_archived(weboid: Weboid) -> None:
    """The copy is there while the collection is in use; SIGTERM ends front and replay."""
    url = f"{RULES}/page/plain"
    weboid.archive(url)
    process = weboid.start("serve", "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    try:
        page = httpx.get(f"{address}/latest/{url}", follow_redirects=True)
        weboid.archive(f"{RULES}/frames")
        listing = httpx.get(address)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)

    assert address.startswith("http://127.0.0.1:")
    assert page.status_code == 200
    assert "<iframe" in page.text
    assert f"{RULES}/frames" in listing.text
    assert (process.returncode, out) == (0, ""), err


@pytest.mark.parametrize("command", ["status", "serve"])
def test_what_is_no_collection_is_refused_with_a_sentence(weboid: Weboid, command: str) -> None:
    """Nothing is made by looking."""
    ran = weboid.run(command, "--collection", "nowhere")

    assert ran.code == 3
    assert "no collection at nowhere" in ran.err
    assert not Path(weboid.folder / "nowhere").exists()


def test_an_unknown_setting_is_named(weboid: Weboid) -> None:
    """A typing error in a profile is never a default."""
    profile = weboid.folder / "typo.toml"
    profile.write_text("[visit]\ntimeout = 5\n")
    ran = weboid.run("archive", "--profile", str(profile), f"{RULES}/page/plain")

    assert ran.code == 2
    assert "unknown keys: timeout" in ran.err
    assert not weboid.collection.exists()


def test_a_terminal_less_run_prints_one_line_a_page(weboid: Weboid) -> None:
    """Outcome, status, records, bytes, seconds, URL; then the summary."""
    ran = weboid.run(
        "archive", "--profile", str(weboid.profile), f"{RULES}/page/plain", f"{RULES}/status/404"
    )
    lines = [line for line in ran.out.splitlines() if line.startswith("[")]

    assert len(lines) == 2
    assert all(" records " in line and " s  http" in line for line in lines)
    assert ran.out.splitlines()[-1].startswith("Pages: 2 complete.")


def test_a_dry_run_does_nothing(weboid: Weboid) -> None:
    """It reads the list and says what would be done."""
    ran = weboid.run("archive", "--dry-run", f"{RULES}/page/plain", "no url")

    assert ran.code == 1
    assert "1 URLs would be archived" in ran.out
    assert not weboid.collection.exists()


def test_a_page_is_archived_again_when_it_is_due_and_readers_see_both(
    weboid_with: Callable[..., Weboid],
) -> None:
    """`[recrawl] every`, a run that stays, and the list of captures that the front shows."""
    weboid = weboid_with(recrawl={"every": "2s"}, policy={"robots": "ignore"})
    url = f"{RULES}/page/plain"
    profile = ("--profile", str(weboid.profile))
    process = weboid.start("archive", "--stay", "--no-scan", "--json", *profile, url)
    assert process.stdout is not None
    visited = 0
    for line in process.stdout:
        visited += json.loads(line)["event"] == "page"
        if visited == 2:
            break
    process.send_signal(signal.SIGTERM)
    process.communicate()
    server = weboid.start("serve", "--no-scan")
    assert server.stdout is not None
    try:
        origin = server.stdout.readline().strip()
        found = httpx.get(f"{origin}/timemap/link/{url}").text
        told = httpx.get(f"{origin}/url/{url}").text
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate()
    assert found.count('memento"') + found.count("memento;") >= 2, found
    assert told.count("/page/2") >= 2
