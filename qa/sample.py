"""Candidates for a check, read from the captures index, and samples drawn from them.

Gaps in a page's ledger, an unusual class, a size unlike the URL's earlier one or a host that was never checked make
damage likelier. A weighted sample is drawn by such suspicion, and keeps a share of ordinary pages, a few of every host:
an unsuspected page can be broken, too.

Of a stratified sample the first page of every host and class comes before any second one. Selection uses a hash of the
seed and the page id: the same seed draws the same pages of the same collection, on any machine and in any order.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple

from core.captures import ArtifactKind, parse_artifact_uri
from core.errors import BadUrlError
from core.page_classes import GOOD, PageClass, parse_page_class
from core.page_manifest import VisitOutcome
from core.timestamps import from_unix_milliseconds, unix_milliseconds
from core.url_keys import replay_key
from core.urls import host_or_empty
from crawler.frontier.base import Frontier, ItemState
from links.registry.database import RegistryStore
from qa.check_store import already_checked
from warc.index.database import IndexDatabase, key_values
from warc.index.queries import ALL_KEYS, OFFERED, KeyRange, page_chunks, range_values

ORDINARY_SHARE = 0.25
_BIG_BYTES = 10_000_000
_CHANGED = 3.0  # factor by which the size differs from the previous capture
# The passes of `order_by_risk` do not distinguish pages that are less suspect than this.
_UNLIKELY = 2.0
_SUSPECT = 4.0
_STEEPNESS = 3  # the few suspects must stand out among very many others


@dataclass(frozen=True, slots=True)
class SampleCandidate:
    """Visited page that may be checked, as described by the captures index."""

    page_id: str
    url: str
    final_url: str
    captured_at: datetime
    timestamp: str  # time of the visit in 14 digits
    host: str  # canonical host of `url`
    outcome: str = VisitOutcome.COMPLETE
    reason: str = ""  # reason for which `outcome` is not COMPLETE
    status: int | None = None  # HTTP status of the final document
    mime: str = ""  # its bare media type
    page_class: PageClass = PageClass.UNJUDGED
    stored_bytes: int = 0  # size of its records on disk
    before_bytes: int | None = None  # size of the URL's previous capture; None when there was none
    host_checked: bool = False  # True when a page of its host is known to have been checked


@dataclass(frozen=True, slots=True)
class SampledPage:
    """Page selected for a check, its suspicion weight (1: not suspect), and the reasons in a few words."""

    page: SampleCandidate
    weight: float = 1.0
    reasons: tuple[str, ...] = ()


def weigh_candidate(page: SampleCandidate) -> SampledPage:
    """Return the page with its suspicion weight and reasons."""
    suspicions: list[tuple[float, str]] = []
    if page.outcome == VisitOutcome.PARTIAL:
        suspicions.append((4.0, page.reason or "partial"))
    if page.page_class not in GOOD:
        suspicions.append((3.0, f"class: {page.page_class}"))
    if page.before_bytes is not None and page.before_bytes > 0 and page.stored_bytes >= 0:
        ratio = page.stored_bytes / page.before_bytes
        # A capture with deduplicated payloads is small regardless of its content.
        if ratio > _CHANGED or ratio < 1 / _CHANGED:
            suspicions.append((2.0 if ratio > 1 else 1.0, f"size: {ratio:.1f} times the previous size"))
    if page.stored_bytes > _BIG_BYTES:
        suspicions.append((1.0, f"big: {page.stored_bytes // 1_000_000} MB"))
    if not page.host_checked:
        suspicions.append((1.0, "host: never checked"))
    return SampledPage(page, 1.0 + sum(each for each, _ in suspicions), tuple(why for _, why in suspicions))


class WeightedSample:
    """Sample of a stream of pages: most by suspicion, some of every host at random."""

    def __init__(self, size: int, random: Random) -> None:
        self._size = size
        self._most_ordinary = min(size, max(1, round(size * ORDINARY_SHARE))) if size else 0
        self._random = random
        self._number = 0
        # Smallest first, so that the least wanted leaves: (key, number, page).
        self._suspects: list[tuple[float, int, SampledPage]] = []
        self._ordinary: list[tuple[float, int, SampledPage]] = []
        self._host = ""
        self._of_host: list[SampledPage] = []
        self._host_count = 0

    def add(self, page: SampleCandidate) -> None:
        """Add a page of the stream."""
        if not self._size:
            return
        chosen = weigh_candidate(page)
        self._number += 1
        # Efraimidis and Spirakis (2006): the largest of u^(1/w) are a weighted sample.
        key = self._random.random() ** (1 / chosen.weight**_STEEPNESS)
        _keep(self._suspects, (key, self._number, chosen), self._size)
        if page.host != self._host:
            self._end_of_host()
            self._host = page.host
        self._host_count += 1
        if len(self._of_host) < self._most_ordinary:
            self._of_host.append(chosen)
        else:
            place = self._random.randrange(self._host_count)
            if place < self._most_ordinary:
                self._of_host[place] = chosen

    def drawn(self) -> list[SampledPage]:
        """Return the sample, the most suspect page first."""
        self._end_of_host()
        pages_by_id = {each.page.page_id: each for _, _, each in self._ordinary}
        for _, _, each in sorted(self._suspects, key=lambda entry: -entry[0]):
            if len(pages_by_id) >= self._size:
                break
            pages_by_id.setdefault(each.page.page_id, each)
        return sorted(pages_by_id.values(), key=lambda each: (-each.weight, each.page.page_id))

    def _end_of_host(self) -> None:
        """Enter the picks of a host; the first picks of all hosts precede any second one."""
        self._random.shuffle(self._of_host)
        for turn, chosen in enumerate(self._of_host):
            self._number += 1
            key = -(turn + self._random.random())
            _keep(self._ordinary, (key, self._number, chosen), self._most_ordinary)
        self._of_host, self._host_count = [], 0


def _keep(heap: list[tuple[float, int, SampledPage]], entry: tuple[float, int, SampledPage], most: int) -> None:
    if len(heap) < most:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


def order_by_risk(read: Callable[[], Iterable[SampleCandidate]]) -> Iterator[SampledPage]:
    """Yield every page, suspect ones first; the stream is opened by `read` once per weight class."""
    bounds = ((_SUSPECT, float("inf")), (_UNLIKELY, _SUSPECT), (0.0, _UNLIKELY))
    for least, below in bounds:
        for chosen in map(weigh_candidate, read()):
            if least <= chosen.weight < below:
                yield chosen


MOST_PAGES = 2_000  # of a sample; what is held while it is drawn grows with its square


class StratifiedSample:
    """Stratified sample of a stream of pages, of at most `MOST_PAGES`."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = min(size, MOST_PAGES)
        self._seed = seed
        # Of each stratum the least chances, the greatest of them first to leave.
        self._strata: dict[tuple[str, str], list[tuple[int, str, SampleCandidate]]] = {}

    def add_all(self, pages: Iterable[SampleCandidate]) -> None:
        """Add all of the pages."""
        for page in pages:
            stratum = self._strata.setdefault((page.host, page.page_class), [])
            text = f"{self._seed}:{page.page_id}".encode("utf-8", "surrogatepass")
            chance = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
            entry = (-chance, page.page_id, page)
            # The most places that any stratum can still get: every other one has a first.
            if len(stratum) < max(1, self._size - len(self._strata) + 1):
                heapq.heappush(stratum, entry)
            elif stratum:
                heapq.heappushpop(stratum, entry)

    def drawn(self) -> list[SampleCandidate]:
        """Return the sample, sorted by URL."""
        turns = [
            (turn, -chance, page)
            for stratum in self._strata.values()
            for turn, (chance, _, page) in enumerate(sorted(stratum, reverse=True))
        ]
        first = heapq.nsmallest(self._size, turns, key=lambda each: (each[0], each[1]))
        return sorted((page for _, _, page in first), key=lambda page: (page.url, page.page_id))


