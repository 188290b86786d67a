"""Commands `weboid qa ls` and `marks`: check results out, review marks in."""

import csv
import json
import sys
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from core.errors import InputError, UnavailableError
from core.json_values import read_json
from core.page_classes import PageClass
from core.playback_check import PlaybackFault, QaVerdict
from crawler.collection import read_collection
from playback.access.level_store import LevelStore
from playback.access.levels import Level
from playback.web.copy_notices import CopyWarnings
from playback.web.i18n import SOURCE, PageLanguage, check_language, page_language
from playback.web.page_store import PageStore
from playback.web.reader_page import LevelOffers
from playback.web.registry.registry_service import RegistrySource
from qa.check_store import every_check
from qa.check_table import CheckFilter
from qa.web.check_pages import check_fields
from qa.web.check_presentation import CheckPictureFolder
from qa.web.check_query import UNCHECKED, VisibleChecks, parse_check_filter, verdict_name
from qa.web.review import ReviewAction, ReviewActions
from qa.web.static_report import CheckReport, write_report
from warc.local_storage import replacing_file
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option, option_dict
from weboid.cli.support.options import EXISTING_FILE, FILE, ORIGIN, named_file, output, table_lines
from weboid.cli.support.stores import STORES, CollectionStores

_FILTER_OPTIONS: dict[str, Any] = {
    "verdict": option(
        "Only this verdict; a reviewer's overrides the check's.",
        choices=[*filter(None, map(str, QaVerdict)), UNCHECKED],
    ),
    "host": option("Only pages of that host.", metavar="HOST"),
    "page_class": option(
        "Only visits of this class: " + ", ".join(filter(None, map(str, PageClass))) + ".",
        "--class",
        metavar="CLASS",
        choices=[*filter(None, map(str, PageClass))],
    ),
    "fault": option(
        "Only copies with this fault: " + ", ".join(map(str, PlaybackFault)) + ".",
        metavar="FAULT",
        choices=PlaybackFault,
    ),
    "below": option("Only scores below this: 0.8, or 80%.", metavar="SCORE"),
    "level": option("Only checks at this level.", choices=Level),
    "unreviewed": option("Only unreviewed checks.", is_flag=True),
}

_REPORT_OPTIONS: dict[str, Any] = {
    "out": option("File that --html writes.", type=FILE, default=Path("report.html")),
    "limit_pictures": option(
        "With --html: number of results, worst first, whose pictures are included.", within=(0, 5_000), default=200
    ),
    "title": option("With --html: title of the report.  [default: the folder's name]", default=""),
    "origin": option(
        "With --html: origin of the pages of `weboid serve`, for links to copies.", type=ORIGIN, default=""
    ),
    "language": option("With --html: the report's language.", default=SOURCE),
}


# Values that a spreadsheet would run as a formula get a quote before them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@cli_command("ls")
def ls_command(
    *,
    values: dict[str, Any] = option_dict(_FILTER_OPTIONS),
    limit: int = option("At most.", within=(1, None), default=100),
    as_csv: bool = option("CSV for spreadsheets.", "--csv"),
    as_html: bool = option("One HTML file with every result and pictures, for review.", "--html"),
    report: dict[str, Any] = option_dict(_REPORT_OPTIONS),
    stores: CollectionStores = STORES,
) -> None:
    """List the results of checks, worst first.

    With --json one object per line. This is for the operator of the archive: taken-down pages are
    listed as long as they are not erased; the file of --html and the pages at /quality omit them.

    The file of --html is self-contained: pictures, style and script are embedded. Capture and playback are shown with
    a slider; marks made in it are imported with `weboid qa marks`.
    """
    if as_csv + as_html + output.is_json > 1:
        raise InputError("Use one of --json, --csv and --html.")
    flag = "1" if values["unreviewed"] else ""
    named = {**values, "class": values["page_class"], "unreviewed": flag}
    wanted = parse_check_filter({name: value or "" for name, value in named.items()})
    if as_html:
        _write_report(wanted, stores, report)
        return
    with stores.registry() as store, store.snapshot() as reader:
        rows = islice(chain.from_iterable(every_check(reader, wanted)), limit)
        if output.is_json:
            for row in rows:
                click.echo(json.dumps(check_fields(row)))
        elif as_csv:
            writer = csv.writer(sys.stdout)
            for number, facts in enumerate(map(check_fields, rows)):
                if not number:
                    writer.writerow(facts)
                writer.writerow(map(_cell, facts.values()))
        elif lines := [
            (
                "-" if row.check.score is None else f"{row.check.score:.3f}",
                verdict_name(row.verdict) + ("*" if row.review else ""),
                row.check.level,
                ",".join(row.check.faults),
                row.check.captured_at[:19],
                row.check.url,
            )
            for row in rows
        ]:
            head = ("score>", "verdict", "level", "faults", "captured", "url")
            click.echo("\n".join(table_lines(head, lines)))
        else:
            click.echo("No such check; `weboid qa` makes checks.", err=True)


