"""What of a batch waits for another machine, and for how long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.digests import sha256_digest
from proxy.archivist_jobs import FlushBarrier, Job, PostponedJobs, WriteJob
from proxy.exchange import RecordedExchange
from proxy.limits import BodySpool, SpoolSpace
from proxy.request_log import RequestLogEntry
from warc.dedup.payloads import Claim, OriginalRecord, PayloadKey

KEYS = [PayloadKey(sha256_digest(name.encode()), "default") for name in "abc"]


@pytest.fixture
def space(tmp_path: Any) -> SpoolSpace:
    """Where bodies lie."""
    return SpoolSpace(tmp_path)


def recorded(space: SpoolSpace) -> RecordedExchange:
    """An exchange of which only the identity matters."""
    entry = RequestLogEntry(url="http://a.example/", method="GET", started_ms=0)
    given: dict[str, Any] = dict.fromkeys(RecordedExchange.__slots__)
    return RecordedExchange(**given | {"entry": entry, "spool": BodySpool(space)})


def test_a_busy_payload_is_put_off_and_others_are_not(space: SpoolSpace) -> None:
    """Records without a payload to share are never put off."""
    busy, new, bare = recorded(space), recorded(space), recorded(space)
    put_off = PostponedJobs()
    keys = {id(busy): KEYS[0], id(new): KEYS[1], id(bare): None}
    answers = {KEYS[0]: Claim.BUSY, KEYS[1]: Claim.YOURS}
    done = put_off.sort([busy, new, bare], keys, answers, now=1.0)
    put_off.add(done.put_off)

    assert (done.ready, done.put_off, done.overdue) == ([new, bare], [busy], [])
    assert put_off.keys == [KEYS[0]]
    assert put_off.take() == [busy]
    assert not put_off


def test_whoever_waits_for_all_waits_behind_what_is_put_off(space: SpoolSpace) -> None:
    """A barrier before it goes on, and so do artifacts."""
    busy, before, behind, write = recorded(space), FlushBarrier(), FlushBarrier(), WriteJob(())
    put_off = PostponedJobs()
    batch: list[Job] = [before, busy, behind, write]
    done = put_off.sort(batch, {id(busy): KEYS[0]}, {KEYS[0]: Claim.BUSY}, now=1.0)
    put_off.add(done.put_off)
    later = put_off.sort([latest := FlushBarrier()], {}, {}, now=1.0)

    assert (done.ready, done.put_off) == ([before, write], [busy, behind])
    assert later.put_off == [latest]


def test_what_was_put_off_for_too_long_is_overdue(space: SpoolSpace) -> None:
    """The time counts from the first batch in which the payload was busy."""
    job = recorded(space)
    put_off = PostponedJobs(limit_s=60.0)

    def tried(now: float) -> tuple[bool, bool]:
        batch: list[Job] = put_off.take() or [job]
        done = put_off.sort(batch, {id(job): KEYS[0]}, {KEYS[0]: Claim.BUSY}, now=now)
        put_off.add(done.put_off)
        return job in done.put_off, job in done.overdue

    assert tried(0.0) == (True, False)
    assert tried(60.0) == (True, False)
    assert tried(60.5) == (False, True)
    assert "over 60 s" in str(put_off.too_late())


def test_the_time_starts_again_when_the_payload_was_free(space: SpoolSpace) -> None:
    """A machine that gave up and another that began are two."""
    job = recorded(space)
    put_off = PostponedJobs(limit_s=60.0)
    keys = {id(job): KEYS[0]}
    put_off.sort([job], keys, {KEYS[0]: Claim.BUSY}, now=0.0)
    put_off.take()
    put_off.sort([job], keys, {KEYS[0]: Claim.YOURS}, now=50.0)
    done = put_off.sort([job], keys, {KEYS[0]: Claim.BUSY}, now=100.0)

    assert done.put_off == [job]


ANSWERS = st.sampled_from([Claim.YOURS, Claim.BUSY, OriginalRecord("d", "u", 1, "f", 2, 3)])


@given(
    st.lists(st.sampled_from(["barrier", "write", 0, 1, 2, None]), max_size=12), st.tuples(ANSWERS, ANSWERS, ANSWERS)
)
def test_no_job_is_lost_doubled_or_overtaken(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[Any], given_answers: tuple[OriginalRecord | Claim, ...]
) -> None:
    """Each job is in one of the lists, in order; no barrier overtakes a record."""
    space = SpoolSpace(tmp_path_factory.getbasetemp())
    batch: list[Job] = []
    keys: dict[int, PayloadKey | None] = {}
    for kind in kinds:
        job: Job
        if kind == "barrier":
            job = FlushBarrier()
        elif kind == "write":
            job = WriteJob(())
        else:
            job = recorded(space)
            keys[id(job)] = None if kind is None else KEYS[kind]
        batch.append(job)
    done = PostponedJobs().sort(batch, keys, dict(zip(KEYS, given_answers, strict=True)), now=0.0)
    places = {id(job): place for place, job in enumerate(batch)}

    assert sorted(places[id(job)] for job in (*done.ready, *done.put_off)) == list(range(len(batch)))
    for jobs in (done.ready, done.put_off):
        assert [places[id(job)] for job in jobs] == sorted(places[id(job)] for job in jobs)
    first = min((places[id(job)] for job in done.put_off), default=len(batch))
    assert all(places[id(job)] < first for job in done.ready if isinstance(job, FlushBarrier))
