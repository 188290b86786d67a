"""Take-downs on every route of the real front and the real replay, with warm caches."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import Any

import pytest

from core.captures import ArtifactKind, artifact_uri
from core.clock import SystemClock
from core.layout import Layout
from core.page_classes import PageClass
from core.timestamps import timestamp14
from playback.access import takedowns as book
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.takedown_audit import (
    AuditReport,
    HeldValidators,
    TakedownAuditor,
    cases_of,
    embedding_cases,
    every_route,
    front_paths,
    front_probes,
    traces_of,
)
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, StoredReply, fetch, png, serving
from tests.support.polling import wait_until
from tests.warc.index.test_database import copy
from warc.index.database import open_database

pytestmark = pytest.mark.playback

_CLOCK = SystemClock()
AT = timestamp14(NOW)


@dataclass
class RunningArchive:
    """A running archive, and its decisions."""

    served: ServedCollection
    layout: Layout

    @property
    def builder(self) -> CollectionBuilder:
        """Return the builder of the served collection."""
        return self.served.builder

    def take_down(self, what: str, kind: TakedownKind = TakedownKind.URL, **changes: Any) -> int:
        """Take it down now and return the number of the take-down."""
        values: dict[str, Any] = {
            "timestamp": "",
            "effect": TakedownEffect.BLOCK,
            "reason": "By order 7.",
            "ticket": "T",
        }
        values |= {"actor": "anna", "decided_at": _CLOCK.now(), "expires_at": None}
        takedown = Takedown(number=0, kind=kind, what=what, **(values | changes))
        with contextlib.closing(open_decisions(self.layout)) as store:
            book.add_takedowns(store, [takedown])
            return book.list_takedowns(store)[-1].number

    def lift(self, number: int) -> None:
        """Lift the take-down."""
        with contextlib.closing(open_decisions(self.layout)) as store:
            book.lift_takedowns(store, [number], actor="anna", reason="done", now=_CLOCK.now())

    def replay(self, target: str, **headers: str) -> StoredReply:
        """Request a target from replay."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return fetch(self.served.replay, target, headers=named)

    def front(self, target: str) -> StoredReply:
        """Request a target from the front."""
        return fetch(self.served.front, target)

    def proof(self, url: str, warm: HeldValidators | None = None, *, before: bool = False) -> AuditReport:
        """Request the URL on every route and return the report of the audit."""
        now = _CLOCK.now()
        with (
            contextlib.closing(open_database(self.layout, "")) as database,
            contextlib.closing(open_decisions(self.layout)) as decisions,
            contextlib.closing(TakedownAuditor(self.served.front, self.served.replay)) as prover,
        ):
            permits = AccessControl(decisions, database.rows, lambda: now)
            cases = cases_of(database, None if before else permits, url, now)
            sought = traces_of(self.layout, database, cases, permits, now)
            cases += [] if before else embedding_cases(database, permits, cases)
            app = every_route(database, decisions, self.served.replay)
            return prover.prove(cases, sought, app, warm)

    def sought(self, url: str) -> tuple[str, ...]:
        """Return the texts by which an audit recognises what was taken down."""
        now = _CLOCK.now()
        with (
            contextlib.closing(open_database(self.layout, "")) as database,
            contextlib.closing(open_decisions(self.layout)) as decisions,
        ):
            permits = AccessControl(decisions, database.rows, lambda: now)
            cases = cases_of(database, permits, url, now)
            return traces_of(self.layout, database, cases, permits, now).texts


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningArchive]:
    """Run one archive for all tests here; each uses URLs of its own."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("house") / "collection")
    with contextlib.closing(builder), serving(builder) as served:
        yield RunningArchive(served, builder.layout)


def statuses(house: RunningArchive, *targets: str) -> list[int]:
    """Return the HTTP status codes of replay."""
    return [house.replay(target).status for target in targets]


def whole_page(builder: CollectionBuilder, url: str, word: str, colour: str, **changes: Any) -> str:
    """Add a page with its artifacts and return its page id."""
    html = f"<title>The title of {word}</title><p>What {word} says is nobody's business.</p>"
    page_id = builder.page(
        url, html, title=f"The title of {word}", shot=png(colour, (160, 100)),
        text=f"What {word} says is nobody's business.", **changes,
    )  # fmt: skip
    builder.response(
        url, html.encode(), page_id=page_id, at=changes.get("at", NOW),
        login=changes.get("login", ""),
    )  # fmt: skip
    return page_id


@pytest.mark.parametrize(
    ("kind", "effect"), [(TakedownKind.URL, TakedownEffect.BLOCK), (TakedownKind.CAPTURE, TakedownEffect.HIDE)], ids=str
)
def test_no_route_shows_what_was_taken_down(
    kind: TakedownKind, effect: TakedownEffect, house: RunningArchive, site: str
) -> None:
    """Not with the ETags of before either; and it is shown again when that is lifted."""
    url = f"{site}/dir/page"
    word = f"{kind}{effect}wombat"
    whole_page(house.builder, url, word, f"#{sum(map(ord, kind)):06x}")
    before = house.proof(url, before=True)
    shown = {each.probe.route for each in before.leaks}
    assert {"/", "/api/pages", "/c/…/…", "/c/…im_/…", "/c/…id_/…"} <= shown
    assert before.warm.etags
    number = house.take_down(url, kind, effect=effect, timestamp=AT if kind is TakedownKind.CAPTURE else "")

    after = house.proof(url, before.warm)
    assert [(each.probe, each.leak) for each in after.leaks] == []
    assert after.is_sound
    answered = {each.status for each in after.findings if each.probe.target == f"/c/{AT}/{url}"}
    assert answered == ({404} if effect is TakedownEffect.HIDE else {451})
    house.lift(number)
    assert statuses(house, f"/c/{AT}/{url}", f"/c/{AT}im_/urn:view:{url}") == [200, 200]


_FRAMED_WORDS = "What the framed document says is private."


def framing_page(builder: CollectionBuilder, url: str, framed: str, *, source: str = "") -> str:
    """Add a page in which the document at `framed` stands in a frame and return its page id."""
    inner = f'<html data-weboid-url="{framed}"><body><p>{_FRAMED_WORDS}</p></body></html>'
    dom = (
        f"<title>The embedding page's title</title><p>Words of the embedding page.</p>"
        f'<iframe src="{source or framed}" data-weboid-document="{escape(inner)}"></iframe>'
    )
    page_id = builder.page(
        url, dom, title="The embedding page's title", shot=png("blue", (160, 100)),
        text=f"Words of the embedding page.\n{_FRAMED_WORDS}",
    )  # fmt: skip
    builder.response(framed, f"<p>{_FRAMED_WORDS}</p>".encode(), page_id=page_id)
    return page_id


@pytest.mark.parametrize("kind", [TakedownKind.URL, TakedownKind.HOST, TakedownKind.DIGEST])
@pytest.mark.parametrize("is_redirected", [False, True])
def test_a_framed_document_is_withheld_wherever_it_is_shown(
    house: RunningArchive, site: str, kind: TakedownKind, is_redirected: bool
) -> None:
    """The embedding page is shown without it; its text and its screenshots are not shown."""
    url, framed = f"{site}/page", f"{site.replace('://', '://framed.')}/words"
    framing_page(house.builder, url, framed, source=f"{site}/elsewhere" if is_redirected else framed)
    levels = ["", "tx_", "rd_", "ni_", "wi_"]
    parts = [f"id_/urn:text:{url}", f"im_/urn:view:{url}", f"im_/urn:fullPage:{url}"]
    parts += [f"im_/urn:thumbnail:{url}"]
    before = [house.replay(f"/c/{AT}{level}/{url}") for level in levels]
    assert all(_FRAMED_WORDS in reply.text for reply in before)
    assert statuses(house, *(f"/c/{AT}{part}" for part in parts)) == [200] * 4
    digest = hashlib.sha256(f"<p>{_FRAMED_WORDS}</p>".encode()).hexdigest()
    names = {TakedownKind.URL: framed, TakedownKind.HOST: framed.split("/")[2], TakedownKind.DIGEST: f"sha256:{digest}"}

    number = house.take_down(names[kind], kind)

    for level, held in zip(levels, before, strict=True):
        reply = house.replay(f"/c/{AT}{level}/{url}", If_None_Match=held["ETag"])
        assert reply.status == 200
        assert "Words of the embedding page." in reply.text
        assert _FRAMED_WORDS not in reply.text
    assert statuses(house, *(f"/c/{AT}{part}" for part in parts)) == [451] * 4
    page = house.front(f"/page/{AT}/{url}").text
    assert "An embedded document, the page’s text and its screenshot are not shown" in page  # noqa: RUF001
    assert "/screenshot/" not in page
    assert "/text/" not in page
    house.lift(number)
    assert _FRAMED_WORDS in house.replay(f"/c/{AT}/{url}").text


def test_a_frame_of_an_older_artifact_is_withheld_when_its_url_is_unknown(house: RunningArchive, site: str) -> None:
    """It may be the one that was taken down, so it is not shown; a page without such is left alone."""
    url, framed = f"{site}/page", f"{site}/framed"
    inner = f"<html><body>{_FRAMED_WORDS}</body></html>"
    dom = f'<p>outer words</p><iframe src="{site}/from" data-weboid-document="{inner}"></iframe>'
    page_id = house.builder.page(url, dom)
    house.builder.response(framed, inner.encode(), page_id=page_id)
    house.builder.page(f"{site}/other", dom.replace("outer", "other"))
    house.take_down(framed)

    assert _FRAMED_WORDS not in house.replay(f"/c/{AT}/{url}").text
    assert _FRAMED_WORDS in house.replay(f"/c/{AT}/{site}/other").text


def test_a_proof_asks_the_pages_that_embed_what_was_taken_down(house: RunningArchive, site: str) -> None:
    """It finds no leak in them, and none in the embedding page's own title."""
    url, framed = f"{site}/page", f"{site}/framed"
    framing_page(house.builder, url, framed)
    whole_page(house.builder, framed, f"framed {site}", "green")
    house.take_down(framed)

    proof = house.proof(framed)

    assert proof.leaks == []
    assert proof.is_sound
    assert any(finding.probe.target == f"/c/{AT}/{url}" for finding in proof.findings)


