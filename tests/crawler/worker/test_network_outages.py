"""A dead host and a dead network."""

import asyncio

import pytest

from core.clock import SystemClock
from core.page_manifest import PageInfo, VisitOutcome
from crawler.worker import backpressure
from crawler.worker.backpressure import NetworkAwayError, NetworkMonitor
from net.backoff import WaitEnded, WaitStarted


class NetworkSwitch:
    """Something that can be pulled: hosts are reached while it is in."""

    def __init__(self) -> None:
        self.pulled = False
        self.requests: list[tuple[str, int]] = []
        self.events: list[WaitStarted | WaitEnded] = []
        self.network = NetworkMonitor(self.reach, SystemClock(), self.events.append)

    async def reach(self, host: str, port: int) -> bool:
        """Return whether the network is connected, and record the attempt."""
        self.requests.append((host, port))
        return not self.pulled


@pytest.fixture
def cable(monkeypatch: pytest.MonkeyPatch) -> NetworkSwitch:
    monkeypatch.setattr(backpressure, "BELIEVED_S", 0.0)
    monkeypatch.setattr(backpressure, "NETWORK_POLL_S", 0.001)
    return NetworkSwitch()


def page(url: str, *, reason: str = "") -> PageInfo:
    outcome = VisitOutcome.FAILED if reason else VisitOutcome.COMPLETE
    status = 502 if reason else 200
    moment = "2026-11-21T00:00:00.000Z"
    return PageInfo("id", url, url, moment, outcome, reason=reason, status=status)


DEAD = page("https://dead.test/", reason="dns: dead.test does not resolve.")


async def test_a_host_that_alone_is_unreachable_is_to_blame(cable: NetworkSwitch) -> None:
    """One that answered before is still there."""
    await cable.network.judge(page("https://good.test:8443/a"))
    await cable.network.judge(DEAD)

    assert cable.requests == [("good.test", 8443)]


async def test_nobody_is_to_blame_when_no_host_is_reached(cable: NetworkSwitch) -> None:
    """The visit is not to count."""
    await cable.network.judge(page("http://good.test/a"))
    cable.pulled = True

    with pytest.raises(NetworkAwayError):
        await cable.network.judge(DEAD)
    assert cable.requests == [("good.test", 80)]


async def test_failures_count_where_nothing_ever_answered(cable: NetworkSwitch) -> None:
    """A list of dead hosts comes to its end."""
    cable.pulled = True
    await cable.network.judge(DEAD)

    assert cable.requests == []


async def test_an_answer_that_failed_otherwise_is_the_hosts_own(cable: NetworkSwitch) -> None:
    """A reset or an error status says that the network is there."""
    await cable.network.judge(page("https://good.test/"))
    cable.pulled = True
    await cable.network.judge(page("https://a.test/", reason="net::ERR_EMPTY_RESPONSE"))

    assert cable.requests == []


async def test_work_waits_for_the_network_and_goes_on(cable: NetworkSwitch) -> None:
    """Until a host that answered can be reached; both are told once, however many wait."""
    await cable.network.judge(page("https://good.test/"))
    cable.pulled = True
    with pytest.raises(NetworkAwayError):
        await cable.network.judge(DEAD)
    never = asyncio.Event()
    waiting = [asyncio.create_task(cable.network.wait(never)) for _ in range(3)]
    while len(cable.requests) < 5:
        await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    cable.pulled = False
    await asyncio.gather(*waiting)

    assert [type(each) for each in cable.events] == [WaitStarted, WaitEnded]


async def test_who_waits_for_the_network_can_be_stopped(cable: NetworkSwitch) -> None:
    """At once."""
    await cable.network.judge(page("https://good.test/"))
    cable.pulled = True
    with pytest.raises(NetworkAwayError):
        await cable.network.judge(DEAD)
    stopping = asyncio.Event()
    waiting = asyncio.create_task(cable.network.wait(stopping))
    await asyncio.sleep(0)
    stopping.set()
    await waiting

    assert [type(each) for each in cable.events] == [WaitStarted]
