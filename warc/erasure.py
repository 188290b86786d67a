"""Erasure of records from closed WARCs: tombstones, plan file, index update.

A tombstone is a `metadata` record (WARC/1.1, 6.6) with the record's own WARC-Record-ID, WARC-Target-URI and
WARC-Date; its block states what was erased, when, why and by whom. Every other record stays byte for byte.

New files are written next to the old ones and forced to disk; then the plan (``.erasing.json``) is written, and from
then on `finish_erasure` completes from any point: files are renamed, the index is changed in one transaction,
SHA256SUMS gets the new lines, the plan is removed. No other process may write the collection meanwhile.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from core.captures import RecordType
from core.digests import sha256_digest
from core.errors import InputError, PermanentError, UnavailableError
from core.json_values import read_json
from core.layout import Layout
from warc.checksums import read_sums, replace_sums
from warc.file_reader import DamagedSpan, Reading, WarcMember, walk_records
from warc.local_storage import WarcPath, replace_file, sync_folder, write_transaction
from warc.object_storage import forget_blocks
from warc.record_builder import Headers, one_line, record_member

PLAN_NAME = ".erasing.json"
_NEW_SUFFIX = ".erasing"
_COPY_BYTES = 1 << 20
# Headers that a tombstone copies from its record: its identity, not its content.
_KEPT_HEADERS = ("WARC-Record-ID", "WARC-Target-URI", "WARC-Date", "WARC-Warcinfo-ID", "WARC-Page-ID")
Step = Callable[[str], None]
TombstoneLines = tuple[tuple[str, str], ...]  # names and values of its block; no value has a line end


@dataclass(frozen=True, slots=True)
class ErasedRecord:
    """Record that was erased."""

    filename: str
    offset: int
    record_id: str
    url: str
    date: str
    page_id: str


@dataclass(slots=True)
class ErasurePlan:
    """Planned changes to one WARC."""

    filename: str
    size: int
    sha256: str
    # (old offset, old length, new length) of each erased record, in order.
    moves: list[tuple[int, int, int]] = field(default_factory=list)
    erased: list[ErasedRecord] = field(default_factory=list)


def erase_records(
    layout: Layout,
    tombstones: Mapping[str, Mapping[int, TombstoneLines]],
    *,
    step: Step = lambda _name: None,
    with_index: bool = True,
) -> list[ErasedRecord]:
    """Put tombstones in the place of records, given by WARC and offset; return the erased records.

    `step` is called with each completed step; without `with_index` the caller rebuilds the index. The WARCs are
    unchanged after UnavailableError (an unfinished erasure, an open WARC), PermanentError (SHA256SUMS or an offset is
    wrong) and OSError.
    """
    remove_leftovers(layout)
    sums = read_sums(layout).by_name
    plans = []
    for filename, wanted in sorted(tombstones.items()):
        if wanted:
            known = sums.get(filename, "")
            local, still_open = layout.warc(filename)
            path = WarcPath(local)
            if still_open.exists() or not path.is_file():
                raise UnavailableError(f"{filename} is open, or not here; erase it when it is closed.")
            if path.suffix != ".gz":
                raise PermanentError(f"{filename} is not compressed per record; nothing is erased in it.")
            plan = ErasurePlan(filename, 0, "")
            fresh = path.with_name(path.name + _NEW_SUFFIX)
            with path.open("rb") as source, fresh.open("wb") as target:
                before = _copy(path, source, target, dict(wanted), plan)
                target.flush()
                os.fsync(target.fileno())
            if known and known != before:
                raise PermanentError(f"{filename} does not match SHA256SUMS: run `weboid verify`.")
            plans.append(plan)
            step(f"written {filename}")
    if not plans:
        return []
    sync_folder(layout.archive)
    replace_file(layout.archive / PLAN_NAME, json.dumps([asdict(plan) for plan in plans]))
    step("planned")
    return finish_erasure(layout, step=step, with_index=with_index)


def finish_erasure(layout: Layout, *, step: Step = lambda _name: None, with_index: bool = True) -> list[ErasedRecord]:
    """Complete an erasure whose plan is on disk; return its records. PermanentError: bad plan; after OSError retry."""
    plans: list[ErasurePlan] = []
    try:
        with suppress(FileNotFoundError):
            text = (layout.archive / PLAN_NAME).read_text(encoding="utf-8")
            plans = read_json(list[ErasurePlan], json.loads(text))
    except (ValueError, InputError) as error:
        raise PermanentError(f"{layout.archive / PLAN_NAME} cannot be read: {error}.") from error
    for plan in plans:
        path = layout.archive / plan.filename
        fresh = path.with_name(path.name + _NEW_SUFFIX)
        if fresh.exists():
            fresh.rename(path)
            sync_folder(layout.archive)
        forget_blocks(layout.root, plan.filename)
        step(f"renamed {plan.filename}")
    if plans and with_index and layout.captures_db.exists():
        with closing(sqlite3.connect(layout.captures_db, isolation_level=None)) as database:
            database.execute("PRAGMA secure_delete = ON")  # a title must not stay in a freed page
            with write_transaction(database):
                for plan in plans:
                    query = "SELECT sha256 FROM files WHERE filename = ?"
                    if database.execute(query, (plan.filename,)).fetchone() != (plan.sha256,):
                        _move_file(layout, database, plan)
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        step("indexed")
    if plans:
        replace_sums(layout, {plan.filename: plan.sha256 for plan in plans})
        step("summed")
    (layout.archive / PLAN_NAME).unlink(missing_ok=True)
    sync_folder(layout.archive)
    return [each for plan in plans for each in plan.erased]


def remove_leftovers(layout: Layout) -> None:
    """Remove files that were never planned; UnavailableError if there is a plan."""
    if is_interrupted(layout):
        raise UnavailableError("An erasure was interrupted: run `weboid takedown erase --finish`.")
    for path in layout.archive.glob(f"*{_NEW_SUFFIX}"):
        path.unlink()


def is_interrupted(layout: Layout) -> bool:
    """Return whether there is a plan to finish."""
    return (layout.archive / PLAN_NAME).exists()


def _copy(path: Path, source: BinaryIO, target: BinaryIO, pending: dict[int, TombstoneLines], plan: ErasurePlan) -> str:
    """Copy the WARC with its tombstones and extend the plan; return the source's SHA-256."""
    before, after = hashlib.sha256(), hashlib.sha256()
    for each in walk_records(path, reading=Reading.STRUCTURE):
        tombstone = pending.pop(each.offset, None)
        length = each.length if isinstance(each, WarcMember) else each.end - each.offset
        if tombstone is not None and isinstance(each, DamagedSpan):
            raise PermanentError(f"{path.name} is damaged at {each.offset}.")
        left = length
        while left > 0:
            if not (piece := source.read(min(left, _COPY_BYTES))):
                raise PermanentError("A WARC ended while it was being read.")
            left -= len(piece)
            before.update(piece)
            if tombstone is None:
                after.update(piece)
                target.write(piece)
        if tombstone is not None and isinstance(each, WarcMember):
            new = tombstone_member(each, tombstone)
            after.update(new)
            target.write(new)
            plan.moves.append((each.offset, length, len(new)))
            names = ("warc-record-id", "warc-date", "warc-page-id")
            record_id, date, page_id = (each.headers.get(name, "") for name in names)
            plan.erased.append(ErasedRecord(path.name, each.offset, record_id, each.url, date, page_id))
    if pending:
        raise PermanentError(f"{path.name} has no record at {min(pending)}: run `weboid collection rebuild` first.")
    plan.size, plan.sha256 = target.tell(), after.hexdigest()
    return before.hexdigest()


