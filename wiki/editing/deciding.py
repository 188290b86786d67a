"""Which links of a page get which remedy: pure, from what the registry knows and what the page says.

Only what the registry has confirmed counts. A link is left alone while anything speaks against it: its
host is presumed reachable or cannot be judged by us, or a reader reached it after the last look. A person's
mark (PERMADEAD) needs no more. The copy is the one nearest to the day that the link was cited for (B06), and
never one from after the link's death: that would be a copy of an error page, or of another owner's.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from links.archives.adapters import Copy
from links.archives.choosing import FIRST_COPY, best_of, choose, day_that_matters, is_good
from links.archives.copies import Kept
from links.archives.stamps import moment_of
from links.books.looking import UrlFacts
from links.days import date_of
from links.quirks import HostQuirk, is_over
from links.reports import VALID_DAYS
from links.states import State
from wiki.editing.crafts import key_of
from wiki.wikitext.citations import Citation
from wiki.wikitext.repairing_types import Archived, Condition, Remedy

LOST: Final = (State.DEAD, State.USURPED, State.PERMADEAD)
LIVING: Final = (State.ALIVE, State.PERMALIVE)
_DOUBTS: Final = frozenset({HostQuirk.PRESUMED_REACHABLE, HostQuirk.UNVERIFIABLE})
OwnCopies = Callable[[str, datetime | None], Copy | None]  # as `links.archives.finding` has it


@dataclass(frozen=True)
class Known:
    """What the registry knows of a link of a page.

    Attributes:
        url_id: the registry's number.
        url: the identity key.
        condition: what became of it.
        first_day: since when the page has it.
        died_day: the day of the first failure of the present run; None: it is not known.
        copies: that archives have.
        is_ours: we said on this page that it is dead.
        is_sought: archives were asked for copies of it.
        is_refused: at the last look its site asked for a login, a payment or a permission.
    """

    url_id: int
    url: str
    condition: Condition
    first_day: int
    died_day: int | None = None
    copies: tuple[Kept, ...] = ()
    is_ours: bool = False
    is_sought: bool = False
    is_refused: bool = False


@dataclass(frozen=True)
class Choosing:
    """What copies are chosen by.

    Attributes:
        now: the moment.
        order: archives, the preferred first.
        own: our own captures.
        title: the title of a copy's page; empty when nobody knows.
        has_own: whether there may be any of our own.
    """

    now: datetime
    order: Sequence[str] = ()
    own: OwnCopies = lambda _url, _at: None
    title: Callable[[Copy], str] = lambda _copy: ""
    has_own: bool = False


@dataclass(frozen=True, slots=True)
class CopyEvidence:
    """What was seen of copies when they were looked at.

    Attributes:
        bad: addresses on the page that show no copy of their link (B13).
        unshown: addresses that would be cited and do not show their copy.
    """

    bad: Collection[str] = ()
    unshown: Collection[str] = ()


def condition_of(facts: UrlFacts, day: int) -> Condition | None:
    """What the registry has confirmed of a link; None: nothing that a page should be edited for."""
    row = facts.row
    if row.state in LIVING:
        return Condition.ALIVE
    if row.state is State.PERMADEAD:
        return Condition.DEAD
    if row.state not in LOST or _is_doubted(facts, day):
        return None
    return Condition.USURPED if row.state is State.USURPED else Condition.DEAD


def remedies(
    citations: Sequence[Citation],
    known: Mapping[str, Known],
    held: Collection[int],
    choosing: Choosing,
    added: Mapping[str, datetime] = MappingProxyType({}),
    seen: CopyEvidence = CopyEvidence(),
) -> dict[str, Remedy]:
    """What is to be done to each link, by its URL as it stands on the page.

    A link whose copies were looked at, and none of which is shown, has no remedy for now: it has a copy,
    so that it is not tagged as one without.

    Args:
        citations: of the page as it is now.
        known: what the registry knows, by identity key.
        held: numbers of links about which nothing is done on this page (B14).
        choosing: what copies are chosen by.
        added: when a URL came onto the page, where that was asked for.
        seen: what was seen of copies.
    """
    found: dict[str, Remedy] = {}
    walled = {each.url for each in citations if each.is_paywalled}
    for url, day in _accessed(citations).items():
        fact = known.get(key_of(url))
        if fact is None or fact.url_id in held or (fact.is_refused and url in walled):
            continue
        if fact.condition is Condition.ALIVE:
            if fact.is_ours:
                found[url] = Remedy(Condition.ALIVE, is_ours=True)
            continue
        accessed_at = day or added.get(url)
        copy = choose_copy(fact, accessed_at, choosing, seen.unshown)
        if copy is None and seen.unshown and choose_copy(fact, accessed_at, choosing) is not None:
            continue
        found[url] = Remedy(
            fact.condition,
            None
            if copy is None
            else Archived(copy.address, copy.timestamp, copy.service, choosing.title(copy)),
            is_ours=fact.is_ours,
            bad_archives=frozenset() if copy is None else frozenset(seen.bad),
            is_sought=choosing.has_own or fact.is_sought,
        )
    return found


def undated(
    citations: Iterable[Citation],
    known: Mapping[str, Known],
    held: Collection[int],
    *,
    has_own: bool,
) -> list[str]:
    """URLs of which it matters when they came onto the page, since nobody says when they were read (B06).

    That is where there is a choice between copies, or where a late copy would be another owner's.

    Args:
        citations: of the page as it is now.
        known: what the registry knows, by identity key.
        held: links about which nothing is done.
        has_own: our own captures are among the copies.
    """
    found = []
    for url, day in _accessed(citations).items():
        fact = known.get(key_of(url))
        if day is not None or fact is None or fact.url_id in held:
            continue
        is_usurped = fact.condition is Condition.USURPED
        has_choice = has_own or len(fact.copies) > 1
        if is_usurped or (fact.condition is Condition.DEAD and has_choice):
            found.append(url)
    return found


def choose_copy(
    known: Known,
    accessed: datetime | None,
    choosing: Choosing,
    unshown: Collection[str] = (),
) -> Copy | None:
    """The copy to put beside a link that is lost; None without one.

    Args:
        known: the link.
        accessed: the end of the day on which its author read it, when the page says so.
        choosing: what it is chosen by.
        unshown: addresses that do not show their copy.
    """
    added = _end_of(known.first_day)
    at = day_that_matters(accessed, added, choosing.now)
    last = _last_moment(known, at)
    found = [each.copy for each in known.copies if each.address and each.missed_day is None]
    own = choosing.own(known.url, at)
    for other in (last, FIRST_COPY):  # the nearest may be too late, and an older one not
        if own is None or _is_before(own, last):
            break
        own = choosing.own(known.url, other)
    if own is not None:
        found.append(own)
    usable = [
        each
        for each in found
        # Without a moment nobody can tell what it is a copy of, nor write its date.
        if each.timestamp and is_good(each, choosing.now) and _is_before(each, last)
        if each.address not in unshown
    ]
    return best_of(choose(usable, at, choosing.now), choosing.order, at)


def basis_of(known: Iterable[Known], held: Collection[int], wishes: str) -> bytes:
    """A digest of all that a decision about a page hangs on, but for the page's own text.

    Args:
        known: what is known of its links.
        held: links about which nothing is done.
        wishes: the bot's settings.
    """
    facts = sorted(
        (
            each.url_id,
            str(each.condition),
            each.died_day or 0,
            each.is_ours,
            each.is_sought,
            each.is_refused,
            each.url_id in held,
            sorted((kept.service, kept.address, kept.missed_day or 0) for kept in each.copies),
        )
        for each in known
    )
    return blake2b(repr((facts, wishes)).encode("utf-8", "replace"), digest_size=16).digest()


def _accessed(citations: Iterable[Citation]) -> dict[str, datetime | None]:
    """When each URL was read: of several citations of one the first that says so."""
    found: dict[str, datetime | None] = {}
    for each in citations:
        day = each.access_date
        moment = None if day is None else datetime.combine(day, time(23, 59, 59), UTC)
        if found.get(each.url) is None:
            found[each.url] = moment
    return found


def _is_doubted(facts: UrlFacts, day: int) -> bool:
    """Whether something speaks against what was seen."""
    row = facts.row
    for quirk in facts.host_quirks:
        kind = HostQuirk(quirk.kind)
        if kind in _DOUBTS and not is_over(kind, quirk.first_day, quirk.last_day, day):
            return True
    if not facts.reports or facts.reports_until is None:
        return False
    said = facts.reports_until - VALID_DAYS + 1
    # Who reaches it today may be right until somebody has looked again.
    return row.checked_day is None or row.checked_day <= said


def _last_moment(known: Known, at: datetime | None) -> datetime | None:
    """The last moment of which a copy can be one of the page that was cited."""
    died = None if known.died_day is None else _end_of(known.died_day)
    if known.condition is Condition.USURPED and at is not None:
        return at if died is None else min(at, died)
    return died


def _is_before(copy: Copy, last: datetime | None) -> bool:
    return last is None or not copy.timestamp or moment_of(copy.timestamp) <= last


def _end_of(day: int) -> datetime:
    return datetime.combine(date_of(day), time(0), UTC) + timedelta(days=1, seconds=-1)
