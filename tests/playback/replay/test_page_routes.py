"""Pages as replay shows them: which capture, made from what, with which links."""

import io
from datetime import timedelta

import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from core.timestamps import timestamp14
from playback.access.levels import Level
from tests.support.playback_fixtures import FRONT, NOW, ReplayedCollection, decide, png

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)


def test_a_page_is_made_from_the_final_dom(archived: ReplayedCollection, site: str) -> None:
    """A page that scripts built reads as its visitor saw it, not as its source says."""
    archived.builder.response(f"{site}/", b"<p>loading</p><script>build()</script>")
    archived.builder.page(f"{site}/", "<!DOCTYPE html><title>T</title><p>built</p>")

    reply = archived.replay.get(f"/c/{TS}/{site}/")

    assert reply.status == 200
    assert "<p>built</p>" in reply.text
    assert "loading" not in reply.text


def test_a_page_without_a_dom_is_made_from_its_response(archived: ReplayedCollection, site: str) -> None:
    """Collections of other tools hold no DOM of ours."""
    archived.builder.response(
        f"{site}/", b"<title>S</title><p>source</p><noscript><i>fallback</i></noscript><script>x</script>"
    )

    reply = archived.replay.get(f"/c/{TS}/{site}/")

    assert "<p>source</p><i>fallback</i></body>" in reply.text


def test_another_moment_leads_to_the_nearest_page(archived: ReplayedCollection, site: str) -> None:
    """The address that a reader ends on tells the true date."""
    later = NOW + timedelta(days=400)
    for at in (NOW, later):
        archived.builder.page(f"{site}/", f"<p>{timestamp14(at)}</p>", at=at)

    reply = archived.replay.get(f"/c/{timestamp14(later + timedelta(days=900))}/{site}/")

    assert (reply.status, reply["Location"]) == (302, f"/c/{timestamp14(later)}/{site}/")
    assert timestamp14(later) in archived.replay.get(reply["Location"]).text


def test_a_failed_page_is_never_the_copy(archived: ReplayedCollection, site: str) -> None:
    """A failed visit, such as a challenge or a block, is not offered as the copy of the page."""
    archived.builder.page(f"{site}/", "<p>good</p>", at=NOW - timedelta(days=300))
    archived.builder.page(f"{site}/", "<p>challenge</p>", outcome=VisitOutcome.FAILED)

    reply = archived.replay.get(f"/c/{TS}/{site}/")

    assert reply["Location"].startswith(f"/c/{timestamp14(NOW - timedelta(days=300))}/")


def test_what_a_failed_page_was_sent_is_not_the_copy_either(archived: ReplayedCollection, site: str) -> None:
    """A challenge often comes with status 200 and looks like any response."""
    page_id = archived.builder.page(f"{site}/", None, outcome=VisitOutcome.FAILED)
    archived.builder.response(f"{site}/", b"<p>challenge</p>", page_id=page_id)

    assert archived.replay.get(f"/c/{TS}/{site}/").status == 404

    archived.builder.response(f"{site}/", b"<p>good</p>", at=NOW + timedelta(days=1))
    assert archived.replay.get(f"/c/{TS}/{site}/").status == 302


def test_a_challenge_is_never_the_copy_unless_on_purpose(archived: ReplayedCollection, site: str) -> None:
    """Its own timestamp leads to a good capture; only the address of the very capture shows it."""
    good = NOW - timedelta(days=300)
    archived.builder.page(f"{site}/", "<p>good</p>", at=good)
    archived.builder.page(f"{site}/", "<p>wall</p>", page_class=PageClass.CHALLENGE)

    reply = archived.replay.get(f"/c/{TS}/{site}/")
    assert (reply.status, reply["Location"]) == (302, f"/c/{timestamp14(good)}/{site}/")
    assert "wall" in archived.replay.get(f"/c/{TS}mp_/{site}/").text
    assert archived.replay.get(f"/c/{timestamp14(good)[:-1]}9mp_/{site}/").status == 404


def test_the_response_of_a_challenge_is_not_the_copy_either(archived: ReplayedCollection, site: str) -> None:
    """Without a DOM the page is made from responses: from a good page's before any other's."""
    page_id = archived.builder.page(f"{site}/", None, page_class=PageClass.CHALLENGE)
    archived.builder.response(f"{site}/", b"<p>wall</p>", page_id=page_id)

    assert archived.replay.get(f"/c/{TS}/{site}/").status == 404
    assert "wall" in archived.replay.get(f"/c/{TS}mp_/{site}/").text


