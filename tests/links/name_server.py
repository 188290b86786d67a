"""A name server on loopback, by UDP and TCP, that says whatever a test tells it to."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

UDP_BYTES = 1232
Zone = Mapping[str, "NameRecords"]


@dataclass(frozen=True)
class NameRecords:
    """Records of a name.

    Attributes:
        addresses: of both families.
        rcode: what went wrong.
        aliases: the names that lead to the addresses, in order.
        silent: whether nothing is said.
        garbage: bytes to send instead of an answer.
    """

    addresses: Sequence[str] = ()
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    aliases: Sequence[str] = ()
    silent: bool = False
    garbage: bytes = b""


ROOT = NameRecords()  # answers for the root: the name server works
UNKNOWN = NameRecords(rcode=dns.rcode.NXDOMAIN)


@dataclass
class NameServer:
    """Answers of a zone; what is in none does not exist.

    Attributes:
        zone: names without final dots; ``*`` is all others.
        queries: the queried names with their types, in order.
        endpoint: address and port.
        next_records: called before each answer, when the zone is not enough.
    """

    zone: Zone
    queries: list[tuple[str, str]] = field(default_factory=list)
    endpoint: tuple[str, int] = ("127.0.0.1", 0)
    next_records: Callable[[str], NameRecords] | None = None

    def answer(self, wire: bytes, *, limit: int = 65_535) -> bytes | None:
        """Return the bytes to send; None to send nothing."""
        try:
            query = dns.message.from_wire(wire)
        except dns.exception.DNSException:
            return None
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        self.queries.append((name, dns.rdatatype.to_text(question.rdtype)))
        records = self.next_records(name) if self.next_records else self._records_of(name)
        if records.silent:
            return None
        if records.garbage:
            return wire[:2] + records.garbage
        response = self._response(query, question, records)
        data = response.to_wire(max_size=65_535)
        if len(data) > limit:
            response = dns.message.make_response(query)
            response.flags |= dns.flags.TC
            data = response.to_wire()
        return data

    def _records_of(self, name: str) -> NameRecords:
        if name in self.zone:
            return self.zone[name]
        return ROOT if name in ("", ".") else self.zone.get("*", UNKNOWN)

    def _response(
        self, query: dns.message.Message, question: dns.rrset.RRset, records: NameRecords
    ) -> dns.message.Message:
        response = dns.message.make_response(query, recursion_available=True)
        response.set_rcode(records.rcode)
        owner = question.name
        for alias in records.aliases:
            target = dns.name.from_text(alias)
            response.answer.append(dns.rrset.from_text(owner, 60, "IN", "CNAME", target.to_text()))
            owner = target
        family = "AAAA" if question.rdtype == dns.rdatatype.AAAA else "A"
        mine = [each for each in records.addresses if (":" in each) == (family == "AAAA")]
        if question.rdtype == dns.rdatatype.NS:
            response.answer.append(dns.rrset.from_text(owner, 60, "IN", "NS", "a.test."))
        elif mine:
            response.answer.append(dns.rrset.from_text(owner, 60, "IN", family, *mine))
        return response


class _NameServerProtocol(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self._server.answer(data, limit=UDP_BYTES)
        if answer is not None:
            self._transport.sendto(answer, addr)


@asynccontextmanager
async def naming(zone: Zone, next_records: Callable[[str], NameRecords] | None = None) -> AsyncIterator[NameServer]:
    server = NameServer(zone, next_records=next_records)

    async def over_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            answer = server.answer(await reader.readexactly(length))
            if answer is not None:
                writer.write(struct.pack("!H", len(answer)) + answer)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()

    tcp = await asyncio.start_server(over_tcp, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: _NameServerProtocol(server), local_addr=("127.0.0.1", port))
    server.endpoint = ("127.0.0.1", port)
    try:
        yield server
    finally:
        udp.close()
        tcp.close()
