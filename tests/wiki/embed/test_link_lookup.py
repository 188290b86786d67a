"""Asking a front, and what is believed of its answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from core.errors import ConfigError
from tests.support.clocks import ManualClock
from tests.support.embed_front import StubFront, answer_of
from tests.support.examples import examples
from wiki.embed.link_lookup import HttpLinkLookup, LinkAnswer, LookupOptions, read_answers, url_batches

FRONT = "https://archive.test"
URL = "https://cited.example.com/x"


def lookup(front: StubFront, clock: Any = None, *, timeout_s: float = 10, **manner: Any) -> HttpLinkLookup:
    """Return a client that queries the front."""
    return HttpLinkLookup(
        front.origin, clock=clock or SystemClock(), timeout_s=timeout_s, manner=LookupOptions(**manner)
    )


async def test_answers_are_kept_as_long_as_the_front_says(front: StubFront) -> None:
    """Then the same are asked for again, and only those that are missing before."""
    clock = ManualClock(seconds=100.0)
    front.fresh_s = 30
    async with lookup(front, clock) as client:
        await client.ask("me@me", [URL, "https://b.example.com/"])
        await client.ask("me@me", ["https://c.example.com/", URL])
        clock.seconds += 31
        await client.ask("me@me", [URL])

    assert [each["urls"] for each in front.queries] == [
        [URL, "https://b.example.com/"],
        ["https://c.example.com/"],
        [URL],
    ]


async def test_one_wiki_s_answers_are_not_another_s(front: StubFront) -> None:
    """The state of a link is disclosed only to its own farm (W20)."""
    async with lookup(front) as client:
        await client.ask("me@me", [URL])
        await client.ask("you@you", [URL])

    assert [each["wiki"] for each in front.queries] == ["me@me", "you@you"]


async def test_a_front_that_failed_is_asked_again_after_a_rest(front: StubFront) -> None:
    """Not at once, and not never."""
    clock = ManualClock(seconds=100.0)
    front.status = 500
    async with lookup(front, clock) as client:
        assert await client.ask("me@me", [URL]) == {}
        assert client.failure == "it answers with status 500"
        front.status = 200
        assert await client.ask("me@me", [URL]) == {}
        clock.seconds += 31
        assert set(await client.ask("me@me", [URL])) == {URL}
        assert client.failure == ""

    assert len(front.queries) == 2


async def test_a_front_that_hangs_is_not_waited_for(front: StubFront) -> None:
    """The time-out is that of the whole question."""
    front.released.clear()
    async with lookup(front, timeout_s=0.1) as client:
        assert await client.ask("me@me", [URL]) == {}

    assert "longer than 0.1 s" in client.failure


async def test_a_patient_one_waits_when_it_is_told_to(front: StubFront) -> None:
    """A build of a site asks for more than a front likes to answer at once."""
    front.status = 429

    def body(_: dict[str, Any]) -> bytes:
        if len(front.queries) > 1:
            front.status = 200
            links = [answer_of(URL, front.origin)]
            return json.dumps({"links": links, "fresh_s": 1}).encode()
        return b""

    front.make_body = body
    front.retry_after = "0"
    async with lookup(front, is_patient=True) as client:
        assert set(await client.ask("me@me", [URL])) == {URL}
    assert len(front.queries) == 2


async def test_a_token_and_a_language_are_sent_along(front: StubFront) -> None:
    """As docs/reference/registry-api.md has them."""
    async with lookup(front, language="de", token="secret") as client:
        await client.ask("me@me", [URL])

    assert front.queries[0]["lang"] == "de"
    assert front.headers[0]["authorization"] == "Bearer secret"


def test_questions_are_as_long_as_a_front_reads() -> None:
    """A thousand URLs, and a quarter of a megabyte."""
    short = [f"https://a.example.com/{number}" for number in range(2_500)]
    long = [f"https://a.example.com/{number}/" + "ü" * 4_000 for number in range(200)]

    assert [len(each) for each in url_batches(short)] == [1_000, 1_000, 500]
    assert all(len(json.dumps(each, ensure_ascii=False).encode()) < 260_000 for each in url_batches(long))
    assert [url for each in url_batches(long) for url in each] == long


@pytest.mark.parametrize("text", ["archive.test", "ftp://archive.test", "https://", "", "https://a b/"])
def test_a_front_without_an_address_is_refused(text: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError):
        HttpLinkLookup(text, clock=SystemClock())


def believed(**changed: Any) -> LinkAnswer:
    """Return what is accepted of one answer with those fields."""
    answer = answer_of(URL, FRONT) | changed
    answers, _ = read_answers({"links": [answer]}, [URL], [FRONT])
    return answers[URL]


HREFS = {
    "script": "javascript:alert(1)",
    "data": "data:text/html,x",
    "elsewhere": "https://evil.example.com/page/1/x",
    "look-alike": "https://archive.test.evil.example.com/x",
    "user-info": "https://archive.test@evil.example.com/x",
    "other-scheme": "http://archive.test/x",
    "relative": "/page/1/x",
    "backslash": "https://archive.test/\\evil.example.com",
    "list": ["https://archive.test/x"],
    "number": 7,
    "long": "https://archive.test/" + "x" * 9_000,
    "looks-like-an-archive": "https://evil.example.com/web/20200101000000/https://x.example.com/",
}


@pytest.mark.parametrize("href", HREFS.values(), ids=HREFS.keys())
def test_nobody_is_led_where_no_copy_can_be(href: Any) -> None:
    """Addresses are this archive's, or a known archive's."""
    assert believed(href=href, copy=href) == LinkAnswer(
        URL, group="working", words="Working when last seen, “yesterday”"
    )


def test_a_known_archive_s_copy_is_believed() -> None:
    """The front offers those, too."""
    copy = "https://web.archive.org/web/20200101000000/https://cited.example.com/x"

    assert believed(href=copy, copy=copy).href == copy


def test_copies_at_an_origin_that_is_not_known_are_reached_through_their_page() -> None:
    """Replay has an origin of its own; the page around a copy is the front's."""
    page = f"{FRONT}/page/20260102030405/{URL}"

    answer = believed(copy="https://copies.example.com/x")

    assert (answer.href, answer.copy) == (page, page)


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("group", 'x" onclick="', "unknown"), ("group", None, "unknown"), ("date", "<b>", ""),
        ("date", 7, ""), ("words", "a\x00b\u202ec\nd\ud800", "a b c d".replace(" c", "c")),
        ("words", {"x": 1}, ""), ("is_dead", "yes", False), ("words", "x" * 999, "x" * 300),
    ],
    ids=str,
)  # fmt: skip
def test_fields_of_another_form_count_as_nothing(field: str, value: Any, read: Any) -> None:
    """They end in other people's pages."""
    assert getattr(believed(**{field: value}), field) == read


