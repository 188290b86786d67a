"""How alike two pictures of a page are: what is lost costs, what a font or a line break does costs little."""

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from click.testing import CliRunner
from PIL import Image, ImageDraw

from core.errors import PermanentError
from core.timestamps import timestamp14
from crawler.cli.score import playback
from playback.decisions.scores import PageScore, read_scores, score_changes
from playback.decisions.store import SqliteDecisionStore
from playback.scoring import compare
from tests.playback.conftest import NOW, CollectionBuilder


def page(
    *,
    ground: str = "white",
    columns: int = 3,
    shift: int = 0,
    picture: bool = True,
    banner: str = "navy",
    size: tuple[int, int] = (1280, 1600),
) -> bytes:
    """A picture of a page: a banner, columns of lines, a picture."""
    image = Image.new("RGB", size, ground)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 1280, 100), fill=banner)
    for column in range(columns):
        for row in range(40):
            left = 40 + column * 400
            for word in range(6):
                x, y = left + word * 55 + (row * 7 + word * 3) % 11 + shift, 140 + row * 30 + shift
                draw.rectangle((x, y, x + 40, y + 10), fill="black")
    if picture:
        draw.rectangle((500, 700, 900, 1000), fill="orange")
    with io.BytesIO() as buffer:
        image.save(buffer, "PNG")
        return buffer.getvalue()


def test_the_same_picture_is_wholly_alike() -> None:
    """Also when it was made at twice the pixels."""
    with Image.open(io.BytesIO(page())) as image, io.BytesIO() as buffer:
        image.resize((2560, 3200), Image.Resampling.BOX).save(buffer, "PNG")
        large = buffer.getvalue()

    assert compare(page(), page()).score == 1
    assert compare(page(), large).score > 0.98


@pytest.mark.parametrize(
    ("shown", "least", "most"),
    [
        (page(shift=2), 0.85, 1.0),
        (page(picture=False), 0.4, 0.95),
        (page(columns=2), 0.3, 0.8),
        (page(banner="white"), 0.3, 0.93),
        (page(ground="black"), 0.0, 0.6),
        (page(size=(1280, 800)), 0.2, 0.75),
        (page(columns=0, picture=False, banner="white"), 0.0, 0.3),
    ],
    ids=["moved a little", "no picture", "a column less", "no banner", "no ground", "cut", "empty"],
)
def test_what_is_lost_costs(shown: bytes, least: float, most: float) -> None:
    """More than a substitute typeface does, and the more the more there was."""
    assert least <= compare(page(), shown).score <= most
    assert compare(page(), shown).score < compare(page(), page(shift=1)).score


@pytest.mark.parametrize("data", [b"", b"<svg/>", page()[:200], b"GIF89a"])
def test_what_is_no_picture_is_said(data: bytes) -> None:
    """An error that its caller expects."""
    with pytest.raises(PermanentError):
        compare(page(), data)


@pytest.fixture
def store(collection: CollectionBuilder) -> Iterator[SqliteDecisionStore]:
    """The decisions of an empty collection."""
    with closing(SqliteDecisionStore(collection.layout.decisions_db)) as opened:
        yield opened


def test_a_score_takes_the_place_of_the_one_before(store: SqliteDecisionStore) -> None:
    """One for each capture and level, the lowest first."""
    first = PageScore("https://a.example/", timestamp14(NOW), "images", 3, 0.5, NOW)
    other = PageScore("https://b.example/", timestamp14(NOW), "images", 3, 0.25, NOW)
    again = PageScore("https://a.example/", timestamp14(NOW), "images", 4, 0.125, NOW)

    store.change(score_changes([first, other]))
    store.change(score_changes([again]))

    assert read_scores(store) == [again, other]


@pytest.mark.browser
@pytest.mark.playback
def test_the_command_finds_the_copy_that_lost_something(collection: CollectionBuilder) -> None:
    """Two pages, archived with pictures that real copies do and do not look like; one has none."""
    with Image.new("RGB", (1280, 800), "green") as image, io.BytesIO() as buffer:
        image.save(buffer, "PNG")
        green = buffer.getvalue()
    style = "<!DOCTYPE html><body style='margin:0'><div style='height:800px;background:{}'></div>"
    collection.page("https://good.example/", style.format("green"), shot=green)
    collection.page("https://bad.example/", style.format("url(lost.png)"), shot=green)
    collection.page("https://none.example/", style.format("green"))
    with closing(sqlite3.connect(collection.layout.captures_db)) as database:
        assert database.execute("SELECT COUNT(*) FROM pages").fetchone() == (3,)
    collection.layout.marker.write_text("version = 1\n")

    options = ["--collection", str(collection.layout.root), "--json"]
    ran = CliRunner().invoke(playback, ["score", *options])
    kept = CliRunner().invoke(playback, ["scores", *options])

    found = [(each["url"], each["score"]) for each in json.loads(ran.stdout)]
    assert [url for url, _ in found] == [
        "https://none.example/", "https://bad.example/", "https://good.example/",
    ]  # fmt: skip
    assert found[0][1] is None
    assert found[1][1] < 0.2
    assert found[2][1] > 0.99
    assert [each["url"] for each in json.loads(kept.stdout)] == [
        "https://bad.example/", "https://good.example/",
    ]  # fmt: skip
