"""Analysis of texts and queries: words, stems by language, bigrams of scripts without spaces, snippets.

Words are stemmed in the document's language (Snowball) and lose their accents; runs of Chinese, Japanese, Korean, Thai
and the like become overlapping pairs of characters. A word of a query stands for its stems in every language.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

UNSTEMMED = "-"  # in place of a language
TEXT_LIMIT_CHARS = 300_000  # of a text that are indexed and stored
_TERMS_LIMIT = 12  # of a query
_WORD_LIMIT_CHARS = 64
_SNIPPET_CHARS = 260
_SCANNED_CHARS = 60_000  # of a text, for its snippet
_PREFIX_STEMMERS = {"ga", "id"}  # they remove beginnings of words
_LEAST_EVIDENCE = 3  # function words that name a language
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
# Scripts that put no space between words, or particles at the end of words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{_MARKS}])*")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")), ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")), ("th", re.compile(r"[\u0e00-\u0e7f]")),
    ("el", re.compile(r"[\u0370-\u03ff]")), ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")), ("he", re.compile(r"[\u0590-\u05ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")), ("ta", re.compile(r"[\u0b80-\u0bff]")),
)  # fmt: skip
_BY_SCRIPT = {  # other languages of a script that a page may declare
    "zh": {"yue", "ja"}, "ru": {"uk", "be", "bg", "sr", "mk", "kk", "mn", "ky", "tg"}, "ar": {"fa", "ur", "ps", "ckb"},
    "he": {"yi"}, "hi": {"mr", "ne", "sa"},
}  # fmt: skip
_QUERY_PART = re.compile(r'(-?)"([^"]*)"?|(\S+)')
_LETTERS = str.maketrans(
    {"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i"}
)  # as many keyboards write them
_UNSAFE = re.compile(r"[^\w" + _MARKS + "]|_")


@lru_cache(maxsize=1)
def _languages() -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    tables = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
    return tables["stemmers"], {name: frozenset(words.split()) for name, words in tables["words"].items()}


@lru_cache(maxsize=32)
def _stemmer(language: str) -> Any:
    """Return the Snowball stemmer of the language, English's for an unknown one; None without one."""
    import Stemmer

    name = _languages()[0].get(language or "en")
    return None if name is None else Stemmer.Stemmer(name, 20_000)


def primary_language(tag: str) -> str:
    """Return the primary language of a BCP 47 tag or locale in lower case; empty if it is not valid.

    >>> primary_language("de-AT"), primary_language("pt_BR"), primary_language("nb"), primary_language("<b>")
    ('de', 'pt', 'no', '')
    """
    match = re.match(r"[A-Za-z]{2,3}(?![A-Za-z])", tag.strip())
    name = match[0].lower() if match else ""
    return "no" if name in {"nb", "nn"} else name


def detect_language(text: str, declared: str = "") -> str:
    """Return the language of a text: the declared one unless its script is another, else by script and function words.

    >>> detect_language("Der Hund und die Katze sind nicht in dem Haus"), detect_language("東京都の天気")
    ('de', 'ja')
    """
    sample, declared = text[:5_000], primary_language(declared)
    letters = sum(map(str.isalpha, sample))
    for name, pattern in _SCRIPTS:
        share = 0.05 if name == "ja" else 0.3
        if letters and len(pattern.findall(sample)) > share * letters:
            return declared if declared in {name, *_BY_SCRIPT.get(name, ())} else name
    if declared and declared not in dict(_SCRIPTS):
        return declared
    counts = Counter(word for word in re.findall(r"[^\W\d_]+", sample.lower()))
    scores = {name: sum(counts[word] for word in words) for name, words in _languages()[1].items()}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= _LEAST_EVIDENCE else declared


def _analyse(words: Iterable[str], language: str) -> dict[str, tuple[str, ...]]:
    analysed: dict[str, tuple[str, ...]] = {}
    stemmer = _stemmer(language)
    for word in words:
        if word in analysed:
            continue
        is_run = not word.isascii() and _IS_UNSPACED.match(word)
        plain = (word if is_run else word[:_WORD_LIMIT_CHARS]).lower()
        if not plain.isascii():
            plain = unicodedata.normalize("NFKC", plain)
        if is_run:
            # The last character alone, too, so that each character begins a token.
            analysed[word] = tuple(plain[at : at + 2] for at in range(len(plain)))
            continue
        token = plain if stemmer is None else stemmer.stemWord(plain)
        if not token.isascii():  # it loses its accents; the vowel signs of Indic scripts stay
            parts = unicodedata.normalize("NFKD", token).translate(_LETTERS)
            letters = (c for c in parts if c >= "\u0900" or not unicodedata.combining(c))
            token = _UNSAFE.sub("", unicodedata.normalize("NFC", "".join(letters)))
        analysed[word] = (token,) if token else ()
    return analysed


