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
    """Return the address of a copy in the Wayback Machine."""
    return f"https://web.archive.org/web/{stamp}/{url}"


def copied(url: str, title: str = "The archived title") -> LinkRemedy:
    """Return the remedy for a dead link with a copy."""
    return LinkRemedy(LinkCondition.DEAD, ArchivedCopy(address(url), STAMP, "wayback", title))


def usurped(url: str) -> LinkRemedy:
    """Return the remedy for a link that belongs to another owner now, with a copy."""
    return LinkRemedy(LinkCondition.USURPED, copied(url).copy)


def lost(_url: str) -> LinkRemedy:
    """Return the remedy for a dead link without a copy."""
    return LinkRemedy(LinkCondition.DEAD)


def alive(_url: str) -> LinkRemedy:
    """Return the remedy for a link that works again after we had marked it as dead."""
    return LinkRemedy(LinkCondition.ALIVE, is_ours=True)


def read(text: str, rules: TemplateRules, options: RepairOptions = OPTIONS) -> tuple[Citation, ...]:
    """Return the citations of the text, read on 21 November 2026."""
    return read_citations(text, rules, today=date(2026, 11, 21), own=options.own)


def mend(
    text: str, remedying: Remedying = copied, language: str | TemplateRules = "en", options: RepairOptions = OPTIONS
) -> RepairedText:
    """Repair the text, with the remedies that `remedying` returns for its links."""
    rules = rules_for(language) if isinstance(language, str) else language
    citations = read(text, rules, options)
    remedies = {url: remedy for url in (each.url for each in citations) if (remedy := remedying(url)) is not None}
    return repair_page(text, citations, remedies, rules, options)
