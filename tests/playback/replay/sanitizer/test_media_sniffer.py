"""Tests of `playback.replay.sanitizer.media_sniffer`."""

import gzip
import io
import struct
import zlib
from typing import Any

import pytest
from isal import igzip
from PIL import Image

from playback.replay.sanitizer.media_sniffer import RasterKind, image_type, raster_kind
from tests.support.playback_fixtures import NOW, ReplayedCollection

pytestmark = pytest.mark.playback


def saved(kind: str, size: tuple[int, int] = (6, 4), **options: Any) -> bytes:
    """Return a small image in that format of Pillow."""
    with io.BytesIO() as buffer:
        Image.new("RGB", size, "red").save(buffer, kind, **options)
        return buffer.getvalue()


def film(kind: str, frames: int, size: tuple[int, int] = (6, 4)) -> bytes:
    """Return an animation of that many different frames."""
    colours = [Image.new("RGB", size, (n % 256, n // 256, 9)) for n in range(frames)]
    with io.BytesIO() as buffer:
        colours[0].save(buffer, kind, save_all=True, append_images=colours[1:])
        return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp"),
     ("AVIF", "image/avif")],
)  # fmt: skip
def test_real_images_and_films_are_shown(kind: str, media_type: str) -> None:
    """Of each format, small and of a real page's size."""
    assert image_type(saved(kind)) == media_type
    assert image_type(saved(kind, (1600, 900))) == media_type
    if kind != "JPEG":
        assert image_type(film(kind, 12)) == media_type


def test_other_ways_to_write_an_image_are_shown() -> None:
    """Progressive JPEG, lossless WebP, a GIF with a palette for each frame."""
    assert image_type(saved("JPEG", progressive=True)) == "image/jpeg"
    assert image_type(saved("WEBP", lossless=True)) == "image/webp"
    assert image_type(saved("JPEG", quality=95, subsampling=0, comment=b"x" * 900)) == "image/jpeg"


def _jpeg(before: bytes, width: int = 60_000, height: int = 60_000) -> bytes:
    frame = struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8\xff\xe0\x00\x04ab" + before + b"\xff\xc2" + frame + b"\xff\xda" + b"\0" * 40


def _png(*chunks: bytes, size: tuple[int, int] = (60_000, 60_000)) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(each) - 4) + each + struct.pack(">I", zlib.crc32(each))
        for each in (head, *chunks, b"IDAT" + b"x" * 20)
    )


