"""Special:WeboidLinks tells a page's links to all who may read it, and takes levels from those who may (A19)."""

import html
import json
import re
import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.http_listener import SECRET, ReceivedRequest, StubResponse, is_signed
from tests.support.mediawiki_extension import ExtensionWiki
from tests.support.sites.mediawiki import ADMIN, PASSWORD
from tests.support.wiki_visitor import Visitor

pytestmark = pytest.mark.slow
TEXT = "https://e.org/a https://e.org/dead https://e.org/queued https://e.org/none {{fullurl:Listed}}"


@pytest.fixture(scope="module")
def listed(extended_once: ExtensionWiki) -> str:
    """The title of a page with links."""
    extended_once.writer.write("Listed", TEXT)
    return "Listed"


@pytest.fixture(scope="module")
def admin(extended_once: ExtensionWiki) -> Visitor:
    """An administrator's browser session."""
    return Visitor(extended_once.wiki.base, ADMIN, PASSWORD)


@pytest.fixture(scope="module")
def editor(extended_once: ExtensionWiki) -> Visitor:
    """That of somebody with an account and no rights of their own."""
    extended_once.wiki.maintain("createAndPromote.php", "Editor", PASSWORD)
    return Visitor(extended_once.wiki.base, "Editor", PASSWORD)


def _form(visitor: Visitor, **fields: str) -> tuple[int, str]:
    return visitor.post("Special:WeboidLinks/Listed", fields)


def test_each_link_is_listed_with_its_state_and_copy(extended: ExtensionWiki, listed: str) -> None:
    """Own links are none; words are the front's."""
    page = extended.view("Special:WeboidLinks/Listed").html
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", page)
    cells = [tuple(re.sub("<[^>]+>", "", cell) for cell in row) for row in rows]
    assert sorted(cells) == [
        ("e.org/a", "Working", "10:11, 20 November 2026"),
        ("e.org/dead", "Dead since 21 May 2026", "10:11, 20 November 2026"),
        ("e.org/none", "Never seen", "\N{EN DASH}"),
        ("e.org/queued", "Working", "queued"),
    ]
    assert f'href="{extended.front.address}/2026/https://e.org/a"' in page
    assert "<select" not in page


@pytest.mark.parametrize(
    ("days", "more", "state"),
    [
        (0, {}, "Working, checked today"),
        (1, {}, "Working, checked yesterday"),
        (3, {}, "Working, checked 3 days ago"),
        (3, {"mime": "pdf"}, "Working, checked 3 days ago; leads to a file (pdf)"),
        (0, {"mime": "pdf", "kib": 1_200}, "Working, checked today; leads to a file (pdf, 1,200 KiB)"),
    ],
)
def test_of_a_link_that_works_it_is_said_when_it_was_looked_at(
    extended: ExtensionWiki, listed: str, days: int, more: dict[str, object], state: str
) -> None:
    """And what kind of file it is, when it is no page."""
    checked = f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d}"

    def answer(request: ReceivedRequest) -> StubResponse:
        document = json.loads(extended.front.default_answer(request).body)
        for link in document["links"]:
            link |= {"checked": checked, **more}
        return StubResponse(body=json.dumps(document).encode())

    extended.front.answer = answer
    page = extended.view("Special:WeboidLinks/Listed").html
    assert f"e.org/a</bdi></a></td><td>{state}</td>" in page
    assert "<td>Dead since 21 May 2026</td>" in page


def test_the_toolbox_leads_there(extended: ExtensionWiki, listed: str) -> None:
    """From pages whose links are watched, and from no others."""
    link = 'id="t-weboid"'
    assert link in extended.view(listed).html
    assert "Special:WeboidLinks/Listed" in extended.view(listed).html
    assert link not in extended.view("Special:RecentChanges").html
    assert link not in extended.view("There is no such page").html


@pytest.mark.parametrize("title", ["", "/Nothing here", "&page=%5Bbad%5D", "/Special:Version"])
def test_without_a_page_there_is_a_field_for_one(extended: ExtensionWiki, title: str) -> None:
    """What is no page, or has none, is said, and nobody is asked."""
    path, _, query = title.partition("&")
    page = extended.view(f"Special:WeboidLinks{path}", f"&{query}")
    assert 'name="page"' in page.html
    assert ("This page does not exist." in page.html) == bool(title)
    assert extended.front.requests == []


