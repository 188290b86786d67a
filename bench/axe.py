"""The axe: proxies are killed at random moments, and everything that was acknowledged is looked for.

A round: one or two proxies, several workers at each that open visits, fetch, seal and write
artifacts; ``kill -9`` at a random moment, of both at once or one after the other, sometimes of a
third that is still recovering; then a proxy starts and recovers. It may end, or be the first of the
next round. Now, while nobody writes,

- what a seal or a write named lies where it said, in the WARC and in the index, with its bytes;
- every file passes ``warcio check``, and none has the suffix of an open one;
- no digest in the index refers to anything but a `response` with that payload;
- now and then, and at the end: the index equals one that was rebuilt from the WARCs.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from core.config.settings import EgressSettings, ProxySettings, Settings
from core.errors import WeboidError
from core.layout import OPEN_SUFFIX, Layout
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date
from proxy.control.client import NewArtifact, ProxyVisit
from proxy.request_log import RequestOutcome
from tests.support.proxy_fixtures import ROOT, Answer, ProxyBrowser, ProxyCommand, ScriptedOrigin, ok
from warc.rebuild import rebuild_index

WORKERS = 4  # at each proxy
SITE = "http://origin.example"
_TABLES = {
    "captures": "SELECT filename, offset, length, urlkey, timestamp, captured_ms, url, record_type,"
    " mime, status, digest, page_id, truncated, orig_filename IS NULL FROM captures",
    "pages": "SELECT * FROM pages",
    "payloads": "SELECT digest, bucket, spelled FROM payloads",
    "files": "SELECT filename, indexed_to FROM files",
}


class BodyOrigin(dict[str, bytes | Answer]):
    """An origin's answers: ``/SIZE/KEY`` is so many bytes that depend on the path alone."""

    def get(self, path: str, _: Any = None) -> bytes:
        """Return the response for the path; some are chunked."""
        body = body_of(path)
        if len(body) % 3:
            return ok(body, mime="text/plain")
        half = len(body) // 2
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:half], body[half:]) if c)
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        )


def body_of(url: str) -> bytes:
    """Return the bytes that the origin serves for the URL or path."""
    size, key = url.partition("?")[0].rsplit("/", 2)[1:]
    return random.Random(key).randbytes(int(size))


@dataclass(frozen=True, slots=True)
class PromisedRecord:
    """A record that somebody was told is on disk, and the bytes that it stands for."""

    url: str
    kind: str
    filename: str
    offset: int
    length: int
    body: bytes
    record_id: str = ""


@dataclass(slots=True)
class CrashLosses:
    """Losses after all kills; everything but the counts should stay empty.

    Attributes:
        promises: records that were acknowledged.
        lost: of these, the ones not found as they were promised.
        bad_warcs: files that do not pass, or were left open.
        dangling: index rows that refer to no such payload.
        differing: rows in which the index and one that was rebuilt differ.
        failed: what a proxy that lived did not do.
    """

    rounds: int = 0
    kills: int = 0
    promises: list[PromisedRecord] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    bad_warcs: list[str] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """Return the losses of all kinds, as texts."""
        return self.lost + self.bad_warcs + self.dangling + self.differing + self.failed


