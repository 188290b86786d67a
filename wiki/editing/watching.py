"""Looking whether our edits stand, and what follows when they do not (B14).

For a month each edit is looked at, a page in fifty a question while nobody touched it. What was undone is
understood as somebody saying that the link works: it is reported in that person's name, looked at again
today, and left alone on that page until a review (`wiki.editing.reviewing`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.errors import InputError, WeboidError
from links.books.edits import (
    PARTLY,
    STANDING,
    Edit,
    EditKind,
    EditState,
    edits_in,
    edits_of_page,
    edits_to_watch,
    look_again,
    move,
    set_checked,
    set_reported,
)
from links.books.looking import url_facts
from links.days import day_of
from links.limits import Act, Limit, Limits
from links.reporters import Reporters
from links.reports import NeedlessError, report
from links.store.store import Store
from wiki.api.client import Api
from wiki.api.facts import Revision
from wiki.api.revisions import Head, earlier_digests, heads, history_after, read_now, text_of
from wiki.editing.crafts import Craft, key_of
from wiki.editing.fates import Fate, History, Judged, judge, undone_in

WATCHED_DAYS: Final = 30
AGAIN_S: Final = 1_800  # between two looks at one edit
AT_ONCE: Final = 500  # edits in one look
_DAY_S: Final = 86_400
# Whoever is known to the wiki speaks as often as our edits are undone.
_LIMITS: Final[Limits] = {Act.REPORT: Limit(0, None)}
_WATCHED: Final = (*STANDING, *PARTLY, EditState.SWEPT, EditState.GONE)
_REVIEWED: Final = (EditState.ACCEPTED, EditState.DECLINED)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watch:
    """What edits are watched with.

    Attributes:
        wiki_id: the registry's number.
        me: our account's name.
        now: the moment.
        reporters: makes digests of who reports; None: nobody is noted.
        keep: called now and then, so that the run keeps its turn.
    """

    store: Store
    api: Api
    craft: Craft
    wiki_id: int
    me: str
    now: datetime
    reporters: Reporters | None = None
    keep: Callable[[], None] = lambda: None

    @property
    def moment(self) -> int:
        """Now, in seconds since 1970."""
        return int(self.now.timestamp())


async def watch(
    watching: Watch, *, is_eager: bool = False, told: Callable[[Edit], None] = lambda _edit: None
) -> list[Edit]:
    """Look at the edits that are due; those whose state changed.

    Args:
        watching: what with.
        is_eager: all of the month, whenever they were last looked at.
        told: told of each edit whose state changed.

    Raises:
        WikiAwayError: the wiki does not answer.
    """
    before = watching.moment + 1 if is_eager else watching.moment - AGAIN_S
    since = watching.moment - WATCHED_DAYS * _DAY_S
    changed: list[Edit] = []
    for due in _due(watching, since, before):
        watching.keep()
        now = await heads(watching.api, [edit.page_id for edit in due])
        for edit in due:
            try:
                found = await look(watching, edit, now.get(edit.page_id))
            except WeboidError:
                raise
            except Exception:
                log.exception("edit %s cannot be looked at", edit.id)
                continue
            if (found.state, found.changes) != (edit.state, edit.changes):
                changed.append(found)
                told(found)
    return [*changed, *_end_watch(watching, since)]


def _due(watching: Watch, since: int, before: int) -> Iterator[list[Edit]]:
    """The edits to look at, the oldest first, some at a time."""
    seen: set[int] = set()
    while True:
        with watching.store.reading() as rows:
            due = edits_to_watch(
                rows, watching.wiki_id, _WATCHED, since=since, before=before, limit=AT_ONCE
            )
        fresh = [edit for edit in due if edit.id not in seen]
        if not fresh:
            return
        seen.update(edit.id for edit in fresh)
        yield [edit for edit in fresh if edit.kind is EditKind.PAGE and edit.rev is not None]
        if len(due) < AT_ONCE:
            return
        since = max(since, due[-1].moment)


async def look(watching: Watch, edit: Edit, head: Head | None) -> Edit:
    """See what became of one edit; the edit as it is then.

    Raises:
        WikiAwayError: the wiki does not answer.
    """
    if head is None or not head.rev_id:
        return (
            _to(watching, edit, EditState.GONE) if edit.state in STANDING else _seen(watching, edit)
        )
    if head.rev_id == edit.rev and edit.state in STANDING:
        return _seen(watching, edit)
    page = await read_now(watching.api, edit.page_id)
    undone = _undone(watching, edit, page.text)
    if not undone:
        # Whoever undid it has taken that back, or the page was restored.
        return (
            _seen(watching, edit)
            if edit.state in (*STANDING, *_REVIEWED)
            else _to(watching, edit, EditState.MADE, undone=frozenset(), note="")
        )
    known = frozenset(place for place, change in enumerate(edit.changes) if change.is_undone)
    if edit.state in PARTLY and undone - known:
        judged = await _judged(watching, edit, undone - known)
        if not _is_reviewed(edit, judged):
            return _undo_more(watching, edit, judged, known)
    if edit.state not in STANDING:
        return _seen(watching, edit)
    return _undo(watching, edit, await _judged(watching, edit, undone))


def _undo(watching: Watch, edit: Edit, judged: Judged) -> Edit:
    """Keep that an edit was undone, and let what follows follow."""
    if judged.fate is Fate.STANDS:
        return _seen(watching, edit)
    by = judged.by
    facts = {
        "undone_rev": None if by is None else by.rev_id,
        "undone_by": "" if by is None else by.user,
        "note": judged.note,
    }
    state = {
        Fate.REVERTED: EditState.REVERTED,
        Fate.OURS: EditState.ACCEPTED,
        Fate.SWEPT: EditState.SWEPT,
    }[judged.fate]
    if state is EditState.SWEPT and _was_swept_before(watching, edit):
        state = EditState.REVERTED
    found = _to(watching, edit, state, undone=judged.undone, **facts)
    if state is EditState.REVERTED:
        _report(watching, found, judged.undone)
    return found


def _undo_more(watching: Watch, edit: Edit, judged: Judged, known: frozenset[int]) -> Edit:
    """Keep that more of an edit was undone than was known; it awaits a review, or another one.

    What a review declined may be repeated, and is no matter of this edit any more.
    """
    if judged.fate is Fate.STANDS:
        return _seen(watching, edit)
    facts: dict[str, int | str | None] = {"note": judged.note}
    if judged.by is not None:
        facts |= {"undone_rev": judged.by.rev_id, "undone_by": judged.by.user}
    undone = judged.undone if edit.state is EditState.DECLINED else judged.undone | known
    found = _to(watching, edit, EditState.REVERTED, undone=undone, **facts)
    if judged.fate is Fate.REVERTED:
        _report(watching, found, judged.undone)
    return found


def _is_reviewed(edit: Edit, judged: Judged) -> bool:
    """Return whether the changes were undone by a revision that a review has declined already.

    All that was undone up to `Edit.undone_rev` was known when that was noted. What of it is no longer
    marked as undone was declined: the bot may repeat it, and the same revert is not reported again.
    """
    return (
        judged.by is not None
        and edit.undone_rev is not None
        and judged.by.rev_id <= edit.undone_rev
    )


async def _judged(watching: Watch, edit: Edit, undone: frozenset[int]) -> Judged:
    """Judge changes that the page has no more.

    What a later edit of the bot put in their place, such as a copy where the tag stood, is no objection:
    whoever takes that back, takes back the later edit.
    """
    rev = edit.rev or 0
    after = await history_after(watching.api, edit.page_id, rev)
    with watching.store.reading() as rows:
        done = edits_of_page(rows, watching.wiki_id, edit.page_id)
    ours = {each.rev for each in done if each.id != edit.id and each.kind is EditKind.PAGE}
    by = await _first_without(watching, edit, undone, after)
    while by is not None and by.rev_id in ours:
        text = await text_of(watching.api, by.rev_id)
        improved = frozenset() if text is None else _undone(watching, edit, text) & undone
        if not improved:
            break
        undone -= improved
        if not undone:
            return Judged(Fate.STANDS)
        by = await _first_without(watching, edit, undone, after)
    earlier = await earlier_digests(watching.api, edit.page_id, edit.base_rev)
    return judge(edit, undone, History(after, earlier), by, me=watching.me)


async def _first_without(
    watching: Watch, edit: Edit, undone: frozenset[int], after: Sequence[Revision]
) -> Revision | None:
    """The revision since which one of the changes is missing, found by halving the history."""
    later = [each for each in after if each.rev_id > (edit.rev or 0)]
    low, high = 0, len(later)
    while low < high:
        middle = (low + high) // 2
        text = await text_of(watching.api, later[middle].rev_id)
        if text is None or not (_undone(watching, edit, text) & undone):
            low = middle + 1  # it stands there still, or nobody can see
        else:
            high = middle
    return later[low] if low < len(later) else None


def _undone(watching: Watch, edit: Edit, text: str) -> frozenset[int]:
    with watching.store.reading() as rows:
        facts = url_facts(
            rows, {change.url_id for change in edit.changes}, day=day_of(watching.now)
        )
    names = {number: each.row.url for number, each in facts.items()}
    citations = watching.craft.read(text)
    return undone_in(edit.changes, text, citations, lambda number: names.get(number, ""), key_of)


def _was_swept_before(watching: Watch, edit: Edit) -> bool:
    with watching.store.reading() as rows:
        others = edits_of_page(rows, watching.wiki_id, edit.page_id)
    links = {change.url_id for change in edit.changes}
    return any(
        other.id != edit.id
        and other.state is EditState.SWEPT
        and links & {change.url_id for change in other.changes}
        for other in others
    )


def _report(watching: Watch, edit: Edit, undone: frozenset[int]) -> None:
    """Let whoever undid these changes have said that the links work, and look at these today."""
    links = {edit.changes[place].url_id for place in undone if edit.changes[place].url_id}
    day = day_of(watching.now)
    with watching.store.writing() as rows:
        names = [each.row.url for each in url_facts(rows, links, day=day).values()]
        look_again(rows, links, day=day)
    if watching.reporters is not None and edit.undone_by and names:
        who = watching.reporters.digest("wiki", f"{watching.wiki_id} {edit.undone_by}")
        # What is known to work needs no report; a link that was forgotten meanwhile cannot have one.
        with suppress(NeedlessError, InputError), watching.store.writing() as rows:
            report(rows, names, who, watching.now, limits=_LIMITS)
    with watching.store.writing() as rows:
        set_reported(rows, edit.id)


def _end_watch(watching: Watch, since: int) -> list[Edit]:
    """Keep edits that stood for a month."""
    kept: list[Edit] = []
    while True:
        with watching.store.reading() as rows:
            made = edits_in(rows, watching.wiki_id, [EditState.MADE], limit=AT_ONCE)
        old = [edit for edit in made if edit.moment < since]
        kept += [_to(watching, edit, EditState.KEPT) for edit in old]
        if len(old) < AT_ONCE:
            return kept


def _seen(watching: Watch, edit: Edit) -> Edit:
    if edit.state is EditState.SWEPT:
        return edit  # it is known since when it is not there (`tasks.swept_lately`)
    with watching.store.writing() as rows:
        set_checked(rows, [edit.id], moment=watching.moment)
    return edit


def _to(
    watching: Watch,
    edit: Edit,
    state: EditState,
    *,
    undone: frozenset[int] | None = None,
    **facts: int | str | None,
) -> Edit:
    with watching.store.writing() as rows:
        return move(rows, edit, state, moment=watching.moment, undone=undone, **facts)
