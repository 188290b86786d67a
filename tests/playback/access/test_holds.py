"""Payloads with a threat never leave, listed addresses stand behind a notice (C-16, P-16)."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from core.captures import ArtifactKind
from core.digests import sha256_digest
from core.timestamps import timestamp14
from playback.access.decision_store import DecisionStore, open_decisions
from playback.access.holds import ScanVerdict, store_verdicts
from playback.access.threat_lists import ListEffect, ThreatList, add_list, lists_folder, remove_list, url_hashes
from tests.support.playback_fixtures import (
    FRONT,
    NOW,
    CollectionBuilder,
    FullSite,
    ReplayedCollection,
    ServedCollection,
    StoredReply,
    fetch,
    png,
    running_replay,
)

pytestmark = pytest.mark.playback

AT = timestamp14(NOW)
PDF = b"%PDF-1.4 a paper"


@pytest.fixture
def store(archived: ReplayedCollection) -> Iterator[DecisionStore]:
    """Yield the decision store of the collection that `archived` replays."""
    with closing(open_decisions(archived.builder.layout)) as it:
        yield it


@pytest.fixture
def front_store(served: ServedCollection) -> Iterator[DecisionStore]:
    """Yield the decision store of the collection that `served` shows."""
    with closing(open_decisions(served.builder.layout)) as it:
        yield it


def verdict(digest: str, threat: str = "Eicar-Test") -> ScanVerdict:
    """Return a ClamAV verdict; an empty `threat` means that none was found."""
    return ScanVerdict(digest, threat, "ClamAV 1.4.3/27700", NOW)


def test_no_route_hands_out_a_payload_with_a_threat(
    archived: ReplayedCollection, store: DecisionStore, site: str
) -> None:
    """Page, source, picture, style, by its date or another, as a revisit, with a warm cache."""
    builder, get = archived.builder, archived.replay.get
    page = builder.response(f"{site}/page", b"<p>a virus in a page " + site.encode())
    picture = builder.response(f"{site}/i.png", png("red", (9, 9)), mime="image/png")
    style = builder.response(f"{site}/s.css", b"p{color:red} /*" + site.encode(), mime="text/css")
    paper = builder.response(f"{site}/p.pdf", PDF + site.encode(), mime="application/pdf")
    builder.revisit(f"{site}/mirror", page)
    targets = {
        f"/c/{AT}/{site}/page": 403,
        f"/c/{AT}/{site}/mirror": 403,
        f"/c/{AT}dl_/{site}/p.pdf": 403,
        f"/c/{AT}im_/{site}/i.png": 404,
        f"/c/{AT}cs_/{site}/s.css": 404,
    }
    before = {target: get(target) for target in targets}
    assert {reply.status for reply in before.values()} == {200}
    digests = [each.digest for each in (page, picture, style, paper)]
    store_verdicts(store, [verdict(each) for each in digests])

    for target, status in targets.items():
        warm = {"If-None-Match": before[target]["ETag"]}
        for reply in (get(target), get(target, headers=warm)):
            assert reply.status == status, target
            assert reply.body != before[target].body
            assert reply["Cache-Control"] == "no-store"
        if status == 403:
            assert "Eicar-Test" in get(target).text
    store_verdicts(store, [verdict(each, "") for each in digests])
    assert [get(target).body for target in targets] == [each.body for each in before.values()]


def test_a_page_is_held_for_what_its_site_sent_and_for_what_came_of_it(
    archived: ReplayedCollection, store: DecisionStore, site: str
) -> None:
    """A threat in the source holds the DOM back, one in the DOM the source's page; pictures stay."""
    builder, get = archived.builder, archived.replay.get
    urls = f"{site}/source", f"{site}/dom"
    held, page_id = [], ""
    for url in urls:
        page_id = builder.page(url, f"<p>{url}", shot=png("blue", (11, 11)), text=f"words of {url}")
        source = builder.response(url, b"<p>sent " + url.encode(), page_id=page_id)
        held.append(source)
    dom = builder.artifact(
        ArtifactKind.DOM, f"{site}/dom", b"<p>made of it", mime="text/html",
        at=NOW + timedelta(milliseconds=1), page_id=page_id,
    )  # fmt: skip
    routes = ("/c/{at}/{url}", "/c/{at}mp_/{url}", "/c/{at}id_/urn:text:{url}")

    def statuses(url: str) -> list[int]:
        return [get(route.format(at=AT, url=url)).status for route in routes]

    assert [statuses(url) for url in urls] == [[200, 200, 200]] * 2
    store_verdicts(store, [verdict(held[0].digest), verdict(dom.digest)])
    assert [statuses(url) for url in urls] == [[403, 403, 404]] * 2
    for url in urls:
        assert get(f"/c/{AT}im_/urn:view:{url}").status == 200
        assert get(f"/c/{AT}im_/urn:fullPage:{url}").status == 200


