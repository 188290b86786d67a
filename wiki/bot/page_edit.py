"""Edit of one page: read, repair, verify, record, save, settle.

After a conflict the edit starts over, at most three times. An edit is recorded before it is sent, so that
after a crash nothing is done twice (`wiki.bot.past_edits`).
"""

import difflib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.errors import WeboidError
from links.registry import bot_edits
from links.registry.database import RegistryStore
from wiki.api import edit_request
from wiki.api.client import WikiApi
from wiki.api.models import ReadOnlyError, ThrottledError, WikiAwayError, WikiRefusedError
from wiki.api.page_query import EditablePage, first_revision_with, read_now, read_revision_text
from wiki.bot import wikitext_adapter
from wiki.bot.remedies import (
    CopyChecker,
    CopyPreferences,
    KnownLink,
    PageCopyChecks,
    choose_remedies,
    decision_digest,
    undated_urls,
)
from wiki.settings import BotSettings
from wiki.wikitext.citation_model import (
    Citation,
    LinkCondition,
    LinkRemedy,
    NoRepairReason,
    RepairedText,
    UnrepairedCitation,
)

EDIT_ATTEMPTS: Final = 3  # after conflicts
COPY_CHOICE_ROUNDS: Final = 5  # choices of copies for a page until all of them are shown
DATED_LINKS_LIMIT: Final = 10  # links of a page whose day is looked for in its history


class PageEditStatus(StrEnum):
    """Outcome of processing a page."""

    EDITED = "edited"
    PROPOSED = "proposed"  # a dry run, or a message in place of an edit
    NOTHING = "nothing to do"
    FORBIDDEN = "the page excludes bots"
    UNFIT = "no wikitext page"
    GONE = "gone"
    REFUSED = "refused"
    CONFLICT = "edit conflicts"
    UNSAFE = "not safe"
    UNKNOWN = "no answer"  # the edit may have been made; the next run finds out
    HELD = "undone before"  # B14: a review is awaited
    OFF = "switched off"  # for this page
    CHANGED = "not as approved"  # the edit would be another one than was approved
    BROKEN = "internal error"  # internal; the log has its traceback


@dataclass(frozen=True)
class EditTask:
    """Page that may need repairs."""

    page_id: int  # the wiki's id
    title: str  # as stored in the registry
    known: Mapping[str, KnownLink]  # registry data of its links, by identity key
    held: Mapping[int, int] = field(default_factory=dict)  # links to leave, by the edit why


