"""One `response` for each payload, through real proxies, on one machine and on several."""

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.config.settings import Settings
from core.digests import sha256_digest
from core.errors import DedupUnavailableError, DiskFullError
from core.layout import Layout
from proxy.request_log import RequestLogEntry, RequestOutcome
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import (
    ROOT,
    Answer,
    ProxyBrowser,
    ProxyCommand,
    ProxyInProcess,
    ScriptedOrigin,
    WarcioRecord,
    check,
    ok,
    records,
)
from tests.support.services.redis_server import RedisServer
from tests.support.services.relay import CLAIM, SETTLE, ControlledRelay
from tests.warc.test_file_check import rows
from warc.index.sqlite import open_shared
from warc.rebuild import rebuild_index

pytestmark = pytest.mark.proxy

SITE = "http://origin.example"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a Redis server that keeps what it acknowledged."""
    started = RedisServer(tmp_path / "redis", persistent=True)
    yield started
    started.stop()


@pytest.fixture
def relay(server: RedisServer) -> Iterator[ControlledRelay]:
    """Start a relay in front of the Redis."""
    standing = ControlledRelay(server.port)
    yield standing
    standing.close()


Launch = Callable[..., ProxyCommand]  # a process only where this `kind` is wanted


@pytest.fixture
def launch(tmp_path: Path, settings: Settings, relay: ControlledRelay) -> Iterator[Launch]:
    """Start a proxy on a machine, that is, on a collection of that name; end it before Redis."""
    numbers = count()
    with ExitStack() as stack:

        def launcher(machine: str, kind: type[Any] = ProxyInProcess, **changes: Any) -> Any:
            root = tmp_path / machine
            root.mkdir(exist_ok=True)
            chosen = replace(settings, proxy=replace(settings.proxy, **changes))
            proxy = kind(Layout(root), chosen, f"{machine}{next(numbers)}", tmp_path)
            stack.callback(proxy.stop)
            return proxy

        yield launcher


def urls(entries: list[RequestLogEntry]) -> dict[str, str]:
    """Return how each URL was kept."""
    return {entry.url: str(entry.kept) for entry in entries}


async def fetch(proxy: ProxyInProcess, *paths: str, bucket: str = "default") -> list[RequestLogEntry]:
    """Visit, fetch the paths, seal."""
    async with proxy.client.visit("p", bucket=bucket) as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            for path in paths:
                await asyncio.to_thread(browser.get, SITE + path)
            return await visit.seal(grace_s=5)


def kinds(*layouts: Layout) -> Counter[str]:
    """Count the `response` and `revisit` records."""
    record_kinds = (record.kind for layout in layouts for record in records(layout))
    return Counter(kind for kind in record_kinds if kind in ("response", "revisit"))


def captures(*layouts: Layout) -> dict[str, WarcioRecord]:
    """Return the `response` and `revisit` records by URL."""
    all_records = (record for layout in layouts for record in records(layout))
    return {record.url: record for record in all_records if record.kind in ("response", "revisit")}


# ------------------------------------------------------------------------------- exactness

FETCHES = 120


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_many_fetches_of_one_payload_are_one_response(
    backend: str, launch: Launch, origin: ScriptedOrigin, server: RedisServer
) -> None:
    """Three proxies, thirty connections, all at once; the rest are revisits of that very record."""
    machines = ["a", "a", "b"] if backend == "redis" else ["a"] * 3
    url = server.url if backend == "redis" else ""
    proxies = [launch(each, ProxyCommand, dedup_url=url) for each in machines]
    together = threading.Barrier(30)

    def ask(proxy: ProxyInProcess, username: str, password: str, number: int) -> None:
        with closing(ProxyBrowser(proxy.port, username, password)) as browser:
            together.wait()
            for each in range(FETCHES // 30):
                browser.get(f"{SITE}/{number}/{each}")

    async def visit(number: int) -> list[RequestLogEntry]:
        proxy = proxies[number]
        async with proxy.client.visit(f"p{number}", bucket="default") as visit:
            given = visit.credentials
            askers = [
                threading.Thread(target=ask, args=(proxy, given.username, given.password, n))
                for n in range(10 * number, 10 * number + 10)
            ]
            for asker in askers:
                asker.start()
            for asker in askers:
                await asyncio.to_thread(asker.join)
            return await visit.seal(grace_s=10)

    ledgers = await asyncio.gather(*map(visit, range(3)))
    layouts = {proxy.layout for proxy in proxies}
    for proxy in proxies:
        proxy.stop()
    for layout in layouts:
        check(layout)
    warc_records = [r for layout in layouts for r in records(layout) if r.kind in ("response", "revisit")]
    (response,) = (record for record in warc_records if record.kind == "response")
    revisits = [record for record in warc_records if record.kind == "revisit"]

    assert Counter(e.kept for entries in ledgers for e in entries) == Counter(
        {RequestOutcome.REVISIT: FETCHES - 1, RequestOutcome.RESPONSE: 1}
    )
    assert len(revisits) == FETCHES - 1
    assert {r.headers["WARC-Refers-To-Target-URI"] for r in revisits} == {response.url}
    assert {r.headers["WARC-Truncated"] for r in revisits} == {"length"}  # WARC/1.1, 6.7.2
    assert {r.headers["WARC-Refers-To-Date"] for r in revisits} == {response.headers["WARC-Date"]}
    located = "SELECT DISTINCT orig_filename FROM captures WHERE record_type = 'revisit'"
    assert {row for layout in layouts for row in rows(layout, located)} == {(response.filename.removesuffix(".open"),)}


# ------------------------------------------------------------------------------- the profile


async def test_a_payload_below_the_floor_is_written_each_time(launch: Launch, origin: ScriptedOrigin) -> None:
    """`dedup_min_bytes` counts bytes of the payload; nothing below it enters the index."""
    origin.answers = {f"/{n}/9": ok(b"nine byte") for n in range(2)}
    origin.answers |= {f"/{n}/10": ok(b"ten bytes!") for n in range(2)}
    proxy = launch("a", dedup_min_bytes=10)
    entries = await fetch(proxy, "/0/9", "/1/9", "/0/10", "/1/10")
    proxy.stop()

    assert urls(entries) == {
        f"{SITE}/0/9": "response",
        f"{SITE}/1/9": "response",
        f"{SITE}/0/10": "response",
        f"{SITE}/1/10": "revisit",
    }
    known = "SELECT digest FROM payloads"
    assert rows(proxy.layout, known) == [(sha256_digest(b"ten bytes!"),)]
    rebuild_index(proxy.layout, bucket="default", min_bytes=10)
    assert rows(proxy.layout, known) == [(sha256_digest(b"ten bytes!"),)]


async def test_an_empty_payload_is_no_duplicate_of_another(launch: Launch, origin: ScriptedOrigin) -> None:
    """Redirects and the like have nothing that could be stored once."""
    origin.answers = {f"/{n}": ok(b"", status="302 Found", more="Location: /\r\n") for n in (1, 2)}
    proxy = launch("a")

    assert set(urls(await fetch(proxy, "/1", "/2")).values()) == {"response"}


async def test_cut_payload_is_no_duplicate_of_another(launch: Launch, origin: ScriptedOrigin) -> None:
    """Bodies that broke off before their first byte are empty and say so, each in its own response."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 1000\r\n\r\n"

    def breaks_off(body: bytes) -> Answer:
        return lambda connection, _head: connection.sendall(head + body)

    origin.answers = {"/1": breaks_off(b""), "/2": breaks_off(b"")}
    origin.answers |= {"/3": breaks_off(b"a{}"), "/4": breaks_off(b"a{}")}
    proxy = launch("a")
    async with proxy.client.visit("p", bucket="default") as visit:
        given = visit.credentials
        for path in ("/1", "/2", "/3", "/4"):
            with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
                await asyncio.to_thread(browser.get, SITE + path)
        await visit.seal(grace_s=5)
    proxy.stop()

    written = [each for each in records(proxy.layout) if each.kind in ("response", "revisit")]
    assert [each.kind for each in written] == ["response"] * 4
    assert {each.headers["WARC-Truncated"] for each in written} == {"disconnect"}
    assert [each.payload for each in written] == [b"", b"", b"a{}", b"a{}"]


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_read_only_buckets_are_referred_to_and_not_added_to(
    backend: str, launch: Launch, origin: ScriptedOrigin, server: RedisServer
) -> None:
    """`dedup_also`: what is there is not written again; what is new goes into the own bucket."""
    origin.answers = {"/old": ok(b"old"), "/again": ok(b"old"), "/new": ok(b"new")}
    url = server.url if backend == "redis" else ""
    proxy = launch("a", dedup_url=url, dedup_also=("shared", "attic"))
    await fetch(proxy, "/old", bucket="attic")
    entries = await fetch(proxy, "/again", "/new", bucket="mine")
    others = await fetch(proxy, "/new", bucket="attic")

    assert [each.kept for each in entries] == [RequestOutcome.REVISIT, RequestOutcome.RESPONSE]
    assert [each.kept for each in others] == [RequestOutcome.RESPONSE]
    assert sorted(rows(proxy.layout, "SELECT bucket FROM payloads")) == [("attic",), ("attic",), ("mine",)]


