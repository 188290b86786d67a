"""Pool of maker processes that sanitise under limits of time and memory (P-21).

A parser's time can grow with the square of what it reads, and a thread cannot be taken its
interpreter lock away. So hostile documents are read by makers: processes that hold nothing, end by
the kernel's hand when a job takes too long or too much, and are replaced.

Between the two goes, each way, a frame: four bytes of length, then a job as JSON one way, the made
bytes the other way.
"""

import base64
import json
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import gevent
from gevent.lock import BoundedSemaphore
from gevent.queue import Empty, Queue
from gevent.subprocess import PIPE, Popen

from core.errors import MakingFailedError, OverloadedError, PermanentError
from playback.access.levels import DEFAULT_LEVEL, Level
from playback.replay.full.text_rewriter import RewriteJob, rewrite
from playback.replay.sanitizer.css_filter import filter_sheet
from playback.replay.sanitizer.html_document import sanitise_document
from playback.replay.sanitizer.rasterizer import draw_pdf_page, mask, raster, read_pdf
from playback.replay.sanitizer.url_rewriter import ReplayUrlRewriter

_LENGTH = struct.Struct(">I")
_MOST_MEMORY_BYTES = 2_000_000_000
_LARGE = 500_000  # bytes or characters of a job from which on it is a large one
_MOST_WAITING = 48  # jobs, which hold nothing but their connection
_MOST_WAITING_LARGE = 8
_LONGEST_WAIT_S = 20.0
_DRAWING_S = 3.0  # drawing is quick, but for what was made to be slow
_ROOT = Path(__file__).resolve().parents[2]
# As where replay itself is started: our packages come last on the path, and nothing else joins it.
_BOOTSTRAP = (
    "import sys; sys.path.append({root!r});"
    " from playback.replay.sanitizer_pool import run_maker; run_maker({deadline!r})"
)


@dataclass(frozen=True, slots=True)
class DocumentJob:
    """Make a whole document safe; the result is UTF-8."""

    text: str
    rewriter: ReplayUrlRewriter
    was_scripted: bool
    level: Level = DEFAULT_LEVEL


@dataclass(frozen=True, slots=True)
class SheetJob:
    """Filter a style sheet, given as its bytes and the charset that HTTP named."""

    data: bytes
    charset: str | None
    rewriter: ReplayUrlRewriter


@dataclass(frozen=True, slots=True)
class RasterJob:
    """Draw an SVG, or a picture in a format of old pages, as PNG.

    Attributes:
        scale: how many pixels an SVG has to each of its own.
        is_mask: of any small picture, only its shape.
    """

    data: bytes
    scale: float = 1.0
    is_mask: bool = False


@dataclass(frozen=True, slots=True)
class PdfJob:
    """Read a PDF, or draw one of its pages.

    Attributes:
        pdf: the file.
        page: which page to draw, from 1; 0: read sizes and text.
    """

    pdf: bytes
    page: int = 0


Job = PdfJob | DocumentJob | SheetJob | RasterJob | RewriteJob
Make = Callable[[Callable[[], Job]], bytes]


class MakerPool:
    """A few makers, lent to one job at a time; `close` ends them.

    Large jobs never hold all makers, so that small ones are done beside them. Beyond a number of
    waiting jobs none is accepted.

    Args:
        count: how many there are, and so how many jobs are done at once.
        deadline_s: how long a job may take.
        most_waiting: how many jobs may wait for a maker.
        longest_wait_s: how long one may wait.
    """

    def __init__(
        self,
        count: int,
        *,
        deadline_s: float,
        most_waiting: int = _MOST_WAITING,
        longest_wait_s: float = _LONGEST_WAIT_S,
    ) -> None:
        self._makers = [_MakerProcess(deadline_s) for _ in range(count)]
        self._free: Queue[_MakerProcess] = Queue()
        for maker in self._makers:
            self._free.put(maker)
        self._large = BoundedSemaphore(max(1, count - 1))
        self._most_waiting = most_waiting
        self._longest_wait_s = longest_wait_s
        self._waiting = 0
        self._waiting_large = 0

    def __call__(self, prepare: Callable[[], Job]) -> bytes:
        """Return the result of the job that `prepare` loads; other greenlets run meanwhile.

        A payload is loaded once a maker is free, so that waiting jobs hold none. A job that turns out
        to be large gives its maker back and waits for its turn among the large ones.

        Raises:
            MakingFailedError: it took too long or too much memory, or broke the parser.
            OverloadedError: too many jobs wait already, or it waited too long.
        """
        with self._maker() as maker:
            job = prepare()
            is_large = _size_of(job) > _LARGE
            if not is_large:
                return maker.make(job)
            if self._large.acquire(blocking=False):
                try:
                    return maker.make(job)
                finally:
                    self._large.release()
            del job
        with self._turn_of_large(), self._maker() as maker:
            return maker.make(prepare())

    @contextmanager
    def _maker(self) -> Iterator["_MakerProcess"]:
        """Lend a maker until the end of the block."""
        if self._free.empty() and self._waiting >= self._most_waiting:
            raise OverloadedError("Too many copies wait to be made.")
        self._waiting += 1
        try:
            maker: _MakerProcess = self._free.get(timeout=self._longest_wait_s)
        except Empty:
            raise OverloadedError("No maker was free in time.") from None
        finally:
            self._waiting -= 1
        try:
            yield maker
        finally:
            self._free.put(maker)

    @contextmanager
    def _turn_of_large(self) -> Iterator[None]:
        """Wait for the turn of a large job, which lasts until the end of the block."""
        if self._waiting_large >= _MOST_WAITING_LARGE:
            raise OverloadedError("Too many large copies wait to be made.", retry_after_s=30)
        self._waiting_large += 1
        try:
            if not self._large.acquire(timeout=self._longest_wait_s):
                raise OverloadedError("Other large copies are made first.", retry_after_s=30)
        finally:
            self._waiting_large -= 1
        try:
            yield
        finally:
            self._large.release()

    def close(self) -> None:
        """End every maker, whatever it is doing."""
        for maker in self._makers:
            maker.end()


