"""Queries for pages: links, categories, templates, missing names; texts, revisions, history.

A history of a hundred thousand revisions is never read completely (`first_revision_with`).
"""

import html
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from core.errors import BodyTooLargeError
from wiki.api import models
from wiki.api.client import ApiAnswer, ParamValue, WikiApi
from wiki.settings import FeedSettings

PAGE_LINKS_LIMIT: Final = 200_000  # of one page
PAGE_PARTS_LIMIT: Final = 2_000  # answers to one question


@dataclass
class _PageBuilder:
    """Accumulator for a page that comes in several answers."""

    facts: dict[str, Any] = field(default_factory=dict)
    links: dict[str, None] = field(default_factory=dict)
    interwikis: dict[tuple[str, str], None] = field(default_factory=dict)
    categories: dict[str, None] = field(default_factory=dict)
    templates: dict[str, None] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the page's part of one answer."""
        for name, value in row.items():
            if name not in {"extlinks", "iwlinks", "categories", "templates"}:
                self.facts.setdefault(name, value)
        for each in models.json_rows(row, "extlinks"):
            self.links[models.text_field(each, "url", "*")] = None
        for each in models.json_rows(row, "iwlinks"):
            self.interwikis[models.text_field(each, "prefix"), models.text_field(each, "title", "*")] = None
        for name, titles in (("categories", self.categories), ("templates", self.templates)):
            titles.update((models.text_field(each, "title"), None) for each in models.json_rows(row, name))
        if len(self.links) > PAGE_LINKS_LIMIT:
            raise BodyTooLargeError(f"A page has more than {PAGE_LINKS_LIMIT:,} links.")

    def page(self, props: Collection[str]) -> models.WikiPage:
        """Build the page, with None for properties that were not requested."""
        row = self.facts
        newest = next(iter(models.json_rows(row, "revisions")), {})
        timestamp = newest.get("timestamp")
        return models.WikiPage(
            page_id=models.count_field(row, "pageid"),
            title=models.text_field(row, "title"),
            namespace=models.count_field(row, "ns"),
            is_missing=any(models.bool_field(row, name) for name in ("missing", "invalid", "special")),
            is_redirect=models.bool_field(row, "redirect"),
            rev_id=models.count_field(newest, "revid") or models.count_field(row, "lastrevid"),
            touched=models.parse_moment(timestamp) if timestamp is not None else None,
            model=models.text_field(row, "contentmodel") or "wikitext",
            links=tuple(each for each in self.links if each),
            interwiki_links=tuple(each for each in self.interwikis if each[0]),
            categories=tuple(self.categories) if "categories" in props else None,
            templates=tuple(self.templates) if "templates" in props else None,
            text=revision_content(newest),
            item=models.text_field(models.object_field(row, "pageprops"), "wikibase_item")
            if "pageprops" in props
            else None,
            parent_id=models.count_field(newest, "parentid") if "parentid" in newest else None,
            account=models.text_field(newest, "user"),
        )


async def read_pages(
    api: WikiApi,
    *,
    page_ids: Sequence[int] = (),
    titles: Sequence[str] = (),
    with_categories: bool = False,
    with_templates: bool = False,
    with_item: bool = False,
) -> list[models.WikiPage]:
    """Return pages by id or title in that order, deleted ones as missing; BodyTooLargeError, else as `WikiApi.get`."""
    assert not (page_ids and titles), "either numbers or titles"
    props = ["info", "revisions", "extlinks", "iwlinks"]
    params: dict[str, ParamValue] = {"prop": props, "rvprop": "ids|timestamp|user|content", "rvslots": "main"}
    params |= {"ellimit": "max", "iwlimit": "max"}
    for is_wanted, prop, key, value in (
        (with_categories, "categories", "cllimit", "max"),
        (with_templates, "templates", "tllimit", "max"),
        (with_item, "pageprops", "ppprop", "wikibase_item"),
    ):
        if is_wanted:
            props.append(prop)
            params[key] = value
    by = "pageids" if page_ids else "titles"
    keys: list[str] = [str(each) for each in page_ids or titles]
    values_by_key: dict[str, _PageBuilder] = {}
    for some in models.split_batches(dict.fromkeys(keys)):
        values_by_key.update(await _read_some(api, by, some, params))
    key = "pageid" if page_ids else "title"  # one without an entry, such as an interwiki title
    return [(values_by_key.get(each) or _PageBuilder({key: each, "missing": True})).page(props) for each in keys]


