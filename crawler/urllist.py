"""Reading a list of URLs: one a line, faults named by their line, the rest goes on."""

import codecs
import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import BadUrlError, InputError
from core.urls import fetch_key, identity_key

TEXT_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that is no URL.

    Attributes:
        source: the list's name.
        line: its number, from 1.
        text: the line, shortened.
        reason: what is wrong with it.
    """

    source: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class UrlList:
    """What a list says.

    Attributes:
        urls: fetch keys in the list's order, each identity once.
        problems: the lines that are no URLs.
        duplicates: lines whose URL stood further up.
    """

    urls: tuple[str, ...]
    problems: tuple[LineProblem, ...] = ()
    duplicates: int = 0


def parse_lines(lines: Iterable[str], *, source: str) -> UrlList:
    """The URLs in the lines; blank lines and lines that begin with ``#`` are left out."""
    urls: dict[str, str] = {}
    problems = []
    duplicates = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip().removeprefix("\ufeff").strip()
        if not text or text.startswith("#"):
            continue
        try:
            url = fetch_key(text)
            identity = identity_key(url)
        except BadUrlError as error:
            problems.append(LineProblem(source, number, text[:TEXT_SHOWN_CHARS], str(error)))
            continue
        if identity in urls:
            duplicates += 1
        else:
            urls[identity] = url
    return UrlList(tuple(urls.values()), tuple(problems), duplicates)


def read_list(name: str) -> UrlList:
    """The list in the file `name`, or on standard input when it is ``-``.

    Bytes that are no UTF-8 are kept as a browser would send them, so that one odd line does not
    lose the list.

    Raises:
        InputError: the file cannot be read, or holds no line with anything on it.
    """
    source = "standard input" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from error
    found = parse_lines(_lines(data), source=source)
    if not found.urls and not found.problems:
        raise InputError(f"{source} is empty: it holds no line with a URL.")
    return found


def _lines(data: bytes) -> Iterator[str]:
    """The lines of a list in UTF-8, in UTF-16 with its mark, or in both UTF-8 and old encodings."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode()
    # Bytes are split at line ends alone; text would be at U+2028 and other hidden characters too.
    return map(_decoded, data.removeprefix(codecs.BOM_UTF8).splitlines())


def _decoded(line: bytes) -> str:
    """The line as text, each judged by itself: an old one must not garble its neighbours."""
    for encoding in ("utf-8", "windows-1252"):
        with contextlib.suppress(UnicodeDecodeError):
            return line.decode(encoding)
    return line.decode("latin-1")  # what windows-1252 leaves open is a control, refused as such
