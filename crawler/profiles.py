"""Finding a crawl profile by name or path, and reading it.

A profile may extend another (``extends = "default"``): what it says is laid over what that one says,
key by key; its sheets follow that one's. The chain is short, and ends at the defaults.
"""

import tomllib
import zoneinfo
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from core.profile import check_settings, settings_from
from core.settings import Settings
from render.behaviours.running import load_behaviours

FOLDER = Path(__file__).resolve().parent.parent / "profiles"
EXTENDS = "extends"
CHAIN_LIMIT = 5
SIZE_LIMIT_BYTES = 10_000_000
_SHEETS = ("sheets", "sheet")
_FILES = (("behaviours", "scripts"), ("login", "key_file"))


@dataclass(frozen=True, slots=True)
class Layer:
    """One profile of a chain.

    Attributes:
        source: how errors name it.
        text: its TOML.
        document: what it says, ``extends`` left out.
    """

    source: str
    text: str = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)


def names() -> list[str]:
    """The profiles that come with the program."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_profile(name: str) -> Settings:
    """The settings of a profile that comes with the program, or of a TOML file.

    Args:
        name: a profile's name, or the path of a file (it has a slash or ends in ``.toml``).

    Raises:
        ConfigError: there is none of that name, or it says something unknown or impossible.
    """
    return settings_of(layers(name))


def settings_of(chain: tuple[Layer, ...]) -> Settings:
    """The settings that a chain of profiles says, the last one first.

    Raises:
        ConfigError: as `load_profile`.
    """
    source = chain[0].source
    settings = settings_from(merged(chain), source=source)
    check_settings(settings, source=source)
    check_world(settings, source)
    return settings


def laid_over(settings: Settings, name: str, groups: Collection[str]) -> Settings:
    """The settings with what a profile says of these groups laid over them, key by key.

    Raises:
        ConfigError: as `load_profile`.
    """
    for group, keys in _changes(name).items():
        if group in groups:
            settings = replace(settings, **{group: replace(getattr(settings, group), **keys)})
    return settings


@cache
def _changes(name: str) -> dict[str, dict[str, Any]]:
    """What a profile says, by group, types checked."""
    chain = layers(name)
    said, whole = merged(chain), settings_of(chain)
    return {
        group: {key: getattr(getattr(whole, group), key) for key in table}
        for group, table in said.items()
        if group not in _SHEETS
    }


def check_world(settings: Settings, source: str) -> None:
    """Refuse what is well-formed, and is not there: behaviours, time zones.

    Raises:
        ConfigError: the text names the key and what there is.
    """
    try:
        load_behaviours(settings.behaviours)
    except ConfigError as error:
        raise ConfigError(f"{source} {error}") from error
    zone = settings.visit.timezone
    known = _timezones()
    if zone and known and zone not in known:
        raise ConfigError(
            f"{source} [visit] timezone: {zone!r} is none; write one such as Europe/Berlin."
        )


def layers(name: str) -> tuple[Layer, ...]:
    """The profile, and what it extends, one after the other.

    Raises:
        ConfigError: one of them is not there, is no TOML, or the chain does not end.
    """
    chain: list[Layer] = []
    path = _path(name)
    while True:
        source = _source(path)
        text = _text(path, name)
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source} is no TOML: {error}.") from error
        parent = document.pop(EXTENDS, None)
        _place_files(document, path.resolve().parent)
        chain.append(Layer(source, text, document))
        if parent is None:
            return tuple(chain)
        if not isinstance(parent, str) or not parent:
            raise ConfigError(f"{source} {EXTENDS} must be a profile's name or the path of a file.")
        if len(chain) >= CHAIN_LIMIT:
            raise ConfigError(
                f"{source} {EXTENDS} {parent!r}: a profile extends at most {CHAIN_LIMIT - 1} others, "
                "and none itself."
            )
        name, path = parent, _path(parent, near=path.parent)


def _place_files(document: dict[str, Any], folder: Path) -> None:
    """Let the files that a profile brings along be seen from its own folder."""
    for group, key in _FILES:
        table = document.get(group)
        if not isinstance(table, dict):
            continue
        value = table.get(key)
        if isinstance(value, str) and value:
            table[key] = str(folder / value)
        elif isinstance(value, list):
            table[key] = [str(folder / each) if isinstance(each, str) else each for each in value]


def merged(chain: tuple[Layer, ...]) -> dict[str, Any]:
    """What the chain says as one document.

    Raises:
        ConfigError: a group is no table.
    """
    whole: dict[str, Any] = {}
    sheets: list[Any] = []
    for layer in reversed(chain):
        for group, table in layer.document.items():
            if group in _SHEETS:
                if not isinstance(table, list):
                    raise ConfigError(f"{layer.source}: a sheet must be a table [[sheet]].")
                sheets += table
            elif isinstance(table, dict) and isinstance(whole.get(group, {}), dict):
                whole[group] = {**whole.get(group, {}), **table}
            else:
                whole[group] = table
    return {**whole, "sheet": sheets} if sheets else whole


def said_by(chain: tuple[Layer, ...], group: str, key: str) -> str:
    """The source of the profile that says the key; empty when none does."""
    return next((layer.source for layer in chain if _says(layer, group, key)), "")


def profile_says(name: str, group: str, key: str) -> bool:
    """Whether the profile, or what it extends, says something about a key.

    Raises:
        ConfigError: there is none of that name, or it is no TOML.
    """
    return bool(said_by(layers(name), group, key))


def _says(layer: Layer, group: str, key: str) -> bool:
    table = layer.document.get(group)
    return isinstance(table, dict) and key in table


@cache
def _timezones() -> frozenset[str]:
    """Every name that this machine knows; none where it has no such data."""
    return frozenset(zoneinfo.available_timezones())


def _path(name: str, *, near: Path | None = None) -> Path:
    """The file of a profile; a path that another profile names is seen from there."""
    if "/" in name or name.endswith(".toml"):
        return Path(name) if near is None else near / name
    return FOLDER / f"{name}.toml"


def _source(path: Path) -> str:
    return str(path) if path.parent != FOLDER else f"profile {path.stem}"


def _text(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
        if len(data) > SIZE_LIMIT_BYTES:
            raise ConfigError(f"{path} is too large for a profile.")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(names())
        raise ConfigError(
            f"There is no profile {name!r}: name one of {known}, or the path of a TOML file."
        ) from error


def lines_of(text: str) -> Iterator[tuple[str, str, int]]:
    """(table, key, line) of each key that a TOML text says in the plain way, lines from 1."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("[["):
            table = bare.partition("]]")[0].lstrip("[").strip() + "[]"
            yield table, "", number
        elif bare.startswith("["):
            table = bare.partition("]")[0].lstrip("[").strip()
            yield table, "", number
        elif "=" in bare and not bare.startswith("#"):
            yield table, bare.partition("=")[0].strip().strip("\"'"), number
