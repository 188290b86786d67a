"""Images, style sheets and records as replay finds, bounds and refuses them."""

import gzip
import hashlib
import io
import os
import struct
import threading
import zlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from PIL import Image

from core.captures import ArtifactKind, Capture, RecordLocation, RecordType
from core.timestamps import timestamp14
from core.url_keys import replay_key
from tests.support.playback_fixtures import (
    FRONT,
    NOW,
    CollectionBuilder,
    ReplayedCollection,
    _http,
    png,
    running_replay,
)

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)


def encoded(kind: str) -> bytes:
    """Return a small image in that format of Pillow."""
    with io.BytesIO() as buffer:
        Image.new("RGB", (8, 8), "red").save(buffer, kind)
        return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "mime"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
        ("AVIF", "image/avif"),
    ],
)
def test_an_image_is_named_by_its_bytes(archived: ReplayedCollection, site: str, kind: str, mime: str) -> None:
    """The declared type is what its server said; what a reader's browser is told is what it is."""
    body = encoded(kind)
    archived.builder.response(f"{site}/{kind}", body, mime="application/octet-stream")

    reply = archived.replay.get(f"/c/{TS}im_/{site}/{kind}")

    assert (reply.status, reply["Content-Type"], reply.body) == (200, mime, body)


@pytest.mark.parametrize(
    "body",
    [
        b"<html><script>alert(1)</script>",
        b"<?xml version='1.0'?><svgx/>",
        b"GIF88a<script>",
        b"\x00\x00\x00\x1cftypheic" + b"\x00" * 40,
        b"%PDF-1.7",
        b"BM" + b"\x00" * 60,
        b"",
    ],
)
def test_what_is_no_image_is_not_shown_as_one(archived: ReplayedCollection, site: str, body: bytes) -> None:
    """HTML and whatever else called itself an image (P-16)."""
    archived.builder.response(f"{site}/x.png", body, mime="image/png")

    reply = archived.replay.get(f"/c/{TS}im_/{site}/x.png")

    assert (reply.status, reply.body) == (404, b"Not captured.\n")
    assert reply["Content-Type"] == "text/plain; charset=utf-8"


def test_an_image_that_would_fill_the_readers_memory_is_not_shown(archived: ReplayedCollection, site: str) -> None:
    """A header of a few bytes can announce billions of pixels (P-21)."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk
    bomb += struct.pack(">I", zlib.crc32(chunk))
    archived.builder.response(f"{site}/bomb.png", bomb, mime="image/png")

    assert archived.replay.get(f"/c/{TS}im_/{site}/bomb.png").status == 404


def test_the_pictures_of_a_page_are_served_and_no_other_artifact_as_an_image(
    archived: ReplayedCollection, site: str
) -> None:
    """Screenshots are images at the page's moment; DOM and manifest are not."""
    shot = png("blue", (1280, 800))
    archived.builder.page(f"{site}/?a=1#!/x", "<p>x</p>", shot=shot, text="x")

    address = f"{site}/?a=1%23!/x"
    assert archived.replay.get(f"/c/{TS}im_/urn:view:{address}").body == shot
    assert archived.replay.get(f"/c/{TS}im_/urn:fullPage:{address}").body == shot
    thumbnail = archived.replay.get(f"/c/{TS}im_/urn:thumbnail:{address}")
    assert thumbnail["Content-Type"] == "image/jpeg"
    for kind in (ArtifactKind.DOM, ArtifactKind.TEXT, ArtifactKind.PAGEINFO):
        assert archived.replay.get(f"/c/{TS}im_/urn:{kind}:{address}").status == 404
    assert archived.replay.get(f"/c/{TS}/urn:dom:{address}").status == 404


def test_a_screenshot_is_evidence_for_its_own_url_only(archived: ReplayedCollection, site: str) -> None:
    """Pages that share a replay key do not share their pictures."""
    archived.builder.page(f"{site}/a", "<p>x</p>", shot=png())

    assert archived.replay.get(f"/c/{TS}im_/urn:view:{site}/A").status == 404


