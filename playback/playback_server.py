"""Server of a collection: reader pages in this process, replay in child processes.

The replay processes share one listening socket, so that the others serve while one restarts. Front and replay use
separate ports, hence separate origins: archived content never shares an origin with the front.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from starlette.applications import Starlette

from core.config.settings import INDEX_URL
from core.errors import ConfigError, UnavailableError
from core.layout import Layout
from net.http_server import ConnectionLimits, HttpServer, connection_limit, open_listener
from playback.access.decision_store import open_decisions
from playback.access.holds import HoldIndex, UnscannedPolicy
from playback.access.level_store import LevelStore
from playback.access.threat_lists import lists_folder
from playback.replay.full.text_rewriter import find_pywb_python
from playback.url_paths import FULL_SECRET, LOCAL, FullOrigins, full_pattern, http_origin
from playback.web.asgi_app import DEFAULTS, WebOptions, create_app
from playback.web.i18n import check_language
from playback.web.reader_page import FullCopyAccess
from warc.artifact_reader import ArtifactReader
from warc.index.database import open_database
from warc.index.outback import CAPTURES_INDEX, parse_outback_url
from warc.text_index.reader import open_text_index

_LOG = logging.getLogger(__name__)

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_RESTART_DELAY_S = 1.0  # before the first new start; then longer each time
_START_ATTEMPTS = 5
_MOST_WORKERS = 4


class _ReplayProcess:
    """One replay process, restarted when it exits."""

    def __init__(self, command: list[str], listener: socket.socket, more: dict[str, str]) -> None:
        self._command = [*command, "--listen-fd", str(listener.fileno())]
        self._listener = listener
        self._environment = {**os.environ, **more}
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it is ready; UnavailableError when it does not get ready."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, env=self._environment, pass_fds=[self._listener.fileno()]
        )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_TIMEOUT_S)
            json.loads(line)["ready"]
        except (TimeoutError, ValueError, KeyError) as error:
            await self.stop()
            raise UnavailableError("Replay did not start. See its messages on stderr.") from error

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def keep_running(self) -> None:
        """Restart the process whenever it exits; never returns."""
        while True:
            assert self._process is not None
            code = await self._process.wait()
            _LOG.error("playback.replay_died: code=%s", code)
            for attempt in range(1, _START_ATTEMPTS + 1):
                await asyncio.sleep(_RESTART_DELAY_S * attempt)
                try:
                    await self.start()
                    break
                except UnavailableError:
                    if attempt == _START_ATTEMPTS:
                        raise


_MOST_CONNECTIONS = 4_000
_ANY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104 compared with, not listened on


async def serve(  # noqa: PLR0913 independent options
    layout: Layout,  # of the collection, which may be empty
    *,
    host: str = "127.0.0.1",  # to listen on
    port: int = 0,  # the front's; 0 selects a free one
    replay_port: int = 0,
    # Behind a reverse proxy; required when `host` is a wildcard address.
    origins: "ServerOrigins | None" = None,
    on_ready: Callable[[str], None] | None = None,  # called with the front's origin
    index_url: str = "",  # captures index of several machines; empty: the collection's own
    with_replay: bool = True,  # False: a replay that runs separately serves the copies
    workers: int = 1,  # number of replay processes; 0: one per core, at most four
    full: str = "",  # origins of full copies: https://*.copies.example, or `LOCAL`; empty: none
    unscanned: UnscannedPolicy = UnscannedPolicy.ALLOW,
    window_days: float = 30.0,  # maximum distance in time of a subresource from its page (P-10)
    captures_index: str = "",  # OutbackCDX collection with additional captures, cdx+http://…
    fonts: bool = True,  # load the archived fonts of copies at the level `images`
    signals: bool = True,  # stop at SIGTERM
    cached: bool = True,  # False: rewrite every copy and cache none
    options: WebOptions = DEFAULTS,  # of the front; records, holds and full copies are added here
) -> None:
    """Serve front and replay until cancelled or SIGTERM, then stop both.

    Raises ConfigError: the origins are missing or equal, the URL is not an index, or the language is not available;
    UnavailableError: there is no replay environment, replay does not start, or a port is in use.
    """
    _check(host, origins, full, with_replay=with_replay)
    check_language(options.language)
    pywb_python = find_pywb_python() if full and with_replay else None
    with (
        contextlib.closing(open_database(layout, index_url)) as database,
        contextlib.closing(open_text_index(layout, index_url)) as texts,
        contextlib.closing(open_decisions(layout, index_url)) as decisions,
        open_listener(host, port) as listener,
    ):
        secret = os.environ.get(FULL_SECRET) or secrets.token_hex(32)
        front = origins.front if origins is not None else http_origin(host, listener.getsockname()[1])

        def app_with(replay_origin: str, copies: str, inside: str = "") -> Starlette:
            full_copies = None
            if copies:
                full_copies = FullCopyAccess(FullOrigins(copies, secret.encode()), LevelStore(decisions))
            around = replace(
                options,
                records=ArtifactReader(layout),
                texts=texts,
                full=full_copies,
                holds=HoldIndex(decisions, lists_folder(layout.decisions_db), unscanned=unscanned),
                openness=replace(options.openness, replay_inside=inside),
            )
            return create_app(database, decisions, replay_origin=replay_origin, origin=front, around=around)

        if not with_replay:
            assert origins is not None
            app = app_with(origins.replay, full)
            await _serve_both(app, listener, (), lambda: on_ready and on_ready(front), signals=signals)
            return
        # By environment, since command lines are readable by all users.
        if captures_index:
            parse_outback_url(captures_index)
        settings = {INDEX_URL: index_url, CAPTURES_INDEX: captures_index}
        more = {name: value for name, value in settings.items() if value}
        with open_listener(host, replay_port) as replay_listener:
            replay_at = replay_listener.getsockname()[1]
            command = [
                # -P: files in the working directory must not shadow our packages.
                *(sys.executable, "-P", "-m", "playback.replay"),
                *("--collection", str(layout.root.absolute()), "--host", host),
                # Two makers: while a large copy is made, small ones are made in parallel.
                *("--front-origin", front, "--makers", "2"),
                *("--unscanned", unscanned),
                *("--window-days", str(window_days)),
                *([] if fonts else ["--no-fonts"]),
                *(["--show-logins"] if options.show_logins else []),
                *([] if cached else ["--cache-bytes", "0"]),
            ]
            if origins is not None:
                command += ["--origin", origins.replay]
            pattern = full_pattern(host, replay_at) if full == LOCAL else full
            if pattern:
                command += ["--full-origin", pattern, "--full-python", str(pywb_python)]
                more[FULL_SECRET] = secret
            app = app_with(
                origins.replay if origins else http_origin(host, replay_at),
                pattern,
                inside=http_origin(host, replay_at),
            )
            count = workers or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
            replay = [_ReplayProcess(command, replay_listener, more) for _ in range(count)]
            try:
                await asyncio.gather(*(each.start() for each in replay))
                await _serve_both(app, listener, replay, lambda: on_ready and on_ready(front), signals=signals)
            finally:
                await asyncio.gather(*(each.stop() for each in replay))


def _check(host: str, origins: "ServerOrigins | None", full: str, *, with_replay: bool) -> None:
    """Raise ConfigError for incompatible options."""
    if host in _ANY_ADDRESS and origins is None:
        raise ConfigError("Listening on every address needs the origins that readers will see.")
    if origins is not None and origins.front == origins.replay:
        raise ConfigError("Front and replay need different origins; these are the same.")
    if origins is not None and full == LOCAL:
        raise ConfigError(
            "Readers on other machines need a domain for copies with scripts: use --full-origin"
            " 'https://*.copies.example' in place of --full."
        )
    if not with_replay and origins is None:
        raise ConfigError("The origin of the copies is required when no replay is started.")
    if not with_replay and full and FULL_SECRET not in os.environ:
        raise ConfigError(
            f"A replay that is not started here must use the same {FULL_SECRET}: set it for both, e.g. to the output "
            "of `openssl rand -hex 32`."
        )


@dataclass(frozen=True, slots=True)
class ServerOrigins:
    """Public origins of front and replay; they must differ, preferably in their domains."""

    front: str
    replay: str


async def _serve_both(
    app: Starlette,
    listener: socket.socket,
    replay: Sequence[_ReplayProcess],
    on_ready: Callable[[], object],
    *,
    signals: bool,
) -> None:
    """Serve the front and supervise replay until cancelled, SIGTERM, or a failure of either."""
    limits = ConnectionLimits(connection_limit(_MOST_CONNECTIONS))
    server = HttpServer(app, limits, on_ready=on_ready, timeout_graceful_shutdown=3)
    asked_to_stop, loop = asyncio.Event(), asyncio.get_running_loop()
    tasks = [
        asyncio.create_task(server.serve(sockets=[listener])),
        asyncio.create_task(asked_to_stop.wait()),
        *(asyncio.create_task(each.keep_running()) for each in replay),
    ]
    try:
        if signals:
            with contextlib.suppress(ValueError, RuntimeError):  # outside the main thread
                loop.add_signal_handler(signal.SIGTERM, asked_to_stop.set)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        if signals:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGTERM)
        server.should_exit = True
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
