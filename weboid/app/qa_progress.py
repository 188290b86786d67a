"""Progress and summary of `weboid qa`, as text or JSON lines."""

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.playback_check import PlaybackCheck, QaVerdict
from playback.access.levels import DEFAULT_LEVEL
from qa.check_run import CheckRunTally
from qa.check_table import CheckedPage
from qa.checker import CheckOutcome
from qa.sample import SampledPage, UnlistedVisit
from weboid.app.text_table import clean, table, width

_WORST = 10
_MOST_NAMED = 10  # visits without a manifest
# Reason that nothing was checked, by whether --again was given.
NOTHING_TO_CHECK = {
    False: "Nothing is left to be checked; --again checks also what was checked already.",
    True: "There is no such capture with a copy.",
}
_NAMES = {
    QaVerdict.GOOD: "good",
    QaVerdict.DOUBTFUL: "doubtful",
    QaVerdict.BROKEN: "broken",
    QaVerdict.UNCHECKED: "unchecked",
}


class QaProgress:
    """Progress output of a run over `total` pages at most. A context manager that removes the bar."""

    def __init__(self, *, as_json: bool, total: int) -> None:
        self._as_json = as_json
        self._worst: list[tuple[float, int, PlaybackCheck]] = []
        self._count = 0
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[found]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=as_json or not console.is_terminal,
        )
        self._task = self._progress.add_task("checking", total=total or None, found="")

    def __enter__(self) -> "QaProgress":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def expect(self, total: int) -> None:
        """Set the number of pages to check."""
        self._progress.update(self._task, total=total)

    def checked(self, checked: CheckOutcome, tally: CheckRunTally) -> None:
        """Report a checked page."""
        check = checked.check
        if self._as_json:
            click.echo(json.dumps(check_event(check), ensure_ascii=False))
        self._progress.update(self._task, completed=tally.done, found=_standing(tally))
        if check.verdict in (QaVerdict.BROKEN, QaVerdict.DOUBTFUL):
            self._count += 1
            score = 0.0 if check.score is None else check.score
            heapq.heappush(
                self._worst, (((check.verdict is QaVerdict.BROKEN) + 1 - score), self._count, check)
            )
            if len(self._worst) > _WORST:
                heapq.heappop(self._worst)

    def say(self, sentence: str) -> None:
        """Print a notice for people; JSON output has it in the summary."""
        if not self._as_json:
            self._progress.console.print(
                clean(sentence), markup=False, highlight=False, soft_wrap=True
            )

    def ended(self, tally: CheckRunTally, **more: Any) -> None:
        """Report the end of the run; `more` are facts for JSON output."""
        if self._as_json:
            counts = {name: tally.verdicts[verdict] for verdict, name in _NAMES.items()}
            facts = {"event": "summary", "checked": tally.done, **counts}
            speed = {"seconds": round(tally.seconds, 1), "per_minute": round(tally.per_minute, 1)}
            click.echo(json.dumps({**facts, **speed, **more}))
            return
        for line in _worst_lines([check for *_, check in sorted(self._worst, reverse=True)]):
            click.echo(line)
        if not tally.done:
            click.echo("Nothing was to be checked; --again checks also what was.")
            return
        click.echo(f"{tally.done} checked: {_standing(tally)}.")
        if self._worst:
            click.echo("Next: weboid qa report")


def check_event(check: PlaybackCheck) -> dict[str, Any]:
    """Return a check as a JSON line."""
    return {
        "event": "check",
        "page_id": check.page_id,
        "url": check.url,
        "captured_at": check.captured_at,
        "level": check.level,
        "verdict": _NAMES[check.verdict],
        "score": check.score,
        "picture": check.picture,
        "text": check.text,
        "resources": check.resources,
        "faults": list(check.faults),
        "lost": [[each.url, each.reason] for each in check.lost],
        "reason": check.reason,
        "seconds": check.seconds,
    }


def plan_lines(chosen: Iterable[tuple[str, SampledPage]], *, as_json: bool) -> None:
    """Print the pages that would be checked, their levels and the reasons."""
    if as_json:
        for level, each in chosen:
            page = each.page
            facts = {
                "event": "planned",
                "page_id": page.page_id,
                "url": page.url,
                "level": str(level),
                "timestamp": page.timestamp,
                "weight": each.weight,
                "why": each.reasons,
            }
            click.echo(json.dumps(facts, ensure_ascii=False))
        return
    rows = [
        (
            f"{each.weight:.0f}",
            each.page.timestamp,
            str(level),
            "; ".join(each.reasons) or "-",
            each.page.url,
        )
        for level, each in chosen
    ]
    if not rows:
        click.echo("Nothing is to be checked; --again checks also what was.")
        return
    head = ("risk>", "captured", "level", "why", "page")
    click.echo("\n".join(table(head, rows, columns=width())))


def left_out_lines(
    missing: Iterable[str],
    forbidden: Iterable[str],
    known: Iterable[CheckedPage],
    unlisted: Sequence[UnlistedVisit],
) -> Iterator[str]:
    """Yield a sentence for each named URL not checked, and each page that cannot be checked."""
    for url in missing:
        yield f"{url}: there is no capture with a copy."
    for url in forbidden:
        yield f"{url}: no level rule shows it in full; `weboid level set` makes one."
    for each in known:
        level = "" if each.check.level == DEFAULT_LEVEL else f" ({each.check.level})"
        yield f"{each.check.url}{level}: checked already, {each.verdict}; --again checks it again."
    for visit in unlisted[:_MOST_NAMED]:
        yield (
            f"{visit.url}: its records are here and its manifest is not, so no reader is offered it;"
            " `weboid archive --again URL` captures it again."
        )
    if len(unlisted) > _MOST_NAMED:
        yield f"And {len(unlisted) - _MOST_NAMED} more without a manifest, see --json."


def _standing(tally: CheckRunTally) -> str:
    shown = (verdict for verdict in _NAMES if verdict or tally.verdicts[verdict])
    found = [f"{tally.verdicts[verdict]} {_NAMES[verdict]}" for verdict in shown]
    return f"{', '.join(found)}, {tally.per_minute:.0f} a minute"


def _worst_lines(checks: Sequence[PlaybackCheck]) -> list[str]:
    if not checks:
        return []
    rows = [
        (
            str(check.verdict),
            "-" if check.score is None else f"{check.score:.2f}",
            ", ".join(check.faults) or "-",
            check.url if not check.reason else f"{check.url}  {check.reason}",
        )
        for check in checks
    ]
    return table(("verdict", "score>", "faults", "page"), rows, columns=width())