def test_changes_do_not_tell_the_words_of_a_framed_document(house: RunningArchive, site: str) -> None:
    """The texts of the embedding pages hold them, so they are not compared."""
    url, framed = f"{site}/page", f"{site}/framed"
    framing_page(house.builder, url, framed)
    later = NOW + timedelta(days=1)
    house.builder.page(url, "<p>later</p>", text="later", at=later)
    target = f"/changes/{AT}/{timestamp14(later)}/{url}"
    assert "private" in house.front(target).text

    house.take_down(framed)

    assert "private" not in house.front(target).text


def test_what_other_pages_are_called_too_is_no_sign_of_a_leak(house: RunningArchive, site: str) -> None:
    """A main page is called as its site, and the site's name is in the title of every other page."""
    word = f"library {site}"
    whole_page(house.builder, f"{site}/main", word, "green")
    whole_page(house.builder, f"{site}/other", f"{word} - other", "blue")
    first = house.take_down(f"{site}/main")
    title = f"The title of {word}"

    assert title not in house.sought(f"{site}/main")

    second = house.take_down(f"{site}/other")
    assert title in house.sought(f"{site}/main")
    house.lift(first)
    house.lift(second)


def test_a_blocked_page_says_why_and_by_whom(house: RunningArchive, site: str) -> None:
    """451 with the public reason and RFC 7725's link; in lists, its address and nothing of its own."""
    url = f"{site}/page"
    whole_page(house.builder, url, "quokka", "navy")
    house.take_down(url, reason="Removed at the author's request.", ticket="SECRET-5")

    for reply in (house.replay(f"/c/{AT}/{url}"), house.front(f"/page/{AT}/{url}")):
        assert reply.status == 451
        assert "author" in reply.text
        assert "SECRET-5" not in reply.text
        assert reply["Link"] == f'<{house.served.front}/>; rel="blocked-by"'
    (listed,) = _listed(house, url)
    assert (listed["title"], listed["artifacts"], listed["has_copy"]) == ("", [], False)
    assert listed["blocked"] == "Removed at the author's request."
    never = house.front("/?q=quakka").text.replace("quakka", "quokka")
    assert house.front("/?q=quokka").text == never  # its title does not find it
    assert house.front(f"/latest/{url}").status == 451


