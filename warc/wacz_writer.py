"""Writer of WACZ 1.1.1 files: WARCs, pages, a compressed CDXJ index and the data package, streamed into a ZIP.

Entries are stored, not compressed: readers fetch parts of WARCs and of the index by byte ranges.
"""

import gzip
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from core.timestamps import warc_date

VERSION = "1.1.1"
_BLOCK_LINES = 3_000  # of the index in one gzip member, as cdxj-indexer writes them
_INDEX, _SUMMARY = "indexes/index.cdx.gz", "indexes/index.idx"


class WaczWriter:
    """WACZ file that appears under its name when `finish` returns; as a context manager it removes the rest."""

    def __init__(self, path: Path, moment: datetime) -> None:
        """`moment` is the date of the package and of its entries."""
        self._path, self._moment = path, moment
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._file = self._partial.open("xb")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._resources: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def add(self, name: str, pieces: Iterable[bytes]) -> str:
        """Add an entry; return its SHA-256 in hexadecimal."""
        info = zipfile.ZipInfo(name, self._moment.timetuple()[:6])
        info.external_attr = 0o644 << 16
        digest, size = hashlib.sha256(), 0
        with self._zip.open(info, "w", force_zip64=True) as entry:
            for piece in pieces:
                entry.write(piece)
                digest.update(piece)
                size += len(piece)
        value = digest.hexdigest()
        self._resources.append(
            {
                "name": name.rpartition("/")[2],
                "path": name,
                "hash": f"sha256:{value}",
                "bytes": size,
            }
        )
        return value

    def add_index(self, lines: Iterable[str]) -> None:
        """Add the CDXJ lines, which are sorted, in compressed blocks with the summary of their first keys."""
        summary = ['!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n']

        def blocks() -> Iterator[bytes]:
            offset, number, left = 0, 0, iter(lines)
            while block := list(islice(left, _BLOCK_LINES)):
                number += 1
                data = gzip.compress("".join(f"{line}\n" for line in block).encode(), mtime=0)
                place = {
                    "offset": offset, "length": len(data), "digest": f"sha256:{_sha256(data)}", "cluster": number,
                }  # fmt: skip
                key = block[0].partition(" {")[0]
                summary.append(f"{key} {json.dumps(place)}\n")
                offset += len(data)
                yield data

        self.add(_INDEX, blocks())
        self.add(_SUMMARY, (line.encode() for line in summary))

    def add_pages(self, pages: Iterable[Mapping[str, Any]], *, has_text: bool) -> None:
        """Add the list of pages: mappings with ``id``, ``url``, ``ts``, ``title`` and others."""
        head = {
            "format": "json-pages-1.0",
            "id": "pages",
            "title": "All pages",
            "hasText": has_text,
        }
        rows = (json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in chain([head], pages))
        self.add("pages/pages.jsonl", rows)

    def finish(self, facts: Mapping[str, Any], sign: Callable[[str], Mapping[str, str]] | None = None) -> None:
        """Write the data package with the facts, such as ``title``; close the file and give it its name.

        `sign` returns the ``signedData`` of the package's digest (`warc.wacz_signature`).
        """
        package = {
            "profile": "data-package", "wacz_version": VERSION, "created": warc_date(self._moment), **facts,
            "resources": list(self._resources),
        }  # fmt: skip
        data = json.dumps(package, indent=2, ensure_ascii=False).encode()
        digest: dict[str, Any] = {"path": "datapackage.json", "hash": f"sha256:{_sha256(data)}"}
        if sign is not None:
            digest["signedData"] = sign(digest["hash"])
        self.add("datapackage.json", [data])
        self.add("datapackage-digest.json", [json.dumps(digest, indent=2).encode()])
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._partial.replace(self._path)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