# ------------------------------------------------------------------------------- deaths


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_a_kill_in_the_midst_of_a_record_leaves_no_digest_of_nothing(
    backend: str, launch: Launch, origin: ScriptedOrigin, server: RedisServer
) -> None:
    """The payload was claimed and half written: its next fetch is a `response`, and whole."""
    url = server.url if backend == "redis" else ""
    for _ in range(20):
        body = os.urandom(8_000_000)
        origin.answers["/large"] = ok(body)
        proxy = launch("a", ProxyCommand, dedup_url=url)
        fetching = asyncio.create_task(fetch(proxy, "/large"))
        try:
            written = await asyncio.to_thread(_kill_while_it_writes, proxy)
        finally:
            await asyncio.gather(fetching, return_exceptions=True)
        if written < len(body):
            break
    else:
        raise AssertionError("It was always too quick.")
    proxy = launch("a", dedup_url=url)
    first, second = await fetch(proxy, "/large", "/large")
    proxy.stop()
    check(proxy.layout)

    assert (first.kept, second.kept) == (RequestOutcome.RESPONSE, RequestOutcome.REVISIT)
    assert [r.payload for r in records(proxy.layout) if r.kind == "response"][-1] == body


def _kill_while_it_writes(proxy: ProxyCommand) -> int:
    """Kill the proxy as soon as its WARC grows; how long the WARC is then."""
    folder = proxy.layout.archive
    before = {path.name for path in folder.iterdir()}

    def size() -> int:
        fresh = (path for path in folder.glob("weboid-*") if path.name not in before)
        return sum(path.stat().st_size for path in fresh)

    while size() == 0:
        continue
    proxy.kill()
    return size()


