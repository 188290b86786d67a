"""Links in the console's API: by state, host, pattern and page, with history; checks, marks, reports, replacements."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from core.errors import InputError
from core.json_values import FactsOf, json_facts
from core.timestamps import parse_duration
from core.urls import fetch_key
from links.check_history import day_of, day_of_date
from links.checker.check_schedule import STATE_DAYS, states_by_day
from links.checker.due_urls import set_due_day
from links.feedback import replacements
from links.feedback.marks import (
    LinkMark,
    MarkKind,
    MarkSet,
    apply_marks,
    check_mark,
    lift_marks,
    named_marks,
    pending_marks,
    put_marks,
    read_marks,
)
from links.feedback.replacements import ProposalStage
from links.feedback.reporter_limits import ActLimit, LimitedAct, open_reporter_digests
from links.feedback.reports import ReportRow, add_report, list_reports, withdraw_reports
from links.registry.link_search import LinkQuery, search_links
from links.registry.lookups import EVERY_STATE, list_urls, page_facts, pages_by_title, url_facts, uses_anywhere
from links.registry.pages import WikiPageRow
from links.registry.urls import find_observed, latest_observations, urls_by_id
from links.registry.wikis import Wiki, all_wikis, known_wiki, parse_wiki
from links.rules.link_pattern import parse_link_pattern
from links.states import SETTLED, LinkState
from playback.web.i18n import noop
from weboid.app import link_facts
from weboid.console.accounts import ConsoleRole
from weboid.console.operations import (
    URLS_LIMIT,
    Cursor,
    Day,
    Limit,
    OperationContext,
    UnknownThingError,
    Url,
    cursor_number,
    names_of,
    operation,
    resource,
)

_UNLIMITED = {each: ActLimit(0, None) for each in LimitedAct}  # of people with an account
_USES_SHOWN = 100
_STATE_DAYS_LIMIT = 3_660
_CHECKED_STATES = [int(each) for each in LinkState if each not in SETTLED]
_Names = Sequence[Url] | Url
_Reported = Annotated[_Names, Field(description="URLs; with `is_pattern` domains, optionally with a path.")]
WikiId = Annotated[str, Field(max_length=200, description="As dewiki@WMF.")]
PageTitle = Annotated[str, Field(min_length=1, max_length=1_000)]


LinkList = TypedDict(
    "LinkList", {"links": list[link_facts.LinkFacts] | list[link_facts.FoundLinkFacts], "next": str | None}
)
WatchedLink = Annotated[dict[str, Any], FactsOf(
    "WatchedLink", link_facts.LinkDocument, number=int, mark=link_facts.MarkFacts | None,
)]  # fmt: skip
LinkStates = TypedDict("LinkStates", {"days": list[link_facts.DayStates]})
LinkOnPage = Annotated[dict[str, Any], FactsOf("LinkOnPage", link_facts.LinkFacts, since=date)]
PageLinks = TypedDict("PageLinks", {"wiki": str, "page_id": int, "title": str, "links": list[LinkOnPage]})
QueuedChecks = TypedDict("QueuedChecks", {"queued": int, "message": str})


@resource("/links")
def list_links(
    context: OperationContext,
    *,
    host: Annotated[str, Field(max_length=300, description="That host alone.")] = "",
    pattern: Annotated[str, Field(max_length=8_000, description="As in `weboid links ls`: *.example.org/path.")] = "",
    wiki: Annotated[str, Field(max_length=200, description="With `pattern`: only links on this wiki's pages.")] = "",
    state: names_of(LinkState) | None = None,  # type: ignore[valid-type]
    cursor: Cursor = "",
    limit: Limit = 100,
) -> LinkList:
    """Return links: of a host, of all, or of a pattern such as *.example.org/path, also on one wiki's pages only."""
    states = frozenset() if state is None else frozenset({LinkState[state.upper()]})
    if wiki and not pattern:
        raise InputError("Name a pattern, such as *.example.org, with the wiki.")
    with context.registry.reading() as rows:
        if pattern:
            wiki_id = known_wiki(rows, parse_wiki(wiki)).id if wiki else None
            wanted = LinkQuery(wiki_id, (), states, with_excluded=True)
            part = search_links(rows, parse_link_pattern(pattern), wanted, limit=limit, after=cursor)
            return {"links": [link_facts.found_link_json(each) for each in part.links], "next": part.after or None}
        numbers = list(map(int, states)) or EVERY_STATE
        listed = list_urls(rows, limit=limit, after=cursor_number(cursor), host=host.lower(), states=numbers)
    following = str(listed[-1].id) if len(listed) == limit else None
    return {"links": [link_facts.url_json(row) for row in listed], "next": following}


