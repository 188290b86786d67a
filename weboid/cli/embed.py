"""`weboid embed`: links to cached copies in any HTML, as a filter or a reverse proxy."""

import asyncio
import ipaddress
import json
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from core.errors import ConfigError, InputError
from core.hosts import join_host_port, split_host_port
from links.registry.wikis import parse_wiki
from net.http_server import open_listener
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option, option_dict
from weboid.cli.support.options import FILE, FOLDER, counted, output
from weboid.cli.support.progress import count_progress
from wiki.embed import link_lookup, reverse_proxy, static_site
from wiki.embed.html_tags import parse_selector
from wiki.embed.page_marker import MarkRules
from wiki.embed.proxy_message import PrivatePages

_RULE_OPTIONS: dict[str, Any] = {
    "only": option(
        "Mark only links that are, or are inside: nav, .class, #id, div.class; may be given several times.",
        multiple=True,
        metavar="SELECTOR",
    ),
    "skip": option(
        "Skip links that are, or are inside; `.weboid-ignore` always; may be given several times.",
        multiple=True,
        metavar="SELECTOR",
    ),
    "own": option(
        "A host whose pages are not citations: *.wiki.example; may be given several times.",
        multiple=True,
        metavar="HOST",
    ),
}
_MARKING_OPTIONS: dict[str, Any] = {
    "front": option("The archive's pages, as `weboid serve` shows them to readers.", required=True, metavar="URL"),
    "ask": option("Address of the front as seen from here, if it differs.", default="", metavar="URL"),
    "copies": option("Another origin of copies; may be given several times.", multiple=True, metavar="ORIGIN"),
    "wiki": option("The wiki of these pages: handbook@me.", required=True, metavar="NAME"),
    "show": option(
        "Offer the copy next to every link, to dead ones, or never (classes and attributes only).",
        choices=link_lookup.CopyDisplay,
        default=str(link_lookup.CopyDisplay.ALWAYS),
    ),
    "timeout_s": option(
        "Seconds to wait for the front.  [default: 1 for a proxy, 30 for files]",
        "--timeout",
        type=click.FloatRange(0.05, 60),
        default=None,
    ),
    "token_file": option(
        "Token of an internal caller: gets the state of links, without rate limit (`weboid serve --links-token-file`).",
        type=FILE,
    ),
    "lang": option("The language of the texts on links.", default="", metavar="CODE"),
    **_RULE_OPTIONS,
}


def marking_from_options(options: dict[str, Any], *, base: str = "", replace: bool = True) -> static_site.MarkOptions:
    """Return the mark options of the command line."""
    wiki, show = str(parse_wiki(options["wiki"])), link_lookup.CopyDisplay(options["show"])
    rules, language = rules_from_options(options), options["lang"].partition("-")[0].lower()
    origins = link_lookup.all_origins((options["front"], *options["copies"]))
    marking = static_site.MarkOptions(wiki, show, rules, base, options["own"], origins, replace, language)
    _ = marking.around().hosts  # report an invalid pattern now
    return marking


def rules_from_options(options: dict[str, Any]) -> MarkRules:
    """Return the link selection of the command line."""
    only, skip = (tuple(map(parse_selector, options[key])) for key in ("only", "skip"))
    return MarkRules(only, skip)


def lookup_from_options(options: dict[str, Any], *, is_patient: bool) -> link_lookup.HttpLinkLookup:
    """Create the link lookup client; `is_patient`: wait for a front that requests a later retry."""
    token, path, front = "", options["token_file"], options["front"]
    if path is not None:
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}.") from error
        if not token or not token.isprintable():
            raise ConfigError(f"{path} contains no token: one line of ASCII is expected.")
    if not front.startswith(("http://", "https://")):
        raise ConfigError("--front is the address of the archive's pages: https://archive.example.")
    return link_lookup.HttpLinkLookup(
        options["ask"] or front,
        clock=CLOCK,
        origins=(front, *options["copies"]),
        timeout_s=options["timeout_s"] or link_lookup.TIMEOUT_S,
        manner=link_lookup.LookupOptions(options["lang"], token, is_patient=is_patient),
    )


_TIMEOUT_S = 30.0  # batch mode: no reader is waiting
_SHOWN = 20  # files listed individually


