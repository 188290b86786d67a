"""Where a shared dedup index is: the setting `dedup_url`, read once and never shown with its password.

    redis://user:password@host:6379/0?index=NAME      in the clear
    rediss://host:6379/0?ca=/etc/ssl/our-ca.pem       TLS; `ca` besides the system's authorities
    unix:///run/redis/redis.sock?db=0                 a socket on this machine

The same address and `index` are the same dedup index, for whoever uses it: machines that share it
meet there. Collections that have nothing to do with each other take different names.
"""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from core.errors import ConfigError

DEFAULT_INDEX = "weboid"
DEFAULT_PORT = 6379
_WHERE = "[proxy] dedup_url"
_KNOWN = {"redis": {"index"}, "rediss": {"index", "ca"}, "unix": {"index", "db"}}
_FORM = '"redis://host:port/number", "rediss://…" for TLS, or "unix:///path"'


@dataclass(frozen=True, slots=True)
class DedupAddress:
    """A Redis server, the database in it, and the name of the dedup index there.

    Attributes:
        path: of a unix socket; empty for TCP.
        ca_file: certificates to trust, as a PEM file; empty: the system's.
    """

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    number: int = 0
    tls: bool = False
    ca_file: str = ""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    index: str = DEFAULT_INDEX

    def __str__(self) -> str:
        """The address for people: without user and password."""
        if self.path:
            return f"unix://{self.path}?db={self.number}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.number}"

    @property
    def tag(self) -> str:
        """What every key begins with: a hash tag, so that a Redis Cluster keeps all in one slot."""
        return f"{{weboid:{quote(self.index, safe='')}}}"


def parse_dedup_url(url: str) -> DedupAddress:
    """The address that the setting names.

    Raises:
        ConfigError: it is none. The text quotes nothing that could be part of a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
    except ValueError:
        # The library's words may hold a piece of the password.
        raise ConfigError(
            f"{_WHERE} cannot be read. It is {_FORM}; in a user's name or password write"
            " '/' as %2F, '@' as %40, ':' as %3A, '?' as %3F, '#' as %23, '%' as %25."
        ) from None
    known = _KNOWN.get(parts.scheme)
    if known is None:
        raise ConfigError(f"{_WHERE} must be {_FORM}.")
    if options.keys() - known or parts.fragment:
        raise ConfigError(
            f"{_WHERE}: after a {parts.scheme}:// address may stand {', '.join(sorted(known))}."
        )
    index = options.get("index", DEFAULT_INDEX)
    if not index:
        raise ConfigError(f"{_WHERE}: index needs a name, or leave it out.")
    unix = parts.scheme == "unix"
    if unix != (not host) or (unix and len(parts.path) < 2):
        raise ConfigError(f"{_WHERE} names no server. It is {_FORM}.")
    return DedupAddress(
        host=host,
        port=DEFAULT_PORT if port is None else port,
        path=unquote(parts.path) if unix else "",
        number=_number(options.get("db", "") if unix else parts.path[1:]),
        tls=parts.scheme == "rediss",
        ca_file=options.get("ca", ""),
        username=_unquoted(parts, "username"),
        password=_unquoted(parts, "password"),
        index=index,
    )


def _number(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{_WHERE}: a database of Redis has a number. It is {_FORM}.")
    return int(text or 0)


def _unquoted(parts: SplitResult, name: str) -> str:
    return unquote(getattr(parts, name) or "")