def test_a_part_is_taken_from_near_its_page(archived: ReplayedCollection, site: str) -> None:
    """Thirty days either way; an image of another year never stands in (P-10)."""
    for name, colour, days in (
        ("near", "red", 29), ("far", "green", 31), ("both", "red", 300), ("both", "blue", -2),
    ):  # fmt: skip
        archived.builder.response(f"{site}/{name}.png", png(colour), mime="image/png", at=NOW + timedelta(days=days))

    assert archived.replay.get(f"/c/{TS}im_/{site}/near.png").body == png("red")
    assert archived.replay.get(f"/c/{TS}im_/{site}/far.png").status == 404
    assert archived.replay.get(f"/c/{TS}im_/{site}/both.png").body == png("blue")


def test_a_parts_redirect_is_followed_in_the_archive(archived: ReplayedCollection, site: str) -> None:
    """One request of the reader, however many the archiving browser needed; loops end."""
    for here, there in (("a", "b"), ("b", f"{site}/c"), ("x", "y"), ("y", "x")):
        archived.builder.response(f"{site}/{here}", b"", status=301, headers=(("Location", there),), mime="unk")
    archived.builder.response(f"{site}/c", png(), mime="image/png")

    assert archived.replay.get(f"/c/{TS}im_/{site}/a").body == png()
    assert archived.replay.get(f"/c/{TS}im_/{site}/x").status == 404


def test_an_upgrade_to_https_is_no_loop(archived: ReplayedCollection, site: str) -> None:
    """Both forms share a replay key, and each answers for itself."""
    plain = site.replace("https:", "http:")
    archived.builder.response(f"{plain}/i", b"", status=301, headers=(("Location", f"{site}/i"),), mime="unk")
    archived.builder.response(f"{site}/i", png(), mime="image/png")

    assert archived.replay.get(f"/c/{TS}im_/{plain}/i").body == png()


def test_an_error_page_is_no_image_and_no_style(archived: ReplayedCollection, site: str) -> None:
    """A capture that failed is skipped for one that did not."""
    archived.builder.response(f"{site}/i", b"<p>404", status=404)
    archived.builder.response(f"{site}/i", png(), mime="image/png", at=NOW + timedelta(days=3))

    assert archived.replay.get(f"/c/{TS}im_/{site}/i").body == png()


def test_a_revisit_plays_back_the_payload_of_its_original(archived: ReplayedCollection, site: str) -> None:
    """Across URLs and WARCs, from its own row alone: the original's row may be gone."""
    original = archived.builder.response(f"{site}/one.png", png("lime"), mime="image/png")
    revisit = archived.builder.revisit(f"{site}/two.png", original)
    archived.builder._database.execute(
        "DELETE FROM captures WHERE filename = ? AND offset = ?", (original.location.filename, original.location.offset)
    )

    assert revisit.original == original.location
    assert archived.replay.get(f"/c/{TS}im_/{site}/two.png").body == png("lime")


def test_a_revisit_of_another_payload_is_refused(archived: ReplayedCollection, site: str) -> None:
    """An index that mixes up records must not show one site's bytes under another's name."""
    own = replace(archived.builder.response(f"{site}/one.png", png(), mime="image/png"),
                  digest=f"sha256:{hashlib.sha256(site.encode()).hexdigest()}")  # fmt: skip
    other = archived.builder.response(f"{site}/other.png", png("pink"), mime="image/png")
    archived.builder.revisit(f"{site}/two.png", replace(own, location=other.location))

    assert archived.replay.get(f"/c/{TS}im_/{site}/two.png").status == 404


@pytest.mark.parametrize("loss", ["file", "damage", "reference"])
def test_a_revisit_whose_original_is_gone_is_played_from_a_twin(
    archived: ReplayedCollection, site: str, loss: str
) -> None:
    """Another record with the very same payload, wherever it was captured: of images and of files."""
    builder = archived.builder
    bodies = {"im_": png() + site.encode(), "dl_": b"%PDF-1.4 " + site.encode()}
    for modifier, body in bodies.items():
        mime = "image/png" if modifier == "im_" else "application/pdf"
        path = f"{site}/{modifier}"
        warc = f"{hashlib.sha256(path.encode()).hexdigest()[:8]}.warc.gz"
        original = builder.response(f"{path}one", body, mime=mime, warc=warc)
        revisit = builder.revisit(f"{path}two", original)
        builder.response(f"{path}twin", body, mime=mime)
        if loss == "file":
            (builder.layout.archive / warc).unlink()
        elif loss == "damage":
            (builder.layout.archive / warc).write_bytes(b"x" * original.location.length)
        else:
            builder._database.execute(
                "UPDATE captures SET orig_filename = NULL WHERE filename = ? AND offset = ?",
                (revisit.location.filename, revisit.location.offset),
            )

        assert archived.replay.get(f"/c/{TS}{modifier}/{path}two").body == body