async def test_a_kill_between_claim_and_write_frees_the_claim(
    launch: Launch, origin: ScriptedOrigin, server: RedisServer, relay: ControlledRelay
) -> None:
    """The claim was made, its answer never came: the collection's next proxy writes the payload."""
    origin.answers = {"/x": ok(b"x"), "/y": ok(b"y")}
    proxy = launch("a", ProxyCommand, dedup_url=relay.url)
    await fetch(proxy, "/x")
    relay.hold_answer(CLAIM)
    fetching = asyncio.create_task(fetch(proxy, "/y"))
    await asyncio.to_thread(relay.held.wait, 20)
    wait_until(lambda: _claims(server) == 1)
    proxy.kill()
    await asyncio.gather(fetching, return_exceptions=True)
    relay.cut()
    assert kinds(proxy.layout) == {"response": 1}
    proxy = launch("a", dedup_url=relay.url)

    assert _claims(server) == 1  # a dead one's, free for all
    with server.client() as client:
        assert len(client.keys("{weboid:weboid}:alive:*")) == 1
    assert urls(await fetch(proxy, "/y")) == {f"{SITE}/y": "response"}
    assert _claims(server) == 0


def _claims(server: RedisServer) -> int:
    with server.client() as client:
        entries = client.mget(client.keys("{weboid:weboid}:default:*"))
    return sum(value is not None and value.startswith(b"c") for value in entries)


