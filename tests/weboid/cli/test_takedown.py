"""`weboid takedown` from end to end: added, listed, proved, lifted, erased."""

import fcntl
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from gzip import decompress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from core.errors import CollectionInUseError, InputError
from core.layout import COLLECTION_VERSION, Layout
from core.playback_check import PlaybackCheck, QaVerdict, picture_name
from core.timestamps import timestamp14, warc_date
from crawler import collection
from qa.check_store import find_checks, store_checks
from qa.check_table import CheckedPage
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, fetch, png, serving
from tests.support.services.registries import open_registry
from tests.weboid.cli.test_search import run as call
from warc.checksums import add_missing_sums
from warc.index.sqlite import SqliteCaptureIndex
from warc.rebuild import rebuild_index
from warc.verification import verify_collection
from weboid.cli.main import weboid

pytestmark = pytest.mark.playback

URL = "https://a.example/page"
SMALL = "https://b.example/"


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """Yield a collection of two pages, a picture, and the same picture elsewhere."""
    with closing(CollectionBuilder(tmp_path / "collection")) as builder:
        html = "<p>What the wombat says is nobody's business.</p>"
        page = builder.page(URL, html, title="Of wombats", shot=png("teal", (160, 100)), text="Text")
        builder.response(URL, html.encode(), page_id=page)
        builder.page("https://b.example/", "<p>Another page, of bilbies.</p>", title="Of bilbies")
        picture = builder.response("https://a.example/i.png", png(), mime="image/png")
        builder.revisit("https://b.example/i.png", picture)
        builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        with closing(SqliteCaptureIndex(builder.layout.captures_db)) as index:
            for path in builder.layout.archive.glob("*.gz"):
                index.cover(path.name, path.stat().st_size)
            add_missing_sums(builder.layout, index)
        yield builder.layout


def run(layout: Layout, *arguments: str, code: int = 0) -> Result:
    """Run `weboid takedown …`, assert its exit code and return the result."""
    words = ["takedown", *arguments, "--collection", str(layout.root)]
    result = CliRunner().invoke(weboid, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return result


def run_json(layout: Layout, *arguments: str, code: int = 0) -> Any:
    """Run the same with `--json` and return its JSON."""
    return json.loads(run(layout, *arguments, "--json", code=code).stdout)


def test_a_dry_run_says_what_would_be_covered(layout: Layout) -> None:
    """Pages and captures by kind; and nothing is decided."""
    (one,) = run_json(layout, "add", URL, "--dry-run")["added"]
    assert (one["pages"], one["captures"], one["number"]) == (1, 7, None)
    for options, pages in ((["--host", "example"], 2), (["--prefix", "a.example"], 1)):
        (one,) = run_json(layout, "add", *options, "--dry-run")["added"]
        assert one["pages"] == pages
    capture = ["--capture", timestamp14(NOW), URL]
    assert run_json(layout, "add", *capture, "--dry-run")["added"][0]["pages"] == 1
    assert run_json(layout, "list") == []


def test_a_dry_run_lists_the_captures_that_embed_a_document(layout: Layout) -> None:
    """Their copies are shown without it; they are not taken down themselves."""
    framed = "https://framed.example/words"
    with closing(CollectionBuilder(layout.root, is_there=True)) as builder:
        page_id = builder.page("https://c.example/", "<p>outer", title="Outer")
        builder.response(framed, b"<p>inner", page_id=page_id)

    preview = run_json(layout, "add", framed, "--dry-run")

    assert preview["embedded_in"] == [{"url": "https://c.example/", "timestamp": timestamp14(NOW)}]
    assert preview["added"][0]["pages"] == 0
    text = run(layout, "add", framed, "--dry-run").stdout
    assert f"{timestamp14(NOW)} https://c.example/" in text


def test_what_is_said_is_kept(layout: Layout) -> None:
    """Reason, ticket, actor, end; what holds already is left; files give more."""
    words = ["--reason", "By order 7.", "--ticket", "T-9", "--actor", "anna", "--until", "30d"]
    run_json(layout, "add", URL, *words)
    (one,) = run_json(layout, "list")
    facts = ("number", "kind", "what", "effect", "reason", "ticket", "actor", "holds")
    assert tuple(one[name] for name in facts) == (
        1, "url", URL, "block", "By order 7.", "T-9", "anna", True,
    )  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["expires_at"])
    assert run_json(layout, "add", URL, "--until", "1d") == {
        "added": [], "already": 1, "embedded_in": [], "dry_run": False,
    }  # fmt: skip
    longer = run_json(layout, "add", URL)
    assert len(longer["added"]) == 1  # for ever is longer than 30 days
    listed = layout.root / "urls.txt"
    listed.write_text("# asked for by mail\nhttps://c.example/1\n\nc.example/2\n")
    added = run_json(layout, "add", "--list", str(listed), "--hide")["added"]
    assert [each["what"] for each in added] == ["https://c.example/1", "https://c.example/2"]
    assert [each["number"] for each in added] == [3, 4]
    listed.write_text("https://c.example/3\nftp://c.example/\n")
    with pytest.raises(InputError, match="Entry 2"):
        run(layout, "add", "--list", str(listed))
    assert len(run_json(layout, "list")) == 4


