"""Many pages checked: what a run keeps when it is asked to stop."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.clock import SystemClock
from core.playback_check import PlaybackCheck, PlaybackFault, QaVerdict
from qa.check_run import check_pages
from qa.checker import CheckOutcome, PlaybackChecker
from qa.sample import SampledPage


@pytest.mark.parametrize(("stopped", "kept"), [(True, []), (False, [QaVerdict.BROKEN])])
async def test_what_is_not_shown_after_a_stop_condemns_no_copy(stopped: bool, kept: list[QaVerdict]) -> None:
    """Playback may have been stopped with the run; the page is left to the next one."""
    stopping, found = asyncio.Event(), list[QaVerdict]()

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
        keep=lambda checked: found.append(checked.check.verdict),
        stopping=stopping,
    )

    assert found == kept
