"""Exclusion lists of wikis for link search: domains (X03), patterns (X04), counts, suggestions.

Only link search by way of the wiki's pages omits excluded links (X05); they are counted for each entry when a page is
written. A suggestion is a host that very many pages link to with few different URLs, such as a licence's page. Whether
it is trusted is a human decision.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn

from sqlalchemy import Connection, case, delete, func, insert, select, update

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from core.storable_text import shorten_for_message
from core.urls import fetch_key
from links.registry.schema import excluded, hosts, pages, refs, urls
from links.rules.link_pattern import LinkPattern, parse_link_pattern
from links.url_parts import UrlParts, domain_index

ENTRY_LIMIT_CHARS = 2_000
ENTRIES_LIMIT = 5_000
_ENTRIES_NAMED = 5


class EntryForm(StrEnum):
    """Syntax of an entry; the values are the names of the wiki's settings."""

    DOMAIN = "excluded_domains"  # X03, $wgExternalLinksExcludedDomains
    PATTERN = "exclusion_list"  # X04, $wgExternalLinkExclusionList


@dataclass(frozen=True, slots=True)
class ExclusionEntry:
    """Entry of an exclusion list."""

    text: str  # as stored and shown
    form: EntryForm  # its syntax
    pattern: LinkPattern  # the links that it excludes


def parse_entry(text: str, form: EntryForm) -> ExclusionEntry:
    """Parse an entry; InputError states the fault, and suggests a correction.

    >>> parse_entry("Example.com", EntryForm.DOMAIN).text
    'example.com'
    """
    text = text.strip()
    if len(text) > ENTRY_LIMIT_CHARS:
        _refuse(text, f"an entry has {ENTRY_LIMIT_CHARS:,} characters at most")
    if form is EntryForm.DOMAIN:
        return _domain(text)
    try:
        pattern = parse_link_pattern(text)
    except InputError as error:
        why = str(error).partition(" cannot be searched for: ")[2]
        _refuse(text, why.removesuffix("."), error)
    is_address = pattern.index.startswith(("V4.", "V6."))
    if not pattern.path and not pattern.is_tree and not is_address:
        pattern = replace(pattern, is_tree=True)
    elif pattern.port is None:
        pattern = replace(pattern, any_port=not pattern.path)
    return ExclusionEntry(text, EntryForm.PATTERN, pattern)


class ExclusionList:
    """Exclusion list, compiled for look-ups. Thread-safe."""

    def __init__(self, entries: Iterable[ExclusionEntry] = ()) -> None:
        """Compile the entries."""
        self.entries = tuple(entries)
        self._trees: dict[str, list[ExclusionEntry]] = {}
        self._hosts: dict[str, list[ExclusionEntry]] = {}
        for entry in self.entries:
            entries_by_index = self._trees if entry.pattern.is_tree else self._hosts
            entries_by_index.setdefault(entry.pattern.index, []).append(entry)

    def entry_for(self, url: UrlParts) -> ExclusionEntry | None:
        """Return the entry that excludes the URL; None when none does."""
        if not self.entries:
            return None

        def covering(entries: Iterable[ExclusionEntry]) -> ExclusionEntry | None:
            return next((each for each in entries if each.pattern.covers_rest(url.scheme, url.port, url.path)), None)

        index = domain_index(url.host)
        entry = covering(self._hosts.get(index, ()))
        place = index.find(".")
        while entry is None and place >= 0:
            entry = covering(self._trees.get(index[: place + 1], ()))
            place = index.find(".", place + 1)
        return entry

    def meeting(self, pattern: LinkPattern) -> list[ExclusionEntry]:
        """Return the entries that may exclude results of a search for the pattern."""
        return [entry for entry in self.entries if entry.pattern.meets(pattern)]


def exclusions_of(settings: Mapping[str, Any]) -> ExclusionList:
    """Build the list from a wiki's settings. Invalid entries are skipped; see `unreadable`."""
    return ExclusionList(entry for entry in _parsed_entries(settings) if isinstance(entry, ExclusionEntry))


