"""Repairs as tests ask for them: the page read, its links' remedies made, the text repaired."""

from collections.abc import Callable
from datetime import UTC, date, datetime

from wiki.wikitext.citations import Citation
from wiki.wikitext.reading import read_citations
from wiki.wikitext.repairing import repair
from wiki.wikitext.repairing_types import (
    Archived,
    Condition,
    Remedy,
    Repaired,
    RepairOptions,
)
from wiki.wikitext.rules import Rules, rules_for

NOW = datetime(2026, 11, 21, 14, 3, 5, tzinfo=UTC)
OPTIONS = RepairOptions(NOW, bot="Weboid")
STAMP = "20150102030405"
Remedying = Callable[[str], Remedy | None]


def address(url: str, stamp: str = STAMP) -> str:
    """Of a copy in the Wayback Machine."""
    return f"https://web.archive.org/web/{stamp}/{url}"


def copied(url: str, title: str = "The archived title") -> Remedy:
    """It is dead, and there is a copy."""
    return Remedy(Condition.DEAD, Archived(address(url), STAMP, "wayback", title))


def usurped(url: str) -> Remedy:
    """It belongs to somebody else now, and there is a copy."""
    return Remedy(Condition.USURPED, copied(url).copy)


def lost(_url: str) -> Remedy:
    """It is dead, and there is no copy."""
    return Remedy(Condition.DEAD)


def alive(_url: str) -> Remedy:
    """It works again, and we had said that it did not."""
    return Remedy(Condition.ALIVE, is_ours=True)


def read(text: str, rules: Rules, options: RepairOptions = OPTIONS) -> tuple[Citation, ...]:
    """The citations of the text."""
    return read_citations(text, rules, today=date(2026, 11, 21), own=options.own)


def mend(
    text: str,
    remedying: Remedying = copied,
    language: str | Rules = "en",
    options: RepairOptions = OPTIONS,
) -> Repaired:
    """The text repaired, with a remedy for each of its links that one is made for."""
    rules = rules_for(language) if isinstance(language, str) else language
    citations = read(text, rules, options)
    remedies = {
        url: remedy
        for url in (each.url for each in citations)
        if (remedy := remedying(url)) is not None
    }
    return repair(text, citations, remedies, rules, options)
