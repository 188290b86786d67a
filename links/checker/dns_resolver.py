"""Asynchronous DNS resolver that reports why a name has no address.

NXDOMAIN is evidence, SERVFAIL an outage, a failure of our own name server none: so a failure counts only when the
same server answers for the root; and addresses that it returns for an unregistered random name (NXDOMAIN hijacking)
are discarded everywhere. Concurrent requests for a name share one look-up.
"""

import asyncio
import ipaddress
import random
import string
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rcode
import dns.rdatatype
import dns.resolver

from core.errors import ConfigError
from links.check_result import NO_FILES, FetchFailure, NoAnswerError
from net.address_policy import Address, Addresses

LookupResult = Addresses | NoAnswerError
Hosts = Mapping[str, Addresses]

FOUND_S = 300.0
NOT_FOUND_S = 60.0  # long enough for all URLs of a host that wait for their turn meanwhile
CACHE_SIZE = 20_000
LOOKUPS_AT_ONCE = 256
LOOKUP_S = 10.0  # one name, all name servers and both families
ADDRESSES = 16  # of one name; a server may send thousands
CONTROL_S = 60.0  # validity of a control result
CONTROL_LIMIT_S = 3.0
LIES_S = 3_600.0
_HOSTS_FILE = Path("/etc/hosts")
_ROOT = "."


def read_hosts(path: Path = _HOSTS_FILE) -> dict[str, Addresses]:
    """Parse a hosts file into addresses by name; invalid lines are skipped."""
    addresses_by_name: dict[str, Addresses] = {}
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return addresses_by_name
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        try:
            address = ipaddress.ip_address(words[0].partition("%")[0])
        except (IndexError, ValueError):
            continue
        for name in words[1:]:
            key = name.lower().removesuffix(".")
            addresses_by_name[key] = (*addresses_by_name.get(key, ()), address)
    return addresses_by_name


