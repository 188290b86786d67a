"""Full-text search: time of searches over many texts, and the cost of a page, beside plain FTS5 and a page's visit.

- ``…_cpu_ms``: CPU of the same searches at the 95th percentile, which a busy machine does not change.
- ``search_p50_ms``, ``search_p95_ms``: a search of readers, with facets, snippets and access control, 20 results.
- ``plain_p50_ms``, ``plain_p95_ms``: the same words, ranked by FTS5 alone over all matches, row numbers only.
- ``filtered_p95_ms``: searches with a site or a year; ``guarded_p95_ms``: with a thousand take-downs.
- ``index_ms``: CPU of the indexer for a page, reading its records included; ``visit_ms``: CPU of archiving a page, browser
  included; ``index_share``: the one divided by the other.

Texts have 350 words of a Zipf distribution over 60,000, in four languages. There are a million, with ``--quick`` 50,000.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import random
import resource
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate

from bench import report
from classify.page_excerpt import visible_text
from core.captures import ArtifactKind, RecordLocation, artifact_uri
from core.clock import SystemClock
from core.layout import COLLECTION_VERSION
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date_at
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownKind, add_takedowns
from playback.web.page_store import PageStore
from playback.web.text_search import TextSearch, parse_facets
from tests.support.playback_fixtures import NOW, CollectionBuilder
from warc.index.database import open_database
from warc.index.protocol import CAPTURES_DDL, CaptureRow, key_or_empty
from warc.index.sqlite import SqliteCaptureIndex
from warc.text_index import store
from warc.text_index.analysis import tokens
from warc.text_index.indexer import open_texts, rebuild_texts
from warc.text_index.reader import open_text_index
from warc.text_index.store import TextDocument

_WORDS = 350  # of a text
_VOCABULARY = 60_000
_LANGUAGES = ("en", "de", "fr", "")
_RESOURCES = 2  # captures of a page besides its text and manifest
_TEXTS = 20_000  # different ones, each of many pages
_SEARCHES = 200
_VISITS = 30


class _TextLibrary:
    """Synthetic texts; those of a number are always the same."""

    def __init__(self) -> None:
        dice = random.Random(1)
        letters = "aaabcdeeefghiiklmnnooprrsttuvwz"
        self._text = lru_cache(maxsize=_TEXTS)(
            lambda number: " ".join(random.Random(number).choices(self.words, cum_weights=self._weights, k=_WORDS))
        )
        self._weights = list(accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(_VOCABULARY)))
        self.words = ["".join(dice.choices(letters, k=dice.randint(3, 9))) for _ in range(_VOCABULARY)]

    def url(self, number: int) -> str:
        return f"https://site-{number % 5_000}.example/{number}"

    def text(self, number: int) -> str:
        return self._text(number % _TEXTS)

    def query(self, dice: random.Random) -> str:
        """Return two or three words, weighted as in texts, or one outside the top 100 (never searched alone)."""
        words = dice.choices(self.words, cum_weights=self._weights, k=dice.choice((1, 2, 2, 3)))
        return " ".join(words) if len(words) > 1 else dice.choice(self.words[100:20_000])


def _fill(builder: CollectionBuilder, library: _TextLibrary, count: int) -> None:
    """Add pages to both indexes, without records."""
    layout = builder.layout
    vars(store)["tokens"] = lru_cache(maxsize=4 * _TEXTS)(tokens)  # the same texts are analysed once
    with (
        closing(SqliteCaptureIndex(layout.captures_db)) as index,
        closing(sqlite3.connect(layout.captures_db)) as database,
        open_texts(layout, "", visible_text) as (_, writer),
    ):
        database.executescript("DROP INDEX captures_by_key; DROP INDEX captures_by_digest")  # pages are looked up
        for start in range(0, count, 500):
            documents, pages, rows = [], [], []
            for number in range(start, min(start + 500, count)):
                url, text, page_id = library.url(number), library.text(number), f"{number:032x}"
                captured_ms = 1_400_000_000_000 + number * 370_000
                title = " ".join(text.split()[:6])
                language = _LANGUAGES[number % len(_LANGUAGES)]
                documents.append(TextDocument(page_id, url, captured_ms, title, text, language, "page", "good"))
                when = warc_date_at(captured_ms)
                pages.append(
                    PageInfo(page_id, url, url, when, VisitOutcome.COMPLETE, status=200, mime="text/html", title=title)
                )
                uris = [artifact_uri(kind, url) for kind in (ArtifactKind.TEXT, ArtifactKind.PAGEINFO)]
                for place, each in enumerate([*uris, url, *(f"{url}/{part}" for part in range(_RESOURCES))]):
                    at = RecordLocation("weboid-0.warc.gz", number * 100 + place, 1)
                    mime, status = ("text/html", 200) if place == 2 else ("image/png", 200)
                    rows.append(
                        CaptureRow(
                            key_or_empty(each), when, captured_ms, each, "response", mime, status, f"sha256:{number:x}",
                            at.filename, at.offset, at.length, None, None, None, page_id, None,
                        )
                    )  # fmt: skip
            with index.transaction():
                index.add_rows(rows)
                for page in pages:
                    index.add_page(page)
            writer.add(documents)
        database.executescript(CAPTURES_DDL)  # indexes are made at once


def _times(run: Callable[[str], object], queries: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return milliseconds of each search, and those of its CPU, both sorted."""
    times, cpu = [], []
    for each in queries:
        began, began_cpu = time.perf_counter(), time.thread_time()
        run(each)
        cpu.append((time.thread_time() - began_cpu) * 1_000)
        times.append((time.perf_counter() - began) * 1_000)
    return sorted(times), sorted(cpu)


