"""Readers of a real wiki see cached links, fresh on every view, and never a broken page (A09, A10)."""

import json
import re
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime

import pytest

from tests.support.http_listener import Listener, ReceivedRequest, StubResponse, front, link_answer
from tests.support.mediawiki_extension import ExtensionWiki
from tests.support.polling import wait_until
from tests.wiki.mediawiki.conftest import PhpFunctions

pytestmark = pytest.mark.slow
TEXT = (
    "A [https://e.org/a source], [https://e.org/dead?x=1&y=2 a dead one], https://e.org/queued and "
    "[https://e.org/refused] <ref>[https://e.org/ref In a reference]</ref> [[Main Page]] "
    "{{fullurl:Shown}} <span class='noarchive'>https://e.org/kept-out</span>\n== Section ==\n<references/>"
)
SUP = re.compile(r'<sup class="weboid-cached weboid-(\w+)"><a href="([^"]*)"[^>]*>([^<]*)</a></sup>')


@pytest.fixture(scope="module")
def shown(extended_once: ExtensionWiki) -> str:
    """The title of a page with links."""
    extended_once.writer.write("Shown", TEXT)
    return "Shown"


def test_each_external_link_has_its_cached_one(extended: ExtensionWiki, shown: str) -> None:
    """With its kind, its address at the front, and a word for people."""
    place = extended.front.address
    assert SUP.findall(extended.body(shown)) == [
        ("copy", f"{place}/2026/https://e.org/a", "cached"),
        ("copy", f"{place}/2026/https://e.org/dead?x=1&amp;y=2", "dead, cached"),
        ("queued", f"{place}/view?url=https://e.org/queued", "queued"),
        ("refused", f"{place}/view?url=https://e.org/refused", "not archived"),
        ("copy", f"{place}/2026/https://e.org/ref", "cached"),
    ]


def test_the_question_is_the_documented_one(extended: ExtensionWiki, shown: str) -> None:
    """One request: the wiki, the page, its links as they stand there, the reader's language."""
    extended.view(shown, "&uselang=de")
    (request,) = extended.front.requests
    query = request.json()
    assert request.path == "/links/api/cached"
    assert query["wiki"] == "library@example"
    assert query["lang"] == "de"
    assert query["page_id"] > 0
    assert query["urls"] == [
        *("https://e.org/a", "https://e.org/dead?x=1&y=2", "https://e.org/queued"),
        *("https://e.org/refused", "https://e.org/ref"),
    ]


def test_a_link_tells_its_copy_to_programs(extended: ExtensionWiki, shown: str) -> None:
    """Robust Links attributes and classes are on the link itself."""
    assert (
        'class="external text weboid-link weboid-working" href="https://e.org/a" '
        'data-originalurl="https://e.org/a" '
        f'data-versionurl="{extended.front.address}/2026/https://e.org/a" '
        'data-versiondate="2026-11-20T10:11:12Z">source</a>'
    ) in extended.body(shown)


def test_a_second_view_asks_nothing(extended: ExtensionWiki, shown: str) -> None:
    """Not even after an edit that changes no link."""
    first = extended.body(shown)
    extended.writer.write("Shown", TEXT.replace("A [", "The [", 1))
    assert SUP.findall(extended.body(shown)) == SUP.findall(first)
    assert len(extended.front.requests) == 1
    extended.writer.write("Shown", TEXT)


@pytest.mark.parametrize(("show", "count"), [("always", 5), ("dead", 1), ("never", 0), ("odd", 5)])
def test_the_setting_counts_at_once(extended: ExtensionWiki, shown: str, show: str, count: int) -> None:
    """The parser cache holds nothing of ours: the same entry is shown either way."""
    extended.view(shown)
    extended.configure(Show=show)
    html = extended.view(shown).html
    assert len(SUP.findall(html)) == count
    assert html.count("data-originalurl=") == 5
    assert ("ext.weboid.styles" in html) == (show != "never")
    assert "Saved in parser cache" in html or "parser cache" in html


def test_without_front_the_page_is_the_wikis_own(extended: ExtensionWiki, shown: str) -> None:
    """Marked HTML without what was added is what the wiki makes without the extension."""
    marked = extended.body(shown)
    extended.configure(Front="")
    bare = extended.body(shown)
    assert "weboid" not in bare
    assert "weboid" not in extended.view(shown).html
    added = r' weboid-link weboid-\w+| data-(?:originalurl|versionurl|versiondate)="[^"]*"'
    assert re.sub(added, "", SUP.sub("", marked)) == bare


def test_programs_get_pages_as_they_are(extended: ExtensionWiki, shown: str) -> None:
    """The API, Parsoid's HTML and the sources of pages have nothing of ours."""
    extended.view(shown)
    parsed = extended.writer.ask(action="parse", page=shown, prop="text")["parse"]["text"]
    assert "weboid" not in parsed
    assert "weboid" not in extended.view(shown, "&action=raw").html


