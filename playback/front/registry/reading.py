"""The registry's rows as answers. Reads, but for one thing: the day a page was last asked for.

Every statement finds its rows by an index and has a limit. No question goes beyond the asker's farm
(W24). Whoever calls has opened the registry; TransientError says that it is away.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, func, select

from links.locator import SCHEMES, Locator, key_of
from links.quirks import HostQuirk, UrlQuirk, is_over, is_url_quirk_over
from links.states import State
from links.status import Code
from links.store.schema import (
    copies,
    farms,
    host_quirks,
    hosts,
    invalid,
    observations,
    pages,
    refs,
    replacements,
    reports,
    spam_hits,
    url_quirks,
    urls,
    wikis,
)
from playback.addresses import is_web_url
from playback.front.registry.answers import (
    Copy,
    Hint,
    Link,
    Note,
    PageAnswer,
    PageRef,
    SpamHit,
    Uses,
    WikiName,
    order_of,
)
from playback.front.registry.asking import PageQuestion
from playback.front.registry.codes import outward, runs_of, since_day

MOST_LINKS = 5_000  # of one page
MOST_USES = 100  # W09
_AT_ONCE = 500  # keys in one statement
_MOST_REFS = 50_000  # of one URL, looked through for the pages of one wiki
_TITLE_SAFE = "/:;@!$*(),~"  # as MediaWiki writes addresses
WORKS = 1  # link_replacements.state
_Row = Any  # a result's row; its columns are attributes
_Kind = TypeVar("_Kind", bound=IntEnum)
_HOST_HINTS = {
    HostQuirk.HTTPS_NEEDED: Hint.HTTPS_NEEDED,
    HostQuirk.HTTP_NEEDED: Hint.HTTP_NEEDED,
    HostQuirk.DNS_ERROR: Hint.DNS_ERROR,
    HostQuirk.SERVER_ERROR: Hint.SERVER_ERROR,
    HostQuirk.PRESUMED_REACHABLE: Hint.PRESUMED_REACHABLE,
    HostQuirk.UNVERIFIABLE: Hint.UNVERIFIABLE,
}
_URL_HINTS = {
    UrlQuirk.MOVED: Hint.MOVED,
    UrlQuirk.CERTIFICATE: Hint.CERTIFICATE,
    UrlQuirk.RATE_LIMIT: Hint.RATE_LIMIT,
}
_LINKS = (
    urls.c.id,
    urls.c.scheme,
    urls.c.port,
    urls.c.path,
    urls.c.state,
    urls.c.code,
    urls.c.fails,
    urls.c.first_fail_day,
    urls.c.checked_day,
    urls.c.history,
    urls.c.mime,
    urls.c.kib,
    urls.c.host_id,
    hosts.c.name.label("host"),
)
_PAGES = (
    pages.c.id,
    pages.c.page_id,
    pages.c.namespace,
    pages.c.title,
    pages.c.listed_day,
    pages.c.asked_day,
    pages.c.is_stale,
)
WHERE = (wikis.c.dbname, wikis.c.pages_url, farms.c.name.label("farm"))


class Reading:
    """Questions to the registry over one connection, at one day."""

    def __init__(self, connection: Connection, day: int) -> None:
        self._ask = connection.execute
        self._day = day

    def pages(self, question: PageQuestion) -> tuple[PageAnswer, ...]:
        """The pages that were asked for, in that order, with all their links; each is answered (W10)."""
        wiki = self.wiki(question.wiki)
        rows = [] if wiki is None else self._page_rows(wiki.id, question)
        by_id = {row.page_id: row for row in rows}
        by_title: dict[str, _Row] = {}
        for row in sorted(rows, key=lambda row: row.id):
            by_title[row.title] = row
        links = self._links_of([row.id for row in rows])
        made = []
        for page_id in question.page_ids:
            found = by_id.get(page_id)
            known = found is not None and wiki is not None
            made.append(_page(found, wiki, links) if known else PageAnswer(page_id, None))
        for title in question.titles:
            found = by_title.get(title) or by_title.get(_capital(title))
            made.append(_page(found, wiki, links) if found else PageAnswer(None, title))
        return tuple(made)

    def link(self, identity: str) -> tuple[int, Link] | None:
        """A URL with its row's number; None when no page has it, or none had it lately."""
        query = select(*_LINKS).join(hosts, hosts.c.id == urls.c.host_id)
        row = self._ask(query.where(urls.c.key == key_of(identity))).first()
        if row is None or _url(row) != identity:
            return None
        return row.id, self._with_more([row])[row.id]

    def links(self, ids: Sequence[int]) -> dict[int, Link]:
        """URLs by their rows' numbers."""
        rows: list[_Row] = []
        for part in _parts(ids):
            query = select(*_LINKS).join(hosts, hosts.c.id == urls.c.host_id)
            rows += self._ask(query.where(urls.c.id.in_(part))).all()
        return self._with_more(rows)

    def uses(self, url_id: int, wiki: WikiName, *, farm_wide: bool = False) -> Uses:
        """Pages of the wiki, or of its farm, that have the URL or had it a short while ago (W09)."""
        having = select(refs.c.page).where(refs.c.url_id == url_id).order_by(refs.c.page)
        some = having.limit(_MOST_REFS).subquery()
        query = (
            select(pages.c.page_id, pages.c.title, pages.c.namespace, *WHERE)
            .select_from(some)
            .join(pages, pages.c.id == some.c.page)
            .join(wikis, wikis.c.id == pages.c.wiki_id)
            .join(farms, farms.c.id == wikis.c.farm_id)
            .where(func.lower(farms.c.name) == wiki.farm.lower())
            .order_by(some.c.page)
            .limit(MOST_USES + 1)
        )
        if not farm_wide:
            query = query.where(wikis.c.dbname == wiki.dbname)
        found = [ref_of(row) for row in self._ask(query)]
        return Uses(tuple(found[:MOST_USES]), len(found) > MOST_USES, farm_wide)

    def wiki(self, name: WikiName) -> _Row | None:
        """The wiki's row, with `WHERE`; None when the registry does not know it."""
        query = (
            select(wikis.c.id, *WHERE)
            .join(farms, farms.c.id == wikis.c.farm_id)
            .where(wikis.c.dbname == name.dbname, func.lower(farms.c.name) == name.farm.lower())
        )
        return self._ask(query).first()

    def _page_rows(self, wiki_id: int, question: PageQuestion) -> Sequence[_Row]:
        titles = spellings(question.titles)
        ways = []
        if question.page_ids:
            ways.append(pages.c.page_id.in_(question.page_ids))
        if titles:
            ways.append(pages.c.title.in_(titles))
        rows: list[_Row] = []
        for way in ways:
            rows += self._ask(select(*_PAGES).where(pages.c.wiki_id == wiki_id, way)).all()
        return list({row.id: row for row in rows}.values())

    def _links_of(self, page_rows: Sequence[int]) -> dict[int, list[Link]]:
        """The links that each page has now, and what spam lists name on it."""
        found: dict[int, list[_Row]] = defaultdict(list)
        for part in _parts(page_rows):
            query = (
                select(refs.c.page, *_LINKS)
                .join(urls, urls.c.id == refs.c.url_id)
                .join(hosts, hosts.c.id == urls.c.host_id)
                .where(refs.c.page.in_(part), refs.c.gone_day.is_(None))
            )
            for row in self._ask(query):
                found[row.page].append(row)
        rows = {row.id: row for of_page in found.values() for row in of_page}
        links = self._with_more(list(rows.values()))
        spam = self._spam(page_rows)
        bad = self._invalid(page_rows)
        return {
            page: _sorted(
                [*(links[row.id] for row in found[page]), *bad.get(page, ())], spam.get(page, {})
            )
            for page in page_rows
        }

    def _invalid(self, page_rows: Sequence[int]) -> dict[int, list[Link]]:
        """What nobody can ask for, as it stands on the pages (W48)."""
        found: dict[int, list[Link]] = defaultdict(list)
        for part in _parts(page_rows):
            query = select(invalid.c.page, invalid.c.text, invalid.c.reason)
            for row in self._ask(query.where(invalid.c.page.in_(part))):
                text = bytes(row.text).decode("utf-8", "replace")
                found[row.page].append(
                    Link(text, State.INVALID, code=Code.INVALID, evidence=row.reason)
                )
        return found

    def _spam(self, page_rows: Sequence[int]) -> dict[int, dict[str, tuple[SpamHit, ...]]]:
        found: dict[int, dict[str, tuple[SpamHit, ...]]] = defaultdict(dict)
        for part in _parts(page_rows):
            query = select(spam_hits.c.page, spam_hits.c.url, spam_hits.c.list, spam_hits.c.line)
            for row in self._ask(query.where(spam_hits.c.page.in_(part))):
                found[row.page][row.url] = (SpamHit(row.list, row.line),)
        return found

    def _with_more(self, rows: Sequence[_Row]) -> dict[int, Link]:
        """Links by their rows' numbers, with what other tables say of them."""
        ids = [row.id for row in rows]
        seen = self._last_seen(ids)
        notes = self._notes(ids, sorted({row.host_id for row in rows}))
        kept = self._copies(ids)
        reported = self._reports(ids)
        replaced = self._replacements(ids)
        made = {}
        for row in rows:
            evidence, led_to = seen.get(row.id, ("", ""))
            runs = runs_of(row.history)
            state = State(row.state)
            url = _url(row)
            made[row.id] = Link(
                url=url,
                state=state,
                code=row.code,
                http=outward(row.code),
                since_day=since_day(state, runs, row.first_fail_day),
                checked_day=row.checked_day,
                fails=row.fails,
                runs=runs,
                evidence=evidence,
                led_to=led_to,
                mime=row.mime or "",
                kib=row.kib,
                notes=(*notes.urls.get(row.id, ()), *notes.hosts.get(row.host_id, ())),
                copies=tuple(kept.get(row.id, ())),
                reports=reported.get(row.id, 0),
                replacement=replaced.get(row.id, ""),
            )
        return made

    def _last_seen(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        """The evidence of each URL's last noted look, and where that ended."""
        found = {}
        for part in _parts(ids):
            last = (
                select(observations.c.url_id, func.max(observations.c.moment).label("moment"))
                .where(observations.c.url_id.in_(part))
                .group_by(observations.c.url_id)
                .subquery()
            )
            query = select(
                observations.c.url_id, observations.c.note, observations.c.final_url
            ).join(
                last,
                (last.c.url_id == observations.c.url_id) & (last.c.moment == observations.c.moment),
            )
            for row in self._ask(query):
                found[row.url_id] = (row.note, row.final_url)
        return found

    def _notes(self, ids: Sequence[int], host_ids: Sequence[int]) -> "_Notes":
        notes = _Notes(defaultdict(list), defaultdict(list))
        for part in _parts(ids):
            query = select(url_quirks).where(url_quirks.c.url_id.in_(part))
            for row in self._ask(query.order_by(url_quirks.c.url_id, url_quirks.c.kind)):
                kind = _known(UrlQuirk, row.kind)
                if kind in _URL_HINTS and not is_url_quirk_over(row.last_day, self._day):
                    notes.urls[row.url_id].append(Note(_URL_HINTS[kind], row.value))
        for part in _parts(host_ids):
            query = select(host_quirks).where(host_quirks.c.host_id.in_(part))
            for row in self._ask(query.order_by(host_quirks.c.host_id, host_quirks.c.kind)):
                quirk = _known(HostQuirk, row.kind)
                over = quirk is None or is_over(quirk, row.first_day, row.last_day, self._day)
                if quirk in _HOST_HINTS and not over:
                    notes.hosts[row.host_id].append(Note(_HOST_HINTS[quirk]))
        return notes

    def _copies(self, ids: Sequence[int]) -> dict[int, list[Copy]]:
        found: dict[int, list[Copy]] = defaultdict(list)
        for part in _parts(ids):
            query = select(copies).where(copies.c.url_id.in_(part))
            for row in self._ask(query.order_by(copies.c.url_id, copies.c.service)):
                found[row.url_id].append(Copy(row.service, row.address, row.timestamp))
        return found

    def _replacements(self, ids: Sequence[int]) -> dict[int, str]:
        """Those that were tested and work; others are shown to nobody (W17)."""
        found: dict[int, str] = {}
        for part in _parts(ids):
            query = select(replacements.c.url_id, replacements.c.address).where(
                replacements.c.url_id.in_(part), replacements.c.state == WORKS
            )
            found |= {row.url_id: row.address for row in self._ask(query)}
        return found

    def _reports(self, ids: Sequence[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for part in _parts(ids):
            query = (
                select(reports.c.url_id, func.count().label("number"))
                .where(reports.c.url_id.in_(part), reports.c.expires_day > self._day)
                .group_by(reports.c.url_id)
            )
            found |= {row.url_id: row.number for row in self._ask(query)}
        return found


class _Notes(NamedTuple):
    urls: dict[int, list[Note]]
    hosts: dict[int, list[Note]]


def ref_of(row: _Row) -> PageRef:
    """The page of a row with `WHERE`."""
    wiki = WikiName(row.dbname, row.farm)
    return PageRef(wiki, row.page_id, row.title, row.namespace, address_of(row, row.title))


def address_of(wiki: _Row, title: str) -> str:
    """Where a wiki's page is read; empty when the wiki does not say, or says no address."""
    if "$1" not in wiki.pages_url:
        return ""
    address: str = wiki.pages_url.replace("$1", quote(title.replace(" ", "_"), safe=_TITLE_SAFE))
    return address if is_web_url(address) else ""


def _page(row: _Row, wiki: _Row, links: dict[int, list[Link]]) -> PageAnswer:
    of_page = tuple(links.get(row.id, ()))
    return PageAnswer(
        page_id=row.page_id,
        title=row.title,
        namespace=row.namespace,
        is_observed=True,
        listed_day=row.listed_day,
        address=address_of(wiki, row.title),
        total=len(of_page),
        links=of_page[:MOST_LINKS],
    )


def _sorted(links: Sequence[Link], spam: dict[str, tuple[SpamHit, ...]]) -> list[Link]:
    """With the URLs that spam lists name, which are not looked at (W52), in the order of W68."""
    made = [replace(each, spam=spam[each.url]) if each.url in spam else each for each in links]
    have = {each.url for each in made}
    made += [Link(url, State.EXCLUDED, spam=hits) for url, hits in spam.items() if url not in have]
    return sorted(made, key=lambda link: order_of(link.url))


def _url(row: _Row) -> str:
    return Locator(SCHEMES[row.scheme], row.host, row.port, row.path).url


def spellings(titles: Sequence[str]) -> list[str]:
    """The titles, and as most wikis keep them: with a capital letter first."""
    return sorted({each for title in titles for each in (title, _capital(title))})


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]


def _known(kinds: type[_Kind], number: int) -> _Kind | None:
    """The kind of that number; None for one of a later version."""
    return kinds(number) if number in kinds.__members__.values() else None


def _parts(values: Sequence[int]) -> Iterable[list[int]]:
    return ([*values[start : start + _AT_ONCE]] for start in range(0, len(values), _AT_ONCE))
