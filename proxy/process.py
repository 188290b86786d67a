"""Lifecycle of the recorder: recovery, start-up, serving, shutdown; presence among those that share a collection.

Between machines flock(2) holds only where the file system propagates locks: NFS does, unless mounted with `nolock` or
`local_lock`. So each proxy of a cluster keeps a locked file in ``db/proxies`` in which a number grows. A proxy that can
lock another machine's file and then sees the number grow does not start.
"""

import gc
import json
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.config.settings import Settings
from core.errors import IndexUnavailableError, UnavailableError
from core.layout import Layout
from core.timestamps import from_unix_milliseconds
from proxy.archiving_proxy import LOOPBACK, ArchivingProxy, ListenAddress
from proxy.control.handshake import ClusterSecret
from proxy.control.server import ControlServer
from proxy.exchange import now_ms
from proxy.limits import ByteCounter
from warc.local_storage import PresenceFile, ScratchKind, dead_presences, scratch_folder
from warc.recovery import WarcRecovery, recover_collection

if TYPE_CHECKING:
    from proxy.warcprox_api import WarcproxServer

# Blocked threads hand the interpreter over at most this late; the default of 5 ms is an eternity
# for a proxy whose requests take half of one.
SWITCH_INTERVAL_S = 0.0005
# Nothing here is in cycles but exceptions now and then; looking for them every 700 objects, through
# all that a visit has gathered, was a tenth of the work.
GC_THRESHOLD = 50_000
RETRY_S = 1.0  # between two questions to an index that does not answer
log = logging.getLogger(__name__)

POLL_S = 0.05  # how often the servers look whether they are to end


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """Proxy in service."""

    proxy: ArchivingProxy
    control: ControlServer
    warcprox_api: "WarcproxServer | None"  # the listener for clients of warcprox
    recovered: Sequence[WarcRecovery]  # results of the recovery before start-up


@contextmanager
def run_proxy(
    layout: Layout,
    settings: Settings,
    *,
    control: Path | tuple[str, int, ClusterSecret],
    tally: Callable[[], ByteCounter] = ByteCounter,
    listen: ListenAddress = LOOPBACK,
    warcprox_api: ListenAddress | None = None,
) -> Iterator[RunningProxy]:
    """Run a proxy, controlled by unix socket or TCP (host, port, secret), until the block ends; then write all records."""
    recovered = _recover(layout, settings)
    with ExitStack() as stack:
        spool = stack.enter_context(scratch_folder(ScratchKind.SPOOL, layout.root))
        proxy = ArchivingProxy(layout, settings, now_ms=now_ms, spool_folder=spool, tally=tally(), listen=listen)
        stack.callback(proxy.close)
        if isinstance(control, Path):
            server = ControlServer(control, proxy)
        else:
            server = ControlServer(control[:2], proxy, control[2])
            proxy.egress.refuse_listener(str(server.server_address[0]), server.port)
        threading.Thread(target=proxy.serve_forever, args=(POLL_S,), daemon=True).start()
        stack.callback(proxy.shutdown)
        threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        api = None
        if warcprox_api is not None:
            from proxy.warcprox_api import WarcproxServer

            api = WarcproxServer(proxy, warcprox_api, layout.databases)
            stack.callback(api.close)
            threading.Thread(target=api.serve_forever, args=(POLL_S,), daemon=True).start()
            stack.callback(api.shutdown)
        yield RunningProxy(proxy, server, api, recovered)


def _recover(layout: Layout, settings: Settings) -> list[WarcRecovery]:
    """Recover the collection; wait for a shared index that does not answer yet."""
    deadline = time.monotonic() + settings.index.patience_s
    while True:
        try:
            return recover_collection(
                layout, settings.proxy, now=from_unix_milliseconds(now_ms()), index=settings.index
            )
        except IndexUnavailableError:
            if time.monotonic() >= deadline:
                raise
        threading.Event().wait(RETRY_S)


def tune_interpreter() -> None:
    """Set interpreter and resolver options for a process with many threads."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # imported files stay
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    # The system's resolver would spend half a minute on a name whose servers keep silent, and a
    # page can name many; the operator may override this (resolv.conf(5)).
    os.environ.setdefault("RES_OPTIONS", "timeout:3 attempts:2")


BEAT_S = 3.0
WATCH_S = 10.0  # three beats: a proxy that is silent for so long is dead
_SIZE = 512


class ProxyPresence:
    """Presence file of this process, created by `join_collection`; `close` it last of all."""

    def __init__(self, path: Path, machine: str) -> None:
        self._machine = machine
        self._beats = 0
        self._file = PresenceFile(path, self._next_beat())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Remove the file."""
        self._over.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            try:
                self._file.write(self._next_beat())
            except OSError:  # the disk is full, or away: others see that by themselves
                log.warning("presence.silent", exc_info=True)

    def _next_beat(self) -> bytes:
        self._beats += 1
        content = {"host": socket.gethostname(), "pid": os.getpid(), "machine": self._machine, "beat": self._beats}
        return json.dumps(content).encode().ljust(_SIZE)


def join_collection(
    folder: Path, *, machine: str | None = None, wait: Callable[[float], object] | None = None
) -> ProxyPresence:
    """Create the presence file, check that others' locks hold, remove files of dead proxies."""
    # Of the running kernel; containers on it share it (random(4)).
    machine = machine or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    wait = wait or threading.Event().wait
    presence = ProxyPresence(folder / secrets.token_hex(8), machine)
    with ExitStack() as on_error:
        on_error.callback(presence.close)
        silent = {}
        for path in dead_presences(folder):
            content = _read_beat(path)
            if (
                content is None or content.get("machine") == machine
            ):  # locks are reliable on one machine, so the process is dead
                path.unlink(missing_ok=True)
            else:
                silent[path] = content
        if silent:
            wait(WATCH_S)
        for path, before in silent.items():
            now = _read_beat(path)
            if now is not None and now.get("beat") != before.get("beat"):
                raise UnavailableError(
                    f"A proxy on {before.get('host')} writes this collection, but its locks are not visible here: the "
                    "shared folder must be on a file system that shares flock between "
                    "machines (NFS without nolock and local_lock; docs/how-to/cluster.md)."
                )
            path.unlink(missing_ok=True)
        on_error.pop_all()
    return presence


def _read_beat(path: Path) -> dict[str, Any] | None:
    """Return the content of a presence file; None when it is gone."""
    try:
        content = json.loads(path.read_bytes()[:_SIZE])
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
