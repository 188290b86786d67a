"""Scripts of the world: fonts of this machine for them, and characters of a page that are drawn as boxes."""

import shutil
import subprocess
import unicodedata
from collections.abc import Iterable

from render.cdp import CommandError
from render.page import BrowserPage

# What `scripts/setup`, `weboid setup browser` and the images install.
FONT_PACKAGES = ("fonts-noto-core", "fonts-noto-cjk", "fonts-noto-color-emoji")
EMOJI = "emoji"
# A letter of each script that many pages are written in; no font that has it lacks the others.
LARGE_SCRIPTS = {
    "Arabic": "\u0639", "Armenian": "\u0531", "Bengali": "\u0995", "Cyrillic": "\u0416", "Devanagari": "\u0905",
    "Ethiopic": "\u12a0", "Georgian": "\u10d0", "Greek": "\u03a9", "Gujarati": "\u0a95", "Gurmukhi": "\u0a15",
    "Han": "\u4e2d", "Hangul": "\ud55c", "Hebrew": "\u05d0", "Hiragana": "\u3042", "Kannada": "\u0c95",
    "Katakana": "\u30a2", "Khmer": "\u1780", "Lao": "\u0e81", "Malayalam": "\u0d15", "Myanmar": "\u1000",
    "Oriya": "\u0b15", "Sinhala": "\u0d9a", "Tamil": "\u0b95", "Telugu": "\u0c15", "Thai": "\u0e01",
    "Tibetan": "\u0f40", EMOJI: "\U0001f3e0",
}  # fmt: skip
SCRIPT_LIMIT = 60  # scripts of a page that are tested
SAMPLE_CHARACTERS = 3  # of each
_EMOJI_BLOCKS = range(0x1F300, 0x1FB00)
_FC_TIMEOUT_S = 20.0


def scripts_without_font() -> list[str] | None:
    """Return the large scripts for which fontconfig has no font; None without fontconfig."""
    if (program := shutil.which("fc-list")) is None:
        return None
    missing = []
    for name, letter in LARGE_SCRIPTS.items():
        command = [program, f":charset={ord(letter):x}", "family"]
        listed = subprocess.run(command, capture_output=True, check=False, timeout=_FC_TIMEOUT_S)
        if not listed.stdout.strip():
            missing.append(name)
    return missing


def script_samples(characters: Iterable[str]) -> dict[str, list[str]]:
    """Return a few letters of each script; emoji count as one.

    >>> script_samples("ab\u4e2d\u0905\U0001f3e0 1\u0301")
    {'Han': ['\u4e2d'], 'Devanagari': ['\u0905'], 'emoji': ['\U0001f3e0']}
    """
    samples: dict[str, list[str]] = {}
    for character in dict.fromkeys(characters):
        if character < "\u0250":
            continue
        if ord(character) in _EMOJI_BLOCKS:
            name = EMOJI
        elif unicodedata.category(character).startswith("L"):
            word = unicodedata.name(character, "").partition(" ")[0].capitalize()
            name = "Han" if word == "Cjk" else word
        else:
            continue
        listed = samples.setdefault(name, []) if len(samples) < SCRIPT_LIMIT else samples.get(name)
        if listed is not None and len(listed) < SAMPLE_CHARACTERS:
            listed.append(character)
    samples.pop("", None)
    return samples


async def missing_glyphs(page: BrowserPage, text: str) -> list[str]:
    """Return the scripts of the text that the page shows as boxes; a page that cannot be tested has none."""
    samples = script_samples(text)
    if not samples:
        return []
    names = list(samples)
    try:
        return [names[at] for at in await page.call("glyphs", list(samples.values()))]
    except CommandError:
        return []