def _listed(house: RunningArchive, url: str) -> list[dict[str, Any]]:
    import json

    document = json.loads(house.front(f"/api/pages?q={url}").body)
    return [each for each in document["pages"] if each["url"] == url]


def test_a_hidden_page_was_never_captured(house: RunningArchive, site: str) -> None:
    """Its answers are, byte by byte, those of a page that nobody ever asked for."""
    url, never = f"{site}/secret", f"{site}/unseen"
    whole_page(house.builder, url, "numbat", "olive")
    house.take_down(url, effect=TakedownEffect.HIDE)

    assert _listed(house, url) == []
    for view in ("page", "screenshot", "text"):
        one, other = (house.front(f"/{view}/{AT}/{each}") for each in (url, never))
        assert (one.status, other.status) == (404, 404)
        assert one.text.replace(url, never) == other.text
    for form in ("", "mp_", "im_", "id_", "cs_"):
        one, other = (house.replay(f"/c/{AT}{form}/{each}") for each in (url, never))
        assert (one.status, one.text.replace(url, never)) == (404, other.text)
    kinds = (ArtifactKind.VIEW, ArtifactKind.THUMBNAIL, ArtifactKind.FULL_PAGE)
    uris = [artifact_uri(kind, url) for kind in kinds]
    assert statuses(house, *(f"/c/{AT}im_/{uri}" for uri in uris)) == [404] * 3


