"""A real clamd, started by a test and ended by it, with signatures that the test makes."""

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

START_LIMIT_S = 120.0
# The test file of the European Institute for Computer Antivirus Research, in two parts so that this
# file is none.
EICAR = (r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*").encode()


class ClamdServer:
    """`clamd` on a socket in a folder of its own. `start` may be called again after `kill`.

    Attributes:
        folder: of its configuration, its socket, its log and its signatures.
        signatures: the folder of its database.
    """

    def __init__(self, *, stream_max_length: int = 1_000_000) -> None:
        self._program = shutil.which("clamd") or "/usr/sbin/clamd"
        assert Path(self._program).exists(), "clamd is missing: run scripts/setup test."
        self.folder = Path(tempfile.mkdtemp(prefix="weboid-clamd-"))  # a socket's path is short
        self.signatures = self.folder / "db"
        self.signatures.mkdir()
        self.sign("Weboid-Eicar", EICAR)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        (self.folder / "clamd.conf").write_text(
            f"TCPSocket {self.port}\nTCPAddr 127.0.0.1\n"
            f"Foreground yes\nLocalSocket {self.folder}/clamd.ctl\n"
            f"DatabaseDirectory {self.signatures}\nTemporaryDirectory {self.folder}\n"
            f"StreamMaxLength {stream_max_length}\nMaxThreads 4\nSelfCheck 0\n"
            "ConcurrentDatabaseReload no\nBytecode no\n"
        )
        self.start()

    @property
    def address(self) -> str:
        """Return the address for `--clamd`, a Unix socket."""
        return f"unix:{self.folder}/clamd.ctl"

    @property
    def tcp_address(self) -> str:
        """Return the TCP address for `--clamd`."""
        return f"127.0.0.1:{self.port}"

    def sign(self, name: str, content: bytes) -> None:
        """Add a signature of `content`, wherever it stands in a file."""
        with (self.signatures / "own.ndb").open("a") as file:
            file.write(f"{name}:0:*:{content.hex()}\n")

    def restart(self) -> None:
        """Have it reload its signatures; a start takes less than a reload."""
        self.kill()
        self.start()

    def ask(self, command: bytes) -> bytes:
        """Send a command; return the answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(120)
            connection.connect(str(self.folder / "clamd.ctl"))
            connection.sendall(command)
            return connection.recv(4096)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [self._program, "--config-file", str(self.folder / "clamd.conf")],
                stdout=log,
                stderr=log,
                env={**os.environ, "LC_ALL": "C"},
            )
        pause = threading.Event()
        for _ in range(int(START_LIMIT_S / 0.05)):
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                assert self.ask(b"zPING\0") == b"PONG\0"
            except OSError:
                pause.wait(0.05)
            else:
                return
        raise AssertionError("clamd does not answer.")

    def kill(self) -> None:
        """End it, as a crash would."""
        self.process.kill()
        self.process.wait(120)

    def stop(self) -> None:
        """End it, if it runs, and remove what it left."""
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def fingerprint(content: bytes) -> str:
    """Return the content's digest in the form of the captures index."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
