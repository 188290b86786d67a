"""Record identifiers of the responses that this process wrote last, for revisits to name."""

from collections import OrderedDict

from core.captures import RecordLocation
from proxy.builder import Original

LIMIT = 10_000  # a page's revisits mostly refer to what the same run has written


class RecordIds:
    """Record identifiers by file and offset, the last `limit` ones. Used from one thread."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._ids: OrderedDict[tuple[str, int], str] = OrderedDict()

    def note(self, at: RecordLocation, record_id: str) -> None:
        """Remember the identifier of the record that was written there."""
        self._ids[at.filename, at.offset] = record_id
        if len(self._ids) > self._limit:
            self._ids.popitem(last=False)

    def find(self, original: Original) -> str:
        """Return the identifier of the record that holds the payload; empty when it is not known."""
        return self._ids.get((original.filename, original.offset), "")

    def clear(self) -> None:
        """Forget all: records were taken back, and others may take their places."""
        self._ids.clear()