def test_a_title_cannot_break_out(extended: ExtensionWiki) -> None:
    """What was asked for stands in the field as text."""
    page = extended.view("Special:WeboidLinks", '&page="><script>x</script>').html
    assert "<script>x" not in page


def test_a_silent_front_is_said(extended: ExtensionWiki, listed: str) -> None:
    """The links are listed all the same, and nobody says that nothing is known of them."""
    extended.front.answer = lambda request: StubResponse(503)
    page = extended.view("Special:WeboidLinks/Listed").html
    assert "The archive is not available at the moment." in page
    assert page.count("State not available") == 4
    assert "nothing is known" not in page


@pytest.mark.parametrize(("status", "words"), [(429, "has received too many requests"), (503, "is not available")])
def test_what_was_said_before_is_listed(extended: ExtensionWiki, listed: str, status: int, words: str) -> None:
    """A front that is asked too often, or away, is said to be so; of a new link it has not told."""
    extended.view(listed)
    extended.writer.write("Listed", f"{TEXT} https://e.org/new")
    extended.front.answer = lambda request: StubResponse(status, headers={"Retry-After": "120"})
    page = extended.view("Special:WeboidLinks/Listed").html
    extended.writer.write("Listed", TEXT)
    assert words in page
    assert page.count("State not available") == 1
    assert page.count("Dead since 21 May 2026") == 1
    assert f'href="{extended.front.address}/2026/https://e.org/dead"' in page


def test_a_busy_front_takes_no_copies_away(extended: ExtensionWiki, listed: str) -> None:
    """Readers see what was known of a page before a link was added to it."""
    extended.view(listed)
    extended.writer.write("Listed", f"{TEXT} https://e.org/newer")
    extended.front.answer = lambda request: StubResponse(429)
    html = extended.view(listed).html
    extended.writer.write("Listed", TEXT)
    assert "/2026/https://e.org/dead" in html
    assert "/2026/https://e.org/newer" not in html


