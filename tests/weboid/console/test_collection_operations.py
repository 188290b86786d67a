"""Wikis, presets, logins and storage in the console's API."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from core.layout import CONFIG_FILE
from crawler.capture.site_logins import make_key_file, write_login
from render.sign_in import Login, SiteSession
from tests.support.console_server import ServedConsole, api_client
from weboid.console.accounts import COOKIE


@pytest.fixture
def client(console: ServedConsole) -> Iterator[httpx.Client]:
    """Yield an HTTP client with an operator's session."""
    with api_client(console.address, console.sessions["operator"]) as it:
        yield it


def test_texts_are_found_in_parts(client: httpx.Client) -> None:
    """With snippets and facets, one after another by the cursor; what is no facet is refused."""
    query = {"q": "all", "limit": "2", "host": "museum.example"}
    first = client.get("/texts", params=query).json()
    rest = client.get("/texts", params={**query, "cursor": first["next"]}).json()

    assert [len(first["captures"]), len(rest["captures"]), first["total"], rest["next"]] == [2, 1, 3, None]
    assert first["facets"]["host"] == {"museum.example": 3}
    assert {"text": "All", "hit": True} in first["captures"][0]["snippet"]
    assert client.get("/texts", params={"q": "all", "media": "html"}).status_code == 422


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


def test_logins_are_listed_without_their_secrets(client: httpx.Client, console: ServedConsole) -> None:
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


def test_settings_are_replaced_when_they_are_valid(client: httpx.Client, console: ServedConsole) -> None:
    """Errors have their lines, the second of two administrators is refused, and the log has the changed lines."""
    path = console.layout.root / CONFIG_FILE
    path.write_text('# ours\n[visit]\ntimeout_s = 90\n[frontier]\nurl = "redis://:secret@queue/0"\n')
    path.chmod(0o600)
    client.cookies.set(COOKIE, console.sessions["admin"])
    try:
        first = client.get("/settings")
        text = first.json()["text"]
        wrong = [
            client.put("/settings", json={"text": text.replace(*change)}).json()["detail"]
            for change in (("90", "'long'"), ("[visit]", "[serve]\nprot = 1\n[visit]"), ("[visit]", "[visit"))
        ]
        program = client.put("/settings", json={"text": f'{text}[browser]\nexecutable = "/opt/x"\n'})
        profile = client.put("/settings", json={"text": f'extends = "incoming/x.warc"\n{text}'})
        longer = {"text": text.replace("90", "120")}
        done = client.put("/settings", json=longer, headers={"If-Match": first.headers["etag"]})
        late = client.put("/settings", json=longer, headers={"If-Match": first.headers["etag"]})
        stale = client.put("/settings", json={**longer, "version": first.json()["version"]})
        entry = next(each for each in console.accounts.log_entries() if each["outcome"] == "done")
        assert (path.read_text(), path.stat().st_mode & 0o777) == (longer["text"], 0o600)
    finally:
        path.unlink()
    assert [
        "line 3" in wrong[0],
        f"{path}, line 3: `weboid serve` has no option" in wrong[1],
        "line 2" in wrong[2],
    ] == [True] * 3, wrong
    assert (program.status_code, profile.status_code, done.status_code) == (422, 422, 200)
    assert (late.status_code, stale.status_code) == (412, 409)
    assert '"text": ["timeout_s = 90"]' in entry["before"]
    assert '"text": ["timeout_s = 120"]' in entry["after"]
    assert "secret" not in str(console.accounts.log_entries(limit=20))


def test_settings_are_for_administrators(client: httpx.Client) -> None:
    """They may have passwords of databases."""
    assert client.get("/settings").status_code == 403
    assert client.put("/settings", json={"text": ""}).status_code == 403
