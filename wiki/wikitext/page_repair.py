"""Repair of a page's lost links, with every other byte unchanged. Pure and idempotent.

Only citations whose URL has a remedy are considered; a repair that is not certain is refused, with a reason.
Before saving, the new text is parsed and compared (`wiki.bot.wikitext_adapter`).
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from wiki.wikitext import link_repair
from wiki.wikitext.citation_model import (
    CannotRepairError,
    Citation,
    CitationForm,
    CitationRepair,
    LinkCondition,
    LinkRemedy,
    NoRepairReason,
    ParameterRole,
    Remedies,
    RepairDraft,
    RepairedText,
    RepairKind,
    RepairOptions,
    ReplacedSpan,
    SpanEdit,
    TextSpan,
    UnrepairedCitation,
)
from wiki.wikitext.link_parser import is_escaped
from wiki.wikitext.page_style import page_style
from wiki.wikitext.parser import NodeKind, WikitextNode, node_edges, parse
from wiki.wikitext.repair_markup import PageRepairContext, usual_dates
from wiki.wikitext.template_map import TemplateRules, fold_name
from wiki.wikitext.template_repair import repair_template

# Beside those of the template map, templates whose parameters are running text.
_TEXT_TEMPLATES: Final = frozenset({"plainlist", "unbulleted list", "ubl", "reflist"})
_TEXT_TAGS: Final = frozenset({"references", "poem"})  # where the text around them is running text
_LONGEST_NAME: Final = 200
_Piece = tuple[int, int, Sequence[WikitextNode], bool]  # from, to, nodes within, whether it is running text


def insertion_places(text: str, offsets: Iterable[int], references: frozenset[str]) -> frozenset[int]:
    """Return those of these places (ends of links) where a template may be inserted. Linear in the text.

    Excluded are template parameters outside of references; headings, galleries, code and comments; and places before
    a ``<`` or ``>`` that opens no tag: after a bare URL it is text and would become part of what follows.
    """
    wanted = sorted({each for each in offsets if 0 <= each <= len(text)})
    if not wanted:
        return frozenset()
    state = dict.fromkeys(wanted, True)
    top = parse(text).children
    due: list[_Piece] = [(0, len(text), top, True)]
    while due:
        start, end, nodes, is_text = due.pop()
        state.update((each, is_text) for each in _within(wanted, start, end))
        for node in nodes:
            inside = _within(wanted, node.start + 1, node.end - 1)
            if inside:
                state.update((each, False) for each in inside)
                due += _pieces(text, node, references, is_text=is_text)
    edges = node_edges(top)
    allowed = (each for each in wanted if state[each] and not is_escaped(text, each, edges))
    return frozenset(allowed) - _in_headings(text, wanted)


def _within(wanted: Sequence[int], start: int, end: int) -> Sequence[int]:
    first = bisect_left(wanted, start)
    return wanted[first : bisect_right(wanted, end, lo=first)]


def _pieces(text: str, node: WikitextNode, references: frozenset[str], *, is_text: bool) -> Iterator[_Piece]:
    if node.kind is NodeKind.CONTENT:
        is_inner = node.name == "ref" or (is_text and node.name in _TEXT_TAGS)
        yield (*node.inner, node.children, is_inner)
    elif node.kind is NodeKind.TEMPLATE:
        name = fold_name(text[node.parts[0].start : node.parts[0].end][:_LONGEST_NAME])
        is_inner = is_text and (name in references or name in _TEXT_TEMPLATES or name.startswith("#tag:ref"))
        for part in node.parts[1:]:
            yield (max(part.start, part.equals + 1), part.end, part.children, is_inner)


def _in_headings(text: str, wanted: Sequence[int]) -> frozenset[int]:
    """Return the places that are in headings, in one pass over the lines."""
    places, end, is_heading = set(), -1, False
    for at in wanted:
        if at > end:
            start = text.rfind("\n", max(end, 0), at) + 1 or max(end + 1, 0)
            end = text.find("\n", at)
            end = end if end >= 0 else len(text)
            is_heading = text.startswith("=", start) and text[start:end].rstrip().endswith("=")
        if is_heading:
            places.add(at)
    return frozenset(places)


def repair_page(
    text: str, citations: Sequence[Citation], remedies: Remedies, rules: TemplateRules, options: RepairOptions
) -> RepairedText:
    """Repair every citation whose URL has a remedy, with rules limited by `limit_rules`."""
    dead_citations = [each for each in citations if each.url in remedies]
    if not dead_citations:
        return RepairedText(text)
    dates = (
        parameter.value
        for each in citations
        for role, parameter in each.parameters.items()
        if role in (ParameterRole.ACCESS_DATE, ParameterRole.ARCHIVE_DATE)
    )
    page = PageRepairContext(text, rules, options, page_style(text, dates, usual_dates(rules)))
    ends = Counter(each.span.end for each in citations)

    @cache
    def places() -> frozenset[int]:
        # At the end of a template with several links a tag would be ambiguous.
        single = (end for end, count in ends.items() if count == 1)
        return insertion_places(text, single, rules.references)

    following = dict(zip(map(id, citations), citations[1:], strict=False))
    drafts: list[tuple[Citation, RepairDraft]] = []
    refused: list[UnrepairedCitation] = []
    for citation in dead_citations:
        if link_repair.copy_follows(page, citation, following.get(id(citation))):
            continue
        try:
            drafts.append((citation, _draft(page, citation, remedies[citation.url], lambda at: at in places())))
        except CannotRepairError as error:
            refused.append(UnrepairedCitation(citation, error.reason))
    _remove_tags(page, citations, drafts)
    new, changes = _apply_drafts(text, _without_overlaps(drafts, refused))
    refused.sort(key=lambda each: each.citation.span.start)
    return RepairedText(new, changes, tuple(refused))


def _draft(
    page: PageRepairContext, citation: Citation, remedy: LinkRemedy, fits: link_repair.TakesTemplate
) -> RepairDraft:
    if citation.is_held:
        raise CannotRepairError(NoRepairReason.HELD)
    if citation.is_malformed:
        raise CannotRepairError(NoRepairReason.MALFORMED)
    draft = RepairDraft()
    try:
        if citation.way is CitationForm.CITATION:
            repair_template(page, citation, remedy, draft)
        elif citation.way is CitationForm.ARCHIVE_TEMPLATE:
            link_repair.repair_archive_template(page, citation, remedy, draft)
        else:
            link_repair.repair_link(page, citation, remedy, draft, fits)
    except CannotRepairError as error:
        if error.reason is not NoRepairReason.NO_COPY:
            raise
        draft = RepairDraft()
        link_repair.tag_dead(page, citation, draft, fits, is_sought=remedy.is_sought)
    if remedy.condition is LinkCondition.ALIVE and citation.way is CitationForm.CITATION:
        link_repair.remove_own_tag(page, citation, remedy, draft)
    return draft


def _remove_tags(
    page: PageRepairContext, citations: Sequence[Citation], drafts: Sequence[tuple[Citation, RepairDraft]]
) -> None:
    """Remove dead-link tags where a copy was added; a shared tag only when all its links have one."""
    helped = {
        id(citation) for citation, draft in drafts if draft.archive_url and draft.kind not in (None, RepairKind.TIDIED)
    }
    left = {each.dead_tag.span for each in citations if each.dead_tag is not None and id(each) not in helped}
    done: set[TextSpan] = set()
    for citation, draft in drafts:
        tag = citation.dead_tag
        if tag is None or id(citation) not in helped or tag.span in left | done:
            continue
        done.add(tag.span)
        if not any(each.start < tag.span.end and tag.span.start < each.end for each in draft.edits):
            draft.edits.append(link_repair.remove_tag(page, tag, is_bare=citation.way is CitationForm.BARE))


def _without_overlaps(
    drafts: Sequence[tuple[Citation, RepairDraft]], refused: list[UnrepairedCitation]
) -> list[tuple[Citation, RepairDraft]]:
    """Return the drafts with changes; of overlapping drafts the first."""
    accepted, accepted_edits = list[tuple[Citation, RepairDraft]](), list[SpanEdit]()
    for citation, draft in sorted(drafts, key=lambda each: each[0].span.start):
        if not draft.edits or draft.kind is None:
            continue
        if any(
            # Both change the same piece; an insertion before a piece does not overlap it.
            a.start == a.end == b.start == b.end or (a.start < b.end and b.start < a.end)
            for a in draft.edits
            for b in accepted_edits
        ):
            refused.append(UnrepairedCitation(citation, NoRepairReason.LATER))
            continue
        accepted_edits = [*accepted_edits[-64:], *draft.edits]
        accepted.append((citation, draft))
    return accepted


def _apply_drafts(text: str, drafts: Sequence[tuple[Citation, RepairDraft]]) -> tuple[str, tuple[CitationRepair, ...]]:
    flat = sorted(
        ((edit, number) for number, (_, draft) in enumerate(drafts) for edit in draft.edits),
        key=lambda each: (each[0].start, each[0].end),
    )
    parts: list[str] = []
    pieces = defaultdict[int, list[ReplacedSpan]](list)
    at = length = 0
    for edit, number in flat:
        parts += [text[at : edit.start], edit.new]
        start = length + edit.start - at
        at, length = edit.end, start + len(edit.new)
        old, new_span = TextSpan(edit.start, edit.end), TextSpan(start, length)
        pieces[number].append(ReplacedSpan(old, new_span, text[edit.start : edit.end], edit.new))
    new = "".join([*parts, text[at:]])
    repairs = []
    for number, (citation, draft) in enumerate(drafts):
        replaced, span = pieces[number], citation.span
        first, last = replaced[0], replaced[-1]
        before = TextSpan(min(first.span.start, span.start), max(last.span.end, span.end))
        lead, tail = first.span.start - before.start, before.end - last.span.end
        repairs.append(
            CitationRepair(
                kind=draft.kind or RepairKind.TIDIED,
                url=citation.url,
                archive_url=draft.archive_url,
                before=text[before.start : before.end],
                after=new[first.new_span.start - lead : last.new_span.end + tail],
                replacements=tuple(replaced),
            )
        )
    return new, tuple(repairs)
