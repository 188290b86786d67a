"""Start replay: ``python -m playback.replay --collection DIR --front-origin ORIGIN``.

The environment variable ``WEBOID_DATABASE`` names a captures index of several machines, because its password must not
appear in a command line, which every user of the machine can read. ``@FILE`` reads the value from a file.
"""

import argparse
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import gevent

from core.clock import SystemClock
from core.config.settings import INDEX_URL
from core.errors import UnavailableError
from core.layout import Layout
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.access.holds import HoldIndex, UnscannedPolicy
from playback.access.threat_lists import lists_folder
from playback.replay.archive import CaptureArchive
from playback.replay.capture_lookup import Beyond, CaptureLookup, call_inline
from playback.replay.full.full_copies import with_full
from playback.replay.full.text_rewriter import find_pywb_python, pywb_version
from playback.replay.header_gate import Policy
from playback.replay.made_cache import FileCache, MadeCache
from playback.replay.replay_context import PerRequestStore, ReplayContext, ReplayLimits
from playback.replay.replay_server import MOST_CONNECTIONS, ReplayServer, call_on_eof
from playback.replay.sanitizer_pool import MakerPool, rewriter_command, sanitizer_command
from playback.replay.wsgi_app import Replay
from playback.url_paths import http_origin
from warc.index.database import SqliteDatabase, open_database
from warc.index.outback import CAPTURES_INDEX, OutbackCdx, parse_outback_url

_OTHER_FILES = 100  # the index, WARCs, makers' pipes


def main() -> None:
    """Serve one collection until stdin ends or a signal comes.

    Prints one line on stdout when it listens: ``{"ready": true, "port": 41234}``.
    """
    options = _parse()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    layout = Layout(options.collection)
    url = os.environ.get(INDEX_URL, "")
    if url.startswith("@"):
        url = Path(url[1:]).read_text(encoding="utf-8").strip()
    database = open_database(layout, url) if url else SqliteDatabase(layout.captures_db)
    # Reading the file is faster than handing the query to another thread.
    call = gevent.get_hub().threadpool.apply if database.shared else call_inline
    decisions = PerRequestStore(open_decisions(layout, url), call)
    permits = AccessControl(
        decisions,
        lambda query, values: call(database.rows, (query, values)),
        SystemClock().now,
        HoldIndex(decisions, lists_folder(layout.decisions_db), unscanned=options.unscanned),
        show_logins=options.show_logins,
    )
    index = CaptureLookup(database, permits=permits, call=call, beyond=_beyond())
    limits = ReplayLimits(window=timedelta(days=options.window_days))
    makers = MakerPool(options.makers, sanitizer_command(options.deadline_s))
    rewriters = None
    if options.full_origin:
        try:
            python = options.full_python or find_pywb_python()
            pywb_version(python)
        except UnavailableError as error:
            sys.exit(str(error))
        rewriters = MakerPool(options.makers, rewriter_command(python, options.deadline_s))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    inherited = options.listen_fd
    server = ReplayServer(
        (options.host, options.port) if inherited is None else socket.socket(fileno=inherited),
        most=max(16, min(MOST_CONNECTIONS, hard - _OTHER_FILES)),
    )
    files = None
    if options.cache_bytes > 0:
        later = gevent.get_hub().threadpool.spawn
        files = FileCache(layout.made, limit=options.cache_bytes, wait=gevent.sleep, later=later, now=time.time)
    context = ReplayContext(
        index,
        CaptureArchive(layout, permits, index.twins),
        decisions,
        permits,
        front=options.front_origin,
        limits=limits,
        make=makers,
        made=MadeCache(limits.cache_bytes, files),
        origin=options.origin or http_origin(options.host, server.port),
        has_fonts=options.fonts,
    )
    server.answer_with(
        Replay(context), Policy(options.front_origin, _hosts(options.host, server.port, options.origin), options.fonts)
    )
    if rewriters is not None:
        server.application = with_full(server.application, context, options.full_origin, rewriters)
    server.before_each = decisions.begin
    for name in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(name, server.stop)
    if not options.keep_running:
        call_on_eof(sys.stdin.fileno(), server.stop)
    server.start()
    print(json.dumps({"ready": True, "port": server.port}), flush=True)  # noqa: T201 the contract
    try:
        server.serve_forever()
    finally:
        makers.close()
        if rewriters is not None:
            rewriters.close()
        decisions.close()
        database.close()


def _beyond() -> Beyond | None:
    """Return the look-up of captures outside of the database, configured by the environment."""
    url = os.environ.get(CAPTURES_INDEX, "")
    if not url:
        return None
    source = OutbackCdx(parse_outback_url(url))
    apply = gevent.get_hub().threadpool.apply
    return lambda url, at_ms, limit: apply(source.near, (url, at_ms, limit))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m playback.replay", description=__doc__)
    add = parser.add_argument
    add("--collection", type=Path, required=True, help="the collection's folder")
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=0, help="port to listen on; 0: any free port")
    add("--listen-fd", type=int, help="inherited listening socket, instead of --port")
    add("--front-origin", type=_origin, required=True, help="origin of the front")
    add("--origin", type=_origin, help="origin that readers see, behind a proxy")
    add("--window-days", type=float, default=30, help="maximum time between the captures of a page and its parts")
    add("--makers", type=int, default=2, help="processes that sanitise")
    add("--deadline-s", type=float, default=10.0, help="time limit for sanitising a page")
    size = "size limit of the cache of sanitised copies; 0: no cache"
    add("--cache-bytes", type=int, default=500_000_000, help=size)
    add("--full-origin", default="", help="https://*.copies.example: where copies run scripts")
    python = "a Python with pywb, for --full-origin; default: $WEBOID_REPLAY_PYTHON, .venv-replay"
    add("--full-python", type=Path, help=python)
    policy = "hold-downloads: withhold files that were not scanned"
    add("--unscanned", type=UnscannedPolicy, default=UnscannedPolicy.ALLOW, help=policy)
    add("--no-fonts", dest="fonts", action="store_false", help="copies load no fonts of their own")
    add("--show-logins", action="store_true", help="show captures that were made with a login")
    add("--keep-running", action="store_true", help="do not stop when stdin ends")
    return parser.parse_args()


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts[2:] != ("", "", ""):
        raise argparse.ArgumentTypeError(f"an origin looks like https://wiki.example; not {text!r}")
    if parts.username is not None or any(character in text for character in " ;,'\""):
        raise argparse.ArgumentTypeError(f"an origin has no such characters: {text!r}")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _hosts(host: str, port: int, origin: str | None) -> frozenset[str]:
    """Return the accepted values of Host: those of the public origin, else of the listening address."""
    if origin is not None:
        return frozenset({urlsplit(origin).netloc})
    names = {f"[{host}]" if ":" in host else host}
    if names & {"127.0.0.1", "[::1]", "localhost"}:
        names |= {"127.0.0.1", "[::1]", "localhost"}
    return frozenset(f"{name}:{port}" for name in names)


if __name__ == "__main__":
    main()
