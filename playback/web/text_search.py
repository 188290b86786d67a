"""Full-text search of captured pages for readers: one result for each URL, facets, snippets.

Matches are read from the newest URLs on, those in titles and addresses first, in windows of `_WINDOW` URLs that are
ranked by BM25. Every match passes access control before it is counted, so that results, totals and facets disclose
nothing hidden; a decision takes effect with the next search.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from core.timestamps import from_unix_milliseconds, unix_milliseconds
from playback.web.page_store import CapturedPage, PageStore
from warc.text_index.analysis import QueryTerm, Segment, make_snippet, parse_terms
from warc.text_index.indexer import page_media, page_state
from warc.text_index.reader import TextHit, TextIndex, skip_url
from warc.text_index.store import MEDIA, STATES, TextFilter, url_host

TEXT_PAGE_SIZE = 20
_WINDOW = 300  # URLs that are ranked together
_HEADINGS = 200  # URLs with matches in title or address that precede them
_READ = 600  # matches read at once
_MOST_ROUNDS = 12
_TEXTS_OF_URL = 3  # tried for one that may be shown
_CAPTURES_OF_TEXT = 3
_FACET_VALUES = 8
_AHEAD = (20, *[_WINDOW] * 9)  # URLs examined for further results
_GOOD_BONUS = {"good": 1.0, "doubtful": 0.6, "error": 0.3}
_END_MS = 2**53
_CURSOR = re.compile(r"(\d{1,19})\.(\d{1,4})", re.ASCII)
_HOST = re.compile(r"(?:[a-z]+://)?(?:\*\.|www\.)?([^/?#\s@:]{1,253}).*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextCursor:
    """Position in the results: upper limit of the window's texts, and results of it that precede."""

    below: int
    offset: int

    def __str__(self) -> str:
        return f"{self.below}.{self.offset}"


@dataclass(frozen=True, slots=True)
class TextResult:
    """Page that was found, with the part of its text that matches best."""

    page: CapturedPage
    snippet: tuple[Segment, ...]
    language: str


@dataclass(frozen=True, slots=True)
class TextSearchResult:
    """Part of the results, with the facets of all results of the window."""

    words: str
    facets: TextFilter
    results: tuple[TextResult, ...] = ()
    total: int = 0  # of the window
    is_exact: bool = True  # whether the window has all results
    counts: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()  # facet, its values with the number of results
    next: TextCursor | None = None  # position of the next part; None at the end
    is_first: bool = True


def parse_text_cursor(text: str) -> TextCursor | None:
    """Parse a cursor from an address; None for any other text."""
    match = _CURSOR.fullmatch(text)
    return TextCursor(min(int(match[1]), 2**62), int(match[2])) if match else None


def parse_facets(values: dict[str, str]) -> TextFilter:
    """Parse the facets of an address; invalid facet values are left out.

    >>> parse_facets({"host": "https://www.example.org/x", "year": "2026", "media": "<b>", "language": "de"})
    TextFilter(host='example.org', year='2026', media='', state='', language='de')
    """
    host = _HOST.fullmatch(values.get("host", "").strip())
    year = values.get("year", "")
    language = values.get("language", "").lower()
    return TextFilter(
        url_host(f"http://{host[1]}/") if host else "",
        year if re.fullmatch(r"(?:19|20)\d\d", year, re.ASCII) else "",
        values["media"] if values.get("media") in MEDIA else "",
        values["state"] if values.get("state") in STATES else "",
        language if re.fullmatch(r"[a-z]{2,3}", language, re.ASCII) else "",
    )


@dataclass(slots=True)
class _Candidate:
    """Match that may be shown."""

    hit: TextHit
    row: Any
    score: float = 0.0
    state: str = ""


_Matches = tuple[Sequence[QueryTerm], TextFilter, Sequence[str]]  # terms, facets, languages of the index


