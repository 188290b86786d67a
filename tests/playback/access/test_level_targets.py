"""Levels on every route: what is shown at each, that a reader gets less and never more, and at once."""

import contextlib
import re
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from core.captures import ArtifactKind
from core.timestamps import timestamp14
from playback.access.decision_store import SqliteDecisionStore
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, target_of
from tests.playback.full_browser import reader
from tests.support.playback_fixtures import (
    FRONT,
    NOW,
    CollectionBuilder,
    FullSite,
    HeadlessBrowser,
    LeakListener,
    ReplayedCollection,
    ServedCollection,
    png,
    running_replay,
)

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
DECIDED = datetime(2026, 3, 2, tzinfo=UTC)
MODIFIERS = {Level.TEXT: "tx_", Level.LIMITED: "rd_", Level.HTML: "ni_", Level.IMAGES: "wi_"}
RICH = """<!DOCTYPE html><html lang="en"><head><title>T</title><style>p{{color:red;background:url(bg.png)}}</style>
<link rel="stylesheet" href="{site}/s.css"></head><body><header><h1>Head</h1></header>
<p class="c">One <b>bold</b> <a href="{site}/next">next</a></p><table><tr><td>cell</td></tr></table>
<img src="{site}/i.png" alt="pic"><script>x</script></body></html>"""


def decide(builder: CollectionBuilder, level: Level | None, **subject: str) -> None:
    """Store an operator's level decision; None removes the rule."""
    with contextlib.closing(SqliteDecisionStore(builder.layout.decisions_db)) as store:
        LevelStore(store).decide([target_of(**subject)], level, actor=LevelActor("root"), now=DECIDED)


def host_of(site: str) -> str:
    return site.removeprefix("https://")


@pytest.fixture
def wiki(request: pytest.FixtureRequest) -> str:
    """Return the name of a wiki that belongs to this test alone."""
    return f"w{sha256(request.node.nodeid.encode()).hexdigest()[:12]}"


def shown(text: str) -> set[str]:
    """Return which parts of the RICH page the text contains."""
    marks = {"<p": "paragraph", "<h1": "heading", "<header": "section", "<td": "table", "<b>": "bold"}
    marks |= {"<a href": "link", 'class="c"': "class", "color:red": "look", "url(": "background"}
    marks |= {"<img": "image", "/s.css": "sheet", "<script": "script"}
    return {name for mark, name in marks.items() if mark in text}


def test_each_level_shows_more_than_the_one_before(archived: ReplayedCollection, site: str) -> None:
    """Text, then structure, then the look, then the images; scripts at none (A18, A21)."""
    archived.builder.page(f"{site}/", RICH.format(site=site))

    texts = {level: archived.replay.get(f"/c/{TS}{modifier}/{site}/").text for level, modifier in MODIFIERS.items()}

    features_by_level = {level: shown(text) for level, text in texts.items()}
    limited = {"paragraph", "heading", "table", "bold", "link"}
    assert features_by_level[Level.TEXT] == {"paragraph"}
    assert features_by_level[Level.LIMITED] == limited
    assert features_by_level[Level.HTML] == limited | {"section", "class", "look", "sheet"}
    assert features_by_level[Level.IMAGES] == features_by_level[Level.HTML] | {"image", "background"}
    assert all("One" in text and "cell" in text for text in texts.values())
    assert "im_/" not in "".join(texts[level] for level in list(MODIFIERS)[:3])
    policy = "content=\"img-src 'none'; font-src 'none'; media-src 'none'\""  # and if one were: a second wall
    assert [policy in text for text in texts.values()] == [True, True, True, False]


def test_the_text_is_the_one_that_the_browser_saw(archived: ReplayedCollection, site: str) -> None:
    """In paragraphs and escaped; without one it comes from the document."""
    archived.builder.page(f"{site}/a", "<p>dom</p>", text="One <b>\n\ntwo\nlines & more\r\n \n\nend")
    archived.builder.page(f"{site}/b", "<p>dom</p><script>x</script>")
    archived.builder.response(f"{site}/c", b"<p>source</p><style>x</style>")

    text, dom, source = (archived.replay.get(f"/c/{TS}tx_/{site}/{name}").text for name in "abc")

    assert "<p>One &lt;b&gt;</p><p>two<br>lines &amp; more</p><p>end</p></body>" in text
    assert "dom" not in text
    assert "<p>dom</p></body>" in dom
    assert "<p>source</p></body>" in source


