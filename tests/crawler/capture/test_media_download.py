"""Media behind players: fetched by yt-dlp through the visit's proxy, and never at the page's cost."""

import asyncio
import json
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from core.config.settings import MediaSettings
from core.errors import ProxyUnavailableError
from core.hosts import ProxyEndpoint
from core.page_manifest import PageInfo, PlayerMedia, VisitOutcome, parse_pageinfo
from core.timestamps import warc_date
from crawler.capture.media_download import (
    MediaDownloads,
    MediaPlayer,
    _command,
    _environment,
    _parse_output,
    bootstrap,
    fetch_media,
    player_of,
)
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.pools.shared_contexts import ContextKey
from net.backoff import StoreRetry
from render.network_log import RequestLog
from render.visit import Visit
from tests.support.commands import CommandResult, WeboidRunner, profile_for
from tests.support.examples import examples
from tests.support.loopback import LoopbackServer
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check, index, records

PLAYER = f"https://{hosts.ACID}/player/"
PLAIN = f"http://{hosts.RULES}/page/plain"
SEGMENTS = {f"{PLAYER}segment-{n}.ts" for n in range(3)}
SECRET = ProxyEndpoint("127.0.0.1", 8_000, "visit", "not:for/everybody")


def manifests(weboid: WeboidRunner) -> dict[str, PageInfo]:
    """Return the page manifests by URL."""
    pages = [
        parse_pageinfo(payload)
        for _, target, _, payload in records(weboid.collection)
        if target.startswith("urn:pageinfo:")
    ]
    return {page.url: page for page in pages}


@dataclass
class PlayedPages:
    """Four pages with one player and a page without, visited by three workers; one of them in a second run, too."""

    weboid: WeboidRunner
    ran: CommandResult
    again: CommandResult
    request_counts: Counter[str]  # in the first run
    again_counts: Counter[str]
    pages: dict[str, PageInfo]  # of the first run
    records: list[tuple[str, str, dict[str, str], bytes]]  # likewise

    @property
    def players(self) -> list[PageInfo]:
        """Return the pages with the player."""
        return [page for url, page in self.pages.items() if url != PLAIN]

    @property
    def holders(self) -> list[PageInfo]:
        """Return those of them whose own visits requested the media."""
        return [
            page
            for page in self.players
            if not any(each.kept == "cached" and each.url in SEGMENTS for each in page.resources)
        ]


