"""Save Page Now 2, as it answers: what is a copy, what is asked for again, and what never is."""

import json

import pytest

from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_client import ArchiveClient, ArchiveFailure, ArchiveUnavailableError
from links.archives.save_page_now import POLL_S, SESSION_TRIES, TRANSIENT, SaveOutcome, SavePageNow
from tests.support.archive_world import Answer, World

A = "http://a.test/"
JOB = "spn2-dea4b01e7c4ee7e3a3f2f3a7a3b1d2c4e5f60718"
PENDING = {"status": "pending", "job_id": JOB, "resources": []}
DONE = {
    "status": "success",
    "job_id": JOB,
    "original_url": "http://a.test/",
    "timestamp": "20261121120105",
    "http_status": 200,
    "duration_sec": 6.203,
    "resources": ["http://a.test/", "http://a.test/style.css"],
    "outlinks": {},
}


def _error(code: str, message: str = "It did not work.") -> dict[str, object]:
    return {"status": "error", "status_ext": f"error:{code}", "exception": "[…]", "message": message}


def _answers(*told: object) -> list[Answer]:
    return [Answer(200, json.dumps(each), {"Content-Type": "application/json"}) for each in told]


@pytest.fixture
def service(asker: ArchiveClient, world: World) -> SavePageNow:
    """Save Page Now with a key."""
    return SavePageNow(asker, "key:secret", monotonic=world.clock.monotonic)


def _script(world: World, submitted: list[object], *states: object) -> None:
    world.answers["web.archive.org/save"] = _answers(*submitted)
    world.answers[f"web.archive.org/save/status/{JOB}"] = _answers(*states)


async def test_a_page_is_taken(world: World, service: SavePageNow) -> None:
    """It is asked with the account's key, waited for, and its copy is at the Wayback Machine."""
    _script(
        world,
        [{"url": A, "job_id": JOB, "message": "The same snapshot had been made 2 minutes ago."}],
        PENDING,
        PENDING,
        DONE,
    )

    saved = await service.take(A)

    assert saved.outcome is SaveOutcome.SAVED
    assert saved.copy == ArchiveMemento(
        "wayback", "https://web.archive.org/web/20261121120105/http://a.test/", "20261121120105", 200
    )
    assert [each.method for each in world.asked] == ["POST", "GET", "GET", "GET"]
    assert {each.headers["Authorization"] for each in world.asked} == {"LOW key:secret"}
    assert "url=http%3A%2F%2Fa.test%2F" in world.asked[0].body
    assert world.clock.slept == [POLL_S] * 3


@pytest.mark.parametrize("code", sorted(TRANSIENT - {"user-session-limit"}))
@pytest.mark.parametrize("when", ["asked", "waited"])
async def test_what_passes_is_asked_for_again(world: World, service: SavePageNow, code: str, when: str) -> None:
    """Their own trouble, and limits of the day; also when it comes with status 200 and without a job."""
    _script(world, [_error(code) if when == "asked" else {"job_id": JOB}], _error(code))

    saved = await service.take(A)

    assert (saved.outcome, saved.copy) == (SaveOutcome.LATER, None)
    assert saved.reason.startswith(code)


@pytest.mark.parametrize(
    "code", ["not-found", "no-access", "blocked-url", "invalid-host-resolution", "filesize-limit", "something-new"]
)
async def test_what_does_not_pass_is_not(world: World, service: SavePageNow, code: str) -> None:
    """The page's own trouble, and codes that nobody knows."""
    _script(world, [{"job_id": JOB}], PENDING, _error(code))

    assert (await service.take(A)).outcome is SaveOutcome.NEVER


async def test_a_full_line_is_waited_for(world: World, service: SavePageNow) -> None:
    """So many captures at a time and no more: it is tried again after two seconds."""
    _script(world, [_error("user-session-limit"), _error("user-session-limit"), {"job_id": JOB}], DONE)

    assert (await service.take(A)).outcome is SaveOutcome.SAVED
    assert len(world.asked) == 4


async def test_the_wait_in_a_full_line_ends(world: World, service: SavePageNow) -> None:
    """After so many tries it is for later."""
    _script(world, [_error("user-session-limit")])

    assert (await service.take(A)).outcome is SaveOutcome.LATER
    assert len(world.asked) == SESSION_TRIES


async def test_a_job_that_never_ends_is_left(world: World, service: SavePageNow) -> None:
    """After four minutes it is for later."""
    _script(world, [{"job_id": JOB}], PENDING)

    assert (await service.take(A)).outcome is SaveOutcome.LATER
    assert 100 < len(world.asked) < 130


@pytest.mark.parametrize(
    ("done", "outcome"),
    [
        ({**DONE, "original_url": "http://evil.test/"}, SaveOutcome.NEVER),
        ({**DONE, "original_url": None}, SaveOutcome.LATER),
        ({**DONE, "timestamp": "soon"}, SaveOutcome.LATER),
        ({"status": "maybe"}, SaveOutcome.LATER),
        ({}, SaveOutcome.LATER),
        ({"status": "error"}, SaveOutcome.NEVER),
    ],
)
async def test_a_capture_of_another_page_is_none(
    world: World, service: SavePageNow, done: object, outcome: SaveOutcome
) -> None:
    """What was archived must be what was asked for, and say when."""
    _script(world, [{"job_id": JOB}], done)

    saved = await service.take(A)

    assert (saved.outcome, saved.copy) == (outcome, None)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (Answer(401, '{"message":"You need to be logged in to use Save Page Now."}'), ArchiveFailure.REFUSED),
        (Answer(429, "", {"Retry-After": "60"}), ArchiveFailure.BUSY),
        (Answer(520, ""), ArchiveFailure.UNREACHABLE),
        (Answer(200, "<html>"), ArchiveFailure.NONSENSE),
    ],
    ids=["key", "busy", "down", "html"],
)
async def test_no_answer_is_told(world: World, service: SavePageNow, answer: Answer, trouble: ArchiveFailure) -> None:
    """A wrong key, a service that is busy, down, or answers something else; the key is in no error."""
    world.answers["web.archive.org/save"] = answer

    with pytest.raises(ArchiveUnavailableError) as caught:
        await service.take(A)

    assert caught.value.failure is trouble
    assert "secret" not in str(caught.value)
