"""How much one response, one visit and one run may receive, asked for after every piece (C-08, C-10).

Counting when a request is over would be too late: the ones that matter never end.
"""

from dataclasses import dataclass

from core.errors import DiskFullError, WeboidError
from core.settings import ProxySettings
from proxy.disk import Disk
from proxy.tally import Tally
from proxy.visits import Visit

_VISIT = "limit: visit_limit_bytes"
_CRAWL = "limit: crawl_limit_bytes"


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that was reached.

    Attributes:
        truncated: the WARC-Truncated of what was kept (WARC/1.1, 5.13).
        reason: which limit, for the ledger.
        failure: set when the visit as a whole is worth nothing now, and should be made again.
    """

    truncated: str
    reason: str
    failure: WeboidError | None = None


class Limits:
    """The limits of a proxy process. Thread-safe."""

    def __init__(self, settings: ProxySettings, tally: Tally, disk: Disk) -> None:
        self._body_bytes = settings.body_limit_bytes
        self._visit_bytes = settings.visit_limit_bytes
        self._crawl_bytes = settings.crawl_limit_bytes
        self._seconds = settings.response_limit_s
        self._tally = tally
        self._disk = disk

    def count(self, visit: Visit, received: int) -> None:
        """Note bytes that a visit received."""
        visit.receive(received)
        if self._crawl_bytes:
            self._tally.add(received)

    def crawl_is_over(self) -> bool:
        """Whether the run has received all that it may."""
        return bool(self._crawl_bytes) and self._tally.total() >= self._crawl_bytes

    def refusal(self, visit: Visit) -> str:
        """Why a new request of the visit must not even be sent; empty when it may."""
        if visit.received >= self._visit_bytes:
            return _VISIT
        return _CRAWL if self.crawl_is_over() else ""

    def excess(self, visit: Visit, body_bytes: int, seconds: float) -> Excess | None:
        """The limit that a response of so many bytes and seconds has reached; None when none."""
        if body_bytes >= self._body_bytes:
            return Excess("length", "limit: body_limit_bytes")
        if seconds > self._seconds:
            return Excess("time", "limit: response_limit_s")
        used_up = self.refusal(visit)
        if used_up:
            return Excess("length", used_up)
        if self._disk.is_low():
            failure = DiskFullError("Half of the reserve is gone: free some space, then go on.")
            return Excess("unspecified", "limit: disk_reserve_bytes", failure)
        return None

    def room(self, body_bytes: int) -> int:
        """How many bytes of the body may still be kept."""
        return self._body_bytes - body_bytes
