"""A page's text with its lost links mended, and nothing else changed by a byte (B13, B15).

    done = repair(text, citations, {url: Remedy(Condition.DEAD, Archived(address, stamp))}, rules, options)
    done.text, done.changes, done.refused
    assert undone(done.text, done.changes) == text

Pure. Only citations whose URL has a remedy are looked at; what cannot be done with certainty is refused,
with its reason. Repairing what is repaired changes nothing. Whoever saves the text reads it again
first, and holds both against each other (`wiki.editing.verifying`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from wiki.wikitext.citations import Citation, Role, Span, Tag, Way
from wiki.wikitext.places import fits
from wiki.wikitext.repairing_dates import page_style
from wiki.wikitext.repairing_links import (
    copy_follows,
    remove_own_tag,
    remove_tag,
    repair_archive_template,
    repair_link,
    tag_dead,
)
from wiki.wikitext.repairing_templates import repair_template
from wiki.wikitext.repairing_types import (
    CannotRepairError,
    Condition,
    Draft,
    Edit,
    Reason,
    Refused,
    Remedies,
    Remedy,
    Repair,
    Repaired,
    RepairKind,
    RepairOptions,
    Replacement,
)
from wiki.wikitext.repairing_words import Page, usual_dates
from wiki.wikitext.rules import Rules


def repair(
    text: str,
    citations: Sequence[Citation],
    remedies: Remedies,
    rules: Rules,
    options: RepairOptions,
) -> Repaired:
    """The text with every citation mended whose URL has a remedy.

    Args:
        text: the page's.
        citations: those of this very text, in order.
        remedies: by `Citation.url`.
        rules: the wiki's template map; without templates that it does not have (`limited`).
        options: how repairs are made.
    """
    asked = [each for each in citations if each.url in remedies]
    if not asked:
        return Repaired(text)
    dates = (
        parameter.value
        for each in citations
        for role, parameter in each.parameters.items()
        if role in (Role.ACCESS_DATE, Role.ARCHIVE_DATE)
    )
    page = Page(text, rules, options, page_style(text, dates, usual_dates(rules)))
    places = _Places(page, citations)
    following = dict(zip(map(id, citations), citations[1:], strict=False))
    drafts: list[tuple[Citation, Draft]] = []
    refused: list[Refused] = []
    for citation in asked:
        if copy_follows(page, citation, following.get(id(citation))):
            continue
        try:
            drafts.append((citation, _draft(page, citation, remedies[citation.url], places)))
        except CannotRepairError as error:
            refused.append(Refused(citation, error.reason))
    _remove_tags(page, citations, drafts)
    kept = _without_overlaps(drafts, refused)
    new, changes = _applied(text, kept)
    refused.sort(key=lambda each: each.citation.span.start)
    return Repaired(new, changes, tuple(refused))


def undone(text: str, changes: Iterable[Repair]) -> str:
    """The repaired text without these changes: all of them give the original."""
    pieces = sorted(
        (piece for each in changes for piece in each.replacements),
        key=lambda each: each.new_span.start,
    )
    parts: list[str] = []
    at = 0
    for piece in pieces:
        parts += [text[at : piece.new_span.start], piece.before]
        at = piece.new_span.end
    return "".join([*parts, text[at:]])


class _Places:
    """Where templates may be put in; the text is only read when that is asked.

    Not behind a template that holds several links: nobody would know of which of them it speaks.
    """

    def __init__(self, page: Page, citations: Sequence[Citation]) -> None:
        self._page = page
        ends = Counter(each.span.end for each in citations)
        self._asked = [end for end, count in ends.items() if count == 1]

    def __call__(self, offset: int) -> bool:
        return offset in self._fitting

    @cached_property
    def _fitting(self) -> frozenset[int]:
        return fits(self._page.text, self._asked, self._page.rules.references)


def _draft(page: Page, citation: Citation, remedy: Remedy, places: _Places) -> Draft:
    """What is to be done to one citation.

    Raises:
        CannotRepairError: it is left as it is.
    """
    if citation.is_held:
        raise CannotRepairError(Reason.HELD)
    if citation.is_malformed:
        raise CannotRepairError(Reason.MALFORMED)
    draft = Draft()
    try:
        match citation.way:
            case Way.CITATION:
                repair_template(page, citation, remedy, draft)
            case Way.BRACKETS | Way.BARE | Way.TEMPLATE:
                repair_link(page, citation, remedy, draft, places)
            case Way.ARCHIVE_TEMPLATE:
                repair_archive_template(page, citation, remedy, draft)
    except CannotRepairError as error:
        if error.reason is not Reason.NO_COPY:
            raise
        draft = Draft()
        tag_dead(page, citation, draft, places, is_sought=remedy.is_sought)
    if remedy.condition is Condition.ALIVE and citation.way is Way.CITATION:
        remove_own_tag(page, citation, remedy, draft)
    return draft


def _remove_tags(
    page: Page, citations: Sequence[Citation], drafts: Sequence[tuple[Citation, Draft]]
) -> None:
    """Dead-link tags go where a copy was put; one beside several links only when all of them have one."""
    helped = {
        id(citation)
        for citation, draft in drafts
        if draft.archive_url and draft.kind not in (None, RepairKind.TIDIED)
    }
    left = {
        _place(each.dead_tag)
        for each in citations
        if each.dead_tag is not None and id(each) not in helped
    }
    done: set[tuple[int, int]] = set()
    for citation, draft in drafts:
        tag = citation.dead_tag
        if tag is None or id(citation) not in helped or _place(tag) in left | done:
            continue
        done.add(_place(tag))
        if not any(each.start < tag.span.end and tag.span.start < each.end for each in draft.edits):
            draft.edits.append(remove_tag(page.text, tag, is_bare=citation.way is Way.BARE))


def _place(tag: Tag) -> tuple[int, int]:
    return tag.span.start, tag.span.end


def _without_overlaps(
    drafts: Sequence[tuple[Citation, Draft]], refused: list[Refused]
) -> list[tuple[Citation, Draft]]:
    """Drafts that change something; of two that change the same piece the first."""
    kept: list[tuple[Citation, Draft]] = []
    taken: list[Edit] = []
    for citation, draft in sorted(drafts, key=lambda each: each[0].span.start):
        if not draft.edits or draft.kind is None:
            continue
        if any(_meet(a, b) for a in draft.edits for b in _near(taken, a)):
            refused.append(Refused(citation, Reason.LATER))
            continue
        taken = [*taken[-64:], *draft.edits]
        kept.append((citation, draft))
    return kept


def _near(taken: Sequence[Edit], edit: Edit) -> Iterable[Edit]:
    return (each for each in taken if each.end >= edit.start)


def _meet(a: Edit, b: Edit) -> bool:
    """Whether both are about the same piece; what is put in before a piece is not about it."""
    is_one_place = a.start == a.end == b.start == b.end
    return is_one_place or (a.start < b.end and b.start < a.end)


def _applied(text: str, drafts: Sequence[tuple[Citation, Draft]]) -> tuple[str, tuple[Repair, ...]]:
    """The text with all edits made, and each change told."""
    flat = sorted(
        ((edit, number) for number, (_, draft) in enumerate(drafts) for edit in draft.edits),
        key=lambda each: (each[0].start, each[0].end),
    )
    parts: list[str] = []
    pieces: dict[int, list[Replacement]] = {}
    at = length = 0
    for edit, number in flat:
        parts += [text[at : edit.start], edit.new]
        length += edit.start - at
        new_span = Span(length, length + len(edit.new))
        length += len(edit.new)
        at = edit.end
        piece = Replacement(
            Span(edit.start, edit.end), new_span, text[edit.start : edit.end], edit.new
        )
        pieces.setdefault(number, []).append(piece)
    new = "".join([*parts, text[at:]])
    return new, tuple(
        _told(text, new, citation, draft, pieces[number])
        for number, (citation, draft) in enumerate(drafts)
    )


def _told(
    text: str, new: str, citation: Citation, draft: Draft, pieces: Sequence[Replacement]
) -> Repair:
    first, last = pieces[0], pieces[-1]
    before = Span(min(first.span.start, citation.span.start), max(last.span.end, citation.span.end))
    lead, tail = first.span.start - before.start, before.end - last.span.end
    return Repair(
        kind=draft.kind or RepairKind.TIDIED,
        url=citation.url,
        archive_url=draft.archive_url,
        before=text[before.start : before.end],
        after=new[first.new_span.start - lead : last.new_span.end + tail],
        replacements=tuple(pieces),
    )
