"""One page: read now, repaired, verified, written down, saved, settled.

The page's text is read right before the edit, and what is saved is that text with the repairs in it. After
a conflict all begins anew, three times at most. An edit is in the book before it is sent, so that whatever
stops us between the two, nothing is done twice (`wiki.editing.recovering`).
"""

import difflib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core.errors import WeboidError
from links.books.edits import (
    Change,
    Edit,
    EditKind,
    EditState,
    Intended,
    edits_by_id,
    forget,
    intend,
    move,
    note_nothing,
)
from links.store.store import Store
from wiki.api.client import Api
from wiki.api.edits import EditConflictError, Edited, PageGoneError, PageRefusedError, Saving, edit
from wiki.api.errors import ReadOnlyError, ThrottledError, WikiAwayError, WikiRefusedError
from wiki.api.history import first_with
from wiki.api.revisions import PageNow, read_now, text_of
from wiki.editing.copy_looks import CopyLooks, PageLooks
from wiki.editing.crafts import Craft, key_of
from wiki.editing.deciding import Choosing, CopyEvidence, Known, basis_of, remedies, undated
from wiki.editing.guarding import Guard
from wiki.editing.verifying import UnsafeRepairError, align, verify, verify_done
from wiki.settings import BotSettings
from wiki.wikitext.citations import Citation
from wiki.wikitext.permission import objection
from wiki.wikitext.repairing_types import Condition, Reason, Refused, Remedy, Repaired

ATTEMPTS: Final = 3  # after conflicts
LOOKS: Final = 5  # choices of copies for a page until all of them are shown
DATED: Final = 10  # links of a page whose day is looked for in its history


class Did(StrEnum):
    """What came of a page."""

    EDITED = "edited"
    PROPOSED = "proposed"  # a dry run, or a message in place of an edit
    NOTHING = "nothing to do"
    FORBIDDEN = "bots are asked to stay away"
    UNFIT = "no wikitext page"
    GONE = "gone"
    REFUSED = "refused"
    CONFLICT = "edit conflicts"
    UNSAFE = "not safe"
    UNKNOWN = "no answer"  # the edit may have been made; the next run finds out
    HELD = "undone before"  # B14: a review is awaited
    BROKEN = "internal error"  # of ours; the log has its traceback


