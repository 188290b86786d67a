"""Verdicts: what scanners found in payloads (C-16)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a scanner said of a payload.

    Attributes:
        digest: of the payload, as the captures index spells it.
        threat: the signature's name; empty when the payload is clean.
        scanner: which program, with its signatures' version.
    """

    digest: str
    threat: str
    scanner: str
    scanned_at: datetime