@resource("/links/link")
def read_link(context: OperationContext, url: Url) -> WatchedLink:
    """Return a link: state, history of checks, pages that cite it, copies, reports, replacement, mark."""
    with context.registry.reading() as rows:
        row = find_observed(rows, url)
        if row is None:
            raise UnknownThingError(noop("The registry does not watch that URL."))
        facts = url_facts(rows, [row.id], day=day_of(context.now))[row.id]
        names = {each.id: str(each.name) for each in all_wikis(rows)}
        uses = uses_anywhere(rows, row.id, limit=_USES_SHOWN)
        document = link_facts.link_document(facts, uses, latest_observations(rows, row.id), names)
        mark = MarkSet(read_marks(rows), context.stores.clock.now).first(fetch_key(url))
    return {**document, "number": row.id, "mark": mark and link_facts.mark_json(mark)}


@resource("/links/states")
def read_link_states(
    context: OperationContext,
    since: Annotated[date | None, Field(description="First day; by default the last 90 days.")] = None,
) -> LinkStates:
    """Return the links by state for each day on which a check run ended; ten years at most."""
    today = day_of(context.now)
    first = today - STATE_DAYS if since is None else max(day_of_date(since), today - _STATE_DAYS_LIMIT)
    with context.registry.reading() as rows:
        return {"days": link_facts.states_json(states_by_day(rows, since=first))}


def known_page(context: OperationContext, wiki: str, title: str) -> tuple[Wiki, WikiPageRow]:
    """Return the wiki and its page. Raises InputError, or UnknownThingError for the page."""
    with context.registry.reading() as rows:
        known = known_wiki(rows, parse_wiki(wiki))
        page = pages_by_title(rows, known.id, [title]).get(title)
    if page is None:
        raise UnknownThingError(
            noop("The registry does not know the page %(title)s of %(wiki)s."), title=repr(title[:200]), wiki=known.name
        )
    return known, page


@resource("/links/page")
def read_page_links(context: OperationContext, wiki: WikiId, title: PageTitle) -> PageLinks:
    """Return the links of a wiki's page with their states."""
    known, page = known_page(context, wiki, title)
    with context.registry.reading() as rows:
        facts = page_facts(rows, known.id, [page.page_id], day=day_of(context.now))[page.page_id]
    links = [
        {**link_facts.url_json(each.facts.row), "since": link_facts.day_text(each.first_day)} for each in facts.links
    ]
    return {"wiki": str(known.name), "page_id": page.page_id, "title": page.title, "links": links}


def _of_url(context: OperationContext, url: _Names) -> Any:
    """Return the link that an operation changes; None when it names several."""
    return read_link(context, url) if isinstance(url, str) else None


@operation("/links/checks", ConsoleRole.REVIEWER, status=202, state=_of_url)
def check_links(
    context: OperationContext,
    url: Annotated[_Names, Field(description="URLs.")] = (),
    host: Annotated[str, Field(max_length=300, description="All links of this host, instead of URLs.")] = "",
) -> QueuedChecks:
    """Check links before all others; `weboid links check --watch` makes the checks."""
    if host:
        if url:
            raise InputError("Name URLs or a host.")
        with context.registry.reading() as rows:
            listed = list_urls(rows, limit=URLS_LIMIT, host=host.lower(), states=_CHECKED_STATES)
        if not listed:
            raise UnknownThingError(noop("The registry checks no links of that host."))
        numbers = [each.id for each in listed]
    else:
        numbers = [each.id for each in link_facts.watched_urls(context.registry, _names(url))]
    with context.registry.writing() as rows:
        set_due_day(rows, numbers)
    return {"queued": len(numbers), "message": f"{len(numbers)} {'is' if len(numbers) == 1 else 'are'} checked next."}


def _names(urls: _Names) -> Sequence[str]:
    names = [urls] if isinstance(urls, str) else urls
    if not 0 < len(names) <= URLS_LIMIT:
        raise InputError(noop("Name one URL to %(count)s."), count=f"{URLS_LIMIT:,}")
    return names


# --------------------------------------------------------------------------------------------------------------- marks

ListedMark = Annotated[dict[str, Any], FactsOf("ListedMark", link_facts.MarkFacts, settled=bool)]
MarkList = TypedDict("MarkList", {"marks": list[ListedMark], "next": str | None})
NewMarks = TypedDict("NewMarks", {"marks": int, "numbers": list[int], "looked": int, "message": str})
RemovedMarks = TypedDict("RemovedMarks", {"removed": list[int], "looked": int, "message": str})


