"""Edits of which nobody knows whether they were made: the page's history tells.

A row that was written down and never settled is left by a crash, or by an answer that did not come. An edit
is ours when the account made it after the revision that was read, and its summary names the job or its text
is the one that was sent. A young row of which nothing is found waits: the wiki may still be working on it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from links.books.edits import Edit, EditKind, EditState, edits_in, move
from links.store.store import Store
from wiki.api.client import Api
from wiki.api.facts import Revision
from wiki.api.revisions import history_after

SETTLED_S: Final = 600  # no request to a wiki lasts longer


async def recover(
    store: Store, api: Api, wiki_id: int, *, me: str, now: int
) -> tuple[list[Edit], frozenset[int]]:
    """Settle what is open; what was settled, and the pages that are to be left alone for now.

    Args:
        store: the registry.
        api: the wiki's.
        wiki_id: the registry's number.
        me: our account's name.
        now: seconds since 1970.

    Raises:
        WikiAwayError: the wiki does not answer.
    """
    with store.reading() as rows:
        there = edits_in(rows, wiki_id, [EditState.INTENDED])
    settled, waiting = [], set()
    for edit in there:
        made = None
        if edit.kind is EditKind.PAGE:
            history = await history_after(api, edit.page_id, edit.base_rev)
            made = ours_in(edit, history, me=me)
        if made is None and edit.kind is EditKind.PAGE and now - edit.moment < SETTLED_S:
            waiting.add(edit.page_id)
            continue
        # A message that may not have been left is not left twice: a month passes until the next.
        state = (
            EditState.MADE
            if made is not None or edit.kind is EditKind.TALK
            else EditState.ABANDONED
        )
        with store.writing() as rows:
            settled.append(
                move(rows, edit, state, moment=now, rev=None if made is None else made.rev_id)
            )
    return settled, frozenset(waiting)


def ours_in(edit: Edit, history: Sequence[Revision], *, me: str) -> Revision | None:
    """The revision that the edit made; None when there is none."""
    return next(iter(_ours(edit, history, me)), None)


def _ours(edit: Edit, history: Sequence[Revision], me: str) -> Iterable[Revision]:
    for each in history:
        if each.rev_id <= edit.base_rev or each.user != me:
            continue
        if (edit.digest and each.sha1 == edit.digest) or edit.job in each.comment:
            yield each
