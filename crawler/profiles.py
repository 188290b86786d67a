"""Crawl profiles: lookup by name or path, and inheritance (``extends = "default"``) of values, by key, and sheets."""

import tomllib
import zoneinfo
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from core.config.profile import check_settings, settings_from
from core.config.settings import Settings
from core.errors import ConfigError
from core.layout import CONFIG_FILE
from render.behaviours.catalog import load_behaviours

FOLDER = Path(__file__).resolve().parent.parent / "profiles"
EXTENDS = "extends"
CONFIG_TABLES = ("operator", "oidc", "seed", "archive", "crawl", "export", "serve", "watch", "webhooks")  # no settings
CHAIN_LIMIT = 5
SIZE_LIMIT_BYTES = 10_000_000
SHEETS = ("sheets", "sheet")
_FILES = (("behaviours", "scripts"), ("behaviours", "flows"), ("login", "key_file"))


@dataclass(frozen=True, slots=True)
class ProfileLayer:
    """Profile of a chain."""

    source: str  # its name in errors
    text: str = field(repr=False)  # its TOML
    document: Mapping[str, Any] = field(repr=False)  # its values, without ``extends``


def builtin_profiles() -> list[str]:
    """List the profiles that come with the program."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_profile(name: str) -> Settings:
    """Load the settings of a built-in profile, or of a TOML file (a name with a slash or ``.toml``).

    ``FOLDER/weboid.toml@PRESET`` is a collection's configuration over that preset. Raises ConfigError.
    """
    chain = load_chain(name)
    try:
        return chain_settings(chain)
    except ConfigError as error:
        from crawler.profile_check import layer_faults

        fault = next((each for layer in chain for each in layer_faults(layer) if each.line), None)
        if fault is None:
            raise
        raise ConfigError(f"{fault.where}: {fault.text}") from error


def chain_settings(chain: tuple[ProfileLayer, ...]) -> Settings:
    """Return the settings of a chain of profiles, the last one first; errors as `load_profile`."""
    source = chain[0].source
    settings = settings_from(merge_chain(chain), source=source)
    check_settings(settings, source=source)
    check_environment(settings, source)
    return settings


def check_environment(settings: Settings, source: str) -> None:
    """Raise ConfigError, with key and available values, when a behaviour or time zone does not exist."""
    try:
        load_behaviours(settings.behaviours)
    except ConfigError as error:
        raise ConfigError(f"{source} {error}") from error
    zone = settings.visit.timezone
    known = _timezones()
    if zone and known and zone not in known:
        raise ConfigError(f"{source} [visit] timezone: {zone!r} is unknown; write one such as Europe/Berlin.")


def load_chain(name: str, first: str = "") -> tuple[ProfileLayer, ...]:
    """Load the profile, or `first` as its text, and those that it extends; ConfigError if that is not possible."""
    chain: list[ProfileLayer] = []
    file, _, preset = name.rpartition("@")
    name, preset = (file, preset) if file.endswith(CONFIG_FILE) else (name, "")
    path = _path(name)
    named_at = ""  # file and line that name the profile
    while True:
        source = str(path) if path.parent != FOLDER else f"profile {path.stem}"
        text, first = first or _text(path, name, named_at), ""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source} is not TOML: {error}.") from error
        parent = document.pop(EXTENDS, None)
        line = line_of(text, EXTENDS)
        extending = f"{source}, line {line}: {EXTENDS}" if line else f"{source}: {EXTENDS}"
        if parent is not None and not (isinstance(parent, str) and parent):
            raise ConfigError(f"{extending} must be a profile's name or the path of a file.")
        if path.name == CONFIG_FILE:
            document = {key: each for key, each in document.items() if key not in CONFIG_TABLES}
            parent = preset or parent or "default"
        # Let the files that a profile brings along be seen from its own folder.
        folder = path.resolve().parent
        for group, key in _FILES:
            table = document.get(group)
            if not isinstance(table, dict):
                continue
            value = table.get(key)
            if isinstance(value, str) and value:
                table[key] = str(folder / value)
            elif isinstance(value, list):
                table[key] = [str(folder / each) if isinstance(each, str) else each for each in value]
        chain.append(ProfileLayer(source, text, document))
        if parent is None:
            return tuple(chain)
        if len(chain) >= CHAIN_LIMIT:
            raise ConfigError(
                f"{extending} {parent!r}: a profile extends at most {CHAIN_LIMIT - 1} others, and not itself."
            )
        named_at = f"{source}, line {line}: " if line and not preset else ""
        name, path = parent, _path(parent, near=None if preset else path.parent)
        preset = ""


def merge_chain(chain: tuple[ProfileLayer, ...]) -> dict[str, Any]:
    """Merge the chain into one document. Raises ConfigError if a group is not a table."""
    whole: dict[str, Any] = {}
    sheets: list[Any] = []
    for layer in reversed(chain):
        for group, table in layer.document.items():
            if group in SHEETS:
                if not isinstance(table, list):
                    raise ConfigError(f"{layer.source}: a sheet must be a table [[sheet]].")
                sheets += table
            elif isinstance(table, dict) and isinstance(whole.get(group, {}), dict):
                whole[group] = {**whole.get(group, {}), **table}
            else:
                whole[group] = table
    return {**whole, "sheet": sheets} if sheets else whole


def profile_sets(name: str, group: str, key: str) -> bool:
    """Return True when the profile, or one that it extends, sets a key; errors as `load_chain`."""
    tables = (layer.document.get(group) for layer in load_chain(name))
    return any(isinstance(table, dict) and key in table for table in tables)


@cache
def _timezones() -> frozenset[str]:
    """Return the names of all time zones; empty on a machine without time zone data."""
    return frozenset(zoneinfo.available_timezones())


def _path(name: str, *, near: Path | None = None) -> Path:
    """Return the file of a profile; a path in another profile is relative to that one."""
    if "/" in name or name.endswith(".toml"):
        return Path(name) if near is None else near / name
    return FOLDER / f"{name}.toml"


def read_toml_text(path: Path) -> str:
    """Return the text of a TOML file, without a byte order mark. Raises OSError, and ConfigError: it is no text."""
    with path.open("rb") as file:
        data = file.read(SIZE_LIMIT_BYTES + 1)
    if len(data) > SIZE_LIMIT_BYTES:
        raise ConfigError(f"{path} is too large for a profile.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}, line {line}: TOML files must be UTF-8, which byte {error.start + 1} is not."
        ) from error


def _text(path: Path, name: str, named_at: str) -> str:
    try:
        return read_toml_text(path)
    except OSError as error:
        known = ", ".join(builtin_profiles())
        is_browser = name.endswith((".tar.gz", ".tgz")) or path.is_dir()
        login = " A browser's profile is none: store its session with `weboid login`." if is_browser else ""
        raise ConfigError(
            f"{named_at}There is no profile {name!r}: name one of {known}, or the path of a TOML file.{login}"
        ) from error


def lines_of(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (table, key, line) of each plainly written key of a TOML text, lines from 1."""
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


def line_of(text: str, *names: str, number: int = 0) -> int:
    """Return the line of a table or key, or of the innermost table that is written as one; 0 when it is unknown.

    `number`: of several tables with the first name, as ``[[seed]]``, from 0.
    """
    wanted, heads, innermost = ".".join(filter(None, names)), -1, ("", 0)
    for table, name, line in lines_of(text):
        heads += table == f"{names[0]}[]" and not name
        path = ".".join(filter(None, (table.removesuffix("[]"), name)))
        if heads in {-1, number} and f"{wanted}.".startswith(f"{path}.") and len(path) > len(innermost[0]):
            innermost = path, line
    return innermost[1]
