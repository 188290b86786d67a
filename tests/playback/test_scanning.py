"""What was archived is shown to a real clamd, and its verdicts are kept (C-16)."""

import base64
import gzip
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import brotlicffi
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError, TransientError, UnavailableError
from core.timestamps import timestamp14
from playback.access.clamd import (
    ClamdClient,
    TcpAddress,
    TooLargeToScanError,
    UnixAddress,
    parse_clamd_address,
)
from playback.access.decision_store import SqliteDecisionStore, open_decisions
from playback.access.holds import (
    ScanVerdict,
    ThreatIndex,
    digest_key,
    list_threats,
    load_threats,
    scanned_digests,
    store_verdicts,
    verdict_of,
)
from playback.access.malware_scan import CollectionScan, PayloadReader, ScanProgress
from tests.playback.conftest import NOW, ROOT, CollectionBuilder, running_replay
from tests.services.clamav import EICAR, ClamdServer
from warc.index.database import open_database
from weboid.cli.main import weboid

pytestmark = pytest.mark.playback

SITE = "https://site.example"


@pytest.fixture(scope="module")
def clamd() -> Iterator[ClamdServer]:
    """One daemon for all tests that do not harm it."""
    server = ClamdServer()
    yield server
    server.stop()


@pytest.fixture
def mortal() -> Iterator[ClamdServer]:
    """A daemon that a test may harm."""
    server = ClamdServer()
    yield server
    server.stop()


def scanned(
    collection: CollectionBuilder,
    clamd: ClamdServer,
    *,
    after: int = 0,
    again: bool = False,
    most: int = 900_000,
) -> ScanProgress:
    """What a scan finds."""
    layout = collection.layout
    with closing(open_database(layout, "")) as database, closing(open_decisions(layout)) as store:
        scan = CollectionScan(
            database,
            store,
            ClamdClient(parse_clamd_address(clamd.address)),
            partial(PayloadReader, layout),
            lambda: NOW,
            most_bytes=most,
            signatures=clamd.signatures,
        )
        return scan.run(after=after, again=again)


def zipped(content: bytes) -> bytes:
    """A ZIP file with one file in it."""
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("invoice.com", content)
        return buffer.getvalue()


def brotlied(content: bytes) -> bytes:
    """Return the content in Brotli."""
    compressed: bytes = brotlicffi.compress(content)
    return compressed


def chunked(content: bytes) -> bytes:
    """The content in two chunks, the first of which ends within it."""
    parts = content[:9], content[9:]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_malware_is_found_however_it_was_sent(
    collection: CollectionBuilder, clamd: ClamdServer
) -> None:
    """Plain, in an archive, in a page, in chunks, and under codings, also where they are no truth."""
    sent = {
        "plain": (EICAR, ()),
        "zip": (zipped(EICAR), ()),
        "page": (b"<p>" + EICAR + b"</p>", ()),
        "chunks": (chunked(EICAR), (("Transfer-Encoding", "chunked"),)),
        "gzip": (gzip.compress(EICAR, mtime=0), (("Content-Encoding", "gzip"),)),
        "br": (brotlied(EICAR + b"." * 300), (("Content-Encoding", "br"),)),
        "both": (gzip.compress(brotlied(EICAR), mtime=1), (("Content-Encoding", "br, gzip"),)),
        "untrue": (b" " + EICAR, (("Content-Encoding", "gzip"),)),
        "unknown": (b"  " + EICAR, (("Content-Encoding", "zstd"),)),
    }
    for name, (body, headers) in sent.items():
        collection.response(f"{SITE}/{name}", body, headers=headers)
    collection.response(
        f"{SITE}/good", gzip.compress(b"good"), headers=(("Content-Encoding", "gzip"),)
    )
    collection.page(f"{SITE}/dom", EICAR.decode() + "made by a script")
    found = scanned(collection, clamd)

    assert {url.removeprefix(f"{SITE}/") for _, url in found.threats} == {
        *sent, f"urn:dom:{SITE}/dom"
    }  # fmt: skip
    assert {verdict.threat for verdict, _ in found.threats} == {"Weboid-Eicar.UNOFFICIAL"}
    assert (found.scanned, found.clean, found.skipped) == (11, 1, 0)


def test_a_verdict_holds_for_every_capture_of_the_payload(
    collection: CollectionBuilder, clamd: ClamdServer
) -> None:
    """A payload is scanned once; a revisit at another URL has its digest."""
    original = collection.response(f"{SITE}/a", EICAR)
    revisit = collection.revisit("https://other.example/b", original, at=NOW + timedelta(days=1))
    collection.response(f"{SITE}/again", EICAR, at=NOW + timedelta(days=2))
    found = scanned(collection, clamd)
    with closing(open_decisions(collection.layout)) as store:
        verdict = load_threats(store).on(revisit.digest)

    assert (found.scanned, [url for _, url in found.threats]) == (1, [f"{SITE}/again"])
    assert verdict is not None
    assert verdict.threat == "Weboid-Eicar.UNOFFICIAL"


