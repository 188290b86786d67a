"""What was made once and may be asked for again, up to so many bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable


class ByteCache:
    """Values by key, the least recently used ones dropped when all together exceed `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._values: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The value of `key`, made now when it is not here; what `make` raises, this raises."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            return value
        value = make()
        if len(value) <= self._limit // 4 and key not in self._values:
            self._values[key] = value
            self._size += len(value)
            while self._size > self._limit:
                _, dropped = self._values.popitem(last=False)
                self._size -= len(dropped)
        return value
