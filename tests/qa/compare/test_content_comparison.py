"""Share of a text that is shown, parts that count as lost, and the cost of a hostile text."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.page_manifest import PageResource
from core.playback_check import LostPart, QaVerdict
from qa.compare import content_comparison
from qa.compare.content_comparison import (
    MOST_CHARACTERS,
    RESOURCE_KINDS,
    PartRequest,
    ResourceComparison,
    compare_resources,
    compare_texts,
    part_at_capture,
    part_at_playback,
)
from qa.compare.verdict_rules import judge_copy
from render.network_log import RequestLog

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
    comparison = compare_texts(text, text)

    assert (comparison.score, comparison.kept, comparison.added) == (1.0, 1.0, 0.0)
    assert comparison.words_seen == comparison.words_shown


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
    comparison = compare_texts(" ".join(words), "xyzzy 77 \u6f22 " * times)

    assert (comparison.score, comparison.kept, comparison.added) == (0.0, 0.0, 1.0)


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
    assert compare_texts("", "") == content_comparison.TextComparison(1.0, 1.0, 0.0, 0, 0)
    assert compare_texts(" \n", "now there is text") == content_comparison.TextComparison(0.75, 1.0, 1.0, 0, 4)


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
    bag = content_comparison._TokenBag(text)

    assert len(bag.words) + len(bag.pairs) <= MOST_CHARACTERS
    assert score(text, text) == 1.0
    if bag.count:
        half = score(text, text[: len(text) // 2])
        assert half == pytest.approx(0.5, abs=0.06)


def test_steps_grow_as_the_text_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the text has twice the tokens, and each is weighed at most once."""
    weighed, weight = list[str](), content_comparison._word_weight

    def noting(word: str) -> int:
        weighed.append(word)
        return weight(word)

    monkeypatch.setattr(content_comparison, "_word_weight", noting)
    counts = []
    for size in (1_000, 2_000, 4_000):
        weighed.clear()
        compare_texts(" ".join(f"word{n}" for n in range(size)), "other")
        counts.append(len(weighed))

    assert counts == [1_001, 2_001, 4_001]


SITE = "https://example.org/"
_parts = st.lists(
    st.builds(
        PartRequest,
        url=st.sampled_from([f"{SITE}{name}" for name in "abcdef"] + ["no url", ""]),
        kind=st.sampled_from(["Document", "Stylesheet", "Image", "Script", "Ping", ""]),
        status=st.sampled_from([None, 200, 204, 304, 404, 503]),
        failed=st.sampled_from(["", "", "net::ERR_FAILED", "net::ERR_ABORTED"]),
        size=st.none() | st.integers(0, 100_000),
        initiator=st.sampled_from(["parser", "script", ""]),
    ),
    max_size=12,
)


def image(name: str, status: int | None = 200, **more: object) -> PartRequest:
    return PartRequest(f"{SITE}{name}", "Image", status, initiator="parser", size=20_000, **more)  # type: ignore[arg-type]


def sheet(name: str, status: int | None = 200, **more: object) -> PartRequest:
    return PartRequest(f"{SITE}{name}", "Stylesheet", status, initiator="parser", **more)  # type: ignore[arg-type]


def compare(seen: list[PartRequest], shown: list[PartRequest], level: str = "images") -> ResourceComparison:
    return compare_resources(seen, shown, level=level)


@given(_parts, _parts, st.sampled_from([*RESOURCE_KINDS, "another"]))
def test_figures_agree_whatever_was_asked_for(seen: list[PartRequest], shown: list[PartRequest], level: str) -> None:
    """The score is a share; what is not shown is lost; only what came at capture can be."""
    comparison = compare_resources(seen, shown, level=level)
    came = {part.url for part in seen if part.came}

    assert 0 <= comparison.score <= 1
    assert comparison.seen - comparison.shown == len(comparison.lost)
    assert {each.url for each in comparison.lost} <= came
    assert (comparison.score == 1) == (comparison.lost == ())


@given(_parts, st.sampled_from([*RESOURCE_KINDS]))
def test_a_page_that_is_asked_for_again_as_it_was_has_lost_nothing(parts: list[PartRequest], level: str) -> None:
    """Whatever failed at capture may fail again."""
    assert compare_resources(parts, parts, level=level).lost == ()


def test_what_came_then_and_fails_now_is_lost_with_its_reason() -> None:
    """Heaviest first: a style sheet before a picture, a large picture before a small one."""
    names = ("a.png", "b.png", "c.png", "d.png")
    seen = [*(image(name) for name in names), sheet("a.css"), image("small.png")]
    shown = [
        image("a.png", 404),
        image("b.png", None, failed="net::ERR_FAILED"),
        image("c.png", None),
        image("d.png"),
        sheet("a.css", 503),
        image("small.png"),
    ]

    comparison = compare(seen, shown)

    assert comparison.lost == (
        LostPart(f"{SITE}a.css", "status: 503"),
        LostPart(f"{SITE}a.png", "status: 404"),
        LostPart(f"{SITE}b.png", "failed: net::ERR_FAILED"),
        LostPart(f"{SITE}c.png", "unanswered"),
    )
    assert (comparison.seen, comparison.shown) == (6, 2)
    assert comparison.score == pytest.approx(2 / 9, abs=1e-4)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([], id="never asked for"),
        pytest.param([image("a.png", 404)], id="missing at its origin"),
        pytest.param([image("a.png", None)], id="no answer"),
        pytest.param([image("a.png", 200, failed="limit: bytes")], id="not kept"),
    ],
)
def test_what_was_not_there_at_capture_is_not_lost(seen: list[PartRequest]) -> None:
    """A broken image that was broken then is no fault of the copy."""
    assert compare(seen, [image("a.png", 404)]) == ResourceComparison(1.0, 0, 0, ())


