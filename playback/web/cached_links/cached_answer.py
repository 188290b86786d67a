"""Answer for each link: copy, address to open, link state, text; pure.

The archive's own copy comes first, another archive's is for dead links only. The link state is disclosed if the
requested page contains the link, and to internal callers if a page of the farm does (W20, W24).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from core.errors import InputError
from core.timestamps import parse_timestamp14
from links.check_history import date_of
from links.registry.lookups import CopyFacts
from links.rules.link_class import LinkClass
from playback.url_paths import Memento, MementoModifier, escape_url, memento_path, page_path
from playback.web.cached_links.cached_request import RequestedUrl
from playback.web.copy_lookup import CopyObstacle, CopyOffer, UrlQueueState, UrlQueueStatus
from playback.web.i18n import day as day_words
from playback.web.i18n import moment_of, noop, number, page_language, translate
from playback.web.page_store import CapturedPage
from playback.web.registry.link_messages import service_name, standing_of
from playback.web.registry.registry_reader import capitalize_title
from playback.web.registry.registry_values import Group, LinkRecord

Day = date  # which a field below hides


class CopyState(StrEnum):
    """Kind of answer for a link."""

    COPY = "copy"
    QUEUED = "queued"
    REFUSED = "refused"
    FAILED = "failed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """Input for the answer about one URL."""

    requested: RequestedUrl
    offer: CopyOffer | None = None  # result of the captures index; None: never captured
    link: LinkRecord | None = None  # record of the registry; None when not disclosed to the caller
    elsewhere: CopyFacts | None = None  # copy in another archive, to be offered
    wanted_at: datetime | None = None  # since when it waits to be archived; None: it does not
    standing: UrlQueueStatus | None = None  # state in the crawl queue; None: none
    never: LinkClass | None = None  # why the URL is never checked; None: it may be

    @property
    def is_dead(self) -> bool:
        """Return True when the link no longer leads to the cited content."""
        return self.link is not None and self.link.is_unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedLink:
    """Answer for one link; the fields are those of docs/how-to/embedding.md."""

    url: str
    spelling: str | None = None  # how the page has it, as far as the registry knows
    answer: CopyState
    href: str | None = None
    copy: str | None = None
    date: datetime | None = None
    service: str | None = None
    state: str | None = None
    group: str = Group.UNKNOWN.value
    is_dead: bool = False
    mime: str | None = None  # an unusual type's short name
    kib: int | None = None  # that file's length
    words: str = ""
    label: str = ""  # shown next to the link; empty without one
    is_new: bool = False  # it may soon be on its way
    next_at: datetime | None = None  # queued: no attempt before
    checked: Day | None = None  # last check of the link

    @property
    def data(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return value.isoformat() if isinstance(value, date) else value


@dataclass(frozen=True, slots=True)
class AnswerOrigins:
    """Origins for the addresses in answers."""

    front: str  # the front's origin, followed by the requested language, if any: ``/de``
    replay: str
    wiki: str = ""  # the reader's wiki as used in addresses; or empty

    def page(self, page: CapturedPage, fragment: str) -> str:
        """Return the address of a copy's reader page."""
        return f"{self.front}{page_path(page.timestamp, page.url, wiki=self.wiki)}{fragment}"

    def memento(self, page: CapturedPage, fragment: str) -> str:
        """Return the address of the copy itself (URI-M), at the level for the wiki's readers."""
        path = memento_path(Memento(page.timestamp, MementoModifier.PAGE, page.url, wiki=self.wiki))
        return f"{self.replay}{path}{fragment}"

    def newest(self, url: str) -> str:
        """Return the address of the newest copy, or of the page that explains why there is none."""
        whose = f"/w/{self.wiki}" if self.wiki else ""
        return f"{self.front}{whose}/latest/{escape_url(url)}"


