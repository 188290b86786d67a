"""One other URL for each unreachable one (W17): proposed by anybody, shown once it was seen working.

A proposal waits until a look finds its page, and is looked at again each month (`links.stages`). Only
what works is shown. Whoever proposes answers for its saying the same as the page that went; anybody may
remove it. There is one place: it is free again when its proposal failed or was removed.

An address of a known archive is no other URL but a copy, and goes to the copies of the URL.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Select, delete, select, update

from core.errors import BadUrlError, InputError
from core.urls import fetch_key, identity_key
from links.days import day_of
from links.findings import Finding
from links.limits import DEFAULT_LIMITS, Act, Limits, count_act, limits_of
from links.observed import Observed, find_observed, need_observed, observed_of, shown, url_select
from links.replacing import MAX_ADDRESS_LENGTH, Refusal, refusal_of, refused
from links.reports import WORKING, NeedlessError
from links.stages import SAYS, Look, Stage, next_stage
from links.states import State
from links.store.schema import replacements, urls
from links.store.statements import batches

RETEST_DAYS: Final = 30
FAILED_KEPT_DAYS: Final = 183

_LOST = frozenset({State.DEAD, State.PERMADEAD, State.USURPED, State.EXCLUDED, State.INVALID})


class TakenError(InputError):
    """The one place is taken by another proposal."""


class Archives(Protocol):
    """Who knows archives."""

    def keep(self, connection: Connection, url: Observed, address: str, now: datetime) -> str:
        """Put the address among the copies of the URL when a known archive has it.

        Returns:
            The archive's name; empty when the address is no archive's, and nothing was kept.

        Raises:
            RefusedAddressError: it is an archive's, but of another URL, or none that can be used.
        """
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides on an address beside its own text.

    Attributes:
        refuses: why policy refuses a URL, in a few words; empty when it does not.
        archives: takes addresses of archives; None: they are treated as any other.
        limits: how often people may say something.
    """

    refuses: Callable[[str], str] = lambda _url: ""
    archives: Archives | None = None
    limits: Limits = field(default_factory=limits_of)


ALONE: Final = Surroundings()


