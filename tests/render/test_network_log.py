"""The request log: DevTools events in, facts out."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from render.network_log import (
    PATIENCE_S,
    POLL_HELD_TIMES,
    POLL_TIMES,
    UNREAD_S,
    DocumentResponse,
    NetworkLog,
    RequestLog,
    without_fragment,
)

MAIN = "main-frame"


class EventStory:
    """A log and the events that it is told."""

    def __init__(self, limit: int = 100) -> None:
        self.log = NetworkLog(MAIN, limit=limit)
        self.changes = 0
        self.log.on_change = self.changed

    def changed(self) -> None:
        """Count a change."""
        self.changes += 1

    def tell(self, method: str, owner: str = "tab", now: float = 0.0, **params: Any) -> None:
        """Pass one event to the log."""
        self.log.handle_event(f"Network.{method}", params, owner=owner, now=now)

    def ask(self, request: str, url: str, kind: str = "Image", **more: Any) -> None:
        """Pass the event of a sent request to the log."""
        facts = {"requestId": request, "request": {"url": url, "method": "GET"}, "type": kind}
        self.tell("requestWillBeSent", **{"loaderId": "L", **facts, **more})

    def answer(self, request: str, status: int = 200, kind: str = "Image", **more: Any) -> None:
        """Pass the event of a received response to the log."""
        response = {"status": status, "mimeType": "text/html", "url": "http://a/#f", "headers": {}}
        facts = {"requestId": request, "loaderId": "L", "type": kind}
        self.tell("responseReceived", response=response, **{**facts, **more})


def test_a_request_is_told_with_its_response() -> None:
    """Without its fragment."""
    story = EventStory()
    story.ask("1", "http://a/b#c")
    story.answer("1", 404)
    story.tell("loadingFinished", requestId="1")

    assert story.log.entries() == (
        RequestLog("http://a/b", "GET", 404, "text/html", "Image", failed="", from_cache=False),
    )


def test_each_hop_of_a_redirect_is_an_entry() -> None:
    """With the status that redirected."""
    story = EventStory()
    redirect = {"status": 301, "mimeType": "", "url": "http://a/1"}
    story.ask("1", "http://a/1", "Document", frameId=MAIN)
    story.ask("1", "http://a/2", "Document", frameId=MAIN, redirectResponse=redirect)
    story.answer("1", kind="Document", frameId=MAIN)

    assert [(each.url, each.status) for each in story.log.entries()] == [("http://a/1", 301), ("http://a/2", 200)]
    assert story.log.hops == {"L": ["http://a/1"]}


def test_data_urls_are_left_out() -> None:
    """They ask nobody for anything."""
    story = EventStory()
    for url in ("data:image/png;base64,AA", "blob:http://a/1", "about:blank", "chrome://x"):
        story.ask(url, url)

    assert story.log.entries() == ()
    assert story.log.holding_until(0.0) is None


def test_a_cached_response_is_marked() -> None:
    """From memory or from disk."""
    story = EventStory()
    story.ask("1", "http://a/1")
    story.tell("requestServedFromCache", requestId="1")
    story.ask("2", "http://a/2")
    story.tell(
        "responseReceived",
        requestId="2",
        type="Image",
        response={"status": 200, "url": "http://a/2", "fromDiskCache": True},
    )

    assert [each.from_cache for each in story.log.entries()] == [True, True]


def test_a_304_for_what_a_page_had_in_memory_is_a_cached_response() -> None:
    """A script that asks with a condition of its own is given the 304 itself."""
    story = EventStory()
    for number, kind in enumerate(("Stylesheet", "Fetch")):
        story.ask(str(number), f"http://a/{number}", kind)
        story.answer(str(number), 304, kind)

    assert [(each.status, each.from_cache) for each in story.log.entries()] == [(200, True), (304, False)]


def test_a_failure_keeps_its_reason() -> None:
    """The reason for blocking takes precedence over the error that followed."""
    story = EventStory()
    for number, cause in enumerate(({"errorText": "net::ERR_FAILED"}, {"errorText": "x", "blockedReason": "csp"}, {})):
        story.ask(str(number), "http://a/")
        story.log.handle_event("Network.loadingFailed", {"requestId": str(number), **cause}, owner="tab", now=0.0)

    assert [each.failed for each in story.log.entries()] == ["net::ERR_FAILED", "csp", "failed"]


def test_only_the_main_frames_document_counts() -> None:
    """A frame's document is one request among others."""
    story = EventStory()
    story.ask("1", "http://a/", "Document", frameId="inner")
    story.answer("1", kind="Document", frameId="inner")
    story.ask("2", "http://a/", "Document", frameId=MAIN)
    story.answer("2", kind="Document", frameId=MAIN)

    assert list(story.log.documents) == ["L"]
    assert story.log.documents["L"].url == "http://a/"


