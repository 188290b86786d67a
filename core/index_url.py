"""Where a captures index of several machines is: `[index] url`, never shown with its password.

    postgresql://user:password@host:5432/name?index=NAME       TCP
    postgresql://host/name?sslmode=verify-full&sslrootcert=…    TLS, as libpq knows it
    postgresql://user@/name?host=/run/postgresql               a socket on this machine

`index` is the schema in that database that holds the tables: collections that have nothing to do
with each other take different names. Without a password libpq looks into ``~/.pgpass``.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from core.errors import ConfigError

DEFAULT_INDEX = "weboid"
DEFAULT_PORT = 5432
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_WHERE = "[index] url"
_FORM = '"postgresql://user:password@host:port/name", or "postgresql:///name?host=/folder"'
_SCHEMES = ("postgresql", "postgres")
_KNOWN = ("host", "index", "sslmode", "sslrootcert")
# What needs no quotes in SQL; `pg_` is the server's own.
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IndexAddress:
    """A PostgreSQL server, the database in it, and the schema of the index there.

    Attributes:
        host: a name, an address, or the folder of a unix socket.
        sslmode: one of `SSL_MODES`; empty: the library's default.
        ca_file: certificates to trust, as a PEM file; empty: the library's default.
    """

    host: str
    database: str
    port: int = DEFAULT_PORT
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    index: str = DEFAULT_INDEX
    sslmode: str = ""
    ca_file: str = ""

    def __str__(self) -> str:
        """The address for people: without user and password."""
        if self.host.startswith("/"):
            return f"postgresql:///{self.database}?host={self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{host}:{self.port}/{self.database}"

    @property
    def parameters(self) -> dict[str, str]:
        """The connection as libpq's parameters; what is empty is left to the library."""
        said = {
            "host": self.host,
            "port": str(self.port),
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
            "sslmode": self.sslmode,
            "sslrootcert": self.ca_file,
            "options": f"-c search_path={self.index}",
        }
        return {name: value for name, value in said.items() if value}


def parse_index_url(url: str) -> IndexAddress:
    """The address that the setting names.

    Raises:
        ConfigError: it is none. The text quotes nothing that could be part of a password.
    """
    try:
        parts = _split(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
    except ValueError:
        # The library's words may hold a piece of the password.
        raise ConfigError(
            f"{_WHERE} cannot be read. It is {_FORM}; in a user's name or password write"
            " '/' as %2F, '@' as %40, ':' as %3A, '?' as %3F, '#' as %23, '%' as %25."
        ) from None
    host, port = parts.hostname or "", parts.port
    if parts.scheme not in _SCHEMES or parts.fragment:
        raise ConfigError(f"{_WHERE} must be {_FORM}.")
    if options.keys() - set(_KNOWN):
        raise ConfigError(f"{_WHERE}: after the address may stand {', '.join(_KNOWN)}.")
    folder = options.get("host", "")
    if bool(host) == bool(folder) or (folder and not folder.startswith("/")):
        raise ConfigError(f"{_WHERE} names no server. It is {_FORM}.")
    database = unquote(parts.path[1:])
    if not database or "\0" in unquote(url):
        raise ConfigError(f"{_WHERE} names no database. It is {_FORM}.")
    return IndexAddress(
        host=host or folder,
        port=DEFAULT_PORT if port is None else port,
        database=database,
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        index=_index(options.get("index", DEFAULT_INDEX)),
        sslmode=_sslmode(options.get("sslmode", "")),
        ca_file=options.get("sslrootcert", ""),
    )


def _split(url: str) -> SplitResult:
    """The URL's parts; a ValueError when they are none, or a password was torn by its own '/'."""
    parts = urlsplit(url)
    if "@" in parts.path or (parts.port is not None and not parts.hostname):
        raise ValueError("torn")
    return parts


def _index(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{_WHERE}: index is a name of small letters, digits and _, at most 40, not pg_…."
        )
    return name


def _sslmode(mode: str) -> str:
    if mode and mode not in SSL_MODES:
        raise ConfigError(f"{_WHERE}: sslmode is one of {', '.join(SSL_MODES)}.")
    return mode
