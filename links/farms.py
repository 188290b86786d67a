"""Farms: projects whose wikis belong together, and which hosts are their own (W61).

A farm's own hosts are told by an expression (RE2) that is searched for in the host's name, and a wiki's
by the names it is served under. Links to them are answered by the farm itself and kept by nobody (W50).
"""

from collections.abc import Iterable

import re2

from core.errors import BadUrlError
from core.expressions import REGEX_LIMIT_BYTES, check_regex
from core.hosts import canonical_host
from core.patterns import re2_options


class OwnHosts:
    """The hosts of a farm and of one of its wikis."""

    def __init__(self, expression: str = "", servers: Iterable[str] = ()) -> None:
        """Take the farm's expression and the wiki's server names or addresses.

        Raises:
            InputError: RE2 cannot run the expression.
        """
        self._servers = frozenset(filter(None, map(server_name, servers)))
        self._search = None
        if expression:
            options = re2_options(REGEX_LIMIT_BYTES)
            self._search = re2.compile(check_regex(expression), options).search

    def has(self, host: str) -> bool:
        """Whether the canonical host is one of them."""
        if host in self._servers:
            return True
        return self._search is not None and self._search(host) is not None


def server_name(text: str) -> str:
    """The host of a server's name or address, as `$wgServer` has it; empty when it is none.

    >>> server_name("//Wiki.example.org"), server_name("https://[::1]:8080"), server_name("-x/")
    ('wiki.example.org', '[::1]', '')
    """
    rest = text.strip().partition("://")[2] or text.strip().removeprefix("//")
    authority = rest.partition("/")[0].rpartition("@")[2]
    if not authority.endswith("]"):
        host, colon, port = authority.rpartition(":")
        authority = host if colon and port.isdigit() else authority
    try:
        host = canonical_host(authority)
    except BadUrlError:
        return ""
    return host if host[:1].isalnum() or host.startswith("[") else ""
