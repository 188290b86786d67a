"""`weboid wiki repair`: a page's text with its lost links mended, to see what the bot would do."""

import json
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import IO, Any, Final

import click

from core.clock import SystemClock
from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.options import json_option
from crawler.cli.wiki.texts import left_alone, page_text, template_map
from wiki.wikitext.permission import is_busy, may_edit
from wiki.wikitext.reading import read_citations
from wiki.wikitext.repairing import repair
from wiki.wikitext.repairing_types import (
    Archived,
    Condition,
    Reason,
    Refused,
    Remedy,
    Repaired,
    RepairOptions,
)
from wiki.wikitext.rules import rules_for
from wiki.wikitext.showing import diff_of

_CLOCK = SystemClock()
_KEYS: Final = frozenset({"condition", "copy", "is_ours", "bad_archives"})
_COPY_KEYS: Final = frozenset({"address", "timestamp", "service", "title"})
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


@click.command("repair")
@click.argument("file", type=click.File("rb"), metavar="FILE|-")
@click.option(
    "--remedies",
    type=click.File("rb"),
    required=True,
    metavar="FILE",
    help="What is known of the page's links, in JSON: by URL, a condition and a copy.",
)
@click.option("--language", default="en", show_default=True, help="The wiki's.")
@click.option(
    "--templates",
    "own",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A template map in TOML to lay over that of the language.",
)
@click.option("--bot", default="", metavar="NAME", help="The account that tags are to name.")
@click.option(
    "--diff", "as_diff", is_flag=True, help="Show what would change, instead of the text."
)
@json_option
def command(
    *,
    file: IO[bytes],
    remedies: IO[bytes],
    language: str,
    own: Path | None,
    bot: str,
    as_diff: bool,
    as_json: bool,
) -> int:
    """Mend the lost links in a page's wikitext, and print it.

    Nothing is asked, and nothing is saved. What is left as it is is told with its reason, and ends the
    command with 1; that is everything where the page asks bots to stay away. See docs/repairs.md.
    """
    text = page_text(file)
    known = _remedies(remedies)
    now = _CLOCK.now().astimezone(UTC)
    rules = rules_for(language, template_map(own))
    citations = read_citations(text, rules, today=now.date())
    if may_edit(text, bot) and not is_busy(text):
        done = repair(text, citations, known, rules, RepairOptions(now, bot))
    else:
        asked = (each for each in citations if each.url in known)
        done = Repaired(text, (), tuple(Refused(each, Reason.FORBIDDEN) for each in asked))
    if as_json:
        click.echo(json.dumps(_document(done), ensure_ascii=False))
    elif as_diff:
        for line in diff_of(text, done.text, Path(file.name).name).splitlines():
            click.secho(line, fg=_COLOURS.get(line[:1]))
    else:
        click.echo(done.text, nl=False)
    for each in () if as_json else done.refused:
        click.echo(left_alone(each), err=True)
    return Exit.SOME_FAILED if done.refused else Exit.OK


def _document(done: Repaired) -> dict[str, Any]:
    return {
        "text": done.text,
        "changes": [
            {
                "kind": each.kind,
                "url": each.url,
                "archive_url": each.archive_url,
                "before": each.before,
                "after": each.after,
            }
            for each in done.changes
        ],
        "refused": [{"url": each.citation.url, "reason": each.reason} for each in done.refused],
    }


def _remedies(file: IO[bytes]) -> dict[str, Remedy]:
    """The remedies in a file.

    Raises:
        InputError: it has another form.
    """
    try:
        document = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name} is no JSON: {error}") from error
    if not isinstance(document, Mapping):
        raise InputError(f"{file.name} must be an object: a remedy for each URL.")
    return {url: _remedy(url, said) for url, said in document.items()}


def _remedy(url: str, said: Any) -> Remedy:
    place = f"The remedy of {url[:200]}"
    if not isinstance(said, Mapping) or not said.keys() <= _KEYS:
        raise InputError(f"{place} must be an object with {', '.join(sorted(_KEYS))}.")
    if said.get("condition") not in set(Condition):
        raise InputError(f"{place} has no condition; it is one of {', '.join(Condition)}.")
    copy, bad = said.get("copy"), said.get("bad_archives", [])
    if copy is not None and not (
        isinstance(copy, Mapping)
        and copy.keys() <= _COPY_KEYS
        and all(isinstance(value, str) for value in copy.values())
        and copy.get("address")
    ):
        raise InputError(
            f"{place} has a copy that is none: an address, and if known a timestamp, service and title."
        )
    if not isinstance(bad, list) or not all(isinstance(each, str) for each in bad):
        raise InputError(f"{place} has bad_archives that are no list of addresses.")
    return Remedy(
        Condition(said["condition"]),
        Archived(**{"timestamp": "", **copy}) if copy is not None else None,
        said.get("is_ours") is True,
        frozenset(bad),
    )
