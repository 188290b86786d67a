"""Polling of conditions that no event announces."""

import threading
from collections.abc import Callable
from time import monotonic


def wait_until(is_true: Callable[[], bool], limit_s: float = 300.0) -> None:
    """Return when it is true; fail at the limit, which only a fault reaches.

    The longer it takes, the more seldom is it looked: what is waited for needs the processor itself.
    """
    pause, begun = threading.Event(), monotonic()
    while not is_true():
        waited = monotonic() - begun
        assert waited < limit_s, "It did not become true."
        pause.wait(min(0.02 + waited / 20, 0.25))
