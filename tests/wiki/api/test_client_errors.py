"""Tests of `wiki.api.models`."""

import gzip
import json
from typing import Any

import pytest

from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_proxy import ProxiedRequest, ProxiedResponse, WikiProxy
from tests.support.wiki_writer import BOT_SECRET, WikiWriter, make_bot
from tests.wiki.api.conftest import ApiAt, PauseRecorder
from wiki.api.credentials import WikiCredentials
from wiki.api.models import (
    LoggedOutError,
    PermissionDeniedError,
    ReadOnlyError,
    ThrottledError,
    WikiAwayError,
    WikiMovedError,
    WikiRefusedError,
)

pytestmark = pytest.mark.slow


PAGE = b"<!DOCTYPE html><title>Log in</title><form>"


SITE = {"action": "query", "meta": "siteinfo"}


async def test_a_query_that_goes_in_a_circle_ends(proxy: WikiProxy, api_at: ApiAt) -> None:
    """The same place twice is an error, and so are more parts than are allowed."""
    proxy.script = lambda _: ProxiedResponse.of_json({"continue": {"apcontinue": "A"}, "query": {}})
    async with api_at(proxy.api) as api:
        with pytest.raises(WikiRefusedError, match="endless"):
            [part async for part in api.query(list="allpages")]
        proxy.script = lambda request: ProxiedResponse.of_json(
            {"continue": {"apcontinue": f"{request.params.get('apcontinue', '')}A"}, "query": {}}
        )
        with pytest.raises(WikiRefusedError, match="endless"):
            [part async for part in api.query(7, list="allpages")]
    assert len(proxy.requests) == 2 + 7


@pytest.mark.parametrize(
    ("answer", "error", "pause"),
    [
        (ProxiedResponse.api_error("maxlag", Retry_After="7"), ThrottledError, 7),
        (ProxiedResponse.api_error("maxlag"), ThrottledError, 5),
        (ProxiedResponse.api_error("ratelimited", Retry_After="3"), ThrottledError, 3),
        (ProxiedResponse.api_error("readonly", Retry_After="9"), ReadOnlyError, 9),
        (ProxiedResponse(429, PAGE, {"Retry-After": "11"}), ThrottledError, 11),
        (ProxiedResponse(503, PAGE, {"Retry-After": "12"}), WikiAwayError, 12),
        (
            ProxiedResponse(
                503, PAGE, {"Date": "Sat, 21 Nov 2026 20:00:00 GMT", "Retry-After": "Sat, 21 Nov 2026 20:00:10 GMT"}
            ),
            WikiAwayError,
            10,
        ),
        (ProxiedResponse.api_error("internal_api_error_DBQueryError"), WikiAwayError, None),
        (ProxiedResponse(502, PAGE), WikiAwayError, None),
        (ProxiedResponse(200, PAGE, {"Content-Type": "text/html"}), WikiAwayError, None),
        (ProxiedResponse(200, b'{"query": {"gen', {"Content-Type": "application/json"}), WikiAwayError, None),
        (ProxiedResponse(200, b'{"query": {}}', cut=5), WikiAwayError, None),
        (ProxiedResponse(200, b"[1]", {"Content-Type": "application/json"}), WikiAwayError, None),
        (ProxiedResponse(200, b"", {}), WikiAwayError, None),
        (ProxiedResponse(200, b"x" * 50, {"Content-Encoding": "gzip"}), WikiAwayError, None),
        (ProxiedResponse(200, gzip.compress(b"{}" * 99)[:-9], {"Content-Encoding": "gzip"}), WikiAwayError, None),
        (ProxiedResponse(200, b"x", {"Content-Encoding": "br"}), WikiAwayError, None),
    ],
    ids=lambda value: None if not isinstance(value, str) else value,
)
async def test_what_may_pass_is_asked_again_and_then_told(
    proxy: WikiProxy,
    api_at: ApiAt,
    pauses: PauseRecorder,
    answer: ProxiedResponse,
    error: type[WikiAwayError],
    pause: float | None,
) -> None:
    """After the time that the wiki asks for, else a growing one; four times, then the error goes up."""
    async with api_at(proxy.api) as api:
        proxy.canned = [answer]
        assert "query" in await api.get(**SITE)
        assert len(pauses.slept) == 1
        if pause is not None:
            assert pauses.slept == [pause]
        proxy.canned = [answer] * 4
        proxy.requests.clear()
        with pytest.raises(error) as raised:
            await api.get(**SITE)
    assert type(raised.value) is error
    assert raised.value.retry_s == (pause or 0)
    assert len(proxy.requests) == 4


