"""Policy entries, decisions on URLs by operators or by the crawl in the frontier, and blocklists, files of URL patterns.

An entry is an order (kind `crawler.frontier.base.POLICY_ORDER`), a JSON object under its id; one that this version
cannot read is kept and ignored, as workers of another version may understand it.

A blocklist has one pattern per line (`core.url_patterns`); a ``#`` at the line's beginning or after white space starts
a comment. A list whose name ends in ``.spamlist``, or whose first line is ``# format: mediawiki``, is read as
MediaWiki's Spam blacklist: each line is a regular expression for the host and what follows, ``#`` starts a comment
anywhere, and letter case does not count. An unreadable list keeps its last content; invalid lines are reported by
number.
"""

import asyncio
import codecs
import contextlib
import json
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import ConfigError, InputError
from core.json_values import json_facts, read_json
from core.storable_text import shorten_for_message
from core.url_patterns import PatternForm, PatternRank, PatternTable, UrlPattern, parse_pattern, pattern_target
from crawler.jobs.list_files import TEXT_SHOWN_CHARS, ListLineProblem, bounded_lines

ENTRY_VERSION = 1
REASON_LIMIT_CHARS = 1_000
ACTOR_LIMIT_CHARS = 200
CRAWL_ACTOR = "crawl"  # the actor of entries that the crawl made by itself
FAILING_SITE = "failing"  # the key of an autoblacklist entry of a site that keeps failing (A07)


class PolicyKind(StrEnum):
    """Kind of a policy entry."""

    BLACKLIST = "blacklist"  # not to be archived
    WHITELIST = "whitelist"  # to be archived: overrides robots.txt, lists and the crawl's own entries
    SETTING = "setting"  # overrides a setting for matching URLs
    AUTOBLACKLIST = "autoblacklist"  # not to be archived for a while: made by the crawl


# Keys and values of setting entries; None: a number that is not negative.
SETTINGS: Mapping[str, tuple[str, ...] | None] = {
    "robots": ("obey", "ignore"),
    "noarchive": ("obey", "ignore"),
    "archive": ("never", "always"),
    "ban_s": None,
    "ban_failures": None,
    "ban_failures_s": None,
}


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """Policy decision on the URLs of a pattern."""

    kind: PolicyKind
    pattern: str  # the URL pattern, as it was written (`core.url_patterns`)
    reason: str  # why
    actor: str  # who decided; `CRAWL_ACTOR` for the crawl itself
    made_at: datetime
    expires_at: datetime | None = None  # when it ends; None: never
    key: str = ""  # of a setting, or `FAILING_SITE` for a site that keeps failing
    value: str = ""  # of a setting: its value; empty otherwise

    @property
    def id(self) -> str:
        """Return twelve hex digits; a new decision of the same kind on the same pattern replaces it."""
        text = "\0".join((self.kind, self.pattern, self.key))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()

    @property
    def allows(self) -> bool:
        """Return True when it allows archiving; False also for settings without a decision."""
        return self.kind is PolicyKind.WHITELIST or self.value == "always"

    @property
    def defers(self) -> bool:
        """Return True when matching URLs are deferred until it expires instead of skipped."""
        return self.kind is PolicyKind.AUTOBLACKLIST and self.key == FAILING_SITE

    def holds(self, now: datetime) -> bool:
        """Return True when it has not expired."""
        return self.expires_at is None or now < self.expires_at

    def __str__(self) -> str:
        """Format it in one line, for reasons."""
        setting = f"{self.key}={self.value} for " if self.kind is PolicyKind.SETTING else ""
        details = [self.reason, f"by {self.actor}" if self.actor else "", f"{self.made_at:%Y-%m-%d}"]
        if self.expires_at is not None:
            details.append(f"until {self.expires_at:%Y-%m-%d %H:%M} UTC")
        return f"{self.kind}: {setting}{shorten_for_message(self.pattern)} ({', '.join(filter(None, details))})"

    def to_json(self) -> str:
        """Encode it as an order's value."""
        return json.dumps(self.facts, ensure_ascii=False, separators=(",", ":"))

    @property
    def facts(self) -> dict[str, Any]:
        """Convert it to JSON values; empty ones are left out."""
        facts = json_facts(self, "kind pattern reason actor made_at expires_at key value")
        return {"version": ENTRY_VERSION} | {name: value for name, value in facts.items() if value not in (None, "")}


