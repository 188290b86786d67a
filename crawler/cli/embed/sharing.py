"""What the commands of `weboid embed` share: how links are marked, and who is asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from core.clock import SystemClock
from core.errors import ConfigError
from links.books.wikis import parse_wiki
from wiki.embedding.addresses import origins
from wiki.embedding.answers import Show
from wiki.embedding.asking import TIMEOUT_S, HttpLookup, Manner
from wiki.embedding.regions import parse_selector
from wiki.embedding.rewriting import LABELS, Labels, Rules
from wiki.embedding.sites import Marking

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--front",
        required=True,
        metavar="URL",
        help="The archive's pages, as `weboid serve` shows them to readers.",
    ),
    click.option(
        "--ask",
        default="",
        metavar="URL",
        help="Where to ask the front from here, when that is another address.",
    ),
    click.option(
        "--copies",
        multiple=True,
        metavar="ORIGIN",
        help="Another origin that copies may lie at; may be given several times.",
    ),
    click.option(
        "--wiki", required=True, metavar="NAME", help="Whose pages these are: handbook@me."
    ),
    click.option(
        "--show",
        type=click.Choice([str(each) for each in Show]),
        default=str(Show.ALWAYS),
        show_default=True,
        help="Offer the copy beside every link, beside dead ones, or never (classes and attributes only).",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0.05, 60),
        default=None,
        help="Seconds to wait for the front.  [default: 1 for a proxy, 30 for files]",
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Makes this an internal caller: told how links are doing, as often as it asks (`weboid serve --links-token-file`).",
    ),
    click.option(
        "--lang", default="", metavar="CODE", help="The language of what is told of a link."
    ),
)
_RULES = (
    click.option(
        "--only",
        multiple=True,
        metavar="SELECTOR",
        help="Only links that are, or lie in: nav, .class, #id, div.class; may be given several times.",
    ),
    click.option(
        "--skip",
        multiple=True,
        metavar="SELECTOR",
        help="No links that are, or lie in; `.weboid-ignore` always; may be given several times.",
    ),
    click.option(
        "--own",
        multiple=True,
        metavar="HOST",
        help="A host whose pages are no citations: *.wiki.example; may be given several times.",
    ),
)


def marking_options(command: _Command) -> _Command:
    """How links are marked, and who is asked."""
    for option in reversed((*_OPTIONS, *_RULES)):
        command = option(command)
    return command


def rule_options(command: _Command) -> _Command:
    """Which links are meant."""
    for option in reversed(_RULES):
        command = option(command)
    return command


def marking_of(options: dict[str, Any], *, base: str = "", anew: bool = True) -> Marking:
    """How links are marked, as the options say.

    Raises:
        InputError: one of them cannot be used.
    """
    marking = Marking(
        str(parse_wiki(options["wiki"])),
        Show(options["show"]),
        rules_of(options),
        base,
        options["own"],
        origins((options["front"], *options["copies"])),
        anew,
        LABELS.get(options["lang"].partition("-")[0].lower(), Labels()),
    )
    _ = marking.around().hosts  # a pattern that is none is told of now
    return marking


def rules_of(options: dict[str, Any]) -> Rules:
    """Which links are meant.

    Raises:
        ConfigError: a selector is none.
    """
    only, skip = (tuple(map(parse_selector, options[key])) for key in ("only", "skip"))
    return Rules(only, skip)


def lookup_of(options: dict[str, Any], *, is_patient: bool) -> HttpLookup:
    """Who is asked; close it.

    Args:
        options: the command's.
        is_patient: nobody waits for a page: a front that says "later" is waited for.

    Raises:
        ConfigError: the front's address is none, or there is no token in its file.
    """
    token = _token(options["token_file"])
    front = options["front"]
    if not front.startswith(("http://", "https://")):
        raise ConfigError("--front is the address of the archive's pages: https://archive.example.")
    return HttpLookup(
        options["ask"] or front,
        clock=SystemClock(),
        origins=(front, *options["copies"]),
        timeout_s=options["timeout_s"] or TIMEOUT_S,
        manner=Manner(options["lang"], token, is_patient=is_patient),
    )


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    if not token or not token.isprintable():
        raise ConfigError(f"{path} holds no token: one line of ASCII.")
    return token
