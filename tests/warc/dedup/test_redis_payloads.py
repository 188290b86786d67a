"""Dedup index in Redis alone: outages, stalls, clusters, secrets."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from bench.certificate import write_certificate
from core.config.database_urls import RedisAddress, RedisUse, parse_redis_url
from core.errors import DedupUnavailableError
from tests.support.polling import wait_until
from tests.support.services.ports import free_port
from tests.support.services.redis_server import RedisServer, two_nodes
from tests.support.services.relay import CLAIM, SETTLE, ControlledRelay
from tests.warc.dedup.test_payloads import ONE, TWO, original
from warc.dedup.payloads import Claim, OriginalRecord
from warc.dedup.redis_payloads import RedisPayloadIndex, pack_original, payload_key, unpack_original

ROOT = Path(__file__).resolve().parents[3]
Open = Callable[..., RedisPayloadIndex]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a Redis server that keeps what it acknowledged."""
    started = RedisServer(tmp_path / "redis", persistent=True)
    yield started
    started.stop()


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Open]:
    """Open the index as a process of a collection does."""
    with ExitStack() as stack:

        def opener(url: str, machine: str = "here", heartbeat_s: float = 3600) -> RedisPayloadIndex:
            folder = tmp_path / machine
            payloads = RedisPayloadIndex(parse_redis_url(url, RedisUse.DEDUP), folder, heartbeat_s=heartbeat_s)
            stack.callback(payloads.close)
            return payloads

        yield opener


# ------------------------------------------------------------------------------- keys and values


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(
    st.builds(
        OriginalRecord,
        text,
        text,
        st.integers(-(2**63), 2**63 - 1),
        text,
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**64 - 1),
    )
)
def test_an_original_comes_back_from_its_bytes(given_one: OriginalRecord) -> None:
    """Every field, whatever it holds."""
    if not given_one.digest:
        given_one = OriginalRecord(ONE.digest, *[getattr(given_one, n) for n in OriginalRecord.__slots__[1:]])

    assert unpack_original(ONE, pack_original(ONE, given_one)) == given_one


def test_keys_and_values_are_small() -> None:
    """A payload takes its URL, its file's name and 60 bytes more; nothing is told twice."""
    tag = RedisAddress(RedisUse.DEDUP, host="a").tag
    url, name = "http://example.org/picture.png", "weboid-20260101000000000-00000-abcdefgh.warc.gz"
    key, value = (payload_key(tag, ONE), pack_original(ONE, OriginalRecord(ONE.digest, url, 1, name, 2, 3)))

    assert len(key) == len(tag) + len(":default:") + 32
    assert len(value) == 25 + 2 + len(url) + len(name)


@pytest.mark.parametrize("value", [b"", b"o", b"o" + bytes(24), b"hello, I am of another program"])
def test_what_another_program_wrote_is_refused(value: bytes) -> None:
    """The error says how to tell the two apart."""
    with pytest.raises(DedupUnavailableError, match="index=NAME"):
        unpack_original(ONE, value)


# ------------------------------------------------------------------------------- who shares, who not


@pytest.mark.proxy
def test_machines_with_one_address_meet_and_other_names_do_not(server: RedisServer, connect: Open) -> None:
    """The address and its `index` are the dedup index, whatever the collection is."""
    one, two = connect(server.url, "one"), connect(server.url, "two")
    one.claim([ONE])

    assert two.claim([ONE]) == {ONE: Claim.BUSY}
    for stranger in (f"{server.url}?index=other", server.url.replace("/0", "/1")):
        assert connect(stranger, "three").claim([ONE]) == {ONE: Claim.YOURS}


@pytest.mark.proxy
def test_a_wait_ends_when_the_other_settles(server: RedisServer, connect: Open) -> None:
    """Whoever waits learns of it by itself."""
    one, two = connect(server.url), connect(server.url)
    one.claim([ONE])
    settler = threading.Timer(0.05, lambda: one.settle({ONE: original(1)}))
    settler.start()
    two.wait([ONE], 60)
    settler.join()

    assert two.claim([ONE]) == {ONE: original(1)}


