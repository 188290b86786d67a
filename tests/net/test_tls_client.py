"""TLS to origins: the verdict and its reason, the facts, resumption, and what goes wrong (C-14)."""

import hashlib
import select
import socket
import ssl
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from core.config.settings import EgressSettings, ProxySettings
from net.connect_errors import BlockedTlsError, TlsError
from net.egress import Egress
from net.timeouts import CancelSignal, WaitCancelledError
from net.tls_client import SESSION_S, CertificateVerifier
from net.upstream_proxy import shut_socket
from proxy.upstream import OriginConnection, UpstreamConnector
from tests.support.tls_origins import DAY, NOW, CertificateIssuer, TlsOrigin, make_issuer, server_context
from tests.support.tls_origins import write_leaf as write

HOST = "secure.example"
Serve = Callable[..., TlsOrigin]


@pytest.fixture(scope="module")
def issuer() -> CertificateIssuer:
    """Return the certificate authority that the proxy trusts."""
    return make_issuer("Known authority")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Yield a function that starts origins with a certificate."""
    started: list[TlsOrigin] = []

    def starter(certificate: Path, configure: Callable[[ssl.SSLContext], None] | None = None) -> TlsOrigin:
        started.append(TlsOrigin(server_context(certificate, configure)))
        return started[-1]

    yield starter
    for origin in started:
        origin.close()


@pytest.fixture
def way(tmp_path: Path, issuer: CertificateIssuer) -> Iterator[Callable[..., UpstreamConnector]]:
    """Yield a function that connects to the origin `HOST`, trusting the known authority."""
    ca_file = tmp_path / "known.pem"
    ca_file.write_bytes(issuer.certificate.public_bytes(serialization.Encoding.PEM))
    made: list[UpstreamConnector] = []

    def maker(port: int, *, timeout_s: float = 10, **changes: Any) -> UpstreamConnector:
        settings = replace(
            EgressSettings(allow=("127.0.0.0/8",), resolve={HOST: f"127.0.0.1:{port}"}, ca_file=str(ca_file)), **changes
        )
        egress = Egress(settings, connect_timeout_s=timeout_s)
        made.append(UpstreamConnector(egress, ProxySettings(connect_timeout_s=timeout_s), settings))
        return made[-1]

    yield maker
    for upstream in made:
        upstream.close()


def ask(connection: OriginConnection) -> None:
    """Send one request, and assert that it is answered."""
    connection.send(b"GET / HTTP/1.1\r\nHost: secure.example\r\n\r\n")
    assert connection.sock.recv(65536).endswith(b"ok")


def old_protocol(context: ssl.SSLContext) -> None:
    """Allow TLS 1.1 and nothing newer."""
    with warnings.catch_warnings(category=DeprecationWarning):
        warnings.simplefilter("ignore")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1


def bad_ciphers(context: ssl.SSLContext) -> None:
    """Allow only ciphers that no browser would accept."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("DHE-RSA-AES256-SHA256:ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0")


CERTIFICATES: dict[str, Callable[[Path, CertificateIssuer], bytes]] = {
    "expired": lambda p, i: write(p, HOST, i, begins=NOW - 3 * DAY, ends=NOW - DAY),
    "not-yet-valid": lambda p, i: write(p, HOST, i, begins=NOW + DAY, ends=NOW + 3 * DAY),
    "wrong-host": lambda p, i: write(p, "other.example", i),
    "self-signed": lambda p, _: write(p, HOST, None),
    "unknown-issuer": lambda p, _: write(p, HOST, make_issuer("Nobody knows it")),
    "weak-key": lambda p, i: write(p, HOST, i, key=rsa.generate_private_key(65537, 1024)),
}


