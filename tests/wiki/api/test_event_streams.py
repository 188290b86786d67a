"""Wikimedia's streams of events and MediaWiki's datagrams: read wherever they are cut, resumed."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.sites.mediawiki import running_wiki
from tests.support.wiki_writer import WikiWriter
from tests.wiki.api.conftest import PauseRecorder
from wiki.api.client import ApiTiming
from wiki.api.models import WikiAwayError, WikiRefusedError
from wiki.api.recent_changes import EVENT_CHARS, EventReader, StreamNotice, listen_to_stream, parse_event
from wiki.api.transport import ApiTransport
from wiki.sync.webhook import parse_datagram

RECENT: dict[str, Any] = {
    "$schema": "/mediawiki/recentchange/1.0.0",
    "meta": {"domain": "de.wikipedia.org", "dt": "2026-11-21T20:00:00.123Z", "id": "a", "offset": 5},
    "id": 77,
    "type": "edit",
    "namespace": 0,
    "title": "Käse",
    "comment": "",
    "timestamp": 1795291200,
    "user": "X",
    "bot": True,
    "minor": False,
    "length": {"old": 1, "new": 2},
    "revision": {"old": 8, "new": 9},
    "server_url": "https://de.wikipedia.org",
    "server_name": "de.wikipedia.org",
    "wiki": "dewiki",
}
LINKS: dict[str, Any] = {
    "meta": {"domain": "de.wikipedia.org", "dt": "2026-11-21T20:00:00Z"},
    "database": "dewiki",
    "page_id": 5,
    "page_title": "Alter_Käse",
    "page_namespace": 0,
    "rev_id": 9,
    "performer": {"user_text": "X", "user_is_bot": False},
    "added_links": [{"link": "https://a.example/?b=1", "external": True}, {"link": "/wiki/Milch", "external": False}],
    "removed_links": [{"link": "https://b.example/", "external": True}],
}


def _event(document: Any, number: int) -> bytes:
    place = json.dumps([{"topic": "x", "partition": 0, "offset": number}])
    return f"event: message\nid: {place}\ndata: {json.dumps(document)}\n\n".encode()


class ScriptedStream:
    """A server that sends what it is told to, one script for each connection."""

    def __init__(self) -> None:
        self.scripts: list[list[bytes]] = []
        self.ids: list[str | None] = []
        self.status = 200
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one connection."""
        self.ids.append(request.headers.get("Last-Event-ID"))
        if self.status != 200:
            return web.Response(status=self.status, headers={"Retry-After": "33"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for piece in self.scripts.pop(0) if self.scripts else []:
            await response.write(piece)
        return response


@pytest.fixture
async def stream() -> AsyncIterator[ScriptedStream]:
    """Yield a scripted stream while a server serves it."""
    stream = ScriptedStream()
    app = web.Application()
    app.router.add_get("/v2/stream/x", stream.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stream.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v2/stream/x"
    yield stream
    await runner.cleanup()


async def _listened(stream: ScriptedStream, pauses: PauseRecorder, count: int, **more: Any) -> list[StreamNotice]:
    notices = []
    async with ApiTransport(user_agent="test") as wire:
        timing = ApiTiming(sleep=pauses)
        async with aclosing(
            listen_to_stream(wire, stream.url, watched=lambda: {"dewiki"}, timing=timing, **more)
        ) as telling:
            async for notice in telling:
                notices.append(notice)
                if len(notices) == count:
                    break
    return notices


async def test_a_stream_is_resumed_where_it_broke_off(stream: ScriptedStream, pauses: PauseRecorder) -> None:
    """Heartbeats, other wikis, canaries and nonsense are passed over; nothing is lost or doubled."""
    other = {**RECENT, "wiki": "frwiki"}
    canary = {**RECENT, "meta": {"domain": "canary"}}
    whole = _event({**RECENT, "id": 3}, 13)
    stream.scripts = [
        [b":ok\n\n", _event({**RECENT, "id": 1}, 11), _event(other, 12), whole[:-20]],
        [b": beat\n\n", whole[:30], whole[30:], _event(canary, 14), b"id: x\ndata: {nonsense\n\n"],
        [_event({**RECENT, "type": "categorize"}, 15), _event(LINKS, 16)],
    ]
    notices = await _listened(stream, pauses, 3, last_id="[kept]")
    assert [(each.wiki, each.page_id) for each in notices] == [("dewiki", 0)] * 2 + [("dewiki", 5)]
    assert stream.ids[0] == "[kept]"
    assert "12" in (stream.ids[1] or "")
    assert stream.ids[2] == "x"
    assert len(pauses.slept) == 2


async def test_a_server_that_stays_away_is_told_after_many_attempts(
    stream: ScriptedStream, pauses: PauseRecorder
) -> None:
    """Each after a longer pause, and not before it allows; one that has no such stream at once."""
    stream.status = 503
    with pytest.raises(WikiAwayError):
        await _listened(stream, pauses, 1)
    assert len(pauses.slept) == 12
    assert min(pauses.slept) >= 33
    stream.status = 404
    with pytest.raises(WikiRefusedError):
        await _listened(stream, pauses, 1)


async def test_a_stream_that_is_none_is_away(stream: ScriptedStream, pauses: PauseRecorder) -> None:
    """Nobody listens there."""
    stream.url = "http://127.0.0.1:9/x"
    with pytest.raises(WikiAwayError):
        await _listened(stream, pauses, 1)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("data"), st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)),
            st.tuples(st.just(""), st.just(" a comment")),
            st.tuples(st.just("id"), st.sampled_from(["1", "2", ""])),
            st.just(("end", "")),
        ),
        max_size=20,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_a_stream_is_read_alike_however_it_is_cut(lines: list[tuple[str, str]], end: str, data: st.DataObject) -> None:
    """In the middle of a letter, of a line's end, of an event."""
    text = "".join(end if name == "end" else f"{name}: {value}{end}" for name, value in lines)
    whole = (text + end + "data: last" + end + end + ":" + end).encode()
    expected = EventReader().feed(whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    reader = EventReader()
    events = []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        events.extend(reader.feed(whole[start:stop]))
    assert events == expected
    assert expected[-1].data.endswith("last")


def test_a_line_without_end_is_an_error() -> None:
    """Memory has a limit; pieces that end no line cost nothing but their place."""
    reader = EventReader()
    for _ in range(EVENT_CHARS // 1_000):
        assert reader.feed(b"x" * 1_000) == []
    with pytest.raises(WikiAwayError):
        reader.feed(b"x")


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*RECENT, *LINKS, "log_params"]), JSON, max_size=4))
@settings(max_examples=examples(30))
def test_any_event_tells_something_or_nothing(odd: dict[str, Any]) -> None:
    """Nothing in it raises."""
    for document in ({**RECENT, **odd}, {**LINKS, **odd}, odd):
        data = json.dumps(document)
        notice = parse_event(EventReader().feed(f"data: {data}\n\n".encode())[0], {"dewiki"})
        assert notice is None or isinstance(notice, StreamNotice)


@pytest.mark.slow
async def test_a_real_wiki_rings() -> None:
    """$wgRCFeeds as an operator sets it: an edit, a move with its target, a deletion."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(120)
        port = receiver.getsockname()[1]
        feed = (
            f"$wgRCFeeds['weboid'] = [ 'uri' => 'udp://127.0.0.1:{port}', "
            "'formatter' => 'JSONRCFeedFormatter', 'omit_bots' => false ];"
        )
        with running_wiki(server="self", settings=feed) as wiki:
            writer = WikiWriter(wiki.api())
            writer.write("Rung Ü", "x")
            writer.move("Rung Ü", "Rung twice")
            writer.delete("Rung twice")
            changes = [json.loads(await asyncio.to_thread(receiver.recv, 65_536)) for _ in range(3)]
    assert {parse_datagram(json.dumps(each).encode()) for each in changes} == {"my_wiki"}
