"""Replacement URLs proposed for dead links: address checks, stages, tests, storage.

A proposal waits until a check finds its page, for at most `PATIENCE_DAYS`. Working ones are checked monthly, and only
they are shown. Anybody may remove a proposal. Each URL has one slot. An address of a known archive is stored as a copy
of the URL instead.
"""

import ipaddress
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, select, update

from core.errors import BadUrlError, InputError
from core.hosts import BAD_PORTS, is_local_name
from core.storable_text import shorten_for_message
from core.urls import fetch_key, host_of, identity_key
from links.check_history import day_of
from links.check_result import CheckResult, CheckVerdict
from links.feedback.reporter_limits import DEFAULT_LIMITS, LimitedAct, Limits, count_act, limits_of
from links.feedback.reports import WORKING, NeedlessReportError
from links.registry.schema import replacements, urls
from links.registry.statements import batches
from links.registry.urls import UrlRow, find_observed, require_observed, row_of, select_url_rows
from links.states import LinkState
from links.url_parts import url_parts_of
from net.address_policy import is_public

PATIENCE_DAYS: Final = 7


class ProposalStage(IntEnum):
    """Stage of a proposal; the values are stored in the registry."""

    WAITING = 0  # not yet tested, or the test was inconclusive
    WORKS = 1
    FAILED = 2


_INCONCLUSIVE = frozenset({CheckVerdict.FAILING, CheckVerdict.REFUSED, CheckVerdict.UNDECIDED})


def next_stage(stage: ProposalStage, works: bool | None, days: int) -> ProposalStage:  # noqa: FBT001 a test's outcome
    """Return the stage of a proposal after a test (None: inconclusive), given its days in the current stage."""
    if works is not None:
        return ProposalStage.WORKS if works else ProposalStage.FAILED
    is_over = stage is ProposalStage.WAITING and days >= PATIENCE_DAYS
    return ProposalStage.FAILED if is_over or stage is ProposalStage.FAILED else ProposalStage.WAITING


MAX_ADDRESS_LENGTH: Final = 4_000
# RFC 6762, 7686, 8375 and ICANN's "internal": names of private networks. Others may be a private wiki's own.
_NO_WEB = frozenset({"local", "internal", "onion", "home.arpa"})


class RefusedAddressError(InputError):
    """Refusal of an address as a replacement, with its reason."""

    def __init__(self, message: str, *, reason: "AddressRefusal") -> None:
        super().__init__(message)
        self.reason = reason


class AddressRefusal(StrEnum):
    """Reason that an address cannot be a replacement."""

    SAME = "same"
    TOO_LONG = "too-long"
    PRIVATE = "private"
    PORT = "port"
    POLICY = "policy"
    UNREACHABLE = "unreachable"
    OTHER_COPY = "other-copy"


