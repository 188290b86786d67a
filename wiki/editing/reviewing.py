"""Reverted edits, until somebody says who was right (B14).

Accepting a revert agrees with whoever made it: the bot never does that again on that page. Declining it
says that the edit was right: the bot may repeat it, when the link is still lost; what readers reported of that link is withdrawn.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection

from core.errors import InputError
from links.books.edits import Edit, EditState, edits_by_id, move, newest_edits
from links.books.urls import urls_by_id
from links.limits import Act, Limit, Limits
from links.reports import NeedlessError, withdraw
from links.store.store import Store

MOST_TEXT: Final = 1_000
NOBODY: Final = bytes(16)  # the digest of a reviewer: reviews have no limits
_LIMITS: Final[Limits] = {Act.WITHDRAW: Limit(0, None)}


def to_review(store: Store, wiki_id: int, *, limit: int) -> list[Edit]:
    """Edits that were undone and that nobody has judged, the newest first."""
    with store.reading() as rows:
        return newest_edits(rows, wiki_id, [EditState.REVERTED], limit=limit)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person says of a revert.

    Attributes:
        is_right: whoever reverted was right.
        by: who says so.
        why: in a few words.
    """

    is_right: bool
    by: str
    why: str = ""


def review(store: Store, wiki_id: int, edit_id: int, verdict: Verdict, *, now: datetime) -> Edit:
    """Say whether the revert of an edit was right; the edit as it is then.

    Raises:
        InputError: there is no such edit on that wiki, or it was not reverted.
    """
    with store.writing() as rows:
        edit = edits_by_id(rows, [edit_id]).get(edit_id)
        if edit is None or edit.wiki_id != wiki_id:
            raise InputError(
                f"There is no edit {edit_id} on that wiki: `weboid wiki bot edits` lists them."
            )
        state = EditState.ACCEPTED if verdict.is_right else EditState.DECLINED
        if edit.state is state:
            return edit
        if edit.state not in (EditState.REVERTED, EditState.ACCEPTED, EditState.DECLINED):
            raise InputError(
                f"Edit {edit_id} is {edit.state.name.lower()}: there is nothing to review."
            )
        if not verdict.is_right:
            _withdraw(rows, edit, now)
        moment = int(now.timestamp())
        note = verdict.why[:MOST_TEXT] or edit.note
        return move(
            rows,
            edit,
            state,
            moment=moment,
            reviewed=moment,
            reviewed_by=verdict.by[:200],
            note=note,
        )


def _withdraw(rows: Connection, edit: Edit, now: datetime) -> None:
    """Take back what the revert was understood as: that its links work."""
    links = {change.url_id for change in edit.changes if change.is_undone}
    names = [each.url for each in urls_by_id(rows, links).values()]
    for name in names:
        with suppress(NeedlessError):
            withdraw(rows, [name], NOBODY, now, limits=_LIMITS)