def test_an_image_holds_the_page_until_it_came() -> None:
    """However long it takes."""
    story = EventStory()
    story.ask("1", "http://a/")

    assert story.log.holding_until(10_000.0) == float("inf")
    story.tell("loadingFinished", requestId="1")
    assert story.log.holding_until(0.0) is None


def test_a_long_poll_holds_the_page_for_a_while() -> None:
    """It may never answer."""
    story = EventStory()
    story.ask("1", "http://a/", "Fetch")

    assert story.log.holding_until(PATIENCE_S / 2) == PATIENCE_S
    assert story.log.holding_until(PATIENCE_S) is None


def test_streams_never_hold_the_page() -> None:
    """Event streams, pings and sockets are not waited for."""
    story = EventStory()
    for kind in ("EventSource", "Ping", "Prefetch"):
        story.ask(kind, "http://a/", kind)
    story.tell("webSocketCreated", requestId="ws", url="wss://a/socket")

    assert story.log.holding_until(0.0) is None
    assert [each.url for each in story.log.entries()][-1] == "wss://a/socket"


def test_a_worker_that_ended_holds_nothing() -> None:
    """Nobody will tell how its requests ended."""
    story = EventStory()
    story.tell(
        "requestWillBeSent", owner="worker", requestId="1", type="Script", request={"url": "http://a/", "method": "GET"}
    )
    story.log.owner_gone("worker")

    assert story.log.holding_until(0.0) is None
    assert story.log.entries()[0].failed == "detached"


def test_the_log_is_bounded() -> None:
    """Requests over the limit are not kept, and the log reports the overflow."""
    story = EventStory(limit=3)
    for number in range(10):
        story.ask(str(number), "http://a/")

    assert len(story.log.entries()) == 3
    assert story.log.overflowed


def test_the_proxys_own_errors_are_told_apart() -> None:
    """By their header, or by a status that only proxies use (RFC 9110, 15.5.8)."""
    assert DocumentResponse("http://a/", 502, "", {}).proxy_error == ""
    assert DocumentResponse("http://a/", 502, "", {"weboid-proxy-error": "dns"}).proxy_error == "dns"
    assert DocumentResponse("http://a/", 407, "", {}).proxy_error == "proxy: 407"


@given(st.lists(st.sampled_from(["ask", "answer", "finish", "fail", "redirect"]), max_size=30))
def test_nothing_is_open_once_everything_ended(steps: list[str]) -> None:
    """Whatever the order of events, each request is told once and ends once."""
    story = EventStory()
    request_count = 0
    for step in steps:
        match step:
            case "ask":
                story.ask("1", "http://a/")
                request_count += 1
            case "redirect":
                response = {"status": 302, "mimeType": "", "url": "http://a/"}
                story.ask("1", "http://a/", redirectResponse=response)
                request_count += 1
            case "answer":
                story.answer("1")
            case "finish":
                story.tell("loadingFinished", requestId="1")
            case _:
                story.tell("loadingFailed", requestId="1", errorText="x")
    story.tell("loadingFinished", requestId="1")

    assert story.log.holding_until(0.0) is None
    assert len(story.log.entries()) == request_count


@given(st.text(), st.text())
def test_a_fragment_is_everything_behind_the_first_hash(url: str, fragment: str) -> None:
    """Nothing before it is touched."""
    plain = url.replace("#", "")

    assert without_fragment(f"{plain}#{fragment}") == plain


def test_an_answered_fetch_holds_only_for_a_moment() -> None:
    """Whoever does not read the body leaves it open for ever."""
    story = EventStory()
    story.ask("1", "http://a/", "Fetch")
    assert story.log.holding_until(1.0) == PATIENCE_S

    story.answer("1", kind="Fetch", now=2.0)

    assert story.log.holding_until(2.0) == 2.0 + UNREAD_S
    assert story.log.holding_until(2.0 + UNREAD_S) is None


def test_a_poll_is_no_news_and_soon_holds_nothing() -> None:
    """A poll requests one path again and again, whatever its query."""
    story = EventStory()
    for number in range(POLL_HELD_TIMES):
        story.ask(f"{number}", f"http://a/poll?{number}", "XHR")
        story.tell("loadingFinished", requestId=f"{number}")
    assert story.log.news == POLL_TIMES

    story.ask("next", "http://a/poll?next", "XHR")

    assert story.log.holding_until(0.0) is None


def test_many_images_of_one_path_are_no_poll() -> None:
    """A page asks for them once each, however alike their URLs are."""
    story = EventStory()
    for number in range(2 * POLL_HELD_TIMES):
        story.ask(f"{number}", f"http://a/image?{number}")

    assert story.log.news == 2 * POLL_HELD_TIMES
    assert story.log.holding_until(0.0) == float("inf")


def test_only_scripts_make_a_page_scripted() -> None:
    """Images and style sheets can do nothing by themselves."""
    story = EventStory()
    story.ask("1", "http://a/image")
    story.ask("2", "http://a/style", "Stylesheet")
    assert not story.log.scripted

    story.ask("3", "http://a/script", "Script")

    assert story.log.scripted
