"""How many checks and repairs there are, and how many there were lately (U09): what monitors ask.

Each count reads an index alone. What happened lately is what the rows say: a copy that was checked twice
within that time counts once.
"""

from collections.abc import Mapping
from datetime import datetime

from core.quality import Verdict
from core.timestamps import milliseconds
from links.books.quality_questions import (
    CHECKED_SINCE,
    COUNT_UNRECORDED,
    REPAIRS_SINCE,
)
from links.books.quality_rows import REPAIRS, VERDICTS, RepairState
from links.store.statements import Reader

MOST_UNRECORDED = 1_000_000  # counted


def checked_since(reader: Reader, moment: datetime) -> Mapping[Verdict, int]:
    """Copies that were checked from that moment on, by what the machine found."""
    rows = CHECKED_SINCE.rows(reader, {"since": milliseconds(moment)})
    return {VERDICTS[number]: count for number, count in rows}


def repairs_by_state(reader: Reader, since: datetime | None = None) -> Mapping[RepairState, int]:
    """Pages by how their repair stands; given a moment, those that came to stand so from then on."""
    since_ms = 0 if since is None else milliseconds(since)
    asked = {state: {"is_now": REPAIRS.index(state), "since": since_ms} for state in REPAIRS[1:]}
    return {state: REPAIRS_SINCE.rows(reader, each)[0][0] for state, each in asked.items()}


def count_unrecorded(reader: Reader) -> int:
    """Checks that changed since they were last written to a WARC; no more than a million are counted."""
    asked = {"page": "", "level": "", "most": MOST_UNRECORDED}
    count: int = COUNT_UNRECORDED.rows(reader, asked)[0][0]
    return count
