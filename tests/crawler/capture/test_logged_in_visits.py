"""Pages archived with a login and with a profile's headers, by the whole program."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from crawler.capture.site_logins import make_key_file, write_login
from crawler.collection import open_collection
from render.sign_in import Login, SiteSession
from tests.support.commands import WeboidRunner
from tests.support.loopback import LoopbackServer
from tests.support.stored_records import check, index, records
from tests.support.tls_origins import server_context, write_leaf

pytestmark = [pytest.mark.browser, pytest.mark.proxy]
SECRET = "s3cr3t-of-a-session"
PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


class LoginSiteHandler(BaseHTTPRequestHandler):
    """Members see who they are, all others the way in; every page has a picture of another host."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, and note what was asked."""
        server: Any = self.server
        server.requests.append((self.headers["Host"], self.path, dict(self.headers)))
        known = SECRET in self.headers.get("Cookie", "")
        kind, body = "image/svg+xml", PICTURE
        if self.path in ("/", "/private"):
            kind = "text/html"
            words = "Welcome back" if known else "Please log in"
            body = f"<title>{words}</title><p>{words}<img src=//other.test/a.svg>".encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if known:
            self.send_header("Set-Cookie", f"sid={SECRET}-renewed; HttpOnly")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def members() -> Iterator[Any]:
    """Yield the site; `requests` has every request's host, path and headers."""
    server: Any = LoopbackServer(LoginSiteHandler)
    server.requests = []
    with server:
        yield server


def weboid_for(members: Any, folder: Path, more: str) -> WeboidRunner:
    """Return the command with a profile under which the site is reachable."""
    at = f"127.0.0.1:{members.server_port}"
    profile = folder / "profile.toml"
    profile.write_text(
        f"""
egress.allow = ["127.0.0.0/8"]
egress.resolve = {{ "members.test" = "{at}", "other.test" = "{at}" }}
proxy.disk_reserve_bytes = 0
politeness = {{ min_delay_s = 0.0, max_delay_s = 0.0 }}
{more}
"""
    )
    return WeboidRunner(folder, profile)


async def make_collection(root: Path) -> None:
    """Create an empty collection."""
    async with open_collection(root, clock=SystemClock()):
        pass


def test_named_hosts_are_visited_with_the_login_and_the_archive_holds_no_secret(members: Any, tmp_path: Path) -> None:
    """The manifest names the login; other pages, other hosts and the WARC get nothing of it."""
    weboid = weboid_for(
        members,
        tmp_path,
        f'login = {{ names = ["club"], key_file = "{tmp_path / "key"}" }}\n'
        'visit.headers = { X-Archive = "weboid" }\nvisit.contact = "a@example.org"\n',
    )
    cookie = {"name": "sid", "value": SECRET, "domain": "members.test", "path": "/"}
    login = Login("club", ("members.test",), datetime.now(UTC), session=SiteSession((cookie,)))
    asyncio.run(make_collection(weboid.collection))
    write_login(weboid.collection / "logins", login, make_key_file(tmp_path / "key"))
    ran = weboid.archive("http://members.test/private", "http://other.test/private")

    assert ran.code == 0, ran.err
    cookies = {(host, path): headers.get("Cookie", "") for host, path, headers in members.requests}
    assert SECRET in cookies["members.test", "/private"]
    assert cookies["other.test", "/private"] == cookies["other.test", "/a.svg"] == ""
    for _, _, headers in members.requests[-2:]:
        assert headers["X-Archive"] == "weboid"
        assert headers["User-Agent"].endswith(" (+a@example.org)")
    warc = records(weboid.collection)
    manifests = {target: json.loads(payload) for kind, target, _, payload in warc if target.startswith("urn:pageinfo:")}
    assert manifests["urn:pageinfo:http://members.test/private"]["login"] == "club"
    assert manifests["urn:pageinfo:http://members.test/private"]["title"] == "Welcome back"
    assert manifests["urn:pageinfo:http://other.test/private"]["login"] == ""
    warcs = (weboid.collection / "archive").glob("*.warc.gz")
    text = b"".join(gzip.decompress(path.read_bytes()) for path in warcs)
    assert b"Cookie: sid=(withheld)" in text
    assert SECRET.encode() not in text
    assert [each[0] for each in index(weboid.collection, "SELECT DISTINCT bucket FROM payloads ORDER BY 1")] == [
        "default",
        "default/login:club",
    ]
    names = "SELECT DISTINCT pages.url, pages.login, captures.login FROM captures JOIN pages"
    rows = sorted(index(weboid.collection, f"{names} USING (page_id)"))
    assert rows == [("http://members.test/private", "club", "club"), ("http://other.test/private", "", None)]
    assert weboid.call("collection", "rebuild").code == 0
    assert sorted(index(weboid.collection, f"{names} USING (page_id)")) == rows
    check(weboid.collection)
    listed = json.loads(weboid.call("login", "ls", "--json").out)
    assert [each["name"] for each in listed["logins"]] == ["club"]
    removed = weboid.call("login", "rm", "club", "--json")
    assert json.loads(removed.out) == {"removed": ["club"]}
    archive = ("archive", "--json", "--profile", str(weboid.profile), "http://members.test/")
    assert weboid.call(*archive).code == 2, "what is named must be there"


def test_a_login_reaches_no_server_whose_certificate_does_not_verify(members: Any, tmp_path: Path) -> None:
    """The page fails and says why, unless the login was made with --unverified-tls."""
    write_leaf(tmp_path / "leaf.pem", "members.test", None)
    context = server_context(tmp_path / "leaf.pem", None)
    members.socket = context.wrap_socket(members.socket, server_side=True)
    weboid = weboid_for(
        members,
        tmp_path,
        f'login = {{ names = ["club", "lax"], key_file = "{tmp_path / "key"}" }}\nfrontier = {{ attempts = 1 }}\n',
    )
    asyncio.run(make_collection(weboid.collection))
    key = make_key_file(tmp_path / "key")
    for name, host, is_unverified in (("club", "members.test", False), ("lax", "other.test", True)):
        cookie = {"name": "sid", "value": SECRET, "domain": host, "path": "/"}
        login = Login(name, (host,), datetime.now(UTC), unverified_tls=is_unverified, session=SiteSession((cookie,)))
        write_login(weboid.collection / "logins", login, key)
    ran = weboid.archive("https://members.test/private", "https://other.test/private")
    known = {host for host, _, headers in members.requests if SECRET in headers.get("Cookie", "")}
    refused = ran.pages["https://members.test/private"]
    page = ran.pages["https://other.test/private"]

    assert known == {"other.test"}
    assert (page["outcome"], page["reason"]) == ("complete", "")
    assert refused["outcome"] == "failed"
    assert refused["reason"] == "tls: self-signed: self-signed certificate"
