"""Past edits of the bot: recovery of unknown outcomes, watch for reverts, review of reverts (docs/how-to/bot.md).

A revision is the bot's edit when its account made it after the base revision, and its summary names the job or its text
is the one that was sent. Edits are watched for a month. A change counts as undone when the link is still on the page
without what the bot added; not when it was removed with its citation, nor when a revision goes back behind the bot's
edit and removes edits of others as well (`EditState.SWEPT`). An undone change counts as a report by that account that
the link works: it is checked again on the same day, and not changed on that page until a review (`review_revert`).
"""

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from core.errors import InputError, WeboidError
from links.check_history import day_of
from links.feedback.reporter_limits import ActLimit, LimitedAct, Limits, ReporterDigests
from links.feedback.reports import NeedlessReportError, add_report, withdraw_reports
from links.registry import bot_edits
from links.registry.database import RegistryStore
from links.registry.lookups import url_facts
from links.registry.urls import urls_by_id
from wiki.api.client import WikiApi
from wiki.api.models import Revision, WikiPage
from wiki.api.page_query import earlier_digests, history_after, read_heads, read_now, read_revision_text
from wiki.bot.wikitext_adapter import PageAdapter, url_key_or_empty
from wiki.wikitext.citation_model import Citation, RepairKind

SETTLED_S: Final = 600  # no request to a wiki lasts longer


async def recover_edits(
    store: RegistryStore, api: WikiApi, wiki_id: int, *, me: str, now: int
) -> tuple[list[bot_edits.BotEdit], frozenset[int]]:
    """Settle open edits; return them and the pages to skip for now. Raises WikiAwayError."""
    with store.reading() as rows:
        open_edits = bot_edits.edits_in(rows, wiki_id, [bot_edits.EditState.INTENDED])
    settled, waiting = [], set()
    for edit in open_edits:
        revision = None
        if edit.kind is bot_edits.EditKind.PAGE:
            revision = find_our_revision(edit, await history_after(api, edit.page_id, edit.base_rev), me=me)
        if revision is None and edit.kind is bot_edits.EditKind.PAGE and now - edit.moment < SETTLED_S:
            waiting.add(edit.page_id)
            continue
        # A message that may not have been left is not left twice: a month passes until the next.
        is_made = revision is not None or edit.kind is bot_edits.EditKind.TALK
        state = bot_edits.EditState.MADE if is_made else bot_edits.EditState.ABANDONED
        with store.writing() as rows:
            settled.append(bot_edits.move_edit(rows, edit, state, moment=now, rev=revision and revision.rev_id))
    return settled, frozenset(waiting)


def find_our_revision(edit: bot_edits.BotEdit, history: Sequence[Revision], *, me: str) -> Revision | None:
    """Find the revision that the edit made; None when there is none."""
    later = (each for each in history if each.rev_id > edit.base_rev and each.user == me)
    matches = (each for each in later if (edit.digest and each.sha1 == edit.digest) or edit.job in each.comment)
    return next(matches, None)


MOST_TEXT: Final = 1_000
NOBODY: Final = bytes(16)  # the digest of a reviewer: reviews have no limits
_LIMITS: Final[Limits] = dict.fromkeys((LimitedAct.REPORT, LimitedAct.WITHDRAW), ActLimit(0, None))


def edits_to_review(store: RegistryStore, wiki_id: int, *, limit: int) -> list[bot_edits.BotEdit]:
    """Return reverted edits without a review, newest first."""
    with store.reading() as rows:
        return bot_edits.newest_edits(rows, wiki_id, [bot_edits.EditState.REVERTED], limit=limit)


@dataclass(frozen=True, slots=True)
class RevertReview:
    """Review of a revert by a person."""

    is_right: bool  # the revert was right
    by: str  # name of the reviewer
    why: str = ""  # reason, in a few words


