"""`weboid export`: captures of a collection as one file. `weboid import`: WARC, ARC and WACZ files into one."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from classify.page_excerpt import visible_text
from core.captures import IMPORT_PREFIX
from core.config.profile import link_user_agent
from core.config.settings import IndexSettings, Settings
from core.errors import DiskFullError, InputError, UnavailableError
from core.hosts import host_name
from core.json_values import json_facts
from core.layout import Layout
from core.urls import mask_passwords
from crawler.collection import open_collection
from crawler.frontier.base import ItemState
from crawler.frontier.frontier_export import ItemSelection, select_items
from crawler.jobs.list_files import ListFile, ListLineProblem
from crawler.profiles import load_profile
from net.address_policy import is_own
from playback.access.control import AccessControl
from playback.access.threat_lists import lists_folder
from warc.checksums import read_sums, sha256_of
from warc.foreign_archives import ImportStorage, open_archives
from warc.index.database import open_database
from warc.index.queries import matching_keys
from warc.index.sqlite import open_index, open_shared
from warc.local_storage import DiskReserve, ScratchKind, closed_warcs, open_warcs, replace_file, scratch_folder
from warc.object_storage import open_storage
from warc.recovery import recover_collection
from warc.text_index.indexer import complete_texts, open_texts
from weboid.app.collection_export import CollectionExport, ExportForm, ExportRequest, ExportSelection, url_keys
from weboid.app.collection_import import CollectionImport, ImportResult
from weboid.app.operator_identity import collection_settings, known_operator
from weboid.app.text_table import clean
from weboid.cli.support import options
from weboid.cli.support.command_target import CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import output
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_output import format_size
from weboid.cli.support.stores import STORES, CollectionStores

if TYPE_CHECKING:  # cryptography is loaded for signing only
    from warc.wacz_signature import WaczSigner

_PAGE_ENDINGS = (".html", ".pdf", ".png", ".txt")
_STAMP_BYTES = 1 << 20
_STAMP_S = 30.0


@cli_command("export")
def export_command(
    out: Path = argument("OUT", type=options.FILE),
    urls: tuple[str, ...] = argument("[URL]..."),
    *,
    lists: tuple[Path, ...] = option("Pages whose URLs are in FILE, one a line.", "--list", type=options.EXISTING_FILE),
    hosts: tuple[str, ...] = option("Pages of HOST and its subdomains.", "--host", metavar="HOST"),
    jobs: tuple[str, ...] = option(
        "Pages that the crawl NAME archived, in their last capture.", "--job", metavar="NAME"
    ),
    page_ids: tuple[str, ...] = option("The capture with this page id.", "--page", metavar="ID"),
    since: str = option("Captures from this time on: 2026-12-31, or 30d ago.", default=""),
    until: str = option("Captures before this time.", default=""),
    title: str = option("Title of the file.", default=""),
    description: str = option("Description of the file.", default=""),
    size_limit: int = option("Maximum size of a file; further files are numbered.", type=options.SIZE, default=0),
    text: bool = option("Include the pages' text, for search.", "--text/--no-text", default=True),
    sign: bool = option("Sign the file (wacz-auth), with --sign-key or sign_key in [export] of weboid.toml."),
    sign_key: Path | None = option("EC private key, PEM.", type=options.FILE),
    sign_cert: Path | None = option("TLS certificate chain, PEM, of the key's domain.", type=options.FILE),
    timestamp_url: str = option("Time-stamp authority (RFC 3161) that dates the signature.", default="", metavar="URL"),
    upload: bool = option("Also upload the files to [storage] url, below exports/."),
    withheld: bool = option("Include captures that were taken down, contain a threat, or were made with a login."),
    force: bool = option("Replace an existing file."),
    frontier_url: str = options.FRONTIER,
    stores: CollectionStores = STORES,
    profile: str = options.PROFILE,
) -> int:
    """Export captures as a WACZ file, for other archives and replay.

    The name's ending decides on the form: OUT.wacz, OUT.warc.gz (one WARC of all), OUT.cdxj (the index alone); of the
    newest capture of one page OUT.html (one file, without scripts), OUT.pdf, OUT.png (a picture of the page), OUT.txt.

    An interrupted export continues when the same command is given again.

    Without URL, --list, --host, --job and --page it is the whole collection. A URL that ends with * means all that
    begin with it. Records that a page shares with others are included. What readers may not see is left out.
    """
    if out.exists() and not force:
        raise InputError(f"{clean(str(out))} already exists: give --force to replace it.")
    endings = {".wacz": ExportForm.WACZ, ".warc.gz": ExportForm.WARC, ".cdxj": ExportForm.CDXJ}
    form = next((each for ending, each in endings.items() if out.name.endswith(ending)), None)
    if form is None and out.suffix not in _PAGE_ENDINGS:
        raise InputError(f"The name of the file must end with {', '.join((*endings, *_PAGE_ENDINGS))}.")
    if upload and (form is None or not load_profile(profile).storage.url):
        raise InputError(
            "An export with --upload is a WACZ, WARC or CDXJ file, and needs [storage] url in weboid.toml."
        )
    if form is None and not (urls or lists or hosts or jobs or page_ids):
        raise InputError(f"A file {out.suffix} holds one page: name its URL.")
    now = CLOCK.now()
    signer = _signer(stores.root, form, sign_key, sign_cert, timestamp_url, is_wanted=sign)
    domains = (matching_keys(f"http://{host_name(each)}/", "domain") for each in hosts)
    keys = [*map(url_keys, (*urls, *_listed(lists))), *(each for each in domains if each is not None)]
    id_batches = partial(_page_ids, stores, frontier_url, jobs, page_ids) if jobs or page_ids else None
    selection = ExportSelection(
        keys, id_batches, *(options.start_moment(each, now=now) if each else None for each in (since, until))
    )
    operator = known_operator(stores.root)
    facts = {
        "title": title or operator.name or clean(out.stem),
        "description": description or None,
        "mainPageUrl": urls[0] if len(urls) == 1 and not urls[0].endswith("*") else None,
    }
    with ExitStack() as stack:
        database, decisions, access = stack.enter_context(stores.readable())
        layout = stores.layout
        total = 0
        for each in (*closed_warcs(layout), *open_warcs(layout)) if selection.is_everything else ():
            with suppress(FileNotFoundError):  # a crawl has closed it meanwhile
                total += each.stat().st_size
        advance = stack.enter_context(progress_bar("Exporting", total or None))
        export = CollectionExport(layout, database, None if withheld else access, advance)
        if form is None:
            return _export_page(export, selection, stores, out)
        list_times = sorted(each.stat().st_mtime_ns for each in lists_folder(layout.decisions_db).glob("*"))
        request = ExportRequest(
            out,
            selection,
            {name: value for name, value in facts.items() if value},
            now,
            form=form,
            has_text=text,
            replaces=force,
            size_limit=size_limit,
            sign=None if signer is None else signer.sign,
            state=(since, until, jobs, page_ids, withheld, decisions.version(), list_times),
        )
        with options.named_file(out, "written"):
            count = export.write(request)
    size = sum(each.stat().st_size for each in count.files)
    result = {"file": str(count.files[0]), "files": list(map(str, count.files)), "bytes": size}
    result |= json_facts(
        count, "pages records warcs withheld_pages withheld_records missing_warcs", resumed="is_resumed"
    )
    if upload:
        storage = load_profile(profile).storage
        with progress_bar("Uploading", size) as advance:
            for each in count.files:
                name = f"exports/{each.name}"
                open_storage(storage).upload(each, name, sha256_of(each), replaces=force, on_bytes=advance)
        result["uploaded"] = [f"{storage.url}/exports/{each.name}" for each in count.files]
    names = f"{len(count.files)} files next to {out}" if len(count.files) > 1 else str(out)
    held = f"{options.counted(count.pages, 'page')}, {options.counted(count.records, 'record')}"
    lines = [f"{clean(names)}: {held}, {format_size(size)}."]
    if count.withheld_pages or count.withheld_records:
        left = f"{count.withheld_pages:,} pages and {count.withheld_records:,} records"
        lines.append(f"Left out: {left} that readers may not see.")
    if count.missing_warcs:
        lines.append(f"Missing WARCs: {', '.join(map(clean, count.missing_warcs))}. Run `weboid verify`.")
    output.show(result, lines)
    return ExitCode.SOME_FAILED if count.missing_warcs else ExitCode.OK


def _export_page(export: CollectionExport, selection: ExportSelection, stores: CollectionStores, out: Path) -> int:
    """Write the newest page of the selection in the form of the file's ending."""
    from weboid.app.standalone_page import ArchivedPage

    page_id, url = export.newest_page(selection)
    layout, url_of_index, browser = stores.layout, stores.database_url, Settings().browser
    page = ArchivedPage(layout, url_of_index, page_id, browser, export.is_open, export.has_everything)
    data = asyncio.run(page.file(out.suffix, CLOCK))
    with options.named_file(out, "written"):
        replace_file(out, data)
    facts = {"file": str(out), "bytes": len(data), "url": url, "page_id": page_id}
    output.show(facts, f"{clean(str(out))}: {clean(url)}, {format_size(len(data))}.")
    return ExitCode.OK