def test_a_digest_brings_the_names_that_records_have_for_it(layout: Layout) -> None:
    """A chunked payload's record spells the digest of its chunks."""
    plain, chunked = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
    with closing(sqlite3.connect(layout.captures_db)) as database, database:
        values = (plain, chunked, "captures-00000.warc.gz", 0, 1, URL)
        database.execute("INSERT INTO payloads VALUES (?, '', ?, ?, ?, ?, ?, 0)", values)
    added = run_json(layout, "add", "--digest", plain)["added"]
    assert {each["what"] for each in added} == {plain, chunked}


def test_lifting_is_told_apart_from_never(layout: Layout) -> None:
    """By number or by name; the books keep it."""
    run(layout, "add", URL, "--reason", "x")
    with pytest.raises(InputError, match="7"):
        run(layout, "rm", "7", "--reason", "no such")
    assert run_json(layout, "rm", "a.example/page", "--reason", "a mistake") == {
        "lifted": [1], "dry_run": False,
    }  # fmt: skip
    assert run_json(layout, "list") == []
    (one,) = run_json(layout, "list", "--all")
    assert (one["lifted_reason"], one["holds"]) == ("a mistake", False)
    assert "lifted" in run(layout, "list", "--all").output


def test_prove_finds_a_leak_and_says_where(layout: Layout, tmp_path: Path) -> None:
    """Of a running archive, with what its readers held before."""
    warm = tmp_path / "warm.json"
    with pytest.raises(InputError, match="No take-down"):
        run(layout, "prove", URL)
    builder = _BuiltCollection(layout)
    with serving(builder) as served:  # type: ignore[arg-type]
        origins = ["--front", served.front, "--replay", served.replay]
        run(layout, "prove", SMALL, "--before", str(warm), *origins)
        run(layout, "add", SMALL, "--reason", "By order 7.")
        proof = run_json(layout, "prove", SMALL, "--warm", str(warm), *origins)
        assert (proof["sound"], proof["leaks"], proof["unproved"]) == (True, [], [])
        routes = {(each["server"], each["route"]) for each in proof["routes"]}
        assert {("front", "/"), ("front", "/latest/{rest:path}"), ("replay", "/c/…im_/…")} <= routes
        assert fetch(served.replay, f"/c/{timestamp14(NOW)}/{SMALL}").status == 451


class _BuiltCollection:
    """Part of a builder that `serving` needs."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout


def test_erase_takes_the_payloads_and_leaves_the_collection_sound(layout: Layout) -> None:
    """Only with --yes; what is lost with it is said first; the decision must stand."""
    before = {path: path.read_bytes() for path in layout.archive.iterdir()}
    run(layout, "add", "https://a.example/i.png")
    output = run(layout, "erase", "1").output
    assert "Lost with it: https://b.example/i.png" in output.splitlines()[0]
    assert "--yes" in output
    assert {path: path.read_bytes() for path in layout.archive.iterdir()} == before
    assert run_json(layout, "erase", "1", "--yes")["erased"] == 2
    assert verify_collection(layout).faults == []
    run(layout, "add", URL, "--hide")
    assert run_json(layout, "erase", "2", "--yes")["erased"] == 7
    assert verify_collection(layout).faults == []
    with pytest.raises(InputError, match="no take-down 9"):
        run(layout, "erase", "9", "--yes")
    run(layout, "rm", "2", "--reason", "x")
    with pytest.raises(InputError, match="lifted"):
        run(layout, "erase", "2", "--yes")
    with pytest.raises(InputError, match="number"):
        run(layout, "erase")


def test_what_checks_kept_of_an_erased_page_goes_with_it(layout: Layout) -> None:
    """Their records, of whatever moment, their rows and their pictures; those of other pages stay."""
    with closing(sqlite3.connect(layout.captures_db)) as index:
        ids = dict(index.execute("SELECT url, page_id FROM pages").fetchall())
    checks = [
        PlaybackCheck(ids[url], url, warc_date(NOW), level, warc_date(NOW), "e", QaVerdict.BROKEN, score=0.0)
        for url, level in ((URL, "images"), (URL, "full"), ("https://b.example/", "images"))
    ]
    with closing(CollectionBuilder(layout.root, is_there=True)) as builder:
        for number, check in enumerate(checks):
            builder.check(check, page_id=f"check-{number}")
            picture = layout.quality_pictures / picture_name(check.page_id, check.level, "shown")
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(b"picture")
    with closing(SqliteCaptureIndex(layout.captures_db)) as index_:
        path = layout.archive / "artifacts-00000.warc.gz"
        index_.cover(path.name, path.stat().st_size)
        layout.checksums.unlink()
        add_missing_sums(layout, index_)
    with closing(open_registry(layout)) as store, store.writing() as rows:
        store_checks(rows, [CheckedPage(check, "host") for check in checks], NOW)
    run(layout, "add", "--capture", timestamp14(NOW), URL)
    run(layout, "erase", "1", "--yes")

    with closing(sqlite3.connect(layout.captures_db)) as index:
        assert index.execute("SELECT page_id FROM qualities").fetchall() == [(checks[2].page_id,)]
    with closing(open_registry(layout)) as store, store.snapshot() as reader:
        checked_pages = find_checks(reader, [check.page_id for check in checks])
    assert [row.check.url for row in checked_pages] == ["https://b.example/"]
    assert [path.name for path in layout.quality_pictures.rglob("*.webp")] == [f"{checks[2].page_id}.images.shown.webp"]
    assert verify_collection(layout).faults == []
    before = rows_of(layout)
    rebuild_index(layout, bucket="default")
    assert rows_of(layout) == before


def rows_of(layout: Layout) -> list[tuple[object, ...]]:
    """Return the index's rows of quality checks."""
    with closing(sqlite3.connect(layout.captures_db)) as index:
        return index.execute("SELECT * FROM qualities").fetchall()


