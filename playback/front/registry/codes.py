"""What the registry keeps in bytes, as answers have it."""

from links.states import State
from playback.front.registry.answers import Run

_OUTWARD = {
    1: 200, 7: 200, 8: 301, 9: 302, 10: 303, 11: 305, 12: 306, 13: 307, 16: 400, 17: 403, 18: 404,
    19: 406, 21: 410, 22: 415, 23: 416, 24: 423, 25: 510, 32: 405, 33: 408, 34: 413, 35: 426,
    36: 429, 37: 431, 38: 501, 39: 502, 40: 503, 41: 505, 42: 507, 43: 509,
}  # fmt: skip


def outward(code: int) -> int | None:
    """The HTTP status that a status byte stands for; None without one (W55)."""
    return _OUTWARD.get(code)


def runs_of(packed: bytes | None) -> tuple[Run, ...]:
    """The history, oldest first."""
    found = []
    for at in range(0, len(packed or b""), 5):
        code, first, last = packed[at], packed[at + 1 : at + 3], packed[at + 3 : at + 5]  # type: ignore[index]
        found.append(
            Run(code, outward(code), int.from_bytes(first, "big"), int.from_bytes(last, "big"))
        )
    return tuple(found)


def since_day(state: State, runs: tuple[Run, ...], first_fail: int | None) -> int | None:
    """Since when it stands where it does: since the first failure, or since this answer came first."""
    if state in (State.DYING, State.DEAD) and first_fail is not None:
        return first_fail
    return runs[-1].first_day if runs else None