def test_parsoids_own_html_can_be_marked(extended: ExtensionWiki, shown: str, php: PhpFunctions) -> None:
    """The same links are found in what the wiki's REST API gives."""
    html = extended.parsoid(shown)
    assert 'rel="mw:ExtLink' in html
    urls = [url for url in php.urls(html) if "127.0.0.1" not in url]
    assert urls == [
        *("https://e.org/a", "https://e.org/dead?x=1&y=2", "https://e.org/queued"),
        *("https://e.org/refused", "https://e.org/ref"),
    ]
    assert re.sub(ADDED, "", php.marked(html)) == html


ADDED = re.compile(
    r' class="weboid-link weboid-working"| weboid-link weboid-working|'
    r' data-(?:originalurl|versionurl|versiondate)="[^"]*"|<sup class="weboid-cached.*?</sup>'
)


def test_old_versions_are_marked_by_their_own_links(extended: ExtensionWiki) -> None:
    """What is shown follows the links that are shown."""
    _, old = extended.writer.write("Aged", "https://e.org/before")
    extended.writer.write("Aged", "https://e.org/after")
    assert "/2026/https://e.org/before" in extended.view("Aged", f"&oldid={old}").html
    assert "/2026/https://e.org/after" in extended.view("Aged").html


def test_other_namespaces_are_not_marked(extended: ExtensionWiki) -> None:
    """Talk pages have no content."""
    extended.writer.write("Talk:Shown", "https://e.org/talk")
    assert "weboid" not in extended.view("Talk:Shown").html
    assert extended.front.requests == []


SILENT: dict[str, Callable[[ReceivedRequest], StubResponse]] = {
    "closes": lambda request: StubResponse(0),
    "away": lambda request: StubResponse(503),
    "too many": lambda request: StubResponse(429, headers={"Retry-After": "5"}),
    "garbage": lambda request: StubResponse(body=b"\xff\xfe\x00<html>"),
    "another shape": lambda request: StubResponse(body=b'{"links": [1]}'),
    "ten megabytes": lambda request: StubResponse(body=b'{"links": [' + b" " * 10_000_000 + b"]}"),
    "elsewhere": lambda request: StubResponse(302, headers={"Location": "http://127.0.0.1:1/"}),
}


@pytest.mark.parametrize("answer", SILENT.values(), ids=SILENT.keys())
def test_a_front_without_answer_changes_nothing(
    extended: ExtensionWiki, shown: str, answer: Callable[[ReceivedRequest], StubResponse]
) -> None:
    """The page is as it is without the extension, and nobody asks again for half a minute."""
    extended.front.answer = answer
    for _ in range(3):
        html = extended.view(shown).html
        assert "weboid-" not in html.partition('id="catlinks"')[0]
        assert "https://e.org/a" in html
    assert len(extended.front.requests) == 1


def test_a_front_that_hangs_is_not_waited_for(extended: ExtensionWiki, shown: str) -> None:
    """The view goes on after the time-out, while the front still thinks."""
    import threading

    done = threading.Event()
    usual = extended.front.default_answer

    def hang(request: ReceivedRequest) -> StubResponse:
        done.wait(120)
        return usual(request)

    extended.front.answer = hang
    extended.configure(Timeout=0.2)
    try:
        assert "weboid-cached" not in extended.view(shown).html
    finally:
        done.set()


def test_known_copies_are_not_shown_while_the_front_is_away(extended: ExtensionWiki, shown: str) -> None:
    """A link that leads nowhere is worse than none; the front's return is noticed behind a reader's back."""
    extended.view(shown)
    extended.writer.write("Other", "https://e.org/other")
    extended.front.answer = lambda request: StubResponse(503)
    extended.view("Other")
    assert "weboid-cached" not in extended.view(shown).html
    extended.front.reset()
    extended.configure(Pause=1)
    extended.age_cached("weboid-front-down", 10)
    assert "weboid-cached" not in extended.view(shown).html  # this reader's visit asks
    extended.view_until(shown, "weboid-cached")


def test_what_one_page_asks_is_no_reason_to_be_silent(extended: ExtensionWiki, shown: str) -> None:
    """A question that the front does not take leaves the others."""
    extended.writer.write("Strange", "https://e.org/strange")
    usual = extended.front.default_answer
    extended.front.answer = lambda request: StubResponse(400) if b"strange" in request.body else usual(request)
    assert "weboid-cached" not in extended.view("Strange").html
    assert "weboid-cached" in extended.view(shown).html
    extended.view("Strange")
    assert len(extended.front.requests) == 2


