"""`weboid collection cache`: how much of what was made is kept, and nothing of it after a clear."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from playback.replay.made_cache import FileCache
from weboid.cli.main import weboid

Run = Callable[..., str]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Create a collection where playback has cached three copies of 1,000 bytes."""
    root = tmp_path / "collection"
    root.mkdir()
    (root / "collection.toml").write_text('version = 1\nname = "collection"\n')
    cache = FileCache(
        root / "cache" / "playback", limit=10**6, wait=lambda _: None, later=lambda *_: None,
        now=lambda: 0.0,
    )  # fmt: skip
    for number in range(3):
        cache.keep(f"{number:064x}", bytes(1_000))
    return root


@pytest.fixture
def run(collection: Path) -> Run:
    """Return a function that runs `weboid collection cache` on the collection and returns its output."""

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(weboid, ["collection", "cache", *arguments, "--collection", str(collection)])
        assert done.exit_code == 0, done.output
        return done.output

    return call


def test_show_counts_and_clear_deletes(run: Run, collection: Path) -> None:
    """A dry run only counts; the folder may be cleared twice."""
    assert run().startswith("Kept 3 copies, 0.0 MB, in ")
    assert run("--clear", "--dry-run").startswith("Would delete 3 copies")
    assert json.loads(run("--json"))["kept"]["copies"] == 3

    assert json.loads(run("--clear", "--json"))["deleted"]["copies"] == 3

    assert json.loads(run("--json"))["kept"] == {"copies": 0, "bytes": 0}
    assert run("--clear").startswith("Deleted 0 copies")
    assert not list((collection / "cache").rglob("??/????*"))


def test_a_folder_that_is_no_collection_is_refused(tmp_path: Path) -> None:
    """Nothing is deleted by a slip of the keyboard."""
    precious = tmp_path / "cache" / "playback" / "ab" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_bytes(b"x")

    done = CliRunner().invoke(weboid, ["collection", "cache", "--clear", "--collection", str(tmp_path)])

    assert done.exit_code != 0
    assert precious.exists()
