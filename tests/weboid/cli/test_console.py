"""`weboid console` as its operator starts it: the first sign-in, a saved page that a worker visits, accounts."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import click
import httpx
import pytest

from core.clock import SystemClock
from core.layout import Layout
from tests.support.commands import WeboidRunner, profile_for
from tests.support.polling import wait_until
from tests.support.sites.web import TestWeb
from weboid.cli import serve
from weboid.cli.wiki import wiki_watch
from weboid.console.accounts import AccountStore

pytestmark = [pytest.mark.browser, pytest.mark.proxy]


def plain_page(web: TestWeb) -> str:
    """Return a page of text."""
    return next(each for each in web.urls.rule_pages if "/page/plain" in each)


@pytest.fixture
def archived(web: TestWeb, tmp_path: Path) -> WeboidRunner:
    """Archive one page and return the runner."""
    weboid = WeboidRunner(tmp_path, profile_for(web, tmp_path / "profile.toml"))
    assert weboid.archive(plain_page(web)).code == 0
    return weboid


@contextmanager
def running(weboid: WeboidRunner, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a command during the block, whose group is ended with it in any case."""
    process = weboid.start(*words)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_page_saved_in_the_console_is_captured(archived: WeboidRunner, web: TestWeb) -> None:
    """The printed link signs in, once; the command's own worker visits what is saved; Ctrl-C ends both."""
    weboid = archived
    with running(weboid, "console", "--listen", "127.0.0.1:0", "--profile", str(weboid.profile)) as process:
        assert process.stdout is not None
        origin = process.stdout.readline().strip().removesuffix("/console")
        link = re.search(r"key=(\S+)", process.stdout.readline())
        assert link is not None
        with httpx.Client(base_url=origin, headers={"Origin": origin}, timeout=120, verify=False) as client:
            assert client.get("/console").headers["location"] == "/sign-in"
            assert client.post("/enter", data={"key": link[1]}).headers["location"] == "/console"
            with httpx.Client(base_url=origin, headers={"Origin": origin}, timeout=120, verify=False) as other:
                assert other.post("/enter", data={"key": link[1]}).status_code == 401
            url = f"{plain_page(web)}?saved"
            saved = client.post("/api/v1/captures", json={"url": url})
            assert saved.status_code == 202

            def is_captured() -> bool:
                return bool(client.get("/api/v1/queue/item", params={"url": url}).json()["capture"])

            wait_until(is_captured)
            assert client.get("/console/captures").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0


def test_the_console_is_served_beside_the_reader_pages(archived: WeboidRunner) -> None:
    """By `weboid serve --console`, which prints its own address alone, and ends both."""
    with running(archived, "serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert httpx.get(process.stdout.readline().strip(), timeout=120).status_code == 200
        origin = next(line for line in process.stderr if "/console" in line).removeprefix("console: ").strip()
        assert httpx.get(origin, timeout=120).headers["location"] == "/sign-in"
        process.send_signal(signal.SIGINT)
        process.wait(120)
        with pytest.raises(httpx.ConnectError):
            httpx.get(origin)


def test_accounts_are_added_listed_and_removed(tmp_path: Path) -> None:
    """By name, role and password; a link signs in; the last administrator stays."""
    weboid = WeboidRunner(tmp_path, tmp_path / "unused.toml")
    (tmp_path / "password").write_text("a long enough one\n")

    added = weboid.run("console", "user", "Ada", "--role", "admin", "--password-file", "password", "--link", "--json")
    assert added.code == 0, added.err
    assert "/enter?key=" in json.loads(added.out)["link"]
    assert weboid.run("console", "user", "Bob", "--role", "reviewer").code == 0
    listed = json.loads(weboid.run("console", "user", "--json").out)
    assert [(each["name"], each["role"]) for each in listed["users"]] == [("Ada", "admin"), ("Bob", "reviewer")]
    assert weboid.run("console", "user", "Bob", "--remove", "--json").code == 0
    refused = weboid.run("console", "user", "Ada", "--remove")
    assert refused.code == 2
    assert "last administrator" in refused.err
    with closing(AccountStore(Layout(weboid.collection).console_db, SystemClock())) as accounts:
        logged = [(each["operation"], each["fields"]) for each in accounts.log_entries()]
    assert logged == [
        ("remove_user", '{"name": "Bob"}'),
        ("set_user", '{"name": "Bob", "role": "reviewer"}'),
        ("set_user", '{"name": "Ada", "role": "admin"}'),
    ]


@pytest.mark.parametrize("command", [serve.command, wiki_watch.command], ids=["serve", "wiki watch"])
def test_the_console_needs_no_address(command: click.Command) -> None:
    """Without one it is where `weboid console` has it."""
    with command.make_context("command", ["--console"], resilient_parsing=True) as context:
        assert context.params["console"] == "127.0.0.1:8090"