def test_a_twin_is_believed_for_what_it_holds_not_for_what_it_claims(archived: ReplayedCollection, site: str) -> None:
    """Neither a record's own word nor the index's puts other bytes in the place of those that are gone."""
    builder = archived.builder
    body, foreign = png() + site.encode(), png("pink") + site.encode()
    original = builder.response(f"{site}/one", body, mime="image/png", warc="gone.warc.gz")
    builder.revisit(f"{site}/two", original)
    (builder.layout.archive / "gone.warc.gz").unlink()
    headers = {"WARC-Payload-Digest": original.digest}
    place, _ = builder._write(
        f"{site}/liar", foreign, RecordType.RESPONSE, NOW, "captures-00000.warc.gz", False,
        _http(200, [("Content-Type", "image/png")]), headers,
    )  # fmt: skip
    builder.index(replace(original, url=f"{site}/liar", urlkey=replay_key(f"{site}/liar"), location=place))

    assert archived.replay.get(f"/c/{TS}im_/{site}/two").status == 404


def test_a_warc_that_is_still_written_plays_back(archived: ReplayedCollection, site: str) -> None:
    """Under its open name while it grows, and under its final name after that, unindexed again."""
    name = f"{hashlib.sha256(site.encode()).hexdigest()[:8]}.warc.gz"
    archived.builder.response(f"{site}/i", png(), mime="image/png", warc=name, is_open=True)
    assert archived.replay.get(f"/c/{TS}im_/{site}/i").body == png()

    closed, still_open = archived.builder.layout.warc(name)
    still_open.rename(closed)

    assert archived.replay.get(f"/c/{TS}im_/{site}/i").body == png()


def test_what_is_written_can_be_read_at_once(archived: ReplayedCollection, site: str) -> None:
    """While another process writes, each capture plays back as soon as its row is there."""
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            archived.replay.get(f"/c/{TS}im_/{site}/other")

    reader = threading.Thread(target=keep_asking)
    reader.start()
    try:
        for number in range(40):
            archived.builder.response(f"{site}/{number}", png(), mime="image/png")
            assert archived.replay.get(f"/c/{TS}im_/{site}/{number}").status == 200
    finally:
        stop.set()
        reader.join()


@pytest.mark.parametrize(
    "filename",
    [
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "file:{root}/outside.warc.gz",
        "{root}/outside.warc.gz",
        "file:///etc/passwd",
        "http://127.0.0.1:9/x.warc.gz",
        "s3://bucket/x.warc.gz",
        "pkg://pywb/x.warc.gz",
        "../outside.warc.gz",
        "sub/inside.warc.gz",
        "..%2foutside.warc.gz",
        ".hidden.warc.gz",
        "outside.warc.gz\x00.warc.gz",
        "",
    ],
)
def test_a_poisoned_index_opens_no_other_file(archived: ReplayedCollection, site: str, filename: str) -> None:
    """Only plain names inside the archive folder are opened (P-20)."""
    filename = filename.replace("{root}", str(archived.builder.layout.root))
    url, home = f"{site}/x.png", archived.builder.layout
    capture = archived.builder.response(url, png(), mime="image/png", warc="outside.warc.gz")
    assert archived.replay.get(f"/c/{TS}im_/{url}").status == 200
    for copy in (
        home.root / "outside.warc.gz",
        home.archive / "sub" / "inside.warc.gz",
        home.archive / ".hidden.warc.gz",
    ):
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((home.archive / "outside.warc.gz").read_bytes())
    archived.builder._database.execute("DELETE FROM captures WHERE url = ?", (url,))
    archived.builder.index(replace(capture, location=replace(capture.location, filename=filename)))

    assert archived.replay.get(f"/c/{TS}im_/{url}").status == 404


