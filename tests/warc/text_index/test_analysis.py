"""Words, stems, bigrams, languages and snippets of the full-text index."""

import pytest

from warc.text_index.analysis import UNSTEMMED, QueryTerm, detect_language, make_snippet, parse_terms, tokens


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The running DOGS", "en", ["the", "run", "dog"]),
        ("Häuser große Straße", "de", ["haus", "gross", "strass"]),
        ("été É\u0301té e\u0301te\u0301", UNSTEMMED, ["ete", "ete", "ete"]),
        ("東京都 tower", "ja", ["東京", "京都", "都", "tower"]),
        ("한국어", "ko", ["한국", "국어", "어"]),
        ("हिन्दी में", UNSTEMMED, ["हिन्दी", "में"]),
        ("a_b-c.d", UNSTEMMED, ["a", "b", "c", "d"]),
        ("\uff26\uff35\uff2c\uff2c \ufb01ne", UNSTEMMED, ["full", "fine"]),
        ("\ue000 \u0301 _ -", UNSTEMMED, []),
        ("Le cœur de l'œuvre", "fr", ["le", "coeur", "de", "l", "oeuvr"]),
        ("Łódź Søren", "", ["lodz", "soren"]),
        ("IŞIK \u0131ş\u0131k", "tr", ["isik", "isik"]),
        ("ﾊﾝｶｸ", "ja", ["ハン", "ンカ", "カク", "ク"]),
    ],
)
def test_texts_become_tokens(text: str, language: str, expected: list[str]) -> None:
    """Stems without accents, pairs of characters where words have no spaces; nothing of private use."""
    assert tokens(text, language) == expected


@pytest.mark.parametrize(
    ("text", "declared", "language"),
    [
        ("Der Hund und die Katze sind nicht hier", "", "de"),
        ("The dog and the cat are not here", "de-AT", "de"),
        ("Тихий Дон и весна", "en", "ru"),
        ("Тихий Дон", "uk", "uk"),
        ("東京都の天気", "en", "ja"),
        ("北京天氣很好", "zh-Hant", "zh"),
        ("Le chat et les chiens sont dans une maison", "<b>", "fr"),
        ("xyzzy", "", ""),
        ("", "pt_BR", "pt"),
    ],
)  # fmt: skip
def test_the_language_is_declared_or_detected(text: str, declared: str, language: str) -> None:
    """A declaration counts unless the script is another's."""
    assert detect_language(text, declared) == language


def test_a_query_has_few_parts_whatever_its_length() -> None:
    """Words, phrases, beginnings and exclusions; their number is bounded."""
    assert parse_terms('Dogs -cat "wide  valley" val* -"old man" * - "') == (
        QueryTerm("Dogs"),
        QueryTerm("cat", is_excluded=True),
        QueryTerm("wide valley"),
        QueryTerm("val", is_prefix=True),
        QueryTerm("old man", is_excluded=True),
    )
    assert len(parse_terms(" ".join(map(str, range(5_000))))) == 12


def test_a_snippet_shows_the_stretch_with_most_terms() -> None:
    """Not the first hit, but where the words stand together; control characters are replaced."""
    text = "wide roads. " + "filler words " * 100 + "the wide\x1b green valley lies here " + "filler " * 50
    segments = make_snippet(text, "en", parse_terms("wide valleys"), ["en"])

    assert [part for part, is_hit in segments if is_hit] == ["wide", "valley"]
    assert "\x1b" not in "".join(part for part, _ in segments)
    assert 200 < len("".join(part for part, _ in segments)) < 300


def test_a_snippet_without_hits_is_the_beginning() -> None:
    """As of a page that was found by its address."""
    assert make_snippet("Only this", "en", parse_terms("other"), []) == [("", False), ("Only this", False)]
