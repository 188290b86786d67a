"""Where a proposed replacement stands, as a table: what each look at it makes of that (W17).

A look that says nothing certain is repeated for `PATIENCE_DAYS`; then the proposal has failed.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final

from links.findings import Verdict

PATIENCE_DAYS: Final = 7


class Stage(IntEnum):
    """Where a proposal stands, by the numbers that the registry keeps."""

    WAITING = 0  # not yet tested, or the test said nothing certain
    WORKS = 1
    FAILED = 2


class Look(StrEnum):
    """What one look says of a proposal."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"


SAYS: Final[Mapping[Verdict, Look]] = {
    Verdict.OK: Look.GOOD,
    Verdict.GONE: Look.BAD,
    Verdict.INVALID: Look.BAD,
    Verdict.SUSPECT: Look.BAD,
    Verdict.DEVIATED: Look.BAD,
    Verdict.USURPED: Look.BAD,
    Verdict.FAILING: Look.UNSURE,
    Verdict.REFUSED: Look.UNSURE,
    Verdict.UNDECIDED: Look.UNSURE,
}

TABLE: Final[Mapping[tuple[Stage, Look], Stage]] = {
    (Stage.WAITING, Look.GOOD): Stage.WORKS,
    (Stage.WAITING, Look.BAD): Stage.FAILED,
    (Stage.WAITING, Look.UNSURE): Stage.WAITING,  # for PATIENCE_DAYS, then FAILED
    (Stage.WORKS, Look.GOOD): Stage.WORKS,
    (Stage.WORKS, Look.BAD): Stage.FAILED,
    (Stage.WORKS, Look.UNSURE): Stage.WAITING,  # and is not shown meanwhile
    (Stage.FAILED, Look.GOOD): Stage.WORKS,
    (Stage.FAILED, Look.BAD): Stage.FAILED,
    (Stage.FAILED, Look.UNSURE): Stage.FAILED,
}


def next_stage(stage: Stage, test: Look, days: int) -> Stage:
    """What a test makes of a proposal that has stood there for so many days."""
    after = TABLE[stage, test]
    if stage is after is Stage.WAITING and days >= PATIENCE_DAYS:
        return Stage.FAILED
    return after
