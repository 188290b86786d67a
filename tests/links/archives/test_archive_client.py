"""Requests to archives: with delays, within limits, and nowhere that must not be requested."""

import asyncio
import gzip

import pytest

from core.config.settings import EgressSettings
from links.archives.archive_client import (
    LONGEST_PAUSE_S,
    ArchiveClient,
    ArchiveFailure,
    ArchiveRequest,
    ArchiveUnavailableError,
    NoReplyError,
)
from tests.support.archive_server import ArchiveServer, ServiceAnswer, fetcher, running_archive_server

PLACE = "https://x.example/a"


async def test_a_service_that_asks_to_be_left_alone_is(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """Retry-After is obeyed: until then nothing is sent to that service, and others are asked."""
    archive_server.put(PLACE, "", 429, Retry_After="120")
    archive_server.put("https://y.example/a", "fine")
    with pytest.raises(ArchiveUnavailableError) as caught:
        await client.ask("x", ArchiveRequest(PLACE))
    assert (caught.value.failure, caught.value.retry_s) == (ArchiveFailure.BUSY, 120)
    archive_server.put(PLACE, "fine")

    archive_server.clock.seconds += 119
    with pytest.raises(ArchiveUnavailableError):
        await client.ask("x", ArchiveRequest(PLACE))
    assert (await client.ask("y", ArchiveRequest("https://y.example/a"))).text == "fine"
    assert archive_server.places == ["x.example/a", "y.example/a"]
    archive_server.clock.seconds += 2

    assert (await client.ask("x", ArchiveRequest(PLACE))).text == "fine"


async def test_pauses_double_and_end_with_an_answer(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """A service that keeps failing is asked ever more seldom, up to a limit."""
    archive_server.put(PLACE, "", 500)
    pauses = []
    for _ in range(10):
        with pytest.raises(ArchiveUnavailableError) as caught:
            await client.ask("x", ArchiveRequest(PLACE))
        pauses.append(caught.value.retry_s)
        archive_server.clock.seconds += caught.value.retry_s
    assert pauses[:3] == [30, 60, 120]
    assert pauses[-1] == LONGEST_PAUSE_S
    archive_server.put(PLACE, "fine")
    await client.ask("x", ArchiveRequest(PLACE))
    archive_server.put(PLACE, "", 500)

    with pytest.raises(ArchiveUnavailableError) as caught:
        await client.ask("x", ArchiveRequest(PLACE))

    assert caught.value.retry_s == 30


async def test_one_question_at_a_time_with_a_pause(archive_server: ArchiveServer) -> None:
    """Questions to one service wait for each other."""
    archive_server.put(PLACE, "fine")
    async with fetcher() as fetch:
        client = archive_server.client(fetch, gap_s=5.0)

        await asyncio.gather(*(client.ask("x", ArchiveRequest(PLACE)) for _ in range(3)))

    assert archive_server.clock.slept == [5.0, 5.0]


async def test_a_failed_capture_is_no_trouble_of_the_archive(
    archive_server: ArchiveServer, client: ArchiveClient
) -> None:
    """A copy of an error 503 has that status, and says when it was taken (RFC 7089, 4.5)."""
    archive_server.put(PLACE, "", 500, Memento_Datetime="Tue, 18 Sep 2012 09:26:00 GMT")

    assert (await client.ask("x", ArchiveRequest(PLACE))).status == 500


async def test_who_does_not_answer_is_told(archive_server: ArchiveServer) -> None:
    """Nobody listens, or nothing comes within the limit."""
    silent = asyncio.Event()
    archive_server.answers["x.example/a"] = ServiceAnswer(delay=silent)
    async with fetcher(limit_s=0.3) as fetch:
        client = archive_server.client(fetch)
        with pytest.raises(ArchiveUnavailableError) as caught:
            await client.ask("x", ArchiveRequest(PLACE))
        assert caught.value.failure is ArchiveFailure.UNREACHABLE
        async with running_archive_server() as other:
            gone = other.origin
        with pytest.raises(NoReplyError) as refused:
            await fetch(ArchiveRequest(f"{gone}/a"))
        assert refused.value.failure is ArchiveFailure.UNREACHABLE
    silent.set()


async def test_a_bomb_ends_at_the_limit(archive_server: ArchiveServer) -> None:
    """A body that unpacks to more than the limit is no answer."""
    archive_server.answers["x.example/a"] = ServiceAnswer(
        200, gzip.compress(bytes(50_000_000)), {"Content-Encoding": "gzip"}
    )
    async with fetcher() as fetch:
        with pytest.raises(NoReplyError) as caught:
            await fetch(ArchiveRequest(f"{archive_server.origin}/x.example/a"))

    assert caught.value.failure is ArchiveFailure.TOO_LARGE


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/a",
        "http://localhost:{port}/a",
        "http://[::1]:{port}/a",
        "http://[::ffff:127.0.0.1]:{port}/a",
        "http://0x7f.1:{port}/a",
        "http://2130706433:{port}/a",
        "http://10.0.0.1/a",
        "http://169.254.169.254/latest/meta-data/",
        "http://blocked.example/a",
        "http://93.184.216.34:25/a",
        "http://via.example/a",
        "ftp://x.example/a",
        "http:///a",
    ],
)
async def test_nothing_is_sent_to_the_network_that_we_are_in(archive_server: ArchiveServer, address: str) -> None:
    """Addresses are judged as everywhere: by where packets end, however they are spelled."""
    egress = EgressSettings(block=("blocked.example",), via={"via.example": "socks5://127.0.0.1:1"})
    async with fetcher(egress, limit_s=5) as fetch:
        with pytest.raises(NoReplyError):
            await fetch(ArchiveRequest(address.format(port=archive_server.origin.rpartition(":")[2])))

    assert archive_server.requests == []


