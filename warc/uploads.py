"""Uploads of closed WARCs to object storage: queue, background thread, removal of local files, state for reports.

The queue is derived from the files: a closed WARC waits until the file beside it (`warc.local_storage`) names an object
with its checksum in SHA256SUMS. So a crash loses nothing, and a WARC that an erasure rewrote is uploaded again.
"""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from core.clock import Clock
from core.config.profile import local_retention
from core.config.settings import StorageSettings
from core.errors import CollectionInUseError, PermanentError, TransientError, WeboidError
from core.layout import Layout, is_warc_name
from net.backoff import ExponentialBackoff
from warc.checksums import read_sums
from warc.erasure import is_interrupted
from warc.local_storage import (
    CLOSED_SUFFIX,
    StoredWarc,
    closed_warcs,
    object_file,
    replace_file,
    stored_warc,
    sync_folder,
)
from warc.object_storage import open_storage, storage_file

log = logging.getLogger(__name__)

POLL_S = 5.0  # between two searches for closed WARCs
RETRY_S, RETRY_LIMIT_S = 5.0, 300.0


@dataclass(frozen=True, slots=True)
class UploadState:
    """State of the uploads of a collection."""

    url: str
    pending_files: int = 0  # closed WARCs that the bucket does not have
    pending_bytes: int = 0
    uploaded_files: int = 0
    uploaded_bytes: int = 0
    remote_files: int = 0  # uploaded ones without a local file
    error: str = ""  # of the last attempt; empty when it succeeded
    failing_since: float = 0.0  # Unix time; 0: it does not fail


def read_state(layout: Layout, settings: StorageSettings) -> UploadState | None:
    """Return the state of the uploads; None without object storage. Reads no object."""
    if not settings.url:
        return None
    pending, uploaded = UploadQueue(layout, settings).pending(), [*_stored(layout)]
    stored = {}
    with suppress(OSError, ValueError):
        stored = json.loads(storage_file(layout.root).read_bytes())
    return UploadState(
        settings.url,
        len(pending),
        sum(path.stat().st_size for path in pending),
        len(uploaded),
        sum(each.size for _, each in uploaded),
        sum(not path.exists() for path, _ in uploaded),
        stored.get("error", ""),
        stored.get("failing_since", 0.0),
    )


def _stored(layout: Layout) -> Iterator[tuple[Path, StoredWarc]]:
    for path in closed_warcs(layout):
        if (stored := stored_warc(path)) is not None:
            yield Path(path), stored


