"""`weboid status`, `collection rebuild`, `doctor`, `serve` and the command line itself."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import loopback
from tests.support.commands import CommandResult, WeboidRunner, profile_for
from tests.support.services.clamav import ClamdServer
from tests.support.services.ports import free_port
from tests.support.sites.web import TestWeb
from tests.support.stored_records import RULES, index

pytestmark = [pytest.mark.browser, pytest.mark.proxy]


PLAIN, EMPTY = f"{RULES}/page/plain", f"{RULES}/broken/empty"


@pytest.fixture(scope="module")
def archived(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> tuple[WeboidRunner, CommandResult]:
    """Archive three pages without a terminal; tests must not change the collection."""
    folder = tmp_path_factory.mktemp("archived")
    weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml"))
    urls = (PLAIN, f"{RULES}/status/404", EMPTY)
    return weboid, weboid.run("archive", "--profile", str(weboid.profile), *urls)


@pytest.fixture
def copied(archived: tuple[WeboidRunner, CommandResult], tmp_path: Path) -> WeboidRunner:
    """Return a runner in a folder of its own with a copy of that collection."""
    shutil.copytree(archived[0].collection, tmp_path / "collection")
    return WeboidRunner(tmp_path, archived[0].profile)


def test_a_terminal_less_run_prints_one_line_a_page(archived: tuple[WeboidRunner, CommandResult]) -> None:
    """Outcome, status, records, bytes, seconds, URL; then the summary."""
    lines = archived[1].out.splitlines()
    pages = [line for line in lines if line.startswith("[")]

    assert len(pages) == 3
    assert all(" records " in line and " s  http" in line for line in pages if EMPTY not in line)
    assert [line for line in lines if line.startswith("Pages: 2 complete, 1 failed.")]


def test_status_counts_what_the_collection_holds(archived: tuple[WeboidRunner, CommandResult]) -> None:
    """Pages by outcome, captures by type, what is left, for people and for machines."""
    weboid = archived[0]
    status = json.loads(weboid.call("status", "--json").out)
    text = weboid.call("status").out

    assert status["outcomes"] == {"complete": 2, "failed": 1}
    assert (status["done"], status["dead"], status["in_use"]) == (2, 1, False)
    assert status["responses"] >= 2
    assert status["artifacts"] == 13
    assert abs(2 * status["bytes_per_page"] - status["warc_bytes"]) <= 2
    assert "2 complete, 1 failed" in text
    assert " a page" in text
    assert EMPTY in text


def test_the_index_is_made_again_as_it_was(copied: WeboidRunner) -> None:
    """`collection rebuild` reads nothing but the WARCs."""
    query = "SELECT url, captured_ms, record_type, digest, filename, offset FROM captures"
    before = index(copied.collection, f"{query} ORDER BY filename, offset")
    for path in (copied.collection / "db").glob("captures.sqlite*"):
        path.unlink()
    ran = copied.call("collection", "rebuild")

    assert ran.code == 0
    assert f"{len(before)} captures of 3 pages" in ran.out
    assert index(copied.collection, f"{query} ORDER BY filename, offset") == before


def test_the_doctor_starts_what_it_reports(copied: WeboidRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Browser, sandbox, proxy, replay, disk: each found well, or with its remedy.

    A collection that all users can read, as older releases made them, gets a warning; so does a
    virus scanner that does not answer.
    """
    files = [path for path in copied.collection.rglob("*") if path.is_file()]
    copied.collection.chmod(0o700)
    ran = copied.call("doctor", "--json")
    findings = {each["subject"]: each for each in json.loads(ran.out)}

    assert ran.code == 0
    parts = {"python", "browser", "sandbox", "level full", "memory", "disk"}
    assert parts | {"fonts", "limits", "clock", "scanner"} <= set(findings)
    assert findings["sandbox"]["health"] == "good"
    assert "privacy" not in findings
    assert [path.name for path in files if path.stat().st_mode & 0o007] == []

    monkeypatch.setenv("WEBOID_CLAMD", "unix:/nowhere/clamd.ctl")
    copied.collection.chmod(0o755)
    again = copied.call("doctor", "--json")
    findings = {each["subject"]: each for each in json.loads(again.out)}

    assert again.code == 0
    assert findings["privacy"]["health"] == findings["scanner"]["health"] == "warn"
    assert findings["privacy"]["remedy"].startswith("Run: chmod 700 ")
    assert "does not answer" in findings["scanner"]["text"]