def review_revert(
    store: RegistryStore, wiki_id: int, edit_id: int, verdict: RevertReview, *, now: datetime
) -> bot_edits.BotEdit:
    """Store a review of a revert; return the updated edit. Raises InputError unless it was reverted."""
    with store.writing() as rows:
        edit = bot_edits.edits_by_id(rows, [edit_id]).get(edit_id)
        if edit is None or edit.wiki_id != wiki_id:
            raise InputError(f"There is no edit {edit_id} on that wiki: `weboid wiki bot ls` lists them.")
        state = bot_edits.EditState.ACCEPTED if verdict.is_right else bot_edits.EditState.DECLINED
        if edit.state is state:
            return edit
        if edit.state not in (bot_edits.EditState.REVERTED, bot_edits.EditState.ACCEPTED, bot_edits.EditState.DECLINED):
            raise InputError(f"Edit {edit_id} is {edit.state.name.lower()}: there is nothing to review.")
        if not verdict.is_right:
            # Take back what the revert was understood as: that its links work.
            links = {change.url_id for change in edit.changes if change.is_undone}
            for each in urls_by_id(rows, links).values():
                with suppress(NeedlessReportError):
                    withdraw_reports(rows, [each.url], NOBODY, now, limits=_LIMITS)
        moment, note = int(now.timestamp()), verdict.why[:MOST_TEXT] or edit.note
        review: dict[str, Any] = {"reviewed": moment, "reviewed_by": verdict.by[:200], "note": note}
        return bot_edits.move_edit(rows, edit, state, moment=moment, **review)


WATCHED_KINDS: Final = frozenset(RepairKind) - {RepairKind.TIDIED}
_COPY: Final = frozenset({RepairKind.CONVERTED, RepairKind.ARCHIVED, RepairKind.MOVED, RepairKind.REPLACED})
UNDO_TAGS: Final = frozenset({"mw-undo", "mw-rollback", "mw-manual-revert"})


@dataclass(frozen=True)
class EditJudgement:
    """Result of checking a past edit."""

    # MADE: it stands. ACCEPTED: undone with our own account, by the operator. SWEPT: it went with edits of others.
    state: bot_edits.EditState
    undone: frozenset[int] = frozenset()  # indexes of the changes that were undone
    by: Revision | None = None  # the revision that undid the first of them, if known
    note: str = ""  # the evidence, as text


def find_undone(
    changes: Sequence[bot_edits.EditChange], text: str, citations: Sequence[Citation], urls: Mapping[int, str]
) -> frozenset[int]:
    """Return indexes of changes that are missing from the text while their links, with identity keys, are present."""
    by_key = defaultdict[str, list[Citation]](list)
    for each in citations:
        by_key[url_key_or_empty(each.url)].append(each)
    left: dict[str, int] = {}
    undone = set()
    for place, change in enumerate(changes):
        if change.kind not in WATCHED_KINDS:
            continue
        if change.after and change.after != change.before:
            # Two citations may be identical: each occurrence counts as one change.
            occurrences = left.setdefault(change.after, text.count(change.after))
            if occurrences > 0:
                left[change.after] -= 1
                continue
            if change.before and change.before in text:
                undone.add(place)
                continue
        link = urls.get(change.url_id, "")  # empty when it was deleted
        cited = by_key[link] if link else []
        if cited and not any(_shows_change(each, RepairKind(change.kind)) for each in cited):
            undone.add(place)
    return frozenset(undone)


