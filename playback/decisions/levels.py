"""Levels: how much of a copy is shown (A18 to A21)."""

from enum import StrEnum


class Level(StrEnum):
    """How a copy is shown, from the least to the most."""

    TEXT = "text"  # text and paragraphs
    LIMITED = "limited"  # headings, lists, tables, links; no look of its own
    HTML = "html"  # the page without its images
    IMAGES = "images"  # the page with its images and its look
    FULL = "full"  # everything, scripts too, on an origin of its own


DEFAULT_LEVEL = Level.IMAGES