def test_what_is_asked_for_is_less_or_leads_to_what_is_allowed(archived: ReplayedCollection, site: str) -> None:
    """Any level up to the rule's is shown; above it is a redirect to the rule's own (302)."""
    archived.builder.page(f"{site}/", RICH.format(site=site))
    decide(archived.builder, Level.LIMITED, domain=host_of(site))

    replies = {level: archived.replay.get(f"/c/{TS}{mark}/{site}/") for level, mark in MODIFIERS.items()}

    assert [reply.status for reply in replies.values()] == [200, 200, 302, 302]
    assert {replies[level]["Location"] for level in (Level.HTML, Level.IMAGES)} == {f"/c/{TS}/{site}/"}
    assert "heading" in shown(archived.replay.get(f"/c/{TS}/{site}/").text)
    assert "look" not in shown(archived.replay.get(f"/c/{TS}/{site}/").text)
    decide(archived.builder, Level.FULL, domain=host_of(site))
    plain, images = (archived.replay.get(f"/c/{TS}{mark}/{site}/") for mark in ("", "wi_"))
    assert shown(plain.text) == shown(images.text) >= {"image", "look"}


def test_a_change_counts_at_the_next_request_though_all_is_kept(archived: ReplayedCollection, site: str) -> None:
    """Neither the cache nor the reader's own copy is asked before the rules."""
    archived.builder.page(f"{site}/", RICH.format(site=site))
    first = archived.replay.get(f"/c/{TS}/{site}/")
    again = {"If-None-Match": first["ETag"]}
    assert archived.replay.get(f"/c/{TS}/{site}/", headers=again).status == 304

    decide(archived.builder, Level.TEXT, link=f"{site}/")
    lowered = archived.replay.get(f"/c/{TS}/{site}/", headers=again)
    assert (lowered.status, shown(lowered.text)) == (200, {"paragraph"})
    assert lowered["ETag"] != first["ETag"]
    assert archived.replay.get(f"/c/{TS}wi_/{site}/", headers=again).status == 302

    decide(archived.builder, None, link=f"{site}/")
    assert archived.replay.get(f"/c/{TS}/{site}/", headers=again).status == 304


def test_rules_hold_for_the_very_capture_too(archived: ReplayedCollection, site: str) -> None:
    """A copy requested as captured (mp_) is limited to its level, too."""
    archived.builder.page(f"{site}/", RICH.format(site=site))
    decide(archived.builder, Level.TEXT, domain=host_of(site))

    assert shown(archived.replay.get(f"/c/{TS}mp_/{site}/").text) == {"paragraph"}


def test_a_rule_is_about_what_is_shown_and_not_about_how_it_was_asked_for(
    archived: ReplayedCollection, site: str
) -> None:
    """The index finds a page under other spellings; its own URL's rule holds for each of them."""
    archived.builder.page(f"{site}/Page", RICH.format(site=site))
    decide(archived.builder, Level.TEXT, link=f"{site}/Page")
    decide(archived.builder, Level.FULL, link=f"{site}/page")
    www = f"https://www.{host_of(site)}/Page"

    for url in (f"{site}/Page", f"{site}/page", f"{site}/PAGE", www, f"http://{host_of(site)}/Page"):
        reply = archived.replay.get(f"/c/{TS}/{url}")
        if reply.status == 302:  # to how it was captured
            reply = archived.replay.get(reply["Location"])
        assert (reply.status, shown(reply.text)) == (200, {"paragraph"}), url


def test_a_redirect_shows_no_more_than_where_it_led_allows(archived: ReplayedCollection, site: str) -> None:
    """Unless a rule about the very link says so."""
    target = f"https://led.{host_of(site)}"
    archived.builder.page(f"{site}/", RICH.format(site=target), final_url=f"{target}/x")
    decide(archived.builder, Level.TEXT, domain=f"led.{host_of(site)}")
    assert shown(archived.replay.get(f"/c/{TS}/{site}/").text) == {"paragraph"}

    decide(archived.builder, Level.HTML, link=f"{site}/")
    assert "look" in shown(archived.replay.get(f"/c/{TS}/{site}/").text)


