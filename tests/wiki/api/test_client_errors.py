"""Tests of `wiki.api.models`."""

import gzip
import json
from typing import Any

import pytest

from tests.support.sites.mediawiki import Wiki
from tests.support.wiki_front import Answer, Asked, Front
from tests.support.wiki_writer import BOT_SECRET, Writer, make_bot
from tests.wiki.api.conftest import ApiAt, Pauses
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


async def test_a_query_that_goes_in_a_circle_ends(front: Front, api_at: ApiAt) -> None:
    """The same place twice is an error, and so are more parts than are allowed."""
    front.script = lambda _: Answer.of_json({"continue": {"apcontinue": "A"}, "query": {}})
    async with api_at(front.api) as api:
        with pytest.raises(WikiRefusedError, match="endless"):
            [part async for part in api.query(list="allpages")]
        front.script = lambda asked: Answer.of_json(
            {"continue": {"apcontinue": f"{asked.params.get('apcontinue', '')}A"}, "query": {}}
        )
        with pytest.raises(WikiRefusedError, match="endless"):
            [part async for part in api.query(7, list="allpages")]
    assert len(front.seen) == 2 + 7


@pytest.mark.parametrize(
    ("answer", "error", "pause"),
    [
        (Answer.refusing("maxlag", Retry_After="7"), ThrottledError, 7),
        (Answer.refusing("maxlag"), ThrottledError, 5),
        (Answer.refusing("ratelimited", Retry_After="3"), ThrottledError, 3),
        (Answer.refusing("readonly", Retry_After="9"), ReadOnlyError, 9),
        (Answer(429, PAGE, {"Retry-After": "11"}), ThrottledError, 11),
        (Answer(503, PAGE, {"Retry-After": "12"}), WikiAwayError, 12),
        (
            Answer(
                503, PAGE, {"Date": "Sat, 21 Nov 2026 20:00:00 GMT", "Retry-After": "Sat, 21 Nov 2026 20:00:10 GMT"}
            ),
            WikiAwayError,
            10,
        ),
        (Answer.refusing("internal_api_error_DBQueryError"), WikiAwayError, None),
        (Answer(502, PAGE), WikiAwayError, None),
        (Answer(200, PAGE, {"Content-Type": "text/html"}), WikiAwayError, None),
        (Answer(200, b'{"query": {"gen', {"Content-Type": "application/json"}), WikiAwayError, None),
        (Answer(200, b'{"query": {}}', cut=5), WikiAwayError, None),
        (Answer(200, b"[1]", {"Content-Type": "application/json"}), WikiAwayError, None),
        (Answer(200, b"", {}), WikiAwayError, None),
        (Answer(200, b"x" * 50, {"Content-Encoding": "gzip"}), WikiAwayError, None),
        (Answer(200, gzip.compress(b"{}" * 99)[:-9], {"Content-Encoding": "gzip"}), WikiAwayError, None),
        (Answer(200, b"x", {"Content-Encoding": "br"}), WikiAwayError, None),
    ],
    ids=lambda value: None if not isinstance(value, str) else value,
)
async def test_what_may_pass_is_asked_again_and_then_told(
    front: Front, api_at: ApiAt, pauses: Pauses, answer: Answer, error: type[WikiAwayError], pause: float | None
) -> None:
    """After the time that the wiki asks for, else a growing one; four times, then the error goes up."""
    async with api_at(front.api) as api:
        front.instead = [answer]
        assert "query" in await api.get(**SITE)
        assert len(pauses.slept) == 1
        if pause is not None:
            assert pauses.slept == [pause]
        front.instead = [answer] * 4
        front.seen.clear()
        with pytest.raises(error) as raised:
            await api.get(**SITE)
    assert type(raised.value) is error
    assert raised.value.retry_s == (pause or 0)
    assert len(front.seen) == 4


async def test_a_wiki_that_wants_long_peace_gets_it_from_the_caller(
    front: Front, api_at: ApiAt, pauses: Pauses
) -> None:
    """More than the patience is not waited here; the caller is told how long."""
    front.instead = [Answer(429, b"", {"Retry-After": "3600"})]
    async with api_at(front.api) as api:
        with pytest.raises(ThrottledError) as raised:
            await api.get(**SITE)
    assert (raised.value.retry_s, pauses.slept, len(front.seen)) == (3600, [], 1)


async def test_a_wiki_that_hangs_is_away(front: Front, api_at: ApiAt) -> None:
    """One answer may take so long, however it is doled out."""
    front.instead = [Answer(hangs=True)]
    async with api_at(front.api, limit_s=0.5, attempts=1) as api:
        with pytest.raises(WikiAwayError, match="did not answer"):
            await api.get(**SITE)


