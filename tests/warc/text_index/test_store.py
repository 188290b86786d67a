"""The full-text index in both databases: what is added, found, counted once and removed."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.layout import Layout
from warc.text_index.analysis import parse_terms
from warc.text_index.reader import TextIndex, open_text_index, skip_url
from warc.text_index.store import TextDocument, TextFilter, TextIndexWriter, open_text_writer

DAY_MS = 86_400_000
PAGE = TextDocument(
    "a",
    "https://www.one.example/x",
    1_700_000_000_000,
    "Green valley",
    "the running dogs of the hills",
    "en",
    "page",
    "good",
)
NOTHING = TextFilter()


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[TextIndexWriter, TextIndex]]:
    """Writer and reader of an empty index."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with closing(open_text_writer(layout, url)) as writer, closing(open_text_index(layout, url)) as index:
        yield writer, index


def pages(index: TextIndex, words: str, facets: TextFilter = NOTHING, **more: bool) -> list[str]:
    """Return the page id of the newest capture of each text with these words."""
    hits = index.hits(parse_terms(words), facets, index.languages(), limit=100, **more)
    return [each[0] for each in index.captures([hit.number for hit in hits], 1, 0, 2**53).values()]


def test_texts_are_found_by_stems_phrases_and_facets(opened: tuple[TextIndexWriter, TextIndex]) -> None:
    """In both databases alike."""
    writer, index = opened
    other = TextDocument("b", "https://sub.two.example/it's", PAGE.captured_ms + 400 * DAY_MS, "", "東京都の天気 'quoted\\' don't", "ja", "pdf", "error")  # fmt: skip
    writer.add([PAGE, other])

    assert index.is_there()
    assert sorted(index.languages()) == ["en", "ja"]
    expected_ids = {
        "dog run": ["a"], '"running dogs"': ["a"], '"dogs running"': [], "val*": ["a"], "dogs -hill": [], "-hill": [],
        "東京": ["b"], "京東": [], "都": ["b"], "two.example": ["b"], "quoted don't": ["b"], "'": [], "a & b | !c:* <->": [],
    }  # fmt: skip
    assert {words: pages(index, words) for words in expected_ids} == expected_ids
    assert pages(index, "dogs", headings_only=True) == []
    assert pages(index, "valley", headings_only=True) == ["a"]
    for facets, expected in (
        (TextFilter(host="one.example"), ["a"]), (TextFilter(host="two.example"), []), (TextFilter(year="2023"), ["a"]),
        (TextFilter(year="2024"), []), (TextFilter(media="pdf"), []), (TextFilter(language="en", state="good"), ["a"]),
    ):  # fmt: skip
        assert pages(index, "dogs", facets) == expected


def test_equal_texts_of_a_url_are_one(opened: tuple[TextIndexWriter, TextIndex]) -> None:
    """However often it was captured; its years are those of all captures."""
    writer, index = opened
    writer.add([PAGE, replace(PAGE, page_id="b", captured_ms=PAGE.captured_ms + 400 * DAY_MS)])
    writer.add(
        [replace(PAGE, page_id="c", url="http://www.one.example/x", captured_ms=PAGE.captured_ms - 400 * DAY_MS)]
    )
    hits = index.hits(parse_terms("dogs"), NOTHING, [], limit=10)

    assert len(hits) == 1
    assert index.captures([hits[0].number], 5, 0, 2**53) == {hits[0].number: ["b", "a", "c"]}
    assert index.captures([hits[0].number], 5, PAGE.captured_ms, PAGE.captured_ms + 1) == {hits[0].number: ["a"]}
    assert [pages(index, "dogs", TextFilter(year=year)) for year in ("2022", "2023", "2024", "2025")] == [["b"]] * 3 + [
        []
    ]


def test_the_texts_of_a_url_can_be_skipped(opened: tuple[TextIndexWriter, TextIndex]) -> None:
    """They are a range of numbers, newest first."""
    writer, index = opened
    writer.add([replace(PAGE, page_id="other", url="https://other.example/")])
    writer.add([replace(PAGE, page_id=str(number), text=f"dogs {number}") for number in range(5)])
    hits = index.hits(parse_terms("dogs"), NOTHING, [], limit=10)
    rest = index.hits(parse_terms("dogs"), NOTHING, [], below=skip_url(hits[0]), limit=10)

    assert [hit.url_number for hit in hits] == [hits[0].url_number] * 5 + [hits[5].url_number]
    assert rest == hits[5:]


def test_a_removed_page_leaves_nothing(opened: tuple[TextIndexWriter, TextIndex]) -> None:
    """Its text goes with its last page; a page with another text leaves its old one."""
    writer, index = opened
    writer.add([PAGE, replace(PAGE, page_id="b"), replace(PAGE, page_id="c", text="cats")])
    writer.remove(["a"])
    assert pages(index, "dogs") == ["b"]
    writer.add([replace(PAGE, page_id="b", text="cats and mice")])
    assert pages(index, "dogs") == []
    writer.remove(["b", "c", "unknown"])
    writer.purge()

    assert not index.is_there()
    assert writer.pages_after("", 10) == {}


def test_a_failed_batch_adds_nothing(opened: tuple[TextIndexWriter, TextIndex]) -> None:
    writer, index = opened
    with pytest.raises(OverflowError):
        writer.add([PAGE, replace(PAGE, page_id="b", text="cats", captured_ms=10**18)])

    assert not index.is_there()
    writer.add([replace(PAGE, title="\0", text="NUL \0 and \ud800 half")])
    assert pages(index, "half") == ["a"]


def test_without_a_file_nothing_is_found(tmp_path: Path) -> None:
    """A collection without an index is searched without an error."""
    with closing(open_text_index(Layout(tmp_path), "")) as index:
        assert not index.is_there()
        assert index.languages() == []
        assert index.hits(parse_terms("dogs"), NOTHING, [], limit=10) == []


def test_frequent_words_do_not_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large index only rare words have a score, which costs a look at each of their matches."""
    monkeypatch.setattr("warc.text_index.reader._RANKED", 10)
    monkeypatch.setattr("warc.text_index.reader._SAMPLE", 20)
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with closing(open_text_writer(layout, "")) as writer, closing(open_text_index(layout, "")) as index:
        writer.add(
            [
                replace(
                    PAGE, page_id=str(n), url=f"https://one.example/{n}", text="dogs " + "rare " * (n % 10 == 0) * n
                )
                for n in range(40)
            ]
        )
        frequent = index.hits(parse_terms("dogs"), NOTHING, ["en"], limit=100)
        both = index.hits(parse_terms("dogs rare"), NOTHING, ["en"], limit=100)

    assert len(frequent) == 40
    assert {hit.score for hit in frequent} == {0.0}
    assert [hit.score > 0 for hit in both] == [True] * 3
