"""Cached links on a real wiki: current on every view, and no broken page if the front fails (A09, A10)."""

import json
import re
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime

import pytest

from tests.support.http_listener import HttpListener, ReceivedRequest, StubResponse, front, link_answer
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
    """Write a page with links; return its title."""
    extended_once.writer.write("Shown", TEXT)
    return "Shown"


def test_each_external_link_gets_a_cached_link(extended: ExtensionWiki, shown: str) -> None:
    """With kind, address at the front, and label."""
    place = extended.front.address
    assert SUP.findall(extended.body(shown)) == [
        ("copy", f"{place}/2026/https://e.org/a", "cached"),
        ("copy", f"{place}/2026/https://e.org/dead?x=1&amp;y=2", "dead, cached"),
        ("queued", f"{place}/view?url=https://e.org/queued", "queued"),
        ("refused", f"{place}/view?url=https://e.org/refused", "not archived"),
        ("copy", f"{place}/2026/https://e.org/ref", "cached"),
    ]


def test_lookup_request_has_the_documented_form(extended: ExtensionWiki, shown: str) -> None:
    """One request with the wiki, the page, its links as written, and the reader's language."""
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


def test_links_have_robust_links_attributes(extended: ExtensionWiki, shown: str) -> None:
    """The attributes and classes are on the link itself."""
    assert (
        'class="external text weboid-link weboid-working" href="https://e.org/a" '
        'data-originalurl="https://e.org/a" '
        f'data-versionurl="{extended.front.address}/2026/https://e.org/a" '
        'data-versiondate="2026-11-20T10:11:12Z">source</a>'
    ) in extended.body(shown)


def test_second_view_sends_no_request(extended: ExtensionWiki, shown: str) -> None:
    """Nor does an edit that changes no link."""
    first = extended.body(shown)
    extended.writer.write("Shown", TEXT.replace("A [", "The [", 1))
    assert SUP.findall(extended.body(shown)) == SUP.findall(first)
    assert len(extended.front.requests) == 1
    extended.writer.write("Shown", TEXT)


@pytest.mark.parametrize(("show", "count"), [("always", 5), ("dead", 1), ("never", 0), ("odd", 5)])
def test_changed_setting_applies_to_the_next_view(extended: ExtensionWiki, shown: str, show: str, count: int) -> None:
    """The parser cache contains no marks."""
    extended.view(shown)
    extended.configure(Show=show)
    html = extended.view(shown).html
    assert len(SUP.findall(html)) == count
    assert html.count("data-originalurl=") == 5
    assert ("ext.weboid.styles" in html) == (show != "never")
    assert "Saved in parser cache" in html or "parser cache" in html


def test_without_front_the_page_has_no_marks(extended: ExtensionWiki, shown: str) -> None:
    """Without its marks a page is byte for byte what the wiki renders without the extension."""
    marked = extended.body(shown)
    extended.configure(Front="")
    bare = extended.body(shown)
    assert "weboid" not in bare
    assert "weboid" not in extended.view(shown).html
    added = r' weboid-link weboid-\w+| data-(?:originalurl|versionurl|versiondate)="[^"]*"'
    assert re.sub(added, "", SUP.sub("", marked)) == bare


def test_api_and_raw_text_have_no_marks(extended: ExtensionWiki, shown: str) -> None:
    """Programs get unchanged pages."""
    extended.view(shown)
    parsed = extended.writer.ask(action="parse", page=shown, prop="text")["parse"]["text"]
    assert "weboid" not in parsed
    assert "weboid" not in extended.view(shown, "&action=raw").html


def test_parsoid_html_can_be_marked(extended: ExtensionWiki, shown: str, php: PhpFunctions) -> None:
    """The same links are found in the HTML of the REST API."""
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


