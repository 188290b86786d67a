"""What `weboid doctor` says of the machine: limits, clock, scanner, fonts."""

import resource
import socket
import threading
from pathlib import Path

import pytest

from core.settings import LinksSettings, Settings
from crawler.cli import checkup_machine
from crawler.cli.health import Health


@pytest.mark.parametrize(
    ("soft", "health"),
    [(1_024, Health.GOOD), (1_011, Health.WARN), (resource.RLIM_INFINITY, Health.GOOD)],
)
def test_a_checker_may_open_as_many_connections_as_the_profile_says(
    soft: int, health: Health
) -> None:
    """Else sites seem to fail that are well; the remedy names the number."""
    settings = Settings(links=LinksSettings(connections=500))
    found = checkup_machine.open_files(settings, lambda: (soft, 4_096))
    assert found.health is health
    assert ("1012" in found.remedy) == (health is Health.WARN)


@pytest.mark.parametrize(
    ("state", "health"), [(0, Health.GOOD), (5, Health.WARN), (-1, Health.UNSET)]
)
def test_a_clock_that_nobody_sets_is_told(state: int, health: Health) -> None:
    """All dates in the archive are of it."""
    assert checkup_machine.clock(lambda: state).health is health


def test_the_kernel_tells_of_its_clock() -> None:
    """It is asked, and nothing is changed."""
    assert checkup_machine.clock().health in {Health.GOOD, Health.WARN}


def test_a_scanner_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    """It is said how to get it, or that it does not answer."""
    missing, silent = checkup_machine.scanner(""), checkup_machine.scanner(f"unix:{tmp_path}/clamd")
    assert (missing.health, silent.health) == (Health.WARN, Health.WARN)
    assert "clamav-daemon" in missing.remedy
    assert "does not answer" in silent.text


@pytest.mark.parametrize(
    ("said", "health"), [(b"ClamAV 1.4.3/27700/Sun\0", Health.GOOD), (b"nothing\0", Health.WARN)]
)
def test_a_scanner_is_asked(tmp_path: Path, said: bytes, health: Health) -> None:
    """One that is there and gives no answer is told."""
    path = tmp_path / "clamd.ctl"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        found = checkup_machine.scanner(f"unix:{path}")
        thread.join()
    assert found.health is health


def test_missing_fonts_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages would be archived with boxes in the place of letters."""
    program = tmp_path / "fc-list"
    program.write_text("#!/bin/sh\n[ $1 = :lang=ja ] || echo Noto\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = checkup_machine.fonts()
    assert found.health is Health.WARN
    assert "Japanese" in found.text
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "fontconfig is missing" in checkup_machine.fonts().text
