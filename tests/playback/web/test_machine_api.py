"""Memento (RFC 7089): TimeGate, TimeMaps and headers, asked by a real client over a real socket."""

import json
import re
from contextlib import closing
from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memento_client import MementoClient  # type: ignore[import-untyped]

from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from core.timestamps import timestamp14
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, add_takedowns
from playback.mementos import link_header
from playback.url_paths import escape_url
from playback.web import machine_api
from playback.web.machine_api import accepted_moment
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, ServedCollection, StoredReply, fetch

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
LATER = [NOW + timedelta(days=30 * n) for n in range(4)]


def captured(served: ServedCollection, url: str, days: tuple[int, ...] = (0, 30, 60, 90)) -> list[str]:
    """Add a copy for each of `days`, counted from NOW; return their URI-Ms."""
    addresses = []
    for day in days:
        at = NOW + timedelta(days=day)
        served.builder.page(url, f"<p>{day}</p>", at=at)
        addresses.append(f"{served.replay}/c/{timestamp14(at)}/{url}")
    return addresses


def http_date(at: datetime) -> str:
    return format_datetime(at.replace(microsecond=0), usegmt=True)


def links_of(text: str) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Return the links by relation, each with its other parameters; one with two relations is under both."""
    links_by_relation: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for target, rest in re.findall(r'<([^>]*)>((?:; [a-z]+="[^"]*")*)', text):
        parameters = dict(re.findall(r'([a-z]+)="([^"]*)"', rest))
        for relation in parameters.pop("rel").split():
            links_by_relation.setdefault(relation, []).append((target, parameters))
    return links_by_relation


def timegate(served: ServedCollection, url: str, accept: str | None = None) -> StoredReply:
    """Request the TimeGate; `accept` is the Accept-Datetime header."""
    headers = {} if accept is None else {"Accept-Datetime": accept}
    return served.get(f"/timegate/{url}", headers=headers)


# ------------------------------------------------------------------------------- TimeGate


@pytest.mark.parametrize(("days", "expected"), [(-4000, 0), (0, 0), (14, 0), (16, 1), (60, 2), (76, 3), (9999, 3)])
def test_the_timegate_leads_to_the_memento_nearest_in_time(
    served: ServedCollection, site: str, days: int, expected: int
) -> None:
    """302 with Vary and all links; before the first it is the first, after the last the last."""
    mementos = captured(served, f"{site}/a?b=1,2;c")

    reply = timegate(served, f"{site}/a?b=1,2;c", http_date(NOW + timedelta(days=days)))

    assert (reply.status, reply["Location"]) == (302, mementos[expected])
    assert reply["Vary"] == "accept-datetime"
    links = links_of(reply["Link"])
    assert links["original"] == [(f"{site}/a?b=1,2;c", {})]
    assert links["timegate"] == [(f"{served.front}/timegate/{site}/a?b=1,2;c", {})]
    timemap = f"{served.front}/timemap/link/{site}/a?b=1,2;c"
    assert links["timemap"] == [(timemap, {"type": "application/link-format"})]
    assert [links["first"][0][0], links["last"][0][0]] == [mementos[0], mementos[3]]
    around = {role: links[role][0][0] for role in ("prev", "next") if role in links}  # at an end there is one only
    assert around == {
        **({"prev": mementos[expected - 1]} if expected else {}),
        **({"next": mementos[expected + 1]} if expected < 3 else {}),
    }
    dates = {address: http_date(at) for address, at in zip(mementos, LATER, strict=True)}
    assert all(given["datetime"] == dates[address] for address, given in links["memento"])
    assert not [name for name, _ in reply.headers if name.lower() == "memento-datetime"]


def test_without_a_date_the_newest_is_meant(served: ServedCollection, site: str) -> None:
    """RFC 7089, 4.2.1."""
    mementos = captured(served, f"{site}/")

    assert timegate(served, f"{site}/")["Location"] == mementos[-1]


@pytest.mark.parametrize(
    "date",
    [
        "yesterday",
        "",
        "2026-03-01T12:00:00Z",
        "Sun, 30 Feb 2026 12:00:00 GMT",
        "Sun, 01 Mar 0000 12:00:00 GMT",
        "Sun, 01 Mar 2026 12:00:00 +0100",
        "Sun, 01 Mar 2026 24:00:00 GMT",
        "Sunday, 01-Mar-26 12:00:00 GMT",
        "Sun Mar  1 12:00:00 2026",
        "Sun, \xb9\xb2 Mar 2026 12:00:00 GMT",
    ],
)
def test_a_date_that_cannot_be_read_is_400(served: ServedCollection, site: str, date: str) -> None:
    """RFC 7089, 4.5.3; the answer says how it should look, and where the TimeMap is."""
    captured(served, f"{site}/")

    reply = timegate(served, f"{site}/", date)

    assert reply.status == 400
    assert reply["Vary"] == "accept-datetime"
    assert "Sun, 01 Mar 2026 12:00:00 GMT" in reply.text
    assert "timemap" in links_of(reply["Link"])


@given(st.text(max_size=40) | st.datetimes().map(str))
@example("Sun, 01 Mar 2026 12:00:00 GMT\n")
def test_no_text_breaks_the_reading_of_dates(text: str) -> None:
    """A moment in UTC, or None."""
    at = accepted_moment(text)
    assert at is None or at.utcoffset() == timedelta()


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001
def test_dates_are_read_as_they_are_written(at: datetime) -> None:
    """The inverse of the form that HTTP prescribes."""
    at = at.replace(microsecond=0, tzinfo=NOW.tzinfo)
    assert accepted_moment(http_date(at)) == at


def test_what_was_never_captured_has_no_timegate(served: ServedCollection) -> None:
    """404, with the original and where to ask again (RFC 7089, 4.5.5)."""
    reply = timegate(served, "https://never.example/x")

    assert reply.status == 404
    assert links_of(reply["Link"])["original"] == [("https://never.example/x", {})]
    assert served.get("/timegate/javascript:alert(1)").status == 404
    assert served.get("/timegate/").status == 404


# ------------------------------------------------------------------------------- what is a memento


def test_only_what_is_offered_is_a_memento(served: ServedCollection, site: str) -> None:
    """Neither failed nor skipped visits, nor checks for robots, nor what cannot be shown."""
    url = f"{site}/"
    mementos = captured(served, url, (0, 90))
    page, days = served.builder.page, timedelta(days=1)
    page(url, "<p>x</p>", at=NOW + 10 * days, outcome=VisitOutcome.FAILED)
    page(url, "<p>x</p>", at=NOW + 20 * days, outcome=VisitOutcome.SKIPPED)
    page(url, "<p>x</p>", at=NOW + 30 * days, page_class=PageClass.CHALLENGE)
    page(url, None, at=NOW + 40 * days, mime="application/zip")
    page(f"{site}/elsewhere", "<p>x</p>", at=NOW + 50 * days)

    listed = links_of(served.get(f"/timemap/link/{url}").text)["memento"]
    assert [address for address, _ in listed] == mementos
    for day in (10, 20, 30, 40):
        location = timegate(served, url, http_date(NOW + day * days))["Location"]
        assert location == mementos[0]
        reply = served.get(f"/page/{timestamp14(NOW + day * days)}/{url}")
        assert not [name for name, _ in reply.headers if name.lower() == "memento-datetime"]
        assert links_of(reply["Link"])["original"] == [(url, {})]
    shown = fetch(served.replay, f"/c/{timestamp14(NOW + 30 * days)}mp_/{url}")
    assert shown.status == 200
    assert not [name for name, _ in shown.headers if name.lower() == "memento-datetime"]


def test_a_visit_is_one_memento_whatever_it_loaded(served: ServedCollection, site: str) -> None:
    """Its captures, artifacts and redirects are no mementos beside it."""
    page_id = served.builder.page(f"{site}/", "<p>x</p>", text="x")
    served.builder.response(f"{site}/", b"<p>x</p>", page_id=page_id)
    served.builder.response(f"{site}/", b"<p>y</p>", at=NOW + timedelta(seconds=2), page_id=page_id)

    assert len(links_of(served.get(f"/timemap/link/{site}/").text)["memento"]) == 1


def test_http_and_https_are_one_page_but_other_equals_are_not(served: ServedCollection, site: str) -> None:
    """They stand in for it only where it has no memento of its own."""
    (secure,) = captured(served, f"{site}/Page", (0,))
    (plain,) = captured(served, f"{site.replace('https', 'http')}/Page", (1,))
    (other,) = captured(served, f"{site}/page", (2,))

    def listed(url: str) -> list[str]:
        text = served.get(f"/timemap/link/{url}").text
        return [address for address, _ in links_of(text)["memento"]]

    assert listed(f"{site}/Page") == [secure, plain]
    assert listed(f"{site.replace('https', 'http')}/Page") == [secure, plain]
    assert listed(f"{site}/page") == [other]
    assert listed(f"{site}/PAGE/") == [secure, plain, other]


def test_take_downs_hide_mementos_or_leave_them_listed(served: ServedCollection, site: str) -> None:
    """Hidden mementos are listed nowhere; blocked ones are listed, and their address answers 451."""
    url = f"{site}/"
    first, second, third = captured(served, url, (0, 30, 60))
    decide(served.builder.layout, url, timestamp14(LATER[1]), hide=True)
    decide(served.builder.layout, url, timestamp14(LATER[2]), hide=False)

    for form in ("link", "json", "cdxj"):
        text = served.get(f"/timemap/{form}/{url}").text
        assert (first in text, second in text, third in text) == (True, False, True)
    assert timegate(served, url, http_date(LATER[1]))["Location"] != second
    assert second not in timegate(served, url, http_date(LATER[0]))["Link"]
    assert second not in fetch(served.replay, f"/c/{TS}/{url}")["Link"]
    assert second not in served.get(f"/page/{TS}/{url}")["Link"]
    assert fetch(served.replay, f"/c/{timestamp14(LATER[2])}/{url}").status == 451


# ------------------------------------------------------------------------------- TimeMaps


def test_a_timemap_lists_every_memento_in_three_forms(served: ServedCollection, site: str) -> None:
    """Oldest first, with the roles, the span, and the type of each form."""
    url = f"{site}/a?b#!c".replace("#", "%23")
    original = f"{site}/a?b#!c"
    mementos = [each.replace("#", "%23") for each in captured(served, original)]
    dates = [http_date(at) for at in LATER]

    reply = served.get(f"/timemap/link/{url}")
    links = links_of(reply.text)
    assert reply["Content-Type"] == "application/link-format"
    assert links["original"] == [(original, {})]
    assert links["timegate"] == [(f"{served.front}/timegate/{url}", {})]
    myself = {"type": "application/link-format", "from": dates[0], "until": dates[-1]}
    assert links["self"] == [(f"{served.front}/timemap/link/{url}", myself)]
    listed = [(address, {"datetime": date}) for address, date in zip(mementos, dates, strict=True)]
    assert links["memento"] == listed
    assert (links["first"], links["last"]) == (listed[:1], listed[-1:])

    reply = served.get(f"/timemap/json/{url}")
    timemap = json.loads(reply.text)
    assert reply["Content-Type"] == "application/json"
    assert timemap["original_uri"] == original
    assert [each["uri"] for each in timemap["mementos"]["list"]] == mementos
    assert timemap["mementos"]["first"] == {"datetime": "2026-03-01T12:00:00Z", "uri": mementos[0]}
    assert timemap["timemap_uri"]["link_format"] == f"{served.front}/timemap/link/{url}"

    reply = served.get(f"/timemap/cdxj/{url}")
    assert reply["Content-Type"] == "application/cdxj+ors"
    lines = [line.split(" ", 1) for line in reply.text.splitlines() if not line.startswith("!")]
    assert [line[0] for line in lines] == [timestamp14(at) for at in LATER]
    assert [json.loads(line[1])["uri"] for line in lines] == mementos


def test_a_long_list_comes_in_pages_and_an_index(
    served: ServedCollection, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index names each page with its span; the pages together are the list, once."""
    monkeypatch.setattr(machine_api, "PAGE_SIZE", 3)
    url = f"{site}/"
    mementos = captured(served, url, tuple(range(7)))
    dates = [http_date(NOW + timedelta(days=day)) for day in range(7)]

    index = links_of(served.get(f"/timemap/link/{url}").text)
    assert "memento" not in index
    spans = [(dates[0], dates[2]), (dates[3], dates[5]), (dates[6], dates[6])]
    assert index["timemap"] == [
        (
            f"{served.front}/timemap/link/{number}/{url}",
            {"type": "application/link-format", "from": first, "until": last},
        )
        for number, (first, last) in enumerate(spans, 1)
    ]
    assert [index["self"][0][1]["from"], index["self"][0][1]["until"]] == [dates[0], dates[6]]
    pages = [links_of(served.get(f"/timemap/link/{n}/{url}").text) for n in (1, 2, 3)]
    assert [address for page in pages for address, _ in page["memento"]] == mementos
    assert [("first" in page, "last" in page) for page in pages] == [
        (True, False), (False, False), (False, True),
    ]  # fmt: skip
    assert [(page["self"][0][1]["from"], page["self"][0][1]["until"]) for page in pages] == spans
    assert served.get(f"/timemap/link/4/{url}").status == 404
    timemap = json.loads(served.get(f"/timemap/json/{url}").text)
    assert [each["uri"] for each in timemap["timemap_index"]] == [
        f"{served.front}/timemap/json/{number}/{url}" for number in (1, 2, 3)
    ]
    assert json.loads(served.get(f"/timemap/json/2/{url}").text)["pages"] == {
        "prev": {"uri": f"{served.front}/timemap/json/1/{url}"},
        "next": {"uri": f"{served.front}/timemap/json/3/{url}"},
    }


