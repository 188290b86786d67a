"""A wiki as it describes itself, and where its API is, from any address of it that a person has.

address = await find_api("https://wiki.example/wiki/Foo", lambda at: Api(at, account))
facts = await site_facts(api)
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from core.errors import BadUrlError, InputError, PermanentError
from core.urls import fetch_key, host_of
from links.domains import registrable
from links.interwiki import InterwikiMap, read_interwikis
from wiki.api.client import Api
from wiki.api.errors import LoggedOutError, WikiAwayError, WikiMovedError, WikiRefusedError
from wiki.api.facts import Namespace, SiteFacts
from wiki.api.values import a_bool, a_count, a_text, query_of, rows_of

OLDEST: Final = (1, 35)
_PLACES: Final = ("/w/api.php", "/api.php", "/wiki/api.php", "/mediawiki/api.php")
_HEAD_CHARS: Final = 300_000  # of a page that are read for its links
_CANDIDATES_MOST: Final = 12
_VERSION = re.compile(r"\d{1,4}")
_DBNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)

OpenApi = Callable[[str], Api]


async def site_facts(api: Api) -> SiteFacts:
    """What the wiki says of itself.

    Raises:
        WikiAwayError, LoggedOutError, WikiRefusedError: as `Api.get`; ``no-mediawiki`` when it is none.
    """
    told = await api.get(
        action="query",
        meta="siteinfo",
        siprop=["general", "namespaces", "interwikimap", "extensions"],
    )
    query = query_of(told)
    general = _general(query, api.host)
    server = _absolute(a_text(general, "server") or api.address, api.address)
    path = a_text(general, "articlepath") or "/index.php?title=$1"
    pages_url = _absolute(path, server)
    extensions = (a_text(row, "name") for row in rows_of(query, "extensions"))
    return SiteFacts(
        dbname=a_text(general, "wikiid"),
        name=a_text(general, "sitename"),
        version=version_of(a_text(general, "generator")),
        language=a_text(general, "lang"),
        server=server,
        pages_url=pages_url if "$1" in pages_url else "",
        namespaces={each.id: each for each in map(_namespace, rows_of(query, "namespaces"))},
        interwikis=_interwikis(query),
        extensions=frozenset(name for name in extensions if name),
        is_read_only=a_bool(general, "readonly"),
        read_only_reason=a_text(general, "readonlyreason"),
    )


def version_of(generator: str) -> tuple[int, ...]:
    """The version in ``MediaWiki 1.43.0-wmf.5``; empty when that is something else.

    >>> version_of("MediaWiki 1.39.17"), version_of("MediaWiki 1.45.0-alpha"), version_of("Other 2")
    ((1, 39, 17), (1, 45, 0), ())
    """
    name, _, version = generator.partition(" ")
    if name != "MediaWiki":
        return ()
    numbers = []
    for part in version.partition("-")[0].split("."):
        if not _VERSION.fullmatch(part):
            break
        numbers.append(int(part))
    return tuple(numbers)


async def find_api(url: str, open_api: OpenApi) -> str:
    """The address of the API of the wiki that an address belongs to.

    Args:
        url: of a page, of the wiki's entrance, of api.php; the scheme may be missing.
        open_api: opens an API at an address, as the account that shall use it.

    Raises:
        InputError: there is none, as far as can be seen; the text says where it was looked for.
        WikiAwayError: nobody answers there.
        LoggedOutError: the wiki wants an account before it says what it is.
    """
    starts = _starts(url)
    for number, start in enumerate(starts, start=1):
        try:
            return await _find_from(start, open_api)
        except WikiAwayError as error:
            # An address without a scheme: a wiki that has no https is asked without it.
            if number == len(starts) or not error.is_unsent:
                raise
    raise AssertionError("unreachable")


async def _find_from(url: str, open_api: OpenApi) -> str:
    tried: dict[str, str] = {}
    if urlsplit(url).path.endswith("api.php"):
        found = await _try(url.partition("?")[0], open_api, tried)
        if found:
            return found
    async with open_api(url) as api:
        page = await api.raw(url)
    if not tried and page.status >= 500:
        raise WikiAwayError(f"{host_of(url)} answers {page.status}.")
    text = page.body[:_HEAD_CHARS].decode("utf-8", "replace")
    for candidate in candidates(page.url, text)[:_CANDIDATES_MOST]:
        if candidate not in tried:
            found = await _try(candidate, open_api, tried)
            if found:
                return found
    hint = ""
    if page.status == 401:
        hint = " Its server asks for a user and a password: --basic-file FILE."
    elsewhere = declared(page.url, text)
    if elsewhere and registrable(host_of(elsewhere)) != registrable(host_of(page.url)):
        hint = f" It says that its API is at {elsewhere}: add that if it is meant."
    looked = "; ".join(f"{at}: {why[:120]}" for at, why in list(tried.items())[:5])
    raise InputError(f"No API of MediaWiki was found for {url}.{hint} Tried were {looked}.")


async def _try(address: str, open_api: OpenApi, tried: dict[str, str]) -> str:
    """The address where an API answers; empty when none does, and in `tried` why."""
    async with open_api(address) as api:
        try:
            told = await api.get(action="query", meta="siteinfo", siprop="general")
            _general(query_of(told), api.host)
        except WikiMovedError:
            raise
        except LoggedOutError:
            if api.account.is_anybody or api.account.basic:
                raise
            if await _is_private_wiki(api):
                raise
            tried[address] = "it asks for a login"
            return ""
        except (WikiAwayError, InputError, PermanentError) as error:
            tried[address] = str(error).rstrip(".")
            return ""
        return api.address


async def _is_private_wiki(api: Api) -> bool:
    """Whether it was the API that asked for a login, and not a server in front."""
    with suppress(WikiAwayError, WikiRefusedError):
        try:
            await api.get(action="query", meta="tokens", type="login")
        except LoggedOutError as error:
            return "readapidenied" in str(error)
        return True
    return False


def candidates(url: str, text: str) -> list[str]:
    """Where the API of a page's wiki may be, the likeliest first; never on another's domain."""
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}"
    found = [declared(url, text), *_by_scripts(url, text)]
    path = parts.path
    if "/index.php" in path:
        found.append(root + path[: path.index("/index.php")] + "/api.php")
    found.extend(root + place for place in _PLACES)
    folder = path.rpartition("/")[0]
    while folder:
        found.append(f"{root}{folder}/api.php")
        folder = folder.rpartition("/")[0]
    domain = registrable(host_of(url))
    return list(
        dict.fromkeys(each for each in found if each and registrable(host_of(each)) == domain)
    )


def declared(url: str, text: str) -> str:
    """The API that a page's head names (Really Simple Discovery); empty without one.

    >>> declared("https://a.org/wiki/X", '<link rel="EditURI" href="//a.org/w/api.php?action=rsd">')
    'https://a.org/w/api.php'
    """
    for relation, href in _links(text):
        if relation == "edituri":
            return _address(url, href)
    return ""


def _by_scripts(url: str, text: str) -> list[str]:
    """Where the API would be beside the other entry points that a page names."""
    found = []
    for _, href in _links(text):
        for script in ("load.php", "opensearch_desc.php", "rest.php", "index.php"):
            address = _address(url, href)
            if address.endswith(f"/{script}"):
                found.append(address.removesuffix(script) + "api.php")
    return found[:_CANDIDATES_MOST]


def _address(url: str, href: str) -> str:
    try:
        return fetch_key(urljoin(url, href), allow_single_label=True).partition("?")[0]
    except (BadUrlError, ValueError):
        return ""


class _Links(HTMLParser):
    """Collects the relations and targets of a page's link elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take one element."""
        if tag == "link" and len(self.found) < 200:
            given = dict(attrs)
            self.found.append(((given.get("rel") or "").strip().lower(), given.get("href") or ""))


