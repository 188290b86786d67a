"""Wikis, presets, logins and storage in the console's API."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from crawler.capture.site_logins import make_key_file, write_login
from render.sign_in import Login, SiteSession
from tests.support.console_server import Console
from weboid.console.server import COOKIE


@pytest.fixture
def client(console: Console) -> Iterator[httpx.Client]:
    """A browser of an operator."""
    with httpx.Client(base_url=f"{console.address}/api/v1", headers={"Origin": console.address}, timeout=120) as it:
        it.cookies.set(COOKIE, console.sessions["operator"])
        yield it


def test_wikis_are_listed_with_their_feeds(client: httpx.Client) -> None:
    """Their pages and links are counted; no account is named."""
    (wiki,) = client.get("/wikis").json()["wikis"]

    assert (wiki["pages"], wiki["bot"], wiki["problem"]) == (3, False, None)
    assert "account" not in wiki["settings"]


def test_presets_are_read_and_files_are_not(client: httpx.Client) -> None:
    """By their names only."""
    names = [each["name"] for each in client.get("/profiles").json()["profiles"]]
    settings = client.get("/profiles/profile", params={"name": names[0]}).json()["settings"]

    assert "default" in names
    assert {"group", "key", "value", "default", "from"} == set(settings[0])
    assert client.get("/profiles/profile", params={"name": "/etc/passwd.toml"}).status_code == 404


def test_logins_are_listed_without_their_secrets(client: httpx.Client, console: Console) -> None:
    """Name and hosts; neither cookies nor stored items."""
    cookie = {"name": "session", "value": "very-secret", "domain": "shop.example", "path": "/"}
    login = Login("shop", ("shop.example",), datetime.now(UTC), None, 1, session=SiteSession((cookie,), {}))
    write_login(console.layout.logins, login, make_key_file(console.layout.root / "login.key"))
    answer = client.get("/logins")

    assert [(each["name"], each["hosts"], each["cookies"]) for each in answer.json()["logins"]] == [
        ("shop", ["shop.example"], 1)
    ]
    assert "very-secret" not in answer.text


def test_storage_has_sizes_and_days_left(client: httpx.Client) -> None:
    """Of the disk, and of the bucket when there is one."""
    storage = client.get("/storage").json()

    assert storage["free_bytes"] > 0
    assert storage["bucket"] is None
    assert storage["local_warcs"] > 0
