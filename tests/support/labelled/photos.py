"""Pictures for the made pages: photographs of nowhere, advertisements, icons, frames of a film.

A function of their numbers, so that a page made again is the same page.
"""

import io
import random
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SKIES = (
    ((92, 148, 206), (236, 214, 170), (60, 92, 56)),
    ((206, 120, 84), (250, 206, 120), (70, 48, 60)),
    ((40, 60, 110), (150, 120, 170), (24, 34, 40)),
    ((190, 210, 220), (240, 240, 236), (120, 130, 110)),
    ((70, 150, 160), (200, 230, 210), (150, 110, 70)),
)


@cache
def photo(number: int, width: int, height: int, quality: int = 100) -> bytes:
    """Draw a landscape with sky, hills, sun and grain, as PNG, or as JPEG for a quality below 100."""
    chosen = random.Random(number)
    top, low, ground = chosen.choice(SKIES)
    ramp = np.linspace(0, 1, height)[:, None, None]
    pixels = np.array(top) * (1 - ramp) + np.array(low) * ramp
    pixels = np.repeat(pixels, width, axis=1)
    x = np.linspace(0, 1, width)
    rows = np.arange(height)[:, None]
    for layer in range(4):
        crest = 0.45 + 0.13 * layer
        line = np.full(width, crest)
        for octave in (1, 2, 5, 11):
            line += np.sin(x * octave * 6.3 + chosen.random() * 7) * 0.07 / octave
        shade = 1.25 - 0.28 * layer
        inside = rows > (line * height)[None, :]
        pixels[inside] = np.clip(np.array(ground) * shade + chosen.randint(-14, 14), 0, 255)
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    size = height // 9
    at = (chosen.randint(size, width - size), chosen.randint(size, height // 3 + size))
    draw.ellipse((at[0] - size, at[1] - size, at[0] + size, at[1] + size), (250, 240, 205))
    for _ in range(14):
        left, foot = chosen.randint(0, width), chosen.randint(height * 2 // 3, height)
        tall = chosen.randint(height // 12, height // 5)
        colour = tuple(chosen.randint(30, 200) for _ in range(3))
        draw.polygon([(left, foot), (left + tall // 2, foot), (left + tall // 4, foot - tall)], fill=colour)
    grain = np.random.default_rng(number).normal(0, 3, (height // 12 + 1, width // 12 + 1, 1))
    rough = np.kron(grain, np.ones((12, 12, 1)))[:height, :width]
    whole = np.clip(np.asarray(image, dtype=np.float64) + rough, 0, 255).astype(np.uint8)
    # Few colours keep the stored pictures of the page small.
    few = Image.fromarray(whole).quantize(40, dither=Image.Dither.NONE).convert("RGB")
    out = io.BytesIO()
    if quality < 100:
        few.save(out, "JPEG", quality=quality)
    else:
        few.save(out, "PNG")
    return out.getvalue()


@cache
def advertisement(number: int, width: int, height: int) -> bytes:
    """Draw an advertisement in random colours, as PNG."""
    chosen = random.Random(number * 7919)
    image = Image.new("RGB", (width, height), tuple(chosen.randint(90, 250) for _ in range(3)))
    draw = ImageDraw.Draw(image)
    ink = tuple(chosen.randint(0, 90) for _ in range(3))
    for _ in range(5):
        x, y = chosen.randint(0, width), chosen.randint(0, height)
        size = chosen.randint(10, max(12, height // 2))
        shade = tuple(chosen.randint(0, 255) for _ in range(3))
        draw.ellipse((x - size, y - size, x + size, y + size), fill=shade)
    names = ("SALE 50%", "BUY NOW", "Fly cheap", "New phone", "Win a car", "Sleep well", "Eat fresh")
    font = ImageFont.load_default(max(14, min(width // 7, height // 3)))
    draw.text((width * 0.08, height * 0.2), chosen.choice(names), ink, font)
    draw.rectangle((width * 0.08, height * 0.62, width * 0.5, height * 0.85), fill=ink)
    return _png(image)


@cache
def icon(number: int, size: int = 24) -> bytes:
    """Draw a small icon as PNG."""
    chosen = random.Random(number * 104_729)
    image = Image.new("RGB", (size, size), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    ink = tuple(chosen.randint(20, 180) for _ in range(3))
    inset = size // 6
    if number % 3 == 0:
        draw.ellipse((inset, inset, size - inset, size - inset), fill=ink)
    elif number % 3 == 1:
        draw.rectangle((inset, inset, size - inset, size - inset), outline=ink, width=3)
    else:
        draw.polygon([(size // 2, inset), (size - inset, size - inset), (inset, size - inset)], ink)
    return _png(image)


@cache
def frame(number: int, width: int, height: int) -> bytes:
    """Draw the frame of a film that has this number, as PNG."""
    image = Image.open(io.BytesIO(photo(900, width, height))).convert("RGB")
    draw = ImageDraw.Draw(image)
    at = width * (number % 20) // 20
    draw.rectangle((at, height // 2, at + width // 6, height * 3 // 4), fill=(190, 40, 40))
    draw.ellipse((at, height * 3 // 4 - 8, at + 24, height * 3 // 4 + 16), fill=(20, 20, 20))
    return _png(image.quantize(48).convert("RGB"))


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
