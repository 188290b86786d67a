"""Fronts of several processes count readers together, in a real Redis (W23)."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest

from core.clock import SystemClock
from core.config.database_urls import RedisUse, parse_redis_url
from crawler.collection import open_collection
from playback.web.rate_limits import ReaderRates, RequestThrottle, SharedBuckets, TokenRate
from tests.support.services.ports import free_port
from tests.support.services.processes import plain_environment
from tests.support.services.redis_server import RedisServer

RATES = ReaderRates(TokenRate(0.001, 4), TokenRate(0.001, 8), TokenRate(1, 1_000))
WHO = ip_address("192.0.2.1")


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis")
    yield server
    server.stop()


def buckets_in(server: RedisServer, name: str = "ours") -> SharedBuckets:
    """Build buckets as a front of that frontier has them."""
    return SharedBuckets(parse_redis_url(f"{server.url}?frontier={name}", RedisUse.FRONTIER))


def answered(throttle: RequestThrottle, most: int = 50) -> int:
    """Return how many questions are answered, one after the other, until one must wait."""
    return next((n for n in range(most) if throttle.wait_s(WHO, 0.0)), most)


def test_two_fronts_give_one_reader_one_share(redis_server: RedisServer) -> None:
    """Whichever is asked; doors of other names and other frontiers count for themselves."""
    with closing(buckets_in(redis_server)) as one, closing(buckets_in(redis_server)) as two:
        first, second = (RequestThrottle(RATES, shared=one, name="a"), RequestThrottle(RATES, shared=two, name="a"))
        assert [first.wait_s(WHO, 0.0) for _ in range(3)] == [0, 0, 0]
        assert answered(second) == 1
        assert second.wait_s(WHO, 0.0) == first.wait_s(WHO, 0.0) > 900
        assert answered(RequestThrottle(RATES, shared=two, name="b")) == 4
    with closing(buckets_in(redis_server, "other")) as other:
        assert answered(RequestThrottle(RATES, shared=other, name="a")) == 4


def test_a_dear_question_leaves_a_debt_at_every_front(redis_server: RedisServer) -> None:
    """Bounded by what the bucket holds, as in one process."""
    with closing(buckets_in(redis_server)) as one, closing(buckets_in(redis_server)) as two:
        RequestThrottle(RATES, shared=one).charge(WHO, 0.0, 1_000)
        wait = RequestThrottle(RATES, shared=two).wait_s(WHO, 0.0)

    local = RequestThrottle(RATES)
    local.charge(WHO, 0.0, 1_000)
    assert abs(wait - local.wait_s(WHO, 0.0)) <= 10


def test_keys_hold_no_address_and_expire(redis_server: RedisServer) -> None:
    """Each key is forgotten when its bucket is full again; a refused question makes none."""
    with closing(buckets_in(redis_server)) as buckets, redis_server.client() as client:
        throttle = RequestThrottle(RATES, shared=buckets)
        answered(throttle)
        keys = client.keys("*")
        before = len(keys)
        throttle.wait_s(WHO, 0.0)

        assert len(client.keys("*")) == before == 3
        assert all(key.startswith(b"{weboid:rates:ours}:") for key in keys)
        assert not any(b"192" in key for key in keys)
        assert all(0 < client.pttl(key) <= 9_000_000 for key in keys)


def test_without_redis_each_front_counts_for_itself_until_it_is_back(redis_server: RedisServer) -> None:
    """Readers are answered meanwhile, within this process's limits; Redis is left alone for a while."""
    now = [0.0]
    address = parse_redis_url(f"{redis_server.url}?frontier=ours", RedisUse.FRONTIER)
    with closing(SharedBuckets(address, monotonic=lambda: now[0])) as buckets:
        throttle = RequestThrottle(RATES, shared=buckets)
        assert answered(throttle) == 4
        redis_server.kill()
        assert answered(throttle) == 4  # its own count, which nobody has used
        redis_server.start()  # it has forgotten everything
        assert answered(throttle) == 0  # not asked yet
        now[0] += 60
        assert answered(throttle) == 4


def test_a_redis_that_takes_no_writes_holds_up_nobody(redis_server: RedisServer) -> None:
    """As with the rights of an earlier release."""
    rights = ("default", "on", "nopass", "~*", "-@all", "+@read", "+@connection")
    with redis_server.client() as client, closing(buckets_in(redis_server)) as buckets:
        client.execute_command("ACL", "SETUSER", *rights)

        assert answered(RequestThrottle(RATES, shared=buckets)) == 4


async def _make_collection(folder: Path) -> None:
    async with open_collection(folder, clock=SystemClock()):
        pass


@pytest.mark.slow
def test_two_served_fronts_refuse_a_reader_together(redis_server: RedisServer, tmp_path: Path) -> None:
    """`weboid serve` twice, on one frontier in Redis: what one has answered the other has counted."""
    root = Path(__file__).resolve().parents[4]
    asyncio.run(_make_collection(tmp_path / "new"))
    weboid = [sys.executable, "-m", "weboid"]
    with ExitStack() as stack:
        fronts = []
        for _ in range(2):
            port = free_port()
            command = [*weboid, "serve", f"--collection={tmp_path}/new", f"--listen=127.0.0.1:{port}"]
            command += [f"--frontier={redis_server.url}?frontier=ours", "--no-replay"]
            command += [f"--origin=http://127.0.0.1:{port}", "--replay-origin=http://127.0.0.2:1"]
            process = stack.enter_context(
                subprocess.Popen(
                    command, env=plain_environment(PYTHONPATH=str(root)), stdout=subprocess.PIPE, text=True
                )
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            fronts.append(process.stdout.readline().strip())
        with httpx.Client(trust_env=False, verify=False, timeout=120) as client:

            def until_refused(front: str) -> int:
                for count in range(3_000):
                    if client.get(f"{front}/timemap/link/http://a.example/").status_code == 429:
                        return count
                raise AssertionError("never refused")

            first = until_refused(fronts[0])
            second = until_refused(fronts[1])

    assert first >= 200
    assert second < 100
