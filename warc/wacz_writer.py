"""Writers of exports that continue after an interruption: WACZ 1.1.1 files, and one WARC of several.

Entries are stored, not compressed: readers fetch parts of WARCs and of the index by byte ranges. Headers are of ZIP64
only where an entry needs it: ReplayWeb.page takes a local header's length from the central directory.
"""

import gzip
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

from core.digests import sha256_digest
from core.timestamps import warc_date

VERSION = "1.1.1"
_ZIP64_VERSION = 45  # needed to extract (APPNOTE 4.4.3.2)
_BLOCK_LINES = 3_000  # of the index in one gzip member, as cdxj-indexer writes them
_INDEX, _SUMMARY = "indexes/index.cdx.gz", "indexes/index.idx"


class ExportFile:
    """File that appears under its name when it is complete.

    As a context manager it closes the unfinished file; that stays while it has complete entries, to continue with.
    """

    def __init__(self, path: Path, entries: Sequence[Mapping[str, Any]] = ()) -> None:
        """`entries`: what `add` returned in an earlier attempt; `entries` has those that are still there."""
        self.path = path
        self._partial = path.with_name(f".{path.name}.part")
        end = max((each["end"] for each in entries), default=0)
        is_there = end > 0 and self._partial.exists() and self._partial.stat().st_size >= end
        self.entries = [dict(each) for each in entries] if is_there else []
        self._file = self._partial.open("r+b" if is_there else "w+b")
        self._file.truncate(end if is_there else 0)
        self._file.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # of a full disk, which is reported already
            self._file.close()
        if not self.entries:
            self._partial.unlink(missing_ok=True)

    def write_lines(self, lines: Iterable[str]) -> None:
        """Append lines of text."""
        self._file.writelines(f"{line}\n".encode() for line in lines)

    def publish(self) -> None:
        """Sync the file and give it its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._partial.replace(self.path)


class CombinedWarcWriter(ExportFile):
    """WARC that holds the records of several; it begins with a `warcinfo` of its own."""

    def add(self, name: str, pieces: Iterable[bytes], _size: int = 0) -> dict[str, Any]:
        """Append the gzip members of a WARC; return what the file has of it."""
        self._file.writelines(pieces)
        self._file.flush()
        entry = {"name": name, "end": self._file.tell()}
        self.entries.append(entry)
        return entry


class WaczWriter(ExportFile):
    """WACZ file, complete when `finish` returns."""

    def __init__(self, path: Path, moment: datetime, entries: Sequence[Mapping[str, Any]] = ()) -> None:
        """`moment` is the date of the package and of its entries; `entries` as of `ExportFile`."""
        super().__init__(path, entries)
        self._moment = moment
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._resources: list[dict[str, Any]] = []
        for each in self.entries:
            info = self._info(each["name"])
            info.header_offset, info.CRC = each["offset"], each["crc"]
            info.file_size = info.compress_size = each["bytes"]
            if info.file_size > zipfile.ZIP64_LIMIT:
                info.create_version = info.extract_version = _ZIP64_VERSION
            self._zip.filelist.append(info)
            self._zip.NameToInfo[info.filename] = info
            self._add_resource(each["name"], each["sha256"], each["bytes"])

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, ValueError):
            self._zip.close()
        super().__exit__()

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, self._moment.timetuple()[:6])
        info.external_attr = 0o644 << 16
        return info

    def _add_resource(self, path: str, sha256: str, size: int) -> None:
        name = path.rpartition("/")[2]
        self._resources.append({"name": name, "path": path, "hash": f"sha256:{sha256}", "bytes": size})

    def add(self, name: str, pieces: Iterable[bytes], size: int) -> dict[str, Any]:
        """Add an entry of that many bytes; return its place and digest, with which a later attempt continues."""
        info = self._info(name)
        digest = hashlib.sha256()
        with self._zip.open(info, "w", force_zip64=size > zipfile.ZIP64_LIMIT) as entry:
            for piece in pieces:
                entry.write(piece)
                digest.update(piece)
        self._add_resource(name, digest.hexdigest(), size)
        self._file.flush()
        place = {
            "name": name, "offset": info.header_offset, "crc": info.CRC, "bytes": size,
            "sha256": digest.hexdigest(), "end": self._file.tell(),
        }  # fmt: skip
        self.entries.append(place)
        return place

    def _add_lines(self, name: str, pieces: Iterable[bytes]) -> None:
        """Add an entry whose size is known when it has been made."""
        with tempfile.TemporaryFile(dir=self.path.parent) as file:
            file.writelines(pieces)
            size = file.tell()
            file.seek(0)
            self.add(name, iter(partial(file.read, 1 << 20), b""), size)

    def add_index(self, lines: Iterable[str]) -> None:
        """Add the CDXJ lines, which are sorted, in compressed blocks with the summary of their first keys."""
        summary = ['!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n']

        def blocks() -> Iterator[bytes]:
            offset, number, left = 0, 0, iter(lines)
            while block := list(islice(left, _BLOCK_LINES)):
                number += 1
                data = gzip.compress("".join(f"{line}\n" for line in block).encode(), mtime=0)
                place = {
                    "offset": offset, "length": len(data), "digest": sha256_digest(data), "cluster": number,
                }  # fmt: skip
                key = block[0].partition(" {")[0]
                summary.append(f"{key} {json.dumps(place)}\n")
                offset += len(data)
                yield data

        self._add_lines(_INDEX, blocks())
        self._add_lines(_SUMMARY, (line.encode() for line in summary))

    def add_pages(self, pages: Iterable[Mapping[str, Any]], *, has_text: bool) -> None:
        """Add the list of pages: mappings with ``id``, ``url``, ``ts``, ``title`` and others."""
        head = {"format": "json-pages-1.0", "id": "pages", "title": "All pages", "hasText": has_text}
        rows = (json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in chain([head], pages))
        self._add_lines("pages/pages.jsonl", rows)

    def finish(self, facts: Mapping[str, Any], sign: Callable[[str], Mapping[str, str]] | None = None) -> None:
        """Write the data package with facts such as ``title``; `sign` returns ``signedData`` of its digest."""
        package = {
            "profile": "data-package", "wacz_version": VERSION, "created": warc_date(self._moment), **facts,
            "resources": list(self._resources),
        }  # fmt: skip
        data = json.dumps(package, indent=2, ensure_ascii=False).encode()
        digest: dict[str, Any] = {"path": "datapackage.json", "hash": sha256_digest(data)}
        if sign is not None:
            digest["signedData"] = sign(digest["hash"])
        self.add("datapackage.json", [data], len(data))
        signed = json.dumps(digest, indent=2).encode()
        self.add("datapackage-digest.json", [signed], len(signed))
        self._zip.close()
        self.publish()
