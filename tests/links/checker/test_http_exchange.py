"""Permitted destinations of a check: addresses, ports and names that lie, and what is sent on the way."""

import asyncio
import ipaddress
import os
import resource
import socket
from contextlib import suppress
from dataclasses import replace

import pytest

from core.config.profile import link_user_agent
from core.config.settings import EgressSettings, LinksSettings, Settings
from core.errors import ConfigError
from links.check_result import CheckVerdict, StatusCode
from links.checker.dns_resolver import DnsResolver
from links.checker.http_probe import HttpProber
from net.address_policy import Address
from tests.links.name_server import NameRecords, NameServer, naming
from tests.support.behaviour_servers import (
    Answering,
    BehaviourRequest,
    Steps,
    always,
    moved,
    prober_for,
    reply,
    serving,
    settings_for,
)

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

HERE = ("127.0.0.0/8", "::1/128")


def recording(seen: list[BehaviourRequest], answering: Answering) -> Answering:
    def answer(request: BehaviourRequest) -> Steps:
        seen.append(request)
        return answering(request)

    return answer


def prober_by(server: NameServer, *, allow: tuple[str, ...] = HERE) -> HttpProber:
    settings = Settings(egress=EgressSettings(allow=allow), links=LinksSettings(timeout_s=30.0))
    names = DnsResolver(nameservers=[server.endpoint], hosts={})
    return HttpProber(settings, is_own=lambda _: False, names=names)


async def port_of(resolve: dict[str, str]) -> int:
    return int(next(iter(resolve.values())).rpartition(":")[2])


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "192.168.0.1", "169.254.169.254", "127.0.0.1", "0.0.0.0", "100.64.0.1"),
        *("::1", "::ffff:10.0.0.1", "fe80::1", "fc00::1", "64:ff9b::a00:1", "2002:a00:1::"),
    ],
)
async def test_a_name_at_an_address_that_is_not_public_is_not_asked(address: str) -> None:
    """Addresses from a name server are judged like any other: our refusal, and no evidence."""
    async with naming({"a.test": NameRecords([address])}) as server:
        finding = await prober_by(server, allow=()).probe("http://a.test/")
    assert finding.verdict is CheckVerdict.UNDECIDED
    assert finding.code == StatusCode.NOT_ALLOWED
    assert finding.note.startswith("address: a.test is at")
    assert not finding.whole_host


async def test_of_a_name_s_addresses_only_those_that_may_be_asked_are() -> None:
    """A private address beside a good one gets no connection."""
    seen: list[BehaviourRequest] = []
    async with serving({"a.test:1": recording(seen, always(reply()))}) as resolve:
        port = await port_of(resolve)
        async with naming({"a.test": NameRecords(["10.0.0.1", "127.0.0.1"])}) as server:
            finding = await prober_by(server).probe(f"http://a.test:{port}/")
    assert finding.verdict is CheckVerdict.OK
    assert len(seen) == 1


async def test_a_name_that_changes_its_address_between_hops_gains_nothing() -> None:
    """Each hop connects to an address that was judged for it (rebinding)."""
    answers = iter([NameRecords(["127.0.0.1"]), NameRecords(["127.0.0.1"])])

    def rebinding(name: str) -> NameRecords:
        if name != "a.test":
            return NameRecords(["10.9.9.9"]) if name == "b.a.test" else NameRecords()
        return next(answers, NameRecords(["10.9.9.9"]))

    async with serving({"a.test:1": always(moved("http://b.a.test/"))}) as resolve:
        port = await port_of(resolve)
        async with naming({}, rebinding) as server:
            finding = await prober_by(server).probe(f"http://a.test:{port}/")
    assert finding.verdict is CheckVerdict.UNDECIDED
    assert finding.note.startswith("address: b.a.test is at 10.9.9.9")


async def test_our_own_addresses_are_refused_although_public() -> None:
    """A public address that is this machine's own is not asked."""
    own: list[Address] = []

    def is_own(address: Address) -> bool:
        own.append(address)
        return True

    async with naming({"a.test": NameRecords(["93.184.216.34"])}) as server:
        names = DnsResolver(nameservers=[server.endpoint], hosts={})
        prober = HttpProber(Settings(), is_own=is_own, names=names)
        finding = await prober.probe("http://a.test/")
    assert finding.note.startswith("address")
    assert own == [ipaddress.ip_address("93.184.216.34")]


async def test_a_dead_address_beside_a_live_one_does_not_matter() -> None:
    """The addresses of a name are tried in turn, of both families."""
    async with serving({"a.test:1": always(reply())}) as resolve:
        port = await port_of(resolve)
        async with naming({"a.test": NameRecords(["127.9.9.9", "127.0.0.1", "::1"])}) as server:
            finding = await prober_by(server).probe(f"http://a.test:{port}/")
    assert finding.verdict is CheckVerdict.OK


