"""`weboid export`: captures of a collection as one WACZ file."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import InputError
from crawler.jobs.list_files import ListFile, ListLineProblem
from warc.index.queries import matching_keys
from warc.local_storage import closed_warcs, open_warcs
from weboid.app.collection_export import CollectionExport, ExportSelection, url_keys
from weboid.app.operator_identity import known_operator
from weboid.app.text_table import clean
from weboid.cli.support.commands import ExitCode, argument, cli_command, is_quiet, option
from weboid.cli.support.options import OUTPUT, CommandOutput, host_name, start_moment
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_output import format_size
from weboid.cli.support.stores import STORES, CollectionStores

_CLOCK = SystemClock()


@cli_command("export")
def command(
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
        database, _, access = stack.enter_context(stores.readable())
        layout = stores.layout
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
