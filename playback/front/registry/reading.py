"""The registry's rows as answers: what `links.books.looking` finds, told as `answers` has it.

Reads only. No question goes beyond the asker's farm (W24). Whoever calls has opened the registry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Integer, func, select

from links.books.looking import (
    PageFacts,
    Quirk,
    UrlFacts,
    page_facts,
    pages_by_title,
    url_facts,
    uses_of_url,
)
from links.books.pages import PageRow
from links.books.wikis import ALL_FARMS, FIND_WIKI, WIKI_BY_ID, Farm, Wiki, WikiName
from links.history import unpack
from links.locator import key_of
from links.quirks import HostQuirk, UrlQuirk, is_over, is_url_quirk_over
from links.sorting import Warned, sort_link
from links.stages import Stage
from links.states import State
from links.status import Code, outward
from links.store.schema import observations, pages, spam_hits, urls
from links.store.statements import Reader, Statement, batches, many, one
from playback.addresses import is_web_url
from playback.front.registry.answers import (
    GROUPS,
    Copy,
    Group,
    Hint,
    Link,
    Note,
    PageAnswer,
    PageRef,
    Run,
    SpamHit,
    Uses,
    order_of,
)
from playback.front.registry.asking import PageQuestion

MOST_LINKS = 5_000  # of one page
MOST_USES = 100  # W09
_TITLE_SAFE = "/:;@!$*(),~"  # as MediaWiki writes addresses
_HOST_HINTS = {
    HostQuirk.HTTPS_NEEDED: Hint.HTTPS_NEEDED,
    HostQuirk.HTTP_NEEDED: Hint.HTTP_NEEDED,
    HostQuirk.DNS_ERROR: Hint.DNS_ERROR,
    HostQuirk.SERVER_ERROR: Hint.SERVER_ERROR,
    HostQuirk.PRESUMED_REACHABLE: Hint.PRESUMED_REACHABLE,
    HostQuirk.UNVERIFIABLE: Hint.UNVERIFIABLE,
}
_TROUBLE = (HostQuirk.DNS_ERROR, HostQuirk.SERVER_ERROR)  # an old one, when a URL there works
_URL_HINTS = {
    UrlQuirk.MOVED: Hint.MOVED,
    UrlQuirk.CERTIFICATE: Hint.CERTIFICATE,
    UrlQuirk.RATE_LIMIT: Hint.RATE_LIMIT,
}
_WARNINGS = {
    Warned.BIDI: Hint.BIDI,
    Warned.HIDDEN: Hint.HIDDEN,
    Warned.MIXED: Hint.MIXED,
}
_Kind = TypeVar("_Kind", bound=IntEnum)

URL_BY_KEY = Statement(select(urls.c.id).where(urls.c.key == one("key")))
SPAM_BY_KEY = Statement(
    select(*(spam_hits.c.list, spam_hits.c.line, pages.c.page_id, pages.c.title, pages.c.namespace))
    .join(pages, pages.c.id == spam_hits.c.page)
    .where(spam_hits.c.key == one("key"), spam_hits.c.wiki_id == one("wiki"))
    .order_by(spam_hits.c.page)
    .limit(one("most", Integer()))
)
_last = (
    select(observations.c.url_id, func.max(observations.c.moment).label("moment"))
    .where(observations.c.url_id.in_(many("ids")))
    .group_by(observations.c.url_id)
    .subquery()
)
LAST_SEEN = Statement(
    select(observations.c.url_id, observations.c.note, observations.c.final_url).join(
        _last,
        (_last.c.url_id == observations.c.url_id) & (_last.c.moment == observations.c.moment),
    ),
    "ids",
)


class Reading:
    """Questions at one moment of the registry, and one day."""

    def __init__(self, reader: Reader, day: int) -> None:
        self._reader = reader
        self._day = day

    @property
    def reader(self) -> Reader:
        """The moment of the registry."""
        return self._reader

    def pages(self, question: PageQuestion) -> tuple[PageAnswer, ...]:
        """The pages that were asked for, in that order, with all their links; each is answered (W10)."""
        wiki = self.wiki(question.wiki)
        if wiki is None:
            unknown = [PageAnswer(page_id, None) for page_id in question.page_ids]
            return (*unknown, *(PageAnswer(None, title) for title in question.titles))
        titled = pages_by_title(self._reader, wiki.id, spellings(question.titles))
        named = {
            title: titled.get(title) or titled.get(capital(title)) for title in question.titles
        }
        wanted = {*question.page_ids, *(row.page_id for row in named.values() if row)}
        facts = page_facts(self._reader, wiki.id, wanted, day=self._day)
        known = self._told(wiki, facts)
        by_id = [known.get(each) or PageAnswer(each, None) for each in question.page_ids]
        by_title = [
            known.get(row.page_id, PageAnswer(None, title)) if row else PageAnswer(None, title)
            for title, row in named.items()
        ]
        return (*by_id, *by_title)

    def link(self, identity: str) -> tuple[int, Link] | None:
        """A URL with its row's number; None when no page has it, or none had it lately."""
        rows = URL_BY_KEY.rows(self._reader, {"key": key_of(identity)})
        if not rows:
            return None
        number = rows[0][0]
        found = self.links([number]).get(number)
        return (number, found) if found is not None and found.url == identity else None

    def spam(self, identity: str, name: WikiName) -> tuple[Link, Uses] | None:
        """A URL that a spam list of the wiki or its farm names, and its pages; None when none does.

        Such URLs are not among those that are watched (W52).
        """
        wiki = self.wiki(name)
        if wiki is None:
            return None
        asked = {"key": key_of(identity), "wiki": wiki.id, "most": MOST_USES + 1}
        rows = SPAM_BY_KEY.rows(self._reader, asked)
        if not rows:
            return None
        refs = tuple(
            PageRef(name, row[2], row[3], row[4], address_of(wiki, row[3]))
            for row in rows[:MOST_USES]
        )
        hits = (SpamHit(rows[0][0], rows[0][1]),)
        link = Link(identity, State.EXCLUDED, spam=hits)
        return link, Uses(refs, len(rows) > MOST_USES, is_farm_wide=False)

    def links(self, ids: Sequence[int]) -> dict[int, Link]:
        """URLs by their rows' numbers."""
        return self._links(url_facts(self._reader, ids, day=self._day))

    def uses(self, url_id: int, name: WikiName, *, farm_wide: bool = False) -> Uses | None:
        """Pages of the wiki, or of its farm, that have the URL or had it a short while ago (W09).

        None when nobody knows the wiki.
        """
        wiki = self.wiki(name)
        if wiki is None:
            return None
        found = uses_of_url(self._reader, url_id, wiki, limit=MOST_USES + 1, in_farm=farm_wide)
        wikis = self._wikis({each.page.wiki_id for each in found} | {wiki.id})
        refs = tuple(ref_of(wikis[each.page.wiki_id], each.page) for each in found[:MOST_USES])
        return Uses(refs, len(found) > MOST_USES, farm_wide)

    def wiki(self, name: WikiName) -> Wiki | None:
        """The wiki; None when the registry does not know it. The case of a farm's letters is ours."""
        found = self._wiki_of(name.dbname, name.farm)
        if found is not None:
            return found
        for farm in (Farm(*row) for row in ALL_FARMS.rows(self._reader, {})):
            if farm.name.lower() == name.farm.lower() and farm.name != name.farm:
                return self._wiki_of(name.dbname, farm.name)
        return None

    def _wiki_of(self, dbname: str, farm: str) -> Wiki | None:
        rows = FIND_WIKI.rows(self._reader, {"dbname": dbname, "farm": farm})
        return _wiki(rows[0]) if rows else None

    def _wikis(self, ids: Iterable[int]) -> dict[int, Wiki]:
        rows = [row for each in ids for row in WIKI_BY_ID.rows(self._reader, {"id": each})]
        return {row[0]: _wiki(row) for row in rows}

    def _told(self, wiki: Wiki, facts: dict[int, PageFacts]) -> dict[int, PageAnswer]:
        """The pages' answers by their numbers."""
        own = {each.facts.row.id: each.facts for page in facts.values() for each in page.links}
        links = self._links(own)
        return {
            page_id: _page(wiki, page, [links[each.facts.row.id] for each in page.links])
            for page_id, page in facts.items()
        }

    def _links(self, facts: dict[int, UrlFacts]) -> dict[int, Link]:
        seen = {
            row[0]: (row[1], row[2])
            for batch in batches(facts)
            for row in LAST_SEEN.rows(self._reader, {"ids": batch})
        }
        return {
            number: self._link(each, *seen.get(number, ("", ""))) for number, each in facts.items()
        }

    def _link(self, facts: UrlFacts, evidence: str, led_to: str) -> Link:
        row = facts.row
        runs = tuple(
            Run(run.code, outward(run.code) or None, run.first, run.last)
            for run in unpack(row.history)
        )
        proposed = facts.replacement
        works = proposed is not None and proposed.state == Stage.WORKS
        return Link(
            url=row.url,
            state=row.state,
            code=row.code,
            http=outward(row.code) or None,
            since_day=since_day(row.state, runs, row.first_fail_day),
            checked_day=row.checked_day,
            fails=row.fails,
            runs=runs,
            evidence=evidence,
            led_to=led_to,
            mime=row.mime or "",
            kib=row.kib,
            notes=tuple(self._notes(facts)),
            copies=tuple(Copy(each.service, each.address, each.timestamp) for each in facts.copies),
            reports=facts.reports,
            replacement=proposed.address if proposed is not None and works else "",
        )

    def _notes(self, facts: UrlFacts) -> Iterable[Note]:
        is_working = GROUPS[facts.row.state] is Group.WORKING
        for quirk in facts.quirks:
            kind = _known(UrlQuirk, quirk)
            if kind in _URL_HINTS and not is_url_quirk_over(quirk.last_day, self._day):
                yield Note(_URL_HINTS[kind], quirk.value)
        for quirk in facts.host_quirks:
            of_host = _known(HostQuirk, quirk)
            if of_host not in _HOST_HINTS or (of_host in _TROUBLE and is_working):
                continue
            if not is_over(of_host, quirk.first_day, quirk.last_day, self._day):
                yield Note(_HOST_HINTS[of_host])
        for warned in sort_link(facts.row.url).warnings:
            if warned in _WARNINGS:
                yield Note(_WARNINGS[warned])


