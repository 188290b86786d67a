"""Protocols between the checker and its probes: link prober, request rate limiter.

`links.checker.http_probe.HttpProber` is the `LinkProber` over the network. It is independent of
runs, states and quirks: the checker decides when a URL is checked, and evaluates the `CheckResult`.
"""

from collections.abc import Callable
from typing import Protocol

from links.check_result import CheckResult


class RequestLimiter(Protocol):
    """Interface that spaces requests to one host; a turn is taken before each request.

    A check may send several requests: HEAD and GET, redirects to the same host and to others. Waits
    here do not count towards the check's time limit.
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

        Args:
            url: a fetch key or identity key (`core.urls`); anything else is INVALID.
            get_only: do not send HEAD: the host is known to answer it badly (W42).
            compare: decides by the result whether an invented sibling path is requested, as in
                `probe_sibling`; the page is not requested again when it came by GET.

        Returns:
            The result. Its first hop has the status 0 when only the same URL with the other scheme
            answers, without a redirect by the server (W47).
        """

    async def probe_sibling(self, url: str) -> CheckResult:
        """Check the URL and an invented sibling path by GET, to detect soft 404s.

        Returns SUSPECT, with a note that begins with ``soft 404``, when the site answers both
        alike; else the result of `probe` by GET. For URLs with a good result; it takes at least two
        requests.
        """
