"""Text differences by paragraphs and words (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986); pure.

Its steps, quadratic for different texts, are limited and reproducible; then the remainder counts as replaced.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile, zip_longest

MOST_CHARACTERS = 300_000  # of each text
MOST_PARAGRAPHS = 10_000
MOST_ROWS = 1_500
STEPS = 2_000_000  # about a second
_WORD_STEPS = 60_000  # of these, for one pair of paragraphs
_CONTEXT = 2  # unchanged paragraphs around a change
_CONTEXT_WORDS = 24  # around a change within a long paragraph
_LONGEST_CONTEXT = 240  # characters of an unchanged paragraph that is shown for its place only
_SPACE = re.compile(r"[^\S\n]+")
# Scripts without spaces change by the character: kana, ideographs, Thai, Lao, Khmer, Burmese.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]|\w+|\s+|[^\w\s]")


class DiffKind(StrEnum):
    """Kind of change of a paragraph."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    FOLDED = "folded"  # unchanged ones that are not shown


@dataclass(frozen=True, slots=True)
class TextRun:
    """Run of words in a paragraph; `is_gap`: omitted unchanged words."""

    text: str
    is_changed: bool = False
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class DiffRow:
    """Paragraph before and after; FOLDED: `count` omitted paragraphs."""

    kind: DiffKind
    before: tuple[TextRun, ...] = ()
    after: tuple[TextRun, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class TextDifference:
    """Result of a comparison."""

    rows: tuple[DiffRow, ...]  # changes with context, in order
    added: int
    removed: int
    changed: int
    is_cut: bool  # only the beginning of the texts was compared, or of the changes is shown
    is_coarse: bool  # parts of the texts were not compared by word, since they differ too much

    @property
    def is_none(self) -> bool:
        """Return True when there is no visible change."""
        return not (self.added or self.removed or self.changed)


class DiffBudget:
    """Number of steps left."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.was_short = False


def compare_texts(before: str, after: str, *, steps: int = STEPS) -> TextDifference:
    """Compare two texts, ignoring white space."""
    is_cut = len(before) > MOST_CHARACTERS or len(after) > MOST_CHARACTERS
    olds, news = paragraphs(before[:MOST_CHARACTERS]), paragraphs(after[:MOST_CHARACTERS])
    is_cut |= len(olds) > MOST_PARAGRAPHS or len(news) > MOST_PARAGRAPHS
    olds, news = olds[:MOST_PARAGRAPHS], news[:MOST_PARAGRAPHS]
    budget = DiffBudget(steps)
    rows: list[DiffRow] = []
    for is_same, i, j, k, end in edit_runs(olds, news, budget):
        if is_same:
            same = [(TextRun(text),) for text in olds[i:j]]
            rows += [DiffRow(DiffKind.SAME, each, each) for each in same]
        else:
            rows += [_row(old, new, budget) for old, new in zip_longest(olds[i:j], news[k:end])]
    counts = {kind: sum(row.kind is kind for row in rows) for kind in DiffKind}
    shown = list(_folded(rows))
    return TextDifference(
        tuple(shown[:MOST_ROWS]),
        added=counts[DiffKind.ADDED],
        removed=counts[DiffKind.REMOVED],
        changed=counts[DiffKind.CHANGED],
        is_cut=is_cut or len(shown) > MOST_ROWS,
        is_coarse=budget.was_short,
    )


def paragraphs(text: str) -> list[str]:
    r"""Return the non-empty lines of a text with white space collapsed.

    >>> paragraphs("  a  b ") + paragraphs("c\r\n\n\td")
    ['a b', 'c', 'd']
    """
    return [line for each in text.replace("\r", "\n").split("\n") if (line := _SPACE.sub(" ", each).strip())]


def edit_runs(
    olds: Sequence[str], news: Sequence[str], budget: DiffBudget
) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield ``(is_same, i, j, k, l)``: ``olds[i:j]`` became ``news[k:l]``; contiguous, alternating."""
    start = _common(olds, news)
    end = _common(olds[start:][::-1], news[start:][::-1])
    middle = _shortest(olds[start : len(olds) - end], news[start : len(news) - end], budget)
    matches = [
        (0, 0, start),
        *((i + start, k + start, size) for i, k, size in middle),
        (len(olds) - end, len(news) - end, end),
        (len(olds), len(news), 0),
    ]
    i = k = 0
    for at_old, at_new, size in matches:
        if at_old > i or at_new > k:
            yield False, i, at_old, k, at_new
            i, k = at_old, at_new
        if size:
            yield True, i, i + size, k, k + size
            i, k = i + size, k + size


def _common(olds: Sequence[str], news: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(olds, news, strict=False)))