async def test_a_kill_between_write_and_settle_makes_the_record_known_at_the_next_start(
    launch: Launch, origin: ScriptedOrigin, relay: ControlledRelay, server: RedisServer
) -> None:
    """The record in the WARC becomes the original, although it was not settled before the crash."""
    origin.answers = {"/x": ok(b"x"), "/y": ok(b"y")}
    proxy = launch("a", ProxyCommand, dedup_url=relay.url)
    await fetch(proxy, "/x")
    relay.hold_request(SETTLE)
    fetching = asyncio.create_task(fetch(proxy, "/y"))
    await asyncio.to_thread(relay.held.wait, 20)
    proxy.kill()
    await asyncio.gather(fetching, return_exceptions=True)
    relay.cut()
    launch("a", dedup_url=server.url).stop()
    other = launch("b", dedup_url=server.url)

    assert urls(await fetch(other, "/y")) == {f"{SITE}/y": "revisit"}
    assert captures(proxy.layout)[f"{SITE}/y"].kind == "response"


# ------------------------------------------------------------------------------- two machines


async def test_a_payload_that_another_machine_is_writing_is_waited_for(
    launch: Launch, origin: ScriptedOrigin, relay: ControlledRelay, server: RedisServer
) -> None:
    """The seal waits, other payloads do not; then the record is a revisit."""
    origin.answers = {"/x": ok(b"x"), "/y": ok(b"y"), "/z": ok(b"z")}
    one, two = launch("a", dedup_url=relay.url), launch("b", dedup_url=server.url)
    await fetch(one, "/x")
    relay.hold_request(SETTLE)
    first = asyncio.create_task(fetch(one, "/y"))
    await asyncio.to_thread(relay.held.wait, 20)
    second = asyncio.create_task(fetch(two, "/y", "/z"))
    query = "SELECT url FROM captures"
    await asyncio.to_thread(wait_until, lambda: rows(two.layout, query) == [(f"{SITE}/z",)])
    assert not second.done()
    relay.go_on()

    assert urls(await first) == {f"{SITE}/y": "response"}
    assert urls(await second) == {f"{SITE}/y": "revisit", f"{SITE}/z": "response"}


async def test_a_machine_that_stalled_takes_its_record_back(
    launch: Launch, origin: ScriptedOrigin, relay: ControlledRelay, server: RedisServer
) -> None:
    """Its heartbeat ran out and another wrote the payload: even then there is one `response`."""
    origin.answers = {f"/{name}": ok(os.urandom(50_000)) for name in "xyz"}
    one = launch("a", dedup_url=relay.url)
    await fetch(one, "/x")
    relay.hold_answer(CLAIM)
    first = asyncio.create_task(fetch(one, "/z", "/y"))
    await asyncio.to_thread(relay.held.wait, 20)
    with server.client() as client:
        client.delete(*client.keys("{weboid:weboid}:alive:*"))
    two = launch("b", dedup_url=server.url)
    assert set(urls(await fetch(two, "/y", "/z")).values()) == {"response"}
    relay.go_on()

    assert urls(await first) == {f"{SITE}/y": "revisit", f"{SITE}/z": "revisit"}
    for proxy in (one, two):
        proxy.stop()
        check(proxy.layout)
    assert kinds(one.layout, two.layout) == {"response": 3, "revisit": 2}
    assert rows(one.layout, "SELECT count(*) FROM captures") == [(3,)]


async def test_a_rebuilt_index_knows_the_payloads_of_other_machines(
    launch: Launch, origin: ScriptedOrigin, settings: Settings, server: RedisServer
) -> None:
    """A revisit's row names the file wherever it lies, and its record tells URL and date."""
    origin.answers = {"/y": ok(b"y"), "/again": ok(b"y")}
    one, two = launch("a", dedup_url=server.url), launch("b", dedup_url=server.url)
    await fetch(one, "/y")
    await fetch(two, "/again")
    query = "SELECT url, orig_filename, orig_offset, orig_length FROM captures"
    ((_, filename, *_),) = before = rows(two.layout, query)
    two.stop()
    chosen = replace(settings.proxy, dedup_url=server.url)
    shared = open_shared(two.layout, chosen)
    assert shared is not None
    with closing(shared):
        rebuild_index(two.layout, bucket="default", shared=shared)
    (revisit,) = (record for record in records(two.layout) if record.kind == "revisit")

    assert rows(two.layout, query) == before
    assert (one.layout.archive / f"{filename}.open").exists()
    assert revisit.headers["WARC-Refers-To-Target-URI"] == f"{SITE}/y"
    assert revisit.headers["WARC-Refers-To-Date"] == captures(one.layout)[f"{SITE}/y"].headers["WARC-Date"]