class DnsResolver:
    """Resolver by DNS and hosts file; bound to one event loop."""

    def __init__(
        self,
        *,
        nameservers: Sequence[tuple[str, int]] = (),
        hosts: Hosts | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        """Set up the name servers (default: resolv.conf; ConfigError without any) and the hosts file."""
        self._resolver = _resolver(nameservers)
        self._hosts = read_hosts() if hosts is None else hosts
        self._monotonic = monotonic
        self._rng = rng or random.SystemRandom()
        self._known: dict[str, tuple[float, LookupResult]] = {}
        self._running: dict[str, asyncio.Task[LookupResult]] = {}
        self._room = asyncio.Semaphore(LOOKUPS_AT_ONCE)
        self._works: tuple[float, bool] = (0.0, False)
        self._lies: tuple[float, frozenset[Address]] | None = None
        self._controls = asyncio.Lock()

    async def addresses(self, host: str) -> Addresses:
        """Return the canonical host's addresses, without a policy check; NoAnswerError when it has none."""
        listed = self._hosts.get(host)
        if listed:
            return listed
        known = self._known.get(host)
        if known is not None and known[0] > self._monotonic():
            return _or_raise(known[1])
        task = self._running.get(host)
        if task is None:
            task = asyncio.create_task(self._look_up(host), name=f"look-up {host}")
            self._running[host] = task
        return _or_raise(await asyncio.shield(task))

    async def close(self) -> None:
        """Cancel running look-ups."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, host: str) -> LookupResult:
        try:
            async with self._room:
                outcome = await self._both(host)
                # An answer counts unless our own name server is at fault.
                if not isinstance(outcome, NoAnswerError):
                    if set(outcome) <= await self._known_lies():
                        outcome = NoAnswerError(FetchFailure.DNS_LIES)
                elif outcome.trouble in _MAY_BE_OURS and not await self._server_works():
                    outcome = NoAnswerError(FetchFailure.DNS_OURS, outcome.trouble)
            # Running out of file descriptors is no evidence about the host.
            if not isinstance(outcome, NoAnswerError) or outcome.trouble is not FetchFailure.NO_FILES:
                lifetime = NOT_FOUND_S if isinstance(outcome, NoAnswerError) else FOUND_S
                self._known.pop(host, None)  # so that it goes to the end, as the newest
                if len(self._known) >= CACHE_SIZE:
                    del self._known[next(iter(self._known))]
                self._known[host] = (self._monotonic() + lifetime, outcome)
            return outcome
        finally:
            del self._running[host]

    async def _both(self, host: str) -> LookupResult:
        old, new = await asyncio.gather(self._of(host, "A"), self._of(host, "AAAA"))
        if not isinstance(old, FetchFailure) or not isinstance(new, FetchFailure):
            return tuple(address for each in (old, new) if not isinstance(each, FetchFailure) for address in each)
        # Some servers deny the whole name for IPv6 queries, so the IPv4 answer counts.
        no_word = old is FetchFailure.DNS_NO_ADDRESS and new is not FetchFailure.DNS_UNKNOWN
        return NoAnswerError(new if no_word else old)

    async def _of(self, host: str, rdtype: str) -> Addresses | FetchFailure:
        try:
            async with asyncio.timeout(LOOKUP_S):
                name = dns.name.from_text(host, origin=dns.name.root)
                answer = await self._resolver.resolve(name, rdtype, search=False)
        except TimeoutError:
            return FetchFailure.DNS_SILENT
        except (dns.exception.DNSException, OSError, ValueError) as error:
            return _class_of(error)
        texts = [str(record) for record, _ in zip(answer, range(ADDRESSES), strict=False)]
        return tuple(map(ipaddress.ip_address, texts))

    async def _server_works(self) -> bool:
        """Return True when our name server recently answered for the root."""
        async with self._controls:
            until, works = self._works
            if self._monotonic() < until:
                return works
            try:
                async with asyncio.timeout(CONTROL_LIMIT_S):
                    await self._resolver.resolve(_ROOT, "NS", search=False)
                works = True
            except (dns.exception.DNSException, OSError, TimeoutError):
                works = False
            self._works = (self._monotonic() + CONTROL_S, works)
            return works

    async def _known_lies(self) -> frozenset[Address]:
        """Return the server's addresses for an unregistered name."""
        async with self._controls:
            if self._lies is not None and self._monotonic() < self._lies[0]:
                return self._lies[1]
            label = "".join(self._rng.choices(string.ascii_lowercase, k=20))
            try:
                async with asyncio.timeout(CONTROL_LIMIT_S):
                    addresses = await self._of(f"{label}.com", "A")
            except TimeoutError:
                addresses = FetchFailure.DNS_SILENT
            lies = frozenset[Address]() if isinstance(addresses, FetchFailure) else frozenset(addresses)
            self._lies = (self._monotonic() + LIES_S, lies)
            return lies


_MAY_BE_OURS = frozenset(
    (FetchFailure.DNS_FAILS, FetchFailure.DNS_REFUSED, FetchFailure.DNS_SILENT, FetchFailure.DNS_BROKEN)
)


def _resolver(nameservers: Sequence[tuple[str, int]]) -> dns.asyncresolver.Resolver:
    try:
        resolver = dns.asyncresolver.Resolver(configure=not nameservers)
    except dns.resolver.NoResolverConfiguration as error:
        raise ConfigError("/etc/resolv.conf has no name server, so no link can be checked.") from error
    if nameservers:
        resolver.nameservers = [dns.nameserver.Do53Nameserver(address, port) for address, port in nameservers]
    resolver.lifetime = LOOKUP_S * 0.8
    resolver.timeout = 2.0
    resolver.use_search_by_default = False
    resolver.search = []
    resolver.cache = None
    return resolver


def _class_of(error: Exception) -> FetchFailure:
    """Map dnspython's error to a failure; the only place that does."""
    if isinstance(error, OSError) and error.errno in NO_FILES:
        return FetchFailure.NO_FILES
    if isinstance(error, dns.resolver.NXDOMAIN):
        return FetchFailure.DNS_UNKNOWN
    if isinstance(error, dns.resolver.NoAnswer):
        return FetchFailure.DNS_NO_ADDRESS
    if isinstance(error, dns.resolver.LifetimeTimeout | dns.exception.Timeout):
        return FetchFailure.DNS_SILENT
    if isinstance(error, dns.resolver.NoNameservers):
        attempts = error.kwargs.get("errors", ())
        if any(isinstance(each[3], OSError) and each[3].errno in NO_FILES for each in attempts):
            return FetchFailure.NO_FILES
        codes = {each[4].rcode() for each in attempts if each[4] is not None}
        if dns.rcode.SERVFAIL in codes:
            return FetchFailure.DNS_FAILS
        if dns.rcode.REFUSED in codes:
            return FetchFailure.DNS_REFUSED
    return FetchFailure.DNS_BROKEN


def _or_raise(outcome: LookupResult) -> Addresses:
    if isinstance(outcome, NoAnswerError):
        # A fresh one: an exception that is raised twice grows its traceback.
        raise NoAnswerError(outcome.trouble, outcome.detail)
    return outcome
