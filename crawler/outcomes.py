"""What workers ask of the captures index: how a page's visit ended.

Whether it was made at all is asked before each visit, by several workers of a process at once, and a
database that is restarted meanwhile is waited for, as the frontier is.
"""

import threading

from core.errors import IndexUnavailableError, TransientError
from core.pages import Outcome
from proxy.index.protocol import CaptureIndex


class Outcomes:
    """Asks the index one question at a time. Thread-safe; `close` it, and the index with it."""

    def __init__(self, index: CaptureIndex) -> None:
        self._index = index
        self._turn = threading.Lock()

    def page_outcome(self, page_id: str) -> Outcome | None:
        """How the page's visit ended; None when its manifest is not in the index.

        Raises:
            TransientError: the index does not answer.
        """
        try:
            with self._turn:
                return self._index.page_outcome(page_id)
        except IndexUnavailableError as error:
            raise TransientError(str(error)) from error

    def close(self) -> None:
        """Close the index."""
        self._index.close()
