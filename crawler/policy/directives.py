"""What a page and its headers say to archives: noarchive, nocache, unavailable_after. Pure.

A directive counts when it is meant for everybody or for our product token. It may stand

    in a header        X-Robots-Tag: noarchive
                       X-Robots-Tag: weboid: noarchive, nofollow
    in the page        <meta name="robots" content="noarchive">, <meta name="weboid" …>
                       <meta http-equiv="X-Robots-Tag" content="noarchive">

``noarchive`` and ``nocache`` forbid archiving, and so does ``unavailable_after`` once its moment is
over. ``noindex``, ``nofollow`` and ``none``, which is both of them, speak of searching, and do not.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from core.http_dates import parse_web_date

FORBIDDING = frozenset(("noarchive", "nocache"))
UNAVAILABLE_AFTER = "unavailable_after"
EVERYBODY = frozenset(("", "*", "robots"))
HEADER = "x-robots-tag"
META_HEADER = f"http-equiv:{HEADER}"
LINE_LIMIT_CHARS = 8_000
LINES_LIMIT = 200
# Directives that have a value after a colon; any other word before one names a robot.
_WITH_VALUE = frozenset(
    (UNAVAILABLE_AFTER, "max-snippet", "max-image-preview", "max-video-preview", "revisit-after")
)
_NAMED = re.compile(r"\s*([A-Za-z0-9_*-]+)\s*:\s*(.*)", re.DOTALL)
_DATE_TOKENS = 3  # "Fri, 25 Jun 2010 …" has one comma, and a broken one may have two


def forbidden(
    headers: Iterable[str], metas: Iterable[tuple[str, str]], *, agent: str, now: datetime
) -> str:
    """Why the page must not be archived; empty when nothing forbids it.

    Args:
        headers: the values of its X-Robots-Tag headers; several may be joined by newlines.
        metas: names in lower case and contents, as `render.visit.Visit.robots_meta` has them.
        agent: our product token.
        now: the moment.

    Returns:
        A constant, then the place and the word, e.g. ``noarchive: X-Robots-Tag says nocache``.
    """
    meant = EVERYBODY | {agent.lower()}
    for value in headers:
        for line in value.split("\n")[:LINES_LIMIT]:
            said = _forbidding(line, meant, now)
            if said:
                return f"noarchive: X-Robots-Tag says {said}"
    for name, content in metas:
        if name == META_HEADER:
            said = _forbidding(content, meant, now)
        elif name in meant - {"", "*"}:
            said = _forbidding(content, None, now)
        else:
            continue
        if said:
            where = f"http-equiv={HEADER}" if name == META_HEADER else f"name={name}"
            return f"noarchive: <meta {where}> says {said}"
    return ""


def _forbidding(line: str, meant: frozenset[str] | set[str] | None, now: datetime) -> str:
    """The directive of the line that forbids archiving; empty when none does.

    Args:
        line: directives, parted by commas.
        meant: whom directives must be for, in lower case; None: nobody is named in the line.
        now: the moment.
    """
    for agent, word, value in _directives(line, named=meant is not None):
        if meant is not None and agent not in meant:
            continue
        if word in FORBIDDING:
            return word
        if word == UNAVAILABLE_AFTER:
            moment = _moment(value)
            if moment is not None and moment <= now:
                return f"{word} {moment:%Y-%m-%d}"
    return ""


def _directives(line: str, *, named: bool) -> Iterator[tuple[str, str, str]]:
    """(robot or nothing, directive, its value), in lower case but for the value.

    A robot's name holds for all that follows it, up to the next name.
    """
    tokens = line[:LINE_LIMIT_CHARS].split(",")
    agent = ""
    for place, token in enumerate(tokens):
        word, value = token, ""
        found = _NAMED.fullmatch(token)
        if found is not None and named and found[1].lower() not in _WITH_VALUE:
            agent, word = found[1].lower(), found[2]
            found = _NAMED.fullmatch(word)
        if found is not None and found[1].lower() in _WITH_VALUE:
            word = found[1]
            value = ",".join([found[2], *tokens[place + 1 : place + _DATE_TOKENS]])
        # Some part directives by white space only.
        for each in [word] if value else word.split() or [""]:
            yield agent, each.strip().lower(), value


def _moment(text: str) -> datetime | None:
    """The moment at the beginning of the text, as RFC 822, RFC 850 or ISO 8601 write it, or None.

    What follows the first comma may belong to the date or be the next directive.
    """
    tokens = text.split(",")
    for count in range(len(tokens), 0, -1):
        candidate = ",".join(tokens[:count]).strip()
        if (moment := parse_web_date(candidate)) is not None:
            return moment
    return None
