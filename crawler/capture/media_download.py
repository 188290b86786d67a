"""Download of video and audio behind players, with yt-dlp in a confined process, within the page's visit at the proxy.

yt-dlp is an optional extra (``pip install weboid[media]``), run as a separate process and never imported here: it gets
a temporary folder, no configuration, cookies, plug-ins or helper programs, the proxy as its only route, and
kernel-enforced limits. It cannot make a page fail; the manifest has the result (`PlayerMedia`).
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote, urlsplit
from weakref import WeakValueDictionary

from core.clock import Clock
from core.config.settings import MediaSettings
from core.errors import BrowserUnavailableError
from core.hosts import HostPatterns, ProxyEndpoint, registrable
from core.page_manifest import PageInfo, PlayerMedia, parse_pageinfo
from core.timestamps import warc_date
from core.urls import host_of, host_or_empty
from crawler.capture.reconciliation import CACHED
from crawler.frontier.base import Frontier
from crawler.pools.shared_contexts import CachedRecord, ContextKey
from net.backoff import StoreRetry
from proxy.control.client import ProxyVisit
from render.browser_process import NOBODY, privilege_prefix
from render.visit import Visit
from warc.local_storage import ScratchKind, scratch_folder

MODULE = "yt_dlp"
_OUTPUT_LIMIT_BYTES = 16_000_000  # output about a page; a playlist's formats are about 1 MB
_TEXT_LIMIT = 500  # characters of any text of its that is kept
_URL_LIMIT = 8_192
_NOTE = "media"  # the kind of the frontier's notes on downloads
_CLAIM = "media-claim"  # of notes on downloads under way
_CLAIM_EXCESS = timedelta(minutes=1)  # beyond the time limit of the download, for the rest of its visit
_CLAIM_POLL_S = 1.0
_FAILURE_AGE = timedelta(minutes=10)  # before a page of the same site tries again what failed
_FILES = 4  # of one page: a picture and a sound stream are two
_PLAYLISTS = (".m3u8", ".mpd", ".ism/manifest", ".f4m")
_PLAYLIST_TYPES = frozenset(
    (
        *("application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl"),
        *("audio/x-mpegurl", "application/dash+xml"),
    )
)
_MEMORY_BYTES = 2_000_000_000
# Runs before yt-dlp, in its process: limits that the kernel keeps, and an audit hook, which
# nothing can take away again, that lets no socket reach anything but the visit's proxy. yt-dlp picks a
# handler by scheme, and those for ftp: and ws: would go there themselves.
_BOOTSTRAP = """
import resource, runpy, socket, sys
for limit, value in (("FSIZE", {size}), ("AS", {memory}), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (value, value))
host, port = {host!r}, {port}
way = {{each[4][0] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}}
closed = frozenset((
    "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo", "socket.bind",
    "socket.sendto", "socket.sendmsg", "subprocess.Popen", "os.system", "os.exec", "os.fork",
    "os.forkpty", "os.posix_spawn",
))
def guard(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and address[0] in way and address[1] == port:
            return
    elif event == "socket.getaddrinfo":
        if arguments[0] == host or arguments[0] in way:
            return
    elif event not in closed:
        return
    raise PermissionError("There is no way but the proxy (" + event + ").")
sys.addaudithook(guard)
sys.modules["websockets"] = sys.modules["curl_cffi"] = None
sys.argv[0] = {module!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
_PROXIED = ("http", "https", "ftp", "ws", "wss", "all")  # schemes, as in environment variables


@dataclass(frozen=True, slots=True)
class MediaPlayer:
    """URL that is passed to yt-dlp."""

    url: str  # a page, a frame, or a playlist of segments
    page: str  # the URL of the page that it is on


def player_of(visit: Visit, media: MediaSettings) -> MediaPlayer | None:
    """Find the page's player by its host, its frames' hosts, or the playlists that were requested."""
    if not media.players or visit.status is None or not 200 <= visit.status < 300:
        return None
    known = HostPatterns(dict.fromkeys((f"*.{host}" for host in media.hosts), True))
    if _on(known, visit.final_url):
        return MediaPlayer(visit.final_url, visit.final_url)
    answered = [each for each in visit.requests if each.status is not None and each.status < 300]
    frames = (e for e in answered if e.resource_type == "Document" and _on(known, e.url))
    playlists = (
        each
        for each in answered
        if urlsplit(each.url).path.lower().endswith(_PLAYLISTS) or each.mime.lower() in _PLAYLIST_TYPES
    )
    # A frame of a known player says more than its playlist, which may be one of several qualities.
    source = next(frames, None) or next(playlists, None)
    return MediaPlayer(source.url, visit.final_url) if source is not None else None


@dataclass(slots=True)
class SharedMedia:
    """Media of a player that several pages show, of the page that holds it for the time of its visit."""

    earlier: PageInfo | None  # the page that has downloaded it: its `media`, and the records as `resources`
    made: PageInfo | None = None  # the same of this page, once its manifest is written

    def set_made(self, page: PageInfo, requested: set[str], recorded: Mapping[str, Sequence[CachedRecord]]) -> None:
        """Keep the page's download: what was requested for it, with the records of its visit."""
        resources = {}
        for each in page.resources:
            if each.url not in requested or each.kept not in ("response", "revisit"):
                continue
            record = next((r for r in reversed(recorded.get(each.url, ())) if r.digest == each.digest), None)
            if record is not None:
                part = replace(each, kept=CACHED, recorded_at=record.date)
                resources[each.url] = replace(part, started_ms=None, ttfb_ms=None, duration_ms=None, wire_bytes=None)
        self.made = PageInfo(
            page.page_id, page.url, page.final_url, page.captured_at, page.outcome,
            media=page.media, resources=tuple(resources.values()),
        )  # fmt: skip


class MediaDownloads:
    """Downloads of a run by notes in the frontier, for all its processes; all `endless` workers are one run."""

    def __init__(self, frontier: Frontier, patience: StoreRetry, clock: Clock, *, endless: bool = False) -> None:
        self._frontier, self._patience, self._clock = frontier, patience, clock
        self._began = "" if endless else warc_date(clock.now())
        self._name = token_hex(8)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def lend(self, player: MediaPlayer, context: ContextKey, media: MediaSettings) -> AsyncIterator[SharedMedia]:
        """Lend the player's media to one page at a time; the next finds what the block has made.

        Downloads of earlier runs and, on pages of other sites, failed ones are not used: a site may be refused.
        """
        key = sha256(repr((player.url, context.job, context.settings, media)).encode()).hexdigest()
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            claim_for = timedelta(seconds=media.limit_s) + _CLAIM_EXCESS
            while True:
                is_claimed = await self._patience.ask(
                    lambda: self._frontier.put_note(
                        _CLAIM, key, self._name, now=(now := self._clock.now()), until=now + claim_for, is_claim=True
                    )
                )
                note = await self._patience.ask(lambda: self._frontier.note(_NOTE, key, now=self._clock.now()))
                earlier = parse_pageinfo(note.encode()) if note is not None else None
                if earlier is not None and earlier.media is not None:
                    is_other_site = registrable(host_of(earlier.url)) != context.site
                    if earlier.captured_at < self._began or (earlier.media.reason and is_other_site):
                        earlier = None
                if is_claimed or earlier is not None:
                    break
                await asyncio.sleep(_CLAIM_POLL_S)
            shared = SharedMedia(earlier)
            yield shared
            if shared.made is not None and shared.made.media is not None:
                now, value = self._clock.now(), shared.made.to_json().decode()
                age = _FAILURE_AGE if shared.made.media.reason else timedelta(seconds=media.shared_age_s)
                await self._patience.ask(lambda: self._frontier.put_note(_NOTE, key, value, now=now, until=now + age))
            if is_claimed:
                await self._patience.ask(lambda: self._frontier.erase_note(_CLAIM, key))


async def download_media(
    player: MediaPlayer, recording: ProxyVisit, authority: str, media: MediaSettings, *, clock: Clock
) -> tuple[PlayerMedia, set[str]]:
    """Download the player's media within the visit; return the result and the URLs that were requested for it."""
    before = {(each.url, each.started_ms) for each in (await recording.ledger()).entries}
    result = await fetch_media(player, recording.credentials, authority, media, clock=clock)
    after = (await recording.ledger()).entries
    return result, {each.url for each in after if (each.url, each.started_ms) not in before}


async def fetch_media(
    player: MediaPlayer, proxy: ProxyEndpoint, authority: str, media: MediaSettings, *, clock: Clock
) -> PlayerMedia:
    """Download the player's media through the proxy (`authority`: its certificate, PEM); the reason says what lacks."""
    if find_spec(MODULE) is None:
        return PlayerMedia(reason="not-installed: pip install 'weboid[media]'")
    began = clock.monotonic()
    with scratch_folder(ScratchKind.MEDIA) as folder:
        certificate, work = folder / "authority.pem", folder / "work"
        certificate.write_text(authority)
        root = os.geteuid() == 0
        try:
            prefix = privilege_prefix(root=root, executable=Path(sys.executable))
        except BrowserUnavailableError:
            return PlayerMedia(reason="not-installed: setpriv, which root needs to start a player")
        work.mkdir(mode=0o700)
        if root:
            # The folder stays ours, so that `remove_abandoned` recognises it.
            folder.chmod(0o711)
            certificate.chmod(0o644)
            os.chown(work, NOBODY, NOBODY)
        process = await asyncio.create_subprocess_exec(
            *prefix,
            *_command(player, work, media, proxy),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=work,
            env=_environment(proxy, work, certificate),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(media.limit_s):
                assert process.stdout is not None
                assert process.stderr is not None
                output, complaint = await asyncio.gather(
                    _read(process.stdout, _OUTPUT_LIMIT_BYTES), _read(process.stderr, 64_000)
                )
                await process.wait()
            reason = ""
            if process.returncode != 0:
                text = complaint.decode(errors="replace")
                lines = [each for each in text.splitlines() if each.strip()]
                errors = [each for each in lines if each.startswith("ERROR")] or lines
                reason = f"yt-dlp: {_text(errors[-1]) if errors else 'it ended without a message'}"
        except TimeoutError:
            output, reason = b"", f"deadline: {media.limit_s:g} s"
        finally:
            with suppress(ProcessLookupError):  # its children, too
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return _parse_output(output, reason, seconds=round(clock.monotonic() - began, 3))


def bootstrap(media: MediaSettings, proxy: ProxyEndpoint, *, module: str = MODULE) -> str:
    """Return a Python program that confines its process to the proxy as only route, and runs a module."""
    return _BOOTSTRAP.format(
        size=media.limit_bytes, memory=_MEMORY_BYTES, host=proxy.host, port=proxy.port, module=module
    )


def _command(player: MediaPlayer, folder: Path, media: MediaSettings, proxy: ProxyEndpoint) -> list[str]:
    height = media.max_height
    # Streams are kept as they come: to join sound and picture would take another program.
    wanted = f"b[height<={height}]/(bv*[height<={height}],ba)/b/w"
    return [
        *(sys.executable, "-I", "-c", bootstrap(media, proxy)),
        *("--ignore-config", "--no-config-locations", "--no-plugin-dirs", "--no-cache-dir"),
        *("--no-cookies", "--no-cookies-from-browser", "--no-remote-components"),
        *("--no-js-runtimes", "--no-exec", "--downloader", "native", "--fixup", "never"),
        *("--ffmpeg-location", str(folder / "none"), "--compat-options", "no-certifi"),
        *("--no-playlist", "--playlist-items", "1", "--match-filters", "!is_live"),
        *("--max-filesize", str(media.limit_bytes), "--socket-timeout", "20"),
        *("--retries", "1", "--fragment-retries", "1", "--extractor-retries", "1"),
        *("--no-part", "--no-mtime", "--no-progress", "--no-warnings", "--color", "never"),
        *("--format", wanted, "--output", "%(format_id).40s.%(ext).8s", "--paths", str(folder)),
        # Names the visit to the proxy, in a context that visits share (`proxy.visit_registry`).
        *(("--add-headers", f"Content-Language:{proxy.token}") if proxy.token else ()),
        *("--dump-json", "--no-simulate", "--referer", player.page, "--", player.url),
    ]


def _environment(login_data: ProxyEndpoint, folder: Path, authority: Path) -> dict[str, str]:
    # Not on the command line, where every user of the machine could read them.
    login = f"{quote(login_data.username, safe='')}:{quote(login_data.password, safe='')}"
    proxy = f"http://{login}@{login_data.host}:{login_data.port}"
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PATH": str(folder / "none"),
        "LANG": "C.UTF-8",
        "SSL_CERT_FILE": str(authority),
        **dict.fromkeys((f"{scheme}_proxy" for scheme in _PROXIED), proxy),
        **dict.fromkeys((f"{scheme.upper()}_PROXY" for scheme in _PROXIED), proxy),
        "no_proxy": "",
        "NO_PROXY": "",
    }


async def _read(stream: asyncio.StreamReader, limit: int) -> bytes:
    content = bytearray()
    while data := await stream.read(65_536):
        content += data[: max(limit - len(content), 0)]
    return bytes(content)


def _parse_output(output: bytes, reason: str, *, seconds: float) -> PlayerMedia:
    """Parse the JSON lines of yt-dlp, one per file; all of it is untrusted."""
    files: list[dict[str, Any]] = []
    for line in output.splitlines()[:_FILES]:
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            files += [value] if isinstance(value, dict) else []
    if not files:
        return PlayerMedia(reason=reason or "none: yt-dlp found no media", seconds=seconds)
    first = files[0]
    # Of each the file, or the playlist of its segments.
    named = (each.get(name) for each in files for name in ("manifest_url", "url"))
    urls = dict.fromkeys(
        url for url in named if isinstance(url, str) and re.match("https?://", url) and len(url) <= _URL_LIMIT
    )
    duration, height = first.get("duration"), [each.get("height") for each in files]
    return PlayerMedia(
        urls=tuple(urls),
        extractor=_text(first.get("extractor")),
        identifier=_text(first.get("id")),
        title=_text(first.get("title")),
        uploader=_text(first.get("uploader")),
        published=_text(first.get("upload_date")),
        duration_s=float(duration) if isinstance(duration, int | float) else None,
        height=max((each for each in height if isinstance(each, int)), default=None),
        reason=reason,
        seconds=seconds,
    )


def _text(value: object) -> str:
    return " ".join(str(value).split())[:_TEXT_LIMIT] if isinstance(value, str | int) else ""


def _on(players: HostPatterns[bool], url: str) -> bool:
    host = host_or_empty(url)
    return bool(host) and players.of(host) is not None