async def test_a_host_of_ipv6_alone_is_asked() -> None:
    """A name with an address of IPv6 alone is as good as any."""
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))  # the machine has IPv6
    async with serving({"a.test:1": always(reply())}, addresses={"a.test": "::1"}) as resolve:
        port = await port_of(resolve)
        async with naming({"a.test": NameRecords(["::1"])}) as server:
            finding = await prober_by(server).probe(f"http://a.test:{port}/")
    assert finding.verdict is CheckVerdict.OK


async def test_a_machine_without_a_way_there_holds_nothing_against_a_link() -> None:
    """No route is our trouble: the host may be fine."""

    async def without_a_route(*_: object, **__: object) -> socket.socket:
        raise OSError(101, "Network is unreachable")

    async with naming({"a.test": NameRecords(["93.184.216.34"])}) as server:
        prober = prober_by(server)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("links.checker.http_exchange.aiohappyeyeballs.start_connection", without_a_route)
            finding = await prober.probe("http://a.test/")
    assert finding.verdict is CheckVerdict.UNDECIDED
    assert finding.code == StatusCode.OUR_NETWORK


async def test_blocked_hosts_are_not_asked() -> None:
    """``[egress] block`` and a way through another proxy keep a host from being asked."""
    seen: list[BehaviourRequest] = []
    async with serving({"a.test:80": recording(seen, always(reply()))}) as resolve:
        settings = settings_for(resolve)
        for egress in (
            replace(settings.egress, block=("*.test",)),
            replace(settings.egress, via={"*": "socks5://127.0.0.1:9"}),
        ):
            async with prober_for(replace(settings, egress=egress)) as prober:
                finding = await prober.probe("http://a.test/")
            assert finding.verdict is CheckVerdict.UNDECIDED
            assert finding.note.startswith("blocked")
    assert not seen


async def test_a_name_that_does_not_exist_is_gone_for_the_whole_host() -> None:
    """NXDOMAIN holds for all URLs of the host, and for no other when it ends a redirect."""
    async with serving({"a.test:1": always(moved("http://nobody.test/x"))}) as resolve:
        port = await port_of(resolve)
        async with naming({"a.test": NameRecords(["127.0.0.1"])}) as server:
            prober = prober_by(server)
            gone = await prober.probe("http://nobody.test:8080/x")
            led = await prober.probe(f"http://a.test:{port}/")
    assert (gone.verdict, gone.code, gone.whole_host) == (CheckVerdict.GONE, StatusCode.DNS_UNKNOWN, True)
    assert (led.verdict, led.whole_host) == (CheckVerdict.GONE, False)


async def test_what_is_sent_is_a_browser_s_request_with_an_honest_name() -> None:
    """Headers of a browser, whom to ask, and nothing that tells where somebody came from."""
    seen: list[BehaviourRequest] = []
    async with (
        serving({"a.test:80": recording(seen, always(reply(404)))}) as resolve,
        prober_for(settings_for(resolve)) as prober,
    ):
        await prober.probe("http://a.test/x?y=1")
    assert [request.method for request in seen] == ["HEAD", "GET"]
    for request in seen:
        assert request.path == "/x?y=1"
        assert request.headers["host"] == "a.test"
        assert "+https://wiki.test/checks" in request.headers["user-agent"]
        assert "link" not in request.headers["user-agent"]
        assert "text/html" in request.headers["accept"]
        assert request.headers["accept-language"].startswith("en")
        assert request.headers["accept-encoding"] == "gzip, deflate"
        assert request.headers["cache-control"] == "max-age=0"
        assert request.headers["connection"] == "close"
        assert not {"referer", "cookie", "authorization"} & set(request.headers)


async def test_cookies_end_with_the_look() -> None:
    """Cookies that one check received are not sent by the next."""
    seen: list[BehaviourRequest] = []
    answering = always(reply(Set_Cookie="who=you; Path=/"))
    async with (
        serving({"a.test:80": recording(seen, answering)}) as resolve,
        prober_for(settings_for(resolve)) as prober,
    ):
        await prober.probe("http://a.test/1")
        await prober.probe("http://a.test/2")
    assert all("cookie" not in request.headers for request in seen)


async def test_cookies_go_to_no_other_site() -> None:
    """A cookie that names somebody else's domain is kept for who set it."""
    seen: list[BehaviourRequest] = []
    servers = {
        "a.test:80": always(moved("http://b.test/", Set_Cookie="who=you; Domain=b.test")),
        "b.test:80": recording(seen, always(reply())),
    }
    async with serving(servers) as resolve, prober_for(settings_for(resolve)) as prober:
        await prober.probe("http://a.test/")
    assert all("cookie" not in request.headers for request in seen)


