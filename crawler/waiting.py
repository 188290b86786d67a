"""Work that waits for something outside and goes on by itself, as events."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work waits.

    Attributes:
        reason: for what, a constant: ``store``, ``network``, ``memory``, ``host``.
        text: a sentence for people.
    """

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class GoingOn:
    """It goes on, after so many seconds."""

    reason: str
    seconds: float
