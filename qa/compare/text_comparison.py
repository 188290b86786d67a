"""Comparison of a page's text with that of its copy, in linear time.

A text is treated as a multiset of its words and of the pairs of adjacent words on a line. So paragraphs, columns and
menus may change places at no cost; a banner costs its own share; another page of the same site shares its menu and
common words, but hardly a pair; and a text in another language or with the wrong encoding shares little weight.

Long words weigh more than short ones, which every text of a language has. Numbers weigh least:
dates, counters and prices change by themselves. Letter case is ignored: a style sheet can change it.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

MOST_CHARACTERS = 600_000  # of each text; of what follows only the length is compared
_LONGEST_WORD = 64  # a longer one is several
_HEAVIEST = 8  # a word of so many letters weighs as much as any
_OF_NUMBERS = 1
_OF_CHARACTERS = 4
_ADDED_COST = 0.25  # of what is lost when the words are all there among endless others
_BREAK = "\n"
# Scripts without spaces are read by the character: kana, ideographs, Thai, Lao, Burmese, Khmer.
_TOKENS = re.compile(
    rf"{_BREAK}|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    rf"\U00020000-\U0003ffff]|\w{{1,{_LONGEST_WORD}}}"
)
_FIRST_SPACELESS = "\u0e00"


@dataclass(frozen=True, slots=True)
class TextComparison:
    """Comparison of two texts; shares range from 0 to 1.

    Attributes:
        score: 1: equal except for the order of lines; 0: nothing in common. Missing text costs its
            share of the weight, added text a quarter of its share. A page that loses its last tenth
            has about 0.9, another page of the same site most often less than 0.4.
    """

    score: float
    kept: float  # share of the seen words that are shown; 1 when there are none
    added: float  # share of the shown words that were not seen; 0 when there are none
    words_seen: int  # number of seen words in the first `MOST_CHARACTERS` of text
    words_shown: int  # number of shown words, likewise


def compare_texts(seen: str, shown: str) -> TextComparison:
    """Compare the text `seen` at capture with the text `shown` by the copy.

    A seen text without a word has lost nothing; its score depends only on whether there are words now: 1 or 0.75. Of
    texts beyond `MOST_CHARACTERS` the beginnings are compared, and the lengths of the rests.
    """
    first, second = _TokenBag(seen), _TokenBag(shown)
    words = first.words & second.words
    common = sum(first.weights[word] * count for word, count in words.items())
    common += first.weight_of(first.pairs & second.pairs)
    shared = words.total()
    more = 1 - common / second.weight if second.weight else 0.0
    share = _with_rests(seen, shown, common / first.weight if first.weight else 1.0)
    return TextComparison(
        score=round(share * (1 - _ADDED_COST * more), 4),
        kept=round(_with_rests(seen, shown, shared / first.count if first.count else 1.0), 4),
        added=round(1 - shared / second.count if second.count else 0.0, 4),
        words_seen=first.count,
        words_shown=second.count,
    )


class _TokenBag:
    """Multiset of a text's words and word pairs; weights are integers, so sums ignore the order."""

    def __init__(self, text: str) -> None:
        # Cells of a table row are separated by tabs.
        beginning = text[:MOST_CHARACTERS].replace("\r", _BREAK).replace("\t", _BREAK)
        tokens = _TOKENS.findall(beginning.casefold())
        self.words = Counter(tokens)
        del self.words[_BREAK]
        self.pairs = Counter(pairwise(tokens))
        self.count = self.words.total()
        self.weights = {word: _weight(word) for word in self.words}
        self.weight = sum(self.weights[word] * count for word, count in self.words.items())
        self.weights[_BREAK] = _OF_NUMBERS
        self.weight += self.weight_of(self.pairs)

    def weight_of(self, pairs: Counter[tuple[str, str]]) -> int:
        """Return the weight of the pairs; one with a number or the end of a line weighs nothing."""
        weights = self.weights
        return sum(
            2 * (min(weights[one], weights[other]) - _OF_NUMBERS) * count for (one, other), count in pairs.items()
        )


def _weight(word: str) -> int:
    if word.isdecimal():
        return _OF_NUMBERS
    if len(word) == 1 and word >= _FIRST_SPACELESS:
        return _OF_CHARACTERS
    return min(len(word), _HEAVIEST)


def _with_rests(seen: str, shown: str, share: float) -> float:
    """Return the share of the seen text found: that of its beginning, and of its rest by length."""
    rest = max(0, len(seen) - MOST_CHARACTERS)
    if not rest:
        return share
    shown_rest = max(0, len(shown) - MOST_CHARACTERS)
    by_length = min(1.0, shown_rest / rest)
    return (share * MOST_CHARACTERS + by_length * rest) / len(seen)