@pytest.mark.parametrize("failed", ["net::ERR_ABORTED", "detached"])
def test_what_the_copy_itself_took_back_is_not_lost(failed: str) -> None:
    """A request that was cancelled says nothing of what would have come."""
    assert compare([image("a.png")], [image("a.png", None, failed=failed)]).lost == ()


def test_one_answer_of_several_is_enough() -> None:
    """A part that came once is there, whatever another request for it met."""
    shown = [image("a.png", None, failed="net::ERR_FAILED"), image("a.png"), image("a.png", 404)]

    assert compare([image("a.png")], shown).lost == ()


def test_spellings_of_a_url_are_one_part() -> None:
    """Playback writes a URL in its own way; escapes do not make another part of it."""
    seen = [image("stra%c3%9fe.png?"), image("a.png")]
    shown = [image("stra%C3%9Fe.png", 404), image("a.png")]

    assert [each.reason for each in compare(seen, shown).lost] == ["status: 404"]


def test_a_tracking_pixel_weighs_next_to_nothing() -> None:
    """It is told, but no score falls by it."""
    pixel = PartRequest(f"{SITE}pixel.gif", "Image", 200, size=343)
    gone = PartRequest(f"{SITE}pixel.gif", "Image", 404)
    comparison = compare([pixel, sheet("a.css"), image("a.png")], [gone, sheet("a.css"), image("a.png")])

    assert len(comparison.lost) == 1
    assert comparison.score > 0.98


def test_two_hundred_tracking_pixels_weigh_no_more_than_a_picture() -> None:
    """A page with nothing else but its document and a style sheet is whole without them."""
    document = PartRequest(SITE, "Document", 200, initiator="other")
    pixels = [PartRequest(f"{SITE}{number}.gif", "Image", 200, size=900) for number in range(200)]
    gone = [replace(each, status=404) for each in pixels]
    comparison = compare([document, sheet("a.css"), *pixels], [document, sheet("a.css"), *gone])

    assert (len(comparison.lost), comparison.main) == (200, "")
    assert judge_copy(None, None, comparison).verdict is QaVerdict.GOOD


@pytest.mark.parametrize("lost", ["main.css", "large.png"])
def test_what_a_page_needs_is_told_however_much_else_is_there(lost: str) -> None:
    """A style sheet and a main picture; not a thumbnail among many, a short sheet, or what was not asked for."""
    rest = [replace(image(f"{number}.png"), size=4_000) for number in range(100)]
    seen = [sheet("main.css"), image("large.png"), replace(sheet("x.css"), size=300), *rest]

    def without(name: str) -> ResourceComparison:
        return compare(seen, [replace(each, status=404) if each.url.endswith(name) else each for each in seen])

    assert without(f"/{lost}").main == SITE + lost
    assert judge_copy(None, None, without(f"/{lost}")).verdict is QaVerdict.DOUBTFUL
    for name in ("/7.png", "/x.css"):
        assert judge_copy(None, None, without(name)).verdict is QaVerdict.GOOD
    assert compare(seen, [each for each in seen if not each.url.endswith(lost)]).main == ""


def test_parts_that_are_not_asked_for_are_missed_only_when_nearly_all_are() -> None:
    """Scripts take parts away for good reasons; a document without any of its pictures lost them."""
    seen = [image(f"{number}.png") for number in range(8)]

    assert compare(seen, seen[:2]).lost == ()
    assert {each.reason for each in compare(seen, seen[:1]).lost} == {"unasked"}
    assert compare(seen, []).score == 0
    assert compare(seen, [], "html").lost == ()
    assert compare(seen, [], "text").lost == ()
    assert [part.url for part in compare([sheet("a.css"), *seen], seen, "html").lost] == [sheet("a.css").url]


def test_what_a_script_loaded_need_not_be_asked_for_again() -> None:
    """Copies without scripts have no use for it."""
    loaded = PartRequest(f"{SITE}a.png", "Image", 200, initiator="script")
    icon = PartRequest(f"{SITE}favicon.ico", "Image", 200, initiator="other")

    assert compare([loaded, icon], []) == ResourceComparison(1.0, 0, 0, ())


def test_a_manifest_and_a_request_log_say_what_was_seen_and_shown() -> None:
    """A part that was requested and not stored was not there; the address of playback is not compared."""
    part = PageResource(f"{SITE}a.png", status=200, resource_type="Image", initiator="parser")
    gone = replace(part, url=f"{SITE}b.png", kept="missing", reason="unrecorded")
    address = "http://127.0.0.1:1/c/20260101000000im_/"
    shown = [
        part_at_playback(url, RequestLog(address + url, status=404, resource_type="Image"))
        for url in (part.url, gone.url)
    ]

    assert part_at_capture(gone).failed == "unrecorded"
    assert compare([part_at_capture(part), part_at_capture(gone)], shown).lost == (LostPart(part.url, "status: 404"),)


def test_a_sheet_that_makes_a_page_is_not_missed_when_the_page_is_made() -> None:
    """XSLT is a style sheet to the browser; the copy holds what came of it."""
    transform = PageResource(
        f"{SITE}a.xsl", status=200, resource_type="Stylesheet", mime="text/xsl+xml", initiator="parser"
    )

    assert compare([part_at_capture(transform)], []).lost == ()
