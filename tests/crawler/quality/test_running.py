"""Many pages checked: what a run keeps when it is asked to stop."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.clock import SystemClock
from core.quality import Check, Fault, Verdict
from crawler.quality.checking import Checked, Checker
from crawler.quality.running import check_pages
from crawler.quality.sampling import Chosen


@pytest.mark.parametrize(("stopped", "kept"), [(True, []), (False, [Verdict.BROKEN])])
async def test_what_is_not_shown_after_a_stop_condemns_no_copy(
    stopped: bool, kept: list[Verdict]
) -> None:
    """Playback may have been stopped with the run; the page is left to the next one."""
    stopping, found = asyncio.Event(), list[Verdict]()

    async def check(page: Any) -> Checked:
        if stopped:
            stopping.set()
        moment = "2026-11-22T12:00:00Z"
        return Checked(
            page,
            Check(
                page.page_id, "https://a.example/", moment, "images", moment, "1",
                Verdict.BROKEN, faults=(Fault.NOT_SHOWN,),
            ),
        )  # fmt: skip

    page = cast(Chosen, SimpleNamespace(page=SimpleNamespace(page_id="one")))
    await check_pages(
        [page],
        cast(Checker, SimpleNamespace(check=check)),
        jobs=1,
        clock=SystemClock(),
        keep=lambda checked: found.append(checked.check.verdict),
        stopping=stopping,
    )

    assert found == kept
