"""Fixtures of all suites, started once: the test web, a PostgreSQL."""

import functools
import gc
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from tests.crawler.frontier.conftest import new_place, redis_server  # noqa: F401 fixtures
from tests.support.commands import weboid, weboid_with  # noqa: F401 fixtures
from tests.support.examples import register
from tests.support.json_outputs import install
from tests.support.services.postgres import PostgresServer
from tests.support.sites.web import TestWeb

register()
install()


_MEMORY = Path("/dev/shm")
_AVAILABLE = re.compile(r"^MemAvailable: +(\d+) kB", re.MULTILINE)
_GROUP = Path("/sys/fs/cgroup")
_ROOM_BYTES = 8 << 30  # several times what a whole run writes and what its processes take


def pytest_configure() -> None:
    """Let SIGINT mean what it means at a terminal; keep compiled files; write into memory.

    A shell without job control starts what it runs in the background with SIGINT ignored, and the
    commands that the tests start would inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # What is compiled is kept, whatever the environment says: the tests start thousands of interpreters.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Collected tests stay until the end: to search them for garbage again and again takes a third
    # of the time of collecting them.
    gc.disable()
    _use_memory_for_files()
    _compile_templates_once()


def _compile_templates_once() -> None:
    """Share compiled templates among the servers of a process: each would compile them again, for a tenth of its time."""
    compiled: dict[tuple[object, ...], object] = {}
    compile_template = Environment.compile

    def compile_once(self: Environment, source: Any, *options: Any, **named: Any) -> Any:
        blocks = (self.autoescape, self.trim_blocks, self.lstrip_blocks)
        key = (source, *options, *sorted(named.items()), *sorted(self.filters), *blocks)
        if not isinstance(source, str):
            return compile_template(self, source, *options, **named)
        if key not in compiled:
            compiled[key] = compile_template(self, source, *options, **named)
        return compiled[key]

    # Jinja's own cache is an argument of each environment, which the product does not need.
    Environment.compile = compile_once  # type: ignore[method-assign]


def _use_memory_for_files() -> None:
    """Put temporary files into memory, where there is room: a hundred times faster to make durable.

    Thousands of databases are created, each with several `fsync`, for which the tests would wait
    longer than for anything else. TMPDIR says otherwise.
    """
    if "TMPDIR" in os.environ or not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return
    facts = os.statvfs(_MEMORY)
    available = _AVAILABLE.search(Path("/proc/meminfo").read_text(encoding="ascii"))
    room = min(facts.f_bavail * facts.f_frsize, int(available[1]) * 1024 if available else 0)
    with suppress(OSError, ValueError):  # no control group (version 2), or one without a limit
        limit, used = ((_GROUP / name).read_text("ascii") for name in ("memory.max", "memory.current"))
        room = min(room, int(limit) - int(used))
    if room >= _ROOM_BYTES and not facts.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def pytest_collection_finish() -> None:
    """Enable the garbage collector, which leaves out what was collected and runs seldom."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


_UMASK = os.umask(0o022)
os.umask(_UMASK)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Restore the umask, which `weboid` narrows when a test runs it within its own process.

    Browsers run as another user and must read the files of the tests.
    """
    os.umask(_UMASK)


# A module whose every test is of such a kind; it is not imported when the kind is left out.
_MODULE_MARKS = re.compile(r"^pytestmark = (\[.*?^\]|\[.*?\]$|.*?$)", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"pytest\.mark\.(\w+)")
_USUAL_LIMIT_S = 300.0  # what a test may take that says nothing else: pyproject.toml
_LONG = ("real", "slow", "browser", "playback", "proxy")  # marks of tests that take seconds
_LEFT_OUT = re.compile(r"not (\w+)( and not (\w+))*")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no process is left alone with one at the end.

    Those are first whose tests may take longest, then those with most marks of long tests.
    """
    longest: dict[Path, float] = {}
    marks: Counter[Path] = Counter()
    for item in items:
        limits = [float(mark.args[0]) for mark in item.iter_markers("timeout") if mark.args]
        limit = max((each for each in limits if each > _USUAL_LIMIT_S), default=0.0)
        longest[item.path] = max(longest.get(item.path, 0.0), limit)
        marks[item.path] += sum(item.get_closest_marker(mark) is not None for mark in _LONG)
    items.sort(key=lambda item: (-longest[item.path], -marks[item.path]))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which several processes share the files, and each collects its own alone."""
    parser.addoption("--part", default="1/1", metavar="K/N", help="Part K of N of the files.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no module of another part, or of whose tests none would be left: imports cost most.

    The latter only for ``-m "not A and not B"``, whose meaning is plain; anything else is pytest's to
    work out.
    """
    folder = config.rootpath / "tests"
    if not collection_path.match("test_*.py") or not collection_path.is_relative_to(folder):
        return None
    files = _files_of_part(folder, config.getoption("part"), config.getoption("markexpr"))
    return None if collection_path in files else True


@functools.cache
def _files_of_part(folder: Path, part: str, mark_expression: str) -> frozenset[Path]:
    """Return every n-th of the files with tests that are asked for: neighbours take about the same time."""
    left_out = set(re.findall(r"not (\w+)", mark_expression)) if _LEFT_OUT.fullmatch(mark_expression) else set()
    files = []
    for path in sorted(folder.rglob("test_*.py")):
        marks = _MODULE_MARKS.search(path.read_text(encoding="utf-8")) if left_out else None
        if marks is None or not left_out & set(_MARK.findall(marks[1])):
            files.append(path)
    number, parts = map(int, part.split("/"))
    return frozenset(files[number - 1 :: parts])


@pytest.fixture(scope="session")
def web() -> Iterator[TestWeb]:
    """Serve the rule pages and galleries, under ordinary names on loopback."""
    with TestWeb.start(real=False) as running:
        yield running


@pytest.fixture(scope="session")
def real_web() -> Iterator[TestWeb]:
    """Serve the same with MediaWiki, Debian's manuals and applications from npm."""
    with TestWeb.start(real=True) as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start a PostgreSQL; a test that harms it starts its own."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """Return the URL of a new database in the shared PostgreSQL."""
    return postgres.database()
