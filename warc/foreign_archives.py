"""Archive files of other tools: WARC, ARC, WACZ and folders of them, stored as WARCs with a gzip member a record.

A WARC that is compressed record by record is copied byte for byte, or linked. Of every other file (uncompressed,
Zstandard, several records in one gzip member, headers with bare line feeds, ARC) the records are packed one by one:
header and block of a WARC record stay as they are but for line ends, ARC records get WARC headers. No name in a file is used as a path, and nothing is held in memory.
"""

import gzip
import hashlib
import json
import lzma
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from isal import igzip, isal_zlib

from core.captures import IMPORT_PREFIX
from core.errors import DiskFullError, InputError, PermanentError
from core.layout import Layout
from warc.file_reader import has_member_per_record
from warc.local_storage import OBJECT_SUFFIX, DiskReserve, WarcPath, sync_folder
from warc.record_builder import RECORD_END, compress_pieces
from warc.record_reader import ByteSource

PART_PREFIX = ".importing-"  # of files that are not whole yet, in ``archive/``
KEY_DIGITS, _NAME_DIGITS = 12, 24
_READ_BYTES = 1 << 20
_HEAD_LIMIT_BYTES = 1 << 20
_JSON_LIMIT_BYTES = 16 << 20
_ENTRY_LIMIT = 200_000  # of a ZIP file, whose list is read as a whole
_DICTIONARY_LIMIT_BYTES = 64 << 20
_WINDOW_LIMIT_BYTES = 1 << 27  # of Zstandard: memory that a reader needs
_EXPANSION_COUNTS_FROM = 1 << 30
_MOST_EXPANSION, _MOST_ZIP_EXPANSION = 2_000, 100  # of one WARC; of a package, whose WARCs are compressed already
_SUFFIX = re.compile(r"\.(?:warc(?:\.gz|\.zst)?|arc(?:\.gz)?)$", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_VERSION, _BLANK_LINE = b"WARC/", b"\r\n\r\n"
_GZIP_MEMBER = re.compile(rb"\x1f\x8b\x08")
_GZIP_MAGIC, _ZSTD_MAGIC, _ZSTD_DICTIONARY = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18"
# The stub makes IsalError an instance.
_DAMAGED: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, isal_zlib.IsalError)  # type: ignore[assignment]
# What `zipfile` raises for files of others: names, offsets, versions and methods that it does not expect, too.
ZIP_FAULTS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError)
_MOST_SNIFFED = 100  # gzip members, of which the first may be damaged


class ForeignFormat(StrEnum):
    """Format of a file, by its content."""

    WARC_GZ = "warc.gz"
    WARC = "warc"
    WARC_ZST = "warc.zst"
    ARC = "arc"
    ARC_GZ = "arc.gz"
    ZIP = "zip"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """File to import, or an entry of a WACZ."""

    source: str  # path, or that of the WACZ and the entry's name
    size: int  # bytes
    open: Callable[[], IO[bytes]]
    path: Path | None = None  # None for an entry
    sha256: str = ""  # that its package states, in hexadecimal
    crc: int | None = None  # that the ZIP file states