def test_an_answer_to_another_question_is_none() -> None:
    """Order and URL must both fit."""
    other = answer_of("https://other.example.com/", FRONT)

    assert read_answers({"links": [other]}, [URL], [FRONT])[0] == {}


@pytest.mark.parametrize("fresh", [-1, 1e9, "60", None, True, float("nan")], ids=str)
def test_a_term_that_is_none_is_a_minute(fresh: Any) -> None:
    """Nobody is made to keep an answer for ever."""
    assert read_answers({"links": [], "fresh_s": fresh}, [], [FRONT])[1] == 60


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(("links", "url", "answer", "href", "copy", "group", "words", "fresh_s")), inner
        )
    ),
    max_leaves=20,
)


@settings(max_examples=examples(40))
@given(JSON)
def test_whatever_a_front_says_is_read(document: Any) -> None:
    """And nothing but answers to what was asked comes of it."""
    answers, fresh_s = read_answers(document, [URL], [FRONT])

    assert set(answers) <= {URL}
    assert 0 <= fresh_s <= 86_400


@pytest.mark.parametrize(
    "body",
    [lambda _: b"", lambda _: b"<html>", lambda _: b"[" * 100_000, lambda _: b"{}" + b" " * (9 << 20)],
    ids=["empty", "html", "deep", "large"],
)
async def test_an_answer_that_is_none_is_a_failure(front: StubFront, body: Callable[[Any], bytes]) -> None:
    """The page stays as it is."""
    front.make_body = body
    async with lookup(front) as client:
        assert await client.ask("me@me", [URL]) == {}
        assert (client.failure == "") is (body(None)[:2] == b"{}" and len(body(None)) < 1_000)
