"""`weboid archive verify`: whether all that was archived is still there, and whole."""

import json
import os
from pathlib import Path

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option, json_option, with_database
from crawler.cli.run_lines import size
from crawler.collection import read_collection
from crawler.reporting import in_use
from proxy.faults import Fault
from proxy.index.snapshot import is_used
from proxy.verify import Verdict, verify


@click.command("verify")
@click.argument(
    "folder",
    metavar="[COLLECTION]",
    type=click.Path(file_okay=False, path_type=Path),
    required=False,
)
@collection_option
@database_option
@click.option("--quick", is_flag=True, help="Compare sizes and the index only; read no WARC.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=lambda: os.cpu_count() or 1,
    show_default="one a core",
    help="Files read at the same time.",
)
@json_option
def command(
    *,
    folder: Path | None,
    collection: Path,
    database_url: str,
    quick: bool,
    jobs: int,
    as_json: bool,
) -> int:
    """Check WARCs, checksums and index of a collection.

    Reads every record of COLLECTION and holds it against its digests and
    the index, every closed file against archive/SHA256SUMS, every revisit against the response that
    it refers to. Changes nothing, and works while the collection is being written. Ends with 1 when
    there is a fault; each is named with its place and what to do.
    """
    layout = read_collection(folder or collection)
    columns = (TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    progress = Progress(*columns, transient=True, disable=as_json or quick)
    task = progress.add_task("", total=None)

    def show(done: int, total: int) -> None:
        progress.start()  # only now: its thread would be in the way of starting processes
        progress.update(task, completed=done, total=total)

    try:
        index = with_database(Settings(), database_url).index
        live = in_use(layout) or bool(index.url and is_used(index.url))
        verdict = verify(layout, quick=quick, live=live, jobs=jobs, progress=show, index=index)
    finally:
        progress.stop()
    if as_json:
        click.echo(json.dumps(verdict.to_dict(), ensure_ascii=False))
    else:
        for line in lines(verdict, quick=quick):
            click.echo(line)
    return Exit.OK if verdict.is_sound else Exit.SOME_FAILED


def lines(verdict: Verdict, *, quick: bool) -> list[str]:
    """The verdict for people."""
    found = [line for fault in (*verdict.notes, *verdict.faults) for line in _lines_for(fault)]
    if verdict.more:
        found.append(f"      … and {verdict.more:,} more in these files.")
    read = "not read" if quick else f"{verdict.records:,} records, {verdict.rows:,} rows"
    count = len(verdict.faults) + verdict.more
    said = "no fault" if not count else "1 fault" if count == 1 else f"{count:,} faults"
    found.append(f"{verdict.files:,} WARCs, {size(verdict.size)}, {read}: {said}.")
    return found


def _lines_for(fault: Fault) -> list[str]:
    mark = click.style("note", fg="cyan") if fault.is_note else click.style("bad ", fg="red")
    place = f" at {fault.offset}" if fault.offset is not None else ""
    found = [f"{mark}  {fault.filename or 'index'}{place}: {fault.text}"]
    return [*found, f"      → {fault.remedy}"] if fault.remedy else found
