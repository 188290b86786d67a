"""Index rows of one batch, and the backlog of rows for an unreachable index.

Before a batch's payloads are published to other machines its records can be rolled back and written
later. Afterwards they stay on disk, and their rows form the backlog: it is written before anything
else and retried until it succeeds; writing rows is idempotent. A file with rows in the backlog
keeps its ``.open`` suffix, so that recovery finds them if the process ends first.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import IndexUnavailableError
from core.page_manifest import PageInfo
from net.backoff import ExponentialBackoff
from warc.dedup.payloads import PayloadKey
from warc.index.protocol import CaptureIndex, CaptureRow, QualityRow
from warc.record_builder import OriginalRecord

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1  # between two tries; then longer each time
LAST_PAUSE_S = 2.0


@dataclass(slots=True)
class IndexBatch:
    """Index changes of one batch of records."""

    rows: list[CaptureRow] = field(default_factory=list)
    pages: list[PageInfo] = field(default_factory=list)
    qualities: list[QualityRow] = field(default_factory=list)
    originals: dict[PayloadKey, OriginalRecord] = field(default_factory=dict)
    # File name -> bytes that the index covers after this batch.
    ends: dict[str, int] = field(default_factory=dict)

    def write(self, index: CaptureIndex) -> None:
        """Write it into the index, in the caller's transaction."""
        index.add_rows(self.rows)
        for page in self.pages:
            index.add_page(page)
        index.add_qualities(self.qualities)
        for filename, end in self.ends.items():
            index.cover(filename, end)
        index.add_payloads(self.originals)


class IndexBacklog:
    """Availability of the index and rows not yet written to it. For use from one thread."""

    def __init__(
        self,
        index: CaptureIndex,
        patience_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._owed: IndexBatch | None = None
        self._since: float | None = None
        self._pauses = ExponentialBackoff(FIRST_PAUSE_S, LAST_PAUSE_S)
        # The error that exhausted the patience; None while the index answers or patience is left.
        self.lost: IndexUnavailableError | None = None

    @property
    def is_owing(self) -> bool:
        """Return whether records are on disk that the index does not cover."""
        return self._owed is not None

    def owe(self, batch: IndexBatch) -> None:
        """Keep the batch: its records stay on disk even if its transaction fails."""
        self._owed = batch

    def paid(self) -> None:
        """Clear the backlog and the outage: the index has answered and is complete."""
        if self._since is not None:
            log.warning("index.back seconds=%.1f", self._monotonic() - self._since)
        self._owed, self._since, self.lost = None, None, None
        self._pauses.reset()

    def pay(self) -> None:
        """Write the backlog, if there is one; it is kept after IndexUnavailableError."""
        if self._owed is None:
            return
        with self._index.transaction():
            self._owed.write(self._index)
        self.paid()

    def pay_patiently(self) -> None:
        """Write the backlog, retrying until patience ends with IndexUnavailableError."""
        while True:
            try:
                self.pay()
            except IndexUnavailableError as error:
                if not self.endure(error):
                    raise
            else:
                return

    def endure(self, error: IndexUnavailableError) -> bool:
        """Wait with exponential back-off before the next try; False when patience has ended."""
        now = self._monotonic()
        if self._since is None:
            self._since = now
            log.warning("index.unavailable error=%s", error)
        left = self._since + self._patience_s - now
        if left <= 0:
            self.lost = error
            return False
        threading.Event().wait(min(self._pauses.next_s(), left))
        return True

    def look(self) -> None:
        """Check whether an unavailable index answers again; never raises."""
        if self._since is None:
            return
        try:
            self.pay()
            self._index.check()
        except IndexUnavailableError as error:
            log.debug("index.unavailable error=%s", error)
        else:
            self.paid()
