"""Configuration of a collection: ``weboid.toml`` in its folder.

Precedence: command line, environment (``WEBOID_…``), this file, the preset (``extends``), defaults.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import tomlkit
from tomlkit.exceptions import TOMLKitError

from core.config.profile import parse_scope_setting
from core.config.settings import ScopeSettings
from core.errors import BadUrlError, ConfigError, UnavailableError
from core.layout import CONFIG_FILE, Layout
from core.urls import authority_of, fetch_key
from crawler.profiles import EXTENDS, line_of, load_chain, read_toml_text
from warc.local_storage import replace_file
from weboid.app.operator_identity import TABLE, OperatorIdentity, check_operator

# Tables of option defaults, by the command's words.
COMMAND_TABLES: Final = {
    "archive": "archive",
    "crawl": "crawl",
    "export": "export",
    "serve": "serve",
    "wiki watch": "watch",
}
OPERATOR_KEYS: Final = ("contact", "purpose_page", "addresses", "recrawl", "name")
WEBHOOK_EVENTS: Final = ("page.archived", "page.changed", "crawl.finished", "link.died", "qa.failed", "disk.low")
PROVIDER_KEYS: Final = ("issuer", "client_id", "secret_file", "scopes", "role_claim", "roles", "default_role")
_ROLES: Final = ("reader", "reviewer", "curator", "operator", "admin")  # of the console's accounts
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_PROGRAM_KEYS: Final = (
    "executable",
    "scripts",
    "flows",
    "lists",
    "sign_key",
    "sign_cert",
)  # and names with these ends:
_FILE_ENDS: Final = ("_file", "profile", EXTENDS)
_OPTION_KINDS: Final = {bool: "true or false", list: "a list", str: "a string or a number"}
SEED_KEYS: Final = {
    "url": "",
    "scope": "kind",
    "depth": "depth",
    "extra_hops": "extra_hops",
    "include": "include",
    "exclude": "exclude",
    "page_limit": "pages",
    "host_page_limit": "host_pages",
    "size_limit": "bytes",
    "time_limit": "seconds",
    "sitemaps": "sitemaps",
}


@dataclass(frozen=True, slots=True)
class SeedConfig:
    """Seed of a crawl, with the settings of its scope that differ from the collection's."""

    url: str  # fetch key
    scope: Mapping[str, Any] = field(default_factory=dict)  # of `ScopeSettings`, by name

    def applied_to(self, scope: ScopeSettings) -> ScopeSettings:
        """Return the scope with the seed's settings; patterns are added to those there are."""
        changes: dict[str, Any] = {
            key: (*getattr(scope, key), *value) if isinstance(value, tuple) else value
            for key, value in self.scope.items()
        }
        return replace(scope, **changes)


