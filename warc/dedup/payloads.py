"""Interface of a dedup index: payload keys, claims, settlement.

A payload is known by a key: its digest and its dedup bucket. Of many equal payloads exactly one
becomes a `response`, by whoever holds the claim, and every other a `revisit` of it::

    unknown ── claim ──> claimed ── settle ──> original, for good
       ^                    │
       └── release, or the claimer's death

A digest never refers to a record that is not on disk: `settle` comes after the sync. A crash
between claim and settle frees the claim. One `claim` and one `settle` serve a whole batch.

`tests/proxy/test_payloads.py` holds every implementation to these rules.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from warc.record_builder import OriginalRecord


class PayloadKey(NamedTuple):
    """What dedup knows a payload by.

    Attributes:
        digest: of the payload without its transfer coding (docs/decisions/005-payload-digest.md).
        bucket: the dedup bucket; payloads of different buckets are strangers.
    """

    digest: str
    bucket: str


class Claim(StrEnum):
    """What `Payloads.claim` says of a payload that nobody has written yet."""

    YOURS = "yours"  # this process writes it, then settles or releases the claim
    BUSY = "busy"  # another living process is about to write it: wait, then claim again


class LostClaimsError(Exception):
    """Another process took claims over while this one stalled; the batch must be written anew."""


class PayloadIndex(Protocol):
    """One dedup index, as one process sees it. Used from one thread; `close` it.

    Attributes:
        shared: whether others may know an original before the transaction of the captures index,
            in which it was settled, is committed. Then its record may not be taken back any more.
    """

    shared: bool

    def check(self) -> None:
        """Ask whether the index answers. From any thread.

        Raises:
            DedupUnavailableError: it does not.
        """
        ...

    def claim(
        self, keys: Collection[PayloadKey], also: Sequence[str] = ()
    ) -> dict[PayloadKey, OriginalRecord | Claim]:
        """For each key its original, or whose it is now.

        A claim that this process holds already is its own again. What another process claims is
        never waited for here, so whoever settles before it waits cannot be part of a deadlock.

        Args:
            keys: the payloads of one batch.
            also: buckets that are read only; an original may come from them, nothing is claimed.

        Raises:
            DedupUnavailableError: the index cannot be asked. Nothing is claimed.
        """
        ...

    def find(
        self, keys: Collection[PayloadKey], also: Sequence[str] = ()
    ) -> dict[PayloadKey, OriginalRecord]:
        """The originals that are known; nothing is claimed.

        Raises:
            DedupUnavailableError: the index cannot be asked.
        """
        ...

    def settle(self, originals: Mapping[PayloadKey, OriginalRecord]) -> frozenset[PayloadKey]:
        """Say that these records are on disk. All or nothing.

        Returns:
            The keys that are lost: this process stalled, was taken for dead, and another claimed
            or wrote them. When there is any, nothing is settled: take the records back, claim
            again, and write what the answers then say. Empty: every key is settled.
        """
        ...

    def release(self, keys: Collection[PayloadKey]) -> None:
        """Give claims up: their records will not be written. Never fails; others' claims stay."""
        ...

    def wait(self, keys: Collection[PayloadKey], timeout_s: float) -> None:
        """Return when one of the busy keys may have changed, or after `timeout_s`.

        Raises:
            DedupUnavailableError: the index cannot be asked.
        """
        ...

    def add(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Make known what lies in WARCs already.

        An original that is known stays, and so does a living process's claim.

        Raises:
            DedupUnavailableError: the index cannot be asked.
        """
        ...

    def bury(self) -> None:
        """Free what this collection's dead processes claimed; after what they wrote was added.

        In the other order somebody could claim a payload whose record is about to be found.

        Raises:
            DedupUnavailableError: the index cannot be asked; they stay to be buried.
        """
        ...

    def close(self) -> None:
        """Give up every claim and let go of the index."""
        ...
