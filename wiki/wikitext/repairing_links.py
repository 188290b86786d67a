"""A link outside of citation templates, repaired: brackets and bare URLs, their tags and references."""

import re
from collections.abc import Callable
from typing import Final

from wiki.wikitext.citations import Citation, Span, Tag, Way
from wiki.wikitext.escaping import as_value, is_title, is_url_safe
from wiki.wikitext.repairing_copies import Standing, Worth, standing, usable
from wiki.wikitext.repairing_types import (
    Archived,
    CannotRepairError,
    Condition,
    Draft,
    Edit,
    Reason,
    Remedy,
    RepairKind,
)
from wiki.wikitext.repairing_words import Page, archive_tag, citation_text, dead_tag, is_obsolete

_OPENED = re.compile(r"<ref(?:\s[^<>]*)?>\s*", re.IGNORECASE)
_CLOSED = re.compile(r"\s*\.?\s*</ref\s*>", re.IGNORECASE)
# Comments and such tags vanish: what stands behind them would be a part of the URL.
_URL_ENDS = re.compile(
    r"[.,;:!?]*(?:[\s\[]|<(?!!--|/?(?:noinclude|onlyinclude|includeonly)\b)|\Z)", re.IGNORECASE
)
_LEFT_OVER = re.compile(r"[\s<.,;:!?)|}]|\Z")
_MARKUP: Final = frozenset("[]{}|<>\n")
_NEAR: Final = 30  # characters between a link and the plain link to its copy
Fits = Callable[[int], bool]


def repair_link(page: Page, citation: Citation, remedy: Remedy, draft: Draft, fits: Fits) -> None:
    """Put into the draft what is to be changed at a bracketed or bare link.

    Args:
        page: that it stands on.
        citation: the link.
        remedy: what is known of it.
        draft: takes the edits.
        fits: whether a template may be put in at that place of the text.

    Raises:
        CannotRepairError: it is left as it is.
    """
    if citation.dead_tag is not None and citation.dead_tag.span == citation.span:
        _repair_lone_tag(page, citation, remedy, draft)
        return
    if remedy.condition is Condition.ALIVE:
        _revive(page, citation, remedy, draft)
        return
    raw = page.text[citation.url_span.start : citation.url_span.end]
    own = page.options.own
    in_place = standing(raw, citation.url, remedy, own)
    copy = usable(remedy.copy, citation.url, own)
    if in_place.found is not None and in_place.found.is_known:
        _in_place(citation, in_place.worth, in_place.secure, copy, draft)
        return
    beside = standing(citation.archive_url, citation.url, remedy, own)
    if beside.worth is Worth.GOOD:
        draft.archive_url = beside.secure
        _tidy_tag(page, citation, beside, draft)
        return
    if copy is None:
        raise CannotRepairError(Reason.NO_COPY)
    if citation.archive_tag is not None:
        _replace_tag(page, citation.archive_tag, citation, copy, draft)
        return
    if remedy.condition is Condition.USURPED and citation.way is not Way.TEMPLATE:
        _put_in_place(citation, copy, draft)
    elif not _convert(page, citation, remedy, copy, draft):
        _put_beside(page, citation, copy, draft, fits)


def _repair_lone_tag(page: Page, citation: Citation, remedy: Remedy, draft: Draft) -> None:
    """A dead-link tag that is the link itself: ``{{Toter Link|url=…|text=…}}``."""
    copy = usable(remedy.copy, citation.url, page.options.own)
    if remedy.condition is Condition.ALIVE or copy is None:
        return  # we write no such tags, and it says already what there is to say
    if "{title}" not in page.rules.writing.archive:
        raise CannotRepairError(Reason.OTHER_TEMPLATE)
    _write_tag(page, citation.span, citation, copy, draft)
    draft.note(RepairKind.ARCHIVED)