def test_whoever_has_the_right_sets_a_level(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """The webhook hears who wants it, for which link, and why; the reader what came of it."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    status, page = _form(admin, **fields, level="html", reason=" too many pictures ")
    assert status == 200
    assert "Display of copies of e.org/a set to: Without images." in page
    (request,) = extended.webhook.requests
    assert request.path == "/level"
    assert is_signed(request, SECRET, time.time())
    assert request.json() == {
        "wiki": "library@example",
        "user": ADMIN,
        "url": "https://e.org/a",
        "level": "html",
        "reason": "too many pictures",
    }


def test_a_level_can_be_taken_back(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """The webhook hears null."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    _, page = _form(admin, **fields, level="")
    assert "Display of copies of e.org/a reset to the wiki default." in page
    assert extended.webhook.requests[0].json()["level"] is None


def test_whoever_has_the_right_sets_what_is_recorded(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """A19: in the same form, and to the webhook by a path of its own, which older archives do not know."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    _, page = _form(admin, **fields, level="store:no-media", reason="a small disk")
    assert "From the next capture on, the following is stored of e.org/a: Without audio and video." in page
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    _, page = _form(admin, **fields, level="store:")
    assert "From the next capture on, e.org/a is stored with the wiki default." in page
    assert [each.path for each in extended.webhook.requests] == ["/stored-level"] * 2
    assert [each.json()["level"] for each in extended.webhook.requests] == ["no-media", None]
    assert all(is_signed(each, SECRET, time.time()) for each in extended.webhook.requests)


@pytest.mark.parametrize("token", ["", "+\\", "0123456789abcdef0123456789abcdef00000000+\\"])
def test_a_form_of_another_site_sets_nothing(extended: ExtensionWiki, listed: str, admin: Visitor, token: str) -> None:
    """Without the session's token nothing is done."""
    _, page = _form(admin, url="https://e.org/a", level="text", wpEditToken=token)
    assert "loss of session data" in page
    assert extended.webhook.requests == []


def test_a_level_is_set_by_posting_alone(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """A link that somebody is led to sets nothing."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    query = urllib.parse.urlencode({**fields, "level": "text"})
    admin.get(f"Special:WeboidLinks/Listed&{query}")
    assert extended.webhook.requests == []


def test_others_may_not_set_levels(extended: ExtensionWiki, listed: str, editor: Visitor) -> None:
    """They see no form; who posts one is refused, even with a token."""
    assert "<select" not in editor.get("Special:WeboidLinks/Listed")
    _, page = _form(editor, url="https://e.org/a", level="text", wpEditToken=editor.token())
    assert "<title>Permission error" in page
    assert "Administrators" in page
    assert extended.webhook.requests == []


def test_blocked_administrators_set_nothing(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """A block of the whole wiki is one of levels, too."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    extended.writer.act(action="block", user=ADMIN, expiry="1 hour")
    try:
        _, page = _form(admin, **fields, level="text")
    finally:
        extended.writer.act(action="unblock", user=ADMIN)
    assert "<title>Permission error" in page
    assert extended.webhook.requests == []


@pytest.mark.parametrize(
    ("url", "level"),
    [
        ("https://evil.example/", "text"),
        ("https://e.org/a", "full"),
        ("https://e.org/a", "everything"),
        ("https://e.org/a", "store:full"),
    ],
)
def test_only_what_the_form_offers_is_set(
    extended: ExtensionWiki, listed: str, admin: Visitor, url: str, level: str
) -> None:
    """Links of that page, and levels that the operator offers."""
    _, page = _form(admin, url=url, level=level, wpEditToken=admin.token())
    assert "the option does not exist" in page
    assert extended.webhook.requests == []


def test_full_is_offered_where_the_operator_says_so(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """The list of levels is a setting; its order is that of what is shown."""
    extended.configure(Levels=["full", "text", "nonsense"])
    page = admin.get("Special:WeboidLinks/Listed")
    assert re.findall(r'<option value="(\w+)"', page)[:2] == ["text", "full"]
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    _form(admin, **fields, level="full")
    assert extended.webhook.requests[0].json()["level"] == "full"


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (StubResponse(403, b'{"error": "Your right ends at <b>html</b>."}'), "Your right ends at <b>html</b>."),
        (StubResponse(400, b"\xff<script>"), "Message from the archive:"),
        (StubResponse(0), "because the archive is not available"),
    ],
    ids=["refused", "garbage", "silent"],
)  # fmt: skip
def test_a_refusal_is_told(
    extended: ExtensionWiki, listed: str, admin: Visitor, response: StubResponse, words: str
) -> None:
    """In the archive's own words, as text."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    extended.webhook.answer = lambda request: response
    _, page = _form(admin, **fields, level="text")
    assert words in html.unescape(page)
    assert "<b>html" not in page
    assert "<script>" not in page.partition("mw-message-box")[2].partition("</div>")[0]


def test_without_webhook_there_is_no_form(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """Nothing is offered that nobody hears."""
    extended.configure(Webhook="")
    assert "<select" not in admin.get("Special:WeboidLinks/Listed")


def test_pages_that_somebody_may_not_read_are_not_listed(extended: ExtensionWiki, listed: str, admin: Visitor) -> None:
    """On a wiki that is read by its members alone, the page is none to others."""
    extended.set_local_settings(
        "$wgGroupPermissions['*']['read'] = false;\n"
        "$wgWhitelistRead = [ 'Special:WeboidLinks', 'Special:WeboidLinks/Listed' ];\n"
    )
    page = extended.view("Special:WeboidLinks/Listed").html
    assert "This page does not exist." in page
    assert "e.org" not in page
    assert "e.org/a" in admin.get("Special:WeboidLinks/Listed")


def test_hundreds_of_links_are_turned_over(extended: ExtensionWiki) -> None:
    """Two hundred at once."""
    extended.writer.write("Rich", " ".join(f"[https://e.org/r/{n} r]" for n in range(450)))
    first = extended.view("Special:WeboidLinks/Rich").html
    assert first.count("<tr><td>") == 200
    assert "from=200" in first
    last = extended.view("Special:WeboidLinks/Rich", "&from=400").html
    assert last.count("<tr><td>") == 50
    assert "from=200" in last
    assert "from=600" not in last


def test_the_page_speaks_german(extended: ExtensionWiki, listed: str) -> None:
    """As the reader has it set."""
    page = extended.view("Special:WeboidLinks/Listed", "&uselang=de").html
    assert "Archivierte Weblinks" in page
    assert ">vorgemerkt<" in page
