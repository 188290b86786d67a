"""`weboid wiki read`: the citations of a page's text."""

import json
from datetime import date
from pathlib import Path
from typing import IO, Any

import click

from core.clock import SystemClock
from crawler.cli.exits import Exit
from crawler.cli.options import json_option
from crawler.cli.tables import clean
from crawler.cli.wiki.texts import page_text, template_map
from wiki.wikitext.citations import Citation, Span, Tag
from wiki.wikitext.reading import read_citations
from wiki.wikitext.rules import Rules, rules_for

_CLOCK = SystemClock()


@click.command("read")
@click.argument("file", type=click.File("rb"), metavar="FILE|-")
@click.option(
    "--language",
    default="en",
    show_default=True,
    help="The wiki's, which chooses its template map.",
)
@click.option(
    "--templates",
    "own",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A template map in TOML to lay over it, to try one.",
)
@json_option
def command(*, file: IO[bytes], language: str, own: Path | None, as_json: bool) -> int:
    """Show the citations of a page, as they are read from its wikitext.

    Nothing is asked, and nothing is kept. Ends with 1 when a URL is malformed. See docs/wikitext.md.
    """
    text = page_text(file)
    rules = rules_for(language, template_map(own))
    found = read_citations(text, rules, today=_CLOCK.now().date())
    if as_json:
        click.echo(json.dumps(_document(text, rules, found), ensure_ascii=False))
    elif not found:
        click.echo("No link was found.")
    else:
        lines = _Lines(text)
        for citation in found:
            click.echo("\n".join(_told(citation, lines)))
    return Exit.SOME_FAILED if any(each.is_malformed for each in found) else Exit.OK


class _Lines:
    """On which line a place is, asked for in the text's order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1

    def of(self, place: int) -> int:
        self._line += self._text.count("\n", self._at, place)
        self._at = max(self._at, place)
        return self._line


def _told(citation: Citation, lines: _Lines) -> list[str]:
    """A citation for people: where and what, and below it what the text says of it."""
    kind = f"{citation.way} {citation.template}".strip()
    told = [f"line {lines.of(citation.span.start)}: {clean(citation.url)}  ({clean(kind)})"]
    said = [
        ("title", citation.title),
        ("in the parameter of", citation.within),
        ("seen", _day(citation.access_date)),
        ("archived", f"{citation.archive_url} {_day(citation.archive_date)}".strip()),
        ("status", citation.status),
        ("marked by", ", ".join(each.name for each in _tags(citation))),
    ]
    told += [f"    {name}: {clean(value)[:300]}" for name, value in said if value]
    told += [f"    {words}" for words in _words(citation)]
    return told


def _words(citation: Citation) -> list[str]:
    said = (
        (citation.is_malformed, "no URL that can be fetched as it stands"),
        (citation.is_archive_in_place, "the archive's address stands in the original's place"),
        (citation.is_paywalled, "takes a subscription or a login"),
        (citation.is_held, "bots are asked to leave it alone"),
        (citation.is_convertible, "can become a citation template"),
        (citation.is_treated_dead and not citation.is_said_dead, "readers are led to the copy"),
    )
    return [words for is_so, words in said if is_so]


def _tags(citation: Citation) -> list[Tag]:
    return [tag for tag in (citation.dead_tag, citation.archive_tag) if tag is not None]


def _document(text: str, rules: Rules, found: tuple[Citation, ...]) -> dict[str, Any]:
    lines = _Lines(text)
    return {
        "language": rules.language,
        "characters": len(text),
        "citations": [_facts(citation, lines) for citation in found],
    }


def _facts(citation: Citation, lines: _Lines) -> dict[str, Any]:
    return {
        "url": citation.url,
        "way": str(citation.way),
        "line": lines.of(citation.span.start),
        "span": _span(citation.span),
        "url_span": _span(citation.url_span),
        "address": citation.address,
        "template": citation.template,
        "within": citation.within,
        "parameters": {
            str(role): {"name": each.name, "value": each.value, "span": _span(each.inner)}
            for role, each in citation.parameters.items()
        },
        "title": citation.title,
        "reference": None if citation.reference is None else _span(citation.reference),
        "access_date": _day(citation.access_date) or None,
        "archive_url": citation.archive_url,
        "archive_date": _day(citation.archive_date) or None,
        "status": citation.status,
        "dead_tag": None if citation.dead_tag is None else _tag(citation.dead_tag),
        "archive_tag": None if citation.archive_tag is None else _tag(citation.archive_tag),
        "is_said_dead": citation.is_said_dead,
        "is_treated_dead": citation.is_treated_dead,
        "is_paywalled": citation.is_paywalled,
        "is_malformed": citation.is_malformed,
        "is_convertible": citation.is_convertible,
        "is_held": citation.is_held,
    }


def _tag(tag: Tag) -> dict[str, Any]:
    return {"name": tag.name, "span": _span(tag.span)}


def _span(span: Span) -> list[int]:
    return [span.start, span.end]


def _day(day: date | None) -> str:
    return "" if day is None else day.isoformat()
