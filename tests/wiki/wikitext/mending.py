"""Repairs as tests ask for them: the page read, its links' remedies made, the text repaired."""

from collections.abc import Callable
from datetime import UTC, date, datetime

from wiki.wikitext.citation_model import ArchivedCopy, Citation, LinkCondition, LinkRemedy, RepairedText, RepairOptions
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.page_repair import repair_page
from wiki.wikitext.template_map import TemplateRules, rules_for

NOW = datetime(2026, 11, 21, 14, 3, 5, tzinfo=UTC)
OPTIONS = RepairOptions(NOW, bot="Weboid")
STAMP = "20150102030405"
Remedying = Callable[[str], LinkRemedy | None]


def address(url: str, stamp: str = STAMP) -> str:
    """Of a copy in the Wayback Machine."""
    return f"https://web.archive.org/web/{stamp}/{url}"


def copied(url: str, title: str = "The archived title") -> LinkRemedy:
    """It is dead, and there is a copy."""
    return LinkRemedy(LinkCondition.DEAD, ArchivedCopy(address(url), STAMP, "wayback", title))


def usurped(url: str) -> LinkRemedy:
    """It belongs to somebody else now, and there is a copy."""
    return LinkRemedy(LinkCondition.USURPED, copied(url).copy)


def lost(_url: str) -> LinkRemedy:
    """It is dead, and there is no copy."""
    return LinkRemedy(LinkCondition.DEAD)


def alive(_url: str) -> LinkRemedy:
    """It works again, and we had said that it did not."""
    return LinkRemedy(LinkCondition.ALIVE, is_ours=True)


def read(text: str, rules: TemplateRules, options: RepairOptions = OPTIONS) -> tuple[Citation, ...]:
    """The citations of the text."""
    return read_citations(text, rules, today=date(2026, 11, 21), own=options.own)


def mend(
    text: str, remedying: Remedying = copied, language: str | TemplateRules = "en", options: RepairOptions = OPTIONS
) -> RepairedText:
    """The text repaired, with a remedy for each of its links that one is made for."""
    rules = rules_for(language) if isinstance(language, str) else language
    citations = read(text, rules, options)
    remedies = {url: remedy for url in (each.url for each in citations) if (remedy := remedying(url)) is not None}
    return repair_page(text, citations, remedies, rules, options)