def _webp(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(name + struct.pack("<I", len(data)) + data for name, data in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def _gif(frames: int, screen: tuple[int, int], frame: tuple[int, int]) -> bytes:
    one = b"," + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\x02\x02\x4c\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", *screen, 0, 0, 0) + one * frames + b";"


_BOMBS = {
    "jpeg": _jpeg(b""),
    "jpeg-behind-garbage": _jpeg(b"garbage\x00"),
    "jpeg-behind-fill": _jpeg(b"\xff\xff\xff\xff"),
    "jpeg-behind-restart": _jpeg(b"\xff\xd0\xff\x01"),
    "jpeg-behind-escaped": _jpeg(b"\xff\x00x"),
    "jpeg-without-size": b"\xff\xd8\xff\xe0\x00\x04ab\xff\xd9",
    "png": _png(),
    "png-other-chunk-first": _png().replace(b"IHDR", b"IHDr", 1),
    "png-frames": _png(b"acTL" + struct.pack(">II", 2**31 - 1, 0), size=(800, 600)),
    "png-cut": _png()[:20],
    "gif-screen": _gif(1, (60_000, 60_000), (1, 1)),
    "gif-frame": _gif(1, (1, 1), (60_000, 60_000)),
    "gif-frames": _gif(6_000, (800, 600), (1, 1)),
    "gif-many": _gif(20_001, (1, 1), (1, 1)),
    "webp-vp8x": _webp((b"VP8X", b"\x02\0\0\0" + b"\xff" * 6)),
    "webp-vp8": _webp((b"VP8 ", b"\0\0\0\x9d\x01\x2a\xff\x3f\xff\x3f" + b"\0" * 9)),
    "webp-vp8l": _webp((b"VP8L", b"\x2f\xff\xff\xff\x0f" + b"\0" * 9)),
    "webp-second-chunk": _webp(
        (b"VP8X", b"\x02\0\0\0" + b"\x05\0\0" * 2),
        (b"VP8 ", b"\0\0\0\x9d\x01\x2a\xff\x3f\xff\x3f" + b"\0" * 10),
    ),
    "webp-frames": _webp(
        (b"VP8X", b"\x02\0\0\0" + b"\xff\x0f\0" * 2), *[(b"ANMF", b"\0" * 16)] * 500
    ),
    "webp-empty": _webp(),
    "avif": b"\0\0\0\x18ftypavif\0\0\0\0avifmif1" + b"\0\0\0\x14ispe" + b"\0" * 4
    + struct.pack(">II", 60_000, 60_000),
    "avif-far": b"\0\0\0\x18ftypavif\0\0\0\0avifmif1" + b"x" * 90_000 + b"\0\0\0\x14ispe" + b"\0" * 4
    + struct.pack(">II", 60_000, 60_000),
    "avif-film": b"\0\0\0\x18ftypavis\0\0\0\0avismif1" + b"\0\0\0\x14ispe" + b"\0" * 4
    + struct.pack(">II", 4_000, 4_000) + b"stsz" + struct.pack(">III", 0, 0, 9_000),
    "avif-without-size": b"\0\0\0\x18ftypavif\0\0\0\0avifmif1",
}  # fmt: skip


@pytest.mark.parametrize("name", _BOMBS)
def test_a_picture_that_a_browser_should_not_be_asked_to_hold_is_none(name: str) -> None:
    """By its size, by its frames, or because it hides its size (P-21)."""
    assert image_type(_BOMBS[name]) is None


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<svg/>", RasterKind.SVG),
        (b"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- a --><!DOCTYPE svg PUBLIC 'x' 'y' [\n<!ENTITY a 'b'>]>"
         b"\n<!-- b -->\n<svg xmlns='x'>", RasterKind.SVG),
        ("\ufeff<svg >".encode("utf-16"), RasterKind.SVG),
        (gzip.compress(b"<s:svg xmlns:s='x'>"), RasterKind.SVG),
        (saved("BMP"), RasterKind.BMP),
        (saved("ICO", (16, 16)), RasterKind.ICO),
        (b"<html><svg></svg>", None),
        (b"<svgx>", None),
        (b"<!-- <svg> -->", None),
        (b"<!DOCTYPE html><svg>", None),
        (b"<!-- " * 6_000, None),
        (b"<!---->" * 4_000 + b"<svg>", RasterKind.SVG),
        (igzip.compress(b"x" * 10_000_000, 1), None),
        (b"", None),
    ],
    ids=range(14),
)  # fmt: skip
def test_a_drawing_is_known_by_its_first_bytes(data: bytes, kind: RasterKind | None) -> None:
    """Whatever stands before its root element, and nothing else (P-16)."""
    assert raster_kind(data) == kind


def test_a_picture_of_an_old_format_is_served_as_png(archived: ReplayedCollection, site: str) -> None:
    """BMP and icons, whose decoders in browsers nobody needs to meet."""
    archived.builder.response(f"{site}/x.bmp", saved("BMP"), mime="image/bmp")
    archived.builder.response(f"{site}/x.ico", saved("ICO", (16, 16)), mime="image/x-icon")

    for name in ("x.bmp", "x.ico"):
        reply = archived.replay.get(f"/c/{NOW:%Y%m%d%H%M%S}im_/{site}/{name}")
        assert reply["Content-Type"] == "image/png"
        assert image_type(reply.body) == "image/png"
