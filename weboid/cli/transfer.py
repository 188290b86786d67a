"""`weboid export`: captures of a collection as one WACZ file. `weboid import`: WARC, ARC and WACZ files into one."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from core.clock import SystemClock
from core.config.profile import link_user_agent
from core.config.settings import Settings
from core.errors import DiskFullError, InputError
from core.layout import Layout
from crawler.collection import open_collection
from crawler.jobs.list_files import ListFile, ListLineProblem
from crawler.profiles import load_profile
from net.address_policy import is_own
from playback.access.control import AccessControl
from playback.access.holds import HoldIndex
from playback.access.threat_lists import lists_folder
from warc.checksums import read_sums
from warc.foreign_archives import ImportStorage, open_archives
from warc.index.opener import open_index, open_shared
from warc.index.queries import matching_keys
from warc.local_storage import DiskReserve, ScratchKind, closed_warcs, open_warcs, scratch_folder
from warc.recovery import recover_collection
from weboid.app.collection_export import CollectionExport, ExportSelection, url_keys
from weboid.app.collection_import import CollectionImport, ImportResult, preview
from weboid.app.operator_identity import known_operator
from weboid.app.text_table import clean
from weboid.cli.support.commands import ExitCode, argument, cli_command, is_quiet, option
from weboid.cli.support.options import (
    DEDUP,
    OUTPUT,
    PROFILE,
    SIZE,
    CommandOutput,
    host_name,
    start_moment,
    with_database,
)
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_output import format_size
from weboid.cli.support.stores import STORES, CollectionStores

_CLOCK = SystemClock()


@cli_command("export")
def export_command(
    out: Path = argument("OUT.wacz", type=click.Path(dir_okay=False, path_type=Path)),
    urls: tuple[str, ...] = argument("[URL]..."),
    *,
    lists: tuple[Path, ...] = option(
        "Pages whose URLs are in FILE, one a line.",
        "--list",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    ),
    hosts: tuple[str, ...] = option("Pages of HOST and its subdomains.", "--host", metavar="HOST"),
    since: str = option("Captures from this time on: 2026-12-31, or 30d ago.", default=""),
    until: str = option("Captures before this time.", default=""),
    title: str = option("Title of the file.", default=""),
    description: str = option("Description of the file.", default=""),
    text: bool = option("Include the pages' text, for search.", "--text/--no-text", default=True),
    withheld: bool = option("Include what was taken down, has a threat, or was captured with a login."),
    force: bool = option("Replace an existing file."),
    stores: CollectionStores = STORES,
    output: CommandOutput = OUTPUT,
) -> int:
    """Export captures as a WACZ file, for other archives and replay.

    Without URL, --list and --host it is the whole collection. A URL that ends with * means all that
    begin with it. Records that a page shares with others are included. What readers may not see is
    left out.
    """
    if out.exists() and not force:
        raise InputError(f"{clean(str(out))} exists already: give --force to replace it.")
    now = _CLOCK.now()
    domains = (matching_keys(f"http://{host_name(each)}/", "domain") for each in hosts)
    keys = [*map(url_keys, (*urls, *_listed(lists))), *(each for each in domains if each is not None)]
    selection = ExportSelection(keys, _moment(since, now), _moment(until, now))
    operator = known_operator(stores.root)
    facts = {
        "title": title or operator.name or clean(out.stem),
        "description": description or None,
        "mainPageUrl": urls[0] if len(urls) == 1 and not urls[0].endswith("*") else None,
    }
    with ExitStack() as stack:
        database = stack.enter_context(stores.index())
        decisions = stack.enter_context(stores.decisions())
        layout = stores.layout
        holds = HoldIndex(decisions, lists_folder(layout.decisions_db))
        access = AccessControl(decisions, database.rows, _CLOCK.now, holds)
        size = sum(each.stat().st_size for each in (*closed_warcs(layout), *open_warcs(layout)))
        total = size if selection.is_everything else None
        advance = stack.enter_context(progress_bar("Exporting", total, quiet=is_quiet() or output.is_json))
        export = CollectionExport(layout, database, None if withheld else access, advance)
        try:
            count = export.write(
                out,
                selection,
                {name: value for name, value in facts.items() if value},
                moment=now,
                has_text=text,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{clean(str(out))} cannot be written: {reason}.") from error
    result = {
        "file": str(out), "bytes": out.stat().st_size, "pages": count.pages, "records": count.records,
        "warcs": count.warcs, "withheld_pages": count.withheld_pages,
        "withheld_records": count.withheld_records, "missing_warcs": count.missing_warcs,
    }  # fmt: skip
    lines = [f"{clean(str(out))}: {count.pages:,} pages, {count.records:,} records, {format_size(out.stat().st_size)}."]
    if count.withheld_pages or count.withheld_records:
        lines.append(
            f"Left out: {count.withheld_pages:,} pages and {count.withheld_records:,} records that readers may not see."
        )
    if count.missing_warcs:
        lines.append(f"Missing WARCs: {', '.join(map(clean, count.missing_warcs))}. Run `weboid collection verify`.")
    output.show(result, lines)
    return ExitCode.SOME_FAILED if count.missing_warcs else ExitCode.OK


def _listed(paths: tuple[Path, ...]) -> Iterator[str]:
    """Yield the URLs of the lists; InputError names the first line that is none."""
    for path in paths:
        with ListFile(str(path)) as urls:
            for each in urls:
                if isinstance(each, ListLineProblem):
                    raise InputError(str(each))
                yield each


def _moment(text: str, now: datetime) -> datetime | None:
    return start_moment(text, now=now) if text else None


@cli_command("import")
def import_command(
    sources: tuple[str, ...] = argument("FILE|FOLDER|URL...", required=True),
    *,
    dry_run: bool = option("Read the files and list what would be imported; write nothing."),
    link: bool = option("Hard-link WARCs instead of copying them: for files that nobody changes."),
    limit: int = option("Most bytes of a URL's file.", type=SIZE, default="100GB"),
    stores: CollectionStores = STORES,
    dedup_url: str = DEDUP,
    profile: str = PROFILE,
    output: CommandOutput = OUTPUT,
) -> int:
    """Import WARC, ARC and WACZ files with their pages.

    The pages are listed, searched and replayed. Reads WARC (gzip, Zstandard, uncompressed), ARC, WACZ,
    packages of WACZ files, and folders of them such as collections of pywb and browsertrix. Damaged
    records are reported. Files that are there already are known by their SHA-256: the same command
    continues an interrupted import. Ends with 1 when something could not be read. See
    docs/how-to/import.md.
    """
    settings = with_database(load_profile(profile), stores.database_url)
    if dedup_url:
        settings = replace(settings, proxy=replace(settings.proxy, dedup_url=dedup_url))
    paths = [each for each in sources if not each.startswith(("http://", "https://"))]
    for each in paths:
        if not Path(each).exists():
            raise InputError(f"There is no file {clean(each)!r}.")
    total = 2 * sum(map(_size, map(Path, paths))) if paths else None
    with progress_bar("Reading" if dry_run else "Importing", total, quiet=is_quiet() or output.is_json) as advance:
        result = asyncio.run(_import(sources, stores, settings, advance, limit, is_dry=dry_run, link=link))
    output.show({"dry_run": dry_run, **result.to_dict()}, _import_lines(result, is_dry=dry_run))
    return ExitCode.OK if result.is_whole else ExitCode.SOME_FAILED


async def _import(
    sources: Sequence[str],
    stores: CollectionStores,
    settings: Settings,
    advance: Callable[[float], None],
    limit: int,
    *,
    is_dry: bool,
    link: bool,
) -> ImportResult:
    with ExitStack() as stack:
        layout = Layout(stores.root)
        if is_dry:
            scratch = stack.enter_context(scratch_folder(ScratchKind.VERIFY))
            storage = ImportStorage(layout, DiskReserve(scratch, 0), read_sums(layout).by_name, link=False)
            result = ImportResult()
            for source in sources:
                if source.startswith(("http://", "https://")):
                    raise InputError(f"{clean(source)} cannot be looked into before it is downloaded.")
                for archive in open_archives(Path(source), scratch, advance):
                    preview(archive, storage, result, advance)
            return result
        async with open_collection(stores.root, clock=_CLOCK):
            recover_collection(layout, settings.proxy, now=_CLOCK.now(), index=settings.index)
            reserve = DiskReserve(layout.archive, settings.proxy.disk_reserve_bytes)
            reserve.require_reserve()
            storage = ImportStorage(layout, reserve, read_sums(layout).by_name, link=link)
            storage.clean()
            index = stack.enter_context(closing(open_index(layout, settings.index)))
            database = stack.enter_context(stores.index())
            shared = open_shared(layout, settings.proxy)
            if shared is not None:
                stack.callback(shared.close)
            run = CollectionImport(
                layout, settings, index, database, storage, now=_CLOCK.now, shared=shared, on_bytes=advance
            )
            with closing(run):
                for source in sources:
                    path = Path(source)
                    if is_url := source.startswith(("http://", "https://")):
                        path = await _download(source, layout, settings, limit, reserve)
                    for archive in open_archives(path, layout.archive, advance, source):
                        run.add(archive)
                    if is_url:
                        path.unlink()
            decisions = stack.enter_context(stores.decisions())
            run.count_withheld(AccessControl(decisions, database.rows, _CLOCK.now))
            return run.result


async def _download(url: str, layout: Layout, settings: Settings, limit: int, reserve: DiskReserve) -> Path:
    """Download into the collection's cache, where an interrupted download is continued; return the path."""
    from links.archives.http_fetch import HttpFetch

    folder = layout.root / "cache" / "import"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.part"

    def check(_count: int, _total: int | None) -> None:
        if reserve.is_low():
            raise DiskFullError("The disk is nearly full: free some space, then import again; it continues.")

    agent = link_user_agent(settings.links)
    async with HttpFetch(settings.egress, is_own=is_own, user_agent=agent) as fetch:
        await fetch.download(url, target, limit_bytes=limit, on_progress=check)
    return target


