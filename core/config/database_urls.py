"""Addresses of databases: PostgreSQL and Redis URLs.

    postgresql://user:password@host:5432/name?index=NAME       TCP; without a password ``~/.pgpass``
    postgresql://host/name?sslmode=verify-full&sslrootcert=…    TLS, as libpq knows it
    postgresql://user@/name?host=/run/postgresql               a socket on this machine
    redis://user:password@host:6379/0?index=NAME               without encryption
    rediss://host:6379/0?ca=/etc/ssl/our-ca.pem                TLS; `ca` in addition to the system's authorities
    unix:///run/redis/redis.sock?db=0                          a socket on this machine

NAME is the schema of the tables, or the prefix of the keys; the parameter before it is ``index`` or, in
`[frontier] url`, ``frontier``. Machines with the same address and name share the data.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from core.errors import ConfigError
from core.hosts import join_host_port

DEFAULT_INDEX = "weboid"
DEFAULT_POSTGRES_PORT = 5432
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_INDEX_SETTING = "[index] url"
_POSTGRES_FORM = '"postgresql://user:password@host:port/name", or "postgresql:///name?host=/folder"'
_SCHEMES = ("postgresql", "postgres")
_KNOWN = ("host", "index", "sslmode", "sslrootcert")
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,39}", re.ASCII)  # without quotes in SQL; the server reserves `pg_`


@dataclass(frozen=True, slots=True)
class IndexAddress:
    """PostgreSQL server, database and schema of the index."""

    host: str  # a name, an address, or the folder of a unix socket
    database: str
    port: int = DEFAULT_POSTGRES_PORT
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    index: str = DEFAULT_INDEX
    sslmode: str = ""  # one of `SSL_MODES`; empty: the library's default
    ca_file: str = ""  # certificates to trust, as a PEM file; empty: the library's default

    def __str__(self) -> str:
        """Format the address for messages: without user and password."""
        if self.host.startswith("/"):
            return f"postgresql:///{self.database}?host={self.host}"
        return f"postgresql://{join_host_port(self.host, self.port)}/{self.database}"

    @property
    def parameters(self) -> dict[str, str]:
        """Return the connection as libpq parameters; empty ones are left to the library."""
        parameters = {
            "host": self.host,
            "port": str(self.port),
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
            "sslmode": self.sslmode,
            "sslrootcert": self.ca_file,
            "options": f"-c search_path={self.index}",
        }
        return {name: value for name, value in parameters.items() if value}


def parse_index_url(url: str) -> IndexAddress:
    """Parse the address of the index; the text of a ConfigError quotes no part of a password."""
    parts, options = _split(url, _INDEX_SETTING, _POSTGRES_FORM)
    host, port = parts.hostname or "", parts.port
    if parts.scheme not in _SCHEMES or parts.fragment:
        raise ConfigError(f"{_INDEX_SETTING} must be {_POSTGRES_FORM}.")
    if options.keys() - set(_KNOWN):
        raise ConfigError(f"{_INDEX_SETTING}: options after the address: {', '.join(_KNOWN)}.")
    folder = options.get("host", "")
    if bool(host) == bool(folder) or (folder and not folder.startswith("/")):
        raise ConfigError(f"{_INDEX_SETTING} has no server. Write {_POSTGRES_FORM}.")
    database = unquote(parts.path[1:])
    if not database or "\0" in unquote(url):
        raise ConfigError(f"{_INDEX_SETTING} has no database. Write {_POSTGRES_FORM}.")
    index = options.get("index", DEFAULT_INDEX)
    if not _NAME.fullmatch(index):
        raise ConfigError(
            f"{_INDEX_SETTING}: index is a name of at most 40 lower-case letters, digits and _, not pg_…."
        )
    sslmode = options.get("sslmode", "")
    if sslmode and sslmode not in SSL_MODES:
        raise ConfigError(f"{_INDEX_SETTING}: sslmode is one of {', '.join(SSL_MODES)}.")
    return IndexAddress(
        host=host or folder,
        port=DEFAULT_POSTGRES_PORT if port is None else port,
        database=database,
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        index=index,
        sslmode=sslmode,
        ca_file=options.get("sslrootcert", ""),
    )


def _split(url: str, setting: str, form: str) -> tuple[SplitResult, dict[str, str]]:
    """Return the URL's parts and parameters; ConfigError also for an unescaped '/' in a password."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
        is_torn = "@" in parts.path or (parts.port is not None and not parts.hostname)
        if parts.scheme == "unix" or not is_torn:
            return parts, options
    except ValueError:  # the library's message may contain a part of the password
        pass
    raise ConfigError(
        f"{setting} cannot be read. It is {form}; in a user's name or password write"
        " '/' as %2F, '@' as %40, ':' as %3A, '?' as %3F, '#' as %23, '%' as %25."
    )


