"""The dedup index: one contract, held by SQLite and by a real Redis."""

import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.config.database_urls import RedisUse, parse_redis_url
from core.digests import sha256_digest
from tests.support.examples import examples
from tests.support.services.redis_server import RedisServer
from warc.dedup.payloads import Claim, OriginalRecord, PayloadKey
from warc.dedup.redis_payloads import RedisPayloadIndex
from warc.index.sqlite import SqliteCaptureIndex, SqlitePayloadIndex

pytestmark = pytest.mark.proxy

Answers = dict[PayloadKey, OriginalRecord | Claim]
ONE, TWO = (PayloadKey(sha256_digest(text), "default") for text in (b"one", b"two"))


def original(number: int, key: PayloadKey = ONE) -> OriginalRecord:
    """Return a record on disk; every number is another one."""
    url = f"http://origin.example/é?{number}"
    return OriginalRecord(key.digest, url, 1_700_000_000_123 + number, "weboid-1.warc.gz", number, 99)


class RedisProcess:
    """A process that uses the index in Redis; its heart is beaten by the test alone."""

    def __init__(self, url: str, folder: Path) -> None:
        self.payloads = RedisPayloadIndex(parse_redis_url(url, RedisUse.DEDUP), folder, heartbeat_s=3600)
        self.claim = self.payloads.claim
        self.settle = self.payloads.settle
        self.release = self.payloads.release
        self.add = self.payloads.add
        self.close = self.payloads.close

    def lapse(self) -> None:
        """Stall for so long that the heartbeat runs out."""
        self.payloads._server.call("DEL", self.payloads._heartbeat)

    def crash(self) -> None:
        """Die without a word; the heartbeat runs out."""
        self.lapse()
        self.payloads._over.set()
        self.payloads._pulse.join()
        self.payloads._server.close()
        self.payloads._presence._file.close()