@dataclass(frozen=True, slots=True)
class Replacement:
    """The one proposal for a URL.

    Attributes:
        url_id: the URL's row.
        url: its identity key.
        address: what is proposed.
        stage: where it stands.
        proposed: when.
        tested_day: the day of the last test; None: none yet.
    """

    url_id: int
    url: str
    address: str
    stage: Stage
    proposed: int
    tested_day: int | None


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a proposal did.

    Attributes:
        address: what was kept, as it is asked for.
        archive: the archive whose copy it is; empty: it waits for its test.
        is_new: whether it was not there already.
    """

    address: str
    archive: str = ""
    is_new: bool = True


def propose(
    connection: Connection,
    url: str,
    address: str,
    reporter: bytes,
    now: datetime,
    around: Surroundings = ALONE,
) -> Proposed:
    """Propose an address for an unreachable URL; it is shown once a test has found it working.

    The connection's transaction is rolled back when this raises.

    Raises:
        BadUrlError: one of them is no URL.
        NotObservedError: the URL is not watched.
        NeedlessError: the URL works.
        RefusedAddressError: the address can be no replacement.
        TakenError: another proposal works, or waits for its test.
        TooOftenError: that was said too often.
    """
    observed = need_observed(connection, url)
    wanted = _checked(connection, observed, address, around)
    if observed.state in WORKING:
        raise NeedlessError(f"{shown(observed.url)} works: it needs no replacement.")
    count_act(connection, Act.REPLACE, reporter, now, around.limits)
    if around.archives is not None:
        archive = around.archives.keep(connection, observed, wanted, now)
        if archive:
            return Proposed(wanted, archive)
    lock = select(urls.c.id).where(urls.c.id == observed.id).with_for_update()
    connection.execute(lock)  # two proposals for a URL take turns
    there = connection.execute(
        select(replacements).where(replacements.c.url_id == observed.id)
    ).first()
    if there is not None:
        if identity_key(there.address) == identity_key(wanted):
            return Proposed(there.address, is_new=False)
        if Stage(there.state) is not Stage.FAILED:
            raise TakenError(
                f"{shown(observed.url)} has a replacement already, {shown(there.address)};"
                " remove that first if it is wrong."
            )
        _drop(connection, observed.id)
    row = {
        "url_id": observed.id,
        "address": wanted,
        "state": int(Stage.WAITING),
        "moment": int(now.timestamp()),
        "reporter": reporter,
        "since_day": day_of(now),
    }
    connection.execute(replacements.insert().values(row))
    return Proposed(wanted)


def remove(
    connection: Connection,
    url: str,
    reporter: bytes,
    now: datetime,
    limits: Limits = DEFAULT_LIMITS,
) -> str:
    """Remove what is proposed for the URL, whoever proposed it; the address that was.

    Raises:
        BadUrlError: it is no URL.
        NotObservedError: it is not watched.
        NeedlessError: nothing is proposed for it.
        TooOftenError: the same reporter removed another some seconds ago.
    """
    observed = need_observed(connection, url)
    there = connection.execute(
        select(replacements.c.address).where(replacements.c.url_id == observed.id)
    ).scalar_one_or_none()
    if there is None:
        raise NeedlessError(f"No replacement is proposed for {shown(observed.url)}.")
    count_act(connection, Act.REMOVE, reporter, now, limits)
    _drop(connection, observed.id)
    return str(there)


def replacements_of(connection: Connection, url_ids: Sequence[int]) -> dict[int, Replacement]:
    """What is proposed for these URLs, tested or not; `shown_replacement` says what is shown."""
    found: dict[int, Replacement] = {}
    for some in batches(url_ids):
        for row in connection.execute(_proposals().where(replacements.c.url_id.in_(some))):
            found[row.url_id] = Replacement(
                row.url_id,
                observed_of(row).url,
                row.address,
                Stage(row.stage),
                row.moment,
                row.tested_day,
            )
    return found


def shown_replacement(address: str, stage: int, state: State) -> str:
    """Return the address that readers see beside a URL in that state; empty: none.

    It is told when its test found it working, and while the URL itself does not work (W17).
    """
    return address if stage == Stage.WORKS and state not in WORKING else ""


def replacements_to_test(connection: Connection, day: int, limit: int) -> list[Replacement]:
    """What a checker should look at next: what waits, the oldest first; then what is due again.

    What waits is looked at once a day, all else once a month.
    """
    state, tested = replacements.c.state, replacements.c.tested_day
    last = day - RETEST_DAYS
    chosen = (
        (state == int(Stage.WAITING)) & tested.is_(None),
        (state == int(Stage.WAITING)) & (tested < day),
        (state == int(Stage.WORKS)) & (tested <= last),
        (state == int(Stage.FAILED)) & (tested <= last),
    )
    found: list[int] = []
    for which in chosen:
        ordered = select(replacements.c.url_id).where(which).order_by(tested)
        found += connection.execute(ordered.limit(limit - len(found))).scalars()
    known = replacements_of(connection, found)
    return [known[each] for each in found if each in known]


def book_test(
    connection: Connection,
    tested: Replacement,
    finding: Finding,
    day: int,
    around: Surroundings = ALONE,
) -> Stage | None:
    """Keep what a look at the address found; where it stands now, None when it is no longer proposed.

    What leads back to the URL itself, or to where it may not lead, does not work.
    """
    row = connection.execute(
        select(replacements).where(
            replacements.c.url_id == tested.url_id, replacements.c.address == tested.address
        )
    ).first()
    if row is None:
        return None
    before = Stage(row.state)
    after = next_stage(before, _said(tested, finding, around), day - row.since_day)
    if after is Stage.FAILED and before is after and day - row.since_day >= FAILED_KEPT_DAYS:
        _drop(connection, tested.url_id)
        return None
    since = row.since_day if after is before else day
    connection.execute(
        update(replacements)
        .where(replacements.c.url_id == tested.url_id, replacements.c.address == tested.address)
        .values(state=int(after), since_day=since, tested_day=day)
    )
    return after


def _checked(connection: Connection, observed: Observed, address: str, around: Surroundings) -> str:
    """The address as it is asked for, when it may replace the URL."""
    if len(address) > MAX_ADDRESS_LENGTH:
        raise refused(address, Refusal.TOO_LONG)
    wanted = fetch_key(address)
    if identity_key(wanted) == observed.url:
        raise refused(address, Refusal.SAME)
    reason = refusal_of(wanted)
    if reason is not None:
        raise refused(address, reason)
    why = around.refuses(wanted)
    if why:
        raise refused(address, Refusal.POLICY, why)
    known = find_observed(connection, wanted)
    if known is not None and known.state in _LOST:
        raise refused(address, Refusal.UNREACHABLE)
    return wanted


def _said(tested: Replacement, finding: Finding, around: Surroundings) -> Look:
    """What the look says, what was asked and the place where it ended included."""
    said = SAYS[finding.verdict]
    if said is not Look.GOOD:
        return said
    if around.refuses(tested.address):
        return Look.BAD
    if finding.final_url:
        try:
            final = fetch_key(finding.final_url)
        except BadUrlError:
            return Look.BAD
        back = identity_key(final) == tested.url
        if back or refusal_of(final) is not None or around.refuses(final):
            return Look.BAD
    return said


def _proposals() -> Select[tuple[Any, ...]]:
    return (
        url_select()
        .add_columns(
            replacements.c.url_id,
            replacements.c.address,
            replacements.c.state.label("stage"),
            replacements.c.moment,
            replacements.c.tested_day,
        )
        .join(replacements, replacements.c.url_id == urls.c.id)
    )


def _drop(connection: Connection, url_id: int) -> None:
    connection.execute(delete(replacements).where(replacements.c.url_id == url_id))