async def test_a_lost_redis_is_filled_again_from_the_warcs(
    launch: Launch, origin: ScriptedOrigin, settings: Settings, server: RedisServer
) -> None:
    """`weboid collection rebuild` makes known what the collection holds."""
    origin.answers = {"/y": ok(b"y"), "/again": ok(b"y")}
    one = launch("a", dedup_url=server.url)
    await fetch(one, "/y")
    one.stop()
    with server.client() as client:
        client.flushall()
    shared = open_shared(one.layout, replace(settings.proxy, dedup_url=server.url))
    assert shared is not None
    with closing(shared):
        rebuild_index(one.layout, bucket="default", shared=shared)

    assert urls(await fetch(launch("b", dedup_url=server.url), "/again")) == {f"{SITE}/again": "revisit"}


# ------------------------------------------------------------------------------- outages, secrets


async def test_without_redis_a_visit_fails_loudly_and_nothing_is_damaged(
    launch: Launch, origin: ScriptedOrigin, server: RedisServer
) -> None:
    """The one that was open is told at its seal, the next at its opening; later all is well."""
    origin.answers = {"/y": ok(b"y"), "/empty": ok(b"")}
    proxy = launch("a", dedup_url=server.url)
    async with proxy.client.visit("p", bucket="default") as visit:
        server.kill()
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            for path in ("/y", "/empty"):
                answer = await asyncio.to_thread(browser.get, SITE + path)
                assert answer.status == 200
        with pytest.raises(DedupUnavailableError, match="Start Redis there"):
            await visit.seal(grace_s=5)
    with pytest.raises(DedupUnavailableError, match="Start Redis there"):
        async with proxy.client.visit("q", bucket="default"):
            raise AssertionError("opened")
    server.start()

    assert urls(await fetch(proxy, "/y")) == {f"{SITE}/y": "response"}
    proxy.stop()
    check(proxy.layout)
    assert kinds(proxy.layout) == {"response": 2}  # what needs no claim was written all along


async def test_redis_may_be_restarted_in_the_midst(launch: Launch, origin: ScriptedOrigin, server: RedisServer) -> None:
    """Killed and started again while fetches go on: what is told as kept is kept exactly once."""
    origin.answers = {f"/{n}": ok(b"%d" % (n % 7)) for n in range(30)}
    proxy = launch("a", dedup_url=server.url)
    entries: list[RequestLogEntry] = []
    for n in range(30):
        if n in (10, 20):
            server.kill()
            with pytest.raises(DedupUnavailableError):
                await fetch(proxy, f"/{n}")
            server.start()
        entries += await fetch(proxy, f"/{n}")
    proxy.stop()
    check(proxy.layout)

    assert Counter(entry.kept for entry in entries) == {RequestOutcome.RESPONSE: 7, RequestOutcome.REVISIT: 23}
    assert kinds(proxy.layout) == {"response": 7, "revisit": 23}


SECRET = "correct-horse"


