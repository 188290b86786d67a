"""Findings of `weboid doctor` on the machine: limits, clock, scanner, fonts."""

import resource
import socket
import threading
from pathlib import Path

import pytest

from core.config.settings import LinksSettings, Settings
from weboid.app import setup_check
from weboid.app.setup_check import SetupHealth


@pytest.mark.parametrize(
    ("soft", "health"),
    [(1_024, SetupHealth.GOOD), (1_011, SetupHealth.WARN), (resource.RLIM_INFINITY, SetupHealth.GOOD)],
)
def test_a_checker_may_open_as_many_connections_as_the_profile_says(soft: int, health: SetupHealth) -> None:
    """Else sites seem to fail that are well; the remedy names the number."""
    settings = Settings(links=LinksSettings(connections=500))
    finding = setup_check.check_open_files(settings, lambda: (soft, 4_096))
    assert finding.health is health
    assert ("1012" in finding.remedy) == (health is SetupHealth.WARN)


@pytest.mark.parametrize(("state", "health"), [(0, SetupHealth.GOOD), (5, SetupHealth.WARN), (-1, SetupHealth.UNSET)])
def test_a_clock_that_nobody_sets_is_told(state: int, health: SetupHealth) -> None:
    """All dates in the archive are of it."""
    assert setup_check.check_clock(lambda: state).health is health


def test_the_kernel_tells_of_its_clock() -> None:
    """It is asked, and nothing is changed."""
    assert setup_check.check_clock().health in {SetupHealth.GOOD, SetupHealth.WARN}


def test_a_scanner_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    """It is said how to get it, or that it does not answer."""
    missing, silent = (setup_check.check_scanner(""), setup_check.check_scanner(f"unix:{tmp_path}/clamd"))
    assert (missing.health, silent.health) == (SetupHealth.WARN, SetupHealth.WARN)
    assert "clamav-daemon" in missing.remedy
    assert "does not answer" in silent.text


@pytest.mark.parametrize(
    ("reply", "health"), [(b"ClamAV 1.4.3/27700/Sun\0", SetupHealth.GOOD), (b"nothing\0", SetupHealth.WARN)]
)
def test_a_scanner_is_asked(tmp_path: Path, reply: bytes, health: SetupHealth) -> None:
    """One that is there and gives no answer is told."""
    path = tmp_path / "clamd.ctl"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        finding = setup_check.check_scanner(f"unix:{path}")
        thread.join()
    assert finding.health is health


def test_missing_fonts_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages would be archived with boxes in the place of letters."""
    program = tmp_path / "fc-list"
    program.write_text("#!/bin/sh\n[ $1 = :charset=e01 ] || [ $1 = :charset=1f3e0 ] || echo Noto\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    finding = setup_check.check_fonts()
    assert finding.health is SetupHealth.WARN
    assert finding.text == "boxes are drawn for Thai, emoji"
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "fontconfig is missing" in setup_check.check_fonts().text