def test_an_archived_redirect_keeps_level_and_wiki(archived: ReplayedCollection, site: str, wiki: str) -> None:
    """They stand in the address that it leads to, as they do when the date is put right."""
    headers = (("Location", "/b"),)
    archived.builder.response(f"{site}/a", b"", status=302, headers=headers, mime="unk")
    archived.builder.page(f"{site}/p", "<p>x</p>")
    decide(archived.builder, Level.IMAGES, wiki=wiki)

    led = archived.replay.get(f"/w/{wiki}/c/{TS}tx_/{site}/a")
    dated = archived.replay.get(f"/w/{wiki}/c/20200101000000rd_/{site}/p")

    assert led["Location"] == f"/w/{wiki}/c/{TS}tx_/{site}/b"
    assert dated["Location"] == f"/w/{wiki}/c/{TS}rd_/{site}/p"


def test_links_and_parts_keep_the_reader_s_level_and_wiki(archived: ReplayedCollection, site: str, wiki: str) -> None:
    """A link goes on at the level that was chosen; parts are asked for by the same wiki."""
    archived.builder.page(f"{site}/", RICH.format(site=site))
    decide(archived.builder, Level.IMAGES, wiki=wiki)

    chosen = archived.replay.get(f"/w/{wiki}/c/{TS}rd_/{site}/").text
    usual = archived.replay.get(f"/w/{wiki}/c/{TS}/{site}/").text
    none = archived.replay.get(f"/c/{TS}/{site}/").text

    assert f'href="{FRONT}/w/{wiki}/page/{TS}rd_/{site}/next"' in chosen
    assert f'href="{FRONT}/w/{wiki}/page/{TS}/{site}/next"' in usual
    assert f'src="/w/{wiki}/c/{TS}im_/{site}/i.png"' in usual
    assert f'href="/w/{wiki}/c/{TS}cs_/{site}/s.css"' in usual
    assert f'href="{FRONT}/page/{TS}/{site}/next"' in none


def test_a_wiki_in_the_address_gives_what_that_wiki_allows_and_no_more(
    archived: ReplayedCollection, site: str, wiki: str
) -> None:
    """Whoever names another wiki than their own gets that one's levels; an unknown one gives nothing."""
    archived.builder.page(f"{site}/", RICH.format(site=site))
    archived.builder.page(f"{site}/more", RICH.format(site=site))
    decide(archived.builder, Level.TEXT, domain=host_of(site))
    decide(archived.builder, Level.HTML, domain=host_of(site), wiki=wiki)
    decide(archived.builder, Level.LIMITED, link=f"{site}/more", wiki=wiki)
    cases = {
        f"/c/{TS}/{site}/": Level.TEXT,
        f"/w/{wiki}/c/{TS}/{site}/": Level.HTML,
        f"/w/{wiki}/c/{TS}/{site}/more": Level.LIMITED,
        f"/w/{wiki}x/c/{TS}/{site}/": Level.TEXT,
        f"/w/{wiki.upper()}/c/{TS}/{site}/": Level.TEXT,
    }
    for address, level in cases.items():
        reply = archived.replay.get(address)
        assert reply.status == 200, address
        features = shown(reply.text)
        assert ("heading" in features, "look" in features, "image" in features) == (
            level.covers(Level.LIMITED), level.covers(Level.HTML), False
        ), address  # fmt: skip
        above = archived.replay.get(address.replace(f"{TS}/", f"{TS}wi_/"))
        assert (above.status, above["Location"]) == (302, address)
    for name in ("..", "a%2Fb", "a b".replace(" ", "%20"), "x" * 65):
        assert archived.replay.get(f"/w/{name}/c/{TS}/{site}/").status == 404