@cli_command("filter")
def filter_command(
    *,
    files: tuple[str, ...] = argument("[FILE|FOLDER|-]..."),
    options: dict[str, Any] = option_dict(_MARKING_OPTIONS),
    base: str = option("Address of the page, or of the site's root.", default="", metavar="URL"),
    in_place: bool = option("Write into the files themselves."),
    out: Path | None = option(
        "Write a marked copy of FOLDER there, with all its other files.", type=FOLDER, metavar="DIR"
    ),
    check: bool = option("Write nothing; exit with 1 if a file would change."),
    remove: bool = option("Remove what earlier runs inserted; no request is made."),
    keep: bool = option("Do not update links that were marked before."),
) -> int:
    """Mark the links of HTML files, folders, or of standard input.

    \b
    weboid embed filter < page.html > marked.html --front URL --wiki NAME
    weboid embed filter public --out marked --base URL --front URL --wiki NAME
    weboid embed filter public --in-place …

    Text is only inserted, and insertions of an earlier run are updated. Ends with 3 when the front
    did not answer: pages are then unchanged.
    """  # noqa: D301 a sign for click
    marking = marking_from_options(options, base=base, replace=not keep)
    options["timeout_s"] = options["timeout_s"] or _TIMEOUT_S
    if remove and keep:
        raise InputError("Use --remove or --keep.")
    client = lookup_from_options(options, is_patient=True)
    lookup: link_lookup.LinkLookup = link_lookup.LinkLookup() if remove else client
    if files in {(), ("-",)}:
        if in_place or out is not None or check:
            raise InputError("Standard input cannot be rewritten: name files, or omit that option.")
        return asyncio.run(_closing(client, _mark_input(marking, lookup)))
    roots = [Path(each) for each in files]
    if in_place + (out is not None) + check != 1:
        raise InputError("Use one of --in-place, --out DIR, or --check.")
    if Path("-") in roots:
        raise InputError("Standard input cannot be mixed with files.")
    if out is not None:
        if len(roots) != 1:
            raise InputError("--out takes one folder, or one file.")
        inner, outer = out.resolve(), roots[0].resolve()
        if inner.is_relative_to(outer) or outer.is_relative_to(inner):
            raise InputError("--out must not be inside that folder, nor contain it.")
    return asyncio.run(_closing(client, _mark_files(roots, marking, lookup, out=out, check=check)))


async def _closing(client: link_lookup.HttpLinkLookup, work: Coroutine[Any, Any, int]) -> int:
    async with client:
        return await work


async def _mark_input(marking: static_site.MarkOptions, lookup: link_lookup.LinkLookup) -> int:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    data, is_answered = source.read(static_site.FILE_LIMIT_BYTES + 1), True
    if len(data) <= static_site.FILE_LIMIT_BYTES:
        # The page's own address is from --base.
        data, is_answered = await static_site.mark_page(data, marking, lookup)
    sink.write(data)
    while data := source.read(1 << 20):
        sink.write(data)
    sink.flush()
    if not is_answered:
        click.echo(f"weboid: {_unanswered(lookup)} The page is unchanged.", err=True)
        return ExitCode.UNAVAILABLE
    return ExitCode.OK


async def _mark_files(
    roots: Sequence[Path],
    marking: static_site.MarkOptions,
    lookup: link_lookup.LinkLookup,
    *,
    out: Path | None,
    check: bool,
) -> int:
    total = static_site.SiteMarkResult()
    with count_progress() as progress:
        for root in roots:
            site = static_site.StaticSite(root, marking, root if len(roots) > 1 else None)
            names = site.names()
            task = progress.add_task(clean(root.name), total=len(names))
            before = total.pages + total.copied
            async for _ in site.mark(names, lookup, target=out, write=not check, done=total):
                progress.update(task, completed=total.pages + total.copied - before)
            progress.remove_task(task)
    facts = asdict(total) | {"front": lookup.failure or None, "check": check}
    if not output.json(facts):
        for name in total.changed[:_SHOWN] if check else ():
            click.echo(f"would change  {clean(name)}")
        for name, why in list(total.passed_over.items())[:_SHOWN]:
            click.echo(f"{clean(name)} is skipped: {clean(why)}.", err=True)
        verb = "would change" if check else "written"
        copied = f", {total.copied:,} other files copied" if total.copied else ""
        pages = f"{counted(total.pages, 'page')} with {counted(total.links, 'link')}"
        click.echo(f"{pages}: {len(total.changed):,} {verb}{copied}.")
        if total.unanswered:
            text = f"{total.unanswered:,} pages are unchanged: run this again."
            click.echo(f"weboid: {_unanswered(lookup)} {text}", err=True)
    if total.unanswered:
        return ExitCode.UNAVAILABLE
    return ExitCode.SOME_FAILED if total.passed_over or (check and total.changed) else ExitCode.OK


def _unanswered(lookup: link_lookup.LinkLookup) -> str:
    why = lookup.failure or "it left links out"
    return f"The front did not answer: {clean(why).rstrip('.')}."


