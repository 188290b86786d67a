"""Acknowledged records were forced to disk before, as the kernel saw it; a new file is safe at once."""

import asyncio
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import pytest

from core.config.settings import ProxySettings
from tests.support.proxy_fixtures import ProxyBrowser, ProxyCommand, ScriptedOrigin, ok
from warc.writer import WarcFile

NOW = datetime(2026, 1, 31, tzinfo=UTC)
_SYNCED = re.compile(r"fdatasync\(\d+<[^>]*/weboid-[^>]*>\) += 0|fdatasync resumed>\) += 0")


@pytest.mark.proxy
async def test_a_seal_is_answered_after_the_sync(
    start_process: Callable[..., ProxyCommand], origin: ScriptedOrigin, tmp_path: Path
) -> None:
    """In the trace of its system calls: the WARC written, then fdatasync done, then the answer."""
    proxy = start_process()
    origin.answers["/page"] = ok(b"a page")
    log = tmp_path / "calls"
    tracer = subprocess.Popen(
        [
            *("strace", "-f", "-y", "-s", "80", "-e", "trace=writev,fdatasync,sendto"),
            *("-o", str(log), "-p", str(proxy.process.pid)),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    assert "attached" in tracer.stderr.readline()
    async with proxy.client.visit("p", bucket="default") as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            await asyncio.to_thread(browser.get, "http://origin.example/page")
            await visit.seal(grace_s=2)
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=120)
    lines = log.read_text(errors="replace").splitlines()
    written = [n for n, line in enumerate(lines) if "writev(" in line and "/weboid-" in line]
    synced = [n for n, line in enumerate(lines) if _SYNCED.search(line)]
    (answered,) = (n for n, line in enumerate(lines) if "sendto(" in line and "entries" in line)

    assert written
    assert max(written) < min(n for n in synced if n > max(written)) < answered


def test_a_new_file_that_recovery_took_away_is_not_written(tmp_path: Path) -> None:
    """Between its making and its lock recovery may remove it, being empty: another is opened."""
    taken: list[Path] = []

    class Raced(WarcFile):
        def open(self, serial: int) -> BinaryIO:
            file: BinaryIO = super().open(serial)
            if not taken:
                taken.append(Path(str(self.path)))
                taken[0].unlink()
            return file

    warc = Raced(tmp_path, "weboid", settings=ProxySettings(), now=lambda: NOW)
    location = warc.append((b"member",))
    warc.sync()
    warc.keep()
    warc.close()

    assert not taken[0].exists()
    assert (tmp_path / location.filename).read_bytes().endswith(b"member")


def test_each_file_has_an_age_of_its_own(tmp_path: Path) -> None:
    """A file opened long after the process began is young: it is not closed at once."""
    moments = [NOW]
    settings = ProxySettings(warc_limit_s=60.0)
    warc = WarcFile(tmp_path, "weboid", settings=settings, now=lambda: moments[-1])
    moments.append(NOW + timedelta(seconds=61))
    first = warc.append((b"one",))
    warc.sync()
    warc.keep()
    warc.roll_over()

    assert warc.append((b"two",)).filename == first.filename
    warc.take_back()
    warc.close()