def test_erase_waits_for_nobody_who_writes(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection that a crawl holds is refused."""
    run(layout, "add", URL)
    monkeypatch.setattr(collection, "LOCK_WAIT_S", 0.0)
    with layout.lock.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CollectionInUseError):
            run(layout, "erase", "1", "--yes")


SITE = "https://foreign.example"
FOREIGN, OTHER = f"{SITE}/recipe", f"{SITE}/other"
SECRETS = ("uncles", "Recipe of")  # in text and title of the page
MOMENT = timestamp14(NOW)
REPLAYED = f"/c/{MOMENT}mp_/{FOREIGN}"


def _answers(served: ServedCollection) -> dict[str, str]:
    """Return the answers of the front and of replay by address."""
    paths = [
        "/", "/?q=foreign.example", "/?q=aunts&in=text", f"/url/{FOREIGN}", "/api/pages", f"/api/pages?url={FOREIGN}",
        "/api/pages?q=aunts&in=text", "/feed.atom", "/feed.atom?host=foreign.example", f"/timemap/link/{FOREIGN}",
        f"/timemap/json/{FOREIGN}", f"/timegate/{FOREIGN}", f"/latest/{FOREIGN}", f"/cdx?url={FOREIGN}&output=json",
        f"/cdx?url={SITE}/&matchType=prefix", f"/screenshot/{MOMENT}/{FOREIGN}", f"/text/{MOMENT}/{FOREIGN}",
    ]  # fmt: skip
    replayed = [f"/c/{MOMENT}{modifier}/{FOREIGN}" for modifier in ("mp_", "id_", "im_", "js_")]
    return {path: served.get(path).text for path in paths} | {
        path: fetch(served.replay, path).text for path in replayed
    }


def _exported(root: Path, out: Path) -> str:
    """Export the collection as WACZ and return all that the file holds, uncompressed."""
    call(root, "export", str(out))
    with zipfile.ZipFile(io.BytesIO(out.read_bytes())) as archive:
        data = [archive.read(name) for name in archive.namelist()]
    return b"\n".join(decompress(each) if each.startswith(b"\x1f\x8b") else each for each in data).decode("latin-1")


def test_nothing_of_an_imported_page_that_is_taken_down_shows(tmp_path: Path) -> None:
    """Pages, search, feed, TimeMap, CDX, replay, export; hidden, its address is in no list either."""
    with closing(CollectionBuilder(tmp_path / "theirs")) as theirs:
        body = "<html lang=en><title>Recipe of cakes</title><p>The secret of my aunts &amp; uncles<img src=/cake.png>"
        theirs.response(FOREIGN, body.encode())
        theirs.response(f"{SITE}/cake.png", png(), mime="image/png")
        theirs.response(OTHER, b"<html lang=en><title>Other</title><p>Words of my nieces")
        file = next(theirs.layout.archive.glob("*.warc.gz"))
    root = tmp_path / "ours"
    with closing(CollectionBuilder(root)) as ours:
        ours.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    call(root, "import", str(file))
    with closing(CollectionBuilder(root, is_there=True)) as ours, serving(ours) as served:
        shown = _answers(served)
        telling = {path for path, text in shown.items() if any(each in text for each in SECRETS)}
        assert {"/", "/?q=aunts&in=text", "/api/pages", "/feed.atom", f"/url/{FOREIGN}", REPLAYED} <= telling
        call(root, "takedown", "add", FOREIGN, "--reason", "Order 7")
        taken = _answers(served)
        call(root, "takedown", "add", FOREIGN, "--hide")
        hidden = _answers(served)
        assert [(path, each) for path, text in (taken | hidden).items() for each in SECRETS if each in text] == []
        assert "Order 7" in taken[REPLAYED]
        assert [path for path, text in hidden.items() if FOREIGN in text and FOREIGN not in path] == []
        assert OTHER in hidden["/"]
    exported = _exported(root, tmp_path / "out.wacz")
    assert [each for each in (*SECRETS, FOREIGN) if each in exported] == []
    assert OTHER in exported
