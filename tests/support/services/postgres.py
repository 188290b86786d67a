"""A real PostgreSQL, started by a test and ended by it."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

SETTINGS = {
    "fsync": "off",  # the server is killed, not the machine
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "dynamic_shared_memory_type": "mmap",
    "jit": "off",
}
START_LIMIT_S = 120.0
USERS = ("postgres", "nobody")  # of Debian's package, of every Linux


def programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs.

    Raises:
        AssertionError: there is none: `scripts/setup test` installs it.
    """
    executables = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    if executables:
        return executables[-1].parent
    path = shutil.which("postgres")
    assert path, "PostgreSQL is missing: run scripts/setup test."
    return Path(path).parent


def _version(program: Path) -> int:
    name = program.parts[-3]
    return int(name) if name.isdigit() else 0


class PostgresServer:
    """`postgres` on a free loopback port. `start` may be called again after `kill`.

    Attributes:
        folder: of its data, its socket and its log; `stop` removes it.
    """

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        # Its user must be able to come here, and a socket's path is short.
        self.folder = Path(tempfile.mkdtemp(prefix="weboid-postgres-"))
        self._as_user: list[str] = []
        if os.geteuid() == 0:  # it refuses to run as root
            user = next(each for each in map(_user, USERS) if each is not None)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
            self._as_user += ["--clear-groups"]
        self._run("initdb", "--no-sync", "--auth=trust", "--username=weboid", "--encoding=UTF8")
        (self.folder / "data" / "pg_hba.conf").write_text(
            "local all all trust\nhost all weboid 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        self.start()
        with self._client("postgres") as client:
            client.execute("CREATE ROLE reader LOGIN PASSWORD 'p@ss/word'")

    def _run(self, program: str, *options: str) -> None:
        command = [*self._as_user, str(programs() / program), "-D", str(self.folder / "data")]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        command = [*self._as_user, str(programs() / "postgres"), "-D", str(self.folder / "data")]
        command += ["-p", str(self.port), "-k", str(self.folder)]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        pause = threading.Event()
        for _ in range(int(START_LIMIT_S / 0.05)):
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                self._client("postgres").close()
            except psycopg.OperationalError:
                pause.wait(0.05)
            else:
                return
        raise AssertionError("PostgreSQL does not accept connections.")

    def database(self, like: str = "template1") -> str:
        """Create a database as a copy of `like`; return its URL, for `[index] url`."""
        name = f"test_{secrets.token_hex(6)}"
        with self._client("postgres") as client:
            client.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"'.encode())
        return f"postgresql://weboid@127.0.0.1:{self.port}/{name}"

    def _client(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(host="127.0.0.1", port=self.port, user="weboid", dbname=database, autocommit=True)

    def kill(self) -> None:
        """End it and every process of it, as a crash of the machine would."""
        server = psutil.Process(self.process.pid)
        children = server.children(recursive=True)
        server.send_signal(signal.SIGKILL)
        for child in children:
            try:
                child.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        self.process.wait(120)
        psutil.wait_procs(children, timeout=120)

    def pause(self, *, stop: bool) -> None:
        """Hold every process of it, or let them go on: a server that hangs."""
        server = psutil.Process(self.process.pid)
        for each in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # one of its processes has just ended
                each.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)

    def stop(self) -> None:
        """End it, if it runs, and remove what it left."""
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
