"""Payloads for the scanner, read by a process of the replay environment (`playback.replay.payloads`)."""

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.captures import Capture
from core.errors import PermanentError, UnavailableError
from core.layout import Layout
from playback.scanning.clamd import TooLargeToScanError

_ROOT = Path(__file__).resolve().parents[2]
_END_S = 5.0
# As replay is started: our packages come last on the path, and nothing else joins it.
_BOOTSTRAP = (
    "import runpy, sys; sys.path.append({root!r});"
    " runpy.run_module('playback.replay.payloads', run_name='__main__', alter_sys=True)"
)


class PayloadReader:
    """One reading process, started when it is first needed and again after it died; `close` it.

    From one thread.

    Args:
        python: the interpreter of the replay environment.
        layout: the collection.
    """

    def __init__(self, python: Path, layout: Layout) -> None:
        code = _BOOTSTRAP.format(root=str(_ROOT))
        self._command = [str(python), "-I", "-c", code, str(layout.root.absolute())]
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, capture: Capture, *, limit: int) -> list[bytes]:
        """The capture's content and, where that is something else, its body as stored.

        Raises:
            TooLargeToScanError: more than `limit` bytes.
            PermanentError: the record cannot be read; the text says why.
            UnavailableError: the reading process cannot be started.
        """
        asked = {
            "filename": capture.location.filename,
            "offset": capture.location.offset,
            "length": capture.location.length,
            "url": capture.url,
            "type": capture.record_type,
            "limit": limit,
        }
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            return _bodies(process, limit)
        except (OSError, ValueError) as error:
            if not isinstance(error, OSError | json.JSONDecodeError):
                raise
            # A record at which the process itself dies must not stop the scan.
            self.close()
            raise PermanentError("unreadable: its reader died over it") from error

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            except OSError as error:
                raise UnavailableError(
                    f"The reader of payloads does not start: {error}."
                ) from error
        return self._process


def _bodies(process: subprocess.Popen[bytes], limit: int) -> list[bytes]:
    assert process.stdout is not None
    head: dict[str, Any] = json.loads(process.stdout.readline())
    error = str(head.get("error", ""))
    if error == "too-large":
        raise TooLargeToScanError(f"larger than {limit:,} bytes")
    if error:
        raise PermanentError(error[:200])
    found = [process.stdout.read(int(size)) for size in head["sizes"]]
    if [len(body) for body in found] != head["sizes"]:
        raise OSError("It ended in the midst of a body.")
    return found
