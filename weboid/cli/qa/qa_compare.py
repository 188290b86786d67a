"""Command `weboid qa compare`: changes of pages between captures, and comparison of two pictures."""

import asyncio
import heapq
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click

from core.errors import InputError, PermanentError, PictureError, UnavailableError
from core.json_values import json_facts
from core.playback_check import QaVerdict
from core.timestamps import unix_milliseconds
from core.urls import fetch_key
from crawler.collection import read_collection
from crawler.profiles import load_profile
from links.registry.statements import batches
from playback.web.text_diff import DiffKind, TextDifference, TextRun, compare_texts
from qa.compare.picture_comparison import PictureComparison, compare_pictures, describe_differences
from qa.compare.picture_tiles import MOST_BYTES, MOST_PIXELS, decode_picture
from qa.page_changes import PageChanges, PageDrift, PageSnapshot, changes_as_json, compare_snapshots
from qa.snapshot_reader import SnapshotReader, open_snapshots
from warc.index.database import IndexDatabase
from warc.index.queries import OFFERED, captures_of_pages
from weboid.app.standalone_page import picture_data_url, render_standalone
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option, option_dict
from weboid.cli.support.options import DEDUP, DURATION, FILE, PROFILE, SharedStores, named_file, output, table_lines
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_options import visit_once
from weboid.cli.support.stores import STORES, CollectionStores

_ROWS_SHOWN = 40  # paragraphs, for people
_URLS_SHOWN = 10
_REGIONS_SHOWN = 10
_COLOURS = {QaVerdict.GOOD: "green", QaVerdict.DOUBTFUL: "yellow", QaVerdict.BROKEN: "red"}
_DIFFERING = (DiffKind.CHANGED, DiffKind.ADDED, DiffKind.REMOVED)
_BATCH = 16  # pages for each thread


_DRIFT_OPTIONS: dict[str, Any] = {
    "since": option("Without URL: pages captured again within this period: 30d.", type=DURATION),
    "sample": option("Without URL: number of pages, chosen at random.", within=(1, None)),
    "seed": option(
        "Seed of the random sample; the same number draws the same pages.", type=int, default=0, show_default=False
    ),
    "limit": option("Without URL: number of pages to show.", within=(1, 100_000), default=100),
    "jobs": option("Without URL: number of pages at the same time.", within=(1, 64), default=2),
}


