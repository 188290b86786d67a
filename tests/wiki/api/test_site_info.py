"""Finding a wiki's API, and what the wiki says of itself, in whichever version."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.wiki_proxy import ProxiedRequest, ProxiedResponse, WikiProxy
from tests.support.wiki_writer import BOT_SECRET, make_bot
from tests.wiki.api.conftest import ApiAt
from wiki.api.client import WikiApi
from wiki.api.credentials import WikiCredentials
from wiki.api.models import LoggedOutError, WikiAwayError, WikiRefusedError
from wiki.api.site_info import api_candidates, declared_api, find_api, read_site_facts, version_of

slow = pytest.mark.slow
PRIVATE = """
$wgGroupPermissions['*']['read'] = false;
$wgGroupPermissions['*']['edit'] = false;
$wgReadOnly = getenv( 'WIKI_READ_ONLY' ) ?: false;
"""


@pytest.fixture(scope="module")
def private_wiki() -> Iterator[RunningWiki]:
    """Yield a wiki that cannot be read without an account."""
    with running_wiki(server="self", settings=PRIVATE) as running:
        yield running


@slow
async def test_a_wiki_describes_itself(wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt) -> None:
    """Its name, version, language, namespaces and interwiki map."""
    async with api_at(proxy.api) as api:
        facts = await read_site_facts(api)
    assert (facts.dbname, facts.name, facts.language) == ("my_wiki", "The library", "en")
    assert facts.version[:2] >= (1, 39)  # as the distribution has it
    assert facts.pages_url == f"{wiki.base}/wiki/$1"
    assert facts.server == wiki.base
    assert facts.namespaces[4].name == "The library"
    assert facts.namespaces[4].canonical == "Project"
    assert facts.interwikis.urls([("doi", "10.1/x")]) == ["https://dx.doi.org/10.1/x"]
    assert not facts.is_read_only


@slow
@pytest.mark.parametrize(
    ("general", "attribute", "value"),
    [
        ({"generator": "MediaWiki 1.35.0"}, "version", (1, 35, 0)),
        ({"generator": "MediaWiki 1.45.0-wmf.7 (abc)"}, "version", (1, 45, 0)),
        ({"wikiid": "renamed-wiki_"}, "dbname", "renamed-wiki_"),
        ({"server": "//de.example.org"}, "server", "http://de.example.org"),
        ({"articlepath": "/index.php?title=$1"}, "pages_url", "{base}/index.php?title=$1"),
        ({"articlepath": "https://cdn.example.org/$1"}, "pages_url", "https://cdn.example.org/$1"),
        ({"articlepath": "/nowhere"}, "pages_url", ""),
        ({"readonly": True, "readonlyreason": "Upgrade"}, "read_only_reason", "Upgrade"),
        ({"readonly": ""}, "is_read_only", True),  # format 1
        ({"lang": 5}, "language", ""),
    ],
    ids=str,
)
async def test_what_other_wikis_say_is_understood(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt, general: dict[str, Any], attribute: str, value: Any
) -> None:
    """Versions 1.35 to 1.45, relative servers, odd paths."""

    def transform(request: ProxiedRequest, document: dict[str, Any]) -> Any:
        document["query"]["general"].update(general)
        return document

    proxy.transform = transform
    async with api_at(proxy.api) as api:
        facts = await read_site_facts(api)
    expected = value.replace("{base}", wiki.base) if isinstance(value, str) else value
    assert getattr(facts, attribute) == expected


@slow
@pytest.mark.parametrize(
    "general", [{"generator": "Other 2"}, {"wikiid": "a b"}, {"wikiid": None}, {"generator": 5}], ids=str
)
async def test_what_is_no_wiki_of_mediawiki_is_refused(
    proxy: WikiProxy, api_at: ApiAt, general: dict[str, Any]
) -> None:
    """Another program's API, or one that hides its name."""
    answer = {"query": {"general": {"generator": "MediaWiki 1.39", "wikiid": "x", **general}}}
    proxy.script = lambda _: ProxiedResponse.of_json(answer)
    async with api_at(proxy.api) as api:
        with pytest.raises(WikiRefusedError):
            await read_site_facts(api)


@slow
@pytest.mark.parametrize(
    "path", ["", "/", "/wiki/Main_Page", "/index.php?title=X&action=edit", "/api.php?x=1", "/nowhere/x"]
)
async def test_the_api_is_found_from_any_address(wiki: RunningWiki, api_at: ApiAt, path: str) -> None:
    """Pages, forms, the API itself, and pages that are not there."""
    assert await find_api(wiki.base + path, api_at) == wiki.api()


