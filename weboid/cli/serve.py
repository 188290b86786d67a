"""`weboid serve`: serve the reader pages and copies of a collection."""

import asyncio
import os
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from core.config.database_urls import RedisUse, parse_redis_url
from core.config.settings import LinksSettings, Settings, store_environment
from core.errors import ConfigError, UnavailableError
from core.layout import Layout
from crawler.collection import read_collection
from crawler.status.status_server import parse_listen_address
from links.archives.copy_store import keep_proposed_copy
from links.feedback.reporter_limits import limits_of
from playback.access.holds import UnscannedPolicy
from playback.playback_server import ServerOrigins, serve
from playback.url_paths import LOCAL, http_origin
from playback.web.asgi_app import WebOptions
from playback.web.i18n import SOURCE
from playback.web.machine_api import MachineAccess, SearchIndexing
from playback.web.page_saves import SAVES_PER_ADDRESS, SAVES_PER_DAY, SaveOptions
from playback.web.rate_limits import ClientAddresses, RateLimitPolicy, SharedBuckets, parse_networks
from playback.web.registry.registry_service import READ_LIMIT_S, LinkRegistry, RegistrySource, ReportOptions
from playback.web.site_pages import Crawler
from qa.web.check_pages import QualityContext
from qa.web.review import ReviewerRules
from warc.index.database import covered_by_file, unindexed_warcs
from warc.rebuild import upgrade_index
from weboid.app.malware_scanner import find_clamd
from weboid.app.operator_identity import collection_settings, known_operator
from weboid.app.reader_queue_status import ReaderQueueStatus
from weboid.cli.support.child_commands import ManagedProcess, queue_worker, running_children, scanner
from weboid.cli.support.commands import CLOCK, cli_command, option, option_dict
from weboid.cli.support.options import (
    ADDRESS,
    CONSOLE,
    CONSOLE_ORIGIN,
    FILE,
    FRONTIER,
    ORIGIN,
    PROFILE,
    ParsedType,
    with_frontier,
)
from weboid.cli.support.run_options import SCAN, WEBOID
from weboid.cli.support.stores import STORES, CollectionStores
from wiki.api.credentials import read_secret

_LAST_PORT = 65_535
_LEAST_TOKEN = 32  # characters
_NETWORKS = ("behind", "links_internal", "reviewers")
_NETWORK = ParsedType("network", lambda text: parse_networks([text]), is_check=True)
SERVE_OPTIONS: dict[str, Any] = {
    "replay_port": option(
        "Port of the copies, which need their own origin; 0: any free port.  [default: the pages' port + 1]",
        within=(0, _LAST_PORT),
    ),
    "origin": option("Public origin of the pages: https://a.example.", type=ORIGIN, default=""),
    "replay_origin": option("Public origin of the copies; differs from that of the pages.", type=ORIGIN, default=""),
    "behind": option("Reverse proxy whose X-Forwarded-For is trusted; repeatable.", multiple=True, type=_NETWORK),
    "links_internal": option(
        "Callers of the link registry without a rate limit, such as the wiki's server; repeatable.",
        multiple=True,
        type=_NETWORK,
    ),
    "links_token_file": option(
        "Token for other callers without a rate limit, who send `Authorization: Bearer TOKEN`.", type=FILE
    ),
    "reviewers": option(
        "Network from which copies may be reviewed at /quality; repeatable.", multiple=True, type=_NETWORK
    ),
    "reviewers_token_file": option(
        "Password for reviewers elsewhere, who log in at /quality with any user name.", type=FILE
    ),
}


def serve_words(options: dict[str, Any]) -> tuple[str, ...]:
    """Return the given options as validated words of a command line."""
    if options.get("origin") or options.get("replay_origin"):
        parse_origins(options.get("origin", ""), options.get("replay_origin", ""))
    words = []
    for name, value in options.items():
        values = value if isinstance(value, tuple) else () if value in (None, "") else (value,)
        words += [f"--{name.replace('_', '-')}={each}" for each in values]
    return tuple(words)


def parse_origins(front: str, replay: str) -> ServerOrigins:
    """Return the public origins of pages and copies. Raises ConfigError: one is missing."""
    for name, text in (("--origin", front), ("--replay-origin", replay)):
        if not text:
            both = "--origin and --replay-origin are given together, and --no-replay needs both"
            raise ConfigError(f"{name} is missing: {both}.")
    return ServerOrigins(front, replay)


