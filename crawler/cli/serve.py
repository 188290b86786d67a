"""`weboid serve`: a collection to readers."""

import asyncio
from contextlib import closing, nullcontext
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import UnavailableError
from core.layout import Layout
from core.redis_url import RedisUse, parse_redis_url
from core.settings import LinksSettings, Settings
from crawler.cli.exits import Exit
from crawler.cli.options import (
    collection_option,
    database_option,
    frontier_option,
    with_frontier,
)
from crawler.cli.scanner_process import scan_option, scanning_beside
from crawler.cli.serve_options import check_origins, replay_port_for, serve_options
from crawler.cli.standings import FrontierStatus
from crawler.collection import read_collection
from crawler.operator import known_operator
from links.archives.copies import ArchiveCopies
from links.limits import limits_of
from playback.front.about import Crawler
from playback.front.languages import SOURCE
from playback.front.machines import Indexing, Openness
from playback.front.quality.rights import Reviewers
from playback.front.readers import Readers, parse_networks
from playback.front.registry.access import Access, read_token
from playback.front.registry.desk import LinkRegistry
from playback.front.registry.shared_throttle import SharedBuckets
from playback.front.registry.source import OpenedWhenAsked
from playback.front.registry.voice import Voice
from playback.full_origins import LOCAL
from playback.holds import Unscanned
from playback.server import Origins, serve
from proxy.index.opening import unindexed
from proxy.index.sqlite import covered_by_file
from proxy.index.upgrade import upgrade_index


@click.command("serve")
@collection_option
@database_option
@frontier_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, help="The pages' port; 0: a free one.")
@serve_options
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    default=0,
    help="Processes that play copies back.  [default: one a core, 4 at most]",
)
@click.option(
    "--language",
    default=SOURCE,
    show_default=True,
    help="The pages' language for browsers that ask for none that there is.",
)
@click.option(
    "--captures-index",
    default="",
    metavar="URL",
    envvar="WEBOID_CAPTURES_INDEX",
    help="An OutbackCDX collection with more captures: cdx+http://host:8080/name.",
)
@click.option(
    "--unscanned",
    type=click.Choice([str(each) for each in Unscanned]),
    default=str(Unscanned.ALLOW),
    show_default=True,
    help="Files to download that no scanner has looked into: handed out, or held back.",
)
@click.option(
    "--full", is_flag=True, help="Copies may run their scripts where a level rule says `full`."
)
@click.option(
    "--full-origin",
    default="",
    help="The same, for readers elsewhere: the origins of such copies, https://*.copies.example.",
)
@click.option(
    "--window-days",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How far from its page a picture or style sheet may be captured.",
)
@click.option(
    "--fonts", is_flag=True, help="Copies load the fonts that were captured with their pages."
)
@click.option(
    "--show-logins",
    is_flag=True,
    help="Show captures that were made with a login to every reader; without it nobody sees them.",
)
@click.option(
    "--indexing",
    type=click.Choice([each.value for each in Indexing]),
    default=Indexing.NONE.value,
    show_default=True,
    help="What search engines may list: nothing, or the pages around the copies; copies never.",
)
@click.option("--cdx-hosts", is_flag=True, help="Let CDX queries ask for whole hosts and domains.")
@click.option(
    "--links-reports",
    type=click.IntRange(min=0),
    default=LinksSettings().reports_per_day,
    show_default=True,
    help="Reports about links that all readers together may send on a day; 0: they send none.",
)
@scan_option
@click.option("--no-replay", is_flag=True, help="Start no replay: another one serves the copies.")
def command(
    *,
    collection: Path,
    database_url: str,
    frontier_url: str,
    language: str,
    host: str,
    port: int,
    replay_port: int | None,
    origin: str,
    replay_origin: str,
    workers: int,
    full: bool,
    full_origin: str,
    no_replay: bool,
    scan: bool,
    captures_index: str,
    unscanned: str,
    window_days: float,
    fonts: bool,
    show_logins: bool,
    indexing: str,
    cdx_hosts: bool,
    behind: tuple[str, ...],
    links_internal: tuple[str, ...],
    links_reports: int,
    links_token_file: Path | None,
    reviewers: tuple[str, ...],
    reviewers_token_file: Path | None,
) -> int:
    """Show a collection's pages, and play their copies back.

    Prints one address. The copies come from another port, which is another origin: nothing that was
    archived shares one with these pages. Works while the collection is being written. Ctrl-C ends it.
    A link registry, when the collection has one, is shown at /links (docs/registry-api.md), and what
    checks of copies found at /quality (docs/quality.md).
    """
    layout = read_collection(collection)
    if not database_url:
        _require_index(layout)
    operator = known_operator(collection)
    settings = with_frontier(Settings(), frontier_url)
    shared = _shared_buckets(settings)
    access = Access(
        readers=Readers(parse_networks(behind)),
        internal=parse_networks(links_internal),
        token=read_token(links_token_file) if links_token_file else "",
        shared=shared,
    )
    judging = Reviewers(
        readers=access.readers,
        networks=parse_networks(reviewers),
        token=read_token(reviewers_token_file) if reviewers_token_file else "",
    )
    archives = ArchiveCopies([each for each in (origin, replay_origin) if each])
    voice = Voice(layout, limits_of(links_reports), archives) if links_reports else None
    try:
        with (
            closing(shared) if shared is not None else nullcontext(),
            closing(FrontierStatus(layout, settings, clock=SystemClock())) as status,
            closing(OpenedWhenAsked(layout, database_url)) as registry,
            scanning_beside(collection, database_url) if scan else nullcontext(),
        ):
            asyncio.run(
                serve(
                    layout,
                    status=status,
                    language=language,
                    host=host,
                    port=port,
                    replay_port=replay_port_for(port, replay_port),
                    on_ready=click.echo,
                    index_url=database_url,
                    origins=_origins(origin, replay_origin, needed=no_replay),
                    with_replay=not no_replay,
                    captures_index=captures_index,
                    unscanned=Unscanned(unscanned),
                    workers=workers,
                    full=full_origin or (LOCAL if full else ""),
                    openness=Openness(Indexing(indexing), cdx_hosts=cdx_hosts),
                    window_days=window_days,
                    fonts=fonts,
                    show_logins=show_logins,
                    links=LinkRegistry(registry, access, voice, layout),
                    reviewers=judging,
                    crawler=Crawler(operator.contact, operator.addresses),
                )
            )
    except KeyboardInterrupt:
        return Exit.OK
    return Exit.OK


def _shared_buckets(settings: Settings) -> SharedBuckets | None:
    """Return the counts that fronts of one frontier in Redis share; None without such a frontier."""
    if not settings.frontier.url:
        return None
    return SharedBuckets(parse_redis_url(settings.frontier.url, RedisUse.FRONTIER))


def _require_index(layout: Layout) -> None:
    """Upgrade the captures index; raise UnavailableError when it was lost; warn when it lacks WARCs."""
    upgrade_index(layout, lambda text: click.echo(text, err=True))
    missing = unindexed(layout)
    if not missing:
        return
    text = f"{len(missing)} WARCs are not in the captures index; run `weboid index rebuild`."
    if not covered_by_file(layout.captures_db):
        raise UnavailableError(f"{layout.captures_db} is missing, empty or unreadable: {text}")
    click.echo(f"Incomplete: {text}", err=True)


def _origins(front: str, replay: str, *, needed: bool) -> Origins | None:
    """What readers see.

    Raises:
        ConfigError: one without the other, or something that is no origin.
    """
    if not front and not replay and not needed:
        return None
    check_origins(front, replay)
    return Origins(front, replay)
