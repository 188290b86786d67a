"""What is asked of the checks: which of them, from where on, and how many; all of it from outside."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from core.classes import PageClass
from core.errors import BadUrlError, InputError
from core.quality import Fault, Verdict
from links.books.quality import Filter, Place, parse_place
from links.locator import locate
from playback.decisions.levels import Level
from playback.front.languages import noop
from playback.front.registry.asking import parse_flag

PAGE_SIZE = 50
MOST_RESULTS = 500
# A verdict that is empty needs a word of its own in an address.
UNCHECKED = "unchecked"
_LONGEST_HOST = 2_000
_HOST = re.compile(r"[^\s/?#@\\:\x00-\x1f\x7f-\x9f]+|\[[0-9A-Fa-f:.]+\]")
_SCORE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{0,6})?%?|\.[0-9]{1,6}%?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Question:
    """Which checks are asked for.

    Attributes:
        wanted: the filter.
        after: the place behind which the list goes on; None: its beginning.
        limit: how many at most.
    """

    wanted: Filter
    after: Place | None = None
    limit: int = PAGE_SIZE

    @property
    def filters(self) -> dict[str, str]:
        """The filter as an address has it: `parse_filter` is the inverse."""
        return filter_values(self.wanted)


def parse_question(given: QueryParams) -> Question:
    """What the parameters ask for.

    Raises:
        InputError: they ask for something else; the text says what, for `translate`.
    """
    return Question(
        parse_filter(given),
        parse_from(given.get("after", "")),
        _limit(given.get("limit", "")),
    )


def parse_filter(given: Mapping[str, str]) -> Filter:
    """Which checks the parameters name; what is not known to be a filter is left out.

    Raises:
        InputError: one of them names none.
    """
    named = {name: given.get(name, "").strip() for name in ("verdict", "class", "fault", "level")}
    known: dict[str, set[str]] = {
        "verdict": {UNCHECKED, *filter(None, Verdict)},
        "class": {*filter(None, PageClass)},
        "fault": set(Fault),
        "level": set(Level),
    }
    for name, value in named.items():
        if value and value not in known[name]:
            raise InputError(noop("There is no such filter."))
    verdict = named["verdict"]
    return Filter(
        verdict=Verdict("" if verdict == UNCHECKED else verdict) if verdict else None,
        host=_host(given.get("host", "")),
        page_class=PageClass(named["class"]) if named["class"] else None,
        level=named["level"] or None,
        fault=Fault(named["fault"]) if named["fault"] else None,
        below=_score(given.get("below", "")),
        unreviewed=parse_flag(given.get("unreviewed", "")),
    )


def filter_values(wanted: Filter) -> dict[str, str]:
    """The filter as parameters."""
    values = {
        "verdict": verdict_name(wanted.verdict) if wanted.verdict is not None else "",
        "host": wanted.host or "",
        "class": wanted.page_class or "",
        "fault": wanted.fault or "",
        "level": wanted.level or "",
        "below": "" if wanted.below is None else f"{wanted.below:g}",
        "unreviewed": "1" if wanted.unreviewed else "",
    }
    return {name: str(value) for name, value in values.items() if value}


def verdict_name(verdict: Verdict) -> str:
    """A verdict as addresses and JSON name it."""
    return str(verdict) or UNCHECKED


def address(path: str, *values: Mapping[str, str]) -> str:
    """The path with parameters; empty ones are left out."""
    merged = {name: value for each in values for name, value in each.items() if value}
    return f"{path}?{urlencode(merged)}" if merged else path


def parse_from(text: str) -> Place | None:
    """A place in the list; None for its beginning.

    Raises:
        InputError: it is none.
    """
    if not text:
        return None
    try:
        return parse_place(text)
    except InputError:
        raise InputError(noop("after is the place that the part before gave.")) from None


def _host(text: str) -> str | None:
    """The canonical host of what was typed: a host, or a URL on it."""
    text = text.strip()
    if not text:
        return None
    is_host = len(text) <= _LONGEST_HOST and _HOST.fullmatch(text)
    try:
        return locate(f"http://{text}/" if is_host else text[:_LONGEST_HOST]).host
    except BadUrlError:
        raise InputError(noop("A host is named like www.example.org.")) from None


def _score(text: str) -> float | None:
    text = text.strip().replace(" ", "").replace(",", ".")
    if not text:
        return None
    value = 2.0
    if _SCORE.fullmatch(text):
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if value > 1:
        raise InputError(noop("A score is a number from 0 to 1, or so many per cent."))
    return value


def _limit(text: str) -> int:
    if not text:
        return PAGE_SIZE
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= MOST_RESULTS):
        raise InputError(noop("limit is a number from 1 to 500."))
    return int(text)
