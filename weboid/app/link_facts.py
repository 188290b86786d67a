"""Links of the registry as JSON values, for commands and the HTTP API; and what proposals and checks need of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any

from core.clock import Clock
from core.errors import InputError
from core.json_values import FactsOf, json_facts
from core.timestamps import warc_date
from core.urls import fetch_key
from links.archives.copy_store import keep_proposed_copy
from links.check_history import date_of, unpack_history
from links.check_result import words_of
from links.feedback.marks import LinkMark, LiveMarks
from links.feedback.replacements import ProposalContext, ProposalStage, ReplacementProposal
from links.feedback.reporter_limits import Limits
from links.registry.database import RegistryStore
from links.registry.link_search import FoundLink
from links.registry.lookups import LinkUse, QuirkFacts, UrlFacts
from links.registry.pages import WikiPageRow
from links.registry.quirks import HostQuirk, UrlQuirk
from links.registry.urls import UrlObservation, UrlRow, urls_by_key
from links.states import LinkState
from links.url_parts import url_parts_of
from weboid.app.text_table import clean

LinkFacts = Annotated[dict[str, Any], FactsOf(
    "LinkFacts", UrlRow, "url state fails mime kib code", added=date, checked=date | None, due=date | None,
)]  # fmt: skip


def url_json(row: UrlRow) -> LinkFacts:
    """Return a URL as JSON values."""
    return {
        **json_facts(row, "url state fails mime kib"),
        "code": row.code,
        "added": day_text(row.added_day),
        "checked": day_text(row.checked_day),
        "due": day_text(row.due_day),
    }


def day_text(day: int | None) -> str | None:
    """Return the day's date; None for none."""
    return None if day is None else str(date_of(day))


DayStates = Annotated[dict[str, Any], FactsOf("DayStates", day=date, links=dict[str, int])]


def states_json(days: Mapping[int, Mapping[LinkState, int]]) -> list[DayStates]:
    """Return links by state of each day as JSON values."""
    return [
        {"day": day_text(day), "links": {state.name.lower(): links for state, links in states.items()}}
        for day, states in days.items()
    ]


CheckRun = Annotated[dict[str, Any], FactsOf("CheckRun", code=int, description=str, first=date, last=date)]
LinkQuirk = Annotated[dict[str, Any], FactsOf("LinkQuirk", kind=str, value=str, first=date, last=date)]
LinkCopy = Annotated[dict[str, Any], FactsOf(
    "LinkCopy", service=str, address=str | None, timestamp=str | None, checked=date, locked=bool,
)]  # fmt: skip
LinkReplacement = Annotated[dict[str, Any], FactsOf("LinkReplacement", address=str, stage=ProposalStage)]
CitingPlace = Annotated[dict[str, Any], FactsOf(
    "CitingPlace", wiki=str, page_id=int, title=str, since=date, gone=date | None,
)]  # fmt: skip
LinkCheck = Annotated[dict[str, Any], FactsOf(
    "LinkCheck", UrlObservation, "how code verdict http note similarity", moment=datetime, final_url=str | None,
)]  # fmt: skip
LinkDocument = Annotated[dict[str, Any], FactsOf(
    "LinkDocument", LinkFacts, host=str, description=str, history=list[CheckRun], quirks=list[LinkQuirk],
    host_quirks=list[LinkQuirk], copies=list[LinkCopy], reports=int, reports_until=date | None,
    replacement=LinkReplacement | None, pages=list[CitingPlace], checks=list[LinkCheck],
)]  # fmt: skip


def link_document(
    facts: UrlFacts, uses: list[LinkUse], checks: Sequence[UrlObservation], names: dict[int, str]
) -> LinkDocument:
    """Return all that is known of a link as JSON values; `names` are the wikis' by number."""
    row = facts.row
    replacement = facts.replacement
    return {
        **url_json(row),
        "host": row.host,
        "description": words_of(row.code),
        "history": [
            {"code": run.code, "description": words_of(run.code)} | _days(run.first, run.last)
            for run in reversed(unpack_history(row.history))
        ],
        "quirks": [_quirk(each, UrlQuirk) for each in facts.quirks],
        "host_quirks": [_quirk(each, HostQuirk) for each in facts.host_quirks],
        "copies": [
            {
                "service": copy.service,
                "address": copy.address or None,
                "timestamp": copy.timestamp or None,
                "checked": day_text(copy.checked_day),
                "locked": copy.is_locked,
            }
            for copy in facts.copies
        ],
        "reports": facts.reports,
        "reports_until": day_text(facts.reports_until),
        "replacement": None
        if replacement is None
        else {"address": replacement.address, "stage": ProposalStage(replacement.state).name.lower()},
        "pages": [use_json(use.page, names, use.first_day, use.gone_day) for use in uses],
        "checks": [
            {"moment": moment_text(check.moment), **json_facts(check, "how verdict http note similarity")}
            | {"code": check.code, "final_url": check.final_url or None}
            for check in checks
        ],
    }


