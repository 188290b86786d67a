"""Limits of waiting grow with the load of the machine, up to a bound."""

import pytest

from render.machine_load import stretched


@pytest.mark.parametrize(("wanted", "limit_s"), [(0.5, 8.0), (2.0, 16.0), (50.0, 32.0)])
def test_a_limit_grows_with_the_processes_on_each_processor(
    monkeypatch: pytest.MonkeyPatch, wanted: float, limit_s: float
) -> None:
    """Never shorter than on a machine of one's own, never longer than four times that."""
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr("os.getloadavg", lambda: (wanted * 3, 0.0, 0.0))

    assert stretched(8.0) == limit_s
