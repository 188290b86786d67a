"""What is told of each link: whether there is a copy, where a reader is led, how the link is doing. Pure.

Told is always one of five answers. What this archive holds itself goes before what is known of it, and a
copy in another archive is offered for a dead link alone. The liveness of a URL is told where the page that
is asked about has it, and to internal callers where a page of the farm has it; `Facts.link` is None
elsewhere (W20, W24).
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from core.errors import InputError
from core.timestamps import parse_timestamp14
from links.books.standings import Elsewhere
from links.days import date_of
from links.sorting import Sort
from playback.addresses import Memento, Modifier, escape_url, is_web_url, memento_path, page_path
from playback.front.languages import day as day_words
from playback.front.languages import moment_of, noop, number, spoken, translate
from playback.front.offering import Bar, Offer
from playback.front.pages import Page
from playback.front.registry.answers import Group, Link
from playback.front.registry.cached.asking import AskedUrl
from playback.front.registry.words import service_name, standing_of
from playback.front.standing import QueueStanding, Standing

Day = date  # which a field below hides


class Told(StrEnum):
    """The five answers."""

    COPY = "copy"
    QUEUED = "queued"
    REFUSED = "refused"
    FAILED = "failed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a URL.

    Attributes:
        asked: the URL.
        offer: what the captures index says; None: nothing was ever captured.
        link: what the registry says; None where that is not told to the asker.
        elsewhere: a copy in another archive; None without one, or where it is not to be offered.
        wanted_at: since when it waits for its way to the archive; None: it does not.
        standing: what the frontier's books say; None: nothing.
        never: why nobody will ever ask for the URL; None: somebody may.
    """

    asked: AskedUrl
    offer: Offer | None = None
    link: Link | None = None
    elsewhere: Elsewhere | None = None
    wanted_at: datetime | None = None
    standing: QueueStanding | None = None
    never: Sort | None = None

    @property
    def is_dead(self) -> bool:
        """Whether a reader who follows the link does not find what was cited."""
        return self.link is not None and self.link.is_unreachable


@dataclass(frozen=True, slots=True)
class CachedLink:
    """What is told of a link; the fields are those of docs/embedding.md."""

    url: str
    answer: Told
    href: str | None = None
    copy: str | None = None
    date: datetime | None = None
    state: str | None = None
    group: str = Group.UNKNOWN.value
    is_dead: bool = False
    mime: str | None = None  # an unusual type's short name
    kib: int | None = None  # that file's length
    words: str = ""
    service: str | None = None
    is_new: bool = False  # it may soon be on its way
    next_at: datetime | None = None  # queued: no attempt before
    checked: Day | None = None  # when the link was last looked at
    spelling: str | None = None  # how the page has it, as far as the registry knows


@dataclass(frozen=True, slots=True)
class Leading:
    """Where addresses lead.

    Attributes:
        front: the origin of the front, and the language after it when the asker named one: ``/de``.
        replay: the origin of the copies.
        wiki: whose readers are led, as it stands in addresses; or empty.
    """

    front: str
    replay: str
    wiki: str = ""

    def page(self, page: Page, fragment: str) -> str:
        """The reader's page of a copy."""
        path = page_path(page.timestamp, page.url, wiki=self.wiki)
        return f"{self.front}{path}{fragment}"

    def memento(self, page: Page, fragment: str) -> str:
        """The copy itself (URI-M), at the level that holds for the wiki's readers."""
        path = memento_path(Memento(page.timestamp, Modifier.PAGE, page.url, wiki=self.wiki))
        return f"{self.replay}{path}{fragment}"

    def newest(self, url: str) -> str:
        """The newest copy, or the page that says why there is none."""
        whose = f"/w/{self.wiki}" if self.wiki else ""
        return f"{self.front}{whose}/latest/{escape_url(url)}"


def tell(facts: Facts, leading: Leading, today: int) -> CachedLink:
    """What is told of the link, in the language of the request; `today` by `links.days`."""
    spelled = facts.asked.spelled
    if spelled is None:
        return CachedLink(facts.asked.text, Told.NONE, words=_capital(_never_words(facts.never)))
    offer = facts.offer
    if offer is not None and offer.page is not None:
        return _copied(facts, offer.page, leading, today)
    if facts.elsewhere is not None and facts.is_dead and (offer is None or _may_lead_on(offer)):
        return _copied_elsewhere(facts, facts.elsewhere, today)
    answer, words = _without_copy(facts)
    return CachedLink(
        url=facts.asked.text,
        answer=answer,
        href=None if answer is Told.NONE else leading.newest(spelled.fetch),
        **_liveness(facts),
        words=_words(facts, words, today),
        is_new=answer is Told.NONE and facts.never is None and (offer is None or offer.bar is None),
        next_at=_next_at(facts) if answer is Told.QUEUED else None,
    )