async def missing_titles(api: WikiApi, titles: Sequence[str]) -> frozenset[str]:
    """Return titles that have no page, as given; files of a shared repository and interwikis have one."""
    return await _titles_where(
        api, titles, lambda row: models.bool_field(row, "missing") and not models.bool_field(row, "known")
    )


async def existing_titles(api: WikiApi, titles: Iterable[str]) -> frozenset[str]:
    """Return those of the titles, as given, that have a page, if only a redirect."""
    return await _titles_where(api, titles, lambda row: models.count_field(row, "pageid") > 0)


async def _titles_where(
    api: WikiApi, titles: Iterable[str], has: Callable[[Mapping[str, Any]], bool]
) -> frozenset[str]:
    matching: set[str] = set()
    for some in models.split_batches(dict.fromkeys(titles)):
        query = models.query_result(await api.get(action="query", titles=some))
        names = models.normalized_titles(query)
        chosen = {models.text_field(row, "title") for row in models.json_rows(query, "pages") if has(row)}
        matching.update(each for each in some if names.get(each, each) in chosen)
    return frozenset(matching)


async def _read_some(
    api: WikiApi, by: str, wanted: list[str], params: Mapping[str, ParamValue]
) -> dict[str, _PageBuilder]:
    """Read pages by the requested keys; halve the batch when the answer is too large."""
    try:
        drafts: dict[str, _PageBuilder] = {}
        names: dict[str, str] = {}  # as requested -> as the wiki writes it
        async for answer in api.query(PAGE_PARTS_LIMIT, **{**params, by: wanted}):
            query = models.query_result(answer)
            names |= models.normalized_titles(query)
            for each in models.json_rows(query, "interwiki"):
                names.setdefault(models.text_field(each, "title"), "")
            for row in models.json_rows(query, "pages"):
                key = str(models.count_field(row, "pageid")) if by == "pageids" else models.text_field(row, "title")
                drafts.setdefault(key, _PageBuilder()).add(row)
        drafts_of = ((each, drafts.get(names.get(each, each))) for each in wanted)
        return {each: draft for each, draft in drafts_of if draft is not None}
    except BodyTooLargeError:
        if len(wanted) == 1:
            raise
    middle = len(wanted) // 2
    pages = await _read_some(api, by, wanted[:middle], params)
    pages.update(await _read_some(api, by, wanted[middle:], params))
    return pages


def revision_content(revision: Mapping[str, Any]) -> str | None:
    """Return a revision's text in either format version; None when not requested or hidden."""
    for place in (models.object_field(models.object_field(revision, "slots"), "main"), revision):
        for name in ("content", "*"):
            if isinstance(value := place.get(name), str):
                return value
    return None


async def unknown_names(api: WikiApi, facts: models.SiteFacts, feed: FeedSettings) -> list[str]:
    """Return categories (without page or members) and templates in the settings that the wiki does not have."""
    wanted = {
        **{facts.title_in(each, 14): None for each in (*feed.categories, *feed.not_categories)},
        **{facts.title_in(each, 10, 828): None for each in (*feed.templates, *feed.not_templates)},
    }
    unknown: list[str] = []
    for titles in models.split_batches(wanted):
        answer = await api.get(action="query", prop="categoryinfo", titles=titles)
        for row in models.json_rows(models.query_result(answer), "pages"):
            size = models.count_field(models.object_field(row, "categoryinfo"), "size")
            if models.bool_field(row, "missing") and not size:
                unknown.append(models.text_field(row, "title"))
    return unknown


