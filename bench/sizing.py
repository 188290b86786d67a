"""Disk, memory and speed of one machine: the figures of docs/how-to/small-machines.md.

Archives pages of the test web (MediaWiki, manuals, applications) by the command line, with one and two
workers and with the presets ``default`` and ``text-only``, serves the copies, and prints: bytes a page of
WARCs, artifacts and index; pages a minute, from the first page to the last; memory of each role as PSS
(proportional set size: shared pages are divided among the processes that share them), the median and the
maximum of samples taken every second. Politeness is off, as pages of many hosts would be visited.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import html
import itertools
import json
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from bench import report
from scripts.demo import profile
from tests.support.services.ports import free_port
from tests.support.sites.web import TestWeb

WEBOID = str(Path(sys.executable).with_name("weboid"))
PAGES, QUICK_PAGES = 60, 20
EVERY_S = 1.0
_RUNS = (("default", 1), ("default", 2), ("text-only", 2))


@dataclass(slots=True)
class MemorySamples:
    """Samples of the PSS of a process tree, in MB by role."""

    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def take(self, root: int) -> None:
        """Add a sample of a process and its descendants."""
        sums: dict[str, float] = defaultdict(float)
        try:
            processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
        except psutil.Error:
            return
        for process in processes:
            try:
                role = _role(process, is_root=process.pid == root)
                text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
            except (psutil.Error, OSError):
                continue  # it has ended
            match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
            sums[role] += int(match[1]) / 1000 if match else 0.0
        for role, megabytes in sums.items():
            self.samples[role].append(megabytes)


def _role(process: psutil.Process, *, is_root: bool) -> str:
    """Return the role of a process: the command itself, browser, proxy, replay, or another helper."""
    words = process.cmdline()
    if is_root:
        return "command"
    if any(word.startswith(("--user-data-dir", "--type=")) for word in words):
        return "browser"
    modules = [word for flag, word in itertools.pairwise(words) if flag == "-m"]
    return modules[0] if modules else "helpers"


@contextmanager
def measuring(process: int) -> Iterator[MemorySamples]:
    """Sample the memory of a process tree until the end of the block."""
    memory, ended = MemorySamples(), threading.Event()

    def sample() -> None:
        while not ended.wait(EVERY_S):
            memory.take(process)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join()


def _profile(folder: Path, preset: str, web: TestWeb) -> Path:
    path = folder / f"{preset}.toml"
    path.write_text(f'extends = "{preset}"\n{profile(web)}\n[proxy]\ndisk_reserve_bytes = 0\n')
    return path


def archive(folder: Path, web: TestWeb, preset: str, workers: int, count: int) -> dict[str, float]:
    """Archive the first pages into a collection of its own; return the figures."""
    collection = folder / f"{preset}-{workers}"
    urls = folder / "urls.txt"
    urls.write_text("".join(f"{url}\n" for url in web.urls.real_pages[:count]))
    words = ["archive", "--list", str(urls), "--collection", str(collection), "--json"]
    words += ["--workers", str(workers), "--profile", str(_profile(folder, preset, web)), "--no-scan"]
    ends: list[float] = []  # of the visits
    with subprocess.Popen([WEBOID, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with measuring(process.pid) as memory:
            events = (json.loads(line)["event"] for line in process.stdout)
            ends += [time.perf_counter() for event in events if event == "page"]
    assert process.returncode == 0, process.returncode
    name = f"{preset.replace('-', '_')}_{workers}"
    kilobytes = {
        "warc": _size(collection.glob("archive/weboid-*")),
        "artifacts": _size(collection.glob("archive/artifacts-*")),
        "index": _size(each for each in collection.rglob("*") if ".sqlite" in each.name),
    }
    figures = {f"{name}_{key}_kb_a_page": size / 1000 / len(ends) for key, size in kilobytes.items()}
    figures[f"{name}_pages_per_minute"] = 60 * (len(ends) - 1) / (ends[-1] - ends[0])
    return figures | _memory(name, memory)


def _size(files: Iterator[Path]) -> int:
    return sum(each.stat().st_size for each in files if each.is_file())


def _memory(name: str, memory: MemorySamples) -> dict[str, float]:
    figures = {}
    for role, samples in sorted(memory.samples.items()):
        figures[f"{name}_{role}_pss_mb_median"] = statistics.median(samples)
        figures[f"{name}_{role}_pss_mb_max"] = max(samples)
    return figures


def serve(collection: Path, urls: tuple[str, ...]) -> dict[str, float]:
    """Serve a collection and read every copy once; return the memory of front and replay."""
    port = free_port()
    words = ["serve", "--collection", str(collection), f"--listen=127.0.0.1:{port}", "--no-scan"]
    with subprocess.Popen([WEBOID, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        origin = process.stdout.readline().strip()
        try:
            with measuring(process.pid) as memory:
                read = sum(_read_copy(origin, url) for url in urls)
                time.sleep(2 * EVERY_S)  # a last sample after the work
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert read > len(urls) / 2, f"{read} of {len(urls)} copies were served"
    return _memory("serve", memory)


def _read_copy(origin: str, url: str) -> bool:
    """Read the page around a copy and the copy in its frame; return False when there is none."""
    try:
        with urllib.request.urlopen(f"{origin}/page/{url}", timeout=60) as answer:
            frame = re.search(r'<iframe[^>]+src="(http[^"]+)"', answer.read().decode())
        if frame is None:
            return False
        headers = {"Sec-Fetch-Dest": "iframe"}
        request = urllib.request.Request(html.unescape(frame[1]), headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return False
    return True


def main() -> None:
    """Measure, and print the figures."""
    count = QUICK_PAGES if report.arguments(__doc__ or "").quick else PAGES
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place, TestWeb.start() as web:
        folder = Path(place)
        for preset, workers in _RUNS:
            figures |= archive(folder, web, preset, workers, count)
        urls = web.urls.real_pages[:count]
        figures |= serve(folder / "default-2", urls)
    report.table([("figure", "value"), *((name, f"{value:,.1f}") for name, value in figures.items())])
    report.figures("sizing", figures)


if __name__ == "__main__":
    main()
