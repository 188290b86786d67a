"""Repair of bracketed and bare links, their tags and references."""

import re
from collections.abc import Callable
from typing import Final

from wiki.wikitext.citation_model import (
    ArchivedCopy,
    CannotRepairError,
    Citation,
    CitationForm,
    CitationTag,
    LinkCondition,
    LinkRemedy,
    NoRepairReason,
    RepairDraft,
    RepairKind,
    SpanEdit,
    TextSpan,
)
from wiki.wikitext.repair_markup import (
    CopyWorth,
    PageRepairContext,
    archive_tag,
    assess_copy,
    citation_text,
    dead_tag,
    escape_value,
    is_obsolete,
    is_title,
    is_url_safe,
    safe_url,
    usable_copy,
)

_OPENED = re.compile(r"<ref(?:\s[^<>]*)?>\s*", re.IGNORECASE)
_CLOSED = re.compile(r"\s*\.?\s*</ref\s*>", re.IGNORECASE)
# Comments and such tags vanish, so the text after them would become part of the URL.
_URL_ENDS = re.compile(r"[.,;:!?]*(?:[\s\[]|<(?!!--|/?(?:noinclude|onlyinclude|includeonly)\b)|\Z)", re.IGNORECASE)
_LEFT_OVER = re.compile(r"[\s<.,;:!?)|}]|\Z")
_MARKUP: Final = frozenset("[]{}|<>\n")
_NEAR: Final = 30  # characters between a link and the plain link to its copy
TakesTemplate = Callable[[int], bool]


def repair_link(
    page: PageRepairContext, citation: Citation, remedy: LinkRemedy, draft: RepairDraft, fits: TakesTemplate
) -> None:
    """Add the edits for a link; `fits`: a template may be inserted there. Raises CannotRepairError."""
    own = page.options.own
    copy = usable_copy(remedy.copy, citation.url, own)
    is_alive = remedy.condition is LinkCondition.ALIVE
    if citation.dead_tag is not None and citation.dead_tag.span == citation.span:
        # The dead-link tag is the link itself: ``{{Toter Link|url=…|text=…}}``.
        if is_alive or copy is None:
            return  # the bot does not write such tags, and this one is already correct
        if "{title}" not in page.rules.writing.archive:
            raise CannotRepairError(NoRepairReason.OTHER_TEMPLATE)
        _write_tag(page, citation.span, citation, copy, draft, RepairKind.ARCHIVED)
        return
    raw = page.text[citation.url_span.start : citation.url_span.end]
    in_place = assess_copy(raw, citation.url, remedy, own)
    is_archive = in_place.archive is not None and in_place.archive.is_known
    if is_alive:
        remove_own_tag(page, citation, remedy, draft)
        if remedy.is_ours and is_archive:
            draft.replace(citation.url_span, safe_url(citation.url), RepairKind.REVIVED)
        return
    if is_archive:
        # An archive URL instead of the link stays unless it shows nothing (B13).
        if in_place.worth is CopyWorth.GOOD:
            draft.archive_url = in_place.secure
        elif copy is None:
            raise CannotRepairError(NoRepairReason.NO_COPY)
        else:
            draft.replace(citation.url_span, copy.address, RepairKind.REPLACED, copy.address)
        return
    beside = assess_copy(citation.archive_url, citation.url, remedy, own)
    if beside.worth is CopyWorth.GOOD:
        draft.archive_url = beside.secure
        tag, archive = citation.archive_tag, beside.archive
        if tag is not None and archive is not None and is_obsolete(page, tag):
            # A correct archive template where the wiki prefers another one (B15).
            existing_copy = ArchivedCopy(beside.secure, archive.timestamp, archive.service)
            _write_tag(page, tag.span, citation, existing_copy, draft, RepairKind.TIDIED)
        return
    if copy is None:
        raise CannotRepairError(NoRepairReason.NO_COPY)
    if citation.archive_tag is not None:
        _write_tag(page, citation.archive_tag.span, citation, copy, draft, RepairKind.REPLACED)
        return
    if remedy.condition is LinkCondition.USURPED and citation.way is not CitationForm.TEMPLATE:
        # Readers are not led to the original.
        draft.replace(citation.url_span, copy.address, RepairKind.ARCHIVED, copy.address)
    elif not _convert(page, citation, remedy, copy, draft):
        _put_beside(page, citation, copy, draft, fits)


def repair_archive_template(
    page: PageRepairContext, citation: Citation, remedy: LinkRemedy, draft: RepairDraft
) -> None:
    """Replace an archive template that replaces its link when it shows no copy (B13)."""
    if remedy.condition is LinkCondition.ALIVE:
        return
    existing = assess_copy(citation.archive_url, citation.url, remedy, page.options.own)
    if existing.worth is CopyWorth.GOOD:
        return
    copy = usable_copy(remedy.copy, citation.url, page.options.own)
    if copy is None:
        raise CannotRepairError(NoRepairReason.NO_COPY)
    _write_tag(page, citation.span, citation, copy, draft, RepairKind.REPLACED)


def copy_follows(page: PageRepairContext, citation: Citation, following: Citation | None) -> bool:
    """Check for a plain link to a copy directly after the link: ``([https://… archived])``."""
    if following is None or following.url != citation.url or citation.way is CitationForm.CITATION:
        return False
    if following.way not in (CitationForm.BRACKETS, CitationForm.BARE):
        return False
    between = page.text[citation.span.end : following.span.start]
    raw = page.text[following.url_span.start : following.url_span.end]
    assessment = assess_copy(raw, citation.url, LinkRemedy(LinkCondition.DEAD), page.options.own)
    return (
        len(between) <= _NEAR
        and not set(between) & {"\n", "<", "*"}
        and assessment.archive is not None
        and assessment.archive.is_known
    )


