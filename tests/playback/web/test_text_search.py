"""Full-text search of the front: what is found, how it is shown, and that nothing hidden is found or counted."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from core.page_classes import PageClass
from core.timestamps import timestamp14
from playback.access.decision_store import open_decisions
from playback.access.holds import ScanVerdict, store_verdicts
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, add_takedowns, normalize_target
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, decide, png, serving
from warc.text_index.indexer import rebuild_texts

pytestmark = pytest.mark.playback

SITE = "https://search.example"
Decide = Callable[[CollectionBuilder, str], None]


def no_text(_body: bytes, _content_type: str) -> str:
    """HTML without text artifacts is not read here."""
    return ""


def index(builder: CollectionBuilder) -> None:
    """Bring the full-text index in step with the collection."""
    rebuild_texts(builder.layout, "", no_text)


def find(served: ServedCollection, words: str, **more: str) -> dict[str, Any]:
    """Return the JSON answer of a full-text search."""
    query = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    answer: dict[str, Any] = json.loads(served.get(f"/api/pages?in=text&q={quote(words)}{query}").text)
    return answer


def urls(served: ServedCollection, words: str, **more: str) -> list[str]:
    """Return the URLs that a full-text search finds."""
    return [page["url"] for page in find(served, words, **more)["pages"]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Serve a collection of pages in several languages, types and years."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("library") / "collection")
    page = builder.page
    page(
        f"{SITE}/en",
        "<p>x</p>",
        title="Running dogs",
        text="The dogs were running through the wide valley and the hills.",
    )
    page(f"{SITE}/de", "<p>x</p>", title="Städte", text="Die Häuser der Stadt sind nicht groß und auch nicht alt.")
    page("http://www.other.example/fr", "<p>x</p>", at=NOW - timedelta(days=400), title="Chevaux",
         text="Les chevaux sont dans une grande plaine avec des arbres.")  # fmt: skip
    page("https://sub.other.example/ja", "<p>x</p>", title="天気", text="東京都の天気は晴れです。明日は雨でしょう。")
    page(f"{SITE}/gone", "<p>x</p>", title="No dogs here", text="The dogs have not been found.", status=404,
         page_class=PageClass.HTTP_ERROR)  # fmt: skip
    page(f"{SITE}/robot", "<p>x</p>", title="", text="Are you a dogs robot", page_class=PageClass.CHALLENGE)
    page(f"{SITE}/<b>evil", "<p>x</p>", title="<script>alert(1)</script>",
         text="before <img src=x onerror=alert(1)> markup \x1b[2J after")  # fmt: skip
    index(builder)
    with closing(builder), serving(builder) as it:
        yield it


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("dog run", ["/en"]),
        ("haus", ["/de"]),
        ("HÄUSERN", ["/de"]),
        ("hauser städte", ["/de"]),
        ("cheval", ["/fr"]),
        ("chevaux arbre", ["/fr"]),
        ("東京", ["/ja"]),
        ("天気 明日", ["/ja"]),
        ("京東", []),
        ("雨", ["/ja"]),
        ('"wide valley"', ["/en"]),
        ('"valley wide"', []),
        ("val*", ["/en"]),
        ("dogs -valley", ["/gone"]),
        ("robot", []),
        ("other.example", ["/fr", "/ja"]),
    ],
)
def test_words_are_found_by_their_stems(words: str, paths: list[str], library: ServedCollection) -> None:
    """Each language by its own rules, scripts without spaces by pairs; a page with a challenge is no page."""
    assert sorted(url[url.rindex("/") :] for url in urls(library, words)) == sorted(paths)


def test_a_match_in_the_title_precedes(library: ServedCollection) -> None:
    """So does the page itself before an error page."""
    assert urls(library, "dogs") == [f"{SITE}/en", f"{SITE}/gone"]


@pytest.mark.parametrize(
    ("facet", "value", "paths"),
    [
        ("host", "other.example", ["/fr", "/ja"]),
        ("host", "sub.other.example", ["/ja"]),
        ("host", "example", ["/fr", "/ja"]),
        ("year", "2025", ["/fr"]),
        ("language", "ja", ["/ja"]),
        ("media", "pdf", []),
        ("state", "error", []),
    ],
)
def test_facets_narrow_the_results(facet: str, value: str, paths: list[str], library: ServedCollection) -> None:
    """A site with its subdomains, the year of a capture, language, type and state."""
    words = "other.example"
    if facet == "host" and value == "example":
        assert urls(library, words, host=value) == []  # a single label is no site
        return
    assert sorted(url[url.rindex("/") :] for url in urls(library, words, **{facet: value})) == sorted(paths)


def test_facets_count_the_results(library: ServedCollection) -> None:
    """Each value with the number of its results."""
    document = find(library, "dogs")

    assert document["total"] == 2
    assert document["total_is_exact"] is True
    assert document["facets"]["state"] == {"good": 1, "error": 1}
    assert document["facets"]["host"] == {"search.example": 2}


def test_a_snippet_marks_the_hits_and_escapes_markup(library: ServedCollection) -> None:
    """Text of a page is escaped in the results, and its control characters are replaced."""
    (page,) = find(library, "markup")["pages"]
    shown = library.get("/?in=text&q=markup").text

    assert [each["text"] for each in page["snippet"] if each["hit"]] == ["markup"]
    assert "<mark>markup</mark>" in shown
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert not re.search(r"<(?:img src=x|script)|\x1b", shown)


@pytest.mark.parametrize(
    "words",
    [
        'dogs" OR "1', "NEAR(dogs hills)", "title: dogs", "{title}: x", "dogs AND", "NOT", "*", "-", '"', '""', "^dogs",
        "';--", "(((", "\\", "dogs:*", "% _", "\x00\x01dogs\x7f", "\ue000h0123", "\u0301",
        pytest.param("a" * 10_000, id="long word"), pytest.param("dogs " * 2_000, id="many words"),
    ],
)  # fmt: skip
def test_no_query_has_a_syntax(words: str, library: ServedCollection) -> None:
    """Whatever is typed is words, and is answered."""
    for path in ("/api/pages", "/"):
        assert library.get(f"{path}?in=text&q={quote(words)}").status == 200


def test_results_have_parts(collection: CollectionBuilder) -> None:
    """Each page once, by the address of the next part; `limit` is the size of a part."""
    for number in range(45):
        collection.page(f"{SITE}/{number}", "<p>x</p>", text=f"common words and {number}")
    index(collection)
    with serving(collection) as served:
        seen, address = [], "/api/pages?in=text&q=common&limit=20"
        while address:
            part = json.loads(served.get(address).text)
            seen += [page["url"] for page in part["pages"]]
            address = part["older"] and part["older"] + "&limit=20"

    assert sorted(seen) == sorted(f"{SITE}/{number}" for number in range(45))


def test_a_url_is_one_result_however_often_it_was_captured(collection: CollectionBuilder) -> None:
    """Thousands of texts of one URL do not hide those of others."""
    collection.page(f"{SITE}/early", "<p>x</p>", text="common words", at=NOW - timedelta(days=9))
    for number in range(1_500):
        at = NOW + timedelta(minutes=number)
        collection.page(f"{SITE}/clock", None, text=f"common words at {number}", at=at)
    index(collection)
    with serving(collection) as served:
        document = find(served, "common")

        assert sorted(page["url"] for page in document["pages"]) == [f"{SITE}/clock", f"{SITE}/early"]
        assert document["total"] == 2
        assert urls(served, '"at 77"') == [f"{SITE}/clock"]


def take_down(kind: TakedownKind, what: str, effect: TakedownEffect = TakedownEffect.HIDE, **more: Any) -> Decide:
    """Decide so of a site in a collection."""

    def decide_so(builder: CollectionBuilder, site: str) -> None:
        with closing(open_decisions(builder.layout)) as decisions:
            target = normalize_target(kind, what.format(site=site, text=digest_of(builder, f"urn:text:{site}/secret")))
            add_takedowns(decisions, [Takedown(0, kind, target, effect=effect, decided_at=NOW, **more)])

    return decide_so


def digest_of(builder: CollectionBuilder, url: str) -> str:
    """Return the digest of the newest capture of that URL; empty without one."""
    query = "SELECT digest FROM captures WHERE url = ? ORDER BY captured_ms DESC"
    with closing(sqlite3.connect(builder.layout.captures_db)) as database:
        row = database.execute(query, (url,)).fetchone()
    return row[0] if row else ""


def find_threat(builder: CollectionBuilder, site: str) -> None:
    """Store a verdict that the scanner found a threat in the page's document."""
    with closing(open_decisions(builder.layout)) as decisions:
        store_verdicts(decisions, [ScanVerdict(digest_of(builder, f"{site}/secret"), "Evil", "ClamAV 1", NOW)])