def test_hidden_pages_leave_no_gap_in_lists(house: RunningArchive, site: str) -> None:
    """A part of the list is as long as ever."""
    for number in range(70):
        house.builder.page(f"{site}/{number:03}", "<p>x</p>", at=NOW + timedelta(days=9, seconds=number))
    for number in range(40, 69):
        house.take_down(f"{site}/{number:03}", effect=TakedownEffect.HIDE)

    urls = _listed_all(house, site)
    assert urls == [f"{site}/{number:03}" for number in (69, *range(39, -1, -1))]


def _listed_all(house: RunningArchive, words: str) -> list[str]:
    import json

    document = json.loads(house.front(f"/api/pages?q={words}").body)
    assert not document["has_more"]
    return [each["url"] for each in document["pages"]]


def test_of_a_page_the_image_alone_is_absent(house: RunningArchive, site: str) -> None:
    """The page that embeds it is shown; so is the same payload at another URL, but for a digest's."""
    image = f"{site}/i.png"
    body = png("maroon", (31, 17))
    page_id = house.builder.page(site + "/", f"<img src={image} alt=x>")
    original = house.builder.response(image, body, mime="image/png", page_id=page_id)
    other = f"{site}/j.png"
    house.builder.revisit(other, original)
    targets = [f"/c/{AT}/{site}/", f"/c/{AT}im_/{image}", f"/c/{AT}im_/{other}"]
    assert statuses(house, *targets) == [200, 200, 200]
    etag = house.replay(targets[1])["ETag"]
    number = house.take_down(image)
    assert statuses(house, *targets) == [200, 451, 200]
    assert house.replay(targets[1], If_None_Match=etag).status == 451
    house.lift(number)
    house.take_down(original.digest, TakedownKind.DIGEST)
    assert statuses(house, *targets) == [200, 451, 451]


def test_a_digest_holds_for_payloads_however_they_were_sent(house: RunningArchive, site: str) -> None:
    """Gzipped and chunked records spell other digests; what leaves is what was taken down."""
    import gzip
    import hashlib

    body = b"<!doctype html><p>The same text, in three wrappings."
    gzipped = gzip.compress(body, mtime=0)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    headers = {"a": (body, ()), "b": (gzipped, (("Content-Encoding", "gzip"),)),
               "c": (chunked, (("Transfer-Encoding", "chunked"),))}  # fmt: skip
    for name, (sent, more) in headers.items():
        house.builder.response(f"{site}/{name}", sent, headers=more)
    targets = [f"/c/{AT}/{site}/{name}" for name in headers]
    first = [house.replay(target) for target in targets]
    assert [each.status for each in first] == [200, 200, 200]
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    number = house.take_down(digest, TakedownKind.DIGEST)

    warm = [
        house.replay(target, If_None_Match=reply["ETag"]).status for target, reply in zip(targets, first, strict=True)
    ]
    assert warm == statuses(house, *targets) == [451, 451, 451]
    house.lift(number)
    assert statuses(house, *targets) == [200, 200, 200]