@resource("/links/marks")
def list_marks(
    context: OperationContext,
    *,
    with_lifted: Annotated[bool, Field(description="Include expired marks.")] = False,
    cursor: Cursor = "",
    limit: Limit = 100,
) -> MarkList:
    """Return the marks of links, the oldest first."""
    after = cursor_number(cursor)
    with context.registry.reading() as rows:
        marks = read_marks(rows, with_lifted=with_lifted)
        waiting = {each.id for each in pending_marks(rows, context.now)}
    left = [
        {**link_facts.mark_json(each), "settled": each.id not in waiting}
        for each in marks
        if each.id > after and (with_lifted or each.holds(context.now) or each.id in waiting)
    ]
    following = str(left[limit - 1]["number"]) if len(left) > limit else None
    return {"marks": left[:limit], "next": following}


@operation("/links/marks", ConsoleRole.CURATOR, status=201, state=_of_url)
def mark_links(
    context: OperationContext,
    *,
    url: Annotated[_Names, Field(description="URLs or patterns, as `weboid links mark` takes them.")],
    kind: MarkKind,
    reason: Annotated[str, Field(min_length=1, max_length=500)],
    key: Annotated[str, Field(max_length=50, description="Of a setting: every_days, method, preset or gap_s.")] = "",
    value: Annotated[str, Field(max_length=100)] = "",
    duration: Annotated[str, Field(description="Duration such as 90d; by default no end.")] = "",
) -> NewMarks:
    """Mark links: as working, dead, never or always to be checked, or how they are checked."""
    end = context.now + parse_duration(duration) if duration else None
    marks = [
        check_mark(
            LinkMark(
                id=0,
                kind=kind,
                pattern=pattern,
                reason=reason,
                actor=context.user.name,
                moment=int(context.now.timestamp()),
                expires=None if end is None else int(end.timestamp()),
                key=key,
                value=value,
            )
        )
        for pattern in _names(url)
    ]
    store = context.registry
    with store.writing() as rows:
        numbers = [each.id for each in put_marks(rows, marks)]
    tally = apply_marks(store, context.stores.clock)
    return {"marks": len(marks), "numbers": numbers, "looked": tally.looked, "message": f"{len(marks)} marked."}


def _named(context: OperationContext, mark: _Names) -> Any:
    with context.registry.reading() as rows:
        return [link_facts.mark_json(each) for each in named_marks(rows, _names(mark))]


@operation("/links/marks/remove", ConsoleRole.CURATOR, state=list_marks, logged=_named)
def remove_marks(
    context: OperationContext, mark: Annotated[_Names, Field(description="Numbers or patterns of marks.")]
) -> RemovedMarks:
    """Remove marks of links; they stay in the history, and their links are watched again."""
    store = context.registry
    with store.writing() as rows:
        lifted = named_marks(rows, _names(mark))
        lift_marks(rows, lifted, context.user.name, context.now)
    tally = apply_marks(store, context.stores.clock)
    return {"removed": [each.id for each in lifted], "looked": tally.looked, "message": f"{len(lifted)} removed."}


# ------------------------------------------------------------------------------------------------------------- reports

ReportFacts = Annotated[dict[str, Any], FactsOf(
    "ReportFacts", ReportRow, "url state", number=int, moment=datetime, until=date,
)]  # fmt: skip
ReportList = TypedDict("ReportList", {"reports": list[ReportFacts], "next": str | None})
NewReports = TypedDict(
    "NewReports", {"reported": tuple[str, ...], "until": Day | None, "domain_presumed_reachable": bool, "message": str}
)
WithdrawnReports = TypedDict("WithdrawnReports", {"withdrawn": int, "domain_no_longer_presumed": bool, "message": str})


@resource("/links/reports")
def list_link_reports(context: OperationContext, cursor: Cursor = "", limit: Limit = 100) -> ReportList:
    """Return readers' reports that a link can be reached, the newest first; who reported is not stored."""
    with context.registry.reading() as rows:
        before = {"before": cursor_number(cursor)} if cursor else {}
        report_rows = list_reports(rows, day_of(context.now), limit=limit, **before)
    reports = [
        {
            **json_facts(each, "url state", number="id"),
            "moment": link_facts.moment_text(each.moment),
            "until": link_facts.day_text(each.expires_day),
        }
        for each in report_rows
    ]
    return {"reports": reports, "next": str(report_rows[-1].id) if len(report_rows) == limit else None}