@pytest.mark.parametrize(
    "target", ["link/https://never.example/", "xml/https://never.example/", "link/", "", "json/0/x"]
)
def test_there_is_no_timemap_of_nothing(served: ServedCollection, target: str) -> None:
    """404 in plain text."""
    reply = served.get(f"/timemap/{target}")

    assert (reply.status, reply["Content-Type"]) == (404, "text/plain; charset=utf-8")


# ------------------------------------------------------------------------------- mementos


def test_the_copy_and_its_reader_page_say_the_same(served: ServedCollection, site: str) -> None:
    """Both with Memento-Datetime and Link; the copy's own address is the memento's."""
    mementos = captured(served, f"{site}/")
    target = f"/c/{timestamp14(LATER[1])}/{site}/"

    copy = fetch(served.replay, target)
    again = fetch(served.replay, target, headers={"If-None-Match": copy["ETag"]})
    page = served.get(f"/page/{timestamp14(LATER[1])}/{site}/")

    assert [copy.status, again.status, page.status] == [200, 304, 200]
    assert copy["Memento-Datetime"] == page["Memento-Datetime"] == http_date(LATER[1])
    assert copy["Link"] == page["Link"] == again["Link"]
    links = links_of(copy["Link"])
    assert links["original"] == [(f"{site}/", {})]
    assert links["timegate"] == [(f"{served.front}/timegate/{site}/", {})]
    assert links["memento"][0] == (mementos[1], {"datetime": http_date(LATER[1])})
    assert [links[role][0][0] for role in ("first", "prev", "next", "last")] == [
        mementos[0], mementos[0], mementos[2], mementos[3],
    ]  # fmt: skip


