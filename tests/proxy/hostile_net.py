"""Runs in a network namespace: names that lead inside, a proxy that must not follow, a count of packets.

``unshare --net --mount python -m tests.proxy.hostile_net FOLDER``; prints one JSON object.
"""

import asyncio
import ipaddress
import json
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from core.config.settings import EgressSettings, ProxySettings, Settings
from core.layout import Layout
from net import egress
from net.address_policy import is_public
from net.connect_errors import BlockedError, ConnectError, UnknownHostError
from net.egress import Egress
from tests.support.proxy_fixtures import ProxyBrowser, ProxyCommand

OWN = "8.8.4.4"  # an address of this machine that is public
PUBLIC = {"public.example": ["93.184.216.34"], "six.example": ["2606:4700::1111"]}
ZONE: dict[str, list[str]] = {
    **PUBLIC,
    "loop.example": ["127.0.0.1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "ten.example": ["10.0.0.1"],
    "cgnat.example": ["100.64.0.1"],
    "mixed.example": ["93.184.216.34", "192.168.0.1"],
    "mixed6.example": ["93.184.216.34", "fd00::1"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "nat64local.example": ["64:ff9b:1::808:808"],
    "sixtofour.example": ["2002:7f00:1::"],
    "teredo.example": ["2001:0:a9fe:a9fe::1"],
    "isatap.example": ["2606:4700::5efe:10.0.0.1"],
    "zero.example": ["0.0.0.0"],
    "six0.example": ["::"],
    "linklocal.example": ["fe80::1"],
    "own.example": [OWN],
}
ALIASES = {"cname.example": "loop.example", "chain.example": "cname.example"}
LITERALS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "0",
    "10.0.0.1",
    "169.254.169.254",
    "192.168.1.1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::a00:1]",
    "[fe80::1]",
    "[fd00::1]",
    "[2002:a00:1::]",
    "localhost",
    "a.localhost",
    "localhost.",
    "255.255.255.255",
    "224.0.0.1",
    "[ff02::1]",
    "[::127.0.0.1]",
    "[64:ff9b:1::1]",
]
HOSTILE = [
    *(f"http://{name}/" for name in ZONE if name not in PUBLIC),
    *(f"http://{name}/" for name in ALIASES),
    *(f"http://{host}/" for host in LITERALS),
    *(f"http://{host}:{port}/" for host in ("127.0.0.1", "loop.example") for port in (22, 6379, 11211)),
    "http://public.example:25/",
    "http://LOOP.example./",
    "http://loop%2eexample/",
    "http://[fe80::1%25lo]/",
    "http://nowhere.example/",
]


def main() -> None:
    """Make the network, fetch what is hostile, print what was seen."""
    folder = Path(sys.argv[1])
    make_network(folder)
    HostileNameServer()
    packets = PacketCounter()
    listener = socket.create_server((OWN, 80))
    listener.settimeout(0)
    result = asyncio.run(fetch_all(folder))
    result["flipped"] = flip()
    try:
        listener.accept()
        result["heard"] = 1
    except BlockingIOError:
        result["heard"] = 0
    result["missed"] = packets.stop()
    # The proxy itself listens on loopback, and the test's browser connects to it.
    result["private"] = {to: count for to, count in packets.private.items() if to != f"127.0.0.1:{result['port']}"}
    result["public"] = sorted(packets.public)
    sys.stdout.write(json.dumps(result))


def make_network(folder: Path) -> None:
    """Set up a default route to nowhere and a resolver of our own."""
    for words in (
        "link set lo up",
        "link add out type veth peer name nowhere",
        "link set out up",
        "link set nowhere up",
        f"addr add {OWN}/32 dev out",
        "addr add 203.0.113.1/24 dev out",
        "addr add 2606:4700:ffff::1/64 dev out nodad",
        "neigh add 203.0.113.2 lladdr 02:00:00:00:00:02 dev out nud permanent",
        "neigh add 2606:4700:ffff::2 lladdr 02:00:00:00:00:02 dev out nud permanent",
        "route add default via 203.0.113.2",
        "-6 route add default via 2606:4700:ffff::2",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    config = folder / "resolv.conf"
    config.write_text("nameserver 127.0.0.53\noptions timeout:2 attempts:1\n")
    subprocess.run(["mount", "--bind", config, "/etc/resolv.conf"], check=True)


async def fetch_all(folder: Path) -> dict[str, object]:
    """Ask the proxy for every URL; what it let through, and what it said of our own address."""
    root = folder / "collection"
    root.mkdir()
    settings = Settings(proxy=ProxySettings(disk_reserve_bytes=0, connect_timeout_s=1.0), egress=EgressSettings())
    proxy = ProxyCommand(Layout(root), settings, "proxy", folder)
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        for url in HOSTILE:
            browser.ask("GET", url)
        for name in ZONE:
            if name not in PUBLIC:
                browser.close()
                browser.tunnel(f"{name}:443")
                browser.ask("GET", "/", tunnel=True)
        browser.close()
        for name in PUBLIC:
            browser.get(f"http://{name}/")
        browser.close()
        entries = await visit.seal(grace_s=0)
    proxy.stop()
    reasons = {entry.url: entry.reason for entry in entries}
    wrong = [
        f"{url}: {reason}"
        for url, reason in reasons.items()
        if not reason.startswith(("address: ", "port: ", "host: ", "dns: ")) and not any(name in url for name in PUBLIC)
    ]
    return {"port": proxy.port, "let_through": wrong, "own": reasons["http://own.example/"].partition(":")[0]}


def flip() -> list[str]:
    """Connect twice to a name whose second answer is loopback, when the first has expired; return the outcomes."""
    egress.FOUND_S = -1.0
    way_out = Egress(EgressSettings(), connect_timeout_s=0.3)
    answers = []
    for _ in range(2):
        try:
            way_out.connect("flip.example", 80).close()
            answers.append("connected")
        except (BlockedError, ConnectError, UnknownHostError) as error:
            answers.append(error.reason)
    return answers


class HostileNameServer:
    """An authoritative server for `ZONE`, with a TTL of zero (RFC 1035, 4)."""

    def __init__(self) -> None:
        self.flips = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.53", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            query, client = self.socket.recvfrom(1500)
            self.socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        question = query[12 : at + 5]
        (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
        name = ".".join(labels)
        records = b""
        count = 0
        while name in ALIASES:
            target = b"".join(bytes([len(x)]) + x.encode() for x in ALIASES[name].split(".")) + b"\0"
            owner = b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0"
            records += owner + struct.pack("!HHIH", 5, 1, 0, len(target)) + target
            name, count = ALIASES[name], count + 1
        addresses = ZONE.get(name, [])
        if name == "flip.example" and kind == 1:
            self.flips += 1
            addresses = ["93.184.216.34"] if self.flips == 1 else ["127.0.0.1"]
        owner = b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0"
        for text in addresses:
            address = ipaddress.ip_address(text)
            if kind == (1 if address.version == 4 else 28):
                data = address.packed
                records += owner + struct.pack("!HHIH", kind, 1, 0, len(data)) + data
                count += 1
        unknown = 0 if addresses else 3
        head = query[:2] + struct.pack("!HHHHH", 0x8580 | unknown, 1, count, 0, 0)
        return head + question + records


class PacketCounter:
    """Counts connection attempts by destination, as all devices of the namespace see them."""

    def __init__(self) -> None:
        self.private: Counter[str] = Counter()
        self.public: set[str] = set()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        self.socket.settimeout(0.5)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._count)
        self.thread.start()

    def stop(self) -> int:
        """Count what is left; how many packets were missed (packet(7), PACKET_STATISTICS)."""
        self.over.set()
        self.thread.join()
        missed: int = struct.unpack("=II", self.socket.getsockopt(263, 6, 8))[1]
        return missed

    def _count(self) -> None:
        while True:
            try:
                target = destination(self.socket.recv(65536))
            except TimeoutError:
                if self.over.is_set():
                    return
                continue
            if target is None:
                continue
            address, port = target
            text = f"[{address}]" if address.version == 6 else str(address)
            if not is_public(address) or str(address) == OWN:
                self.private[f"{text}:{port}"] += 1
            else:
                self.public.add(f"{text}:{port}")


def destination(packet: bytes) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int] | None:
    """Return the destination of a TCP SYN; None for all other packets."""
    if packet[0] >> 4 == 4:
        start, protocol = (packet[0] & 15) * 4, packet[9]
        address: ipaddress.IPv4Address | ipaddress.IPv6Address
        address = ipaddress.IPv4Address(packet[16:20])
    else:
        start, protocol = 40, packet[6]
        address = ipaddress.IPv6Address(packet[24:40])
    if protocol != 6 or packet[start + 13] & 0x12 != 0x02:  # SYN without ACK
        return None
    (port,) = struct.unpack("!H", packet[start + 2 : start + 4])
    return address, port


if __name__ == "__main__":
    main()
