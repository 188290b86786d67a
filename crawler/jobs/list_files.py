"""Files of URLs, read line by line; invalid lines are reported by number."""

import codecs
import contextlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO

from core.errors import BadUrlError, InputError
from core.urls import fetch_key, identity_key

TEXT_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class ListLineProblem:
    """Line of a list that is invalid."""

    source: str  # the list's name
    line: int  # its number, from 1
    text: str  # the line, shortened
    reason: str  # what is wrong with it

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.reason}"


def bounded_lines(file: BinaryIO, limit_bytes: int) -> Iterator[bytes]:
    """Yield the file's lines; a longer one is cut to that length, and so has no line end."""
    while line := file.readline(limit_bytes):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(limit_bytes)
        yield line


def parse_lines(lines: Iterable[str], *, source: str) -> Iterator[str | ListLineProblem]:
    """Yield a fetch key or a problem for each line that is neither blank nor a comment."""
    for number, line in enumerate(lines, start=1):
        text = line.strip().removeprefix("\ufeff").strip()
        if not text or text.startswith("#"):
            continue
        try:
            url = fetch_key(text)
            identity_key(url)
        except BadUrlError as error:
            yield ListLineProblem(source, number, text[:TEXT_SHOWN_CHARS], str(error))
        else:
            yield url


def unique_urls(parsed: Iterable[str | ListLineProblem]) -> tuple[tuple[str, ...], list[ListLineProblem]]:
    """Return each URL once, in its first spelling, and the problems."""
    urls: dict[str, str] = {}
    problems = []
    for each in parsed:
        if isinstance(each, str):
            urls.setdefault(identity_key(each), each)
        else:
            problems.append(each)
    return tuple(urls.values()), problems


class ListFile(AbstractContextManager["ListFile"]):
    """URL list in a file or on standard input (``-``), read repeatedly line by line; InputError: it cannot be read."""

    def __init__(self, name: str) -> None:
        self.source = "standard input" if name == "-" else name
        self._file: IO[bytes]
        try:
            if name == "-":
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 closed by __exit__
                shutil.copyfileobj(sys.stdin.buffer, self._file)
            else:
                self._file = Path(name).open("rb")  # noqa: SIM115 closed by __exit__
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror or error}.") from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[str | ListLineProblem]:
        return parse_lines(self.lines(), source=self.source)

    def empty(self) -> InputError:
        """Return the error for a list without content."""
        return InputError(f"{self.source} is empty: no line has a URL.")

    def lines(self) -> Iterator[str]:
        """Yield the lines of a list in UTF-8, in UTF-16 with its mark, or in UTF-8 and old encodings."""
        try:
            self._file.seek(0)
            start = self._file.read(len(codecs.BOM_UTF8))
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._file.seek(0)
                text = io.TextIOWrapper(self._file, "utf-16", "replace", newline=None)
                try:
                    yield from text
                finally:
                    text.detach()
                return
            self._file.seek(len(codecs.BOM_UTF8) if start == codecs.BOM_UTF8 else 0)
            # Bytes are split at line ends alone; text would be at U+2028 and other hidden characters.
            for piece in self._file:
                yield from map(_decoded, piece.splitlines())
        except OSError as error:
            raise InputError(f"{self.source} cannot be read: {error}.") from error


def _decoded(line: bytes) -> str:
    """Decode one line by itself, so that one old encoding does not garble other lines."""
    for encoding in ("utf-8", "windows-1252"):
        with contextlib.suppress(UnicodeDecodeError):
            return line.decode(encoding)
    return line.decode("latin-1")  # undefined in windows-1252: control characters, refused later


class GivenUrls(AbstractContextManager["GivenUrls"]):
    """URLs of a command line and of a list file, as a stream that may be read several times, duplicates included.

    `report` gets a sentence for each line that is not a URL, at the first reading; `good` and `bad` count those of the
    latest one. Raises InputError if the list cannot be read, or, when `needed`, there are neither URLs nor a list.
    """

    def __init__(
        self, urls: Sequence[str], list_file: str | None, *, report: Callable[[str], None], needed: bool = True
    ) -> None:
        if needed and list_file is None and not urls:
            raise InputError("Name what to archive: URLs, or --list FILE.")
        self._named = dict.fromkeys(parse_lines(urls, source="the command line"))
        self._file = ListFile(list_file) if list_file is not None else None
        self._report = report
        self.good = self.bad = 0

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __iter__(self) -> Iterator[str]:
        self.good = self.bad = 0
        for each in chain(self._named, self._file or ()):
            if isinstance(each, str):
                self.good += 1
                yield each
            else:
                self.bad += 1
                self._report(str(each))
        self._report = lambda _text: None

    def require_some(self) -> None:
        """Raise InputError when the latest reading yielded no URL."""
        if self.good:
            return
        if not self.bad and self._file is not None:
            raise self._file.empty()
        raise InputError("There is nothing to archive: no line is a URL.")
