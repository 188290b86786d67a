"""Frontier in Redis alone: clocks, outages, lost answers, clusters."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.database_urls import RedisAddress, RedisUse, parse_redis_url
from core.config.profile import parse_settings
from core.config.settings import FrontierSettings
from core.errors import (
    CollectionVersionError,
    ConfigError,
    DiskFullError,
    InvariantError,
    TransientError,
    UnavailableError,
)
from crawler.frontier.base import AddResult, HostBackOff, HostOrder, ItemState, Lane, NewItem
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.frontier.redis_store import durability_warnings
from tests.crawler.frontier.redis_place import redis_address
from tests.crawler.frontier.support import A1, A2, B1, HOUR, MINUTE, NO_DELAY, SECOND, visit
from tests.support.polling import wait_until
from tests.support.services.redis_server import RedisServer, two_nodes
from tests.support.services.relay import ControlledRelay

Open = Callable[..., RedisFrontier]
# All that an ACL user needs; docs/explanation/frontier.md says the same.
RIGHTS = (
    "+evalsha +script|load +time +type +unlink "
    "+hget +hset +hsetnx +hmget +hgetall +hvals +hkeys +hscan +hexists +hdel +hincrby "
    "+zadd +zrem +zrange +zrangebyscore +zrevrange +zrevrangebyscore +zscore +zcard +zcount "
    "+rpush +lpop +lindex +lrange +ltrim"
)


@pytest.fixture
def connect() -> Iterator[Open]:
    """Open frontiers, and close them at the end."""
    with ExitStack() as stack:

        def opener(address: RedisAddress | str, **options: Any) -> RedisFrontier:
            if isinstance(address, str):
                address = parse_redis_url(address, RedisUse.FRONTIER)
            options = {"server_time": False, **options}
            return stack.enter_context(RedisFrontier(address, **options))

        yield opener


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a Redis server of the test's own that keeps what it acknowledged."""
    started = RedisServer(tmp_path / "redis", persistent=True)
    yield started
    started.stop()


# ------------------------------------------------------------------------------- opening


def test_a_bad_address_is_refused_with_the_profile() -> None:
    """The same rules as for the dedup index, in the words of this setting."""
    parse_settings('[frontier]\nurl = "redis://a/0?frontier=ours"')
    for bad in ("redis://a/0?index=ours", "http://a/", "redis:///0"):
        with pytest.raises(ConfigError, match=r"\[frontier\] url"):
            parse_settings(f'[frontier]\nurl = "{bad}"')


