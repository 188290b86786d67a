"""Files that commands about wikitext read: pages, and template maps."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from core.errors import ConfigError, InputError

_LARGEST: Final = 16_000_000  # bytes; MediaWiki's own limit is 2 MB


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