_SETTLED_S = 60
_NEW_S = 2
_UNDER_WAY_S = 1


def fresh_s(links: list[CachedLink], now: datetime, *, is_watched: bool) -> int:
    """Return when to ask again: at once while something is on its way, soon where it may be.

    Args:
        links: the answers.
        now: this moment.
        is_watched: the registry knows the wiki, so that its links are archived.
    """
    soonest = _SETTLED_S
    for link in links:
        if link.answer is Told.QUEUED:
            wait_s = (link.next_at - now).total_seconds() if link.next_at is not None else 0
            soonest = min(soonest, max(_UNDER_WAY_S, int(wait_s)))
        elif is_watched and link.is_new:
            soonest = min(soonest, _NEW_S)
    return soonest


def _next_at(facts: Facts) -> datetime | None:
    standing = facts.standing
    return standing.until if standing is not None and standing.attempts else None


def _copied(facts: Facts, page: Page, leading: Leading, today: int) -> CachedLink:
    words = _copy_words(spoken.get().language, page.captured_at.date())
    return CachedLink(
        url=facts.asked.text,
        answer=Told.COPY,
        href=leading.page(page, facts.asked.fragment),
        copy=leading.memento(page, facts.asked.fragment),
        date=page.captured_at,
        **_liveness(facts),
        words=_words(facts, words, today),
    )


def _copied_elsewhere(facts: Facts, copy: Elsewhere, today: int) -> CachedLink:
    date, name = _moment(copy.timestamp), service_name(copy.service)
    words = (
        translate("copy in %(archive)s", archive=name)
        if date is None
        else translate("copy of %(day)s in %(archive)s", day=day_words(date), archive=name)
    )
    return CachedLink(
        url=facts.asked.text,
        answer=Told.COPY,
        href=copy.address,
        copy=copy.address,
        date=date,
        **_liveness(facts),
        words=_words(facts, words, today),
        service=copy.service,
    )


def is_to_offer(copy: Elsewhere) -> bool:
    """Whether the address of a copy in another archive may become a link."""
    return is_web_url(copy.address)


def _may_lead_on(offer: Offer) -> bool:
    """Whether a copy elsewhere may be offered: not of what was taken down or is a danger here."""
    return offer.bar in (Bar.FAILED, Bar.REFUSED)


def _liveness(facts: Facts) -> dict[str, Any]:
    if facts.link is None:
        return {}
    return {
        "state": facts.link.state.name.lower(),
        "group": facts.link.group.value,
        "is_dead": facts.is_dead,
        "checked": None if (day := facts.link.checked_day) is None else date_of(day),
        "mime": facts.link.mime or None,
        "kib": facts.link.kib,
        "spelling": facts.link.spelling or facts.link.url,
    }


def _without_copy(facts: Facts) -> tuple[Told, str]:
    """The answer for a URL without a copy that may be offered, and what is said of that."""
    offer, standing = facts.offer, facts.standing
    if offer is not None and offer.bar in _BARRED:
        answer, text = _BARRED[offer.bar]
        return answer, translate(text) if text else ""
    if standing is not None and standing.standing is not Standing.DONE:
        return _ANSWERS[standing.standing], _standing_words(standing)
    if facts.wanted_at is not None:
        return Told.QUEUED, _queued_words(facts.wanted_at)
    if offer is None:
        return Told.NONE, _never_words(facts.never)
    if offer.bar is Bar.REFUSED:
        return Told.REFUSED, _reason_words(offer.reason)
    return Told.FAILED, _failed_words()


_BARRED = {
    Bar.HIDDEN: (Told.NONE, ""),
    Bar.TAKEN_DOWN: (Told.REFUSED, noop("the copy was taken down")),
    Bar.HELD: (Told.REFUSED, noop("the copy is held back: it may do harm")),
}
_ANSWERS = {
    Standing.QUEUED: Told.QUEUED,
    Standing.VISITING: Told.QUEUED,
    Standing.REFUSED: Told.REFUSED,
    Standing.FAILED: Told.FAILED,
}
_REASONS = {
    "robots": noop("not archived: the site’s robots.txt asks archives to leave it alone"),  # noqa: RUF001
    "noarchive": noop("not archived: the page itself asks for that"),
    "autoblacklist": noop("not archived for a while: the site refused or failed too often"),
    "blacklist": noop("not archived: whoever runs this archive has excluded it"),
    "list": noop("not archived: it is on a list of addresses that are not"),
    "scope": noop("not archived: it lies outside of what is archived here"),
    "budget": noop("not archived: it lies outside of what is archived here"),
}