DEFAULT_REDIS_NAME = "weboid"
DEFAULT_REDIS_PORT = 6379
_REDIS_URL_FORM = '"redis://host:port/number", "rediss://…" for TLS, or "unix:///path"'


class RedisUse(StrEnum):
    """Kind of data in Redis; the value is the parameter that names it in an address."""

    DEDUP = "index"
    FRONTIER = "frontier"

    @property
    def setting(self) -> str:
        """Return the name of the setting that holds the address."""
        return "[proxy] dedup_url" if self is RedisUse.DEDUP else "[frontier] url"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Redis server, database, and name of the data."""

    use: RedisUse
    host: str = ""
    port: int = DEFAULT_REDIS_PORT
    path: str = ""  # of a unix socket; empty for TCP
    number: int = 0
    tls: bool = False
    ca_file: str = ""  # certificates to trust, as a PEM file; empty: the system's
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    name: str = DEFAULT_REDIS_NAME

    def __str__(self) -> str:
        """Format the address for messages: without user and password."""
        if self.path:
            return f"unix://{self.path}?db={self.number}"
        return f"{'rediss' if self.tls else 'redis'}://{join_host_port(self.host, self.port)}/{self.number}"

    @property
    def tag(self) -> str:
        """Return the prefix of every key: a hash tag, so that a Redis Cluster keeps all in one slot."""
        use = "frontier:" if self.use is RedisUse.FRONTIER else ""
        return f"{{weboid:{use}{quote(self.name, safe='')}}}"


def parse_redis_url(url: str, use: RedisUse) -> RedisAddress:
    """Parse the address of a Redis; the text of a ConfigError quotes no part of a password."""
    where = use.setting
    parts, options = _split(url, where, _REDIS_URL_FORM)
    host, port = parts.hostname or "", parts.port
    extra = {"redis": set[str](), "rediss": {"ca"}, "unix": {"db"}}.get(parts.scheme)
    if extra is None:
        raise ConfigError(f"{where} must be {_REDIS_URL_FORM}.")
    known = extra | {use.value}
    if options.keys() - known or parts.fragment:
        raise ConfigError(f"{where}: after a {parts.scheme}:// address the options are {', '.join(sorted(known))}.")
    name = options.get(use.value, DEFAULT_REDIS_NAME)
    if not name:
        raise ConfigError(f"{where}: {use.value} needs a name; omit it otherwise.")
    unix = parts.scheme == "unix"
    if unix != (not host) or (unix and len(parts.path) < 2):
        raise ConfigError(f"{where} has no server. Write {_REDIS_URL_FORM}.")
    number = options.get("db", "") if unix else parts.path[1:]
    if number and not (number.isascii() and number.isdigit()):
        raise ConfigError(f"{where}: a Redis database has a number. Write {_REDIS_URL_FORM}.")
    return RedisAddress(
        use,
        host=host,
        port=DEFAULT_REDIS_PORT if port is None else port,
        path=unquote(parts.path) if unix else "",
        number=int(number or 0),
        tls=parts.scheme == "rediss",
        ca_file=options.get("ca", ""),
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        name=name,
    )


def check_store_urls(dedup_url: str, frontier_url: str, index_url: str, *, source: str) -> None:
    """Check the addresses of shared stores, of which any may be empty; ConfigError names `source`."""
    if dedup_url:
        parse_redis_url(dedup_url, RedisUse.DEDUP)
    if frontier_url:
        parse_redis_url(frontier_url, RedisUse.FRONTIER)
    if index_url:
        parse_index_url(index_url)
        if not dedup_url:
            raise ConfigError(
                f"{source} [index] url needs [proxy] dedup_url: machines that share an index also"
                " share a dedup index, which is in Redis."
            )


def error_words(error: Exception, password: str) -> str:
    """Return a client library's error on one line, without the password and PostgreSQL's question about its server."""
    words = " ".join(str(error).split()).partition(" Is the server running")[0].rstrip(".")
    return words.replace(password, "***") if password else words
