"""Presence files of recorders that share a collection; proof that file locks work.

Writing a WARC, recovery, the authority's keys and SHA256SUMS are protected by flock(2). Between machines that holds
only where the file system propagates locks: NFS does, unless mounted with `nolock` or `local_lock`; others ignore
them. So each proxy keeps a locked file in ``db/proxies`` in which a number grows. A proxy that can lock another
machine's file and then sees the number grow does not start.
"""

import fcntl
import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from core.errors import UnavailableError

log = logging.getLogger(__name__)

BEAT_S = 3.0
WATCH_S = 10.0  # three beats: a proxy that is silent for so long is dead
_SIZE = 512


class ProxyPresence:
    """Presence file of this process, created by `join_collection`; `close` it last of all."""

    def __init__(self, path: Path, machine: str) -> None:
        self._machine = machine
        unlocked = path.with_name(f".{path.name}")
        self._file = unlocked.open("xb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._beats = 0
        self._beat()
        unlocked.rename(path)  # known to others only when it is locked
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Remove the file."""
        self._over.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)
        self._file.close()

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            try:
                self._beat()
            except OSError:  # the disk is full, or away: others see that by themselves
                log.warning("presence.silent", exc_info=True)

    def _beat(self) -> None:
        self._beats += 1
        about = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "machine": self._machine,
            "beat": self._beats,
        }
        os.pwrite(self._file.fileno(), json.dumps(about).encode().ljust(_SIZE), 0)
        os.fsync(self._file.fileno())  # other machines see it now


def this_machine() -> str:
    """Return an identifier of the running kernel; containers on it share it (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def join_collection(
    folder: Path, *, machine: str | None = None, wait: Callable[[float], object] | None = None
) -> ProxyPresence:
    """Create the presence file, check that others' locks hold, remove files of dead proxies."""
    machine = machine or this_machine()
    wait = wait or threading.Event().wait
    folder.mkdir(parents=True, exist_ok=True)
    ours = folder / secrets.token_hex(8)
    presence = ProxyPresence(ours, machine)
    with ExitStack() as on_error:
        on_error.callback(presence.close)
        silent = {}
        for path in sorted(folder.glob("[!.]*")):
            if path == ours:
                continue
            try:
                with path.open("r+b") as file:  # NFS gives an exclusive lock only to who may write
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    about = _parsed(file.read(_SIZE))
            except (BlockingIOError, FileNotFoundError):
                continue  # locked, or gone
            if about.get("machine") == machine:  # locks hold on one machine: it is dead
                path.unlink(missing_ok=True)
            else:
                silent[path] = about
        if silent:
            wait(WATCH_S)
        for path, before in silent.items():
            try:
                now = _parsed(path.read_bytes()[:_SIZE])
            except FileNotFoundError:
                continue
            if now.get("beat") != before.get("beat"):
                raise UnavailableError(
                    f"A proxy on {before.get('host')} writes this collection, and its locks are not"
                    " seen here: the shared folder must be on a file system that carries flock"
                    " between machines (NFS without nolock and local_lock; docs/how-to/cluster.md)."
                )
            path.unlink(missing_ok=True)
        on_error.pop_all()
    return presence


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        about = json.loads(data)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}
