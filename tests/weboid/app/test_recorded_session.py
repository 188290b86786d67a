"""Tests of `weboid.app.recorded_session` and `weboid record`."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from bench.certificate import write_certificate
from core.clock import SystemClock
from core.config.settings import EgressSettings, ProxySettings, Settings
from core.errors import BrowserUnavailableError
from core.hosts import ProxyEndpoint
from core.layout import Layout
from core.page_manifest import VisitOutcome
from proxy.request_log import RequestLogEntry
from render.chromium import find_browser, find_window_browser
from render.sign_in import ShownPage, open_recorded_window
from tests.support.commands import WeboidRunner
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ScriptedOrigin, check, ok, records
from tests.support.services.processes import arguments
from weboid.app.recorded_session import (
    SessionAccess,
    SessionCounts,
    SessionResult,
    record_session,
    run_command,
    session_visits,
)

pytestmark = pytest.mark.proxy

CLOCK = SystemClock()
NO_ICON = b"<link rel=icon href='data:,'>"  # whose request may be under way when the browser ends
PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9" fill="red"/></svg>'
FETCH_URLLIB = "import sys, urllib.request as r; [r.urlopen(each).read() for each in sys.argv[1:]]"
FETCH_HTTPX = "import sys, httpx; [httpx.get(each).raise_for_status() for each in sys.argv[1:]]"
COMMANDS = {
    "curl": ["curl", "--silent", "--show-error", "--fail", "--output", "/dev/null", "--output", "/dev/null"],
    "wget": ["wget", "--quiet", "--output-document", "/dev/null"],
    "urllib": [sys.executable, "-c", FETCH_URLLIB],
    "httpx": [sys.executable, "-c", FETCH_HTTPX],
}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScriptedOrigin, ScriptedOrigin, Settings]]:
    """Serve a plain and a TLS origin; yield them and settings under which they are reachable by name."""
    certificate = write_certificate(tmp_path_factory.mktemp("tls") / "origin.pem", "secure.example")
    plain, secure = ScriptedOrigin(), ScriptedOrigin(certificate)
    plain.answers["/"] = ok(
        b"<!doctype html><title>First</title>" + NO_ICON + b"<img src=/red.svg><a href=/second>go</a>"
    )
    plain.answers["/second"] = ok(b"<!doctype html><title>Second</title>" + NO_ICON + b"<p>second")
    # Its title changes when the window has been looked at, which happens once a second.
    plain.answers["/window"] = ok(
        b"<!doctype html><title>Window</title>" + NO_ICON + b"<p>third"
        b"<script>setTimeout(() => { document.title = 'Seen'; }, 4000)</script>"
    )
    plain.answers["/red.svg"] = ok(PICTURE, mime="image/svg+xml")
    secure.answers["/data"] = ok(b"{}", mime="application/json")
    resolve = {"site.example": f"127.0.0.1:{plain.port}", "secure.example:443": f"127.0.0.1:{secure.port}"}
    egress = EgressSettings(allow=("127.0.0.0/8",), resolve=resolve, ca_file=str(certificate))
    yield plain, secure, Settings(egress=egress, proxy=ProxySettings(disk_reserve_bytes=0, seal_grace_s=1.0))
    plain.close()
    secure.close()


@pytest.fixture
def weboid(sites: tuple[ScriptedOrigin, ScriptedOrigin, Settings], tmp_path: Path) -> WeboidRunner:
    """Return a runner with a profile under which the origins are reachable."""
    egress = sites[2].egress
    resolve = ", ".join(f'"{name}" = "{address}"' for name, address in egress.resolve.items())
    (tmp_path / "profile.toml").write_text(
        f'[egress]\nallow = ["127.0.0.0/8"]\nresolve = {{{resolve}}}\nca_file = "{egress.ca_file}"\n'
        "[proxy]\ndisk_reserve_bytes = 0\n"
    )
    return WeboidRunner(tmp_path, tmp_path / "profile.toml")


def record(weboid: WeboidRunner, *command: str, profile: str = "") -> tuple[int, dict[str, object], str]:
    """Run `weboid record -- COMMAND` and return (exit code, facts, error output)."""
    ran = weboid.run("record", "--json", "--profile", profile or str(weboid.profile), "--", *command)
    return ran.code, json.loads(ran.out.splitlines()[-1]), ran.err


def test_requests_of_a_command_are_a_page(weboid: WeboidRunner) -> None:
    """Its clients find proxy and certificate in the environment; the first document names the page."""
    urls_by_client = {
        client: [f"https://secure.example/data?{client}", f"http://site.example/?{client}"] for client in COMMANDS
    }
    script = " && ".join(shlex.join([*COMMANDS[client], *urls]) for client, urls in urls_by_client.items())
    code, facts, err = record(weboid, "sh", "-c", script)
    written = records(Layout(weboid.collection))
    check(Layout(weboid.collection))

    page = urls_by_client["curl"][1]
    assert (code, facts["requests"], facts["failed"]) == (0, 2 * len(COMMANDS), 0), err
    assert [each["url"] for each in facts["pages"]] == [page]  # type: ignore[attr-defined]
    assert {each.url for each in written if each.kind in ("response", "revisit")} == {
        url for urls in urls_by_client.values() for url in urls
    }
    assert [each.url for each in written if each.kind == "resource"] == [f"urn:pageinfo:{page}"]


def test_the_exit_status_of_the_command_is_passed_on(weboid: WeboidRunner) -> None:
    """So that a script notices; what was requested before is archived."""
    code, facts, _ = record(weboid, "sh", "-c", "curl -s http://site.example/ >/dev/null; exit 7")

    assert (code, facts["exit_status"], facts["requests"]) == (7, 7, 1)


def test_a_command_that_does_not_exist_is_an_input_error(weboid: WeboidRunner) -> None:
    """No page is made."""
    ran = weboid.call("record", "--", "no-such-command")

    assert ran.code == 2
    assert "no-such-command cannot be run" in ran.err


def test_private_addresses_are_refused_as_for_visits(
    weboid: WeboidRunner, sites: tuple[ScriptedOrigin, ScriptedOrigin, Settings]
) -> None:
    """The address policy is the profile's: [egress] allow."""
    (weboid.folder / "strict.toml").write_text("[proxy]\ndisk_reserve_bytes = 0\n")
    url = f"http://127.0.0.1:{sites[0].port}/"
    code, facts, _ = record(weboid, "curl", "-s", url, profile=str(weboid.folder / "strict.toml"))

    assert (code, facts["pages"], facts["failed"]) == (1, [], 1)


