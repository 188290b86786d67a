"""`TestWeb`: a small web on loopback, under ordinary names, over http and https."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from core.clock import SystemClock
from tests.support.sites import hosts
from tests.support.sites.cache import ROOT, SiteUnavailableError
from tests.support.sites.certificates import make_certificates
from tests.support.sites.docs import library
from tests.support.sites.gallery import subresources
from tests.support.sites.http1 import LoggedRequest
from tests.support.sites.kinds import kinds
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.sites.rules import ENDLESS, PAGES
from tests.support.sites.spa import applications

ANSWER_LIMIT_S = 120.0
DOCS_PAGES = 36  # real pages taken from the manuals


@dataclass(frozen=True, slots=True)
class WebUrls:
    """URLs of the test web, by kind.

    Attributes:
        real_pages: pages of real sites; empty lists are left out when a site was not started.
        rule_pages: pages that keep or break a rule, each ending by itself.
        endless_pages: pages whose body never ends.
        bad_tls: pages whose certificate is at fault.
        unreachable: a refused connection, a silent server, a name that resolves to nothing.
    """

    real_pages: tuple[str, ...]
    rule_pages: tuple[str, ...]
    endless_pages: tuple[str, ...]
    bad_tls: tuple[str, ...]
    unreachable: tuple[str, ...]


class TestWeb:
    """The test web, running. Start it with `start`; end it with `stop` or as a context manager."""

    __test__ = False  # a name like a test's, but none

    def __init__(self, stack: ExitStack, server: "subprocess.Popen[str]", facts: "_WebFacts") -> None:
        self._stack = stack
        self._server = server
        self.http_port, self.https_port = facts.http_port, facts.https_port
        self.resolve = facts.resolve
        self.ca_file = str(facts.ca_file)
        self.spki = facts.spki
        self.urls = facts.urls
        self.wiki = facts.wiki

    @classmethod
    def start(cls, *, real: bool = True, wiki: bool | None = None, every_kind: bool = False) -> "TestWeb":
        """Start it: the rule pages and galleries always, the real sites when asked for.

        Args:
            real: serve the manuals and applications, fetched on the first use.
            wiki: serve MediaWiki too; by default as `real` says.
            every_kind: serve the pages of every kind, too; their libraries are fetched.

        Raises:
            SiteUnavailableError: a real site could not be fetched, or the server did not start.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="test-web-")))
            certificates = make_certificates(folder, now=SystemClock().now())
            running = stack.enter_context(running_wiki()) if (real if wiki is None else wiki) else None
            typeface = applications().typeface if real else None
            config: dict[str, object] = {
                "good": str(certificates.good),
                "bad": {host: str(file) for host, file in certificates.bad.items()},
                "folders": (_folders() if real else {}) | ({hosts.KINDS: str(kinds().root)} if every_kind else {}),
                "upstreams": {hosts.WIKI: running.port} if running else {},
                "typeface": str(typeface or ""),
            }
            server = stack.enter_context(_FrontServer(config)).process
            http_port, https_port, silent_port = _ports(server)
            closed_port = stack.enter_context(_RefusingPort()).port
            facts = _WebFacts(
                http_port=http_port,
                https_port=https_port,
                resolve=_resolve(http_port, https_port, silent_port, closed_port),
                ca_file=certificates.ca_file,
                spki=certificates.spki,
                urls=_urls(running, real=real),
                wiki=running,
            )
            return cls(stack.pop_all(), server, facts)
        raise AssertionError  # the stack swallows nothing

    def stop(self) -> None:
        """End every process and remove every file of this run."""
        self._stack.close()

    def __enter__(self) -> "TestWeb":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def requests(self) -> list[LoggedRequest]:
        """Return the requests received since the start or the last `clear`, oldest first."""
        seen = self._ask("requests")
        assert isinstance(seen, list)
        return [LoggedRequest(scheme, head) for scheme, head in seen]

    def count(self) -> int:
        """Return the number of requests received since the start or the last `clear`, at most 50,000."""
        number = self._ask("count")
        assert isinstance(number, int)
        return number

    def clear(self) -> None:
        """Forget the requests that came in."""
        self._ask("clear")

    def chromium_arguments(self) -> list[str]:
        """Return the arguments with which Chromium visits this web directly, without a proxy."""
        rules = [f"MAP {name} {address}" for name, address in self.resolve.items() if ":" in name]
        return [f"--host-resolver-rules={','.join(rules)}", f"--ignore-certificate-errors-spki-list={self.spki}"]

    @staticmethod
    def gallery(number: int, *, scheme: str = "https") -> str:
        """Return the URL of gallery `number`; every number is a page of 91 subresources of its own."""
        return f"{scheme}://{hosts.GALLERY}/gallery/{number}"

    @staticmethod
    def gallery_subresources(number: int, *, scheme: str = "https") -> list[str]:
        """Return the URLs of that gallery's 91 subresources."""
        return [f"{scheme}://{hosts.GALLERY}{path}" for path in subresources(number)]

    def _ask(self, question: str) -> object:
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{question}\n")
        stdin.flush()
        answer: object = json.loads(stdout.readline())
        return answer


