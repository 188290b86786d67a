"""Edits on a running wiki through its API, with an account.

    writer = Writer(wiki.api())                       # as the wiki's administrator
    page_id, rev_id = writer.write("Foo", "[https://example.com x]")
    writer.ask(action="query", titles="Foo")          # any request, formatversion 2

A page's own links are in the wiki's tables when `write` returns. Changes by templates need
`wiki.maintain("runJobs.php")`.
"""

import http.cookiejar
import json
import urllib.parse
import urllib.request
from typing import Any

from tests.support.sites.mediawiki import ADMIN, PASSWORD, RunningWiki

BOT = "Repairer"
BOT_APP = "weboid"
BOT_SECRET = "0123456789abcdef0123456789abcdef"
GRANTS = "basic,highvolume,editpage,createeditmovepage,editprotected,delete,rollback"
LIMIT_S = 120.0


class WikiWriter:
    """A logged-in account."""

    def __init__(self, api: str, *, name: str = ADMIN, password: str = PASSWORD) -> None:
        """Log in at the API."""
        self.api = api
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)
        token = self._ask({"action": "query", "meta": "tokens", "type": "login"})
        login = {
            "action": "login",
            "lgname": name,
            "lgpassword": password,
            "lgtoken": token["query"]["tokens"]["logintoken"],
        }
        response = self._ask(login)["login"]
        assert response["result"] == "Success", response
        tokens = self._ask({"action": "query", "meta": "tokens"})
        self._token = tokens["query"]["tokens"]["csrftoken"]

    def ask(self, **params: Any) -> dict[str, Any]:
        """Send a request and return the response; an API error fails the test."""
        return self._ask(params)

    def act(self, **params: Any) -> dict[str, Any]:
        """Send a request with an edit token and return the response."""
        return self._ask({**params, "token": self._token})

    def write(self, title: str, text: str, **more: Any) -> tuple[int, int]:
        """Save a page; return its ID and that of the new revision (0: no change)."""
        result = self.act(action="edit", title=title, text=text, summary="a test", **more)["edit"]
        assert result["result"] == "Success", result
        return result["pageid"], result.get("newrevid", 0)

    def move(self, title: str, target: str, **more: Any) -> None:
        """Move a page, leaving a redirect unless `noredirect` is given."""
        self.act(**{"action": "move", "from": title, "to": target, **more})

    def delete(self, title: str) -> None:
        """Delete a page."""
        self.act(action="delete", title=title)

    def restore(self, title: str) -> None:
        """Restore a page."""
        self.act(action="undelete", title=title)

    def _ask(self, params: dict[str, Any]) -> dict[str, Any]:
        body = urllib.parse.urlencode({**params, "format": "json", "formatversion": 2})
        request = urllib.request.Request(self.api, body.encode())
        with self._opener.open(request, timeout=LIMIT_S) as response:
            document: dict[str, Any] = json.load(response)
        assert "error" not in document, document["error"]
        return document


def make_bot(wiki: RunningWiki, *, name: str = BOT, is_bot: bool = True, grants: str = GRANTS) -> str:
    """Create an account with a bot password; return its login name (password: `BOT_SECRET`)."""
    groups = ("--custom-groups", "bot") if is_bot else ()
    wiki.maintain("createAndPromote.php", *groups, name, PASSWORD)
    wiki.maintain("createBotPassword.php", "--appid", BOT_APP, "--grants", grants, name, BOT_SECRET)
    return f"{name}@{BOT_APP}"