@cli_command("compare")
def compare_command(
    *,
    named: tuple[str, ...] = argument("[URL|SEEN SHOWN]"),
    first: str = option("The older one.  [default: the oldest good]", "--at", default="", metavar="MOMENT"),
    second: str = option("The newer one.  [default: the newest]", "--to", default="", metavar="MOMENT"),
    live: bool = option("Capture the page now and compare with that capture, which stays in the collection."),
    out: Path | None = option(
        "Write the whole comparison as one HTML page, including pictures.", type=FILE, metavar="FILE.html"
    ),
    heat: Path | None = option("Write a picture that shows where the two differ.", type=FILE, metavar="FILE.png"),
    drift: dict[str, Any] = option_dict(_DRIFT_OPTIONS),
    stores: CollectionStores = STORES,
    dedup_url: str = DEDUP,
    profile: str = PROFILE,
) -> int:
    """Compare two captures of a page, or two pictures.

    Captures are compared by picture, words, title, address, links, resources and owner.

    Classifies the newer state of URL: unchanged, changed a little, rewritten, another page, another owner, gone, hidden
    (behind a login or a check for robots), or unknown. A MOMENT is a date (2026-01-31), a date and time, or a capture's
    14 digits; it selects the good capture nearest to it. Exit code 1: there is nothing to compare.

    Without URL: the pages that changed most between their first good capture and their newest, with
    --json one line per page. Memory does not grow with the collection.

    With SEEN and SHOWN, two PNG, JPEG or WebP files: how much of the first is in the second and
    similar; inserted banners, shifted lines and noise weigh little. Exit code 1: they are not alike.
    """
    if len(named) > 1:
        if len(named) > 2 or first or second or live or out:
            raise InputError("Name one URL, or two pictures (with no option but --heat).")
        return compare_files(Path(named[0]), Path(named[1]), heat)
    url = named[0] if named else None
    if url is None:
        if first or second or live or out or heat:
            raise InputError("--at, --to, --live, --out and --heat compare one page: name its URL.")
        _print_drifted(**drift, stores=stores)
        return ExitCode.OK
    if live and second:
        raise InputError("--live is the newer one: omit --to.")
    layout = read_collection(stores.root)
    settings = SharedStores(database_url=stores.database_url, dedup_url=dedup_url).applied_to(load_profile(profile))
    url = fetch_key(url)
    with open_snapshots(layout, stores.database_url) as snapshots:
        then = snapshots.at(url, first) if first else snapshots.oldest_good(url) or snapshots.newest(url)
        if then is None:
            raise UnavailableError(f"There is no capture of {url}: `weboid archive` makes one.")
        now = snapshots.at(url, second) if second else snapshots.newest(url)
        if live:
            account = asyncio.run(visit_once([url], stores.root, settings, 1, lambda _: None))
            if account.skipped:
                raise PermanentError(f"{url} was not captured: {', '.join(account.skipped)}.")
            now = snapshots.latest(url)
        if now is None or now.page_id == then.page_id:
            raise UnavailableError(f"There is no other capture of {url} to compare with: --live makes one.")
        older, newer = sorted((then, now), key=lambda page: page.captured_at)
        before, after = snapshots.pair(older, newer)
    difference = None
    if before.text is not None and after.text is not None:
        difference = compare_texts(before.text, after.text)
    changes = compare_snapshots(before, after, heat=heat is not None or out is not None)
    if heat is not None:
        picture = changes.picture
        if picture is None or picture.heat is None:
            raise PermanentError("There is no heat map: a picture is missing or damaged.")
        heat.write_bytes(picture.heat)
    if out is not None:
        out.write_text(comparison_page(before, after, changes, difference), encoding="utf-8", errors="replace")
    _print_changes(before, after, changes, difference)
    return ExitCode.SOME_FAILED if changes.drift is PageDrift.UNKNOWN else ExitCode.OK


def comparison_page(
    then: PageSnapshot, now: PageSnapshot, changes: PageChanges, difference: TextDifference | None
) -> str:
    """Render all changes as one HTML page; `difference` of the texts by paragraphs: None when one is missing."""
    heat = None if changes.picture is None else changes.picture.heat
    return render_standalone(
        "changes.html",
        drift=str(changes.drift),
        found=changes,
        now=now,
        facts=_facts(then, now),
        difference=difference,
        pictures=[
            ("Before", picture_data_url(then.picture)),
            ("After", picture_data_url(now.picture)),
            ("Where they differ", picture_data_url(heat)),
        ],
    )


def _facts(then: PageSnapshot, now: PageSnapshot) -> list[tuple[str, str, str]]:
    def row(page: PageSnapshot) -> tuple[str, ...]:
        return (
            f"{page.captured_at:%Y-%m-%d %H:%M:%S} UTC",
            page.title,
            "" if page.status is None else str(page.status),
            page.page_class or "not judged",
            page.final_url,
            ", ".join(each for each in (page.outcome, page.reason) if each),
        )

    names = ("Captured", "Title", "Status", "Class", "Final URL", "Visit")
    return list(zip(names, row(then), row(now), strict=True))


