"""Special:WeboidLinks: list of a page's links for its readers, and levels set by users with the right (A19)."""

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
from tests.support.wiki_visitor import WikiVisitor

pytestmark = pytest.mark.slow
TEXT = "https://e.org/a https://e.org/dead https://e.org/queued https://e.org/none {{fullurl:Listed}}"


@pytest.fixture(scope="module")
def listed(extended_once: ExtensionWiki) -> str:
    """Write a page with links; return its title."""
    extended_once.writer.write("Listed", TEXT)
    return "Listed"


@pytest.fixture(scope="module")
def admin(extended_once: ExtensionWiki) -> WikiVisitor:
    """Return an administrator's browser session."""
    return WikiVisitor(extended_once.wiki.base, ADMIN, PASSWORD)


@pytest.fixture(scope="module")
def editor(extended_once: ExtensionWiki) -> WikiVisitor:
    """Return the session of a user without additional rights."""
    extended_once.wiki.maintain("createAndPromote.php", "Editor", PASSWORD)
    return WikiVisitor(extended_once.wiki.base, "Editor", PASSWORD)


def _form(visitor: WikiVisitor, **fields: str) -> tuple[int, str]:
    return visitor.post("Special:WeboidLinks/Listed", fields)


def test_each_link_is_listed_with_its_state_and_copy(extended: ExtensionWiki, listed: str) -> None:
    """Own links are omitted."""
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
def test_working_links_show_the_day_of_the_check(
    extended: ExtensionWiki, listed: str, days: int, more: dict[str, object], state: str
) -> None:
    """And the file type, if it is not a page."""
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


def test_toolbox_links_to_the_list(extended: ExtensionWiki, listed: str) -> None:
    """Only on pages whose links are covered."""
    link = 'id="t-weboid"'
    assert link in extended.view(listed).html
    assert "Special:WeboidLinks/Listed" in extended.view(listed).html
    assert link not in extended.view("Special:RecentChanges").html
    assert link not in extended.view("There is no such page").html


@pytest.mark.parametrize("title", ["", "/Nothing here", "&page=%5Bbad%5D", "/Special:Version"])
def test_missing_page_shows_the_title_form(extended: ExtensionWiki, title: str) -> None:
    """With a message for invalid and missing titles; no request is sent."""
    path, _, query = title.partition("&")
    page = extended.view(f"Special:WeboidLinks{path}", f"&{query}")
    assert 'name="page"' in page.html
    assert ("This page does not exist." in page.html) == bool(title)
    assert extended.front.requests == []


def test_title_is_escaped(extended: ExtensionWiki) -> None:
    """In the form."""
    page = extended.view("Special:WeboidLinks", '&page="><script>x</script>').html
    assert "<script>x" not in page


def test_unavailable_front_is_reported(extended: ExtensionWiki, listed: str) -> None:
    """The links are listed without states."""
    extended.front.answer = lambda request: StubResponse(503)
    page = extended.view("Special:WeboidLinks/Listed").html
    assert "The archive is not available at the moment." in page
    assert page.count("State not available") == 4
    assert "nothing is known" not in page


@pytest.mark.parametrize(("status", "words"), [(429, "has received too many requests"), (503, "is not available")])
def test_last_known_answers_are_listed(extended: ExtensionWiki, listed: str, status: int, words: str) -> None:
    """If the front is down or refuses; new links have no state."""
    extended.view(listed)
    extended.writer.write("Listed", f"{TEXT} https://e.org/new")
    extended.front.answer = lambda request: StubResponse(status, headers={"Retry-After": "120"})
    page = extended.view("Special:WeboidLinks/Listed").html
    extended.writer.write("Listed", TEXT)
    assert words in page
    assert page.count("State not available") == 1
    assert page.count("Dead since 21 May 2026") == 1
    assert f'href="{extended.front.address}/2026/https://e.org/dead"' in page


def test_views_keep_marks_while_the_front_refuses(extended: ExtensionWiki, listed: str) -> None:
    """Also if a link was added since the last answer."""
    extended.view(listed)
    extended.writer.write("Listed", f"{TEXT} https://e.org/newer")
    extended.front.answer = lambda request: StubResponse(429)
    html = extended.view(listed).html
    extended.writer.write("Listed", TEXT)
    assert "/2026/https://e.org/dead" in html
    assert "/2026/https://e.org/newer" not in html


