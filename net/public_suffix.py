"""Registrable domains of hosts, by the Public Suffix List."""

from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=8192)
def registrable(host: str) -> str:
    """Return the host's registrable domain; the host itself without one.

    >>> registrable("www.example.co.uk"), registrable("192.0.2.1"), registrable("[2001:db8::1]")
    ('example.co.uk', '192.0.2.1', '[2001:db8::1]')
    """
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host  # an address has no suffix that others share
    return _suffixes().privatesuffix(host) or host


def warm_up() -> None:
    """Load the list of public suffixes now, which takes a fraction of a second."""
    _suffixes()


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
