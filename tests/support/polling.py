"""Polling of conditions that no event announces."""

import threading
from collections.abc import Callable
from time import monotonic


def wait_until(is_true: Callable[[], bool], limit_s: float = 300.0) -> None:
    """Return when it is true; fail at the limit, which only a fault reaches."""
    pause, end = threading.Event(), monotonic() + limit_s
    while not is_true():
        assert monotonic() < end, "It did not become true."
        pause.wait(0.02)
