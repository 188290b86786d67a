"""What commands about wikitext read, pages and template maps, and how they say what was left alone."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from core.errors import ConfigError, InputError
from crawler.cli.tables import clean
from wiki.wikitext.repairing_types import Reason, Refused

_LARGEST: Final = 16_000_000  # bytes; MediaWiki's own limit is 2 MB

_WHY: Final = {
    Reason.HELD: "a person asked bots to leave it alone",
    Reason.MALFORMED: "its URL cannot be read with certainty",
    Reason.BROKEN: "its wikitext cannot be read with certainty",
    Reason.DOUBLE: "a parameter stands there twice",
    Reason.COMMENT: "a comment or markup stands where something would be written",
    Reason.SEVERAL: "the template has several links, and room for one copy",
    Reason.OTHER_TEMPLATE: "nobody said how that template names a copy",
    Reason.PLACE: "it stands in a parameter, a heading or a gallery",
    Reason.UNSAFE: "its copy is none of this page, or cannot be written there",
    Reason.NO_COPY: "there is no copy, and the wiki has no tag to say so",
    Reason.LATER: "another change is made in the same place first",
    Reason.PAYWALL: "it takes a subscription, and its site refuses us without one",
    Reason.UNSHOWN: "the address of its copy does not show it now",
    Reason.FORBIDDEN: "the page asks bots to stay away, or somebody is at work on it",
}


def left_alone(refused: Refused) -> str:
    """A line for people: which link was left as it is, and why."""
    url = clean(refused.citation.url)[:300]
    return f"left as it is ({refused.reason}: {_WHY[refused.reason]}): {url}"


def page_text(file: IO[bytes]) -> str:
    """The text of a page.

    Raises:
        InputError: it is too large, or no UTF-8.
    """
    content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise InputError(f"The page is larger than {_LARGEST // 1_000_000} MB: no wiki keeps such.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"The page is no UTF-8 (byte {error.start}): save it as UTF-8, as wikis do."
        ) from error


def template_map(path: Path | None) -> Mapping[str, Any] | None:
    """The template map in a file; None without one.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    if path is None:
        return None
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