def seeds_by_scope(seeds: Iterable[SeedConfig], scope: ScopeSettings) -> dict[ScopeSettings, tuple[str, ...]]:
    """Return the URLs of the seeds by their scopes, which are `scope` with each seed's own settings."""
    groups: dict[ScopeSettings, tuple[str, ...]] = {}
    for seed in seeds:
        own = seed.applied_to(scope)
        groups[own] = (*groups.get(own, ()), seed.url)
    return groups


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """Receiver of events, from a table ``[[webhooks]]``."""

    url: str  # fetch key
    secret_file: Path  # secrets that sign its deliveries, one a line (`weboid.app.webhooks.webhook_store.read_secrets`)
    events: tuple[str, ...] = WEBHOOK_EVENTS


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    """Content of a collection's ``weboid.toml``; empty without the file."""

    path: Path
    document: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def __bool__(self) -> bool:
        """Return True when there is such a file."""
        return bool(self.text)

    @property
    def preset(self) -> str:
        """Return the preset that the file extends; empty when it names none."""
        value = self.document.get(EXTENDS, "")
        return value if isinstance(value, str) else ""

    def operator(self) -> dict[str, str]:
        """Return the table ``[operator]``. Raises ConfigError if it holds anything but texts."""
        table = self.document.get("operator", {})
        if not isinstance(table, dict) or not all(isinstance(each, str) for each in table.values()):
            raise self._error("[operator] must contain strings only.", "operator")
        for key in table.keys() - set(OPERATOR_KEYS):
            raise self._error(f"[operator] has no key {key!r}. Known: {', '.join(OPERATOR_KEYS)}.", "operator", key)
        return table

    def provider(self) -> dict[str, Any]:
        """Return the table ``[oidc]``, empty without one. Raises ConfigError."""
        table = self.document.get("oidc", {})
        if not isinstance(table, dict):
            raise self._error("[oidc] must be a table.", "oidc")
        for key, value in table.items():
            where = f"{self.place('oidc', key)}: [oidc] {key}"
            if key not in PROVIDER_KEYS:
                raise ConfigError(f"{where} is not known. Known: {', '.join(PROVIDER_KEYS)}.")
            if not isinstance(value, dict if key == "roles" else str):
                raise ConfigError(f"{where} must be {'a table of roles' if key == 'roles' else 'a string'}.")
            for role in value.values() if isinstance(value, dict) else [value] if key == "default_role" else []:
                if role not in _ROLES:
                    raise ConfigError(f"{where}: the role {role!r} is not one of {', '.join(_ROLES)}.")
        for key in ("issuer", "client_id") if "oidc" in self.document else ():
            if not table.get(key):
                raise ConfigError(f"{self.place('oidc')}: [oidc] needs {key}.")
        if table and not is_secure_address(table["issuer"]):
            raise ConfigError(f"{self.place('oidc', 'issuer')}: the issuer must be an https address.")
        if table and not (table.get("roles") or table.get("default_role")):
            raise ConfigError(f"{self.place('oidc')}: [oidc] assigns no role: set roles or default_role.")
        return dict(table)

    def options(self, command: str) -> dict[str, Any]:
        """Return the option defaults of a command, such as ``wiki watch``. Raises ConfigError."""
        name = COMMAND_TABLES.get(command, "")
        table = self.document.get(name, {}) if name else {}
        if not isinstance(table, dict):
            raise ConfigError(f"{self.place(name)}: [{name}] must be a table.")
        return table

    def check_options(self, command: str, known: Mapping[str, tuple[str, type]]) -> dict[str, Any]:
        """Return a command's option defaults by parameter; `known`: parameter and type (bool, list, str) by key."""
        defaults: dict[str, Any] = {}
        for key, value in self.options(command).items():
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                where = self.place(COMMAND_TABLES[command], key)
                raise ConfigError(f"{where}: `weboid {command}` has no option {key!r}.{hint}")
            name, kind = known[key]
            if isinstance(value, bool | list | dict) if kind is str else not isinstance(value, kind):
                text = json.dumps(value, ensure_ascii=False, default=str)
                raise ConfigError(f"{self.option_place(command, key)} must be {_OPTION_KINDS[kind]}, not {text}.")
            # Commands parse texts, as on their command line.
            defaults[name] = str(value) if kind is str else [*map(str, value)] if kind is list else value
        return defaults

    def option_place(self, command: str, key: str) -> str:
        """Return file, line and key of an option's default, for errors."""
        table = COMMAND_TABLES[command]
        return f"{self.place(table, key)}: [{table}] {key}"

    def webhooks(self) -> tuple[WebhookConfig, ...]:
        """Return the tables ``[[webhooks]]``, each URL once. Raises ConfigError, with the line of a wrong one."""
        tables = self.document.get("webhooks", [])
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise self._error("a webhook must be a table [[webhooks]].", "webhooks")
        hooks: dict[str, WebhookConfig] = {}
        for number, table in enumerate(tables):
            for key in table.keys() - {"url", "events", "secret_file"}:
                raise self._error(
                    f"a webhook has no {key!r}. Known: url, events, secret_file.", "webhooks", key, number
                )
            events = table.get("events", list(WEBHOOK_EVENTS))
            if not isinstance(events, list) or not events or not set(map(str, events)) <= set(WEBHOOK_EVENTS):
                text = f"events must be a list of some of {', '.join(WEBHOOK_EVENTS)}."
                raise self._error(text, "webhooks", "events", number)
            if not isinstance(secret := table.get("secret_file"), str) or not secret:
                text = 'a webhook needs secret_file = "FILE"; `weboid webhooks add URL` makes one.'
                raise self._error(text, "webhooks", "secret_file" if "secret_file" in table else "", number)
            try:
                url = fetch_key(str(table.get("url", "")), allow_single_label=True)
            except BadUrlError as error:
                text = f'a webhook needs url = "https://…": {error}'
                raise self._error(text, "webhooks", "url" if "url" in table else "", number) from error
            if url in hooks:
                raise self._error(f"{url} is configured twice.", "webhooks", "url", number)
            hooks[url] = WebhookConfig(url, self.path.parent / secret, tuple(events))
        return tuple(hooks.values())

    def seeds(self) -> tuple[SeedConfig, ...]:
        """Return the tables ``[[seed]]``. Raises ConfigError, with the line of a wrong one."""
        tables = self.document.get("seed", [])
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise self._error("a seed must be a table [[seed]].", "seed")
        seeds: dict[str, SeedConfig] = {}
        for number, table in enumerate(tables):
            seed = self._seed(number, table)
            if seed.url in seeds:
                raise self._error(f"{seed.url} is a seed twice.", "seed", "url", number)
            seeds[seed.url] = seed
        return tuple(seeds.values())

    def _seed(self, number: int, table: Mapping[str, Any]) -> SeedConfig:
        scope: dict[str, Any] = {}
        url = ""
        for key, value in table.items():
            where = self.place("seed", key, number)
            if key not in SEED_KEYS:
                near = get_close_matches(key, SEED_KEYS, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise ConfigError(f"{where}: a seed has no {key!r}.{hint} Known: {', '.join(SEED_KEYS)}.")
            if key != "url":
                scope[SEED_KEYS[key]] = parse_scope_setting(SEED_KEYS[key], value, f"{where}: {key}")
                continue
            try:
                url = fetch_key(str(value))
            except BadUrlError as error:
                raise ConfigError(f'{where}: a seed needs url = "https://…": {error}') from error
        if not url:
            raise self._error('a seed needs url = "https://…".', "seed", "", number)
        return SeedConfig(url, scope)

    def _error(self, text: str, table: str, key: str = "", number: int = 0) -> ConfigError:
        return ConfigError(f"{self.place(table, key, number)}: {text}")

    def place(self, table: str, key: str = "", number: int = 0) -> str:
        """Return the file and, where it is known, the line of a key, for errors."""
        line = line_of(self.text, table, key, number=number)
        return f"{self.path}, line {line}" if line else str(self.path)


def is_secure_address(address: Any) -> bool:
    """Return True for an https address, and for http on this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except (ValueError, AttributeError, TypeError):
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK))


def parse_origin(text: str) -> str:
    """Return the origin as browsers send it; empty for an empty text. Raises ConfigError."""
    if not text:
        return ""
    with suppress(ValueError, BadUrlError):
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and "@" not in parts.netloc and not any(parts[2:]):
            return f"{parts.scheme}://{authority_of(text)}"
    raise ConfigError(f"an origin is like https://archive.example, not {text!r}.")


def read_config(root: Path) -> CollectionConfig:
    """Read the configuration of the collection. Raises ConfigError: the file is not TOML."""
    path = root / CONFIG_FILE
    text = read_config_text(path)
    return CollectionConfig(path) if text is None else parse_config(path, text)


def parse_config(path: Path, text: str) -> CollectionConfig:
    """Return the configuration that the text of a file is. Raises ConfigError: it is not TOML, with the line."""
    try:
        return CollectionConfig(path, tomllib.loads(text), text or "\n")
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def read_config_text(path: Path) -> str | None:
    """Return the text of the file, None without one. Raises ConfigError."""
    try:
        return read_toml_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def file_values(document: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield place and value of each key of a configuration that names a program or a file of this machine."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        name = str(key)
        is_path = isinstance(value, str) and ("/" in value or value.endswith(".toml"))
        if name in _PROGRAM_KEYS or name.endswith("_file") or (name.endswith(_FILE_ENDS) and is_path):
            yield f"{place}{name}", value
        elif isinstance(value, dict | list):
            yield from file_values(value, f"{place}{name}.")


def write_config_table(root: Path, name: str, values: Mapping[str, str]) -> None:
    """Set keys of a table of ``weboid.toml``; comments and everything else stay. Raises UnavailableError."""
    path = root / CONFIG_FILE
    try:
        text = read_toml_text(path) if path.exists() else ""
        document = tomlkit.parse(text)
        table = document.setdefault(name, tomlkit.table())
        for key, value in values.items():
            if value:
                table[key] = value
            else:
                table.pop(key, None)
    except (OSError, ValueError, TOMLKitError) as error:
        raise UnavailableError(f"{path} cannot be changed: {error}.") from error
    write_config(root, tomlkit.dumps(document))


def write_operator(root: Path, operator: OperatorIdentity) -> None:
    """Write the operator of an existing collection into its ``weboid.toml``."""
    check_operator(operator)
    marker = Layout(root).marker
    if not marker.exists():
        raise UnavailableError(
            f"There is no collection at {root} to keep a contact address in: set WEBOID_CONTACT where its commands run."
        )
    write_config_table(root, TABLE, asdict(operator))
    try:
        text, table, _ = marker.read_text(encoding="utf-8").partition(f"[{TABLE}]")
        if table:  # of an older version, now in weboid.toml
            replace_file(marker, text.rstrip("\n") + "\n")
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{marker} cannot be changed: {error}.") from error


def write_config(root: Path, text: str) -> None:
    """Replace ``weboid.toml``, also behind a symbolic link; who may read it stays. Raises UnavailableError."""
    path = root / CONFIG_FILE
    try:
        target = path.resolve()
        replace_file(target, text, mode=target.stat().st_mode & 0o777 if target.exists() else 0o666)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be changed: {error}.") from error


def config_faults(config: CollectionConfig) -> Iterator[str]:
    """Yield the faults of settings and tables, with their lines; options are checked by their commands."""
    from crawler.profile_check import profile_faults

    try:
        chain = load_chain(str(config.path) if config else "default", config.text)
        yield from (f"{each.where}: {each.text}" for each in profile_faults(chain))
    except ConfigError as error:
        yield str(error)
    for check in (config.operator, config.provider, config.seeds, config.webhooks):
        try:
            check()
        except ConfigError as error:
            yield str(error)