def _signer(
    root: Path, form: ExportForm | None, key: Path | None, cert: Path | None, timestamp_url: str, *, is_wanted: bool
) -> "WaczSigner | None":
    """Return the signer of a WACZ file, tried once so that an export does not fail at its end; else None.

    Paths in weboid.toml are relative to the collection, `root`. InputError: options conflict.
    """
    source = click.get_current_context().get_parameter_source
    if form is not ExportForm.WACZ or not is_wanted:
        names = ("sign", "sign_key", "sign_cert", "timestamp_url")
        if any(source(name) is ParameterSource.COMMANDLINE for name in names):
            raise InputError("--sign-key, --sign-cert and --timestamp-url need --sign, and only WACZ files are signed.")
        return None
    from warc.wacz_signature import WaczSigner, read_signing_chain, read_signing_key

    if key is None:
        raise InputError("There is no key to sign with: give --sign-key FILE, or sign_key in [export] of weboid.toml.")
    if cert is not None and not timestamp_url:
        raise InputError("A signature for a domain needs a time stamp: give --timestamp-url URL.")
    key = root / key if source("sign_key") is ParameterSource.DEFAULT_MAP else key
    if cert is not None and source("sign_cert") is ParameterSource.DEFAULT_MAP:
        cert = root / cert
    private = read_signing_key(key)
    signer = WaczSigner(
        private,
        f"weboid {version('weboid')}",
        CLOCK.now,
        () if cert is None else read_signing_chain(cert, private, CLOCK.now()),
        partial(_send_query, timestamp_url) if timestamp_url else None,
    )
    signer.sign(f"sha256:{'0' * 64}")
    return signer