@dataclass(frozen=True)
class Task:
    """A page that may have something to mend.

    Attributes:
        page_id: the wiki's number.
        title: as the registry knows it.
        known: what is known of its links, by identity key.
        held: links about which nothing is done there, and the edit that is the reason of each.
    """

    page_id: int
    title: str
    known: Mapping[str, Known]
    held: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a task.

    Attributes:
        rev: the revision that was made; 0: none.
        text: before.
        repaired: what was, or would be, saved, and what was left as it is; None: it was not looked at.
        note: why nothing was done.
    """

    did: Did
    page_id: int
    title: str
    rev: int = 0
    text: str = ""
    repaired: Repaired | None = None
    note: str = ""

    def diff(self) -> list[str]:
        """The change as a unified diff, lines without their ends; [] without one."""
        if self.repaired is None:
            return []
        pages = (self.text.split("\n"), self.repaired.text.split("\n"))
        return list(difflib.unified_diff(*pages, self.title, self.title, n=1, lineterm=""))


@dataclass(frozen=True)
class Draft:
    """A page with what is to be saved, before it is."""

    now: PageNow
    citations: Sequence[Citation]
    repaired: Repaired
    after: Sequence[Citation]
    remedies: Mapping[str, Remedy] = field(default_factory=dict)


Steps = Callable[[str], None]
"""Told the name of each step as it is reached: tests stop there."""


@dataclass(frozen=True)
class Bench:
    """What a page is worked on with.

    Attributes:
        wiki_id: the registry's number.
        job: the run's name, told in summaries.
        looks: looks at copies before they are cited.
        step: told of each step.
    """

    store: Store
    api: Api
    craft: Craft
    guard: Guard
    choosing: Choosing
    settings: BotSettings
    wiki_id: int
    job: str
    looks: CopyLooks
    step: Steps = lambda _name: None

    @property
    def moment(self) -> int:
        """Now, in seconds since 1970."""
        return self.guard.moment


async def mend(bench: Bench, task: Task, *, is_dry: bool = False) -> Outcome:
    """Mend a page, or say what would be done.

    Raises:
        StoppedError: nothing may be edited any more.
        WikiAwayError: the wiki does not answer, is read-only, or wants to be left alone.
        LoggedOutError: the account is not taken.
        TransientError: the registry's database does not answer.
    """
    looks = PageLooks(bench.looks)
    for _ in range(ATTEMPTS):
        drafted = await _drafted(bench, task, looks, is_dry=is_dry)
        if isinstance(drafted, Draft) and not is_dry and await bench.guard.wait():
            # Time has passed: read it anew.
            drafted = await _drafted(bench, task, looks, is_dry=is_dry)
        if isinstance(drafted, Outcome):
            return drafted
        if is_dry:
            return _outcome(Did.PROPOSED, drafted)
        outcome = await _save(bench, task, drafted, looks)
        if outcome.did is not Did.CONFLICT:
            return outcome
    return Outcome(Did.CONFLICT, task.page_id, task.title, note=f"{ATTEMPTS} times")


async def _drafted(bench: Bench, task: Task, looks: PageLooks, *, is_dry: bool) -> Draft | Outcome:
    """What is to be saved, of the page as it is now; that nothing is goes into the book."""
    if not is_dry:
        await bench.guard.ask()
    bench.step("read")
    now = await read_now(bench.api, task.page_id)
    drafted = await _shown(bench, task, now, looks)
    if isinstance(drafted, Outcome) and drafted.did in (Did.NOTHING, Did.HELD) and not is_dry:
        refused = () if drafted.repaired is None else drafted.repaired.refused
        if not any(each.reason is Reason.UNSHOWN for each in refused):  # that may pass
            _book_nothing(bench, task, now)
    return drafted


async def _shown(bench: Bench, task: Task, now: PageNow, looks: PageLooks) -> Draft | Outcome:
    """Return what is to be saved, all copies in it fetched and seen; or why nothing is.

    A copy that is not shown gives way to the next best. Where none is shown the link stays as it is.
    """
    added = await _added(bench, task, now)
    if _unfit(bench, now) is None:
        citations = bench.craft.read(now.text)
        wanted = remedies(citations, task.known, task.held, bench.choosing, added)
        lost = {url: each for url, each in wanted.items() if each.condition is not Condition.ALIVE}
        await looks.look_at_page(citations, lost)
    drafted = draft(bench, task, now, added, looks)
    for _ in range(LOOKS):
        if isinstance(drafted, Outcome) or await _is_shown(drafted, looks):
            break
        drafted = draft(bench, task, now, added, looks)
    else:
        drafted = Outcome(Did.NOTHING, task.page_id, task.title, note=Reason.UNSHOWN)
    if isinstance(drafted, Outcome) and looks.unshown:
        seen = "; ".join(f"{address}: {note}" for address, note in looks.unshown.items())
        drafted = replace(drafted, note=f"{drafted.note}: {seen}"[:1_000])
    return drafted


async def _is_shown(drafted: Draft, looks: PageLooks) -> bool:
    """Return True when every address that the draft newly cites shows its copy."""
    there = {each.archive_url for each in drafted.citations}
    shown = True
    for change in drafted.repaired.changes:
        remedy = drafted.remedies.get(change.url)
        if not change.archive_url or change.archive_url in there:
            continue
        if remedy is None or remedy.copy is None:
            continue  # the page's own copy, at another place or with https
        name = remedy.copy.address
        shown = await looks.is_shown(change.archive_url, change.url, name=name) and shown
    return shown


async def _added(bench: Bench, task: Task, now: PageNow) -> dict[str, datetime]:
    """When links came onto the page of which nobody says when they were read, and of which it matters.

    A few at most: of the others the day counts on which they were first seen.
    """
    if _unfit(bench, now) is not None:
        return {}
    has_own = bench.choosing.has_own
    asked = undated(bench.craft.read(now.text), task.known, task.held, has_own=has_own)
    found: dict[str, datetime] = {}
    for url in asked[:DATED]:
        with suppress(WikiRefusedError):
            revision = await first_with(bench.api, task.page_id, url)
            if revision is not None:
                found[url] = revision.moment
    return found


def draft(
    bench: Bench,
    task: Task,
    now: PageNow,
    added: Mapping[str, datetime] = MappingProxyType({}),
    looks: PageLooks | None = None,
) -> Draft | Outcome:
    """What is to be saved; or why nothing is. Pure but for our own captures, which are asked for."""
    title = now.title or task.title

    def without(did: Did, note: str = "", looked: Repaired | None = None) -> Outcome:
        return Outcome(did, task.page_id, title, text=now.text, repaired=looked, note=note)

    unfit = _unfit(bench, now)
    if unfit is not None:
        return without(*unfit)
    citations = bench.craft.read(now.text)
    seen = CopyEvidence() if looks is None else CopyEvidence(looks.bad, looks.unshown)
    wanted = remedies(citations, task.known, task.held, bench.choosing, added, seen)
    repaired = bench.craft.repair(now.text, wanted)
    repaired = replace(repaired, refused=(*repaired.refused, *_left_alone(citations, task, wanted)))
    if not repaired.changes or repaired.text == now.text:
        if task.held:
            numbers = ", ".join(map(str, sorted(set(task.held.values()))))
            return without(
                Did.HELD, f"edit {numbers} was undone, and is not repeated for now", repaired
            )
        reasons = sorted({each.reason for each in repaired.refused})
        return without(Did.NOTHING, ", ".join(reasons), repaired)
    after = bench.craft.read(repaired.text)
    try:
        verify(now.text, repaired, citations, after)
        waits = any(each.reason is Reason.LATER for each in repaired.refused)
        verify_done(bench.craft.repair(repaired.text, wanted), waits=waits)
    except UnsafeRepairError as error:
        return without(Did.UNSAFE, str(error))
    return Draft(now, citations, repaired, after, wanted)


def _left_alone(
    citations: Sequence[Citation], task: Task, wanted: Mapping[str, Remedy]
) -> list[Refused]:
    """Return the citations of lost links that have no remedy for now (`remedies`), with the reason."""
    found = []
    for each in citations:
        known = task.known.get(key_of(each.url))
        if known is None or known.condition is Condition.ALIVE or known.url_id in task.held:
            continue
        if each.url not in wanted:
            is_walled = known.is_refused and each.is_paywalled
            found.append(Refused(each, Reason.PAYWALL if is_walled else Reason.UNSHOWN))
    return found


def _unfit(bench: Bench, now: PageNow) -> tuple[Did, str] | None:
    """Why the page is not to be edited, whatever stands in it; None: it may be."""
    if now.is_missing:
        return Did.GONE, ""
    if now.model != "wikitext" or now.is_redirect:
        return Did.UNFIT, "a redirect" if now.is_redirect else now.model
    return None if bench.craft.may_edit(now.text) else (Did.FORBIDDEN, objection(now.text))


async def _save(bench: Bench, task: Task, drafted: Draft, looks: PageLooks) -> Outcome:
    """Save what was drafted; the book knows of it before the wiki does."""
    now, repaired = drafted.now, drafted.repaired
    digest = hashlib.sha1(repaired.text.encode(), usedforsecurity=False).hexdigest()
    changes = changes_of(task, drafted)
    wanted = Intended(now.page_id, bench.job, now.rev_id, digest, EditKind.PAGE, changes)
    with bench.store.writing() as rows:
        number = intend(rows, bench.wiki_id, wanted, moment=bench.moment)
    bench.step("intended")
    made = await _send(bench, drafted, number)
    bench.step("saved")
    if isinstance(made, Outcome):
        return made
    if made.rev is None:
        _settle(bench, number, EditState.NOTHING)
        return Outcome(Did.NOTHING, now.page_id, now.title, text=now.text)
    _settle(bench, number, EditState.MADE, rev=made.rev)
    bench.step("booked")
    outcome = replace(_outcome(Did.EDITED, drafted), rev=made.rev)
    if made.replaced not in (0, now.rev_id):
        return await _mend_overwritten(bench, task, made, outcome, looks)
    return outcome


async def _send(bench: Bench, drafted: Draft, number: int) -> Edited | Outcome:
    """Send the edit; what the wiki said of it, or what came of the page in place of that."""
    saving = Saving(bench.craft.summary(drafted.repaired, bench.job), is_marked=bench.settings.mark)
    try:
        return await edit(bench.api, drafted.now, drafted.repaired.text, saving)
    except EditConflictError:
        _drop(bench, number)
        return _outcome(Did.CONFLICT, drafted)
    except (PageGoneError, PageRefusedError) as error:
        _settle(bench, number, EditState.FAILED, note=str(error))
        did = Did.GONE if isinstance(error, PageGoneError) else Did.REFUSED
        return replace(_outcome(did, drafted), note=str(error))
    except WikiAwayError as error:
        if not (error.is_unsent or isinstance(error, ReadOnlyError | ThrottledError)):
            # It may have been made. The row stays: whoever comes next looks into the history.
            return replace(_outcome(Did.UNKNOWN, drafted), note=str(error))
        _drop(bench, number)
        raise
    except WeboidError:
        _drop(bench, number)
        raise
    finally:
        bench.guard.made()


async def _mend_overwritten(
    bench: Bench, task: Task, made: Edited, outcome: Outcome, looks: PageLooks
) -> Outcome:
    """Bring back an edit that came between our reading and our saving, and that ours replaced.

    MediaWiki tells of no conflict with the same account, nor with an edit of the same second. Other
    edits it merges, or tells of. So what was written meanwhile is repaired and saved in turn.
    """
    now = await read_now(bench.api, task.page_id)
    is_merged = now.text.rstrip() != (outcome.repaired.text.rstrip() if outcome.repaired else "")
    if now.rev_id == made.rev and is_merged:
        return outcome
    lost = await text_of(bench.api, made.replaced)
    if lost is None or now.rev_id != made.rev:
        return replace(outcome, note=f"revision {made.replaced} may have been replaced by ours")
    drafted = await _shown(bench, task, replace(now, text=lost), looks)
    text = drafted.repaired.text if isinstance(drafted, Draft) else lost
    saving = Saving(
        f"Bringing back revision {made.replaced}, which an edit at the same moment had replaced"
        f" (job {bench.job})",
        is_marked=bench.settings.mark,
    )
    try:
        again = await edit(bench.api, now, text, saving)
    except (EditConflictError, PageGoneError, PageRefusedError) as error:
        return replace(outcome, note=f"revision {made.replaced} was replaced by ours: {error}")
    return replace(outcome, rev=again.rev or outcome.rev)


def changes_of(task: Task, drafted: Draft) -> tuple[Change, ...]:
    """What the edit does to each link, as the book keeps it: whole citations, before and after."""
    before = _places(drafted.citations)
    places = align(drafted.citations, drafted.after) or []
    found = []
    for change in drafted.repaired.changes:
        known = task.known.get(key_of(change.url))
        at = min((piece.span.start for piece in change.replacements), default=0)
        index = _nearest(drafted.citations, before.get(change.url, ()), at)
        was, became = change.before, change.after
        if index is not None and places:
            was = source(drafted.now.text, drafted.citations[index])
            became = source(drafted.repaired.text, drafted.after[places[index]])
        found.append(Change(0 if known is None else known.url_id, str(change.kind), was, became))
    return tuple(found)


def draft_changes(task: Task, repaired: Repaired) -> tuple[Change, ...]:
    """What a repair does to each link, told by its pieces alone."""
    found = []
    for change in repaired.changes:
        known = task.known.get(key_of(change.url))
        number = 0 if known is None else known.url_id
        found.append(Change(number, str(change.kind), change.before, change.after))
    return tuple(found)


def source(text: str, citation: Citation) -> str:
    """The wikitext of a citation, with the tags beside it."""
    ends = [tag.span for tag in (citation.dead_tag, citation.archive_tag) if tag is not None]
    spans = [citation.span, *ends]
    return text[min(span.start for span in spans) : max(span.end for span in spans)]


def _places(citations: Sequence[Citation]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, each in enumerate(citations):
        found.setdefault(each.url, []).append(index)
    return found


def _nearest(citations: Sequence[Citation], indexes: Sequence[int], at: int) -> int | None:
    """Of these citations the one at that place of the text."""

    def away(index: int) -> int:
        span = citations[index].span
        return max(span.start - at, at - span.end, 0)

    return min(indexes, key=away, default=None)


def _outcome(did: Did, drafted: Draft) -> Outcome:
    now = drafted.now
    return Outcome(did, now.page_id, now.title, text=now.text, repaired=drafted.repaired)


def _book_nothing(bench: Bench, task: Task, now: PageNow) -> None:
    wanted = Intended(task.page_id, bench.job, now.rev_id)
    basis = task_basis(task, bench.settings)
    with bench.store.writing() as rows:
        note_nothing(rows, bench.wiki_id, wanted, basis, moment=bench.moment)


def task_basis(task: Task, settings: BotSettings) -> bytes:
    """A digest of what a decision about the page hangs on, but for its text."""
    wishes = f"{settings.convert_bare} {settings.tag_dead} {settings.front}"
    return basis_of(task.known.values(), task.held, wishes)


def _drop(bench: Bench, number: int) -> None:
    with bench.store.writing() as rows:
        forget(rows, number)


def _settle(
    bench: Bench, number: int, state: EditState, *, rev: int | None = None, note: str = ""
) -> Edit:
    with bench.store.writing() as rows:
        there = edits_by_id(rows, [number])[number]
        return move(rows, there, state, moment=bench.moment, rev=rev, note=note)