def replay_port_for(port: int, named: int | None) -> int:
    """Return the copies' port: the named one, else the stable default, the pages' port + 1.

    >>> replay_port_for(8080, None), replay_port_for(0, None), replay_port_for(8080, 9000)
    (8081, 0, 9000)
    """
    if named is not None:
        return named
    return port + 1 if 0 < port < _LAST_PORT else 0


@cli_command("serve", has_json=False)
def command(
    *,
    stores: CollectionStores = STORES,
    frontier_url: str = FRONTIER,
    listen: str = option("Address to serve pages on; port 0: any free port.", default="127.0.0.1:8080", type=ADDRESS),
    host: str | None = option(hidden=True),
    port: int | None = option(hidden=True),
    serving: dict[str, Any] = option_dict(SERVE_OPTIONS),
    workers: int = option(
        "Number of replay processes.  [default: one per core, at most 4]", within=(0, 64), default=0, show_default=False
    ),
    language: str = option("Language for browsers that request none of the available ones.", default=SOURCE),
    captures_index: str = option(
        "An OutbackCDX collection of additional captures: cdx+http://host:8080/name.",
        default="",
        metavar="URL",
        envvar="WEBOID_CAPTURES_INDEX",
    ),
    unscanned: str = option(
        "Serve or withhold downloads that were not scanned.",
        choices=UnscannedPolicy,
        default=str(UnscannedPolicy.ALLOW),
    ),
    full: bool = option("Let copies run their scripts where the level is `full`."),
    full_origin: str = option(
        "Origins of copies with scripts, for readers on other machines: https://*.copies.example.", default=""
    ),
    window_days: float = option(
        "Maximum number of days between the capture of a page and of its pictures and style sheets.",
        type=click.FloatRange(min=0),
        default=30.0,
    ),
    fonts: bool = option(
        "Let copies load the fonts captured with their pages, re-encoded.", "--fonts/--no-fonts", default=True
    ),
    show_logins: bool = option("Show captures that were made with a login to every reader; hidden by default."),
    indexing: str = option(
        "What search engines may list: nothing, or the pages around the copies; copies never.",
        choices=SearchIndexing,
        default=SearchIndexing.NONE.value,
    ),
    cdx_hosts: bool = option("Allow CDX queries for whole hosts and domains."),
    links_reports: int = option(
        "Maximum number of link reports per day from all readers; 0: none.",
        within=(0, None),
        default=LinksSettings().reports_per_day,
    ),
    save: bool = option("Let readers save pages at /save; these are queued before all others."),
    saves_per_address: int = option(
        "Maximum number of pages per day saved from one IP address.", within=(1, None), default=SAVES_PER_ADDRESS
    ),
    saves_per_day: int = option(
        "Maximum number of pages per day saved by all readers together.", within=(1, None), default=SAVES_PER_DAY
    ),
    save_worker: bool = option(
        "Visit the saved pages here, unless another run writes the collection.",
        "--save-worker/--no-save-worker",
        default=True,
    ),
    profile: str = PROFILE,
    scan: bool = SCAN,
    no_replay: bool = option("Do not start replay; another server serves the copies."),
    console: str = CONSOLE,
    console_origin: str = CONSOLE_ORIGIN,
) -> None:
    """Serve the pages of a collection and its copies.

    Prints one address. The copies are served on another port, which is another origin: archived
    content never shares one with these pages. Works while the collection is being written. Ctrl-C
    ends it. A link registry, when the collection has one, is shown at /links
    (docs/reference/registry-api.md), and the results of checks at /quality (docs/how-to/quality.md).
    With --save readers may save pages (docs/how-to/save-pages.md).
    """
    host, port = _address(listen, host, port)
    origins = None
    if serving["origin"] or serving["replay_origin"] or no_replay:
        origins = parse_origins(serving["origin"], serving["replay_origin"])
    tokens = [serving[name] for name in ("links_token_file", "reviewers_token_file")]
    links_token, reviewers_token = (_read_token(path) if path else "" for path in tokens)
    networks = {name: parse_networks(serving[name]) for name in _NETWORKS}
    layout = read_collection(stores.root)
    if not stores.database_url:
        _require_index(layout)
    operator = known_operator(stores.root)
    settings = with_frontier(collection_settings(profile, stores.root) if save else Settings(), frontier_url)
    url = settings.frontier.url  # the fronts of one Redis frontier share rate limit counters
    shared = SharedBuckets(parse_redis_url(url, RedisUse.FRONTIER)) if url else None
    children = []
    if save and not settings.frontier.url and not os.access(layout.databases, os.W_OK):
        raise ConfigError(f"--save needs the right to write to {layout.databases}, where the queue is.")
    if console:
        front = origins.front if origins is not None else http_origin(host, port) if port else ""
        own = (f"--collection={stores.root}", f"--profile={profile}", f"--listen={console}", f"--front={front}")
        children.append(ManagedProcess("console", (*WEBOID, "console", f"--origin={console_origin}", *own)))
    if scan and (clamd := find_clamd(os.environ)) and os.access(stores.root, os.W_OK):
        children.append(scanner(stores.root, clamd, "--watch"))
    readers = ClientAddresses(networks["behind"])
    access = RateLimitPolicy(readers=readers, internal=networks["links_internal"], token=links_token, shared=shared)
    reviewer_rules = ReviewerRules(readers=access.readers, networks=networks["reviewers"], token=reviewers_token)
    archives = partial(keep_proposed_copy, own=[origins.front, origins.replay] if origins is not None else [])
    reports = ReportOptions(layout, limits_of(links_reports), archives) if links_reports else None
    try:
        with (
            closing(shared) if shared is not None else nullcontext(),
            closing(ReaderQueueStatus(layout, settings, clock=CLOCK)) as status,
            closing(RegistrySource(layout, stores.database_url, read_limit_s=READ_LIMIT_S)) as registry,
        ):
            if save and save_worker and not (settings.frontier.url or console):  # which has its own
                children.append(replace(queue_worker(stores.root, profile), is_held=status.is_stopped))

            async def run() -> None:
                async with running_children(children, CLOCK, store_environment(stores.database_url)):
                    await serve(
                        layout,
                        host=host,
                        port=port,
                        replay_port=replay_port_for(port, serving["replay_port"]),
                        on_ready=click.echo,
                        index_url=stores.database_url,
                        origins=origins,
                        with_replay=not no_replay,
                        captures_index=captures_index,
                        unscanned=UnscannedPolicy(unscanned),
                        workers=workers,
                        full=full_origin or (LOCAL if full else ""),
                        window_days=window_days,
                        fonts=fonts,
                        options=WebOptions(
                            status=status,
                            language=language,
                            openness=MachineAccess(SearchIndexing(indexing), cdx_hosts=cdx_hosts),
                            links=LinkRegistry(registry, access, reports, layout),
                            mounts=[QualityContext(layout, reviewer_rules)],
                            access=access,
                            crawler=Crawler(operator.contact, operator.addresses, operator.name),
                            show_logins=show_logins,
                            saves=SaveOptions(status, saves_per_address, saves_per_day) if save else None,
                        ),
                    )

            asyncio.run(run())
    except KeyboardInterrupt:
        return


