"""What a captures index does for those who write it, whatever holds it.

A batch of records is one transaction: its rows, its pages, how far it covers its files. All of it
may be written again, as after an answer that was lost, and then is there once: a record is known by
its file and place, and a WARC's name is never used twice, on no machine.

`tests/proxy/test_index.py` holds every implementation to these rules.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from core.captures import Capture
from core.pages import Outcome, PageInfo
from proxy.builder import Original
from proxy.index.rows import CaptureRow, QualityRow
from proxy.payloads.protocol import PayloadKey


class CaptureIndex(Protocol):
    """One captures index, as one process sees it; `close` it.

    Questions may come from any thread; a transaction is one thread's.

    Every verb of an index that is `shared` raises IndexUnavailableError while its server does not
    answer. Outside of `transaction` each verb is a transaction of its own.

    Attributes:
        shared: whether several machines write it, through a server. Its transactions keep nobody
            else waiting, so they claim nothing, and a commit may fail although it was done.
    """

    shared: bool

    def close(self) -> None:
        """Let go of the index."""
        ...

    def check(self) -> None:
        """Ask whether the index answers.

        Raises:
            IndexUnavailableError: it does not.
        """
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, or roll back on any error."""
        ...

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """Add the rows; a record that is there already stays as it is.

        Raises:
            InputError: the index cannot hold one of them.
        """
        ...

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """The same for captures."""
        ...

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row; an earlier visit's manifest never replaces a later one's.

        Both may exist: a proxy died after it wrote the first, another made the page meanwhile, and
        then the first is found. What an interrupted attempt at the same page left in the index
        goes: its records stay in the WARCs, but the page was captured once, by the visit that its
        manifest describes. A page that was skipped was not captured at all: of it only the manifest
        stays in the index, which says why, so that nobody is offered what its site does not want to
        be archived.
        """
        ...

    def add_qualities(self, rows: Sequence[QualityRow]) -> None:
        """Add what checks found; a record that is there already stays as it is.

        Whichever of a page's checks comes first, the newest is the one that counts.
        """
        ...

    def add_payloads(self, originals: Mapping[PayloadKey, Original]) -> None:
        """Remember which records hold the payloads; the first one stays."""
        ...

    def payloads_of(self, filename: str) -> dict[PayloadKey, Original]:
        """The payloads whose records lie in that WARC."""
        ...

    def original_spelled(self, spelled: str, bucket: str) -> Original | None:
        """The record whose WARC-Payload-Digest that is; None when there is none in the bucket."""
        ...

    def orphans(self) -> dict[int, str]:
        """Revisits whose payload lies in no WARC here: row id -> WARC-Payload-Digest."""
        ...

    def adopt(self, originals: Mapping[int, Original]) -> None:
        """Say where the payloads of those revisits lie."""
        ...

    def page_outcome(self, page_id: str) -> Outcome | None:
        """How the page's visit ended; None when its manifest is not in the index."""
        ...

    def manifest_place(self, page_id: str) -> tuple[str, int, int] | None:
        """The WARC, offset and length of the page's manifest, the latest; None: not in the index."""
        ...

    def outcomes(self) -> dict[str, int]:
        """Pages by outcome."""
        ...

    def classes(self) -> dict[str, int]:
        """Pages by class; those that were not judged have the empty name."""
        ...

    def counts(self) -> dict[str, int]:
        """Rows by table, and captures by record type."""
        ...

    def indexed_to(self, filename: str) -> int:
        """How many bytes of the WARC the index covers."""
        ...

    def cover(self, filename: str, end: int) -> None:
        """Say that the index covers the WARC up to `end`; an empty one, which goes, is forgotten."""
        ...

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Remember what the WARC was when it was closed; one that is unknown stays unknown."""
        ...

    def forget(self, filename: str, start: int, end: int = 1 << 62) -> int:
        """Take out what refers to the WARC's records there: they are lost; how many captures.

        A page whose manifest is among them is no longer known to be finished.
        """
        ...

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Bring together what was added file by file.

        That is revisits and their payloads, pages and what interrupted attempts at them left (see
        `add_page`).

        Args:
            filenames: the files that were added; None: all.
        """
        ...