def test_frontiers_of_other_names_do_not_meet(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """Nor does the dedup index of that name, whatever the name."""
    connect(f"{redis_server.url}?frontier=one").add([A1], now=now)

    assert connect(f"{redis_server.url}?frontier=two").unfinished(now) == 0
    one = parse_redis_url("redis://a?frontier=x", RedisUse.FRONTIER).tag
    assert one != parse_redis_url("redis://a?index=frontier:x", RedisUse.DEDUP).tag


@pytest.mark.parametrize("made", [b"weboid-frontier 999 00", b"", None])
def test_another_versions_data_is_refused(redis_server: RedisServer, connect: Open, made: bytes | None) -> None:
    """The text says what to do; nothing is changed."""
    address = redis_address(redis_server)
    with redis_server.client() as client:
        if made is None:
            client.set(address.tag, "another program's")
        else:
            client.hset(address.tag, "made", made)
        before = client.dump(address.tag)

        with pytest.raises(CollectionVersionError, match=r"version 1 .*frontier=NAME"):
            connect(address)

        assert client.dump(address.tag) == before


def test_a_frontier_that_was_lost_is_told_so(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """Its workers must not go on in an empty one, nor in one that somebody else made since."""
    address = redis_address(redis_server)
    frontier = connect(address)
    frontier.add([A1], now=now)
    with redis_server.client() as client:
        client.delete(*client.keys(f"{address.tag}*"))

    with pytest.raises(UnavailableError, match="Redis has lost it"):
        frontier.add([A2], now=now)
    connect(address)
    with pytest.raises(CollectionVersionError, match="replaced"):
        frontier.claim(now=now, worker="w")


def test_books_that_contradict_are_reported(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """Redis was allowed to throw keys away."""
    address = redis_address(redis_server)
    frontier = connect(address)
    frontier.add([A1], now=now)
    with redis_server.client() as client:
        client.delete(*client.keys(f"{address.tag}:q*"))

    with pytest.raises(InvariantError, match="evicted or deleted"):
        frontier.claim(now=now, worker="w")


# ------------------------------------------------------------------------------- clocks


def test_machines_whose_clocks_differ_by_an_hour_agree(redis_server: RedisServer, connect: Open) -> None:
    """All reckon in the server's time, and are answered in their own."""
    address = redis_address(redis_server)
    right, ahead = (connect(address, server_time=True) for _ in range(2))
    clock = SystemClock()

    right.add([A1, A2], now=clock.now())
    (item,) = right.claim(now=clock.now(), worker="right")
    assert ahead.claim(now=clock.now() + HOUR, worker="ahead", limit=9) == [], "the lease holds"
    wakeup = ahead.next_wakeup(clock.now() + HOUR)
    assert wakeup is not None
    assert abs(wakeup - clock.now() - HOUR - MINUTE) < 10 * SECOND
    assert right.complete(item, now=clock.now(), outcome="ok", delay=20 * SECOND)
    assert ahead.claim(now=clock.now() + HOUR, worker="ahead") == [], "the host rests"
    record = ahead.find(A1.url)
    assert record is not None
    assert record.ended_at is not None
    assert abs(record.ended_at - clock.now() - HOUR) < 10 * SECOND


def test_a_clock_that_is_set_is_noticed_at_once(redis_server: RedisServer, connect: Open) -> None:
    """The monotonic clock tells the difference; the offset is measured again."""
    frontier = connect(redis_address(redis_server), server_time=True)
    clock = SystemClock()
    frontier.add([A1, A2], now=clock.now())
    (item,) = frontier.claim(now=clock.now(), worker="w")

    assert frontier.claim(now=clock.now() + HOUR, worker="w") == []
    assert frontier.complete(item, now=clock.now() - HOUR, outcome="ok", delay=20 * SECOND)

    wakeup = frontier.next_wakeup(clock.now())
    assert wakeup is not None
    assert wakeup - clock.now() < 30 * SECOND


# ------------------------------------------------------------------------------- outages


@pytest.mark.slow
def test_an_outage_is_transient_and_ends(server: RedisServer, connect: Open, now: datetime) -> None:
    """Nothing that was acknowledged is lost, a claim included."""
    frontier = connect(server.url)
    frontier.add([A1, A2, B1], now=now)
    item = frontier.claim(now=now, worker="w")[0]

    server.kill()
    with pytest.raises(TransientError, match="Start Redis there"):
        frontier.add([A2], now=now)
    with pytest.raises(TransientError):
        connect(server.url)
    server.start()

    assert frontier.complete(item, now=now, outcome="ok")
    assert frontier.counts()[ItemState.QUEUED] == 2


@pytest.mark.slow
def test_a_server_killed_under_load_loses_nothing_that_was_acknowledged(
    server: RedisServer, connect: Open, now: datetime
) -> None:
    """Every URL that was added is known, every completion holds, no claim was given twice."""
    crawl = ConcurrentCrawl(connect, server.url, now)
    crawl.start(3)
    for acknowledged in (150, 300):
        wait_until(lambda least=acknowledged: len(crawl.completed) >= least)  # type: ignore[misc]
        server.kill()
        server.start()
    crawl.end()

    last = connect(server.url, politeness=NO_DELAY)
    states = [last.find(url) for url in crawl.added]
    assert {record.state for record in states if record} == {ItemState.DONE}
    assert None not in states
    assert len(crawl.tokens) == len(set(crawl.tokens)), "a token is one claim's"
    assert len(crawl.completed) == len(set(crawl.completed)), "a completion counts once"
    assert last.counts()[ItemState.DONE] == len(crawl.added)


class ConcurrentCrawl:
    """Workers that add, claim and complete until nothing is left, whatever the server does."""

    def __init__(self, connect: Open, url: str, now: datetime) -> None:
        self.added: set[str] = set()
        self.tokens: list[int] = []
        self.completed: list[str] = []
        self._frontiers = [connect(url, politeness=NO_DELAY, settings=FrontierSettings(attempts=100)) for _ in range(3)]
        self._now = now
        self._wounds: list[Exception] = []
        self._threads: list[threading.Thread] = []
        self._add(self._frontiers[0], [f"https://h{host}.example.org/" for host in range(60)])

    def start(self, workers: int) -> None:
        """Let so many work."""
        for number in range(workers):
            thread = threading.Thread(target=self._work, args=(number,))
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Wait until all is done."""
        for thread in self._threads:
            thread.join(120)
        assert not self._wounds, self._wounds

    def _work(self, number: int) -> None:
        frontier = self._frontiers[number]
        try:
            while self._again(lambda: frontier.unfinished(self._now)):
                items = self._again(lambda: frontier.claim(now=self._now, worker=str(number), limit=3))
                if not items:
                    self._now += SECOND  # what a lost answer claimed comes back with its lease
                for item in items:
                    self.tokens.append(item.token)
                    if item.hops < 3:
                        links = [f"{item.url}{link}/" for link in range(2)]
                        self._add(frontier, links, item.hops + 1)
                    if self._again(
                        lambda item=item: frontier.complete(item, now=self._now, outcome="ok")  # type: ignore[misc]
                    ):
                        self.completed.append(item.url)
        except Exception as error:
            self._wounds.append(error)

    def _add(self, frontier: RedisFrontier, urls: list[str], hops: int = 0) -> None:
        items = [NewItem(url, hops=hops) for url in urls]
        self._again(lambda: frontier.add(items, now=self._now))
        self.added.update(urls)

    def _again(self, verb: Callable[[], Any]) -> Any:
        pause = threading.Event()
        for _ in range(600):
            with suppress(TransientError):
                return verb()
            pause.wait(0.05)
        raise AssertionError("The server did not come back.")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", TransientError),
        (b"-CLUSTERDOWN The cluster is down\r\n", TransientError),
        (b"-MASTERDOWN Link with MASTER is down\r\n", TransientError),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", DiskFullError),
        (b"-MISCONF Redis is unable to persist to disk\r\n", DiskFullError),
        (b"-NOAUTH Authentication required.\r\n", UnavailableError),
        (b"-NOPERM this user has no permissions\r\n", UnavailableError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", UnavailableError),
        (b"", TransientError),
    ],
)
def test_what_a_server_says_becomes_one_of_our_errors(connect: Open, answer: bytes, error: type[Exception]) -> None:
    """Wait, make room, or mend it: the class says which."""
    with saying(answer) as port, pytest.raises(error) as raised:
        connect(f"redis://:hunter2@127.0.0.1:{port}/0" if b"NO" in answer else _at(port))

    assert type(raised.value) is error
    assert "hunter2" not in str(raised.value)


def _at(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"


class saying:  # noqa: N801 reads as the function it is
    """A server that answers anything with the same words; an empty answer closes."""

    def __init__(self, words: bytes) -> None:
        self._words = words
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> int:
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return int(self._listener.getsockname()[1])

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                while self._words and (chunk := peer.recv(1 << 16)):
                    peer.sendall(self._words * max(chunk.count(b"*"), 1))


def test_a_wrong_password_is_told_without_it(tmp_path: Path, connect: Open) -> None:
    """The text names the setting."""
    locked = RedisServer(tmp_path / "locked", "--requirepass", "s3cret")
    try:
        wrong = locked.url.replace("//", "//:hunter2@")
        with pytest.raises(UnavailableError, match=r"refuses the login.*\[frontier\] url") as refused:
            connect(wrong)
        connect(locked.url.replace("//", "//:s3cret@"))
    finally:
        locked.stop()
    assert "hunter2" not in str(refused.value)


def test_a_full_server_changes_nothing(tmp_path: Path, connect: Open, now: datetime) -> None:
    """A visit in progress can be ended all the same; the rest works when there is room again."""
    small = RedisServer(tmp_path / "small")
    try:
        frontier = connect(small.url)
        frontier.add([A1, B1], now=now)
        (item,) = frontier.claim(now=now, worker="w")
        with small.client() as client:
            client.config_set("maxmemory", 1)
            before = frontier.stats(now)
            refused: list[Callable[[], object]] = [
                lambda: frontier.add([A2], now=now),
                lambda: frontier.block_until(item.host, now + HOUR, "x", now=now),
                lambda: frontier.give_order("k", "key", "value"),
            ]
            for verb in refused:
                with pytest.raises(DiskFullError):
                    verb()
            assert frontier.stats(now) == before
            assert frontier.complete(item, now=now, outcome="ok")
            client.config_set("maxmemory", 0)

        assert frontier.add([A2], now=now) == AddResult(added=1)
    finally:
        small.stop()


# ------------------------------------------------------------------------------- lost answers


def cut_when_held(relay: ControlledRelay) -> threading.Thread:
    """Cut the connection as soon as the relay holds back what it was told to."""

    def cut() -> None:
        relay.held.wait(120)
        relay.cut()

    thread = threading.Thread(target=cut)
    thread.start()
    return thread


ENDINGS: dict[str, Callable[[RedisFrontier, Any, datetime], object]] = {
    "complete": lambda f, item, now: f.complete(item, now=now, outcome="unmistakable"),
    "retry": lambda f, item, now: f.retry(item, now=now, reason="unmistakable"),
    "fail": lambda f, item, now: f.fail(item, now=now, reason="unmistakable"),
    "skip": lambda f, item, now: f.skip(item, now=now, reason="unmistakable"),
    "release": lambda f, item, now: f.release(item, now=now, reason="unmistakable"),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("lost", ["request", "answer"])
def test_an_ending_whose_answer_was_lost_counts_once(
    redis_server: RedisServer, connect: Open, now: datetime, ending: str, lost: str
) -> None:
    """The second sending is told yes; a second ending is refused as ever."""
    end = ENDINGS[ending]
    relay = ControlledRelay(redis_server.port)
    with closing(relay):
        address = redis_address(redis_server)
        relayed = parse_redis_url(f"{relay.url}?frontier={address.name}", RedisUse.FRONTIER)
        frontier = connect(relayed)
        frontier.add([A1, B1], now=now)
        item, other = frontier.claim(now=now, worker="w", limit=2)
        assert end(frontier, other, now), "the script is there"
        hold = relay.hold_request if lost == "request" else relay.hold_answer
        hold(b"unmistakable")
        cutter = cut_when_held(relay)
        outcome = end(frontier, item, now)
        cutter.join()

        assert outcome == (ItemState.QUEUED if ending == "retry" else True)
        assert not end(frontier, item, now)
        assert frontier.unfinished(now) == (2 if ending in ("retry", "release") else 0)
        record = frontier.find(item.url)
        assert record is not None
        assert len(record.attempts) == (0 if ending in ("complete", "skip") else 1)


def test_a_claim_whose_answer_was_lost_runs_out_of_its_lease(
    redis_server: RedisServer, connect: Open, now: datetime
) -> None:
    """The item is held by nobody, and comes back."""
    relay = ControlledRelay(redis_server.port)
    with closing(relay):
        address = redis_address(redis_server)
        relayed = parse_redis_url(f"{relay.url}?frontier={address.name}", RedisUse.FRONTIER)
        frontier = connect(relayed)
        assert frontier.claim(now=now, worker="w") == [], "the script is there from now on"
        frontier.add([A1], now=now)
        relay.hold_answer(b"unmistakable")
        cutter = cut_when_held(relay)
        assert frontier.claim(now=now, worker="unmistakable") == []
        cutter.join()

        (item,) = frontier.claim(now=now + 2 * MINUTE, worker="w")
        assert item.attempts == 2


# ------------------------------------------------------------------------------- servers


@pytest.mark.slow
def test_a_cluster_is_found_by_any_of_its_nodes(tmp_path: Path, connect: Open, now: datetime) -> None:
    """All keys lie in one slot; a node that has it not names the one that has."""
    with two_nodes(tmp_path) as nodes:
        without, having = (connect(f"{node.url}?frontier=ours", server_time=True) for node in nodes)
        now = SystemClock().now()

        everything(without, now)
        assert having.stats(now).done == without.stats(now).done > 0


def everything(frontier: RedisFrontier, now: datetime) -> None:
    """Use every verb once, and so every script."""
    links = [NewItem(f"https://x{host}.org/", job="j") for host in range(9)]
    frontier.add([A1, A2, B1, *links], now=now)
    frontier.add([A2, B1], now=now, again=timedelta(0))
    held = frontier.claim(now=now, worker="w", limit=6)
    assert len(held) == 6
    assert frontier.renew(held[0], now=now)
    assert frontier.complete(held[0], now=now, outcome="ok", due=now + HOUR, memo="m")
    assert frontier.retry(held[1], now=now, reason="r") is ItemState.QUEUED
    assert frontier.fail(held[2], now=now, reason="f")
    assert frontier.skip(held[3], now=now, reason="s")
    assert frontier.release(held[4], now=now, reason="l")
    assert frontier.discard([links[8].url], now=now, reason="d") == 1
    frontier.rest({links[7].url[8:-1]: now + MINUTE}, now=now)
    frontier.block_until("blocked.org", now + HOUR, "b", now=now)
    assert frontier.back_off(HostBackOff("slow.org", "o"), now=now) > now
    frontier.pause("p")
    frontier.resume()
    assert frontier.next_wakeup(now) is not None
    assert frontier.unfinished(now) == sum(frontier.counts().values()) - 4
    assert frontier.job_counts("j").began_at is not None
    assert sum(minute.done for minute in frontier.minutes(now)) == 1
    for state in ItemState:
        assert frontier.ls(state)
        rows, cursor = frontier.scan(state)
        assert rows
        assert cursor == ""
    assert frontier.find(A1.url) is not None
    assert len(frontier.blocks(now=now)) == 2
    assert frontier.host(held[0].host, now=now) is not None
    assert frontier.hosts(HostOrder.SLOWEST, now=now)
    assert frontier.hosts(HostOrder.LONGEST, now=now)
    frontier.give_order("k", "key", "value")
    assert frontier.orders("k") == {"key": "value"}
    assert frontier.take_back("k", "key")
    frontier.put_note("k", "key", "value", now=now, until=now + HOUR)
    assert frontier.note("k", "key", now=now) == "value"
    assert frontier.notes("k", now=now) == {"key": "value"}
    frontier.erase_note("k", "key")


def test_a_user_with_few_rights_is_enough(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """The rights that docs/explanation/frontier.md names, on keys of frontiers alone."""
    with redis_server.client() as client:
        rights = RIGHTS.split()
        client.execute_command("ACL", "SETUSER", "crawler", "reset", "on", ">pw", "~{weboid:*", *rights)
    address = redis_server.url.replace("//", "//crawler:pw@")

    everything(connect(f"{address}?frontier=rights"), now)


def test_the_documented_rights_are_these() -> None:
    """The rights that the test above uses are those documented for operators."""
    page = Path(__file__).parents[3] / "docs" / "explanation" / "frontier.md"

    assert RIGHTS in " ".join(page.read_text(encoding="utf-8").split())


def test_a_server_that_may_forget_is_noticed(tmp_path: Path) -> None:
    """Persistence and eviction are the operator's, so they are told."""
    careless = RedisServer(tmp_path / "careless", "--maxmemory-policy", "allkeys-lru")
    careful = RedisServer(tmp_path / "careful", persistent=True)
    try:
        address = parse_redis_url(careless.url, RedisUse.FRONTIER)
        warnings = durability_warnings(address)
        assert len(warnings) == 2
        assert "a restart loses the whole frontier" in warnings[0]
        assert "maxmemory-policy allkeys-lru" in warnings[1]
        with careless.client() as client:
            client.config_set("save", "60 1")
            assert "loses its latest writes" in durability_warnings(address)[0]
            assert client.dbsize() == 0, "a look leaves nothing behind"
        assert durability_warnings(parse_redis_url(careful.url, RedisUse.FRONTIER)) == []
    finally:
        careless.stop()
        careful.stop()


# ------------------------------------------------------------------------------- sizes


def test_large_additions_are_split(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """Scripts stay short; the sums are those of one addition."""
    frontier = connect(redis_address(redis_server))
    items = [NewItem(f"https://h{number % 7}.org/{number}") for number in range(2_500)]

    assert frontier.add(items[:300], now=now) == AddResult(added=300)
    assert frontier.add(items + items[:99], now=now) == AddResult(added=2_200, duplicates=399)

    assert frontier.stats(now).duplicates == 399
    assert frontier.discard([item.url for item in items], now=now, reason="x") == 2_500
    assert frontier.next_wakeup(now) is None


def test_an_item_behind_many_that_moved_away_is_found(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """Dead entries are passed over a thousand at a time, and never hide a live one."""
    frontier = connect(redis_address(redis_server), politeness=NO_DELAY)
    urls = [f"https://a.org/{number}" for number in range(3_000)]
    frontier.add(map(NewItem, urls), now=now)
    frontier.discard(urls[:-1], now=now, reason="x")
    frontier.add([B1], now=now)

    assert {visit(frontier, now).url for _ in range(2)} == {urls[-1], B1.url}
    assert frontier.claim(now=now, worker="w") == []
    assert frontier.next_wakeup(now) is None


def test_a_change_of_the_order_loses_nothing(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """Items queued in one order are claimed in the other."""
    address = redis_address(redis_server)
    urls = [f"https://a.org/{number}" for number in range(30)]
    left = set(urls)
    orders = [FrontierSettings(order=order) for order in ("fifo", "random")] * 2
    for place, settings in enumerate(orders):
        frontier = connect(address, politeness=NO_DELAY, settings=settings)
        frontier.add(map(NewItem, urls[place::4]), now=now)
        left.remove(visit(frontier, now).url)

    last = connect(address, politeness=NO_DELAY)
    while items := last.claim(now=now, worker="w"):
        left.remove(items[0].url)
        assert last.complete(items[0], now=now, outcome="ok")
    assert left == set()


def test_whatever_it_is_told_comes_back(redis_server: RedisServer, connect: Open, now: datetime) -> None:
    """URLs of 64 KiB, long hosts, reasons with NUL and lone surrogates."""
    frontier = connect(redis_address(redis_server))
    url = "https://a.org/" + "x" * 65_000
    odd = "\x00\udc80\U0001f600" * 100
    host = "h" * 5_000 + odd
    frontier.add([NewItem(url, Lane.HIGH, via=url + "y", job=odd, host=host)], now=now)
    (item,) = frontier.claim(now=now, worker=odd)
    assert (item.url, item.via, item.job, item.host) == (url, url + "y", odd, host)
    assert frontier.complete(item, now=now, outcome=odd, memo=odd)
    frontier.block_until(host, now + HOUR, odd, now=now)
    frontier.give_order(odd, odd, odd)
    frontier.put_note(odd, odd, odd, now=now)

    record = frontier.find(url)
    assert record is not None
    assert (record.outcome, record.item.memo) == (odd, odd)
    assert [(block.host, block.reason) for block in frontier.blocks(now=now)] == [(host, odd)]
    assert frontier.orders(odd) == {odd: odd}
    assert frontier.notes(odd, now=now) == {odd: odd}
