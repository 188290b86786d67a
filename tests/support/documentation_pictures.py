"""Pictures of the documentation, which tests make with ``WEBOID_PICTURES=docs/pictures``."""

from pathlib import Path

from PIL import Image


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a small PNG: 256 colours, of which those of large areas stay as they are."""
    colours = picture.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
    colours.save(path, optimize=True)
