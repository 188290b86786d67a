"""Dates that are absurd or extreme, on every route; and what search engines are told."""

import http.client
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.timestamps import timestamp14
from playback.web.machine_api import MachineAccess, SearchIndexing
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, fetch, serving

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
FRONT_ROUTES = (
    "/page/{}/{}",
    "/screenshot/{}/{}",
    "/text/{}/{}",
    "/as-captured/{}/{}",
    "/latest/{}/{}",
    "/timegate/{}/{}",
    "/timemap/link/{}/{}",
    "/timemap/json/1/{}/{}",
    "/cdx?closest={}&url={}",
    "/cdx?from={}&url={}",
    "/cdx?to={}&url={}",
)
REPLAY_ROUTES = ("/c/{}/{}", "/c/{}im_/{}", "/c/{}mp_/{}", "/c/{}sk_/{}", "/c/{}id_/{}")
ABSURD = (
    "00000101000000", "00000000000000", "00010101000000", "99991231235959", "99999999999999",
    "20260230000000", "20260301250000", "20260301120060", "20261301000000", "20260301", "2026",
    "0", "20260230", "-0260301120000", "\uff12\uff10" * 7, "1" * 4_000,
)  # fmt: skip
_dates = st.one_of(
    st.sampled_from(ABSURD),
    st.text("0123456789", min_size=1, max_size=20),
    st.text("0123456789", min_size=14, max_size=14),
)


@settings(max_examples=examples(60))
@given(_dates, st.sampled_from(FRONT_ROUTES + REPLAY_ROUTES), st.sampled_from(("x", "never")))
@example("00010101000000", "/page/{}/{}", "x")
@example("00000101000000", "/latest/{}/{}", "x")
def test_no_date_breaks_a_route(served: ServedCollection, date: str, route: str, name: str) -> None:
    """404, 400, or a way to a date that there is; never a fault of ours."""
    if not (served.builder.layout.root / "dated").exists():
        served.builder.page("https://dated.example/x", "<p>x</p>")
        (served.builder.layout.root / "dated").touch()
    origin = served.replay if route in REPLAY_ROUTES else served.front
    target = route.format(date, f"https://dated.example/{name}")

    assert fetch(origin, target.encode().decode("latin-1").translate(_ESCAPES)).status in {
        200, 302, 400, 404,
    }  # fmt: skip


_ESCAPES = {code: f"%{code:02X}" for code in range(128, 256)}


@pytest.mark.parametrize("date", ABSURD)
def test_dates_that_name_no_moment_are_not_found(served: ServedCollection, site: str, date: str) -> None:
    """On a URL that there is, too; the years 1 and 9999 are moments like any other."""
    served.builder.page(f"{site}/", "<p>x</p>")
    is_moment = date in {"00010101000000", "99991231235959"}
    escaped = date.encode().decode("latin-1").translate(_ESCAPES)

    for origin, route in ((served.front, "page"), (served.replay, "c")):
        reply = fetch(origin, f"/{route}/{escaped}/{site}/")
        assert reply.status == (302 if is_moment else 404)


# ------------------------------------------------------------------------------- search engines


def test_search_engines_are_kept_out_unless_a_setting_lets_them_in(
    served: ServedCollection, collection: CollectionBuilder
) -> None:
    """By default of everything; with the setting, the front's pages are open and copies still not."""
    for origin in (served.front, served.replay):
        reply = fetch(origin, "/robots.txt")
        assert (reply.status, reply["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert reply.text == "User-agent: *\nDisallow: /\n"
        assert reply["X-Robots-Tag"] == "noindex, noarchive"
    with serving(collection, openness=MachineAccess(SearchIndexing.FRONT)) as opened:
        lines = opened.get("/robots.txt").text.splitlines()
        tag = opened.get("/")["X-Robots-Tag"]
        for target in ("/robots.txt", f"/c/{TS}/https://never.example/"):
            assert fetch(opened.replay, target)["X-Robots-Tag"] == "noindex, noarchive"
        assert fetch(opened.replay, "/robots.txt").text == "User-agent: *\nDisallow: /\n"
    assert "Disallow: /" not in lines
    assert {"Disallow: /cdx", "Disallow: /timemap/"} <= set(lines)
    assert tag == "noarchive"


@pytest.mark.parametrize("path", ["/robots.txt", "/c/1/x", f"/c/{TS}/https://never.example/"])
def test_copies_are_never_for_search_engines(served: ServedCollection, path: str) -> None:
    """Whatever replay answers, to HEAD as well."""
    with closing(http.client.HTTPConnection(urlsplit(served.replay).netloc)) as connection:
        for method in ("GET", "HEAD"):
            connection.request(method, path)
            response = connection.getresponse()
            response.read()
            assert response.headers["X-Robots-Tag"] == "noindex, noarchive"
