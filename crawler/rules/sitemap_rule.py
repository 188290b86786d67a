"""Sitemaps: tolerant, bounded parser, and the rule that queues the pages of the sitemaps of a seed's host.

The protocol (sitemaps.org) defines XML files of URLs, XML indexes of such files, URL lists in plain text, and RSS or
Atom feeds, each gzipped or not, of at most 50 MB and 50,000 URLs. XML is parsed as a stream, without declared or
external entities; everything before a fault is used.

An index names files of its own host; a robots.txt may name those of another (sitemaps.org, "Sitemaps & Cross Submits").
One worker does this once a day for each host of a job; the result is a note of the frontier (kind "sitemap"). A page in
a sitemap counts as one link away from the seed, and is decided on like any link.
"""

import asyncio
import codecs
import json
import logging
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from xml.parsers import expat

from core.clock import Clock
from core.errors import BadUrlError
from core.urls import authority_of, host_of, identity_key
from crawler.capture.proxy_fetcher import FileFetcher
from crawler.frontier.base import Frontier, FrontierItem, NewItem
from crawler.frontier.host_slots import SlotAssigner
from crawler.jobs.job_settings import JobSettings
from crawler.jobs.scope import URL_LIMIT_CHARS, link_key
from crawler.policy.robots import ROBOTS_LIMIT_BYTES, ROBOTS_PATH, parse_robots
from crawler.rules.visit_rule import ALLOW_VISIT, RuleDecision, VisitRule
from net.backoff import StoreRetry
from net.http1 import WINDOW_GZIP, inflated

BYTES_LIMIT = 50 * 1024 * 1024  # of one file, unpacked: sitemaps.org
URLS_LIMIT = 50_000  # of one file: sitemaps.org
RATIO_LIMIT = 300  # a file that decompresses to more than this factor is a bomb; 100 is common
RATIO_COUNTS_BYTES = 1024 * 1024  # … once it is so long
NESTING_LIMIT = 32  # elements within elements; a sitemap needs 3, a feed 5
_PIECE_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# root, then the path to the element with a URL below it
_INDEXED = ("sitemapindex", "sitemap", "loc")
_PLACES = {("urlset", "url", "loc"), ("rss", "channel", "item", "link"), ("RDF", "item", "link"), _INDEXED}
_ENTRIES = {("urlset", "url"), ("rss", "channel", "item"), ("RDF", "item"), ("feed", "entry")}
_ATOM_LINK = ("feed", "entry", "link")
_ROOTS = {place[0] for place in (*_PLACES, _ATOM_LINK)}
_ROBOTS_NAMED = 100  # sitemaps that one robots.txt may name


@dataclass(slots=True)
class SitemapFile:
    """Parsed sitemap file."""

    pages: list[str] = field(default_factory=list)  # fetch keys of pages, in the file's order
    sitemaps: list[str] = field(default_factory=list)  # fetch keys of the files that an index names
    problem: str = ""  # why it was not read completely, or is not a sitemap; empty when it was
    refused: int = 0  # number of entries that are not URLs


class _SitemapStopError(Exception):
    """Parsing stopped, with the reason."""


def parse_sitemap(body: bytes) -> SitemapFile:
    """Parse a sitemap in any of the formats; never raises."""
    sitemap = SitemapFile()
    try:
        pieces = _unpacked(body)
        first = next(pieces, b"")
        start = first
        for bom in _BOMS:
            start = start.removeprefix(bom)
        is_xml = start.lstrip(b" \t\r\n\x00")[:1] == b"<"
        reader = _XmlSitemapReader(sitemap) if is_xml else _TextSitemapReader(sitemap)
        reader.feed(first)
        for piece in pieces:
            reader.feed(piece)
        reader.end()
    except (_SitemapStopError, expat.ExpatError, zlib.error) as error:
        sitemap.problem = str(error)
    return sitemap


