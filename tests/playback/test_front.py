"""The reader's pages: addresses, lists, honest answers, and nothing hostile in them."""

import json
import re
from datetime import timedelta
from html import escape, unescape
from typing import Any

import pytest

from core.page_classes import PageClass
from core.page_manifest import PageScreen, VisitOutcome
from core.timestamps import timestamp14
from playback.url_paths import escape_url
from tests.support.archive_openapi import check_response
from tests.support.playback_fixtures import NOW, CollectionBuilder, FullSite, ServedCollection, fetch, png, serving

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)


def links_of(text: str) -> list[str]:
    """Return every href of a page, unescaped."""
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', text)]


def test_a_captured_page_is_shown_with_its_date_in_a_sandboxed_frame(served: ServedCollection, site: str) -> None:
    """The banner is the front's; the copy is the replay's, which may not script."""
    served.builder.page(f"{site}/a?b=1&c=2", "<p>x</p>", title="Title", shot=png(), text="x")

    text = served.get(f"/page/{TS}/{site}/a?b=1&c=2").text

    frame = re.search(r"<iframe[^>]*>", text)
    assert frame is not None
    assert f'src="{served.replay}/c/{TS}/{site}/a?b=1&amp;c=2"' in frame[0]
    assert 'sandbox="allow-top-navigation-by-user-activation"' in frame[0]
    assert "1 March 2026" in text
    assert "Complete" in text
    assert f'href="{site}/a?b=1&amp;c=2" rel="noopener noreferrer nofollow"' in text


def test_the_screenshot_and_the_text_have_views_of_their_own(served: ServedCollection, site: str) -> None:
    """The screenshot is the evidence of what the page looked like."""
    served.builder.page(f"{site}/", "<p>x</p>", shot=png(), text="words")

    shot = served.get(f"/screenshot/{TS}/{site}/").text
    text = served.get(f"/text/{TS}/{site}/").text

    assert f'<img src="{served.replay}/c/{TS}im_/urn:fullPage:{site}/"' in shot
    assert f'src="{served.replay}/c/{TS}id_/urn:text:{site}/"' in text
    assert re.search(r"<iframe[^>]* sandbox title", text)


@pytest.mark.parametrize("view", ["page", "screenshot", "text", "beside", "as-captured", "cite", "latest", "url"])
def test_an_escaped_address_is_answered_without_a_redirect_to_itself(
    served: ServedCollection, site: str, view: str
) -> None:
    """A browser encodes ``|`` or not; either way the redirects come to an end."""
    url = f"{site}/pipe?fam=A|B{{c}}^`"
    served.builder.page(url, "<p>x</p>", text="x", shot=png())
    target = f"/{view}/" + ("" if view in ("latest", "url") else f"{TS}/") + escape_url(url)
    targets = {target}

    while (reply := served.get(target)).status == 302:
        target = reply["Location"]
        assert target not in targets, f"redirect loop at {target}"
        targets.add(target)

    assert reply.status == 200
    assert len(targets) <= 2


@pytest.mark.parametrize("view", ["full", "full-view"])
def test_a_full_copy_of_an_escaped_address_is_shown(full: FullSite, site: str, view: str) -> None:
    """The copy in full of a URL with ``|`` is found, both its pages and the document."""
    url = f"{site}/pipe?fam=A|B"
    full.page(url, "<p>piped</p>")

    reply = full.served.get(f"/{view}/{TS}/{escape_url(url)}")

    assert reply.status == 200
    frame = full.frame(escape_url(url))
    assert "piped" in full.ask(frame, "/" + frame.split("/", 3)[3]).text


