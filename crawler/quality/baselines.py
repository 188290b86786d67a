"""Baselines: how playback showed a fixed sample of pages at some time, in a folder.

    reports/quality/NAME/
        baseline.json     which pages, how they were drawn, which engine played them back
        before/           checks.jsonl: a check a line; and of each page its picture and its text
        after/            the same as playback is now, written by `weboid qa baseline check`
        after.json        which engine that is
        index.html        what changed

Everything is written whole or not at all, but for the lines, of which a torn last one is passed over: an
interrupted run goes on where it stopped.
"""

import io
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from core.classes import page_class
from core.errors import InputError, PermanentError, UnavailableError
from core.names import check_name
from core.quality import Check, check_of, check_record, picture_name
from core.timestamps import parse_warc_date, warc_date
from crawler.quality.sampling import Candidate
from render.compare.opening import open_picture

VERSION = 1
LONGEST_NAME = 64
MOST_TEXT_CHARACTERS = 600_000  # as many as are compared
_TALLEST_WEBP_PX = 16_383
_HEADER, _AFTER, _LINES = "baseline.json", "after.json", "checks.jsonl"
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Header:
    """What a baseline is of.

    Attributes:
        name: its own.
        level: the level of playback that is looked at.
        engine: who played the copies back, versions and sources.
        saved_at: WARC-Date.
        seed: of the sample.
        pages: the sample.
    """

    name: str
    level: str
    engine: str
    saved_at: str
    seed: int
    pages: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """How playback showed a page.

    Attributes:
        check: against what was captured.
        picture: PNG or WebP, without loss; None when there is none.
        text: the visible text; None when it could not be read.
    """

    check: Check
    picture: bytes | None = None
    text: str | None = None


class Baseline:
    """A baseline's folder. From any thread, of one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, which `create` makes."""
        self.folder = folder
        self._appending = threading.Lock()

    @property
    def report(self) -> Path:
        """The page that says what changed."""
        return self.folder / "index.html"

    def create(self, header: Header) -> None:
        """Begin the baseline.

        Raises:
            InputError: there is one of that name.
        """
        if (self.folder / _HEADER).exists():
            raise InputError(
                f"There is a baseline {header.name!r} already: take another name, or remove it."
            )
        _make(self.folder)
        pages = [_page_facts(page) for page in header.pages]
        facts = {"version": VERSION, **_header_facts(header), "pages": pages}
        _write(self.folder / _HEADER, json.dumps(facts, ensure_ascii=False, indent=1).encode())

    def header(self) -> Header:
        """What it is of.

        Raises:
            UnavailableError: there is no such baseline.
            InputError: it cannot be read.
        """
        path = self.folder / _HEADER
        try:
            facts = json.loads(path.read_bytes())
            if facts["version"] != VERSION:
                raise InputError(f"{path} is of version {facts['version']!r}.")
            pages = tuple(map(_page_of, facts["pages"]))
            names = ("name", "level", "engine", "saved_at", "seed")
            return Header(**{name: facts[name] for name in names}, pages=pages)
        except FileNotFoundError:
            raise UnavailableError(
                f"There is no baseline {self.folder.name!r}: `weboid qa baseline save` makes one."
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is no baseline: {error}.") from error

    def begin_after(self, engine: str, *, again: bool) -> None:
        """Begin the looks after, or go on with those of the same engine.

        Args:
            engine: who plays back now.
            again: begin anew in any case.
        """
        path = self.folder / _AFTER
        if not again and _engine_in(path) == engine:
            return
        shutil.rmtree(self.folder / AFTER, ignore_errors=True)
        _write(path, json.dumps({"engine": engine}).encode())

    def checks(self, when: str) -> dict[str, Check]:
        """What was written of pages so far, by their ids; `when` is `BEFORE` or `AFTER`."""
        return {each.page_id: each for each in _read_lines(self.folder / when / _LINES)}

    def keep(self, when: str, shown: Shown) -> None:
        """Write down how a page was shown; the page counts as done when this returns.

        Raises:
            OSError: it cannot be written.
        """
        folder = self.folder / when
        _make(folder)
        check = shown.check
        if shown.picture is not None:
            _write(_file(folder, check, "picture"), shown.picture)
        if shown.text is not None:
            text = shown.text[:MOST_TEXT_CHARACTERS].encode("utf-8", "replace")
            _write(_file(folder, check, "text"), text)
        line = json.dumps(json.loads(check_record(check, check.page_id))["checked"])
        with self._appending, (folder / _LINES).open("a", encoding="utf-8") as lines:
            lines.write(f"\n{line}\n")

    def shown(self, when: str, check: Check) -> Shown:
        """What was kept of a page."""
        folder = self.folder / when
        picture, text = (_bytes(_file(folder, check, kind)) for kind in ("picture", "text"))
        return Shown(check, picture, None if text is None else text.decode("utf-8", "replace"))

    def remove(self) -> None:
        """Remove all of it.

        Raises:
            UnavailableError: there is none.
        """
        if not (self.folder / _HEADER).exists():
            raise UnavailableError(f"There is no baseline {self.folder.name!r}.")
        (self.folder / _HEADER).unlink()  # from here on it is none, whatever happens
        shutil.rmtree(self.folder)


def baseline_at(root: Path, name: str) -> Baseline:
    """The baseline of that name below the folder, whether there is one or not.

    Raises:
        InputError: it is no name.
    """
    return Baseline(root / check_name(name, of="a baseline", limit=LONGEST_NAME))


def baselines_in(root: Path) -> Iterator[Header]:
    """Every baseline below the folder that can be read, by name."""
    for path in sorted(root.glob(f"*/{_HEADER}")):
        try:
            yield Baseline(path.parent).header()
        except (InputError, UnavailableError):
            continue


def kept_picture(picture: bytes | None) -> bytes | None:
    """The picture as it is kept: without loss, as WebP, or as PNG where it is too tall for that.

    None for what is no picture, or is larger than `render.compare` compares.
    """
    if picture is None:
        return None
    try:
        image = Image.fromarray(open_picture(picture))
    except PermanentError:
        return None
    out = io.BytesIO()
    if max(image.size) <= _TALLEST_WEBP_PX:
        # The quickest way that has no loss; a better one saves a tenth and takes ten times as long.
        image.save(out, "WEBP", lossless=True, quality=0, method=0)
    else:
        image.save(out, "PNG", compress_level=3)
    return out.getvalue()


def _file(folder: Path, check: Check, kind: str) -> Path:
    """Where it lies; the name is checked, for page ids come from an index that may be poisoned."""
    name = Path(picture_name(check.page_id, check.level, "shown")).name.removesuffix(".shown.webp")
    return folder / f"{name}.{kind}"


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    partial.write_bytes(data)
    partial.replace(path)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _engine_in(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_bytes())["engine"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _read_lines(path: Path) -> Iterable[Check]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield check_of(json.loads(line))
        except (ValueError, InputError):
            continue  # torn


def _header_facts(header: Header) -> dict[str, Any]:
    names = ("name", "level", "engine", "saved_at", "seed")
    return {name: getattr(header, name) for name in names}


def _page_facts(page: Candidate) -> dict[str, Any]:
    return asdict(page) | {"captured_at": warc_date(page.captured_at)}


def _page_of(facts: dict[str, Any]) -> Candidate:
    known = {name: facts[name] for name in Candidate.__slots__ if name in facts}
    known["captured_at"] = parse_warc_date(known["captured_at"])
    known["page_class"] = page_class(known["page_class"])
    return Candidate(**known)
