"""Messages on talk pages, where the wiki wants them (B16): beside an edit, or in its place.

One section for a page, at most one in thirty days, never the same twice, and none where the talk page says
that messages of bots are not wanted.
"""

from collections.abc import Sequence
from typing import Final

from core.errors import PermanentError
from links.books.edits import (
    Change,
    Edit,
    EditKind,
    EditState,
    Intended,
    edits_by_id,
    edits_of_page,
    forget,
    intend,
    move,
)
from wiki.api.edits import Saving, add_section
from wiki.api.errors import ReadOnlyError, ThrottledError, WikiAwayError
from wiki.api.revisions import PageNow, read_now, read_text
from wiki.editing.acting import Bench, Outcome, Task, draft_changes
from wiki.wikitext.repairing_types import Repaired

GAP_S: Final = 30 * 86_400
_LEFT: Final = (EditState.MADE, EditState.INTENDED, EditState.KEPT)


async def tell(bench: Bench, task: Task, outcome: Outcome, *, is_done: bool) -> bool:
    """Leave a message about what was done to the page, or is proposed; whether one was left.

    Raises:
        StoppedError: nothing may be edited any more.
        WikiAwayError: the wiki does not answer; the message may have been left.
    """
    if outcome.repaired is None:
        return False
    changes = draft_changes(task, outcome.repaired)
    with bench.store.reading() as rows:
        done = edits_of_page(rows, bench.wiki_id, outcome.page_id)
    if not may_tell(done, changes, now=bench.moment):
        return False
    await bench.guard.allow()
    page = await read_now(bench.api, outcome.page_id)
    if page.is_missing or not page.talk_title:
        return False
    there = await read_text(bench.api, page.talk_title)
    if there is not None and not bench.craft.may_write(there):
        return False
    return await _leave(bench, page, outcome.repaired, changes, is_done=is_done)


def may_tell(done: Sequence[Edit], changes: Sequence[Change], *, now: int) -> bool:
    """Whether a message may be left now, and says anything that no other has said."""
    left = [each for each in done if each.kind is EditKind.TALK and each.state in _LEFT]
    if any(now - each.moment < GAP_S for each in left):
        return False
    said = {(change.url_id, change.kind) for each in left for change in each.changes}
    return any((change.url_id, change.kind) not in said for change in changes)


async def _leave(
    bench: Bench, page: PageNow, repaired: Repaired, changes: tuple[Change, ...], *, is_done: bool
) -> bool:
    message = bench.craft.message(repaired, bench.job, is_done=is_done)
    wanted = Intended(page.page_id, bench.job, page.rev_id, "", EditKind.TALK, changes)
    with bench.store.writing() as rows:
        number = intend(rows, bench.wiki_id, wanted, moment=bench.moment)
    saving = Saving(
        bench.craft.summary(repaired, bench.job), is_minor=False, is_marked=bench.settings.mark
    )
    state, note, rev = EditState.FAILED, "", None
    try:
        made = await add_section(bench.api, page.talk_title, message.heading, message.text, saving)
        state, rev = EditState.MADE, made.rev
    except PermanentError as error:
        note = str(error)
    except WikiAwayError as error:
        if error.is_unsent or isinstance(error, ReadOnlyError | ThrottledError):
            with bench.store.writing() as rows:
                forget(rows, number)
        raise
    finally:
        bench.guard.made()
    with bench.store.writing() as rows:
        there = edits_by_id(rows, [number])[number]
        move(rows, there, state, moment=bench.moment, rev=rev, note=note)
    return state is EditState.MADE
