"""A run in words: pages, what happens between them, and what came of all."""

from collections.abc import Mapping

from core.classes import GOOD, PageClass
from core.quality import Verdict
from crawler.events import (
    IndexRestored,
    PageChecked,
    PageDone,
    PagePutOff,
    PageRepaired,
    PageSkipped,
    PageTriedAgain,
    SnapshotMade,
    Standing,
)
from crawler.running import Account
from crawler.space import Paused, Resumed
from crawler.supervisor import FileRecovered
from crawler.waiting import GoingOn, Waiting


def line_for(event: PageDone | PageSkipped) -> str:
    """A page in one line: outcome, status, records, bytes, seconds, URL, and why it is not whole."""
    if isinstance(event, PageSkipped):
        return f"skipped   {'':>3} {event.url}  ({event.reason})"
    page = event.page
    if page is None:
        why = event.error or "finished by an earlier run"
        return f"{'failed' if event.error else 'complete':9} {'':>3} {event.url}  ({why})"
    status = str(page.status) if page.status is not None else "-"
    said = GOOD | {PageClass.HTTP_ERROR}  # the status says it
    kind = "" if page.page_class in said else str(page.page_class)
    why = ", ".join(each for each in (kind, page.reason) if each)
    reason = f"  ({why})" if why else ""
    return (
        f"{page.outcome:9} {status:>3} {page.records:4} records {size(page.stored_bytes):>9}"
        f" {page.seconds:6.1f} s  {page.url}{reason}"
    )


def standing(event: Standing) -> str:
    """How the frontier stands, in few words."""
    parts = [f"{event.claimed} in work", f"{event.queued} queued"]
    if event.dead:
        parts.append(f"{event.dead} dead")
    parts.append(f"{event.per_minute:.0f}/min" if event.paused is None else "paused")
    return " · ".join(parts)


def aside_for(
    event: PageTriedAgain
    | PagePutOff
    | PageChecked
    | PageRepaired
    | Paused
    | Resumed
    | Waiting
    | GoingOn
    | FileRecovered
    | IndexRestored
    | SnapshotMade,
) -> str:
    """What happens between pages, in one line."""
    match event:
        case PageChecked():
            score = "   -" if event.score is None else f"{event.score:4.2f}"
            reason = f"  ({event.reason})" if event.reason else ""
            text = f"{event.verdict or 'unchecked':9} {score} {event.url}{reason}"
        case PageRepaired():
            text = f"repaired  {event.url}: {event.state}; {event.reason}"
        case PageTriedAgain():
            text = f"again     {event.url}: {event.reason}"
        case PagePutOff():
            until = f"{event.until:%Y-%m-%d %H:%M:%S} UTC"
            text = f"later     {event.url}: {event.reason}; not before {until}"
        case Paused():
            text = (
                f"waiting   for space on the disk: {size(event.free_bytes)} are free,"
                f" {size(event.wanted_bytes)} are wanted. Free some, and it goes on by itself."
            )
        case Resumed():
            text = f"going on  after {event.seconds:.0f} s: there is space again"
        case Waiting():
            text = f"waiting   {event.text} It goes on by itself."
        case GoingOn():
            text = f"going on  after {event.seconds:.0f} s: the {event.reason} is there again"
        case SnapshotMade():
            text = f"snapshot  of {event.at:%Y-%m-%d %H:%M:%S} UTC: the crawl log begins anew"
        case _:
            text = f"recovered {event.text}"
    return text


def summary(account: Account) -> list[str]:
    """The run in a few lines."""
    if account.handed_over:
        return [f"Left to the workers of the shared frontier (`weboid worker`): {account.left}."]
    pages = ", ".join(f"{count} {outcome}" for outcome, count in sorted(account.outcomes.items()))
    rate = sum(account.outcomes.values()) / account.seconds * 60 if account.seconds else 0.0
    lines = [
        f"Pages: {pages or 'none'}. {account.records} records, {size(account.stored_bytes)},"
        f" {account.seconds:.1f} s, {rate:.0f} pages/min."
    ]
    if account.links:
        lines.append(f"Links that joined: {account.links}.")
    if account.skipped:
        why = ", ".join(f"{count} {word}" for word, count in account.skipped.most_common(10))
        lines.append(f"Skipped: {account.skipped.total()} ({why}).")
    if account.failures:
        lines.append(f"Given up: {account.failures}.")
    if account.checked:
        found = ", ".join(
            f"{count} {verdict or 'unchecked'}" for verdict, count in in_order(account.checked)
        )
        lines.append(f"Checked: {account.checked.total()} ({found}).")
    if account.repaired:
        ended = ", ".join(f"{count} {state}" for state, count in account.repaired.most_common())
        lines.append(f"Captured again: {account.repaired.total()} ({ended}).")
    if account.left:
        lines.append(f"Left: {account.left}. The same command goes on with them.")
    return lines


def in_order(counts: Mapping[Verdict, int]) -> list[tuple[Verdict, int]]:
    """What was found, the worst first."""
    order = (Verdict.BROKEN, Verdict.DOUBTFUL, Verdict.GOOD, Verdict.UNCHECKED)
    return [(verdict, counts[verdict]) for verdict in order if counts.get(verdict)]


def size(count: float) -> str:
    """Bytes for people.

    >>> size(999), size(1_500_000)
    ('999 B', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