def test_the_same_bytes_under_another_digest_do_not_leave(
    archived: ReplayedCollection, store: DecisionStore, site: str
) -> None:
    """A threat found in the plain bytes holds their gzip-encoded capture, too, before that was scanned."""
    body = b"<p>known " + site.encode()
    plain = archived.builder.response(f"{site}/plain", body)
    archived.builder.response(f"{site}/gzip", gzip.compress(body), headers=(("Content-Encoding", "gzip"),))
    assert archived.replay.get(f"/c/{AT}/{site}/gzip").status == 200
    store_verdicts(store, [verdict(plain.digest)])
    assert archived.replay.get(f"/c/{AT}/{site}/gzip").status == 403


def test_the_reader_is_told_and_offered_the_screenshot(
    served: ServedCollection, front_store: DecisionStore, site: str
) -> None:
    """Of the threat, the scanner and the day; there is no frame and no download."""
    url = f"{site}/page"
    page_id = served.builder.page(url, "<p>x", shot=png(), text="x", title="A title")
    source = served.builder.response(url, b"sent" + site.encode(), page_id=page_id)
    assert "<iframe" in served.get(f"/page/{AT}/{url}").text
    store_verdicts(front_store, [verdict(source.digest, "Win.<b>Evil</b>")])

    for view in ("page", "as-captured", "text"):
        text = served.get(f"/{view}/{AT}/{url}").text
        assert "Win.&lt;b&gt;Evil&lt;/b&gt;" in text
        assert "ClamAV 1.4.3/27700" in text
        assert "View the screenshot" in text
        assert "<iframe" not in text
    assert "<img" in served.get(f"/screenshot/{AT}/{url}").text


def test_a_download_says_whether_it_was_scanned(
    served: ServedCollection, front_store: DecisionStore, site: str
) -> None:
    """Before a scan, after it, and when the scanner could not look."""
    url = f"{site}/p.pdf"
    page_id = served.builder.page(url, mime="application/pdf")
    paper = served.builder.response(url, PDF + site.encode(), mime="application/pdf", page_id=page_id)

    def page_text() -> str:
        return served.get(f"/page/{AT}/{url}").text

    assert "Not yet scanned for malware" in page_text()
    store_verdicts(front_store, [replace(verdict(paper.digest, ""), skipped="too large")])
    assert "Not yet scanned for malware" in page_text()
    store_verdicts(front_store, [verdict(paper.digest, "")])
    assert "no threat found" in page_text()
    assert "Download the archived file" in page_text()


def test_downloads_wait_for_the_scanner_when_so_set(collection: CollectionBuilder, site: str) -> None:
    """Pages are shown all the same; a payload that the scanner could not look into goes on waiting."""
    paper = collection.response(f"{site}/p.pdf", PDF, mime="application/pdf")
    collection.response(f"{site}/page", b"<p>a page")
    with (
        running_replay(collection.layout.root, FRONT, "--unscanned", "hold-downloads") as replay,
        closing(open_decisions(collection.layout)) as store,
    ):
        target = f"/c/{AT}dl_/{site}/p.pdf"
        assert replay.get(f"/c/{AT}/{site}/page").status == 200
        assert "scanned" in replay.get(target).text
        store_verdicts(store, [replace(verdict(paper.digest, ""), skipped="too large")])
        assert replay.get(target).status == 403
        store_verdicts(store, [verdict(paper.digest, "")])
        assert replay.get(target).body == PDF


# ------------------------------------------------------------------------------- addresses


Lister = Callable[..., None]


@pytest.fixture
def listing(served: ServedCollection, front_store: DecisionStore) -> Iterator[Lister]:
    """Put addresses on a list, which is removed after the test."""
    folder = lists_folder(served.builder.layout.decisions_db)
    names: set[str] = set()

    def put(url: str, effect: ListEffect = ListEffect.HOLD, size: int = 32) -> None:
        about = ThreatList(f"bad of {url}", "", effect, "known for <phishing>", 0, NOW)
        add_list(front_store, folder, about, [url_hashes(url)[0][:size]])
        names.add(about.name)

    yield put
    for name in names:
        remove_list(front_store, folder, name)


def ask(served: ServedCollection, target: str) -> StoredReply:
    """Replay's answer."""
    return fetch(served.replay, target)


