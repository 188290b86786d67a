"""Server of a collection: reader pages in this process, replay in child processes.

They accept from one listening socket, which they inherit: whoever is free takes the next connection,
and while one is started again the others answer on the same port.

Two ports are two origins: nothing archived shares one with the front (research 1.8).
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.applications import Starlette

from core.errors import ConfigError, UnavailableError
from core.layout import Layout
from net.http_server import ConnectionLimits, HttpServer, connection_limit, open_listener
from playback.access.decision_store import DecisionStore, open_decisions
from playback.access.holds import HoldIndex, UnscannedPolicy
from playback.access.level_store import LevelStore
from playback.access.threat_lists import lists_folder
from playback.full_origins import FULL_SECRET, LOCAL, FullOrigins, FullPermission, full_pattern
from playback.web.asgi_app import SiteMount, WebOptions, create_app
from playback.web.copy_levels import FullCopyAccess
from playback.web.copy_lookup import QueueStatusReader
from playback.web.i18n import SOURCE, check_language
from playback.web.machine_api import CLOSED, MachineAccess
from playback.web.rate_limits import RateLimitPolicy
from playback.web.registry.registry_service import LinkRegistry
from playback.web.site_pages import NOBODY, Crawler
from warc.artifact_reader import ArtifactReader
from warc.index.database import INDEX_URL, open_database
from warc.index.outback import CAPTURES_INDEX, parse_outback_url

_LOG = logging.getLogger(__name__)

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_RESTART_DELAY_S = 1.0  # before the first new start; then longer each time
_START_ATTEMPTS = 5
_MOST_WORKERS = 4


def default_workers() -> int:
    """A process of replay for each core, and four at most: each holds a cache of its own."""
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


class _ReplayProcess:
    """One process of replay: started, watched, started again when it dies."""

    def __init__(self, command: list[str], listener: socket.socket, more: dict[str, str]) -> None:
        self._command = [*command, "--listen-fd", str(listener.fileno())]
        self._listener = listener
        self._environment = {**os.environ, **more}
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            UnavailableError: it ended or said nothing.
        """
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            env=self._environment,
            pass_fds=[self._listener.fileno()],
        )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_TIMEOUT_S)
            json.loads(line)["ready"]
        except (TimeoutError, ValueError, KeyError) as error:
            await self.stop()
            raise UnavailableError("Replay did not start; its own message says why.") from error

    async def stop(self) -> None:
        """Close its stdin, upon which it ends; kill it if it does not."""
        process = self._process
        if process is None:
            return
        self._process = None
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def keep_running(self) -> None:
        """Start it again whenever it dies; never returns."""
        while True:
            assert self._process is not None
            code = await self._process.wait()
            _LOG.error("playback.replay_died: code=%s", code)
            await self._start_again()

    async def _start_again(self) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            await asyncio.sleep(_RESTART_DELAY_S * attempt)
            try:
                return await self.start()
            except UnavailableError:
                if attempt == _START_ATTEMPTS:
                    raise
        return None


class ReplayPool:
    """All processes of replay, on one listening socket."""

    def __init__(self, workers: list[_ReplayProcess]) -> None:
        self._workers = workers

    async def start(self) -> None:
        """Start them and wait until all answer.

        Raises:
            UnavailableError: one does not start.
        """
        await asyncio.gather(*(each.start() for each in self._workers))

    async def stop(self) -> None:
        """End them."""
        await asyncio.gather(*(each.stop() for each in self._workers))

    async def keep_running(self) -> None:
        """Start again whichever dies; ends only by an error."""
        tasks = [asyncio.create_task(each.keep_running()) for each in self._workers]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def run_replay_pool(
    command: list[str], listener: socket.socket, more: dict[str, str], workers: int
) -> AsyncIterator[ReplayPool]:
    """So many processes of replay until the end of the block; then all have ended.

    Args:
        command: starts one; ``--listen-fd`` is added.
        listener: what they accept from; it stays the caller's.
        more: variables that their environment has beside ours.
        workers: how many there are.

    Raises:
        UnavailableError: one does not start.
    """
    replay = ReplayPool([_ReplayProcess(command, listener, more) for _ in range(workers)])
    try:
        await replay.start()
        yield replay
    finally:
        await replay.stop()


_ROOT = Path(__file__).resolve().parents[1]
_MOST_CONNECTIONS = 4_000
_ANY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104 they are looked for, not listened on
# Our packages come last on the path of the replay environment, whose own must win; -I keeps this
# process's PYTHONPATH and working directory out of it.
_BOOTSTRAP = (
    "import runpy, sys; sys.path.append({root!r});"
    " runpy.run_module('playback.replay', run_name='__main__', alter_sys=True)"
)


