"""Reading in tests, in a line."""

from datetime import date

from wiki.wikitext.citation_model import Citation
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.template_map import rules_for

TODAY = date(2026, 11, 21)


def read(text: str, language: str = "en") -> tuple[Citation, ...]:
    """Return the citations of a text, read on `TODAY`."""
    return read_citations(text, rules_for(language), today=TODAY)


def one(text: str, language: str = "en") -> Citation:
    """Return the only citation of a text."""
    (citation,) = read(text, language)
    return citation


def urls(text: str, language: str = "en") -> list[str]:
    """Return the URLs of a text, in their order."""
    return [citation.url for citation in read(text, language)]