async def test_a_redirect_into_the_network_is_not_followed(archive_server: ArchiveServer) -> None:
    """Each address on the way is judged, not the first alone."""
    port = archive_server.origin.rpartition(":")[2]
    egress = EgressSettings(allow=("127.0.0.1/32",), resolve={"x.example": "127.0.0.1"})
    archive_server.answers["a"] = ServiceAnswer(302, "", {"Location": f"http://127.0.0.2:{port}/secret"})
    async with fetcher(egress) as fetch:
        with pytest.raises(NoReplyError) as caught:
            await fetch(ArchiveRequest(f"http://x.example:{port}/a", hops=3))

    assert caught.value.failure is ArchiveFailure.REFUSED
    assert archive_server.places == ["a"]


async def test_a_key_goes_to_nobody_else(archive_server: ArchiveServer) -> None:
    """A redirect to another host is followed without the key."""
    port = archive_server.origin.rpartition(":")[2]
    egress = EgressSettings(allow=("127.0.0.0/8",), resolve={"x.example": "127.0.0.1", "y.example": "127.0.0.1"})
    archive_server.answers["a"] = ServiceAnswer(302, "", {"Location": f"http://y.example:{port}/b"})
    archive_server.answers["b"] = ServiceAnswer(200, "fine")
    async with fetcher(egress) as fetch:
        reply = await fetch(ArchiveRequest(f"http://x.example:{port}/a", headers={"Authorization": "LOW k:s"}, hops=1))

    assert reply.text == "fine"
    assert [each.headers.get("Authorization") for each in archive_server.requests] == ["LOW k:s", None]


async def test_a_circle_of_redirects_ends(archive_server: ArchiveServer) -> None:
    """After as many as were allowed."""
    archive_server.answers["a"] = ServiceAnswer(302, "", {"Location": "/a"})
    async with fetcher() as fetch:
        with pytest.raises(NoReplyError, match="in a loop"):
            await fetch(ArchiveRequest(f"{archive_server.origin}/a", hops=4))

    assert len(archive_server.requests) == 5


async def test_what_is_asked_for_goes_out_byte_for_byte(archive_server: ArchiveServer) -> None:
    """An archived URL in a path keeps its escapes, slashes and query."""
    rest = "web/2015/http://a.test//b%2Fc/%7Ed?e=f&g=%C3%A9+h"
    async with fetcher() as fetch:
        await fetch(ArchiveRequest(f"{archive_server.origin}/{rest}"))

    assert archive_server.places == [rest]
