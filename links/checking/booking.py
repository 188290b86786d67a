"""Results, booked: all of a batch in one transaction, each exactly once.

    with store.writing() as rows:
        booked = book(rows, results, rules)

A batch of a pass has a number (`advance`): one whose answer was lost on the way, because the database
went away while it kept it, is not booked a second time. The rows are judged as they are now, not as
they were when the look began: in between a person may have marked a URL, or a page lost it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select, update

from links.books.citing import said_dead
from links.books.wanted import want_urls
from links.checking.due import standing_of
from links.checking.judging import (
    OBSERVATIONS,
    Change,
    Kept,
    Rules,
    change_of,
    is_contradicted,
    row_of,
    told_by,
)
from links.checking.quirk_rows import quirks_of, write_host_quirks, write_url_quirks
from links.checking.traits import host_traits, url_traits
from links.days import day_of
from links.findings import Finding, How, Verdict
from links.locator import SCHEMES, Locator
from links.quirks import HostQuirk, UrlQuirk
from links.reports import drop_reports
from links.states import State, after
from links.status import Code
from links.store.schema import hosts, observations, passes, urls
from links.store.upserts import insert_missing

_AT_ONCE = 500
_TAG = Finding(Code.NONE, Verdict.GONE, How.PERSON)  # a page's "dead link" tag
# People and policy decided on these, or nobody can ask for them: what a look found changes nothing.
SETTLED = frozenset({State.PERMALIVE, State.PERMADEAD, State.INVALID, State.EXCLUDED})


@dataclass(frozen=True, slots=True)
class Result:
    """What a look at a URL found.

    Attributes:
        url_id: the URL's row.
        finding: what was found.
        moment: when, aware.
    """

    url_id: int
    finding: Finding
    moment: datetime


@dataclass(frozen=True, slots=True)
class Booked:
    """A result that was kept.

    Attributes:
        url_id: the URL's row.
        url: its identity key.
        finding: what was found.
        before: the state before.
        after: the state now.
        due_day: when it is looked at again; None: never.
        awaits_opinion: a browser must look before more is said.
    """

    url_id: int
    url: str
    finding: Finding
    before: State
    after: State
    due_day: int | None
    awaits_opinion: bool


def book(connection: Connection, results: Sequence[Result], rules: Rules) -> list[Booked]:
    """Keep what was found. What the registry does not watch any more is passed over.

    Args:
        connection: one that writes.
        results: the oldest first; several of one URL are judged one after the other.
        rules: what they are judged by.
    """
    booked: list[Booked] = []
    for batch in _rounds(results):
        booked += _book_once(connection, batch, rules)
    return booked


def advance(connection: Connection, pass_id: int, batch: int, done: int) -> bool:
    """Note that a batch of the pass is being kept, with so many looks; False when it was before."""
    changed = connection.execute(
        update(passes)
        .where(passes.c.id == pass_id, passes.c.batch == batch - 1)
        .values(batch=batch, done=passes.c.done + done)
    )
    return changed.rowcount == 1


class Delay(NamedTuple):
    """A host that wants to be left alone: its URLs that are due are due on that day."""

    host_id: int
    due_day: int


def delay(connection: Connection, delays: Iterable[Delay], *, horizon: int) -> None:
    """Put off what is due at these hosts up to the horizon; nothing was found out about it."""
    for each in delays:
        connection.execute(
            update(urls)
            .where(urls.c.host_id == each.host_id, urls.c.due_day <= horizon)
            .values(due_day=each.due_day)
        )


def put_off(connection: Connection, url_ids: Sequence[int], *, due_day: int) -> None:
    """Let URLs be due on that day; nothing was found out about them."""
    if url_ids:
        connection.execute(update(urls).where(urls.c.id.in_(url_ids)).values(due_day=due_day))


def settle_marked(
    connection: Connection, url_id: int, state: State, *, due_day: int | None
) -> None:
    """Let a URL be what people decided (B10, B11), and let nobody ask for it until that day."""
    connection.execute(
        update(urls)
        .where(urls.c.id == url_id)
        .values(state=int(state), due_day=due_day, opinion_day=None, proofs=0)
        .values(fails=0, first_fail_day=None, last_fail_day=None)
    )


def _rounds(results: Sequence[Result]) -> list[list[Result]]:
    """The results so that no URL is in one round twice, each round no longer than a statement takes."""
    rounds: list[dict[int, Result]] = []
    placed: dict[int, int] = {}
    for result in results:
        number = placed.get(result.url_id, -1) + 1
        while number < len(rounds) and len(rounds[number]) >= _AT_ONCE:
            number += 1
        if number >= len(rounds):
            rounds.append({})
        rounds[number][result.url_id] = result
        placed[result.url_id] = number
    return [list(batch.values()) for batch in rounds]


def _book_once(connection: Connection, results: list[Result], rules: Rules) -> list[Booked]:
    rows = _rows(connection, [result.url_id for result in results])
    if not rows:
        return []
    days = [day_of(result.moment) for result in results]
    quirks = quirks_of(connection, {row.name for row in rows.values()}, day=max(days))
    tagged = said_dead(connection, rows) if rules.preset.trusts_tags else frozenset()
    batch = _Batch(day=max(days), now=max(result.moment for result in results))
    for result, day in zip(results, days, strict=True):
        row = rows.get(result.url_id)
        if row is None:
            continue
        where = Locator(SCHEMES[row.scheme], row.name, row.port, row.path)
        kept = _kept(row)
        finding = told_by(result.finding, quirks.get(row.name, frozenset()), browser=rules.browser)
        if kept.standing.state in SETTLED:
            batch.pass_over(where, result, kept)
            continue
        judged_by = rules.of(where.url)
        if result.url_id in tagged and finding.verdict in (Verdict.GONE, Verdict.FAILING):
            told = after(kept.standing, _TAG, day, judged_by.preset, browser=rules.browser)
            kept = kept._replace(standing=told)
        change = change_of(kept, finding, day, judged_by)
        batch.add(where, result, finding, kept, change)
        contradicts = is_contradicted(kept, finding, day)
        batch.add_traits(row, where, result.finding, contradicts=contradicts)
    batch.write(connection)
    return batch.booked


def _rows(connection: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """The URLs' rows, held until the connection's changes are kept; always taken in one order."""
    asked = (
        select(urls, hosts.c.name)
        .join_from(urls, hosts, hosts.c.id == urls.c.host_id)
        .where(urls.c.id.in_(sorted(ids)))
        .order_by(urls.c.id)
        .with_for_update(of=urls)
    )
    return {row.id: row for row in connection.execute(asked)}


def _kept(row: Any) -> Kept:
    return Kept(
        key=bytes(row.key),
        standing=standing_of(row),
        code=row.code,
        history=None if row.history is None else bytes(row.history),
        mime=row.mime,
        kib=row.kib,
        is_new=row.checked_day is None,
        opinion_day=row.opinion_day,
        due_day=row.due_day,
    )


class _Batch:
    """What results change, gathered to be written with a few statements."""

    def __init__(self, *, day: int, now: datetime) -> None:
        self.booked: list[Booked] = []
        self._day = day
        self._now = now
        self._changed: list[dict[str, Any]] = []
        self._observed: list[dict[str, Any]] = []
        self._answering: list[int] = []
        self._revived: list[int] = []
        self._of_hosts: dict[tuple[int, HostQuirk], bool] = {}
        self._of_urls: dict[tuple[int, UrlQuirk], str] = {}

    def pass_over(self, where: Locator, result: Result, kept: Kept) -> None:
        """The URL stays as people want it."""
        state = kept.standing.state
        self.booked.append(
            Booked(
                *(result.url_id, where.url, result.finding, state, state, kept.due_day),
                awaits_opinion=False,
            )
        )

    def add(
        self, where: Locator, result: Result, finding: Finding, kept: Kept, change: Change
    ) -> None:
        """The URL becomes what the change says."""
        standing = change.standing
        self.booked.append(
            Booked(
                *(result.url_id, where.url, result.finding, kept.standing.state, standing.state),
                due_day=change.due_day,
                awaits_opinion=change.opinion_day is not None,
            )
        )
        self._changed.append(
            {
                "b_id": result.url_id,
                "checked_day": day_of(result.moment),
                "due_day": change.due_day,
                "state": int(standing.state),
                "code": change.code,
                "fails": standing.fails,
                "first_fail_day": standing.first_fail,
                "last_fail_day": standing.last_fail,
                "proofs": int(standing.proofs),
                "history": change.history,
                "mime": change.mime,
                "kib": change.kib,
                "opinion_day": change.opinion_day,
            }
        )
        if change.is_observed:
            moment = int(result.moment.timestamp())
            self._observed.append(row_of(result.url_id, finding, moment))
        if finding.verdict is Verdict.OK and finding.how in (How.HEAD, How.GET, How.BROWSER):
            self._answering.append(result.url_id)
        if standing.state is State.ALIVE and kept.standing.state is not State.ALIVE:
            self._revived.append(result.url_id)

    def add_traits(self, row: Any, where: Locator, finding: Finding, *, contradicts: bool) -> None:
        """The oddities that the finding tells of."""
        of_host = host_traits(where, finding, is_known_failing=contradicts)
        for kind, is_there in of_host.items():
            self._of_hosts[row.host_id, kind] = is_there
        for url_kind, value in url_traits(where, finding).items():
            self._of_urls[row.id, url_kind] = value

    def write(self, connection: Connection) -> None:
        """Keep it."""
        if self._changed:
            connection.execute(update(urls).where(urls.c.id == bindparam("b_id")), self._changed)
        if self._observed:
            insert_missing(connection, observations, self._observed)
            _trim(connection, [row["url_id"] for row in self._observed])
        if self._answering:  # W14: what answers us needs nobody to say so
            drop_reports(connection, self._answering)
        if self._revived:  # what was down when it was cited can be archived now
            want_urls(connection, self._revived, now=self._now)
        write_host_quirks(connection, self._of_hosts, day=self._day)
        write_url_quirks(connection, self._of_urls, day=self._day)


def _trim(connection: Connection, ids: Sequence[int]) -> None:
    """Leave the newest looks at each of these URLs."""
    counted = connection.execute(
        select(observations.c.url_id)
        .where(observations.c.url_id.in_(ids))
        .group_by(observations.c.url_id)
        .having(func.count() > OBSERVATIONS)
    )
    for (url_id,) in counted.all():
        oldest = connection.execute(
            select(observations.c.moment, observations.c.how)
            .where(observations.c.url_id == url_id)
            .order_by(observations.c.moment.desc(), observations.c.how.desc())
            .limit(1)
            .offset(OBSERVATIONS - 1)
        ).one()
        older = or_(
            observations.c.moment < oldest.moment,
            and_(observations.c.moment == oldest.moment, observations.c.how < oldest.how),
        )
        connection.execute(delete(observations).where(observations.c.url_id == url_id, older))
