"""Origins of the level "full", one per capture.

A capture that runs scripts gets a host of its own, ``<mac><page id>.<suffix>``. The page identifier
selects the capture, so no table is needed. The MAC before it is made with a secret shared by front
and replay, so that only the front can create addresses (P-04). It also covers the timestamp, the
URL and the reader's wiki, so that each wiki has a separate host.

On a single machine the suffix is ``localhost``, whose subdomains browsers resolve to the loopback
interface (RFC 6761, 6.3). Elsewhere it is a dedicated domain, preferably listed as a public suffix.

>>> origins = FullOrigins("http://*.localhost:8081", b"s" * 32)
>>> origin = origins.origin_of("0f1e", "20260301120000", "https://example.org/")
>>> origins.page_of(origin.removeprefix("http://"))
PageHost(mac='5k6o55o5gz6ihw4nc45b', page_id='0f1e')
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from core.errors import ConfigError

FULL_SECRET = "WEBOID_FULL_SECRET"  # noqa: S105 the environment variable's name

LOCAL = "local"  # origins below localhost, at the port of replay

_MAC_LENGTH = 20  # characters of base32: 100 bits
_PAGE_ID = r"[a-z0-9](?:[a-z0-9-]{0,40}[a-z0-9])?"  # with the code at most 62 of a label's 63
_LABEL = re.compile(rf"([a-z2-7]{{{_MAC_LENGTH}}})({_PAGE_ID})", re.ASCII)
_ORIGIN = re.compile(
    r"(?P<scheme>https?)://\*\.(?P<suffix>[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d{1,5})?)", re.ASCII
)
_LEAST_SECRET = 16  # bytes


@dataclass(frozen=True, slots=True)
class PageHost:
    """Page identifier and MAC from a host name."""

    mac: str
    page_id: str


@dataclass(frozen=True, slots=True)
class FullOrigins:
    """Origins at which captures are shown in full.

    Raises:
        ConfigError: the pattern is invalid or insecure, or the secret is too short.
    """

    pattern: str  # ``https://*.copies.example``; the star stands for one label
    secret: bytes = field(repr=False)  # shared by front and replay

    def __post_init__(self) -> None:
        """Validate pattern and secret."""
        match = _ORIGIN.fullmatch(self.pattern)
        if match is None:
            raise ConfigError(
                "The origins of full copies look like https://*.copies.example,"
                f" a star for the first label; not {self.pattern!r}."
            )
        is_local = match["suffix"].partition(":")[0] == "localhost"
        if match["scheme"] == "http" and not is_local:
            # Only there browsers send Sec-Fetch-Dest, and without that a capture's page
            # could be opened outside its frame.
            raise ConfigError(
                "Full copies need https, or *.localhost on this machine:"
                f" {self.pattern!r} is neither."
            )
        if len(self.secret) < _LEAST_SECRET:
            raise ConfigError(
                f"The secret of full copies in {FULL_SECRET} needs {_LEAST_SECRET} bytes or more;"
                " make one with: openssl rand -hex 32"
            )

    @property
    def scheme(self) -> str:
        """Return the part before the host: ``https://``."""
        return self.pattern.partition("*")[0]

    @property
    def suffix(self) -> str:
        """Return the part after the star: ``.copies.example``, with the port."""
        return self.pattern.partition("*")[2]

    def origin_of(self, page_id: str, timestamp: str, url: str, wiki: str = "") -> str | None:
        """Return the origin of a page's capture; None when its identifier fits no host name."""
        label = self._mac(page_id, timestamp, url, wiki) + page_id
        if _LABEL.fullmatch(label) is None:
            return None
        return self.pattern.replace("*", label)

    def is_ours(self, host: str) -> bool:
        """Return True when a Host header matches the pattern; the MAC is not verified."""
        return host.lower().endswith(self.suffix)

    def page_of(self, host: str) -> PageHost | None:
        """Parse a Host header; None when it does not match the pattern."""
        host = host.lower()
        match = _LABEL.fullmatch(host.removesuffix(self.suffix)) if self.is_ours(host) else None
        return None if match is None else PageHost(match[1], match[2])

    def made_for(
        self, host: PageHost, timestamp: str, url: str, wikis: Iterable[str]
    ) -> str | None:
        """Return the wiki for which the host's MAC is valid for that capture; None without one."""
        for wiki in wikis:
            if hmac.compare_digest(host.mac, self._mac(host.page_id, timestamp, url, wiki)):
                return wiki
        return None

    def _mac(self, page_id: str, timestamp: str, url: str, wiki: str) -> str:
        # Only the last can hold a line's end, so no two captures make the same text.
        text = f"{page_id}\n{timestamp}\n{wiki}\n{url}".encode(errors="surrogatepass")
        code = hmac.digest(self.secret, text, hashlib.sha256)
        return base64.b32encode(code).decode().lower()[:_MAC_LENGTH]


def full_pattern(host: str, port: int) -> str:
    """Return the pattern for local use, with replay at `port`; ConfigError unless `host` is local."""
    if host not in {"127.0.0.1", "localhost"}:
        raise ConfigError(
            "Away from this machine full copies need a domain of their own:"
            " --full-origin 'https://*.copies.example'."
        )
    return f"http://*.localhost:{port}"
