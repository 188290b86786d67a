"""`weboid wiki read` and `repair`: citations and repairs in wikitext files."""

import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import IO, Any, Final

import click

from core.errors import ConfigError, InputError
from core.json_values import json_facts
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import EXISTING_FILE, named_file, output
from wiki.api.edit_request import edit_objection
from wiki.wikitext import citation_model
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.edit_messages import unified_diff_of
from wiki.wikitext.page_repair import repair_page
from wiki.wikitext.template_map import FALLBACK, TemplateRules, languages, rules_for

_LARGEST: Final = 16_000_000  # bytes; MediaWiki's own limit is 2 MB

_WHY: Final = {
    citation_model.NoRepairReason.HELD: "a person excluded it from bots",
    citation_model.NoRepairReason.MALFORMED: "its URL cannot be read with certainty",
    citation_model.NoRepairReason.BROKEN: "its wikitext cannot be read with certainty",
    citation_model.NoRepairReason.DOUBLE: "a parameter is given twice",
    citation_model.NoRepairReason.COMMENT: "a comment or markup is in the way",
    citation_model.NoRepairReason.SEVERAL: "the template has several links, but room for one copy only",
    citation_model.NoRepairReason.OTHER_TEMPLATE: "no rule names the archive parameters of that template",
    citation_model.NoRepairReason.PLACE: "it is in a parameter, a heading or a gallery",
    citation_model.NoRepairReason.UNSAFE: "its copy is not of this page, or cannot be written there",
    citation_model.NoRepairReason.NO_COPY: "there is no copy, and the wiki has no tag to say so",
    citation_model.NoRepairReason.LATER: "another change comes first in the same place",
    citation_model.NoRepairReason.PAYWALL: "it needs a subscription, and its site refuses access without one",
    citation_model.NoRepairReason.UNSHOWN: "the address of its copy does not show the copy now",
    citation_model.NoRepairReason.FORBIDDEN: "the page excludes bots, or is marked as in use",
}


def skip_reason_line(refused: citation_model.UnrepairedCitation) -> str:
    """Return a line with the link that was not changed, and the reason."""
    url = clean(refused.citation.url)[:300]
    return f"left unchanged ({refused.reason}: {_WHY[refused.reason]}): {url}"