def refusal_of(address: str) -> AddressRefusal | None:
    """Return the reason that an address cannot be a replacement, judged by its text alone.

    >>> refusal_of("http://10.1.2.3/"), refusal_of("http://nas.local/"), refusal_of("http://a.org/")
    (<AddressRefusal.PRIVATE: 'private'>, <AddressRefusal.PRIVATE: 'private'>, None)
    """
    if len(address) > MAX_ADDRESS_LENGTH:
        return AddressRefusal.TOO_LONG
    host = host_of(address)
    port = url_parts_of(address).port
    if port in BAD_PORTS and port:
        return AddressRefusal.PORT
    try:
        is_private = not is_public(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        labels = host.split(".")
        ends = {".".join(labels[-count:]) for count in (1, 2)}
        is_private = is_local_name(host) or not ends.isdisjoint(_NO_WEB)
    return AddressRefusal.PRIVATE if is_private else None


_WHY: Final[Mapping[AddressRefusal, str]] = {
    AddressRefusal.SAME: "it is the same URL",
    AddressRefusal.TOO_LONG: f"it is longer than {MAX_ADDRESS_LENGTH:,} characters",
    AddressRefusal.PRIVATE: "it does not lead to the public web",
    AddressRefusal.PORT: "its port is not used for the web",
    AddressRefusal.UNREACHABLE: "the registry knows it as unreachable as well",
}


def refused_address_error(address: str, reason: AddressRefusal, why: str = "") -> RefusedAddressError:
    """Build the error for an address that cannot be a replacement."""
    return RefusedAddressError(
        f"{shorten_for_message(address)} cannot be a replacement: {why or _WHY[reason]}.", reason=reason
    )


RETEST_DAYS: Final = 30
FAILED_KEPT_DAYS: Final = 183

_LOST = frozenset({LinkState.DEAD, LinkState.PERMADEAD, LinkState.USURPED, LinkState.EXCLUDED, LinkState.INVALID})


class ProposalTakenError(InputError):
    """Refusal because another proposal occupies the slot."""


# Stores an address as a copy of the URL when it belongs to a known archive, whose name it returns, else
# "". Raises RefusedAddressError for an archive's address of another URL, or an unusable one.
ArchiveCopySink = Callable[[Connection, UrlRow, str, datetime], str]


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """Policies for proposed addresses."""

    refuses: Callable[[str], str] = lambda _url: ""  # by policy: the reason; empty: it does not
    archives: ArchiveCopySink | None = None  # None: archives are treated as any other
    limits: Limits = field(default_factory=limits_of)  # rate limits of user actions


NO_CONTEXT: Final = ProposalContext()


@dataclass(frozen=True, slots=True)
class ReplacementProposal:
    """Proposal for a URL."""

    url_id: int  # the URL's row
    url: str  # its identity key
    address: str  # the proposed address
    stage: ProposalStage
    tested_day: int | None  # the day of the last test; None: none yet


@dataclass(frozen=True, slots=True)
class ProposalResult:
    """Result of a proposal."""

    address: str  # the stored address, as it is requested
    archive: str = ""  # the archive whose copy it is; empty: it waits for its test
    is_new: bool = True  # it was not stored before


def propose_replacement(
    connection: Connection, url: str, address: str, reporter: bytes, now: datetime, around: ProposalContext = NO_CONTEXT
) -> ProposalResult:
    """Store an address for an unreachable URL; it is shown after a successful test.

    Roll back after NotObservedError, NeedlessReportError, RefusedAddressError, ProposalTakenError, TooOftenError.
    """
    observed = require_observed(connection, url)
    wanted = _checked(connection, observed, address, around)
    if observed.state in WORKING:
        raise NeedlessReportError(f"{shorten_for_message(observed.url)} works: it needs no replacement.")
    count_act(connection, LimitedAct.REPLACE, reporter, now, around.limits)
    if around.archives is not None:
        archive = around.archives(connection, observed, wanted, now)
        if archive:
            return ProposalResult(wanted, archive)
    lock = select(urls.c.id).where(urls.c.id == observed.id).with_for_update()
    connection.execute(lock)  # two proposals for a URL take turns
    stored = connection.execute(select(replacements).where(replacements.c.url_id == observed.id)).first()
    if stored is not None:
        if identity_key(stored.address) == identity_key(wanted):
            return ProposalResult(stored.address, is_new=False)
        if ProposalStage(stored.state) is not ProposalStage.FAILED:
            raise ProposalTakenError(
                f"{shorten_for_message(observed.url)} already has a replacement, {shorten_for_message(stored.address)};"
                " remove that first if it is wrong."
            )
        _drop(connection, observed.id)
    row = {
        "url_id": observed.id,
        "address": wanted,
        "state": int(ProposalStage.WAITING),
        "moment": int(now.timestamp()),
        "reporter": reporter,
        "since_day": day_of(now),
    }
    connection.execute(replacements.insert().values(row))
    return ProposalResult(wanted)


def remove_replacement(
    connection: Connection, url: str, reporter: bytes, now: datetime, limits: Limits = DEFAULT_LIMITS
) -> str:
    """Remove the proposal for the URL, by any reporter; return its address.

    Raises NotObservedError, NeedlessReportError when there is none, TooOftenError.
    """
    observed = require_observed(connection, url)
    address = _address_of(connection, observed)
    count_act(connection, LimitedAct.REMOVE, reporter, now, limits)
    _drop(connection, observed.id)
    return address


def approve_replacement(
    connection: Connection, url: str, address: str, now: datetime, around: ProposalContext = NO_CONTEXT
) -> None:
    """Show the address that is proposed for the URL by a person's judgement. Monthly tests continue.

    Raises NotObservedError, NeedlessReportError when none is proposed, ProposalTakenError when it is another one,
    RefusedAddressError when a mark refuses it.
    """
    observed = require_observed(connection, url)
    proposed = _address_of(connection, observed)
    if proposed != address:
        raise ProposalTakenError(
            f"{shorten_for_message(proposed)} is proposed for {shorten_for_message(observed.url)}, not"
            f" {shorten_for_message(address)}: look at it first."
        )
    if why := around.refuses(address):
        raise refused_address_error(address, AddressRefusal.POLICY, why)
    day = day_of(now)
    values = {"state": int(ProposalStage.WORKS), "since_day": day, "tested_day": day}
    connection.execute(update(replacements).where(replacements.c.url_id == observed.id).values(values))


def list_replacements(
    connection: Connection, stages: Collection[ProposalStage] = tuple(ProposalStage), *, limit: int, after: int = 0
) -> list[ReplacementProposal]:
    """Return proposals in these stages by the numbers of their URLs, from the one after `after`."""
    chosen = replacements.c.state.in_(list(map(int, stages))), replacements.c.url_id > after
    return _proposals(connection, *chosen, limit=limit)


def _address_of(connection: Connection, observed: UrlRow) -> str:
    query = select(replacements.c.address).where(replacements.c.url_id == observed.id)
    address = connection.execute(query).scalar_one_or_none()
    if address is None:
        raise NeedlessReportError(f"No replacement is proposed for {shorten_for_message(observed.url)}.")
    return str(address)


def replacements_of(connection: Connection, url_ids: Sequence[int]) -> dict[int, ReplacementProposal]:
    """Return the proposals for these URLs, tested or not; see `shown_replacement`."""
    parts = (_proposals(connection, replacements.c.url_id.in_(some)) for some in batches(url_ids))
    return {each.url_id: each for part in parts for each in part}


def _proposals(
    connection: Connection, *which: ColumnElement[bool], order: Any = replacements.c.url_id, limit: int | None = None
) -> list[ReplacementProposal]:
    query = select_url_rows().join(replacements, replacements.c.url_id == urls.c.id).where(*which).order_by(order)
    query = query.add_columns(replacements.c.address, replacements.c.state.label("stage"), replacements.c.tested_day)
    return [
        ReplacementProposal(row.id, row_of(row).url, row.address, ProposalStage(row.stage), row.tested_day)
        for row in connection.execute(query.limit(limit))
    ]


def shown_replacement(address: str, stage: int, state: LinkState) -> str:
    """Return the replacement to show beside a URL: one that works, while the URL itself does not (W17); else empty."""
    return address if stage == ProposalStage.WORKS and state not in WORKING else ""


def replacements_to_test(connection: Connection, day: int, limit: int) -> list[ReplacementProposal]:
    """Return the proposals to test next: waiting ones daily, oldest first; then the others, monthly."""
    state, tested = replacements.c.state, replacements.c.tested_day
    last = day - RETEST_DAYS
    chosen = (
        (state == int(ProposalStage.WAITING)) & tested.is_(None),
        (state == int(ProposalStage.WAITING)) & (tested < day),
        (state == int(ProposalStage.WORKS)) & (tested <= last),
        (state == int(ProposalStage.FAILED)) & (tested <= last),
    )
    proposals: list[ReplacementProposal] = []
    for which in chosen:
        proposals += _proposals(connection, which, order=tested, limit=limit - len(proposals))
    return proposals


def record_replacement_test(
    connection: Connection,
    tested: ReplacementProposal,
    finding: CheckResult,
    day: int,
    around: ProposalContext = NO_CONTEXT,
) -> ProposalStage | None:
    """Store a test result; return the new stage, None when it is no longer proposed."""
    its = (replacements.c.url_id == tested.url_id, replacements.c.address == tested.address)
    row = connection.execute(select(replacements).where(*its)).first()
    if row is None:
        return None
    before = ProposalStage(row.state)
    days = day - row.since_day
    after = next_stage(before, _works(tested, finding, around), days)
    if before is after is ProposalStage.FAILED and days >= FAILED_KEPT_DAYS:
        _drop(connection, tested.url_id)
        return None
    values = {"state": int(after), "since_day": row.since_day if after is before else day, "tested_day": day}
    connection.execute(update(replacements).where(*its).values(values))
    return after


def _checked(connection: Connection, observed: UrlRow, address: str, around: ProposalContext) -> str:
    """Return the normalized address, when it may replace the URL."""
    if len(address) > MAX_ADDRESS_LENGTH:
        raise refused_address_error(address, AddressRefusal.TOO_LONG)
    wanted = fetch_key(address)
    reason = AddressRefusal.SAME if identity_key(wanted) == observed.url else refusal_of(wanted)
    if reason is not None:
        raise refused_address_error(address, reason)
    why = around.refuses(wanted)
    if why:
        raise refused_address_error(address, AddressRefusal.POLICY, why)
    known = find_observed(connection, wanted)
    if known is not None and known.state in _LOST:
        raise refused_address_error(address, AddressRefusal.UNREACHABLE)
    return wanted


def _works(tested: ReplacementProposal, finding: CheckResult, around: ProposalContext) -> bool | None:
    """Return True when a test found the page at an address that may be shown; None when it is inconclusive."""
    if finding.verdict is not CheckVerdict.OK:
        return None if finding.verdict in _INCONCLUSIVE else False
    if around.refuses(tested.address):
        return False
    if not finding.final_url:
        return True
    try:
        final = fetch_key(finding.final_url)
    except BadUrlError:
        return False
    return identity_key(final) != tested.url and refusal_of(final) is None and not around.refuses(final)


def _drop(connection: Connection, url_id: int) -> None:
    connection.execute(delete(replacements).where(replacements.c.url_id == url_id))
