"""Browser processes: private home, dropped privileges, guardian, complete termination.

Started as root, the browser runs as an unprivileged user, for two reasons: Chromium's sandbox refuses root, and code
that escapes the sandbox should have no access (C-06). Its home is a private folder.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from core.errors import BrowserUnavailableError
from render.guardian import is_of_kind, kill_session, session_processes
from warc.local_storage import ScratchKind, scratch_folder

# Debian's and every other Linux's "nobody": owns nothing, may log in nowhere.
NOBODY = 65534
STDERR_KEPT_BYTES = 8 * 1024
PIPE_BYTES = 1 << 20
KILL_ROUNDS = 20
SHARED_MEMORY_NEEDED_BYTES = 512 * 1024 * 1024
# Labels of a key log's secrets that decode a connection (RFC 9850, 2).
_SECRETS = frozenset(
    ["CLIENT_RANDOM"]
    + [f"{side}_{stage}" for side in ("CLIENT", "SERVER") for stage in ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")]
)
# The debugging pipe is descriptors 3 and 4 of the browser; a shell puts them there, so that no
# Python code runs between fork and exec.
_PLUMBING = 'exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null'


class BrowserHome:
    """Private folder for one browser, removed by `close`; the inner folder belongs to the browser's user."""

    def __init__(self, *, owner: int | None) -> None:
        self._scratch = contextlib.ExitStack()
        self.root = self._scratch.enter_context(scratch_folder(ScratchKind.BROWSER))
        self.inside = self.root / "home"
        self.inside.mkdir(mode=0o700)
        self.profile = self.inside / "profile"
        self.profile.mkdir(mode=0o700)
        if owner is not None:
            self.root.chmod(0o711)
            for folder in (self.inside, self.profile):
                os.chown(folder, owner, owner)

    def close(self) -> None:
        """Remove the folder and its contents."""
        self._scratch.close()


def shared_memory_suffices() -> bool:
    """Return whether ``/dev/shm`` is large enough for the browser's shared bitmaps."""
    try:
        return shutil.disk_usage("/dev/shm").total >= SHARED_MEMORY_NEEDED_BYTES  # noqa: S108 asked for its size only
    except OSError:
        return False


def privilege_prefix(*, root: bool, executable: Path) -> list[str]:
    """Return the command prefix that drops privileges; BrowserUnavailableError: running as root without setpriv.

    ``--no-new-privs`` breaks a set-uid sandbox helper, which some systems need because they forbid unprivileged user
    namespaces; the switch is left out where such a helper is next to the program.
    """
    if (setpriv := shutil.which("setpriv")) is None:
        if root:
            raise BrowserUnavailableError(
                "As root the browser is started through setpriv, which is missing. Install it "
                "with: apt-get install util-linux, or start as another user."
            )
        return []
    prefix = [setpriv]
    if root:
        prefix += [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    folders = {executable.parent, executable.resolve().parent, Path("/usr/lib/chromium")}
    has_helper = False
    for helper in (folder / name for folder in folders for name in ("chrome-sandbox", "chrome_sandbox")):
        with contextlib.suppress(OSError):
            has_helper = has_helper or bool(helper.stat().st_mode & 0o4000)  # set-uid
    if not has_helper:
        prefix.append("--no-new-privs")
    return prefix if len(prefix) > 1 else []


class KeyLogPipe:
    """Named pipe for a browser's key log, the secrets of its TLS connections: lines go to listeners, or are dropped."""

    def __init__(self, folder: Path, *, owner: int | None) -> None:
        """Create the pipe in the folder, for a browser that runs as `owner` (None: as this user)."""
        self.path = folder / "tls-secrets"
        os.mkfifo(self.path, 0o600)
        if owner is not None:
            os.chown(self.path, owner, owner)
        self._listeners: set[Callable[[list[str]], None] | None] = set()
        # Open for writing, too: without a writer, a pipe is at its end forever.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._unread = b""
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    @contextlib.contextmanager
    def sent_to(self, listener: Callable[[list[str]], None] | None) -> Iterator[None]:
        """Send lines to the listener within the block; None: drop them."""
        if listener is not None:
            self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Close the pipe. Idempotent."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        try:
            data = os.read(self._fd, PIPE_BYTES)
        except BlockingIOError:
            return
        whole, _, self._unread = (self._unread + data).rpartition(b"\n")
        lines = [each for each in whole.decode("ascii", "replace").splitlines() if each.partition(" ")[0] in _SECRETS]
        for listener in self._listeners if lines else ():
            if listener is not None:
                listener(lines)


class BrowserProcess:
    """Running browser and all its processes, ended by `close`; the user closes `read_fd` (from it) and `write_fd`."""

    def __init__(self, command: list[str], *, home: Path, more: Mapping[str, str] | None = None) -> None:
        loop = asyncio.get_running_loop()
        command_read, self.write_fd = _pipe()
        self.read_fd, answer_write = _pipe()
        errors_read, errors_write = os.pipe()
        try:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _PLUMBING, "sh", *command],
                stdin=command_read,
                stdout=answer_write,
                stderr=errors_write,
                start_new_session=True,
                cwd=home,
                env={**child_environment(home), **(more or {})},
            )
        except OSError as error:
            for fd in (self.write_fd, self.read_fd, errors_read):
                os.close(fd)
            raise BrowserUnavailableError(f"The browser does not start: {error}.") from error
        finally:
            for fd in (command_read, answer_write, errors_write):
                os.close(fd)
        self.pid = self._popen.pid  # leader of the session that contains all others
        self.died = asyncio.Event()  # set when the first process has ended for any reason
        self._errors_fd: int | None = errors_read
        self._errors = b""
        os.set_blocking(errors_read, False)
        loop.add_reader(errors_read, self._read_errors)
        self._pidfd: int | None = os.pidfd_open(self.pid)
        loop.add_reader(self._pidfd, self._ended)

    @property
    def errors(self) -> str:
        """Return the end of its standard error output."""
        return self._errors.decode(errors="replace")

    def of_kind(self, kind: str) -> set[psutil.Process]:
        """Return the processes of one of Chromium's kinds, such as ``renderer`` or ``gpu-process``."""
        pids = set()
        for pid in session_processes(self.pid):
            with contextlib.suppress(OSError, psutil.Error):
                if is_of_kind(pid, kind):
                    pids.add(psutil.Process(pid))
        return pids

    async def close(self) -> None:
        """Kill every process of the browser and wait until each has ended."""
        for _ in range(KILL_ROUNDS):
            if await asyncio.to_thread(kill_session, self.pid):
                break
        self._popen.poll()
        # Orphans are re-parented to this process when it is a container's first process, or a subreaper.
        for pid in session_processes(self.pid, zombies=True):
            if pid != self.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 it does not block
        self._ended()
        if self._errors_fd is not None:
            self._read_errors()
            asyncio.get_running_loop().remove_reader(self._errors_fd)
            os.close(self._errors_fd)
            self._errors_fd = None

    def _ended(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._popen.poll() is not None:
            self.died.set()

    def _read_errors(self) -> None:
        if (fd := self._errors_fd) is None:
            return
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._errors = (self._errors + data)[-STDERR_KEPT_BYTES:]
        else:
            asyncio.get_running_loop().remove_reader(fd)


def child_environment(home: Path) -> dict[str, str]:
    """Return the complete environment of the browser; nothing is inherited, no secrets."""
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # No session bus: the browser would spend a long time searching for one.
        "DBUS_SESSION_BUS_ADDRESS": "disabled:",
        "CHROME_HEADLESS": "1",
    }


