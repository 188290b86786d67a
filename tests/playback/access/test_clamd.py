"""Tests of `playback.access.clamd`."""

import socket
import threading
from contextlib import ExitStack, closing
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError, TransientError, UnavailableError
from playback.access.clamd import ClamdAddress, ClamdClient, TooLargeToScanError, parse_clamd_address
from playback.access.decision_store import open_decisions
from playback.access.malware_scan import CollectionScan, PayloadReader
from tests.support.playback_fixtures import NOW, CollectionBuilder
from tests.support.services.clamav import EICAR, ClamdServer
from warc.index.database import open_database

pytestmark = pytest.mark.playback


SITE = "https://site.example"


def test_internal_error_over_one_payload_keeps_no_other_from_being_scanned(
    collection: CollectionBuilder, clamd: ClamdServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as not looked into, with the reason; the log has the traceback."""
    for number in range(3):
        collection.response(f"{SITE}/{number}", b"%d" % number)
    layout = collection.layout

    class Faulty(ClamdClient):
        """A client that cannot handle one of the payloads."""

        def scan(self, body: bytes) -> str:
            if body == b"1":
                raise OverflowError("int too large")
            return super().scan(body)

    with closing(open_database(layout, "")) as database, closing(open_decisions(layout)) as store:
        reader = partial(PayloadReader, layout)
        address = parse_clamd_address(clamd.address)
        found = CollectionScan(database, store, Faulty(address), reader, lambda: NOW).run()
        said = [row["skipped"] for row in store.rows("SELECT skipped FROM verdicts", {})]

    assert (found.scanned, found.skipped) == (2, 1)
    assert max(said, key=str) == "internal error: OverflowError"
    assert "int too large" in caplog.text


def test_what_was_found_before_the_daemon_died_is_kept(collection: CollectionBuilder, mortal: ClamdServer) -> None:
    """The next scan goes on after it."""
    for number in range(3):
        collection.response(f"{SITE}/{number}", b"%d" % number)
    layout = collection.layout

    class Dying(ClamdClient):
        """A client of the real daemon, which dies after two answers."""

        asked = 0

        def scan(self, body: bytes) -> str:
            self.asked += 1
            if self.asked == 3:
                mortal.kill()
            return super().scan(body)

    with ExitStack() as stack:
        database = stack.enter_context(closing(open_database(layout, "")))
        store = stack.enter_context(closing(open_decisions(layout)))
        reader = partial(PayloadReader, layout)
        address = parse_clamd_address(mortal.address)
        scan = CollectionScan(database, store, Dying(address), reader, lambda: NOW, jobs=1)
        with pytest.raises(UnavailableError):
            scan.run()
        mortal.start()
        left = CollectionScan(database, store, ClamdClient(address), reader, lambda: NOW).run()

    assert left.scanned == 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/clamd.ctl", ClamdAddress("/run/clamd.ctl")),
        ("/run/clamd.ctl", ClamdAddress("/run/clamd.ctl")),
        ("scanner", ClamdAddress("scanner", 3310)),
        ("10.0.0.1:99", ClamdAddress("10.0.0.1", 99)),
        ("[::1]:99", ClamdAddress("::1", 99)),
    ],
)
def test_an_address_is_a_socket_or_a_host(text: str, address: ClamdAddress) -> None:
    """Written back, it names the same."""
    assert parse_clamd_address(text) == address
    assert parse_clamd_address(str(address)) == address


@given(st.text(max_size=40))
def test_what_is_no_address_is_refused(text: str) -> None:
    """Whatever is typed is an address or a clear error, and is never tried first."""
    try:
        address = parse_clamd_address(text)
    except ConfigError:
        return
    assert parse_clamd_address(str(address)) == address


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_the_limit_is_clamds_own(clamd: ClamdServer, way: str) -> None:
    """One byte more is not scanned, and is not taken for clean."""
    address = clamd.tcp_address if way == "tcp" else clamd.address
    client = ClamdClient(parse_clamd_address(address))
    assert client.scan(b"a" * 1_000_000) == ""
    for more in (1_000_001, 5_000_000):
        with pytest.raises(TooLargeToScanError):
            client.scan(b"a" * more)
    assert client.scan(EICAR) == "Weboid-Eicar.UNOFFICIAL"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (b"stream: OK\0", ""),
        (b"stream: Eicar-Signature FOUND\0", "Eicar-Signature"),
        (b"instream(127.0.0.1@3310): {HEX}x.y(z) FOUND\0", "{HEX}x.y(z)"),
        (b"stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND\0", TooLargeToScanError),
        (b"INSTREAM size limit exceeded. ERROR\0", TooLargeToScanError),
        (b"stream: Can't allocate memory ERROR\0", TransientError),
        (b"stream: OKAY\0", TransientError),
        (b"\xff" * 9_000, TransientError),
        (b"", UnavailableError),
    ],
    ids=["ok", "found", "found-tcp", "limits", "size", "memory", "odd", "garbage", "nothing"],
)
def test_only_ok_is_clean(said: bytes, outcome: str | type[Exception]) -> None:
    """Whatever else is said is a threat, a payload that was not looked into, or an error."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while not connection.recv(4096).endswith(b"\0\0\0\0"):
                    pass
                connection.sendall(said)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        client = ClamdClient(ClamdAddress("127.0.0.1", server.getsockname()[1]), timeout_s=5)
        if isinstance(outcome, str):
            assert client.scan(b"body") == outcome
        else:
            with pytest.raises(outcome):
                client.scan(b"body")
        thread.join(120)
