"""Holdings of the archive, on a real collection into which faults are planted."""

import io
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from warcio.archiveiterator import ArchiveIterator

from core.layout import Layout
from core.page_manifest import PageInfo, PageResource, VisitOutcome, parse_pageinfo
from core.playback_check import LostPart
from qa import holdings
from qa.holdings import ROWS_OF_PAGE, HoldingsRow, HoldingsVerifier, text_digest
from tests.support.commands import WeboidRunner, profile_for
from tests.support.planted_faults import PlantedFault, plant
from tests.support.planted_faults import RecordFacts as Record
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb
from warc.rebuild import rebuild_index

FIRST, AGAIN = f"http://{hosts.GALLERY}/gallery/1", f"http://{hosts.GALLERY}/gallery/1?again"
SHEET, PICTURE = f"{FIRST}/0.css", f"{FIRST}/12.jpg"
_numbers = st.integers(-(2**40), 2**40)
_names = st.sampled_from(["a.warc.gz", "../a.warc.gz", "/etc/passwd", "", "a.warc.gz.open", "\0"])
_digests = st.sampled_from(["", "sha256:" + "0" * 64, "sha1:x", "\x00"])


@pytest.fixture(scope="module")
def archived(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive a gallery twice: the second time all but the page itself are revisits."""
    folder = tmp_path_factory.mktemp("archived")
    groups: dict[str, dict[str, Any]] = {
        "politeness": {"visits_per_host": 1},
        "visit": {"shared_pages": 1, "full_page": False, "settle_s": 0.1},
        "behaviours": {"run": []},
    }
    weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml", **groups))
    ran = weboid.archive(FIRST, AGAIN)
    assert ran.code == 0, ran.err
    return weboid.collection


@pytest.fixture
def layout(archived: Path, tmp_path: Path) -> Layout:
    """Return a copy of the archived collection, to be damaged."""
    return Layout(Path(shutil.copytree(archived, tmp_path / "collection")))


def rows_of(layout: Layout) -> Callable[[str], list[HoldingsRow]]:
    def rows(page_id: str) -> list[HoldingsRow]:
        with closing(sqlite3.connect(layout.captures_db)) as database:
            return [HoldingsRow(*row) for row in database.execute(ROWS_OF_PAGE, {"page_id": page_id})]

    return rows


def manifest(layout: Layout, url: str) -> PageInfo:
    for path in sorted(layout.archive.glob("artifacts-*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_headers.get_header("WARC-Target-URI") == f"urn:pageinfo:{url}":
                    return parse_pageinfo(record.content_stream().read())
    raise LookupError(url)


def lost_of(layout: Layout, url: str, page: PageInfo | None = None) -> tuple[LostPart, ...]:
    return HoldingsVerifier(layout, rows_of(layout)).check(page or manifest(layout, url))


def planted(layout: Layout, takes: Callable[[Record], bool], change: Callable[[Record], bytes | None]) -> None:
    """Plant one fault, and rebuild the index as an operator would."""
    took = plant(layout, [PlantedFault("fault", takes, change)])
    assert took["fault"]
    rebuild_index(layout, bucket="default")


def gone(_record: Record) -> None:
    """Leave the record out."""


@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.parametrize("url", [FIRST, AGAIN])
def test_all_that_was_archived_is_held(layout: Layout, url: str) -> None:
    """Every part and artifact of a sound page is found."""
    page = manifest(layout, url)

    assert lost_of(layout, url, page) == ()
    assert len({each.url for each in page.resources}) + len(page.artifacts) >= 95
    assert {each.kept for each in page.resources} >= ({"response"} if url == FIRST else {"revisit"})


@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.parametrize(
    ("kind", "uri", "change", "reason"),
    [
        pytest.param("response", SHEET, gone, "missing: index", id="a style sheet left out"),
        pytest.param("response", PICTURE, lambda record: _mirrored(record.payload), "digest", id="a picture exchanged"),
        pytest.param(
            "resource",
            f"urn:dom:{FIRST}",
            lambda _: b"<!DOCTYPE html>\n<html><head><title>Gallery</title></head><body></body></html>",
            "empty",
            id="a document emptied",
        ),
        pytest.param("resource", f"urn:text:{FIRST}", lambda _: b"Other words.", "digest", id="another text"),
        pytest.param("resource", f"urn:dom:{FIRST}", gone, "missing: index", id="no document"),
        pytest.param("resource", f"urn:view:{FIRST}", gone, "missing: index", id="no picture"),
    ],
)
def test_a_planted_fault_is_found(
    layout: Layout, kind: str, uri: str, change: Callable[[Record], bytes | None], reason: str
) -> None:
    """A part that is gone or was replaced is reported by its URL, and nothing else is."""
    page = manifest(layout, FIRST)
    planted(layout, lambda record: (record.kind, record.uri, record.page_id) == (kind, uri, page.page_id), change)

    assert lost_of(layout, FIRST, page) == (LostPart(uri, reason),)


@pytest.mark.browser
@pytest.mark.proxy
def test_a_revisit_whose_payload_is_gone_is_lost(layout: Layout) -> None:
    """Its own record is there, and nothing can be shown of it."""
    planted(layout, lambda record: (record.kind, record.uri) == ("response", PICTURE), gone)

    assert lost_of(layout, AGAIN) == (LostPart(PICTURE, "original-gone"),)


@pytest.mark.browser
@pytest.mark.proxy
def test_every_flipped_bit_is_found(layout: Layout) -> None:
    """A record that rots in its place, unseen by the index, is damaged; its revisits are lost."""
    first, again = manifest(layout, FIRST), manifest(layout, AGAIN)
    row = next(row for row in rows_of(layout)(first.page_id) if row.url == PICTURE)
    path = layout.archive / row.filename
    data = bytearray(path.read_bytes())
    sound = bytes(data[row.offset : row.offset + row.length])
    data[row.offset + row.length // 2] ^= 1
    path.write_bytes(data)

    (lost,) = lost_of(layout, FIRST, first)
    assert (lost.url, lost.reason.partition(":")[0]) == (PICTURE, "damaged")
    assert lost_of(layout, AGAIN, again) == (LostPart(PICTURE, "original-gone"),)

    # Where another record has the payload, playback takes it from there: so it is held.
    (layout.archive / "twin.warc.gz").write_bytes(sound)
    twin = row._replace(url=f"{PICTURE}?elsewhere", filename="twin.warc.gz", offset=0)
    for rows, lost_now in (([row, twin], ()), ([row], (PICTURE,))):
        holding = HoldingsVerifier(layout, rows_of(layout), twins_of={row.digest: rows}.__getitem__)
        assert tuple(each.url for each in holding.check(again)) == lost_now


@pytest.mark.browser
@pytest.mark.proxy
def test_a_file_that_is_gone_takes_all_its_parts_with_it(layout: Layout) -> None:
    """Each of them is told."""
    page = manifest(layout, FIRST)
    rows = [row for row in rows_of(layout)(page.page_id) if row.record_type == "response"]
    for name in {row.filename for row in rows}:
        (layout.archive / name).unlink()

    lost = {each.url: each.reason for each in lost_of(layout, FIRST, page)}
    assert lost == {row.url: "missing: file" for row in rows}


@pytest.mark.browser
@pytest.mark.proxy
def test_what_was_taken_down_may_be_gone(layout: Layout) -> None:
    """Nobody captures again what nobody may see."""
    page = manifest(layout, FIRST)
    planted(layout, lambda record: record.uri == PICTURE, gone)
    checked = HoldingsVerifier(layout, rows_of(layout), is_hidden=lambda url, _digest: url == PICTURE).check(page)

    assert checked == ()


@pytest.mark.browser
@pytest.mark.proxy
def test_a_page_is_not_read_beyond_its_limits(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts beyond them are looked up at most: that their file is gone is not noticed."""
    page = manifest(layout, FIRST)
    for row in rows_of(layout)(page.page_id):
        (layout.archive / row.filename).unlink(missing_ok=True)
    assert len(lost_of(layout, FIRST, page)) > 10

    monkeypatch.setattr(holdings, "MOST_PARTS", 10)
    assert len(lost_of(layout, FIRST, page)) == 10

    monkeypatch.setattr(holdings, "MOST_BYTES", 1)
    assert lost_of(layout, FIRST, page) == ()


@given(
    st.lists(
        st.builds(
            HoldingsRow,
            url=st.sampled_from(["http://a.example/", "urn:dom:http://a.example/"]),
            record_type=st.sampled_from(["response", "revisit", "resource", "x"]),
            digest=_digests,
            filename=_names,
            offset=_numbers,
            length=_numbers,
            orig_filename=st.none() | _names,
            orig_offset=st.none() | _numbers,
            orig_length=st.none() | _numbers,
        ),
        max_size=4,
    ),
    _digests,
)
def test_an_index_that_lies_harms_nobody(rows: list[HoldingsRow], digest: str) -> None:
    """Whatever it says, only names inside ``archive/`` are opened; a part is lost, or too large to be read."""
    page = PageInfo(
        "one", "http://a.example/", "http://a.example/", "2026-01-01T00:00:00Z", VisitOutcome.COMPLETE,
        resources=(PageResource("http://a.example/", digest=digest),),
        artifacts=("dom", "hologram"),
        text_digest=text_digest(b"words"),
    )  # fmt: skip
    lost_parts = HoldingsVerifier(Layout(Path("/nonexistent")), lambda _: rows).check(page)

    assert len(lost_parts) <= 2
    assert all(each.reason for each in lost_parts)


@pytest.mark.parametrize(
    ("dom", "is_empty"),
    [
        ("", True),
        ("<html><head><title>A</title><style>p { color: red }</style></head><body> </body>", True),
        ("<html><body><p>A</p></body></html>", False),
        (f"<html><body>{'<div></div>' * 5_000}at last</body></html>", False),
        ('<body><img src="a.png"></body>', False),
        ('<iframe data-weboid-document="&lt;p&gt;words"></iframe>', False),
    ],
)
def test_a_document_is_empty_when_nothing_of_it_is_seen(dom: str, is_empty: bool) -> None:
    """Titles and style sheets are not seen; pictures and what stands in frames are."""
    assert holdings._is_empty(dom.encode()) is is_empty


def _mirrored(picture: bytes) -> bytes:
    with Image.open(io.BytesIO(picture)) as image, io.BytesIO() as buffer:
        ImageOps.mirror(image.convert("RGB")).save(buffer, "JPEG")
        return buffer.getvalue()


def test_the_digest_of_a_text_is_the_manifests() -> None:
    """White space does not count, as in `core.page_manifest.PageInfo.text_digest`."""
    assert text_digest(b" a\n b ") == text_digest(b"a b") != text_digest(b"ab")