@pytest.mark.proxy
def test_a_wait_that_is_in_vain_ends_in_time(server: RedisServer, connect: Open) -> None:
    """Then nothing has changed."""
    one, two = connect(server.url), connect(server.url)
    one.claim([ONE])
    two.wait([ONE], 0.01)

    assert two.claim([ONE]) == {ONE: Claim.BUSY}


# ------------------------------------------------------------------------------- stalls and deaths

STALLING = """
import sys
from pathlib import Path
from core.config.database_urls import RedisUse, parse_redis_url
from warc.dedup.redis_payloads import RedisPayloadIndex
from tests.warc.dedup.test_payloads import ONE, TWO, original

url, folder = sys.argv[1:]
payloads = RedisPayloadIndex(parse_redis_url(url, RedisUse.DEDUP), Path(folder), heartbeat_s=0.5)
print(*payloads.claim([ONE, TWO]).values(), flush=True)
sys.stdin.readline()
print(len(payloads.settle({ONE: original(1), TWO: original(2, TWO)})), flush=True)
print(*payloads.claim([ONE, TWO]).values(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def stalling(server: RedisServer, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that claims two payloads, and settles them when it reads a line."""
    with subprocess.Popen(
        [sys.executable, "-c", STALLING, server.url, str(tmp_path / "there")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as child:
        assert _line(child) == "yours yours"
        yield child
        child.kill()


def _line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def _tell(child: "subprocess.Popen[str]") -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.mark.proxy
def test_a_living_process_keeps_its_claims(
    server: RedisServer, connect: Open, stalling: "subprocess.Popen[str]"
) -> None:
    """The heartbeat's expiry is pushed back again and again."""
    other = connect(server.url)
    other.wait([ONE, TWO], 1.5)  # three times as long as an unrenewed heartbeat lasts

    assert other.claim([ONE, TWO]) == dict.fromkeys([ONE, TWO], Claim.BUSY)


@pytest.mark.proxy
def test_a_killed_process_holds_its_claims_no_longer_than_its_heartbeat(
    server: RedisServer, connect: Open, stalling: "subprocess.Popen[str]"
) -> None:
    """SIGKILL between claim and write: another writes the payload."""
    other = connect(server.url)
    stalling.kill()
    stalling.wait()
    other.wait([ONE], 60)

    assert other.claim([ONE, TWO]) == dict.fromkeys([ONE, TWO], Claim.YOURS)


@pytest.mark.proxy
def test_a_process_that_stalled_too_long_learns_that_it_lost(
    server: RedisServer, connect: Open, stalling: "subprocess.Popen[str]"
) -> None:
    """The later owner's record stays the original, and of the late batch nothing is settled."""
    other = connect(server.url)
    os.kill(stalling.pid, signal.SIGSTOP)
    other.wait([ONE], 60)
    assert other.claim([ONE]) == {ONE: Claim.YOURS}
    os.kill(stalling.pid, signal.SIGCONT)
    _tell(stalling)
    assert _line(stalling) == "1"
    assert _line(stalling) == "busy yours"

    assert other.settle({ONE: original(7)}) == frozenset()
    assert other.claim([ONE, TWO]) == {ONE: original(7), TWO: Claim.BUSY}


def _die(process: RedisPayloadIndex) -> None:
    """Do what a process's end does: its heart stops, its lock goes."""
    process._over.set()
    process._pulse.join()
    process._presence._file.close()
    process._server.close()


@pytest.mark.proxy
def test_the_next_process_of_the_collection_frees_the_dead_ones_claims_at_once(
    server: RedisServer, connect: Open, tmp_path: Path
) -> None:
    """It need not wait for a heartbeat of an hour; the living keep theirs."""
    living = connect(server.url)
    dead = RedisPayloadIndex(parse_redis_url(server.url, RedisUse.DEDUP), tmp_path / "here", heartbeat_s=3600)
    living.claim([ONE])
    dead.claim([TWO])
    _die(dead)
    assert living.claim([TWO]) == {TWO: Claim.BUSY}
    successor = connect(server.url)
    assert successor.claim([TWO]) == {TWO: Claim.BUSY}
    successor.release_dead()

    assert successor.claim([ONE, TWO]) == {ONE: Claim.BUSY, TWO: Claim.YOURS}
    assert len(list((tmp_path / "here").iterdir())) == 2


@pytest.mark.proxy
def test_what_a_dead_process_wrote_is_known_before_its_claims_are_free(
    server: RedisServer, connect: Open, tmp_path: Path
) -> None:
    """Between the two nobody may claim a payload whose record was found; the living keep theirs."""
    dead = RedisPayloadIndex(parse_redis_url(server.url, RedisUse.DEDUP), tmp_path / "here", heartbeat_s=3600)
    dead.claim([ONE])
    _die(dead)
    living, successor = connect(server.url, "there"), connect(server.url)
    living.claim([TWO])
    successor.add({ONE: original(1), TWO: original(2, TWO)})

    assert living.claim([ONE, TWO]) == {ONE: original(1), TWO: Claim.YOURS}


@pytest.mark.proxy
def test_closing_gives_every_claim_up(server: RedisServer, connect: Open, tmp_path: Path) -> None:
    """Nothing of the process is left, neither in Redis nor in the collection."""
    with closing(RedisPayloadIndex(parse_redis_url(server.url, RedisUse.DEDUP), tmp_path / "here")) as leaving:
        leaving.claim([ONE])

    assert list((tmp_path / "here").iterdir()) == []
    assert connect(server.url).claim([ONE]) == {ONE: Claim.YOURS}


# ------------------------------------------------------------------------------- outages


@pytest.mark.proxy
def test_a_claim_fails_loudly_without_redis_and_goes_on_with_it(server: RedisServer, connect: Open) -> None:
    """The error says what to do; after the restart nothing is lost, nothing is claimed twice."""
    one, two = connect(server.url, "one"), connect(server.url, "two")
    one.claim([ONE])
    one.settle({ONE: original(1)})
    one.claim([TWO])
    server.kill()
    with pytest.raises(DedupUnavailableError, match=r"Start Redis there, or correct \[proxy\] dedup_url"):
        two.claim([ONE, TWO])
    server.start()

    assert two.claim([ONE, TWO]) == {ONE: original(1), TWO: Claim.BUSY}
    assert one.settle({TWO: original(2, TWO)}) == frozenset()
    assert two.claim([TWO]) == {TWO: original(2, TWO)}


@pytest.mark.proxy
def test_what_could_not_be_settled_is_settled_before_the_next_claim(server: RedisServer, connect: Open) -> None:
    """Redis dies between claim and settle: the records are on disk, and become known later."""
    one, two = connect(server.url, "one"), connect(server.url, "two")
    one.claim([ONE])
    server.kill()

    assert one.settle({ONE: original(1)}) == frozenset()
    with pytest.raises(DedupUnavailableError):
        one.claim([TWO])
    server.start()
    assert two.claim([ONE]) == {ONE: Claim.BUSY}
    assert one.claim([TWO]) == {TWO: Claim.YOURS}
    assert two.claim([ONE]) == {ONE: original(1)}


@pytest.mark.proxy
def test_debts_are_paid_with_the_heartbeat(server: RedisServer, connect: Open) -> None:
    """Whoever waits for the payload must not wait for the debtor's next batch."""
    one, two = connect(server.url, "one", heartbeat_s=3), connect(server.url, "two")
    one.claim([ONE, TWO])
    server.kill()
    one.settle({ONE: original(1)})
    one.release([TWO])
    server.start()
    two.wait([ONE], 60)
    two.wait([TWO], 60)

    assert two.claim([ONE, TWO]) == {ONE: original(1), TWO: Claim.YOURS}


@pytest.fixture
def relay(server: RedisServer) -> Iterator[ControlledRelay]:
    """Start a relay in front of the Redis."""
    standing = ControlledRelay(server.port)
    yield standing
    standing.close()


@pytest.mark.proxy
@pytest.mark.parametrize("pattern", [CLAIM, SETTLE])
def test_an_answer_that_was_lost_is_asked_for_again(
    relay: ControlledRelay, server: RedisServer, connect: Open, pattern: bytes
) -> None:
    """Every script may run twice: the second time finds what the first has done."""
    one = connect(relay.url)
    one.claim([TWO])
    one.settle({TWO: original(2, TWO)})  # the server knows the scripts now
    relay.hold_answer(pattern)

    def lose() -> None:
        relay.held.wait(120)
        relay.cut()

    cutter = threading.Thread(target=lose)
    cutter.start()

    assert one.claim([ONE]) == {ONE: Claim.YOURS}
    assert one.settle({ONE: original(1)}) == frozenset()
    cutter.join()
    assert connect(server.url).claim([ONE]) == {ONE: original(1)}


@pytest.mark.proxy
def test_a_claim_whose_answer_never_came_is_given_up(
    relay: ControlledRelay, server: RedisServer, connect: Open
) -> None:
    """Redis dies when it has made the claim: nobody is going to write the payload."""
    one, two = connect(relay.url, "one"), connect(server.url, "two")
    one.claim([TWO])
    relay.hold_answer(CLAIM)

    def die() -> None:
        relay.held.wait(120)
        wait_until(lambda: two.claim([ONE]) == {ONE: Claim.BUSY})
        server.kill()
        relay.cut()

    killer = threading.Thread(target=die)
    killer.start()
    with pytest.raises(DedupUnavailableError):
        one.claim([ONE])
    killer.join()
    server.start()
    assert two.claim([ONE]) == {ONE: Claim.BUSY}
    one.claim([TWO])

    assert two.claim([ONE]) == {ONE: Claim.YOURS}


@pytest.mark.proxy
def test_an_empty_redis_costs_a_second_record_and_no_more(tmp_path: Path, connect: Open) -> None:
    """Restarted without its data: claims are gone, and the first who settles has the original."""
    server = RedisServer(tmp_path / "redis")
    try:
        one, two = connect(server.url, "one"), connect(server.url, "two")
        one.claim([ONE])
        server.kill()
        server.start()

        assert two.claim([ONE]) == {ONE: Claim.YOURS}
        assert one.settle({ONE: original(1)}) == {ONE}
        assert two.settle({ONE: original(2)}) == frozenset()
        assert one.claim([ONE]) == {ONE: original(2)}
    finally:
        server.stop()


@pytest.mark.proxy
def test_a_full_redis_is_told_as_such(server: RedisServer, connect: Open) -> None:
    """Whatever Redis refuses with is in the error."""
    one = connect(server.url)
    with server.client() as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(DedupUnavailableError, match=r"cannot be used: .*maxmemory"):
            one.claim([ONE])
        client.config_set("maxmemory", "0")

    assert one.claim([ONE]) == {ONE: Claim.YOURS}


# ------------------------------------------------------------------------------- secrets, TLS

SECRET = "p@ss/w:rd?#%"


@pytest.mark.proxy
def test_a_user_and_a_password_open_it(tmp_path: Path, connect: Open) -> None:
    """By URL, percent-encoded; an ACL user needs no more than the docs say."""
    user = "weboid on >" + SECRET + " ~{weboid:* resetchannels -@all"
    allowed = "+evalsha +script|load +get +set +del +exists"
    server = RedisServer(tmp_path / "redis", "--user", *f"{user} {allowed}".split())
    try:
        there = f"weboid:{quote(SECRET, safe='')}@127.0.0.1:{server.port}/0"
        with closing(redis.Redis(port=server.port)) as admin:
            admin.acl_setuser("default", enabled=False)
        one = connect(f"redis://{there}")

        assert one.claim([ONE]) == {ONE: Claim.YOURS}
        assert one.settle({ONE: original(1)}) == frozenset()
        one.add({TWO: original(2, TWO)})
        one.release([ONE])
        one.wait([ONE], 1)
        assert one.find([ONE, TWO]) == {ONE: original(1), TWO: original(2, TWO)}
    finally:
        server.stop()


@pytest.mark.proxy
def test_no_error_and_no_log_holds_the_password(
    tmp_path: Path, connect: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused, unreachable, or answered by something else: the secret stays ours."""
    caplog.set_level(logging.DEBUG)
    server = RedisServer(tmp_path / "redis", "--requirepass", "another")
    secret = quote(SECRET, safe="")
    errors = []
    try:
        for place in (f"127.0.0.1:{server.port}", f"127.0.0.1:{free_port()}", "no.example.invalid"):
            with pytest.raises(DedupUnavailableError, match=r"\[proxy\] dedup_url") as refused:
                connect(f"redis://user:{secret}@{place}/0")
            errors.append(refused.value)
        with pytest.raises(DedupUnavailableError, match="Correct user and password"):
            connect(server.url)
    finally:
        server.stop()

    for each in [*map(str, errors), *map(repr, errors), caplog.text]:
        assert SECRET not in each
        assert secret not in each
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.proxy
def test_tls_is_verified(tmp_path: Path, connect: Open) -> None:
    """`rediss://` with the server's authority works, and without it is refused."""
    pem = str(write_certificate(tmp_path / "redis.pem", "localhost"))
    port = free_port()
    tls = ("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no")
    files = ("--tls-cert-file", pem, "--tls-key-file", pem, "--tls-ca-cert-file", pem)
    server = RedisServer(tmp_path / "redis", *tls, *files)
    try:
        trusting = connect(f"rediss://localhost:{port}/0?ca={pem}")
        assert trusting.claim([ONE]) == {ONE: Claim.YOURS}
        with pytest.raises(DedupUnavailableError, match=r"(?i)certificate"):
            connect(f"rediss://localhost:{port}/0")
        with pytest.raises(DedupUnavailableError):
            connect(f"redis://localhost:{port}/0")
    finally:
        server.stop()


@pytest.mark.proxy
def test_a_unix_socket_is_an_address_too(tmp_path: Path, connect: Open) -> None:
    """For a Redis on the same machine."""
    path = tmp_path / "r.sock"
    server = RedisServer(tmp_path / "redis", "--unixsocket", str(path))
    try:
        assert connect(f"unix://{path}?db=2").claim([ONE]) == {ONE: Claim.YOURS}
        with closing(redis.Redis(port=server.port, db=2)) as client:
            assert client.dbsize() == 2
    finally:
        server.stop()


# ------------------------------------------------------------------------------- clusters


@pytest.mark.proxy
def test_a_cluster_is_found_by_any_of_its_nodes(tmp_path: Path, connect: Open) -> None:
    """All keys lie in one slot; a node that has it not names the one that has."""
    with two_nodes(tmp_path) as nodes:
        without, having = (connect(node.url) for node in nodes)

        assert without.claim([ONE, TWO], ["also"]) == dict.fromkeys([ONE, TWO], Claim.YOURS)
        assert having.claim([ONE]) == {ONE: Claim.BUSY}
        assert without.settle({ONE: original(1)}) == frozenset()
        assert having.find([ONE]) == {ONE: original(1)}


@pytest.mark.proxy
def test_a_foreign_value_is_refused_and_nothing_stays_claimed(server: RedisServer, connect: Open) -> None:
    """The keys of the same batch that are ours are free for the next who asks."""
    one, two = connect(server.url, "one"), connect(server.url, "two")
    with server.client() as client:
        client.set(payload_key(RedisAddress(RedisUse.DEDUP).tag, ONE), b"other words")
    with pytest.raises(DedupUnavailableError, match="index=NAME"):
        one.claim([ONE, TWO])
    with pytest.raises(DedupUnavailableError, match="index=NAME"):
        one.claim([ONE])

    assert two.claim([TWO]) == {TWO: Claim.YOURS}
