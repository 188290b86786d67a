"""How much of a text is shown: what costs, what does not, and what a hostile text may cost us."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qa.compare import text_comparison
from qa.compare.text_comparison import MOST_CHARACTERS, compare_texts

pytestmark = pytest.mark.slow

_words = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=30)
_lines = st.lists(st.lists(st.sampled_from(["one", "two", "three", "4", "fünf", "六", "seven"]), max_size=6))
MENU = "Home\nNews\nAbout us\nContact\nSign in\nSearch the whole site\nTerms and privacy of this site\n"
STORY = """The harbour of the old town was closed on Monday after a crane had fallen into the basin.
Nobody was hurt, said a speaker of the port authority, but two ferries cannot leave before Thursday.
Engineers from three countries are expected to lift the crane with a floating platform.
Until then passengers are taken by bus to the neighbouring port, where space is scarce."""
OTHER = """Ministers agreed on Friday to double the money for the repair of schools by next summer.
The opposition called the plan late and small; teachers had asked for more than a billion.
Work is to begin with roofs and heating, and the first hundred schools are named in a list.
Parents who had protested in the capital were not convinced by the numbers."""
GERMAN = """Der Hafen der Altstadt wurde am Montag gesperrt, nachdem ein Kran in das Becken gefallen war.
Niemand wurde verletzt, sagte ein Sprecher der Hafenbehörde, doch zwei Fähren können nicht auslaufen.
Ingenieure aus drei Ländern sollen den Kran mit einer schwimmenden Bühne heben.
Bis dahin werden die Fahrgäste mit Bussen in den Nachbarhafen gebracht, wo es eng ist."""
JAPANESE = "港は月曜日に閉鎖された。クレーンが倒れたためである。\n負傷者はいなかったと港湾局は述べた。"


def score(seen: str, shown: str) -> float:
    return compare_texts(seen, shown).score


@given(st.text(st.characters(codec="utf-8")))
def test_a_text_is_all_of_itself(text: str) -> None:
    """Identity: score and kept are exactly 1, nothing is added."""
    found = compare_texts(text, text)

    assert (found.score, found.kept, found.added) == (1.0, 1.0, 0.0)
    assert found.words_seen == found.words_shown


@given(_words, _words)
def test_every_share_is_one(seen: list[str], shown: list[str]) -> None:
    """Whatever the texts, all figures stay within their bounds, and what one keeps the other adds."""
    there = compare_texts(" ".join(seen), " ".join(shown))
    back = compare_texts(" ".join(shown), " ".join(seen))

    assert 0 <= there.score <= 1
    if there.words_seen and there.words_shown:
        assert there.kept == pytest.approx(1 - back.added, abs=1e-4)
        assert (there.score == 0) == (back.score == 0)
    assert (there.words_seen, there.words_shown) == (back.words_shown, back.words_seen)


@given(st.sets(st.sampled_from(STORY.lower().split()), min_size=1), st.integers(1, 40))
def test_texts_without_a_common_word_have_nothing_in_common(words: set[str], times: int) -> None:
    """Disjoint: score and kept are 0, everything is added."""
    found = compare_texts(" ".join(words), "xyzzy 77 \u6f22 " * times)

    assert (found.score, found.kept, found.added) == (0.0, 0.0, 1.0)


@given(_lines, st.randoms(use_true_random=False))
def test_lines_may_change_places(lines: list[list[str]], chance: random.Random) -> None:
    """Blocks in another order are the same text."""
    moved = chance.sample(lines, len(lines))

    assert score("\n".join(map(" ".join, lines)), "\n".join(map(" ".join, moved))) == 1.0


@given(_lines, st.integers(0, 60), st.integers(0, 60))
def test_the_more_is_cut_off_the_lower_the_score(lines: list[list[str]], most: int, less: int) -> None:
    """Monotone: of two beginnings of a text the longer has at least the other's score."""
    words = [word for line in lines for word in line]
    long, short = sorted((words[:most], words[:less]), key=len, reverse=True)
    seen = " ".join(words)

    assert score(seen, " ".join(long)) >= score(seen, " ".join(short))


