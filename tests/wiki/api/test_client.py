"""Asking a wiki: what it answers, what it refuses, and what is done about outages."""

import asyncio
import gzip
import logging
import tracemalloc

import pytest

from core.errors import BodyTooLargeError, ConfigError
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_proxy import ProxiedResponse, WikiProxy, running_wiki_proxy
from tests.support.wiki_writer import BOT_SECRET
from tests.wiki.api.conftest import ApiAt, PauseRecorder
from wiki.api.client import WikiApi, user_agent
from wiki.api.credentials import WikiCredentials

pytestmark = pytest.mark.slow

SITE = {"action": "query", "meta": "siteinfo"}


async def test_an_answer_is_of_format_2_and_says_who_asked(proxy: WikiProxy, api_at: ApiAt) -> None:
    """JSON, utf8, gzip; the User-Agent names us; nothing else is told."""
    async with api_at(proxy.api) as api:
        document = await api.get(**SITE)
    assert document["query"]["general"]["wikiid"] == "my_wiki"
    (request,) = proxy.requests
    assert request.method == "GET"
    assert {"format": "json", "formatversion": "2", "maxlag": "5"}.items() <= request.params.items()
    assert request.headers["user-agent"] == user_agent()
    assert request.headers["accept-encoding"] == "gzip"
    assert "authorization" not in request.headers
    assert "cookie" not in request.headers


async def test_a_long_question_is_posted_and_says_that_it_writes_nothing(proxy: WikiProxy, api_at: ApiAt) -> None:
    """Servers limit the length of addresses; the second data centre takes what only reads."""
    titles = [f"A title that is not there {number}" for number in range(50)]
    async with api_at(proxy.api) as api:
        document = await api.get(action="query", titles=titles)
    assert len(document["query"]["pages"]) == 50
    assert proxy.requests[0].method == "POST"
    assert proxy.requests[0].headers["promise-non-write-api-action"] == "true"


async def test_values_with_bars_stay_whole(proxy: WikiProxy, api_at: ApiAt) -> None:
    """A list with a bar in one of its values is joined by U+001F, as the API allows."""
    async with api_at(proxy.api) as api:
        document = await api.get(action="query", titles=["a|b", "Main Page"])
    assert [page["title"] for page in document["query"]["pages"]] == ["a|b", "Main Page"]


async def test_a_query_is_continued_to_its_end(proxy: WikiProxy, api_at: ApiAt) -> None:
    """Every page comes once."""
    async with api_at(proxy.api) as api:
        parts = [part async for part in api.query(list="allpages", aplimit=3)]
    titles = [page["title"] for part in parts for page in part["query"]["allpages"]]
    assert len(parts) > 3
    assert len(titles) == len(set(titles)) > 10


async def test_what_unpacks_to_much_takes_no_memory(proxy: WikiProxy, api_at: ApiAt) -> None:
    """Sixty megabytes in sixty kilobytes, one piece of the network's."""
    packed = gzip.compress(b"a" * 60_000_000, 1)
    proxy.canned = [ProxiedResponse(200, packed, {"Content-Encoding": "gzip"})]
    async with api_at(proxy.api, limit_bytes=1_000_000) as api:
        tracemalloc.start()
        try:
            with pytest.raises(BodyTooLargeError):
                await api.get(**SITE)
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_has_a_limit_packed_or_not(proxy: WikiProxy, api_at: ApiAt, packed: bool) -> None:
    """A little that unpacks to much is not unpacked."""
    body = b'{"query": "' + b"a" * 30_000_000 + b'"}'
    headers = {"Content-Encoding": "gzip"} if packed else {}
    proxy.canned = [ProxiedResponse(200, gzip.compress(body) if packed else body, headers)]
    async with api_at(proxy.api, limit_bytes=1_000_000) as api:
        with pytest.raises(BodyTooLargeError):
            await api.get(**SITE)


async def test_warnings_are_logged_once(proxy: WikiProxy, api_at: ApiAt, caplog: pytest.LogCaptureFixture) -> None:
    """A parameter that a later version no longer knows is told, but not with each poll."""
    async with api_at(proxy.api) as api:
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await api.get(action="query", meta="siteinfo", nonsense="1")
    assert len([each for each in caplog.records if "nonsense" in each.getMessage()]) == 1


async def test_one_request_is_under_way_at_a_time_with_a_gap(
    proxy: WikiProxy, api_at: ApiAt, pauses: PauseRecorder
) -> None:
    """However many ask."""
    async with api_at(proxy.api, gap_s=5) as api:
        await asyncio.gather(*(api.get(**SITE) for _ in range(5)))
    assert proxy.max_concurrent == 1
    assert len(pauses.slept) == 4
    assert all(4 < each <= 5 for each in pauses.slept)