@lru_cache(maxsize=1_000)
def _copy_words(_language: str, day: date) -> str:
    """The same for all copies of a day; writing a date out takes its time."""
    return translate("copy of %(day)s", day=day_words(day))


def _standing_words(standing: QueueStanding) -> str:
    match standing.standing:
        case Standing.QUEUED if standing.is_waiting:
            return _waiting_words(standing.until)
        case Standing.QUEUED:
            return _queued_words(standing.since)
        case Standing.VISITING:
            return translate("being archived at this moment")
        case Standing.REFUSED:
            return _reason_words(standing.reason)
        case _ if standing.attempts:
            return _given_up_words(standing.attempts[-1].at)
        case _:
            return translate("given up: no visit brought a copy")


def _waiting_words(until: datetime | None) -> str:
    if until is None:
        return translate("waiting for the site")
    return translate(
        "waiting for the site, which gave no page; next attempt on %(moment)s",
        moment=moment_of(until),
    )


def _given_up_words(at: datetime) -> str:
    return translate("given up: every attempt failed, the last on %(moment)s", moment=moment_of(at))


def _queued_words(since: datetime) -> str:
    return _queued_since(spoken.get().language, since.replace(second=0, microsecond=0))


@lru_cache(maxsize=1_000)
def _queued_since(_language: str, minute: datetime) -> str:
    return translate("queued since %(moment)s", moment=moment_of(minute))


def _reason_words(reason: str) -> str:
    text = _REASONS.get(reason.partition(":")[0])
    return translate(text) if text else translate("not archived")


_NEVER = {
    Sort.PASSED_OVER: noop("never archived: this is no http address"),
    Sort.NOT_CHECKED: noop("never archived: this is no http address"),
    Sort.INVALID: noop("never archived: no server can have this address"),
    Sort.EXAMPLE: noop("never archived: the name is kept free for examples"),
    Sort.INTERNAL: noop("never archived: the link leads to the wiki itself"),
    Sort.MISSING: noop("never archived: the wiki that it leads to has no such page"),
    Sort.SPAM: noop("never archived: the address is on a spam list"),
}


def _never_words(sort: Sort | None) -> str:
    text = _NEVER.get(sort) if sort is not None else None
    return translate(text) if text else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _failed_words() -> str:
    return translate("no visit brought a copy")


def _words(facts: Facts, what: str, today: int) -> str:
    """Return how the link is doing, where that is worth a word, what there is of it, and an unusual type."""
    link = facts.link
    if link is None:
        return _capital(what)
    parts = [what] if what else []
    if link.mime:
        parts.append(_type_words(link.mime, link.kib))
    if link.group in _TOLD_GROUPS or link.is_unreachable:
        known = replace(link, url="", spelling="", fails=0, checked_day=None, mime="", kib=None)
        how = _standing(spoken.get().language, known, today)
        return translate("%(how)s; %(what)s", how=how, what="; ".join(parts)) if parts else how
    return _capital("; ".join(parts))


def _type_words(mime: str, kib: int | None) -> str:
    if kib is None:
        return translate("the link leads to a file (%(type)s)", type=mime)
    size = number(kib)
    return translate("the link leads to a file (%(type)s, %(kib)s KiB)", type=mime, kib=size)


@lru_cache(maxsize=1_000)
def _standing(_language: str, link: Link, today: int) -> str:
    """The same for all links of a state since a day."""
    return standing_of(link, today)


_TOLD_GROUPS = (Group.UNREACHABLE, Group.DOUBTFUL)


def label_of(answer: Told) -> str:
    """What stands beside the link; empty where nothing does."""
    return _label(spoken.get().language, answer)


@lru_cache(maxsize=1_000)
def _label(_language: str, answer: Told) -> str:
    text = _LABELS.get(answer)
    return translate(text) if text else ""


# Translators: a word or two, which stands beside a link in small letters.
_LABELS = {
    Told.COPY: noop("cached"),
    Told.QUEUED: noop("queued"),
    Told.REFUSED: noop("not archived"),
    Told.FAILED: noop("not archived"),
}


def _moment(timestamp: str) -> datetime | None:
    try:
        return parse_timestamp14(timestamp).astimezone(UTC)
    except (InputError, ValueError):
        return None
