"""The decisions as replay asks for them: whether they changed, once a request and not nine times."""

from collections.abc import Iterable
from typing import Any

from playback.decisions.store import DecisionStore, Values


class AskedOnce:
    """`store`, whose version is read once after each `begin`.

    Every request begins with it, so what is decided counts from the next request on. An answer that
    was on its way from the store when another request began is that one's no longer.
    """

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._version: int | None = None
        self._requests = 0

    def begin(self) -> None:
        """A request begins: nothing that was known before it counts."""
        self._requests += 1
        self._version = None

    def version(self) -> int:
        """The number of the last change."""
        if self._version is not None:
            return self._version
        request = self._requests
        version = self._store.version()
        if request == self._requests:
            self._version = version
        return version

    def rows(self, query: str, values: Values) -> list[Any]:
        """The answer's rows."""
        return self._store.rows(query, values)

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Make the changes."""
        self._store.change(changes)
        self.begin()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()