# Redirects


async def test_a_redirect_to_the_same_domain_is_followed_and_told(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt
) -> None:
    """From then on the new address is asked."""
    proxy.canned = [ProxiedResponse(301, b"", {"Location": f"{wiki.api()}?action=query"})]
    async with api_at(proxy.api) as api:
        assert "query" in await api.get(**SITE)
        await api.get(**SITE)
        assert (api.address, api.moved_to) == (wiki.api(), wiki.api())
    assert len(proxy.requests) == 1


async def test_secrets_stay_when_a_page_leads_elsewhere(wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt) -> None:
    """While an API is looked for, too."""
    with running_wiki_proxy(wiki.base) as other:
        proxy.script = lambda _: ProxiedResponse(302, b"", {"Location": f"{other.base}/wiki/Main_Page"})
        async with api_at(proxy.api, WikiCredentials(basic="me:pw")) as api:
            assert (await api.raw(proxy.base)).status == 200
        assert "authorization" in proxy.requests[0].headers
        assert "authorization" not in other.requests[0].headers


# Accounts


async def test_a_bot_password_logs_in_once_and_each_question_makes_sure(
    proxy: WikiProxy, api_at: ApiAt, bot_name: str
) -> None:
    """assert=user with every question, so that nothing is read or written as somebody else."""
    async with api_at(proxy.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        for _ in range(2):
            document = await api.get(action="query", meta="userinfo")
            assert document["query"]["userinfo"]["name"] == "Repairer"
        assert await api.has_right("apihighlimits")
    assert len(proxy.requests_with(action="login")) == 1
    assert all(each.params["assert"] == "user" for each in proxy.requests_with(meta="userinfo"))
    secrets = [each for each in proxy.requests if BOT_SECRET in str(each.params)]
    assert [each.method for each in secrets] == ["POST"]


async def test_an_older_form_of_bot_passwords_works(proxy: WikiProxy, api_at: ApiAt, bot_name: str) -> None:
    """The name of the account, and app@password."""
    user, _, app = bot_name.partition("@")
    async with api_at(proxy.api, WikiCredentials(user, f"{app}@{BOT_SECRET}")) as api:
        document = await api.get(action="query", meta="userinfo")
    assert document["query"]["userinfo"]["name"] == user


async def test_half_a_pair_of_surrogates_is_replaced(proxy: WikiProxy, api_at: ApiAt) -> None:
    """Nobody could write it into a database or on a terminal."""
    proxy.script = lambda _: ProxiedResponse(200, b'{"query": {"a": "x\\ud800y", "b": "\\ud83d\\ude00"}}')
    async with api_at(proxy.api) as api:
        document = await api.get(**SITE)
    assert document["query"] == {"a": "x?y", "b": "\N{GRINNING FACE}"}


async def test_who_is_logged_out_logs_in_again_once(proxy: WikiProxy, api_at: ApiAt, bot_name: str) -> None:
    """The session ends on the wiki's side: nobody need notice."""
    async with api_at(proxy.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        await api.get(**SITE)
        api._wire.forget()
        documents = await asyncio.gather(*(api.get(action="query", meta="userinfo") for _ in range(3)))
        assert {each["query"]["userinfo"]["name"] for each in documents} == {"Repairer"}
        assert len(proxy.requests_with(action="login")) == 2
        api._wire.forget()
        assert (await api.post(action="edit", title="Logged out", text="x"))["edit"]["result"] == "Success"


async def test_a_token_of_oauth_and_a_password_in_front_go_along(proxy: WikiProxy, api_at: ApiAt) -> None:
    """In the header, to the wiki's own server; the password may stand in the address."""
    proxy.script = lambda _: ProxiedResponse.of_json({"query": {}})
    async with api_at(proxy.api, WikiCredentials("me", token="t" * 9)) as api:
        await api.get(**SITE)
    async with api_at(proxy.api.replace("://", "://me:p%40w@")) as api:
        await api.get(**SITE)
        assert "p%40w" not in api.address
    bearer, basic = (each.headers["authorization"] for each in proxy.requests)
    assert bearer == "Bearer " + "t" * 9
    assert basic == "Basic bWU6cEB3"
    assert proxy.requests[0].params["assert"] == "user"
    assert "assert" not in proxy.requests[1].params


@pytest.mark.parametrize("address", ["", "no address", "ftp://x.org/api.php", "http://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigError):
        WikiApi(address)