async def test_the_password_leaves_no_trace(
    tmp_path: Path, launch: Launch, origin: ScriptedOrigin, settings: Settings, capfd: Any
) -> None:
    """Not in WARCs, process lists, environment or output; refused or not."""
    server = RedisServer(tmp_path / "redis", "--requirepass", SECRET)
    try:
        url = f"redis://:{SECRET}@127.0.0.1:{server.port}/0"
        proxy = launch("a", ProxyCommand, dedup_url=url)
        await fetch(proxy, "/y")
        folder = Path(f"/proc/{proxy.process.pid}")
        seen = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        server.kill()
        with pytest.raises(DedupUnavailableError) as refused:
            await fetch(proxy, "/y")
        proxy.stop()
        server.start()
        processes = []
        for name, password in (("wrong", f"not-{SECRET}"), ("malformed", f"{SECRET}/x")):
            bad = url.replace(SECRET, password)
            chosen = replace(settings, proxy=replace(settings.proxy, dedup_url=bad))
            places = ["--collection", str(tmp_path / name), "--control", str(tmp_path / "c.sock")]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "proxy", *places), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT
            )
            processes.append((process, process.communicate(json.dumps(asdict(chosen)).encode() + b"\n")))
        for process, answer in processes:
            out, err = await answer
            assert process.returncode == 1
            assert b"[proxy] dedup_url" in err
            assert b"Traceback" not in err
            seen += out + err
    finally:
        server.stop()
    output = capfd.readouterr()
    files = [path.read_bytes() for path in proxy.layout.root.rglob("*") if path.is_file()]
    payloads = [record.payload for record in records(proxy.layout)]
    everything = seen + str(refused.value).encode() + (output.out + output.err).encode()

    assert SECRET.encode() not in everything + b"".join(files + payloads)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 3 MB as the archive of machine a."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "archive").symlink_to(folder)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_batch_that_failed_gives_its_claims_up(
    full_disk: Path, launch: Launch, origin: ScriptedOrigin, server: RedisServer
) -> None:
    """The disk is full on one machine: another writes the payload, and waits for nobody."""
    origin.answers = {"/large": ok(os.urandom(5_000_000)), "/small": ok(b"small")}
    one, two = launch("a", dedup_url=server.url), launch("b", dedup_url=server.url)
    await fetch(one, "/small")
    with pytest.raises(DiskFullError):
        await fetch(one, "/large")

    assert _claims(server) == 0
    assert urls(await fetch(two, "/small", "/large")) == {f"{SITE}/small": "revisit", f"{SITE}/large": "response"}


# ------------------------------------------------------------------------------- all at once


@pytest.mark.slow
async def test_random_kills_leave_no_revisit_of_nothing(
    launch: Launch, origin: ScriptedOrigin, server: RedisServer
) -> None:
    """Two proxies are killed at random moments; what was sealed is there, and refers to records.

    Each has a collection of its own; on SQLite, where they share one, `bench.axe` does the same.
    """
    dice = random.Random(7)
    bodies = [os.urandom(100_000) for _ in range(6)]
    origin.answers = {f"/{n}": ok(bodies[n % 6]) for n in range(600)}
    machines = ("a", "b")
    proxies = [launch(machine, ProxyCommand, dedup_url=server.url) for machine in machines]
    sealed: list[RequestLogEntry] = []
    path = count()
    for _ in range(3):
        fetching = [
            asyncio.create_task(fetch(proxy, *(f"/{next(path)}" for _ in range(6))))
            for proxy in proxies
            for _ in range(2)
        ]
        victim = dice.randrange(2)
        await asyncio.sleep(dice.random() * 0.25)
        proxies[victim].kill()
        ended = await asyncio.gather(*fetching, return_exceptions=True)
        sealed += [entry for each in ended if isinstance(each, list) for entry in each]
        proxies[victim] = launch(machines[victim], ProxyCommand, dedup_url=server.url)
    for proxy in proxies:
        proxy.stop()
    layouts = {proxy.layout for proxy in proxies}
    for layout in layouts:
        check(layout)
    warc_records = [r for layout in layouts for r in records(layout) if r.kind in ("response", "revisit")]
    originals = {
        (r.url, r.headers["WARC-Date"], r.headers["WARC-Payload-Digest"]) for r in warc_records if r.kind == "response"
    }
    located = "SELECT digest, orig_filename, orig_offset FROM captures WHERE orig_offset NOTNULL"
    indexed = "SELECT digest, filename, offset FROM captures WHERE record_type = 'response'"

    assert {entry.url for entry in sealed} <= {record.url for record in warc_records}
    assert len(sealed) > 20
    for record in warc_records:
        if record.kind == "revisit":
            assert (
                record.headers["WARC-Refers-To-Target-URI"],
                record.headers["WARC-Refers-To-Date"],
                record.headers["WARC-Payload-Digest"],
            ) in originals
    assert {row for each in layouts for row in rows(each, located)} <= {
        row for each in layouts for row in rows(each, indexed)
    }
    assert len(originals) == len(bodies)
