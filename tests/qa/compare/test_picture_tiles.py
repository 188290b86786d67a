"""PNGs that others than the browser wrote, read more quickly than Pillow does."""

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from core.errors import PictureError
from qa.compare.picture_tiles import decode_8bit_png, decode_picture, mismatches
from tests.support.drawing import noisy, packed, page, png_chunk

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = {3: b"\x08\x02", 4: b"\x08\x06"}


def filtered(pixels: NDArray[np.uint8], kinds: list[int]) -> bytes:
    """Return a PNG whose rows use these filter types in turn (PNG, 3rd edition, 9.2)."""
    height, width, channels = pixels.shape
    rows = pixels.reshape(height, -1).astype(np.int32)
    raw = bytearray()
    for at, row in enumerate(rows):
        above = rows[at - 1] if at else np.zeros_like(row)
        left, corner = (np.concatenate([[0] * channels, each])[: len(row)] for each in (row, above))
        guess = left + above - corner
        near = [abs(guess - each) for each in (left, above, corner)]
        paeth = np.where((near[0] <= near[1]) & (near[0] <= near[2]), left, np.where(near[1] <= near[2], above, corner))
        kind = kinds[at % len(kinds)]
        residual = row - (0 * row, left, above, (left + above) // 2, paeth)[kind]
        raw += bytes([kind]) + (residual & 255).astype(np.uint8).tobytes()
    header = struct.pack(">II", width, height) + COLOURS[channels] + b"\0\0\0"
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(raw))), (b"IEND", b""))
    return SIGNATURE + b"".join(png_chunk(*each) for each in parts)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([3, 4]),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
)
@example(1, 1, 3, [4], 0)
def test_every_filter_gives_the_pixels_back(
    height: int, width: int, channels: int, kinds: list[int], seed: int
) -> None:
    """Whatever rows come before and after: what was drawn, as Pillow reads it."""
    drawn = np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)
    png = filtered(drawn, kinds)
    pixels = decode_8bit_png(png)
    assert pixels is not None
    assert np.array_equal(pixels, drawn)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png))), drawn)


@pytest.mark.slow
def test_a_page_is_read_as_pillow_reads_it() -> None:
    """Packed well or badly, with alpha that hides nothing or something."""
    whole = noisy(page(3, 300), 9)
    for level in (0, 1, 6, 9):
        out = io.BytesIO()
        Image.fromarray(whole).save(out, "PNG", compress_level=level)
        assert np.array_equal(decode_picture(out.getvalue()), whole)

    alpha = np.full(whole.shape[:2], 255, np.uint8)
    assert np.array_equal(decode_picture(packed(np.dstack([whole, alpha]))), whole)
    alpha[100:200] = 0
    seen = decode_picture(packed(np.dstack([whole, alpha])))
    assert (seen[100:200] == 255).all()
    assert np.array_equal(seen[:100], whole[:100])


def _with_transparent_colour(image: Image.Image, out: io.BytesIO) -> None:
    image.save(out, "PNG", transparency=image.getpixel((0, 0)))


def _turned(image: Image.Image, out: io.BytesIO) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    image.save(out, "PNG", exif=exif)


def _animated(image: Image.Image, out: io.BytesIO) -> None:
    image.save(out, "PNG", save_all=True, append_images=[Image.new("RGB", image.size, "red")])


@pytest.mark.parametrize("saved", [_with_transparent_colour, _turned, _animated])
def test_what_says_more_than_colours_is_left_to_pillow(saved: Callable[[Image.Image, io.BytesIO], None]) -> None:
    """Transparency beside the pixels, a turn, an animation."""
    out = io.BytesIO()
    saved(Image.fromarray(page(1, 64, 200)), out)
    assert decode_8bit_png(out.getvalue()) is None
    decode_picture(out.getvalue())


def test_texts_and_profiles_in_it_change_nothing() -> None:
    """They are passed over."""
    whole = page(1, 64, 200)
    metadata = PngImagePlugin.PngInfo()
    metadata.add_text("title", "eXIf tRNS", zip=True)
    out = io.BytesIO()
    Image.fromarray(whole).save(out, "PNG", pnginfo=metadata, icc_profile=b"no profile")
    assert np.array_equal(decode_picture(out.getvalue()), whole)


@pytest.mark.parametrize("damage", ["cut", "sum"])
def test_a_damaged_one_is_refused(damage: str) -> None:
    """Cut off, or with a wrong check sum."""
    png = bytearray(filtered(page(1, 64, 200), [4, 1, 3]))
    if damage == "cut":
        del png[len(png) // 2 :]
    else:
        png[-20] ^= 1  # in the packed pixels
    assert decode_8bit_png(bytes(png)) is None
    with pytest.raises(PictureError):
        decode_picture(bytes(png))


pytestmark = pytest.mark.slow


def test_the_same_edge_drawn_another_way_matches() -> None:
    """A pixel aside, or half of one; a line that is gone does not."""
    sharp = np.full((40, 40), 255, np.uint8)
    soft, none = sharp.copy(), sharp.copy()
    sharp[:, 20:22] = 0
    soft[:, 19], soft[:, 20], soft[:, 21] = 128, 0, 128

    assert not mismatches(sharp, soft).any()
    assert not mismatches(sharp, np.roll(sharp, 1, 1)).any()
    assert mismatches(sharp, none).sum() == mismatches(none, sharp).sum() == 80
