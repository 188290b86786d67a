"""Tests of `render.sign_in`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, strategies

from core.captures import ArtifactKind
from core.config.settings import VisitSettings
from core.errors import BrowserUnavailableError, ConfigError
from render.browser import Browser
from render.chromium import BrowserExecutable, BrowserKind, find_browser
from render.sign_in import SiteSession, check_hosts, confine_to_hosts, covers_host_of, display_variables, open_sign_in
from render.visit import VisitRequest, visit
from tests.render.conftest import SeenRequest, read_request

FORM = b"""<!doctype html><title>Log in</title>
<form method=post action=/enter><input name=user><input name=word type=password></form>"""
HOME = b"""<!doctype html><title>Home</title><p id=said></p><script>
const said = document.getElementById("said");
said.textContent = "stored=" + localStorage.getItem("token");
if (document.cookie.includes("seen=1")) localStorage.setItem("token", "of-the-script");
fetch("/ready");
</script>"""


class MemberSite:
    """A site whose pages know who is logged in; every host answers alike."""

    def __init__(self) -> None:
        self.requests: list[SeenRequest] = []
        self.port = 0
        self.ready = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        try:
            while (request := await read_request(reader)) is not None:
                self.requests.append(request)
                if request.path == "/ready":
                    self.ready.set()
                writer.write(self.answer(request))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def answer(self, request: SeenRequest) -> bytes:
        """Return the form, the redirect that logs in, or the page behind it."""
        if request.path == "/enter":
            return (
                b"HTTP/1.1 302 Found\r\nLocation: /home\r\n"
                b"Set-Cookie: sid=secret; HttpOnly; Max-Age=9999\r\nSet-Cookie: seen=1\r\n"
                b"Content-Length: 0\r\n\r\n"
            )
        known = "sid=secret" in request.headers.get("cookie", "")
        body = HOME if known and request.path == "/home" else FORM
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return the URL of a path on this site."""
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(members: MemberSite) -> AsyncIterator[MemberSite]:
    server = await asyncio.start_server(members.connected, "127.0.0.1", 0)
    members.port = server.sockets[0].getsockname()[1]
    try:
        yield members
    finally:
        server.close()


@pytest_asyncio.fixture(loop_scope="session")
async def members() -> AsyncIterator[MemberSite]:
    async with serving(MemberSite()) as site:
        yield site


async def log_in(members: MemberSite) -> SiteSession:
    """Log in and close the window; return the session by which the site knows the member."""
    async with open_sign_in(members.url("/"), find_browser(), screen=None) as opened:
        watching = asyncio.create_task(opened.watch())
        fill = (
            "new Promise((done) => { const look = () => { const form = document.forms[0];"
            " if (!form) return setTimeout(look, 20);"
            " form.user.value = 'me'; form.submit(); done(1); }; look(); })"
        )
        await opened.send("Runtime.evaluate", {"expression": fill, "awaitPromise": True})
        async with asyncio.timeout(120):
            await members.ready.wait()
            await opened.update()
            await opened.send("Page.close")
            await watching
        return confine_to_hosts(opened.cookies, opened.storage, ["127.0.0.1"])


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_what_a_person_logged_in_to_is_visited_as_that_person(
    members: MemberSite, browser: Browser, settings: VisitSettings, clock: Any
) -> None:
    """The cookie that no script sees, and local storage before the page's first script."""
    session = await log_in(members)
    request_count = len(members.requests)
    request = VisitRequest(members.url("/home"), session=session)
    seen = await visit(browser, request, settings, clock=clock)
    again = await visit(browser, VisitRequest(members.url("/home")), settings, clock=clock)

    assert {each["name"] for each in session.cookies} == {"sid", "seen"}
    assert session.storage == {members.url("").rstrip("/"): {"token": "of-the-script"}}
    assert seen.title == "Home"
    text = next(each.data for each in seen.artifacts if each.kind is ArtifactKind.TEXT)
    assert b"stored=of-the-script" in text
    assert "sid=secret" in members.requests[request_count].headers["cookie"]
    assert again.title == "Log in", "the next visit is anybody's"
    assert "secret" not in repr(session)


@pytest.mark.asyncio(loop_scope="session")
async def test_without_a_screen_or_windows_nobody_can_log_in(tmp_path: Any) -> None:
    """Both are said before anything is started."""
    with pytest.raises(BrowserUnavailableError, match="DISPLAY"):
        display_variables({"HOME": "x", "DISPLAY": ""})
    assert display_variables({"DISPLAY": ":0", "SECRET": "x"}) == {"DISPLAY": ":0"}
    (tmp_path / ".Xauthority").touch()
    variables = display_variables({"DISPLAY": ":0", "HOME": str(tmp_path)})
    assert variables["XAUTHORITY"] == str(tmp_path / ".Xauthority")
    shell = BrowserExecutable(tmp_path / "none", BrowserKind.HEADLESS_SHELL, "1")
    with pytest.raises(BrowserUnavailableError, match="apt-get install chromium"):
        async with open_sign_in("http://a.example/", shell, screen={"DISPLAY": ":0"}):
            pass


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_no_other_host_is_sent_a_login(proxy: Any, browser: Browser, settings: VisitSettings, clock: Any) -> None:
    """Of a domain's cookie the named host alone is sent its share; frames of others get nothing.

    A cookie that the browser does not take leaves the others be.
    """
    cookies = [{"name": "sid", "value": "secret", "domain": ".test", "path": "/"}]
    session = confine_to_hosts(
        [{"name": "sid", "value": "secret", "domain": ".site.test", "path": "/"}, *cookies], {}, ["site.test"]
    )
    bad = {"name": "__Host-a;b", "value": "\x00", "domain": "site.test", "path": "no path"}
    session = SiteSession((bad, *session.cookies, bad))
    request = VisitRequest("http://site.test/client-facts.html", proxy.endpoint(), session)
    await visit(browser, request, settings, clock=clock)

    sent = {each.url: each.headers.get("cookie", "") for each in proxy.requests}
    assert "sid=secret" in sent["http://site.test/client-facts.html"]
    assert sent["http://other.test/client-facts-frame.html"] == ""
    assert [each["domain"] for each in session.cookies[1:-1]] == ["site.test"]


NAMES = strategies.sampled_from(["example.org", "a.example.org", "b.a.example.org", "org", "c.org"])


@given(
    NAMES,
    strategies.booleans(),
    strategies.lists(
        strategies.builds(lambda wide, name: f"*.{name}" if wide else name, strategies.booleans(), NAMES),
        min_size=1,
        max_size=3,
    ),
    NAMES,
)
def test_a_confined_cookie_is_for_named_hosts_only(domain: str, below: bool, hosts: list[str], host: str) -> None:
    """Whatever a site had set it for: a host that it would be sent to is one that is named."""
    cookie = {"name": "a", "value": "b", "domain": f".{domain}" if below else domain, "path": "/"}
    for confined_cookie in confine_to_hosts([cookie], {}, hosts).cookies:
        goes_to = confined_cookie["domain"]
        inside = host == goes_to.removeprefix(".") or (goes_to.startswith(".") and host.endswith(goes_to))
        if inside:
            assert covers_host_of(hosts, f"https://{host}/")
            assert host == domain or (below and host.endswith(f".{domain}"))


def test_a_login_is_never_for_every_host() -> None:
    """The pattern that stands for all hosts, and none at all, are refused."""
    for hosts in ([], ["*"], ["example.org", "*"], ["ex*mple.org"]):
        with pytest.raises(ConfigError):
            check_hosts(hosts)