class SqliteProcess:
    """A process that uses the collection's index: the lock is taken with the first claim."""

    def __init__(self, path: Path) -> None:
        self.index = SqliteCaptureIndex(path)
        self.index._db.execute("PRAGMA busy_timeout = 0")
        self.payloads = SqlitePayloadIndex(self.index)
        self._held = False

    def claim(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> Answers:
        """Whoever would wait for the lock finds everything busy."""
        if not self._held:
            try:
                self.index._db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return dict.fromkeys(keys, Claim.BUSY)
            self._held = True
        return self.payloads.claim(keys, also)

    def settle(self, originals: Mapping[PayloadKey, OriginalRecord]) -> frozenset[PayloadKey]:
        """Settle and commit: a batch is one transaction."""
        lost = self.payloads.settle(originals)
        self._end("COMMIT")
        return lost

    def release(self, keys: Collection[PayloadKey]) -> None:
        """Release after a failed batch: its transaction is rolled back."""
        self.payloads.release(keys)
        self._end("ROLLBACK")

    def add(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Recovery has a transaction of its own."""
        with self.index.transaction():
            self.payloads.add(originals)

    def crash(self) -> None:
        """Die without a word."""
        self._held = False
        self.index.close()

    def close(self) -> None:
        """End it."""
        self._end("ROLLBACK")
        self.payloads.close()
        self.index.close()

    def _end(self, how: str) -> None:
        if self._held:
            self.index._db.execute(how)
            self._held = False


Process = RedisProcess | SqliteProcess


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a Redis server for all tests here; each uses an index of its own in it."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def process(
    request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer
) -> Iterator[Callable[[], Process]]:
    """Build processes that share one index."""
    url = f"{redis_server.url}?index={secrets.token_hex(4)}"
    with ExitStack() as stack:

        def make() -> Process:
            made: Process
            if request.param == "redis":
                made = RedisProcess(url, tmp_path / "owners")
            else:
                made = SqliteProcess(tmp_path / "captures.sqlite")
            stack.callback(made.close)
            return made

        yield make


def test_of_two_processes_one_gets_the_claim(process: Callable[[], Process]) -> None:
    """The other hears that the payload is busy, and never waits."""
    first, second = process(), process()

    assert first.claim([ONE]) == {ONE: Claim.YOURS}
    assert second.claim([ONE]) == {ONE: Claim.BUSY}
    assert first.claim([ONE]) == {ONE: Claim.YOURS}


def test_a_settled_payload_is_everybodys_original(process: Callable[[], Process]) -> None:
    """Each field comes back as it was given; what is not claimed stays unknown."""
    first, second = process(), process()
    first.claim([ONE])

    assert first.settle({ONE: original(1)}) == frozenset()
    assert second.claim([ONE, TWO]) == {ONE: original(1), TWO: Claim.YOURS}


def test_an_original_keeps_the_spelling_of_its_record(process: Callable[[], Process]) -> None:
    """A chunked response's own digest is another than the payload's (decision 005)."""
    spelled = OriginalRecord("sha256:" + "0" * 64, "http://a.example/", 1, "a.warc.gz", 1 << 40, 1 << 33)
    first = process()
    first.claim([ONE])
    first.settle({ONE: spelled})

    assert process().claim([ONE]) == {ONE: spelled}


def test_buckets_are_strangers(process: Callable[[], Process]) -> None:
    """A payload that one bucket has is new to another, whatever the bucket's name."""
    names = ["default", "def", "a:b", "a", "", "b}c{", "ü", "default\x00"]
    keys = [PayloadKey(ONE.digest, name) for name in names]
    first = process()
    first.claim(keys[:1])
    first.settle({keys[0]: original(0)})
    answers = first.claim(keys)
    first.settle({key: original(n) for n, key in enumerate(keys) if n > 0})

    assert answers == {keys[0]: original(0)} | dict.fromkeys(keys[1:], Claim.YOURS)
    assert process().claim(keys) == {key: original(n) for n, key in enumerate(keys)}


def test_read_only_buckets_lend_their_originals(process: Callable[[], Process]) -> None:
    """The own bucket comes first, then they in their order; nothing is claimed in them."""
    first = process()
    mine, shared, old = (PayloadKey(ONE.digest, name) for name in ("mine", "shared", "old"))
    first.claim([old])
    first.settle({old: original(1)})

    assert first.claim([mine], ["shared", "old"]) == {mine: original(1)}
    first.claim([shared])
    first.settle({shared: original(2)})
    assert first.claim([mine], ["shared", "old"]) == {mine: original(2)}
    assert first.claim([mine], []) == {mine: Claim.YOURS}
    first.settle({mine: original(3)})
    assert first.claim([mine], ["shared", "old"]) == {mine: original(3)}


def test_find_claims_nothing(process: Callable[[], Process]) -> None:
    """It tells what is known, in the own bucket and in those that are read only."""
    first, second = process(), process()
    first.claim([ONE])
    first.settle({ONE: original(1)})
    elsewhere = PayloadKey(ONE.digest, "elsewhere")

    assert second.payloads.find([ONE, TWO, elsewhere]) == {ONE: original(1)}
    assert second.payloads.find([elsewhere], ["x", "default"]) == {elsewhere: original(1)}
    assert first.claim([TWO]) == {TWO: Claim.YOURS}


def test_a_released_payload_is_free(process: Callable[[], Process]) -> None:
    """A batch that failed leaves no trace."""
    first, second = process(), process()
    first.claim([ONE, TWO])
    first.release([ONE, TWO])

    assert second.claim([ONE]) == {ONE: Claim.YOURS}


def test_a_crash_between_claim_and_settle_frees_the_claim(process: Callable[[], Process]) -> None:
    """No digest ever refers to a record that was not written."""
    first, second = process(), process()
    first.claim([ONE])
    first.crash()

    assert second.claim([ONE]) == {ONE: Claim.YOURS}


def test_what_is_added_does_not_replace_what_is_known(process: Callable[[], Process]) -> None:
    """Recovery may come late: the first original stays."""
    first = process()
    first.claim([ONE])
    first.settle({ONE: original(1)})
    first.add({ONE: original(2), TWO: original(3, TWO)})

    assert process().claim([ONE, TWO]) == {ONE: original(1), TWO: original(3, TWO)}


def test_a_thousand_payloads_are_one_batch(process: Callable[[], Process]) -> None:
    """No limit of the engine shows."""
    keys = [PayloadKey(sha256_digest(str(n).encode()), "default") for n in range(1500)]
    first = process()

    assert set(first.claim(keys, ["other", "third"]).values()) == {Claim.YOURS}
    assert first.settle({key: original(n) for n, key in enumerate(keys)}) == frozenset()
    assert process().claim(keys) == {key: original(n) for n, key in enumerate(keys)}


def test_an_empty_batch_asks_for_nothing(process: Callable[[], Process]) -> None:
    """Every verb takes it."""
    first = process()

    assert first.claim([]) == {}
    assert first.settle({}) == frozenset()
    first.add({})
    first.payloads.wait([], 60)
    first.release([])


PROCESSES = 2
X, Y = sha256_digest(b"x"), sha256_digest(b"y")
KEYS = [PayloadKey(X, "a"), PayloadKey(X, "b"), PayloadKey(Y, "a")]


class RandomHistories(RuleBasedStateMachine):
    """Random histories of two processes beside a plain model.

    The model: `known` is what may be referred to, `claims` who holds what, `lapsed` whose heartbeat
    ran out, `believed` what each process thinks it holds.
    """

    make: Callable[[], Process]
    reset: Callable[[], None]

    @initialize()
    def begin(self) -> None:
        """Begin with an empty index and without claims."""
        self.reset()
        self.processes = [self.make() for _ in range(PROCESSES)]
        self.known: dict[PayloadKey, OriginalRecord] = {}
        self.claims: dict[PayloadKey, int] = {}
        self.believed: list[set[PayloadKey]] = [set() for _ in range(PROCESSES)]
        self.lapsed: set[int] = set()
        self.on_disk: set[OriginalRecord] = set()
        self.number = 0

    def teardown(self) -> None:
        """Close what lives."""
        for process in self.processes if hasattr(self, "processes") else ():
            process.close()

    @property
    def locked(self) -> bool:
        """Return whether one lock covers all payloads, as in SQLite."""
        return isinstance(self.processes[0], SqliteProcess)

    who = st.integers(0, PROCESSES - 1)

    @rule(who=who, keys=st.sets(st.sampled_from(KEYS), min_size=1), also=st.booleans())
    def claim(self, who: int, keys: set[PayloadKey], also: bool) -> None:
        """Claim a payload; the answer is the model's."""
        others = ["b"] if also else []
        answers = self.processes[who].claim(keys, others)
        elsewhere = any(held for n, held in enumerate(self.believed) if n != who)
        if self.locked and elsewhere:
            assert answers == dict.fromkeys(keys, Claim.BUSY)
            return
        self.lapsed.discard(who)
        expected: Answers = {}
        for key in keys:
            places = [key, *(PayloadKey(key.digest, bucket) for bucket in others)]
            record = next((self.known[each] for each in places if each in self.known), None)
            holder = self.claims.get(key, who)
            if record is not None:
                expected[key] = record
                assert record in self.on_disk
            elif holder == who or holder in self.lapsed:
                expected[key] = Claim.YOURS
                self.claims[key] = who
                self.believed[who].add(key)
            else:
                expected[key] = Claim.BUSY
        assert answers == expected
        if self.locked and not self.believed[who]:
            self.processes[who].release(keys)  # the transaction of a batch without a new payload

    @precondition(lambda self: any(self.believed))
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """Settle all or nothing; the lost ones are returned, and the rest of the batch is given up."""
        who = data.draw(st.sampled_from([n for n, held in enumerate(self.believed) if held]))
        mine = data.draw(st.sets(st.sampled_from(sorted(self.believed[who])), min_size=1))
        originals = {}
        for key in sorted(mine):
            self.number += 1
            originals[key] = original(self.number, key)
            self.on_disk.add(originals[key])
        lost = self.processes[who].settle(originals)
        self.lapsed.discard(who)
        taken = {k for k in mine if k in self.known or not self._free(k, who)}
        assert lost == taken
        if not lost:
            self.known |= originals
            for key in mine:
                self.claims.pop(key, None)
        self._give_up(who)

    @rule(who=who)
    def release(self, who: int) -> None:
        """Release the claims of a failed batch."""
        self._give_up(who)

    @rule(who=who)
    def crash(self, who: int) -> None:
        """Killed between claim and settle; another process begins in its place."""
        self.processes[who].crash()
        self.claims = {key: holder for key, holder in self.claims.items() if holder != who}
        self.believed[who] = set()
        self.lapsed.discard(who)
        self.processes[who] = self.make()

    @precondition(lambda self: not self.locked and any(self.believed))
    @rule(data=st.data())
    def lapse(self, data: st.DataObject) -> None:
        """Let claims lapse by a stall longer than the heartbeat; the process does not notice."""
        who = data.draw(st.sampled_from([n for n, held in enumerate(self.believed) if held]))
        process = self.processes[who]
        assert isinstance(process, RedisProcess)
        process.lapse()
        self.lapsed.add(who)

    @precondition(lambda self: not self.locked)
    @rule()
    def forget(self) -> None:
        """Restart Redis without its data: payloads are written again, no more than that."""
        self.reset()
        self.known, self.claims = {}, {}
        self.lapsed = set(range(PROCESSES))

    @precondition(lambda self: not self.locked or not any(self.believed))
    @rule(who=who, key=st.sampled_from(KEYS))
    def recover(self, who: int, key: PayloadKey) -> None:
        """Add a record that is found in a WARC after a crash."""
        self.number += 1
        record = original(self.number, key)
        self.on_disk.add(record)
        self.processes[who].add({key: record})
        if key not in self.known and self._free(key, who):
            self.known[key] = record
            self.claims.pop(key, None)

    @invariant()
    def what_is_known_is_told(self) -> None:
        """Reading agrees with the model at every moment."""
        if hasattr(self, "processes"):
            assert self.processes[0].payloads.find(KEYS) == self.known

    def _free(self, key: PayloadKey, who: int) -> bool:
        holder = self.claims.get(key, who)
        return holder == who or holder in self.lapsed

    def _give_up(self, who: int) -> None:
        self.processes[who].release(self.believed[who])
        self.claims = {
            key: holder for key, holder in self.claims.items() if holder != who or key not in self.believed[who]
        }
        self.believed[who] = set()


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
def test_no_history_makes_two_originals_or_a_digest_of_nothing(backend: str, redis_server: RedisServer) -> None:
    """Claims, settles, releases, crashes, lapses and lost data, in any order."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        client = stack.enter_context(redis_server.client())
        url = f"{redis_server.url}?index=histories"
        path = folder / "captures.sqlite"

        def reset() -> None:
            if backend == "redis":
                for key in client.scan_iter("{weboid:histories}*"):
                    client.delete(key)
            else:
                for old in folder.glob("captures*"):
                    old.unlink()

        def make() -> Process:
            if backend == "redis":
                return RedisProcess(url, folder / "owners")
            return SqliteProcess(path)

        members: dict[str, Any] = {"make": staticmethod(make), "reset": staticmethod(reset)}
        machine = type("RandomHistories", (RandomHistories,), members)
        run_state_machine_as_test(machine, settings=settings(max_examples=examples(25), stateful_step_count=25))
