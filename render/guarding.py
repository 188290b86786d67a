"""The worker's side of a browser's guardian: started with the browser, told that it is well, ended."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

from core.errors import BrowserUnavailableError

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("guardian.py")


class Guardian:
    """A process that ends the browser when nobody else does; see `render.guardian`.

    Attributes:
        pid: its process.
        ended_for: why it ended the browser, e.g. ``hung``; empty when it did not.
        ended_pages: processes of pages that it ended because they held too much memory.
    """

    def __init__(
        self, session: int, folder: Path, *, silence_limit_s: float, memory_limit_bytes: int
    ) -> None:
        """Start it.

        Args:
            session: of the browser's processes.
            folder: of the browser, removed when we die.
            silence_limit_s: without a word from us for so long after the first, the browser ends.
            memory_limit_bytes: a page's process that holds more of its own ends.

        Raises:
            BrowserUnavailableError: no process can be started.
        """
        figures = [f"{silence_limit_s}", f"{memory_limit_bytes}"]
        told, self._tells = os.pipe()
        self._hears, said = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), f"{session}", str(folder), *figures],
                stdin=told,
                stdout=said,
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError as error:
            os.close(self._tells)
            os.close(self._hears)
            raise BrowserUnavailableError(
                f"The browser's guardian does not start: {error}."
            ) from error
        finally:
            os.close(told)
            os.close(said)
        self.pid = self._popen.pid
        self.ended_for = ""
        self.ended_pages = 0
        os.set_blocking(self._tells, False)
        os.set_blocking(self._hears, False)
        asyncio.get_running_loop().add_reader(self._hears, self._heard)

    def __repr__(self) -> str:
        return f"<Guardian [{self.pid}] {self.ended_for}>"

    def well(self) -> None:
        """The browser answered."""
        # Full: it has not been read for long, so one more byte says nothing. Closed: it is gone.
        with contextlib.suppress(OSError):
            os.write(self._tells, b".")

    async def close(self) -> None:
        """End it without ending the browser; a second call does nothing."""
        if self._tells < 0:
            return
        self._heard()
        asyncio.get_running_loop().remove_reader(self._hears)
        # Killed first: the end of its pipe would tell it that we died.
        self._popen.kill()
        os.close(self._tells)
        os.close(self._hears)
        self._tells = -1
        await asyncio.shield(asyncio.to_thread(self._popen.wait))

    def _heard(self) -> None:
        try:
            data = os.read(self._hears, 4096)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._hears)
        for line in data.decode().splitlines():
            what, _, detail = line.partition(" ")
            if what == "memory":
                self.ended_pages += 1
                log.warning("page.ended reason=memory pid=%s", detail)
            else:
                self.ended_for = what
                log.warning("browser.ended reason=%s seconds=%s", what, detail)