def judge_edit(
    edit: bot_edits.BotEdit,
    undone: frozenset[int],
    by: Revision | None,
    after: Sequence[Revision] = (),
    earlier: frozenset[str] = frozenset(),
    *,
    me: str,
) -> EditJudgement:
    """Classify the outcome of an edit; `undone`: indexes of the changes missing from the newest text.

    `after`: the page's history from the edit on, oldest first; `earlier`: SHA-1 of the base text and those before it.
    """
    if not undone:
        return EditJudgement(bot_edits.EditState.MADE)
    if by is None:
        return EditJudgement(bot_edits.EditState.REVERTED, undone, None, "its history does not show who undid it")
    if me and by.user == me:
        return EditJudgement(bot_edits.EditState.ACCEPTED, undone, by, "undone with the bot's own account")
    # The revision went back behind the edit's base, and so undid later edits of others as well.
    rev, mine = edit.rev or 0, (me, by.user)
    has_others = any(rev < each.rev_id < by.rev_id and each.user not in mine for each in after)
    is_older = by.sha1 in earlier
    if not (by.sha1 and earlier):  # the digests are hidden
        is_older = bool({"mw-rollback", "mw-manual-revert"} & set(by.tags))
    # “Undid revision 123 by …” names us.
    if has_others and is_older and str(edit.rev) not in re.findall(r"\d+", by.comment):
        return EditJudgement(bot_edits.EditState.SWEPT, undone, by, "an older text was restored, over edits of others")
    method = next((tag for tag in by.tags if tag in UNDO_TAGS), "edited by hand")
    part = "" if len(undone) == len(edit.changes) else "in part, "
    return EditJudgement(bot_edits.EditState.REVERTED, undone, by, f"{part}{method}: {by.comment}"[:500])


def _shows_change(citation: Citation, kind: RepairKind) -> bool:
    if kind is RepairKind.REVIVED:
        return not citation.is_said_dead
    if kind in _COPY:
        return bool(citation.archive_url) or citation.archive_tag is not None
    return citation.is_said_dead


WATCHED_DAYS: Final = 30
RECHECK_S: Final = 1_800  # between two checks of one edit
EDITS_AT_ONCE: Final = 500  # edits read at once
_DAY_S: Final = 86_400
# Registered users report as often as our edits are undone.
_WATCHED: Final = (*bot_edits.STANDING, *bot_edits.PARTLY, bot_edits.EditState.SWEPT, bot_edits.EditState.GONE)
_REVIEWED: Final = (bot_edits.EditState.ACCEPTED, bot_edits.EditState.DECLINED)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EditWatch:
    """Dependencies of watching edits."""

    store: RegistryStore
    api: WikiApi
    adapter: PageAdapter
    wiki_id: int  # the registry's id
    me: str  # the bot account's name
    now: datetime  # clock
    reporters: ReporterDigests | None = None  # None: reporters are not recorded
    keep: Callable[[], None] = lambda: None  # called periodically to renew the run's lease

    @property
    def moment(self) -> int:
        """Return the current time in seconds since 1970."""
        return int(self.now.timestamp())


async def check_edits(
    watching: EditWatch, *, is_eager: bool = False, on_undone: Callable[[bot_edits.BotEdit], None] = lambda _edit: None
) -> list[bot_edits.BotEdit]:
    """Check edits that are due, `is_eager`: all of the month; return those that changed. Raises WikiAwayError."""
    before = watching.moment + 1 if is_eager else watching.moment - RECHECK_S
    since = watching.moment - WATCHED_DAYS * _DAY_S
    changed: list[bot_edits.BotEdit] = []
    for due in _due_edits(watching, since, before):
        watching.keep()
        now = await read_heads(watching.api, [edit.page_id for edit in due])
        for edit in due:
            try:
                outcome = await check_edit(watching, edit, now.get(edit.page_id))
            except WeboidError:
                raise
            except Exception:
                log.exception("edit %s cannot be inspected", edit.id)
                continue
            if (outcome.state, outcome.changes) != (edit.state, edit.changes):
                changed.append(outcome)
                on_undone(outcome)
    while True:  # edits that stood for a month are permanent
        with watching.store.reading() as rows:
            edits = bot_edits.edits_in(rows, watching.wiki_id, [bot_edits.EditState.MADE], limit=EDITS_AT_ONCE)
        old = [edit for edit in edits if edit.moment < since]
        changed += [_with_state(watching, edit, bot_edits.EditState.KEPT) for edit in old]
        if len(old) < EDITS_AT_ONCE:
            return changed