def read_page_text(file: IO[bytes]) -> str:
    """Read the text of a page."""
    content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise InputError(f"The page is larger than {_LARGEST // 1_000_000} MB: wikis do not store such pages.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"The page is not UTF-8 (byte {error.start}): save it as UTF-8, as wikis do.") from error


def read_rules(language: str, path: Path | None) -> TemplateRules:
    """Return the rules of a language, with the template map in the file; print a warning if the language has no map."""
    if language.casefold().partition("-")[0] not in languages():
        known = ", ".join(languages())
        click.echo(f"{clean(language)} has no template map, so that of {FALLBACK} is used; maps: {known}.", err=True)
    if path is None:
        return rules_for(language)
    try:
        with named_file(path):
            return rules_for(language, tomllib.loads(path.read_text("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


@cli_command("read")
def read_command(
    *,
    file: IO[bytes] = argument("FILE|-", type=click.File("rb")),
    language: str = option("Language of the wiki, which selects its template map.", default="en"),
    own: Path | None = option(
        "A template map in TOML to apply over it, for testing.", "--templates", type=EXISTING_FILE
    ),
) -> int:
    """Show the citations of a page, as parsed from its wikitext.

    No request is made, and nothing is stored. Ends with 1 when a URL is malformed. See docs/reference/wikitext.md.
    """
    text = read_page_text(file)
    rules = read_rules(language, own)
    citations = read_citations(text, rules, today=CLOCK.now().date())
    breaks = [match.start() for match in re.finditer("\n", text)]
    if output.is_json:
        listed = [_facts(citation, breaks) for citation in citations]
        output.json({"language": rules.language, "characters": len(text), "citations": listed})
    else:
        shown = [line for citation in citations for line in _citation_lines(citation, breaks)]
        click.echo("\n".join(shown) if citations else "No link was found.")
    return ExitCode.SOME_FAILED if any(each.is_malformed for each in citations) else ExitCode.OK


def _citation_lines(citation: citation_model.Citation, breaks: list[int]) -> list[str]:
    """Return a citation as text: line and kind, and below it its fields."""
    kind = f"{citation.way} {citation.template}".strip()
    items = [f"line {bisect_left(breaks, citation.span.start) + 1}: {clean(citation.url)}  ({clean(kind)})"]
    tags = (citation.dead_tag, citation.archive_tag)
    fields = [
        ("title", citation.title),
        ("in the parameter of", citation.within),
        ("seen", str(citation.access_date or "")),
        ("archived", f"{citation.archive_url} {citation.archive_date or ''}".strip()),
        ("status", citation.status),
        ("marked by", ", ".join(tag.name for tag in tags if tag is not None)),
    ]
    items += [f"    {name}: {clean(value)[:300]}" for name, value in fields if value]
    marks = (
        (citation.is_malformed, "not a URL that can be fetched unchanged"),
        (citation.is_archive_in_place, "the archive's address replaces the original"),
        (citation.is_paywalled, "needs a subscription or a login"),
        (citation.is_held, "excluded from bots"),
        (citation.is_convertible, "can become a citation template"),
        (citation.is_treated_dead and not citation.is_said_dead, "readers are led to the copy"),
    )
    return items + [f"    {words}" for is_so, words in marks if is_so]


def _facts(citation: citation_model.Citation, breaks: list[int]) -> dict[str, Any]:
    return {
        **json_facts(
            citation,
            "url address template within title archive_url status is_said_dead is_treated_dead "
            "is_paywalled is_malformed is_convertible is_held way access_date archive_date",
        ),
        "line": bisect_left(breaks, citation.span.start) + 1,
        "span": _span(citation.span),
        "url_span": _span(citation.url_span),
        "parameters": {
            str(role): {"name": each.name, "value": each.value, "span": _span(each.inner)}
            for role, each in citation.parameters.items()
        },
        "reference": citation.reference and _span(citation.reference),
        **{
            name: tag and {"name": tag.name, "span": _span(tag.span)}
            for name, tag in (("dead_tag", citation.dead_tag), ("archive_tag", citation.archive_tag))
        },
    }


def _span(span: citation_model.TextSpan) -> list[int]:
    return [span.start, span.end]


_KEYS: Final = frozenset({"condition", "copy", "is_ours", "bad_archives"})
_COPY_KEYS: Final = frozenset({"address", "timestamp", "service", "title"})
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


@cli_command("repair")
def repair_command(
    *,
    file: IO[bytes] = argument("FILE|-", type=click.File("rb")),
    remedies: IO[bytes] = option(
        "JSON file with the condition and copy of each URL of the page.",
        type=click.File("rb"),
        required=True,
        metavar="FILE",
    ),
    language: str = option("The wiki's.", default="en"),
    own: Path | None = option(
        "A template map in TOML to apply over that of the language.", "--templates", type=EXISTING_FILE
    ),
    bot: str = option("Account to name in tags.", default="", metavar="NAME"),
    as_diff: bool = option("Show what would change, instead of the text.", "--diff"),
) -> int:
    """Repair the lost links in a page's wikitext, and print it.

    No request is made, and nothing is saved. Links that are not changed are listed with the reason, and make the
    command end with 1; those are all where the page excludes bots. See docs/reference/repairs.md.
    """
    text = read_page_text(file)
    try:
        listed = json.loads(remedies.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{remedies.name} is not JSON: {error}") from error
    if not isinstance(listed, Mapping):
        raise InputError(f"{remedies.name} must be an object: a remedy for each URL.")
    known = {url: _remedy(url, entry) for url, entry in listed.items()}
    now = CLOCK.now().astimezone(UTC)
    rules = read_rules(language, own)
    citations = read_citations(text, rules, today=now.date())
    if not edit_objection(text, bot):
        done = repair_page(text, citations, known, rules, citation_model.RepairOptions(now, bot))
    else:
        selected = (each for each in citations if each.url in known)
        forbidden = citation_model.NoRepairReason.FORBIDDEN
        left = tuple(citation_model.UnrepairedCitation(each, forbidden) for each in selected)
        done = citation_model.RepairedText(text, (), left)
    if output.is_json:
        changes = [json_facts(each, "kind url archive_url before after") for each in done.changes]
        refused = [{"url": each.citation.url, "reason": each.reason} for each in done.refused]
        output.json({"text": done.text, "changes": changes, "refused": refused})
    elif as_diff:
        for line in unified_diff_of(text, done.text, Path(file.name).name).splitlines():
            click.secho(line, fg=_COLOURS.get(line[:1]))
    else:
        click.echo(done.text, nl=False)
    for each in done.refused:
        output.say(skip_reason_line(each), err=True)
    return ExitCode.SOME_FAILED if done.refused else ExitCode.OK


def _remedy(url: str, entry: Any) -> citation_model.LinkRemedy:
    place = f"The remedy of {url[:200]}"
    if not isinstance(entry, Mapping) or not entry.keys() <= _KEYS:
        raise InputError(f"{place} must be an object with {', '.join(sorted(_KEYS))}.")
    if entry.get("condition") not in set(citation_model.LinkCondition):
        raise InputError(f"{place} has no condition; it is one of {', '.join(citation_model.LinkCondition)}.")
    copy, bad = entry.get("copy"), entry.get("bad_archives", [])
    if copy is not None and not (
        isinstance(copy, Mapping)
        and copy.keys() <= _COPY_KEYS
        and all(isinstance(value, str) for value in copy.values())
        and copy.get("address")
    ):
        raise InputError(
            f"{place} has an invalid copy: it needs an address, and if known a timestamp, service and title."
        )
    if not isinstance(bad, list) or not all(isinstance(each, str) for each in bad):
        raise InputError(f"{place} has bad_archives that are not a list of addresses.")
    return citation_model.LinkRemedy(
        citation_model.LinkCondition(entry["condition"]),
        citation_model.ArchivedCopy(**{"timestamp": "", **copy}) if copy is not None else None,
        entry.get("is_ours") is True,
        frozenset(bad),
    )