def unreadable(settings: Mapping[str, Any]) -> list[str]:
    """Return the errors of invalid entries in a wiki's settings, which were written there by hand."""
    return [entry for entry in _parsed_entries(settings) if isinstance(entry, str)]


def _parsed_entries(settings: Mapping[str, Any]) -> Iterator[ExclusionEntry | str]:
    for form in EntryForm:
        texts = settings.get(form.value, [])
        if not isinstance(texts, list):
            yield f"The setting {form.value} is not a list."
            continue
        for text in texts:
            try:
                yield parse_entry(str(text), form)
            except InputError as error:
                yield str(error)


def with_entry(settings: Mapping[str, Any], entry: ExclusionEntry) -> dict[str, Any]:
    """Return the settings with the entry added; InputError when the list is full."""
    texts = _texts(settings, entry.form)
    if len(texts) >= ENTRIES_LIMIT and entry.text not in texts:
        _refuse(entry.text, f"a list has {ENTRIES_LIMIT:,} entries at most")
    return {**settings, entry.form.value: sorted({*texts, entry.text})}


def without_entry(settings: Mapping[str, Any], text: str, form: EntryForm) -> dict[str, Any] | None:
    """Return the settings without the entry; None when the list does not have it."""
    texts = _texts(settings, form)
    wanted = text.strip()
    if wanted not in texts:
        try:
            wanted = parse_entry(text, form).text
        except InputError:
            return None
    return {**settings, form.value: [each for each in texts if each != wanted]} if wanted in texts else None


def warning_for(pattern: LinkPattern, entries: Iterable[ExclusionEntry], wiki: str = "") -> str:
    """Format the warning of a search that overlaps these entries: links are missing (X06, X10)."""
    named = [entry.text for entry in entries]
    if not named:
        return ""
    shown = ", ".join(named[:_ENTRIES_NAMED])
    more = f" and {len(named) - _ENTRIES_NAMED} more" if len(named) > _ENTRIES_NAMED else ""
    where = f"{wiki} keeps" if wiki else "The wiki keeps"
    return (
        f"{where} links to {shown}{more} out of link search on purpose, so a search for "
        f"{pattern.text[:100]} does not show them. The wiki's own full-text search finds them "
        f'(insource:"{named[0][:100]}"), and so do its dumps.'
    )


def add_entry_counts(
    rows: Connection, wiki_id: int, changes: Iterable[tuple[Mapping[str, int], Mapping[str, int]]], *, today: int
) -> None:
    """Add the changes of pages to the counts of a wiki's entries: excluded links by entry, before and after."""
    links: Counter[str] = Counter()
    on_pages: Counter[str] = Counter()
    for before, after in changes:
        for entry in {*before, *after}:
            old, new = before.get(entry, 0), after.get(entry, 0)
            links[entry] += new - old
            on_pages[entry] += bool(new) - bool(old)
    table = excluded.c
    for name in sorted(links):  # in one order, so that two writers never wait for each other
        changed = rows.execute(
            update(excluded)
            .where(table.wiki_id == wiki_id, table.entry == name)
            .values(
                links=table.links + links[name],
                pages=table.pages + on_pages[name],
                # A deleted page is not a sign of activity.
                last_day=case((table.last_day > today, table.last_day), else_=today),
            )
        )
        if not changed.rowcount and links[name] > 0:
            row = {"wiki_id": wiki_id, "entry": name, "links": links[name], "pages": on_pages[name]}
            rows.execute(insert(excluded), [{**row, "last_day": today}])
    if links:
        rows.execute(delete(excluded).where(table.wiki_id == wiki_id, table.pages <= 0))


