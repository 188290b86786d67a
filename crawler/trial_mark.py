"""The mark of a trial's collection, in which alone the clock may be moved."""

from dataclasses import replace
from pathlib import Path

from core.clock import clock_offset
from core.errors import ConfigError
from core.layout import Layout
from core.settings import Settings


def mark_of(layout: Layout) -> Path:
    """Return the file whose presence makes a collection a trial's."""
    return layout.root / "trial.json"


def is_trial(root: Path) -> bool:
    """Return whether the collection is a trial's copy."""
    return mark_of(Layout(root)).exists()


def without_shared_stores(settings: Settings) -> Settings:
    """Return the settings of a trial, whose stores are its own whatever the profile names."""
    return replace(
        settings,
        index=replace(settings.index, url=""),
        frontier=replace(settings.frontier, url=""),
        proxy=replace(settings.proxy, dedup_url=""),
    )


def check_trial_clock(root: Path) -> None:
    """Return when the clock is not moved, or the collection is a trial's.

    Raises:
        ConfigError: a real collection would be written with a wrong time.
    """
    if clock_offset() and not is_trial(root):
        raise ConfigError(
            f"The clock is moved, and {root} is no copy for a trial: make one with `weboid wiki trial "
            "--keep DIR`, or leave out --clock-offset and WEBOID_CLOCK_OFFSET."
        )


def check_trial_stores(settings: Settings) -> None:
    """Return when the clock is not moved, or no store of several machines is written with its time.

    Raises:
        ConfigError: a trial would write into a database or a queue that is no copy.
    """
    if not clock_offset():
        return
    named = {
        "--database (WEBOID_DATABASE, [index] url)": settings.index.url,
        "--frontier (WEBOID_FRONTIER, [frontier] url)": settings.frontier.url,
        "--dedup (WEBOID_DEDUP, [proxy] dedup_url)": settings.proxy.dedup_url,
    }
    for name, url in named.items():
        if url:
            raise ConfigError(
                f"The clock is moved, and {name} names a store that is no copy: leave it out, or leave "
                "out --clock-offset and WEBOID_CLOCK_OFFSET."
            )