class TextSearch:
    """Full-text search in a collection. Thread-safe; TransientError when an index cannot be read."""

    def __init__(self, index: TextIndex, store: PageStore) -> None:
        self._index = index
        self._store = store

    def is_there(self) -> bool:
        """Return True when there is a full-text index."""
        return self._index.is_there()

    def find(
        self, words: str, facets: TextFilter, *, at: TextCursor | None = None, limit: int = TEXT_PAGE_SIZE
    ) -> TextSearchResult:
        """Return a part of the results, the best of the window first."""
        languages = self._index.languages()
        terms = parse_terms(words)
        matches = (terms, facets, languages)
        at = at or TextCursor(0, 0)
        headings, _ = self._by_url(matches, 2**62, _HEADINGS, headings_only=True)
        start, offset = at.below, at.offset
        candidates, end = self._window(matches, headings, start, _WINDOW)
        ahead = self._next_shown(matches, headings, end)
        if not candidates and ahead:
            start, offset = ahead, 0
            candidates, end = self._window(matches, headings, start, _WINDOW)
            ahead = self._next_shown(matches, headings, end)
        candidates.sort(key=lambda each: (each.score, each.row["captured_ms"], each.hit.number), reverse=True)
        part = candidates[offset : offset + limit]
        following = TextCursor(ahead, 0) if ahead else None
        if offset + limit < len(candidates):
            following = TextCursor(start, offset + limit)
        return TextSearchResult(
            words,
            facets,
            self._results(part, terms, languages),
            len(candidates),
            is_exact=not ahead and not at.below,
            counts=self._counts(candidates),
            next=following,
            is_first=at == TextCursor(0, 0),
        )

    def _next_shown(self, matches: _Matches, headings: Mapping[int, list[TextHit]], below: int) -> int:
        """Return where the next matches that may be shown begin; 0 when none follow: hidden ones do not count as further results."""
        for limit in _AHEAD:
            if not below:
                break
            candidates, end = self._window(matches, headings, below, limit)
            if candidates:
                return below
            below = end
        return 0

    def _window(
        self, matches: _Matches, headings: Mapping[int, list[TextHit]], below: int, limit: int
    ) -> tuple[list[_Candidate], int]:
        """Return the matches of a window that may be shown, and where the next window begins; 0 at the end."""
        first_ms, end_ms = 0, _END_MS
        if year := matches[1].year:
            start, end = (datetime(each, 1, 1, tzinfo=UTC) for each in (int(year), int(year) + 1))
            first_ms, end_ms = unix_milliseconds(start), unix_milliseconds(end)
        hits, next_below = self._by_url(matches, below or 2**62, limit, headings_only=False)
        # Matches in headings are in the first window.
        hits = {url: texts for url, texts in hits.items() if url not in headings} if below else {**headings, **hits}
        numbers = [hit.number for texts in hits.values() for hit in texts]
        pages = self._index.captures(numbers, _CAPTURES_OF_TEXT, first_ms, end_ms)
        rows = self._store.searchable([page for each in pages.values() for page in each])
        candidates = []
        for url, texts in hits.items():
            shown = ((hit, rows[page]) for hit in texts for page in pages.get(hit.number, ()) if page in rows)
            if (best := next(shown, None)) is not None:
                hit, row = best
                state = page_state(row["page_class"], row["status"], row["outcome"])
                bonus = 2.0 if url in headings else 1.0
                candidates.append(_Candidate(hit, row, hit.score * bonus * _GOOD_BONUS[state], state))
        return candidates, next_below

    def _by_url(
        self, matches: _Matches, below: int, limit: int, *, headings_only: bool
    ) -> tuple[dict[int, list[TextHit]], int]:
        """Return the newest matching texts of at most `limit` URLs, and where the next ones begin; 0 at the end."""
        urls: dict[int, list[TextHit]] = {}
        for _ in range(_MOST_ROUNDS):
            hits = self._index.hits(*matches, below=below, limit=_READ, headings_only=headings_only)
            for hit in hits:
                if hit.url_number not in urls and len(urls) == limit:
                    return urls, below
                texts = urls.setdefault(hit.url_number, [])
                if len(texts) < _TEXTS_OF_URL:
                    texts.append(hit)
                below = skip_url(hit)
            if len(hits) < _READ:
                return urls, 0
        return urls, below

    def _counts(self, candidates: Sequence[_Candidate]) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
        languages = self._index.languages_of([each.hit.number for each in candidates])
        counts: dict[str, Counter[str]] = {field.name: Counter() for field in fields(TextFilter)}
        for each in candidates:
            counts["host"][url_host(each.row["url"])] += 1
            counts["year"][str(from_unix_milliseconds(each.row["captured_ms"]).year)] += 1
            counts["media"][page_media(each.row["mime"])] += 1
            counts["state"][each.state] += 1
            counts["language"][languages.get(each.hit.number, "")] += 1
        return tuple(
            (name, tuple(pair for pair in counter.most_common(_FACET_VALUES + 1) if pair[0])[:_FACET_VALUES])
            for name, counter in counts.items()
        )

    def _results(
        self, part: Sequence[_Candidate], terms: Sequence[QueryTerm], languages: Sequence[str]
    ) -> tuple[TextResult, ...]:
        pages = self._store.with_ids([each.row["page_id"] for each in part])
        texts = self._index.texts([each.hit.number for each in part])
        results = []
        for each in part:
            page = pages.get(each.row["page_id"])
            if page is None or page.taken_down is not None or page.withheld is not None or each.hit.number not in texts:
                continue
            language, text = texts[each.hit.number]
            results.append(TextResult(page, tuple(make_snippet(text, language, terms, languages)), language))
        return tuple(results)