def answer_link(facts: LinkEvidence, leading: AnswerOrigins) -> CachedLink:
    """Return the answer in the request's language."""
    text, spelled, fragment = facts.requested.text, facts.requested.spelled, facts.requested.fragment
    if spelled is None:
        words = capitalize_title(_never_words(facts.never))
        return CachedLink(url=text, answer=CopyState.NONE, words=words)
    offer, elsewhere = facts.offer, facts.elsewhere
    answer = CopyState.COPY
    fields: dict[str, Any]
    if offer is not None and offer.page is not None:
        page = offer.page
        words = _copy_words(page.captured_at.date())
        fields = {
            "href": leading.page(page, fragment),
            "copy": leading.memento(page, fragment),
            "date": page.captured_at,
        }
    elif (
        elsewhere is not None
        and facts.is_dead
        and (offer is None or offer.bar in (CopyObstacle.FAILED, CopyObstacle.REFUSED))
    ):
        date, name = None, service_name(elsewhere.service)
        with suppress(InputError, ValueError):
            date = parse_timestamp14(elsewhere.timestamp).astimezone(UTC)
        words = (
            translate("copy in %(archive)s", archive=name)
            if date is None
            else translate("copy of %(day)s in %(archive)s", day=day_words(date), archive=name)
        )
        address, service = elsewhere.address, elsewhere.service
        fields = {"href": address, "copy": address, "date": date, "service": service}
    else:
        answer, words = _without_copy(facts)
        fields = {}
        if answer is not CopyState.NONE:
            fields["href"] = leading.newest(spelled.fetch)
        elif facts.never is None and (offer is None or offer.bar is None):
            fields["is_new"] = True
        if answer is CopyState.QUEUED and facts.standing is not None and facts.standing.attempts:
            fields["next_at"] = facts.standing.until
    words = _words(facts, words)
    link = facts.link
    if link is not None:
        fields |= {
            "state": link.state.name.lower(),
            "group": link.group.value,
            "is_dead": facts.is_dead,
            "checked": None if link.checked_day is None else date_of(link.checked_day),
            "mime": link.mime or None,
            "kib": link.kib,
            "spelling": link.spelling or link.url,
        }
    label = _DEAD if facts.is_dead and answer is CopyState.COPY else _LABELS.get(answer)
    fields["label"] = translate(label) if label else ""
    return CachedLink(url=text, answer=answer, words=words, **fields)


def _per_language(make: Callable[..., str]) -> Callable[..., str]:
    """Cache texts by language and arguments: formatting dates is slow."""

    @lru_cache(maxsize=1_000)
    def cached(_language: str, *args: Any) -> str:
        return make(*args)

    return lambda *args: cached(page_language.get().language, *args)


_SETTLED_S = 60
_NEW_S = 2
_UNDER_WAY_S = 1


def max_age_s(links: list[CachedLink], now: datetime, *, is_watched: bool) -> int:
    """Return the cache lifetime, short while a capture may follow; `is_watched`: its links are archived."""
    soonest = _SETTLED_S
    for link in links:
        if link.answer is CopyState.QUEUED:
            wait_s = (link.next_at - now).total_seconds() if link.next_at is not None else 0
            soonest = min(soonest, max(_UNDER_WAY_S, int(wait_s)))
        elif is_watched and link.is_new:
            soonest = min(soonest, _NEW_S)
    return soonest


def _without_copy(facts: LinkEvidence) -> tuple[CopyState, str]:
    """Return state and text for a URL without a copy to offer."""
    offer, standing = facts.offer, facts.standing
    if offer is not None and offer.bar in _BARRED:
        answer, text = _BARRED[offer.bar]
        return answer, translate(text) if text else ""
    if standing is not None and standing.standing is not UrlQueueState.DONE:
        return _ANSWERS[standing.standing], _standing_words(standing)
    if facts.wanted_at is not None:
        return CopyState.QUEUED, _queued_words(facts.wanted_at)
    if offer is None:
        return CopyState.NONE, _never_words(facts.never)
    if offer.bar is CopyObstacle.REFUSED:
        return CopyState.REFUSED, _reason_words(offer.reason)
    return CopyState.FAILED, translate("archiving failed")


