"""`weboid export`: captures of a collection as one WACZ file."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import InputError, UnavailableError
from crawler.jobs.list_files import ListFile, ListLineProblem
from playback.access.threat_lists import lists_folder
from warc.index.queries import matching_keys
from warc.local_storage import closed_warcs, open_warcs, replace_file
from weboid.app.collection_export import CollectionExport, ExportForm, ExportRequest, ExportSelection, url_keys
from weboid.app.operator_identity import known_operator
from weboid.app.text_table import clean
from weboid.cli.support.commands import ExitCode, argument, cli_command, is_quiet, option
from weboid.cli.support.options import OUTPUT, SIZE, CommandOutput, host_name, start_moment
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_output import format_size
from weboid.cli.support.stores import STORES, CollectionStores

if TYPE_CHECKING:  # cryptography is loaded for signing only
    from warc.wacz_signature import WaczSigner

_CLOCK = SystemClock()
_FILE = click.Path(dir_okay=False, path_type=Path)
_PAGE_ENDINGS = (".html", ".pdf", ".png", ".txt")
_STAMP_BYTES = 1 << 20
_STAMP_S = 30.0


@cli_command("export")
def command(
    out: Path = argument("OUT", type=click.Path(dir_okay=False, path_type=Path)),
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
    size_limit: int = option("Largest size of a file; further ones are numbered.", type=SIZE, default=0),
    text: bool = option("Include the pages' text, for search.", "--text/--no-text", default=True),
    sign: bool = option("Sign the file (wacz-auth), with --sign-key or sign_key in [export] of weboid.toml."),
    sign_key: Path | None = option("EC private key, PEM.", metavar="FILE", type=_FILE),
    sign_cert: Path | None = option("TLS certificate chain, PEM, of the key's domain.", metavar="FILE", type=_FILE),
    timestamp_url: str = option("Time-stamp authority (RFC 3161) that dates the signature.", default="", metavar="URL"),
    withheld: bool = option("Include what was taken down, has a threat, or was captured with a login."),
    force: bool = option("Replace an existing file."),
    stores: CollectionStores = STORES,
    output: CommandOutput = OUTPUT,
) -> int:
    """Export captures as a WACZ file, for other archives and replay.

    The name's ending decides on the form: OUT.wacz, OUT.warc.gz (one WARC of all), OUT.cdxj (the
    index alone); of the newest capture of one page OUT.html (one file, without scripts), OUT.pdf,
    OUT.png (a picture of the page), OUT.txt.

    An interrupted export continues when the same command is given again.

    Without URL, --list and --host it is the whole collection. A URL that ends with * means all that
    begin with it. Records that a page shares with others are included. What readers may not see is
    left out.
    """
    if out.exists() and not force:
        raise InputError(f"{clean(str(out))} exists already: give --force to replace it.")
    endings = {".wacz": ExportForm.WACZ, ".warc.gz": ExportForm.WARC, ".cdxj": ExportForm.CDXJ}
    form = next((each for ending, each in endings.items() if out.name.endswith(ending)), None)
    if form is None and out.suffix not in _PAGE_ENDINGS:
        raise InputError(f"The name of the file must end with {', '.join((*endings, *_PAGE_ENDINGS))}.")
    if form is None and not (urls or lists or hosts):
        raise InputError(f"A file {out.suffix} holds one page: name its URL.")
    if sign and form is not ExportForm.WACZ:
        raise InputError("Only WACZ files are signed.")
    now = _CLOCK.now()
    signer = _signer(stores.root, sign_key, sign_cert, timestamp_url) if sign else None
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
        database, decisions, access = stack.enter_context(stores.readable())
        layout = stores.layout
        size = sum(each.stat().st_size for each in (*closed_warcs(layout), *open_warcs(layout)))
        total = size if selection.is_everything else None
        advance = stack.enter_context(progress_bar("Exporting", total, quiet=is_quiet() or output.is_json))
        export = CollectionExport(layout, database, None if withheld else access, advance)
        if form is None:
            return _export_page(export, selection, stores, out, output)
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
            state=(since, until, withheld, decisions.version(), list_times),
        )
        try:
            count = export.write(request)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{clean(str(out))} cannot be written: {reason}.") from error
    size = sum(each.stat().st_size for each in count.files)
    result = {
        "file": str(count.files[0]), "files": list(map(str, count.files)), "resumed": count.is_resumed,
        "bytes": size, "pages": count.pages, "records": count.records,
        "warcs": count.warcs, "withheld_pages": count.withheld_pages,
        "withheld_records": count.withheld_records, "missing_warcs": count.missing_warcs,
    }  # fmt: skip
    names = f"{len(count.files)} files beside {out}" if len(count.files) > 1 else str(out)
    lines = [f"{clean(names)}: {count.pages:,} pages, {count.records:,} records, {format_size(size)}."]
    if count.withheld_pages or count.withheld_records:
        lines.append(
            f"Left out: {count.withheld_pages:,} pages and {count.withheld_records:,} records that readers may not see."
        )
    if count.missing_warcs:
        lines.append(f"Missing WARCs: {', '.join(map(clean, count.missing_warcs))}. Run `weboid collection verify`.")
    output.show(result, lines)
    return ExitCode.SOME_FAILED if count.missing_warcs else ExitCode.OK


def _export_page(
    export: CollectionExport, selection: ExportSelection, stores: CollectionStores, out: Path, output: CommandOutput
) -> int:
    """Write the newest page of the selection in the form of the file's ending."""
    from weboid.app.standalone_page import ArchivedPage

    page_id, url = export.newest_page(selection)
    page = ArchivedPage(
        stores.layout,
        stores.database_url,
        page_id,
        Settings().browser,
        is_stored=export.is_open,
        ignores_levels=export.has_everything,
    )
    data = asyncio.run(page.file(out.suffix, _CLOCK))
    replace_file(out, data)
    facts = {"file": str(out), "bytes": len(data), "url": url, "page_id": page_id}
    output.show(facts, f"{clean(str(out))}: {clean(url)}, {format_size(len(data))}.")
    return ExitCode.OK


def _signer(root: Path, key: Path | None, cert: Path | None, timestamp_url: str) -> "WaczSigner":
    """Return the signer, tried once so that an export does not fail at its end; InputError: its options conflict.

    Paths in weboid.toml are relative to the collection, `root`.
    """
    from warc.wacz_signature import WaczSigner, read_signing_chain, read_signing_key

    if key is None:
        raise InputError("There is no key to sign with: give --sign-key FILE, or sign_key in [export] of weboid.toml.")
    if cert is not None and not timestamp_url:
        raise InputError("A signature for a domain needs a time stamp: give --timestamp-url URL.")
    source = click.get_current_context().get_parameter_source
    key = root / key if source("sign_key") is ParameterSource.DEFAULT_MAP else key
    if cert is not None and source("sign_cert") is ParameterSource.DEFAULT_MAP:
        cert = root / cert
    private = read_signing_key(key)
    signer = WaczSigner(
        private,
        f"weboid {version('weboid')}",
        _CLOCK.now,
        () if cert is None else read_signing_chain(cert, private, _CLOCK.now()),
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
        raise UnavailableError(f"The time-stamp authority {clean(url)} gave no time stamp: {error}.") from error


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