def test_a_notice_stands_before_the_copy_of_a_listed_address(
    served: ServedCollection, listing: Lister, site: str
) -> None:
    """On the front and on replay; who passes it sees the copy, and the live page is behind one, too."""
    url = f"{site}/a/page?x=1"
    served.builder.page(url, "<p>a secret", shot=png())
    listing(f"{site}/")
    reader = served.get(f"/page/{AT}/{url}").text
    direct = ask(served, f"/c/{AT}/{url}")

    assert "This address is on a list of harmful addresses" in reader
    assert "known for &lt;phishing&gt;" in reader
    assert "1 March 2026" in reader
    assert "<iframe" not in reader
    assert f'href="/as-captured/{AT}/{url}"' in reader
    assert f'href="/live/{url}"' in reader
    assert (direct.status, "a secret" in direct.text) == (403, False)
    assert f"{served.front}/as-captured/{AT}/{url}" in direct.text
    assert "<iframe" in served.get(f"/as-captured/{AT}/{url}").text
    assert "a secret" in ask(served, f"/c/{AT}mp_/{url}").text
    assert "<img" in served.get(f"/screenshot/{AT}/{url}").text


def test_what_redirects_to_a_listed_address_is_listed(served: ServedCollection, listing: Lister, site: str) -> None:
    """A shortened link is as bad as what it leads to."""
    url = f"{site}/short"
    served.builder.page(url, "<p>x", final_url="https://evil.of-redirects.example/")
    listing("https://evil.of-redirects.example/")

    assert "This address is on a list" in served.get(f"/page/{AT}/{url}").text
    assert ask(served, f"/c/{AT}/{url}").status == 403


def test_a_list_may_only_warn(served: ServedCollection, listing: Lister, site: str) -> None:
    """Then the copy is there beside the notice; a short entry is said to be no proof."""
    url = f"{site}/page"
    served.builder.page(url, "<p>a secret")
    listing(f"{site}/", ListEffect.WARN, 4)
    reader = served.get(f"/page/{AT}/{url}").text

    assert "<iframe" in reader
    assert "known for &lt;phishing&gt;" in reader
    assert "same hash prefix" in reader
    assert ask(served, f"/c/{AT}/{url}").status == 200


def test_before_the_live_page_a_listed_address_is_said(served: ServedCollection, listing: Lister, site: str) -> None:
    """It is never a redirect, and links to pages of the web only."""
    listing(f"{site}/")
    reply = served.get(f"/live/{site}/x?y=1")

    assert reply.status == 200
    assert f'href="{site}/x?y=1"' in reply.text
    assert "as of" in reply.text
    for target in ("javascript:alert(1)", "urn:view:https://a.example/", "data:text/html,x"):
        assert served.get(f"/live/{target}").status == 404


def test_a_list_that_cannot_be_read_shows_nothing(collection: CollectionBuilder, site: str) -> None:
    """Playback says "not now"; it goes on when the file is back."""
    collection.page(f"{site}/page", "<p>a secret")
    folder = lists_folder(collection.layout.decisions_db)
    with closing(open_decisions(collection.layout)) as store:
        about = ThreatList("x", "", ListEffect.HOLD, "", 0, NOW)
        made = add_list(store, folder, about, url_hashes("https://other.example/"))
        path = folder / made.file
        content = path.read_bytes()
        path.unlink()
        with running_replay(collection.layout.root) as replay:
            assert replay.get(f"/c/{AT}/{site}/page").status == 503
            path.write_bytes(content)
            assert replay.get(f"/c/{AT}/{site}/page").status == 200


# ------------------------------------------------------------------------------- with scripts


def test_a_copy_in_full_is_held_too(full: FullSite, site: str) -> None:
    """Its origin answers no more, and the front leads to the page that says why."""
    url = f"{site}/"
    document = f"<!DOCTYPE html><title>{site}</title><script>1</script>"
    full.page(url, document)
    digest = sha256_digest(document.encode())
    frame = full.frame(url)
    assert full.part(frame, "mp_", url, "iframe").status == 200
    with closing(open_decisions(full.builder.layout)) as store:
        store_verdicts(store, [verdict(digest)])
        reply = full.part(frame, "mp_", url, "iframe")
        assert (reply.status, b"Eicar-Test" in reply.body) == (403, True)
        for view in ("full", "full-view"):
            answer = full.served.get(f"/{view}/{AT}/{url}")
            assert (answer.status, answer["Location"]) == (302, f"/page/{AT}/{url}")
        store_verdicts(store, [verdict(digest, "")])
    assert full.part(frame, "mp_", url, "iframe").status == 200


def test_the_notice_before_scripts_says_that_an_address_is_listed(full: FullSite, site: str) -> None:
    """Readers who go on to the full copy see both warnings."""
    url = f"{site}/"
    full.page(url, "<!DOCTYPE html><title>x</title>")
    full.frame(url)
    folder = lists_folder(full.builder.layout.decisions_db)
    with closing(open_decisions(full.builder.layout)) as store:
        about = ThreatList("bad", "", ListEffect.HOLD, "known for it", 0, NOW)
        add_list(store, folder, about, url_hashes(url))
        assert "known for it" in full.served.get(f"/full/{AT}/{url}").text
        remove_list(store, folder, "bad")