def test_an_error_is_the_copy_only_where_there_is_no_other(archived: ReplayedCollection, site: str) -> None:
    """By its own timestamp it is shown; for any other moment a good capture is."""
    second = NOW + timedelta(days=1)
    archived.builder.page(f"{site}/", "<p>gone</p>", at=second, page_class=PageClass.SOFT_404)
    later = f"/c/{timestamp14(second + timedelta(days=1))}/{site}/"
    assert archived.replay.get(later)["Location"] == f"/c/{timestamp14(second)}/{site}/"

    archived.builder.page(f"{site}/", "<p>good</p>")
    assert archived.replay.get(later)["Location"] == f"/c/{TS}/{site}/"
    assert "gone" in archived.replay.get(f"/c/{timestamp14(second)}/{site}/").text


def test_links_lead_to_the_front_and_images_to_the_image_route(archived: ReplayedCollection, site: str) -> None:
    """Nothing that a page refers to leads to the live web."""
    archived.builder.page(
        f"{site}/a/",
        "<html data-weboid-written>"
        f'<a href="https://other.example/x?y=1#part">out</a><a href="{site}/a/#in">in</a>'
        '<a href="javascript:alert(1)">js</a>'
        f'<img src="spinner.gif" srcset="big.png 2x" data-weboid-src="{site}/real.png?v=1&amp;w=2">',
    )

    text = archived.replay.get(f"/c/{TS}/{site}/a/").text

    assert f'href="{FRONT}/page/{TS}/https://other.example/x?y=1" target="_top"' in text
    assert 'href="#in" target="_self"' in text
    assert "javascript" not in text
    assert '<a href="#weboid-nowhere" target="_self" rel="noreferrer nofollow">js</a>' in text
    assert f'<img src="/c/{TS}im_/{site}/real.png?v=1&amp;w=2">' in text
    assert "srcset" not in text


def test_style_sheets_keep_their_order_and_their_media(archived: ReplayedCollection, site: str) -> None:
    """The cascade of the copy is the cascade of the page."""
    archived.builder.page(
        f"{site}/",
        f'<head><link rel="stylesheet" href="{site}/1.css"><style media="print">p{{color:red}}</style>'
        f'<link rel="stylesheet" href="{site}/2.css" media="(min-width: 9px)"></head><p>x</p>',
    )

    text = archived.replay.get(f"/c/{TS}/{site}/").text

    first, second, third = (
        text.index(f'<link rel="stylesheet" href="/c/{TS}cs_/{site}/1.css">'),
        text.index('<style media="print">p{color:red;}</style>'),
        text.index(f'href="/c/{TS}cs_/{site}/2.css" media="(min-width: 9px)">'),
    )
    assert first < second < third


def test_the_characters_of_an_old_page_are_read_as_a_browser_does(archived: ReplayedCollection, site: str) -> None:
    """Byte order mark, header, meta element, in that order; the answer is always UTF-8."""
    cases = {
        "bom": (b"\xef\xbb\xbf<p>\xc3\xa9</p>", "text/html; charset=iso-8859-1"),
        "http": (b"<meta charset=utf-8><p>\xe9</p>", "text/html; charset=iso-8859-1"),
        "meta": (b'<meta charset="windows-1251"><p>\xe9</p>', "text/html"),
        "none": (b"<p>\xe9</p>", "text/html"),
    }
    for name, (body, content_type) in cases.items():
        archived.builder.response(f"{site}/{name}", body, content_type=content_type)

    texts = {name: archived.replay.get(f"/c/{TS}/{site}/{name}").text for name in cases}

    assert "<p>é</p>" in texts["bom"]
    assert "<p>é</p>" in texts["http"]
    assert "<p>й</p>" in texts["meta"]
    assert "<p>é</p>" in texts["none"]


def test_quirks_mode_is_kept(archived: ReplayedCollection, site: str) -> None:
    """A page without a doctype was laid out by other rules, and still is."""
    archived.builder.page(f"{site}/old", "<html><body>old</body></html>")
    archived.builder.page(f"{site}/new", "<!doctype HTML><html><body>new</body></html>")

    assert archived.replay.get(f"/c/{TS}/{site}/old").text.startswith("<html>")
    assert archived.replay.get(f"/c/{TS}/{site}/new").text.startswith("<!DOCTYPE html><html>")