def test_a_page_whose_parts_took_a_while_keeps_the_moment_of_its_address(served: ServedCollection, site: str) -> None:
    """Memento-Datetime is the page's, also when its document was written seconds later."""
    page_id = served.builder.page(f"{site}/")
    served.builder.response(f"{site}/", b"<p>x</p>", at=NOW + timedelta(seconds=4), page_id=page_id)

    reply = fetch(served.replay, f"/c/{TS}/{site}/")

    assert (reply.status, reply["Memento-Datetime"]) == (200, http_date(NOW))


@pytest.mark.parametrize("path", ["/c/{}/", "/page/{}/"])
def test_another_moment_leads_to_the_exact_one(served: ServedCollection, site: str, path: str) -> None:
    """Also the other scheme, and a URL that only equals: the address tells the true ones."""
    captured(served, f"{site}/Page", (0,))
    origin = served.replay if path.startswith("/c/") else served.front
    true = f"{path.format(TS)}{site}/Page"
    for moment, url in (
        ("20250101000000", f"{site}/Page"),
        (TS, f"{site.replace('https', 'http')}/Page"),
        ("99991231235959", f"{site}/page/"),
    ):
        reply = fetch(origin, f"{path.format(moment)}{url}")
        assert (reply.status, reply["Location"]) == (302, true)
    assert fetch(origin, true).status == 200


