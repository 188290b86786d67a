"""Reader of the full-text index: queries for FTS5 and PostgreSQL, matches, their captures and texts."""

# ruff: noqa: S608 only constant names and placeholders go into the statements

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from core.layout import Layout
from warc.index.database import IndexDatabase, SqliteDatabase, in_lists, open_read_only, unreadable_index
from warc.text_index.analysis import QueryTerm
from warc.text_index.store import TEXT_VERSION, URL_SHIFT, TextFilter, quoted_lexeme, unpack_text

_END = 2**62
_RANKED = 200_000  # matches of a word at most that BM25 reads: a hundredth of a second
_SAMPLE = 1_000  # newest texts


class TextHit(NamedTuple):
    """Text that matches a query."""

    number: int
    score: float  # the greater, the better

    @property
    def url_number(self) -> int:
        """Return the number that all texts of its URL share."""
        return self.number >> URL_SHIFT


def _open_file(path: Path) -> sqlite3.Connection | None:
    """Open the file read-only; None when there is none of this version."""
    if not path.exists():
        return None
    connection = open_read_only(path, "texts")
    try:
        connection.execute("PRAGMA mmap_size = 268435456")
        if connection.execute("PRAGMA user_version").fetchone()[0] == TEXT_VERSION:
            return connection
    except sqlite3.Error as error:
        connection.close()
        raise unreadable_index("texts", error) from error
    connection.close()
    return None


