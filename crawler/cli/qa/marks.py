"""`weboid qa marks`: what a reviewer marked in a report that is one file, taken back."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import InputError
from core.quality import Verdict
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option
from crawler.cli.tables import clean
from playback.front.quality.acts import Act, Acts

_MOST_BYTES = 100_000_000
_ACTS = {Verdict.GOOD: Act.GOOD, Verdict.BROKEN: Act.BAD, Verdict.UNCHECKED: Act.CLEAR}
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Mark:
    """What was said of one result.

    Attributes:
        page_id: of the page that was checked.
        level: of the check.
        verdict: None: nothing was said; UNCHECKED: what was said before is taken back.
        recrawl: whether the page is to be captured again.
        note: what the reviewer wrote.
    """

    page_id: str
    level: str
    verdict: Verdict | None
    recrawl: bool
    note: str

    @property
    def acts(self) -> list[Act]:
        """What is to be done."""
        judged = [] if self.verdict is None else [_ACTS[self.verdict]]
        return [*judged, *([Act.RECRAWL] if self.recrawl else [])]


@click.command("marks")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--by", default="", metavar="NAME", help="Whose they are; else as the file says.")
@collection_option
@database_option
def command(*, file: Path, by: str, collection: Path, database_url: str) -> int:
    """Take the marks of a report back that were downloaded from it.

    Verdicts count from now on, as if they had been given at /quality; what is to be captured again waits
    for `weboid qa repair`, or a running crawl. Exit code 1: some are of captures that nobody knows here.
    """
    said, marks = read_marks(file)
    counts: Counter[str] = Counter()
    with opened_registry(collection, database_url) as store:
        acts = Acts(lambda: store, _CLOCK)
        for mark in marks:
            # Each is kept by itself: who stops here finds what was read so far.
            for act in mark.acts:
                is_known = acts.do(act, mark.page_id, mark.level, by=by or said, note=mark.note)
                counts[str(act) if is_known else "unknown"] += 1
    told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    click.echo(told or "No mark.")
    return Exit.SOME_FAILED if counts["unknown"] else Exit.OK


def read_marks(path: Path) -> tuple[str, list[Mark]]:
    """Whose marks a file holds, and the marks.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path} is too long for a file of marks.")
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a file of marks: {error}.") from error
    if not isinstance(document, dict) or document.get("weboid_marks") != 1:
        raise InputError(f"{path} is no file of marks that a report made.")
    return str(document.get("by") or "")[:100], list(_marks(document.get("marks")))


def _marks(listed: Any) -> Iterator[Mark]:
    if not isinstance(listed, list):
        raise InputError("The file has no list of marks.")
    for number, each in enumerate(listed, 1):
        try:
            yield _mark(each)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"Mark {number} is none: {clean(str(error))[:200]}.") from error


def _mark(given: Mapping[str, Any]) -> Mark:
    verdict = given.get("verdict")
    found = None if verdict is None else Verdict(verdict)
    if found is not None and found not in _ACTS:
        raise ValueError(f"nobody can say {verdict!r}")
    page_id, level = given["page_id"], given["level"]
    if not isinstance(page_id, str) or not isinstance(level, str):
        raise TypeError("page_id and level are texts")
    note = given.get("note") or ""
    return Mark(page_id, level, found, given.get("recrawl") is True, str(note)[:500])
