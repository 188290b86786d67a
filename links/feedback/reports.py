"""Reader reports that a link marked dead is reachable, and reader requests to check pages that are not observed.

A report is a note and changes no state. It applies to one URL, or to a domain with a path prefix
(``example.org/docs/``). It is deleted after the next regular good check, or after six months.

When half of the watched URLs of a registrable domain are reported, the whole domain is presumed reachable for six
months, later URLs included. This requires `PRESUMING_REPORTERS` of different address ranges on `PRESUMING_DAYS` days,
and half must remain when any single one of them is left out (M5). The bot does not edit such links.

A request does not start the observation of a page: the wiki's synchronisation reads it once a day at most. The links of
a page that fails the criteria are not watched, and stored until the next such day, to show known facts about them. A
page is identified by its number, or by its title where only that is known. The queue is bounded.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, LargeBinary, delete, distinct, func, select, update

from core.errors import InputError
from core.storable_text import shorten_for_message
from core.url_patterns import PatternForm, parse_pattern
from links.check_history import day_of
from links.feedback.reporter_limits import DEFAULT_LIMITS, LimitedAct, Limits, count_act
from links.registry import urls as url_book
from links.registry.lookups import url_facts
from links.registry.pages import MAX_PAGE_ID, plain_title
from links.registry.quirks import HostQuirk, is_over
from links.registry.schema import asked_pages, host_quirks, hosts, reports, urls
from links.registry.statements import MOST, Reader, SqlStatement, batches, insert_missing, many, one, upsert
from links.registry.urls import NotObservedError, UrlRow, row_of, select_url_rows
from links.states import LinkState
from links.url_parts import KEY_BYTES

VALID_DAYS: Final = 183  # six months
MOST_AT_ONCE: Final = 500  # URLs that one report may be about
PRESUMING_REPORTERS: Final = 3
PRESUMING_DAYS: Final = 2
_DAY_S: Final = 86_400
_ID_LIMIT: Final = (1 << 63) - 1
WORKING: Final = frozenset({LinkState.ALIVE, LinkState.PERMALIVE})


class NeedlessReportError(InputError):
    """Refusal of an action without effect: the registry already has that state."""


@dataclass(frozen=True, slots=True)
class ReportResult:
    """Result of a report."""

    urls: tuple[str, ...]  # the reported identity keys
    until_day: int  # the last day on which it is valid
    renewed: int = 0  # how many of them the same reporter had reported before
    presumed: bool = False  # the whole domain is presumed reachable now


@dataclass(frozen=True, slots=True)
class WithdrawalResult:
    """Result of a withdrawal: number of deleted reports, and whether a presumption ended."""

    reports: int
    presumption: bool


@dataclass(frozen=True, slots=True)
class ReachabilityReports:
    """Report summary that is shown beside a URL."""

    reports: int = 0  # number of readers who can reach it
    last_day: int | None = None  # of the newest report; None without any
    until_day: int | None = None  # expiry of the newest
    presumed_until: int | None = None  # last day of the domain's presumption; None: there is none

    def __bool__(self) -> bool:
        return bool(self.reports) or self.presumed_until is not None


NO_REPORTS: Final = ReachabilityReports()


def add_report(
    connection: Connection,
    named: Sequence[str],
    reporter: bytes,
    now: datetime,
    *,
    is_pattern: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> ReportResult:
    """Record that the reporter can reach the URLs, or with `is_pattern` the prefixes, as one report.

    Roll back after InputError, NotObservedError (W18), NeedlessReportError (all work), TooOftenError (W15).
    """
    wanted = [each for each in _meant(connection, named, is_pattern=is_pattern) if each.state not in WORKING]
    if not wanted:
        raise NeedlessReportError(f"{_listed(named)} is known to work: there is nothing to report.")
    count_act(connection, LimitedAct.REPORT, reporter, now, limits)
    day = day_of(now)
    expire_reports(connection, day, limit=MOST)
    until = day + VALID_DAYS - 1
    before = 0
    for some in batches(each.id for each in wanted):
        mine = (reports.c.reporter == reporter, reports.c.url_id.in_(some))
        before += connection.execute(select(func.count()).select_from(reports).where(*mine)).scalar_one()
    facts = {"moment": int(now.timestamp()), "expires_day": until, "reporter": reporter}
    rows = [{"url_id": each.id, "host_id": each.host_id, **facts} for each in wanted]
    upsert(connection, reports, ("url_id", "reporter"), rows)
    half = [each for each in _domains(connection, wanted) if _is_half_reported(connection, each, day)]
    presumption = {"kind": int(HostQuirk.PRESUMED_REACHABLE), "first_day": day, "last_day": day}
    for domain in half:  # from this day the whole domain is presumed reachable
        on_it = select(hosts.c.id).where(hosts.c.domain == domain).order_by(hosts.c.id)
        quirks = [{"host_id": each, **presumption} for each in connection.execute(on_it).scalars()]
        upsert(connection, host_quirks, ("host_id", "kind"), quirks)
    return ReportResult(tuple(each.url for each in wanted), until, renewed=before, presumed=bool(half))


def withdraw_reports(
    connection: Connection,
    named: Sequence[str],
    reporter: bytes,
    now: datetime,
    *,
    is_pattern: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> WithdrawalResult:
    """Delete all reports about these, by any reporter (W14), with the presumption; NeedlessReportError: none."""
    meant = _meant(connection, named, is_pattern=is_pattern)
    count_act(connection, LimitedAct.WITHDRAW, reporter, now, limits)
    day = day_of(now)
    domains = _domains(connection, meant)
    held = []
    for domain in domains:
        last = connection.execute(select(func.max(host_quirks.c.last_day)).where(*_presumption(domain))).scalar_one()
        if last is not None and not is_over(HostQuirk.PRESUMED_REACHABLE, last, last, day):
            held.append(domain)
    report_count = drop_reports(connection, [each.id for each in meant])
    lost = False
    for domain in held:
        if is_pattern or (report_count and not _is_half_reported(connection, domain, day)):
            connection.execute(delete(host_quirks).where(*_presumption(domain)))
            lost = True
    if not report_count and not lost:
        raise NeedlessReportError(f"Nobody has reported {_listed(named)}: there is nothing to withdraw.")
    return WithdrawalResult(report_count, lost)


def drop_reports(connection: Connection, url_ids: Collection[int]) -> int:
    """Delete the reports about these URLs after a regular good check (W14); return the number."""
    which = reports.c.url_id
    return sum(connection.execute(delete(reports).where(which.in_(some))).rowcount for some in batches(url_ids))


def expire_reports(connection: Connection, day: int, *, limit: int) -> int:
    """Delete up to `limit` reports older than six months, which are not shown any more; return the number."""
    over = select(reports.c.id).where(reports.c.expires_day < day)
    ids = connection.execute(over.order_by(reports.c.expires_day).limit(limit)).scalars().all()
    # Not by a subquery, for which PostgreSQL reads the table as a whole.
    return sum(connection.execute(delete(reports).where(reports.c.id.in_(some))).rowcount for some in batches(ids))


def reachability_reports(connection: Connection, url_ids: Sequence[int], day: int) -> Mapping[int, ReachabilityReports]:
    """Return the report summary of each of the URLs; those without reports are omitted."""
    summary_by_url: dict[int, ReachabilityReports] = {}
    for number, facts in url_facts(connection, url_ids, day=day).items():
        until = facts.reports_until
        last = None if until is None else until - VALID_DAYS + 1
        days = (q.last_day for q in facts.host_quirks if q.kind == HostQuirk.PRESUMED_REACHABLE)
        presumed = next((last_day + VALID_DAYS - 1 for last_day in days), None)
        summary = ReachabilityReports(facts.reports, last, until, presumed)
        if summary:
            summary_by_url[number] = summary
    return summary_by_url


class ReportRow(NamedTuple):
    """Report of one reader about one URL."""

    id: int  # its number
    url: str  # identity key
    state: LinkState
    moment: int  # seconds since 1970
    expires_day: int


def list_reports(connection: Connection, day: int, *, limit: int, before: int = _ID_LIMIT) -> list[ReportRow]:
    """Return the reports that are valid on the day, the newest first, from the one before the number `before`."""
    columns = (reports.c.id.label("number"), reports.c.moment, reports.c.expires_day)
    query = select_url_rows().add_columns(*columns).join(reports, reports.c.url_id == urls.c.id)
    query = query.where(reports.c.expires_day >= day, reports.c.id < before).order_by(reports.c.id.desc()).limit(limit)
    pairs = [(each, row_of(each)) for each in connection.execute(query)]
    return [ReportRow(each.number, url.url, url.state, each.moment, each.expires_day) for each, url in pairs]


def _meant(connection: Connection, named: Sequence[str], *, is_pattern: bool) -> list[UrlRow]:
    """Return the matching watched URLs, each once; never empty."""
    rows_by_id: dict[int, UrlRow] = {}
    for target in named:
        if is_pattern:
            pattern = parse_pattern(target)
            if pattern.form is PatternForm.REGEX:
                raise InputError("A report takes a domain and the beginning of a path, not a pattern.")
            some = url_book.find_matching_urls(connection, pattern, limit=MOST_AT_ONCE + 1)
            if not some:
                raise NotObservedError(f"Nothing that begins with {shorten_for_message(target)} is watched.")
        else:
            some = [url_book.require_observed(connection, target)]
        rows_by_id |= {each.id: each for each in some}
        if len(rows_by_id) > MOST_AT_ONCE:
            raise InputError(f"That matches more than {MOST_AT_ONCE} watched URLs: give a longer path.")
    return list(rows_by_id.values())


def _listed(named: Sequence[str]) -> str:
    return shorten_for_message(named[0]) if len(named) == 1 else "All of that"


def _domains(connection: Connection, named: Sequence[UrlRow]) -> list[str]:
    domains: set[str] = set()
    for some in batches({each.host_id for each in named}):
        domains.update(connection.execute(select(hosts.c.domain).where(hosts.c.id.in_(some)).distinct()).scalars())
    return sorted(domains)


def _is_half_reported(connection: Connection, domain: str, day: int) -> bool:
    """Return True when enough readers report half of the domain's watched URLs (W16); counts no more than needed."""
    on_it = hosts.c.domain == domain
    current = (
        select(reports.c.url_id, reports.c.reporter, reports.c.moment)
        .join(hosts, hosts.c.id == reports.c.host_id)
        .where(on_it, reports.c.expires_day >= day)
        .subquery()
    )
    reported, reporters, days = connection.execute(
        select(
            func.count(distinct(current.c.url_id)),
            func.count(distinct(current.c.reporter)),
            func.count(distinct(current.c.moment // _DAY_S)),
        )
    ).one()
    if reporters < PRESUMING_REPORTERS or days < PRESUMING_DAYS:
        return False
    of_one = select(current.c.url_id).group_by(current.c.url_id).having(func.count() == 1)
    most = (
        select(func.count())
        .where(current.c.url_id.in_(of_one))
        .group_by(current.c.reporter)
        .order_by(func.count().desc())
        .limit(1)
    )
    by_one: int = connection.execute(most).scalar() or 0
    without_one = reported - by_one  # whichever report is removed, at least this many remain
    some = select(urls.c.id).join(hosts, hosts.c.id == urls.c.host_id).where(on_it)
    watched: int = connection.execute(
        select(func.count()).select_from(some.limit(2 * without_one + 1).subquery())
    ).scalar_one()
    return 0 < watched <= 2 * without_one


def _presumption(domain: str) -> tuple[ColumnElement[bool], ...]:
    on_it = select(hosts.c.id).where(hosts.c.domain == domain)
    return host_quirks.c.kind == int(HostQuirk.PRESUMED_REACHABLE), host_quirks.c.host_id.in_(on_it)


MOST_OF_WIKI = 1_000
MOST_LINKS = 5_000  # of one page
_TABLE = asked_pages.c
_OF_PAGE = (_TABLE.wiki_id == one("wiki")) & (_TABLE.page_id == one("of")) & (_TABLE.title == one("called"))
OF_WIKI = SqlStatement(
    select(_TABLE.page_id, _TABLE.title, _TABLE.day, _TABLE.is_done).where(_TABLE.wiki_id == one("wiki"))
)
WAITING = SqlStatement(
    select(_TABLE.page_id, _TABLE.title)
    .where(_TABLE.wiki_id == one("wiki"), _TABLE.is_done.is_(False))
    .order_by(_TABLE.day, _TABLE.page_id, _TABLE.title)
    .limit(one("most"))
)
ASK_AGAIN = SqlStatement(update(asked_pages).where(_OF_PAGE).values(day=one("today"), is_done=False))
SET_DONE = SqlStatement(
    update(asked_pages).where(_OF_PAGE).values(is_done=True, day=one("today"), links=one("keys", LargeBinary()))
)
FIND_ASKED = SqlStatement(
    select(_TABLE.page_id, _TABLE.title, _TABLE.day, _TABLE.is_done, _TABLE.links).where(
        _TABLE.wiki_id == one("wiki"), _TABLE.page_id.in_(many("ids")), _TABLE.title.in_(many("titles"))
    ),
    *("ids", "titles"),
)
COUNT_OF_WIKI = SqlStatement(select(func.count()).select_from(asked_pages).where(_TABLE.wiki_id == one("wiki")))
FORGET_READ = SqlStatement(
    delete(asked_pages).where(_TABLE.wiki_id == one("wiki"), _TABLE.is_done.is_(True), _TABLE.day < one("today"))
)


class RequestedPage(NamedTuple):
    """Requested page, by its number, else (0) by its title."""

    page_id: int
    title: str


class RequestState(StrEnum):
    """State of the request to read a page that is not observed."""

    QUEUED = "queued"  # it waits for the feeder
    DONE = "done"  # the feeder read it, and the wiki's criteria exclude it
    REFUSED = "refused"  # too many wait


class PageRequestFacts(NamedTuple):
    """Stored facts about a requested page."""

    state: RequestState  # of the request to read it
    read_day: int | None = None  # day of the last reading; None: not yet
    keys: tuple[bytes, ...] = ()  # of the URLs that it had then (`links.url_parts.key_of`)


def find_page_requests(
    reader: Reader, wiki_id: int, page_ids: Iterable[int] = (), titles: Iterable[str] = ()
) -> dict[RequestedPage, PageRequestFacts]:
    """Return the stored facts about these pages, none of which is observed.

    A page without a request is reported as queued while there is room: the caller then requests it.
    """
    wanted = _named(page_ids, titles)
    facts_by_page: dict[RequestedPage, PageRequestFacts] = {}
    for batch in batches(wanted):
        parameters = {"ids": [each.page_id for each in batch], "titles": [each.title for each in batch]}
        for page_id, title, day, is_done, links in FIND_ASKED.rows(reader, {"wiki": wiki_id, **parameters}):
            state = RequestState.DONE if is_done else RequestState.QUEUED
            packed = bytes(links or b"")
            keys = tuple(packed[at : at + KEY_BYTES] for at in range(0, len(packed), KEY_BYTES))
            facts_by_page[RequestedPage(page_id, title)] = PageRequestFacts(state, day if is_done else None, keys)
    left = [each for each in wanted if each not in facts_by_page]
    if left:
        room = MOST_OF_WIKI - COUNT_OF_WIKI.rows(reader, {"wiki": wiki_id})[0][0]
        for place, each in enumerate(left):
            state = RequestState.QUEUED if place < room else RequestState.REFUSED
            facts_by_page[each] = PageRequestFacts(state)
    return {each: facts_by_page[each] for each in wanted}


def put_page_requests(
    connection: Connection, wiki_id: int, page_ids: Iterable[int] = (), titles: Iterable[str] = (), *, day: int
) -> int:
    """Record requests up to `MOST_OF_WIKI` for the wiki's synchronisation; return how many are new today."""
    wanted = _named(page_ids, titles)
    requested_pages = _requested(connection, wiki_id, day)
    again = [each for each in wanted if requested_pages.get(each)]
    new = [each for each in wanted if each not in requested_pages][: max(MOST_OF_WIKI - len(requested_pages), 0)]
    ASK_AGAIN.run(connection, [_values(wiki_id, each) | {"today": day} for each in again])
    insert_missing(connection, asked_pages, [{"wiki_id": wiki_id, **each._asdict(), "day": day} for each in new])
    return len(again) + len(new)


def are_requested(
    connection: Connection, wiki_id: int, page_ids: Iterable[int], titles: Iterable[str], *, day: int
) -> bool:
    """Return True when all of these pages are recorded today."""
    wanted = _named(page_ids, titles)
    requested_pages = _requested(connection, wiki_id, day)
    return all(requested_pages.get(page) is False for page in wanted) or len(requested_pages) >= MOST_OF_WIKI


def waiting_pages(connection: Connection, wiki_id: int, *, limit: int) -> list[RequestedPage]:
    """Return pages that have not been read yet, longest waiting first."""
    return [RequestedPage(*row) for row in WAITING.rows(connection, {"wiki": wiki_id, "most": limit})]


def finish_page_requests(
    connection: Connection,
    wiki_id: int,
    read: Iterable[RequestedPage],
    *,
    day: int,
    keys: Mapping[RequestedPage, Iterable[bytes]] = MappingProxyType({}),
) -> None:
    """Record the pages read today, with `keys` of the URLs of those that are not to be observed."""
    rows = [
        {
            **_values(wiki_id, each),
            "today": day,
            "keys": b"".join(list(dict.fromkeys(keys.get(each, ())))[:MOST_LINKS]) or None,
        }
        for each in read
    ]
    SET_DONE.run(connection, rows)
    FORGET_READ.run(connection, {"wiki": wiki_id, "today": day})


def _named(page_ids: Iterable[int], titles: Iterable[str]) -> list[RequestedPage]:
    numbered = [RequestedPage(each, "") for each in page_ids if 0 < each <= MAX_PAGE_ID]
    titled = [RequestedPage(0, title) for each in titles if (title := plain_title(each))]
    return list(dict.fromkeys([*numbered, *titled]))


def _requested(connection: Connection, wiki_id: int, day: int) -> dict[RequestedPage, bool]:
    """Return the requested pages of the wiki; True for those that were read before that day."""
    rows = OF_WIKI.rows(connection, {"wiki": wiki_id})
    return {RequestedPage(page_id, title): bool(done) and last < day for page_id, title, last, done in rows}


def _values(wiki_id: int, page: RequestedPage) -> dict[str, Any]:
    return {"wiki": wiki_id, "of": page.page_id, "called": page.title}
