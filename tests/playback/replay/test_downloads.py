"""PDFs, sound and films as downloads: in ranges, by their bytes, and never all in memory (P-16, P-21)."""

import gzip
import hashlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from core.timestamps import timestamp14
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from tests.support.playback_fixtures import NOW, CollectionBuilder, ReplayedCollection, running_replay

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
PDF = b"%PDF-1.7 " + bytes(range(256)) * 8
FILMS = {
    "mp4": (b"\0\0\0\x18ftypisom" + b"a" * 90, "video/mp4"),
    "webm": (b"\x1aE\xdf\xa3" + b"a" * 90, "video/webm"),
    "ogg": (b"OggS\0" + b"a" * 90, "application/ogg"),
    "mp3": (b"ID3" + b"a" * 90, "audio/mpeg"),
    "frame.mp3": (b"\xff\xfb\x90\x00" + b"a" * 90, "audio/mpeg"),
    "flac": (b"fLaC" + b"a" * 90, "audio/flac"),
    "wav": (b"RIFF\0\0\0\0WAVE" + b"a" * 90, "audio/wav"),
}


@pytest.mark.parametrize("name", FILMS)
def test_sound_and_films_are_handed_out_by_their_bytes(archived: ReplayedCollection, site: str, name: str) -> None:
    """Whatever their server called them, under a neutral name, never to be opened here."""
    body, kind = FILMS[name]
    archived.builder.response(f"{site}/x", body, mime="application/octet-stream")

    reply = archived.replay.get(f"/c/{TS}dl_/{site}/x")

    assert (reply.status, reply["Content-Type"], reply.body) == (200, kind, body)
    extension = name.rpartition(".")[2]
    assert reply["Content-Disposition"] == f'attachment; filename="capture-{TS}.{extension}"'


@pytest.mark.parametrize(
    ("body", "mime"),
    [
        (b"MZ\x90\0", "video/mp4"), (b"<html><script>", "audio/mpeg"), (b"<svg/>", "application/pdf"),
        (b"L\0\0\0\x01\x14\x02\0", "video/mp4"), (b"PK\x03\x04", "application/pdf"), (b"", "video/mp4"),
        (b"\0\0\0\x18ftypavif", "video/mp4"), (b"#EXTM3U\n", "application/vnd.apple.mpegurl"),
    ],
)  # fmt: skip
def test_what_only_calls_itself_so_is_not_handed_out(
    archived: ReplayedCollection, site: str, body: bytes, mime: str
) -> None:
    """Programs, shortcuts and documents are kept, not given away (P-16)."""
    archived.builder.response(f"{site}/x", body, mime=mime)

    assert archived.replay.get(f"/c/{TS}dl_/{site}/x").status == 404


@pytest.mark.parametrize("coding", ["", "gzip", "chunked"])
@pytest.mark.parametrize(
    ("range_header", "first", "end"),
    [("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=2000-", 2_000, len(PDF)), ("bytes=-7", len(PDF) - 7, len(PDF))],
)
def test_a_range_is_the_same_however_the_body_is_stored(
    archived: ReplayedCollection, site: str, range_header: str, first: int, end: int, coding: str
) -> None:
    """Ranges count decoded bytes, as the reader sees them."""
    body, headers = PDF, (("X", "y"),)
    if coding == "gzip":
        body, headers = gzip.compress(PDF), (("Content-Encoding", "gzip"),)
    elif coding == "chunked":
        body = b"%X\r\n%s\r\n0\r\n\r\n" % (len(PDF), PDF)
        headers = (("Transfer-Encoding", "chunked"),)
    archived.builder.response(f"{site}/x", body, mime="application/pdf", headers=headers)

    reply = archived.replay.get(f"/c/{TS}dl_/{site}/x", headers={"Range": range_header})

    assert (reply.status, reply.body) == (206, PDF[first:end])
    assert reply["Content-Range"] == f"bytes {first}-{end - 1}/{len(PDF)}"
    assert reply["Accept-Ranges"] == "bytes"


def test_a_range_of_a_revisit_is_of_its_original(archived: ReplayedCollection, site: str) -> None:
    """The payload is elsewhere, the headers are here."""
    original = archived.builder.response(f"{site}/one", PDF, mime="application/pdf")
    archived.builder.revisit(f"{site}/two", original)

    reply = archived.replay.get(f"/c/{TS}dl_/{site}/two", headers={"Range": "bytes=3-6"})

    assert (reply.status, reply.body) == (206, PDF[3:7])


