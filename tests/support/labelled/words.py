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
        self._said = _said()[language]
        self._words = self._said["words"].split()
        self.random = random.Random(seed)

    @property
    def direction(self) -> str:
        """``ltr`` or ``rtl``."""
        return "rtl" if self.language in RIGHT_TO_LEFT else "ltr"

    @property
    def nav(self) -> list[str]:
        """Names of a site's parts."""
        return self._said["nav"].split()[:8]

    def said(self, name: str) -> str:
        """A sentence that sites of this language use."""
        return self._said[name]

    def words(self, least: int, most: int) -> str:
        """Some words; the first begins in upper case."""
        text = " ".join(
            self._words[int(self.random.random() * len(self._words))] for _ in range(self.random.randint(least, most))
        )
        return text[0].upper() + text[1:]

    def title(self) -> str:
        """A headline."""
        return self.words(4, 8)

    def sentence(self) -> str:
        """A sentence."""
        return self.words(7, 17) + "."

    def paragraph(self, least: int = 3, most: int = 6) -> str:
        """Some sentences."""
        return " ".join(self.sentence() for _ in range(self.random.randint(least, most)))

    def paragraphs(self, count: int) -> str:
        """As many ``<p>``."""
        return "\n".join(f"<p>{self.paragraph()}</p>" for _ in range(count))

    def number(self, least: int, most: int) -> int:
        """A number."""
        return self.random.randint(least, most)

    def name(self) -> str:
        """A person's name, or what may pass for one."""
        return f"{self.words(1, 1)} {self.words(1, 1)}".title()

    def date(self) -> str:
        """A day."""
        day, year = self.number(1, 28), self.number(2009, 2025)
        return self._said["date"].format(d=day, y=year)


@cache
def _said() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
