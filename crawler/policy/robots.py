"""Parsers of robots.txt (RFC 9309) and of noarchive directives in headers and pages.

The parser is our own: protego matches product tokens by their beginnings and reads ``$`` inside a rule twice
(docs/decisions/013-robots.md). Where the standard leaves something open it does what most site operators mean: lines
that end in CR, a space instead of the colon, common misspellings of ``Disallow``, and ``Crawl-delay``.

A directive counts when it addresses all robots or our product token. It may stand

    in a header        X-Robots-Tag: noarchive
                       X-Robots-Tag: weboid: noarchive, nofollow
    in the page        <meta name="robots" content="noarchive">, <meta name="weboid" …>
                       <meta http-equiv="X-Robots-Tag" content="noarchive">

``noarchive`` and ``nocache`` forbid archiving, and so does ``unavailable_after`` once its moment is over; ``noindex``,
``nofollow`` and ``none`` concern searching, and do not.
"""

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from core.errors import InputError
from core.web_dates import parse_web_date

ROBOTS_LIMIT_BYTES = 500 * 1024  # RFC 9309, 2.5: minimum size to parse; here also the maximum
SITEMAPS_KEPT = 1_000
ROBOTS_PATH = "/robots.txt"
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
_TOKEN = re.compile(r"[a-z_-]+", re.IGNORECASE)  # RFC 9309, 2.2.1
_ESCAPE_OR_UNSAFE = re.compile(rb'%([0-9A-Fa-f]{2})|[\x00-\x20"<>\[\\\]^`{|}\x7f-\xff]')
# Characters that mean the same escaped and not: as in an identity key (`core.urls.identity_key`), but
# for "*" and "$", which are special in a rule.
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH_PLAIN = _UNRESERVED | frozenset(b"!&'()+,:;=@")
_QUERY_PLAIN = _UNRESERVED | frozenset(b"!'(),:@/?")
_AGENT_KEYS = frozenset((b"user-agent", b"useragent", b"user agent"))
_DISALLOW_KEYS = frozenset((b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"))
_DELAY_KEYS = frozenset((b"crawl-delay", b"crawldelay", b"crawl delay"))
_SITEMAP_KEYS = frozenset((b"sitemap", b"site-map"))
_KEYS = _AGENT_KEYS | _DISALLOW_KEYS | _DELAY_KEYS | _SITEMAP_KEYS | {b"allow"}


class RobotsRule(NamedTuple):
    """Rule of a robots.txt group, with its path pattern as written."""

    allow: bool
    pattern: str

    def __str__(self) -> str:
        """Format the rule for reasons."""
        return f"{'Allow' if self.allow else 'Disallow'}: {self.pattern[:200]}"


@dataclass(frozen=True, slots=True)
class Robots:
    """Rules of a robots.txt for one robot. `parse_robots` makes it."""

    rules: tuple[RobotsRule, ...] = ()  # of the groups that apply to the robot
    crawl_delay_s: float | None = None  # requested delay between two visits; None without one
    sitemaps: tuple[str, ...] = ()  # the URLs of its Sitemap lines, which apply to all robots
    _compiled: list["_CompiledRule"] = field(default_factory=list, repr=False, compare=False)

    def rule_for(self, url: str) -> RobotsRule | None:
        """Return the longest rule that matches the URL (a fetch key), or None."""
        # Path and query in the form that rules are compared with; "*" and "$" are plain characters.
        rest = url.partition("#")[0].partition("://")[2]
        start = min(at for at in (rest.find("/"), rest.find("?"), len(rest)) if at >= 0)
        path = rest[start:].encode("utf-8", "replace")
        path = _spelled(path if path.startswith(b"/") else b"/" + path)
        path = path.replace(b"*", b"%2A").replace(b"$", b"%24")
        if path == ROBOTS_PATH.encode():  # RFC 9309, 2.2.2: it may always be read
            return None
        if self.rules and not self._compiled:
            compiled = sorted(map(_compile, self.rules), key=lambda each: each.order, reverse=True)
            self._compiled.extend(compiled)
        return next((each.rule for each in self._compiled if each.matches(path)), None)

    @property
    def forbids_all(self) -> bool:
        """Return True when everything is disallowed and nothing allowed."""
        closed = any(not rule.allow and rule.pattern in ("/", "/*", "*") for rule in self.rules)
        return closed and not any(rule.allow for rule in self.rules)

    def to_facts(self) -> dict[str, Any]:
        """Convert it to JSON values; `robots_from_facts` reads them."""
        return {
            "rules": [[int(rule.allow), rule.pattern] for rule in self.rules],
            "delay": self.crawl_delay_s,
            "sitemaps": list(self.sitemaps),
        }


def robots_from_facts(facts: dict[str, Any]) -> Robots:
    """Build it from the values of `Robots.to_facts`. Raises InputError if they are not valid."""
    try:
        rules = tuple(RobotsRule(bool(allow), str(pattern)) for allow, pattern in facts["rules"])
        delay = facts["delay"]
        sitemaps = tuple(map(str, facts["sitemaps"]))
        return Robots(rules, None if delay is None else float(delay), sitemaps)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"Not what a robots.txt says: {json.dumps(str(error))}.") from error


def parse_robots(data: bytes, agent: str) -> Robots:
    """Parse the rules for the robot whose product token is `agent`; accepts any bytes.

    All groups that name the robot apply together; those for ``*`` when none does. Groups end where a new one begins,
    not at empty or unknown lines. Input beyond `ROBOTS_LIMIT_BYTES` is ignored.
    """
    named, everybody = _RobotsGroup(), _RobotsGroup()
    open_groups: list[_RobotsGroup] = []
    begins = True  # the next User-agent line begins a group
    sitemaps: dict[str, None] = {}
    for key, value in _records(data):
        if key in _AGENT_KEYS:
            if begins:
                open_groups, begins = [], False
            token = _TOKEN.match(value.decode("ascii", "replace"))  # a version behind it is ignored
            if token is not None and token[0].lower() == agent.lower():
                group = named
            elif value == b"*" or value[:2] in (b"* ", b"*\t"):
                group = everybody
            else:
                continue
            group.exists = True
            if group not in open_groups:
                open_groups.append(group)
        elif key in _SITEMAP_KEYS:
            if value and len(sitemaps) < SITEMAPS_KEPT:
                sitemaps[value.decode("utf-8", "replace")] = None
        elif key in _DELAY_KEYS:
            for group in open_groups:
                group.ask_for(value)
        else:
            begins = True
            for group in open_groups:
                group.add(value, allow=key == b"allow")
    group = named if named.exists else everybody
    return Robots(tuple(group.rules), group.crawl_delay_s, tuple(sitemaps))


class _RobotsGroup:
    """Lines of a group for one robot."""

    def __init__(self) -> None:
        self.exists = False
        self.rules: list[RobotsRule] = []
        self.crawl_delay_s: float | None = None

    def add(self, value: bytes, *, allow: bool) -> None:
        """Add a rule; one without a path, or whose path never matches, is ignored."""
        if value.startswith((b"/", b"*")):
            pattern = "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in value)
            self.rules.append(RobotsRule(allow, pattern))

    def ask_for(self, value: bytes) -> None:
        """Set the Crawl-delay in seconds; the longest of several applies."""
        try:
            delay_s = float(value)
        except ValueError:
            return
        if math.isfinite(delay_s) and delay_s >= 0:
            self.crawl_delay_s = max(self.crawl_delay_s or 0.0, delay_s)


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield key, in lower case, and value of each known line."""
    cut = len(data) > ROBOTS_LIMIT_BYTES
    data = data[:ROBOTS_LIMIT_BYTES]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    lines = _LINE_ENDS.split(data.removeprefix(codecs.BOM_UTF8))
    for line in lines[:-1] if cut else lines:  # half a line could mean more than the whole one
        text = line.partition(b"#")[0].strip()
        key, colon, value = text.partition(b":")
        key = b" ".join(key.lower().split())
        if not colon or key not in _KEYS:
            # "Disallow /private": not in the standard, and not to be misunderstood.
            first, _, value = text.partition(b" ")
            key = first.lower()
        if key in _KEYS:
            yield key, value.strip()


class _CompiledRule(NamedTuple):
    """Rule compiled for matching."""

    order: tuple[int, bool]  # the longest first; of two equal ones the one that allows (2.2.2)
    rule: RobotsRule
    parts: tuple[bytes, ...]  # the texts between the stars
    anchored: bool

    def matches(self, path: bytes) -> bool:
        """Return True when the rule matches the path from its beginning, in the time of a few searches."""
        first, *rest = self.parts
        if not path.startswith(first):
            return False
        if not rest:
            return not self.anchored or path == first
        at = len(first)
        last = rest.pop()
        for part in rest:
            position = path.find(part, at)
            if position < 0:
                return False
            at = position + len(part)
        if self.anchored:
            return len(path) - len(last) >= at and path.endswith(last)
        return path.find(last, at) >= 0


def _compile(rule: RobotsRule) -> _CompiledRule:
    text = rule.pattern.encode("utf-8", "replace")
    anchored = text.endswith(b"$")
    spelled = _spelled(text[:-1] if anchored else text).replace(b"$", b"%24")
    parts = tuple(re.sub(rb"\*+", b"*", spelled).split(b"*"))
    return _CompiledRule((len(spelled) + anchored, rule.allow), rule, parts, anchored)


def _spelled(text: bytes) -> bytes:
    """Normalize the percent-encoding of the text (RFC 9309, 2.2.2)."""
    path, mark, query = text.partition(b"?")
    return _part(path, _PATH_PLAIN) + mark + _part(query, _QUERY_PLAIN)


def _part(text: bytes, plain: frozenset[int]) -> bytes:
    def spelled(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            return b"%%%02X" % match[0][0]
        value = int(match[1], 16)
        return bytes((value,)) if value in plain else match[0].upper()

    return _ESCAPE_OR_UNSAFE.sub(spelled, text)


FORBIDDING = frozenset(("noarchive", "nocache"))
UNAVAILABLE_AFTER = "unavailable_after"
ANY_ROBOT = frozenset(("", "*", "robots"))
ROBOTS_HEADER = "x-robots-tag"
META_HEADER = f"http-equiv:{ROBOTS_HEADER}"
LINE_LIMIT_CHARS = 8_000
LINES_LIMIT = 200
# Directives that have a value after a colon; any other word before one names a robot.
_WITH_VALUE = frozenset((UNAVAILABLE_AFTER, "max-snippet", "max-image-preview", "max-video-preview", "revisit-after"))
_NAMED = re.compile(r"\s*([A-Za-z0-9_*-]+)\s*:\s*(.*)", re.DOTALL)
_DATE_TOKENS = 3  # "Fri, 25 Jun 2010 …" has one comma, and a broken one may have two


def forbidding_reason(headers: Iterable[str], metas: Iterable[tuple[str, str]], *, agent: str, now: datetime) -> str:
    """Return why the page must not be archived, e.g. ``noarchive: X-Robots-Tag says nocache``, or "".

    `headers` are values of X-Robots-Tag, possibly joined by newlines; `metas` as `render.visit.Visit.robots_meta`.
    """
    agents = ANY_ROBOT | {agent.lower()}
    for value in headers:
        for line in value.split("\n")[:LINES_LIMIT]:
            reason = _forbidding(line, agents, now)
            if reason:
                return f"noarchive: X-Robots-Tag says {reason}"
    for name, content in metas:
        if name == META_HEADER:
            reason = _forbidding(content, agents, now)
        elif name in agents - {"", "*"}:
            reason = _forbidding(content, None, now)
        else:
            continue
        if reason:
            where = f"http-equiv={ROBOTS_HEADER}" if name == META_HEADER else f"name={name}"
            return f"noarchive: <meta {where}> says {reason}"
    return ""


def _forbidding(line: str, agents: frozenset[str] | set[str] | None, now: datetime) -> str:
    """Return the line's directive that forbids archiving, or ""; of these product tokens, None: it names no robots."""
    for agent, word, value in _directives(line, named=agents is not None):
        if agents is not None and agent not in agents:
            continue
        if word in FORBIDDING:
            return word
        if word == UNAVAILABLE_AFTER:
            moment = _moment(value)
            if moment is not None and moment <= now:
                return f"{word} {moment:%Y-%m-%d}"
    return ""


def _directives(line: str, *, named: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (robot or empty, directive, value), in lower case but for the value; a robot counts up to the next."""
    tokens = line[:LINE_LIMIT_CHARS].split(",")
    agent = ""
    for place, token in enumerate(tokens):
        word, value = token, ""
        match = _NAMED.fullmatch(token)
        if match is not None and named and match[1].lower() not in _WITH_VALUE:
            agent, word = match[1].lower(), match[2]
            match = _NAMED.fullmatch(word)
        if match is not None and match[1].lower() in _WITH_VALUE:
            word = match[1]
            value = ",".join([match[2], *tokens[place + 1 : place + _DATE_TOKENS]])
        # Some part directives by white space only.
        for each in [word] if value else word.split() or [""]:
            yield agent, each.strip().lower(), value


def _moment(text: str) -> datetime | None:
    """Parse the moment (RFC 822, RFC 850 or ISO 8601) that the text, or its part up to a comma, is; None: none."""
    tokens = text.split(",")
    for count in range(len(tokens), 0, -1):
        candidate = ",".join(tokens[:count]).strip()
        if (moment := parse_web_date(candidate)) is not None:
            return moment
    return None