def tag_dead(
    page: PageRepairContext, citation: Citation, draft: RepairDraft, fits: TakesTemplate, *, is_sought: bool = True
) -> None:
    """Insert a dead-link tag after the link or citation, once; CannotRepairError when none can be written there."""
    if citation.is_said_dead:
        return
    new = dead_tag(page, citation.url, is_sought=is_sought)
    if not new or not page.options.tag_dead:
        raise CannotRepairError(NoRepairReason.NO_COPY)
    if not is_text_place(page, citation) or not fits(citation.span.end):
        raise CannotRepairError(NoRepairReason.PLACE)
    end = citation.span.end
    draft.replace(TextSpan(end, end), f" {new}", RepairKind.TAGGED)


def is_text_place(page: PageRepairContext, citation: Citation) -> bool:
    """Return True if text inserted after the citation is shown at the link, not in a template such as an infobox."""
    is_link = page.rules.name_of(citation.template) in page.rules.links
    return citation.way is not CitationForm.TEMPLATE or is_link or citation.reference is not None


def remove_own_tag(page: PageRepairContext, citation: Citation, remedy: LinkRemedy, draft: RepairDraft) -> None:
    """Remove the bot's own dead-link tag; if tags name their bot, only one with its name."""
    tag, bot = citation.dead_tag, page.options.bot
    if not remedy.is_ours or tag is None:
        return
    values = (each.value for each in tag.parameters.values())
    if bot and "{bot}" in page.rules.writing.dead_tag and not any(bot in each for each in values):
        return
    draft.edits.append(remove_tag(page, tag, is_bare=citation.way is CitationForm.BARE))
    draft.note(RepairKind.REVIVED)


def remove_tag(page: PageRepairContext, tag: CitationTag, *, is_bare: bool) -> SpanEdit:
    """Return the edit that removes a tag and spaces left over; a bare URL's end must not change."""
    text, start, end = page.text, tag.span.start, tag.span.end
    if is_bare and (not _URL_ENDS.match(text, end) or page.is_escaped(end)):
        return SpanEdit(start, end, "" if text[start - 1 : start].isspace() else " ")
    if _LEFT_OVER.match(text, end):
        blank = start
        while blank > 0 and text[blank - 1] in " \t":
            blank -= 1
        start = blank if blank > 0 and text[blank - 1] != "\n" else start
    return SpanEdit(start, end, "")


def _write_tag(
    page: PageRepairContext,
    span: TextSpan,
    citation: Citation,
    copy: ArchivedCopy,
    draft: RepairDraft,
    kind: RepairKind,
) -> None:
    is_link = span == citation.span  # it shows the link's own words, too
    new = archive_tag(page, citation.url, copy, _title(citation, copy) if is_link else "")
    if not new:
        raise CannotRepairError(NoRepairReason.OTHER_TEMPLATE)
    draft.replace(span, new, kind, copy.address)


def _convert(
    page: PageRepairContext, citation: Citation, remedy: LinkRemedy, copy: ArchivedCopy, draft: RepairDraft
) -> bool:
    """Convert a bare reference into a citation template (B15); return False if not safe."""
    text, reference = page.text, citation.reference
    if not (page.options.convert_bare and citation.is_convertible and reference):
        return False
    title = _title(citation, copy)
    end = citation.dead_tag.span.end if citation.dead_tag is not None else citation.span.end
    opened = _OPENED.fullmatch(text, reference.start, citation.span.start)
    closed = _CLOSED.fullmatch(text, end, reference.end)
    between = text[citation.span.end : citation.dead_tag.span.start] if citation.dead_tag else ""
    raw = text[citation.url_span.start : citation.url_span.end]
    is_exact = opened is not None and closed is not None and not between.strip()
    if not (is_exact and title and is_url_safe(raw)):
        return False
    new = citation_text(page, raw, title, copy, remedy.condition.value)
    if not new:
        return False
    draft.replace(TextSpan(citation.span.start, end), new, RepairKind.CONVERTED, copy.address)
    return True


def _title(citation: Citation, copy: ArchivedCopy) -> str:
    """Return the link's own title when it is plain text, else the archived page's, escaped."""
    own = citation.title.strip()
    if own and "://" not in own:
        is_plain = not (_MARKUP & set(own)) and "''" not in own and "~~~" not in own
        return own if is_plain else ""
    return escape_value(copy.title) if is_title(copy.title) else ""


def _put_beside(
    page: PageRepairContext, citation: Citation, copy: ArchivedCopy, draft: RepairDraft, fits: TakesTemplate
) -> None:
    """Insert the copy after the link, or replace the link on a wiki without an archive template."""
    new = archive_tag(page, citation.url, copy)
    if not new and citation.way is CitationForm.TEMPLATE:
        raise CannotRepairError(NoRepairReason.OTHER_TEMPLATE)
    if not new:
        draft.replace(citation.url_span, copy.address, RepairKind.ARCHIVED, copy.address)
        return
    if not is_text_place(page, citation) or not fits(citation.span.end):
        raise CannotRepairError(NoRepairReason.PLACE)
    start = end = citation.span.end
    tag = citation.dead_tag
    if tag is not None and not page.text[start : tag.span.start].strip(" "):
        end = tag.span.end
    draft.replace(TextSpan(start, end), f" {new}", RepairKind.ARCHIVED, copy.address)