@pytest.fixture(scope="module")
def played(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> PlayedPages:
    """Archive the pages, and one of them again."""
    folder = tmp_path_factory.mktemp("played")
    media = {"players": True, "hosts": [hosts.RULES]}
    profile = profile_for(web, folder / "profile.toml", media=media, policy={"robots": "obey"})
    weboid = WeboidRunner(folder, profile)
    web.clear()
    ran = weboid.archive(*(f"{PLAYER}?{n}" for n in range(4)), PLAIN, "--workers=3")
    request_counts = Counter(each.url for each in web.requests())
    check(weboid.collection)
    pages, stored = manifests(weboid), list(records(weboid.collection))
    web.clear()
    again = weboid.archive(f"{PLAYER}?0", "--again")
    again_counts = Counter(each.url for each in web.requests())
    return PlayedPages(weboid, ran, again, request_counts, again_counts, pages, stored)


@pytest.mark.browser
@pytest.mark.proxy
def test_what_a_player_plays_is_kept_in_the_same_visit(played: PlayedPages) -> None:
    """Playlist and segments are in WARC and index under the page's id.

    A page of a known host that plays nothing is complete all the same, and its manifest says why.
    """
    (holder,) = played.holders
    media, nothing = holder.media, played.pages[PLAIN].media
    stored_urls = {
        target
        for kind, target, headers, _ in played.records
        if kind == "response" and headers["WARC-Page-ID"] == holder.page_id
    }

    assert played.ran.code == 0, played.ran.err
    assert played.ran.summary["outcomes"] == {"complete": 5}
    assert media is not None
    assert (media.reason, media.extractor) == ("", "generic")
    assert f"{PLAYER}stream.m3u8" in media.urls
    assert stored_urls >= SEGMENTS
    assert {row[0] for row in index(played.weboid.collection, "SELECT url FROM captures")} >= SEGMENTS
    assert {each.url for each in holder.resources} >= SEGMENTS
    assert nothing is not None
    assert nothing.urls == ()
    assert nothing.reason.startswith("yt-dlp: ERROR")


@pytest.mark.browser
@pytest.mark.proxy
def test_pages_of_a_run_share_the_media_and_robots_of_a_host(played: PlayedPages) -> None:
    """Three workers visit four pages with one player at a time: each of these is requested once.

    The manifests of the others name the records. A second run downloads again.
    """
    stored = {(target, headers["WARC-Date"]) for kind, target, headers, _ in played.records if kind == "response"}

    assert (played.ran.code, played.again.code) == (0, 0), played.ran.err + played.again.err
    assert {played.request_counts[url] for url in SEGMENTS} == {1}
    assert played.request_counts[f"https://{hosts.ACID}/robots.txt"] == 1
    assert (len(played.players), len(played.holders)) == (4, 1)
    for page in played.players:
        assert page.media is not None
        assert (page.media.reason, page.outcome) == ("", VisitOutcome.COMPLETE)
        named = {(e.url, e.recorded_at or d) for e in page.resources for u, d in stored if u == e.url}
        assert {url for url, date in named if (url, date) in stored} >= SEGMENTS
    assert played.again_counts[f"{PLAYER}segment-0.ts"] == 1


async def test_processes_of_a_run_share_downloads_and_sites_share_no_failures(tmp_path: Path) -> None:
    """Two processes with one frontier: what one has made the other uses, but for a failure on another site."""
    player, media = MediaPlayer(PLAYER, PLAIN), MediaSettings(players=True)
    one, two = ContextKey("one.example", "job", "settings"), ContextKey("two.example", "job", "settings")
    clock = SystemClock()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        processes = [MediaDownloads(frontier, StoreRetry(clock, lambda _event: None), clock) for _ in range(2)]

        async def uses(process: int, context: ContextKey, reason: str, captured_at: str = "") -> bool:
            async with processes[process].lend(player, context, media) as shared:
                url = f"https://{context.site}/"
                shared.made = PageInfo(
                    "p",
                    url,
                    url,
                    captured_at or warc_date(clock.now()),
                    VisitOutcome.COMPLETE,
                    media=PlayerMedia(reason=reason),
                )
                return shared.earlier is not None

        assert not await uses(0, one, "yt-dlp: ERROR")
        assert await uses(1, one, "yt-dlp: ERROR")
        assert not await uses(1, two, "")
        assert await uses(0, one, "")
        assert not await uses(0, one._replace(job="other"), "")
        assert await uses(1, one, "", "2020-01-01T00:00:00Z")
        assert not await uses(0, one, "")  # that one is of an earlier run


async def test_workers_that_never_end_make_a_download_once(tmp_path: Path) -> None:
    """Whichever began first, and also at the same time; a worker whose visit failed begins again at once."""
    player, media = MediaPlayer(PLAYER, PLAIN), MediaSettings(players=True)
    context, clock = ContextKey("one.example", "job", "settings"), SystemClock()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:

        def worker() -> MediaDownloads:
            return MediaDownloads(frontier, StoreRetry(clock, lambda _event: None), clock, endless=True)

        made: list[str] = []

        async def visits(downloads: MediaDownloads, name: str, *, fails: bool = False) -> None:
            async with downloads.lend(player, context, media) as shared:
                if shared.earlier is None:
                    made.append(name)
                    if fails:
                        raise ProxyUnavailableError("It died.")
                    url, moment = f"https://{context.site}/", warc_date(clock.now())
                    shared.made = PageInfo("p", url, url, moment, VisitOutcome.COMPLETE, media=PlayerMedia())

        first = worker()
        with pytest.raises(ProxyUnavailableError):
            await visits(first, "died", fails=True)
        await asyncio.gather(visits(worker(), "second"), visits(first, "first"))
        await visits(worker(), "third")

    assert made == ["died", "first"]


class PlaylistProxy(BaseHTTPRequestHandler):
    """A proxy that has a playlist and its segments."""

    playlist = b""
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Send the playlist or a segment, and record the path."""
        self.requests.append(self.path)
        body = self.playlist if self.path.endswith(".m3u8") else bytes(16)
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.apple.mpegurl")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "playlist"),
    [
        ("ftp", "#EXTINF:1,\n{url}/a.ts\n#EXT-X-ENDLIST\n"),
        ("ws", '#EXT-X-KEY:METHOD=AES-128,URI="{url}/key"\n#EXTINF:1,\na.ts\n#EXT-X-ENDLIST\n'),
        ("ftp", "#EXT-X-STREAM-INF:BANDWIDTH=1\n{url}/b.m3u8\n"),
    ],
    ids=["segment", "key", "variant"],
)
async def test_a_playlist_leads_nowhere_but_to_the_proxy(scheme: str, playlist: str) -> None:
    """Whatever scheme it names: nobody who listens on this machine hears of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, LoopbackServer(PlaylistProxy) as proxy:
        listener.setblocking(False)
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        PlaylistProxy.playlist = f"#EXTM3U\n#EXT-X-VERSION:3\n{playlist.format(url=url)}".encode()
        PlaylistProxy.requests.clear()
        through = ProxyEndpoint("127.0.0.1", proxy.server_port, "visit", "x")
        player = MediaPlayer("http://player.test/s.m3u8", "http://player.test/")
        played = await fetch_media(player, through, "", MediaSettings(players=True), clock=SystemClock())
        with pytest.raises(BlockingIOError):
            listener.accept()

    assert "http://player.test/s.m3u8" in PlaylistProxy.requests, played.reason


async def test_its_process_has_no_other_way(tmp_path: Path) -> None:
    """No name is looked up, nothing is connected to, sent, bound or started; the proxy is reached."""
    tries = """
import os, socket, subprocess
def attempt(name, call):
    try:
        call()
        print(name)
    except OSError:
        pass
attempt("proxy", lambda: socket.create_connection(("127.0.0.1", PORT)).close())
attempt("other port", lambda: socket.create_connection(("127.0.0.1", PORT + 1)).close())
attempt("udp", lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"", ("127.0.0.1", 53)))
attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect("/run/x"))
attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
attempt("name", lambda: socket.getaddrinfo("localhost", 80))
attempt("old name", lambda: socket.gethostbyname("localhost"))
attempt("program", lambda: subprocess.run(["/bin/true"]))
attempt("shell", lambda: os.system("true"))
"""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        port = proxy.getsockname()[1]
        (tmp_path / "tries.py").write_text(tries.replace("PORT", str(port)))
        source = bootstrap(MediaSettings(), ProxyEndpoint("127.0.0.1", port, "", ""), module="tries")
        command = [sys.executable, "-c", source]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ran.stdout.split("\n") == ["proxy", ""]


@pytest.mark.slow
@pytest.mark.parametrize(("limit_s", "reason"), [(30.0, "yt-dlp: ERROR"), (0.0, "deadline: 0 s")], ids=["gone", "slow"])
async def test_a_failure_is_told(limit_s: float, reason: str) -> None:
    """A proxy that is gone, a time that is up: no error is raised, nothing is left running."""
    through = ProxyEndpoint("127.0.0.1", 9, "visit", "x")
    media = MediaSettings(players=True, limit_s=limit_s)

    played = await fetch_media(MediaPlayer(PLAYER, PLAYER), through, "", media, clock=SystemClock())

    assert played.urls == ()
    assert played.reason.startswith(reason)


def seen(*requests: RequestLog, url: str = "https://page.example/", status: int = 200) -> Visit:
    """Return a visit to a page that made these requests."""
    return Visit(
        url=url,
        final_url=url,
        started_at=datetime(2026, 11, 1, tzinfo=UTC),
        outcome=VisitOutcome.COMPLETE,
        reason="",
        status=status,
        mime="text/html",
        headers={},
        title="",
        redirects=(),
        requests=requests,
        artifacts=(),
        outlinks=(),
        timings={},
        console=(),
        seconds=1.0,
    )


def request(url: str, kind: str = "Fetch", mime: str = "text/plain") -> RequestLog:
    """Return a log entry of a request with status 200."""
    return RequestLog(url, "GET", 200, mime, kind, from_cache=False, failed="")


EMBED = "https://www.youtube-nocookie.com/embed/x"
HLS = "https://cdn.example/live/master.M3U8?token=1"
DASH = "https://cdn.example/manifest"


@pytest.mark.parametrize(
    ("visited", "url"),
    [
        (seen(url="https://vimeo.com/1"), "https://vimeo.com/1"),
        (seen(request(HLS), request(EMBED, "Document")), EMBED),
        (seen(request(HLS)), HLS),
        (seen(request(DASH, mime="application/dash+xml")), DASH),
        (seen(request(EMBED, "Image")), None),
        (seen(url="https://vimeo.com/1", status=404), None),
        (seen(url="https://notvimeo.com/1"), None),
        (seen(), None),
    ],
    ids=range(8),
)
def test_a_player_is_known_by_host_frame_or_playlist(visited: Visit, url: str | None) -> None:
    """Only pages that suggest one cost a process."""
    player = player_of(visited, MediaSettings(players=True))

    assert (player.url if player is not None else None) == url
    assert player_of(visited, MediaSettings()) is None


def test_its_command_line_tells_no_secret_and_takes_no_orders(tmp_path: Path) -> None:
    """The login is in its environment alone, and a URL cannot be read as an option."""
    command = _command(MediaPlayer("--exec=x", PLAYER), tmp_path, MediaSettings(), SECRET)
    environment = _environment(SECRET, tmp_path, tmp_path)

    assert not any(SECRET.password in each or "everybody" in each for each in command)
    assert command[-2:] == ["--", "--exec=x"]
    assert {"--ignore-config", "--no-cookies", "--no-plugin-dirs", "--no-exec"} <= set(command)
    proxies = {value for name, value in environment.items() if name.lower().endswith("_proxy")}
    assert proxies == {"http://visit:not%3Afor%2Feverybody@127.0.0.1:8000", ""}
    assert environment["no_proxy"] == ""


_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_NAMES = st.sampled_from(["url", "manifest_url", "title", "id", "duration", "height", "extractor"])


@settings(max_examples=examples(30))
@given(st.lists(st.dictionaries(_NAMES, _VALUES).map(json.dumps) | st.text(max_size=20), max_size=6))
def test_whatever_it_says_the_manifest_holds(lines: list[str]) -> None:
    """Hostile words become bounded text, and go through a manifest unharmed."""
    played = _parse_output("\n".join(lines).encode(errors="replace"), "", seconds=1.0)
    document = json.dumps({"urls": played.urls, "title": played.title, "duration": played.duration_s})

    assert all(url.startswith(("http://", "https://")) for url in played.urls)
    assert len(played.title) <= 500
    assert played.urls or played.reason or "{" in "".join(lines)
    assert json.loads(document)


def test_a_manifest_with_media_reads_back() -> None:
    page = parse_pageinfo(
        b'{"version": 1, "page_id": "p", "url": "u", "final_url": "u", "captured_at": "c", "outcome": "complete"}'
    )
    page = replace(page, media=PlayerMedia(urls=("https://a.example/v.mp4",), title="T", duration_s=1.5))

    assert parse_pageinfo(page.to_json()) == page
