"""The files of deploy/single: one server behind TLS with two names, its units and environment."""

import asyncio
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import AsyncMock

import httpx
import pytest
from click.testing import CliRunner

from core.clock import SystemClock
from core.layout import COLLECTION_VERSION
from tests.support.commands import WeboidRunner
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.services.ports import free_port
from weboid.cli.main import weboid as weboid_command
from wiki.sync.webhook import WebhookOptions, serve_webhook

FILES = Path(__file__).resolve().parents[2] / "deploy" / "single"
FRONT, COPIES = "archive.example.org", "copies.example.org"
UNITS = sorted(FILES.glob("*.service"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Create a certificate of both names; return the paths of it and its key."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "fullchain.pem", folder / "privkey.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={FRONT}", "-addext", f"subjectAltName=DNS:{FRONT},DNS:{COPIES}"),
            *("-keyout", str(key), "-out", str(pem)),
        ],
        check=True,
        capture_output=True,
    )
    return pem, key


def nginx_command(folder: Path, certificate: tuple[Path, Path], ports: dict[str, int]) -> list[str]:
    """Return the command of nginx with the file, its ports and certificates replaced."""
    text = (FILES / "nginx.conf").read_text()
    for name in (FRONT, COPIES):
        text = text.replace(f"/etc/letsencrypt/live/{name}/fullchain.pem", str(certificate[0]))
        text = text.replace(f"/etc/letsencrypt/live/{name}/privkey.pem", str(certificate[1]))
    text = re.sub(r" *listen \[::\].*\n", "", text)
    text = text.replace("listen 443", f"listen 127.0.0.1:{ports['https']}")
    text = text.replace("listen 80;", f"listen 127.0.0.1:{ports['http']};")
    for upstream in ("8080", "8081", "9390"):
        text = text.replace(f"127.0.0.1:{upstream};", f"127.0.0.1:{ports[upstream]};")
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; worker_processes 1; user root;\n"
        f"events {{}}\nhttp {{ access_log off;\n{text}\n}}\n"
    )
    return [shutil.which("nginx") or "/usr/sbin/nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy_command(folder: Path, certificate: tuple[Path, Path], ports: dict[str, int]) -> list[str]:
    """Return the command of Caddy with the file, its ports and certificates replaced."""
    text = (FILES / "Caddyfile").read_text()
    for name in (FRONT, COPIES):
        text = re.sub(
            rf"^{{\$\w+:{name}}} {{",
            f"https://{name}:{ports['https']} {{\n\ttls {certificate[0]} {certificate[1]}",
            text,
            flags=re.MULTILINE,
        )
    for upstream in ("8080", "8081", "9390"):
        text = text.replace(f"127.0.0.1:{upstream}\n", f"127.0.0.1:{ports[upstream]}\n")
    head = f"{{\n\tadmin off\n\tauto_https disable_redirects\n\thttp_port {ports['http']}\n}}\n"
    (folder / "Caddyfile").write_text(head + text)
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@contextmanager
def started(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """Run a web server until the end of the block."""
    log = (folder / "log").open("wb")
    environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin"}
    with subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process, log:
        try:
            deadline = time.monotonic() + 60
            while True:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


@pytest.mark.playback
@pytest.mark.slow
@pytest.mark.parametrize("make", [nginx_command, caddy_command], ids=["nginx", "caddy"])
def test_pages_copies_and_webhook_are_reached_under_two_names(
    collection: CollectionBuilder,
    site: str,
    tmp_path: Path,
    certificate: tuple[Path, Path],
    make: Callable[[Path, tuple[Path, Path], dict[str, int]], list[str]],
) -> None:
    """The front under one name, the copies under the other alone, notifications at the webhook."""
    collection.page(f"{site}/", "<p>Cited words")
    collection.close()
    collection.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    ports = {
        "https": free_port(),
        "http": free_port(),
        "8080": (front := free_port()),
        "8081": front + 1,
        "9390": free_port(),
    }
    public = f"https://{FRONT}:{ports['https']}"
    copies = f"https://{COPIES}:{ports['https']}"
    options = ["--port", str(ports["8080"]), "--replay-port", str(ports["8081"]), "--no-scan"]
    options += ["--origin", public, "--replay-origin", copies, "--behind", "127.0.0.1"]
    own = WeboidRunner(tmp_path, tmp_path / "none")
    assert own.call("collection", "rebuild").code == 0
    server = own.start("serve", *options)
    assert server.stdout is not None
    assert server.stdout.readline(), server.communicate()
    folder = tmp_path / "server"
    folder.mkdir()
    trusted = ssl.create_default_context(cafile=str(certificate[0]))

    async def ask() -> tuple[httpx.Response, httpx.Response, httpx.Response, httpx.Response]:
        options = WebhookOptions(lambda *_: True, {"*": b"x" * 32}, SystemClock(), AsyncMock(return_value=True))
        async with serve_webhook("127.0.0.1", ports["9390"], options):
            transport = _LocalNames(verify=trusted)
            async with httpx.AsyncClient(transport=transport, timeout=120, follow_redirects=True) as client:
                page = await client.get(f"{public}/page/{site}/")
                copy_url = re.search(rf"{re.escape(copies)}/[^\"]+", page.text)
                assert copy_url, page.text
                copy = await client.get(copy_url.group(), headers={"Sec-Fetch-Dest": "iframe"})
                wrong = await client.get(f"{public}{copy_url.group().removeprefix(copies)}")
                webhook = await client.post(f"{public}/test", content=b"{}")
        return page, copy, wrong, webhook

    try:
        with started(make(folder, certificate, ports), folder, ports["https"]):
            page, copy, wrong, webhook = asyncio.run(ask())
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=120)

    assert page.status_code == 200
    assert copy.status_code == 200
    assert "sandbox" in copy.headers["content-security-policy"]
    assert wrong.status_code == 404
    assert webhook.status_code == 403
    assert "secret" in webhook.json()["error"].lower() or "sign" in webhook.json()["error"].lower()


class _LocalNames(httpx.AsyncHTTPTransport):
    """Connects to this machine, whatever the name."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = request.url.host
        request.url = request.url.copy_with(host="127.0.0.1")
        return await super().handle_async_request(request)


@pytest.mark.parametrize("unit", UNITS, ids=lambda each: each.stem)
def test_units_start_a_command_with_options_that_exist(unit: Path) -> None:
    """Each long option of the command is in its help, and each variable in weboid.env."""
    text = unit.read_text().replace("\\\n", " ")
    line = re.search(r"^ExecStart=/opt/weboid/bin/weboid (.*)$", text, re.MULTILINE)
    assert line
    words = line.group(1).split()
    command = [word for word in words[:2] if not word.startswith("-")]
    shown = CliRunner().invoke(weboid_command, [*command, "--help"]).output
    environment = (FILES / "weboid.env").read_text()

    assert [word for word in words if word.startswith("--") and word not in shown] == []
    variables = re.findall(r"\$\{?(\w+)", line.group(1))
    assert [name for name in variables if f"\n{name}=" not in environment] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda each: each.stem)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing but the program, which is elsewhere here."""
    copy = tmp_path / unit.name
    program = shutil.which("true")
    copy.write_text(unit.read_text().replace("/opt/weboid/bin/weboid", str(program)))

    ran = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
