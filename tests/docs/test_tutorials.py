"""The commands of the tutorials, run as they are written, print what the tutorials say.

In a ``console`` block a line that begins with ``$`` is a command of the shell, and the lines below it
are its output: numbers may differ, ``…`` stands for any text, and a line of it alone for any lines. A
command that ends with ``&`` is stopped at the end. Other blocks are not run.
"""

import http.server
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.services.ports import free_port

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
LIMIT_S = 240
pytestmark = [pytest.mark.browser, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = {
    "/": ("Example Domain", '<a href="/about">About</a> <a href="/docs/">Documentation</a>'),
    "/about": ("About", "This domain is for use in documents."),
    "/docs/": ("Documentation", '<a href="one">One</a> <a href="two">Two</a> <a href="/">Home</a>'),
    "/docs/one": ("Chapter one", "It begins. <a href='two'>Next</a>"),
    "/docs/two": ("Chapter two", "It ends. <a href='one'>Previous</a>"),
}


class _Site(http.server.BaseHTTPRequestHandler):
    """The pages of example.org."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a page, or 404."""
        title, text = PAGES.get(self.path, ("Not found", "There is no such page."))
        body = f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{text}</p>".encode()
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A preset under which example.org is a server of this machine."""
    folder = tmp_path_factory.mktemp("site")
    pem, key = folder / "site.pem", folder / "site.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=example.org", "-addext", "subjectAltName=DNS:example.org"),
            *("-keyout", str(key), "-out", str(pem)),
        ],
        check=True,
        capture_output=True,
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = folder / "profile.toml"
        path.write_text(
            f'[egress]\nallow = ["127.0.0.0/8"]\nca_file = "{pem}"\n'
            f'[egress.resolve]\n"example.org" = "127.0.0.1:{server.server_port}"\n'
            "[politeness]\nmin_delay_s = 0.0\ndelay_factor = 0.0\n"
            "[proxy]\ndisk_reserve_bytes = 0\n"
        )
        yield path
        server.shutdown()


def steps(page: Path) -> list[tuple[str, list[str]]]:
    """Return the commands of a tutorial, each with its expected lines."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line)
    return found


def pattern(lines: list[str]) -> re.Pattern[str]:
    """Return a pattern of the output that the lines stand for."""
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*")
            continue
        text = re.escape(" ".join(line.split()))
        text = re.sub(r"\d+(?:(?:\\\.|,)\d+)*", r"[\\d.,]+", text).replace("…", ".*")
        parts.append(re.sub(r"(?:[kMG]?B)\b", "[kMG]?B", text) + r"\n")
    return re.compile("".join(parts))


@pytest.mark.parametrize("name", ["first-archive", "crawl-with-qa"])
def test_a_tutorial_does_what_it_says(name: str, profile: Path, tmp_path: Path) -> None:
    """Each command ends well and prints the lines below it."""
    port = free_port()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "WEBOID_PROFILE": str(profile),
        "COLUMNS": "100",
    }
    with ExitStack() as running:
        for command, expected in steps(TUTORIALS / f"{name}.md"):
            own = command.replace("8080", str(port)).replace("8081", str(port + 1))
            lines = [each.replace("8080", str(port)) for each in expected]
            if own.endswith("&"):
                _start(own.rstrip("& "), lines, tmp_path, environment, running)
                continue
            ran = subprocess.run(
                ["bash", "-c", own],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            out = "".join(
                f"{' '.join(line.split())}\n" for line in ran.stdout.splitlines() if line.strip()
            )
            assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
            assert pattern(lines).fullmatch(out), (command, out, pattern(lines).pattern)


def _start(
    command: str, lines: list[str], folder: Path, environment: dict[str, str], running: ExitStack
) -> None:
    """Start a command that goes on, and read the lines that it prints first."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )

    def stop() -> None:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    running.callback(stop)
    assert process.stdout is not None
    out = "".join(f"{' '.join(process.stdout.readline().split())}\n" for _ in lines)
    assert pattern(lines).fullmatch(out), (command, out)
