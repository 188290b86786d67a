"""Where something shared is kept in Redis: an address, read once, never shown with its password.

    redis://user:password@host:6379/0?index=NAME      in the clear
    rediss://host:6379/0?ca=/etc/ssl/our-ca.pem       TLS; `ca` besides the system's authorities
    unix:///run/redis/redis.sock?db=0                 a socket on this machine

The setting `[proxy] dedup_url` names the dedup index this way, and `[frontier] url` the frontier;
the word before NAME is ``index`` or ``frontier``. The same address and name are the same thing, for
whoever uses it: machines that share it meet there. Collections that have nothing to do with each
other take different names.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from core.errors import ConfigError

DEFAULT_NAME = "weboid"
DEFAULT_PORT = 6379
_FORM = '"redis://host:port/number", "rediss://…" for TLS, or "unix:///path"'


class RedisUse(StrEnum):
    """What is kept there; the value is the word that names it in an address."""

    DEDUP = "index"
    FRONTIER = "frontier"

    @property
    def setting(self) -> str:
        """The setting that holds the address, for people."""
        return "[proxy] dedup_url" if self is RedisUse.DEDUP else "[frontier] url"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A Redis server, the database in it, and the name of what is kept there.

    Attributes:
        use: what is kept there.
        path: of a unix socket; empty for TCP.
        ca_file: certificates to trust, as a PEM file; empty: the system's.
    """

    use: RedisUse
    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    number: int = 0
    tls: bool = False
    ca_file: str = ""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    name: str = DEFAULT_NAME

    def __str__(self) -> str:
        """The address for people: without user and password."""
        if self.path:
            return f"unix://{self.path}?db={self.number}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.number}"

    @property
    def tag(self) -> str:
        """What every key begins with: a hash tag, so that a Redis Cluster keeps all in one slot.

        No name makes two uses meet: a colon in it is escaped.
        """
        use = "frontier:" if self.use is RedisUse.FRONTIER else ""
        return f"{{weboid:{use}{quote(self.name, safe='')}}}"


def parse_redis_url(url: str, use: RedisUse) -> RedisAddress:
    """The address that the setting names.

    Raises:
        ConfigError: it is none. The text quotes nothing that could be part of a password.
    """
    where = use.setting
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
    except ValueError:
        # The library's words may hold a piece of the password.
        raise ConfigError(
            f"{where} cannot be read. It is {_FORM}; in a user's name or password write"
            " '/' as %2F, '@' as %40, ':' as %3A, '?' as %3F, '#' as %23, '%' as %25."
        ) from None
    extra = {"redis": set[str](), "rediss": {"ca"}, "unix": {"db"}}.get(parts.scheme)
    if extra is None:
        raise ConfigError(f"{where} must be {_FORM}.")
    known = extra | {use.value}
    if options.keys() - known or parts.fragment:
        raise ConfigError(
            f"{where}: after a {parts.scheme}:// address may stand {', '.join(sorted(known))}."
        )
    name = options.get(use.value, DEFAULT_NAME)
    if not name:
        raise ConfigError(f"{where}: {use.value} needs a name, or leave it out.")
    unix = parts.scheme == "unix"
    if unix != (not host) or (unix and len(parts.path) < 2):
        raise ConfigError(f"{where} names no server. It is {_FORM}.")
    return RedisAddress(
        use,
        host=host,
        port=DEFAULT_PORT if port is None else port,
        path=unquote(parts.path) if unix else "",
        number=_number(options.get("db", "") if unix else parts.path[1:], where),
        tls=parts.scheme == "rediss",
        ca_file=options.get("ca", ""),
        username=_unquoted(parts, "username"),
        password=_unquoted(parts, "password"),
        name=name,
    )


def _number(text: str, where: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{where}: a database of Redis has a number. It is {_FORM}.")
    return int(text or 0)


def _unquoted(parts: SplitResult, name: str) -> str:
    return unquote(getattr(parts, name) or "")
