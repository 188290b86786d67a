"""A stream of changes notifies, as EventStreams does; from a real server of events."""

import asyncio
import json

from aiohttp import web

from wiki.api.client import ApiTiming
from wiki.api.transport import ApiTransport
from wiki.sync import wiki_watcher
from wiki.sync.wiki_watcher import notify_from_stream

RECENT = {"wiki": "onewiki", "type": "edit", "title": "A", "timestamp": 1795262400, "namespace": 0}
LINKS = {
    "database": "onewiki",
    "page_id": 7,
    "page_namespace": 0,
    "page_title": "A",
    "rev_id": 9,
    "meta": {"dt": "2026-11-21T12:00:00Z", "domain": "one.net"},
    "added_links": [{"link": "https://a.net/", "external": True}],
}


def test_a_stream_rings_for_wikis_that_are_watched() -> None:
    """An edit notifies; changed links name their page; other wikis are nobody's business."""
    notified: list[tuple[str, tuple[int, ...]]] = []
    stop = asyncio.Event()
    connections = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal connections
        connections += 1
        if connections == 1:  # at first it will not have us
            return web.Response(status=403)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, each in enumerate(({**RECENT, "wiki": "otherwiki"}, RECENT, LINKS)):
            await response.write(f"id: {number}\ndata: {json.dumps(each)}\n\n".encode())
        await stop.wait()
        return response

    def notify(dbname: str, _farm: str | None, pages: tuple[int, ...]) -> bool:
        notified.append((dbname, pages))
        if pages:
            stop.set()
        return True

    async def story() -> None:
        app = web.Application()
        app.router.add_get("/stream", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/stream"
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            await asyncio.sleep(0)

        try:
            async with ApiTransport(user_agent="test") as wire, asyncio.timeout(120):
                await notify_from_stream(
                    wire, url, notify=notify, watched=lambda: {"onewiki"}, stop=stop, timing=ApiTiming(sleep=pause)
                )
        finally:
            await runner.cleanup()
        assert wiki_watcher.STREAM_RETRY_S in pauses

    asyncio.run(story())
    assert notified == [("onewiki", ()), ("onewiki", (7,))]