def test_a_scan_goes_on_where_it_stopped_and_starts_anew_with_new_signatures(
    collection: CollectionBuilder, mortal: ClamdServer
) -> None:
    """What has a verdict of the same signatures is passed over; what came since is not."""
    body = b"nobody knows this yet"
    collection.response(f"{SITE}/a", body)
    first = scanned(collection, mortal)
    collection.response(f"{SITE}/b", b"newer")
    second = scanned(collection, mortal)
    mortal.sign("Weboid-New", body)
    mortal.restart()
    third = scanned(collection, mortal)
    fourth = scanned(collection, mortal)
    fifth = scanned(collection, mortal, again=True)

    assert [each.scanned for each in (first, second, third, fourth, fifth)] == [1, 1, 2, 0, 2]
    assert [url for _, url in third.threats] == [f"{SITE}/a"]
    assert (first.threats, second.scanner, fourth.scanner) == ([], first.scanner, third.scanner)
    assert scanned(collection, mortal, after=second.highest).highest == second.highest


def test_what_is_too_large_or_unreadable_is_noted_and_nothing_else_suffers(
    collection: CollectionBuilder, clamd: ClamdServer
) -> None:
    """Larger than the setting, than clamd's own limit, or expanding; missing, or named by poison."""
    big = collection.response(f"{SITE}/big", b"a" * 2_000_000)
    bomb = gzip.compress(b"\0" * 4_000_000)
    headers = (("Content-Encoding", "gzip"),)
    collection.response(f"{SITE}/bomb", bomb, headers=headers)
    gone = collection.response(f"{SITE}/gone", b"gone", warc="other.warc.gz")
    (collection.layout.archive / "other.warc.gz").unlink()
    other = collection.response(f"{SITE}/other", b"other")
    for number, name in enumerate(
        ("../../../etc/passwd", "/etc/passwd", "http://a.example/x.warc")
    ):
        place = replace(other.location, filename=name)
        url, digest = f"{SITE}/poison{number}", f"sha256:{number:064x}"
        collection.index(replace(other, url=url, digest=digest, location=place))
    wrong = replace(other, url=f"{SITE}/wrong", digest=f"sha256:{9:064x}")
    collection.index(
        replace(wrong, location=replace(other.location, offset=other.location.offset + 1))
    )
    collection.response(f"{SITE}/bad", EICAR)
    found = scanned(collection, clamd)
    over = scanned(collection, clamd, most=5_000_000, again=True)

    assert (found.scanned, found.skipped) == (2, 7)
    assert [url for _, url in found.threats] == [f"{SITE}/bad"]
    with closing(open_decisions(collection.layout)) as store:
        verdicts = {
            each: verdict_of(store, each) for each in (big.digest, gone.digest, wrong.digest)
        }
    said = {key: verdict.skipped for key, verdict in verdicts.items() if verdict is not None}
    assert said[big.digest] == "larger than clamd takes"
    assert said[gone.digest] == "unreadable: its WARC is not there"
    assert said[wrong.digest].startswith("unreadable: ")
    assert over.skipped == 7


def test_a_threat_stays_known_when_a_later_scan_cannot_look(tmp_path: Path) -> None:
    """A lower limit of the scanner's does not wash a payload clean; a scan that looked does."""
    found = ScanVerdict("sha256:" + "a" * 64, "Bad", "ClamAV 1", NOW)
    with closing(SqliteDecisionStore(tmp_path / "d.sqlite")) as store:
        store_verdicts(store, [found])
        store_verdicts(store, [replace(found, threat="", scanner="ClamAV 2", skipped="too large")])
        assert [each.threat for each in list_threats(store)] == ["Bad"]
        assert scanned_digests(store, [found.digest], "ClamAV 2") == {found.digest}
        store_verdicts(store, [replace(found, threat="", scanner="ClamAV 3")])
        assert list_threats(store) == []


def test_a_digest_is_found_in_any_spelling() -> None:
    """Hexadecimal, base32 and bare name one payload; what is no digest is only itself."""
    value = bytes(range(32))
    spelled = [f"sha256:{value.hex()}", f"sha256:{value.hex().upper()}"]
    spelled += [f"SHA-256:{base64.b32encode(value).decode()}", base64.b32encode(value).decode()]
    known = ThreatIndex(
        [ScanVerdict(spelled[2], "Bad", "x", NOW), ScanVerdict("odd", "Odd", "x", NOW)]
    )

    assert {digest_key(each) for each in spelled} == {spelled[0]}
    assert [known.on(each) is not None for each in spelled] == [True] * 4
    assert known.on("odd") is not None
    assert known.on("sha256:" + "0" * 64) is None
    assert not ThreatIndex()


# ------------------------------------------------------------------------------- the command


