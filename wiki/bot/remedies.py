"""Choice of a remedy for each link, and checks of the copies it would cite (docs/how-to/bot.md).

Only confirmed results count, but a manual mark (PERMADEAD) needs no confirmation. The chosen copy is the one nearest to
the day for which the link was cited (B06), never one from after its death, fetched and seen as a reader would see it. A
copy on the page is replaced only when its archive reports that it is none of the link.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_client import ArchiveClient, ArchiveUnavailableError
from links.archives.archive_urls import WEBOID, is_same_page, moment_of, recognise
from links.archives.copy_check import CopyCheckResult, CopyVerdict, check_copy, resolve_address
from links.archives.copy_search import FIRST_COPY, choose_versions, citation_day, is_good, pick_best_copy
from links.archives.copy_store import StoredCopy
from links.check_history import date_of
from links.feedback.reports import VALID_DAYS
from links.registry.lookups import UrlFacts
from links.registry.quirks import HostQuirk, is_over
from links.states import LinkState
from wiki.bot.wikitext_adapter import url_key_or_empty
from wiki.wikitext.citation_model import ArchivedCopy, Citation, LinkCondition, LinkRemedy

LOST_STATES: Final = (LinkState.DEAD, LinkState.USURPED, LinkState.PERMADEAD)
LIVING_STATES: Final = (LinkState.ALIVE, LinkState.PERMALIVE)
_DOUBTS: Final = frozenset({HostQuirk.PRESUMED_REACHABLE, HostQuirk.UNVERIFIABLE})
OwnCopies = Callable[[str, datetime | None], ArchiveMemento | None]  # as `links.archives.copy_search` has it


@dataclass(frozen=True)
class KnownLink:
    """Registry data of a link on a page."""

    url_id: int  # the registry's id
    url: str  # the identity key
    condition: LinkCondition  # confirmed condition
    first_day: int  # first day with the link on the page
    died_day: int | None = None  # first failure of the present run of failures; None: not known
    copies: tuple[StoredCopy, ...] = ()  # in archives
    is_ours: bool = False  # the bot marked it as dead on this page
    is_sought: bool = False  # archives were searched for copies
    is_refused: bool = False  # at the last check the site required a login, payment or permission


@dataclass(frozen=True)
class CopyPreferences:
    """Preferences and sources for choosing copies."""

    now: datetime  # current time
    order: Sequence[str] = ()  # archives by preference
    own: OwnCopies = lambda _url, _at: None  # looks up our own captures
    title: Callable[[ArchiveMemento], str] = lambda _copy: ""  # of a copy's page; empty: unknown
    has_own: bool = False  # own captures may exist


def condition_of(facts: UrlFacts, day: int) -> LinkCondition | None:
    """Return the confirmed condition of a link; None: no reason for an edit."""
    row = facts.row
    if row.state in LIVING_STATES:
        return LinkCondition.ALIVE
    if row.state is LinkState.PERMADEAD:
        return LinkCondition.DEAD
    if row.state not in LOST_STATES or _is_doubted(facts, day):
        return None
    return LinkCondition.USURPED if row.state is LinkState.USURPED else LinkCondition.DEAD


def choose_remedies(
    citations: Sequence[Citation],
    known: Mapping[str, KnownLink],
    held: Collection[int],
    choosing: CopyPreferences,
    added: Mapping[str, datetime] = MappingProxyType({}),
    checks: "PageCopyChecks | None" = None,
) -> dict[str, LinkRemedy]:
    """Choose the remedy of each link, by its URL as written on the page.

    A link whose copies all fail the check has none for now: it is not tagged as a link without a copy.
    `held`: ids of links that must not be changed on this page (B14); `added`: dates on which URLs were added.
    """
    remedies: dict[str, LinkRemedy] = {}
    walled = {each.url for each in citations if each.is_paywalled}
    for url, day in _accessed(citations).items():
        fact = known.get(url_key_or_empty(url))
        if fact is None or fact.url_id in held or (fact.is_refused and url in walled):
            continue
        if fact.condition is LinkCondition.ALIVE:
            if fact.is_ours:
                remedies[url] = LinkRemedy(LinkCondition.ALIVE, is_ours=True)
            continue
        accessed_at = day or added.get(url)
        unshown = checks.unshown if checks is not None else {}
        copy = choose_copy(fact, accessed_at, choosing, unshown)
        if copy is None and unshown and choose_copy(fact, accessed_at, choosing) is not None:
            continue
        remedies[url] = LinkRemedy(
            fact.condition,
            None if copy is None else ArchivedCopy(copy.address, copy.timestamp, copy.service, choosing.title(copy)),
            is_ours=fact.is_ours,
            bad_archives=frozenset() if copy is None or checks is None else frozenset(checks.bad),
            is_sought=choosing.has_own or fact.is_sought,
        )
    return remedies


def undated_urls(
    citations: Iterable[Citation], known: Mapping[str, KnownLink], held: Collection[int], *, has_own: bool
) -> list[str]:
    """Return URLs without an access date where the date of addition matters for the choice of a copy (B06)."""

    def depends(fact: KnownLink) -> bool:
        has_choice = fact.condition is LinkCondition.DEAD and (has_own or len(fact.copies) > 1)
        return fact.url_id not in held and (has_choice or fact.condition is LinkCondition.USURPED)

    facts = {url: known.get(url_key_or_empty(url)) for url, day in _accessed(citations).items() if day is None}
    return [url for url, fact in facts.items() if fact is not None and depends(fact)]


def choose_copy(
    known: KnownLink, accessed: datetime | None, choosing: CopyPreferences, unshown: Collection[str] = ()
) -> ArchiveMemento | None:
    """Choose the copy for a lost link, by the end of its access date; None without one."""
    at = citation_day(accessed, _end_of(known.first_day), choosing.now)
    # The latest time at which a copy can show the cited page.
    last = None if known.died_day is None else _end_of(known.died_day)
    if known.condition is LinkCondition.USURPED and at is not None:
        last = at if last is None else min(at, last)
    copies = [each.copy for each in known.copies if each.address and each.missed_day is None]
    own = choosing.own(known.url, at)
    for other in (last, FIRST_COPY):  # the nearest may be too late while an older one is not
        if own is None or _is_before(own, last):
            break
        own = choosing.own(known.url, other)
    if own is not None:
        copies.append(own)
    # Without a timestamp the copy's content and date are unknown.
    good = (each for each in copies if each.timestamp and is_good(each, choosing.now) and _is_before(each, last))
    usable = [each for each in good if each.address not in unshown]
    return pick_best_copy(choose_versions(usable, at, choosing.now), choosing.order, at)


def decision_digest(known: Iterable[KnownLink], held: Collection[int], choices: str) -> bytes:
    """Hash the inputs of a decision about a page, except the page's text."""
    facts = []
    for each in known:
        copies = sorted((parts.service, parts.address, parts.missed_day or 0) for parts in each.copies)
        flags = (each.is_ours, each.is_sought, each.is_refused, each.url_id in held)
        facts.append((each.url_id, str(each.condition), each.died_day or 0, *flags, copies))
    facts.sort()
    return blake2b(repr((facts, choices)).encode("utf-8", "replace"), digest_size=16).digest()