def test_images_ask_for_no_neighbours(served: ServedCollection, site: str) -> None:
    """Links are for pages: a part of a page has none."""
    served.builder.response(f"{site}/i.png", b"\x89PNG", mime="image/png")

    reply = fetch(served.replay, f"/c/{TS}im_/{site}/i.png")

    assert not [name for name, _ in reply.headers if name.lower() == "link"]


@pytest.mark.parametrize("length", [500, 2_000, 8_000])
def test_links_of_long_urls_still_fit_into_a_head(served: ServedCollection, site: str, length: int) -> None:
    """The Link header has the required relations; neighbours are added only where there is room for them."""
    url = f"{site}/{'x' * length}"
    captured(served, url)

    for reply in (fetch(served.replay, f"/c/{TS}/{url}"), timegate(served, url)):
        links = links_of(reply["Link"])
        assert {"original", "timegate", "timemap"} <= set(links)
        assert ("memento" in links) == (length == 500)


def test_a_header_keeps_what_is_needed() -> None:
    """However long; of the rest what has room, in its order."""
    needed, more = ["n" * 3_000], ["a" * 1_500, "b" * 1_500, "c"]
    assert link_header(needed, more) == f"{needed[0]}, {more[0]}"


@pytest.mark.parametrize("quoted", ['"', "<", ">", "\u00e9", "\u4e16"])
def test_no_character_breaks_out_of_a_link(served: ServedCollection, site: str, quoted: str) -> None:
    """A captured URL is hostile text like any other."""
    url = f"{site}/a{quoted}b; rel=evil"
    served.builder.page(url, "<p>x</p>")

    for target in (f"/timemap/link/{site}/a", f"/timemap/link/{site}/"):
        assert served.get(target).status == 404
    text = served.get(f"/timemap/link/{escape_url(url)}").text
    assert all(set(links_of(line)) <= KNOWN for line in text.splitlines())


