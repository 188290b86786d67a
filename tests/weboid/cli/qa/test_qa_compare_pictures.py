"""`weboid qa compare SEEN SHOWN`."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from core.errors import InputError
from tests.support.drawing import banner, packed, page
from weboid.cli.main import weboid
from weboid.cli.support.commands import ExitCode

PAGE = page(1, 500)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three pictures: a page, the same under a banner, and another page."""
    made = tmp_path_factory.mktemp("pictures")
    (made / "seen.png").write_bytes(packed(PAGE))
    (made / "banner.webp").write_bytes(packed(banner(PAGE), "WEBP", quality=90))
    (made / "other.jpg").write_bytes(packed(page(2, 500), "JPEG", quality=90))
    return made


def run(*arguments: object) -> Result:
    return CliRunner().invoke(weboid, ["qa", "compare", *map(str, arguments)], standalone_mode=False)


def test_alike_pictures_end_with_0(folder: Path) -> None:
    """A banner and another format are no difference that counts."""
    done = run(folder / "seen.png", folder / "banner.webp")

    assert done.return_value == ExitCode.OK
    assert done.output.startswith("good, score 0.9")
    assert "of the rows moved" in done.output
    assert "1280 x 580" in done.output


def test_unlike_pictures_end_with_1(folder: Path) -> None:
    """And the worst regions are named."""
    done = run(folder / "seen.png", folder / "other.jpg")

    assert done.return_value == ExitCode.SOME_FAILED
    assert done.output.startswith("broken")
    assert "region" in done.output


def test_figures_are_there_as_json(folder: Path) -> None:
    """Every figure of the function, and the sentence."""
    done = run(folder / "seen.png", folder / "seen.png", "--json")
    figures = json.loads(done.output)

    assert done.return_value == ExitCode.OK
    assert (figures["score"], figures["verdict"], figures["size_seen"]) == (1, "good", [1280, 500])
    assert figures["sentence"] == "No differences."
    assert "heat" not in figures


def test_a_heat_map_is_written_where_it_is_asked_for(folder: Path) -> None:
    """As PNG; a picture that is compared is not written over."""
    done = run(folder / "seen.png", folder / "other.jpg", "--heat", folder / "heat.png")
    assert done.return_value == ExitCode.SOME_FAILED
    with Image.open(folder / "heat.png") as heat:
        assert (heat.format, heat.size) == ("PNG", (1280, 500))

    before = (folder / "seen.png").read_bytes()
    done = run(folder / "seen.png", folder / "other.jpg", "--heat", folder / "seen.png")
    assert isinstance(done.exception, InputError)
    assert (folder / "seen.png").read_bytes() == before

    done = run(folder / "seen.png", folder / "other.jpg", "--heat", folder / "none" / "heat.png")
    assert isinstance(done.exception, InputError)
    assert "cannot be written" in str(done.exception)


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("missing.png", None, "No such file or directory. Check its name and folder"),
        ("folder", "folder", "is a folder"),
        ("cut.png", packed(PAGE)[:5000], "damaged"),
        ("text.png", b"no picture at all", "not a PNG, JPEG or WebP"),
        ("empty.png", b"", "empty"),
        ("huge.png", 130_000_000, "larger than"),
        ("queue.png", "queue", "not a regular file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_cause(
    folder: Path, name: str, content: bytes | str | int | None, cause: str
) -> None:
    """Whichever of the two it is, with a next step."""
    path = folder / name
    if content == "folder":
        path.mkdir()
    elif content == "queue":
        os.mkfifo(path)
    elif isinstance(content, int):
        with path.open("wb") as file:
            file.truncate(content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    for arguments in ((folder / "seen.png", path), (path, folder / "seen.png")):
        done = run(*arguments)

        assert isinstance(done.exception, InputError)
        assert name in str(done.exception)
        assert cause in str(done.exception)


def test_options_for_captures_and_a_third_file_are_refused(folder: Path) -> None:
    """Two files have no moments, and there is nothing to do with more."""
    files = (folder / "seen.png", folder / "banner.webp")
    for arguments in ((*files, "--at", "2026"), (*files, folder / "other.jpg")):
        assert "two pictures" in str(run(*arguments).exception)