def _size(path: Path) -> int:
    files = (each for each in path.rglob("*") if each.is_file()) if path.is_dir() else (path,)
    return sum(each.stat().st_size for each in files)


def _import_lines(result: ImportResult, *, is_dry: bool) -> Iterator[str]:
    for each in result.files:
        size = format_size(each.bytes)
        what = f"{each.records:,} records, {each.captures:,} captures" if each.records else each.format
        yield f"{each.state:8}  {clean(each.source)}  {size}  {what}".rstrip()
        shown = each.problems[:5]
        yield from (f"          {clean(problem)}" for problem in shown)
        if len(each.problems) > len(shown):
            yield f"          … and {len(each.problems) - len(shown):,} more: reports/imports.jsonl"
    yield from map(clean, result.problems)
    if is_dry:
        yield f"{result.count('new'):,} files would be imported, {result.pages:,} pages are listed in them."
        return
    known = f", {result.known_pages:,} were there" if result.known_pages else ""
    yield f"{result.count('imported'):,} files and {result.pages:,} pages imported{known}."
    if result.pages_without_record:
        yield f"{result.pages_without_record:,} listed pages have no record in the files."
    if result.withheld_pages:
        yield f"{result.withheld_pages:,} pages are stored and not shown: they are taken down here, or need a login."
    if result.revisits_without_payload:
        yield f"{result.revisits_without_payload:,} revisits refer to payloads that are in no file of the collection."
