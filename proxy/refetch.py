"""Repeated requests within a visit, for responses that the browser did not receive whole.

GET only, once for each URL, byte for byte, within a shared byte allowance. A URL that the browser never requested
gets the headers that all requests of the visit have, and no cookie, as the browser's choice is unknown.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urljoin

from core.urls import fetch_key
from net.http1 import MalformedMessageError, RequestHead, forwarded_request, with_headers
from proxy.browser_connection import Origin, host_header, parse_absolute, parse_tunnelled
from proxy.exchange import Exchange, ExchangeContext
from proxy.limits import ByteAllowance
from proxy.request_log import RefetchRequest, RequestOutcome
from proxy.visit_registry import VisitSession

REDIRECTS = 10
# Of the visit's first request, what any other has as well.
_COMMON = (b"user-agent", b"accept-language", b"accept-encoding", b"dnt", b"sec-gpc")
_HINTS = b"sec-ch-ua"
_SPELLED = re.compile(r"[!-~]+")


class RefetchExchange(Exchange):
    """Exchange without a browser; its bytes are counted against the allowance, too."""

    def __init__(
        self, tools: ExchangeContext, visit: VisitSession, repeat: RefetchRequest, allowance: ByteAllowance
    ) -> None:
        super().__init__(tools, visit, repeat.url, "GET", awaited=True)
        self.entry.again = repeat.reason
        self._allowance = allowance
        self._over = False

    def count(self, size: int) -> None:
        """Count received bytes; cut the exchange when the allowance is used up."""
        super().count(size)
        if not self._allowance.take(size) and not self._over:
            self._over = True
            self.cut("length")

    def run_alone(self, origin: Origin, request: bytes) -> None:
        """Run it to its end, unless the visit has reached a limit."""
        entry = self.entry
        if refusal := self._tools.limits.refusal(self.visit):
            entry.kept, entry.reason = RequestOutcome.BLOCKED, refusal
            return
        super().run_alone(origin, request)
        if self._over and (entry.truncated or not entry.status):
            entry.reason = "limit: refetch_limit_bytes"


def refetch(
    tools: ExchangeContext, visit: VisitSession, repeats: Sequence[RefetchRequest], *, limit_bytes: int
) -> None:
    """Start all repeated requests; `VisitSession.wait` waits for the responses."""
    allowance = ByteAllowance(limit_bytes)
    for repeat in repeats:
        _begin(tools, visit, repeat, allowance, REDIRECTS)


def _begin(
    tools: ExchangeContext, visit: VisitSession, repeat: RefetchRequest, allowance: ByteAllowance, redirects: int
) -> None:
    try:
        origin, request = visit.unanswered.get(repeat.url) or _build_request(visit, repeat)
    except MalformedMessageError:
        return  # URLs that no browser can have requested from a proxy
    exchange = RefetchExchange(tools, visit, repeat, allowance)
    if visit.begin(exchange, exchange.entry):
        return

    def follow() -> None:
        target = ""
        if exchange.entry.location and redirects:
            with suppress(ValueError):  # it cannot be requested
                target = fetch_key(urljoin(exchange.url, exchange.entry.location), allow_single_label=True)
        if target:
            _begin(tools, visit, replace(repeat, url=target), allowance, redirects - 1)

    exchange.start_alone(origin, request, follow)


def _build_request(visit: VisitSession, repeat: RefetchRequest) -> tuple[Origin, bytes]:
    """Build a request as this visit's browser would have made it, or raise MalformedMessageError."""
    url = repeat.url
    if not _SPELLED.fullmatch(url):
        raise MalformedMessageError("A browser sends URLs in ASCII without blanks.")
    if url[:8].lower() != "https://":
        origin, target, _ = parse_absolute(url)
    else:
        # The same rules, and another port: the rest of the URL is read as any.
        host, _, target = url[8:].partition("/")
        (host, port, _), target, _ = parse_absolute(
            f"http://{host if ':' in host.rpartition(']')[2] else host + ':443'}/{target}"
        )
        origin = (host, port, True)
        target = parse_tunnelled(target, origin)[0]
    headers = [h for h in visit.first_headers if h[0] in _COMMON or h[0].startswith(_HINTS)]
    headers.insert(0, (b"host", b"Host", b""))
    headers.append((b"accept", b"Accept", repeat.accept.encode("latin-1", "ignore")))
    if repeat.referer:
        headers.append((b"referer", b"Referer", repeat.referer.encode("latin-1", "ignore")))
    head = with_headers(RequestHead("GET", target, b"HTTP/1.1", tuple(headers)), visit.headers)
    return origin, forwarded_request(head, target=target, host=host_header(origin), length=None)