def repair_archive_template(page: Page, citation: Citation, remedy: Remedy, draft: Draft) -> None:
    """An archive template that stands for its link: replaced when it shows no copy (B13).

    Raises:
        CannotRepairError: it is left as it is.
    """
    if remedy.condition is Condition.ALIVE:
        return
    there = standing(citation.archive_url, citation.url, remedy, page.options.own)
    if there.worth is Worth.GOOD:
        return
    copy = usable(remedy.copy, citation.url, page.options.own)
    if copy is None:
        raise CannotRepairError(Reason.NO_COPY)
    _write_tag(page, citation.span, citation, copy, draft)
    draft.note(RepairKind.REPLACED)


def copy_follows(page: Page, citation: Citation, following: Citation | None) -> bool:
    """Whether a plain link to a copy of it stands right behind the link: ``([https://… archived])``."""
    if following is None or following.url != citation.url or citation.way is Way.CITATION:
        return False
    if following.way not in (Way.BRACKETS, Way.BARE):
        return False
    between = page.text[citation.span.end : following.span.start]
    raw = page.text[following.url_span.start : following.url_span.end]
    found = standing(raw, citation.url, Remedy(Condition.DEAD), page.options.own)
    return (
        len(between) <= _NEAR
        and not set(between) & {"\n", "<", "*"}
        and found.found is not None
        and found.found.is_known
    )


def tag_dead(
    page: Page, citation: Citation, draft: Draft, fits: Fits, *, is_sought: bool = True
) -> None:
    """Put a dead-link tag behind the link or citation, once.

    Raises:
        CannotRepairError: the wiki has none, none is wanted, or there is no room for it.
    """
    if citation.is_said_dead:
        return
    new = dead_tag(page, citation.url, is_sought=is_sought)
    if not new or not page.options.tag_dead:
        raise CannotRepairError(Reason.NO_COPY)
    if not is_place(page, citation) or not fits(citation.span.end):
        raise CannotRepairError(Reason.PLACE)
    draft.edits.append(Edit(citation.span.end, citation.span.end, f" {new}"))
    draft.note(RepairKind.TAGGED)


def is_place(page: Page, citation: Citation) -> bool:
    """Whether what is put behind it stands beside the link.

    Not behind an infobox; but behind a template that is a link, and behind one in a reference: that is
    somebody's own citation template.
    """
    is_link = page.rules.name_of(citation.template) in page.rules.links
    return citation.way is not Way.TEMPLATE or is_link or citation.reference is not None


def remove_own_tag(page: Page, citation: Citation, remedy: Remedy, draft: Draft) -> None:
    """Our own dead-link tag, taken back; where tags tell which bot wrote them, only one that does."""
    tag, bot = citation.dead_tag, page.options.bot
    if not remedy.is_ours or tag is None:
        return
    told = (each.value for each in tag.parameters.values())
    if bot and "{bot}" in page.rules.writing.dead_tag and not any(bot in each for each in told):
        return
    draft.edits.append(remove_tag(page.text, tag, is_bare=citation.way is Way.BARE))
    draft.note(RepairKind.REVIVED)


def remove_tag(text: str, tag: Tag, *, is_bare: bool) -> Edit:
    """A tag taken out, with the spaces before it where they would be left over.

    Args:
        text: the page's.
        tag: what is taken out.
        is_bare: it stands behind a bare URL, which must end where it ended.
    """
    start, end = tag.span.start, tag.span.end
    if is_bare and not _URL_ENDS.match(text, end):
        return Edit(start, end, "" if text[start - 1 : start].isspace() else " ")
    if _LEFT_OVER.match(text, end):
        blank = start
        while blank > 0 and text[blank - 1] in " \t":
            blank -= 1
        if blank > 0 and text[blank - 1] != "\n":
            start = blank
    return Edit(start, end, "")


def _revive(page: Page, citation: Citation, remedy: Remedy, draft: Draft) -> None:
    remove_own_tag(page, citation, remedy, draft)
    span = citation.url_span
    raw = page.text[span.start : span.end]
    there = standing(raw, citation.url, remedy, page.options.own)
    if remedy.is_ours and there.found is not None and there.found.is_known:
        if not is_url_safe(citation.url):
            raise CannotRepairError(Reason.UNSAFE)
        draft.edits.append(Edit(span.start, span.end, citation.url))
        draft.note(RepairKind.REVIVED)