def test_hostile_answers_cannot_break_out(extended: ExtensionWiki, shown: str) -> None:
    """Addresses lead to the front; everything else is text."""
    evil = "</sup><script>alert(1)</script>\"' onload=x <img src=x>"

    def answer(request: ReceivedRequest) -> StubResponse:
        links = [
            {**link_answer(url, extended.front.address), "words": evil, "group": evil, "date": evil}
            for url in request.json()["urls"]
        ]
        links[0] |= {"href": "javascript:alert(1)", "copy": "//evil.example/"}
        links[1] |= {"href": f"{extended.front.address}/{evil}", "copy": "https://evil.example/"}
        links[2] |= {"href": extended.front.address + "@evil.example/"}
        links[3] |= {"answer": "weboid-x onclick=y"}
        return StubResponse(body=json.dumps({"fresh_s": 60, "links": links}).encode())

    extended.front.answer = answer
    body = extended.body(shown)
    assert "evil.example" not in body
    assert "<script" not in body
    assert "javascript:" not in body
    assert "onclick" not in body
    assert len(SUP.findall(body)) == 1
    assert "&lt;script&gt;" in body


def test_the_first_reader_after_a_change_sees_it(extended: ExtensionWiki, shown: str) -> None:
    """An answer past its time is asked for again before the page is sent, once."""
    extended.view(shown)
    extended.age_cached("weboid-answers", 7_200)
    extended.front.requests.clear()
    usual = extended.front.default_answer
    extended.front.answer = lambda request: StubResponse(
        body=usual(request).body.replace(b'"Working"', b'"Working again"')
    )
    assert "Working again" in extended.view(shown).html
    assert "Working again" in extended.view(shown).html
    assert len(extended.front.requests) == 1


def _unheard(extended: ExtensionWiki, *, is_new: bool) -> Callable[[ReceivedRequest], StubResponse]:
    """A front that has not heard of the links."""

    def answer(request: ReceivedRequest) -> StubResponse:
        document = json.loads(extended.front.default_answer(request).body)
        for link in document["links"]:
            link |= {"answer": "none", "href": None, "copy": None, "is_new": is_new}
        return StubResponse(body=json.dumps({**document, "fresh_s": 2}).encode())

    return answer


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "never requested"])
def test_a_link_that_was_just_sent_is_called_queued(extended: ExtensionWiki, is_new: bool) -> None:
    """Before the front, or MediaWiki's job, has heard of it; not what nobody will ask for, and not for long."""
    extended.front.answer = _unheard(extended, is_new=is_new)
    extended.writer.write("Fresh", f"https://e.org/fresh?a=<b>&n={is_new} and more")
    body = extended.body("Fresh")
    assert ('<sup class="weboid-cached weboid-queued">' in body) == is_new
    assert (f'href="{extended.front.address}/latest/https://e.org/fresh?a=' in body) == is_new
    extended.delete_cached("weboid-sent%")  # MediaWiki's own note comes after the editor's first view
    assert ("weboid-queued" in extended.body("Fresh")) == is_new
    extended.age_page("Fresh", 120)
    assert "weboid-queued" not in extended.body("Fresh")


def test_a_page_asks_by_itself_while_something_is_on_its_way(extended: ExtensionWiki) -> None:
    """Its script is there then, and is not when all is settled."""
    extended.writer.write("Moving", "https://e.org/moving")
    assert "ext.weboid.poll" not in extended.view("Moving").html
    extended.front.answer = _unheard(extended, is_new=True)
    extended.delete_cached("weboid-%")
    assert "ext.weboid.poll" in extended.view("Moving").html


def test_a_link_that_waits_for_its_site_says_so(extended: ExtensionWiki) -> None:
    """It is not called queued: nothing comes before the next attempt."""

    def answer(request: ReceivedRequest) -> StubResponse:
        document = json.loads(extended.front.default_answer(request).body)
        for link in document["links"]:
            link |= {"next_at": "2026-11-20T10:11:12Z", "words": "Waiting"}
        return StubResponse(body=json.dumps(document).encode())

    extended.front.answer = answer
    extended.writer.write("Patient", "https://e.org/queued-patient")
    body = extended.body("Patient")
    assert ">waiting</a></sup>" in body
    assert 'aria-label="waiting: the site of e.org/queued-patient does not respond yet"' in body


def test_a_browser_that_has_the_page_gets_the_new_state(extended: ExtensionWiki, shown: str) -> None:
    """Not modified is said while nothing changed, and no longer than the answers hold."""
    extended.writer.write("Held", "https://e.org/held")
    extended.age_page("Held", 3_600)
    extended.view("Held")
    extended.age_cached("weboid-page", 1_800)  # what is shown there has been the same for a while
    extended.view("Held")
    had = extended.view("Held").headers["Last-Modified"]
    assert extended.view("Held", If_Modified_Since=had).status == 304
    extended.age_cached("weboid-answers", 7_200)
    extended.age_cached("weboid-page", 7_200)
    usual = extended.front.default_answer
    extended.front.answer = lambda request: StubResponse(
        body=usual(request).body.replace(b'"Working"', b'"Working again"')
    )
    assert extended.view("Held", If_Modified_Since=had).status == 200
    assert "Working again" in extended.view("Held").html
    assert extended.view("Held", If_Modified_Since=had).status == 200


