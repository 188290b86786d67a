"""The stored pairs: a file a site, ``stored/SITE.tar.xz``, of whole PNGs, texts and labels.

A site's pictures are packed together and unpacked, so that what two of them share is stored once.
"""

import io
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.labelled.kinds import RULES, LabelledKind

FOLDER = Path(__file__).parent / "stored"
_TABLE = "pairs.json"
_HARDEST = 9 | lzma.PRESET_EXTREME


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A page as it was seen and as it is shown, and what is to be thought of that.

    Attributes:
        site: its site's name; pairs of one site are alike, and are held out together.
        kind: what is between the two.
        number: which way of it.
        seen: the picture of the capture, a PNG.
        shown: the picture of the copy.
        seen_text: the text of the capture.
        shown_text: the text of the copy.
    """

    site: str
    kind: LabelledKind
    number: int
    seen: bytes = field(repr=False)
    shown: bytes = field(repr=False)
    seen_text: str = field(repr=False)
    shown_text: str = field(repr=False)

    @property
    def broken(self) -> bool:
        """Return the label: whether the copy is broken."""
        return RULES[self.kind].broken

    @property
    def name(self) -> str:
        """Return a readable name of the pair."""
        return f"{self.site}: {self.kind} {self.number}"


def sites(folder: Path = FOLDER) -> list[str]:
    """Return the names of all stored sites, in order."""
    return sorted(path.name.removesuffix(".tar.xz") for path in folder.glob("*.tar.xz"))


def read_pairs(names: Iterable[str] | None = None, folder: Path = FOLDER) -> Iterator[LabelledPair]:
    """Yield the pairs of the sites, of all by default; a site is unpacked when its first pair is requested."""
    for name in sites(folder) if names is None else names:
        data = read_files(folder / f"{name}.tar.xz")
        for row in json.loads(data[_TABLE]):
            yield LabelledPair(
                name,
                LabelledKind(row["kind"]),
                row["number"],
                data[row["seen"]],
                data[row["shown"]],
                data[row["seen_text"]].decode(),
                data[row["shown_text"]].decode(),
            )


def write_pairs(name: str, pairs: Iterable[LabelledPair], folder: Path = FOLDER) -> int:
    """Store the pairs of a site; return the size of the file in bytes."""
    files: dict[str, bytes] = {}
    names: dict[bytes, str] = {}

    def keep(data: bytes, ending: str) -> str:
        if data not in names:
            names[data] = f"{len(names):03}.{ending}"
            files[names[data]] = data
        return names[data]

    table = [
        {
            "kind": pair.kind,
            "number": pair.number,
            "seen": keep(pair.seen, "png"),
            "shown": keep(pair.shown, "png"),
            "seen_text": keep(pair.seen_text.encode(), "txt"),
            "shown_text": keep(pair.shown_text.encode(), "txt"),
        }
        for pair in pairs
    ]
    files = {_TABLE: json.dumps(table, indent=1).encode(), **files}
    return write_files(folder / f"{name}.tar.xz", files)


def read_files(path: Path) -> dict[str, bytes]:
    """Return the files packed in an archive, by name."""
    files = {}
    with tarfile.open(path, "r|xz") as packed:  # unpacked once, from its beginning to its end
        for each in packed:
            file = packed.extractfile(each)
            if file is not None:
                files[each.name] = file.read()
    return files


def write_files(path: Path, files: Mapping[str, bytes], effort: int = _HARDEST) -> int:
    """Pack files together; return the size in bytes. `effort` is a preset of LZMA."""
    # A window as wide as all pictures of a site.
    packing = {"id": lzma.FILTER_LZMA2, "preset": effort, "dict_size": 1 << 27, "lc": 4, "pb": 0}
    packed = lzma.compress(_tar(files), filters=[packing])
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed)
    return len(packed)


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packed:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()
