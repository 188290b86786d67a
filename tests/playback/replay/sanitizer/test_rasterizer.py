"""Pictures: what their headers must say, and what SVG may ask for when it is drawn (P-02, P-16, P-21)."""

import base64
import gzip
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from playback.replay.sanitizer.media_sniffer import RasterKind, image_type, raster_kind
from tests.support.playback_fixtures import NOW, Archived, png

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {}>{}</svg>'
)
GREEN = '<rect width="100" height="100" fill="#0f0"/>'


def drawn(in_replay: Call, text: str | bytes, **options: object) -> Image.Image | None:
    """The SVG as replay draws it; None when it is not."""
    data = text.encode() if isinstance(text, str) else text
    made = in_replay("raster_svg", [base64.b64encode(data).decode(), options])
    if not made:
        return None
    with Image.open(io.BytesIO(base64.b64decode(made))) as image:
        return image.convert("RGBA")


def saved(kind: str, size: tuple[int, int] = (6, 4), **options: Any) -> bytes:
    """A small image of that format."""
    with io.BytesIO() as buffer:
        Image.new("RGB", size, "red").save(buffer, kind, **options)
        return buffer.getvalue()


def film(kind: str, frames: int, size: tuple[int, int] = (6, 4)) -> bytes:
    """An animation of that many different frames."""
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
        (gzip.compress(b"x" * 10_000_000), None),
        (b"", None),
    ],
    ids=range(14),
)  # fmt: skip
def test_a_drawing_is_known_by_its_first_bytes(data: bytes, kind: RasterKind | None) -> None:
    """Whatever stands before its root element, and nothing else (P-16)."""
    assert raster_kind(data) == kind


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('width="24" height="12"', (24, 12)),
        ('width="24px" height="12px" viewBox="0 0 240 120"', (24, 12)),
        ('viewBox="0 0 100 50"', (100, 50)),
        ('width="100%" height="100%" viewBox="0,0,40,20"', (40, 20)),
        ('width="50" viewBox="0 0 100 60"', (50, 30)),
        ('width="1in"', (96, 150)),
        ("", (300, 150)),
    ],
)
def test_a_drawing_has_its_own_size(
    in_replay: Call, attributes: str, size: tuple[int, int]
) -> None:
    """As a browser lays it out: its lengths, else its view box, else 300 by 150."""
    image = drawn(in_replay, SVG.format(attributes, GREEN))

    assert image is not None
    assert image.size == size


def test_a_drawing_can_be_sharper_and_coloured(in_replay: Call) -> None:
    """Two pixels for each of its own, and the colour of the text around it."""
    text = SVG.format('width="10" height="10"', '<rect width="9" height="9" fill="currentColor"/>')
    image = drawn(in_replay, text, scale=2.0, colour="rgb(0, 0, 255)")

    assert image is not None
    assert image.size == (20, 20)
    assert image.getpixel((4, 4)) == (0, 0, 255, 255)


@pytest.mark.parametrize(
    "family", ["sans-serif", "serif", "monospace", "Nobody Has This", "Arial,sans-serif"]
)
def test_the_words_of_a_drawing_are_written(in_replay: Call, family: str) -> None:
    """In a typeface of this machine, when the one that it names is not there."""
    words = f'<text y="15" font-family="{family}" font-weight="700">mW</text>'
    image = drawn(in_replay, SVG.format('width="40" height="20"', words))

    assert image is not None
    assert len(image.getcolors(900) or []) > 3


@pytest.mark.parametrize(
    "inside",
    [
        '<image href="{file}" width="9" height="9"/>',
        '<image xlink:href="file://{file}" width="9" height="9"/>',
        '<image xlink:href="{file}" width="9" height="9"/>',
        '<g><a xlink:href="{file}"><image href="../../../../../../..{file}" width="9" height="9"/></a></g>',
        '<filter id="f"><feImage href="{file}"/></filter><rect width="9" height="9" filter="url(#f)"/>',
        '<use href="{file}#x"/><image width="9" height="9" xml:base="/tmp/" xlink:href="{file}"/>',
        '<image width="9" height="9" href="data:image/svg+xml;base64,{nested}"/>',
    ],
    ids=range(7),
)
def test_a_drawing_opens_no_file(in_replay: Call, tmp_path: Path, inside: str) -> None:
    """What it names outside of itself is not there; resvg would open it (P-02)."""
    file = tmp_path / "secret.png"
    file.write_bytes(png("red", (9, 9)))
    nested = SVG.format("", f'<image href="{file}" width="9" height="9"/>').encode()
    text = inside.format(file=file, nested=base64.b64encode(nested).decode())

    image = drawn(in_replay, SVG.format('width="9" height="9"', text))

    assert image is not None
    assert {colour[0] for _, colour in image.getcolors(99) or [] if isinstance(colour, tuple)} == {
        0
    }


