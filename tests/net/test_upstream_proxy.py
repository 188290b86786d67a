"""Going by other proxies: microsocks for SOCKS5, tinyproxy for HTTP (Debian's packages)."""

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from core.config.settings import Settings
from core.hosts import parse_upstream_proxy
from core.layout import Layout
from net.connect_errors import BlockedAddressError, ConnectError, UnknownHostError
from net.egress import Egress
from net.http1 import parse_response_head
from net.timeouts import CancellableTimeout
from net.upstream_proxy import absolute_request, proxy_fault
from proxy.upstream import OriginConnection, UpstreamConnector
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ProxyBrowser, ProxyCommand, ProxyInProcess, ScriptedOrigin, check, ok, records
from tests.support.services.ports import free_port

pytestmark = pytest.mark.proxy

# Only the proxies know this name: their /etc/hosts, in a mount namespace of theirs, has it.
ELSEWHERE = "only.elsewhere.example"


@dataclass
class ForwardingProxy:
    """A proxy process that is not ours."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    def log_text(self) -> str:
        """Return its log so far."""
        return self.log.read_text()


def need(program: str) -> str:
    """Return the program's path; fail with the remedy when it is missing."""
    path = shutil.which(program)
    assert path, f"{program} is missing: run scripts/setup test"
    return path


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., ForwardingProxy]]:
    """Yield a function that starts other proxies."""
    running: list[ForwardingProxy] = []
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {ELSEWHERE}\n")

    def starter(name: str, command: Callable[[int], list[str]]) -> ForwardingProxy:
        port = free_port()
        log = tmp_path / f"{name}-{port}.log"
        # Needs root, as the suite has it in its container; without, unshare says so and fails.
        own_hosts = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']
        with log.open("w") as file:
            process = subprocess.Popen([*own_hosts, str(hosts), *command(port)], stdout=file, stderr=file, text=True)
        running.append(ForwardingProxy(process, port, log))

        def is_listening() -> bool:
            assert process.poll() is None, log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(is_listening)
        return running[-1]

    yield starter
    for each in running:
        each.process.terminate()
        each.process.wait(120)


@pytest.fixture
def socks(run: Callable[..., ForwardingProxy]) -> ForwardingProxy:
    """Start a SOCKS5 proxy without a password."""
    return run("socks", lambda port: [need("microsocks"), "-i", "127.0.0.1", "-p", str(port)])


@pytest.fixture
def locked_socks(run: Callable[..., ForwardingProxy]) -> ForwardingProxy:
    """Start a SOCKS5 proxy with a password (RFC 1929)."""
    login = ["-u", "monty", "-P", "sp@m:eggs"]
    return run("socks", lambda port: [need("microsocks"), "-i", "127.0.0.1", "-p", str(port), *login])


def tinyproxy(folder: Path, *lines: str) -> Callable[[int], list[str]]:
    """Return a function from port to the command of an HTTP proxy with these lines in its configuration."""

    def command(port: int) -> list[str]:
        path = folder / f"tinyproxy-{port}.conf"
        path.write_text("\n".join([f"Port {port}", "Listen 127.0.0.1", "LogLevel Info", *lines]))
        return [need("tinyproxy"), "-d", "-c", str(path)]

    return command


@pytest.fixture
def http(run: Callable[..., ForwardingProxy], tmp_path: Path) -> ForwardingProxy:
    """Start an HTTP proxy without a password."""
    return run("http", tinyproxy(tmp_path))


@pytest.fixture
def locked_http(run: Callable[..., ForwardingProxy], tmp_path: Path) -> ForwardingProxy:
    """Start an HTTP proxy with a password."""
    return run("http", tinyproxy(tmp_path, "BasicAuth monty spameggs"))


def way(
    settings: Settings, *, unknown_names: bool = False, absolute_form: bool = False, **via: str
) -> UpstreamConnector:
    """Return a connector that uses these proxies; ``every`` stands for ``*``."""
    patterns = {name.replace("every", "*"): url for name, url in via.items()}
    egress = replace(settings.egress, via=patterns, via_unknown_names=unknown_names, via_absolute_form=absolute_form)
    return UpstreamConnector(Egress(egress, connect_timeout_s=5), settings.proxy, egress)


