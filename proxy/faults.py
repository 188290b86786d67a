"""What can be wrong with a collection, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from proxy.members import Problem

_RESTORE = "Restore the file from a copy, then run `weboid index rebuild`."
_REBUILD = "Run `weboid index rebuild`."


class Kind(StrEnum):
    """The kinds of faults, and of notes: what is no fault, but good to know."""

    CHECKSUM = "checksum"
    SIZE = "size"
    GZIP = "gzip"
    WARC = "warc"
    LENGTH = "length"
    BLOCK_DIGEST = "block-digest"
    PAYLOAD_DIGEST = "payload-digest"
    UNREADABLE = "unreadable"
    MISSING = "missing"
    UNKNOWN = "unknown"
    NO_CHECKSUM = "no-checksum"
    BAD_LINE = "bad-line"
    ROW = "row"
    NO_ROW = "no-row"
    ORIGINAL = "original"
    PAYLOAD = "payload"
    INDEX = "index"
    # notes
    INTERRUPTED = "interrupted"
    OPEN = "open"
    PENDING = "pending"
    SET_ASIDE = "set-aside"
    ELSEWHERE = "elsewhere"


NOTES = frozenset(
    (Kind.INTERRUPTED, Kind.OPEN, Kind.PENDING, Kind.SET_ASIDE, Kind.ELSEWHERE),
)

_REMEDIES = {
    Kind.CHECKSUM: _RESTORE,
    Kind.SIZE: _RESTORE,
    Kind.GZIP: _RESTORE,
    Kind.WARC: _RESTORE,
    Kind.LENGTH: _RESTORE,
    Kind.BLOCK_DIGEST: _RESTORE,
    Kind.PAYLOAD_DIGEST: _RESTORE,
    Kind.UNREADABLE: "Look after the disk and the file's permissions, or restore it from a copy.",
    Kind.MISSING: "Restore the file from a copy; if it is gone for good, take its line out of "
    "SHA256SUMS and run `weboid index rebuild`.",
    Kind.UNKNOWN: _REBUILD,
    Kind.NO_CHECKSUM: "The next `weboid archive` writes the line, or `weboid index rebuild`.",
    Kind.BAD_LINE: "Restore archive/SHA256SUMS from a copy, or run `weboid index rebuild`, which "
    "drops such lines.",
    Kind.ROW: _REBUILD,
    Kind.NO_ROW: _REBUILD,
    Kind.ORIGINAL: "Run `weboid index rebuild`; if it stays, the payload is lost: restore the WARC "
    "that held it from a copy, or archive the page again.",
    Kind.PAYLOAD: _REBUILD,
    Kind.INDEX: _REBUILD,
    Kind.INTERRUPTED: "The next `weboid archive` puts it in order.",
    Kind.SET_ASIDE: "Nothing reads it. Look whether it is of use, or take it away.",
    Kind.ELSEWHERE: "Run `weboid archive verify` where that file is.",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, or good to know.

    Attributes:
        filename: the WARC's final name, or what else is meant; empty for the index.
        offset: where in the file; None when all of it is meant.
        text: what is wrong, in a sentence.
    """

    kind: Kind
    filename: str
    offset: int | None
    text: str

    @property
    def remedy(self) -> str:
        """What to do about it; empty when there is nothing to do."""
        return _REMEDIES.get(self.kind, "")

    @property
    def is_note(self) -> bool:
        """Whether it is no fault."""
        return self.kind in NOTES

    def to_dict(self) -> dict[str, Any]:
        """It as JSON values."""
        return {
            "kind": str(self.kind),
            "file": self.filename,
            "offset": self.offset,
            "text": self.text,
            "remedy": self.remedy,
        }


def kind_of(problem: Problem) -> Kind:
    """The fault that a record's problem is."""
    return Kind(problem.value)
