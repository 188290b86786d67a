"""Body of a maker process: jobs on stdin, results on stdout, limits set by the kernel.

A frame is four bytes of length, then a job as JSON or the result as bytes. Imports only the standard
library, so that makers of the pywb environment can use it, too.
"""

import json
import resource
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")
_MOST_MEMORY_BYTES = 2_000_000_000


def run_jobs(do: Callable[[dict[str, Any]], bytes], deadline_s: Callable[[dict[str, Any]], float]) -> None:
    """Do the jobs that arrive on stdin until it ends; the kernel ends the process after `deadline_s`."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The kernel itself ends the process: a handler in Python would wait for the parser to return.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; replay decides
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        job = json.loads(frame)
        signal.setitimer(signal.ITIMER_REAL, deadline_s(job))
        result = do(job)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(sys.stdout.buffer, result)


def write_frame(stream: BinaryIO, data: bytes) -> None:
    """Write one frame and flush."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next frame, or None when the stream ends before the frame is complete."""
    head = _read_exactly(stream, _LENGTH.size)
    return None if head is None else _read_exactly(stream, _LENGTH.unpack(head)[0])


def _read_exactly(stream: BinaryIO, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        part = stream.read(min(size, 1_000_000))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
