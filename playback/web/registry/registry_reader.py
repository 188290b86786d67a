"""Reader of registry rows as answers, from one snapshot of the registry.

Read-only. No query exceeds the caller's farm (W24). The caller opens the registry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, IntEnum
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Integer, func, select

from core.errors import InputError
from links.check_history import HistoryRun, unpack_history
from links.check_result import StatusCode, public_status
from links.feedback.replacements import shown_replacement
from links.feedback.reports import find_page_requests
from links.registry import lookups
from links.registry.citations import revisions_of
from links.registry.farm_queries import known_by_key, wikis_having
from links.registry.pages import find_pages, plain_title
from links.registry.quirks import HostQuirk, UrlQuirk, is_consolidated, is_url_quirk_over
from links.registry.schema import observations, pages, spam_hits, urls
from links.registry.statements import Reader, SqlStatement, batches, many, one
from links.registry.wikis import Wiki, WikiName, all_farms, all_wikis, find_wiki, wiki_of
from links.rules.link_class import FTP, MISSING_TARGET, LinkWarning, classify_link
from links.rules.wiki_rules import is_present
from links.states import LinkState
from links.url_parts import key_of
from playback.url_paths import is_web_url
from playback.web.i18n import noop
from playback.web.registry.registry_values import (
    GROUPS,
    Group,
    HintNote,
    LinkHint,
    LinkRecord,
    PageAnswer,
    PageQuestion,
    PageReference,
    UrlUses,
    link_order,
)

MOST_LINKS = 5_000  # of one page
MOST_USES = 100  # W09
_TITLE_SAFE = "/:;@!$*(),~"  # as MediaWiki writes addresses
_TROUBLE = (HostQuirk.DNS_ERROR, HostQuirk.SERVER_ERROR)  # an old one, when a URL there works
_Kind = TypeVar("_Kind", bound=IntEnum)
_Hinted = TypeVar("_Hinted", bound=Enum)


def _hints(kinds: type[_Hinted]) -> dict[_Hinted, LinkHint]:
    return {kind: LinkHint[kind.name] for kind in kinds if kind.name in LinkHint.__members__}


_HOST_HINTS, _URL_HINTS, _WARNINGS = _hints(HostQuirk), _hints(UrlQuirk), _hints(LinkWarning)


class UnknownWikiError(InputError):
    """Wiki unknown to the registry, or not disclosed to the caller."""

    def __init__(self) -> None:
        super().__init__(noop("This wiki is not known here. Is its name correct (dewiki@WMF)?"))


URL_BY_KEY = SqlStatement(select(urls.c.id).where(urls.c.key == one("key")))
SPAM_BY_KEY = SqlStatement(
    select(
        *(spam_hits.c.url, spam_hits.c.list, spam_hits.c.line),
        *(spam_hits.c.first_day, spam_hits.c.last_day),
        *(pages.c.page_id, pages.c.title, pages.c.namespace),
    )
    .join(pages, pages.c.id == spam_hits.c.page)
    .where(spam_hits.c.key == one("key"), spam_hits.c.wiki_id == one("wiki"), is_present())
    .order_by(spam_hits.c.page)
    .limit(one("most", Integer()))
)
_last = (
    select(observations.c.url_id, func.max(observations.c.moment).label("moment"))
    .where(observations.c.url_id.in_(many("ids")))
    .group_by(observations.c.url_id)
    .subquery()
)
LAST_SEEN = SqlStatement(
    select(observations.c.url_id, observations.c.note, observations.c.final_url).join(
        _last, (_last.c.url_id == observations.c.url_id) & (_last.c.moment == observations.c.moment)
    ),
    "ids",
)


class RegistryReader:
    """Reader of one registry snapshot, for one day; only internal callers see what is not on public wikis."""

    def __init__(self, reader: Reader, day: int, *, is_internal: bool = False) -> None:
        self.reader = reader
        self.day = day  # today's day number
        self._is_internal = is_internal
        self._hidden: frozenset[int] | None = None

    def pages(self, question: PageQuestion) -> tuple[PageAnswer, ...]:
        """Return the requested pages in order, with all their links; each has an entry (W10)."""
        wiki = self.wiki(question.wiki)
        if wiki is None:
            raise UnknownWikiError
        # Most wikis store titles with a capital first letter.
        spellings = {*question.titles, *map(capitalize_title, question.titles)}
        titled = lookups.pages_by_title(self.reader, wiki.id, sorted(spellings))
        named = {title: titled.get(title) or titled.get(capitalize_title(title)) for title in question.titles}
        wanted = {*question.page_ids, *(row.page_id for row in named.values() if row)}
        facts = lookups.page_facts(self.reader, wiki.id, wanted, day=self.day)
        links = self._links({each.facts.row.id: each.facts for page in facts.values() for each in page.links})
        read = revisions_of(self.reader, [page.page.id for page in facts.values()])
        observed = {}
        for page_id, page in facts.items():
            its = [replace(links[each.facts.row.id], spelling=each.spelling) for each in page.links]
            revision = read.get(page.page.id)
            is_current = revision == question.revision if question.revision else None
            observed[page_id] = replace(_page(wiki, page, its), revision=revision, is_current=is_current)
        others = self._unobserved(
            wiki,
            [each for each in question.page_ids if each not in observed],
            [title for title, row in named.items() if row is None or row.page_id not in observed],
        )
        by_id = [observed.get(each) or others[each] for each in question.page_ids]
        by_title = [
            observed[row.page_id] if row and row.page_id in observed else others[title] for title, row in named.items()
        ]
        return (*by_id, *by_title)

    def page(self, wiki: Wiki, page_id: int) -> PageAnswer:
        """Return a page's record; links are included only if it is not observed (W10)."""
        row = find_pages(self.reader, wiki.id, [page_id]).get(page_id)
        if row is None:
            return self._unobserved(wiki, [page_id], [])[page_id]
        return PageAnswer(
            *(page_id, row.title, row.namespace),
            is_observed=True,
            listed_day=row.listed_day,
            revision=revisions_of(self.reader, [row.id]).get(row.id),
        )

    def link(self, identity: str) -> tuple[int, LinkRecord] | None:
        """Return a URL's row number and record; None when no page contains it or did so recently."""
        rows = URL_BY_KEY.rows(self.reader, {"key": key_of(identity)})
        if not rows:
            return None
        number = rows[0][0]
        record = self.links(self.disclosed([number])).get(number)
        return (number, record) if record is not None and record.url == identity else None

    def spam(self, identity: str, name: WikiName) -> tuple[LinkRecord, UrlUses] | None:
        """Return a URL on a spam list of the wiki or its farm, which is not watched, with its pages (W52)."""
        wiki = self.wiki(name)
        if wiki is None:
            return None
        values = {"key": key_of(identity), "wiki": wiki.id, "most": MOST_USES + 1}
        rows = SPAM_BY_KEY.rows(self.reader, values)
        if not rows:
            return None
        refs = tuple(ref_of(wiki, *row[5:]) for row in rows[:MOST_USES])
        link = LinkRecord(identity, LinkState.EXCLUDED, spam=(lookups.SpamFacts(*rows[0][:5]),))
        return link, UrlUses(refs, len(rows) > MOST_USES, is_farm_wide=False)

    def links(self, ids: Sequence[int]) -> dict[int, LinkRecord]:
        """Return records by row number."""
        return self._links(lookups.url_facts(self.reader, ids, day=self.day))

    def uses(self, url_id: int, name: WikiName, *, farm_wide: bool = False) -> UrlUses | None:
        """Return pages of the wiki, or of its farm, that contain the URL or did so recently (W09)."""
        wiki = self.wiki(name)
        if wiki is None:
            return None
        uses = lookups.uses_of_url(self.reader, url_id, wiki, limit=MOST_USES + 1, in_farm=farm_wide)
        hidden = self.hidden()
        uses = [each for each in uses if each.page.wiki_id not in hidden]
        ids = {each.page.wiki_id for each in uses}
        wikis = {each: wiki_of(self.reader, each) for each in ids}
        shown = [each.page for each in uses[:MOST_USES]]
        refs = tuple(ref_of(wikis[page.wiki_id], page.page_id, page.title, page.namespace) for page in shown)
        return UrlUses(refs, len(uses) > MOST_USES, farm_wide)

    def wiki(self, name: WikiName) -> Wiki | None:
        """Return the wiki, in any case of the farm's name; None when unknown or not disclosed."""
        wiki = find_wiki(self.reader, name)
        for farm in () if wiki is not None else all_farms(self.reader):
            if farm.name.lower() == name.farm.lower() and farm.name != name.farm:
                wiki = find_wiki(self.reader, WikiName(name.dbname, farm.name))
                break
        return wiki if wiki is None or self._is_internal or wiki.is_public else None

    def hidden(self) -> frozenset[int]:
        """Return the numbers of wikis that are not disclosed to the caller."""
        if self._hidden is None:
            wikis = [] if self._is_internal else all_wikis(self.reader)
            self._hidden = frozenset(wiki.id for wiki in wikis if not wiki.is_public)
        return self._hidden

    def disclosed(self, ids: Sequence[int]) -> list[int]:
        """Return the numbers of those URLs that occur on a page of a disclosed wiki."""
        hidden = self.hidden()
        if not hidden:
            return list(ids)
        public = {number for number, wiki in wikis_having(self.reader, ids) if wiki not in hidden}
        return [each for each in ids if each in public]

    def _unobserved(self, wiki: Wiki, page_ids: Sequence[int], titles: Sequence[str]) -> dict[int | str, PageAnswer]:
        """Return answers about pages that are not observed, with their links known to the farm (W10)."""
        answers: dict[int | str, PageAnswer] = {each: PageAnswer(each, None) for each in page_ids}
        answers |= {title: PageAnswer(None, title) for title in titles}
        if not answers:
            return answers
        for page, facts in find_page_requests(self.reader, wiki.id, page_ids, titles).items():
            rows = known_by_key(self.reader, wiki, facts.keys)
            links = self.links(self.disclosed([row.id for row in rows.values()]))
            its = sorted(links.values(), key=lambda link: link_order(link.url))
            named = [each for each in titles if plain_title(each) == page.title]
            for name in (page.page_id,) if page.page_id else named:
                answers[name] = replace(
                    answers[name], listed_day=facts.read_day, total=len(its), links=tuple(its), request=facts.state
                )
        return answers

    def _links(self, facts: dict[int, lookups.UrlFacts]) -> dict[int, LinkRecord]:
        last_observations = {
            row[0]: (row[1], row[2]) for batch in batches(facts) for row in LAST_SEEN.rows(self.reader, {"ids": batch})
        }
        links = {}
        for number, each in facts.items():
            row, proposed = each.row, each.replacement
            evidence, led_to = last_observations.get(number, ("", ""))
            runs = unpack_history(row.history)
            links[number] = LinkRecord(
                url=row.url,
                state=row.state,
                code=row.code,
                http=public_status(row.code) or None,
                since_day=since_day(row.state, runs, row.first_fail_day),
                checked_day=row.checked_day,
                fails=row.fails,
                runs=runs,
                evidence=evidence,
                led_to=led_to,
                mime=row.mime or "",
                kib=row.kib,
                notes=tuple(self._notes(each)),
                copies=each.copies,
                reports=each.reports,
                replacement=shown_replacement(proposed.address, proposed.state, row.state)
                if proposed is not None
                else "",
            )
        return links

    def _notes(self, facts: lookups.UrlFacts) -> Iterable[HintNote]:
        is_working = GROUPS[facts.row.state] is Group.WORKING
        for quirk in facts.quirks:
            kind = _known(UrlQuirk, quirk)
            if kind in _URL_HINTS and not is_url_quirk_over(quirk.last_day, self.day):
                yield HintNote(_URL_HINTS[kind], quirk.value)
        for quirk in facts.host_quirks:
            of_host = _known(HostQuirk, quirk)
            if of_host not in _HOST_HINTS or (of_host in _TROUBLE and is_working):
                continue
            if is_consolidated(of_host, quirk.first_day, self.day):
                yield HintNote(_HOST_HINTS[of_host])
        for warned in classify_link(facts.row.url).warnings:
            if warned in _WARNINGS:
                yield HintNote(_WARNINGS[warned])


