"""The front server of the test web: ``python -m tests.support.sites.server``, a process of its own.

It reads its configuration as one line of JSON from standard input and answers with its ports.
After that a line asks a question (``requests``, ``count``, ``clear``) and one line of JSON answers.
It ends when standard input does, so it never outlives what started it.
"""

import asyncio
import json
import signal
import ssl
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from tests.support.sites import hosts
from tests.support.sites.acid import acid
from tests.support.sites.gallery import gallery
from tests.support.sites.http1 import LOG_LIMIT, Answer, LoggedRequest, Site, SiteConnection, SiteRequest, response
from tests.support.sites.kinds import KindSite
from tests.support.sites.pages import page
from tests.support.sites.rules import RuleSites
from tests.support.sites.static import FolderSite
from tests.support.sites.upstream import LoopbackUpstream


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Folders, upstreams and certificates of the server.

    Attributes:
        good: key and chain of the good hosts, PEM.
        bad: host -> key and chain with a fault.
        folders: host -> folder served under that name.
        upstreams: host -> loopback port of the server behind that name.
        typeface: a TrueType file for the rule pages; empty when there is none.
    """

    good: str
    bad: dict[str, str]
    folders: dict[str, str]
    upstreams: dict[str, int]
    typeface: str


def sites(config: ServerConfig) -> dict[str, Site]:
    """Return the site that answers under each host name."""
    rules = RuleSites(Path(config.typeface).read_bytes() if config.typeface else b"")
    ours: dict[str, Site] = dict.fromkeys(hosts.SERVED, rules)
    ours[hosts.GALLERY] = gallery
    ours.update(dict.fromkeys((hosts.ACID, hosts.APART), acid))
    for host in (hosts.WIKI, hosts.DOCS, hosts.SPA, hosts.KINDS):
        ours[host] = _absent
    for host, folder in config.folders.items():
        ours[host] = (KindSite if host == hosts.KINDS else FolderSite)(Path(folder))
    ours.update({host: LoopbackUpstream(port) for host, port in config.upstreams.items()})
    return ours


def router(ours: dict[str, Site]) -> Site:
    """Return one site that passes requests to the site of their host; 421 for a host that is none of ours."""

    def route(request: SiteRequest) -> Answer:
        site = ours.get(request.host)
        if site is None:
            return response(421, page("Misdirected", "<p>Nobody of that name lives here.</p>"))
        return site(request)

    return route


def tls_context(config: ServerConfig) -> ssl.SSLContext:
    """Return a server context that presents each host's certificate, the bad ones too."""
    good = _context(config.good)
    bad = {host: _context(file) for host, file in config.bad.items()}

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = bad.get(name or "", good)

    good.sni_callback = choose
    return good


async def serve(config: ServerConfig) -> None:
    """Serve until standard input ends."""
    log: deque[LoggedRequest] = deque(maxlen=LOG_LIMIT)
    route = router(sites(config))
    loop = asyncio.get_running_loop()
    plain = await loop.create_server(lambda: SiteConnection("http", route, log), "127.0.0.1", 0)
    secure = await loop.create_server(
        lambda: SiteConnection("https", route, log), "127.0.0.1", 0, ssl=tls_context(config)
    )
    silent = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    servers = (plain, secure, silent)
    _say({"ports": [server.sockets[0].getsockname()[1] for server in servers]})
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the owner decides when to end
    questions = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    while question := (await questions.readline()).decode().strip():
        _say(_answer(question, log))
    for server in servers:
        server.close()


def _answer(question: str, log: deque[LoggedRequest]) -> object:
    if question == "requests":
        return [[seen.scheme, seen.head] for seen in log]
    if question == "count":
        return len(log)
    if question == "clear":
        log.clear()
        return None
    return {"error": f"unknown question {question!r}"}


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _absent(request: SiteRequest) -> Answer:
    return response(503, page("Not started", "<p>This site was not asked for.</p>"))


def _context(file: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.set_alpn_protocols(["http/1.1"])
    return context


def main() -> None:
    """Read the configuration and serve."""
    asyncio.run(serve(ServerConfig(**json.loads(sys.stdin.readline()))))


if __name__ == "__main__":
    main()