@asynccontextmanager
async def recording(
    root: Path, settings: Settings, clients: Callable[[SessionAccess], object]
) -> AsyncIterator[SessionResult]:
    async def run(access: SessionAccess) -> Sequence[ShownPage]:
        return await clients(access)  # type: ignore[misc,no-any-return]

    counts: list[SessionCounts] = []
    yield await record_session(root, settings, run, clock=CLOCK, on_counts=counts.append)
    assert counts


@pytest.mark.browser
async def test_each_page_that_a_window_shows_has_its_manifest_and_picture(
    sites: tuple[ScriptedOrigin, ScriptedOrigin, Settings], tmp_path: Path
) -> None:
    """The browser's only way is the recorder; nobody types its credentials."""

    async def look(access: SessionAccess) -> Sequence[ShownPage]:
        opening = open_recorded_window(
            "http://site.example/", find_browser(), screen=None, proxy=access.endpoint, spki=access.spki, clock=CLOCK
        )
        async with opening as window:
            async with asyncio.timeout(120):
                for title, following in (("First", "http://site.example/second"), ("Second", "")):
                    while not (window.pages and window.pages[-1].title == title):
                        await window.update()
                        await asyncio.sleep(0.05)
                    if following:
                        await window.send("Page.navigate", {"url": following})
            return window.pages

    async with recording(tmp_path / "c", sites[2], look) as result:
        first, second = result.pages
    written = records(Layout(tmp_path / "c"))
    manifests = [json.loads(each.payload) for each in written if each.url.startswith("urn:pageinfo:")]

    assert [(each.url, each.title, each.outcome) for each in result.pages] == [
        ("http://site.example/", "First", VisitOutcome.COMPLETE),
        ("http://site.example/second", "Second", VisitOutcome.COMPLETE),
    ]
    assert first.artifacts == second.artifacts == ("view", "thumbnail", "text")
    assert "http://site.example/red.svg" in {each.url for each in first.resources}
    assert {each["page_id"] for each in manifests} == {first.page_id, second.page_id}
    pictures = [each for each in written if each.url.startswith("urn:view:")]
    assert [each.headers["WARC-Page-ID"] for each in pictures] == [first.page_id, second.page_id]


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("Xvfb", "xdotool"))), reason="needs Xvfb and xdotool")
def test_a_window_on_a_screen_is_recorded(
    sites: tuple[ScriptedOrigin, ScriptedOrigin, Settings], weboid: WeboidRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person types addresses and opens tabs; what the browser itself sends is not archived, and its crash loses nothing."""
    try:
        find_window_browser()
    except BrowserUnavailableError as error:
        pytest.skip(str(error))
    origin = sites[0]
    origin.requests.clear()
    with ExitStack() as stack:
        screen = stack.enter_context(
            subprocess.Popen(["Xvfb", "-displayfd", "1", "-nolisten", "tcp"], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(screen.terminate)
        assert screen.stdout is not None
        monkeypatch.setenv("DISPLAY", f":{screen.stdout.readline().strip()}")
        process = stack.enter_context(
            weboid.start("record", "--json", "--profile", str(weboid.profile), "http://site.example/")
        )
        stack.callback(process.kill)
        wait_until(lambda: b"/red.svg" in b"".join(origin.requests))
        # The address bar asks search engines about what is typed, and stores nothing here.
        for words in ("key ctrl+t", "type site.example/window", "key Return"):
            subprocess.run(["xdotool", *words.split()], check=True)
        title = ["xdotool", "search", "--sync", "--onlyvisible", "--name", "^Seen"]
        subprocess.run(title, check=True, stdout=subprocess.DEVNULL, timeout=weboid.limit_s)
        (browser,) = (
            each
            for each in psutil.Process(process.pid).children(recursive=True)
            if "--no-startup-window" in (command := arguments(each)) and "--type=" not in command
        )
        browser.kill()
        out, errors = process.communicate(timeout=weboid.limit_s)
    facts = json.loads(out.splitlines()[-1])
    search = weboid.call("search", "third")

    assert (process.returncode, facts["failed"]) == (0, 0), errors
    assert [(each["url"], each["outcome"]) for each in facts["pages"]] == [
        ("http://site.example/", "complete"),
        ("http://site.example/window", "complete"),
    ]
    assert {urlsplit(each.url).hostname for each in records(Layout(weboid.collection)) if each.kind == "response"} == {
        "site.example"
    }
    assert "http://site.example/window" in search.out


async def test_the_environment_has_one_session_only(
    sites: tuple[ScriptedOrigin, ScriptedOrigin, Settings], tmp_path: Path
) -> None:
    """Credentials are the session's, those of an earlier proxy and exceptions from it are gone; later they are refused."""
    seen: list[SessionAccess] = []

    async def ask(access: SessionAccess) -> Sequence[ShownPage]:
        seen.append(access)
        inherited = {"NO_PROXY": "*", "no_proxy": "localhost", "https_proxy": "http://other/", "HOME": "/h"}
        environment = access.environment(inherited)
        assert {name.lower(): value for name, value in environment.items() if "proxy" in name.lower()} == {
            "http_proxy": access.url,
            "https_proxy": access.url,
            "all_proxy": access.url,
            "weboid_record_proxy": access.endpoint.server,
            "node_use_env_proxy": "1",
        }
        assert environment["HOME"] == "/h"
        assert b"PRIVATE" not in Path(environment["SSL_CERT_FILE"]).read_bytes()
        assert (
            await run_command(["curl", "-s", "-o", "/dev/null", "http://site.example/"], access, asyncio.Event()) == 0
        )
        return ()

    async with recording(tmp_path / "c", sites[2], ask) as result:
        assert len(result.pages) == 1
    assert not seen[0].authority.exists()


async def test_a_stop_ends_the_command(sites: tuple[ScriptedOrigin, ScriptedOrigin, Settings], tmp_path: Path) -> None:
    """Requests from before the stop are archived."""

    async def ask(access: SessionAccess) -> Sequence[ShownPage]:
        stop = asyncio.Event()
        sites[0].arrived.clear()
        command = ["sh", "-c", "curl -s -o /dev/null http://site.example/second; exec sleep 600"]
        running = asyncio.create_task(run_command(command, access, stop))
        assert await asyncio.to_thread(sites[0].arrived.wait, 60)
        stop.set()
        assert await running == -15
        return ()

    async with recording(tmp_path / "c", sites[2], ask) as result:
        assert [each.url for each in result.pages] == ["http://site.example/second"]


async def test_a_command_that_ctrl_c_has_ended_has_its_own_status(tmp_path: Path) -> None:
    """A terminal's signal reaches it, too; on one processor nobody has noticed its end when ours is sent."""
    access = SessionAccess(ProxyEndpoint("127.0.0.1", 9, "u", "p"), tmp_path / "authority.pem", "")
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        for _ in range(20):
            stop = asyncio.Event()
            running = asyncio.create_task(run_command(["sleep", "600"], access, stop))
            started: list[psutil.Process] = []
            while not started:
                await asyncio.sleep(0)
                started = [each for each in psutil.Process().children() if arguments(each) == "sleep 600"]
            os.kill(started[0].pid, signal.SIGINT)
            dead_at = CLOCK.monotonic() + 0.003
            while CLOCK.monotonic() < dead_at:  # no thread of this process runs meanwhile
                pass
            stop.set()
            assert await running == -signal.SIGINT
    finally:
        os.sched_setaffinity(0, processors)


def entry(url: str, *, mime: str = "text/html", status: int | None = 200) -> RequestLogEntry:
    """Return the log entry of a finished request."""
    return RequestLogEntry(url, "GET", 1_700_000_000_000, status=status, mime=mime)


def test_the_first_document_names_the_page_of_a_command() -> None:
    """Else the first success, else the first answer; without any there is no page."""
    data, page = entry("http://a/data", mime="application/json"), entry("http://a/page")
    bad, none = entry("http://a/bad", status=404), entry("http://a/none", status=None)

    def url(*entries: RequestLogEntry) -> list[str]:
        return [seen.url for seen, _ in session_visits((), entries, now=CLOCK.now())]

    assert url(none, bad, data, page) == ["http://a/page"]
    assert url(none, bad, data) == ["http://a/data"]
    assert url(none, bad) == ["http://a/bad"]
    assert url(none) == []


def test_requests_belong_to_the_page_shown_at_their_time() -> None:
    """A page from the browser's cache has no document of its own, and joins the one before."""
    entries = [
        entry("http://a/login"),
        entry("http://a/1"),
        entry("http://a/x.js", mime="text/javascript"),
        entry("http://a/2"),
    ]
    shown = [ShownPage(url, CLOCK.now()) for url in ("http://a/1", "http://a/2", "http://a/1")]
    visits = session_visits(shown, entries, now=CLOCK.now())

    assert [(seen.url, [each.url for each in own]) for seen, own in visits] == [
        ("http://a/1", ["http://a/login", "http://a/1", "http://a/x.js"]),
        ("http://a/2", ["http://a/2"]),
    ]


def test_the_answer_that_asks_for_a_password_is_not_the_page() -> None:
    """The tab shows what follows it; a 401 that it shows is a page of its own."""
    entries = [entry("http://a/1", status=401), entry("http://a/1")]
    once, twice = ([ShownPage("http://a/1", CLOCK.now())] * times for times in (1, 2))

    assert [seen.status for seen, _ in session_visits(once, entries, now=CLOCK.now())] == [200]
    assert [seen.status for seen, _ in session_visits(twice, entries, now=CLOCK.now())] == [401, 200]


def test_without_a_window_the_way_to_the_recorder_is_printed(weboid: WeboidRunner) -> None:
    """For a browser of the user's own; a stop signal ends the session."""
    process = weboid.start("record", "--no-window", "--profile", str(weboid.profile))
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(5)]
    given = {line.split()[-2] if "name" in line else line.split()[0]: line.split()[-1] for line in lines[:4]}
    server = lines[0].split()[-1]
    command = ["curl", "-s", "-o", "/dev/null", "-x", server, "-U", f"{given['name']}:{given['password']}"]
    subprocess.run([*command, "--cacert", given["certificate"], "https://secure.example/data"], check=True, timeout=120)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 0, errors
    assert "1 request to 1 host" in errors
    assert "  https://secure.example/data" in errors


def test_a_second_signal_ends_a_session_at_once(weboid: WeboidRunner) -> None:
    """Without a traceback; the first failures are named with their reasons."""
    refused = weboid.call("record", "--profile", str(weboid.profile), "--", "curl", "-s", "http://10.0.0.1/")
    process = weboid.start("record", "--no-window", "--profile", str(weboid.profile))
    assert process.stderr is not None
    for _ in range(5):
        process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)

    assert "  failed: http://10.0.0.1/ (address: " in refused.err
    assert (process.returncode, "Traceback" in errors) in ((6, False), (1, False))  # 1: it had ended before


def test_a_signal_while_the_recorder_starts_ends_the_session(weboid: WeboidRunner) -> None:
    """A terminal's Ctrl-C goes to the recorder, too, and before it can ignore that."""
    process = weboid.start("record", "--no-window", "--profile", str(weboid.profile))
    session = psutil.Process(process.pid)
    wait_until(lambda: any("-m proxy" in arguments(each) for each in session.children()))
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)

    assert (process.returncode, "Traceback" in errors) == (1, False), errors
    assert "Recorded 0 requests" in errors
