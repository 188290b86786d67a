"""Interface of a dedup index: payload keys (digest and bucket), claims, settlement.

Of many equal payloads exactly one becomes a `response`, written by the holder of the claim, every other a `revisit`::

    unknown ── claim ──> claimed ── settle ──> original, for good
       ^                    │
       └── release, or the claimer's death

A digest never refers to a record that is not on disk: `settle` comes after the sync.
`tests/warc/dedup/test_payloads.py` tests every implementation against these rules.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class OriginalRecord:
    """Record that a revisit refers to; `digest` in the form that its header has."""

    digest: str
    url: str
    captured_ms: int
    filename: str
    offset: int
    length: int


class PayloadKey(NamedTuple):
    """Dedup key of a payload."""

    digest: str  # of the payload without its transfer coding (docs/decisions/005-payload-digest.md)
    bucket: str  # the dedup bucket; payloads of different buckets are never shared


class Claim(StrEnum):
    """Answer of `PayloadIndex.claim` for a payload that is not written yet."""

    YOURS = "yours"  # this process writes it, then settles or releases the claim
    BUSY = "busy"  # another living process is about to write it: wait, then claim again


class LostClaimsError(Exception):
    """Claims taken over by another process while this one stalled; write the batch again."""


class PayloadIndex(ABC):
    """Dedup index of one process and thread; `close` it. Until `settle` its methods raise DedupUnavailableError."""

    # Whether other processes may see an original before the captures index transaction in which it
    # was settled is committed. Then its record must not be rolled back any more.
    shared: bool

    def check(self) -> None:  # noqa: B027
        """Check that the index answers. Thread-safe."""

    @abstractmethod
    def claim(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> dict[PayloadKey, OriginalRecord | Claim]:
        """Claim each key without waiting; return its original, also from the buckets `also`, or the claim's state."""

    @abstractmethod
    def find(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> dict[PayloadKey, OriginalRecord]:
        """Return the known originals; nothing is claimed."""

    @abstractmethod
    def settle(self, originals: Mapping[PayloadKey, OriginalRecord]) -> frozenset[PayloadKey]:
        """Mark records as on disk, all or none; return the lost keys: roll their records back, and claim them again."""

    def release(self, keys: Collection[PayloadKey]) -> None:  # noqa: B027
        """Release claims whose records will not be written. Never fails; others' claims stay."""

    def wait(self, keys: Collection[PayloadKey], timeout_s: float) -> None:  # noqa: B027
        """Wait until one of the busy keys may have changed, or for `timeout_s`."""

    @abstractmethod
    def add(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add payloads of records in WARCs; known originals and living processes' claims stay."""

    def release_dead(self) -> None:  # noqa: B027
        """Release claims of this collection's dead processes; call after, never before, adding what they wrote."""

    def close(self) -> None:  # noqa: B027
        """Release every claim and close the index."""