def test_an_edit_in_the_second_of_a_view_is_seen(extended: ExtensionWiki) -> None:
    """By the browser that has the page of that view: it came without a date of the future."""
    for number in range(3):
        extended.writer.write("Quick", f"https://e.org/quick {number}")
        extended.view("Quick")
        had = extended.view("Quick").headers["Last-Modified"]
        extended.writer.write("Quick", f"https://e.org/quick {number}, edited")
        wait_until(lambda had=had: extended.view("Quick", If_Modified_Since=had).status == 200)  # type: ignore[misc]


def test_a_page_without_links_is_not_sent_again(extended: ExtensionWiki) -> None:
    """Nothing of it can change without an edit."""
    extended.writer.write("Plain", "No links.")
    extended.age_page("Plain", 3_600)
    extended.view("Plain")
    had = formatdate(_seconds(extended.view("Plain").headers["Last-Modified"]) + 2, usegmt=True)
    assert extended.view("Plain", If_Modified_Since=had).status == 304


def test_shared_caches_keep_a_page_for_less_while_something_is_queued(extended: ExtensionWiki) -> None:
    """The front says for how long; without anything queued the wiki's own setting holds."""
    extended.writer.write("Settled", "https://e.org/settled")
    extended.writer.write("Waiting", "https://e.org/queued")
    usual = _shared(extended.view("Settled").headers)
    assert usual > 600
    assert 0 < _shared(extended.view("Waiting").headers) <= 20
    soon = front(lambda: extended.front.address, fresh_s=10)  # so new that nobody has queued it
    extended.front.answer = soon
    extended.delete_cached("weboid-%")
    assert 0 < _shared(extended.view("Settled").headers) <= 10
    extended.front.answer = lambda request: StubResponse(503)
    extended.delete_cached("weboid-%")
    assert 0 < _shared(extended.view("Settled").headers) <= 30


def test_words_are_in_the_readers_language(extended: ExtensionWiki, shown: str) -> None:
    """Both what is seen and what a screen reader says, which begins alike."""
    html = extended.view(shown, "&uselang=de").html
    assert ">archiviert</a></sup>" in html
    assert 'aria-label="archiviert: Kopie von e.org/a vom 20. November 2026"' in html
    assert 'aria-label="cached copy of e.org/a from 20 November 2026"' in extended.body(shown)


def test_the_front_is_shown_a_token(extended: ExtensionWiki, shown: str) -> None:
    """So that it lets the wiki ask as often as it likes."""
    extended.configure(Token="a-token-of-thirty-two-characters!")
    extended.view(shown)
    assert extended.front.requests[0].headers["authorization"] == "Bearer a-token-of-thirty-two-characters!"


def test_links_may_lead_to_another_origin_than_is_asked(extended: ExtensionWiki, shown: str) -> None:
    """The wiki asks within its own net; readers are led to the public name."""
    extended.configure(Origins=["https://archive.example"])
    with Listener.running(
        lambda request: StubResponse(
            body=json.dumps(
                {"fresh_s": 60, "links": [link_answer(u, "https://archive.example") for u in request.json()["urls"]]}
            ).encode()
        )
    ) as inner:
        extended.configure(Origins=["https://archive.example"], Front=inner.address)
        assert 'href="https://archive.example/2026/https://e.org/a"' in extended.body(shown)


def test_a_wiki_without_cache_does_not_ask_on_each_view(extended: ExtensionWiki, shown: str) -> None:
    """The database keeps the answers then."""
    extended.set_local_settings("$wgMainCacheType = CACHE_NONE; $wgMessageCacheType = CACHE_NONE;\n")
    extended.view(shown)
    assert "weboid-cached" in extended.view(shown).html
    assert len(extended.front.requests) == 1


def test_pages_with_thousands_of_links_are_asked_for_in_parts(extended: ExtensionWiki) -> None:
    """The first thousand at once, the rest behind the reader's back."""
    extended.writer.write("Long list", " ".join(f"[https://e.org/n/{n} n]" for n in range(1_500)))
    assert extended.view("Long list").html.count("weboid-cached") == 1_000
    last = extended.view_until("Long list", "/2026/https://e.org/n/1499").html
    assert last.count("weboid-cached") == 1_500
    assert [len(request.json()["urls"]) for request in extended.front.requests] == [1_000, 500]


def _shared(headers: dict[str, str]) -> int:
    found = re.search(r"s-maxage=(\d+)", headers["Cache-Control"])
    assert found, headers
    return int(found[1])


def _seconds(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()