HISTORY_LIMIT: Final = 500  # revisions after an edit that are examined
COMMENT_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True)
class EditablePage:
    """Page as read right before an edit."""

    page_id: int
    title: str
    rev_id: int  # the newest revision; 0 for a missing page
    made: str  # timestamp of that revision, as the wiki writes it
    read_at: str  # timestamp of the answer, as the wiki writes it
    text: str
    model: str = "wikitext"
    is_redirect: bool = False
    talk_title: str = ""

    @property
    def is_missing(self) -> bool:
        """Return True for a missing page."""
        return not self.rev_id


async def read_now(api: WikiApi, page_id: int) -> EditablePage:
    """Read the page's current text and revision."""
    answer, page = await _one_page(
        api,
        pageids=page_id,
        prop="info|revisions",
        inprop="associatedpage",
        rvprop="ids|timestamp|content|contentmodel",
        rvslots="main",
        curtimestamp=True,
    )
    revision = next(iter(models.json_rows(page, "revisions")), {})
    slot = models.object_field(models.object_field(revision, "slots"), "main")
    text = revision_content(revision)
    is_there = text is not None and not (models.bool_field(page, "missing") or models.bool_field(page, "invalid"))
    return EditablePage(
        page_id,
        models.text_field(page, "title"),
        models.count_field(revision, "revid") if is_there else 0,
        models.text_field(revision, "timestamp"),
        models.text_field(answer, "curtimestamp"),
        text or "",
        models.text_field(slot or revision, "contentmodel") or "wikitext",
        models.bool_field(page, "redirect"),
        models.text_field(page, "associatedpage"),
    )


async def read_text(api: WikiApi, title: str) -> str | None:
    """Return the text of a page by title; None when missing."""
    _, page = await _one_page(api, titles=title, prop="revisions", rvprop="content", rvslots="main")
    return revision_content(next(iter(models.json_rows(page, "revisions")), {}))


async def read_heads(api: WikiApi, page_ids: Iterable[int]) -> dict[int, models.WikiPage]:
    """Return title and newest revision of each page; the revision of a missing page is 0."""
    heads: dict[int, models.WikiPage] = {}
    for batch in models.split_batches(dict.fromkeys(page_ids)):
        answer = await api.get(action="query", pageids=batch, prop="info")
        for row in models.json_rows(models.query_result(answer), "pages"):
            heads[models.count_field(row, "pageid")] = _PageBuilder(dict(row)).page(())
    return heads


async def history_after(api: WikiApi, page_id: int, rev_id: int) -> tuple[models.Revision, ...]:
    """Return the revision and its successors, oldest first, without texts; () if deleted or replaced."""
    revisions: list[models.Revision] = []
    limits: dict[str, ParamValue] = {"rvstartid": rev_id, "rvdir": "newer", "rvlimit": HISTORY_LIMIT}
    with suppress(models.WikiRefusedError):
        async for answer in api.query(pageids=page_id, prop="revisions", rvprop=_PROPS, **limits):
            revisions += map(parse_revision, _revisions_in(answer))
            if len(revisions) >= HISTORY_LIMIT:
                break
    return tuple(revisions[:HISTORY_LIMIT])


async def earlier_digests(api: WikiApi, page_id: int, rev_id: int) -> frozenset[str]:
    """Return the SHA-1 of the revision's text and of earlier ones; hidden revisions are left out."""
    limits: dict[str, ParamValue] = {"rvstartid": rev_id, "rvdir": "older", "rvlimit": models.PAGES_AT_ONCE}
    try:
        answer = await api.get(action="query", pageids=page_id, prop="revisions", rvprop="ids|sha1", **limits)
    except models.WikiRefusedError:
        return frozenset()
    return frozenset(filter(None, (models.text_field(row, "sha1") for row in _revisions_in(answer))))


async def read_revision_text(api: WikiApi, rev_id: int) -> str | None:
    """Return the text of a revision; None when hidden or deleted."""
    return (await read_texts(api, [rev_id])).get(rev_id)