def test_nothing_is_made_for_a_wiki_that_somebody_invents(archived: ReplayedCollection, site: str, wiki: str) -> None:
    """A wiki without decisions shares the copy of all readers and its ETag; it is stored once (P-21)."""
    archived.builder.page(f"{site}/", RICH.format(site=site))

    everybody = archived.replay.get(f"/c/{TS}/{site}/")
    invented = archived.replay.get(f"/w/{wiki}/c/{TS}/{site}/")

    assert (invented["ETag"], invented.body) == (everybody["ETag"], everybody.body)
    decide(archived.builder, Level.TEXT, wiki=wiki)
    known = {"If-None-Match": invented["ETag"]}
    assert archived.replay.get(f"/w/{wiki}/c/{TS}/{site}/", headers=known).status == 200


def test_the_longest_names_leave_room_for_an_etag(archived: ReplayedCollection, site: str, wiki: str) -> None:
    """It has a place in every answer, or nothing could be asked for again."""
    longest = wiki.ljust(64, "-")
    warc = f"{'w' * 240}.warc.gz"
    archived.builder.response(f"{site}/", b"<p>x</p>", warc=warc)
    decide(archived.builder, Level.LIMITED, wiki=longest)

    first = archived.replay.get(f"/w/{longest}/c/{TS}/{site}/")
    again = {"If-None-Match": first["ETag"]}

    assert archived.replay.get(f"/w/{longest}/c/{TS}/{site}/", headers=again).status == 304


def test_an_image_by_itself_is_shown_where_images_are(archived: ReplayedCollection, site: str) -> None:
    """As a page of its own it has a level of its own; within a page that page's has decided."""
    archived.builder.response(f"{site}/i.png", png(), mime="image/png")
    image, page = f"/c/{TS}im_/{site}/i.png", f"/c/{TS}/{site}/i.png"
    assert (archived.replay.get(image).status, archived.replay.get(page).status) == (200, 200)
    etag = {"If-None-Match": archived.replay.get(image)["ETag"]}

    decide(archived.builder, Level.HTML, domain=host_of(site))

    assert archived.replay.get(image).status == 404
    assert archived.replay.get(image, headers=etag).status == 404
    assert archived.replay.get(image, headers={"Sec-Fetch-Dest": "document"}).status == 404
    assert archived.replay.get(image, headers={"Sec-Fetch-Dest": "iframe"}).status == 404
    assert archived.replay.get(image, headers={"Sec-Fetch-Dest": "image"}).status == 200
    reply = archived.replay.get(page)
    assert (reply.status, "<img" in reply.text) == (404, False)


def test_a_screenshot_is_an_image_of_its_page(archived: ReplayedCollection, site: str) -> None:
    """At a level without images every request for a screenshot answers 404; the page's text stays available."""
    archived.builder.page(f"{site}/", "<p>x</p>", shot=png("red", (60, 60)), text="x")
    decide(archived.builder, Level.LIMITED, link=f"{site}/")

    for kind in ("view", "fullPage", "thumbnail"):
        for headers in ({}, {"Sec-Fetch-Dest": "image"}):
            target = f"/c/{TS}im_/urn:{kind}:{site}/"
            assert archived.replay.get(target, headers=headers).status == 404
    assert archived.replay.get(f"/c/{TS}id_/urn:text:{site}/").status == 200
    decide(archived.builder, Level.IMAGES, link=f"{site}/")
    assert archived.replay.get(f"/c/{TS}im_/urn:view:{site}/").status == 200


def test_files_that_are_no_text_are_handed_out_with_images_only(archived: ReplayedCollection, site: str) -> None:
    """A PDF holds whatever its maker put in; of it the text is shown at every level."""
    archived.builder.response(f"{site}/f.pdf", b"%PDF-1.7 x", mime="application/pdf")
    archived.builder.response(f"{site}/t.txt", b"plain", mime="text/plain")
    assert archived.replay.get(f"/c/{TS}dl_/{site}/f.pdf")["Content-Type"] == "application/pdf"

    decide(archived.builder, Level.TEXT, domain=host_of(site))

    assert archived.replay.get(f"/c/{TS}dl_/{site}/f.pdf").status == 404
    assert archived.replay.get(f"/c/{TS}/{site}/f.pdf").status == 200
    assert "plain" in archived.replay.get(f"/c/{TS}/{site}/t.txt").text


