"""Names: what a name server's answer is worth, asked of a real one."""

import asyncio
import ipaddress
from pathlib import Path

import pytest

from links.checker import dns_resolver as module
from links.checker.dns_resolver import DnsResolver, read_hosts
from tests.links.name_server import NameRecords, NameServer, naming

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

ONE = NameRecords(["192.0.2.1"])


def names_of(server: NameServer, **more: object) -> DnsResolver:
    return DnsResolver(nameservers=[server.endpoint], hosts={}, **more)  # type: ignore[arg-type]


async def test_both_families_are_found() -> None:
    """A name's addresses are those of IPv4 and of IPv6."""
    async with naming({"a.test": NameRecords(["192.0.2.1", "2001:db8::1"])}) as server:
        addresses = await names_of(server).addresses("a.test")
    assert {str(each) for each in addresses} == {"192.0.2.1", "2001:db8::1"}


async def test_one_family_is_enough() -> None:
    """A name with addresses of IPv6 alone is found."""
    async with naming({"a.test": NameRecords(["2001:db8::1"])}) as server:
        assert await names_of(server).addresses("a.test") == (ipaddress.ip_address("2001:db8::1"),)


async def test_aliases_are_followed() -> None:
    """The addresses behind a chain of aliases are the name's."""
    zone = {"a.test": NameRecords(["192.0.2.1"], aliases=["b.test", "c.test"])}
    async with naming(zone) as server:
        assert len(await names_of(server).addresses("a.test")) == 1


async def test_thousands_of_addresses_are_cut() -> None:
    """An answer with thousands of records comes by TCP, and a few are kept."""
    many = [f"10.{high}.{low}.1" for high in range(12) for low in range(250)]
    async with naming({"a.test": NameRecords(many)}) as server:
        assert len(await names_of(server).addresses("a.test")) == module.ADDRESSES


async def test_one_look_up_serves_all_who_wait() -> None:
    """A name that many ask for at once is looked up once."""
    async with naming({"a.test": ONE}) as server:
        names = names_of(server)
        await asyncio.gather(*(names.addresses("a.test") for _ in range(50)))
        assert [name for name, _ in server.queries].count("a.test") == 2  # A and AAAA


async def test_the_hosts_file_comes_first(tmp_path: Path) -> None:
    """Names in the hosts file are not queried; its invalid lines are skipped."""
    path = tmp_path / "hosts"
    path.write_text("192.0.2.7 A.test alias # comment\n::1%lo zone\nnonsense\n\n2001:db8::7 a.test\n")
    async with naming({}) as server:
        names = DnsResolver(nameservers=[server.endpoint], hosts=read_hosts(path))
        addresses = await names.addresses("a.test")
        assert {str(each) for each in addresses} == {"192.0.2.7", "2001:db8::7"}
        assert not server.queries


async def test_closing_ends_what_is_asked() -> None:
    """Closing does not wait for answers."""
    async with naming({"a.test": NameRecords(silent=True)}) as server:
        names = names_of(server)
        waiting = asyncio.create_task(names.addresses("a.test"))
        while not server.queries:
            await asyncio.sleep(0)
        await names.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
