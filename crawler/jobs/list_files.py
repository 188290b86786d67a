"""Files of URLs and of URL patterns, read line by line; invalid lines are reported by number.

A blocklist in plain format has one pattern per line (`core.url_patterns`); a ``#`` at the line's
beginning or after white space starts a comment. A list whose name ends in ``.spamlist``, or whose first
line is ``# format: mediawiki``, is read as MediaWiki's Spam blacklist: each line is a regular
expression for the host and what follows, ``#`` starts a comment anywhere, and letter case does not
count. Changed lists are read again within `LISTS_POLL_S`; an unreadable one keeps its last content.
"""

import asyncio
import codecs
import contextlib
import io
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from core.errors import BadUrlError, ConfigError, InputError
from core.url_patterns import PatternForm, PatternTable, PatternTarget, UrlPattern, parse_pattern
from core.urls import fetch_key, identity_key
from links.rules.spam_list import AT_HOST, fragment_expression, fragment_of

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


@dataclass(frozen=True, slots=True)
class ParsedUrlList:
    """Parsed URL list."""

    urls: tuple[str, ...]  # fetch keys in the list's order, each identity once
    problems: tuple[ListLineProblem, ...] = ()  # the lines that are no URLs
    duplicates: int = 0  # lines whose URL stood further up


def parse_lines(lines: Iterable[str], *, source: str) -> ParsedUrlList:
    """Parse the URLs in the lines; blank lines and lines that begin with ``#`` are skipped."""
    urls: dict[str, str] = {}
    problems = []
    duplicates = 0
    for each in _parsed(lines, source):
        if isinstance(each, ListLineProblem):
            problems.append(each)
        elif (identity := identity_key(each)) in urls:
            duplicates += 1
        else:
            urls[identity] = each
    return ParsedUrlList(tuple(urls.values()), tuple(problems), duplicates)


def _parsed(lines: Iterable[str], source: str) -> Iterator[str | ListLineProblem]:
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


def read_list(name: str) -> ParsedUrlList:
    """Read the list in the file `name`, or from standard input when it is ``-``.

    Raises InputError if the file cannot be read, or holds no line with content.
    """
    with ListFile(name) as file:
        parsed = parse_lines(file.lines(), source=file.source)
        if not parsed.urls and not parsed.problems:
            raise file.empty()
        return parsed


class ListFile:
    """URL list in a file, or on standard input for the name ``-``; may be iterated repeatedly.

    Yields fetch keys and problems in the list's order, duplicates included. Needs memory for one line;
    standard input is copied to a temporary file first. A context manager.

    Raises InputError if the file cannot be read.
    """

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

    def __enter__(self) -> "ListFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[str | ListLineProblem]:
        return _parsed(self.lines(), self.source)

    def empty(self) -> InputError:
        """Return the error for a list without content."""
        return InputError(f"{self.source} is empty: it holds no line with a URL.")

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


class GivenUrls:
    """URLs of a command line and of a list file, as a stream that may be read several times.

    A context manager. Duplicates are left to the frontier. `report` is called with a sentence for each line
    that is no URL, at the first reading; `good` and `bad` count URLs and such lines of the latest one.

    Raises InputError if the list cannot be read, or, when `needed`, there are neither URLs nor a list.
    """

    def __init__(
        self,
        urls: Sequence[str],
        list_file: str | None,
        *,
        report: Callable[[str], None],
        needed: bool = True,
    ) -> None:
        if needed and list_file is None and not urls:
            raise InputError("Say what to archive: URLs, or --list FILE.")
        self._given = parse_lines(urls, source="the command line")
        self._file = ListFile(list_file) if list_file is not None else None
        self._report = report
        self.good = self.bad = 0

    def __enter__(self) -> "GivenUrls":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __iter__(self) -> Iterator[str]:
        self.good = self.bad = 0
        for each in chain(self._given.problems, self._given.urls, self._file or ()):
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
        raise InputError("There is nothing to archive: no line was a URL.")


MEDIAWIKI_SUFFIX = ".spamlist"
MEDIAWIKI_LINE = re.compile(r"#\s*format:\s*mediawiki\s*", re.IGNORECASE)
LINE_LIMIT_BYTES = 70_000
LIST_LIMIT_BYTES = 1 << 30
PROBLEMS_KEPT = 100
PROBLEMS_TOLD = 10
LISTS_POLL_S = 30.0
_COMMENT = re.compile(r"(?:^|\s)#.*")


log = logging.getLogger(__name__)


class BlocklistLine(NamedTuple):
    """Line of a blocklist."""

    source: str
    line: int

    def __str__(self) -> str:
        """Format the line for reasons."""
        return f"{self.source}, line {self.line}"


