"""Lists of what is never visited: files that the profile names in `policy.lists`, such as spam lists.

A plain list has one pattern a line (`core.url_patterns`); what follows a ``#`` at the line's
beginning or after white space is a comment. A list whose name ends in ``.spamlist``, or whose first
line is ``# format: mediawiki``, is read as MediaWiki's Spam blacklist: each line is a regular
expression for the host and what follows, ``#`` begins a comment anywhere, and letter case does not
count. A line that cannot be used is named by its number, and the rest goes on.

A list that changes is read again within `LOOK_S`; one that cannot be read any more holds on as it was.
"""

import asyncio
import codecs
import contextlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from core.errors import ConfigError, InputError
from core.pattern_table import PatternTable
from core.spam_fragments import AT_HOST, fragment_expression, fragment_of
from core.url_patterns import Form, Pattern, Target, parse_pattern
from crawler.urllist import TEXT_SHOWN_CHARS, LineProblem

MEDIAWIKI_SUFFIX = ".spamlist"
MEDIAWIKI_LINE = re.compile(r"#\s*format:\s*mediawiki\s*", re.IGNORECASE)
LINE_LIMIT_BYTES = 70_000
LIST_LIMIT_BYTES = 1 << 30
PROBLEMS_KEPT = 100
PROBLEMS_TOLD = 10
LOOK_S = 30.0
_COMMENT = re.compile(r"(?:^|\s)#.*")


log = logging.getLogger(__name__)


class ListLine(NamedTuple):
    """A line of a list: what is refused by it."""

    source: str
    line: int

    def __str__(self) -> str:
        """As reasons cite it."""
        return f"{self.source}, line {self.line}"


@dataclass(frozen=True, slots=True)
class ListProblems:
    """Lines that could not be used.

    Attributes:
        kept: the first of them.
        count: how many there are.
    """

    kept: tuple[LineProblem, ...]
    count: int


@dataclass(slots=True)
class Lists:
    """What all lists refuse. `read_lists` makes it.

    Attributes:
        sources: the lists' names, in their order.
        lines: how many can be used.
        problems: those that cannot.
    """

    sources: tuple[str, ...] = ()
    lines: int = 0
    problems: ListProblems = ListProblems((), 0)
    # A number stands for source and line: a million objects of two fields would be 100 MB.
    _table: PatternTable[int] = field(default_factory=PatternTable)

    def refusing(self, target: Target) -> ListLine | None:
        """The most specific line that names the URL; None when none does."""
        found = self._table.find(target)
        if not found:
            return None
        line, source = divmod(found[0].value, len(self.sources))
        return ListLine(self.sources[source], line)


def read_lists(paths: Sequence[str]) -> Lists:
    """The lists in these files.

    Raises:
        ConfigError: one of them cannot be read; the text names it.
    """
    table: PatternTable[int] = PatternTable()
    problems: list[LineProblem] = []
    count = 0
    for place, path in enumerate(paths):
        for number, made in _patterns(path):
            if isinstance(made, Pattern):
                table.add(made, number * len(paths) + place)
                continue
            count += 1
            if len(problems) < PROBLEMS_KEPT:
                problems.append(made)
    table.ready()
    sources = tuple(Path(path).name for path in paths)
    return Lists(sources, table.size, ListProblems(tuple(problems), count), table)


class ListBook:
    """The lists as they are now. Used from one event loop."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Name the files; `refresh` reads them.

        Raises:
            ConfigError: one of them cannot be read: better now than for each page.
        """
        self._paths = tuple(paths)
        for path in self._paths:
            try:
                Path(path).open("rb").close()
            except OSError as error:
                raise _unreadable(path, error) from error
        self._seen: object = None
        self._looked_at: float | None = None
        self._reading = asyncio.Lock()
        self.lists = Lists()

    async def refresh(self, *, monotonic: float) -> None:
        """Read the lists the first time, and when they have changed since.

        Raises:
            ConfigError: the first time, when one of them cannot be read.
        """
        if not self._paths or self._is_fresh(monotonic):
            return
        async with self._reading:
            if self._is_fresh(monotonic):
                return
            seen = await asyncio.to_thread(self._signature)
            if self._looked_at is None:
                self.lists = await asyncio.to_thread(read_lists, self._paths)
                self._seen = seen
                _tell(self.lists.problems)
            elif seen != self._seen:
                with contextlib.suppress(ConfigError):  # it is being written, or gone for a moment
                    self.lists = await asyncio.to_thread(read_lists, self._paths)
                    self._seen = seen
            self._looked_at = monotonic

    def _is_fresh(self, monotonic: float) -> bool:
        return self._looked_at is not None and monotonic - self._looked_at < LOOK_S

    def _signature(self) -> list[tuple[int, int, int] | None]:
        """What changes when one of the files does."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                stat = Path(path).stat()
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return found


def _tell(problems: ListProblems) -> None:
    """Name the first lines that cannot be used."""
    for problem in problems.kept[:PROBLEMS_TOLD]:
        log.warning("list.line %s", problem)
    if problems.count > PROBLEMS_TOLD:
        log.warning("list.lines %d lines cannot be used", problems.count)


def _patterns(path: str) -> Iterator[tuple[int, Pattern | LineProblem]]:
    """Each line's number with what it means, or why it means nothing; blank lines are left out."""
    mediawiki = path.endswith(MEDIAWIKI_SUFFIX)
    for number, line in _lines(path):
        if line is None:
            reason = f"it has more than {LINE_LIMIT_BYTES} bytes"
            yield number, LineProblem(path, number, "", reason)
            continue
        if number == 1:
            mediawiki = mediawiki or MEDIAWIKI_LINE.fullmatch(line) is not None
        text = fragment_of(line) if mediawiki else _COMMENT.sub("", line).strip()
        if not text:
            continue
        try:
            yield number, _fragment(text) if mediawiki else parse_pattern(text)
        except InputError as error:
            yield number, LineProblem(path, number, text[:TEXT_SHOWN_CHARS], str(error))


def _fragment(text: str) -> Pattern:
    """A line of MediaWiki's Spam blacklist as a regular expression of its own."""
    return Pattern(Form.REGEX, fragment_expression(text, before=AT_HOST))


def _lines(path: str) -> Iterator[tuple[int, str | None]]:
    """The lines by number; None for one that is too long."""
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