DECISIONS: dict[str, Decide] = {
    "page": take_down(TakedownKind.URL, "{site}/secret"),
    "blocked": take_down(TakedownKind.URL, "{site}/secret", TakedownEffect.BLOCK, reason="Court"),
    "prefix": take_down(TakedownKind.PREFIX, "{site}/"),
    "host": take_down(TakedownKind.HOST, "{site}"),
    "text": take_down(TakedownKind.DIGEST, "{text}"),
    "frame": take_down(TakedownKind.URL, "{site}/inner"),
    "threat": find_threat,
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Serve a site for each decision, with a secret page and a public page beside it."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("guarded") / "collection")
    for name in DECISIONS:
        site, url = f"https://{name}.example", f"https://{name}.example/secret"
        text = f"the minutes{name} of the cabal{name}"
        page_id = builder.page(url, f"<p>y{name}</p>", title=f"Secret minutes{name}", text=text)
        builder.response(url, f"<p>{name}</p>".encode(), page_id=page_id)
        builder.response(f"{site}/inner", f"<i>{name}</i>".encode(), page_id=page_id)
        builder.page(f"https://open-{name}.test/", f"<p>z{name}</p>", text=f"the minutes{name} of the board")
    index(builder)
    with closing(builder), serving(builder) as it:
        yield it


@pytest.mark.parametrize("decision", sorted(DECISIONS))
def test_nothing_hidden_is_found_or_counted(decision: str, guarded: ServedCollection) -> None:
    """A decision counts with the next search: no result, snippet, total or facet is left of the page."""
    site = f"https://{decision}.example"
    before = find(guarded, f"minutes{decision}")
    DECISIONS[decision](guarded.builder, site)
    after = find(guarded, f"minutes{decision}")
    nothing = find(guarded, f"cabal{decision}")

    assert sorted(page["url"] for page in before["pages"]) == sorted(
        [f"{site}/secret", f"https://open-{decision}.test/"]
    )
    assert before["total"] == 2
    assert [page["url"] for page in after["pages"]] == [f"https://open-{decision}.test/"]
    assert after["total"] == 1
    assert {sum(values.values()) for values in after["facets"].values()} <= {0, 1}
    assert "cabal" not in json.dumps(after)
    assert (nothing["pages"], nothing["total"], nothing["older"]) == ([], 0, None)
    assert not any(nothing["facets"].values())
    assert "/secret" not in guarded.get(f"/?in=text&q=cabal{decision}").text
    for words in (f"{decision}.example", "secret", f"secret host:{decision}.example"):
        assert f"{site}/secret" not in urls(guarded, words)


def test_many_hidden_pages_are_no_further_results(collection: CollectionBuilder) -> None:
    """Neither a next part nor an inexact number discloses them; what is behind them is found."""
    collection.page("https://open.example/", "<p>x</p>", text="the minutes", at=NOW - timedelta(days=9))
    for number in range(700):
        collection.page(f"https://hidden.example/{number}", None, text=f"the minutes {number}")
    index(collection)
    with serving(collection) as served:
        before = find(served, "minutes")
        take_down(TakedownKind.HOST, "hidden.example")(collection, SITE)
        after = find(served, "minutes")

    assert (before["has_more"], before["total_is_exact"]) == (True, False)
    assert [page["url"] for page in after["pages"]] == ["https://open.example/"]
    assert (after["total"], after["total_is_exact"], after["has_more"], after["older"]) == (1, True, False, None)


def test_a_capture_that_was_taken_down_leaves_the_others(collection: CollectionBuilder) -> None:
    """The same text of another capture, and what another version says, are found."""
    for days in (0, 1):
        collection.page(f"{SITE}/diary", "<p>x</p>", text="the same minutes", at=NOW + timedelta(days=days))
    collection.page(f"{SITE}/diary", "<p>x</p>", text="later minutes with a slip", at=NOW + timedelta(days=2))
    index(collection)
    hide = take_down(TakedownKind.CAPTURE, "{site}/diary", timestamp=timestamp14(NOW + timedelta(days=2)))
    with serving(collection) as served:
        before = urls(served, "slip")
        hide(collection, SITE)
        after = urls(served, "slip")
        (left,) = find(served, "minutes")["pages"]

    assert (before, after) == ([f"{SITE}/diary"], [])
    assert left["timestamp"] == timestamp14(NOW + timedelta(days=1))


def test_captures_with_a_login_are_not_found(collection: CollectionBuilder) -> None:
    """Unless the archive shows such captures to all readers."""
    collection.page(f"{SITE}/member", "<p>x</p>", title="Members", text="the minutes of members", login="club")
    index(collection)
    with serving(collection) as served:
        assert find(served, "minutes")["total"] == 0
    with serving(collection, show_logins=True) as served:
        assert urls(served, "minutes") == [f"{SITE}/member"]


def test_a_level_hides_the_picture_and_not_the_text(collection: CollectionBuilder) -> None:
    """Text is shown at every level, and so it is found; the picture is not."""
    collection.page(f"{SITE}/", "<p>x</p>", title="A page", text="the minutes", shot=png())
    index(collection)
    with serving(collection) as served:
        assert "<img" in served.get("/?in=text&q=minutes").text.partition("<main")[2]
        decide(collection.layout, Level.TEXT, domain="search.example")
        shown = served.get("/?in=text&q=minutes").text.partition("<main")[2]

    assert "<img" not in shown
    assert "<mark>minutes</mark>" in shown


def test_without_an_index_titles_and_addresses_are_searched(collection: CollectionBuilder) -> None:
    """A collection of an earlier release is searched as before."""
    collection.page(f"{SITE}/old", "<p>x</p>", title="Old page", text="the minutes")
    with serving(collection) as served:
        assert urls(served, "old") == [f"{SITE}/old"]
        assert 'value="text"' not in served.get("/").text
