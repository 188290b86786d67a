"""Pictures of pages that no site has: drawn, the same for the same seed."""

import io
import random
import struct
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Pixels = NDArray[np.uint8]

LINE_PX = 22
_LETTERS = "eeetttaaoooiinnsshhrrdllucmwfgypbvk"


def page(seed: int, height: int = 800, width: int = 1280, *, photos: int = 4) -> Pixels:
    """Draw a page as of a news site: header, links at the left, text with headings and photos."""
    chosen = random.Random(seed)
    image = Image.new("RGB", (width, height), (255, 255, 255))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, width, 63), fill=(28, 60, 90))
    pen.text((40, 16), words(chosen, 3).title(), fill=(255, 255, 255), font=font(24))
    for line in range(min(14, (height - 120) // 30)):
        pen.text((40, 100 + 30 * line), words(chosen, 2), fill=(30, 80, 160), font=font(15))
    right = width - 40
    every = max(height // (photos + 1), 260) if photos else height + 1
    at, next_photo = 96, 180
    while at < height:
        if at >= next_photo and photos:
            image.paste(Image.fromarray(photo(chosen.randrange(1 << 30), 420, 220)), (280, at))
            at, next_photo = at + 240, next_photo + every
        if chosen.random() < 0.08:
            pen.text((280, at), words(chosen, 4).title(), fill=(20, 20, 20), font=font(24))
            at += 36
        count = chosen.randrange(8, 15) if width > 1000 else 4
        text = words(chosen, count)
        while pen.textlength(text, font=font(16)) > right - 280:
            text = text.rpartition(" ")[0]
        pen.text((280, at), text, fill=(34, 34, 34), font=font(16))
        at += LINE_PX
    return np.array(image)


def photo(seed: int, width: int, height: int) -> Pixels:
    """Draw smooth shapes with a grain, as in a photo."""
    random_ = np.random.default_rng(seed)
    rough = random_.integers(0, 256, (height // 24 + 2, width // 24 + 2, 3), dtype=np.uint8)
    smooth = Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC)
    return noisy(np.asarray(smooth), 8, seed)


def noisy(pixels: Pixels, most: int, seed: int = 1) -> Pixels:
    """Return the pixels, each value changed by up to `most`."""
    off = np.random.default_rng(seed).integers(-most, most + 1, pixels.shape, dtype=np.int16)
    noisy_pixels: Pixels = np.clip(pixels + off, 0, 255).astype(np.uint8)
    return noisy_pixels


def banner(pixels: Pixels, height: int = 80) -> Pixels:
    """Return the page pushed down by a bar with some words."""
    bar = Image.new("RGB", (pixels.shape[1], height), (250, 220, 120))
    ImageDraw.Draw(bar).text((40, height // 3), "We have news for you", fill=(0, 0, 0), font=font(18))
    return np.concatenate([np.asarray(bar), pixels])


def wall(pixels: Pixels) -> Pixels:
    """Return the page dimmed, with a box of words in the middle of its first screen."""
    image = Image.fromarray((pixels // 2).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    pen.rectangle((340, 200, 940, 600), fill=(255, 255, 255))
    for line in range(8):
        pen.text((370, 230 + 30 * line), words(random.Random(line), 9), fill=(0, 0, 0), font=font(16))
    return np.array(image)


def words(chosen: random.Random, count: int) -> str:
    """Return `count` random words."""
    return " ".join("".join(chosen.choice(_LETTERS) for _ in range(chosen.randrange(2, 10))) for _ in range(count))


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's own typeface, the same on every machine."""
    return ImageFont.load_default(size)


def packed(pixels: Pixels, kind: str = "PNG", **options: int) -> bytes:
    """Encode the pixels as an image file."""
    out = io.BytesIO()
    if kind == "PNG":
        options = {"compress_level": 1, **options}
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, kind, **options)
    return out.getvalue()


def browsers_png(pixels: Pixels) -> bytes:
    """Return a PNG as the browser encodes it fast: each row predicted from the one above."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    flat = pixels.reshape(height, -1)
    rows[:, 0], rows[0, 1:], rows[1:, 1:] = 2, flat[0], flat[1:] - flat[:-1]
    header = struct.pack(">II", width, height) + b"\x08\x02\0\0\0"
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*part) for part in parts)


def png_chunk(name: bytes, body: bytes) -> bytes:
    """Return a PNG chunk."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
