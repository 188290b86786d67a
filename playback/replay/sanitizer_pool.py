"""Pools of maker processes, which sanitise and rewrite within limits of time and memory (P-21).

The time of a parser can grow with the square of its input, and Python cannot interrupt a thread: the kernel ends makers
whose job exceeds its limits (`playback.replay.maker_process`). Those of the level `full` run in pywb's environment.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore
from gevent.queue import Empty, LifoQueue
from gevent.subprocess import PIPE, Popen

from core.errors import MakingFailedError, OverloadedError, PermanentError
from playback.access.levels import DEFAULT_LEVEL, Level
from playback.replay.full.text_rewriter import RewriteJob, WombatJob
from playback.replay.maker_process import read_frame, run_jobs, write_frame
from playback.replay.sanitizer.css_filter import filter_sheet
from playback.replay.sanitizer.css_rules import sanitise_font
from playback.replay.sanitizer.html_document import sanitise_document
from playback.replay.sanitizer.rasterizer import draw_pdf_page, mask, raster, read_pdf
from playback.url_paths import ReplayUrlRewriter

_LARGE = 500_000  # bytes or characters of a job from which on it is a large one
_MOST_WAITING = 48  # jobs, which use nothing but their connection
_MOST_WAITING_LARGE = 8
_LONGEST_WAIT_S = 20.0
_DRAWING_S = 3.0  # drawing is fast, except for hostile input
_ROOT = Path(__file__).resolve().parents[2]


def sanitizer_command(deadline_s: float) -> list[str]:
    """Return the command of a maker that sanitises."""
    code = f"from playback.replay.sanitizer_pool import run_maker; run_maker({deadline_s!r})"
    return [sys.executable, "-P", "-c", code]


def rewriter_command(python: Path, deadline_s: float) -> list[str]:
    """Return the command of a maker that rewrites with pywb, for the level `full`.

    Our packages come last on the path, so that they hide none of that environment; ``-I`` keeps PYTHONPATH out.
    """
    code = (
        f"import sys; sys.path.append({str(_ROOT)!r});"
        f" from playback.replay.full.text_rewriter import run_rewriter; run_rewriter({deadline_s!r})"
    )
    return [str(python), "-I", "-c", code]


@dataclass(frozen=True, slots=True)
class DocumentJob:
    """Job: sanitise a whole document; the result is UTF-8."""

    text: str
    rewriter: ReplayUrlRewriter
    was_scripted: bool
    level: Level = DEFAULT_LEVEL


@dataclass(frozen=True, slots=True)
class SheetJob:
    """Job: filter a style sheet, given as bytes and the charset of its HTTP header."""

    data: bytes
    charset: str | None
    rewriter: ReplayUrlRewriter


@dataclass(frozen=True, slots=True)
class RasterJob:
    """Job: draw an SVG, or a picture in an old format, as PNG."""

    data: bytes
    is_mask: bool = False  # draw only the shape of a small picture


@dataclass(frozen=True, slots=True)
class FontJob:
    """Job: re-encode a font."""

    data: bytes
    is_font: bool = True  # distinguishes it from the other jobs


@dataclass(frozen=True, slots=True)
class PdfJob:
    """Job: read a PDF, or draw one of its pages."""

    pdf: bytes  # the file
    page: int = 0  # number of the page to draw, from 1; 0: read sizes and text


Job = PdfJob | DocumentJob | SheetJob | RasterJob | FontJob | RewriteJob | WombatJob
Make = Callable[[Callable[[], Job]], bytes]


class MakerPool:
    """Pool of maker processes, each used by one job at a time, started when needed; `close` after use.

    Large jobs never occupy all makers. The number of waiting jobs and their wait are limited.
    """

    def __init__(self, count: int, command: list[str]) -> None:
        self._makers = [_MakerProcess(command) for _ in range(count)]
        self._makers[-1].start()
        self._free: LifoQueue[_MakerProcess] = LifoQueue()
        for maker in self._makers:
            self._free.put(maker)
        self._large = BoundedSemaphore(max(1, count - 1))
        self._waiting = 0
        self._waiting_large = 0

    def __call__(self, prepare: Callable[[], Job]) -> bytes:
        """Return the result of the job that `prepare` loads once a maker is free; other greenlets run meanwhile.

        Raises MakingFailedError: it exceeded its time or memory, or crashed the parser; OverloadedError: too many jobs
        are waiting, or it waited too long.
        """
        with self._maker() as maker:
            job = prepare()
            values = (getattr(job, each.name) for each in fields(job))
            sizes = [len(each) for each in values if isinstance(each, str | bytes)]
            if max(sizes) <= _LARGE:
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
        if self._free.empty() and self._waiting >= _MOST_WAITING:
            raise OverloadedError("Too many copies are waiting to be sanitised.")
        self._waiting += 1
        try:
            maker: _MakerProcess = self._free.get(timeout=_LONGEST_WAIT_S)
        except Empty:
            raise OverloadedError("No sanitiser was free in time.") from None
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
            raise OverloadedError("Too many large copies are waiting to be sanitised.", retry_after_s=30)
        self._waiting_large += 1
        try:
            if not self._large.acquire(timeout=_LONGEST_WAIT_S):
                raise OverloadedError("Other large copies are sanitised first.", retry_after_s=30)
        finally:
            self._waiting_large -= 1
        try:
            yield
        finally:
            self._large.release()

    def close(self) -> None:
        """End all makers, also during a job."""
        for maker in self._makers:
            maker.end()


class _MakerProcess:
    """Maker process, started when it is needed, also after a crash."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: Any = None

    def make(self, job: Job) -> bytes:
        if self._process is None:
            self.start()
        process = self._process
        if isinstance(job, PdfJob):
            values = {"pdf": base64.b64encode(job.pdf).decode(), "page": job.page}
        else:
            values = asdict(job)
            if isinstance(job, SheetJob | RasterJob | FontJob):
                values["data"] = job.data.decode("latin-1")
        try:
            write_frame(process.stdin, json.dumps(values).encode())
            frame = read_frame(process.stdout)
        except OSError:
            frame = None
        except gevent.GreenletExit:  # the connection's greenlet is killed: the frame is lost
            self.end()
            raise
        if frame is None:
            self.end()
            raise MakingFailedError("Sanitising it exceeded the time or memory limit.")
        return frame

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                pipe.close()
        self._process = None

    def start(self) -> None:
        self._process = Popen(self._command, stdin=PIPE, stdout=PIPE)


def run_maker(deadline_s: float) -> None:
    """Do the jobs that arrive on stdin until it ends; body of a maker process."""
    run_jobs(_do, lambda job: min(deadline_s, _DRAWING_S) if "is_mask" in job else deadline_s)


def _do(job: dict[str, Any]) -> bytes:
    if "is_mask" in job:
        try:
            data = job["data"].encode("latin-1")
            return mask(data) if job["is_mask"] else raster(data)
        except PermanentError:
            return b""
    if "is_font" in job:
        return sanitise_font(job["data"].encode("latin-1"))
    if "pdf" in job:
        data = base64.b64decode(job["pdf"])
        return draw_pdf_page(data, job["page"]) if job["page"] else read_pdf(data)
    rewriter = ReplayUrlRewriter(**job["rewriter"])
    if "data" in job:
        text = filter_sheet(job["data"].encode("latin-1"), job["charset"], rewriter)
    else:
        text = sanitise_document(job["text"], rewriter, was_scripted=job["was_scripted"], level=Level(job["level"]))
    return text.encode(errors="replace")