async def test_a_wiki_that_wants_long_peace_gets_it_from_the_caller(
    proxy: WikiProxy, api_at: ApiAt, pauses: PauseRecorder
) -> None:
    """More than the patience is not waited here; the caller is told how long."""
    proxy.canned = [ProxiedResponse(429, b"", {"Retry-After": "3600"})]
    async with api_at(proxy.api) as api:
        with pytest.raises(ThrottledError) as raised:
            await api.get(**SITE)
    assert (raised.value.retry_s, pauses.slept, len(proxy.requests)) == (3600, [], 1)


async def test_a_wiki_that_hangs_is_away(proxy: WikiProxy, api_at: ApiAt) -> None:
    """One answer may take so long, however it is doled out."""
    proxy.canned = [ProxiedResponse(hangs=True)]
    async with api_at(proxy.api, limit_s=0.5, attempts=1) as api:
        with pytest.raises(WikiAwayError, match="did not answer"):
            await api.get(**SITE)


async def test_a_wiki_that_is_not_there_is_known_to_have_done_nothing(api_at: ApiAt) -> None:
    """Nothing left for it."""
    async with api_at("http://127.0.0.1:9/api.php", attempts=1) as api:
        with pytest.raises(WikiAwayError) as raised:
            await api.get(**SITE)
    assert raised.value.is_unsent


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (ProxiedResponse(401, PAGE, {"WWW-Authenticate": "Basic"}), LoggedOutError, "--basic-file"),
        (ProxiedResponse(403, PAGE), PermissionDeniedError, "refuses our requests"),
        (ProxiedResponse(404, PAGE), WikiRefusedError, "no API"),
        (ProxiedResponse.api_error("readapidenied"), LoggedOutError, "--account"),
        (ProxiedResponse.api_error("permissiondenied"), PermissionDeniedError, "permissiondenied"),
        (ProxiedResponse.api_error("abusefilter-disallowed"), PermissionDeniedError, "abusefilter"),
        (ProxiedResponse.api_error("badvalue", "Unrecognized\x1b[2J value"), WikiRefusedError, "badvalue"),
        (ProxiedResponse.of_json({"error": "broken"}), WikiRefusedError, "broken"),
        (
            ProxiedResponse.of_json({"errors": [{"code": "readapidenied", "text": "No"}]}),
            LoggedOutError,
            "readapidenied",
        ),
        (ProxiedResponse.of_json({"error": {"code": "x", "*": "old"}}), WikiRefusedError, "old"),
    ],
    ids=str,
)
async def test_what_does_not_pass_is_told_at_once(
    proxy: WikiProxy, api_at: ApiAt, answer: ProxiedResponse, error: type[Exception], message: str
) -> None:
    """One request, and an error that says what to do next; nothing of it moves a terminal's cursor."""
    proxy.canned = [answer]
    async with api_at(proxy.api) as api:
        with pytest.raises(error, match=message) as raised:
            await api.get(**SITE)
    assert len(proxy.requests) == 1
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    "account",
    [WikiCredentials(basic="me:pw"), WikiCredentials(token="a.b.c" * 20), WikiCredentials("U@a", password="pw")],
    ids=["basic", "token", "password"],
)
async def test_secrets_do_not_follow_a_redirect_to_another_server(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt, account: WikiCredentials
) -> None:
    """The new address is told instead."""
    proxy.script = lambda _: ProxiedResponse(308, b"", {"Location": wiki.api()})
    async with api_at(proxy.api, account) as api:
        with pytest.raises(WikiMovedError) as raised:
            await api.get(**SITE)
    assert raised.value.address == wiki.api()


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("https://portal.example/login", "another site"),
        ("/login?next=x", "instead of answering"),
        ("", "invalid address"),
        ("file:///etc/passwd", "invalid address"),
        ("http://127.0.0.1:22/api.php", "not used for the web"),
        ("/api.php", "in a loop"),
    ],
)
async def test_a_redirect_that_leads_astray_is_not_followed(
    proxy: WikiProxy, api_at: ApiAt, location: str, message: str
) -> None:
    """Portals, walls, circles and what is no web."""
    proxy.script = lambda _: ProxiedResponse(302, PAGE, {"Location": location})
    async with api_at(proxy.api, attempts=1) as api:
        with pytest.raises(WikiAwayError, match=message):
            await api.get(**SITE)
    assert {each.path for each in proxy.requests} == {"/api.php"}


