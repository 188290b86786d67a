"""Parts of a batch that wait for another machine, and for how long."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import Settings
from core.digests import sha256_digest
from core.layout import Layout
from proxy.archivist_jobs import Job, PendingArtifact, PostponedJobs, WriteJob, user_agent_of
from proxy.exchange import RecordedExchange
from proxy.limits import BodySpool, SpoolSpace
from proxy.request_log import RequestLogEntry
from proxy.visit_registry import VisitSession
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, WarcioRecord, check, ok, records
from warc.dedup.payloads import Claim, OriginalRecord, PayloadKey

ARTIFACT = PendingArtifact(
    "urn:text:http://a.example/", "text/plain", datetime.now(UTC), "", VisitSession("p", "b", limit_requests=1), b""
)
KEYS = [PayloadKey(sha256_digest(name.encode()), "default") for name in "abc"]


@pytest.fixture
def space(tmp_path: Any) -> SpoolSpace:
    return SpoolSpace(tmp_path)


def recorded(space: SpoolSpace) -> RecordedExchange:
    """Return an exchange of which only the identity matters."""
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
    assert put_off.keys == {KEYS[0]}
    assert put_off.take() == [busy]
    assert not put_off


def test_whoever_waits_for_all_waits_behind_what_is_put_off(space: SpoolSpace) -> None:
    """A barrier before it goes on, and so do artifacts."""
    busy, before, behind, write = recorded(space), WriteJob(()), WriteJob(()), WriteJob((ARTIFACT,))
    put_off = PostponedJobs()
    batch: list[Job] = [before, busy, behind, write]
    done = put_off.sort(batch, {id(busy): KEYS[0]}, {KEYS[0]: Claim.BUSY}, now=1.0)
    put_off.add(done.put_off)
    later = put_off.sort([latest := WriteJob(())], {}, {}, now=1.0)

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
        if kind in ("barrier", "write"):
            job = WriteJob((ARTIFACT,) if kind == "write" else ())
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
    assert all(places[id(job)] < first for job in done.ready if isinstance(job, WriteJob) and not job.artifacts)


SITE = "http://origin.example"
OPERATOR = "https://library.example/archive"


def fields(record: WarcioRecord) -> dict[str, str]:
    """Return the fields of a `warcinfo` record."""
    return dict(line.split(": ", 1) for line in record.payload.decode().splitlines())


async def fetch(proxy: ProxyInProcess, *paths: str, headers: str = "") -> None:
    """Visit, fetch the paths, seal."""
    async with proxy.client.visit("p", bucket="default") as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            for path in paths:
                await asyncio.to_thread(browser.get, SITE + path, headers=headers)
            await visit.seal(grace_s=5)


@pytest.mark.proxy
async def test_warcinfo_names_operator_user_agent_and_robots_rule(
    settings: Settings, origin: ScriptedOrigin, layout: Layout, tmp_path: Path
) -> None:
    """Beside software and format (U11)."""
    operator_settings = replace(
        settings,
        links=replace(settings.links, contact=OPERATOR),
        policy=replace(settings.policy, robots="obey"),
        proxy=replace(
            settings.proxy, title="Handbooks", description="All\r\nof them", operator="The Library", profile="news"
        ),
    )
    origin.answers["/"] = ok(b"<p>page")
    proxy = ProxyInProcess(layout, operator_settings, "proxy", tmp_path)
    try:
        await fetch(proxy, "/", headers="User-Agent: Mozilla/5.0 (Test)\r\n")
    finally:
        proxy.stop()
    check(layout)

    (info,) = [record for record in records(layout) if record.kind == "warcinfo"]
    warcinfo = fields(info)
    assert (warcinfo["operator"], warcinfo["contact"], warcinfo["profile"]) == ("The Library", OPERATOR, "news")
    assert warcinfo["software"].startswith("Weboid ")
    assert warcinfo["robots"] == "obey"
    assert (warcinfo["isPartOf"], warcinfo["description"]) == ("Handbooks", "All of them")
    assert warcinfo["http-header-user-agent"] == "Mozilla/5.0 (Test)"
    assert warcinfo["format"] == "WARC File Format 1.1"
    assert warcinfo["conformsTo"].startswith("http://iipc.github.io/warc-specifications/")


@pytest.mark.parametrize(
    ("request_", "agent"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nuser-agent:  A  B\r\n\r\n", "A B"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nUser-Agent: body", ""),
        (b"GET / HTTP/1.1\r\nUser-Agent: " + b"x" * 5000 + b"\r\n\r\n", "x" * 1000),
        (b"", ""),
    ],
)
def test_user_agent_is_read_from_the_head_alone(request_: bytes, agent: str) -> None:
    """On one line, and no longer than anybody would read."""
    assert user_agent_of(request_) == agent


@pytest.mark.proxy
async def test_revisit_names_the_record_it_refers_to(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """In the same batch and in a later one; not where another process wrote the original."""
    origin.answers["/one"] = origin.answers["/two"] = ok(b"the same payload")
    first = start("first")
    await fetch(first, "/one", "/two")
    await fetch(first, "/one")
    first.stop()
    second = start("second")
    await fetch(second, "/two")
    second.stop()
    check(layout)

    written = records(layout)
    (response,) = [record for record in written if record.kind == "response"]
    named = [each.headers.get("WARC-Refers-To") for each in written if each.kind == "revisit"]
    assert sorted(named, key=str) == [*[response.headers["WARC-Record-ID"]] * 2, None]


@pytest.mark.proxy
async def test_a_304_is_a_revisit_of_what_it_confirms(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """By the profile server-not-modified (WARC/1.1, 6.7.3); of an unknown copy it refers to nothing."""
    proxy = start("one")
    not_modified = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    async with proxy.client.visit("p", bucket="default") as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            origin.answers["/a"] = ok(b"the payload")
            await asyncio.to_thread(browser.get, f"{SITE}/a")
            origin.answers["/a"] = origin.answers["/b"] = not_modified
            await asyncio.to_thread(browser.get, f"{SITE}/a", headers='If-None-Match: "1"\r\n')
            await asyncio.to_thread(browser.get, f"{SITE}/b", headers='If-None-Match: "2"\r\n')
            entries = await visit.seal(grace_s=5)
    check(layout)

    response, known, unknown = [each for each in records(layout) if each.kind in ("response", "revisit")]
    assert [each.kept for each in entries] == ["response", "revisit", "revisit"]
    assert (response.kind, known.kind, unknown.kind) == ("response", "revisit", "revisit")
    for each in (known, unknown):
        assert each.headers["WARC-Profile"].endswith("/revisit/server-not-modified")
        assert "WARC-Truncated" not in each.headers
    assert known.headers["WARC-Refers-To"] == response.headers["WARC-Record-ID"]
    assert known.headers["WARC-Refers-To-Target-URI"] == f"{SITE}/a"
    assert known.headers["WARC-Refers-To-Date"] == response.headers["WARC-Date"]
    assert known.headers["WARC-Payload-Digest"] == response.headers["WARC-Payload-Digest"]
    assert not [name for name in unknown.headers if name.startswith("WARC-Refers-To")]