def sitemap_lines(robots: bytes) -> tuple[str, ...]:
    """Return the fetch keys of the sitemaps in a robots.txt, each once."""
    named = parse_robots(robots, agent="").sitemaps
    keys = filter(None, (_key(text.partition(" ")[0]) for text in named))
    return tuple(dict.fromkeys(keys))[:_ROBOTS_NAMED]


def _unpacked(body: bytes) -> Iterator[bytes]:
    """Yield the body in pieces, a single gzip layer decoded, up to the limit."""
    if not body.startswith(_GZIP_MAGIC):
        for start in range(0, min(len(body), BYTES_LIMIT), _PIECE_BYTES):
            yield body[start : start + _PIECE_BYTES]
        if len(body) > BYTES_LIMIT:
            raise _SitemapStopError(f"it is longer than {BYTES_LIMIT} bytes")
        return
    inflate, total = zlib.decompressobj(WINDOW_GZIP), 0
    for piece in inflated(inflate, body):
        total += len(piece)
        if total > BYTES_LIMIT:
            raise _SitemapStopError(f"it decompresses to more than {BYTES_LIMIT} bytes")
        if total > RATIO_COUNTS_BYTES and total > RATIO_LIMIT * len(body):
            raise _SitemapStopError(f"it decompresses to more than {RATIO_LIMIT} times its size")
        yield piece
    if not inflate.eof:
        raise _SitemapStopError("its gzip data is truncated")


class _TextSitemapReader:
    """Reader of one URL per line."""

    def __init__(self, sitemap: SitemapFile) -> None:
        self._sitemap = sitemap
        self._decoder: codecs.IncrementalDecoder | None = None
        self._rest = ""

    def feed(self, piece: bytes) -> None:
        """Parse a piece."""
        if self._decoder is None:
            wide = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            self._decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8")("replace")
        lines = (self._rest + self._decoder.decode(piece)).split("\n")
        self._rest = lines.pop()[: 2 * URL_LIMIT_CHARS]
        for line in lines:
            self._take(line)

    def end(self) -> None:
        """Parse the rest."""
        self._take(self._rest)
        if not self._sitemap.pages:
            raise _SitemapStopError("it is not a sitemap")

    def _take(self, line: str) -> None:
        text = line.strip().removeprefix("\ufeff")
        if not text:
            return
        _add_key(self._sitemap, text, self._sitemap.pages, "URLs")
        if self._sitemap.refused > 100 > len(self._sitemap.pages):
            raise _SitemapStopError("it is not a sitemap")


class _XmlSitemapReader:
    """Reader of a sitemap, an index or a feed."""

    def __init__(self, sitemap: SitemapFile) -> None:
        self._sitemap = sitemap
        self._path: list[str] = []
        self._text: list[str] | None = None
        self._room = 0
        self._prefix = self._page = ""
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._finish
        parser.CharacterDataHandler = self._take
        parser.EntityDeclHandler = self._refuse_entity

    def feed(self, piece: bytes) -> None:
        """Parse a piece."""
        self._parser.Parse(piece, False)  # noqa: FBT003 expat's own

    def end(self) -> None:
        """Finish parsing."""
        self._parser.Parse(b"", True)  # noqa: FBT003 expat's own

    def _refuse_entity(self, *_: object) -> None:
        raise _SitemapStopError("it declares entities")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if not self._path and local not in _ROOTS:
            raise _SitemapStopError(f"it is not a sitemap, but <{name[:40]}>")
        # Elements of the same name in other vocabularies, such as image:loc, are different.
        foreign = bool(self._path) and ":" in name and self._path[0] != "RDF"
        is_prefixed = name.rpartition(":")[0] == self._prefix  # as the root is
        self._path.append(name if foreign and not is_prefixed else local)
        if len(self._path) == 1:
            self._prefix = name.rpartition(":")[0]
        if len(self._path) > NESTING_LIMIT:
            raise _SitemapStopError(f"more than {NESTING_LIMIT} nested elements")
        place = tuple(self._path)
        if place in _PLACES:
            self._text, self._room = [], URL_LIMIT_CHARS + 1
        elif place == _ATOM_LINK and attributes.get("rel", "alternate") == "alternate":
            self._page = self._page or attributes.get("href", "")

    def _take(self, text: str) -> None:
        if self._text is not None and self._room > 0:
            self._text.append(text[: self._room])
            self._room -= len(text)

    def _finish(self, _name: str) -> None:
        place = tuple(self._path)
        self._path.pop()
        if self._text is not None and place in _PLACES:
            text, self._text = "".join(self._text).strip(), None
            if place == _INDEXED:
                _add_key(self._sitemap, text, self._sitemap.sitemaps, "sitemaps")
            else:
                self._page = text
        elif place in _ENTRIES:
            _add_key(self._sitemap, self._page, self._sitemap.pages, "URLs")
            self._page = ""