def test_what_was_archived_is_scanned_after_the_run(copied: WeboidRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads are scanned where clamd is found, unless `--no-scan` is given."""
    clamd = ClamdServer()
    try:
        monkeypatch.setenv("WEBOID_CLAMD", clamd.address)
        skipped = copied.archive("--no-scan", PLAIN)
        ran = copied.archive(PLAIN)
    finally:
        clamd.stop()
    assert "payloads of" not in skipped.err
    assert "scanned with ClamAV" in ran.err


def test_the_doctor_says_what_to_do_about_a_missing_browser(
    weboid: WeboidRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code says that something must be installed; the text says what."""
    monkeypatch.delenv("WEBOID_BROWSER", raising=False)
    profile = weboid.folder / "lost.toml"
    profile.write_text('[browser]\nexecutable = "/nowhere/chromium"\n')
    ran = weboid.call("doctor", "--profile", str(profile))
    archiving = weboid.run("archive", "--profile", str(profile), f"{RULES}/page/plain")

    assert ran.code == 3
    assert "/nowhere/chromium" in ran.out
    assert archiving.code == 3
    assert "/nowhere/chromium" in archiving.err


def test_the_doctor_says_what_to_do_about_a_program_that_is_no_browser(
    weboid: WeboidRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And about stores that options or variables name."""
    monkeypatch.delenv("WEBOID_BROWSER", raising=False)
    profile = weboid.folder / "wrong.toml"
    profile.write_text('[browser]\nexecutable = "/bin/true"\n')

    ran = weboid.call(
        "doctor", "--profile", str(profile), "--frontier", f"redis://127.0.0.1:{free_port()}/0?frontier=x"
    )

    assert ran.code == 3
    assert "The browser exited during start-up. Its output: nothing. Run `weboid setup browser`" in ran.out
    assert "Start Redis there" in ran.out


@pytest.mark.playback
def test_serve_prints_one_address_and_shows_what_is_being_archived(copied: WeboidRunner) -> None:
    """The copy is there while the collection is in use; SIGTERM ends front and replay."""
    url = PLAIN
    process = copied.start("serve", "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    try:
        page = loopback.get(f"{address}/latest/{url}", follow_redirects=True)
        copied.archive(f"{RULES}/frames")
        listing = loopback.get(address)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)

    assert address.startswith("http://127.0.0.1:")
    assert page.status_code == 200
    assert "<iframe" in page.text
    assert f"{RULES}/frames" in listing.text
    assert (process.returncode, out) == (0, ""), err


@pytest.mark.parametrize("command", ["status", "serve"])
def test_what_is_no_collection_is_refused_with_a_sentence(weboid: WeboidRunner, command: str) -> None:
    """Nothing is made by looking."""
    ran = weboid.call(command, "--collection", "nowhere")

    assert ran.code == 3
    assert "no collection at nowhere" in ran.err
    assert not Path(weboid.folder / "nowhere").exists()


def test_an_unknown_setting_is_named(weboid: WeboidRunner) -> None:
    """A typing error in a profile is never a default."""
    profile = weboid.folder / "typo.toml"
    profile.write_text("[visit]\ntimeout = 5\n")
    ran = weboid.call("archive", "--profile", str(profile), PLAIN)

    assert ran.code == 2
    assert "unknown keys: timeout" in ran.err
    assert not weboid.collection.exists()


def test_a_dry_run_does_nothing(weboid: WeboidRunner) -> None:
    """It reads the list and says what would be done."""
    ran = weboid.call("archive", "--dry-run", f"{RULES}/page/plain", "no url")

    assert ran.code == 1
    assert "1 URL would be archived" in ran.out
    assert not weboid.collection.exists()


def test_a_page_is_archived_again_when_it_is_due_and_readers_see_both(weboid_with: Callable[..., WeboidRunner]) -> None:
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
        timemap = loopback.get(f"{origin}/timemap/link/{url}").text
        history = loopback.get(f"{origin}/url/{url}").text
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate()
    assert timemap.count('memento"') + timemap.count("memento;") >= 2, timemap
    assert history.count("/page/2") >= 2
