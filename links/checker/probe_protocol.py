"""Protocols between the checker and its probes: link prober, request rate limiter.

`links.checker.http_probe.HttpProber` is the `LinkProber` that asks over the network. It knows nothing of passes,
states and quirks: the checker decides which URL is looked at, when, and what a `Finding` leads to.
"""

from collections.abc import Callable
from typing import Protocol

from links.check_result import CheckResult


class RequestLimiter(Protocol):
    """Spaces requests to one host. Whoever looks at a URL takes a turn before each request.

    A look may take several requests: HEAD and GET, redirects to the same host and to others. What is
    waited for here does not count towards the look's time limit.
    """

    async def take(self, host: str) -> None:
        """Return when the host (canonical, as `core.urls.host_of`) may be asked once more."""


class LinkProber(Protocol):
    """Looks at URLs. No method raises for anything that a server or a name server does."""

    async def probe(
        self,
        url: str,
        *,
        get_only: bool = False,
        compare: Callable[[CheckResult], bool] | None = None,
    ) -> CheckResult:
        """One look at the URL, with all its redirects.

        Args:
            url: a fetch key or identity key (`core.urls`); anything else is found INVALID.
            get_only: do not begin with HEAD: the host is known to answer that badly (W42).
            compare: whether what was found asks for a comparison with an invented path beside it, as
                `probe_sibling` makes it; the page is not asked for again when it came by GET.

        Returns:
            What was found. Its first hop has the status 0 when only the same URL with the other scheme
            answers: no server led there (W47).
        """

    async def probe_sibling(self, url: str) -> CheckResult:
        """A look by GET at the URL and at an invented path beside it: is this page an error page?

        SUSPECT, with a note that begins with ``soft 404``, when the site answers both alike; else
        what `probe` by GET finds. For URLs that look well; it takes at least two requests.
        """
