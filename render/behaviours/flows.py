"""Flows: Python files of the operator that act on a page through Playwright, within its visit.

A file has ``async def flow(page)`` and names the pages that it is for: ``match = "https://shop.example/*"``, one
pattern or a list (`core.url_patterns`). It runs once the page has settled, before the behaviours, in the worker's own
process: only files that `[behaviours] flows` names are read.
"""

import asyncio
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import ConfigError, InputError
from core.hosts import registrable
from core.page_manifest import PageBehaviour
from core.url_patterns import PatternTable, parse_pattern, pattern_target
from core.urls import host_of
from render.page import BrowserPage

REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class Flow:
    """Function of one file, and the pages that it is for."""

    path: Path
    run: Callable[[Any], Awaitable[None]]
    matches: PatternTable[str]

    @property
    def name(self) -> str:
        """Return its name in manifests."""
        return f"flow {self.path.name}"

    def is_for(self, url: str) -> bool:
        """Return whether the flow is for the page."""
        try:
            return bool(self.matches.find(pattern_target(url)))
        except InputError:
            return False


def load_flow(path: Path) -> Flow:
    """Read the file; ConfigError names it, and its line where there is one."""
    try:
        import playwright  # noqa: F401 the extra weboid[flows]
    except ImportError as error:
        raise ConfigError("[behaviours] flows: they need Playwright: pip install 'weboid[flows]'.") from error
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), names)  # noqa: S102 the operator's own file
    except OSError as error:
        raise ConfigError(f"[behaviours] flows: {path} cannot be read: {error.strerror}.") from error
    except Exception as error:
        raise ConfigError(f"[behaviours] flows: {_place(path, error)}") from error
    run, match = names.get("flow"), names.get("match")
    patterns = [match] if isinstance(match, str) else match
    if not inspect.iscoroutinefunction(run) or len(inspect.signature(run).parameters) != 1:
        raise ConfigError(f'[behaviours] flows: {path} has no "async def flow(page)".')
    if not (isinstance(patterns, list) and patterns and all(isinstance(e, str) for e in patterns)):
        raise ConfigError(
            f"[behaviours] flows: {path} must name its pages, e.g."
            ' match = "https://shop.example/*", or a list of patterns.'
        )
    table: PatternTable[str] = PatternTable()
    for each in patterns:
        try:
            table.add(parse_pattern(each), each)
        except InputError as error:
            raise ConfigError(f"[behaviours] flows: {path}: {error}") from error
    table.ready()
    return Flow(path, run, table)


async def run_flows(
    page: BrowserPage, flows: Sequence[Flow], limit_s: Callable[[], float]
) -> tuple[tuple[PageBehaviour, ...], str]:
    """Run the flows that are for the page; return their results, and why the visit is not complete, or "".

    `limit_s` returns the seconds that the next one may take. The first that fails is the last.
    """
    start, done = page.url, []
    for flow in flows:
        if not flow.is_for(start):
            continue
        began = time.monotonic()
        error = await _run(page, flow, limit_s())
        seconds = time.monotonic() - began
        site = registrable(host_of(page.url)) if page.url.startswith("http") else ""
        if not error and site != registrable(host_of(start)):
            error = f"{flow.path.name}: it ended on another site"
        done.append(PageBehaviour(flow.name, 1, int(not error), round(seconds, 3), error))
        if error:
            return tuple(done), f"flow: {error}"
    return tuple(done), ""


async def _run(page: BrowserPage, flow: Flow, limit_s: float) -> str:
    """Run the flow; return its error with the place in the file, or ""."""
    from playwright.async_api import async_playwright

    try:
        async with asyncio.timeout(limit_s):
            async with page.relay() as endpoint, async_playwright() as driver:
                browser = await driver.chromium.connect_over_cdp(endpoint)
                try:
                    await flow.run(browser.contexts[0].pages[0])
                finally:
                    with suppress(Exception):
                        await browser.close()
    except TimeoutError as error:
        return _place(flow.path, error, f"stopped after {limit_s:.0f} s")
    except Exception as error:  # noqa: BLE001 whatever the operator's code raises
        return _place(flow.path, error)
    return ""


def _place(path: Path, error: BaseException, reason: str = "") -> str:
    """Return file, line and reason of an error, e.g. ``shop.py:12: TimeoutError: …``."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    cause: BaseException | None = error
    while cause is not None and line is None:
        lines = [e.lineno for e in traceback.extract_tb(cause.__traceback__) if e.filename == str(path)]
        line = lines[-1] if lines else None
        cause = cause.__cause__ or cause.__context__
    said = " ".join(str(error).split())
    reason = reason or f"{type(error).__name__}: {said}".removesuffix(": ")
    place = f"{path.name}:{line}" if line else path.name
    return f"{place}: {reason}"[:REASON_CHARS]
