"""What became of an edit, judged from the page's text and its history: pure (B14).

A change was undone when the link still stands on the page without what we gave it. A link that is gone
with its citation was not: somebody rewrote the page, and said nothing of us. Who undid it is told by the
first revision without the change. When that one went back behind our edit and swept edits of others away,
too, it was about those (`Fate.SWEPT`): nobody objected to us.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from links.books.edits import Change, Edit
from wiki.api.facts import Revision
from wiki.wikitext.citations import Citation
from wiki.wikitext.repairing_types import RepairKind

WATCHED_KINDS: Final = frozenset(RepairKind) - {RepairKind.TIDIED}
_COPY: Final = frozenset(
    {RepairKind.CONVERTED, RepairKind.ARCHIVED, RepairKind.MOVED, RepairKind.REPLACED}
)
UNDO_TAGS: Final = frozenset({"mw-undo", "mw-rollback", "mw-manual-revert"})


class Fate(StrEnum):
    """What became of an edit."""

    STANDS = "stands"
    REVERTED = "reverted"  # somebody took it back, or a part of it
    OURS = "ours"  # taken back with our own account: whoever runs the bot changed their mind
    SWEPT = "swept"  # it went with edits of others


@dataclass(frozen=True)
class Judged:
    """The fate of an edit.

    Attributes:
        undone: places of the changes that do not stand.
        by: the revision that undid the first of them; None when its history does not tell.
        note: how that is known, for people.
    """

    fate: Fate
    undone: frozenset[int] = frozenset()
    by: Revision | None = None
    note: str = ""


@dataclass(frozen=True)
class History:
    """A page's history around an edit.

    Attributes:
        after: the edit's revision and those after it, the oldest first; () when it is hidden or gone.
        earlier: SHA-1 of the text that was edited, and of those before it, as far as was asked.
    """

    after: Sequence[Revision] = ()
    earlier: frozenset[str] = frozenset()


def undone_in(
    changes: Sequence[Change],
    text: str,
    citations: Sequence[Citation],
    url_of: Callable[[int], str],
    key: Callable[[str], str],
) -> frozenset[int]:
    """Places of the changes that the text has no more, though it still has their links.

    Args:
        changes: of an edit.
        text: the page's text.
        citations: in it.
        url_of: the identity key of a link by its number; empty when it is forgotten.
        key: the identity key of a URL as it stands on a page.
    """
    by_key: dict[str, list[Citation]] = {}
    for each in citations:
        by_key.setdefault(key(each.url), []).append(each)
    left: dict[str, int] = {}
    undone = set()
    for place, change in enumerate(changes):
        if change.kind not in WATCHED_KINDS:
            continue
        if change.after and change.after != change.before:
            # Two citations may read alike: each occurrence stands for one change.
            there = left.setdefault(change.after, text.count(change.after))
            if there > 0:
                left[change.after] -= 1
                continue
            if change.before and change.before in text:
                undone.add(place)
                continue
        link = url_of(change.url_id)
        cited = by_key.get(link, ()) if link else ()
        if cited and not any(_has(each, RepairKind(change.kind)) for each in cited):
            undone.add(place)
    return frozenset(undone)


def judge(
    edit: Edit, undone: frozenset[int], history: History, by: Revision | None, *, me: str
) -> Judged:
    """The edit's fate.

    Args:
        edit: the edit.
        undone: places of the changes that the newest text has no more.
        history: of the page.
        by: the first revision without them; None: not known.
        me: our account's name.
    """
    if not undone:
        return Judged(Fate.STANDS)
    if by is None:
        return Judged(Fate.REVERTED, undone, None, "its history does not tell who undid it")
    if me and by.user == me:
        return Judged(Fate.OURS, undone, by, "undone with the bot's own account")
    if _swept_others(edit, history, by, me=me):
        return Judged(Fate.SWEPT, undone, by, "an older text was restored, over edits of others")
    how = next((tag for tag in by.tags if tag in UNDO_TAGS), "edited by hand")
    part = "" if len(undone) == len(edit.changes) else "in part, "
    return Judged(Fate.REVERTED, undone, by, f"{part}{how}: {by.comment}"[:500])


def _swept_others(edit: Edit, history: History, by: Revision, *, me: str) -> bool:
    """Whether the revision took back edits of others that came after ours, and ours with them.

    That is so when it is no undo of ours, but a return to a text that is not newer than what we
    edited, with somebody else's edit in between.
    """
    others = [
        each
        for each in history.after
        if (edit.rev or 0) < each.rev_id < by.rev_id and each.user not in (me, by.user)
    ]
    if not others or not _goes_back(history, by):
        return False
    return str(edit.rev) not in re.findall(r"\d+", by.comment)  # “Undid revision 123 by …” names us


def _goes_back(history: History, by: Revision) -> bool:
    """Whether the revision's text is one from before our edit; tags say so when digests are hidden."""
    if by.sha1 and history.earlier:
        return by.sha1 in history.earlier
    return bool({"mw-rollback", "mw-manual-revert"} & set(by.tags))


def _has(citation: Citation, kind: RepairKind) -> bool:
    """Whether the citation still says what a change of that kind made it say."""
    if kind is RepairKind.REVIVED:
        return not citation.is_said_dead
    if kind in _COPY:
        return bool(citation.archive_url) or citation.archive_tag is not None
    return citation.is_said_dead