def test_what_cannot_be_read_is_not_taken_for_no_rule(collection: CollectionBuilder, site: str) -> None:
    """Playback fails closed: no copy is shown while nobody can say at which level."""
    collection.page(f"{site}/", "<p>secret</p>")
    collection.layout.decisions_db.write_bytes(b"no database at all" * 99)

    with running_replay(collection.layout.root) as replay:
        replies = [replay.get(f"/c/{TS}{mark}/{site}/") for mark in ("", *MODIFIERS.values(), "mp_")]

    assert {reply.status for reply in replies} == {503}
    assert all("secret" not in reply.text for reply in replies)


def choices(text: str) -> list[tuple[str, str, bool]]:
    """Return the levels that a reader's page offers: label, address, whether it is the current one."""
    nav = re.search(r'<nav class="levels".*?</nav>', text, re.DOTALL)
    links = re.findall(r'<a href="([^"]*)"([^>]*)>\s*([^<]*?)\s*</a>', nav[0]) if nav else []
    return [(label, address, "aria-current" in more) for address, more, label in links]


def test_the_reader_is_offered_the_levels_that_are_allowed(served: ServedCollection, site: str) -> None:
    """The current one is marked, and stays in the address of everything that this page leads to."""
    served.builder.page(f"{site}/", "<p>x</p>", shot=png("red", (60, 60)), text="x")

    usual = served.get(f"/page/{TS}/{site}/").text
    chosen = served.get(f"/page/{TS}rd_/{site}/").text

    assert choices(usual) == [
        ("Text only", f"/page/{TS}tx_/{site}/", False),
        ("Reader view", f"/page/{TS}rd_/{site}/", False),
        ("Without images", f"/page/{TS}ni_/{site}/", False),
        ("With images", f"/page/{TS}/{site}/", True),
    ]
    assert [each for each in choices(chosen) if each[2]] == [("Reader view", f"/page/{TS}rd_/{site}/", True)]
    assert f'src="{served.replay}/c/{TS}rd_/{site}/"' in chosen
    assert f'href="/screenshot/{TS}rd_/{site}/"' in chosen
    assert served.get(f"/page/20200101000000rd_/{site}/")["Location"] == f"/page/{TS}rd_/{site}/"


def test_the_front_leads_down_to_what_is_allowed(served: ServedCollection, site: str, wiki: str) -> None:
    """And offers nothing above it; the next page shows a change."""
    served.builder.page(f"{site}/", "<p>x</p>", shot=png("red", (60, 60)))
    decide(served.builder, Level.LIMITED, link=f"{site}/", wiki=wiki)
    here = f"/w/{wiki}/page/{TS}"

    above = served.get(f"{here}wi_/{site}/")
    page = served.get(f"{here}/{site}/").text

    assert (above.status, above["Location"]) == (302, f"{here}/{site}/")
    assert choices(page) == [("Text only", f"{here}tx_/{site}/", False), ("Reader view", f"{here}/{site}/", True)]
    assert f'src="{served.replay}/w/{wiki}/c/{TS}/{site}/"' in page
    assert len(choices(served.get(f"/page/{TS}/{site}/").text)) == 4
    decide(served.builder, Level.TEXT, link=f"{site}/", wiki=wiki)
    assert choices(served.get(f"{here}/{site}/").text) == []
    decide(served.builder, Level.FULL, link=f"{site}/", wiki=wiki)
    assert len(choices(served.get(f"{here}/{site}/").text)) == 4  # scripts are not served here


@pytest.mark.parametrize(
    ("mime", "body"), [("image/png", png()), ("video/webm", b"\x1aE\xdf\xa3film")], ids=["png", "film"]
)
def test_a_file_has_no_levels_and_is_shown_with_images_only(
    served: ServedCollection, site: str, mime: str, body: bytes
) -> None:
    """There is nothing to leave out of it; below images it is kept, but not shown."""
    page_id = served.builder.page(f"{site}/f", None, mime=mime)
    served.builder.response(f"{site}/f", body, mime=mime, page_id=page_id)
    copy = f"{served.replay}/c/{TS}/{site}/f"

    before = served.get(f"/page/{TS}/{site}/f").text
    lower = served.get(f"/page/{TS}ni_/{site}/f")
    decide(served.builder, Level.HTML, domain=host_of(site))
    after = served.get(f"/page/{TS}/{site}/f").text

    assert (copy in before, choices(before)) == (True, [])
    assert (lower.status, lower["Location"]) == (302, f"/page/{TS}/{site}/f")
    assert (copy in after, "stored but not shown" in after) == (False, True)