def tokens(text: str, language: str) -> list[str]:
    """Return the tokens of a text in that language, in order; empty: unknown; see also `UNSTEMMED`."""
    words = (_ASCII_WORD if text.isascii() else _WORD).findall(text)
    analysed = _analyse(words, language)
    return [token for word in words for token in analysed[word]]


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """Word or phrase of a query."""

    text: str
    is_prefix: bool = False  # words that begin so
    is_excluded: bool = False

    def variants(self, languages: Collection[str]) -> list[tuple[str, ...]]:
        """Return the token sequences that match the term, one for each way to stem it."""
        if self.is_prefix:
            return [tuple(tokens(self.text, UNSTEMMED))]
        sequences = dict.fromkeys(tuple(tokens(self.text, each)) for each in (UNSTEMMED, "", *sorted(languages)))
        cut = dict.fromkeys(each[:-1] if len(each) > 1 and _ends_unspaced(self.text) else each for each in sequences)
        return [each for each in cut if each]

    def begins(self, variant: tuple[str, ...]) -> bool:
        """Return True when the variant's last token is the beginning of words: ``word*``, or one character."""
        return self.is_prefix or (len(variant[-1]) == 1 and _ends_unspaced(self.text))


def _ends_unspaced(text: str) -> bool:
    return bool(text) and _IS_UNSPACED.match(text.rstrip()[-1:]) is not None


def parse_terms(text: str) -> tuple[QueryTerm, ...]:
    """Parse a reader's query: words, ``"phrases"``, ``word*``, ``-excluded``. Nothing else has a meaning.

    >>> [(each.text, each.is_prefix, each.is_excluded) for each in parse_terms('"to be" hamlet* -film')]
    [('to be', False, False), ('hamlet', True, False), ('film', False, True)]
    """
    terms: list[QueryTerm] = []
    for match in islice(_QUERY_PART.finditer(text), 4 * _TERMS_LIMIT):
        sign, phrase, word = match.group(1) or "", match.group(2) or "", match.group(3) or ""
        excluded = sign == "-" or (len(word) > 1 and word[0] == "-")
        prefix = word.endswith("*") and len(word.strip("-*")) >= 2
        plain = " ".join(_WORD.findall(phrase or word)[:_TERMS_LIMIT])
        term = QueryTerm(plain, prefix and " " not in plain, excluded)
        if plain and term not in terms:
            terms.append(term)
    return tuple(terms[:_TERMS_LIMIT])


Segment = tuple[str, bool]  # text, whether it is a hit


def make_snippet(text: str, language: str, terms: Sequence[QueryTerm], languages: Collection[str]) -> list[Segment]:
    """Return the part of the text with the most different hits, as segments; its beginning when there is none."""
    wanted: dict[str, int] = {}  # token: number of its term
    beginnings: dict[str, int] = {}
    for number, term in enumerate(terms):
        for variant in () if term.is_excluded else term.variants(languages):
            (beginnings if term.begins(variant) else wanted).update(dict.fromkeys(variant, number))
    hits: list[tuple[int, int, int]] = []
    # Most words need no analysis: stemmers of few languages change how a word begins.
    skipped = set("abcdefghijklmnopqrstuvwxyz") - {token[0] for token in (*wanted, *beginnings)}
    skipped = set() if language in _PREFIX_STEMMERS else skipped | {letter.upper() for letter in skipped}
    pattern = _ASCII_WORD if text.isascii() else _WORD
    matches = [each for each in pattern.finditer(text, 0, _SCANNED_CHARS) if text[each.start()] not in skipped]
    analysed = _analyse({each[0] for each in matches}, language)
    for match in matches:
        start, end = match.span()
        is_run = _IS_UNSPACED.match(text, start) is not None
        for at, token in enumerate(analysed[match[0]]):
            number = wanted.get(token, -1)
            if number < 0 and beginnings:
                number = next((each for begin, each in beginnings.items() if token.startswith(begin)), -1)
            if number >= 0:
                hits.append((start + at, start + at + len(token), number) if is_run else (start, end, number))
    first = _best_start(hits)
    begin = max(0, hits[first][0] - _SNIPPET_CHARS // 4) if hits else 0
    if begin:
        begin = max(text.find(" ", begin, hits[first][0]) + 1, begin)
    end = min(len(text), begin + _SNIPPET_CHARS)
    return list(_segments(text, begin, end, hits[first:]))


def _best_start(hits: Sequence[tuple[int, int, int]]) -> int:
    """Return the index of the hit that begins the stretch with the most different terms."""
    best, best_at, until = -1, 0, 0
    counts: Counter[int] = Counter()
    for at, (start, _, number) in enumerate(hits):
        while until < len(hits) and hits[until][1] <= start + _SNIPPET_CHARS * 3 // 4:
            counts[hits[until][2]] += 1
            until += 1
        if (value := len(+counts)) > best:
            best, best_at = value, at
        counts[number] -= 1
    return best_at


def _segments(text: str, begin: int, end: int, hits: Sequence[tuple[int, int, int]]) -> Iterator[Segment]:
    def plain(start: int, stop: int) -> str:
        part = re.sub(r"\s+", " ", text[start:stop])
        return part if part.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in part)

    at = begin
    yield "… " if begin else "", False
    for start, stop, _ in hits:
        if start >= end:
            break
        if stop > at:
            yield plain(at, max(at, start)), False
            yield plain(max(at, start), stop), True
            at = stop
    yield plain(at, max(at, end)) + (" …" if end < len(text) else ""), False