def counts_of(rows: Connection, wiki_id: int) -> dict[str, tuple[int, int, int]]:
    """Return (links, pages, last day) of each entry with excluded links."""
    count_rows = rows.execute(
        select(excluded.c.entry, excluded.c.links, excluded.c.pages, excluded.c.last_day).where(
            excluded.c.wiki_id == wiki_id
        )
    )
    return {row.entry: (row.links, row.pages, row.last_day) for row in count_rows}


def _domain(text: str) -> ExclusionEntry:
    if not text:
        _refuse(text, "it is empty: write a domain, such as example.com")
    if "://" in text or text.startswith("//"):
        _refuse(text, "a domain has no scheme; it covers all schemes")
    if any(character in text for character in "/?#\\"):
        remedy = "add it as a pattern to exclude a part of a site"
        _refuse(text, f"a domain has no path, since no link would ever match it: {remedy}")
    if text.endswith("."):
        _refuse(text, "a domain is written without a trailing dot, since no link would match it")
    if "*" in text or text.startswith("."):
        _refuse(text, "a domain already includes its subdomains: write example.com")
    if "@" in text:
        _refuse(text, "a domain has no user name")
    try:
        fetch_key(f"http://{text}/", allow_single_label=True)
        host = canonical_host(text)
    except BadUrlError as error:
        reason = str(error).removesuffix(".").rpartition(": ")[2]
        _refuse(text, f"it is not a host ({reason})", error)
    index = domain_index(host)
    is_tree = not index.startswith(("V4.", "V6."))
    return ExclusionEntry(host, EntryForm.DOMAIN, LinkPattern(host, "", index, is_tree, any_port=True))


def _texts(settings: Mapping[str, Any], form: EntryForm) -> list[str]:
    texts = settings.get(form.value)
    return [str(text) for text in texts] if isinstance(texts, list) else []


def _refuse(text: str, why: str, cause: Exception | None = None) -> NoReturn:
    raise InputError(f"{shorten_for_message(text)!r} cannot be excluded: {why}.") from cause


_MOST = 50
_HOSTS_LIMIT = 200


@dataclass(frozen=True, slots=True)
class ExclusionSuggestion:
    """Host that might be excluded."""

    host: str  # canonical
    pages: int  # pages of the wiki that link to it
    share: float  # of all pages of the wiki, from 0 to 1
    urls: int  # number of different URLs of it that they link to
    links: int  # number of rows in the table of links

    @property
    def links_per_url(self) -> float:
        """Return the average number of pages for each URL."""
        return self.links / self.urls


def suggest_exclusions(
    rows: Connection, wiki_id: int, *, least_share: float = 0.1, most_urls: int = _MOST
) -> list[ExclusionSuggestion]:
    """Return hosts that at least that share of the wiki's pages links to, with few URLs; reads all its references."""
    total = rows.execute(select(func.count()).select_from(pages).where(pages.c.wiki_id == wiki_id)).scalar_one()
    least = max(total * least_share, 1)
    on_page = refs.c.gone_day.is_(None), pages.c.id == refs.c.page
    on_wiki = *on_page, pages.c.wiki_id == wiki_id, urls.c.id == refs.c.url_id
    number = func.count()
    different = func.count(refs.c.url_id.distinct())
    by_host = (
        select(urls.c.host_id, number.label("links"), different.label("urls"))
        .where(*on_wiki)
        .group_by(urls.c.host_id)
        .having(number >= least, different <= most_urls)
        .order_by(number.desc())
        .limit(_HOSTS_LIMIT)
    )
    suggestions = []
    for row in rows.execute(by_host).all():
        citing = rows.execute(
            select(func.count(refs.c.page.distinct()), func.min(hosts.c.name)).where(
                *on_wiki, urls.c.host_id == row.host_id, hosts.c.id == urls.c.host_id
            )
        ).one()
        if citing[0] >= least:
            suggestions.append(ExclusionSuggestion(citing[1], citing[0], citing[0] / total, row.urls, row.links))
    return sorted(suggestions, key=lambda each: (-each.pages, each.host))