@pytest.mark.parametrize("fault", CERTIFICATES)
def test_a_certificate_that_does_not_verify_is_named_and_the_origin_asked(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer, fault: str
) -> None:
    """The connection works, and says which rule was broken, and whose certificate it was."""
    der = CERTIFICATES[fault](tmp_path / "leaf.pem", issuer)
    connection = way((origin := serve(tmp_path / "leaf.pem")).port).lend((HOST, 443, True))
    ask(connection)
    connection.close()

    assert connection.tls.error.startswith(f"{fault}: ")
    assert connection.tls.certificate == hashlib.sha256(der).hexdigest()
    assert connection.tls.version == "TLSv1.3"
    assert origin.names[-1] == HOST
    verifier = CertificateVerifier(str(tmp_path / "known.pem"))  # says the same of a browser's own connection
    assert verifier.fault([der], HOST, now=NOW).startswith(f"{fault}: ")


def _as_issuer(leaf: Path) -> tuple[x509.Name, ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a leaf's name, key and certificate, for use as an issuer."""
    certificate = x509.load_pem_x509_certificate(leaf.read_bytes())
    key = serialization.load_pem_private_key(leaf.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return certificate.subject, key, certificate


def test_a_good_certificate_verifies_and_the_facts_are_kept(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """Version, cipher, the leaf's fingerprint; HTTP/1.1 is what was agreed on."""
    der = write(tmp_path / "leaf.pem", HOST, issuer)
    origin = serve(tmp_path / "leaf.pem", lambda c: c.set_alpn_protocols(["h2", "http/1.1"]))
    connection = way(origin.port).lend((HOST, 443, True))
    ask(connection)
    connection.close()

    assert connection.tls.error == ""
    assert connection.tls.version == "TLSv1.3"
    assert connection.tls.cipher.startswith("TLS_")
    assert connection.tls.certificate == hashlib.sha256(der).hexdigest()
    assert origin.alpn == ["http/1.1"]
    verifier = CertificateVerifier(str(tmp_path / "known.pem"))
    assert verifier.fault([der], f"{HOST}.", now=NOW) == ""
    assert verifier.fault([b"no certificate"], HOST, now=NOW).startswith("other: ")
    for part, odd in (
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05"),
        (b"\x86\x48\xce\x3d\x02\x01", b"\x86\x48\xce\x3d\x02\x63"),
    ):
        assert part in der  # its version, and the kind of its key
        assert verifier.fault([der.replace(part, odd)], HOST, now=NOW).startswith("other: ")
    forged = write(tmp_path / "forged.pem", HOST, CertificateIssuer(*_as_issuer(tmp_path / "leaf.pem")))
    assert verifier.fault([forged, der], HOST, now=NOW)  # a leaf signs nothing


@pytest.mark.parametrize(
    ("configure", "fault", "version"),
    [(old_protocol, "old-protocol", "TLSv1.1"), (bad_ciphers, "handshake", "TLSv1.2")],
)
def test_an_old_server_is_asked_and_said_to_be_old(
    serve: Serve,
    way: Callable[..., UpstreamConnector],
    tmp_path: Path,
    issuer: CertificateIssuer,
    configure: Callable[[ssl.SSLContext], None],
    fault: str,
    version: str,
) -> None:
    """Browsers would refuse; the archive wants the page."""
    write(tmp_path / "leaf.pem", HOST, issuer)
    connection = way(serve(tmp_path / "leaf.pem", configure).port).lend((HOST, 443, True))
    ask(connection)
    connection.close()

    assert connection.tls.error.startswith(f"{fault}: ")
    assert connection.tls.version == version


@pytest.mark.parametrize("fault", ["expired", "self-signed"])
def test_a_profile_may_insist_on_good_certificates(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer, fault: str
) -> None:
    """With `enforce_tls` the origin is not asked, and the reason is the verdict."""
    CERTIFICATES[fault](tmp_path / "leaf.pem", issuer)
    upstream = way(serve(tmp_path / "leaf.pem").port, enforce_tls=True)
    with pytest.raises(BlockedTlsError, match=f"^{fault}: "):
        upstream.lend((HOST, 443, True))


def test_who_insists_is_never_lent_what_was_opened_leniently(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """Neither a new connection nor one that another visit has left idle."""
    CERTIFICATES["self-signed"](tmp_path / "leaf.pem", issuer)
    upstream = way(serve(tmp_path / "leaf.pem").port)
    lenient = upstream.lend((HOST, 443, True))
    ask(lenient)
    upstream.give_back(lenient)
    with pytest.raises(BlockedTlsError, match=r"^self-signed: "):
        upstream.lend((HOST, 443, True), strict=True)
    again = upstream.lend((HOST, 443, True))
    again.close()

    assert again is lenient


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("fault", ["", "expired"])
def test_a_new_connection_resumes_the_last_session(
    serve: Serve,
    way: Callable[..., UpstreamConnector],
    tmp_path: Path,
    issuer: CertificateIssuer,
    version: ssl.TLSVersion,
    fault: str,
) -> None:
    """The verdict and the certificate are those of the handshake that looked."""
    if fault:
        CERTIFICATES[fault](tmp_path / "leaf.pem", issuer)
    else:
        write(tmp_path / "leaf.pem", HOST, issuer)
    origin = serve(tmp_path / "leaf.pem", lambda c: setattr(c, "maximum_version", version))
    upstream = way(origin.port)
    first = upstream.lend((HOST, 443, True))
    ask(first)
    upstream.give_back(first)
    second = upstream.lend((HOST, 443, True), fresh=True)
    ask(second)
    second.close()

    assert origin.resumed == [False, True]
    assert second.tls == first.tls
    assert second.tls.error.startswith(fault)


def test_a_session_is_not_resumed_for_ever(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """After an hour the certificate is looked at again, however often it was resumed meanwhile."""
    write(tmp_path / "leaf.pem", HOST, issuer)
    origin = serve(tmp_path / "leaf.pem")
    upstream = way(origin.port)
    now = [0.0]
    upstream._tls._monotonic = lambda: now[0]
    for _ in range(3):
        connection = upstream.lend((HOST, 443, True), fresh=True)
        ask(connection)
        upstream.give_back(connection)
        now[0] += SESSION_S * 0.6

    assert origin.resumed == [False, True, False]


def test_a_handshake_that_stalls_ends_at_the_connect_time_out(way: Callable[..., UpstreamConnector]) -> None:
    """A server that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(TlsError, match="timed out"):
        way(mute.getsockname()[1], timeout_s=0.3).lend((HOST, 443, True))


def test_a_handshake_that_drips_ends_at_the_connect_time_out(way: Callable[..., UpstreamConnector]) -> None:
    """All messages together have the time-out, not each byte."""
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for byte in b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03" + b"\x00" * 500:
                if over.wait(0.05):
                    return
                connection.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        with pytest.raises(TlsError, match="timed out"):
            way(listener.getsockname()[1], timeout_s=0.4).lend((HOST, 443, True))
        over.set()
        thread.join()


def test_a_handshake_ends_when_nobody_wants_it_any_more(way: Callable[..., UpstreamConnector]) -> None:
    """The seal of a visit does not wait for a mute server; the place is free again."""
    cut = CancelSignal()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        upstream = way(mute.getsockname()[1], timeout_s=60)
        threading.Timer(0.1, cut.set).start()
        with pytest.raises(WaitCancelledError):
            upstream.lend((HOST, 443, True), cut=cut)

    assert upstream._pool._hosts == {}


def test_a_server_that_speaks_no_tls_is_said_to(way: Callable[..., UpstreamConnector]) -> None:
    """Plain HTTP on port 443; the reason begins with tls."""

    def answer(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(TlsError, match="wrong version number") as caught:
            way(listener.getsockname()[1]).lend((HOST, 443, True))
        thread.join()

    assert caught.value.reason == "tls"


def test_a_server_that_would_like_a_certificate_of_ours_gets_none(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """As a browser without one goes on; where it is a must, the failure is TLS's."""
    write(tmp_path / "leaf.pem", HOST, issuer)
    ca_file = str(tmp_path / "known.pem")

    def wishes(context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(ca_file)

    def insists(context: ssl.SSLContext) -> None:
        wishes(context)
        context.verify_mode = ssl.CERT_REQUIRED

    connection = way(serve(tmp_path / "leaf.pem", wishes).port).lend((HOST, 443, True))
    ask(connection)
    connection.close()
    assert connection.tls.error == ""
    connection = way(serve(tmp_path / "leaf.pem", insists).port).lend((HOST, 443, True))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(connection)  # in TLS 1.3 the server says so after the handshake
    connection.close()


def test_a_server_that_speaks_only_http2_is_a_failure_of_tls(
    way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """RFC 7301, 3.2: it answers with the alert no_application_protocol."""
    write(tmp_path / "leaf.pem", HOST, issuer)
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-alpn", "h2"]
    command += ["-cert", str(tmp_path / "leaf.pem"), "-key", str(tmp_path / "leaf.pem")]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        while not (line := server.stdout.readline()).startswith(b"ACCEPT"):
            assert line, "openssl s_server did not start"
        port = int(line.rpartition(b":")[2])
        with pytest.raises(TlsError, match=r"no application protocol|unknown error"):  # Ubuntu 24.04
            way(port).lend((HOST, 443, True))
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]"])
def test_an_ip_literal_is_verified_but_not_named(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer, host: str
) -> None:
    """SNI holds names only (RFC 6066, 3); the certificate names the address."""
    write(tmp_path / "leaf.pem", host.strip("[]"), issuer)
    origin = serve(tmp_path / "leaf.pem")
    connection = way(origin.port).lend((host, origin.port, True))
    ask(connection)
    connection.close()

    assert (connection.tls.error, connection.remote_ip) == ("", "127.0.0.1")
    assert origin.names == [None]


def test_the_hello_offers_a_browsers_ciphers_in_a_browsers_order(way: Callable[..., UpstreamConnector]) -> None:
    """Chromium's list for TLS 1.2 after the suites of TLS 1.3; HTTP/1.1 alone (C-14)."""
    hellos: list[bytes] = []

    def listen(listener: socket.socket) -> None:
        for _ in range(2):  # the strict handshake, and the lenient one after it
            connection, _ = listener.accept()
            with connection:
                hellos.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(TlsError):
            way(listener.getsockname()[1], timeout_s=30).lend((HOST, 443, True))
        thread.join()
    hello = hellos[0]
    start = 9 + 2 + 32  # RFC 8446, 4.1.2: after the headers, the version and the random bytes
    start += 1 + hello[start]
    size = int.from_bytes(hello[start : start + 2], "big")
    offered = hello[start + 2 : start + 2 + size]
    suites = [offered[at : at + 2].hex() for at in range(0, size, 2)]

    assert set(suites[:3]) == {"1301", "1302", "1303"}
    chromium = "c02b c02f c02c c030 cca9 cca8 c013 c014 009c 009d 002f 0035"
    assert suites[3 : 3 + 12] == chromium.split()
    assert set(suites[15:]) <= {"00ff"}  # RFC 5746's signal
    assert b"\x08http/1.1" in hello
    assert b"\x02h2" not in hello


def test_the_dot_at_the_end_of_a_name_is_not_part_of_it(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """SNI leaves it out (RFC 6066, 3), and certificates do."""
    write(tmp_path / "leaf.pem", HOST, issuer)
    origin = serve(tmp_path / "leaf.pem")
    connection = way(origin.port).lend((f"{HOST}.", 443, True))
    connection.close()

    assert connection.tls.error == ""
    assert origin.names == [HOST]


def test_reading_stops_when_another_thread_ends_it(
    serve: Serve, way: Callable[..., UpstreamConnector], tmp_path: Path, issuer: CertificateIssuer
) -> None:
    """The reader gets the end of the stream, never ciphertext as data."""
    write(tmp_path / "leaf.pem", HOST, issuer)
    connection = way(serve(tmp_path / "leaf.pem").port).lend((HOST, 443, True))
    ask(connection)
    connection.send(b"GET / HTTP/1.1\r\n\r\n")
    select.select([connection.sock], [], [], 20)
    shut_socket(connection.sock)

    assert connection.sock.recv(65536) in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    connection.close()
