"""The commands of the tutorials, run as they are written, print what the tutorials say.

In a ``console`` block a line that begins with ``$`` is a command of the shell, and the lines below it
are its output: numbers may differ, ``…`` stands for any text, and a line of it alone for any lines. A
command that ends with ``&`` is stopped at the end. Other blocks are not run.
"""

import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.loopback import LoopbackServer
from tests.support.services.ports import free_port
from tests.support.services.redis_server import RedisServer
from tests.support.sites.mediawiki import running_wiki
from tests.support.wiki_writer import WikiWriter
from tests.weboid.test_single_server import caddy_command, started

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
EXTENSION = TUTORIALS.parents[1] / "wiki" / "mediawiki" / "Weboid" / "extension.json"
LIMIT_S = 240
CITING = (
    "Lit in 1862.<ref>[https://museum.harbour-town.org/about The museum]</ref>"
    " [https://museum.harbour-town.org/docs/ More] [[Category:Lighthouses]]"
)
pytestmark = [pytest.mark.browser, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = {
    "/": ("Example Domain", '<a href="/about">About</a> <a href="/docs/">Documentation</a>'),
    "/about": ("About", "This domain is for use in documents."),
    "/docs/": ("Documentation", '<a href="one">One</a> <a href="two">Two</a> <a href="/">Home</a>'),
    "/docs/one": ("Chapter one", "It begins. <a href='two'>Next</a>"),
    "/docs/two": ("Chapter two", "It ends. <a href='one'>Previous</a>"),
}


class _ExampleSite(BaseHTTPRequestHandler):
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


NAMES = ("example.org", "museum.harbour-town.org", "archive.example.org", "copies.example.org")


@dataclass(frozen=True, slots=True)
class WildcardCertificate:
    """Certificate of all names, and its key."""

    pem: Path
    key: Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> WildcardCertificate:
    """Create a certificate for the cited sites and the archive."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "site.pem", folder / "site.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=example.org"),
            *("-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in NAMES)),
            *("-keyout", str(key), "-out", str(pem)),
        ],
        check=True,
        capture_output=True,
    )
    return WildcardCertificate(pem, key)


@pytest.fixture(scope="module")
def profile(certificate: WildcardCertificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a profile under which the cited sites are a server on this machine."""
    folder = tmp_path_factory.mktemp("site")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    with LoopbackServer(_ExampleSite, tls=context) as server:
        path = folder / "profile.toml"
        own = f'"127.0.0.1:{server.server_port}"'
        path.write_text(
            f'[egress]\nallow = ["127.0.0.0/8"]\nca_file = "{certificate.pem}"\n'
            "[egress.resolve]\n"
            + "".join(f'"{name}" = {own}\n' for name in NAMES[:2])
            + "[politeness]\nmin_delay_s = 0.0\ndelay_factor = 0.0\n"
            "[proxy]\ndisk_reserve_bytes = 0\n"
        )
        yield path


def steps(page: Path) -> list[tuple[str, list[str]]]:
    """Return the commands of a tutorial, each with its expected lines."""
    commands: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif line.strip():
                commands[-1][1].append(line)
    return commands


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


def environment(profile: Path) -> dict[str, str]:
    """Return the environment of a tutorial's commands."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "WEBOID_PROFILE": str(profile),
        "COLUMNS": "100",
    }


def follow(page: str, folder: Path, variables: dict[str, str], changes: Mapping[str, str]) -> None:
    """Run the commands of a tutorial and compare their output; `changes` replace texts in both."""

    def changed(text: str) -> str:
        for name, own in changes.items():
            text = text.replace(name, own)
        return text

    with ExitStack() as running:
        for command, expected in steps(TUTORIALS / page):
            own, lines = changed(command), [changed(each) for each in expected]
            if exported := re.fullmatch(r"export (\w+)='([^']*)'", own):
                variables[exported[1]] = exported[2]
                continue
            if own.endswith("&"):
                _start(own.rstrip("& "), lines, folder, variables, running)
                continue
            ran = subprocess.run(
                ["bash", "-c", own],
                cwd=folder,
                env=variables,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            out = "".join(f"{' '.join(line.split())}\n" for line in ran.stdout.splitlines() if line.strip())
            assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
            assert pattern(lines).fullmatch(out), (command, out, pattern(lines).pattern)


@pytest.mark.parametrize("name", ["first-archive", "crawl-with-qa", "../../README"])
def test_a_tutorial_does_what_it_says(name: str, profile: Path, tmp_path: Path) -> None:
    """Each command ends well and prints the lines below it."""
    port = free_port()
    changes = {"8080": str(port), "8081": str(port + 1)}
    follow(f"{name}.md", tmp_path, environment(profile), changes)


def test_the_tutorial_of_a_wiki_does_what_it_says(
    profile: Path, certificate: WildcardCertificate, tmp_path: Path
) -> None:
    """With a real MediaWiki, its extension, and Caddy with the file of deploy/single."""
    front, webhook = free_port(), free_port()
    ports = {"8080": front, "8081": front + 1, "9390": webhook}
    settings = [
        f"wfLoadExtension( 'Weboid', '{EXTENSION}' );",
        f"$wgWeboidFront = 'http://127.0.0.1:{front}';",
        "$wgWeboidOrigins = [ 'https://archive.example.org', 'https://copies.example.org' ];",
        f"$wgWeboidWebhook = 'http://127.0.0.1:{webhook}';",
        f"$wgWeboidSecretFile = '{tmp_path}/notify.secret';",
    ]
    caddy = {**ports, "https": free_port(), "http": free_port()}
    # curl finds the public names on this machine.
    (tmp_path / ".curlrc").write_text(
        f'cacert = "{certificate.pem}"\nconnect-to = "archive.example.org:443:127.0.0.1:{caddy["https"]}"\n'
    )
    server = tmp_path / "server"
    server.mkdir()
    with (
        running_wiki(server="self", settings="\n".join(settings)) as wiki,
        started(caddy_command(server, (certificate.pem, certificate.key), caddy), server, caddy["https"]),
    ):
        WikiWriter(wiki.api()).write("Cape lighthouse", CITING)
        variables = {**environment(profile), "HOME": str(tmp_path)}
        changes = {"https://wiki.example.org": wiki.base}
        follow("wiki.md", tmp_path, variables, changes | {old: str(new) for old, new in ports.items()})


def test_the_tutorial_of_a_cluster_does_what_it_says(profile: Path, database_url: str, tmp_path: Path) -> None:
    """With a real Redis and PostgreSQL."""
    redis = RedisServer(tmp_path / "redis", persistent=True)
    changes = {
        "redis://redis.lan:6379/0": redis.url,
        "postgresql://weboid@db.lan/weboid": database_url,
        "127.0.0.1:8000": f"127.0.0.1:{free_port()}",
        "127.0.0.1:8001": f"127.0.0.1:{free_port()}",
    }
    try:
        follow("cluster.md", tmp_path, environment(profile), changes)
    finally:
        redis.stop()


def _start(command: str, lines: list[str], folder: Path, environment: dict[str, str], running: ExitStack) -> None:
    """Start a command that goes on, and read the lines that it prints first."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )

    def stop() -> None:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)

    running.callback(stop)
    assert process.stdout is not None
    out = "".join(f"{' '.join(process.stdout.readline().split())}\n" for _ in lines)
    assert pattern(lines).fullmatch(out), (command, out)
