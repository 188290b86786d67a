"""Protocols between the checker and its probes: link prober, request rate limiter.

`links.checker.http_probe.HttpProber` is the `LinkProber` over the network. It is independent of
runs, states and quirks: the checker decides when a URL is checked, and evaluates the `CheckResult`.
"""

from collections.abc import Callable
from typing import Protocol

from links.check_result import CheckResult


class RequestLimiter(Protocol):
    """Interface that spaces requests to one host; a check takes a turn before each of its requests.

    Waits here do not count towards the check's time limit.
    """

    async def take(self, host: str) -> None:
        """Wait until a request to the host (canonical, as `core.urls.host_of`) is allowed."""


class LinkProber(Protocol):
    """Interface for checking URLs. No method raises for server or DNS behaviour."""

    async def probe(
        self,
        url: str,
        *,
        get_only: bool = False,
        compare: Callable[[CheckResult], bool] | None = None,
    ) -> CheckResult:
        """Check the URL once, following all redirects.

        With `get_only` no HEAD is sent (W42). `compare` decides by the result whether an invented sibling path
        is requested, as in `probe_sibling`. The result's first hop has the status 0 when only the same URL with
        the other scheme answers, without a redirect by the server (W47).
        """

    async def probe_sibling(self, url: str) -> CheckResult:
        """Check the URL and an invented sibling path by GET, to detect soft 404s.

        Returns SUSPECT, with a note that begins with ``soft 404``, when the site answers both alike.
        """