def _add_key(sitemap: SitemapFile, text: str, keys: list[str], kind: str) -> None:
    """Add the fetch key of the text; count it as refused when it has none."""
    key = _key(text)
    if not key:
        sitemap.refused += 1
    elif len(keys) >= URLS_LIMIT:
        raise _SitemapStopError(f"it lists more than {URLS_LIMIT} {kind}")
    else:
        keys.append(key)


def _key(text: str) -> str:
    """Return the fetch key of an absolute web URL; empty for other texts."""
    if not text[:8].lower().startswith(("http://", "https://")):
        return ""
    try:
        return link_key(text)
    except BadUrlError:
        return ""


FILES_LIMIT = 1_000  # of one host
PAGES_LIMIT = 5_000_000  # of one host
DEPTH_LIMIT = 3  # indexes within indexes; sitemaps.org has one
TIME_LIMIT_S = 600.0  # of one host; pages found by then are used
FILE_TIMEOUT_S = 60.0
WALK_BATCH = 1_000  # pages that are handed on together
PROBLEMS_KEPT = 20


@dataclass(slots=True)
class SitemapWalkResult:
    """Result of a walk."""

    files: int = 0  # sitemaps that were read
    page_count: int = 0  # pages that they name
    added: int = 0  # of these, those that were new to the crawl
    problems: list[str] = field(default_factory=list)  # problems of files, the first few
    reached: bool = True  # whether the site answered at all

    def note(self, url: str, problem: str) -> None:
        """Record a problem, up to the limit."""
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(f"{url[:200]}: {problem[:200]}")


@dataclass(eq=False, repr=False)
class SitemapWalk:
    """Walk of a host's sitemaps; `run` it once for each host."""

    fetch: FileFetcher
    _: KW_ONLY
    rest_s: float  # between two files
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, site: str, take: Callable[[str, Sequence[str]], Awaitable[int]]) -> SitemapWalkResult:
        """Read a site's sitemaps; `take` gets a file and pages of it, and returns how many were new."""
        walked, ends = SitemapWalkResult(), self.monotonic() + TIME_LIMIT_S
        origin = f"{site.partition('://')[0]}://{authority_of(site)}"
        robots = await self.fetch.get(
            f"{origin}{ROBOTS_PATH}", limit_bytes=ROBOTS_LIMIT_BYTES, timeout_s=FILE_TIMEOUT_S
        )
        if not robots.status:
            return SitemapWalkResult(reached=False)
        named = sitemap_lines(robots.body) if 200 <= robots.status < 300 else ()
        usual = f"{origin}/sitemap.xml"  # not announced, so it may be missing
        waiting = deque((url, 0) for url in named or (usual,))
        seen = {identity_key(url) for url, _ in waiting}
        while waiting and walked.files < FILES_LIMIT:
            if self.monotonic() > ends:
                walked.note(site, f"its sitemaps take longer than {TIME_LIMIT_S:.0f} s")
                break
            url, depth = waiting.popleft()
            await self.sleep(self.rest_s)
            file = await self._read(url, walked, quiet=url == usual)
            for start in range(0, len(file.pages), WALK_BATCH):
                walked.added += await take(url, file.pages[start : start + WALK_BATCH])
            walked.page_count += len(file.pages)
            if walked.page_count >= PAGES_LIMIT:
                walked.note(site, f"its sitemaps list more than {PAGES_LIMIT} pages")
                break
            if file.sitemaps and depth >= DEPTH_LIMIT:
                walked.note(url, f"more than {DEPTH_LIMIT} nested indexes")
                continue
            for below in islice(file.sitemaps, FILES_LIMIT):
                key = identity_key(below)
                if key not in seen and host_of(below) == host_of(url):
                    seen.add(key)
                    waiting.append((below, depth + 1))
        else:
            if waiting:
                walked.note(site, f"it has more than {FILES_LIMIT} sitemaps")
        await self.sleep(self.rest_s)  # before the next request
        return walked

    async def _read(self, url: str, walked: SitemapWalkResult, *, quiet: bool) -> SitemapFile:
        """Read one file; its problem is recorded unless `quiet`, for the default location."""
        fetched = await self.fetch.get(url, limit_bytes=BYTES_LIMIT, timeout_s=FILE_TIMEOUT_S)
        if not 200 <= fetched.status < 300:
            if not quiet:
                walked.note(url, fetched.error or f"status {fetched.status}")
            return SitemapFile()
        walked.files += 1
        file = await asyncio.to_thread(parse_sitemap, fetched.body)
        problem = file.problem or (fetched.error if fetched.truncated else "")
        if problem and not (quiet and not file.pages):
            walked.note(url, problem)
        return file