KNOWN = {"original", "timegate", "self", "first", "last", "memento", "timemap"}


# ------------------------------------------------------------------------------- a real client


@pytest.fixture
def client(served: ServedCollection) -> MementoClient:
    """Return the Memento client of Old Dominion and Los Alamos, set to our TimeGate."""
    return MementoClient(timegate_uri=f"{served.front}/timegate/", check_native_timegate=False)


@pytest.mark.parametrize("start", ["original", "memento", "reader page"])
def test_a_memento_client_finds_its_way(served: ServedCollection, site: str, client: MementoClient, start: str) -> None:
    """From the original, from a memento, and from the page that shows one."""
    mementos = captured(served, f"{site}/")
    asked_for = {
        "original": f"{site}/",
        "memento": mementos[3],
        "reader page": f"{served.front}/page/{timestamp14(LATER[3])}/{site}/",
    }[start]
    original = client.get_original_uri(asked_for) if start != "original" else asked_for
    assert original == f"{site}/"

    response = MementoClient.request_head(
        f"{served.front}/timegate/{original}",
        accept_datetime=http_date(LATER[1] + timedelta(days=2)),
        follow_redirects=True,
    )
    memento_by_role = client.get_memento_info(
        original, (LATER[1] + timedelta(days=2)).replace(tzinfo=None),
        req_uri_response=response, tg_response=response,
    )["mementos"]  # fmt: skip

    assert memento_by_role["closest"]["uri"] == [mementos[1]]
    assert memento_by_role["closest"]["http_status_code"] == 200
    assert memento_by_role["closest"]["datetime"] == LATER[1].replace(tzinfo=None, microsecond=0)
    for role, place in (("first", 0), ("prev", 0), ("next", 2), ("last", 3)):
        assert memento_by_role[role]["uri"] == [mementos[place]]


def test_a_memento_client_knows_what_is_what(served: ServedCollection, site: str) -> None:
    """The TimeGate is a TimeGate, and the copy is a memento."""
    mementos = captured(served, f"{site}/")

    assert MementoClient.is_timegate(f"{served.front}/timegate/{site}/")
    assert MementoClient.is_memento(mementos[0])
    assert not MementoClient.is_memento(f"{served.front}/timegate/{site}/")


@settings(max_examples=examples(30))
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
@example("%00")
@example("%2e%2e/..//")
@example("99999999999999/https://a.example/")
@example("link/99999999/https://a.example/")
def test_no_target_breaks_the_machines(served: ServedCollection, text: str) -> None:
    """Whatever is asked: found, or not, or wrongly asked."""
    text = text.replace("#", "%23")
    for route in ("/timegate/", "/timemap/", "/timemap/link/", "/timemap/json/https://"):
        assert served.get(route + text).status in {200, 302, 307, 400, 404, 421}


def decide(layout: Layout, url: str, timestamp: str, *, hide: bool) -> None:
    """Take one capture down."""
    effect = TakedownEffect.HIDE if hide else TakedownEffect.BLOCK
    with closing(open_decisions(layout)) as store:
        decision = Takedown(0, TakedownKind.CAPTURE, url, timestamp, effect, "", "", "test", NOW, None)
        add_takedowns(store, [decision])