async def serve(  # noqa: PLR0913 each is the caller's to say
    layout: Layout,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    replay_port: int = 0,
    origins: "ServerOrigins | None" = None,
    on_ready: Callable[[str], None] | None = None,
    index_url: str = "",
    with_replay: bool = True,
    workers: int = 1,
    full: str = "",
    status: QueueStatusReader | None = None,
    language: str = SOURCE,
    unscanned: UnscannedPolicy = UnscannedPolicy.ALLOW,
    openness: MachineAccess = CLOSED,
    window_days: float = 30.0,
    captures_index: str = "",
    fonts: bool = False,
    show_logins: bool = False,
    links: LinkRegistry | None = None,
    mounts: Sequence[SiteMount] = (),
    access: RateLimitPolicy | None = None,
    crawler: Crawler = NOBODY,
    signals: bool = True,
    cached: bool = True,
) -> None:
    """Serve until cancelled, or until SIGTERM comes; then front and replay have ended.

    Replay's processes share one listening socket: whoever is free takes the next connection, and
    while one that died is started again, the others answer on the same port.

    Args:
        layout: the collection; it may still be empty.
        host: the address that both listen on.
        port: the front's port; 0 takes a free one.
        replay_port: replay's port; 0 takes a free one.
        origins: what readers see behind a reverse proxy; needed when `host` is every address.
        on_ready: told the front's origin once both answer.
        index_url: the captures index of several machines; empty: the collection's own.
        full: the origins of copies in full, e.g. ``https://*.copies.example``; ``local``: on this
            machine; empty: none.
        status: knows what is queued; None when nobody does.
        language: for readers whose browser asks for none that there is.
        captures_index: an OutbackCDX collection, ``cdx+http://…``, with captures that the index does
            not hold; empty: none.
        unscanned: what becomes of downloads that no scanner has looked into.
        with_replay: False when a replay that somebody else runs serves the copies at its origin.
        workers: how many processes replay has; 0: `default_workers`.
        openness: what is told to machines.
        window_days: how far from its page a part of it may be captured (P-10).
        fonts: copies load their own fonts, at the level `images`.
        show_logins: captures that were made with a login are shown to every reader.
        links: the link registry, which belongs to the caller; None: none is shown.
        mounts: parts of the site that packages above playback add, e.g. the checks of copies.
        access: who may ask costly pages how often; None: as the registry says, or the defaults.
        crawler: what the page about the crawler says of its operator.
        signals: end at SIGTERM; False where that is the caller's to heed.
        cached: copies that were made before may be shown again; False: all are made anew, and none
            is left behind.

    Raises:
        ConfigError: the origins are missing or the same, the URL names no index, or the front does
            not speak the language.
        UnavailableError: there is no replay environment, replay does not start, or a port is taken.
    """
    _check(host, origins, full, with_replay=with_replay)
    with (
        contextlib.closing(open_database(layout, index_url)) as database,
        contextlib.closing(open_decisions(layout, index_url)) as decisions,
        open_listener(host, port) as listener,
    ):
        secret = os.environ.get(FULL_SECRET) or secrets.token_hex(32)
        own_port = listener.getsockname()[1]
        front = origins.front if origins is not None else _origin(host, own_port)

        def app_with(replay_origin: str, copies: str, inside: str = "") -> Starlette:
            around = WebOptions(
                records=ArtifactReader(layout),
                status=status,
                language=check_language(language),
                full=_full_copies(copies, secret, decisions),
                holds=HoldIndex(decisions, lists_folder(layout.decisions_db), unscanned=unscanned),
                openness=replace(openness, replay_inside=inside),
                links=links,
                mounts=mounts,
                access=access or (links.access if links is not None else RateLimitPolicy()),
                crawler=crawler,
                show_logins=show_logins,
            )
            return create_app(
                database, decisions, replay_origin=replay_origin, origin=front, around=around
            )

        if not with_replay:
            assert origins is not None
            app = app_with(origins.replay, full)
            await _serve_both(
                app, listener, None, lambda: on_ready and on_ready(front), signals=signals
            )
            return
        python = find_replay_python()
        more = _environment(index_url, captures_index)
        with open_listener(host, replay_port) as replay_listener:
            replay_at = replay_listener.getsockname()[1]
            command = [
                *_replay_command(python, layout, host, front),
                *("--unscanned", unscanned),
                *("--window-days", str(window_days)),
                *(["--fonts"] if fonts else []),
                *(["--show-logins"] if show_logins else []),
                *([] if cached else ["--cache-bytes", "0"]),
            ]
            if origins is not None:
                command += ["--origin", origins.replay]
            pattern = full_pattern(host, replay_at) if full == LOCAL else full
            if pattern:
                command += ["--full-origin", pattern]
                more[FULL_SECRET] = secret
            app = app_with(
                origins.replay if origins else _origin(host, replay_at),
                pattern,
                inside=_origin(host, replay_at),
            )
            async with run_replay_pool(
                command, replay_listener, more, workers or default_workers()
            ) as replay:
                await _serve_both(
                    app, listener, replay, lambda: on_ready and on_ready(front), signals=signals
                )