UNLISTED_LIMIT = 1_000
_TO_COME = frozenset({ItemState.QUEUED, ItemState.CLAIMED})
_DOCUMENTS = KeyRange.of_prefix(f"urn:{ArtifactKind.DOM.lower()}:")


class UnlistedVisit(NamedTuple):
    """Visit without a manifest."""

    page_id: str
    url: str


def visits_without_manifest(database: IndexDatabase) -> list[UnlistedVisit]:
    """Return the first `UNLISTED_LIMIT` visits with a document but no page in the index."""
    rows = database.rows(
        f"SELECT url, page_id FROM captures WHERE {database.in_range} AND page_id IS NOT NULL"  # noqa: S608 constants of ours
        " AND NOT EXISTS (SELECT 1 FROM pages WHERE pages.page_id = captures.page_id)"
        f" ORDER BY {', '.join(database.by_key)}, captured_ms LIMIT {UNLISTED_LIMIT}",
        range_values(_DOCUMENTS),
    )
    artifacts = ((row["page_id"], parse_artifact_uri(row["url"])) for row in rows)
    return [UnlistedVisit(page_id, artifact[1]) for page_id, artifact in artifacts if artifact is not None]


def is_visit_pending(frontier: Frontier, visit: UnlistedVisit) -> bool:
    """Return whether the visit is in progress, or queued again after an interruption."""
    try:
        record = frontier.find(visit.url)
    except BadUrlError:
        return False
    return record is not None and record.item.id == visit.page_id and record.state in _TO_COME