def since_day(state: State, runs: tuple[Run, ...], first_fail: int | None) -> int | None:
    """Since when it stands where it does: since the first failure, or since this answer came first."""
    if state in (State.DYING, State.DEAD) and first_fail is not None:
        return first_fail
    return runs[-1].first_day if runs else None


def ref_of(wiki: Wiki, page: PageRow) -> PageRef:
    """A page of the wiki."""
    return PageRef(
        wiki.name, page.page_id, page.title, page.namespace, address_of(wiki, page.title)
    )


def address_of(wiki: Wiki, title: str) -> str:
    """Where a wiki's page is read; empty when the wiki does not say, or says no address."""
    if "$1" not in wiki.pages_url:
        return ""
    address = wiki.pages_url.replace("$1", quote(title.replace(" ", "_"), safe=_TITLE_SAFE))
    return address if is_web_url(address) else ""


def spellings(titles: Sequence[str]) -> list[str]:
    """The titles, and as most wikis keep them: with a capital letter first."""
    return sorted({each for title in titles for each in (title, capital(title))})


def capital(title: str) -> str:
    """The title with a capital letter first."""
    return title[:1].upper() + title[1:]


def _wiki(row: Sequence[object]) -> Wiki:
    number, dbname, farm, farm_id, *rest = row
    return Wiki(number, WikiName(str(dbname), str(farm)), farm_id, *rest)  # type: ignore[arg-type]