class UploadQueue:
    """Closed WARCs of one collection that the bucket does not have yet."""

    def __init__(self, layout: Layout, settings: StorageSettings) -> None:
        self._layout = layout
        self.settings = settings

    def pending(self) -> list[Path]:
        """Return the local files that wait, the oldest first; those without a checksum, too."""
        sums, waiting = read_sums(self._layout).by_name, []
        for path in map(Path, closed_warcs(self._layout)):
            with suppress(FileNotFoundError):
                stored = stored_warc(path)
                if stored is None or stored.sha256 != sums.get(path.name, stored.sha256):
                    waiting.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(waiting)]

    def upload(
        self,
        clock: Clock,
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_bytes: Callable[[int], None] = lambda _count: None,
    ) -> list[str]:
        """Upload what waits and remove the local files that are no longer wanted; return the names of the uploaded.

        A damaged file is left out, and its error raised at the end. Files without a checksum are left to the next
        call. Raises CollectionInUseError while another process uploads, else as `ObjectStorage`.
        """
        with self._locked():
            self._note(clock)
            try:
                done = self._upload(clock, stopped, on_bytes)
            except (WeboidError, OSError) as error:
                if not stopped():
                    self._note(clock, str(error))
                raise
            self._note(clock, "")
            return done

    def _upload(self, clock: Clock, stopped: Callable[[], bool], on_bytes: Callable[[int], None]) -> list[str]:
        sums, done, damaged = read_sums(self._layout).by_name, [], None
        storage = open_storage(self.settings)
        for path in self.pending():
            if stopped() or path.name not in sums:
                continue
            known = stored_warc(path)
            try:
                facts = storage.upload(path, path.name, sums[path.name], replaces=known is not None, on_bytes=on_bytes)
            except PermanentError as error:
                damaged = damaged or error
                continue
            StoredWarc(path.name, facts.size, facts.sha256, facts.etag, clock.now().timestamp()).write(path)
            done.append(path.name)
        if done:
            for each in (self._layout.checksums, self._layout.checksum_chain):
                if each.exists():
                    storage.write(each.name, each.read_bytes())  # others append to it meanwhile
        if not stopped():
            self._release(clock, sums)
        if damaged is not None:
            raise damaged
        return done

    def _release(self, clock: Clock, sums: dict[str, str]) -> None:
        """Remove the local files that `keep_local` does not cover, after another look at their objects."""
        limit = local_retention(self.settings.keep_local)
        if limit is None or is_interrupted(self._layout):  # an erasure replaces files
            return
        local = [(path.stat(), path, each) for path, each in _stored(self._layout) if path.exists()]
        left = sum(status.st_size for status, _, _ in local)
        for status, path, stored in sorted(local, key=lambda each: each[0].st_mtime):
            if isinstance(limit, timedelta):
                is_due = clock.now().timestamp() - stored.confirmed >= limit.total_seconds()
            else:
                is_due = left > limit
            if not is_due or sums.get(path.name) != stored.sha256:
                continue
            facts = open_storage(self.settings).head(path.name)
            if facts is None or (facts.size, facts.etag) != (stored.size, stored.etag):
                object_file(path).unlink()  # so that it is uploaded again
                raise PermanentError(
                    f"{self.settings.url}/{path.name} differs from the uploaded file; it is pending again."
                )
            if path.stat().st_ino != status.st_ino:
                continue
            os.utime(object_file(path), ns=(status.st_mtime_ns, status.st_mtime_ns))  # when the WARC was closed
            path.unlink()
            sync_folder(self._layout.archive)
            left -= status.st_size
            log.info("upload.local_removed file=%s", path.name)

    def adopt(self, clock: Clock) -> list[str]:
        """Make the bucket's WARCs that are not here readable; get SHA256SUMS where it is missing; return their names."""
        names, storage = [], open_storage(self.settings)
        with self._locked():
            self._note(clock)
            for each in storage.objects():
                path = self._layout.archive / each.name
                if each.name in (self._layout.checksums.name, self._layout.checksum_chain.name) and not path.exists():
                    replace_file(path, storage.read(each.name, 0, max(each.size, 1), etag=each.etag))
                is_warc = is_warc_name(each.name) and each.name.endswith(CLOSED_SUFFIX)
                if is_warc and not (path.exists() or object_file(path).exists()):
                    facts = storage.head(each.name) or each
                    StoredWarc(each.name, facts.size, facts.sha256, facts.etag, clock.now().timestamp()).write(path)
                    names.append(each.name)
        return names

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._layout.databases / "uploads.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CollectionInUseError("Another process uploads the WARCs of this collection.") from error
            yield

    def _note(self, clock: Clock, error: str | None = None) -> None:
        """Store the settings, by which objects are read, and the error of an attempt; None: it has begun."""
        path, facts = storage_file(self._layout.root), {}
        with suppress(OSError, ValueError):
            facts = json.loads(path.read_bytes())
        error = facts.get("error", "") if error is None else error
        since = (facts.get("failing_since") or clock.now().timestamp()) if error else 0.0
        fresh = {"settings": asdict(self.settings), "error": error, "failing_since": since}
        if fresh != facts:
            replace_file(path, json.dumps(fresh), mode=0o600)


class UploadWorker:
    """Background thread that uploads closed WARCs during a run, with back-off while that fails. `close` it."""

    def __init__(self, layout: Layout, settings: StorageSettings, clock: Clock) -> None:
        self._queue, self._clock = UploadQueue(layout, settings), clock
        self._closing, self._stopped = threading.Event(), False
        self._backoff = ExponentialBackoff(RETRY_S, RETRY_LIMIT_S)
        self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)
        if settings.url:
            self._thread.start()

    def close(self, *, stopped: bool = False) -> None:
        """Upload newly closed WARCs, unless `stopped` or the last attempt failed; then end."""
        self._stopped = stopped
        self._closing.set()
        if self._queue.settings.url:
            self._thread.join()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s):
            pause_s = POLL_S if self._attempt() else self._backoff.next_s()
        if pause_s <= POLL_S and not self._stopped:
            self._attempt()

    def _check_stop(self, _count: int) -> None:
        if self._stopped:
            raise TransientError("The run is stopping; the next one continues the upload.")

    def _attempt(self) -> bool:
        try:
            for name in self._queue.upload(self._clock, stopped=lambda: self._stopped, on_bytes=self._check_stop):
                log.info("upload.done file=%s", name)
        except CollectionInUseError:
            return True
        except (WeboidError, OSError) as error:
            log.warning("upload.failed error=%s", error)
            return False
        except Exception:
            log.exception("upload.failed")
            return False
        self._backoff.reset()
        return True
