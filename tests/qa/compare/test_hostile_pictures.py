"""Pictures that nobody vouches for."""

import io
import struct
import tracemalloc
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from core.errors import PictureError
from qa.compare.picture_comparison import compare_pictures
from qa.compare.picture_tiles import MOST_BYTES, MOST_PIXELS, decode_8bit_png, decode_picture
from render.png_joiner import PngJoiner
from tests.support.drawing import browsers_png, noisy, packed, page, png_chunk

pytestmark = pytest.mark.slow

PAGE = page(1, 400)
PNG = packed(PAGE)


def test_a_browsers_png_is_read_as_any_other() -> None:
    """The quick way and Pillow's see the same pixels, of joined parts too."""
    whole = noisy(PAGE, 9)
    joiner = PngJoiner()
    joiner.add(browsers_png(whole[:150]))
    joiner.add(browsers_png(whole[150:]))

    for png in (browsers_png(whole), joiner.picture()):
        rows = decode_8bit_png(png)
        assert rows is not None
        assert np.array_equal(rows, whole)
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(png))), whole)


def test_other_pngs_are_left_to_pillow() -> None:
    """With alpha, a palette, other rows: what they show is the same."""
    for mode in ("RGBA", "P", "L", "1", "LA"):
        out = io.BytesIO()
        Image.fromarray(PAGE).convert(mode).save(out, "PNG")
        assert decode_picture(out.getvalue()).shape == PAGE.shape


def test_greys_of_16_bits_are_the_same_greys() -> None:
    """Pillow would make nearly all of them white: the page would count as blank."""
    grey = Image.fromarray(PAGE).convert("L")
    out = io.BytesIO()
    Image.fromarray(np.asarray(grey).astype(np.uint16) * 257).save(out, "PNG")

    assert np.array_equal(decode_picture(out.getvalue()), np.asarray(grey.convert("RGB")))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_its_exif_says(kind: str, orientation: int) -> None:
    """As a browser shows it, and as Pillow does; what is no orientation turns nothing."""
    exif = Image.Exif()
    exif[0x112] = orientation
    image = Image.fromarray(page(1, 64, 200))
    out = io.BytesIO()
    image.save(out, kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(out.getvalue()))).convert("RGB")

    assert np.array_equal(decode_picture(out.getvalue()), np.asarray(expected))


@given(st.binary(max_size=60))
@example(b"MM\0*\0\0\0\x08\0\1\1\x12\0\2\0\0\0\1\0\0\0\0")
@example(b"II*\0\xff\xff\xff\xff")
def test_exif_that_is_none_harms_no_picture(exif: bytes) -> None:
    """It is read as if it were not there, or turned: the size says which."""
    whole = page(2, 64, 64)
    out = io.BytesIO()
    Image.fromarray(whole).save(out, "WEBP", lossless=True, exif=b"Exif\0\0" + exif)

    assert decode_picture(out.getvalue()).shape == whole.shape


def test_of_an_animation_the_first_frame_counts() -> None:
    """That is what a picture of a page begins with."""
    first, second = Image.fromarray(PAGE), Image.new("RGB", PAGE.shape[1::-1], "red")
    for kind in ("PNG", "WEBP"):
        out = io.BytesIO()
        first.save(out, kind, save_all=True, append_images=[second], lossless=True)
        assert np.array_equal(decode_picture(out.getvalue()), PAGE)


def test_what_is_transparent_is_white() -> None:
    """As a browser shows it."""
    image = Image.new("RGBA", (20, 20), (10, 20, 30, 0))
    image.putpixel((3, 3), (10, 20, 30, 255))
    pixels = decode_picture(packed(np.asarray(image)))

    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[3, 3].tolist() == [10, 20, 30]


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"<svg/>", b"\x89PNG\r\n\x1a\n", b"RIFF0000WEBP"])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    """With an error that names the cause."""
    with pytest.raises(PictureError):
        decode_picture(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_picture_that_is_cut_off_is_refused(kind: str, share: float) -> None:
    """Half a picture would be compared as a page that lost its end."""
    data = packed(noisy(PAGE, 9), kind)
    with pytest.raises(PictureError, match=r"damaged|no PNG"):
        decode_picture(data[: int(len(data) * share)])


def test_a_browsers_png_that_is_cut_off_is_refused() -> None:
    """The quick way is no shorter."""
    data = browsers_png(PAGE)
    for end in (60, len(data) // 2, len(data) - 40):
        assert decode_8bit_png(data[:end]) is None
        with pytest.raises(PictureError):
            decode_picture(data[:end])


@pytest.mark.parametrize("size", [(60_000, 60_000), (70_000, 1), (1, 2_000_000_000), (8_000, 7_501)])
def test_a_picture_that_claims_too_much_is_refused_unread(size: tuple[int, int]) -> None:
    """A hundred bytes may claim gigabytes."""
    header = struct.pack(">II", *size) + b"\x08\x02\0\0\0"
    data = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b"\0" * 99))
    with pytest.raises(PictureError, match=r"too large|at most|damaged"):
        decode_picture(data)


def test_rows_beyond_the_claimed_size_are_not_unpacked() -> None:
    """A small picture may hold a bomb."""
    bomb = zlib.compress(bytes(60_000_000), 9)
    header = struct.pack(">II", 10, 10) + b"\x08\x02\0\0\0"
    data = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", bomb) + png_chunk(b"IEND", b"")

    tracemalloc.start()
    try:
        assert decode_picture(data).shape == (10, 10, 3)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_too_large_is_refused() -> None:
    """Whatever is in it."""
    with pytest.raises(PictureError, match="bytes"):
        decode_picture(bytes(MOST_BYTES + 1))


@given(st.binary(max_size=300))
@example(PNG[:40])
def test_any_bytes_are_a_picture_or_refused(data: bytes) -> None:
    """No other error leaves."""
    with suppress(PictureError):
        decode_picture(data)


@given(st.integers(0, len(PNG) - 1), st.integers(0, 255), st.sampled_from(["PNG", "JPEG", "WEBP"]))
@settings(max_examples=50)
def test_a_damaged_picture_is_read_or_refused(at: int, value: int, kind: str) -> None:
    """One byte changed, anywhere, of files of three formats and of a browser's."""
    whole = page(2, 64, 200)
    for data in (packed(whole, kind), browsers_png(whole)):
        damaged = bytearray(data)
        damaged[at % len(data)] = value
        try:
            comparison = compare_pictures(data, bytes(damaged))
        except PictureError:
            continue
        assert 0 <= comparison.score <= 1


def test_hostile_rows_take_no_longer() -> None:
    """All rows equal, all different, or repeated without end: there is an answer, and it is right."""
    random = np.random.default_rng(1)
    stripes = np.tile(np.array([[0], [255]], np.uint8), (1500, 1280))[..., None].repeat(3, 2)
    noise = random.integers(0, 256, (3000, 640, 3), dtype=np.uint8)
    for picture in (stripes, np.full((3000, 640, 3), 7, np.uint8), noise):
        assert compare_pictures(packed(picture), packed(picture[37:])).score > 0.9
    assert compare_pictures(packed(noise), packed(noise[::-1])).score < 0.3


def test_the_limit_holds_a_full_page() -> None:
    """A picture of the tallest page that is kept, on a screen of two pixels to one of CSS, fits."""
    assert MOST_PIXELS >= 1280 * 2 * 16_000
