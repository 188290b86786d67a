"""What a part that the archive does not hold means for the copy, by what readers would see of it."""

import pytest

from core.pages import Outcome, PageInfo, PageResource
from core.quality import LostPart, Verdict
from crawler.quality.damages import told, weighed

URL = "https://a.example/"
PAGE = PageInfo(
    "p",
    URL,
    URL,
    "",
    Outcome.COMPLETE,
    resources=(
        PageResource(URL, resource_type="Document"),
        PageResource(f"{URL}style.css", resource_type="Stylesheet"),
        PageResource(f"{URL}photo.jpg", resource_type="Image", wire_bytes=40_000),
        PageResource(f"{URL}pixel.gif", resource_type="Image", wire_bytes=400),
        PageResource(f"{URL}app.js", resource_type="Script"),
    ),
)


@pytest.mark.parametrize(
    ("url", "level", "verdict"),
    [
        (f"{URL}style.css", "images", Verdict.BROKEN),
        (f"{URL}photo.jpg", "images", Verdict.BROKEN),
        (f"urn:dom:{URL}", "images", Verdict.BROKEN),
        (URL, "images", Verdict.BROKEN),
        (f"{URL}photo.jpg", "text", Verdict.DOUBTFUL),
        (f"{URL}pixel.gif", "images", Verdict.GOOD),
        (f"{URL}app.js", "images", Verdict.DOUBTFUL),
        (f"{URL}app.js", "full", Verdict.BROKEN),
        (f"urn:view:{URL}", "images", Verdict.DOUBTFUL),
    ],
)
def test_what_a_copy_is_made_of_breaks_it(url: str, level: str, verdict: Verdict) -> None:
    """What the level does not show and mere evidence is a reason for doubt, what nobody sees is none."""
    assert weighed([LostPart(url, "digest")], PAGE, level) is verdict


def test_a_loss_is_told_with_the_first_of_them() -> None:
    """And how many more there are."""
    lost = [LostPart(f"{URL}photo.jpg", "digest"), LostPart(URL, "missing: index")]

    assert told(lost) == (
        "The archive does not hold what was captured: https://a.example/photo.jpg (digest),"
        " and 1 more."
    )


def test_without_a_manifest_only_the_document_is_known() -> None:
    """Nobody can say what the other parts were."""
    assert weighed([LostPart(f"{URL}photo.jpg", "digest")], None, "images") is Verdict.DOUBTFUL
    assert weighed([LostPart(f"urn:dom:{URL}", "empty")], None, "images") is Verdict.BROKEN
