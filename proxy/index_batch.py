"""Index rows of one batch, and the rows still owed to an unreachable index.

Until a batch's payloads are known to others its records can be taken back and written later. After
that they stay on disk, and their rows are owed: they are written before anything else is, as often
as it takes; writing them twice is writing them once. A file of which rows are owed keeps its
``.open``, so if the process ends first, recovery finds what the index missed.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import IndexUnavailableError
from core.page_manifest import PageInfo
from warc.dedup.payloads import PayloadKey
from warc.index.protocol import CaptureIndex, CaptureRow, QualityRow
from warc.record_builder import OriginalRecord

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1  # between two tries; then longer each time
LAST_PAUSE_S = 2.0


@dataclass(slots=True)
class IndexBatch:
    """What a batch of records is in the index.

    Attributes:
        rows: of captures.
        pages: whose manifests are among the records.
        qualities: what checks found whose records are among them.
        originals: payloads that the records bring.
        ends: how far the index covers which file with it.
    """

    rows: list[CaptureRow] = field(default_factory=list)
    pages: list[PageInfo] = field(default_factory=list)
    qualities: list[QualityRow] = field(default_factory=list)
    originals: dict[PayloadKey, OriginalRecord] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    def write(self, index: CaptureIndex) -> None:
        """Write it into the index, in a transaction of the caller's.

        Raises:
            InputError: the index cannot hold it.
            IndexUnavailableError: it does not answer.
        """
        index.add_rows(self.rows)
        for page in self.pages:
            index.add_page(page)
        index.add_qualities(self.qualities)
        for filename, end in self.ends.items():
            index.cover(filename, end)
        index.add_payloads(self.originals)


class IndexBacklog:
    """Whether a process reaches its index, and what it owes it. Used from one thread.

    Attributes:
        lost: the error with which patience ended; None while there is none, or patience is left.
    """

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
        self._pause_s = FIRST_PAUSE_S
        self.lost: IndexUnavailableError | None = None

    @property
    def is_owing(self) -> bool:
        """Whether records are on disk that the index does not know."""
        return self._owed is not None

    def owe(self, batch: IndexBatch) -> None:
        """Say that the batch's records stay on disk, whatever becomes of its transaction."""
        self._owed = batch

    def paid(self) -> None:
        """Say that the index has answered, and knows all."""
        if self._since is not None:
            log.warning("index.back seconds=%.1f", self._monotonic() - self._since)
        self._owed, self._since, self._pause_s, self.lost = None, None, FIRST_PAUSE_S, None

    def pay(self) -> None:
        """Write what is owed, if anything is.

        Raises:
            IndexUnavailableError: the index does not answer; it is still owed.
        """
        if self._owed is None:
            return
        with self._index.transaction():
            self._owed.write(self._index)
        self.paid()

    def pay_patiently(self) -> None:
        """Write what is owed; try again until patience ends.

        Raises:
            IndexUnavailableError: patience has ended; it is still owed.
        """
        while True:
            try:
                self.pay()
            except IndexUnavailableError as error:
                if not self.endure(error):
                    raise
            else:
                return

    def endure(self, error: IndexUnavailableError) -> bool:
        """Wait a little before the next try; False at once when patience has ended."""
        now = self._monotonic()
        if self._since is None:
            self._since = now
            log.warning("index.unavailable error=%s", error)
        left = self._since + self._patience_s - now
        if left <= 0:
            self.lost = error
            return False
        threading.Event().wait(min(self._pause_s, left))
        self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)
        return True

    def look(self) -> None:
        """See whether an index that was lost is back; never fails."""
        if self._since is None:
            return
        try:
            self.pay()
            self._index.check()
        except IndexUnavailableError as error:
            log.debug("index.unavailable error=%s", error)
        else:
            self.paid()