def _pipe() -> tuple[int, int]:
    """Create a pipe, with a large buffer for screenshots where the system allows it."""
    read_fd, write_fd = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(read_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return read_fd, write_fd


log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("guardian.py")


class BrowserGuardian:
    """Watchdog process that ends an orphaned or hung browser; see `render.guardian`."""

    def __init__(self, session: int, folder: Path, *, silence_limit_s: float, memory_limit_bytes: int) -> None:
        """Start the guardian of the session, which also removes `folder` when this process dies."""
        arguments = (session, folder, silence_limit_s, memory_limit_bytes)
        child_stdin, self._heartbeat_fd = os.pipe()
        self._reports_fd, child_stdout = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), *map(str, arguments)],
                stdin=child_stdin,
                stdout=child_stdout,
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError as error:
            os.close(self._heartbeat_fd)
            os.close(self._reports_fd)
            raise BrowserUnavailableError(f"The browser's guardian does not start: {error}.") from error
        finally:
            os.close(child_stdin)
            os.close(child_stdout)
        self.pid = self._popen.pid  # its process id
        os.set_blocking(self._heartbeat_fd, False)
        os.set_blocking(self._reports_fd, False)
        asyncio.get_running_loop().add_reader(self._reports_fd, self._read_reports)

    def beat(self) -> None:
        """Send a heartbeat: the browser answered."""
        # Full: the guardian is behind, so one more byte is redundant. Closed: it has ended.
        with contextlib.suppress(OSError):
            os.write(self._heartbeat_fd, b".")

    async def close(self) -> None:
        """Stop the guardian without ending the browser. Idempotent."""
        if self._heartbeat_fd < 0:
            return
        self._read_reports()
        asyncio.get_running_loop().remove_reader(self._reports_fd)
        # Killed first: it takes a closed pipe for the death of this process.
        self._popen.kill()
        os.close(self._heartbeat_fd)
        os.close(self._reports_fd)
        self._heartbeat_fd = -1
        await asyncio.shield(asyncio.to_thread(self._popen.wait))

    def _read_reports(self) -> None:
        try:
            data = os.read(self._reports_fd, 4096)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._reports_fd)
        for line in data.decode().splitlines():
            reason, _, detail = line.partition(" ")
            if reason == "memory":
                log.warning("page.ended reason=memory pid=%s", detail)
            else:
                log.warning("browser.ended reason=%s seconds=%s", reason, detail)