def test_user_with_the_right_sets_a_level(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """The webhook receives user, link, level and reason."""
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


def test_level_can_be_removed(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """The webhook receives null."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    _, page = _form(admin, **fields, level="")
    assert "Display of copies of e.org/a reset to the wiki default." in page
    assert extended.webhook.requests[0].json()["level"] is None


def test_user_with_the_right_sets_the_stored_level(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """A19: by the same form, with a separate path of the webhook, which older releases do not know."""
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
def test_form_without_edit_token_sets_nothing(
    extended: ExtensionWiki, listed: str, admin: WikiVisitor, token: str
) -> None:
    """Protection against cross-site request forgery."""
    _, page = _form(admin, url="https://e.org/a", level="text", wpEditToken=token)
    assert "loss of session data" in page
    assert extended.webhook.requests == []


def test_get_request_sets_nothing(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """Levels require POST."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    query = urllib.parse.urlencode({**fields, "level": "text"})
    admin.get(f"Special:WeboidLinks/Listed&{query}")
    assert extended.webhook.requests == []


def test_users_without_the_right_cannot_set_levels(extended: ExtensionWiki, listed: str, editor: WikiVisitor) -> None:
    """They have no form, and a POST with their token is refused."""
    assert "<select" not in editor.get("Special:WeboidLinks/Listed")
    _, page = _form(editor, url="https://e.org/a", level="text", wpEditToken=editor.token())
    assert "<title>Permission error" in page
    assert "Administrators" in page
    assert extended.webhook.requests == []


def test_blocked_administrators_cannot_set_levels(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """A sitewide block includes levels."""
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
def test_other_links_and_levels_are_refused(
    extended: ExtensionWiki, listed: str, admin: WikiVisitor, url: str, level: str
) -> None:
    """Only links of the page and configured levels are accepted."""
    _, page = _form(admin, url=url, level=level, wpEditToken=admin.token())
    assert "the option does not exist" in page
    assert extended.webhook.requests == []


def test_configured_levels_are_offered(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """In ascending order; full only if it is configured."""
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
def test_refusals_are_shown(
    extended: ExtensionWiki, listed: str, admin: WikiVisitor, response: StubResponse, words: str
) -> None:
    """With the archive's message, escaped."""
    fields = admin.form("Special:WeboidLinks/Listed", "https://e.org/a")
    extended.webhook.answer = lambda request: response
    _, page = _form(admin, **fields, level="text")
    assert words in html.unescape(page)
    assert "<b>html" not in page
    assert "<script>" not in page.partition("mw-message-box")[2].partition("</div>")[0]


def test_without_webhook_there_is_no_form(extended: ExtensionWiki, listed: str, admin: WikiVisitor) -> None:
    """Levels cannot be set without a webhook."""
    extended.configure(Webhook="")
    assert "<select" not in admin.get("Special:WeboidLinks/Listed")


def test_pages_are_not_listed_for_users_who_may_not_read_them(
    extended: ExtensionWiki, listed: str, admin: WikiVisitor
) -> None:
    """On a private wiki they get the message for missing pages."""
    extended.set_local_settings(
        "$wgGroupPermissions['*']['read'] = false;\n"
        "$wgWhitelistRead = [ 'Special:WeboidLinks', 'Special:WeboidLinks/Listed' ];\n"
    )
    page = extended.view("Special:WeboidLinks/Listed").html
    assert "This page does not exist." in page
    assert "e.org" not in page
    assert "e.org/a" in admin.get("Special:WeboidLinks/Listed")


def test_list_is_divided_into_pages(extended: ExtensionWiki) -> None:
    """Of two hundred links."""
    extended.writer.write("Rich", " ".join(f"[https://e.org/r/{n} r]" for n in range(450)))
    first = extended.view("Special:WeboidLinks/Rich").html
    assert first.count("<tr><td>") == 200
    assert "from=200" in first
    last = extended.view("Special:WeboidLinks/Rich", "&from=400").html
    assert last.count("<tr><td>") == 50
    assert "from=200" in last
    assert "from=600" not in last


def test_page_is_translated(extended: ExtensionWiki, listed: str) -> None:
    """Into the reader's language."""
    page = extended.view("Special:WeboidLinks/Listed", "&uselang=de").html
    assert "Archivierte Weblinks" in page
    assert ">vorgemerkt<" in page
