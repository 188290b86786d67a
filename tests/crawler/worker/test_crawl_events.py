"""Tests of `crawler.worker.crawl_events`."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from core.clock import SystemClock
from core.config.settings import QualitySettings, Settings
from core.errors import UnavailableError
from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import PageInfo, VisitOutcome
from crawler.run.context_builder import RunContext
from crawler.worker.crawl_events import Event, PageDone
from net.backoff import WaitStarted
from qa.live_checks import CheckTools, LiveChecks

PAGE = PageInfo("p", "https://a.example/", "https://a.example/", "2026-11-22T12:00:00Z",
                VisitOutcome.COMPLETE, status=200, page_class=PageClass.OK)  # fmt: skip


def page(number: int, like: PageInfo = PAGE) -> PageInfo:
    return replace(like, page_id=f"p{number}")


def run_context(events: list[Event], *, endless: bool = False) -> RunContext:
    """Return a run context without services; none is used."""
    nothing = cast(Any, None)
    return RunContext(
        Layout(Path("/nowhere")), Settings(), nothing, nothing, nothing, SystemClock(),
        events.append, endless=endless,
    )  # fmt: skip


class UnavailableTools(AbstractAsyncContextManager[CheckTools]):
    """Tools that cannot be had."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __aenter__(self) -> CheckTools:
        raise self._error

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: nothing was begun."""


async def test_a_run_ends_although_no_look_can_be_had() -> None:
    """That is told once; what was to be looked at is left to another run."""
    events: list[Event] = []

    away = UnavailableTools(UnavailableError("No browser was found."))
    checks = LiveChecks(QualitySettings(), lambda _run_context: away)
    async with checks.beside(run_context(events)):
        for number in range(3):
            checks.note(PageDone("u", page(number), "", 1))
        assert not await checks.settle()
        assert not await checks.settle()

    assert events == [WaitStarted("playback", "Copies are not checked: No browser was found.")]


async def test_our_own_mistake_ends_the_looks_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the run's end comes all the same."""
    away = UnavailableTools(KeyError("no such thing"))
    checks = LiveChecks(QualitySettings(), lambda _run_context: away)
    async with checks.beside(run_context([])):
        checks.note(PageDone("u", PAGE, "", 1))
        assert not await checks.settle()
        assert not await checks.settle()

    assert "quality.ended" in caplog.text
