"""Pages that the indexer reads, adds, completes and erases."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from classify.page_excerpt import visible_text
from core.errors import TransientError
from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from tests.support.playback_fixtures import CollectionBuilder
from warc.artifact_reader import read_manifest
from warc.index.database import open_database
from warc.text_index.analysis import parse_terms
from warc.text_index.indexer import TextIndexThread, complete_texts, erase_texts, open_texts, rebuild_texts
from warc.text_index.reader import open_text_index
from warc.text_index.store import TextFilter

SITE = "https://texts.example"


def count(layout: Layout, words: str) -> int:
    """Count the texts with these words."""
    with closing(open_text_index(layout, "")) as index:
        return len(index.hits(parse_terms(words), TextFilter(), index.languages(), limit=1_000))


def small_pdf(text: str) -> bytes:
    """Return a PDF whose only page says so."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    data, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % each for each in offsets)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>startxref\n%d\n%%%%EOF"
    return data + end % (table, len(data))


@pytest.fixture
def filled(collection: CollectionBuilder) -> CollectionBuilder:
    """Index pages of each sort."""
    collection.page(f"{SITE}/a", "<p>x</p>", title="First", text="apples and pears")
    page_id = collection.page(f"{SITE}/b.pdf", None, mime="application/pdf")
    collection.response(f"{SITE}/b.pdf", small_pdf("Quarterly figures"), mime="application/pdf", page_id=page_id)
    page_id = collection.page(f"{SITE}/c.txt", None, mime="text/plain")
    collection.response(f"{SITE}/c.txt", b"plain cucumbers", mime="text/plain", page_id=page_id)
    page_id = collection.page(f"{SITE}/d", None)
    body = b"<title>t</title><script>hidden()</script><p>Markup of melons</p>"
    collection.response(f"{SITE}/d", body, page_id=page_id)
    page_id = collection.page(f"{SITE}/e.pdf", None, mime="application/pdf")
    collection.response(f"{SITE}/e.pdf", b"%PDF-1.7 broken", mime="application/pdf", page_id=page_id)
    collection.page(f"{SITE}/f", None, outcome=VisitOutcome.FAILED, title="failed plums")
    collection.page(f"{SITE}/g", "<p>x</p>", page_class=PageClass.CHALLENGE, text="challenged plums")
    return collection


def test_each_sort_of_page_is_read(filled: CollectionBuilder) -> None:
    """Text artifacts, PDFs, plain documents and markup; neither failed visits nor challenges."""
    assert rebuild_texts(filled.layout, "", visible_text) == 5

    expected_counts = {
        "pear": 1, "first": 1, "quarterly figure": 1, "cucumber": 1, "melon": 1, "hidden": 0, "plum": 0,
        "texts.example": 5,
    }  # fmt: skip
    assert {words: count(filled.layout, words) for words in expected_counts} == expected_counts


def test_a_damaged_index_names_the_command_that_writes_it_again(filled: CollectionBuilder) -> None:
    """Of another format, or with pages of random bytes; rebuilding it is enough."""
    path = filled.layout.texts_db
    rebuild_texts(filled.layout, "", visible_text)
    for damaged in (b"garbage", path.read_bytes()[:4096] + b"\xa5" * 40_960):
        path.write_bytes(damaged)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        with pytest.raises(TransientError, match=r"texts is damaged .* `weboid collection rebuild --only texts`"):
            count(filled.layout, "apples")
        rebuild_texts(filled.layout, "", visible_text)
        assert count(filled.layout, "apples") == 1


def test_completing_adds_and_removes_only_the_difference(filled: CollectionBuilder) -> None:
    """Pages that came are added, pages that left the captures index are removed."""
    rebuild_texts(filled.layout, "", visible_text)
    filled.page(f"{SITE}/new", "<p>x</p>", text="figs")
    with closing(sqlite3.connect(filled.layout.captures_db)) as database:
        database.execute("DELETE FROM pages WHERE url = ?", (f"{SITE}/a",))
        database.commit()
    with open_texts(filled.layout, "", visible_text) as (reader, writer):
        assert complete_texts(reader, writer) == (1, 1)
        assert complete_texts(reader, writer) == (0, 0)

    assert (count(filled.layout, "fig"), count(filled.layout, "pear")) == (1, 0)


def test_erased_text_is_nowhere_in_the_file(filled: CollectionBuilder) -> None:
    """Not in a free page, a segment or the log."""
    page_id = filled.page(f"{SITE}/secret", "<p>x</p>", title="zuckerwattenmaschine", text="blaubeerkuchenrezept")
    rebuild_texts(filled.layout, "", visible_text)
    path = filled.layout.texts_db
    before = path.read_bytes()
    with closing(sqlite3.connect(filled.layout.captures_db)) as database:
        database.execute("DELETE FROM pages WHERE page_id = ?", (page_id,))
        database.commit()
    erase_texts(filled.layout, "", {page_id}, visible_text)
    after = b"".join(each.read_bytes() for each in path.parent.glob("texts.sqlite*"))

    assert b"zuckerwattenmaschin" in before
    assert b"zuckerwattenmaschin" not in after
    assert b"blaubeerkuchenrezept" not in after
    assert count(filled.layout, "pear") == 1


def test_the_thread_adds_pages_and_what_an_earlier_process_left(filled: CollectionBuilder) -> None:
    """A page that is handed over is in the index after the end; so are those before it."""
    thread = TextIndexThread(filled.layout, "", visible_text)
    page_id = filled.page(f"{SITE}/new", "<p>x</p>", text="figs")
    with closing(open_database(filled.layout, "")) as database:
        manifest = read_manifest(filled.layout, database, page_id)
    assert manifest is not None
    thread.put([manifest])
    thread.close()

    assert count(filled.layout, "fig") == 1
    with open_texts(filled.layout, "", visible_text) as (reader, writer):
        complete_texts(reader, writer)
    assert count(filled.layout, "pear") == 1


def test_an_index_of_another_version_is_written_again(filled: CollectionBuilder, tmp_path: Path) -> None:
    """Readers find nothing in it until then."""
    rebuild_texts(filled.layout, "", visible_text)
    with closing(sqlite3.connect(filled.layout.texts_db)) as database:
        database.execute("PRAGMA user_version = 99")
    assert count(filled.layout, "pear") == 0
    with open_texts(filled.layout, "", visible_text) as (reader, writer):
        complete_texts(reader, writer)
    assert count(filled.layout, "pear") == 1