@dataclass(frozen=True)
class PageEditResult:
    """Result of a task."""

    did: PageEditStatus
    page_id: int
    title: str
    rev: int = 0  # the new revision; 0: none
    text: str = ""  # the text before
    repaired: RepairedText | None = None  # None: not processed
    note: str = ""  # the reason when nothing was done

    def diff(self) -> list[str]:
        """Return the change as lines of a unified diff, without line ends; [] without one."""
        if self.repaired is None:
            return []
        pages = (self.text.split("\n"), self.repaired.text.split("\n"))
        return list(difflib.unified_diff(*pages, self.title, self.title, n=1, lineterm=""))

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the text after the change, in hexadecimal; empty without one."""
        return "" if self.repaired is None else hashlib.sha256(self.repaired.text.encode()).hexdigest()


@dataclass(frozen=True)
class EditDraft:
    """Page with its new text, before saving."""

    now: EditablePage
    citations: Sequence[Citation]
    repaired: RepairedText
    after: Sequence[Citation]
    remedies: Mapping[str, LinkRemedy] = field(default_factory=dict)


StepCallback = Callable[[str], None]  # called with the name of each step as it is reached: tests stop there


@dataclass(frozen=True)
class EditContext:
    """Dependencies for editing pages."""

    store: RegistryStore
    api: WikiApi
    adapter: wikitext_adapter.PageAdapter
    guard: edit_request.EditGuard
    choosing: CopyPreferences
    settings: BotSettings
    wiki_id: int  # the registry's id
    job: str  # the run's name, given in summaries
    copy_checker: CopyChecker  # checks copies before they are cited
    step: StepCallback = lambda _name: None  # progress callback
    approved: str = ""  # `PageEditResult.digest` of the only edit that may be made; empty: any

    @property
    def moment(self) -> int:
        """Return the current time in seconds since 1970."""
        return self.guard.moment


async def edit_page(context: EditContext, task: EditTask, *, is_dry: bool = False) -> PageEditResult:
    """Repair a page, or return the proposal in a dry run.

    Raises EditingStoppedError; WikiAwayError, LoggedOutError, TransientError: wiki, account or registry is unavailable.
    """
    checks = PageCopyChecks(context.copy_checker)
    for _ in range(EDIT_ATTEMPTS):
        drafted = await _read_and_draft(context, task, checks, is_dry=is_dry)
        if isinstance(drafted, EditDraft) and not is_dry and await context.guard.wait():
            # Time has passed: read the page again.
            drafted = await _read_and_draft(context, task, checks, is_dry=is_dry)
        if isinstance(drafted, PageEditResult):
            return drafted
        if is_dry:
            return _outcome(PageEditStatus.PROPOSED, drafted)
        if context.approved not in ("", _outcome(PageEditStatus.PROPOSED, drafted).digest):
            return _outcome(PageEditStatus.CHANGED, drafted)
        outcome = await _save(context, task, drafted, checks)
        if outcome.did is not PageEditStatus.CONFLICT:
            return outcome
    return PageEditResult(PageEditStatus.CONFLICT, task.page_id, task.title, note=f"{EDIT_ATTEMPTS} times")


async def _read_and_draft(
    context: EditContext, task: EditTask, checks: PageCopyChecks, *, is_dry: bool
) -> EditDraft | PageEditResult:
    """Read the page and draft its edit; record in the edit log if there is nothing to do."""
    if not is_dry:
        await context.guard.check()
    context.step("read")
    now = await read_now(context.api, task.page_id)
    drafted = await _draft_with_seen_copies(context, task, now, checks)
    if isinstance(drafted, PageEditResult) and drafted.did in (PageEditStatus.NOTHING, PageEditStatus.HELD):
        refused = () if drafted.repaired is None else drafted.repaired.refused
        if not is_dry and not any(each.reason is NoRepairReason.UNSHOWN for each in refused):  # that may pass
            wanted = bot_edits.IntendedEdit(task.page_id, context.job, now.rev_id)
            basis = task_basis(task, context.settings)
            with context.store.writing() as rows:
                bot_edits.note_nothing_to_do(rows, context.wiki_id, wanted, basis, moment=context.moment)
    return drafted


async def _draft_with_seen_copies(
    context: EditContext, task: EditTask, now: EditablePage, checks: PageCopyChecks
) -> EditDraft | PageEditResult:
    """Draft an edit whose copies were all fetched and verified, the next best one otherwise; or return a reason."""
    title = now.title or task.title
    unfit = None
    if now.is_missing:
        unfit = PageEditStatus.GONE, ""
    elif now.model != "wikitext" or now.is_redirect:
        unfit = PageEditStatus.UNFIT, "a redirect" if now.is_redirect else now.model
    elif objection := edit_request.edit_objection(now.text, context.adapter.options.bot):
        unfit = PageEditStatus.FORBIDDEN, objection
    if unfit is not None:
        return PageEditResult(unfit[0], task.page_id, title, text=now.text, note=unfit[1])
    citations = context.adapter.read(now.text)
    # The dates on which links were added, where an access date is missing and needed; limited to a few
    # links: for the others the day of first observation is used.
    added: dict[str, datetime] = {}
    undated = undated_urls(citations, task.known, task.held, has_own=context.choosing.has_own)
    for url in undated[:DATED_LINKS_LIMIT]:
        with suppress(WikiRefusedError):
            revision = await first_revision_with(context.api, task.page_id, url)
            if revision is not None:
                added[url] = revision.moment
    wanted = choose_remedies(citations, task.known, task.held, context.choosing, added)
    lost = {url: each for url, each in wanted.items() if each.condition is not LinkCondition.ALIVE}
    await checks.check_page(citations, lost)
    drafted: EditDraft | PageEditResult
    for _ in range(COPY_CHOICE_ROUNDS):
        drafted = _draft_edit(context, task, now, citations, added, checks)
        if isinstance(drafted, PageEditResult) or await _is_shown(drafted, checks):
            break
    else:
        drafted = PageEditResult(PageEditStatus.NOTHING, task.page_id, task.title, note=NoRepairReason.UNSHOWN)
    if isinstance(drafted, PageEditResult) and checks.unshown:
        reasons = "; ".join(f"{address}: {note}" for address, note in checks.unshown.items())
        drafted = replace(drafted, note=f"{drafted.note}: {reasons}"[:1_000])
    return drafted


async def _is_shown(drafted: EditDraft, checks: PageCopyChecks) -> bool:
    """Return True if every address newly cited by the draft shows its copy."""
    cited_copies, shown = {"", *(each.archive_url for each in drafted.citations)}, True
    for change in drafted.repaired.changes:
        remedy = drafted.remedies.get(change.url)
        # Without a remedy's copy it is the page's own, at another place or with https.
        if change.archive_url not in cited_copies and remedy is not None and remedy.copy is not None:
            shown = await checks.is_shown(change.archive_url, change.url, name=remedy.copy.address) and shown
    return shown


def _draft_edit(
    context: EditContext,
    task: EditTask,
    now: EditablePage,
    citations: Sequence[Citation],
    added: Mapping[str, datetime],
    checks: PageCopyChecks,
) -> EditDraft | PageEditResult:
    """Draft an edit, or return the reason for none. Pure except for the lookup of our own captures."""
    wanted = choose_remedies(citations, task.known, task.held, context.choosing, added, checks)
    repaired = context.adapter.repair(now.text, wanted)
    refused = list(repaired.refused)
    for each in citations:
        known = task.known.get(wikitext_adapter.url_key_or_empty(each.url))
        is_lost = known is not None and known.condition is not LinkCondition.ALIVE and known.url_id not in task.held
        if known is not None and is_lost and each.url not in wanted:
            is_walled = known.is_refused and each.is_paywalled
            refused.append(UnrepairedCitation(each, NoRepairReason.PAYWALL if is_walled else NoRepairReason.UNSHOWN))
    repaired = replace(repaired, refused=tuple(refused))
    title, note = now.title or task.title, ", ".join(sorted({each.reason for each in refused}))
    nothing = PageEditResult(PageEditStatus.NOTHING, task.page_id, title, 0, now.text, repaired, note)
    if not repaired.changes or repaired.text == now.text:
        if not task.held:
            return nothing
        numbers = ", ".join(map(str, sorted(set(task.held.values()))))
        return replace(nothing, did=PageEditStatus.HELD, note=f"edit {numbers} was undone, and is not repeated for now")
    after = context.adapter.read(repaired.text)
    try:
        wikitext_adapter.verify_repair(now.text, repaired, citations, after)
        waits = any(each.reason is NoRepairReason.LATER for each in repaired.refused)
        wikitext_adapter.verify_idempotent(context.adapter.repair(repaired.text, wanted), waits=waits)
    except wikitext_adapter.UnsafeRepairError as error:
        return replace(nothing, did=PageEditStatus.UNSAFE, repaired=None, note=str(error))
    return EditDraft(now, citations, repaired, after, wanted)


async def _save(context: EditContext, task: EditTask, drafted: EditDraft, checks: PageCopyChecks) -> PageEditResult:
    now, repaired = drafted.now, drafted.repaired
    digest = hashlib.sha1(repaired.text.encode(), usedforsecurity=False).hexdigest()
    changes = changes_of(task, drafted)
    wanted = bot_edits.IntendedEdit(now.page_id, context.job, now.rev_id, digest, bot_edits.EditKind.PAGE, changes)
    with context.store.writing() as rows:
        number = bot_edits.record_intended_edit(rows, context.wiki_id, wanted, moment=context.moment)
    context.step("intended")
    edit = await _send(context, drafted, number)
    context.step("saved")
    if isinstance(edit, PageEditResult):
        return edit
    if edit.rev is None:
        settle_edit(context, number, bot_edits.EditState.NOTHING)
        return PageEditResult(PageEditStatus.NOTHING, now.page_id, now.title, text=now.text)
    settle_edit(context, number, bot_edits.EditState.MADE, rev=edit.rev)
    context.step("booked")
    outcome = replace(_outcome(PageEditStatus.EDITED, drafted), rev=edit.rev)
    if edit.replaced not in (0, now.rev_id):
        return await _restore_overwritten(context, task, edit, outcome, checks)
    return outcome


async def _send(context: EditContext, drafted: EditDraft, number: int) -> edit_request.SavedEdit | PageEditResult:
    saving = edit_request.EditOptions(
        context.adapter.summary(drafted.repaired, context.job), is_marked=context.settings.mark
    )
    try:
        return await edit_request.save_edit(context.api, drafted.now, drafted.repaired.text, saving)
    except edit_request.EditConflictError:
        drop_intended(context, number)
        return _outcome(PageEditStatus.CONFLICT, drafted)
    except (edit_request.PageDeletedError, edit_request.PageRefusedError) as error:
        settle_edit(context, number, bot_edits.EditState.FAILED, note=str(error))
        did = PageEditStatus.GONE if isinstance(error, edit_request.PageDeletedError) else PageEditStatus.REFUSED
        return replace(_outcome(did, drafted), note=str(error))
    except WikiAwayError as error:
        if not (error.is_unsent or isinstance(error, ReadOnlyError | ThrottledError)):
            # It may have been made. The row stays open; the next run checks the history.
            return replace(_outcome(PageEditStatus.UNKNOWN, drafted), note=str(error))
        drop_intended(context, number)
        raise
    except WeboidError:
        drop_intended(context, number)
        raise
    finally:
        context.guard.made()


async def _restore_overwritten(
    context: EditContext, task: EditTask, edit: edit_request.SavedEdit, outcome: PageEditResult, checks: PageCopyChecks
) -> PageEditResult:
    """Restore and repair an edit made between reading and saving that the bot's edit replaced.

    MediaWiki reports no conflict with the same account or with an edit of the same second.
    """
    now = await read_now(context.api, task.page_id)
    is_merged = now.text.rstrip() != (outcome.repaired.text.rstrip() if outcome.repaired else "")
    if now.rev_id == edit.rev and is_merged:
        return outcome
    lost = await read_revision_text(context.api, edit.replaced)
    if lost is None or now.rev_id != edit.rev:
        return replace(outcome, note=f"revision {edit.replaced} may have been replaced by ours")
    drafted = await _draft_with_seen_copies(context, task, replace(now, text=lost), checks)
    text = drafted.repaired.text if isinstance(drafted, EditDraft) else lost
    saving = edit_request.EditOptions(
        f"Restoring revision {edit.replaced}, which an edit at the same moment had replaced (job {context.job})",
        is_marked=context.settings.mark,
    )
    try:
        again = await edit_request.save_edit(context.api, now, text, saving)
    except (edit_request.EditConflictError, edit_request.PageDeletedError, edit_request.PageRefusedError) as error:
        return replace(outcome, note=f"revision {edit.replaced} was replaced by ours: {error}")
    return replace(outcome, rev=again.rev or outcome.rev)


def changes_of(task: EditTask, drafted: EditDraft) -> tuple[bot_edits.EditChange, ...]:
    """Return the change of each link for the edit log: whole citations with their tags, before and after."""
    places = wikitext_adapter.align_citations(drafted.citations, drafted.after) or []

    def away(index: int, at: int) -> int:
        span = drafted.citations[index].span
        return max(span.start - at, at - span.end, 0)

    def source(text: str, citation: Citation) -> str:
        spans = [tag.span for tag in (citation, citation.dead_tag, citation.archive_tag) if tag is not None]
        return text[min(span.start for span in spans) : max(span.end for span in spans)]

    changes = list(draft_changes(task, drafted.repaired))
    for number, change in enumerate(drafted.repaired.changes):
        at = min((piece.span.start for piece in change.replacements), default=0)
        indexes = [i for i, each in enumerate(drafted.citations) if each.url == change.url]
        if indexes and places:
            index = min(indexes, key=lambda each: away(each, at))
            was = source(drafted.now.text, drafted.citations[index])
            became = source(drafted.repaired.text, drafted.after[places[index]])
            changes[number] = replace(changes[number], before=was, after=became)
    return tuple(changes)


def draft_changes(task: EditTask, repaired: RepairedText) -> tuple[bot_edits.EditChange, ...]:
    """Return the change of each link, described by its replaced pieces only."""
    known = ((task.known.get(wikitext_adapter.url_key_or_empty(each.url)), each) for each in repaired.changes)
    return tuple(
        bot_edits.EditChange(link.url_id if link is not None else 0, str(each.kind), each.before, each.after)
        for link, each in known
    )


def _outcome(did: PageEditStatus, drafted: EditDraft) -> PageEditResult:
    now = drafted.now
    return PageEditResult(did, now.page_id, now.title, text=now.text, repaired=drafted.repaired)


def task_basis(task: EditTask, settings: BotSettings) -> bytes:
    """Hash the inputs of a decision about the page, except its text."""
    choices = f"{settings.convert_bare} {settings.tag_dead} {settings.front}"
    return decision_digest(task.known.values(), task.held, choices)


def drop_intended(context: EditContext, number: int) -> None:
    """Remove the record of an edit that was certainly not made."""
    with context.store.writing() as rows:
        bot_edits.forget_edit(rows, number)


def settle_edit(
    context: EditContext, number: int, state: bot_edits.EditState, *, rev: int | None = None, note: str = ""
) -> None:
    """Record the outcome of an intended edit."""
    with context.store.writing() as rows:
        edit = bot_edits.edits_by_id(rows, [number])[number]
        bot_edits.move_edit(rows, edit, state, moment=context.moment, rev=rev, note=note)