@pytest.mark.parametrize(
    "path",
    [
        "/a?b=c?d=e",
        "/a//b///c",
        "/%2F%2e%2E/x",
        "/%23not-a-fragment",
        "/a;b=c,d@e:f",
        "/?url=https://example.org/?x=1&y=2",
        "/https://example.org/",
        "/20260301120000/https://example.org/",
        "/%E2%82%AC%20x",
        "/%3Cscript%3E",
        "/a?q=%26%3D%25",
        "/$!*'()~",
        "/pipe?fam=A|B%7CC",
        "/a|b^c?d={e}`f",
    ],
)
def test_an_archived_url_survives_its_address(served: ServedCollection, site: str, path: str) -> None:
    """Nothing of the URL is decoded, merged or lost between the list and the copy."""
    served.builder.page(site + path, f"<p>{escape(path)}</p>")
    listed = json.loads(served.get(f"/api/pages?q={site}").text)["pages"]
    address = next(each["page"] for each in listed if each["url"] == site + path)

    reply = served.get(address)

    assert reply.status == 200
    assert escape(site + path).replace("&#x27;", "&#39;") in reply.text


def test_a_hash_bang_is_part_of_the_url(served: ServedCollection, site: str) -> None:
    """Browsers never send a fragment, so the address hides it."""
    for name in ("one", "two"):
        served.builder.page(f"{site}/#!/{name}", f"<p>{name}</p>", title=name)

    assert "<title>two" in served.get(f"/page/{TS}/{site}/%23!/two").text


def test_a_moment_between_captures_leads_to_the_nearest(served: ServedCollection, site: str) -> None:
    """The address that the reader ends on tells the true date."""
    for days in (0, 100):
        served.builder.page(f"{site}/", "<p>x</p>", at=NOW + timedelta(days=days))

    reply = served.get(f"/page/{timestamp14(NOW + timedelta(days=60))}/{site}/")

    assert reply.status == 302
    assert reply["Location"] == f"/page/{timestamp14(NOW + timedelta(days=100))}/{site}/"


@pytest.mark.parametrize("prefix", ["/page/", "/latest/"])
def test_no_moment_means_the_newest_copy(served: ServedCollection, site: str, prefix: str) -> None:
    """A later failure does not hide the copy that there is."""
    served.builder.page(f"{site}/", "<p>x</p>", at=NOW)
    served.builder.page(f"{site}/", "<p>x</p>", at=NOW + timedelta(days=1))
    served.builder.page(f"{site}/", None, at=NOW + timedelta(days=2), outcome=VisitOutcome.FAILED, reason="HTTP 403")

    reply = served.get(f"{prefix}{site}/")

    assert reply["Location"] == f"/page/{timestamp14(NOW + timedelta(days=1))}/{site}/"


def test_equals_of_a_url_lead_to_its_page(served: ServedCollection, site: str) -> None:
    """A wiki that cites http finds what was captured over https, under its true URL."""
    served.builder.page(f"{site}/a", "<p>x</p>")

    reply = served.get(f"/page/{site.replace('https:', 'http:')}/a/")

    assert reply["Location"] == f"/page/{TS}/{site}/a"


def test_a_url_that_was_never_seen_gets_an_honest_answer(served: ServedCollection) -> None:
    """Not found, in words of its own, and without pretending."""
    reply = served.get("/page/https://never.example/<b>?x=1".replace("<b>", "%3Cb%3E"))

    assert reply.status == 404
    assert "never been archived" in reply.text
    assert "https://never.example/%3Cb%3E?x=1" in reply.text


def test_a_failed_page_says_why_and_shows_no_frame(served: ServedCollection, site: str) -> None:
    """The reason is text, whatever it says."""
    served.builder.page(
        f"{site}/", "<p>challenge</p>", outcome=VisitOutcome.FAILED, reason="<i>challenge</i>", status=403
    )

    text = served.get(f"/page/{TS}/{site}/").text

    assert "could not be archived" in text
    assert "&lt;i&gt;challenge&lt;/i&gt;" in text
    assert "<iframe" not in text