def _page(wiki: Wiki, facts: PageFacts, links: list[Link]) -> PageAnswer:
    """With what nobody can ask for (W48) and what spam lists name, which is not looked at (W52)."""
    spam = {hit.url: (SpamHit(hit.list, hit.line),) for hit in facts.spam}
    told = [_with_spam(link, spam.get(link.url, ())) for link in links]
    told += [
        Link(_shown(each.text), State.INVALID, code=Code.INVALID, evidence=each.reason)
        for each in facts.invalid
    ]
    have = {link.url for link in told}
    told += [Link(url, State.EXCLUDED, spam=hits) for url, hits in spam.items() if url not in have]
    told.sort(key=lambda link: order_of(link.url))
    page = facts.page
    return PageAnswer(
        page_id=page.page_id,
        title=page.title,
        namespace=page.namespace,
        is_observed=True,
        listed_day=page.listed_day,
        address=address_of(wiki, page.title),
        total=len(told),
        links=tuple(told[:MOST_LINKS]),
    )


def _with_spam(link: Link, spam: tuple[SpamHit, ...]) -> Link:
    return replace(link, spam=spam) if spam else link


def _shown(text: str) -> str:
    """A text of a page without what no answer can hold."""
    return text.encode("utf-8", "replace").decode()


def _known(kinds: type[_Kind], quirk: Quirk) -> _Kind | None:
    """The kind of quirk; None for one of a later version."""
    return kinds(quirk.kind) if quirk.kind in kinds.__members__.values() else None
