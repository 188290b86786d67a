"""The dedup index of one collection: the table `payloads` of its captures index.

The index's write lock is the claim. It is taken before a payload is looked up and held until the
rows are committed, so nobody ever meets a claim of another's, and a crash leaves none
(docs/decisions/004-one-lock.md).
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from proxy.builder import Original
from proxy.index.sqlite import SqliteCaptureIndex
from proxy.payloads.protocol import Claim, PayloadKey


class SqlitePayloads:
    """The payloads that the index knows. Claim and settle in one `SqliteCaptureIndex.transaction`.

    The index belongs to whoever lends it.
    """

    shared = False

    def __init__(self, index: SqliteCaptureIndex) -> None:
        self._index = index

    def check(self) -> None:
        """Nothing: it is a file."""

    def claim(
        self, keys: Collection[PayloadKey], also: Sequence[str] = ()
    ) -> dict[PayloadKey, Original | Claim]:
        """For each key its original, or `YOURS` until the transaction ends."""
        found = self.find(keys, also)
        return {key: found.get(key, Claim.YOURS) for key in keys}

    def find(
        self, keys: Collection[PayloadKey], also: Sequence[str] = ()
    ) -> dict[PayloadKey, Original]:
        """The originals that are known."""
        if not also:
            return self._index.originals(keys)
        places = {
            key: [PayloadKey(key.digest, each) for each in (key.bucket, *also)] for key in keys
        }
        known = self._index.originals(dict.fromkeys(chain.from_iterable(places.values())))
        found = {}
        for key, wanted in places.items():
            original = next((known[place] for place in wanted if place in known), None)
            if original is not None:
                found[key] = original
        return found

    def settle(self, originals: Mapping[PayloadKey, Original]) -> frozenset[PayloadKey]:
        """Add the originals; the lock has kept everyone else away, so none is ever lost."""
        self.add(originals)
        return frozenset()

    def release(self, keys: Collection[PayloadKey]) -> None:
        """Nothing: the end of the transaction gives the lock back."""

    def wait(self, keys: Collection[PayloadKey], timeout_s: float) -> None:
        """Nothing: no key is ever busy."""

    def add(self, originals: Mapping[PayloadKey, Original]) -> None:
        """Add the originals; the first of each key stays."""
        self._index.add_payloads(originals)

    def bury(self) -> None:
        """Nothing: SQLite has rolled back what the dead had begun."""

    def close(self) -> None:
        """Nothing: whoever lent the index closes it."""
