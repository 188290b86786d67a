"""Changes of a page between two captures."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from qa.page_changes import MOST_NAMED, PageDrift, PageSnapshot, changes_as_json, compare_snapshots
from tests.links.checker.test_browser_check import ARTICLE, GAMBLING, OTHER

THEN = datetime(2024, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://cape.example/"


def drawn(*boxes: tuple[int, int, int, int], ink: str = "#203060", size: int = 320) -> bytes:
    """Return a picture with lines of text as bars, and boxes."""
    image = Image.new("RGB", (size, size), "white")
    pen = ImageDraw.Draw(image)
    for row in range(20, size - 20, 24):
        for place in range(20, size - 30, 12):
            pen.rectangle((place, row, place + 7, row + 9), fill=ink)
    for box in boxes:
        pen.rectangle(box, fill="#c03020")
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def other_picture() -> bytes:
    """Return a picture that has nothing in common with `drawn`."""
    image = Image.new("RGB", (320, 320), "#102030")
    pen = ImageDraw.Draw(image)
    for place in range(0, 300, 9):
        pen.ellipse((place, 300 - place, place + 40, 340 - place), outline="#f0e040", width=3)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def seen(text: str | None = ARTICLE, title: str = "Cape", **facts: Any) -> PageSnapshot:
    snapshot = PageSnapshot(URL, URL, VisitOutcome.COMPLETE, "", 200, captured_at=THEN, text=text, title=title)
    return replace(snapshot, **facts)


def later(text: str | None = ARTICLE, title: str = "Cape", **facts: Any) -> PageSnapshot:
    return replace(seen(text, title, **facts), captured_at=NOW)


SEED = drawn()


@pytest.mark.parametrize(
    ("then", "now", "drift"),
    [
        (seen(), later(), PageDrift.UNCHANGED),
        (seen(picture=SEED), later(picture=SEED), PageDrift.UNCHANGED),
        (seen(), later(ARTICLE + " Visited 1 May 2026 by the council of the county."), PageDrift.LITTLE),
        (seen(picture=SEED), later(picture=drawn((0, 0, 320, 30))), PageDrift.LITTLE),
        (seen(), later(title="The cape"), PageDrift.LITTLE),
        (seen(), later(OTHER), PageDrift.REWRITTEN),
        (seen(picture=SEED), later(picture=other_picture()), PageDrift.REWRITTEN),
        (seen(), later(OTHER, "Tax advice"), PageDrift.OTHER_PAGE),
        (seen(), later(GAMBLING, "Slot gacor"), PageDrift.OTHER_OWNER),
        (seen(), later(OTHER, "Domain", page_class=PageClass.PARKED), PageDrift.OTHER_OWNER),
        (seen(), later("Sorry.", "Oops", page_class=PageClass.SOFT_404), PageDrift.GONE),
        (seen(), later("Sorry.", "Oops", status=404), PageDrift.GONE),
        (seen(), later(page_class=PageClass.CHALLENGE, status=403), PageDrift.HIDDEN),
        (seen(), later(page_class=PageClass.LOGIN_WALL), PageDrift.HIDDEN),
        (seen(), later(None, "", outcome=VisitOutcome.FAILED, status=None, reason="dns:x"), PageDrift.UNKNOWN),
        (seen(page_class=PageClass.CHALLENGE, status=403), later(), PageDrift.UNKNOWN),
        (seen(None, picture=SEED), later(None, picture=SEED), PageDrift.UNCHANGED),
        (seen(None, picture=SEED), later(None, "Tax", picture=other_picture()), PageDrift.OTHER_PAGE),
        (seen(None), later(OTHER), PageDrift.UNKNOWN),
        (seen("Map"), later("Map"), PageDrift.UNCHANGED),
        (seen("Map"), later("Plan"), PageDrift.UNKNOWN),
        (seen(picture=b"no picture"), later(picture=SEED), PageDrift.UNCHANGED),
    ],
    ids=[
        *("same", "same-with-pictures", "a-line-more", "a-banner", "title", "rewritten"),
        *("other-look", "other-page", "gambling", "parked", "soft-404", "404", "challenge"),
        *("login", "no-answer", "challenge-then", "pictures-alone", "pictures-differ"),
        *("no-text-then", "few-words", "few-other-words", "damaged-picture"),
    ],
)
def test_a_page_is_told_what_became_of_it(then: PageSnapshot, now: PageSnapshot, drift: PageDrift) -> None:
    """One word for what happened, by the words first, then the picture."""
    changes = compare_snapshots(then, now)

    assert (changes.drift, bool(changes.reason)) == (drift, drift is not PageDrift.UNCHANGED), changes


def test_the_reason_names_what_was_seen() -> None:
    """A person can follow the judgement."""
    assert "slot" in compare_snapshots(seen(), later(GAMBLING, "Slot gacor")).reason.lower()
    assert "% of the words" in compare_snapshots(seen(), later(OTHER)).reason
    assert "404" in compare_snapshots(seen(), later(status=404)).reason
    assert compare_snapshots(seen(), later(GAMBLING, "Slot gacor")).owner_signs


def test_links_and_parts_are_told_by_name() -> None:
    """New and removed ones are listed, kept ones counted; long lists are cut and counted."""
    many = frozenset(f"{URL}{number:04}" for number in range(MOST_NAMED + 5))
    then = seen(outlinks=frozenset({"a", "b"}), parts=many)
    now = later(outlinks=frozenset({"b", "c"}), parts=frozenset())

    changes = compare_snapshots(then, now)

    assert changes.links is not None
    assert changes.parts is not None
    assert (changes.links.added, changes.links.removed, changes.links.kept_count) == (("c",), ("a",), 1)
    assert (len(changes.parts.removed), changes.parts.removed_count) == (MOST_NAMED, MOST_NAMED + 5)
    assert changes.parts.removed == tuple(sorted(many)[:MOST_NAMED])
    assert compare_snapshots(then, later()).links is None


def test_the_most_changed_come_first() -> None:
    """A sold domain before another page, that before a new banner, and what nobody knows last."""
    order = [
        *(later(GAMBLING, "Slot"), later(status=404), later(OTHER, "Tax"), later(OTHER)),
        *(later(ARTICLE + " One more sentence."), later(), later(None)),
    ]

    distances = [compare_snapshots(seen(), now).distance for now in order]

    assert distances == sorted(distances, reverse=True)
    assert len(set(distances)) == len(distances)


def test_a_heat_map_is_drawn_when_asked() -> None:
    """And only then: it takes time."""
    then, now = seen(picture=SEED), later(picture=drawn((0, 0, 320, 30)))
    pictures = [compare_snapshots(then, now, heat=heat).picture for heat in (True, False)]

    assert pictures[0] is not None
    assert pictures[1] is not None
    assert (pictures[0].heat or b"").startswith(b"\x89PNG")
    assert pictures[1].heat is None


texts = st.none() | st.text(max_size=300)
urls = st.none() | st.frozensets(st.text(max_size=20), max_size=5)


@given(texts, texts, st.text(max_size=30), st.sampled_from(PageClass), urls, st.binary(max_size=40))
def test_any_two_sights_can_be_compared(
    one: str | None, other: str | None, title: str, page_class: PageClass, links: frozenset[str] | None, picture: bytes
) -> None:
    """Whatever a site sent; and nothing ever drifts from itself."""
    then = seen(one, "Cape", outlinks=links, picture=picture)
    now = later(other, title, page_class=page_class, parts=links, picture=picture)
    changes = compare_snapshots(then, now)

    assert -1 <= changes.distance < 7
    assert changes_as_json(changes, then, now)["drift"] == changes.drift
    same = compare_snapshots(now, replace(now, captured_at=NOW))
    assert same.drift in (PageDrift.UNCHANGED, PageDrift.UNKNOWN)