async def _one_page(api: WikiApi, **params: ParamValue) -> tuple[ApiAnswer, Mapping[str, Any]]:
    answer = await api.get(action="query", **params)
    return answer, next(iter(models.json_rows(models.query_result(answer), "pages")), {})


def _revisions_in(answer: ApiAnswer) -> Iterator[Mapping[str, Any]]:
    for page in models.json_rows(models.query_result(answer), "pages"):
        yield from models.json_rows(page, "revisions")


REVISIONS_AT_ONCE: Final = 15
REVISIONS_LIMIT: Final = 5_000  # that `first_revision_with` looks back
REQUESTS_LIMIT: Final = 25  # of one search
_PROPS: Final = "ids|timestamp|user|comment|sha1|tags"


async def read_revisions(api: WikiApi, page_id: int) -> AsyncIterator[models.Revision]:
    """Yield the page's newest revisions (`REVISIONS_LIMIT`); none for a missing page."""
    left = REVISIONS_LIMIT
    async for answer in api.query(prop="revisions", pageids=page_id, rvprop=_PROPS, rvlimit="max"):
        for row in islice(_revisions_in(answer), left):
            yield parse_revision(row)
            left -= 1
        if not left:
            return


def parse_revision(row: Mapping[str, Any]) -> models.Revision:
    """Parse a revision; hidden fields are empty. Raises WikiAwayError: its timestamp is missing."""
    tags = row.get("tags")
    return models.Revision(
        rev_id=models.count_field(row, "revid"),
        moment=models.parse_moment(row.get("timestamp")),
        user=models.text_field(row, "user"),
        comment=models.text_field(row, "comment")[:COMMENT_LIMIT],
        sha1=models.text_field(row, "sha1"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
    )


async def read_texts(api: WikiApi, rev_ids: Sequence[int]) -> dict[int, str]:
    """Return the wikitext of revisions by number, without hidden and deleted ones."""
    answers = api.query(prop="revisions", revids=list(rev_ids), rvprop="ids|content", rvslots="main")
    rows = [row async for answer in answers for row in _revisions_in(answer)] if rev_ids else []
    texts = {models.count_field(row, "revid"): revision_content(row) for row in rows}
    return {rev_id: text for rev_id, text in texts.items() if text is not None}


async def first_revision_with(api: WikiApi, page_id: int, url: str) -> models.Revision | None:
    """Find the revision that added a URL to the page in its current run (B06); None: it comes from a template.

    A URL that was added again counts from its return, as far as the sampled revisions show it. Beyond
    `REVISIONS_LIMIT` the result is at the latest the oldest of these.
    """
    known = [each async for each in read_revisions(api, page_id)]
    newest = await read_texts(api, [each.rev_id for each in known[:1]])
    if not any(has_url(text, url) for text in newest.values()):
        return None
    # Of the revisions with the URL the oldest is at `with_it`; `without` is older (or none is).
    with_it, without = 0, len(known)
    for _ in range(REQUESTS_LIMIT):
        between = spread_evenly(with_it, without)
        if not between:
            break
        texts = await read_texts(api, [known[each].rev_id for each in between])
        for each in between:
            if has_url(texts.get(known[each].rev_id, ""), url):
                with_it = each
            else:
                without = each
                break
    return known[with_it]


def spread_evenly(low: int, high: int, most: int = REVISIONS_AT_ONCE) -> list[int]:
    """Return at most `most` evenly spaced integers strictly between the two; empty without any.

    >>> spread_evenly(0, 3), spread_evenly(0, 100, 4), spread_evenly(4, 5)
    ([1, 2], [20, 40, 60, 80], [])
    """
    room = high - low - 1
    if room <= most:
        return list(range(low + 1, high))
    return [low + (high - low) * step // (most + 1) for step in range(1, most + 1)]


def has_url(text: str, url: str) -> bool:
    """Return True if the wikitext contains the URL in one of its usual spellings."""
    bare = url.partition("#")[0].removesuffix("/")
    rest = bare.partition(":")[2] or bare  # http became https in many places at once
    return any(form in text for form in {rest, html.escape(rest, quote=False), rest.replace("|", "{{!}}")})
