"""Memory cache of made values, in front of the file cache; one maker per value.

A key contains all that its value was made of, so values never expire; access is checked before the
cache is asked (P-22).
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from gevent.event import Event

from core.errors import MakingFailedError
from playback.replay.file_cache import FileCache

FAILURE_S = 600.0
_MOST_FAILURES = 2_000


class ByteCache:
    """LRU cache of values that holds at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._values: OrderedDict[Hashable, bytes] = OrderedDict()

    def find(self, key: Hashable) -> bytes | None:
        """Return the value of `key`, or None."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def keep(self, key: Hashable, value: bytes) -> None:
        """Store the value unless it would take a large part of the cache."""
        if len(value) > self._limit // 4 or key in self._values:
            return
        self._values[key] = value
        self._size += len(value)
        while self._size > self._limit:
            _, dropped = self._values.popitem(last=False)
            self._size -= len(dropped)


class MadeCache:
    """Values by their inputs, from memory, from files, or made on request.

    After a failure a value is not tried again for `FAILURE_S`, because each try occupies a maker.
    """

    def __init__(
        self,
        memory_bytes: int,
        files: FileCache | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._memory = ByteCache(memory_bytes)
        self._files = files
        self._monotonic = monotonic
        self._making: dict[str, Event] = {}
        self._failures: OrderedDict[str, float] = OrderedDict()  # when each may be tried again

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the value of `key`, or of `make` when it is missing; concurrent requests make it once.

        Raises:
            MakingFailedError: it could not be made, now or within the last `FAILURE_S`.
        """
        name = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()
        while True:
            value = self._memory.find(name)
            if value is not None:
                return value
            if self._failures.get(name, 0.0) > self._monotonic():
                raise MakingFailedError("It could not be made safe a short while ago.")
            other = self._making.get(name)
            if other is None:
                break
            other.wait()  # if it failed, it is this one's turn
        made = self._making[name] = Event()
        try:
            value = self._found_or_made(name, make)
            self._memory.keep(name, value)
            return value
        except MakingFailedError:
            self._failures.pop(name, None)  # the newest are last
            self._failures[name] = self._monotonic() + FAILURE_S
            while len(self._failures) > _MOST_FAILURES:
                self._failures.popitem(last=False)
            raise
        finally:
            del self._making[name]
            made.set()

    def _found_or_made(self, name: str, make: Callable[[], bytes]) -> bytes:
        if self._files is None:
            return make()
        value = self._files.find(name)
        if value is not None:
            return value
        with self._files.alone(name) as is_first:
            value = None if is_first else self._files.find(name)
            if value is None:
                value = make()
                self._files.keep(name, value)
        return value