def _print_changes(
    then: PageSnapshot, now: PageSnapshot, changes: PageChanges, difference: TextDifference | None
) -> None:
    if output.is_json:
        facts = changes_as_json(changes, then, now)
        if difference is not None:
            facts["paragraphs"] = {
                **json_facts(difference, "added removed changed is_cut"),
                "rows": [
                    {"kind": str(row.kind), "before": _plain(row.before), "after": _plain(row.after)}
                    for row in difference.rows
                    if row.kind in _DIFFERING
                ],
            }
        output.json(facts)
        return
    click.echo(f"{changes.drift}: {clean(now.url)}")
    if changes.reason:
        click.echo(f"  {clean(changes.reason)}")
    for name, before, after in _facts(then, now):
        same = before == after
        click.echo(f"  {name:<10}{clean(before) if same else f'{clean(before)} -> {clean(after)}'}")
    if changes.picture is not None:
        click.echo(f"  {'Picture':<10}{changes.picture.score:.3f}")
    if changes.text is not None:
        click.echo(f"  {'Text':<10}{changes.text.score:.3f}")
    for label, differing in (("Links", changes.links), ("Parts", changes.parts)):
        if differing is None or not (differing.added_count or differing.removed_count):
            continue
        counts = f"{differing.added_count} added, {differing.removed_count} removed, {differing.kept_count} kept"
        click.echo(f"  {label:<10}{counts}")
        for sign, urls in (("-", differing.removed), ("+", differing.added)):
            for url in urls[:_URLS_SHOWN]:
                click.echo(f"    {sign} {clean(url)}")
    rows = [] if difference is None else [row for row in difference.rows if row.kind in _DIFFERING]
    for row in rows[:_ROWS_SHOWN]:
        for sign, pieces in (("-", row.before), ("+", row.after)):
            if pieces:
                click.echo(f"  {sign} {clean(_plain(pieces))}")
    if len(rows) > _ROWS_SHOWN or (difference is not None and difference.is_cut):
        click.echo("  … and more: --out FILE.html shows all of it.")


def _plain(pieces: tuple[TextRun, ...]) -> str:
    return "".join("…" if piece.is_gap else piece.text for piece in pieces)


def _print_drifted(
    *, since: timedelta | None, sample: int | None, seed: int, limit: int, jobs: int, stores: CollectionStores
) -> None:
    layout = read_collection(stores.root)
    start = None if since is None else CLOCK.now() - since
    with open_snapshots(layout, stores.database_url) as snapshots:
        urls: Iterable[str] = recaptured_urls(snapshots.database, start)
        if sample is not None:
            urls = sample_urls(urls, sample, seed)
        drifted = _most_drifted(snapshots, urls, limit=limit, jobs=jobs)
    rows = []
    for facts in drifted:
        output.json(facts)
        shares = ("" if share is None else f"{share:.3f}" for share in (facts["text"], facts["picture"]))
        why = f"  ({facts['reason']})" if facts["reason"] else ""
        rows.append((facts["drift"], *shares, clean(f"{facts['url']}{why}")))
    output.say("\n".join(table_lines(("became", "text>", "picture>", "page"), rows)))


def recaptured_urls(database: IndexDatabase, since: datetime | None = None) -> Iterator[str]:
    """Yield each URL with two or more captures, one of them after `since`, in its newest spelling."""
    start = None if since is None else unix_milliseconds(since)
    for rows in captures_of_pages(database, OFFERED):
        if len(rows) > 1 and (start is None or rows[-1]["captured_ms"] >= start):
            yield rows[-1]["url"]


