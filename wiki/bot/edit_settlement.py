"""Settlement of open edits: recovery of unknown outcomes, review of reverts (docs/how-to/bot.md).

A revision is the bot's edit when its account made it after the base revision, and its summary names the job or its text
is the one that was sent. A recent record without a matching revision stays open: the wiki may still be processing it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.errors import InputError
from links.feedback.reporter_limits import ActLimit, LimitedAct, Limits
from links.feedback.reports import NeedlessReportError, withdraw_reports
from links.registry.bot_edits import BotEdit, EditKind, EditState, edits_by_id, edits_in, move_edit, newest_edits
from links.registry.database import RegistryStore
from links.registry.urls import urls_by_id
from wiki.api.client import WikiApi
from wiki.api.models import Revision
from wiki.api.page_query import history_after

SETTLED_S: Final = 600  # no request to a wiki lasts longer


async def recover_edits(
    store: RegistryStore, api: WikiApi, wiki_id: int, *, me: str, now: int
) -> tuple[list[BotEdit], frozenset[int]]:
    """Settle open edits; return them and the pages to skip for now. Raises WikiAwayError."""
    with store.reading() as rows:
        there = edits_in(rows, wiki_id, [EditState.INTENDED])
    settled, waiting = [], set()
    for edit in there:
        made = None
        if edit.kind is EditKind.PAGE:
            history = await history_after(api, edit.page_id, edit.base_rev)
            made = find_our_revision(edit, history, me=me)
        if made is None and edit.kind is EditKind.PAGE and now - edit.moment < SETTLED_S:
            waiting.add(edit.page_id)
            continue
        # A message that may not have been left is not left twice: a month passes until the next.
        is_made = made is not None or edit.kind is EditKind.TALK
        state = EditState.MADE if is_made else EditState.ABANDONED
        with store.writing() as rows:
            settled.append(move_edit(rows, edit, state, moment=now, rev=made and made.rev_id))
    return settled, frozenset(waiting)


def find_our_revision(edit: BotEdit, history: Sequence[Revision], *, me: str) -> Revision | None:
    """Find the revision that the edit made; None when there is none."""
    for each in history:
        is_sent = (edit.digest and each.sha1 == edit.digest) or edit.job in each.comment
        if each.rev_id > edit.base_rev and each.user == me and is_sent:
            return each
    return None


MOST_TEXT: Final = 1_000
NOBODY: Final = bytes(16)  # the digest of a reviewer: reviews have no limits
_LIMITS: Final[Limits] = {LimitedAct.WITHDRAW: ActLimit(0, None)}


def edits_to_review(store: RegistryStore, wiki_id: int, *, limit: int) -> list[BotEdit]:
    """Return reverted edits without a review, newest first."""
    with store.reading() as rows:
        return newest_edits(rows, wiki_id, [EditState.REVERTED], limit=limit)


@dataclass(frozen=True, slots=True)
class RevertReview:
    """Review of a revert by a person."""

    is_right: bool  # the revert was right
    by: str  # name of the reviewer
    why: str = ""  # reason, in a few words


def review_revert(store: RegistryStore, wiki_id: int, edit_id: int, verdict: RevertReview, *, now: datetime) -> BotEdit:
    """Store a review of a revert; return the updated edit. Raises InputError unless it was reverted."""
    with store.writing() as rows:
        edit = edits_by_id(rows, [edit_id]).get(edit_id)
        if edit is None or edit.wiki_id != wiki_id:
            raise InputError(f"There is no edit {edit_id} on that wiki: `weboid wiki bot ls` lists them.")
        state = EditState.ACCEPTED if verdict.is_right else EditState.DECLINED
        if edit.state is state:
            return edit
        if edit.state not in (EditState.REVERTED, EditState.ACCEPTED, EditState.DECLINED):
            raise InputError(f"Edit {edit_id} is {edit.state.name.lower()}: there is nothing to review.")
        if not verdict.is_right:
            # Take back what the revert was understood as: that its links work.
            links = {change.url_id for change in edit.changes if change.is_undone}
            names = [each.url for each in urls_by_id(rows, links).values()]
            for name in names:
                with suppress(NeedlessReportError):
                    withdraw_reports(rows, [name], NOBODY, now, limits=_LIMITS)
        moment = int(now.timestamp())
        return move_edit(
            rows,
            edit,
            state,
            moment=moment,
            reviewed=moment,
            reviewed_by=verdict.by[:200],
            note=verdict.why[:MOST_TEXT] or edit.note,
        )
