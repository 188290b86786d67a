"""Search, versions, one capture, comparison and downloads of the console."""

import gzip
import io
import zipfile

import pytest
from PIL import Image

from playback.access.takedowns import (
    Takedown,
    TakedownEffect,
    TakedownKind,
    add_takedowns,
    lift_takedowns,
    list_takedowns,
)
from tests.support.console_server import ServedConsole
from tests.weboid.console.sample_collection import NOW, STORY


def test_search_finds_titles_and_sites(console: ServedConsole) -> None:
    """Each result leads to its capture and to all versions of its address."""
    text = console.get("/captures", q="steam engines").text

    assert "https://museum.example/steam-engines-of-the-valley" in text
    assert "library.example" not in text
    assert "/console/captures/url?url=" in text
    assert "No archived page matches" in console.get("/captures", q="nothing-like-this").text


def test_texts_are_searched_with_facets_and_snippets(console: ServedConsole) -> None:
    """Words of the page, marked; what is hidden is found by curators, never by readers or in their counts."""
    search = {"q": "admission", "in": "text"}
    shown = console.get("/captures", **search).text
    add_takedowns(
        console.stores.decisions, [Takedown(0, TakedownKind.URL, STORY, effect=TakedownEffect.HIDE, decided_at=NOW)]
    )
    try:
        console.role = "reader"
        hidden = console.get("/captures", **search).text
        console.role = "curator"
        curator_page = console.get("/captures", **search).text
    finally:
        numbers = [each.number for each in list_takedowns(console.stores.decisions)]
        lift_takedowns(console.stores.decisions, numbers, actor="test", reason="", now=NOW)

    assert "<mark>Admission</mark> is free" in shown
    assert "<mark>Admission</mark> is free" in curator_page
    assert "1 page<" in shown
    assert "No archived page matches" in hidden
    assert STORY not in hidden
    assert 'value="text" selected' in shown


def test_versions_have_a_calendar_and_two_are_compared(console: ServedConsole) -> None:
    """Text that changed is marked; without a capture the page says so."""
    newest, older, _ = console.page_ids(STORY)

    versions = console.get("/captures/url", url=STORY).text
    compared = console.get("/captures/compare", a=newest, b=older).text

    assert "3 captures" in versions
    assert versions.count("changed</span>") == 2
    assert "<ins> and Mondays</ins>" in compared.replace("\n", "")
    assert compared.index(older) < compared.index(newest)
    assert "no capture" in console.get("/captures/url", url="https://never.example/").text


@pytest.mark.parametrize("period", ["2026", "20261", "99999999", "20261128153231", "x" * 14, "00000000000000"])
def test_a_period_that_is_none_is_not_an_error(period: str, console: ServedConsole) -> None:
    """It shows the newest captures, or none, or is not found."""
    assert console.get("/captures/url", url=STORY, period=period).status_code in (200, 404)


def test_a_capture_shows_its_parts_and_records(console: ServedConsole) -> None:
    """Sizes and states of the requests; where the records are."""
    text = console.get(f"/captures/{console.page_ids(STORY)[0]}").text

    assert "4 requests" in text
    assert "25.8 kB received" in text
    assert "https://tracker.example/pixel" in text
    assert "policy: list" in text
    assert "artifacts-00000.warc.gz:" in text
    assert console.get("/captures/0123").status_code == 404


def test_downloads_hold_the_capture(console: ServedConsole) -> None:
    """Picture, text, manifest, and packages that other tools read."""
    page_id = console.page_ids(STORY)[0]

    def file(name: str) -> bytes:
        answer = console.get(f"/captures/{page_id}/file/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-disposition"].startswith("attachment;")
        return answer.content

    with Image.open(io.BytesIO(file("png"))) as image:
        assert image.size == (640, 400)
    assert b"Admission is free." in file("txt")
    assert STORY.encode() in file("json")
    with zipfile.ZipFile(io.BytesIO(file("wacz"))) as package:
        assert "datapackage.json" in package.namelist()
        pages = package.read("pages/pages.jsonl").decode()
    assert pages.count('"url"') == 1
    assert STORY in pages
    assert b"WARC-Type: response" in gzip.decompress(file("warc"))
    assert console.get(f"/captures/{page_id}/file/exe").status_code == 404


def test_pictures_are_served_as_pictures_only(console: ServedConsole) -> None:
    """Stored pictures come from a browser that showed a hostile page; they are sandboxed and not sniffed."""
    answer = console.get(f"/captures/{console.page_ids(STORY)[0]}/picture", kind="thumbnail")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_readers_do_not_see_what_is_hidden(console: ServedConsole) -> None:
    """A curator does, with the reason; neither list, picture nor download gives it to a reader."""
    url = "https://council.example/budget-2027"
    page_id = console.page_ids(url)[0]
    made = Takedown(0, TakedownKind.URL, url, effect=TakedownEffect.HIDE, reason="Court order", decided_at=NOW)
    add_takedowns(console.stores.decisions, [made])
    try:
        curator = console.get(f"/captures/{page_id}").text
        console.role = "reader"
        seen = [
            console.get(f"/captures/{page_id}{part}").status_code
            for part in ("", "/picture", "/file/txt", "/file/wacz")
        ]
        listed = console.get("/captures", q="budget").text
    finally:
        number = list_takedowns(console.stores.decisions)[-1].number
        lift_takedowns(console.stores.decisions, [number], actor="Ada", reason="test", now=NOW)

    assert "Court order" in curator
    assert seen == [404] * 4
    assert "Budget 2027" not in listed


def test_readers_see_no_records_of_what_is_taken_down(console: ServedConsole) -> None:
    """Of a page with a notice they see that it was captured, and why it is not shown."""
    page_id = console.page_ids(STORY)[0]
    add_takedowns(
        console.stores.decisions, [Takedown(0, TakedownKind.URL, STORY, reason="Court order", decided_at=NOW)]
    )
    try:
        curator = console.get(f"/captures/{page_id}").text
        console.role = "reader"
        reader = console.get(f"/captures/{page_id}").text
    finally:
        number = list_takedowns(console.stores.decisions)[-1].number
        lift_takedowns(console.stores.decisions, [number], actor="Ada", reason="test", now=NOW)

    assert "captures-00000.warc.gz" in curator
    assert "Court order" in reader
    assert "captures-00000.warc.gz" not in reader
    assert "Reading room" not in reader