_BARRED = {
    CopyObstacle.HIDDEN: (CopyState.NONE, ""),
    CopyObstacle.TAKEN_DOWN: (CopyState.REFUSED, noop("the copy was taken down")),
    CopyObstacle.HELD: (CopyState.REFUSED, noop("the copy is withheld: it may be harmful")),
}
_ANSWERS = {
    UrlQueueState.QUEUED: CopyState.QUEUED,
    UrlQueueState.VISITING: CopyState.QUEUED,
    UrlQueueState.REFUSED: CopyState.REFUSED,
    UrlQueueState.FAILED: CopyState.FAILED,
}
_REASONS = {
    "robots": noop("not archived: excluded by the site’s robots.txt"),  # noqa: RUF001
    "noarchive": noop("not archived: the page opts out (noarchive)"),
    "autoblacklist": noop("not archived for now: the site refused requests or failed repeatedly"),
    "blacklist": noop("not archived: excluded by the operator of this archive"),
    "list": noop("not archived: the address is on an exclusion list"),
    "scope": noop("not archived: outside the scope of this archive"),
    "budget": noop("not archived: outside the scope of this archive"),
}


_copy_words = _per_language(lambda day: translate("copy of %(day)s", day=day_words(day)))


def _standing_words(standing: UrlQueueStatus) -> str:
    match standing.standing:
        case UrlQueueState.QUEUED if standing.attempts:  # it waits for the next one
            if standing.until is None:
                return translate("waiting for the site")
            return translate(
                "waiting for the site to respond; next attempt on %(moment)s", moment=moment_of(standing.until)
            )
        case UrlQueueState.QUEUED:
            return _queued_words(standing.since)
        case UrlQueueState.VISITING:
            return translate("being archived now")
        case UrlQueueState.REFUSED:
            return _reason_words(standing.reason)
        case _ if standing.attempts:
            return translate("archiving failed: last attempt on %(moment)s", moment=moment_of(standing.attempts[-1].at))
        case _:
            return translate("archiving failed: no attempt produced a copy")


def _queued_words(since: datetime) -> str:
    return _queued_since(since.replace(second=0, microsecond=0))


_queued_since = _per_language(lambda minute: translate("queued since %(moment)s", moment=moment_of(minute)))


def _reason_words(reason: str) -> str:
    return translate(_REASONS.get(reason.partition(":")[0], noop("not archived")))


_NEVER = {
    LinkClass.PASSED_OVER: noop("never archived: not an http or https address"),
    LinkClass.NOT_CHECKED: noop("never archived: not an http or https address"),
    LinkClass.INVALID: noop("never archived: the address is not valid"),
    LinkClass.EXAMPLE: noop("never archived: the host name is reserved for examples"),
    LinkClass.INTERNAL: noop("never archived: the link leads to the wiki itself"),
    LinkClass.MISSING: noop("never archived: the target wiki has no such page"),
    LinkClass.SPAM: noop("never archived: the address is on a spam list"),
}


def _never_words(sort: LinkClass | None) -> str:
    return translate(_NEVER[sort]) if sort in _NEVER else ""


def _words(facts: LinkEvidence, copy_words: str) -> str:
    """Return the text: notable link state, state of the copy, and an unusual media type."""
    link = facts.link
    if link is None:
        return capitalize_title(copy_words)
    parts = [copy_words] if copy_words else []
    if link.mime:
        sized = noop("the link leads to a file (%(type)s, %(kib)s KiB)")
        parts.append(
            translate("the link leads to a file (%(type)s)", type=link.mime)
            if link.kib is None
            else translate(sized, type=link.mime, kib=number(link.kib))
        )
    if link.group in _SHOWN_GROUPS or link.is_unreachable:
        known = replace(link, url="", spelling="", fails=0, checked_day=None, mime="", kib=None)
        link_words = _standing(known)
        return translate("%(how)s; %(what)s", how=link_words, what="; ".join(parts)) if parts else link_words
    return capitalize_title("; ".join(parts))


_standing = _per_language(standing_of)
_SHOWN_GROUPS = (Group.UNREACHABLE, Group.DOUBTFUL)


# Translators: one or two words, shown in small print next to a link.
_DEAD = noop("dead, cached")
# Translators: one or two words, shown in small print next to a link.
_LABELS = {
    CopyState.COPY: noop("cached"),
    CopyState.QUEUED: noop("queued"),
    CopyState.REFUSED: noop("not archived"),
    CopyState.FAILED: noop("not archived"),
}
