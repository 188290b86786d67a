"""Texts of the made pages: sentences of common words, the same for the same seed, in a few languages."""

import random
import tomllib
from functools import cache
from pathlib import Path

RIGHT_TO_LEFT = frozenset({"ar"})


class SeededWords:
    """Texts of one page. The same seed makes pages of the same shape in every language."""

    def __init__(self, language: str, seed: str) -> None:
        self.language = language
        self._texts = _read_words()[language]
        self._words = self._texts["words"].split()
        self.random = random.Random(seed)

    @property
    def direction(self) -> str:
        """Return the text direction, ``ltr`` or ``rtl``."""
        return "rtl" if self.language in RIGHT_TO_LEFT else "ltr"

    @property
    def nav(self) -> list[str]:
        """Return the names of a site's sections, at most eight."""
        return self._texts["nav"].split()[:8]

    def text(self, name: str) -> str:
        """Return a phrase that sites of this language use."""
        return self._texts[name]

    def words(self, least: int, most: int) -> str:
        """Return `least` to `most` words; the first begins in upper case."""
        text = " ".join(
            self._words[int(self.random.random() * len(self._words))] for _ in range(self.random.randint(least, most))
        )
        return text[0].upper() + text[1:]

    def title(self) -> str:
        """Return a headline."""
        return self.words(4, 8)

    def sentence(self) -> str:
        """Return a sentence."""
        return self.words(7, 17) + "."

    def paragraph(self, least: int = 3, most: int = 6) -> str:
        """Return `least` to `most` sentences."""
        return " ".join(self.sentence() for _ in range(self.random.randint(least, most)))

    def paragraphs(self, count: int) -> str:
        """Return `count` ``<p>`` elements."""
        return "\n".join(f"<p>{self.paragraph()}</p>" for _ in range(count))

    def number(self, least: int, most: int) -> int:
        """Return a number from `least` to `most`."""
        return self.random.randint(least, most)

    def name(self) -> str:
        """Return a person's name: two capitalised words."""
        return f"{self.words(1, 1)} {self.words(1, 1)}".title()

    def date(self) -> str:
        """Return a date in the language's format."""
        day, year = self.number(1, 28), self.number(2009, 2025)
        return self._texts["date"].format(d=day, y=year)


@cache
def _read_words() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
