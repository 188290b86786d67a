"""Site information (meta=siteinfo) and discovery of a wiki's API address."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from html.parser import HTMLParser
from itertools import takewhile
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from core.errors import BadUrlError, InputError, PermanentError
from core.hosts import registrable
from core.urls import fetch_key, host_of
from links.registry.wikis import InterwikiMap, read_interwikis
from wiki.api import models
from wiki.api.client import WikiApi
from wiki.api.transport import absolute_address

OLDEST_VERSION: Final = (1, 35)
_API_PATHS: Final = ("/w/api.php", "/api.php", "/wiki/api.php", "/mediawiki/api.php")
_HEAD_CHARS: Final = 300_000  # of a page that are read for its links
_CANDIDATES_MOST: Final = 12
_VERSION = re.compile(r"\d{1,4}")
_DBNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)

OpenApi = Callable[[str], WikiApi]


async def read_site_facts(api: WikiApi) -> models.SiteFacts:
    """Read the wiki's site information. Raises the errors of `WikiApi.get`; ``no-mediawiki`` for other software."""
    answer = await api.get(action="query", meta="siteinfo", siprop=["general", "namespaces", "interwikimap"])
    query = models.query_result(answer)
    general = _general(query, api.host)
    server = _absolute(models.text_field(general, "server") or api.address, api.address)
    pages_url = _absolute(models.text_field(general, "articlepath") or "/index.php?title=$1", server)
    namespaces = (
        models.WikiNamespace(
            models.count_field(row, "id"),
            models.text_field(row, "name", "*"),
            models.text_field(row, "canonical", "name", "*"),
        )
        for row in models.json_rows(query, "namespaces")
    )
    interwikis, rows = InterwikiMap(), query.get("interwikimap")
    with suppress(InputError):
        interwikis = read_interwikis(json.dumps(rows if isinstance(rows, list) else []))
    return models.SiteFacts(
        dbname=models.text_field(general, "wikiid"),
        name=models.text_field(general, "sitename"),
        version=version_of(models.text_field(general, "generator")),
        language=models.text_field(general, "lang"),
        server=server,
        pages_url=pages_url if "$1" in pages_url else "",
        namespaces={each.id: each for each in namespaces},
        interwikis=interwikis,
        is_read_only=models.bool_field(general, "readonly"),
        read_only_reason=models.text_field(general, "readonlyreason"),
    )


def version_of(generator: str) -> tuple[int, ...]:
    """Parse the version in ``MediaWiki 1.43.0-wmf.5``; empty for anything else.

    >>> version_of("MediaWiki 1.39.17"), version_of("MediaWiki 1.45.0-alpha"), version_of("Other 2")
    ((1, 39, 17), (1, 45, 0), ())
    """
    name, _, version = generator.partition(" ")
    if name != "MediaWiki":
        return ()
    return tuple(map(int, takewhile(_VERSION.fullmatch, version.partition("-")[0].split("."))))


async def find_api(url: str, open_api: OpenApi) -> str:
    """Find the API of a URL's wiki; InputError: none at the addresses tried; WikiAwayError, LoggedOutError."""
    url = url.strip()
    starts = [url] if "://" in url else [f"https://{url}", f"http://{url}"]
    try:
        for each in starts:
            fetch_key(each, allow_single_label=True)
    except BadUrlError as error:
        raise InputError(f"{url[:200]!r} is not the address of a wiki: {error}") from error
    for number, start in enumerate(starts, start=1):
        try:
            return await _find_from(start, open_api)
        except models.WikiAwayError as error:
            # An address without a scheme: a wiki that has no https is queried over http.
            if number == len(starts) or not error.is_unsent:
                raise
    raise AssertionError("unreachable")