@operation("/links/reports", ConsoleRole.REVIEWER, status=201, state=_of_url)
def report_links(context: OperationContext, *, url: _Reported, is_pattern: bool = False) -> NewReports:
    """Report links as reachable, which are shown as dead."""
    who = open_reporter_digests(context.stores.layout).of_name(context.user.name)
    names = _names(url)
    with context.registry.writing() as rows:
        done = add_report(rows, names, who, context.now, is_pattern=is_pattern, limits=_UNLIMITED)
    return {
        "reported": done.urls,
        "until": link_facts.day_text(done.until_day),
        "domain_presumed_reachable": done.presumed,
        "message": f"{len(done.urls)} reported as reachable.",
    }


@operation("/links/reports/withdraw", ConsoleRole.REVIEWER, state=_of_url)
def withdraw_link_reports(context: OperationContext, *, url: _Reported, is_pattern: bool = False) -> WithdrawnReports:
    """Remove the reports about links, and the presumption about their domains."""
    names = _names(url)
    with context.registry.writing() as rows:
        done = withdraw_reports(rows, names, bytes(16), context.now, is_pattern=is_pattern, limits=_UNLIMITED)
    return {
        "withdrawn": done.reports,
        "domain_no_longer_presumed": done.presumption,
        "message": f"{done.reports} report{'s' * (done.reports != 1)} removed.",
    }


# -------------------------------------------------------------------------------------------------------- replacements

ListedProposal = Annotated[dict[str, Any], FactsOf(
    "ListedProposal", link_facts.ProposalFacts, url=str, state=LinkState,
)]  # fmt: skip
ProposalList = TypedDict("ProposalList", {"replacements": list[ListedProposal], "next": str | None})
NewProposal = TypedDict("NewProposal", {"url": str, "address": str, "archive": str | None, "new": bool, "message": str})
ChangedProposal = TypedDict("ChangedProposal", {"url": str, "address": str, "message": str})


@resource("/links/replacements")
def list_link_replacements(
    context: OperationContext,
    stage: names_of(ProposalStage) | None = None,  # type: ignore[valid-type]
    cursor: Cursor = "",
    limit: Limit = 100,
) -> ProposalList:
    """Return proposed replacements of links; `waiting` ones are not tested yet, and `works` are shown to readers."""
    stages = [ProposalStage[stage.upper()]] if stage else list(ProposalStage)
    with context.registry.reading() as rows:
        proposal_rows = replacements.list_replacements(rows, stages, limit=limit, after=cursor_number(cursor))
        states = urls_by_id(rows, [each.url_id for each in proposal_rows])
    proposals = [
        {"url": each.url, "state": states[each.url_id].state.name.lower(), **link_facts.replacement_json(each)}
        for each in proposal_rows
    ]
    return {"replacements": proposals, "next": str(proposal_rows[-1].url_id) if len(proposal_rows) == limit else None}


@operation("/links/replacements", ConsoleRole.REVIEWER, status=201, state=_of_url)
def propose_link_replacement(context: OperationContext, url: Url, address: Url) -> NewProposal:
    """Propose another address for a dead link; it is shown once a test has found it working, or it is approved."""
    who = open_reporter_digests(context.stores.layout).of_name(context.user.name)
    around = link_facts.proposal_context(context.registry, _UNLIMITED, context.stores.clock)
    with context.registry.writing() as rows:
        done = replacements.propose_replacement(rows, url, address, who, context.now, around)
    stored = f"is a copy in {done.archive}" if done.archive else "is proposed"
    return {
        "url": url,
        "address": done.address,
        "archive": done.archive or None,
        "new": done.is_new,
        "message": f"{done.address} {stored}.",
    }


@operation("/links/replacements/approve", ConsoleRole.CURATOR, state=_of_url)
def approve_link_replacement(context: OperationContext, url: Url, address: Url) -> ChangedProposal:
    """Approve the replacement of a link, without waiting for its test; refused when another one is proposed by now."""
    around = link_facts.proposal_context(context.registry, _UNLIMITED, context.stores.clock)
    with context.registry.writing() as rows:
        replacements.approve_replacement(rows, url, address, context.now, around)
    return {"url": url, "address": address, "message": f"{address} is shown."}


@operation("/links/replacements/remove", ConsoleRole.CURATOR, state=_of_url)
def remove_replacement(context: OperationContext, url: Url) -> ChangedProposal:
    """Remove the proposed replacement of a link."""
    with context.registry.writing() as rows:
        address = replacements.remove_replacement(rows, url, bytes(16), context.now, limits=_UNLIMITED)
    return {"url": url, "address": address, "message": f"The proposal {address} was removed."}
