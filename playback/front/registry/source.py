"""The registry as the front meets it: there or not yet, opened when it is first asked."""

import threading
from typing import Protocol

from core.layout import Layout
from links.store.store import Store, open_store


class Source(Protocol):
    """Where the registry is."""

    def store(self) -> Store | None:
        """The registry; None when the collection has none.

        Raises:
            TransientError: it does not answer.
        """
        ...


class OpenedWhenAsked:
    """A collection's registry, or the one beside an index. From any thread; `close` it.

    A collection has a registry as soon as its file is there, so one that is begun while the front
    runs is found; a front makes none. On a server there always is one.
    """

    def __init__(self, layout: Layout, url: str = "") -> None:
        self._layout = layout
        self._url = url
        self._lock = threading.Lock()
        self._opened: Store | None = None

    def store(self) -> Store | None:
        """The registry."""
        if not self._url and not self._layout.links_db.is_file():
            return None
        with self._lock:
            if self._opened is None:
                self._opened = open_store(self._layout, self._url)
            return self._opened

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