@dataclass(frozen=True, slots=True)
class _WebFacts:
    """Ports, addresses and certificates, known once everything runs."""

    http_port: int
    https_port: int
    resolve: dict[str, str]
    ca_file: Path
    spki: str
    urls: WebUrls
    wiki: RunningWiki | None


class _FrontServer:
    """The front server's process, from start to end."""

    def __init__(self, config: dict[str, object]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.sites.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(config) + "\n")
        self.process.stdin.flush()

    def __enter__(self) -> "_FrontServer":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(ANSWER_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class _RefusingPort:
    """A port that is ours and refuses connections: bound, but nobody listens."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> "_RefusingPort":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _ports(server: "subprocess.Popen[str]") -> list[int]:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise SiteUnavailableError("The test web's server did not start; its reason stands above.")
    ports = json.loads(line)["ports"]
    return [int(port) for port in ports]


def _folders() -> dict[str, str]:
    return {hosts.DOCS: str(library().root), hosts.SPA: str(applications().root)}


def _resolve(http_port: int, https_port: int, silent_port: int, closed_port: int) -> dict[str, str]:
    """Return the real address of each name and port of the test web, for ``[egress] resolve``."""
    both = {"80": http_port, "443": https_port}
    table = {f"{host}:{port}": f"127.0.0.1:{real}" for host in hosts.SERVED for port, real in both.items()}
    for port in both:
        table[f"{hosts.SILENT}:{port}"] = f"127.0.0.1:{silent_port}"
        table[f"{hosts.REFUSED}:{port}"] = f"127.0.0.1:{closed_port}"
    return table


def _urls(wiki: RunningWiki | None, *, real: bool) -> WebUrls:
    pages: list[str] = []
    if wiki is not None:
        pages += [f"http://{hosts.WIKI}{path}" for path in _wiki_paths(wiki)]
    if real:
        pages += [f"https://{hosts.SPA}{path}" for path in applications().pages]
        pages += [f"https://{hosts.DOCS}{path}" for path in _spread(library().pages)]
        pages += [f"https://{hosts.DOCS}{path}" for path in library().pdfs]
    return WebUrls(
        real_pages=tuple(pages),
        rule_pages=tuple(f"http://{hosts.RULES}{path}" for path in PAGES),
        endless_pages=tuple(f"http://{hosts.RULES}{path}" for path in ENDLESS),
        bad_tls=tuple(f"https://{host}/page/tls" for host in hosts.BAD_TLS),
        unreachable=tuple(f"http://{host}/" for host in (hosts.REFUSED, hosts.SILENT, hosts.NOWHERE)),
    )


def _wiki_paths(wiki: RunningWiki) -> list[str]:
    names = [quote(title.replace(" ", "_"), safe="(),-") for title in wiki.titles]
    return [
        *(f"/wiki/{name}" for name in names),
        *(f"/index.php?title={name}&action=history" for name in names[:4]),
        "/wiki/Category:Articles",
        "/wiki/Special:AllPages",
        "/wiki/Special:ListFiles",
        "/wiki/Special:RecentChanges",
        "/wiki/Special:Version",
        "/wiki/Template:Article",
    ]


def _spread(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return pages taken at even steps, so that every manual is among them."""
    step = max(1, len(paths) // DOCS_PAGES)
    return paths[::step][:DOCS_PAGES]
