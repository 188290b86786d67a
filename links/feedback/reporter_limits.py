"""Pseudonymous reporters, and rate limits on what they may submit.

Reporters are keyed digests: without the key, a file of the collection that all its fronts need, a digest cannot be
attributed. There is a minimum interval between two acts of a kind by one reporter, and a daily maximum for all, written
in the transaction that does the act, so that failed acts do not count. A withdrawal does not restore the quota.
"""

import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path

from sqlalchemy import Connection, delete, select

from core.errors import TransientError, UnavailableError
from core.layout import Layout
from links.check_history import day_of
from links.registry.schema import actors, acts
from links.registry.statements import insert_into

KEY_FILE = "reporters.key"
REPORTER_BYTES = 16
_KEY_BYTES = 32


class ReporterDigests:
    """Factory of reporter digests."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of_range(self, addresses: str) -> bytes:
        """Return the digest of an address range, e.g. ``192.0.2.0/24``."""
        return self.digest("range", addresses)

    def of_name(self, name: str) -> bytes:
        """Return the digest of a user name, of this machine or a wiki's."""
        return self.digest("name", name)

    def digest(self, purpose: str, text: str, *, size: int = REPORTER_BYTES) -> bytes:
        """Compute a keyed digest, separate for each purpose."""
        person = blake2b(purpose.encode(), digest_size=blake2b.PERSON_SIZE).digest()
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=size, key=self._key, person=person).digest()


def open_reporter_digests(layout: Layout) -> ReporterDigests:
    """Load the collection's key, or create it, readable by its owner only; UnavailableError: unusable."""
    path = layout.databases / KEY_FILE
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise UnavailableError(f"The key of reports, {path}, can neither be read nor created: {error}.") from error
    if len(key) != _KEY_BYTES:
        raise UnavailableError(
            f"{path} is not a key of reports: it has {len(key)} bytes, not {_KEY_BYTES}. Remove it, and a new one is created."
        )
    return ReporterDigests(key)


def _make(path: Path) -> None:
    """Write a new key to a temporary file and link it into place atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(secrets.token_bytes(_KEY_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):  # another process made it first
            os.link(partial, path)
    finally:
        partial.unlink()


_DAY_S = 86_400
_OLD_DAYS = 7  # counts of days that are over


class LimitedAct(IntEnum):
    """User action with a rate limit; the values are stored in the registry."""

    REPORT = 1
    WITHDRAW = 2
    REPLACE = 3
    REMOVE = 4


@dataclass(frozen=True, slots=True)
class ActLimit:
    """Rate limit of an action."""

    gap_s: int  # seconds between two of one reporter
    a_day: int | None  # those of all reporters on a day (UTC); None: any number


Limits = Mapping[LimitedAct, ActLimit]
REPORTS_A_DAY = 3_000


def limits_of(reports_a_day: int = REPORTS_A_DAY) -> Limits:
    """Return the limits: a report a minute, a daily total (W15); withdrawals at any time (W14)."""
    return {
        LimitedAct.REPORT: ActLimit(60, reports_a_day),
        LimitedAct.WITHDRAW: ActLimit(5, None),
        LimitedAct.REPLACE: ActLimit(60, reports_a_day),
        LimitedAct.REMOVE: ActLimit(5, None),
    }


DEFAULT_LIMITS = limits_of()


class TooOftenError(TransientError):
    """Refusal of an action by a rate limit; `is_everybodys`: by the daily total of all reporters."""

    def __init__(self, message: str, *, retry_after_s: int, is_everybodys: bool) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_everybodys = is_everybodys


def count_act(connection: Connection, act: LimitedAct, reporter: bytes, now: datetime, limits: Limits) -> None:
    """Record an action of the reporter. Roll the transaction back when it raises TooOftenError."""
    limit, moment = limits[act], int(now.timestamp())
    _wait_for_turn(connection, act, reporter, moment, limit.gap_s)
    if limit.a_day is not None:
        a_day = limit.a_day
        upsert = insert_into(connection, acts).values(act=int(act), day=day_of(now), count=1)
        written = connection.execute(
            upsert.on_conflict_do_update(
                index_elements=["act", "day"], set_={"count": acts.c.count + 1}, where=acts.c.count < a_day
            ).returning(acts.c.count)
        )
        # The first of a day has no conflict, so a limit of zero must be checked explicitly.
        if written.first() is None or a_day < 1:
            raise TooOftenError(
                f"All {a_day:,} allowed per day were used today; try again tomorrow (UTC).",
                retry_after_s=_DAY_S - moment % _DAY_S,
                is_everybodys=True,
            )


def forget_acts(connection: Connection, now: datetime) -> int:
    """Delete expired rows, including digests of reporters; return the number."""
    moment, day = int(now.timestamp()), day_of(now)
    actor_count = connection.execute(delete(actors).where(actors.c.moment < moment - _DAY_S)).rowcount
    return actor_count + connection.execute(delete(acts).where(acts.c.day < day - _OLD_DAYS)).rowcount


def _wait_for_turn(connection: Connection, act: LimitedAct, reporter: bytes, moment: int, gap_s: int) -> None:
    row = {"reporter": reporter, "act": int(act), "moment": moment}
    # A time in the future was written by a wrong clock: it does not count.
    is_over = (actors.c.moment <= moment - gap_s) | (actors.c.moment > moment + gap_s)
    upsert = insert_into(connection, actors).values(row)
    written = connection.execute(
        upsert.on_conflict_do_update(
            index_elements=["reporter", "act"], set_={"moment": upsert.excluded.moment}, where=is_over
        ).returning(actors.c.moment)
    )
    if written.first() is not None:
        return
    before = connection.execute(
        select(actors.c.moment).where(actors.c.reporter == reporter, actors.c.act == int(act))
    ).scalar_one()
    wait = max(before + gap_s - moment, 1)
    raise TooOftenError(
        f"This was already reported from here less than {gap_s} seconds ago; try again in {wait} s.",
        retry_after_s=wait,
        is_everybodys=False,
    )