@slow
async def test_an_address_without_a_scheme_is_tried_with_both(wiki: RunningWiki, api_at: ApiAt) -> None:
    """Https first; this wiki has none."""

    def opened(address: str) -> WikiApi:
        return api_at(address, attempts=1)

    assert await find_api(wiki.base.removeprefix("http://"), opened) == wiki.api()


PAGES: list[tuple[str, Callable[[ProxiedRequest], ProxiedResponse | None]]] = [
    ("No MediaWiki API", lambda request: ProxiedResponse(404, b"<p>Nothing")),
    ("No MediaWiki API", lambda request: ProxiedResponse(200, b"<html><title>Blog</title>")),
    ("--basic-file", lambda request: ProxiedResponse(401, b"", {"WWW-Authenticate": "Basic"})),
    (
        "https://elsewhere.example/w/api.php",
        lambda request: ProxiedResponse(
            404 if "api" in request.path else 200,
            b'<link rel="EditURI" href="https://elsewhere.example/w/api.php?action=rsd">',
        ),
    ),
]


@slow
@pytest.mark.parametrize(("message", "script"), PAGES, ids=["404", "blog", "basic", "elsewhere"])
async def test_where_no_api_is_found_it_is_told_what_was_tried(
    proxy: WikiProxy, api_at: ApiAt, message: str, script: Callable[[ProxiedRequest], ProxiedResponse | None]
) -> None:
    """And what may help; nobody else's server is asked."""
    proxy.script = script
    with pytest.raises(InputError, match=message):
        await find_api(proxy.base, lambda at: api_at(at, attempts=1))
    assert len(proxy.requests) < 12


@slow
@pytest.mark.parametrize("url", ["", "x y", "ftp://a.org", "http://[::1"], ids=str)
async def test_what_is_no_address_is_told(api_at: ApiAt, url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InputError):
        await find_api(url, api_at)


@slow
async def test_a_server_that_is_away_is_told_as_such(proxy: WikiProxy, api_at: ApiAt) -> None:
    """It may be there later."""
    proxy.script = lambda _: ProxiedResponse(503, b"down")
    with pytest.raises(WikiAwayError):
        await find_api(proxy.base, lambda at: api_at(at, attempts=1))
    with pytest.raises(WikiAwayError):
        await find_api("http://127.0.0.1:9/", lambda at: api_at(at, attempts=1))


@slow
async def test_a_private_wiki_is_found_and_read_with_an_account(private_wiki: RunningWiki, api_at: ApiAt) -> None:
    """Without one it says what to give."""
    with pytest.raises(LoggedOutError, match="--account"):
        await find_api(private_wiki.base, api_at)
    account = WikiCredentials(make_bot(private_wiki), BOT_SECRET)
    assert await find_api(private_wiki.base, lambda at: api_at(at, account)) == private_wiki.api()
    async with api_at(private_wiki.api(), account) as api:
        assert (await read_site_facts(api)).dbname == "my_wiki"
        api._wire.forget()  # the session ends
        assert (await read_site_facts(api)).dbname == "my_wiki"


def test_candidates_are_never_on_somebody_elses_domain() -> None:
    """Whatever a page says."""
    page = (
        '<link rel="EditURI" href="//evil.example/w/api.php?action=rsd">'
        '<link rel="stylesheet" href="/mw/load.php?x"><link rel="search" href="https://w.a.org/o/opensearch_desc.php">'
    )
    candidates = api_candidates("https://www.a.org/deep/er/page", page)
    assert candidates[:2] == ["https://www.a.org/mw/api.php", "https://w.a.org/o/api.php"]
    assert "https://www.a.org/deep/api.php" in candidates
    assert not [each for each in candidates if "evil" in each]


@given(st.text(max_size=300))
def test_any_page_may_be_looked_through(text: str) -> None:
    """No markup breaks it."""
    for page in (text, f'<link rel="EditURI" href="{text}">'):
        assert isinstance(declared_api("https://a.org/x", page), str)
        assert all(each.startswith("https://") for each in api_candidates("https://a.org/x", page))


@given(st.lists(st.integers(0, 9999), max_size=4), st.sampled_from(["", "-alpha", "-wmf.5", "-rc.0"]))
def test_a_version_is_read_as_it_is_written(numbers: list[int], more: str) -> None:
    """Whatever stands behind it."""
    assert version_of(f"MediaWiki {'.'.join(map(str, numbers))}{more}") == tuple(numbers)