def _environment(index_url: str, captures_index: str) -> dict[str, str]:
    """What replay is told beside its command line, which everyone on the machine may read."""
    said = {INDEX_URL: index_url, CAPTURES_INDEX: captures_index}
    if captures_index:
        parse_outback_url(captures_index)
    return {name: value for name, value in said.items() if value}


def _check(host: str, origins: "ServerOrigins | None", full: str, *, with_replay: bool) -> None:
    """Return when these go together.

    Raises:
        ConfigError: they do not.
    """
    if host in _ANY_ADDRESS and origins is None:
        raise ConfigError("Listening on every address needs the origins that readers will see.")
    if origins is not None and origins.front == origins.replay:
        raise ConfigError("Front and replay need different origins; these are the same.")
    if origins is not None and full == LOCAL:
        raise ConfigError(
            "Readers elsewhere need a domain for copies with scripts: give --full-origin"
            " 'https://*.copies.example' in place of --full."
        )
    if not with_replay and origins is None:
        raise ConfigError("Where the copies are must be said when no replay is started.")
    if not with_replay and full and FULL_SECRET not in os.environ:
        raise ConfigError(
            f"A replay that is not started here must know the same {FULL_SECRET}: set it for both,"
            " e.g. to what `openssl rand -hex 32` prints."
        )


@dataclass(frozen=True, slots=True)
class ServerOrigins:
    """What readers see of front and replay: two origins, better still two domains."""

    front: str
    replay: str


def find_replay_python() -> Path:
    """The interpreter of the replay environment.

    The environment variable ``WEBOID_REPLAY_PYTHON`` names it, or it lies in ``.venv-replay``.

    Raises:
        UnavailableError: there is none; the text says what to run.
    """
    named = os.environ.get("WEBOID_REPLAY_PYTHON")
    python = Path(named) if named else _ROOT / ".venv-replay" / "bin" / "python"
    if not python.is_file():
        raise UnavailableError(
            f"Playback needs its own environment, and {python} is not there: run `make setup`,"
            " or name its Python in WEBOID_REPLAY_PYTHON."
        )
    return python


async def _serve_both(
    app: Starlette,
    listener: socket.socket,
    replay: "ReplayPool | None",
    on_ready: Callable[[], object],
    *,
    signals: bool,
) -> None:
    """Serve the front and keep replay alive until cancelled, until SIGTERM, or until one gives up."""
    limits = ConnectionLimits(connection_limit(_MOST_CONNECTIONS))
    server = HttpServer(app, limits, on_ready=on_ready, timeout_graceful_shutdown=3)
    asked_to_stop = asyncio.Event()
    tasks = [
        asyncio.create_task(server.serve(sockets=[listener])),
        asyncio.create_task(asked_to_stop.wait()),
    ]
    if replay is not None:
        tasks.append(asyncio.create_task(replay.keep_running()))
    try:
        with _set_on_sigterm(asked_to_stop) if signals else contextlib.nullcontext():
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        server.should_exit = True
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _set_on_sigterm(asked_to_stop: asyncio.Event) -> Iterator[None]:
    """Set the event when SIGTERM comes within the block."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ValueError, RuntimeError):  # outside the main thread
        loop.add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGTERM)


def _full_copies(pattern: str, secret: str, decisions: DecisionStore) -> FullCopyAccess | None:
    """What the front must know of copies in full; None where there are none."""
    if not pattern:
        return None
    return FullCopyAccess(
        FullOrigins(pattern, secret.encode()), FullPermission(LevelStore(decisions))
    )


def _replay_command(python: Path, layout: Layout, host: str, front: str) -> list[str]:
    bootstrap = _BOOTSTRAP.format(root=str(_ROOT))
    command = [str(python), "-I", "-c", bootstrap, "--collection", str(layout.root.absolute())]
    # Two makers for each process: while a large copy is made, small ones are made beside it.
    return [*command, "--host", host, "--front-origin", front, "--makers", "2"]


def _origin(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