def _searches(builder: CollectionBuilder, library: _TextLibrary) -> dict[str, float]:
    layout, dice = builder.layout, random.Random(2)
    queries = [library.query(dice) for _ in range(_SEARCHES)]
    figures: dict[str, float] = {}

    def note(name: str, samples: tuple[list[float], list[float]]) -> None:
        times, cpu = samples
        figures[f"{name}_p50_ms"], figures[f"{name}_p95_ms"] = times[len(times) // 2], times[len(times) * 95 // 100]
        figures[f"{name}_cpu_ms"] = cpu[len(cpu) * 95 // 100]

    with (
        closing(open_database(layout, "")) as database,
        closing(open_text_index(layout, "")) as texts,
        closing(open_decisions(layout)) as decisions,
    ):
        access = AccessControl(decisions, database.rows, SystemClock().now)
        search = TextSearch(texts, PageStore(database, access))
        nothing = parse_facets({})
        _times(lambda words: search.find(words, nothing), queries[:20])  # the first ones open files
        note("search", _times(lambda words: search.find(words, nothing), queries))
        facets = [parse_facets({"host": "site-7.example"}), parse_facets({"year": "2015"})]
        note("filtered", _times(lambda words: search.find(words, facets[len(words) % 2]), queries))
        plain = "SELECT rowid FROM text_terms WHERE text_terms MATCH :words ORDER BY rank LIMIT 20"
        rows = texts._database.rows  # noqa: SLF001 the baseline reads the same file
        note("plain", _times(lambda words: rows(plain, {"words": words}), queries))
        hidden = [Takedown(0, TakedownKind.URL, library.url(number * 7), decided_at=NOW) for number in range(1_000)]
        add_takedowns(decisions, hidden)
        note("guarded", _times(lambda words: search.find(words, nothing), queries))
    return figures


def _index_ms(folder: Path, library: _TextLibrary) -> float:
    """Return CPU milliseconds of reading and indexing a page whose records are in WARCs."""
    with closing(CollectionBuilder(folder)) as builder:
        for number in range(300):
            text = library.text(number)
            builder.page(library.url(number), "<p>x</p>", title=text[:40], text=text)
        began = time.process_time()
        count = rebuild_texts(builder.layout, "", visible_text)
        return (time.process_time() - began) * 1_000 / count


def _visit_ms(folder: Path, library: _TextLibrary) -> float:
    """Return CPU milliseconds of archiving a page of one document, browser included, without the full-text index."""

    class Site(BaseHTTPRequestHandler):
        """Pages of text."""

        def do_GET(self) -> None:
            """Answer with a page."""
            body = f"<title>{self.path}</title><p>{library.text(len(self.path))}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        urls = [f"http://127.0.0.1:{server.server_port}/{number}" for number in range(_VISITS)]
        profile = folder.with_suffix(".toml")
        profile.write_text('[egress]\nallow = ["127.0.0.0/8"]\n[index]\ntext = false\n')
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = ("archive", "--collection", str(folder), "--profile", str(profile), *urls)
        subprocess.run((sys.executable, "-m", "weboid", *command), check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        server.shutdown()
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000 / _VISITS


def main() -> None:
    """Synthesise, search, index; print the figures."""
    quick = report.arguments(__doc__ or "").quick
    count = 50_000 if quick else 1_000_000
    library = _TextLibrary()
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        index_ms, visit_ms = _index_ms(Path(folder, "small"), library), _visit_ms(Path(folder, "visits"), library)
        with closing(CollectionBuilder(Path(folder, "large"))) as builder:
            builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
            _fill(builder, library, count)
            megabytes = builder.layout.texts_db.stat().st_size / 1e6
            figures = _searches(builder, library)
    figures |= {"index_ms": index_ms, "visit_ms": visit_ms, "index_share": index_ms / visit_ms}
    targets = {"search_p95_ms": "< 150", "index_share": "< 0.05"}
    report.table(
        [(f"{count:,} texts, {megabytes:,.0f} MB", "figure", "target")]
        + [(name, f"{value:.3g}", targets.get(name, "")) for name, value in figures.items()]
    )
    report.figures("search", figures)


if __name__ == "__main__":
    main()
