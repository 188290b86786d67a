"""Recovery after a crash: interrupted WARCs cut to whole records and indexed (docs/explanation/durability.md).

Data of an ``.open`` WARC covered by the index was acknowledged: it stays, even beyond a damaged span. After it,
records that follow without a gap stay and are indexed; the rest is cut: an unfinished record and zeroes are
discarded, other data moved to ``archive/damaged/``. No file content prevents a proxy from starting. Every action is
in ``reports/recovered.jsonl``.
"""

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from core.config.settings import IndexSettings, ProxySettings
from core.errors import InputError
from core.layout import OPEN_SUFFIX, Layout
from core.timestamps import warc_date
from warc.file_reader import DamagedSpan, Reading, WarcMember, walk_records
from warc.index.indexer import index_file
from warc.index.protocol import CaptureIndex
from warc.index.sqlite import open_index, open_payloads
from warc.local_storage import open_warcs, sync_folder


class RecoveryOutcome(StrEnum):
    """Action taken on the file."""

    CLOSED = "closed"  # cut to its last whole record, indexed, and given its final name
    REMOVED = "removed"  # there was not a byte in it
    SET_ASIDE = "set aside"  # moved away: it has no usable record
    LEFT = "left"  # unchanged; checked again at the next start


@dataclass(frozen=True, slots=True)
class WarcRecovery:
    """Recovery of one interrupted WARC."""

    filename: str  # its final name
    outcome: RecoveryOutcome
    cut: int = 0  # bytes removed after its last whole record
    indexed: int = 0  # records that the index lacked
    lost_bytes: int = 0  # acknowledged bytes that cannot be read
    lost_records: int = 0  # index rows removed because of that
    damaged: tuple[int, ...] = ()  # offsets of acknowledged bytes that cannot be read
    kept_in: str = ""  # path in the collection of the data cut or set aside; empty when there is none
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, with its text."""
        return {**asdict(self), "text": self.text}

    @property
    def text(self) -> str:
        """Return a description in words."""
        parts = [f"{self.filename} was interrupted: {self._done()}."]
        if self.indexed:
            parts.append(f"{_count(self.indexed, 'record')} were added from it to the index.")
        if self.lost_bytes or self.lost_records:
            where = f" (at {', '.join(map(str, self.damaged[:5]))})" if self.damaged else ""
            parts.append(
                f"LOST: {self.lost_bytes:,} bytes with {_count(self.lost_records, 'capture')} that "
                f"were safely stored before cannot be read{where}. Restore the file from a copy, "
                "then run `weboid collection rebuild`."
            )
        return " ".join(parts)

    def _done(self) -> str:
        if self.outcome is RecoveryOutcome.REMOVED:
            return "it was empty, and is removed"
        if self.outcome is RecoveryOutcome.SET_ASIDE:
            return f"moved to {self.kept_in}, because {self._why()}"
        if self.outcome is RecoveryOutcome.LEFT:
            return f"it is unchanged, because {self._why()}; the next start tries again"
        cut = f", {_count(self.cut, 'byte')} of an incomplete record removed" if self.cut else ""
        place = f" and kept in {self.kept_in}" if self.kept_in else ""
        why = f"; its last records cannot be indexed: {self._why()}" if self.reason else ""
        return f"closed{cut}{place}{why}"

    def _why(self) -> str:
        reason = self.reason.rstrip(".")
        return reason[:1].lower() + reason[1:]


@dataclass(slots=True)
class InterruptedWarc:
    """Interrupted WARC under examination."""

    path: Path
    covered: int  # bytes that the index covers, which were acknowledged
    size: int = 0
    keep: int = 0  # length to keep
    damage: list[tuple[int, int]] = field(default_factory=list)  # (start, end) of spans without a record
    torn: bool = False  # whether the last of these is an unfinished record
    why: str = ""  # problem at the first of these
    is_inspected: bool = False  # whether it could be read

    @property
    def filename(self) -> str:
        """Return its final name."""
        return self.path.name.removesuffix(OPEN_SUFFIX)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


READ_BYTES = 1 << 20
_IndexTail = Callable[[InterruptedWarc, int], int]  # called with the tail's start


def abandoned(layout: Layout) -> frozenset[str]:
    """Return the names of open files whose writer is dead."""
    names = set()
    for path in open_warcs(layout):
        with suppress(OSError), path.open("r+b") as file:  # being written, or just closed
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            names.add(path.name)
    return frozenset(names)


def recover_collection(
    layout: Layout, settings: ProxySettings, *, now: datetime, index: IndexSettings | None = None
) -> list[WarcRecovery]:
    """Close interrupted WARCs without a living writer, and add all their payloads to the dedup index.

    Their writer may have died before it could settle its claims. Raises IndexUnavailableError,
    CollectionVersionError, DedupUnavailableError.
    """
    with (
        closing(open_index(layout, index or IndexSettings())) as opened,
        closing(open_payloads(layout, settings, opened)) as payloads,
        recovery_lock(layout),
    ):

        def index_tail(interrupted: InterruptedWarc, start: int) -> int:
            bucket, least = settings.dedup_bucket, settings.dedup_min_bytes
            place = interrupted.path, interrupted.filename, opened
            result = index_file(*place, bucket=bucket, min_bytes=least, start=start, end=interrupted.keep)
            if payloads.shared:
                payloads.add(opened.payloads_of(interrupted.filename))
            return result.rows

        recovered = [recover_file(layout, path, opened, index_tail) for path in open_warcs(layout)]
        done = [each for each in recovered if each is not None]
        if done:
            opened.settle([each.filename for each in done])
        payloads.release_dead()
    if done:
        layout.reports.mkdir(parents=True, exist_ok=True)
        with layout.recovery_report.open("a", encoding="utf-8") as file:
            for each in done:
                line = json.dumps({"at": warc_date(now), **each.to_dict()}, ensure_ascii=False)
                file.write(f"{line}\n")
    return done


@contextmanager
def recovery_lock(layout: Layout) -> Iterator[None]:
    """Lock recovery, so that no process releases dead claims while another reads their WARCs."""
    with (layout.databases / "recovery.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def recover_file(layout: Layout, path: Path, index: CaptureIndex, index_tail: _IndexTail) -> WarcRecovery | None:
    """Recover one file; None when a living process writes it, or it no longer exists."""
    interrupted = InterruptedWarc(path, index.indexed_to(path.name.removesuffix(OPEN_SUFFIX)))
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            with interrupted.path.open("r+b") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return None  # a living proxy writes it
                if not interrupted.path.exists():  # another process was quicker
                    return None
                _inspect(interrupted)
                if interrupted.keep == 0 and (interrupted.size or interrupted.covered):
                    return _set_aside(layout, interrupted, index, interrupted.why or "it is empty")
                return _close(layout, interrupted, file, index, index_tail)
        reason = "it is not a file"
    except FileNotFoundError:
        return None
    except OSError as error:
        if interrupted.is_inspected:  # it can be read: the fault is the disk's, e.g. that it is full
            return WarcRecovery(interrupted.filename, RecoveryOutcome.LEFT, reason=os_error_text(error))
        reason = f"it cannot be read: {os_error_text(error)}"
    return _set_aside(layout, interrupted, index, reason)


def _inspect(interrupted: InterruptedWarc) -> None:
    """Compute the part of the file that is intact. Raises OSError if it cannot be read."""
    interrupted.size = interrupted.path.stat().st_size
    for each in walk_records(interrupted.path, reading=Reading.STRUCTURE):
        if isinstance(each, WarcMember) and each.is_sound:
            end = each.offset + each.length
            if each.offset < interrupted.covered or each.offset == interrupted.keep:
                interrupted.keep = end
        elif isinstance(each, DamagedSpan):
            interrupted.damage.append((each.offset, each.end))
            interrupted.torn = each.torn
            interrupted.why = interrupted.why or each.text
        else:
            interrupted.damage.append((each.offset, each.offset + each.length))
            interrupted.torn = False
            interrupted.why = interrupted.why or "Its first record is incomplete."
    interrupted.is_inspected = True


def _close(
    layout: Layout, interrupted: InterruptedWarc, file: BinaryIO, index: CaptureIndex, index_tail: _IndexTail
) -> WarcRecovery:
    if interrupted.size == 0:
        interrupted.path.unlink()
        sync_folder(layout.archive)
        return WarcRecovery(interrupted.filename, RecoveryOutcome.REMOVED)
    kept_in = _save_tail(layout, interrupted)
    if interrupted.keep < interrupted.size:
        os.ftruncate(file.fileno(), interrupted.keep)
        os.fsync(file.fileno())
    damaged = [span for span in interrupted.damage if span[0] < interrupted.keep]
    lost = sum(index.forget(interrupted.filename, *span) for span in damaged)
    if interrupted.keep < interrupted.covered:
        lost += index.forget(interrupted.filename, interrupted.keep)
    try:
        indexed = index_tail(interrupted, min(interrupted.covered, interrupted.keep))
        reason = ""
    except InputError as error:  # whole records, but nothing that the index can store
        indexed, reason = 0, str(error)
    interrupted.path.rename(interrupted.path.with_name(interrupted.filename))
    sync_folder(layout.archive)
    return WarcRecovery(
        interrupted.filename,
        RecoveryOutcome.CLOSED,
        cut=interrupted.size - interrupted.keep,
        indexed=indexed,
        lost_bytes=max(interrupted.covered - interrupted.keep, 0) + sum(end - at for at, end in damaged),
        lost_records=lost,
        damaged=tuple(at for at, _ in damaged),
        kept_in=kept_in,
        reason=reason,
    )


def _save_tail(layout: Layout, interrupted: InterruptedWarc) -> str:
    """Save the data to be cut, unless it is an unfinished record or zeroes; return the path."""
    beyond = [span for span in interrupted.damage if span[0] >= interrupted.keep]
    unfinished = beyond == [(interrupted.keep, interrupted.size)] and interrupted.torn
    if interrupted.keep == interrupted.size or unfinished:
        return ""
    with interrupted.path.open("rb") as file:
        file.seek(interrupted.keep)
        if all(not any(piece) for piece in iter(lambda: file.read(READ_BYTES), b"")):
            return ""
    layout.damaged.mkdir(exist_ok=True)
    saved = layout.damaged / f"{interrupted.filename}.from-{interrupted.keep}"
    with interrupted.path.open("rb") as source, saved.open("wb") as target:
        source.seek(interrupted.keep)
        shutil.copyfileobj(source, target, READ_BYTES)
        target.flush()
        os.fsync(target.fileno())
    sync_folder(layout.damaged)
    return str(saved.relative_to(layout.root))


def _set_aside(layout: Layout, interrupted: InterruptedWarc, index: CaptureIndex, reason: str) -> WarcRecovery:
    try:
        layout.damaged.mkdir(exist_ok=True)
        number, target = 1, layout.damaged / interrupted.filename
        while os.path.lexists(target):
            number += 1
            target = target.with_name(f"{interrupted.filename}.{number}")
        interrupted.path.rename(target)
        sync_folder(layout.archive)
        sync_folder(layout.damaged)
    except OSError as error:
        return WarcRecovery(interrupted.filename, RecoveryOutcome.LEFT, reason=f"{reason}; {os_error_text(error)}")
    return WarcRecovery(
        interrupted.filename,
        RecoveryOutcome.SET_ASIDE,
        lost_bytes=interrupted.covered,
        lost_records=index.forget(interrupted.filename, 0) if interrupted.covered else 0,
        kept_in=str(target.relative_to(layout.root)),
        reason=reason,
    )


def os_error_text(error: OSError) -> str:
    """Return the system's description of the error."""
    return error.strerror or str(error)