class CrashRounds:
    """Swings over one collection in `folder`; the seed decides what is asked for and when it falls."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.layout = Layout(folder / "collection")
        self.layout.root.mkdir(parents=True)
        self.toll = CrashLosses()
        self._folder = folder
        self._dice = random.Random(seed)
        self._origin = ScriptedOrigin()
        self._origin.answers = BodyOrigin()
        self._serial = 0
        self._passed: set[str] = set()
        self._followed: set[tuple[Any, ...]] = set()
        self._dying: set[int] = set()
        self._idle: ProxyCommand | None = None

    def close(self) -> None:
        """End the origin."""
        self._origin.close()

    async def swing(self, rounds: int, *, rebuild_every: int = 10) -> CrashLosses:
        """Run so many rounds."""
        for number in range(1, rounds + 1):
            known = len(self.toll.promises)
            await self._round()
            self._inspect(self.toll.promises[known:])
            if number % rebuild_every == 0 or number == rounds:
                self._compare()
            self.toll.rounds = number
        await self.stop()
        self._look_for(self.toll.promises)  # what was found once is found still
        return self.toll

    async def _round(self) -> None:
        settings = self._settings()
        count = self._dice.choice((1, 2, 2))
        idle = [self._idle] if self._idle is not None else []
        new = await asyncio.gather(*(self._start(settings) for _ in range(count - len(idle))))
        proxies = [*idle, *new]
        works = [[self._work(proxy) for _ in range(WORKERS)] for proxy in proxies]
        running = [asyncio.gather(*each) for each in works]
        for proxy in proxies:
            await asyncio.sleep(self._dice.choice((0.0, self._dice.uniform(0.02, 0.7))))
            self._kill(proxy)
        for each in running:
            await each
        if self._dice.random() < 0.3:
            await asyncio.to_thread(self._kill_early, settings, self._dice.uniform(0.1, 0.6))
        self._idle = await self._start(settings)
        if self._dice.random() < 0.3:
            await self.stop()

    async def stop(self) -> None:
        """End the proxy that waits for the next round."""
        idle, self._idle = self._idle, None
        if idle is not None:
            await asyncio.to_thread(idle.stop)

    def _settings(self) -> Settings:
        port = self._origin.port
        return Settings(
            egress=EgressSettings(allow=("127.0.0.0/8",), resolve={"origin.example": f"127.0.0.1:{port}"}),
            proxy=ProxySettings(disk_reserve_bytes=0, warc_limit_bytes=self._dice.choice((30_000, 300_000, 1 << 30))),
        )

    async def _start(self, settings: Settings) -> ProxyCommand:
        self._serial += 1
        name = f"p{self._serial}"
        return await asyncio.to_thread(ProxyCommand, self.layout, settings, name, self._folder)

    def _kill(self, proxy: ProxyCommand) -> None:
        self.toll.kills += 1
        self._dying.add(proxy.process.pid)
        proxy.kill()

    def _kill_early(self, settings: Settings, after_s: float) -> None:
        """Kill a proxy that has hardly started; it may be recovering."""
        self._serial += 1
        command = [sys.executable, "-m", "proxy", "--collection", str(self.layout.root)]
        command += ["--control", str(self._folder / f"p{self._serial}.sock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
            process.stdin.flush()
            with suppress(subprocess.TimeoutExpired):
                process.wait(after_s)
            process.kill()
        self.toll.kills += 1

    async def _work(self, proxy: ProxyCommand) -> None:
        """Visit page after page until the proxy is gone."""
        try:
            while True:
                self._serial += 1
                page_id = f"page-{self._serial}"
                async with proxy.client.visit(page_id, bucket="default") as visit:
                    await self._visit(proxy, visit, page_id)
        except (WeboidError, OSError) as error:
            if proxy.process.pid not in self._dying:
                self.toll.failed.append(f"while the proxy lived: {error!r}")

    async def _visit(self, proxy: ProxyCommand, visit: ProxyVisit, page_id: str) -> None:
        begun = datetime.now(UTC)
        paths = [self._path() for _ in range(self._dice.randint(1, 6))]
        credentials = visit.credentials
        browser = ProxyBrowser(proxy.port, credentials.username, credentials.password)
        try:
            for path in paths:
                await asyncio.to_thread(browser.get, f"{SITE}{path}")
            entries = await visit.seal(grace_s=2)
        finally:
            browser.close()
        self.toll.promises += [
            PromisedRecord(e.url, e.kept, e.filename, e.offset, e.length, body_of(e.url), e.record_id)
            for e in entries
            if e.kept in (RequestOutcome.RESPONSE, RequestOutcome.REVISIT) and not e.truncated
        ]
        url = f"{SITE}{paths[0]}"
        info = PageInfo(page_id, url, url, warc_date(begun), VisitOutcome.COMPLETE)
        artifacts = [
            NewArtifact(f"urn:pageinfo:{url}", "application/json", info.to_json()),
            NewArtifact(f"urn:text:{url}", "text/plain", self._dice.randbytes(3000)),
        ]
        places = await visit.write(artifacts, document=url, date=begun)
        self.toll.promises += [
            PromisedRecord(each.uri, "resource", at.filename, at.offset, at.length, each.data)
            for each, at in zip(artifacts, places, strict=True)
        ]

    def _path(self) -> str:
        """Return a new path to fetch; about half of them repeat one of 90 payloads under a new query."""
        self._serial += 1
        if self._dice.random() < 0.5:
            return f"/{self._dice.choice((10, 999, 20_000))}/again{self._dice.randrange(30)}?{self._serial}"
        return f"/{self._dice.randrange(1, 30_000)}/once{self._serial}"

    def _inspect(self, promises: list[PromisedRecord]) -> None:
        names = {path.name for path in self.layout.archive.glob("*.warc.gz*")}
        new = sorted(names - self._passed)
        self.toll.bad_warcs += [f"{name} is open" for name in new if name.endswith(OPEN_SUFFIX)]
        self.toll.bad_warcs += self._checked(new)
        self._passed |= names
        left = [path.name for path in self.layout.root.glob(".spool-*")]
        if len(left) > (self._idle is not None):
            self.toll.failed.append(f"left behind, of {left}")
        self._look_for(promises)
        self._follow_digests()

    def _checked(self, names: list[str]) -> list[str]:
        """Return the output of ``warcio check`` on the files when one of them fails; else an empty list."""
        command = [str(Path(sys.executable).with_name("warcio")), "check", *names]
        folder = self.layout.archive
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return [result.stdout + result.stderr] if names and result.returncode else []

    def _rows(self, query: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path or self.layout.captures_db)) as database:
            return database.execute(query).fetchall()

    def _look_for(self, promises: Iterable[PromisedRecord]) -> None:
        """Hold each promise against the index and the WARC."""
        query = "SELECT filename, offset, length, url, record_type, orig_filename, orig_offset"
        rows = {row[:5]: row[5:] for row in self._rows(f"{query} FROM captures")}
        for each in promises:
            row = (each.filename, each.offset, each.length, each.url, each.kind)
            if row not in rows:
                self.toll.lost.append(f"not in the index: {row}")
                continue
            where = rows[row] if each.kind == "revisit" else (each.filename, each.offset)
            with _noting(self.toll.lost, row):
                own, held = self._read(*row[:2]), self._read(*where)
                assert (own[0], own[1]) == (each.kind, each.url)
                assert each.record_id in ("", own[2])
                assert held[4] == each.body

    def _follow_digests(self) -> None:
        """Check that each payload in the index, and each that a revisit refers to, is in a `response`."""
        payloads = self._rows("SELECT filename, offset, spelled FROM payloads")
        query = "SELECT orig_filename, orig_offset, digest FROM captures WHERE record_type = 'revisit'"
        new = set(payloads + self._rows(query)) - self._followed
        self._followed |= new
        for filename, offset, digest in new:
            with _noting(self.toll.dangling, (filename, offset, digest)):
                kind, _, _, spelled, _ = self._read(filename, offset)
                assert (kind, spelled) == ("response", digest)

    def _read(self, filename: str, offset: int) -> tuple[str, str, str, str, bytes]:
        """Return (type, URL, id, payload digest, content) of the record at that offset."""
        with (self.layout.archive / filename).open("rb") as file:
            file.seek(offset)
            record = next(iter(ArchiveIterator(file)))
            get = record.rec_headers.get_header
            names = ("WARC-Target-URI", "WARC-Record-ID", "WARC-Payload-Digest")
            uri, record_id, digest = (get(name) or "" for name in names)
            return record.rec_type, uri, record_id, digest, record.content_stream().read()

    def _compare(self) -> None:
        """Rebuild the index beside the old one; every row must be in both."""
        self._serial += 1
        beside = Layout(self._folder / f"rebuilt{self._serial}")
        beside.databases.mkdir(parents=True)
        beside.archive.symlink_to(self.layout.archive)
        rebuild_index(beside, bucket="default")
        for table, query in _TABLES.items():
            old, new = (Counter(self._rows(query, each.captures_db)) for each in (self.layout, beside))
            self.toll.differing += [f"only written: {table} {row}" for row in old - new]
            self.toll.differing += [f"only rebuilt: {table} {row}" for row in new - old]


@contextmanager
def _noting(faults: list[str], what: object) -> Iterator[None]:
    """Note what a check finds wrong, and go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 whatever a broken file makes a reader raise
        faults.append(f"{what}: {error!r}")


def swing(folder: Path, seed: int, rounds: int) -> CrashLosses:
    """Run `rounds` rounds on a new collection in `folder`."""
    axe = CrashRounds(folder, seed)

    async def run() -> CrashLosses:
        try:
            return await axe.swing(rounds)
        finally:
            await axe.stop()

    try:
        return asyncio.run(run())
    finally:
        axe.close()
