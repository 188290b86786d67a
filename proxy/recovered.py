"""What became of a WARC that was interrupted, for programs and in words."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from core.layout import OPEN_SUFFIX


class Fate(StrEnum):
    """What was done with the file."""

    CLOSED = "closed"  # cut to its last whole record, indexed, and given its final name
    REMOVED = "removed"  # there was not a byte in it
    SET_ASIDE = "set aside"  # moved away: nothing in it can be used
    LEFT = "left"  # it stays as it is, and is looked at again at the next start


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was done to one interrupted WARC.

    Attributes:
        filename: its final name.
        cut: bytes after its last whole record that were cut off.
        indexed: records that the index had missed.
        lost_bytes: bytes that were acknowledged, and cannot be read.
        lost_records: rows that left the index because of that.
        damaged: where in the file there are acknowledged bytes that cannot be read.
        kept_in: where in the collection lies what was cut or set aside; empty when nowhere.
        reason: why it was set aside or left.
    """

    filename: str
    fate: Fate
    cut: int = 0
    indexed: int = 0
    lost_bytes: int = 0
    lost_records: int = 0
    damaged: tuple[int, ...] = ()
    kept_in: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """It as JSON values, with its text."""
        return {**asdict(self), "text": self.text}

    @property
    def text(self) -> str:
        """The same in words."""
        parts = [f"{self.filename} was interrupted: {self._done()}."]
        if self.indexed:
            parts.append(f"{_count(self.indexed, 'record')} went from it into the index.")
        if self.lost_bytes or self.lost_records:
            where = f" (at {', '.join(map(str, self.damaged[:5]))})" if self.damaged else ""
            parts.append(
                f"LOST: {self.lost_bytes:,} bytes with {_count(self.lost_records, 'capture')} that "
                f"were safely stored before cannot be read{where}. Restore the file from a copy, "
                "then run `weboid index rebuild`."
            )
        return " ".join(parts)

    def _done(self) -> str:
        if self.fate is Fate.REMOVED:
            return "it was empty, and is removed"
        if self.fate is Fate.SET_ASIDE:
            return f"moved to {self.kept_in}, because {self._why()}"
        if self.fate is Fate.LEFT:
            return f"it stays as it is, because {self._why()}; the next start tries again"
        cut = f", {_count(self.cut, 'byte')} without a whole record cut off" if self.cut else ""
        kept = f" and kept in {self.kept_in}" if self.kept_in else ""
        why = f"; its last records cannot be indexed: {self._why()}" if self.reason else ""
        return f"closed{cut}{kept}{why}"

    def _why(self) -> str:
        reason = self.reason.rstrip(".")
        return reason[:1].lower() + reason[1:]


@dataclass(slots=True)
class Wreck:
    """An interrupted WARC while it is looked at.

    Attributes:
        covered: up to where the index covers it: that was acknowledged.
        size: how long it is.
        keep: up to where it stays.
        damage: from where to where there is no record.
        torn: whether the last of these is a record that was not finished.
        why: what is wrong at the first of these.
        judged: whether it could be read.
    """

    path: Path
    covered: int
    size: int = 0
    keep: int = 0
    damage: list[tuple[int, int]] = field(default_factory=list)
    torn: bool = False
    why: str = ""
    judged: bool = False

    @property
    def filename(self) -> str:
        """Its final name."""
        return self.path.name.removesuffix(OPEN_SUFFIX)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