class _MakerProcess:
    """One process, started at once and again after it ended."""

    def __init__(self, deadline_s: float) -> None:
        code = _BOOTSTRAP.format(root=str(_ROOT), deadline=deadline_s)
        self._command = [sys.executable, "-I", "-c", code]
        self._process: Any = None
        self._start()

    def make(self, job: Job) -> bytes:
        if self._process is None:
            self._start()
        process = self._process
        try:
            _write_frame(process.stdin, _to_json(job))
            made = _read_frame(process.stdout)
        except OSError:
            made = None
        except gevent.GreenletExit:  # the connection's greenlet is killed: the frame is lost
            self.end()
            raise
        if made is None:
            self.end()
            raise MakingFailedError("Making it safe took too long, or more memory than it may.")
        return made

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                pipe.close()
        self._process = None

    def _start(self) -> None:
        self._process = Popen(self._command, stdin=PIPE, stdout=PIPE)


def run_maker(deadline_s: float) -> None:
    """Do the jobs that come on stdin until it ends; the body of a maker's process."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The kernel itself ends the process: a handler in Python would wait for the parser to return.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; replay decides
    while (frame := _read_frame(sys.stdin.buffer)) is not None:
        job = json.loads(frame)
        is_drawing = "scale" in job
        signal.setitimer(
            signal.ITIMER_REAL, min(deadline_s, _DRAWING_S) if is_drawing else deadline_s
        )
        made = _do(job)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write_frame(sys.stdout.buffer, made)


def _do(job: dict[str, Any]) -> bytes:
    if "scale" in job:
        try:
            data = job["data"].encode("latin-1")
            return mask(data) if job["is_mask"] else raster(data, job["scale"])
        except PermanentError:
            return b""
    if "pdf" in job:
        data = base64.b64decode(job["pdf"])
        return draw_pdf_page(data, job["page"]) if job["page"] else read_pdf(data)
    if "origin" in job:
        return rewrite(RewriteJob(**job))
    rewriter = ReplayUrlRewriter(**job["rewriter"])
    if "data" in job:
        text = filter_sheet(job["data"].encode("latin-1"), job["charset"], rewriter)
    else:
        level = Level(job["level"])
        text = sanitise_document(
            job["text"], rewriter, was_scripted=job["was_scripted"], level=level
        )
    return text.encode(errors="replace")


def _size_of(job: Job) -> int:
    """Return how long the hostile part of the job is."""
    if isinstance(job, DocumentJob):
        return len(job.text)
    if isinstance(job, PdfJob):
        return len(job.pdf)
    return len(job.body if isinstance(job, RewriteJob) else job.data)


def _to_json(job: Job) -> bytes:
    if isinstance(job, PdfJob):
        return json.dumps({"pdf": base64.b64encode(job.pdf).decode(), "page": job.page}).encode()
    values = asdict(job)
    if isinstance(job, SheetJob | RasterJob):
        values["data"] = job.data.decode("latin-1")
    return json.dumps(values).encode()


def _write_frame(stream: BinaryIO, data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame; None when the stream ends before it is whole."""
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