def tombstone_member(record: WarcMember, tombstone: TombstoneLines) -> bytes:
    """Return the tombstone of a record, as a gzip member."""
    lines = (*tombstone, ("erased-record-type", record.kind))
    block = "".join(f"{name}: {one_line(value)}\r\n" for name, value in lines).encode()
    headers: Headers = [("WARC-Type", RecordType.METADATA)]
    headers += [(name, record.headers[key]) for name in _KEPT_HEADERS if (key := name.lower()) in record.headers]
    headers += [
        ("Content-Type", "application/warc-fields"),
        ("WARC-Block-Digest", sha256_digest(block)),
        ("Content-Length", str(len(block))),
    ]
    return record_member(headers, block)


def _move_file(layout: Layout, database: sqlite3.Connection, plan: ErasurePlan) -> None:
    """Remove the erased records from the index and move the file's others."""
    name = plan.filename
    for page_id in {each.page_id for each in plan.erased if each.url.startswith("urn:pageinfo:")} - {""}:
        database.execute("DELETE FROM pages WHERE page_id = ?", (page_id,))
    for offset, _, _ in plan.moves:
        for table in ("captures", "payloads", "qualities"):
            database.execute(f"DELETE FROM {table} WHERE filename = ? AND offset = ?", (name, offset))  # noqa: S608 ours
    for table, column, file_column in (
        ("captures", "offset", "filename"),
        ("captures", "orig_offset", "orig_filename"),
        ("payloads", "offset", "filename"),
        ("qualities", "offset", "filename"),
    ):
        # Negative offsets first: no two rows may have the same offset, even temporarily.
        shift = 0
        ends = [move[0] for move in plan.moves[1:]] + [None]
        for (offset, old, new), end in zip(plan.moves, ends, strict=True):
            shift += new - old
            upper = f" AND {column} < {end}" if end is not None else ""
            database.execute(
                f"UPDATE {table} SET {column} = -1 - ({column} + ?)"  # noqa: S608 names of ours
                f" WHERE {file_column} = ? AND {column} > ?{upper}",
                (shift, name, offset),
            )
        database.execute(
            f"UPDATE {table} SET {column} = -1 - {column}"  # noqa: S608 names of ours
            f" WHERE {file_column} = ? AND {column} < 0",
            (name,),
        )
    database.execute(
        "INSERT INTO files (filename, indexed_to, size, sha256, closed_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (filename) DO UPDATE SET indexed_to = excluded.indexed_to,"
        " size = excluded.size, sha256 = excluded.sha256, closed_ms = excluded.closed_ms",
        (name, plan.size, plan.size, plan.sha256, (layout.archive / name).stat().st_mtime_ns // 1_000_000),
    )