async def _find_from(url: str, open_api: OpenApi) -> str:
    tried: dict[str, str] = {}
    if urlsplit(url).path.endswith("api.php") and (site := await _try(url.partition("?")[0], open_api, tried)):
        return site
    async with open_api(url) as api:
        page = await api.raw(url)
    if not tried and page.status >= 500:
        raise models.WikiAwayError(f"{host_of(url)} answers {page.status}.")
    text = page.body[:_HEAD_CHARS].decode("utf-8", "replace")
    for candidate in api_candidates(page.url, text)[:_CANDIDATES_MOST]:
        if candidate not in tried and (site := await _try(candidate, open_api, tried)):
            return site
    hint = " Its server asks for a user and a password: --basic-file FILE." if page.status == 401 else ""
    elsewhere = declared_api(page.url, text)
    if elsewhere and registrable(host_of(elsewhere)) != registrable(host_of(page.url)):
        hint = f" It names {elsewhere} as its API: add that address if it is meant."
    looked = "; ".join(f"{at}: {why[:120]}" for at, why in list(tried.items())[:5])
    raise InputError(f"No MediaWiki API was found for {url}.{hint} Tried were {looked}.")


async def _try(address: str, open_api: OpenApi, tried: dict[str, str]) -> str:
    """Return the address if an API answers there, else an empty string with the reason added to `tried`."""
    async with open_api(address) as api:
        try:
            answer = await api.get(action="query", meta="siteinfo", siprop="general")
            _general(models.query_result(answer), api.host)
        except models.LoggedOutError:
            if api.account.has_secret or await _is_private_wiki(api):
                raise
            tried[address] = "it asks for a login"
            return ""
        except (models.WikiAwayError, InputError, PermanentError) as error:
            if isinstance(error, models.WikiMovedError):
                raise
            tried[address] = str(error).rstrip(".")
            return ""
        return api.address


async def _is_private_wiki(api: WikiApi) -> bool:
    """Return True if the API itself required a login, not a web server in front."""
    try:
        await api.get(action="query", meta="tokens", type="login")
    except (models.WikiAwayError, models.WikiRefusedError, models.LoggedOutError) as error:
        return isinstance(error, models.LoggedOutError) and "readapidenied" in str(error)
    return True


def api_candidates(url: str, text: str) -> list[str]:
    """List possible API addresses for a page, likeliest first; never on another domain."""
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}"
    candidates = []
    for _, href in _links(text):  # other entry points that the page names
        folder, _, script = absolute_address(url, href).partition("?")[0].rpartition("/")
        if script in {"load.php", "opensearch_desc.php", "rest.php", "index.php"}:
            candidates.append(f"{folder}/api.php")
    candidates = [declared_api(url, text), *candidates[:_CANDIDATES_MOST]]
    path = parts.path
    if "/index.php" in path:
        candidates.append(root + path[: path.index("/index.php")] + "/api.php")
    candidates.extend(root + place for place in _API_PATHS)
    folder = path.rpartition("/")[0]
    while folder:
        candidates.append(f"{root}{folder}/api.php")
        folder = folder.rpartition("/")[0]
    domain = registrable(host_of(url))
    return list(dict.fromkeys(each for each in candidates if each and registrable(host_of(each)) == domain))


def declared_api(url: str, text: str) -> str:
    """Return the API address in a page's head (Really Simple Discovery); empty without one.

    >>> declared_api("https://a.org/wiki/X", '<link rel="EditURI" href="//a.org/w/api.php?action=rsd">')
    'https://a.org/w/api.php'
    """
    href = next((href for relation, href in _links(text) if relation == "edituri"), None)
    return "" if href is None else absolute_address(url, href).partition("?")[0]


class _LinkCollector(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "link" and len(self.links) < 200:
            attributes = dict(attrs)
            self.links.append(((attributes.get("rel") or "").strip().lower(), attributes.get("href") or ""))


def _links(text: str) -> list[tuple[str, str]]:
    parser = _LinkCollector()
    with suppress(AssertionError, ValueError):  # raised by the parser at malformed markup
        parser.feed(text.partition("<body")[0])
    return parser.links


def _general(query: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    value = query.get("general")
    if not isinstance(value, dict) or not models.text_field(value, "generator").startswith("MediaWiki"):
        raise models.WikiRefusedError("no-mediawiki", f"{host} has an API that is not MediaWiki.")
    if not _DBNAME.fullmatch(models.text_field(value, "wikiid")):
        raise models.WikiRefusedError("no-name", f"{host} does not report its database's name.")
    return value


def _absolute(path: str, base: str) -> str:
    return urljoin(base, path) if absolute_address(base, path.replace("$1", "x")) else base