def test_a_page_whose_way_or_end_was_taken_down_is_not_shown(house: RunningArchive, site: str) -> None:
    """Its first address, where it led, and each hop between; a part that redirects is no hop."""
    start, hop, end = (f"{site}/{name}" for name in ("start", "hop", "end"))
    pixel, target = f"{site}/pixel", f"{site}/pixel.png"
    page_id = house.builder.page(start, "<p>arrived</p>", final_url=end, text="arrived")
    parts = (
        (start, 302, 0, hop), (hop, 302, 1, end), (end, 200, 2, ""),
        (pixel, 302, 3, target),
    )  # fmt: skip
    for url, status, after, location in parts:
        house.builder.response(
            url, b"<p>arrived</p>" if status == 200 else b"", status=status, page_id=page_id,
            at=NOW + timedelta(milliseconds=after * 10),
            headers=(("Location", location),) if location else (),
        )  # fmt: skip
    shown = [f"/c/{AT}/{start}", f"/c/{AT}id_/urn:text:{start}"]
    assert statuses(house, *shown) == [200, 200]
    for taken in (end, hop):
        number = house.take_down(taken)
        assert statuses(house, *shown) == [451, 451]
        assert house.front(f"/page/{AT}/{start}").status == 451
        house.lift(number)
    house.take_down(pixel)
    assert statuses(house, *shown) == [200, 200]


def test_one_capture_is_taken_down_with_what_is_its_own(house: RunningArchive, site: str) -> None:
    """The page's other captures stay, and so does what another page has, too."""
    url, own, shared = f"{site}/p", f"{site}/own.png", f"{site}/shared.png"
    later = NOW + timedelta(days=3)
    first = whole_page(house.builder, url, "first", "red")
    second = whole_page(house.builder, url, "second", "blue", at=later)
    for address, colour in ((own, "pink"), (shared, "grey")):
        house.builder.response(address, png(colour), mime="image/png", page_id=first)
    house.builder.response(shared, png("grey"), mime="image/png", page_id=second, at=later)
    house.take_down(url, TakedownKind.CAPTURE, timestamp=AT)
    then = timestamp14(later)

    pages = [f"/c/{AT}/{url}", f"/c/{then}/{url}"]
    pictures = [f"/c/{AT}im_/urn:view:{url}", f"/c/{then}im_/urn:view:{url}"]
    assert statuses(house, *pages) == [451, 200]
    assert house.replay(pictures[1]).status == 200
    assert statuses(house, f"/c/{AT}im_/{own}", f"/c/{AT}im_/{shared}") == [451, 200]
    assert house.front(f"/page/{then}/{url}").status == 200
    assert house.front(f"/page/{AT}/{url}").status == 451
    near = house.replay(f"/c/{timestamp14(NOW + timedelta(minutes=1))}/{url}")
    assert near["Location"] == f"/c/{then}/{url}"


def test_what_is_second_best_is_shown_where_the_best_is_blocked(house: RunningArchive, site: str) -> None:
    """A document of a page that said it was missing, when the good one was taken down."""
    url = f"{site}/p"
    missing = house.builder.page(
        f"{site}/from-a", at=NOW, final_url=url, page_class=PageClass.SOFT_404, mime="text/html"
    )
    good = house.builder.page(f"{site}/from-b", at=NOW, final_url=url, mime="text/html")
    for page_id, second in ((missing, 0), (good, 5)):
        at = NOW + timedelta(seconds=second)
        house.builder.response(url, b"<p>%d" % second, page_id=page_id, at=at)
    now, then = AT, timestamp14(NOW + timedelta(seconds=5))
    assert house.replay(f"/c/{now}/{url}")["Location"] == f"/c/{then}/{url}"
    house.take_down(url, TakedownKind.CAPTURE, timestamp=then)
    assert statuses(house, f"/c/{now}/{url}") == [200]


def test_a_take_down_ends_by_itself(house: RunningArchive, site: str) -> None:
    """At its moment, without anybody's doing: one that is over holds nothing."""
    url = f"{site}/p"
    whole_page(house.builder, url, "timely", "gold")
    house.take_down(url, expires_at=_CLOCK.now() - timedelta(seconds=1))
    assert statuses(house, f"/c/{AT}/{url}") == [200]
    house.take_down(url, expires_at=_CLOCK.now() + timedelta(hours=1))
    assert statuses(house, f"/c/{AT}/{url}") == [451]