def _shortest(olds: Sequence[str], news: Sequence[str], budget: DiffBudget) -> list[tuple[int, int, int]]:
    """Return common runs, ``(i, k, size)``; empty when the budget does not suffice to find them."""
    if not olds or not news:
        return []
    most = len(olds) + len(news)
    reached = {1: 0}
    trace: list[dict[int, int]] = []
    for depth in range(most + 1):
        trace.append(dict(reached))
        budget.left -= 2 * depth + 1  # the copy, too
        for diagonal in range(-depth, depth + 1, 2):
            down = diagonal == -depth or (diagonal != depth and reached[diagonal - 1] < reached[diagonal + 1])
            x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            begun = x
            while x < len(olds) and 0 <= x - diagonal < len(news) and olds[x] == news[x - diagonal]:
                x += 1
            budget.left -= x - begun
            reached[diagonal] = x
            if x >= len(olds) and x - diagonal >= len(news):
                return _walked_back(trace, len(olds), len(news))
        if budget.left <= 0:
            budget.was_short = True
            return []
    raise AssertionError("every text can be made from every other")


def _walked_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for depth in range(len(trace) - 1, -1, -1):
        reached, diagonal = trace[depth], x - y
        down = diagonal == -depth or (diagonal != depth and reached[diagonal - 1] < reached[diagonal + 1])
        previous = diagonal + 1 if down else diagonal - 1
        from_x = reached[previous]
        from_y = from_x - previous
        at_x, at_y = (from_x, from_y + 1) if down else (from_x + 1, from_y)
        if depth == 0:
            at_x = at_y = 0
        if x > at_x:
            runs.append((at_x, at_y, x - at_x))
        x, y = from_x, from_y
    return runs[::-1]


def _row(old: str | None, new: str | None, budget: DiffBudget) -> DiffRow:
    if old is None:
        return DiffRow(DiffKind.ADDED, after=(TextRun(new or "", is_changed=True),))
    if new is None:
        return DiffRow(DiffKind.REMOVED, before=(TextRun(old, is_changed=True),))
    part = DiffBudget(min(_WORD_STEPS, budget.left))
    allowed = part.left
    olds, news = _WORDS.findall(old), _WORDS.findall(new)
    before: list[TextRun] = []
    after: list[TextRun] = []
    common = 0
    for is_same, i, j, k, end in edit_runs(olds, news, part):
        if is_same:
            common += sum(not word.isspace() for word in olds[i:j])
        for pieces, words in ((before, olds[i:j]), (after, news[k:end])):
            if words:
                pieces.append(TextRun("".join(words), is_changed=not is_same))
    budget.left -= allowed - part.left
    budget.was_short |= part.was_short
    if common * 5 < sum(not word.isspace() for word in max(olds, news, key=len)):
        # Only commas in common: shown as a different paragraph.
        return DiffRow(DiffKind.CHANGED, (TextRun(old, is_changed=True),), (TextRun(new, is_changed=True),))
    return DiffRow(DiffKind.CHANGED, _shortened(before), _shortened(after))


def _shortened(pieces: list[TextRun]) -> tuple[TextRun, ...]:
    """Return the pieces, with long unchanged ones reduced to the context of changes."""
    runs: list[TextRun] = []
    for place, piece in enumerate(pieces):
        words = _WORDS.findall(piece.text)
        # Context of a change: the end of the text before it, the beginning of the text after it.
        tails, heads = place < len(pieces) - 1, place > 0 or len(pieces) == 1
        if piece.is_changed or len(words) <= 2 * (heads + tails) * _CONTEXT_WORDS:
            runs.append(piece)
            continue
        if heads:
            runs.append(TextRun("".join(words[: 2 * _CONTEXT_WORDS])))
        runs.append(TextRun("", is_gap=True))
        if tails:
            runs.append(TextRun("".join(words[-2 * _CONTEXT_WORDS :])))
    return tuple(runs)


def _folded(rows: list[DiffRow]) -> Iterator[DiffRow]:
    """Yield the rows, with unchanged ones only near a change."""
    near = [False] * len(rows)
    for place, row in enumerate(rows):
        if row.kind is not DiffKind.SAME:
            for each in range(max(0, place - _CONTEXT), min(len(rows), place + _CONTEXT + 1)):
                near[each] = True
    hidden = 0
    for row, is_near in zip(rows, near, strict=True):
        if not is_near:
            hidden += 1
            continue
        if hidden:
            yield DiffRow(DiffKind.FOLDED, count=hidden)
            hidden = 0
        if row.kind is DiffKind.SAME and len(row.before[0].text) > _LONGEST_CONTEXT:
            pieces = (TextRun(row.before[0].text[:_LONGEST_CONTEXT]), TextRun("", is_gap=True))
            yield DiffRow(DiffKind.SAME, pieces, pieces)
        else:
            yield row
    if hidden:
        yield DiffRow(DiffKind.FOLDED, count=hidden)