def _due_edits(watching: EditWatch, since: int, before: int) -> Iterator[list[bot_edits.BotEdit]]:
    seen: set[int] = set()
    while True:
        with watching.store.reading() as rows:
            due = bot_edits.edits_to_watch(
                rows, watching.wiki_id, _WATCHED, since=since, before=before, limit=EDITS_AT_ONCE
            )
        fresh = [edit for edit in due if edit.id not in seen]
        if not fresh:
            return
        seen.update(edit.id for edit in fresh)
        yield [edit for edit in fresh if edit.kind is bot_edits.EditKind.PAGE and edit.rev is not None]
        if len(due) < EDITS_AT_ONCE:
            return
        since = max(since, due[-1].moment)


async def check_edit(watching: EditWatch, edit: bot_edits.BotEdit, head: WikiPage | None) -> bot_edits.BotEdit:
    """Check the outcome of one edit; return the updated edit. Raises WikiAwayError."""
    is_standing = edit.state in bot_edits.STANDING
    if head is None or not head.rev_id:
        if is_standing:
            return _with_state(watching, edit, bot_edits.EditState.GONE)
        return _mark_checked(watching, edit)
    if head.rev_id == edit.rev and is_standing:
        return _mark_checked(watching, edit)
    page = await read_now(watching.api, edit.page_id)
    undone = _undone_places(watching, edit, page.text)
    if not undone:
        if is_standing or edit.state in _REVIEWED:
            return _mark_checked(watching, edit)
        # The revert was undone, or the page was restored.
        return _with_state(watching, edit, bot_edits.EditState.MADE, undone=frozenset(), note="")
    known = frozenset(place for place, change in enumerate(edit.changes) if change.is_undone)
    if edit.state in bot_edits.PARTLY and undone - known:
        judged = await _judge_undone(watching, edit, undone - known)
        is_known = judged.by is not None and judged.by.rev_id <= (edit.undone_rev or 0)
        if not is_known:
            return _record_undone(watching, edit, judged, known)
    if not is_standing:
        return _mark_checked(watching, edit)
    return _record_undone(watching, edit, await _judge_undone(watching, edit, undone))


def _record_undone(
    watching: EditWatch, edit: bot_edits.BotEdit, judged: EditJudgement, known: frozenset[int] = frozenset()
) -> bot_edits.BotEdit:
    """Record that an edit was undone; changes besides the `known` need a review, but not those of a declined revert."""
    if judged.state is bot_edits.EditState.MADE:
        return _mark_checked(watching, edit)
    is_first, by = edit.state in bot_edits.STANDING, judged.by
    facts: dict[str, int | str | None] = {"note": judged.note}
    if by is not None or is_first:
        facts["undone_rev"] = None if by is None else by.rev_id
        facts["undone_by"] = "" if by is None else by.user
    state, undone = judged.state, judged.undone
    if is_first and state is bot_edits.EditState.SWEPT and _was_swept_before(watching, edit):
        state = bot_edits.EditState.REVERTED
    is_reported = state is bot_edits.EditState.REVERTED
    if not is_first:
        state = bot_edits.EditState.REVERTED
        if edit.state is not bot_edits.EditState.DECLINED:
            undone |= known
    changed = _with_state(watching, edit, state, undone=undone, **facts)
    if is_reported:
        _report(watching, changed, judged.undone)
    return changed


