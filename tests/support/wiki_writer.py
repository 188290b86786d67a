"""Writing on a running wiki, as people and bots do: through its API, logged in.

    writer = Writer(wiki.api())                       # as the wiki's administrator
    page_id, rev_id = writer.write("Foo", "[https://example.com x]")
    writer.ask(action="query", titles="Foo")          # any question, formatversion 2

A page's own links are in the wiki's tables when `write` returns. What a template's change does to the
pages that use it waits for `wiki.maintain("runJobs.php")`.
"""

import http.cookiejar
import json
import urllib.parse
import urllib.request
from typing import Any

from tests.support.sites.mediawiki import ADMIN, PASSWORD, Wiki

BOT = "Repairer"
BOT_APP = "weboid"
BOT_SECRET = "0123456789abcdef0123456789abcdef"
GRANTS = "basic,highvolume,editpage,createeditmovepage,editprotected,delete,rollback"
LIMIT_S = 120.0


class Writer:
    """An account that is logged in."""

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
        found = self._ask(login)["login"]
        assert found["result"] == "Success", found
        told = self._ask({"action": "query", "meta": "tokens"})
        self._token = told["query"]["tokens"]["csrftoken"]

    def ask(self, **params: Any) -> dict[str, Any]:
        """An answer; an error in it fails the test."""
        return self._ask(params)

    def act(self, **params: Any) -> dict[str, Any]:
        """An answer to something that needs a token."""
        return self._ask({**params, "token": self._token})

    def write(self, title: str, text: str, **more: Any) -> tuple[int, int]:
        """Write a page: its number, and the revision that was made (0: nothing changed)."""
        told = self.act(action="edit", title=title, text=text, summary="a test", **more)["edit"]
        assert told["result"] == "Success", told
        return told["pageid"], told.get("newrevid", 0)

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
        with self._opener.open(request, timeout=LIMIT_S) as answer:
            told: dict[str, Any] = json.load(answer)
        assert "error" not in told, told["error"]
        return told


def make_bot(wiki: Wiki, *, name: str = BOT, is_bot: bool = True, grants: str = GRANTS) -> str:
    """Make an account with a bot password; the name that it logs in with (its secret: `BOT_SECRET`)."""
    groups = ("--custom-groups", "bot") if is_bot else ()
    wiki.maintain("createAndPromote.php", *groups, name, PASSWORD)
    wiki.maintain("createBotPassword.php", "--appid", BOT_APP, "--grants", grants, name, BOT_SECRET)
    return f"{name}@{BOT_APP}"