def ask(connection: OriginConnection, path: str = "/") -> bytes:
    """Send one request, close the connection, and return the answer."""
    connection.send(f"GET {path} HTTP/1.1\r\nHost: origin.example\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"nothing here") and (piece := connection.sock.recv(65536)):
        answer += piece
    connection.close()
    return answer


def test_socks_with_and_without_a_password(
    settings: Settings, origin: ScriptedOrigin, socks: ForwardingProxy, locked_socks: ForwardingProxy
) -> None:
    """The proxy gets the address that was checked, and we know it."""
    for url in (f"socks5://127.0.0.1:{socks.port}", f"socks5://monty:sp%40m%3Aeggs@127.0.0.1:{locked_socks.port}"):
        connection = way(settings, every=url).lend(("origin.example", 80, False))

        assert (connection.remote_ip, connection.absolute) == ("127.0.0.1", False)
        assert ask(connection).endswith(b"nothing here")
    assert f"connected to 127.0.0.1:{origin.port}" in socks.log_text()
    assert origin.requests[0].startswith(b"GET / HTTP/1.1\r\n")


def test_tls_goes_through_either_kind_of_proxy(
    settings: Settings, secure_origin: ScriptedOrigin, socks: ForwardingProxy, http: ForwardingProxy
) -> None:
    """The certificate is judged as ever."""
    for url in (f"socks5://127.0.0.1:{socks.port}", f"http://127.0.0.1:{http.port}"):
        upstream = way(settings, every=url)
        good = upstream.lend(("secure.example", 443, True))
        bad = upstream.lend(("wrong.example", 443, True))

        assert good.tls.error == ""
        assert bad.tls.error.startswith("wrong-host: ")
        assert ask(good).endswith(b"nothing here")
        bad.close()
    assert f"CONNECT 127.0.0.1:{secure_origin.port}" in http.log_text()


@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_a_private_address_is_refused_before_the_proxy_hears_of_it(
    settings: Settings, socks: ForwardingProxy, http: ForwardingProxy, scheme: str
) -> None:
    """Addresses that we know are checked, even if the other proxy makes the connection."""
    other = socks if scheme == "socks5" else http
    egress = replace(settings.egress, via={"*": f"{scheme}://127.0.0.1:{other.port}"})

    def lookup(_host: str, _port: int) -> list[str]:
        return ["10.1.2.3"]

    upstream = UpstreamConnector(Egress(egress, connect_timeout_s=5, lookup=lookup), settings.proxy, egress)
    before = other.log_text()
    for host in ("inside.example", "private.example", "10.0.0.1", "0x0a000001", "[::1]"):
        with pytest.raises(BlockedAddressError):
            upstream.lend((host, 80, False))

    assert other.log_text() == before


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_a_name_that_only_the_proxy_knows_is_the_proxys_to_resolve(
    settings: Settings, origin: ScriptedOrigin, socks: ForwardingProxy, http: ForwardingProxy, scheme: str
) -> None:
    """Tor's names, and networks whose name servers answer nobody but the proxy."""
    other = socks if scheme == "socks5h" else http
    upstream = way(settings, unknown_names=True, every=f"{scheme}://127.0.0.1:{other.port}")
    connection = upstream.lend((ELSEWHERE, origin.port, False))

    assert connection.remote_ip == ""
    assert ask(connection).endswith(b"nothing here")
    assert ELSEWHERE in other.log_text()


def test_an_http_proxy_is_asked_in_absolute_form_and_the_origin_is_not(
    settings: Settings, origin: ScriptedOrigin, http: ForwardingProxy
) -> None:
    """RFC 9112, 3.2.2, where the setting says so."""
    upstream = way(settings, unknown_names=True, absolute_form=True, every=f"http://127.0.0.1:{http.port}")
    connection = upstream.lend((ELSEWHERE, origin.port, False))

    assert connection.absolute
    ask(connection, "/path?query")
    assert f"GET http://{ELSEWHERE}:{origin.port}/path?query HTTP/1.1" in http.log_text()
    assert origin.requests[0].startswith(b"GET /path?query HTTP/1.")


def test_a_tunnel_is_asked_for_where_bytes_must_pass_as_they_are(
    settings: Settings, origin: ScriptedOrigin, http: ForwardingProxy
) -> None:
    """CONNECT, for plain ports too."""
    upstream = way(settings, unknown_names=True, every=f"http://127.0.0.1:{http.port}")
    connection = upstream.lend((ELSEWHERE, origin.port, False), tunnel=True)

    assert not connection.absolute
    assert ask(connection).endswith(b"nothing here")
    assert f"CONNECT {ELSEWHERE}:{origin.port}" in http.log_text()


@pytest.mark.parametrize("tunnel", [False, True])
def test_a_name_that_is_unknown_here_is_not_left_to_an_http_proxy_unasked(
    settings: Settings, http: ForwardingProxy, tunnel: bool
) -> None:
    """Nobody could say whether it is public; who resolves it might find an address of its own."""
    upstream = way(settings, every=f"http://127.0.0.1:{http.port}")
    with pytest.raises(UnknownHostError, match="via_unknown_names"):
        upstream.lend((ELSEWHERE, 80, False), tunnel=tunnel)

    assert ELSEWHERE not in http.log_text()


def test_plain_http_reaches_the_address_that_was_checked(
    settings: Settings, origin: ScriptedOrigin, http: ForwardingProxy
) -> None:
    """The HTTP proxy gets no name to look up, and so cannot find another address under it."""
    egress = replace(settings.egress, via={"*": f"http://127.0.0.1:{http.port}"}, resolve={})

    def lookup(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    way_out = Egress(egress, connect_timeout_s=5, lookup=lookup)
    upstream = UpstreamConnector(way_out, settings.proxy, egress)
    # To the proxy this name leads nowhere: it fails where the proxy resolves it.
    connection = upstream.lend(("moved.invalid", origin.port, False))

    assert (connection.remote_ip, connection.absolute) == ("127.0.0.1", False)
    assert ask(connection).endswith(b"nothing here")
    assert f"CONNECT 127.0.0.1:{origin.port}" in http.log_text()
    assert "moved.invalid" not in http.log_text()
    assert origin.requests[0].startswith(b"GET / HTTP/1.1\r\nHost: origin.example\r\n")


def test_an_http_proxy_that_tunnels_to_port_443_alone_is_told_with_the_remedy(
    settings: Settings, origin: ScriptedOrigin, run: Callable[..., ForwardingProxy], tmp_path: Path
) -> None:
    """As squid does where nobody has changed its rules; by setting it gets the name."""
    strict = run("strict", tinyproxy(tmp_path, "ConnectPort 443"))
    url = f"http://127.0.0.1:{strict.port}"
    with pytest.raises(ConnectError, match=r"403 .*via_absolute_form"):
        way(settings, every=url).lend(("127.0.0.1", origin.port, False))

    connection = way(settings, absolute_form=True, every=url).lend(("127.0.0.1", origin.port, False))
    assert ask(connection).endswith(b"nothing here")


def test_a_tunnel_leads_to_the_address_that_was_checked(settings: Settings) -> None:
    """Whatever the proxy would find under the name; another address is tried when one is refused."""
    request_lines = []

    def refuse_first(listener: socket.socket) -> None:
        for answer in (b"HTTP/1.1 502 No\r\n\r\n", b"HTTP/1.1 200 Yes\r\n\r\n"):
            client, _ = listener.accept()
            request_lines.append(client.recv(4096).partition(b"\r\n")[0])
            client.sendall(answer)
            client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = threading.Thread(target=refuse_first, args=(listener,))
        other.start()
        via = {"*": f"http://127.0.0.1:{listener.getsockname()[1]}"}
        egress = Egress(
            replace(settings.egress, via=via),
            connect_timeout_s=5,
            lookup=lambda _host, _port: ["93.184.216.34", "2606:4700::1111"],
        )
        way = egress.open("two.example", 443, patience=CancellableTimeout(5), tunnel=True)
        way.sock.close()
        other.join()

    assert sorted(request_lines) == [b"CONNECT 93.184.216.34:443 HTTP/1.1", b"CONNECT [2606:4700::1111]:443 HTTP/1.1"]
    assert way.remote_ip in {"93.184.216.34", "2606:4700::1111"}


def test_the_most_specific_pattern_chooses_the_way(
    settings: Settings, origin: ScriptedOrigin, socks: ForwardingProxy
) -> None:
    """A host of its own, a domain, all others; `direct` is a way like any."""
    egress = replace(
        settings.egress,
        via={"*": "socks5://127.0.0.1:1", "*.example": f"socks5://127.0.0.1:{socks.port}", "other.example": "direct"},
    )
    upstream = UpstreamConnector(Egress(egress, connect_timeout_s=5), settings.proxy, egress)
    by_socks = upstream.lend(("origin.example", 80, False))
    direct = upstream.lend(("other.example", 80, False))
    with pytest.raises(ConnectError, match=r"socks5://127\.0\.0\.1:1 cannot be reached"):
        upstream.lend(("127.0.0.1", origin.port, False))
    by_socks.close()
    direct.close()

    assert [str(by_socks.via), direct.via] == [f"socks5://127.0.0.1:{socks.port}", None]


def test_refused_credentials_are_told_without_the_password(
    settings: Settings, locked_socks: ForwardingProxy, locked_http: ForwardingProxy
) -> None:
    """The error names the proxy."""
    for url in (
        f"socks5://monty:wrong-secret@127.0.0.1:{locked_socks.port}",
        f"http://monty:wrong-secret@127.0.0.1:{locked_http.port}",
    ):
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1") as caught:
            way(settings, every=url).lend(("secure.example", 443, True))

        assert "secret" not in str(caught.value)


def test_an_origin_that_the_proxy_cannot_reach_is_told_with_the_proxys_words(
    settings: Settings, socks: ForwardingProxy, http: ForwardingProxy
) -> None:
    """Connection refused, behind the proxy."""
    for url in (f"socks5://127.0.0.1:{socks.port}", f"http://127.0.0.1:{http.port}"):
        with pytest.raises(ConnectError, match=f"{url} (cannot|refuses to) connect"):
            way(settings, every=url).lend(("refused.example", 80, False), tunnel=True)


@pytest.mark.parametrize("absolute_form", [False, True])
async def test_the_archive_never_shows_a_proxys_password(
    absolute_form: bool,
    settings: Settings,
    layout: Layout,
    tmp_path: Path,
    origin: ScriptedOrigin,
    locked_http: ForwardingProxy,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither WARCs nor logs nor the ledger; and the origin never sees it."""
    secret = "spameggs"
    via = {"*": f"http://monty:{secret}@127.0.0.1:{locked_http.port}"}
    egress = replace(settings.egress, via=via, via_unknown_names=True, via_absolute_form=absolute_form)
    proxy = ProxyCommand(layout, replace(settings, egress=egress), "proxy", tmp_path)
    origin.answers["/page"] = ok(b"page")
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        assert browser.get(f"http://127.0.0.1:{origin.port}/page").body == b"page"
        assert browser.get(f"http://{ELSEWHERE}:{origin.port}/page").body == b"page"
        assert browser.get("http://refused.example/").status == 502
        entries = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    check(layout)
    token = "bW9udHk6c3BhbWVnZ3M="  # monty:spameggs
    files = b"".join(path.read_bytes() for path in layout.root.rglob("*") if path.is_file())
    written = records(layout)
    shown = repr(written) + repr(entries) + "".join(capfd.readouterr()) + repr(origin.requests)

    assert secret.encode() not in files
    assert secret not in shown
    assert token not in shown
    assert [entry.kept for entry in entries] == ["response", "revisit", "failed"]
    ips = [r.headers.get("WARC-IP-Address") for r in written if r.kind in ("response", "revisit")]
    assert ips == ["127.0.0.1", None]


async def test_what_an_http_proxy_answers_in_its_own_name_is_not_archived(
    settings: Settings, layout: Layout, tmp_path: Path, locked_http: ForwardingProxy, origin: ScriptedOrigin
) -> None:
    """407 and its error pages are failures to connect, and the reason names the proxy."""
    via = {
        "*": f"http://127.0.0.1:{locked_http.port}",
        "127.0.0.1": f"http://monty:spameggs@127.0.0.1:{locked_http.port}",
    }
    egress = replace(settings.egress, via=via, via_unknown_names=True, via_absolute_form=True)
    proxy = ProxyInProcess(layout, replace(settings, egress=egress), "proxy", tmp_path)
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        assert browser.get(f"http://{ELSEWHERE}:{origin.port}/").status == 502
        assert browser.get("http://127.0.0.1:1024/").status == 502
        entries = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()

    for entry in entries:
        assert (entry.kept, entry.status) == ("failed", None)
        assert re.match(rf"connect: http://127\.0\.0\.1:{locked_http.port} ", entry.reason)
    assert records(layout) == []


@pytest.mark.parametrize(
    ("head", "own"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\n\r\n", True),
        (b"HTTP/1.1 502 Bad\r\nProxy-Status: p; error=destination_unavailable\r\n\r\n", True),
        (b"HTTP/1.0 500 Unable to connect\r\nServer: tinyproxy/1.11.1\r\n\r\n", True),
        (b"HTTP/1.1 502 Bad Gateway\r\nServer: nginx\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nProxy-Status: p; received-status=200\r\n\r\n", False),
    ],
)
def test_an_http_proxys_own_answers_are_known_by_their_marks(head: bytes, own: bool) -> None:
    """RFC 9209, and what the usual proxies write; an origin's 502 is the origin's."""
    via = parse_upstream_proxy("http://127.0.0.1:3128")
    assert via is not None
    assert bool(proxy_fault(parse_response_head(head), via)) is own


def test_a_request_in_absolute_form_differs_in_its_first_line_only() -> None:
    """And in our own credentials, which the proxy takes out."""
    via = parse_upstream_proxy("http://a:b@127.0.0.1:3128")
    assert via is not None
    request = b"POST /x?y HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"

    assert absolute_request(request, via, "h:81") == (
        b"POST http://h:81/x?y HTTP/1.1\r\nProxy-Authorization: Basic YTpi\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
    )
    assert absolute_request(b"OPTIONS * HTTP/1.1\r\n\r\n", via, "h").startswith(b"OPTIONS http://h HTTP/1.1\r\n")
