"""Captures that are broken and are to be captured again, once (U09).

A repair is wanted when a check or a person finds a capture broken (`links.books.quality`). It begins
when the page is handed to the frontier, and ends when the new capture was checked, or there is none. A
page that is broken at several levels is captured again once for all of them. What was made as a repair
is never repaired in its turn, whatever becomes of it.
"""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from core.errors import InvariantError
from core.quality import Verdict
from core.timestamps import milliseconds
from links.books.quality_questions import (
    BEGIN_REPAIR,
    END_REPAIR,
    IN_REPAIR,
    WANT_NO_REPAIRS,
    WANT_REPAIR,
    WANT_REPAIRS,
)
from links.books.quality_rows import REPAIRS, VERDICTS, CheckedPage, RepairState, row_of
from links.store.statements import Reader, batches

ENDED = frozenset({RepairState.DONE_BETTER, RepairState.DONE_NOT_BETTER, RepairState.FAILED})
_LEVELS = 8  # at most so many rows of one page


def settle_repairs(connection: Connection, page_ids: Collection[str], now: datetime) -> None:
    """Want a repair of those that are broken and had none; want none of those that are not broken."""
    none, wanted = map(REPAIRS.index, (RepairState.NONE, RepairState.WANTED))
    asked = {"broken": VERDICTS.index(Verdict.BROKEN), "now_ms": milliseconds(now)}
    for batch in batches(sorted(page_ids)):
        given = {**asked, "ids": batch}
        WANT_REPAIRS.run(connection, {**given, "was": none, "becomes": wanted})
        WANT_NO_REPAIRS.run(connection, {**given, "was": wanted, "becomes": none})


def want_repair(connection: Connection, page_id: str, level: str, *, now: datetime) -> bool:
    """Have a page captured again because somebody says so, tried before or not; False: it is not known."""
    asked = {"of": page_id, "at": level, "becomes": REPAIRS.index(RepairState.WANTED)}
    return bool(WANT_REPAIR.run(connection, {**asked, "now_ms": milliseconds(now)}))


def awaiting_repair(reader: Reader, limit: int) -> list[CheckedPage]:
    """Pages whose repair is wanted, what has waited longest first; each once, at one of its levels."""
    return _in_state(reader, RepairState.WANTED, limit)


def in_repair(reader: Reader, limit: int) -> list[CheckedPage]:
    """Pages whose repair has begun, the one that began first at first; each once."""
    return _in_state(reader, RepairState.BEGUN, limit)


def repair_begun(
    connection: Connection, page_id: str, repair_page_id: str = "", *, now: datetime
) -> bool:
    """Note that a wanted repair of the page begins; False: none was wanted, somebody else has begun it.

    Args:
        connection: of a transaction that writes.
        page_id: of the capture that is broken.
        repair_page_id: of the new capture, if it is known already.
        now: when.
    """
    asked = {"of": page_id, "was": REPAIRS.index(RepairState.WANTED)}
    asked |= {"becomes": REPAIRS.index(RepairState.BEGUN), "now_ms": milliseconds(now)}
    return bool(BEGIN_REPAIR.run(connection, {**asked, "new_page": repair_page_id}))


def repair_ended(
    connection: Connection,
    page_id: str,
    state: RepairState,
    repair_page_id: str = "",
    *,
    now: datetime,
) -> bool:
    """Note what came of a repair; False: none was wanted or had begun.

    Where the new capture is better it is what the check names as such from now on, which has to be
    written to a WARC again.

    Args:
        connection: of a transaction that writes.
        page_id: of the capture that is broken.
        state: how it ended; NONE when there is nothing to repair after all.
        repair_page_id: of the new capture; empty: as it was noted when it began.
        now: when.

    Raises:
        InvariantError: the state is no end.
    """
    if state not in ENDED | {RepairState.NONE}:
        raise InvariantError(f"No repair ends as {state}.")
    asked = {"of": page_id, "becomes": REPAIRS.index(state), "now_ms": milliseconds(now)}
    is_better = int(state is RepairState.DONE_BETTER)
    return bool(
        END_REPAIR.run(connection, {**asked, "new_page": repair_page_id, "is_better": is_better})
    )


def _in_state(reader: Reader, state: RepairState, limit: int) -> list[CheckedPage]:
    asked = {"is_now": REPAIRS.index(state), "most": limit * _LEVELS}
    found: dict[str, CheckedPage] = {}
    for row in map(row_of, IN_REPAIR.rows(reader, asked)):
        found.setdefault(row.check.page_id, row)
        if len(found) == limit:
            break
    return list(found.values())
