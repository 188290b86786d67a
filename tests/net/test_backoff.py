"""Stores that are away for a while."""

import pytest

from core.clock import SystemClock
from core.errors import TransientError, UnavailableError
from net import backoff
from net.backoff import StoreRetry, WaitEnded, WaitStarted


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "STORE_FIRST_PAUSE_S", 0.001)


async def test_a_store_that_is_away_is_asked_until_it_answers() -> None:
    """It is told once that it is away, and once that it is back."""
    events: list[WaitStarted | WaitEnded] = []
    failures = [TransientError("Redis does not answer."), TransientError("Nor now.")]

    def verb() -> str:
        if failures:
            raise failures.pop(0)
        return "answer"

    asking = StoreRetry(SystemClock(), events.append)

    assert await asking.ask(verb) == "answer"
    assert [type(each) for each in events] == [WaitStarted, WaitEnded]
    assert events[0] == WaitStarted("store", "Redis does not answer.")


async def test_a_store_that_cannot_be_used_is_not_waited_for() -> None:
    """A wrong password does not mend itself."""

    def verb() -> None:
        raise UnavailableError("The password is wrong.")

    with pytest.raises(UnavailableError):
        await StoreRetry(SystemClock(), lambda _: None).ask(verb)