log = logging.getLogger(__name__)

SITEMAP_NOTE = "sitemap"  # the key is the job and the host
SITEMAPS_VALID = timedelta(days=1)


@dataclass(eq=False, repr=False)
class SitemapRule(VisitRule):
    """`VisitRule` of sitemaps; one for all workers of a process."""

    jobs: JobSettings
    frontier: Frontier
    patience: StoreRetry
    fetch: FileFetcher
    _: KW_ONLY
    turns: SlotAssigner
    clock: Clock
    _walking: set[str] = field(default_factory=set, init=False)

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Read the sitemaps of the seed's host, if the job uses them and no worker has read them today."""
        job = self.jobs.job(item.job)
        if job is None or item.hops or not job.settings.scope.sitemaps:
            return ALLOW_VISIT
        key = f"{item.job} {authority_of(item.url)}"
        if key in self._walking:
            return ALLOW_VISIT
        self._walking.add(key)
        try:
            known = await self.patience.ask(lambda: self.frontier.note(SITEMAP_NOTE, key, now=now))
            if known is None:
                await self._walk(item, key)
        finally:
            self._walking.discard(key)
        return ALLOW_VISIT

    async def _walk(self, item: FrontierItem, key: str) -> None:
        settings = self.jobs.settings_for(item.url, item.job)
        walk = SitemapWalk(self.fetch, rest_s=settings.politeness.min_delay_s, monotonic=self.clock.monotonic)

        async def take(file: str, pages: Sequence[str]) -> int:
            jobs, lane, hops = self.jobs, self.jobs.lane(item.job), item.hops + 1
            scopes = ((url, jobs.scope_for(url, item.job)) for url in pages)
            followed = (url for url, scope in scopes if scope.decide(url, hops=hops, hops_off=None).followed)
            assigned = await self.turns.assign(NewItem(url, lane, hops, file, item.job) for url in followed)
            result = await self.patience.ask(lambda: self.frontier.add(assigned, now=self.clock.now()))
            return result.added

        walked = await walk.run(item.url, take)
        if not walked.reached:
            return  # nor will the seed be: its next attempt comes here again
        for problem in walked.problems:
            log.warning("sitemap.problem %s", problem)
        log.info("sitemap.read host=%s files=%d pages=%d", key, walked.files, walked.page_count)
        value, now = json.dumps(asdict(walked), ensure_ascii=False), self.clock.now()
        await self.patience.ask(
            lambda: self.frontier.put_note(SITEMAP_NOTE, key, value, now=now, until=now + SITEMAPS_VALID)
        )
