"""The registry as the front meets it: there or not yet, opened when it is first asked."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from core.errors import TransientError, UnavailableError
from core.layout import Layout
from links.store.store import Store, open_store

RETRY_S = 5.0


class Source(Protocol):
    """Where the registry is."""

    def is_there(self) -> bool:
        """Whether there is a registry, away or not; known at once."""
        ...

    def store(self) -> Store | None:
        """The registry; None when the collection has none.

        Raises:
            TransientError: it does not answer.
        """
        ...


class OpenedWhenAsked:
    """A collection's registry, or the one beside an index. From any thread; `close` it.

    A collection has a registry as soon as its file is there, so one that is begun while the front
    runs is found; a front makes none. On a server there always is one. One that could not be opened
    is left alone for `RETRY_S`, so that nobody waits for it meanwhile.
    """

    def __init__(
        self, layout: Layout, url: str = "", *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._layout = layout
        self._url = url
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._failed: tuple[float, str] | None = None

    def is_there(self) -> bool:
        """Whether there is one."""
        return bool(self._url) or self._layout.links_db.is_file()

    def store(self) -> Store | None:
        """The registry.

        Raises:
            TransientError: it does not answer, or is of another version.
        """
        if not self.is_there():
            return None
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _open(self) -> Store:
        now = self._monotonic()
        if self._failed is not None and now - self._failed[0] < RETRY_S:
            raise TransientError(self._failed[1])
        try:
            return open_store(self._layout, self._url)
        except (TransientError, UnavailableError) as error:
            self._failed = (now, str(error))
            raise TransientError(str(error)) from error