def new_entry(entry: PolicyEntry) -> PolicyEntry:
    """Validate and return the entry. Raises InputError for its pattern, setting or too long texts."""
    parse_pattern(entry.pattern)
    if len(entry.reason) > REASON_LIMIT_CHARS or len(entry.actor) > ACTOR_LIMIT_CHARS:
        raise InputError(f"A reason has at most {REASON_LIMIT_CHARS} characters, a name at most {ACTOR_LIMIT_CHARS}.")
    if entry.kind is PolicyKind.SETTING:
        _check_setting(entry.key, entry.value)
    elif entry.value or (entry.key and not entry.defers):
        raise InputError(f"A {entry.kind} has no settings: omit {entry.key}={entry.value}.")
    return entry


def read_entry(text: str) -> PolicyEntry:
    """Parse the entry in an order's value. Raises InputError for another version's, or no entry."""
    try:
        facts: dict[str, Any] = json.loads(text)
        if facts["version"] != ENTRY_VERSION:
            raise InputError(f"A policy entry of version {facts['version']!r}.")
        entry = read_json(PolicyEntry, {"reason": "", "actor": "", **facts})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"Not a policy entry: {error}.") from error
    return new_entry(entry)


@dataclass(frozen=True)
class PolicyEntries:
    """Policy entries of one moment, indexed by pattern."""

    by_id: dict[str, PolicyEntry] = field(default_factory=dict)  # expired ones too
    unread: dict[str, str] = field(default_factory=dict)  # why others could not be, by id
    texts: dict[str, str] = field(default_factory=dict)  # the orders' values, by id
    patterns: dict[str, UrlPattern] = field(default_factory=dict)  # the entries' patterns, by id
    tables: dict[PolicyKind, PatternTable[PolicyEntry]] = field(default_factory=dict)  # by kind, for look-ups

    def of(self, url: str, kinds: tuple[PolicyKind, ...], *, now: datetime) -> list[PolicyEntry]:
        """Return unexpired entries of these kinds that match the URL, the most specific first, then as in `kinds`."""
        target = pattern_target(url)
        ranked: list[tuple[PatternRank, int, PolicyEntry]] = []
        for place, kind in enumerate(kinds):
            table = self.tables.get(kind)
            if table is not None:
                matches = table.find(target)
                ranked += [(m.rank, -place, m.value) for m in matches if m.value.holds(now)]
        ranked.sort(key=lambda each: each[:2], reverse=True)
        return [entry for _, _, entry in ranked]

    def deciding(self, url: str, *, now: datetime) -> PolicyEntry | None:
        """Return the entry that decides whether the URL is archived; None when none does."""
        kinds = (PolicyKind.WHITELIST, PolicyKind.BLACKLIST, PolicyKind.SETTING)
        for entry in self.of(url, kinds, now=now):
            if entry.kind is not PolicyKind.SETTING or entry.key == "archive":
                return entry
        bans = self.of(url, (PolicyKind.AUTOBLACKLIST,), now=now)
        return min(bans, key=lambda entry: entry.defers, default=None)

    def settings(self, url: str, *, now: datetime) -> dict[str, PolicyEntry]:
        """Return the most specific setting entry of each key that matches the URL."""
        entries: dict[str, PolicyEntry] = {}
        for entry in self.of(url, (PolicyKind.SETTING,), now=now):
            entries.setdefault(entry.key, entry)
        return entries


def read_entries(orders: Mapping[str, str], *, known: PolicyEntries | None = None) -> PolicyEntries:
    """Parse the entries of the orders; unreadable ones are recorded, `known` ones not parsed again."""
    known, read = known or PolicyEntries(), PolicyEntries()
    for key, text in orders.items():
        try:
            if known.texts.get(key) == text:
                entry, pattern = known.by_id[key], known.patterns[key]
            else:
                entry = read_entry(text)
                pattern = parse_pattern(entry.pattern)
        except InputError as error:
            read.unread[key] = str(error)
            continue
        read.by_id[key], read.texts[key], read.patterns[key] = entry, text, pattern
        read.tables.setdefault(entry.kind, PatternTable()).add(pattern, entry)
    return read