def test_a_raster_image_within_a_drawing_is_drawn(in_replay: Call) -> None:
    """It lies in the document itself, and is what it says it is."""
    inner = base64.b64encode(png("red", (9, 9))).decode()
    text = f'<image width="9" height="9" href="data:image/png;base64,{inner}"/>'
    image = drawn(in_replay, SVG.format('width="9" height="9"', text))

    assert image is not None
    assert image.getpixel((4, 4)) == (255, 0, 0, 255)


_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
_USES = "".join(
    f'<g id="g{n}">{f"<use href=#g{n - 1} />" * 10}</g>'.replace(
        "=#g" + str(n - 1), f'="#g{n - 1}"'
    )
    for n in range(1, 9)
)


@pytest.mark.parametrize(
    "text",
    [
        f'<!DOCTYPE svg [<!ENTITY l0 "ha">{_LAUGHS}]>' + SVG.format("", "<text>&l8;</text>"),
        '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        + SVG.format("", "<text>&x;</text>"),
        '<!DOCTYPE svg [<!ENTITY % x "a">%x;]>' + SVG.format("", GREEN),
        "<!DOCTYPE svg>" + SVG.format("", GREEN) + "<!DOCTYPE a>",
        f'<!DOCTYPE svg [<!ENTITY a "{"x" * 300}">]>' + SVG.format("", "&a;" * 60_000),
        SVG.format("", '<rect id="g0"/>' + _USES + '<use href="#g8"/>'),
        SVG.format("", '<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>'),
        SVG.format("", "<g>" * 5_000 + "</g>" * 5_000),
        SVG.format('width="100000" height="100000"', GREEN),
        SVG.format('width="1" height="1e9" viewBox="0 0 1 900000000"', GREEN),
        SVG.format("", "<g/>" * 200_000),
        SVG.format("", "<g>"),
        "<html xmlns='http://www.w3.org/1999/xhtml'/>",
        "",
    ],
    ids=range(14),
)
def test_a_drawing_that_asks_for_too_much_is_not_drawn(in_replay: Call, text: str) -> None:
    """Entities, copies of copies, loops, depth, size; or no drawing at all (P-21)."""
    assert drawn(in_replay, text) is None


def test_old_drawing_programs_name_their_namespaces_by_entities(in_replay: Call) -> None:
    """Plain values are put in their place."""
    text = (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://x/'
        'svg11.dtd" [<!ENTITY ns_svg "http://www.w3.org/2000/svg"><!ENTITY w "9">]>'
        f'<svg xmlns="&ns_svg;" width="&w;" height="9">{GREEN}<script>1</script></svg>'
    )
    image = drawn(in_replay, text)

    assert image is not None
    assert image.getpixel((4, 4)) == (0, 255, 0, 255)


@pytest.mark.parametrize("packed", [False, True])
def test_an_svg_of_a_page_is_served_as_png(archived: Archived, site: str, packed: bool) -> None:
    """Whatever type it was sent with; drawn by a maker, and never sent as itself (P-16)."""
    body = SVG.format('width="9" height="9" onload="alert(1)"', GREEN).encode()
    archived.builder.response(
        f"{site}/x.svg", gzip.compress(body) if packed else body, mime="image/svg+xml"
    )

    reply = archived.replay.get(f"/c/{NOW:%Y%m%d%H%M%S}im_/{site}/x.svg")

    assert reply["Content-Type"] == "image/png"
    with Image.open(io.BytesIO(reply.body)) as image:
        assert image.convert("RGB").getpixel((4, 4)) == (0, 255, 0)


def test_a_picture_of_an_old_format_is_served_as_png(archived: Archived, site: str) -> None:
    """BMP and icons, whose decoders in browsers nobody needs to meet."""
    archived.builder.response(f"{site}/x.bmp", saved("BMP"), mime="image/bmp")
    archived.builder.response(f"{site}/x.ico", saved("ICO", (16, 16)), mime="image/x-icon")

    for name in ("x.bmp", "x.ico"):
        reply = archived.replay.get(f"/c/{NOW:%Y%m%d%H%M%S}im_/{site}/{name}")
        assert reply["Content-Type"] == "image/png"
        assert image_type(reply.body) == "image/png"


def test_a_drawing_made_to_be_slow_ends_and_replay_goes_on(archived: Archived, site: str) -> None:
    """Its maker is ended in seconds and replaced; asked again it costs nothing (P-21)."""
    turbulence = '<filter id="f"><feTurbulence numOctaves="9999999" baseFrequency=".9"/></filter>'
    slow = SVG.format(
        'width="4000" height="4000"',
        f'{turbulence}<rect width="4000" height="4000" filter="url(#f)"/>',
    )
    archived.builder.response(f"{site}/slow.svg", slow.encode(), mime="image/svg+xml")
    archived.builder.response(
        f"{site}/good.svg", SVG.format("", GREEN).encode(), mime="image/svg+xml"
    )

    statuses = [
        archived.replay.get(f"/c/{NOW:%Y%m%d%H%M%S}im_/{site}/{name}").status
        for name in ("slow.svg", "slow.svg", "good.svg")
    ]

    assert statuses == [404, 404, 200]