def run(collection: CollectionBuilder, *arguments: str) -> Result:
    """`weboid scan` on the collection."""
    collection.layout.marker.write_text("version = 1\n")
    where = ["--collection", str(collection.layout.root)]
    return CliRunner().invoke(weboid, ["scan", *arguments, *where], standalone_mode=False)


def test_the_command_says_what_it_found(collection: CollectionBuilder, clamd: ClamdServer) -> None:
    """For machines as one object; the threats can be listed later."""
    capture = collection.response(f"{SITE}/a", EICAR)
    first = run(collection, "--clamd", clamd.address, "--json")
    said = json.loads(first.output)
    listed = json.loads(run(collection, "threats", "--json").output)
    second = run(collection, "--clamd", clamd.address)

    assert (first.return_value, second.return_value) == (1, 0)
    assert (said["scanned"], said["threats"][0]["url"]) == (1, f"{SITE}/a")
    assert [each["digest"] for each in listed["threats"]] == [capture.digest]
    assert "0 payloads" in second.output


def test_a_daemon_that_is_away_is_said_and_nothing_is_taken_for_clean(
    collection: CollectionBuilder, mortal: ClamdServer
) -> None:
    """The error names the address and the remedy."""
    collection.response(f"{SITE}/a", EICAR)
    mortal.kill()
    done = run(collection, "--clamd", mortal.address)

    assert isinstance(done.exception, UnavailableError)
    assert mortal.address in str(done.exception)
    assert "Start it" in str(done.exception)
    with closing(open_decisions(collection.layout)) as store:
        assert store.rows("SELECT * FROM verdicts", {}) == []


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


def test_what_was_found_before_the_daemon_died_is_kept(
    collection: CollectionBuilder, mortal: ClamdServer
) -> None:
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


# ------------------------------------------------------------------------------- the protocol


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/clamd.ctl", UnixAddress("/run/clamd.ctl")),
        ("/run/clamd.ctl", UnixAddress("/run/clamd.ctl")),
        ("scanner", TcpAddress("scanner", 3310)),
        ("10.0.0.1:99", TcpAddress("10.0.0.1", 99)),
        ("[::1]:99", TcpAddress("::1", 99)),
    ],
)
def test_an_address_is_a_socket_or_a_host(text: str, address: UnixAddress | TcpAddress) -> None:
    """Written back, it names the same."""
    assert parse_clamd_address(text) == address
    assert parse_clamd_address(str(address)) == address


@settings(deadline=None)
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
        client = ClamdClient(TcpAddress("127.0.0.1", server.getsockname()[1]), timeout_s=5)
        if isinstance(outcome, str):
            assert client.scan(b"body") == outcome
        else:
            with pytest.raises(outcome):
                client.scan(b"body")
        thread.join(5)


def test_what_a_scan_found_readers_do_not_get(
    collection: CollectionBuilder, clamd: ClamdServer
) -> None:
    """From the next request on, in a replay that was running before."""
    collection.response(f"{SITE}/bad", b"<p>" + EICAR)
    collection.response(f"{SITE}/good", b"<p>good")
    at = timestamp14(NOW)
    with running_replay(collection.layout.root) as replay:
        assert replay.get(f"/c/{at}/{SITE}/bad").status == 200
        scanned(collection, clamd)
        bad = replay.get(f"/c/{at}/{SITE}/bad")
        assert (bad.status, "Weboid-Eicar.UNOFFICIAL" in bad.text) == (403, True)
        assert EICAR not in bad.body
        assert replay.get(f"/c/{at}/{SITE}/good").status == 200


def test_a_scan_that_watches_goes_on(collection: CollectionBuilder, mortal: ClamdServer) -> None:
    """It finds what comes, waits for a daemon that is away, and scans all when signatures change."""
    collection.layout.marker.write_text("version = 1\n")
    root, address = str(collection.layout.root), mortal.address
    code = "from weboid.cli.main import main; main()"
    options = [
        "--watch",
        "--every",
        "1s",
        "--settle",
        "2s",
        "--json",
        "--signatures",
        str(mortal.signatures),
    ]
    command = [
        sys.executable,
        "-c",
        code,
        "scan",
        *options,
        "--clamd",
        address,
        "--collection",
        root,
    ]
    collection.response(f"{SITE}/first", b"a body that is first")
    for path in mortal.signatures.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    mortal.kill()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert "cannot be reached" in process.stderr.readline()
        mortal.start()
        first = json.loads(process.stdout.readline())
        collection.response(f"{SITE}/second", EICAR)
        second = json.loads(process.stdout.readline())
        mortal.sign("Weboid-First", b"a body that is first")
        mortal.restart()
        third = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 6

    assert (first["scanned"], second["scanned"], third["scanned"]) == (1, 1, 2)
    assert [each["url"] for each in second["threats"]] == [f"{SITE}/second"]
    assert {each["url"] for each in third["threats"]} == {f"{SITE}/first", f"{SITE}/second"}