@pytest.mark.parametrize(("offset", "length"), [(3, 100), (-1, 100), (0, -1), (0, 20), (10**12, 100), (0, 10**9)])
def test_a_row_that_points_elsewhere_shows_nothing(
    archived: ReplayedCollection, site: str, offset: int, length: int
) -> None:
    """A damaged record, or another URL's, is not shown under this one."""
    name = f"{hashlib.sha256(f'{site}{offset}{length}'.encode()).hexdigest()[:8]}.warc.gz"
    archived.builder.response(f"{site}/first.png", png(), mime="image/png", warc=name)
    archived.builder._database.execute("DELETE FROM captures WHERE filename = ?", (name,))
    url, place = f"{site}/lie.png", RecordLocation(name, offset, length)
    archived.builder.index(Capture(url, replay_key(url), NOW, RecordType.RESPONSE, "image/png", 200, "sha256:0", place))

    assert archived.replay.get(f"/c/{TS}im_/{url}").status == 404


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "raw deflate", "gzip, gzip"])
def test_stored_codings_are_undone(archived: ReplayedCollection, site: str, coding: str) -> None:
    """Readers get the decoded content, whatever Content-Encoding the server used."""
    body = {
        "gzip": gzip.compress(png()),
        "x-gzip": gzip.compress(png()),
        "deflate": zlib.compress(png()),
        "raw deflate": zlib.compress(png())[2:-4],
        "gzip, gzip": gzip.compress(gzip.compress(png())),
    }[coding]
    archived.builder.response(
        f"{site}/i", body, mime="image/png", headers=(("Content-Encoding", coding.removeprefix("raw ")),)
    )

    reply = archived.replay.get(f"/c/{TS}im_/{site}/i")

    assert reply.body == png()
    assert "Content-Encoding" not in dict(reply.headers)


def test_brotli_is_undone_and_a_false_label_is_ignored(archived: ReplayedCollection, site: str) -> None:
    """Some tools store decoded bodies under the headers of encoded ones."""
    # "hello" as an uncompressed meta-block, RFC 7932, 9.2 (made with the reference encoder).
    archived.builder.response(
        f"{site}/br", bytes.fromhex("0b028068656c6c6f03"), mime="text/plain",
        headers=(("Content-Encoding", "br"),),
    )  # fmt: skip
    for coding in ("br", "gzip", "deflate"):
        archived.builder.response(
            f"{site}/{coding}.png", png(), mime="image/png", headers=(("Content-Encoding", coding),)
        )

    assert "hello" in archived.replay.get(f"/c/{TS}/{site}/br").text
    for coding in ("br", "gzip", "deflate"):
        assert archived.replay.get(f"/c/{TS}im_/{site}/{coding}.png").body == png()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd", "gzip, gzip, gzip"])
def test_a_bomb_costs_its_limit_and_no_more(archived: ReplayedCollection, site: str, coding: str) -> None:
    """A body that expands like no page does is refused, quickly and in little memory (P-21)."""
    zeros = b"<p>" + b"\0" * 120_000_000
    packed = {
        "gzip": lambda: gzip.compress(zeros, 1),
        "deflate": lambda: zlib.compress(zeros, 1),
        "zstd": lambda: b"(\xb5/\xfd" + b"\0" * 99,
        "gzip, gzip, gzip": lambda: gzip.compress(gzip.compress(gzip.compress(b"<p>x"))),
    }[coding]()
    archived.builder.response(f"{site}/b", packed, headers=(("Content-Encoding", coding),))
    before = _peak_memory_kb(archived.replay.process.pid)

    reply = archived.replay.get(f"/c/{TS}/{site}/b")

    assert reply.status == 404
    assert _peak_memory_kb(archived.replay.process.pid) - before < 100_000