async def test_a_wrong_password_says_what_to_do(proxy: WikiProxy, api_at: ApiAt, bot_name: str) -> None:
    """And is tried once."""
    async with api_at(proxy.api, WikiCredentials(bot_name, "x" * 32)) as api:
        with pytest.raises(LoggedOutError, match="Special:BotPasswords") as raised:
            await api.get(action="query", meta="siteinfo")
    assert "x" * 32 not in str(raised.value)
    assert len(proxy.requests_with(action="login")) == 1


async def test_too_many_logins_are_not_taken_for_a_wrong_password(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt
) -> None:
    """The wiki wants some peace, and then the same password may do."""
    name = make_bot(wiki, name="Hasty")
    errors: list[Exception] = []
    while len(errors) < 20 and not (errors and isinstance(errors[-1], ThrottledError)):
        async with api_at(proxy.api, WikiCredentials(name, "y" * 32)) as api:
            with pytest.raises((LoggedOutError, ThrottledError)) as raised:
                await api.get(action="query", meta="siteinfo")
            errors.append(raised.value)
    assert isinstance(errors[-1], ThrottledError)
    assert errors[-1].retry_s == 300


async def test_who_cannot_log_in_again_is_told(proxy: WikiProxy, api_at: ApiAt, bot_name: str) -> None:
    """The second refusal goes up."""

    def script(request: ProxiedRequest) -> ProxiedResponse | None:
        is_mine = request.params.get("meta") == "siteinfo"
        return ProxiedResponse.api_error("assertuserfailed") if is_mine else None

    proxy.script = script
    async with api_at(proxy.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        with pytest.raises(LoggedOutError):
            await api.get(**SITE)
    assert len(proxy.requests_with(action="login")) == 2


async def test_a_bad_token_is_fetched_again_once(proxy: WikiProxy, api_at: ApiAt, bot_name: str) -> None:
    """And what is still refused then goes up."""
    async with api_at(proxy.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        await api.token()
        api._tokens["csrf"] = "spoilt+\\"
        document = await api.post(action="edit", title="A bad token", text="x")
        assert document["edit"]["result"] == "Success"
        proxy.script = lambda request: (
            ProxiedResponse.api_error("badtoken") if request.params.get("action") == "edit" else None
        )
        proxy.requests.clear()
        with pytest.raises(WikiRefusedError, match="badtoken"):
            await api.post(action="edit", title="A bad token", text="y")
        assert len(proxy.requests_with(action="edit")) == 2


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (ProxiedResponse.api_error("ratelimited"), 4),
        (ProxiedResponse.api_error("readonly"), 4),
        (ProxiedResponse.api_error("maxlag"), 4),
        (ProxiedResponse(502, PAGE), 1),
        (ProxiedResponse(200, b'{"edit"', cut=2), 1),
        (ProxiedResponse(200, PAGE), 1),
    ],
    ids=["ratelimited", "readonly", "maxlag", "502", "cut", "html"],
)
async def test_a_write_is_sent_again_only_when_it_cannot_have_been_done(
    proxy: WikiProxy, api_at: ApiAt, bot_name: str, answer: ProxiedResponse, times: int
) -> None:
    """When in doubt the caller must look."""
    proxy.script = lambda request: answer if request.params.get("action") == "edit" else None
    async with api_at(proxy.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        with pytest.raises(WikiAwayError):
            await api.post(action="edit", title="Twice", text="x")
    assert len(proxy.requests_with(action="edit")) == times


async def test_answers_of_wrong_types_are_errors(proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter) -> None:
    """A token that is none."""
    writer.write("Types", "x")
    odd: list[Any] = [[], {"query": []}, {"query": {"tokens": {"csrftoken": 5}}}]
    proxy.script = lambda _: ProxiedResponse(200, json.dumps(odd[0]).encode())
    async with api_at(proxy.api, attempts=1) as api:
        for each in odd:
            proxy.script = lambda _, each=each: ProxiedResponse(200, json.dumps(each).encode())
            with pytest.raises(WikiAwayError):
                await api.token()