def _send_query(url: str, query: bytes) -> bytes:
    """Return the response to a time-stamp query (RFC 3161, 3.4); raises UnavailableError."""
    import httpx

    headers = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
    try:
        with httpx.stream("POST", url, content=query, headers=headers, timeout=_STAMP_S) as response:
            response.raise_for_status()
            pieces = bytearray()
            for piece in response.iter_bytes():
                pieces += piece
                if len(pieces) > _STAMP_BYTES:
                    break
            return bytes(pieces)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnavailableError(f"The time-stamp authority {clean(url)} returned no time stamp: {error}") from error


def _listed(paths: tuple[Path, ...]) -> Iterator[str]:
    """Yield the URLs of the lists; InputError names the first line that is none."""
    for path in paths:
        with ListFile(str(path)) as urls:
            for each in urls:
                if isinstance(each, ListLineProblem):
                    raise InputError(str(each))
                yield each


def _page_ids(
    stores: CollectionStores, frontier_url: str, jobs: Sequence[str], page_ids: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield the given ids, then those of the crawls' pages in batches; InputError: a crawl has archived none."""
    yield page_ids
    if not jobs:
        return
    settings = options.with_frontier(collection_settings("default", stores.root), frontier_url)
    with CommandTarget(stores.layout, settings).frontier() as frontier:
        for job in jobs:
            if not frontier.job_counts(job).done:
                raise InputError(f"No crawl {clean(job)!r} has archived a page here; `weboid status` lists them.")
            for batch in select_items(frontier, ItemState.DONE, ItemSelection(job=job)):
                yield [each.item.id for each in batch]


@cli_command("import")
def import_command(
    sources: tuple[str, ...] = argument("FILE|FOLDER|URL...", required=True),
    *,
    dry_run: bool = option("Read the files and list what would be imported; write nothing."),
    link: bool = option("Hard-link WARCs instead of copying them; only for files that never change."),
    limit: int = option("Maximum size of a downloaded file, in bytes.", type=options.SIZE, default="100GB"),
    stores: CollectionStores = STORES,
    dedup_url: str = options.DEDUP,
    profile: str = options.PROFILE,
) -> int:
    """Import WARC, ARC and WACZ files with their pages.

    The pages are listed, searched and replayed. Reads WARC (gzip, Zstandard, uncompressed), ARC, WACZ, packages of WACZ
    files, and folders of them such as collections of pywb and browsertrix. Damaged records are reported. Files that are
    there already are known by their SHA-256: the same command continues an interrupted import. Ends with 1 when
    something could not be read. See docs/how-to/import.md.
    """
    shared = options.SharedStores(database_url=stores.database_url, dedup_url=dedup_url)
    settings = shared.set_in(load_profile(profile))
    paths = [each for each in sources if not each.startswith(("http://", "https://"))]
    for each in paths:
        if not Path(each).exists():
            raise InputError(f"There is no file {clean(each)!r}.")

    async def run(advance: Callable[[float], None]) -> ImportResult:
        with ExitStack() as stack:
            layout = Layout(stores.root)
            if dry_run:
                return _trial(sources, stores, settings, advance, stack)
            async with open_collection(stores.root, clock=CLOCK):
                recover_collection(layout, settings.proxy, now=CLOCK.now(), index=settings.index)
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
                    layout, settings, index, database, storage, now=CLOCK.now, shared=shared, on_bytes=advance
                )
                with closing(run):
                    for source in sources:
                        path = Path(source)
                        if is_url := source.startswith(("http://", "https://")):
                            path = await _download(source, layout, settings, limit, reserve)
                        problem = None
                        try:
                            shown = mask_passwords(source)  # to readers, as the provenance of its pages
                            for archive in open_archives(path, layout.archive, advance, shown):
                                run.add(archive)
                        except InputError as error:
                            problem = error
                        if is_url:  # of no use any more; after an interruption it is
                            for each in (path, path.with_suffix(".validator")):
                                each.unlink(missing_ok=True)
                        if problem is not None:
                            raise problem
                if settings.index.text:
                    with open_texts(layout, settings.index.url, visible_text) as (reader, writer):
                        complete_texts(reader, writer)
                decisions = stack.enter_context(stores.decisions())
                run.count_withheld(AccessControl(decisions, database.rows, CLOCK.now))
                return run.result

    files = chain.from_iterable([path, *path.rglob("*")] for path in map(Path, paths))
    total = 2 * sum(each.stat().st_size for each in files if each.is_file()) if paths else None
    with progress_bar("Reading" if dry_run else "Importing", total) as advance:
        result = asyncio.run(run(advance))
    output.show({"dry_run": dry_run, **asdict(result)}, _import_lines(result, is_dry=dry_run))
    return ExitCode.OK if result.is_whole else ExitCode.SOME_FAILED


