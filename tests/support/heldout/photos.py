"""Photographs and drawings of the held-out pages: made from a seed, alike on every machine."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

_QUALITY = 82
_LARGE_PX = 300


def photo(seed: int, width: int, height: int, quality: int = _QUALITY) -> bytes:
    """Draw a JPEG of one of five sorts: hills, a street, fabric, a head before a wall, a dish."""
    random = np.random.default_rng(seed)
    draw = (_hills, _street, _fabric, _head, _dish)[seed % 5]
    image = draw(random, width, height)
    # Small pictures have none, since many of them would make the stored set large.
    grain = random.normal(0, 1.0 if width > _LARGE_PX else 0.1, (height, width, 1))
    noisy = np.clip(np.asarray(image, dtype=np.float32) + grain, 0, 255).astype(np.uint8)
    return _packed(Image.fromarray(noisy), quality)


def _packed(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _clouds(random: np.random.Generator, width: int, height: int, coarse: int) -> NDArray[np.float32]:
    """Return smooth noise between 0 and 1: a small random picture, enlarged."""
    small = random.integers(0, 256, (coarse, coarse), dtype=np.uint8)
    large = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(np.asarray(large, dtype=np.float32) / np.float32(255), dtype=np.float32)


def _tinted(values: NDArray[np.float32], dark: NDArray[np.int64], pale: NDArray[np.int64]) -> Image.Image:
    mixed = dark + values[..., None] * (pale - dark)
    return Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8))


def _hills(random: np.random.Generator, width: int, height: int) -> Image.Image:
    sky = np.linspace(1, 0.6, height, dtype=np.float32)[:, None] * np.ones((1, width), np.float32)
    image = _tinted(sky, random.integers(90, 140, 3), random.integers(200, 250, 3))
    pen = ImageDraw.Draw(image)
    for ridge in range(4):
        base = height * (0.35 + 0.17 * ridge)
        waves = random.uniform(0, 6.3, 3)
        colour = tuple(int(v) for v in random.integers(20, 110, 3))
        across = np.arange(0, width + 8, 8)
        tops = base + height * 0.06 * sum(np.sin(across / width * 6.3 * (n + 1 + ridge) + waves[n]) for n in range(3))
        outline = [(int(x), int(y)) for x, y in zip(across, tops, strict=True)]
        pen.polygon([(0, height), *outline, (width, height)], fill=colour)
    return image


def _street(random: np.random.Generator, width: int, height: int) -> Image.Image:
    image = _tinted(_clouds(random, width, height, 4), random.integers(120, 170, 3), random.integers(190, 240, 3))
    pen = ImageDraw.Draw(image)
    left = 0
    while left < width:
        wide = int(random.integers(max(8, width // 12), max(16, width // 5)))
        top = int(height * random.uniform(0.1, 0.5))
        colour = tuple(int(v) for v in random.integers(50, 210, 3))
        pen.rectangle((left, top, left + wide, height), fill=colour)
        pane = max(4, wide // 7)
        for y in range(top + pane, int(height * 0.9), pane * 2):
            for x in range(left + pane, left + wide - pane, pane * 2):
                shade = int(random.integers(20, 250))
                pen.rectangle((x, y, x + pane, y + pane), fill=(shade, shade, shade // 2 + 60))
        left += wide
    return image


def _fabric(random: np.random.Generator, width: int, height: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    threads = np.sin(x / random.uniform(3, 9)) * np.sin(y / random.uniform(3, 9))
    values = 0.6 * _clouds(random, width, height, 6) + 0.4 * (threads + 1) / 2
    return _tinted(values, random.integers(0, 120, 3), random.integers(130, 256, 3))


def _head(random: np.random.Generator, width: int, height: int) -> Image.Image:
    image = _tinted(_clouds(random, width, height, 3), random.integers(40, 120, 3), random.integers(130, 220, 3))
    pen = ImageDraw.Draw(image)
    skin = tuple(int(v) for v in random.integers((150, 110, 90), (235, 190, 165)))
    hair = tuple(int(v) for v in random.integers(15, 120, 3))
    coat = tuple(int(v) for v in random.integers(20, 200, 3))
    middle, size = width * random.uniform(0.35, 0.65), min(width, height) * 0.24
    pen.ellipse((middle - 2.1 * size, height * 0.66, middle + 2.1 * size, height * 1.5), fill=coat)
    pen.ellipse(
        (middle - 1.15 * size, height * 0.36 - 1.3 * size, middle + 1.15 * size, height * 0.4 + size), fill=hair
    )
    pen.ellipse((middle - 0.9 * size, height * 0.4 - size, middle + 0.9 * size, height * 0.42 + 1.2 * size), fill=skin)
    for side in (-0.4, 0.4):
        eye = middle + side * size
        pen.ellipse((eye - 0.1 * size, height * 0.38, eye + 0.1 * size, height * 0.38 + 0.16 * size), fill=hair)
    return image.filter(ImageFilter.GaussianBlur(max(1, width // 300)))


def _dish(random: np.random.Generator, width: int, height: int) -> Image.Image:
    image = _tinted(_clouds(random, width, height, 12), random.integers(50, 100, 3), random.integers(110, 180, 3))
    pen = ImageDraw.Draw(image)
    size = min(width, height) * 0.44
    x, y = width / 2, height / 2
    pen.ellipse((x - size * 1.3, y - size, x + size * 1.3, y + size), fill=(238, 236, 228))
    pen.ellipse((x - size, y - size * 0.75, x + size, y + size * 0.75), fill=(222, 218, 205))
    for _ in range(70):
        turn, far = random.uniform(0, 6.3), random.uniform(0, 0.62)
        at = (x + np.cos(turn) * size * far * 1.25, y + np.sin(turn) * size * far)
        part = size * random.uniform(0.05, 0.16)
        colour = tuple(int(v) for v in random.integers((80, 40, 10), (240, 200, 90)))
        pen.ellipse((at[0] - part, at[1] - part, at[0] + part, at[1] + part), fill=colour)
    return image


def advertisement(seed: int, width: int, height: int) -> bytes:
    """Draw an advertisement as PNG: a colour gradient, a shape, a button, letters."""
    random = np.random.default_rng(10_000 + seed)
    slope = np.linspace(0, 1, width, dtype=np.float32)[None, :] * np.ones((height, 1), np.float32)
    image = _tinted(slope, random.integers(0, 256, 3), random.integers(0, 256, 3))
    pen = ImageDraw.Draw(image)
    pen.ellipse(
        (width * 0.55, -height * 0.2, width * 1.1, height * 0.8), fill=tuple(int(v) for v in random.integers(0, 256, 3))
    )
    words = ("SALE 50%", "FLY AWAY", "NEW PHONE", "DRIVE IT", "TASTE ME", "BANK SMART")
    pen.text(
        (width * 0.07, height * 0.2),
        words[seed % len(words)],
        fill="white",
        font_size=max(12, min(width, height * 2) // 8),
    )
    pen.rounded_rectangle((width * 0.07, height * 0.66, width * 0.45, height * 0.86), 6, fill="white")
    pen.text((width * 0.12, height * 0.7), "Order now", fill="black", font_size=max(9, height // 16))
    return _png(image)


def drawing(seed: int, width: int, height: int) -> bytes:
    """Draw a PNG of few colours: a logo, an icon."""
    random = np.random.default_rng(20_000 + seed)
    image = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(image)
    colour = tuple(int(v) for v in random.integers(0, 200, 3))
    pen.rounded_rectangle((0, 0, height - 1, height - 1), height // 4, fill=colour)
    pen.ellipse((height * 0.3, height * 0.3, height * 0.7, height * 0.7), fill="white")
    if width > height * 2:
        pen.text(
            (height * 1.2, height * 0.1),
            "".join(chr(65 + int(v)) for v in random.integers(0, 26, 6)),
            fill=colour,
            font_size=int(height * 0.7),
        )
    return _png(image)


def chart(seed: int, width: int, height: int) -> bytes:
    """Draw a PNG of streets, a river and blocks, as on map tiles."""
    random = np.random.default_rng(30_000 + seed)
    image = Image.new("RGB", (width, height), (236, 232, 222))
    pen = ImageDraw.Draw(image)
    for _ in range(width * height // 20_000 + 4):
        x, y = random.uniform(-50, width), random.uniform(-50, height)
        wide, high = random.uniform(40, 180, 2)
        shade = ((205, 228, 190), (220, 214, 204), (229, 221, 208))[int(random.integers(3))]
        pen.rectangle((x, y, x + wide, y + high), fill=shade)
    bend = [(x, height * (0.5 + 0.25 * np.sin(x / width * 5 + seed))) for x in range(0, width + 20, 20)]
    pen.line(bend, fill=(160, 196, 226), width=34)
    for place in range(14):
        turn = random.uniform(-0.3, 0.3)
        wide = 9 if place % 4 == 0 else 4
        colour = (250, 214, 120) if place % 4 == 0 else (255, 255, 255)
        at = random.uniform(0, 1)
        if place % 2:
            pen.line((0, height * at, width, height * (at + turn)), fill=colour, width=wide)
        else:
            pen.line((width * at, 0, width * (at + turn), height), fill=colour, width=wide)
    for _ in range(22):
        x, y = random.uniform(0, width), random.uniform(0, height)
        pen.text((x, y), "".join(chr(97 + int(v)) for v in random.integers(0, 26, 7)), fill=(90, 90, 100), font_size=11)
    return _png(image)


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