def _links(text: str) -> list[tuple[str, str]]:
    parser = _Links()
    with suppress(AssertionError, ValueError):  # the parser's own, at markup that is none
        parser.feed(text.partition("<body")[0])
    return parser.found


def _starts(url: str) -> list[str]:
    url = url.strip()
    given = [url] if "://" in url else [f"https://{url}", f"http://{url}"]
    try:
        for each in given:
            fetch_key(each, allow_single_label=True)
    except BadUrlError as error:
        raise InputError(f"{url[:200]!r} is no address of a wiki: {error}") from error
    return given


def _general(query: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    found = query.get("general")
    if not isinstance(found, dict) or not a_text(found, "generator").startswith("MediaWiki"):
        raise WikiRefusedError("no-mediawiki", f"{host} has an API that is not MediaWiki's.")
    if not _DBNAME.fullmatch(a_text(found, "wikiid")):
        raise WikiRefusedError("no-name", f"{host} does not tell its database's name.")
    return found


def _absolute(path: str, base: str) -> str:
    try:
        found = urljoin(base, path)
        fetch_key(found.replace("$1", "x"), allow_single_label=True)
    except (BadUrlError, ValueError):
        return base
    return found


def _namespace(row: Mapping[str, Any]) -> Namespace:
    name = a_text(row, "name", "*")
    return Namespace(
        a_count(row, "id"), name, a_text(row, "canonical") or name, a_bool(row, "content")
    )


def _interwikis(query: Mapping[str, Any]) -> InterwikiMap:
    rows = query.get("interwikimap")
    try:
        return read_interwikis(json.dumps(rows if isinstance(rows, list) else []))
    except InputError:
        return InterwikiMap()
