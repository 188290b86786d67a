"""A browser-like session of a logged-in user: cookies, forms, tokens."""

import html
import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request

LIMIT_S = 120.0


class WikiVisitor:
    """A session of an account."""

    def __init__(self, base: str, name: str, password: str) -> None:
        """Log in."""
        self._base = base
        self._jar = http.cookiejar.CookieJar()
        cookies = urllib.request.HTTPCookieProcessor(self._jar)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
        token = self._api(action="query", meta="tokens", type="login")
        login = {"action": "login", "lgname": name, "lgpassword": password}
        response = self._api(**login, lgtoken=token["query"]["tokens"]["logintoken"])
        assert "lguserid" in response["login"], response

    def cookies(self) -> dict[str, str]:
        """Return the session's cookies."""
        return {cookie.name: cookie.value or "" for cookie in self._jar}

    def token(self) -> str:
        """Return the session's edit token."""
        token: str = self._api(action="query", meta="tokens")["query"]["tokens"]["csrftoken"]
        return token

    def get(self, title: str) -> str:
        """Return a page; the title may be followed by query parameters."""
        return self._request(f"index.php?title={title}", None)[1]

    def post(self, title: str, fields: dict[str, str]) -> tuple[int, str]:
        """Submit a form; return status and page."""
        return self._request(f"index.php?title={title}", fields)

    def form(self, title: str, url: str) -> dict[str, str]:
        """Return the hidden fields of a link's form."""
        for form in re.findall(r'<form method="post".*?</form>', self.get(title), re.DOTALL):
            hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
            fields = {name: html.unescape(value) for name, value in hidden}
            if fields["url"] == url:
                return fields
        raise AssertionError(f"{url} has no form")

    def _api(self, **params: str) -> dict[str, dict[str, dict[str, str]]]:
        document = json.loads(self._request("api.php", {**params, "format": "json"})[1])
        assert "error" not in document, document
        result: dict[str, dict[str, dict[str, str]]] = document
        return result

    def _request(self, path: str, fields: dict[str, str] | None) -> tuple[int, str]:
        body = None if fields is None else urllib.parse.urlencode(fields).encode()
        try:
            with self._opener.open(f"{self._base}/{path}", body, timeout=LIMIT_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