def use_json(page: WikiPageRow, names: dict[int, str], first_day: int, gone_day: int | None = None) -> CitingPlace:
    """Return a page and the days of a link on it as JSON values."""
    days = {"since": day_text(first_day), "gone": day_text(gone_day)}
    return {"wiki": names.get(page.wiki_id, ""), **json_facts(page, "page_id title"), **days}


def _quirk(quirk: QuirkFacts, kinds: type[UrlQuirk] | type[HostQuirk]) -> LinkQuirk:
    kind = kinds(quirk.kind).name.lower().replace("_", "-")
    return {"kind": kind, "value": quirk.value, **_days(quirk.first_day, quirk.last_day)}


def _days(first: int, last: int) -> dict[str, Any]:
    return {"first": day_text(first), "last": day_text(last)}


FoundLinkFacts = Annotated[dict[str, Any], FactsOf(
    "FoundLinkFacts", FoundLink, "url state code pages more_pages", checked=date | None,
)]  # fmt: skip


def found_link_json(link: FoundLink) -> FoundLinkFacts:
    """Return a link as JSON values."""
    return {
        **json_facts(link, "url state more_pages"),
        "code": link.code,
        "checked": day_text(link.checked_day),
        "pages": [asdict(page) for page in link.pages],
    }


MarkFacts = Annotated[dict[str, Any], FactsOf(
    "MarkFacts", LinkMark, "kind pattern key value reason actor lifted_by", number=int | None, made=datetime,
    expires=datetime | None, lifted=datetime | None,
)]  # fmt: skip


def mark_json(mark: LinkMark) -> MarkFacts:
    """Return a mark as JSON values."""
    return {
        "number": mark.id or None,
        **json_facts(mark, "kind pattern key value reason actor lifted_by"),
        "made": moment_text(mark.moment),
        "expires": moment_text(mark.expires),
        "lifted": moment_text(mark.lifted),
    }


def moment_text(seconds: int | None) -> str | None:
    """Return seconds since 1970 as a WARC date; None for none."""
    return None if seconds is None else warc_date(datetime.fromtimestamp(seconds, UTC))


ProposalFacts = Annotated[dict[str, Any], FactsOf(
    "ProposalFacts", address=str, stage=ProposalStage, tested=date | None,
)]  # fmt: skip


def replacement_json(proposal: ReplacementProposal) -> ProposalFacts:
    """Return a proposal's address, stage and last test as JSON values."""
    return {**json_facts(proposal, "address stage"), "tested": day_text(proposal.tested_day)}


def proposal_context(registry: RegistryStore, limits: Limits, clock: Clock) -> ProposalContext:
    """Return the policies for proposed addresses: marks that refuse them, and archives whose addresses are copies."""
    refuses = LiveMarks(registry, clock).current().refuses
    return ProposalContext(refuses=refuses, archives=keep_proposed_copy, limits=limits)


def watched_urls(store: RegistryStore, texts: Sequence[str]) -> list[UrlRow]:
    """Return the watched URLs of that name, due or not. Raises InputError if one is not watched."""
    keys = {url_parts_of(fetch_key(text)).key: text for text in texts}
    with store.reading() as rows:
        urls = urls_by_key(rows, keys)
    missing = [text for key, text in keys.items() if key not in {each.key for each in urls}]
    if missing:
        raise InputError(
            f"The registry does not watch {clean(missing[0][:300])!r}"
            + (f", nor {len(missing) - 1} others" if len(missing) > 1 else "")
            + ": only links on pages are checked. `weboid links add-page` adds a page's links."
        )
    return urls