def test_an_archived_redirect_stays_in_the_archive(archived: ReplayedCollection, site: str) -> None:
    """A redirect leads to the copy of its target; to what is no web address it leads nowhere."""
    targets = {
        "/a": f"{site}/b",
        "/relative": "b?c=1",
        "/protocol": "//evil.example/x",
        "/js": "javascript:alert(1)",
        "/data": "data:text/html,x",
        "/backslash": "\\\\evil.example",
        "/self": f"{site}/self",
    }
    for path, target in targets.items():
        archived.builder.response(site + path, b"", status=302, headers=(("Location", target),), mime="unk")

    replies = {path: archived.replay.get(f"/c/{TS}/{site}{path}") for path in targets}

    assert replies["/a"]["Location"] == f"/c/{TS}/{site}/b"
    assert replies["/relative"]["Location"] == f"/c/{TS}/{site}/b?c=1"
    assert replies["/protocol"]["Location"] == f"/c/{TS}/https://evil.example/x"
    assert replies["/backslash"]["Location"].startswith(f"/c/{TS}/https://")
    assert {replies[path].status for path in ("/js", "/data", "/self")} == {404}


def test_a_pdf_is_handed_out_under_a_neutral_name(archived: ReplayedCollection, site: str) -> None:
    """A PDF is never opened inside the archive's origin, and what only claims to be one never."""
    archived.builder.response(f"{site}/a.pdf", b"%PDF-1.7 ...", mime="application/pdf")
    archived.builder.response(f"{site}/b.pdf", b"<html>x", mime="application/pdf")

    good = archived.replay.get(f"/c/{TS}dl_/{site}/a.pdf")

    assert good.body == b"%PDF-1.7 ..."
    assert good["Content-Type"] == "application/pdf"
    assert good["Content-Disposition"] == f'attachment; filename="capture-{TS}.pdf"'
    for modifier in ("", "dl_"):
        assert archived.replay.get(f"/c/{TS}{modifier}/{site}/b.pdf").status == 404


def pdf_of(*pages: str) -> bytes:
    """Return a PDF with a line of text on each page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R /Resources {font} >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    body, offsets = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    return (
        f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode()


def test_a_pdf_is_shown_page_by_page(archived: ReplayedCollection, site: str) -> None:
    """Each page as a picture of ours and as its text, which is escaped; nothing of the file acts."""
    url = f"{site}/a.pdf"
    archived.builder.response(url, pdf_of("first <b>words", "second words"), mime="application/pdf")

    copy = archived.replay.get(f"/c/{TS}/{url}")

    assert copy.status == 200
    assert copy["Content-Type"] == "text/html; charset=utf-8"
    assert "PDF, 2 pages" in copy.text
    assert "first &lt;b&gt;words" in copy.text
    assert copy.text.index("first") < copy.text.index("second")
    pictures = [f"/c/{TS}im_/urn:pdfpage-{number}:{url}" for number in (1, 2)]
    for address in pictures:
        assert f'src="{address}"' in copy.text
        picture = archived.replay.get(address)
        assert picture["Content-Type"] == "image/webp"
        with Image.open(io.BytesIO(picture.body)) as image:
            assert image.width == 1_200
            assert len(image.convert("L").getcolors() or ()) > 1  # something is drawn
    assert archived.replay.get(f"/c/{TS}im_/urn:pdfpage-3:{url}").status == 404


def test_of_a_pdf_only_the_text_is_shown_below_images(archived: ReplayedCollection, site: str) -> None:
    """By the reader's choice or by a rule, which its pictures obey, too."""
    url = f"{site}/a.pdf"
    archived.builder.response(url, pdf_of("the words"), mime="application/pdf")

    chosen = archived.replay.get(f"/c/{TS}tx_/{url}").text
    decide(archived.builder.layout, Level.TEXT, link=url)
    ruled = archived.replay.get(f"/c/{TS}/{url}").text

    for text in (chosen, ruled):
        assert "the words" in text
        assert "<img" not in text
    for target in (f"im_/urn:pdfpage-1:{url}", f"dl_/{url}"):
        assert archived.replay.get(f"/c/{TS}{target}").status == 404


# No password fits these digests.
ENCRYPTED_PDF = pdf_of("secret words").replace(
    b"/Root 1 0 R",
    b"/Root 1 0 R /ID [<00> <00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4"
    b" /O <" + b"11" * 32 + b"> /U <" + b"22" * 32 + b"> >>",
)


