"""Finding a crawl profile by name or path, and reading it."""

import tomllib
from dataclasses import replace
from pathlib import Path

from core.errors import ConfigError
from core.profile import parse_settings
from core.settings import Settings
from render.behaviours.kinds import load_behaviours

FOLDER = Path(__file__).resolve().parent.parent / "profiles"


def names() -> list[str]:
    """The profiles that come with the program."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_profile(name: str) -> Settings:
    """The settings of a profile that comes with the program, or of a TOML file.

    Args:
        name: a profile's name, or the path of a file (it has a slash or ends in ``.toml``).

    Raises:
        ConfigError: there is none of that name, or it says something unknown or impossible, or a
            behaviour's script, whose path is relative to the profile's folder, cannot be used.
    """
    settings = parse_settings(_text(name), source=_source(name))
    behaviours = settings.behaviours
    beside = tuple(str(_path(name).resolve().parent / path) for path in behaviours.scripts)
    behaviours = replace(behaviours, scripts=beside)
    try:
        load_behaviours(behaviours)
    except ConfigError as error:
        raise ConfigError(f"{_source(name)} {error}") from error
    return replace(settings, behaviours=behaviours)


def profile_says(name: str, group: str, key: str) -> bool:
    """Whether the profile itself says something about a key, rather than leave it to its default.

    Raises:
        ConfigError: there is none of that name, or it is no TOML.
    """
    try:
        table = tomllib.loads(_text(name)).get(group)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{_source(name)} is no TOML: {error}.") from error
    return isinstance(table, dict) and key in table


def _path(name: str) -> Path:
    return Path(name) if "/" in name or name.endswith(".toml") else FOLDER / f"{name}.toml"


def _source(name: str) -> str:
    path = _path(name)
    return str(path) if path.parent != FOLDER else f"profile {name}"


def _text(name: str) -> str:
    try:
        return _path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(names())
        raise ConfigError(
            f"There is no profile {name!r}: name one of {known}, or the path of a TOML file."
        ) from error