def _accessed(citations: Iterable[Citation]) -> dict[str, datetime | None]:
    """Return each URL's access date: of several citations the first that has one."""
    dates_by_url: dict[str, datetime | None] = {}
    for each in citations:
        day = each.access_date
        moment = None if day is None else datetime.combine(day, time(23, 59, 59), UTC)
        dates_by_url[each.url] = dates_by_url.get(each.url) or moment
    return dates_by_url


def _is_doubted(facts: UrlFacts, day: int) -> bool:
    checked, doubts = facts.row.checked_day, ((each, HostQuirk(each.kind)) for each in facts.host_quirks)
    if any(kind in _DOUBTS and not is_over(kind, each.first_day, each.last_day, day) for each, kind in doubts):
        return True
    until = facts.reports_until if facts.reports else None  # a reader's report counts until the next check
    return until is not None and (checked is None or checked <= until - VALID_DAYS + 1)


def _is_before(copy: ArchiveMemento, last: datetime | None) -> bool:
    return last is None or not copy.timestamp or moment_of(copy.timestamp) <= last


def _end_of(day: int) -> datetime:
    return datetime.combine(date_of(day), time(0), UTC) + timedelta(days=1, seconds=-1)


_NO_COPY: Final = frozenset((CopyVerdict.GONE, CopyVerdict.BAD, CopyVerdict.OTHER_PAGE))


@dataclass
class CopyChecker:
    """Checker of copies that uses the client for archives."""

    client: ArchiveClient  # the client, with a rate limit per archive
    own: tuple[str, ...] = ()  # origins of our own pages
    asks_others: bool = False  # query archives about copies on pages; otherwise only our own front

    async def cited(self, address: str, url: str) -> CopyCheckResult:
        """Check an address that an edit would cite as a copy of the URL."""
        return await check_copy(self.client, address, url, own=self.own)

    async def standing(self, address: str, url: str) -> CopyCheckResult:
        """Check an address cited on a page; UNCLEAR where the archive must not be queried."""
        recognised = recognise(address, own=self.own)
        if recognised is None or not (self.asks_others or recognised.service == WEBOID):
            return CopyCheckResult(CopyVerdict.UNCLEAR)
        if not recognised.must_ask:
            return await check_copy(self.client, address, url, own=self.own)
        try:
            resolved = await resolve_address(self.client, recognised)  # a short address (B07)
        except ArchiveUnavailableError as error:
            return CopyCheckResult(CopyVerdict.UNCLEAR, note=str(error))
        if not resolved.original:
            return CopyCheckResult(CopyVerdict.UNCLEAR, note="its archive does not name the original")
        if not is_same_page(resolved.original, url):
            return CopyCheckResult(CopyVerdict.OTHER_PAGE, note=f"a copy of {resolved.original[:200]}")
        return CopyCheckResult(CopyVerdict.GOOD, resolved.address or address, resolved.timestamp)


@dataclass
class PageCopyChecks:
    """Copy checks of one page."""

    checker: CopyChecker
    bad: dict[str, str] = field(default_factory=dict)  # URLs on the page that show no copy, and why
    unshown: dict[str, str] = field(default_factory=dict)  # candidates that showed no copy, and why
    _shown: set[str] = field(default_factory=set)
    _stood: set[str] = field(default_factory=set)

    async def check_page(self, citations: Sequence[Citation], urls: Mapping[str, object]) -> None:
        """Check the copies that the page cites for links to be repaired."""
        for each in citations:
            address = each.archive_url.replace("&amp;", "&")
            if not address or each.url not in urls or address in self._stood:
                continue
            self._stood.add(address)
            check_result = await self.checker.standing(address, each.url)
            if check_result.verdict in _NO_COPY:
                self.bad |= dict.fromkeys((address, each.archive_url), check_result.note)

    async def is_shown(self, address: str, url: str, *, name: str) -> bool:
        """Return True if the address shows a copy of the URL; otherwise record it under its name."""
        if address in self._shown:
            return True
        check_result = await self.checker.cited(address, url)
        if check_result.verdict is CopyVerdict.GOOD:
            self._shown.add(address)
            return True
        self.unshown[name] = check_result.note or str(check_result.verdict)
        return False