def test_a_page_that_takes_too_long_holds_up_nobody(collection: CollectionBuilder) -> None:
    """Open formatting elements reopen in each paragraph, a drawing has filters; makers are replaced.

    Who asks again is told at once.
    """
    site = "https://deep.example"
    formatting = b"".join(b"<b class=c%d>" % place for place in range(60))
    collection.response(f"{site}/deep", formatting + b"<p>x" * 2_000_000)
    turbulence = '<filter id="f"><feTurbulence numOctaves="9999999" baseFrequency=".9"/></filter>'
    drawing = f'{turbulence}<rect width="4000" height="4000" filter="url(#f)"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="4000" height="4000">{drawing}</svg>'
    collection.response(f"{site}/slow.svg", svg.encode(), mime="image/svg+xml")
    collection.response(f"{site}/good", b"<p>good</p>")
    collection.response(f"{site}/i", png(), mime="image/png")
    with running_replay(collection.layout.root, FRONT, "--deadline-s", "1") as replay:
        slow: list[int] = []

        def ask(path: str) -> None:
            slow.append(replay.get(f"/c/{TS}/{site}/{path}").status)

        threads = [threading.Thread(target=ask, args=("deep",)) for _ in range(2)]
        for thread in threads:
            thread.start()
        answered = 0
        while any(thread.is_alive() for thread in threads):
            assert replay.get(f"/c/{TS}im_/{site}/i").status == 200
            answered += 1

        assert answered > 1
        assert slow == [404, 404]
        makers = set(_children(replay.process.pid))
        assert replay.get(f"/c/{TS}/{site}/deep").status == 404
        assert replay.get(f"/c/{TS}im_/{site}/slow.svg").status == 404
        makers = set(_children(replay.process.pid))
        assert replay.get(f"/c/{TS}im_/{site}/slow.svg").status == 404
        assert set(_children(replay.process.pid)) == makers  # no maker was ended over it
        assert "<p>good</p>" in replay.get(f"/c/{TS}/{site}/good").text


def test_a_page_longer_than_the_limit_is_refused(archived: ReplayedCollection, site: str) -> None:
    """Without any coding, too."""
    archived.builder.response(f"{site}/long", b"<p>" + os.urandom(8).hex().encode() * 700_000)

    reply = archived.replay.get(f"/c/{TS}/{site}/long")

    assert reply.status == 404
    assert "too large" in reply.text


def test_a_style_sheet_is_filtered_on_its_way(archived: ReplayedCollection, site: str) -> None:
    """Its URLs are relative to where it was captured; its charset is the one it declares."""
    archived.builder.response(
        f"{site}/css/a.css",
        "p{background:url(../i.png);behavior:url(x)} p::after{content:'é'}".encode("latin-1"),
        mime="text/css",
        content_type="text/css; charset=iso-8859-1",
    )

    reply = archived.replay.get(f"/c/{TS}cs_/{site}/css/a.css")

    assert reply["Content-Type"] == "text/css; charset=utf-8"
    assert reply.text == (f'p{{background:url("/c/{TS}im_/{site}/i.png");}}\np::after{{content:"é";}}')


@pytest.mark.parametrize("mime", ["text/html", "text/javascript", "image/png"])
def test_what_is_no_style_sheet_is_not_served_as_one(archived: ReplayedCollection, site: str, mime: str) -> None:
    """An HTML page under the style route would be a page without its policy."""
    archived.builder.response(f"{site}/x", b"p{color:red}", mime=mime)

    assert archived.replay.get(f"/c/{TS}cs_/{site}/x").status == 404


def test_a_collection_without_its_index_waits_until_it_has_one(collection: CollectionBuilder) -> None:
    """Replay may be started first; a rebuilt index takes over without a restart."""
    index = collection.layout.captures_db
    url = "https://example.org/i.png"
    collection.response(url, png(), mime="image/png")
    collection.close()
    hidden = index.with_suffix(".hidden")
    index.rename(hidden)
    with running_replay(collection.layout.root) as replay:
        assert replay.get(f"/c/{TS}im_/{url}").status == 503  # there are WARCs: it was lost

        hidden.rename(index)
        assert replay.get(f"/c/{TS}im_/{url}").status == 200

        other = index.with_suffix(".other")
        other.write_bytes(b"no database at all, though long enough to be looked at" * 20)
        other.rename(index)
        assert replay.get(f"/c/{TS}im_/{url}").status == 503


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _peak_memory_kb(pid: int) -> int:
    with Path(f"/proc/{pid}/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
