"""Texts of the held-out pages: words, sentences and numbers from a seed, in one of five languages."""

import random
import tomllib
from functools import cache
from pathlib import Path


@cache
def frames() -> dict[str, dict[str, str]]:
    """Return the content of ``words.toml``, by language."""
    text = (Path(__file__).parent / "words.toml").read_text(encoding="utf-8")
    document: dict[str, dict[str, str]] = tomllib.loads(text)
    return document


class SeededText:
    """A page's voice: the same seed says the same."""

    def __init__(self, seed: str, language: str = "en") -> None:
        self._random = random.Random(seed)
        self.language = language
        self.frame = frames()[language]
        self._words = self.frame["words"].split()

    def words(self, count: int) -> str:
        """Return `count` words."""
        return " ".join(self._random.choices(self._words, k=count))

    def sentence(self, least: int = 6, most: int = 17) -> str:
        """Return a sentence of `least` to `most` words."""
        text = self.words(self._random.randint(least, most))
        return text[0].upper() + text[1:] + "."

    def head(self, least: int = 3, most: int = 7) -> str:
        """Return a headline of `least` to `most` words."""
        return self.sentence(least, most)[:-1]

    def text(self, sentences: int = 5) -> str:
        """Return a paragraph's text."""
        return " ".join(self.sentence() for _ in range(sentences))

    def paragraphs(self, count: int, sentences: int = 5) -> str:
        """Return `count` ``<p>`` elements."""
        return "".join(f"<p>{self.text(sentences)}</p>" for _ in range(count))

    def number(self, least: int, most: int) -> int:
        """Return a number from `least` to `most`."""
        return self._random.randint(least, most)

    def name(self) -> str:
        """Return a person's or a thing's name."""
        return f"{self.words(1).capitalize()} {self.words(1).capitalize()}"

    def nav(self) -> str:
        """Return the links of a page header."""
        return "".join(f'<a href="#">{each}</a>' for each in self.frame["nav"].split())

    def items(self, count: int, least: int = 3, most: int = 8) -> str:
        """Return `count` ``<li>`` elements."""
        return "".join(f"<li>{self.head(least, most)}</li>" for _ in range(count))


def photo(seed: int, width: int, height: int, more: str = "") -> str:
    """Return an image element of a photo; its picture is served at its URL."""
    return _image("photo", seed, width, height, more)


def drawing(seed: int, width: int, height: int, more: str = "") -> str:
    """Return an image element of a logo or icon."""
    return _image("drawing", seed, width, height, more)


def advertisement(seed: int, width: int, height: int) -> str:
    """Return an advertisement in its box."""
    inside = _image("ad", seed, width, height, 'alt=""')
    return f'<div class="ad" data-is="ad" data-w="{width}" data-h="{height}">{inside}</div>'


def chart(seed: int, width: int, height: int, more: str = "") -> str:
    """Return an image element of a map."""
    return _image("map", seed, width, height, more)


def _image(kind: str, seed: int, width: int, height: int, more: str) -> str:
    return f'<img src="/{kind}/{seed}/{width}x{height}" width="{width}" height="{height}" {more}>'