def since_day(state: LinkState, runs: tuple[HistoryRun, ...], first_fail: int | None) -> int | None:
    """Return the first day of the state: of the first failure, or of the current result."""
    if state in (LinkState.DYING, LinkState.DEAD) and first_fail is not None:
        return first_fail
    return runs[-1].first if runs else None


def ref_of(wiki: Wiki, page_id: int, title: str, namespace: int) -> PageReference:
    """Return a reference to a page of the wiki."""
    return PageReference(wiki.name, page_id, title, namespace, address_of(wiki, title))


def address_of(wiki: Wiki, title: str) -> str:
    """Return the address of a wiki page; empty when the wiki has no valid address pattern."""
    if "$1" not in wiki.pages_url:
        return ""
    address = wiki.pages_url.replace("$1", quote(title.replace(" ", "_"), safe=_TITLE_SAFE))
    return address if is_web_url(address) else ""


def capitalize_title(title: str) -> str:
    """Return the text with a capital first letter."""
    return title[:1].upper() + title[1:]


def _page(wiki: Wiki, facts: lookups.WikiPageFacts, links: list[LinkRecord]) -> PageAnswer:
    """Return the answer with unwatched links: not checkable (W48), and spam listed (W52)."""
    page = facts.page
    spam = {hit.url: (hit,) for hit in facts.spam}
    links_shown = [replace(link, spam=spam[link.url]) if link.url in spam else link for link in links]
    for each in facts.invalid:
        text = each.text.encode("utf-8", "replace").decode()
        if each.reason == MISSING_TARGET:
            links_shown.append(missing_target(text, each.first_day, page.listed_day))
        elif each.reason == FTP:
            links_shown.append(LinkRecord(text, LinkState.EXCLUDED, evidence=FTP, notes=(HintNote(LinkHint.FTP),)))
        else:
            links_shown.append(LinkRecord(text, LinkState.INVALID, code=StatusCode.INVALID, evidence=each.reason))
    have = {link.url for link in links_shown}
    links_shown += [LinkRecord(url, LinkState.EXCLUDED, spam=hits) for url, hits in spam.items() if url not in have]
    links_shown.sort(key=lambda link: link_order(link.url))
    return PageAnswer(
        page_id=page.page_id,
        title=page.title,
        namespace=page.namespace,
        is_observed=True,
        listed_day=page.listed_day,
        address=address_of(wiki, page.title),
        total=len(links_shown),
        links=tuple(links_shown[:MOST_LINKS]),
    )


def missing_target(url: str, first_day: int, listed_day: int | None) -> LinkRecord:
    """Return the record of a link to a missing page of the farm, as of the last read (W50)."""
    return LinkRecord(
        *(url, LinkState.DEAD, StatusCode.NOT_FOUND, public_status(StatusCode.NOT_FOUND)),
        since_day=first_day,
        checked_day=listed_day,
        evidence=MISSING_TARGET,
        notes=(HintNote(LinkHint.MISSING_TARGET),),
    )


def _known(kinds: type[_Kind], quirk: lookups.QuirkFacts) -> _Kind | None:
    """Return the kind of quirk; None for one of a later version."""
    return kinds(quirk.kind) if quirk.kind in kinds.__members__.values() else None
