"""Blocklists: files of URL patterns, read line by line; invalid lines are reported by number.

A list in plain format has one pattern per line (`core.url_patterns`); a ``#`` at the line's beginning or
after white space starts a comment. A list whose name ends in ``.spamlist``, or whose first line is
``# format: mediawiki``, is read as MediaWiki's Spam blacklist: each line is a regular expression for the
host and what follows, ``#`` starts a comment anywhere, and letter case does not count. Changed lists are
read again within `LISTS_POLL_S`; an unreadable one keeps its last content.
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
from core.url_patterns import PatternForm, PatternTable, PatternTarget, UrlPattern, parse_pattern
from crawler.jobs.list_files import TEXT_SHOWN_CHARS, ListLineProblem

MEDIAWIKI_SUFFIX = ".spamlist"
MEDIAWIKI_LINE = re.compile(r"#\s*format:\s*mediawiki\s*", re.IGNORECASE)
LINE_LIMIT_BYTES = 70_000
LIST_LIMIT_BYTES = 1 << 30
PROBLEMS_KEPT = 100
PROBLEMS_LOGGED = 10
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
        self._signature_read: object = None
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
                self._signature_read = seen
                # Name the first lines that cannot be used.
                for problem in self.lists.problems[:PROBLEMS_LOGGED]:
                    log.warning("list.line %s", problem)
                if self.lists.bad > PROBLEMS_LOGGED:
                    log.warning("list.lines %d lines cannot be used", self.lists.bad)
            elif seen != self._signature_read:
                with contextlib.suppress(ConfigError):  # it is being written or replaced
                    self.lists = await asyncio.to_thread(read_lists, self._paths)
                    self._signature_read = seen
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
    from links.rules.spam_list import AT_HOST, fragment_expression, fragment_of

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