@pytest.mark.parametrize(
    ("name", "mime", "body"), [("a.mp3", "audio/mpeg", b"ID3 sound"), ("a.webm", "video/webm", b"\x1aE\xdf\xa3film")]
)
def test_a_file_is_offered_as_a_download(
    served: ServedCollection, site: str, name: str, mime: str, body: bytes
) -> None:
    """A sandboxed frame would not open it, and should not; replay hands out what the front offers."""
    served.builder.response(f"{site}/{name}", body, mime=mime)
    served.builder.page(f"{site}/{name}", None, mime=mime)

    text = served.get(f"/page/{TS}/{site}/{name}").text

    assert "<iframe" not in text
    assert "an audio or video file" in text
    assert f"{served.replay}/c/{TS}/{site}/{name}" in links_of(text)
    copy = fetch(served.replay, f"/c/{TS}/{site}/{name}")
    assert (copy.status, copy.body) == (200, body)


def test_a_pdf_is_shown_and_its_file_offered_with_a_warning(served: ServedCollection, site: str) -> None:
    """The copy stands in a frame; the file has a link of its own, its size and its digest."""
    url = f"{site}/a.pdf"
    page_id = served.builder.page(url, None, mime="application/pdf")
    paper = served.builder.response(url, b"%PDF-1.7 a paper", mime="application/pdf", page_id=page_id)

    text = served.get(f"/page/{TS}/{url}").text

    assert f'src="{served.replay}/c/{TS}/{url}"' in text
    assert f"{served.replay}/c/{TS}dl_/{url}" in links_of(text)
    assert "Open it only if you trust its source" in text
    assert paper.digest in text
    assert fetch(served.replay, f"/c/{TS}dl_/{url}").body == b"%PDF-1.7 a paper"


def test_readers_are_told_how_a_page_was_seen(served: ServedCollection, site: str) -> None:
    """Device and language, of a copy and of each capture in the list; old ones say nothing."""
    phone = PageScreen(412, 915, 2.0, mobile=True, language="de-DE,de")
    served.builder.page(f"{site}/", "<p>a</p>", screen=phone)
    desktop = PageScreen(1280, 800, language="en-US,en")
    served.builder.page(f"{site}/", "<p>b</p>", screen=desktop, at=NOW + timedelta(days=1))
    served.builder.page(f"{site}/old", "<p>c</p>")

    copy = served.get(f"/page/{TS}/{site}/").text
    listed = served.get(f"/url/{site}/").text

    words = "captured as a phone, 412 \u00d7 915, language de-DE, not logged in"
    assert words in copy
    assert words in listed
    assert "captured as a desktop, 1280 \u00d7 800, language en-US, not logged in" in listed
    assert "captured as" not in served.get(f"/page/{TS}/{site}/old").text


def test_readers_are_told_how_much_of_a_page_was_stored(served: ServedCollection, site: str) -> None:
    """On the copy and in the list of captures; of a page that was not rendered, too."""
    screen = PageScreen(1280, 800, language="en-US,en")
    served.builder.page(f"{site}/", "<p>a</p>", screen=screen, stored="text", left_out=7)
    later = NOW + timedelta(days=1)
    served.builder.page(f"{site}/", "<p>b</p>", at=later, stored="no-media", left_out=1)
    served.builder.page(f"{site}/whole", "<p>c</p>", screen=screen)

    copy = served.get(f"/page/{TS}/{site}/").text
    listed = served.get(f"/url/{site}/").text

    only_text = "Only the text of this page was stored"
    assert only_text in copy
    assert "captured as a desktop" in copy
    assert only_text in listed
    assert "Audio and video of this page were not stored" in listed
    whole = served.get(f"/page/{TS}/{site}/whole").text
    assert "stored" not in whole.partition("</header>")[0]


def test_hostile_titles_and_urls_are_text(served: ServedCollection, site: str) -> None:
    """On the list, on the page and in the API."""
    title = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    url = f'{site}/"><script>alert(2)</script>'
    served.builder.page(url, "<p>x</p>", title=title, reason="<script>")

    listed = served.get(f"/?q={site}").text
    shown = served.get(f"/page/{TS}/{site}/%22%3E%3Cscript%3Ealert(2)%3C/script%3E")
    if shown.status == 302:
        shown = served.get(shown["Location"])

    for text in (listed, shown.text):
        assert "<script" not in text
        assert "<img src=x" not in text
    assert served.get(f"/api/pages?q={site}")["Content-Type"] == "application/json"