def _cell(value: object) -> str:
    """Return a value as a safe spreadsheet cell.

    >>> _cell("=1+1"), _cell(["a", "b"]), _cell(None), _cell(-0.5)
    ("'=1+1", 'a b', '', '-0.5')
    """
    if value is None:
        return ""
    if isinstance(value, list):
        value = " ".join(f"{each['url']} ({each['reason']})" if isinstance(each, dict) else str(each) for each in value)
    if not isinstance(value, str):
        return str(value)
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _write_report(wanted: CheckFilter, stores: CollectionStores, options: dict[str, Any]) -> None:
    """Write the results into one HTML file. Raises InputError: it cannot be written."""
    page_language.set(PageLanguage(check_language(options["language"])))
    layout, out = read_collection(stores.root), options["out"]
    name = options["title"] or layout.root.absolute().name
    report = CheckReport(name, CLOCK.now(), options["origin"], options["limit_pictures"])
    with ExitStack() as stack:
        database, decisions, permits = stack.enter_context(stores.readable())
        source = stack.enter_context(closing(RegistrySource(layout, stores.database_url)))
        if not source.is_there():
            raise UnavailableError("No copy of this collection was checked yet; run `weboid qa`.")
        results = VisibleChecks(source, PageStore(database, permits), CopyWarnings(permits))
        offers = LevelOffers(LevelStore(decisions), None)
        pictures = CheckPictureFolder(layout.quality_pictures)
        with named_file(out, "written", " Give --out a file in an existing folder."):
            partial = stack.enter_context(replacing_file(out, mode=0o644))
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            count = write_report(
                report, results.every(wanted), file, pictures=pictures, shows_pictures=offers.shows_pictures
            )
        size = partial.stat().st_size / 1e6
    click.echo(f"{clean(str(out))}: {count:,} results, {size:,.1f} MB.")


_MOST_BYTES = 100_000_000
_ACTS = {QaVerdict.GOOD: ReviewAction.GOOD, QaVerdict.BROKEN: ReviewAction.BAD, QaVerdict.UNCHECKED: ReviewAction.CLEAR}


@dataclass(frozen=True, slots=True)
class ReviewMark:
    """Reviewer's mark on one result."""

    page_id: str  # of the page that was checked
    level: str  # of the check
    verdict: QaVerdict | None = None  # None: no verdict; UNCHECKED: withdraws an earlier verdict
    recrawl: bool = False  # whether the page is to be captured again
    note: str | None = None  # the reviewer's note

    @property
    def acts(self) -> list[ReviewAction]:
        """Return the actions that apply the mark."""
        judged = [] if self.verdict is None else [_ACTS[self.verdict]]
        return [*judged, *([ReviewAction.RECRAWL] if self.recrawl else [])]


@cli_command("marks", has_json=False)
def marks_command(
    *,
    file: Path = argument(type=EXISTING_FILE),
    by: str = option("Author of the marks.  [default: the author named in the file]", default="", metavar="NAME"),
    stores: CollectionStores = STORES,
) -> int:
    """Import marks that were downloaded from a report.

    Verdicts count from now on, as if they had been values at /quality; recaptures wait for `weboid
    qa repair` or a running crawl. Exit code 1: some are of captures that are unknown here.
    """
    author, marks = read_marks(file)
    counts: Counter[str] = Counter()
    with stores.registry() as store:
        acts = ReviewActions(lambda: store, CLOCK)
        for mark in marks:
            # Each is kept by itself: who stops here finds what was read so far.
            for act in mark.acts:
                is_known = acts.do(act, mark.page_id, mark.level, by=by or author, note=(mark.note or "")[:500])
                counts[str(act) if is_known else "unknown"] += 1
    summary = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    click.echo(summary or "No mark.")
    return ExitCode.SOME_FAILED if counts["unknown"] else ExitCode.OK


def read_marks(path: Path) -> tuple[str, list[ReviewMark]]:
    """Read (reviewer, marks) from a file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path} is too large for a file of marks.")
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a file of marks: {error}.") from error
    if not isinstance(document, dict) or document.get("weboid_marks") != 1:
        raise InputError(f"{path} is not a file of marks saved by a report.")
    marks = read_json(list[ReviewMark], document.get("marks"), name="marks")
    if odd := [each.verdict for each in marks if each.verdict not in (None, *_ACTS)]:
        raise InputError(f"A mark is not {odd[0]}, but one of {', '.join(filter(None, _ACTS))}.")
    return str(document.get("by") or "")[:100], marks