def _check_setting(key: str, value: str) -> None:
    known = ", ".join(SETTINGS)
    if key not in SETTINGS:
        raise InputError(f"{key!r} cannot be set for single sites: write key=value with {known}.")
    values = SETTINGS[key]
    if values is not None:
        if value not in values:
            raise InputError(f"{key} is one of {', '.join(values)}, not {value!r}.")
        return
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not math.isfinite(number) or number < 0:
        raise InputError(f"{key} must be a number of at least 0, not {value!r}.")


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
    # A number represents source and line: a million objects of two fields would be 100 MB.
    _table: PatternTable[int] = field(default_factory=PatternTable)

    def refusing(self, url: str) -> BlocklistLine | None:
        """Return the most specific line that matches the URL; None when none does."""
        match = self._table.find(pattern_target(url))
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
        for number, pattern_or_problem in _patterns(path):
            if isinstance(pattern_or_problem, UrlPattern):
                table.add(pattern_or_problem, number * len(paths) + place)
                continue
            count += 1
            if len(problems) < PROBLEMS_KEPT:
                problems.append(pattern_or_problem)
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
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self.lists = UrlBlocklists()

    async def refresh(self, *, monotonic: float) -> None:
        """Read the lists the first time, when ConfigError is raised, and after they have changed."""
        if not self._paths or self._is_fresh(monotonic):
            return
        async with self._reading:
            if self._is_fresh(monotonic):
                return
            signature = await asyncio.to_thread(self._signature)
            if self._read_at is None:
                self.lists = await asyncio.to_thread(read_lists, self._paths)
                self._signature_read = signature
                for problem in self.lists.problems[:PROBLEMS_LOGGED]:
                    log.warning("list.line %s", problem)
                if self.lists.bad > PROBLEMS_LOGGED:
                    log.warning("list.lines %d lines cannot be used", self.lists.bad)
            elif signature != self._signature_read:
                with contextlib.suppress(ConfigError):  # it is being written or replaced
                    self.lists = await asyncio.to_thread(read_lists, self._paths)
                    self._signature_read = signature
            self._read_at = monotonic

    def _is_fresh(self, monotonic: float) -> bool:
        return self._read_at is not None and monotonic - self._read_at < LISTS_POLL_S

    def _signature(self) -> list[tuple[int, int, int] | None]:
        """Return values that change when one of the files does."""
        signature: list[tuple[int, int, int] | None] = [None] * len(self._paths)
        for place, path in enumerate(self._paths):
            with contextlib.suppress(OSError):
                stat = Path(path).stat()
                signature[place] = stat.st_ino, stat.st_size, stat.st_mtime_ns
        return signature


def _patterns(path: str) -> Iterator[tuple[int, UrlPattern | ListLineProblem]]:
    """Yield each line's number with its pattern or problem; blank lines are skipped."""
    from links.rules.spam_list import AT_HOST, fragment_expression, fragment_of

    mediawiki = path.endswith(MEDIAWIKI_SUFFIX)
    for number, line in _lines(path):
        if line is None:
            yield number, ListLineProblem(path, number, "", f"it has more than {LINE_LIMIT_BYTES} bytes")
            continue
        if number == 1:
            mediawiki = mediawiki or MEDIAWIKI_LINE.fullmatch(line) is not None
        text = fragment_of(line) if mediawiki else _COMMENT.sub("", line).strip()
        if not text:
            continue
        try:
            expression = fragment_expression(text, before=AT_HOST) if mediawiki else ""
            yield number, UrlPattern(PatternForm.REGEX, expression) if mediawiki else parse_pattern(text)
        except InputError as error:
            yield number, ListLineProblem(path, number, text[:TEXT_SHOWN_CHARS], str(error))


def _lines(path: str) -> Iterator[tuple[int, str | None]]:
    """Yield the lines by number; None for one that is too long."""
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(bounded_lines(file, LINE_LIMIT_BYTES), start=1):
                if file.tell() > LIST_LIMIT_BYTES:
                    raise ConfigError(f"{path} has more than {LIST_LIMIT_BYTES:,} bytes.")
                is_cut = len(line) == LINE_LIMIT_BYTES and not line.endswith(b"\n")
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield number, None if is_cut else text.decode("utf-8", "replace").strip()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> ConfigError:
    return ConfigError(f"policy.lists names {path}, which cannot be read: {error.strerror or error}.")