def test_only_the_web_becomes_a_link(served: ServedCollection, site: str) -> None:
    """An index row that says ``javascript:`` is shown and never linked."""
    url = f"javascript:alert('{site}')"
    served.builder.page(url, "<p>x</p>", title=site, shot=png())

    text = served.get(f"/?q={site}").text

    assert "javascript:alert" in text
    assert not [each for each in links_of(text) if each.startswith("javascript:")]
    assert served.get(f"/page/{TS}/{url}").status == 404


@pytest.mark.parametrize(
    "target",
    [
        "/nothing",
        "/page/",
        "/page/javascript:alert(1)",
        "/page/20260301120000/javascript:alert(1)",
        "/page/20260301120000/urn:dom:https://example.org/",
        "/page/99999999999999/https://example.org/",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/page/https://example.org/%00",
        "/page/https://example.org/" + "a" * 9000,
        "/api/pages/x",
    ],
)
def test_addresses_that_name_nothing_say_so(served: ServedCollection, target: str) -> None:
    """With the front's own page and its headers."""
    reply = served.get(target)

    assert reply.status == 404
    assert "default-src 'none'" in reply["Content-Security-Policy"]
    assert "alert" not in "".join(links_of(reply.text))


@pytest.mark.parametrize("target", ["/", "/api/pages", "/static/style.css", "/nothing"])
def test_every_answer_carries_the_policy(served: ServedCollection, target: str) -> None:
    """No script at all; frames and pictures from the replay only."""
    reply = served.get(target)

    assert reply["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'self'; img-src 'self' {served.replay};"
        f" frame-src {served.replay}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert reply["X-Content-Type-Options"] == "nosniff"
    assert reply["Referrer-Policy"] == "no-referrer"
    assert "set-cookie" not in {name.lower() for name, _ in reply.headers}


def test_a_search_takes_its_words_literally(served: ServedCollection, site: str) -> None:
    """Percent signs and underscores are what people type, not wildcards."""
    served.builder.page(f"{site}/100%_a", "<p>x</p>", title="Ünïcode")
    served.builder.page(f"{site}/100xya", "<p>x</p>", title="other")

    def urls(words: str) -> list[str]:
        pages = json.loads(served.get(f"/api/pages?q={words}").text)["pages"]
        return [page["url"] for page in pages]

    assert urls(f"{site}/100%25_a") == [f"{site}/100%_a"]
    assert urls(f"{site}/") == [f"{site}/100%_a", f"{site}/100xya"] or len(urls(f"{site}/")) == 2
    assert urls(f"{site}%5C") == []


def test_a_long_list_has_pages(served: ServedCollection, site: str) -> None:
    """Newest first, fifty at a time, each page once."""
    for number in range(120):
        served.builder.page(f"{site}/{number}", None, at=NOW + timedelta(seconds=number))

    def part(address: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(served.get(address).text)
        return answer

    parts = [part(f"/api/pages?q={site}/")]
    while parts[-1]["older"]:
        parts.append(part(parts[-1]["older"]))
    urls = [each["url"] for every in parts for each in every["pages"]]
    assert urls == [f"{site}/{number}" for number in reversed(range(120))]
    assert [len(each["pages"]) for each in parts] == [50, 50, 20]
    assert part(parts[2]["newer"])["pages"] == parts[1]["pages"]
    assert 'rel="next"' in served.get(f"/?q={site}").text
    assert served.get(f"/?q={site}&before=x%27&after=9").status == 200


def test_another_host_reads_nothing(served: ServedCollection) -> None:
    """A rebound name is refused; this machine's other names lead to the one origin."""
    assert served.get("/", headers={"Host": "evil.example"}).status == 421
    for host in ("localhost:1", "[::1]", "localhost"):
        moved = served.get("/page/https://a.example//b?c", headers={"Host": host})
        assert moved["Location"] == f"{served.front}/page/https://a.example//b?c"
    assert served.get("/", headers={"Host": "[evil"}).status == 421


def test_other_captures_of_the_url_are_listed(served: ServedCollection, site: str) -> None:
    """A reader can go from one capture to any other of the same URL."""
    moments = [timestamp14(NOW + timedelta(days=days)) for days in range(3)]
    for days in range(3):
        served.builder.page(f"{site}/", "<p>x</p>", at=NOW + timedelta(days=days))

    links = links_of(served.get(f"/page/{TS}/{site}/").text)

    assert {f"/page/{moment}/{site}/" for moment in moments} <= set(links)


def test_a_broken_index_is_said_to_be_one(collection: CollectionBuilder) -> None:
    """Readers are told to come back, under the same policy as ever."""
    index = collection.layout.captures_db
    with serving(collection) as served:
        collection.close()
        index.with_suffix(".broken").write_bytes(b"no database, but long enough for one" * 30)
        index.with_suffix(".broken").rename(index)

        reply = served.get("/")

    assert reply.status == 503
    assert "default-src 'none'" in reply["Content-Security-Policy"]


def test_a_mistake_of_ours_shows_nothing_of_itself(collection: CollectionBuilder) -> None:
    """The page for it carries the policy, too, although no middleware sees it."""
    collection.page("https://example.org/", None)
    collection._database.execute("UPDATE pages SET captured_ms = 1 << 62")
    with serving(collection) as served:
        reply = served.get("/")

    assert reply.status == 500
    assert "Overflow" not in reply.text
    assert "default-src 'none'" in reply["Content-Security-Policy"]


def test_a_challenge_is_no_copy_and_says_so(served: ServedCollection, site: str) -> None:
    """The notice shows what it is, the evidence and a good copy; as captured, the challenge itself is shown."""
    good = timestamp14(NOW - timedelta(days=40))
    served.builder.page(f"{site}/", "<p>good</p>", at=NOW - timedelta(days=40))
    served.builder.page(
        f"{site}/", "<p>just a moment</p>", page_class=PageClass.CHALLENGE, status=403,
        evidence=("Cloudflare says that it sent a <challenge>.",),
    )  # fmt: skip
    reply = served.get(f"/page/{TS}/{site}/")

    assert "bot check instead of the page" in reply.text
    assert "sent a &lt;challenge&gt;." in reply.text
    assert "<iframe" not in reply.text
    assert f"/page/{good}/{site}/" in links_of(reply.text)
    assert f"/as-captured/{TS}/{site}/" in links_of(reply.text)
    purposely = served.get(f"/as-captured/{TS}/{site}/").text
    assert f"/c/{TS}mp_/{site}/" in purposely
    assert "Bot check" in purposely


@pytest.mark.parametrize("prefix", ["/page/", "/latest/", f"/page/{timestamp14(NOW + timedelta(1))}/"])
def test_every_way_leads_to_the_good_capture(served: ServedCollection, site: str, prefix: str) -> None:
    """With no moment, with any moment, and by the newest."""
    for days, page_class in ((0, PageClass.OK), (2, PageClass.PARKED), (3, PageClass.CHALLENGE)):
        at = NOW + timedelta(days=days)
        served.builder.page(f"{site}/", "<p>x</p>", at=at, page_class=page_class)

    assert served.get(f"{prefix}{site}/")["Location"] == f"/page/{TS}/{site}/"


@pytest.mark.parametrize(
    ("page_class", "status", "words"),
    [
        (PageClass.SOFT_404, 200, "“Not found” page"),
        (PageClass.HTTP_ERROR, 404, "Error 404"),
        (PageClass.UNJUDGED, 500, "Error 500"),
        (PageClass.PARKED, 200, "Parked domain"),
        (PageClass.LOGIN_WALL, 200, "Login wall"),
        (PageClass.CONSENT_WALL, 200, "Consent wall"),
        (PageClass.NEAR_EMPTY, 200, "Almost empty"),
    ],
)
def test_a_second_best_capture_is_marked_in_words(
    page_class: PageClass, status: int, words: str, served: ServedCollection, site: str
) -> None:
    """In the banner and in lists; alone it is shown, and nothing better is promised."""
    served.builder.page(f"{site}/", "<p>x</p>", page_class=page_class, status=status, title=site)
    text = served.get(f"/page/{TS}/{site}/").text

    assert words in text
    assert "<iframe" in text
    assert "better copy" not in text
    assert words in served.get(f"/?q={site}").text
    (page,) = json.loads(served.get(f"/api/pages?q={site}").body)["pages"]
    assert (page["class"], page["class_score"]) == (page_class, 0.9)


@pytest.mark.parametrize(
    ("facts", "status", "heading"),
    [
        ({}, 200, "Copy of"),
        ({"page_class": PageClass.LOGIN_WALL}, 200, "Copy of"),
        ({"status": 404, "page_class": PageClass.HTTP_ERROR}, 404, "No copy of"),
        ({"page_class": PageClass.SOFT_404}, 404, "No copy of"),
        ({"page_class": PageClass.CHALLENGE}, 404, "No copy of"),
        ({"outcome": VisitOutcome.FAILED, "status": None}, 404, "No copy of"),
    ],
)
def test_only_around_a_usable_copy_is_a_reader_page_answered_with_200(
    served: ServedCollection, site: str, facts: dict[str, Any], status: int, heading: str
) -> None:
    """So that programs can tell, and the page, its API and Memento say the same."""
    served.builder.page(f"{site}/", "<p>x</p>", title=site, **facts)
    reply = served.get(f"/page/{TS}/{site}/")

    assert reply.status == status
    assert f">{heading}</span>" in reply.text
    assert ("memento-datetime" in dict(reply.headers)) == (status == 200)
    (page,) = json.loads(served.get(f"/api/pages?q={site}").body)["pages"]
    assert page["has_copy"] == (status == 200)
    assert served.get(f"/cite/{TS}/{site}/").status == status
    assert served.get(f"/timegate/{site}/").status == (302 if status == 200 else 404)


def test_a_good_capture_has_no_mark(served: ServedCollection, site: str) -> None:
    """Nor a word about better ones."""
    served.builder.page(f"{site}/", "<p>x</p>")
    text = served.get(f"/page/{TS}/{site}/").text

    assert "better copy" not in text
    assert text.count('class="outcome') == 2


def test_apis_answer_as_their_description_says(served: ServedCollection, site: str) -> None:
    """Statuses and JSON fields of docs/reference/archive-openapi.yaml."""
    served.builder.page(f"{site}/described", "<p>described</p>")
    known, unknown = f"{site}/described", f"{site}/never"

    for path, address in (
        ("/healthz", "/healthz"),
        ("/timegate/{url}", f"/timegate/{known}"),
        ("/timegate/{url}", f"/timegate/{unknown}"),
        ("/timemap/{form}/{url}", f"/timemap/link/{known}"),
        ("/timemap/{form}/{url}", f"/timemap/cdxj/{unknown}"),
        ("/cdx", f"/cdx?url={known}"),
        ("/cdx", f"/cdx?url={known}&matchType=domain"),
        ("/cdx", f"/cdx?url={known}&page=-1"),
        ("/cdx/search/cdx", f"/cdx/search/cdx?url={known}"),
    ):
        check_response(path, served.get(address).status)
    for path, address in (("/api/pages", f"/api/pages?q={site}"), ("/timemap/{form}/{url}", f"/timemap/json/{known}")):
        reply = served.get(address)
        check_response(path, reply.status, json.loads(reply.text))