class TextIndex:
    """Full-text index for reading, empty if missing. Thread-safe; `close` it. All methods raise TransientError."""

    def __init__(self, database: IndexDatabase) -> None:
        self._database = database

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def languages(self) -> list[str]:
        """Return the languages of its texts."""
        return [row["language"] for row in self._database.rows("SELECT language FROM text_languages", {})]

    def is_there(self) -> bool:
        """Return True when the index has a text."""
        return bool(self._database.rows("SELECT 1 AS one FROM text_versions LIMIT 1", {}))

    def hits(
        self,
        terms: Sequence[QueryTerm],
        facets: TextFilter,
        languages: Sequence[str],
        *,
        below: int = _END,
        limit: int,
        headings_only: bool = False,
    ) -> list[TextHit]:
        """Return matches (`headings_only`: in title and URL) numbered less than `below`, the greatest first."""
        if all(each.is_excluded for each in terms):
            return []
        values: dict[str, Any] = {"below": below, "limit": limit}
        if self._database.shared:
            values["match"] = _postgres_query(terms, facets, languages, "AB" if headings_only else "")
            query = (
                "SELECT number, ts_rank('{0.1, 0, 0.5, 1}', terms, CAST(:match AS tsquery)) AS score FROM text_versions"
                " WHERE terms @@ CAST(:match AS tsquery) AND number < :below ORDER BY number DESC LIMIT :limit"
            )
            return [TextHit(row["number"], row["score"]) for row in self._database.rows(query, values)]
        columns = "{title url} : " if headings_only else ""
        query = (
            "SELECT rowid AS number{} FROM text_terms WHERE text_terms MATCH :match AND rowid < :below{}"
            " ORDER BY rowid DESC LIMIT :limit"
        )
        values["match"] = _sqlite_query(terms, facets, languages, columns)
        numbers = [row["number"] for row in self._database.rows(query.format("", ""), values)]
        rare = self._rare(terms, languages)
        scores: dict[int, float] = {}
        if rare and numbers:
            values |= {
                "match": _sqlite_query(rare, facets, languages, columns),
                "first": numbers[-1],
                "limit": 8 * limit,
            }
            scored = query.format(", -bm25(text_terms, 8.0, 4.0, 1.0, 0.0) AS score", " AND rowid >= :first")
            scores = {row["number"]: row["score"] for row in self._database.rows(scored, values)}
        return [TextHit(number, scores.get(number, 0.0)) for number in numbers]

    def _rare(self, terms: Sequence[QueryTerm], languages: Sequence[str]) -> list[QueryTerm]:
        """Return terms rare in the newest texts: BM25 reads all matches of each, and frequent ones hardly count."""
        terms = [each for each in terms if not each.is_excluded]
        query = "SELECT number FROM text_versions ORDER BY number DESC LIMIT 1 OFFSET :offset"
        newest = self._database.rows(query, {"offset": 0})
        oldest = self._database.rows(query, {"offset": _SAMPLE})
        if not newest or not oldest or newest[0]["number"] >> URL_SHIFT < _RANKED:
            return terms
        share = _RANKED / (newest[0]["number"] >> URL_SHIFT)
        count = "SELECT count(*) AS n FROM text_terms WHERE text_terms MATCH :match AND rowid > :oldest"
        rare = []
        for term in terms:
            values = {"match": _sqlite_query([term], TextFilter(), languages, ""), "oldest": oldest[0]["number"]}
            if self._database.rows(count, values)[0]["n"] <= share * _SAMPLE:
                rare.append(term)
        return rare

    def captures(self, numbers: Sequence[int], limit: int, first_ms: int, end_ms: int) -> dict[int, list[str]]:
        """Return the newest pages of each text captured in that time, newest first, by number."""
        pages: dict[int, list[str]] = {}
        of_text = "SELECT {} FROM text_pages WHERE number = {} AND captured_ms >= :first AND captured_ms < :end"
        newest = f"{of_text} ORDER BY captured_ms DESC LIMIT :most"
        for marks, values in in_lists(list(map(str, numbers))):
            listed = "(" + " UNION ALL ".join(f"SELECT CAST({each} AS BIGINT) AS n" for each in marks.split(", ")) + ")"
            if self._database.shared:
                chosen = f"CROSS JOIN LATERAL ({newest.format('*', 'wanted.n')}) AS found"
            else:
                chosen = f"JOIN text_pages AS found ON found.page_id IN ({newest.format('page_id', 'wanted.n')})"
            query = (
                f"SELECT found.number, found.page_id FROM {listed} AS wanted {chosen} ORDER BY found.captured_ms DESC"
            )
            for row in self._database.rows(query, {**values, "first": first_ms, "end": end_ms, "most": limit}):
                pages.setdefault(row["number"], []).append(row["page_id"])
        return pages

    def languages_of(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the language of each text by number."""
        return {each: row["language"] for each, row in self._versions(numbers, "language").items()}

    def texts(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return language and text by number."""
        return {
            each: (row["language"], unpack_text(row["body"]))
            for each, row in self._versions(numbers, "language, body").items()
        }

    def _versions(self, numbers: Sequence[int], names: str) -> Mapping[int, Any]:
        rows_by_number = {}
        for marks, values in in_lists(list(map(str, numbers))):
            casts = ", ".join(f"CAST({each} AS BIGINT)" for each in marks.split(", "))
            rows = self._database.rows(f"SELECT number, {names} FROM text_versions WHERE number IN ({casts})", values)
            rows_by_number.update({row["number"]: row for row in rows})
        return rows_by_number


def skip_url(hit: TextHit) -> int:
    """Return the number below which the texts of other URLs follow."""
    return (hit.url_number << URL_SHIFT) + 1


def _sqlite_query(terms: Sequence[QueryTerm], facets: TextFilter, languages: Sequence[str], columns: str) -> str:
    """Return the query for FTS5; tokens are quoted and contain no quotation mark."""
    wanted: list[str] = []
    excluded: list[str] = []
    for term in terms:
        phrases = [f'"{" ".join(each)}"{" *" if term.begins(each) else ""}' for each in term.variants(languages)]
        if phrases:
            (excluded if term.is_excluded else wanted).append(f"({' OR '.join(phrases)})")
    text = f"{columns}({' AND '.join(wanted)})"
    text += "".join(f' AND facets : "{each}"' for each in facets.tokens())
    return f"({text}) NOT ({' OR '.join(excluded)})" if excluded else text


def _postgres_query(terms: Sequence[QueryTerm], facets: TextFilter, languages: Sequence[str], weights: str) -> str:
    """Return the query as text of a ``tsquery``; tokens are quoted."""
    parts = []
    for term in terms:
        phrases = []
        for variant in term.variants(languages):
            marks = [":" + weights if weights and not term.is_excluded else ""] * len(variant)
            if term.begins(variant):
                marks[-1] = f"{marks[-1] or ':'}*"
            phrases.append(
                " <-> ".join(f"{quoted_lexeme(word)}{mark}" for word, mark in zip(variant, marks, strict=True))
            )
        if phrases:
            parts.append(f"{'!' if term.is_excluded else ''}({' | '.join(f'({each})' for each in phrases)})")
    return " & ".join([*parts, *map(quoted_lexeme, facets.tokens())])


def open_text_index(layout: Layout, url: str) -> TextIndex:
    """Return the index at `url`, or the collection's own when empty. No connection is made yet."""
    if not url:
        return TextIndex(SqliteDatabase(layout.texts_db, _open_file, "texts"))
    from core.config.database_urls import parse_index_url
    from warc.index.postgres import PostgresDatabase

    return TextIndex(PostgresDatabase(parse_index_url(url)))
