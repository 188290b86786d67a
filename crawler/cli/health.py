"""What a check of a set-up found: of `weboid doctor` and `weboid wiki check`."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Health(StrEnum):
    """How a part is."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    UNSET = "unset"  # not configured, and not needed


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part, and what to do about it; `remedy` is empty when it is well."""

    subject: str
    health: Health
    text: str
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return asdict(self)