_CHUNK = 5_000
_SAME = ("page_id", "url", "final_url", "timestamp", "reason", "status", "mime", "stored_bytes")
_COLUMNS = ", ".join((*_SAME, "urlkey", "captured_ms", "outcome", "page_class"))


@dataclass(frozen=True, slots=True)
class CandidateFilter:
    """Filter of candidates."""

    level: str
    engine: str  # pages already checked by this engine are left out, unless `again`
    host: str = ""  # only pages of this canonical host; empty: all
    since: datetime | None = None  # only captures since then; None: all
    again: bool = False


def read_candidates(
    database: IndexDatabase, registry: RegistryStore, wanted: CandidateFilter
) -> Iterator[SampleCandidate]:
    """Yield the matching pages, grouped by host."""
    since_ms = -(2**53) if wanted.since is None else unix_milliseconds(wanted.since)
    before: dict[str, int] = {}
    last_key = checked_host = ""
    keys = ALL_KEYS
    if wanted.host:
        keys = KeyRange.of_prefix(replay_key(f"http://{wanted.host}/").partition(")")[0])
    for rows in page_chunks(database, OFFERED, columns=_COLUMNS, keys=keys, size=_CHUNK):
        done: set[str] = set()
        if not wanted.again:
            page_ids = [row["page_id"] for row in rows]
            with registry.reading() as reader:
                done = already_checked(reader, page_ids, wanted.level, wanted.engine)
        hosts = {host_or_empty(row["url"]) for row in rows if row["page_id"] in done} | {checked_host}
        for row in rows:
            url, host = row["url"], host_or_empty(row["url"])
            if row["urlkey"] != last_key:
                before, last_key = {}, row["urlkey"]
            earlier = before.get(url)
            before[url] = row["stored_bytes"]
            if wanted.host and host != wanted.host:
                continue
            is_known = wanted.again or host in hosts
            checked_host = host if is_known else ""
            if row["captured_ms"] >= since_ms and row["page_id"] not in done:
                yield _candidate(row, host, earlier, host_checked=is_known)


def newest_captures(database: IndexDatabase, urls: Sequence[str]) -> Iterator[tuple[str, SampleCandidate | None]]:
    """Yield each URL with its newest capture that has a copy; None: there is none."""
    for url in urls:
        try:
            key = key_values(replay_key(url))
        except BadUrlError:
            yield url, None
            continue
        rows = database.rows(
            f"SELECT {_COLUMNS} FROM pages WHERE {database.has_key} AND url = :url"  # noqa: S608 constants of ours
            f" AND {OFFERED} ORDER BY captured_ms DESC, page_id LIMIT 1",
            {**key, "url": url},
        )
        yield url, _candidate(rows[0], host_or_empty(url), None, host_checked=True) if rows else None


def _candidate(row: Any, host: str, before: int | None, *, host_checked: bool) -> SampleCandidate:
    return SampleCandidate(
        **{name: row[name] for name in _SAME},
        captured_at=from_unix_milliseconds(row["captured_ms"]),
        host=host,
        outcome=VisitOutcome(row["outcome"]),
        page_class=parse_page_class(row["page_class"]),
        before_bytes=before,
        host_checked=host_checked,
    )