def test_everything_is_offered_where_it_is_served_and_allowed(full: FullSite, site: str) -> None:
    """And only there; by its ordinary address such a page is shown with images."""
    site, served = site.replace(".example", ".test"), full.served  # not below the domain that may
    for path in ("/app", "/other"):
        full.builder.page(f"{site}{path}", RICH.format(site=site))
    decide(full.builder, Level.FULL, link=f"{site}/app", wiki="handbook")

    page = served.get(f"/w/handbook/page/{TS}/{site}/app").text
    offered = {
        address: [label for label, _, _ in choices(served.get(address).text)]
        for address in (f"/page/{TS}/{site}/app", f"/w/handbook/page/{TS}/{site}/other")
    }
    everything = served.get(choices(page)[-1][1])

    assert choices(page)[-1] == (
        "With scripts", f"/w/handbook/full/{TS}/{site}/app", False
    )  # fmt: skip
    assert [label for label, _, current in choices(page) if current] == ["With images"]
    assert everything.status == 200
    assert {labels[-1] for labels in offered.values()} == {"With images"}


def test_no_picture_of_a_page_without_images_is_shown_on_the_front(served: ServedCollection, site: str) -> None:
    """Neither its thumbnail in lists nor its screenshot."""
    served.builder.page(f"{site}/", "<p>x</p>", shot=png("red", (60, 60)), title=f"T {site}")
    before = served.get(f"/?q={host_of(site)}").text
    decide(served.builder, Level.HTML, domain=host_of(site))

    after = served.get(f"/?q={host_of(site)}").text
    reader = served.get(f"/page/{TS}/{site}/").text
    shot = served.get(f"/screenshot/{TS}/{site}/").text

    uri = f"urn:{ArtifactKind.THUMBNAIL}:{site}/"
    assert (uri in before, uri in after) == (True, False)
    assert f"T {site}" in after
    assert "urn:" not in reader
    assert "urn:" not in shot


@pytest.mark.browser
async def test_a_browser_asks_for_no_image_where_none_is_shown(
    served: ServedCollection, site: str, browser: HeadlessBrowser, leaks: LeakListener
) -> None:
    """Not for one in the page, in its style or in its sheet; with images it asks for all of them."""
    sheet = b"h1{background:url(h.png)}td{color:green}"
    log = browser.home / "net.json"
    async with reader(leaks.port, f"--log-net-log={log}") as tab:
        for level, modifier in MODIFIERS.items():
            home = f"{site}/{level}"
            served.builder.response(f"{home}/s.css", sheet, mime="text/css")
            for name in ("i.png", "bg.png", "h.png"):
                served.builder.response(f"{home}/{name}", png(), mime="image/png")
            lazy = f'<img src="x.gif" srcset="{home}/i.png 2x" data-weboid-src="{home}/i.png">'
            data = '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'
            data += '<svg><image href="i.png"/></svg>'
            page = RICH.format(site=home).replace("<h1>", f"{lazy}{data}<h1>")
            served.builder.page(f"{home}/", page)
            await tab.open(f"{served.front}/page/{TS}{modifier}/{home}/")

    requested_urls = set(re.findall(r'"url":"([^"]*)"', log.read_text()))
    for level, modifier in MODIFIERS.items():
        home = f"{site}/{level}"
        copy = {url.removeprefix(served.replay) for url in requested_urls if url.startswith(served.replay)}
        copy = {url for url in copy if f"{home}/" in url}
        expected = {
            Level.HTML: {f"/c/{TS}cp_/{home}/s.css"},
            Level.IMAGES: {f"/c/{TS}cs_/{home}/s.css"}
            | {f"/c/{TS}im_/{home}/{name}" for name in ("i.png", "bg.png", "h.png")},
        }
        assert copy == {f"/c/{TS}{modifier}/{home}/"} | expected.get(level, set())
    assert leaks.requests == []