def test_old_revisions_are_marked_by_their_links(extended: ExtensionWiki) -> None:
    """Each revision has marks for the links that it contains."""
    _, old = extended.writer.write("Aged", "https://e.org/before")
    extended.writer.write("Aged", "https://e.org/after")
    assert "/2026/https://e.org/before" in extended.view("Aged", f"&oldid={old}").html
    assert "/2026/https://e.org/after" in extended.view("Aged").html


def test_other_namespaces_are_not_marked(extended: ExtensionWiki) -> None:
    """Talk pages are no content pages."""
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
def test_failing_front_leaves_pages_unmarked(
    extended: ExtensionWiki, shown: str, answer: Callable[[ReceivedRequest], StubResponse]
) -> None:
    """No further request is sent for half a minute."""
    extended.front.answer = answer
    for _ in range(3):
        html = extended.view(shown).html
        assert "weboid-" not in html.partition('id="catlinks"')[0]
        assert "https://e.org/a" in html
    assert len(extended.front.requests) == 1


def test_view_does_not_wait_for_a_hanging_front(extended: ExtensionWiki, shown: str) -> None:
    """The page is sent after the timeout."""
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


def test_known_copies_are_not_shown_while_the_front_is_down(extended: ExtensionWiki, shown: str) -> None:
    """The cached links would not work; a deferred request notices when the front is back."""
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


def test_rejected_lookup_does_not_affect_other_pages(extended: ExtensionWiki, shown: str) -> None:
    """Status 400 may be caused by the links of one page."""
    extended.writer.write("Strange", "https://e.org/strange")
    usual = extended.front.default_answer
    extended.front.answer = lambda request: StubResponse(400) if b"strange" in request.body else usual(request)
    assert "weboid-cached" not in extended.view("Strange").html
    assert "weboid-cached" in extended.view(shown).html
    extended.view("Strange")
    assert len(extended.front.requests) == 2


def test_hostile_answers_cannot_inject_html(extended: ExtensionWiki, shown: str) -> None:
    """Addresses must be at the front; all other values are escaped."""
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


def test_expired_answer_is_renewed_before_the_page_is_sent(extended: ExtensionWiki, shown: str) -> None:
    """Once for all views."""
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


def _without_copies(extended: ExtensionWiki, *, is_new: bool) -> Callable[[ReceivedRequest], StubResponse]:
    """Return an answer of a front that does not know the links."""

    def answer(request: ReceivedRequest) -> StubResponse:
        document = json.loads(extended.front.default_answer(request).body)
        for link in document["links"]:
            link |= {"answer": "none", "href": None, "copy": None, "is_new": is_new}
        return StubResponse(body=json.dumps({**document, "fresh_s": 2}).encode())

    return answer


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "never requested"])
def test_sent_links_are_shown_as_queued(extended: ExtensionWiki, is_new: bool) -> None:
    """Before the front knows them, for a minute, and only if they are new."""
    extended.front.answer = _without_copies(extended, is_new=is_new)
    extended.writer.write("Fresh", f"https://e.org/fresh?a=<b>&n={is_new} and more")
    body = extended.body("Fresh")
    assert ('<sup class="weboid-cached weboid-queued">' in body) == is_new
    assert (f'href="{extended.front.address}/latest/https://e.org/fresh?a=' in body) == is_new
    extended.delete_cached("weboid-sent%")  # MediaWiki's own note comes after the editor's first view
    assert ("weboid-queued" in extended.body("Fresh")) == is_new
    extended.age_page("Fresh", 120)
    assert "weboid-queued" not in extended.body("Fresh")


def test_poll_script_is_loaded_only_while_links_are_new_or_queued(extended: ExtensionWiki) -> None:
    """Otherwise the page has no script."""
    extended.writer.write("Moving", "https://e.org/moving")
    assert "ext.weboid.poll" not in extended.view("Moving").html
    extended.front.answer = _without_copies(extended, is_new=True)
    extended.delete_cached("weboid-%")
    assert "ext.weboid.poll" in extended.view("Moving").html


def test_link_with_a_later_attempt_is_shown_as_waiting(extended: ExtensionWiki) -> None:
    """Not as queued."""

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