@pytest.mark.parametrize(
    ("links", "why"),
    [
        pytest.param(LinksSettings(user_agent="LinkBot/1"), "link", id="the-word-link"),
        pytest.param(LinksSettings(contact="https://a.test/deadlinks"), "link", id="in-the-contact"),
        pytest.param(LinksSettings(user_agent="a\r\nX: y"), "ASCII", id="two-lines"),
        pytest.param(LinksSettings(user_agent="Prüfer"), "ASCII", id="letters"),
    ],
)
def test_a_name_that_servers_refuse_is_refused_at_once(links: LinksSettings, why: str) -> None:
    """The setting is mended by who wrote it, before anything is asked."""
    with pytest.raises(ConfigError, match=why):
        link_user_agent(links)


async def test_turns_are_taken_before_each_request_and_do_not_cost_time() -> None:
    """A host's turns are waited for before every request; that is no time of the look's."""
    taken: list[str] = []

    class Turns:
        async def take(self, host: str) -> None:
            taken.append(host)
            await asyncio.sleep(0.4)

    servers = {"a.test:80": always(moved("http://b.test/page")), "b.test:80": always(reply())}
    async with serving(servers) as resolve, prober_for(settings_for(resolve, timeout_s=2.4), turns=Turns()) as prober:
        finding = await prober.probe("http://a.test/page")
        await prober.probe("http://a.test/page", get_only=True)
    assert finding.verdict is CheckVerdict.OK
    assert taken == ["a.test", "b.test"] * 2


async def test_a_mistake_of_ours_is_held_against_no_link(caplog: pytest.LogCaptureFixture) -> None:
    """A bug ends one look, is logged, and decides nothing."""

    class Turns:
        async def take(self, host: str) -> None:
            raise ZeroDivisionError

    async with prober_for(settings_for({}), turns=Turns()) as prober:
        finding = await prober.probe("http://a.test/page")
    assert finding.verdict is CheckVerdict.UNDECIDED
    assert finding.note == "fault: ours: ZeroDivisionError"
    assert "this is a bug" in caplog.text


async def test_a_name_server_that_is_slower_than_head_may_be_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose servers keep silent is failing, although HEAD had no time to learn that."""
    monkeypatch.setattr("links.checker.dns_resolver.LOOKUP_S", 1.0)
    async with naming({"a.test": NameRecords(silent=True)}) as server:
        settings = Settings(links=LinksSettings(timeout_s=2.4))
        names = DnsResolver(nameservers=[server.endpoint], hosts={})
        prober = HttpProber(settings, is_own=lambda _: False, names=names)
        finding = await prober.probe("http://a.test/")
        hasty = HttpProber(Settings(links=LinksSettings(timeout_s=0.2)), is_own=lambda _: False, names=names)
        unfinished = await hasty.probe("http://b.test/")
    assert (finding.verdict, finding.note) == (CheckVerdict.FAILING, "dns: time-out")
    assert unfinished.verdict in (CheckVerdict.UNDECIDED, CheckVerdict.GONE)


async def test_no_more_of_a_body_is_taken_than_its_beginning() -> None:
    """A server that sends for ever gets rid of a little, and is hung up on."""
    sent = 0
    over = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>Bridge</title>")
        with suppress(OSError):
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        writer.transport.abort()
        over.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with prober_for(settings_for({"a.test:80": f"127.0.0.1:{port}"})) as prober:
        finding = await prober.probe("http://a.test/", get_only=True)
    async with asyncio.timeout(120):
        await over.wait()
    server.close()
    assert finding.verdict is CheckVerdict.OK
    assert sent < 32 << 20  # what the kernel's buffers take on both sides


async def test_ending_a_look_leaves_nothing_open() -> None:
    """A cancelled check leaves no connection open."""
    gone = asyncio.Event()
    begun = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        while await reader.read(65_536):
            pass
        gone.set()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with prober_for(settings_for({"a.test:80": f"127.0.0.1:{port}"})) as prober:
        look = asyncio.create_task(prober.probe("http://a.test/"))
        await begun.wait()
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)
        async with asyncio.timeout(120):
            await gone.wait()
    server.close()


async def test_no_more_files_is_no_word_on_any_host() -> None:
    """Neither on the way there nor at the name server: this process may open no more (W41)."""
    async with naming({"a.test": NameRecords(["127.0.0.1"])}) as server:
        prober = prober_by(server)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            findings = [await prober.probe(url) for url in ("http://a.test/", "http://127.0.0.1/")]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.note.partition(",")[0] for each in findings] == ["files: ours"] * 2
    assert {(each.verdict, each.code) for each in findings} == {(CheckVerdict.UNDECIDED, StatusCode.NONE)}