def sample_urls(urls: Iterable[str], count: int, seed: int) -> list[str]:
    """Return a sample of `count` URLs that depends only on `seed` and the set of URLs."""
    return heapq.nsmallest(
        count, urls, key=lambda url: blake2b(f"{seed}:{url}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    )


def _most_drifted(snapshots: SnapshotReader, urls: Iterable[str], *, limit: int, jobs: int) -> list[dict[str, Any]]:
    """Return the changes of the pages that changed most, as JSON objects, the furthest first."""

    def compare(url: str) -> tuple[float, dict[str, Any]] | None:
        """Compare the page's newest capture with its first good one; None unless there are both."""
        older, newer = snapshots.oldest_good(url), snapshots.newest(url)
        if older is None or newer is None or older.captured_at >= newer.captured_at:
            return None
        then, now = snapshots.pair(older, newer)
        changes = compare_snapshots(then, now)
        return changes.distance, changes_as_json(changes, then, now)

    def compare_all() -> Iterator[tuple[float, dict[str, Any]]]:
        for batch in batches(urls, _BATCH * jobs):
            for changed in threads.map(compare, batch):
                step(1)
                if changed is not None:
                    yield changed

    with progress_bar("Comparing", None) as step, ThreadPoolExecutor(jobs) as threads:
        most = heapq.nsmallest(limit, compare_all(), key=lambda each: (-each[0], each[1]["url"]))
    return [facts for _, facts in most]


def compare_files(seen: Path, shown: Path, heat: Path | None) -> int:
    """Print how much of `seen` is in `shown`, write the map of differences, return the exit code.

    Raises InputError for a file that cannot be used.
    """
    if heat is not None and heat.exists() and any(heat.samefile(each) for each in (seen, shown)):
        raise InputError(f"{clean(str(heat))} is one of the compared pictures: give --heat another name.")
    first, second = _picture_bytes(seen), _picture_bytes(shown)
    try:
        comparison = compare_pictures(first, second, heat=heat is not None)
    except PictureError as error:
        # The error does not name the file: report the first that cannot be opened.
        for path, data in ((seen, first), (shown, second)):
            try:
                decode_picture(data)
            except PictureError as fault:
                raise InputError(
                    f"{clean(str(path))} cannot be compared. {fault}"
                    f" Give a whole PNG, JPEG or WebP picture of at most {MOST_PIXELS:,} pixels."
                ) from fault
        raise InputError(f"The pictures cannot be compared: {error}") from error
    if heat is not None and comparison.heat is not None:
        with named_file(heat, "written", " Give --heat a file in an existing folder."):
            heat.write_bytes(comparison.heat)
    document = {**asdict(comparison), "sentence": describe_differences(comparison)}
    del document["heat"]
    output.show(document, picture_lines(comparison))
    return ExitCode.OK if comparison.verdict is QaVerdict.GOOD else ExitCode.SOME_FAILED


def picture_lines(comparison: PictureComparison) -> list[str]:
    """Return the comparison as text: the verdict, a sentence, figures and the worst regions."""
    verdict = click.style(comparison.verdict.value, fg=_COLOURS[comparison.verdict], bold=True)
    faults = f" ({', '.join(comparison.faults)})" if comparison.faults else ""
    figures = (
        "same", "structure", "lost", "changed", "added", "covered", "recoloured", "rewritten",
        "moved", "largest",
    )  # fmt: skip
    rows = [(name, f"{getattr(comparison, name):.4f}") for name in figures]
    sizes = [(f"size {side}", "{} x {}".format(*getattr(comparison, f"size_{side}"))) for side in ("seen", "shown")]
    lines = [f"{verdict}{faults}, score {comparison.score:.4f}", describe_differences(comparison), ""]
    lines += table_lines(["figure", "value>"], rows + sizes)
    if comparison.regions:
        boxes = [(each.kind, *map(str, (each.x, each.y, each.w, each.h))) for each in comparison.regions]
        lines += ["", *table_lines(["region", "x>", "y>", "width>", "height>"], boxes[:_REGIONS_SHOWN])]
    if len(comparison.regions) > _REGIONS_SHOWN:
        lines.append(f"and {len(comparison.regions) - _REGIONS_SHOWN} more, see --json")
    return lines


def _picture_bytes(path: Path) -> bytes:
    name = clean(str(path))
    if path.is_dir():
        raise InputError(f"{name} is a folder: name a PNG, JPEG or WebP file in it.")
    if path.exists() and not path.is_file():
        raise InputError(f"{name} is not a regular file: save the picture in one.")
    with named_file(path, remedy=" Check its name and folder."):
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{name} is larger than {MOST_BYTES:,} bytes: give a smaller picture.")
        return path.read_bytes()
