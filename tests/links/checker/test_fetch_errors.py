"""Tests of `links.checker.fetch_errors`."""

import ipaddress
from contextlib import suppress

import dns.rcode
import pytest

from links.checker import dns_resolver as module
from links.checker.dns_resolver import DnsResolver
from links.checker.fetch_errors import FetchFailure, NoAnswerError
from tests.links.name_server import ROOT, NameServer, Records, naming

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


ONE = Records(["192.0.2.1"])


def names_of(server: NameServer, **more: object) -> DnsResolver:
    return DnsResolver(nameservers=[server.endpoint], hosts={}, **more)  # type: ignore[arg-type]


async def trouble_of(names: DnsResolver, host: str) -> FetchFailure:
    with pytest.raises(NoAnswerError) as caught:
        await names.addresses(host)
    return caught.value.trouble


@pytest.mark.parametrize(
    ("records", "trouble"),
    [
        pytest.param(Records(rcode=dns.rcode.NXDOMAIN), FetchFailure.DNS_UNKNOWN, id="unknown"),
        pytest.param(Records(), FetchFailure.DNS_NO_ADDRESS, id="no-address"),
        pytest.param(Records(rcode=dns.rcode.SERVFAIL), FetchFailure.DNS_FAILS, id="fails"),
        pytest.param(Records(rcode=dns.rcode.REFUSED), FetchFailure.DNS_REFUSED, id="refused"),
        pytest.param(Records(rcode=dns.rcode.FORMERR), FetchFailure.DNS_BROKEN, id="formerr"),
        pytest.param(
            Records(aliases=["b.test", "a.test", "b.test", "a.test"] * 10),
            FetchFailure.DNS_BROKEN,
            id="aliases-in-a-circle",
        ),
    ],
)
async def test_why_a_name_has_no_address(records: Records, trouble: FetchFailure) -> None:
    """Each way to have no address has its own class."""
    async with naming({"a.test": records}) as server:
        assert await trouble_of(names_of(server), "a.test") is trouble


async def test_a_server_that_denies_names_without_ipv6_is_not_believed() -> None:
    """That a name does not exist counts by the word on IPv4 alone: some servers deny it otherwise."""

    def by_turns(name: str) -> Records:
        if name != "a.test":
            return ROOT
        family = server.asked[-1][1]
        return Records(rcode=dns.rcode.SERVFAIL if family == "A" else dns.rcode.NXDOMAIN)

    async with naming({}, by_turns) as server:
        assert await trouble_of(names_of(server), "a.test") is FetchFailure.DNS_FAILS


@pytest.mark.slow
@pytest.mark.parametrize(
    "records",
    [pytest.param(Records(silent=True), id="silence"), pytest.param(Records(garbage=b"\x00" * 7), id="garbage")],
)
async def test_silence_about_one_name_is_that_name_s(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers for the root and not for a name tells of the name."""
    monkeypatch.setattr(module, "LOOKUP_S", 1.0)
    async with naming({"a.test": records}) as server:
        found = await trouble_of(names_of(server), "a.test")
    assert found in (FetchFailure.DNS_SILENT, FetchFailure.DNS_BROKEN)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(Records(rcode=dns.rcode.SERVFAIL), id="fails"),
        pytest.param(Records(rcode=dns.rcode.REFUSED), id="refuses"),
    ],
)
async def test_a_server_that_fails_for_every_name_is_our_trouble(records: Records) -> None:
    """Where the root is not answered either, nothing is said of the name."""
    async with naming({"*": records, "": records, ".": records}) as server:
        assert await trouble_of(names_of(server), "a.test") is FetchFailure.DNS_OURS


async def test_nobody_at_the_name_server_s_address_is_our_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name server nothing is said of any name."""
    monkeypatch.setattr(module, "LOOKUP_S", 1.0)
    monkeypatch.setattr(module, "CONTROL_LIMIT_S", 0.5)
    async with naming({}) as server:
        endpoint = server.endpoint
    names = DnsResolver(nameservers=[endpoint], hosts={})
    assert await trouble_of(names, "a.test") is FetchFailure.DNS_OURS


async def test_what_is_said_of_names_that_nobody_has_is_a_lie() -> None:
    """A provider that answers for every name is not believed, except where it says something else."""
    async with naming({"*": Records(["198.51.100.9"]), "a.test": ONE}) as server:
        names = names_of(server)
        assert await trouble_of(names, "gone.test") is FetchFailure.DNS_LIES
        assert await names.addresses("a.test") == (ipaddress.ip_address("192.0.2.1"),)


async def test_an_answer_holds_for_a_while() -> None:
    """An answer is kept for its time and no longer; a failure for a shorter one."""
    now = 1000.0
    async with naming({"a.test": ONE}) as server:
        names = names_of(server, monotonic=lambda: now)
        await names.addresses("a.test")
        with suppress(NoAnswerError):
            await names.addresses("b.test")
        server.asked.clear()
        now += module.NOT_FOUND_S - 1
        await names.addresses("a.test")
        assert await trouble_of(names, "b.test") is FetchFailure.DNS_UNKNOWN
        assert not server.asked
        now += 2
        assert await trouble_of(names, "b.test") is FetchFailure.DNS_UNKNOWN
        assert {name for name, _ in server.asked} == {"b.test"}
        now += module.FOUND_S
        await names.addresses("a.test")
        assert "a.test" in {name for name, _ in server.asked}


async def test_no_more_than_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the number of names."""
    monkeypatch.setattr(module, "CACHE_SIZE", 8)
    async with naming({"*": ONE}) as server:
        names = names_of(server)
        for at in range(30):
            with suppress(NoAnswerError):
                await names.addresses(f"n{at}.test")
        assert len(names._known) == 8


async def test_search_domains_are_not_tried() -> None:
    """A name is looked up as it is, whatever the system would append."""
    async with naming({}) as server:
        names = names_of(server)
        assert await trouble_of(names, "intranet") is FetchFailure.DNS_UNKNOWN
        assert {name for name, _ in server.asked} == {"intranet"}


async def test_a_name_that_no_name_server_takes_is_malformed() -> None:
    """Labels that are too long or empty are never sent."""
    async with naming({}) as server:
        assert await trouble_of(names_of(server), "a" * 64 + ".test") is FetchFailure.DNS_BROKEN
        assert await trouble_of(names_of(server), "a..test") is FetchFailure.DNS_BROKEN
        assert not [name for name, _ in server.asked if name.startswith("a")]