def _trial(
    sources: Sequence[str],
    stores: CollectionStores,
    settings: Settings,
    advance: Callable[[float], None],
    stack: ExitStack,
) -> ImportResult:
    """Import into a folder that is removed, of which the collection's files are known; return what would come."""
    if urls := [each for each in sources if each.startswith(("http://", "https://"))]:
        raise InputError(f"{clean(urls[0])} cannot be inspected before it is downloaded.")
    collection, scratch = Layout(stores.root), stack.enter_context(scratch_folder(ScratchKind.VERIFY))
    layout = Layout(scratch / "collection")
    for folder in (layout.archive, layout.databases):
        folder.mkdir(parents=True)
    sums = read_sums(collection).by_name
    storage = ImportStorage(layout, DiskReserve(scratch, 0), sums, link=True, trial_of=collection)
    index = stack.enter_context(closing(open_index(layout, IndexSettings())))
    database = stack.enter_context(closing(open_database(layout, "")))
    run = CollectionImport(layout, settings, index, database, storage, now=CLOCK.now, on_bytes=advance)
    with closing(run):
        for source in sources:
            for archive in open_archives(Path(source), layout.archive, advance):
                run.add(archive)
                for path in layout.archive.glob(f"{IMPORT_PREFIX}*"):
                    if not path.is_symlink():
                        path.write_bytes(b"")  # makes room for the next
    if collection.marker.exists():
        decisions = stack.enter_context(stores.decisions())
        run.count_withheld(AccessControl(decisions, database.rows, CLOCK.now))
        run.result.revisits_without_payload = 0  # their payloads may be in the collection
    for number, each in enumerate(run.result.files):
        run.result.files[number] = replace(each, stored="", state="new" if each.state == "imported" else each.state)
    return run.result


async def _download(url: str, layout: Layout, settings: Settings, limit: int, reserve: DiskReserve) -> Path:
    """Download into the collection's cache, where an interrupted download is continued; return the path."""
    from links.archives.archive_client import HttpFetch

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


def _import_lines(result: ImportResult, *, is_dry: bool) -> Iterator[str]:
    for each in result.files:
        size = format_size(each.bytes)
        contents = f"{each.records:,} records, {each.captures:,} captures" if each.records else each.format
        yield f"{each.state:8}  {clean(each.source)}  {size}  {contents}".rstrip()
        shown = each.problems[:5]
        yield from (f"          {clean(problem)}" for problem in shown)
        if len(each.problems) > len(shown):
            yield f"          … and {len(each.problems) - len(shown):,} more: reports/imports.jsonl"
    yield from map(clean, result.problems)
    known = f", {result.known_pages:,} were there" if result.known_pages else ""
    files = options.counted(result.count("new" if is_dry else "imported"), "file")
    done = "would be imported" if is_dry else "imported"
    yield f"{files} and {options.counted(result.pages, 'page')} {done}{known}."
    if result.pages_without_record:
        yield f"{result.pages_without_record:,} listed pages have no records in the files."
    if result.withheld_pages:
        yield f"{result.withheld_pages:,} pages are stored but not shown: they are taken down here, or need a login."
    if result.revisits_without_payload:
        yield f"{result.revisits_without_payload:,} revisits refer to payloads that the collection does not have."
