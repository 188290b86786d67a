"""PNGs joined below one another without decoding them."""

import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from render.png_joiner import PNG_SIGNATURE, BadPngError, PngJoiner

PICTURES = st.integers(1, 12).flatmap(
    lambda width: st.lists(
        st.integers(1, 6).flatmap(
            lambda height: st.tuples(
                st.just((width, height)), st.binary(min_size=3 * width * height, max_size=3 * width * height)
            )
        ),
        min_size=1,
        max_size=4,
    )
)


def packed(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def filtered(size: tuple[int, int], pixels: bytes, kind: int) -> bytes:
    """Return a PNG each of whose rows has that filter, encoded by the specification (PNG, 9.2)."""
    width, height = size
    rows = []
    above = bytes(3 * width)
    for y in range(height):
        row = pixels[3 * width * y : 3 * width * (y + 1)]
        out = bytearray([kind])
        for at, value in enumerate(row):
            left = row[at - 3] if at >= 3 else 0
            corner = above[at - 3] if at >= 3 else 0
            up = above[at]
            near = min((left, up, corner), key=lambda each, p=left + up - corner: abs(p - each))  # type: ignore[misc]
            out.append((value - (0, left, up, (left + up) // 2, near)[kind]) & 0xFF)
        rows.append(bytes(out))
        above = row

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        PNG_SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )  # fmt: skip


@given(parts=PICTURES, kind=st.integers(0, 4))
def test_the_whole_shows_every_part_below_the_one_before(parts: list[tuple[tuple[int, int], bytes]], kind: int) -> None:
    """Pixel for pixel, whatever filter the rows have."""
    joiner = PngJoiner()
    for size, pixels in parts:
        joiner.add(filtered(size, pixels, kind))

    with Image.open(io.BytesIO(joiner.picture())) as whole:
        assert whole.size == (parts[0][0][0], sum(size[1] for size, _ in parts))
        assert whole.tobytes() == b"".join(pixels for _, pixels in parts)


def test_parts_of_another_encoder_join() -> None:
    """Pillow chooses a filter for each row."""
    noise = Image.effect_noise((64, 40), 60).convert("RGBA")
    joiner = PngJoiner()
    for _ in range(3):
        joiner.add(packed(noise))

    with Image.open(io.BytesIO(joiner.picture())) as whole:
        assert whole.tobytes() == noise.tobytes() * 3


@given(st.binary(max_size=200))
def test_what_is_no_png_is_refused(junk: bytes) -> None:
    """With a word of ours, never with another error."""
    with pytest.raises(BadPngError):
        PngJoiner().add(PNG_SIGNATURE + junk)


def test_parts_that_do_not_fit_are_refused() -> None:
    """Another width, another sort, or too few rows."""
    joiner = PngJoiner()
    joiner.add(packed(Image.new("RGB", (3, 3))))
    for other in (Image.new("RGB", (4, 3)), Image.new("RGBA", (3, 3)), Image.new("P", (3, 3))):
        with pytest.raises(BadPngError):
            joiner.add(packed(other))
    with pytest.raises(BadPngError):
        PngJoiner().picture()