def _address(listen: str, host: str | None, port: int | None) -> tuple[str, int]:
    """Return the address to listen on; the former --host and --port change parts of --listen."""
    source = click.get_current_context().get_parameter_source
    command_line = click.core.ParameterSource.COMMANDLINE
    if source("listen") is command_line and command_line not in (source("host"), source("port")):
        host = port = None  # those of weboid.toml
    listen_host, listen_port = parse_listen_address(listen)
    return host or listen_host, listen_port if port is None else port


def _require_index(layout: Layout) -> None:
    """Upgrade the captures index; raise UnavailableError if lost; warn if it lacks WARCs."""
    upgrade_index(layout, lambda text: click.echo(text, err=True))
    missing = unindexed_warcs(layout)
    if not missing:
        return
    text = f"{len(missing)} WARCs are not in the captures index; run `weboid collection rebuild`."
    if not covered_by_file(layout.captures_db):
        raise UnavailableError(f"{layout.captures_db} is missing, empty or unreadable: {text}")
    click.echo(f"Incomplete: {text}", err=True)


def _read_token(path: Path) -> str:
    """Read a token; ConfigError: unreadable, readable by other users, or too short."""
    token = read_secret(path)
    if len(token) < _LEAST_TOKEN or not token.isascii():
        raise ConfigError(
            f"The token in {path} needs at least {_LEAST_TOKEN} ASCII characters; `openssl rand -hex 32` prints a good one."
        )
    return token
