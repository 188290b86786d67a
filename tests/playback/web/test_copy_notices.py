"""Time at playback: parts of a copy are of its moment, or not shown, or their distance is told (P-10)."""

import json
import re
from datetime import timedelta

import pytest

from core.timestamps import timestamp14
from playback.web.copy_notices import rough_distance
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, fetch, png, running_replay

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
YEARS = timedelta(days=5 * 365)


def skew_text(served: ServedCollection, url: str) -> str:
    """Return the reader page's text about a copy's skew, without its mark-up; empty without one."""
    text = served.get(f"/page/{TS}/{url}").text
    match = re.search(r'<p class="facts skew">(.*?)</p>', text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", match[1]).split()) if match else ""


@pytest.mark.parametrize("days", [-YEARS.days, YEARS.days, 31, -31])
def test_what_was_captured_years_away_is_not_shown(served: ServedCollection, site: str, days: int) -> None:
    """Neither script nor style sheet nor picture, whatever the address says; never archived is 404."""
    served.builder.page(
        f"{site}/", "<script src=/evil.js></script><link rel=stylesheet href=/evil.css><img src=/evil.png>"
    )
    at = NOW + timedelta(days=days)
    served.builder.response(f"{site}/evil.js", b"evil()", mime="text/javascript", at=at)
    served.builder.response(f"{site}/evil.css", b"p { color: red }", mime="text/css", at=at)
    served.builder.response(f"{site}/evil.png", png(), mime="image/png", at=at)

    for target in (
        f"cs_/{site}/evil.css",
        f"im_/{site}/evil.png",
        f"js_/{site}/evil.js",
        f"im_/{site}/evil.js",
        f"cs_/{site}/never.css",
        f"im_/{site}/never.png",
    ):
        reply = fetch(served.replay, f"/c/{TS}{target}")
        assert reply.status == 404
        assert b"evil()" not in reply.body
    copy = fetch(served.replay, f"/c/{TS}/{site}/").text
    assert "evil.js" not in copy
    assert skew_text(served, f"{site}/") == ""


def test_the_window_is_a_setting(collection: CollectionBuilder) -> None:
    """A narrower one hides what a wider one shows."""
    url = "https://a.example/i.png"
    collection.response(url, png(), mime="image/png", at=NOW + timedelta(days=3))
    for days, status in (("2.5", 404), ("3.5", 200)):
        with running_replay(collection.layout.root, "http://front.test", "--window-days", days) as replay:
            assert replay.get(f"/c/{TS}im_/{url}").status == status


def test_a_copys_own_parts_have_no_skew(served: ServedCollection, site: str) -> None:
    """However long the visit took: they share its page_id."""
    page_id = served.builder.page(f"{site}/", "<img src=/a.png><img src=/b.png>")
    for name, seconds in (("a", 1), ("b", 240)):
        served.builder.response(
            f"{site}/{name}.png", png(), mime="image/png", at=NOW + timedelta(seconds=seconds),
            page_id=page_id,
        )  # fmt: skip

    (listed,) = json.loads(served.get(f"/api/pages?q={site}").text)["pages"]
    assert listed["skew"] == {"shown": 2, "other": 0, "earlier": 0, "later": 0}
    assert skew_text(served, f"{site}/") == ""


def test_a_readers_page_tells_how_far_parts_are_away(served: ServedCollection, site: str) -> None:
    """Also those that a style sheet brings in, and in JSON; parts that are not shown do not count."""
    builder = served.builder
    page_id = builder.page(
        f"{site}/",
        "<link rel=stylesheet href=/s.css><img src='/own.png?a=1&amp;b=2'><img src=/late.png>"
        "<img src=/never.png><img srcset='/one.png 1x, /two.png 2x'>",
        text="x",
    )
    days, css = timedelta(days=1), b"body { background: url(bg.png) }"
    builder.response(f"{site}/s.css", css, mime="text/css", page_id=page_id)
    for name, at, own in (
        ("own.png?a=1&b=2", NOW + timedelta(seconds=70), page_id),
        ("late.png", NOW + 3 * days, None),
        ("bg.png", NOW - timedelta(hours=5), "another"),
        ("two.png", NOW + 29 * days, None),
        ("two.png", NOW + 2 * days, None),
    ):
        builder.response(f"{site}/{name}", png(), mime="image/png", at=at, page_id=own)

    (listed,) = json.loads(served.get(f"/api/pages?q={site}").text)["pages"]
    skew = listed["skew"]
    assert (skew["earlier"], skew["later"]) == (5 * 3_600, 3 * 86_400)
    assert skew["other"] == skew["shown"] - 2
    assert skew_text(served, f"{site}/") == (
        "Parts of this copy were captured at other times: up to 5 hours earlier and 3 days later."
        f" {skew['other']} of {skew['shown']}"
    )
    assert "skew" not in served.get(f"/text/{TS}/{site}/").text


@pytest.mark.parametrize(
    ("seconds", "expected"), [(3_600, "1 hour later"), (-86_400, "1 day earlier"), (29 * 86_400, "29 days later")]
)
def test_a_distance_is_said_as_people_say_it(served: ServedCollection, site: str, seconds: int, expected: str) -> None:
    """In the greatest unit that fits."""
    served.builder.page(f"{site}/", "<img src=/a.png>")
    at = NOW + timedelta(seconds=seconds)
    served.builder.response(f"{site}/a.png", png(), mime="image/png", at=at)

    assert skew_text(served, f"{site}/") == (f"Parts of this copy were captured up to {expected}. 1 of 1")


@pytest.mark.parametrize("seconds", [1, 59, -150, 3_599])
def test_what_lies_less_than_an_hour_away_is_the_same_moment(served: ServedCollection, site: str, seconds: int) -> None:
    """Parts from another visit of the same crawl have their skew (in s) in the JSON, not on the reader page."""
    served.builder.page(f"{site}/", "<img src=/a.png>")
    at = NOW + timedelta(seconds=seconds)
    served.builder.response(f"{site}/a.png", png(), mime="image/png", at=at)

    assert "of this copy" not in served.get(f"/page/{TS}/{site}/").text
    (listed,) = json.loads(served.get(f"/api/pages?q={site}").text)["pages"]
    assert listed["skew"]["earlier"] + listed["skew"]["later"] == abs(seconds)


def test_a_short_distance_is_said_beside_a_long_one() -> None:
    """In the greatest unit that fits, rounded."""
    assert [rough_distance(seconds) for seconds in (1, 59, 60, 150)] == [
        ("second", 1),
        ("second", 59),
        ("minute", 1),
        ("minute", 3),
    ]


def test_long_lists_tell_skews_when_they_are_asked_to(served: ServedCollection, site: str) -> None:
    """Measuring takes a look at each copy."""
    for number in range(12):
        served.builder.page(f"{site}/{number}", "<p>x</p>")

    def skews(query: str) -> list[object]:
        listed = json.loads(served.get(f"/api/pages?q={site}{query}").text)["pages"]
        return [each.get("skew", "untold") for each in listed]

    assert skews("") == ["untold"] * 12
    assert skews("&skew=1") == [{"shown": 0, "other": 0, "earlier": 0, "later": 0}] * 12


def test_what_has_no_document_has_no_skew(served: ServedCollection, site: str) -> None:
    """Never captured, or no page."""
    served.builder.response(f"{site}/i.png", png(), mime="image/png")
    for target in (f"{site}/never", f"urn:view:{site}/"):
        assert fetch(served.replay, f"/c/{TS}sk_/{target}").status == 404
