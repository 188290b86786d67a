"""What became of each request of a visit: the proxy's own account, which the manifest is made of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kept(StrEnum):
    """How a request ended in the archive."""

    RESPONSE = "response"
    REVISIT = "revisit"
    FAILED = "failed"  # no response came, or it could not be written
    BLOCKED = "blocked"  # refused by us


@dataclass(slots=True)
class LedgerEntry:
    """One request. The exchange fills it in; after the seal nobody changes it.

    Attributes:
        url: as requested; no fragment, no credentials.
        kept: how it ended.
        reason: a constant and its detail when it failed or was blocked.
        truncated: WARC-Truncated of its record; empty when whole.
        tls_error: why the certificate did not verify; empty when it did, or for plain http.
        size: bytes of the response as they came, head included.
        seconds: from request to the end of the response.
    """

    url: str
    method: str
    started_ms: int
    kept: Kept = Kept.FAILED
    reason: str = ""
    status: int | None = None
    mime: str = ""
    digest: str = ""
    truncated: str = ""
    tls_error: str = ""
    record_id: str = ""
    filename: str = ""
    offset: int = 0
    length: int = 0
    size: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def entry_from(document: dict[str, Any]) -> LedgerEntry:
    """The entry that `LedgerEntry.to_dict` gave."""
    return LedgerEntry(**{**document, "kept": Kept(document["kept"])})
