"""URL split into scheme, host, port and path, with its registry key and bucket.

The host has two spellings: the canonical one, and MediaWiki's index form (``org.example.www.``, X08).
"""

import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

from core.urls import identity_key

KEY_BYTES = 16  # 64 bits would meet their like once in a few hundred registries of 5e8 URLs
BUCKETS = 1024
SCHEMES = ("http", "https")  # by their numbers in the registry
DEFAULT_PORTS = {"http": 80, "https": 443}
_PARTS = re.compile(r"(https?)://(\[[^\]]*\]|[^/:]*)(?::(\d+))?(.*)", re.DOTALL)
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class UrlParts:
    """Parts of a URL."""

    scheme: str  # ``http`` or ``https``
    host: str  # canonical: lower case, punycode, no final dot; IPv6 in brackets
    port: int  # 0 when it is the scheme's own
    path: str  # from the first slash on, with query and a fragment that names a page (``#!``)

    @property
    def authority(self) -> str:
        """Return the host, and the port unless it is the scheme's own, as in a Host header."""
        return f"{self.host}:{self.port}" if self.port else self.host

    @property
    def real_port(self) -> int:
        """Return the port, also when it is the scheme's own."""
        return self.port or DEFAULT_PORTS[self.scheme]

    @property
    def url(self) -> str:
        """Return the identity key."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def key(self) -> bytes:
        """Return `key_of` the URL."""
        return key_of(self.url)


def url_parts_of(url: str) -> UrlParts:
    """Split the URL's identity key; BadUrlError when it is not an http(s) URL.

    >>> url_parts_of("HTTPS://Example.org:8443/a?b#c")
    UrlParts(scheme='https', host='example.org', port=8443, path='/a?b')
    """
    return split_identity(identity_key(url))


def split_identity(identity: str) -> UrlParts:
    """Split an identity key."""
    parts = _PARTS.fullmatch(identity)
    assert parts is not None, identity
    return UrlParts(parts[1], parts[2], int(parts[3] or 0), parts[4])


def key_of(identity: str) -> bytes:
    """Return the registry's key of an identity key: a digest of `KEY_BYTES` bytes."""
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def bucket_of(host: str) -> int:
    """Return the bucket of a host, below `BUCKETS`; checkers and partitions are assigned buckets."""
    return int.from_bytes(blake2b(host.encode("utf-8", "surrogatepass"), digest_size=2).digest(), "big") % BUCKETS


def domain_index(host: str) -> str:
    """Return the canonical host in the order of MediaWiki's externallinks table, without scheme (X08).

    >>> domain_index("www.example.org"), domain_index("192.0.2.1")
    ('org.example.www.', 'V4.192.0.2.1.')
    """
    if host.startswith("["):
        groups = ipaddress.IPv6Address(host.strip("[]")).exploded.split(":")
        return f"V6.{'.'.join(group.lstrip('0').upper() or '0' for group in groups)}."
    if _IPV4.fullmatch(host):
        return f"V4.{host}."
    labels = host.split(".")
    for place, label in enumerate(labels):
        if label.startswith("xn--"):  # MediaWiki indexes IDNs in UTF-8
            with suppress(UnicodeError):
                labels[place] = label.encode("ascii").decode("idna")
    return ".".join(reversed(labels)) + "."
