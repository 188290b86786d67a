"""The stored held-out pairs: as `tests.support.labelled.pairs`, with labels and parts of their own."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qa.compare.content_comparison import PartRequest
from tests.support.heldout.kinds import PairLabel
from tests.support.labelled.pairs import read_files, write_files

FOLDER = Path(__file__).parent / "stored"
_TABLE = "pairs.json"
_EFFORT = 2  # of packing: a tenth of the time of the hardest, for a tenth more bytes


@dataclass(frozen=True, slots=True)
class HeldOutView:
    """A page as it was seen, or as it is shown.

    Attributes:
        picture: a PNG.
        text: what a reader could read.
        parts: style sheet and pictures that it asked for.
    """

    picture: bytes = field(repr=False)
    text: str = field(repr=False)
    parts: tuple[PartRequest, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A pair that no rule was made with.

    Attributes:
        site: its page's design.
        kind: what is between the two.
        label: what is right to say of it.
        seen: the page as it was seen.
        shown: its copy.
    """

    site: str
    kind: str
    label: PairLabel
    seen: HeldOutView
    shown: HeldOutView

    @property
    def name(self) -> str:
        """Return a readable name of the pair."""
        return f"{self.site}: {self.kind}"


def sites() -> list[str]:
    """Return the names of all stored designs, in order."""
    return sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))


def read_held_out(names: Iterable[str] | None = None) -> Iterator[HeldOut]:
    """Yield the pairs of the designs, of all by default."""
    for name in sites() if names is None else names:
        data = read_files(FOLDER / f"{name}.tar.xz")

        def sight(row: dict[str, str], data: dict[str, bytes] = data) -> HeldOutView:
            parts = json.loads(data[row["parts"]])
            return HeldOutView(
                data[row["picture"]],
                data[row["text"]].decode(),
                tuple(PartRequest(url, kind, status, size=size) for url, kind, status, size in parts),
            )

        for row in json.loads(data[_TABLE]):
            yield HeldOut(name, row["kind"], PairLabel(row["label"]), sight(row["seen"]), sight(row["shown"]))


def write_held_out(name: str, pairs: Iterable[HeldOut]) -> int:
    """Store the pairs of a design; return the size of the file in bytes."""
    files: dict[str, bytes] = {}
    names: dict[bytes, str] = {}

    def keep(data: bytes, ending: str) -> str:
        if data not in names:
            names[data] = f"{len(names):03}.{ending}"
            files[names[data]] = data
        return names[data]

    def row(sight: HeldOutView) -> dict[str, str]:
        parts = [(part.url, part.kind, part.status, part.size) for part in sight.parts]
        return {
            "picture": keep(sight.picture, "png"),
            "text": keep(sight.text.encode(), "txt"),
            "parts": keep(json.dumps(parts).encode(), "json"),
        }

    table = [
        {"kind": each.kind, "label": each.label, "seen": row(each.seen), "shown": row(each.shown)} for each in pairs
    ]
    files = {_TABLE: json.dumps(table, indent=1).encode(), **files}
    return write_files(FOLDER / f"{name}.tar.xz", files, _EFFORT)
