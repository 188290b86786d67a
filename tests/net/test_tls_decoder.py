"""TLS decoded in passing: both versions, and what is refused."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.certificate import write_certificate
from net.tls_decoder import TlsDecodeError, TlsDecoder, TlsSecrets

_NO_ETM = 1 << 19  # SSL_OP_NO_ENCRYPT_THEN_MAC, as browsers negotiate it


def conversation(
    folder: Path, *, newest: bool = True, ciphers: str = "", options: int = 0
) -> Iterator[tuple[bool, bytes]]:
    """Yield what a client and a server send in turn: whether it is the client, and the bytes."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    client_context.keylog_filename = str(folder / "keys")
    if not newest:
        client_context.maximum_version = ssl.TLSVersion.TLSv1_2
        client_context.set_ciphers(ciphers)
        client_context.options |= options
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.set_ciphers("ALL:@SECLEVEL=0")
    server_context.load_cert_chain(write_certificate(folder / "c.pem", "a.test"))
    received, sent = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    client = client_context.wrap_bio(received[0], sent[0], server_hostname="a.test")
    server = server_context.wrap_bio(received[1], sent[1], server_side=True)
    for _ in range(3):
        for number, end in enumerate((client, server)):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            if data := sent[number].read():
                yield number == 0, data
                received[1 - number].write(data)
    client.write(b"asked")
    yield True, sent[0].read()
    server.write(b"answered")
    yield False, sent[1].read()


@pytest.mark.parametrize(
    "ciphers",
    ["", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
     "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-AES128-SHA no-etm"],
)  # fmt: skip
def test_both_directions_are_decoded(tmp_path: Path, ciphers: str) -> None:
    """By TLS 1.3, and by each kind of suite of TLS 1.2; the certificate is known as well."""
    secrets, request, answered = TlsSecrets(), b"", b""
    decoder = TlsDecoder(secrets, patience_s=1.0)
    ciphers, _, option = ciphers.partition(" ")
    for is_client, data in conversation(
        tmp_path, newest=not ciphers, ciphers=ciphers, options=_NO_ETM if option else 0
    ):
        keys = tmp_path / "keys"
        secrets.add(keys.read_text().splitlines() if keys.exists() else ())
        if is_client:
            request += decoder.from_client(data)
        answered += decoder.from_server(b"" if is_client else data)

    assert (request, answered) == (b"asked", b"answered")
    assert decoder.version == ("TLSv1.2" if ciphers else "TLSv1.3")
    assert decoder.cipher == ciphers or decoder.cipher.startswith("TLS_")
    assert len(decoder.chain) == 1


def test_what_cannot_be_decoded_is_an_error(tmp_path: Path) -> None:
    """Something else than TLS, missing secrets, suites that no browser offers."""
    with pytest.raises(TlsDecodeError, match="not TLS"):
        TlsDecoder(TlsSecrets(), patience_s=0.01).from_client(b"GET / HTTP/1.1\r\n\r\n")
    for ciphers, reason in (("", "secrets"), ("ECDHE-ECDSA-AES128-SHA256", "0xc023")):
        decoder = TlsDecoder(TlsSecrets(), patience_s=0.01)

        def decode(decoder: TlsDecoder = decoder, ciphers: str = ciphers) -> None:
            for is_client, data in conversation(tmp_path, newest=not ciphers, ciphers=ciphers):
                (decoder.from_client if is_client else decoder.from_server)(data)

        with pytest.raises(TlsDecodeError, match=reason):
            decode()
