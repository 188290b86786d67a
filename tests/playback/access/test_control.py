"""Captures made with a login are shown to nobody, unless the operator shows them."""

import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from core.clock import SystemClock
from core.page_manifest import PageScreen
from core.timestamps import timestamp14
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.takedown_audit import AuditReport, HeldValidators, TakedownAuditor, cases_of, every_route, traces_of
from playback.web.copy_lookup import CopyLookup, UrlSpellings
from playback.web.page_store import PageStore
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, fetch, png, serving
from tests.weboid.cli.test_takedown_enforcement import whole_page
from warc.index.database import open_database

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
LATER = NOW + timedelta(days=1)
_CLOCK = SystemClock()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Serve a collection with default options; each test uses URLs of its own."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("logins") / "collection")
    with contextlib.closing(builder), serving(builder) as served:
        yield served


@pytest.fixture(scope="module")
def opened(house: ServedCollection) -> Iterator[ServedCollection]:
    """Serve the same collection with captures made with a login shown."""
    with serving(house.builder, show_logins=True) as served:
        yield served


def proof(
    served: ServedCollection, url: str, warm: HeldValidators | None = None, *, before: bool = False
) -> AuditReport:
    """Audit the URL on every route of the front and of replay."""
    layout, now = served.builder.layout, _CLOCK.now()
    with (
        contextlib.closing(open_database(layout, "")) as database,
        contextlib.closing(open_decisions(layout)) as decisions,
        contextlib.closing(TakedownAuditor(served.front, served.replay)) as prover,
    ):
        permits = AccessControl(decisions, database.rows, lambda: now)
        cases = cases_of(database, None if before else permits, url, now)
        sought = traces_of(layout, database, cases, permits, now)
        return prover.prove(cases, sought, every_route(database, decisions, served.replay), warm)


def members_page(builder: CollectionBuilder, url: str, word: str, **changes: object) -> str:
    """Add a page captured with a login, with everything that is stored of a page; return its identifier."""
    return whole_page(builder, url, word, "teal", login="club", **changes)


def test_no_route_shows_what_was_captured_with_a_login(
    house: ServedCollection, opened: ServedCollection, site: str
) -> None:
    """Not to who holds ETags and addresses of a time when it was shown either."""
    url = f"{site}/members/page"
    members_page(house.builder, url, "bandicoot")
    shown = proof(opened, url, before=True)
    routes = {each.probe.route for each in shown.leaks}
    assert {"/", "/api/pages", "/c/…/…", "/c/…im_/…", "/c/…id_/…"} <= routes

    report = proof(house, url, shown.warm)

    assert [(each.probe, each.leak) for each in report.leaks] == []
    assert report.is_sound
    answers = {each.status for each in report.findings if each.probe.target == f"/c/{TS}/{url}"}
    assert answers == {404}


def test_a_page_of_a_login_answers_as_if_it_had_never_been_captured(house: ServedCollection, site: str) -> None:
    """On the reader's pages, in the calendar, for Memento and CDX, and in copies."""
    url, never = f"{site}/members", f"{site}/never"
    members_page(house.builder, url, "quoll")

    for target in (f"/page/{TS}/", "/latest/", "/url/", "/timegate/", "/timemap/link/", "/cdx?url="):
        one, other = (house.get(f"{target}{each}") for each in (url, never))
        assert (one.status, one.text.replace(url, never)) == (other.status, other.text)
    for form in ("", "mp_", "id_", "tx_"):
        one, other = (fetch(house.replay, f"/c/{TS}{form}/{each}") for each in (url, never))
        assert (one.status, one.text.replace(url, never)) == (404, other.text)


def test_a_public_capture_is_shown_beside_those_of_a_login(house: ServedCollection, site: str) -> None:
    """Also when those are newer and many; the bot is offered it, too."""
    url = f"{site}/page"
    whole_page(house.builder, url, "public", "red")
    for day in range(1, 12):
        members_page(house.builder, url, f"inner{day}", at=NOW + timedelta(days=day))

    assert house.get(f"/latest/{url}")["Location"] == f"/page/{TS}/{url}"
    assert f"/c/{TS}/{url}" in house.get(f"/timegate/{url}")["Location"]
    assert "1 capture" in house.get(f"/url/{url}").text
    listed = json.loads(house.get(f"/api/pages?q={url}").body)["pages"]
    assert [each["timestamp"] for each in listed] == [TS]
    with (
        contextlib.closing(open_database(house.builder.layout, "")) as database,
        contextlib.closing(open_decisions(house.builder.layout)) as decisions,
    ):
        store = PageStore(database, AccessControl(decisions, database.rows, _CLOCK.now))
        (offer,) = CopyLookup(database, store).of([UrlSpellings.of(url)])
        assert offer is not None
        assert offer.page is not None
        assert offer.page.timestamp == TS
        assert [page.timestamp for page in store.usable(url, LATER)] == [TS]
        assert not store.are_open()  # totals that counted them would tell of them


def test_parts_of_a_login_are_in_no_other_page(house: ServedCollection, site: str) -> None:
    """A public page's picture is the one that the public was shown, or none."""
    url, secret, both = f"{site}/page", f"{site}/secret.png", f"{site}/both.png"
    house.builder.page(url, f'<p>text</p><img src="{secret}"><img src="{both}">')
    house.builder.response(secret, png("black"), mime="image/png", page_id="p1", login="club")
    house.builder.response(both, png("blue"), mime="image/png", page_id="p1", login="club")
    public = NOW + timedelta(minutes=9)
    house.builder.response(both, png("white"), mime="image/png", page_id="p2", at=public)

    assert fetch(house.replay, f"/c/{TS}im_/{secret}").status == 404
    assert fetch(house.replay, f"/c/{TS}im_/{both}").body == png("white")


def test_a_visit_that_was_not_finished_is_private_by_its_records(house: ServedCollection, site: str) -> None:
    """It has no manifest; its records say themselves that they are of a login."""
    url = f"{site}/half"
    house.builder.response(url, b"<p>wallaroo</p>", page_id="half", login="club")

    assert fetch(house.replay, f"/c/{TS}/{url}").status == 404
    assert house.get(f"/cdx?url={url}").text == ""


def test_what_a_login_and_the_public_both_saw_is_public(house: ServedCollection, site: str) -> None:
    """A revisit belongs to the visit that made it, not to the one that has its payload."""
    url, inner = f"{site}/a.png", f"{site}/b.png"
    members = house.builder.response(url, png("lime"), mime="image/png", page_id="m", login="club")
    public = house.builder.response(inner, png("pink"), mime="image/png", page_id="q")
    house.builder.revisit(url, public, at=LATER)
    house.builder.revisit(inner, members, at=LATER)

    moment = timestamp14(LATER)
    assert fetch(house.replay, f"/c/{moment}im_/{url}").body == png("pink")
    assert fetch(house.replay, f"/c/{moment}im_/{inner}").body == png("pink")


def test_an_operator_shows_them(opened: ServedCollection, site: str) -> None:
    """Readers are then told that the page was seen by somebody who was logged in."""
    url = f"{site}/members"
    members_page(opened.builder, url, "bilby", screen=PageScreen(1280, 800, language="en"))

    page = opened.get(f"/page/{TS}/{url}")
    assert page.status == 200
    assert "language en, logged in" in page.text
    assert "club" not in page.text
    assert "bilby" in fetch(opened.replay, f"/c/{TS}/{url}").text
    assert url in opened.get(f"/timemap/link/{url}").text