@cli_command("urls", has_json=False)
def urls_command(
    *,
    folder: Path = argument(type=click.Path(path_type=Path)),
    base: str = option("Address of the site's root.", default="", metavar="URL"),
    wiki_name: str = option("The wiki of these pages, named in each line.", "--wiki", default="", metavar="NAME"),
    options: dict[str, Any] = option_dict(_RULE_OPTIONS),
    plain: bool = option("Print only the addresses, each once, one per line."),
) -> int:
    """List the external links of the HTML files in FOLDER, a JSON line for each page.

    \b
    weboid embed urls public --base URL | weboid links import - --wiki NAME
    weboid embed urls public --plain | weboid archive --list -

    A page's number is made from its path, so that it is the same in every run.
    """  # noqa: D301 a sign for click
    marking = static_site.MarkOptions("", rules=rules_from_options(options), base=base, own=options["own"])
    wiki = {"wiki": str(parse_wiki(wiki_name))} if wiki_name else {}
    site = static_site.StaticSite(folder, marking)
    numbers: dict[int, str] = {}
    printed: set[str] = set()
    lost = 0
    for name, urls in site.pages():
        if plain:
            for url in urls:
                if url not in printed:
                    printed.add(url)
                    click.echo(url)
            continue
        number = static_site.page_number(name)
        if numbers.setdefault(number, name) != name:
            lost += 1
            click.echo(f"{clean(name)} is skipped: another page has the same number.", err=True)
        elif urls:
            line = wiki | {"page_id": number, "title": static_site.site_title(name), "namespace": 0, "urls": list(urls)}
            click.echo(json.dumps(line))
    for name, why in site.passed_over.items():
        click.echo(f"{clean(name)} is skipped: {clean(why)}.", err=True)
    return ExitCode.SOME_FAILED if site.passed_over or lost else ExitCode.OK


@cli_command("proxy", has_json=False)
def proxy_command(
    *,
    upstream: str = option(
        "Address of the wiki as seen from here: http://127.0.0.1:8080.", required=True, metavar="URL"
    ),
    listen: str = option("Address to listen on; port 0: any free port.", default="127.0.0.1:8081", metavar="HOST:PORT"),
    options: dict[str, Any] = option_dict(_MARKING_OPTIONS),
    host: str = option(
        "Host header sent to the wiki: the reader's, or the wiki's own.", choices=("keep", "upstream"), default="keep"
    ),
    private: str = option(
        "Pages made for one reader (Authorization, Set-Cookie): leave them unmarked, or look up their links.",
        choices=PrivatePages,
        default=str(PrivatePages.SKIP),
    ),
    behind: tuple[str, ...] = option(
        "A reverse proxy whose X-Forwarded-* is trusted; may be given several times.", metavar="NETWORK"
    ),
    skip_paths: tuple[str, ...] = option(
        "Path prefixes that are never marked, in addition to MediaWiki's APIs.", "--skip-path", metavar="START"
    ),
    limit_mb: float = option(
        "Larger pages are passed on unmarked.",
        type=click.FloatRange(0.01, 256),
        default=reverse_proxy.PAGE_LIMIT_BYTES / (1 << 20),
    ),
    patience_s: float = option(
        "Pages that take more seconds to arrive are passed on unmarked.",
        "--patience",
        type=click.FloatRange(0.1, 600),
        default=reverse_proxy.BODY_WAIT_S,
    ),
) -> None:
    """Run a reverse proxy that marks the links of any wiki's pages.

    Everything else passes unchanged, both ways. Pages do so too while the archive's front is down.
    Prints the address it listens on. Ctrl-C ends it.
    """
    marking = marking_from_options(options)
    reverse_proxy.parse_upstream(upstream)  # before anything listens
    try:
        networks = tuple(ipaddress.ip_network(text) for text in behind)
    except ValueError as error:
        raise ConfigError(f"--behind is a network such as 10.0.0.0/8: {error}.") from error
    skipped, limit = (*reverse_proxy.NEVER_MARKED, *skip_paths), int(limit_mb * (1 << 20))
    settings = reverse_proxy.EmbedProxySettings(
        upstream.rstrip("/"), host == "keep", PrivatePages(private), networks, skipped, limit, patience_s
    )
    address, port = split_host_port(listen)
    lookup = lookup_from_options(options, is_patient=False)
    listener = open_listener(address, port)
    url = f"http://{join_host_port(address, listener.getsockname()[1])}/"
    serving = reverse_proxy.serve_proxy(
        settings, marking, lookup, clock=CLOCK, listener=listener, on_ready=lambda: click.echo(url)
    )
    asyncio.run(serving)