def test_conditions_decide_whether_a_range_is_sent(archived: ReplayedCollection, site: str) -> None:
    """A changed copy is sent whole, a known one not at all, what lies behind its end is refused."""
    archived.builder.response(f"{site}/x", PDF, mime="application/pdf")
    address = f"/c/{TS}dl_/{site}/x"
    etag = archived.replay.get(address)["ETag"]

    def ask(**headers: str) -> tuple[int, int]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = archived.replay.get(address, headers=named)
        return reply.status, len(reply.body)

    assert ask(Range="bytes=0-4", If_Range=etag) == (206, 5)
    assert ask(Range="bytes=0-4", If_Range='"other"') == (200, len(PDF))
    assert ask(Range="bytes=0-4", If_Range="Sun, 01 Mar 2026 12:00:00 GMT") == (200, len(PDF))
    assert ask(Range="bytes=0-4", If_None_Match=etag) == (304, 0)
    assert ask(Range="bytes=99999-") == (416, 0)
    assert ask(Range="bytes=0-1,4-5") == (200, len(PDF))
    assert archived.replay.get(address, headers={"Range": "bytes=99999-"})["Content-Range"] == f"bytes */{len(PDF)}"


def test_a_large_film_is_never_all_in_memory(collection: CollectionBuilder) -> None:
    """40 MB leave in blocks; meanwhile others are answered; of its end only the end is sent."""
    site, size = "https://film.example", 40_000_000
    head = b"\0\0\0\x18ftypisom"
    body = head + os.urandom(1_000_000) + bytes(size - len(head) - 1_000_004) + b"tail"
    collection.response(f"{site}/film", body, mime="video/mp4")
    with running_replay(collection.layout.root) as replay:
        assert replay.get(f"/c/{TS}dl_/{site}/never").status == 404
        before = _peak_memory_kb(replay.process.pid)
        last = replay.get(f"/c/{TS}dl_/{site}/film", headers={"Range": "bytes=-4"})
        address = urlsplit(replay.origin)
        with socket.create_connection((address.hostname, address.port), timeout=120) as client:
            client.sendall(f"GET /c/{TS}dl_/{site}/film HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
            received = len(client.recv(65_536))
            assert replay.get(f"/c/{TS}dl_/{site}/never").status == 404  # while the film is sent
            while received < size:
                received += len(client.recv(1 << 20))

        assert (last.status, last.body) == (206, b"tail")
        assert _peak_memory_kb(replay.process.pid) - before < 30_000


def test_what_is_taken_down_by_its_digest_is_not_handed_out_in_pieces(collection: CollectionBuilder) -> None:
    """Streamed or not, whichever algorithm the digest is of (P-22)."""
    site = "https://gone.example"
    collection.response(f"{site}/x", PDF, mime="application/pdf")
    collection.response(f"{site}/other", PDF + b"!", mime="application/pdf")
    with running_replay(collection.layout.root) as replay:
        address = f"/c/{TS}dl_/{site}/x"
        etag = replay.get(address)["ETag"]
        store = open_decisions(collection.layout, "")
        digest = f"md5:{hashlib.md5(PDF, usedforsecurity=False).hexdigest()}"
        takedowns.add_takedowns(
            store, [Takedown(0, TakedownKind.DIGEST, digest, "", TakedownEffect.BLOCK, "", "", "", NOW, None)]
        )
        store.close()

        for headers in ({}, {"Range": "bytes=0-1"}, {"If-None-Match": etag}):
            assert replay.get(address, headers=headers).status == 451
        assert replay.get(f"/c/{TS}dl_/{site}/other", headers={"Range": "bytes=0-1"}).status == 206


def _peak_memory_kb(pid: int) -> int:
    with Path(f"/proc/{pid}/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize("name", FILMS)
def test_sound_and_films_of_a_page_are_sent_to_players(archived: ReplayedCollection, site: str, name: str) -> None:
    """By ranges, as parts of a sandboxed page; never to scripts, and not below the level of images."""
    body, kind = FILMS[name]
    archived.builder.response(f"{site}/x", body, mime="video/mp4")
    address = f"/c/{TS}me_/{site}/x"
    player = {"Sec-Fetch-Dest": "video"}

    reply = archived.replay.get(address, headers=player | {"Range": "bytes=4-9"})
    assert (reply.status, reply.body) == (206, body[4:10])
    assert reply["Content-Type"] == f"{kind}; role=part"
    assert reply["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert "Content-Disposition" not in dict(reply.headers)
    etag = {"If-None-Match": reply["ETag"]}
    assert archived.replay.get(address, headers=player | etag).status == 304
    assert archived.replay.get(address, headers={"Sec-Fetch-Dest": "empty"}).status == 404


@pytest.mark.parametrize("body", [PDF, b"MZ\x90\0", b"<html><script>", b"#EXTM3U\n", b""])
def test_a_player_gets_nothing_else(archived: ReplayedCollection, site: str, body: bytes) -> None:
    """Documents, programs and playlists are no sound or film, whatever they call themselves."""
    archived.builder.response(f"{site}/x", body, mime="video/mp4")

    reply = archived.replay.get(f"/c/{TS}me_/{site}/x", headers={"Sec-Fetch-Dest": "audio"})
    assert reply.status == 404