@dataclass(slots=True)
class UrlBlocklists:
    """Content of all blocklists. `read_lists` makes it."""

    sources: tuple[str, ...] = ()  # the lists' names, in their order
    lines: int = 0  # number of valid lines
    problems: tuple[ListLineProblem, ...] = ()  # the first invalid ones
    bad: int = 0  # number of invalid ones
    # A number stands for source and line: a million objects of two fields would be 100 MB.
    _table: PatternTable[int] = field(default_factory=PatternTable)

    def refusing(self, target: PatternTarget) -> BlocklistLine | None:
        """Return the most specific line that matches the URL; None when none does."""
        match = self._table.find(target)
        if not match:
            return None
        line, source = divmod(match[0].value, len(self.sources))
        return BlocklistLine(self.sources[source], line)


def read_lists(paths: Sequence[str]) -> UrlBlocklists:
    """Read the blocklists in these files. Raises ConfigError with the name of an unreadable one."""
    table: PatternTable[int] = PatternTable()
    problems: list[ListLineProblem] = []
    count = 0
    for place, path in enumerate(paths):
        for number, made in _patterns(path):
            if isinstance(made, UrlPattern):
                table.add(made, number * len(paths) + place)
                continue
            count += 1
            if len(problems) < PROBLEMS_KEPT:
                problems.append(made)
    table.ready()
    sources = tuple(Path(path).name for path in paths)
    return UrlBlocklists(sources, table.size, tuple(problems), count, table)


class BlocklistCache:
    """Cache of the blocklists, refreshed on change. Used from one event loop."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Store the paths; `refresh` reads the files. Raises ConfigError for an unreadable one."""
        self._paths = tuple(paths)
        for path in self._paths:
            try:
                Path(path).open("rb").close()
            except OSError as error:
                raise _unreadable(path, error) from error
        self._seen: object = None
        self._looked_at: float | None = None
        self._reading = asyncio.Lock()
        self.lists = UrlBlocklists()

    async def refresh(self, *, monotonic: float) -> None:
        """Read the lists the first time, when ConfigError is raised, and after they have changed."""
        if not self._paths or self._is_fresh(monotonic):
            return
        async with self._reading:
            if self._is_fresh(monotonic):
                return
            seen = await asyncio.to_thread(self._signature)
            if self._looked_at is None:
                self.lists = await asyncio.to_thread(read_lists, self._paths)
                self._seen = seen
                # Name the first lines that cannot be used.
                for problem in self.lists.problems[:PROBLEMS_TOLD]:
                    log.warning("list.line %s", problem)
                if self.lists.bad > PROBLEMS_TOLD:
                    log.warning("list.lines %d lines cannot be used", self.lists.bad)
            elif seen != self._seen:
                with contextlib.suppress(ConfigError):  # it is being written or replaced
                    self.lists = await asyncio.to_thread(read_lists, self._paths)
                    self._seen = seen
            self._looked_at = monotonic

    def _is_fresh(self, monotonic: float) -> bool:
        return self._looked_at is not None and monotonic - self._looked_at < LISTS_POLL_S

    def _signature(self) -> list[tuple[int, int, int] | None]:
        """Return values that change when one of the files does."""
        signature: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                stat = Path(path).stat()
            except OSError:
                signature.append(None)
            else:
                signature.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return signature


def _patterns(path: str) -> Iterator[tuple[int, UrlPattern | ListLineProblem]]:
    """Yield each line's number with its pattern or problem; blank lines are skipped."""
    mediawiki = path.endswith(MEDIAWIKI_SUFFIX)
    for number, line in _lines(path):
        if line is None:
            reason = f"it has more than {LINE_LIMIT_BYTES} bytes"
            yield number, ListLineProblem(path, number, "", reason)
            continue
        if number == 1:
            mediawiki = mediawiki or MEDIAWIKI_LINE.fullmatch(line) is not None
        text = fragment_of(line) if mediawiki else _COMMENT.sub("", line).strip()
        if not text:
            continue
        try:
            yield (
                number,
                UrlPattern(PatternForm.REGEX, fragment_expression(text, before=AT_HOST))
                if mediawiki
                else parse_pattern(text),
            )
        except InputError as error:
            yield number, ListLineProblem(path, number, text[:TEXT_SHOWN_CHARS], str(error))


def _lines(path: str) -> Iterator[tuple[int, str | None]]:
    """Yield the lines by number; None for one that is too long."""
    try:
        with Path(path).open("rb") as file:
            number, read, too_long = 0, 0, False
            while line := file.readline(LINE_LIMIT_BYTES):
                read += len(line)
                if read > LIST_LIMIT_BYTES:
                    raise ConfigError(f"{path} has more than {LIST_LIMIT_BYTES:,} bytes.")
                number += not too_long
                goes_on = not line.endswith(b"\n") and len(line) == LINE_LIMIT_BYTES
                if goes_on and not too_long:
                    yield number, None
                elif not goes_on and not too_long:
                    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                    yield number, line.decode("utf-8", "replace").strip()
                too_long = goes_on
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> ConfigError:
    why = error.strerror or error
    return ConfigError(f"policy.lists names {path}, which cannot be read: {why}.")