def _in_place(
    citation: Citation, worth: Worth, secure: str, copy: Archived | None, draft: Draft
) -> None:
    """The link is an archive's address already: it stays, unless it shows nothing (B13)."""
    span = citation.url_span
    if worth is Worth.GOOD:
        draft.archive_url = secure
        return
    if copy is None:
        raise CannotRepairError(Reason.NO_COPY)
    draft.edits.append(Edit(span.start, span.end, copy.address))
    draft.archive_url = copy.address
    draft.note(RepairKind.REPLACED)


def _put_in_place(citation: Citation, copy: Archived, draft: Draft) -> None:
    """The copy in the link's place: where nobody should be led there, or nothing else can name it."""
    if citation.way is Way.TEMPLATE:
        raise CannotRepairError(Reason.OTHER_TEMPLATE)
    draft.edits.append(Edit(citation.url_span.start, citation.url_span.end, copy.address))
    draft.archive_url = copy.address
    draft.note(RepairKind.ARCHIVED)


def _tidy_tag(page: Page, citation: Citation, there: Standing, draft: Draft) -> None:
    """An archive template that is right is written anew where the wiki prefers another one (B15)."""
    tag, found = citation.archive_tag, there.found
    if tag is None or found is None or not is_obsolete(page, tag):
        return
    copy = Archived(there.secure, found.timestamp, found.service)
    _write_tag(page, tag.span, citation, copy, draft)
    draft.note(RepairKind.TIDIED)


def _replace_tag(page: Page, tag: Tag, citation: Citation, copy: Archived, draft: Draft) -> None:
    """An archive template that shows no copy gives way to one that does, in the preferred form."""
    _write_tag(page, tag.span, citation, copy, draft)
    draft.note(RepairKind.REPLACED)


def _write_tag(page: Page, span: Span, citation: Citation, copy: Archived, draft: Draft) -> None:
    """The copy's archive template, in the place of what stands there."""
    is_link = span == citation.span  # it shows the link's own words, too
    new = archive_tag(page, citation.url, copy, _title(citation, copy) if is_link else "")
    if not new:
        raise CannotRepairError(Reason.OTHER_TEMPLATE)
    draft.edits.append(Edit(span.start, span.end, new))
    draft.archive_url = copy.address


def _convert(page: Page, citation: Citation, remedy: Remedy, copy: Archived, draft: Draft) -> bool:
    """Make a bare reference a citation template (B15); whether that was safe."""
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
    draft.edits.append(Edit(citation.span.start, end, new))
    draft.archive_url = copy.address
    draft.note(RepairKind.CONVERTED)
    return True


def _title(citation: Citation, copy: Archived) -> str:
    """The link's own title as it stands, when it is plain; else the archived page's, made harmless."""
    own = citation.title.strip()
    if own and "://" not in own:
        is_plain = not (_MARKUP & set(own)) and "''" not in own and "~~~" not in own
        return own if is_plain else ""
    return as_value(copy.title) if is_title(copy.title) else ""


def _put_beside(page: Page, citation: Citation, copy: Archived, draft: Draft, fits: Fits) -> None:
    """The copy behind the link; a dead-link tag gives way to it.

    On a wiki without an archive template it takes the link's place.
    """
    new = archive_tag(page, citation.url, copy)
    if not new:
        _put_in_place(citation, copy, draft)
        return
    if not is_place(page, citation) or not fits(citation.span.end):
        raise CannotRepairError(Reason.PLACE)
    new = f" {new}"
    tag = citation.dead_tag
    if tag is not None and not page.text[citation.span.end : tag.span.start].strip(" "):
        draft.edits.append(Edit(citation.span.end, tag.span.end, new))
    else:
        draft.edits.append(Edit(citation.span.end, citation.span.end, new))
    draft.archive_url = copy.address
    draft.note(RepairKind.ARCHIVED)