@pytest.mark.parametrize(
    ("body", "reason"), [(b"%PDF-1.7 broken", "damaged"), (ENCRYPTED_PDF, "encrypted")], ids=["broken", "encrypted"]
)
def test_a_pdf_that_cannot_be_shown_says_so(archived: ReplayedCollection, site: str, body: bytes, reason: str) -> None:
    """The file itself is handed out all the same."""
    url = f"{site}/a.pdf"
    archived.builder.response(url, body, mime="application/pdf")

    assert reason in archived.replay.get(f"/c/{TS}/{url}").text
    assert archived.replay.get(f"/c/{TS}im_/urn:pdfpage-1:{url}").status == 404
    assert archived.replay.get(f"/c/{TS}dl_/{url}").body == body


def test_other_main_resources_are_shown_as_images_or_text_or_not_at_all(
    archived: ReplayedCollection, site: str
) -> None:
    """Images and plain text get a document of ours; programs and archives are kept, not shown."""
    archived.builder.response(f"{site}/a.png", png(), mime="image/png")
    archived.builder.response(f"{site}/a.txt", b"<script>1 & 2</script>", mime="text/plain")
    archived.builder.response(f"{site}/a.exe", b"MZ", mime="application/x-msdownload")
    archived.builder.response(f"{site}/a.svg", b"<svg/>", mime="image/svg+xml")

    assert f'<img src="/c/{TS}im_/{site}/a.png"' in archived.replay.get(f"/c/{TS}/{site}/a.png").text
    assert "&lt;script&gt;1 &amp; 2" in archived.replay.get(f"/c/{TS}/{site}/a.txt").text
    assert archived.replay.get(f"/c/{TS}/{site}/a.exe").status == 404
    assert f'<img src="/c/{TS}im_/{site}/a.svg"' in archived.replay.get(f"/c/{TS}/{site}/a.svg").text


def test_the_very_url_wins_over_one_with_the_same_key(archived: ReplayedCollection, site: str) -> None:
    """Replay keys fold case, scheme and hash-bangs; a page must not stand in for another."""
    pages = [f"{site}/Page", f"{site}/page", f"{site}/#!/one", f"{site}/#!/two"]
    for place, url in enumerate(pages):
        archived.builder.page(url, f"<p>{place}</p>", at=NOW + timedelta(seconds=place))

    for place, url in enumerate(pages):
        address = f"/c/{timestamp14(NOW + timedelta(seconds=3))}/{url.replace('#', '%23')}"
        reply = archived.replay.get(archived.replay.get(address)["Location"] if place < 3 else address)
        assert f"<p>{place}</p>" in reply.text


def test_the_text_of_a_page_is_plain_text(archived: ReplayedCollection, site: str) -> None:
    """The text artifact is served as text, and no other artifact is served by that route."""
    archived.builder.page(f"{site}/", "<p>x</p>", text="<b>words</b>")

    reply = archived.replay.get(f"/c/{TS}id_/urn:text:{site}/")

    assert (reply.text, reply["Content-Type"]) == ("<b>words</b>", "text/plain; charset=utf-8")
    for kind in (ArtifactKind.DOM, ArtifactKind.PAGEINFO):
        assert archived.replay.get(f"/c/{TS}id_/urn:{kind}:{site}/").status == 404


def test_a_reader_who_has_the_copy_is_told_so(archived: ReplayedCollection, site: str) -> None:
    """Asking again costs a look-up, not a page; a new capture changes the ETag."""
    archived.builder.page(f"{site}/", "<p>x</p>")
    first = archived.replay.get(f"/c/{TS}/{site}/")

    second = archived.replay.get(f"/c/{TS}/{site}/", headers={"If-None-Match": first["ETag"]})

    assert (second.status, second.body) == (304, b"")
    assert second["ETag"] == first["ETag"]
    assert first["Memento-Datetime"] == "Sun, 01 Mar 2026 12:00:00 GMT"


@pytest.mark.parametrize("place", ["/", "/i.png", "/s.css"])
def test_being_told_so_changes_nothing_of_what_the_reader_has(
    archived: ReplayedCollection, site: str, place: str
) -> None:
    """A browser takes a 304's headers for its copy's own (RFC 9111, 3.2): policy and embedding stay."""
    archived.builder.page(f"{site}/", "<p>x</p>")
    archived.builder.response(f"{site}/i.png", png(), mime="image/png")
    archived.builder.response(f"{site}/s.css", b"p{color:red}", mime="text/css")
    modifier = {"/": "", "/i.png": "im_", "/s.css": "cs_"}[place]
    address = f"/c/{TS}{modifier}/{site}{place}"
    first = archived.replay.get(address)

    second = archived.replay.get(address, headers={"If-None-Match": first["ETag"]})

    assert (first.status, second.status) == (200, 304)
    for name in ("Content-Security-Policy", "Cross-Origin-Resource-Policy"):
        assert second[name] == first[name]