def test_revalidation_considers_the_states_of_links(extended: ExtensionWiki, shown: str) -> None:
    """304 while nothing changed, and only as long as the answers are fresh."""
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


def test_revalidation_notices_an_edit_in_the_second_of_a_view(extended: ExtensionWiki) -> None:
    """Last-Modified is never in the future."""
    for number in range(3):
        extended.writer.write("Quick", f"https://e.org/quick {number}")
        extended.view("Quick")
        had = extended.view("Quick").headers["Last-Modified"]
        extended.writer.write("Quick", f"https://e.org/quick {number}, edited")
        wait_until(lambda had=had: extended.view("Quick", If_Modified_Since=had).status == 200)  # type: ignore[misc]


def test_page_without_links_is_not_modified(extended: ExtensionWiki) -> None:
    """It can change only by an edit."""
    extended.writer.write("Plain", "No links.")
    extended.age_page("Plain", 3_600)
    extended.view("Plain")
    had = formatdate(_seconds(extended.view("Plain").headers["Last-Modified"]) + 2, usegmt=True)
    assert extended.view("Plain", If_Modified_Since=had).status == 304


def test_shared_caches_keep_pages_with_queued_links_for_less_time(extended: ExtensionWiki) -> None:
    """As long as the answers are fresh; otherwise the wiki's setting applies."""
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


def test_labels_are_in_the_readers_language(extended: ExtensionWiki, shown: str) -> None:
    """The visible label and the accessible name, which begins with it."""
    html = extended.view(shown, "&uselang=de").html
    assert ">archiviert</a></sup>" in html
    assert 'aria-label="archiviert: Kopie von e.org/a vom 20. November 2026"' in html
    assert 'aria-label="cached copy of e.org/a from 20 November 2026"' in extended.body(shown)


def test_lookup_sends_the_token(extended: ExtensionWiki, shown: str) -> None:
    """It exempts the wiki from the rate limit."""
    extended.configure(Token="a-token-of-thirty-two-characters!")
    extended.view(shown)
    assert extended.front.requests[0].headers["authorization"] == "Bearer a-token-of-thirty-two-characters!"


def test_cached_links_may_be_at_another_origin(extended: ExtensionWiki, shown: str) -> None:
    """The wiki queries an internal address; readers get the public one."""
    extended.configure(Origins=["https://archive.example"])
    with HttpListener.running(
        lambda request: StubResponse(
            body=json.dumps(
                {"fresh_s": 60, "links": [link_answer(u, "https://archive.example") for u in request.json()["urls"]]}
            ).encode()
        )
    ) as inner:
        extended.configure(Origins=["https://archive.example"], Front=inner.address)
        assert 'href="https://archive.example/2026/https://e.org/a"' in extended.body(shown)


def test_wiki_without_cache_stores_answers_in_the_database(extended: ExtensionWiki, shown: str) -> None:
    """So that not every view sends a request."""
    extended.set_local_settings("$wgMainCacheType = CACHE_NONE; $wgMessageCacheType = CACHE_NONE;\n")
    extended.view(shown)
    assert "weboid-cached" in extended.view(shown).html
    assert len(extended.front.requests) == 1


def test_lookups_of_many_links_are_split(extended: ExtensionWiki) -> None:
    """The first thousand before the page is sent, the others afterwards."""
    extended.writer.write("Long list", " ".join(f"[https://e.org/n/{n} n]" for n in range(1_500)))
    assert extended.view("Long list").html.count("weboid-cached") == 1_000
    last = extended.view_until("Long list", "/2026/https://e.org/n/1499").html
    assert last.count("weboid-cached") == 1_500
    assert [len(request.json()["urls"]) for request in extended.front.requests] == [1_000, 500]


def _shared(headers: dict[str, str]) -> int:
    match = re.search(r"s-maxage=(\d+)", headers["Cache-Control"])
    assert match, headers
    return int(match[1])


def _seconds(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()
