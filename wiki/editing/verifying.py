"""Whether a repaired text is what it says it is, and nothing else: the last look before an edit. Pure.

The repair is not trusted: the pieces that it names must turn the one text into the other, each way; the
same links must stand there in the same order; and repairing once more must change nothing.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from core.errors import InvariantError
from wiki.editing.crafts import key_of
from wiki.wikitext.citations import Citation
from wiki.wikitext.repairing_types import Repaired, Replacement

_MOST_GROWTH: Final = 4_000  # characters that one change may add


class UnsafeRepairError(InvariantError):
    """A repair does more than it says: the page is not edited."""


def verify(
    text: str, repaired: Repaired, before: Sequence[Citation], after: Sequence[Citation]
) -> None:
    """Hold a repair to its word.

    Args:
        text: the page's text.
        repaired: what is to be saved.
        before: the citations in the text.
        after: the citations in the repaired text.

    Raises:
        UnsafeRepairError: it changes more than it says, loses a link or adds one of something else.
    """
    pieces = sorted(
        (piece for change in repaired.changes for piece in change.replacements),
        key=lambda piece: (piece.span.start, piece.span.end),
    )
    if _put(text, pieces) != repaired.text:
        raise UnsafeRepairError("A repair changes more than the pieces that it names.")
    if len(repaired.text) > len(text) + _MOST_GROWTH * len(repaired.changes):
        raise UnsafeRepairError("A repair makes the page far longer.")
    if align(before, after) is None:
        raise UnsafeRepairError("A repaired text has other links than before.")
    mended = {key_of(change.url) for change in repaired.changes}
    more = Counter(key_of(each.url) for each in after)
    more.subtract(key_of(each.url) for each in before)
    if any(count and key not in mended for key, count in more.items()):
        raise UnsafeRepairError("A repaired text has links that nobody asked for.")


def align(before: Sequence[Citation], after: Sequence[Citation]) -> list[int] | None:
    """Where each citation stands in the repaired text; None when one is missing or out of its order.

    There may be more than before: a link to the copy beside a link is itself one of the original.
    """
    found: list[int] = []
    keys = [key_of(each.url) for each in after]
    place = 0
    for each in before:
        wanted = key_of(each.url)
        while place < len(keys) and keys[place] != wanted:
            place += 1
        if place == len(keys):
            return None
        found.append(place)
        place += 1
    return found


def verify_done(again: Repaired, *, waits: bool) -> None:
    """See that repairing the repaired text has nothing to do.

    Args:
        again: what a second repair does.
        waits: the first has left something for the next.

    Raises:
        UnsafeRepairError: it would edit the page for ever.
    """
    if again.changes and not waits:
        raise UnsafeRepairError("A repair is not done with one edit.")


def _put(text: str, pieces: Sequence[Replacement]) -> str:
    """The text with the pieces put in; empty when they do not fit."""
    made, place = [], 0
    for piece in pieces:
        if piece.span.start < place or text[piece.span.start : piece.span.end] != piece.before:
            return ""
        made += [text[place : piece.span.start], piece.after]
        place = piece.span.end
    return "".join([*made, text[place:]])