@pytest.mark.parametrize(
    ("shown", "least", "most"),
    [
        pytest.param(f"We use cookies. Accept all, or choose\n{MENU}{STORY}", 0.95, 1.0, id="banner"),
        pytest.param(f"{MENU}{STORY}\n3 comments, 17 minutes ago", 0.97, 1.0, id="added line"),
        pytest.param(f"{STORY}\n{MENU}", 1.0, 1.0, id="menu moved"),
        pytest.param(f"{MENU}{STORY}".upper(), 1.0, 1.0, id="capitals"),
        pytest.param(f"{MENU}{STORY}"[: len(f"{MENU}{STORY}") * 9 // 10], 0.85, 0.95, id="a tenth cut"),
        pytest.param(f"{MENU}{STORY}"[: len(f"{MENU}{STORY}") // 2], 0.4, 0.6, id="half cut"),
        pytest.param(f"{MENU}{OTHER}", 0.0, 0.4, id="another page of the site"),
        pytest.param(OTHER, 0.0, 0.1, id="another site"),
        pytest.param(f"{MENU}{GERMAN}", 0.0, 0.4, id="another language"),
        pytest.param("404 Not Found", 0.0, 0.01, id="an error"),
        pytest.param("", 0.0, 0.0, id="nothing"),
    ],
)
def test_a_score_means_the_same_for_every_kind_of_loss(shown: str, least: float, most: float) -> None:
    """Banners and moved blocks hardly cost; cuts cost their share; other words cost nearly all."""
    assert least <= score(f"{MENU}{STORY}", shown) <= most


def test_dates_and_counters_hardly_count() -> None:
    """Every number of a page may change by itself."""
    seen = "\n".join(f"Story number {n} was read {n * 7} times on 2026-11-{n:02}" for n in range(30))
    shown = "\n".join(f"Story number {n} was read {n * 9} times on 2027-01-{n:02}" for n in range(30))

    assert score(seen, shown) > 0.9


@pytest.mark.parametrize("text", [GERMAN, JAPANESE, "Вода и лёд — одно вещество", "東京都知事"])
def test_the_wrong_encoding_is_another_text(text: str) -> None:
    """Mojibake of a script beyond ASCII is noticed in proportion to what it spoils."""
    spoilt = text.encode().decode("cp1252", errors="replace")
    shares = [word for word in text.split() if word.isascii()]

    assert score(text, spoilt) <= 0.1 + len(shares) / len(text.split())
    assert score(text, spoilt) < 0.97


def test_scripts_without_spaces_are_read_by_the_character() -> None:
    """A cut costs its share in Japanese too, and another sentence of the same characters is another."""
    assert 0.4 <= score(JAPANESE, JAPANESE[: len(JAPANESE) // 2]) <= 0.6
    assert score("日本人は本を読む", "本日は人を読む本") < 0.6


def test_a_text_that_was_empty_has_lost_nothing() -> None:
    """Nothing can be kept of nothing; that words came is said by the score and by `added`."""
    assert compare_texts("", "") == text_comparison.TextComparison(1.0, 1.0, 0.0, 0, 0)
    assert compare_texts(" \n", "now there is text") == text_comparison.TextComparison(0.75, 1.0, 1.0, 0, 4)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 5_000_000, id="one endless word"),
        pytest.param("漢" * 1_500_000, id="one endless line"),
        pytest.param("\n" * 5_000_000, id="nothing but lines"),
        pytest.param(" ".join(map(str, range(400_000))), id="very many words"),
        pytest.param("\u0301\ud800" * 1_000_000, id="marks and halves of characters"),
    ],
)
def test_an_endless_text_costs_no_more_than_its_beginning(text: str) -> None:
    """Words that are held in memory are bounded, and what is beyond still counts by its length."""
    bag = text_comparison._TokenBag(text)

    assert len(bag.words) + len(bag.pairs) <= MOST_CHARACTERS
    assert score(text, text) == 1.0
    if bag.count:
        half = score(text, text[: len(text) // 2])
        assert half == pytest.approx(0.5, abs=0.06)


def test_steps_grow_as_the_text_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the text has twice the tokens, and each is weighed at most once."""
    weighed, weight = list[str](), text_comparison._weight

    def noting(word: str) -> int:
        weighed.append(word)
        return weight(word)

    monkeypatch.setattr(text_comparison, "_weight", noting)
    counts = []
    for size in (1_000, 2_000, 4_000):
        weighed.clear()
        compare_texts(" ".join(f"word{n}" for n in range(size)), "other")
        counts.append(len(weighed))

    assert counts == [1_001, 2_001, 4_001]