async def test_a_wiki_that_is_not_there_is_known_to_have_done_nothing(api_at: ApiAt) -> None:
    """Nothing left for it."""
    async with api_at("http://127.0.0.1:9/api.php", attempts=1) as api:
        with pytest.raises(WikiAwayError) as raised:
            await api.get(**SITE)
    assert raised.value.is_unsent


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (Answer(401, PAGE, {"WWW-Authenticate": "Basic"}), LoggedOutError, "--basic-file"),
        (Answer(403, PAGE), PermissionDeniedError, "refuses our requests"),
        (Answer(404, PAGE), WikiRefusedError, "no API"),
        (Answer.refusing("readapidenied"), LoggedOutError, "--account"),
        (Answer.refusing("permissiondenied"), PermissionDeniedError, "permissiondenied"),
        (Answer.refusing("abusefilter-disallowed"), PermissionDeniedError, "abusefilter"),
        (Answer.refusing("badvalue", "Unrecognized\x1b[2J value"), WikiRefusedError, "badvalue"),
        (Answer.of_json({"error": "broken"}), WikiRefusedError, "broken"),
        (Answer.of_json({"errors": [{"code": "readapidenied", "text": "No"}]}), LoggedOutError, "readapidenied"),
        (Answer.of_json({"error": {"code": "x", "*": "old"}}), WikiRefusedError, "old"),
    ],
    ids=str,
)
async def test_what_does_not_pass_is_told_at_once(
    front: Front, api_at: ApiAt, answer: Answer, error: type[Exception], said: str
) -> None:
    """One request, and an error that says what to do next; nothing of it moves a terminal's cursor."""
    front.instead = [answer]
    async with api_at(front.api) as api:
        with pytest.raises(error, match=said) as raised:
            await api.get(**SITE)
    assert len(front.seen) == 1
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    "account",
    [WikiCredentials(basic="me:pw"), WikiCredentials(token="a.b.c" * 20), WikiCredentials("U@a", password="pw")],
    ids=["basic", "token", "password"],
)
async def test_secrets_do_not_follow_a_redirect_to_another_server(
    wiki: Wiki, front: Front, api_at: ApiAt, account: WikiCredentials
) -> None:
    """The new address is told instead."""
    front.script = lambda _: Answer(308, b"", {"Location": wiki.api()})
    async with api_at(front.api, account) as api:
        with pytest.raises(WikiMovedError) as raised:
            await api.get(**SITE)
    assert raised.value.address == wiki.api()


@pytest.mark.parametrize(
    ("location", "said"),
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
    front: Front, api_at: ApiAt, location: str, said: str
) -> None:
    """Portals, walls, circles and what is no web."""
    front.script = lambda _: Answer(302, PAGE, {"Location": location})
    async with api_at(front.api, attempts=1) as api:
        with pytest.raises(WikiAwayError, match=said):
            await api.get(**SITE)
    assert {each.path for each in front.seen} == {"/api.php"}


async def test_a_wrong_password_says_what_to_do(front: Front, api_at: ApiAt, bot_name: str) -> None:
    """And is tried once."""
    async with api_at(front.api, WikiCredentials(bot_name, "x" * 32)) as api:
        with pytest.raises(LoggedOutError, match="Special:BotPasswords") as raised:
            await api.get(action="query", meta="siteinfo")
    assert "x" * 32 not in str(raised.value)
    assert len(front.asked(action="login")) == 1


async def test_too_many_logins_are_not_taken_for_a_wrong_password(wiki: Wiki, front: Front, api_at: ApiAt) -> None:
    """The wiki wants some peace, and then the same password may do."""
    name = make_bot(wiki, name="Hasty")
    told: list[Exception] = []
    while len(told) < 20 and not (told and isinstance(told[-1], ThrottledError)):
        async with api_at(front.api, WikiCredentials(name, "y" * 32)) as api:
            with pytest.raises((LoggedOutError, ThrottledError)) as raised:
                await api.get(action="query", meta="siteinfo")
            told.append(raised.value)
    assert isinstance(told[-1], ThrottledError)
    assert told[-1].retry_s == 300


async def test_who_cannot_log_in_again_is_told(front: Front, api_at: ApiAt, bot_name: str) -> None:
    """The second refusal goes up."""

    def script(asked: Asked) -> Answer | None:
        is_mine = asked.params.get("meta") == "siteinfo"
        return Answer.refusing("assertuserfailed") if is_mine else None

    front.script = script
    async with api_at(front.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        with pytest.raises(LoggedOutError):
            await api.get(**SITE)
    assert len(front.asked(action="login")) == 2


async def test_a_bad_token_is_fetched_again_once(front: Front, api_at: ApiAt, bot_name: str) -> None:
    """And what is still refused then goes up."""
    async with api_at(front.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        await api.token()
        api._tokens["csrf"] = "spoilt+\\"
        told = await api.post(action="edit", title="A bad token", text="x")
        assert told["edit"]["result"] == "Success"
        front.script = lambda asked: Answer.refusing("badtoken") if asked.params.get("action") == "edit" else None
        front.seen.clear()
        with pytest.raises(WikiRefusedError, match="badtoken"):
            await api.post(action="edit", title="A bad token", text="y")
        assert len(front.asked(action="edit")) == 2


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (Answer.refusing("ratelimited"), 4),
        (Answer.refusing("readonly"), 4),
        (Answer.refusing("maxlag"), 4),
        (Answer(502, PAGE), 1),
        (Answer(200, b'{"edit"', cut=2), 1),
        (Answer(200, PAGE), 1),
    ],
    ids=["ratelimited", "readonly", "maxlag", "502", "cut", "html"],
)
async def test_a_write_is_sent_again_only_when_it_cannot_have_been_done(
    front: Front, api_at: ApiAt, bot_name: str, answer: Answer, times: int
) -> None:
    """When in doubt the caller must look."""
    front.script = lambda asked: answer if asked.params.get("action") == "edit" else None
    async with api_at(front.api, WikiCredentials(bot_name, BOT_SECRET)) as api:
        with pytest.raises(WikiAwayError):
            await api.post(action="edit", title="Twice", text="x")
    assert len(front.asked(action="edit")) == times


async def test_answers_of_wrong_types_are_errors(front: Front, api_at: ApiAt, writer: Writer) -> None:
    """A token that is none."""
    writer.write("Types", "x")
    odd: list[Any] = [[], {"query": []}, {"query": {"tokens": {"csrftoken": 5}}}]
    front.script = lambda _: Answer(200, json.dumps(odd[0]).encode())
    async with api_at(front.api, attempts=1) as api:
        for each in odd:
            front.script = lambda _, each=each: Answer(200, json.dumps(each).encode())
            with pytest.raises(WikiAwayError):
                await api.token()
