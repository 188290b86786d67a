"""Many pages checked: what a run keeps when it is asked to stop."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.clock import SystemClock
from core.page_manifest import PageInfo, PageResource, VisitOutcome
from core.playback_check import LostPart, PlaybackCheck, PlaybackFault, QaVerdict
from qa.check_run import CheckRunTally, check_pages
from qa.checker import CheckOutcome, PlaybackChecker
from qa.compare.content_comparison import describe_losses, judge_losses
from qa.sample import SampledPage


@pytest.mark.parametrize(("stopped", "expected"), [(True, []), (False, [QaVerdict.BROKEN])])
async def test_what_is_not_shown_after_a_stop_condemns_no_copy(stopped: bool, expected: list[QaVerdict]) -> None:
    """Playback may have been stopped with the run; the page is left to the next one."""
    stopping, verdicts = asyncio.Event(), list[QaVerdict]()

    async def check(page: Any) -> CheckOutcome:
        if stopped:
            stopping.set()
        moment = "2026-11-22T12:00:00Z"
        return CheckOutcome(
            page,
            PlaybackCheck(
                page.page_id, "https://a.example/", moment, "images", moment, "1",
                QaVerdict.BROKEN, faults=(PlaybackFault.NOT_SHOWN,),
            ),
        )  # fmt: skip

    page = cast(SampledPage, SimpleNamespace(page=SimpleNamespace(page_id="one")))
    await check_pages(
        [page],
        cast(PlaybackChecker, SimpleNamespace(check=check)),
        jobs=1,
        clock=SystemClock(),
        keep=lambda checked: verdicts.append(checked.check.verdict),
        on_check=lambda _checked, _tally: None,
        tally=CheckRunTally(),
        stop=stopping,
    )

    assert verdicts == expected


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
    """Parts that the level does not show and mere evidence are a reason for doubt, invisible parts are none."""
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