def test_decisions_that_cannot_be_read_show_nothing(house: RunningArchive, site: str) -> None:
    """503 on both sides, until they can be read again."""
    url = f"{site}/p"
    whole_page(house.builder, url, "closed", "cyan")
    house.take_down(f"{site}/other")
    path = house.layout.decisions_db
    backup = path.with_name("kept")
    backup.mkdir()

    def move(source: Path, target: Path) -> None:
        # With its log, which by itself may hold every decision.
        for each in list(source.glob(f"{path.name}*")):
            each.rename(target / each.name)

    def answers() -> list[int]:
        front = [house.front(target).status for target in ("/", f"/page/{AT}/{url}")]
        return [*front, *statuses(house, f"/c/{AT}/{url}", f"/c/{AT}im_/urn:view:{url}")]

    assert answers() == [200] * 4
    move(path.parent, backup)
    assert answers() == [503] * 4
    path.write_bytes(b"no database")
    assert answers() == [503] * 4
    path.unlink()
    move(backup, path.parent)
    assert answers() == [200] * 4


def test_a_route_that_cannot_be_asked_is_told(house: RunningArchive, site: str) -> None:
    """A new route that takes something else than an address is no route that is silently left out."""
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    url = f"{site}/p"
    whole_page(house.builder, url, "lost", "cyan")
    with (
        contextlib.closing(open_database(house.layout, "")) as database,
        contextlib.closing(open_decisions(house.layout)) as decisions,
    ):
        cases = cases_of(database, None, url, _CLOCK.now())
        app = every_route(database, decisions, house.served.replay)
        app.routes.append(Route("/odd/{riddle}", lambda _: PlainTextResponse("")))
        unproved: list[str] = []
        routes = {probe.route for probe in front_probes(app, cases, unproved)}

    assert unproved == ["/odd/{riddle}"]
    assert routes == set(front_paths(app)) - {"/odd/{riddle}", "/static"}


@pytest.mark.parametrize(
    ("kind", "what", "covered"),
    [
        (TakedownKind.PREFIX, "/dir", [451, 451, 200, 200]),
        (TakedownKind.PREFIX, "/dir/", [451, 451, 200, 200]),
        (TakedownKind.PREFIX, "/", [451, 451, 451, 200]),
        (TakedownKind.HOST, "", [451, 451, 451, 451]),
    ],
)
def test_wider_ones_cover_what_lies_below(
    kind: TakedownKind, what: str, covered: list[int], house: RunningArchive, site: str
) -> None:
    """A prefix at the boundary of a segment, a host with all hosts below it; artifacts, too."""
    below = site.replace("https://", "https://sub.")
    urls = [f"{site}/dir", f"{site}/dir/page?x=1", f"{site}/directory", f"{below}/dir/page"]
    for url in urls:
        house.builder.page(url, "<p>x</p>", shot=png())
    name = site.removeprefix("https://") if kind is TakedownKind.HOST else f"{site}{what}"
    number = house.take_down(name, kind)
    assert statuses(house, *(f"/c/{AT}/{url}" for url in urls)) == covered
    assert statuses(house, *(f"/c/{AT}im_/urn:view:{url}" for url in urls)) == covered
    house.lift(number)
    assert statuses(house, *(f"/c/{AT}/{url}" for url in urls)) == [200] * 4


def test_decisions_beside_a_shared_index_hold_on_every_machine(tmp_path: Path, database_url: str) -> None:
    """Front and replay of an index in PostgreSQL follow what another process decides there."""
    url = "https://shared.example/p"
    with contextlib.closing(CollectionBuilder(tmp_path / "collection")) as builder:
        whole_page(builder, url, "shared", "teal")
        copy(builder, database_url)
        with (
            serving(builder, database_url) as served,
            contextlib.closing(open_decisions(builder.layout, database_url)) as store,
        ):
            targets = {served.front: f"/page/{AT}/{url}", served.replay: f"/c/{AT}/{url}"}

            def answers() -> set[int]:
                return {fetch(origin, target).status for origin, target in targets.items()}

            assert answers() == {200}
            decided = Takedown(0, TakedownKind.URL, url, "", TakedownEffect.BLOCK, "", "", "anna", _CLOCK.now(), None)
            book.add_takedowns(store, [decided])
            wait_until(lambda: answers() == {451})
            book.lift_takedowns(store, [1], actor="anna", reason="done", now=_CLOCK.now())
            wait_until(lambda: answers() == {200})
    assert not builder.layout.decisions_db.exists()