async def _judge_undone(watching: EditWatch, edit: bot_edits.BotEdit, undone: frozenset[int]) -> EditJudgement:
    """Classify changes missing from the page; one that a later bot edit replaced is not an objection."""
    after = await history_after(watching.api, edit.page_id, edit.rev or 0)
    with watching.store.reading() as rows:
        done = bot_edits.edits_of_page(rows, watching.wiki_id, edit.page_id)
    own_revisions = {each.rev for each in done if each.id != edit.id and each.kind is bot_edits.EditKind.PAGE}
    by = await _first_without(watching, edit, undone, after)
    while by is not None and by.rev_id in own_revisions:
        text = await read_revision_text(watching.api, by.rev_id)
        improved = frozenset() if text is None else _undone_places(watching, edit, text) & undone
        if not improved:
            break
        undone -= improved
        if not undone:
            return EditJudgement(bot_edits.EditState.MADE)
        by = await _first_without(watching, edit, undone, after)
    earlier = await earlier_digests(watching.api, edit.page_id, edit.base_rev)
    return judge_edit(edit, undone, by, after, earlier, me=watching.me)


async def _first_without(
    watching: EditWatch, edit: bot_edits.BotEdit, undone: frozenset[int], after: Sequence[Revision]
) -> Revision | None:
    later = [each for each in after if each.rev_id > (edit.rev or 0)]
    low, high = 0, len(later)
    while low < high:
        middle = (low + high) // 2
        text = await read_revision_text(watching.api, later[middle].rev_id)
        if text is None or not (_undone_places(watching, edit, text) & undone):
            low = middle + 1  # it is still there, or its text is hidden
        else:
            high = middle
    return later[low] if low < len(later) else None


def _undone_places(watching: EditWatch, edit: bot_edits.BotEdit, text: str) -> frozenset[int]:
    links = {change.url_id for change in edit.changes}
    with watching.store.reading() as rows:
        facts = url_facts(rows, links, day=day_of(watching.now))
    urls = {number: each.row.url for number, each in facts.items()}
    return find_undone(edit.changes, text, watching.adapter.read(text), urls)


def _was_swept_before(watching: EditWatch, edit: bot_edits.BotEdit) -> bool:
    with watching.store.reading() as rows:
        others = bot_edits.edits_of_page(rows, watching.wiki_id, edit.page_id)
    links = {change.url_id for change in edit.changes}
    swept = [other for other in others if other.id != edit.id and other.state is bot_edits.EditState.SWEPT]
    return any(change.url_id in links for other in swept for change in other.changes)


def _report(watching: EditWatch, edit: bot_edits.BotEdit, undone: frozenset[int]) -> None:
    """Report the links as working in the reverting account's name, and schedule a check for today."""
    links = {edit.changes[place].url_id for place in undone if edit.changes[place].url_id}
    day = day_of(watching.now)
    with watching.store.writing() as rows:
        names = [each.row.url for each in url_facts(rows, links, day=day).values()]
        bot_edits.make_urls_due(rows, links, day=day)
    if watching.reporters is not None and edit.undone_by and names:
        who = watching.reporters.digest("wiki", f"{watching.wiki_id} {edit.undone_by}")
        # A link known to work needs no report; a link deleted meanwhile cannot have one.
        with suppress(NeedlessReportError, InputError), watching.store.writing() as rows:
            add_report(rows, names, who, watching.now, limits=_LIMITS)
    with watching.store.writing() as rows:
        bot_edits.set_reported(rows, edit.id)


def _mark_checked(watching: EditWatch, edit: bot_edits.BotEdit) -> bot_edits.BotEdit:
    if edit.state is bot_edits.EditState.SWEPT:
        return edit  # it is known since when it is not there (`tasks.swept_lately`)
    with watching.store.writing() as rows:
        bot_edits.set_checked(rows, [edit.id], moment=watching.moment)
    return edit


def _with_state(
    watching: EditWatch,
    edit: bot_edits.BotEdit,
    state: bot_edits.EditState,
    *,
    undone: frozenset[int] | None = None,
    **facts: int | str | None,
) -> bot_edits.BotEdit:
    with watching.store.writing() as rows:
        return bot_edits.move_edit(rows, edit, state, moment=watching.moment, undone=undone, **facts)