@dataclass(slots=True)
class ForeignArchive:
    """Files that belong together: a file, a WACZ, or the files of a folder."""

    source: str
    key: str  # derives the ids of its pages; empty: each file has its own
    files: list[ForeignFile] = field(default_factory=list)
    page_lists: list[ForeignFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of parts that are left out


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Imported file in ``archive/``."""

    name: str
    sha256: str  # of the file that was imported
    format: ForeignFormat
    is_new: bool = True
    is_packed: bool = False  # its records were packed one by one
    problems: tuple[str, ...] = ()


def sniff(data: bytes) -> ForeignFormat | None:
    """Return the format of a file that begins with `data`; None when it is none that is imported."""
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return ForeignFormat.ZIP
    if data.startswith((_ZSTD_MAGIC, _ZSTD_DICTIONARY)):
        return ForeignFormat.WARC_ZST
    plain = data
    is_packed = data.startswith(_GZIP_MAGIC)
    for member in islice(_GZIP_MEMBER.finditer(data), _MOST_SNIFFED) if is_packed else ():
        with suppress(*_DAMAGED):
            plain = isal_zlib.decompressobj(31).decompress(memoryview(data)[member.start() :], 64)
            break
    if plain.startswith(_VERSION):
        return ForeignFormat.WARC_GZ if is_packed else ForeignFormat.WARC
    if plain.startswith(b"filedesc:"):
        return ForeignFormat.ARC_GZ if is_packed else ForeignFormat.ARC
    return None


def open_archives(
    path: Path, scratch: Path, on_bytes: Callable[[int], None], source: str = ""
) -> Iterator[ForeignArchive]:
    """Yield the archive files at the path, each to be used before the next; InputError: it is nothing that can be imported.

    `scratch` is for WACZ files within others. `on_bytes` is called with bytes of WACZ files that are hashed. `source`
    names the file where its path does not.
    """
    source = source or str(path)
    if path.is_dir():
        yield from _folder_archives(path, scratch, on_bytes)
        return
    with path.open("rb") as file:
        beginning = file.read(_READ_BYTES)
    kind = sniff(beginning)
    if kind is ForeignFormat.ZIP:
        yield from _wacz_archives(path, source, scratch, on_bytes)
    elif kind is not None:
        yield ForeignArchive(source, "", files=[replace(_plain_file(path), source=source)])
    elif beginning.startswith(_GZIP_MAGIC) and not path.name.startswith(PART_PREFIX):
        # Compressed once more, as by a server that sends it with a content coding.
        inner = scratch / f"{PART_PREFIX}{os.getpid()}-unpacked"
        left = max(_EXPANSION_COUNTS_FROM, _MOST_ZIP_EXPANSION * path.stat().st_size)
        try:
            with igzip.open(path) as stream, inner.open("wb") as target:  # type: ignore[no-untyped-call]
                _copy(stream, target, on_bytes, DiskReserve(scratch, 0), left)
            yield from open_archives(inner, scratch, on_bytes, source)
        except _DAMAGED as error:
            raise InputError(
                f"{source} is not a WARC, ARC or WACZ file, and its gzip data is damaged: {error}."
            ) from error
        finally:
            inner.unlink(missing_ok=True)
    elif beginning.lstrip().startswith(b"{") and len(beginning) < _READ_BYTES:
        yield from _listed_archives(path, beginning, scratch, on_bytes)
    else:
        raise InputError(f"{source} is not a WARC, ARC or WACZ file.")


def _plain_file(path: Path) -> ForeignFile:
    return ForeignFile(str(path), path.stat().st_size, lambda: path.open("rb"), path)


def _folder_archives(folder: Path, scratch: Path, on_bytes: Callable[[int], None]) -> Iterator[ForeignArchive]:
    """Yield the WARCs of a folder, such as a collection of pywb or browsertrix, as one archive; then its WACZ files."""
    key = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:KEY_DIGITS]
    archive = ForeignArchive(str(folder), key)
    packages = []
    for parent, folders, names in os.walk(folder):  # symbolic links to folders are not followed
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if not path.resolve().is_relative_to(folder.resolve()):
                archive.problems.append(f"{path} points outside the folder; it is skipped.")
            elif not path.is_file():
                continue
            elif _SUFFIX.search(name):
                archive.files.append(_plain_file(path))
            elif name.lower().endswith(".wacz"):
                packages.append(path)
            elif path.parent.name == "pages" and name.endswith(".jsonl"):
                archive.page_lists.append(_plain_file(path))
            elif name.endswith(".open"):
                archive.problems.append(f"{path} is being written; it is skipped.")
    if not archive.files and not packages:
        raise InputError(f"{folder} contains no WARC, ARC or WACZ file.")
    if archive.files:
        yield archive
    for path in packages:
        try:
            yield from _wacz_archives(path, str(path), scratch, on_bytes)
        except InputError as error:
            yield ForeignArchive(str(path), "", problems=[str(error)])


def _listed_archives(
    path: Path, data: bytes, scratch: Path, on_bytes: Callable[[int], None]
) -> Iterator[ForeignArchive]:
    """Yield the WACZ files that a JSON package names; only files within its folder are read."""
    package = _json_object(data, str(path))
    names = [str(each.get("path") or each.get("url") or "") for each in listed_resources(package)]
    if package.get("profile") != "multi-wacz-package" or not names:
        raise InputError(f"{path} is not a WARC, ARC or WACZ file, nor a package of WACZ files.")
    folder = path.parent.resolve()
    for name in names:
        inner = folder / name
        problem = ""
        if re.match(r"[a-z]+://", name, re.IGNORECASE):
            problem = f"{path} names {name[:200]}: import that address by itself."
        elif not inner.resolve().is_relative_to(folder):
            problem = f"{path} names {name[:200]!r}, which is outside its folder; it is skipped."
        elif not inner.is_file():
            problem = f"{path} names {name[:200]!r}, which is missing."
        if problem:
            yield ForeignArchive(str(path), "", problems=[problem])
        else:
            yield from _wacz_archives(inner, str(inner), scratch, on_bytes)


def _wacz_archives(
    path: Path, source: str, scratch: Path, on_bytes: Callable[[int], None], depth: int = 0
) -> Iterator[ForeignArchive]:
    try:
        with zipfile.ZipFile(path) as package:
            entries = package.infolist()
            if len(entries) > _ENTRY_LIMIT:
                raise InputError(f"{source} has {len(entries):,} entries; at most {_ENTRY_LIMIT:,} are read.")
            unpacked = sum(each.file_size for each in entries)  # overlapping entries count each
            if unpacked > max(_EXPANSION_COUNTS_FROM, _MOST_ZIP_EXPANSION * path.stat().st_size):
                raise InputError(
                    f"{source} decompresses to {unpacked:,} bytes from {path.stat().st_size:,}, like a ZIP bomb."
                )
            with path.open("rb") as file:
                sha256, _ = _copy(file, None, on_bytes)
            archive = ForeignArchive(source, sha256[:KEY_DIGITS])
            digests = _stated_digests(package, archive)
            nested = []
            for entry in entries:
                problem = "is encrypted" if entry.flag_bits & 1 else ""
                parts = entry.filename.replace("\\", "/").split("/")  # only displayed, but identifies the file
                if ".." in parts or parts[0] in {"", "~"} or ":" in parts[0]:
                    problem = "has a path outside the file"
                if problem:
                    archive.problems.append(f"{source}: {entry.filename[:200]!r} {problem}; it is skipped.")
                    continue
                crc = entry.CRC
                del entry.CRC  # otherwise the last bytes of a damaged entry are not read
                opened = ForeignFile(
                    f"{source}!{entry.filename}",
                    entry.file_size,
                    lambda entry=entry: package.open(entry),  # type: ignore[misc] # bound in each turn
                    sha256=digests.get(entry.filename, ""),
                    crc=crc,
                )
                if _SUFFIX.search(entry.filename):
                    archive.files.append(opened)
                elif entry.filename.startswith("pages/") and entry.filename.endswith(".jsonl"):
                    archive.page_lists.append(opened)
                elif entry.filename.lower().endswith(".wacz"):
                    nested.append(opened)
            if not archive.files and not nested:
                raise InputError(
                    " ".join([f"{source} is a ZIP file without WARCs that can be read.", *archive.problems])
                )
            if archive.files or archive.problems:
                yield archive
            for number, each in enumerate(nested):
                if depth:
                    problem = f"{each.source} is nested too deeply; it is skipped."
                    yield ForeignArchive(source, "", problems=[problem])
                    continue
                inner = scratch / f"{PART_PREFIX}{os.getpid()}-{number}.wacz"
                try:
                    with each.open() as stream, inner.open("wb") as target:
                        _copy(stream, target, on_bytes, DiskReserve(scratch, 0))
                    yield from _wacz_archives(inner, each.source, scratch, on_bytes, depth + 1)
                except (InputError, *ZIP_FAULTS) as error:
                    yield ForeignArchive(each.source, "", problems=[f"{each.source} cannot be read: {error}"])
                finally:
                    inner.unlink(missing_ok=True)
    except ZIP_FAULTS as error:
        raise InputError(f"{source} cannot be read as a ZIP file: {str(error).rstrip('.')}.") from error


def _stated_digests(package: zipfile.ZipFile, archive: ForeignArchive) -> dict[str, str]:
    """Return the SHA-256 of entries that ``datapackage.json`` states, by name."""
    try:
        entry = package.getinfo("datapackage.json")
        data = package.read(entry) if entry.file_size <= _JSON_LIMIT_BYTES else b"too large"
        document = _json_object(data, "datapackage.json")
    except KeyError:
        archive.problems.append(f"{archive.source} has no datapackage.json, so no checksums to compare.")
        return {}
    except (InputError, *ZIP_FAULTS) as error:
        archive.problems.append(f"{archive.source}: datapackage.json cannot be read: {error}")
        return {}
    stated = ((str(each.get("path")), str(each.get("hash"))) for each in listed_resources(document))
    return {name: value.removeprefix("sha256:") for name, value in stated if value.startswith("sha256:")}


def listed_resources(package: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the resources that a data package lists, as far as they are objects."""
    resources = package.get("resources")
    return [each for each in resources if isinstance(each, dict)] if isinstance(resources, list) else []


def _json_object(data: bytes, source: str) -> Mapping[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source[:200]} is not valid JSON: {error}.") from error
    if not isinstance(document, dict):
        raise InputError(f"{source[:200]} is not a JSON object.")
    return document


def _copy(
    source: IO[bytes],
    target: IO[bytes] | None,
    on_bytes: Callable[[int], None],
    reserve: DiskReserve | None = None,
    limit: float = math.inf,
) -> tuple[str, int]:
    """Copy the stream, or only hash it; return SHA-256 and CRC-32. DiskFullError; InputError: more than `limit`."""
    digest, crc = hashlib.sha256(), 0
    while data := source.read(_READ_BYTES):
        digest.update(data)
        crc = isal_zlib.crc32(data, crc)
        limit -= len(data)
        if limit < 0:
            raise InputError("A file decompresses to very many times its size, like a bomb.")
        if target is not None:
            if reserve is not None and reserve.is_low():
                raise DiskFullError("The disk is nearly full: free some space, then import again; it continues.")
            target.write(data)
        on_bytes(len(data))
    return digest.hexdigest(), crc


class ImportStorage:
    """Storage of imported files in one collection, which no other process writes."""

    def __init__(
        self,
        layout: Layout,
        reserve: DiskReserve,
        sums: Mapping[str, str],
        *,
        link: bool,
        trial_of: Layout | None = None,
    ) -> None:
        """`sums` has SHA-256 by name of the collection's files; `link`: hard links instead of copies, if possible.

        `trial_of`: a collection, for which `layout` is a place to try an import: files are known that are there, and
        others are linked by name, on any disk.
        """
        self._archive, self._reserve, self._link = layout.archive, reserve, link or trial_of is not None
        self._trial_of = trial_of
        self._by_sum = {value: name for name, value in sums.items()}

    def clean(self) -> None:
        """Remove the parts that an interrupted import left."""
        for path in self._archive.glob(f"{PART_PREFIX}*"):
            path.unlink()

    def find(self, sha256: str) -> str:
        """Return the name of the collection's file that holds the one with that SHA-256; empty: none does."""
        name, folder = self._by_sum.get(sha256, ""), (self._trial_of.archive if self._trial_of else self._archive)
        if not name:
            pattern = f"{IMPORT_PREFIX}*-{sha256[:_NAME_DIGITS]}-*.warc.gz*"
            name = next((path.name.removesuffix(OBJECT_SUFFIX) for path in folder.glob(pattern)), "")
        return name if name and any(WarcPath(each / name).exists() for each in (folder, self._archive)) else ""

    def _read(
        self, file: ForeignFile, target: Path | None, on_bytes: Callable[[int], None]
    ) -> tuple[ForeignFormat, str, int]:
        """Copy the file if there is a target; return its format, SHA-256 and CRC-32."""
        try:
            with file.open() as source:
                kind = sniff(source.read(_READ_BYTES))
            if kind is None or kind is ForeignFormat.ZIP:
                raise PermanentError(f"{file.source} is not a WARC or ARC file.")
            with file.open() as source, target.open("wb") if target else nullcontext() as copy:
                return kind, *_copy(source, copy, on_bytes, self._reserve)
        except ZIP_FAULTS as error:
            raise PermanentError(f"{file.source} cannot be read: {str(error).rstrip('.')}.") from error

    def add(self, file: ForeignFile, key: str, on_bytes: Callable[[int], None]) -> StoredFile:
        """Store the file durably, overwriting nothing; PermanentError: it is unfit; OSError, DiskFullError."""
        part = self._archive / f"{PART_PREFIX}{os.getpid()}.part"
        stem = _SUFFIX.sub("", file.source.rpartition("/")[2].rpartition("!")[2])
        stem = _UNSAFE.sub("_", stem).strip("._")[-100:] or "file"
        is_likely_known = next(self._archive.glob(f"{IMPORT_PREFIX}*-*-{stem}.warc.gz"), None) is not None
        try:
            linked = file.path if self._link or is_likely_known else None
            kind, sha256, crc = self._read(file, None if linked else part, on_bytes)
            if known := self.find(sha256):
                return StoredFile(known, sha256, kind, is_new=False)
            name = f"{IMPORT_PREFIX}{key or sha256[:KEY_DIGITS]}-{sha256[:_NAME_DIGITS]}-{stem}.warc.gz"
            problems: list[str] = []
            if file.sha256 and file.sha256 != sha256:
                problems.append("Its content does not match the package's checksum (SHA-256).")
            elif file.crc not in (None, crc):
                problems.append("Its content does not match the ZIP file's checksum (CRC-32).")
            whole = linked or part
            if kind is not ForeignFormat.WARC_GZ or not has_member_per_record(whole):
                packed = part.with_suffix(".packed")
                with whole.open("rb") as source, packed.open("wb") as target:
                    _pack_records(source, kind, target, problems, self._reserve)
                whole = packed
            elif linked is not None:
                with suppress(OSError):  # another file system, or one without hard links
                    (os.symlink if self._trial_of else os.link)(linked.absolute(), part)
                if not part.exists():
                    with linked.open("rb") as source, part.open("wb") as target:
                        if _copy(source, target, lambda _count: None, self._reserve)[0] != sha256:
                            raise PermanentError(f"{file.source} was changed while it was being read; import it again.")
                whole = part
            with whole.open("rb") as stored:
                os.fsync(stored.fileno())
            whole.rename(self._archive / name)  # which is new: it has the digest of another file
            sync_folder(self._archive)
            self._by_sum[sha256] = name
            return StoredFile(name, sha256, kind, is_packed=whole.suffix == ".packed", problems=tuple(problems))
        finally:
            part.unlink(missing_ok=True)
            part.with_suffix(".packed").unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove a file without a record that was just stored."""
        (self._archive / name).unlink()
        self._by_sum = {value: each for value, each in self._by_sum.items() if each != name}


def _pack_records(
    file: IO[bytes], form: ForeignFormat, target: IO[bytes], problems: list[str], reserve: DiskReserve
) -> None:
    """Write each record of the file as a gzip member; add other data to the problems."""
    stream: Any = file
    errors = _DAMAGED
    if form in (ForeignFormat.WARC_GZ, ForeignFormat.ARC_GZ):
        stream = igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
    elif form is ForeignFormat.WARC_ZST:
        import zstandard  # of few imports

        errors = (*_DAMAGED, zstandard.ZstdError)
        stream = _zstd_stream(file)
    limit = max(_EXPANSION_COUNTS_FROM, _MOST_EXPANSION * os.fstat(file.fileno()).st_size)

    def read(count: int) -> bytes:
        nonlocal limit
        try:
            data = stream.read(count)
        except errors as error:
            problems.append(f"It is damaged or truncated, and the rest is missing: {error}.")
            return b""
        limit -= len(data)
        if limit < 0:
            raise PermanentError(f"It decompresses to more than {_MOST_EXPANSION:,} times its size, like a bomb.")
        if reserve.is_low():
            raise DiskFullError("The disk is nearly full: free some space, then import again; it continues.")
        return bytes(data)

    if form in (ForeignFormat.ARC, ForeignFormat.ARC_GZ):
        _convert_arc(read, target, problems)
        return
    source = _RecordSource(iter(partial(read, _READ_BYTES), b""))
    while source.skip_blank_lines():
        at, line = source.at, source.find(b"\n", _HEAD_LIMIT_BYTES)
        is_bare = line > 1 and not source.begins_with(b"\r", line - 2)  # its lines end in LF alone, as some tools wrote
        size = source.find(b"\n\n" if is_bare else _BLANK_LINE, _HEAD_LIMIT_BYTES)
        head = b"".join(source.take(size)) if size >= 0 and source.begins_with(_VERSION) else b""
        head = head.replace(b"\n", b"\r\n") if is_bare else head
        if (length := _LENGTH.search(head)) is None:
            source.skip_to(_VERSION)
            problems.append(f"{source.at - at:,} bytes at {at:,} are no record.")
            continue
        for piece in compress_pieces(chain([head], source.take(int(length[1])), [RECORD_END])):
            target.write(piece)


class _RecordSource(ByteSource):
    def skip_blank_lines(self) -> bool:
        """Move to the next byte that ends no line; return False at the end."""
        while self._start < len(self._held) or self.more():
            if self._held[self._start] not in b"\r\n":
                return True
            self.skip(1)
        return False

    def skip_to(self, mark: bytes) -> None:
        """Move behind the next line end to a line that begins with the mark, or to the end."""
        wanted = b"\n" + mark
        while (at := self._held.find(wanted, self._start)) < 0:
            self.skip(max(0, len(self._held) - self._start - len(wanted)))
            if not self.more():
                self.skip(len(self._held) - self._start)
                return
        self.skip(at + 1 - self._start)


def _zstd_stream(file: IO[bytes]) -> IO[bytes]:
    """Return the decompressed file; its first frame may hold the dictionary of the others (WARC with Zstandard, 1.0)."""
    import zstandard

    dictionary = None
    head = file.read(8)
    if head.startswith(_ZSTD_DICTIONARY):
        size = int.from_bytes(head[4:], "little")
        if size > _DICTIONARY_LIMIT_BYTES:
            raise PermanentError(f"Its dictionary has {size:,} bytes; at most {_DICTIONARY_LIMIT_BYTES:,} are read.")
        data = file.read(size)
        if data.startswith(_ZSTD_MAGIC):
            data = zstandard.ZstdDecompressor().stream_reader(data).read(_DICTIONARY_LIMIT_BYTES)
        dictionary = zstandard.ZstdCompressionDict(data)
    else:
        file.seek(0)
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=_WINDOW_LIMIT_BYTES)
    return decompressor.stream_reader(file, read_across_frames=True, closefd=False)


def _convert_arc(read: Callable[[int], bytes], target: IO[bytes], problems: list[str]) -> None:
    """Write ARC records as WARC records, by warcio: URL, date, address and block are those of the ARC."""
    from warcio.archiveiterator import ArchiveIterator
    from warcio.exceptions import ArchiveLoadFailed
    from warcio.recordloader import ARC2WARCHeadersParser

    class HeadersParser(ARC2WARCHeadersParser):  # type: ignore[misc] # warcio has no types
        """Parser of ARC record headers that also reads the ten fields of ARC 2.0."""

        def _get_protocol_and_headers(self, headerline: str, parts: list[str]) -> Any:
            words = headerline.split(" ")
            is_second = len(words) == 10 and words[2].isdigit()
            return super()._get_protocol_and_headers(headerline, [*words[:4], words[-1]] if is_second else parts)

    class Reader:
        """File object for warcio."""

        def read(self, count: int = _READ_BYTES) -> bytes:
            return read(count)

    done = 0
    try:
        records = ArchiveIterator(Reader(), arc2warc=True, no_record_parse=True)
        records.loader.arc_parser = HeadersParser()
        for record in records:
            done += 1
            if record.rec_type == "warcinfo":  # the ARC's own head, which is consumed by now
                continue
            head = record.rec_headers.to_bytes()
            block = iter(partial(record.raw_stream.read, _READ_BYTES), b"")
            for piece in compress_pieces(chain([head], block, [RECORD_END])):
                target.write(piece)
    except (ArchiveLoadFailed, ValueError, IndexError, UnicodeError) as error:
        problems.append(f"The data after record {done:,} is not an ARC record: {error}.")
