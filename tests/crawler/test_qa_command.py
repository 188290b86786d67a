"""`weboid qa`, run on a small collection with its real playback in a real browser."""

import io
import json
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from core.quality import Verdict, picture_name
from crawler.cli.qa.group import command as qa
from links.books.quality import checks_of
from links.store.store import open_store
from tests.crawler.quality.conftest import drawn_page
from tests.playback.conftest import CollectionBuilder, collection  # noqa: F401 fixtures

pytestmark = [pytest.mark.browser, pytest.mark.playback, pytest.mark.slow]


@pytest.fixture
def made(collection: CollectionBuilder) -> CollectionBuilder:  # noqa: F811 a fixture
    """A collection that commands take for one."""
    collection.layout.marker.write_text("version = 1\n")
    return collection


def run(made: CollectionBuilder, *arguments: str) -> tuple[Result, list[dict[str, Any]]]:
    """`weboid qa --json …`: how it ended, and its lines."""
    options = ("--collection", str(made.layout.root), "--json")
    ran = CliRunner().invoke(qa, [*arguments, *options], standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    return ran, [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_copy_that_lost_its_look_is_broken_and_the_others_are_not(
    made: CollectionBuilder,
) -> None:
    """Each is in the registry when the command ends, the broken one with its pictures; exit code 1."""
    good = drawn_page(made, "https://good.example/")
    bad = drawn_page(made, "https://bad.example/", is_there=False)

    ran, lines = run(made, "--no-record")

    found = {each["url"]: each["verdict"] for each in lines if each["event"] == "check"}
    assert found == {"https://good.example/": "good", "https://bad.example/": "broken"}
    assert ran.return_value == 1
    assert lines[-1]["event"] == "summary"
    assert (lines[-1]["good"], lines[-1]["broken"]) == (1, 1)
    with closing(open_store(made.layout, "")) as store, store.reading() as reader:
        kept = {each.check.page_id: each.verdict for each in checks_of(reader, [good, bad])}
    assert kept == {good: Verdict.GOOD, bad: Verdict.BROKEN}
    for kind in ("seen", "shown"):
        path = made.layout.quality_pictures / picture_name(bad, "images", kind)
        with Image.open(io.BytesIO(path.read_bytes())) as image:
            assert (image.format, image.size) == ("WEBP", (1280, 800))
        assert not (made.layout.quality_pictures / picture_name(good, "images", kind)).exists()
