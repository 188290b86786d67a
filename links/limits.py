"""How often people may say something (W15), held by the database itself.

A reporter waits between two acts of a kind; all reporters together have a number of them a day. Both are
conditional writes of the transaction that does the act: whoever is over a limit writes nothing, however
many processes ask at the same moment, and what was refused or fails later counts for nothing. Taking
something back does not give its place back, or whoever reports and withdraws in turns had no limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from sqlalchemy import Connection, delete, select

from core.errors import TransientError
from links.days import day_of
from links.store.schema import actors, acts
from links.store.upserts import insert_into

_DAY_S = 86_400
_OLD_DAYS = 7  # counts of days that are over


class Act(IntEnum):
    """What people do, by the numbers that the registry keeps."""

    REPORT = 1
    WITHDRAW = 2
    REPLACE = 3
    REMOVE = 4


@dataclass(frozen=True, slots=True)
class Limit:
    """How often an act is done.

    Attributes:
        gap_s: seconds between two of one reporter.
        a_day: those of all reporters on a day (UTC); None: any number.
    """

    gap_s: int
    a_day: int | None


Limits = Mapping[Act, Limit]
REPORTS_A_DAY = 3_000


def limits_of(reports_a_day: int = REPORTS_A_DAY) -> Limits:
    """One report a minute, some thousand a day (W15); the same for replacements, counted apart.

    What was said can be taken back at any time (W14), so no day is too full for that.
    """
    return {
        Act.REPORT: Limit(60, reports_a_day),
        Act.WITHDRAW: Limit(5, None),
        Act.REPLACE: Limit(60, reports_a_day),
        Act.REMOVE: Limit(5, None),
    }


DEFAULT_LIMITS = limits_of()


class TooOftenError(TransientError):
    """A limit is reached; nothing was changed.

    Attributes:
        retry_after_s: after so many seconds the same is worth another try.
        is_everybodys: the day's number is used up, by all together.
    """

    def __init__(self, message: str, *, retry_after_s: int, is_everybodys: bool) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_everybodys = is_everybodys


def count_act(
    connection: Connection, act: Act, reporter: bytes, now: datetime, limits: Limits
) -> None:
    """Note that the reporter does that now. Roll the transaction back when it raises.

    Raises:
        TooOftenError: that is too often.
    """
    limit, moment = limits[act], int(now.timestamp())
    _wait_for_turn(connection, act, reporter, moment, limit.gap_s)
    if limit.a_day is not None:
        _count_day(connection, act, moment, day_of(now), limit.a_day)


def forget_acts(connection: Connection, now: datetime) -> int:
    """Remove what no limit asks for any more, digests of reporters among it; how many rows."""
    moment, day = int(now.timestamp()), day_of(now)
    gone = connection.execute(delete(actors).where(actors.c.moment < moment - _DAY_S)).rowcount
    return gone + connection.execute(delete(acts).where(acts.c.day < day - _OLD_DAYS)).rowcount


def _wait_for_turn(
    connection: Connection, act: Act, reporter: bytes, moment: int, gap_s: int
) -> None:
    row = {"reporter": reporter, "act": int(act), "moment": moment}
    # A moment that is yet to come was written by a clock that went wrong: it stops nobody.
    is_over = (actors.c.moment <= moment - gap_s) | (actors.c.moment > moment + gap_s)
    upsert = insert_into(connection, actors).values(row)
    written = connection.execute(
        upsert.on_conflict_do_update(
            index_elements=["reporter", "act"],
            set_={"moment": upsert.excluded.moment},
            where=is_over,
        ).returning(actors.c.moment)
    )
    if written.first() is not None:
        return
    before = connection.execute(
        select(actors.c.moment).where(actors.c.reporter == reporter, actors.c.act == int(act))
    ).scalar_one()
    wait = max(before + gap_s - moment, 1)
    raise TooOftenError(
        f"That was said from here less than {gap_s} seconds ago; try again in {wait} s.",
        retry_after_s=wait,
        is_everybodys=False,
    )


def _count_day(connection: Connection, act: Act, moment: int, day: int, a_day: int) -> None:
    upsert = insert_into(connection, acts).values(act=int(act), day=day, count=1)
    written = connection.execute(
        upsert.on_conflict_do_update(
            index_elements=["act", "day"],
            set_={"count": acts.c.count + 1},
            where=acts.c.count < a_day,
        ).returning(acts.c.count)
    )
    # The first of a day meets no conflict, so that a limit of nothing has to be asked for.
    if written.first() is None or a_day < 1:
        raise TooOftenError(
            f"All {a_day:,} that a day allows were used today; try again tomorrow (UTC).",
            retry_after_s=_DAY_S - moment % _DAY_S,
            is_everybodys=True,
        )
