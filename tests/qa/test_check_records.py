"""What a part that the archive does not hold means for the copy, by what readers would see of it."""

import pytest

from core.page_manifest import PageInfo, PageResource, VisitOutcome
from core.playback_check import LostPart, QaVerdict
from qa.compare.resource_comparison import describe_losses, judge_losses

URL = "https://a.example/"
PAGE = PageInfo(
    "p",
    URL,
    URL,
    "",
    VisitOutcome.COMPLETE,
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
        (f"{URL}style.css", "images", QaVerdict.BROKEN),
        (f"{URL}photo.jpg", "images", QaVerdict.BROKEN),
        (f"urn:dom:{URL}", "images", QaVerdict.BROKEN),
        (URL, "images", QaVerdict.BROKEN),
        (f"{URL}photo.jpg", "text", QaVerdict.DOUBTFUL),
        (f"{URL}pixel.gif", "images", QaVerdict.GOOD),
        (f"{URL}app.js", "images", QaVerdict.DOUBTFUL),
        (f"{URL}app.js", "full", QaVerdict.BROKEN),
        (f"urn:view:{URL}", "images", QaVerdict.DOUBTFUL),
    ],
)
def test_what_a_copy_is_made_of_breaks_it(url: str, level: str, verdict: QaVerdict) -> None:
    """What the level does not show and mere evidence is a reason for doubt, what nobody sees is none."""
    assert judge_losses([LostPart(url, "digest")], PAGE, level) is verdict


def test_a_loss_is_told_with_the_first_of_them() -> None:
    """And how many more there are."""
    lost = [LostPart(f"{URL}photo.jpg", "digest"), LostPart(URL, "missing: index")]

    assert describe_losses(lost) == (
        "Captured data is missing in the archive: https://a.example/photo.jpg (digest), and 1 more."
    )


def test_without_a_manifest_only_the_document_is_known() -> None:
    """Nobody can say what the other parts were."""
    assert judge_losses([LostPart(f"{URL}photo.jpg", "digest")], None, "images") is QaVerdict.DOUBTFUL
    assert judge_losses([LostPart(f"urn:dom:{URL}", "empty")], None, "images") is QaVerdict.BROKEN
