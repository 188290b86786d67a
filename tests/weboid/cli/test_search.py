"""`weboid search`, and the commands that write or change the full-text index."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.layout import COLLECTION_VERSION
from tests.support.playback_fixtures import CollectionBuilder
from weboid.cli.main import weboid

URL = "https://foreign.example/recipe"


def run(root: Path, *words: str) -> str:
    """Run the command on the collection at `root` and return its output."""
    result = CliRunner().invoke(weboid, [*words, "--collection", str(root)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def search_urls(root: Path, *words: str) -> list[str]:
    """Return the URLs that a search finds."""
    return [page["url"] for page in json.loads(run(root, "search", *words, "--json"))["pages"]]


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """Import a capture of another tool, which has no text artifact, and return the collection's root."""
    body = b"<html lang=en><title>Recipe</title><script>hidden</script><p>The secret cakes of my aunts &amp; uncles"
    with closing(CollectionBuilder(tmp_path / "theirs")) as theirs:
        theirs.response(URL, body)
        file = next(theirs.layout.archive.glob("*.warc.gz"))
    with closing(CollectionBuilder(tmp_path / "ours")) as ours:
        ours.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    run(tmp_path / "ours", "import", str(file))
    return tmp_path / "ours"


def test_an_imported_capture_is_found_until_it_is_taken_down(imported: Path) -> None:
    """By the text of its markup; a take-down counts at once, and its end, too."""
    shown = run(imported, "search", "secret", "cake")

    assert URL in shown
    assert "aunts & uncles" in shown
    assert search_urls(imported, "hidden") == []
    assert search_urls(imported, "cakes", "--host", "foreign.example", "--lang", "en") == [URL]
    assert search_urls(imported, "cakes", "--year", "1999") == []
    run(imported, "takedown", "add", "https://foreign.example/recipe", "--hide")
    assert search_urls(imported, "cakes") == []
    assert search_urls(imported, "foreign.example") == []
    assert "Nothing was found" in run(imported, "search", "cakes")


def test_the_index_is_rebuilt_alone_or_with_the_captures_index(imported: Path) -> None:
    """A lost one, too."""
    database = imported / "db" / "texts.sqlite"
    for words in (("--only", "texts"), ()):
        database.unlink()
        assert search_urls(imported, "cakes") == []
        run(imported, "collection", "rebuild", *words)
        assert search_urls(imported, "cakes") == [URL]
    database.unlink()
    run(imported, "collection", "rebuild", "--only", "captures")
    assert not database.exists()


def test_erased_text_leaves_the_index(imported: Path) -> None:
    """With the records in the WARCs."""
    run(imported, "takedown", "add", URL)
    number = json.loads(run(imported, "takedown", "ls", "--json"))
    number = (number if isinstance(number, list) else number["takedowns"])[0]["number"]
    run(imported, "takedown", "erase", str(number), "--yes")

    assert b"recip" not in b"".join(each.read_bytes() for each in (imported / "db").glob("texts.sqlite*"))


def test_texts_are_in_the_database_of_the_captures_index(imported: Path, database_url: str) -> None:
    """Rebuilt twice, and searched there."""
    for only in ((), ("--only", "texts")):
        run(imported, "collection", "rebuild", *only, "--database", database_url)
        assert search_urls(imported, "cakes", "--database", database_url) == [URL]
    assert search_urls(imported, "cakes", "--year", "1999", "--database", database_url) == []
