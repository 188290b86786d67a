"""Repair of citation templates: parameters filled, changed, renamed or added."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from wiki.wikitext.citation_draft import read_date
from wiki.wikitext.citation_model import (
    ArchivedCopy,
    CannotRepairError,
    Citation,
    LinkCondition,
    LinkRemedy,
    NoRepairReason,
    ParameterRole,
    RepairDraft,
    RepairKind,
    SpanEdit,
)
from wiki.wikitext.page_style import (
    TemplateField,
    TemplateLayout,
    TemplateStyle,
    date_style,
    format_day,
    template_layout,
)
from wiki.wikitext.repair_markup import (
    CopyWorth,
    ExistingCopy,
    PageRepairContext,
    assess_copy,
    day_of_stamp,
    preferred_parameter,
    safe_url,
    status_meaning,
    status_value,
    usable_copy,
)
from wiki.wikitext.template_map import CitationTemplate

_NO_DIGITS: Final = re.compile(r"[.:T-]")  # within a timestamp, in the address of some archives


@dataclass
class _TemplateWriter:
    page: PageRepairContext
    template: TemplateLayout
    known: CitationTemplate
    link: TemplateField  # of the URL
    put_in: list[tuple[TemplateField, str, str]] = field(default_factory=list)  # field before it, name, value
    values: dict[int, str] = field(default_factory=dict)  # by the start of the field that gets it
    edits: list[SpanEdit] = field(default_factory=list)

    def field_of(self, role: ParameterRole) -> TemplateField | None:
        """Return a role's parameter with a value, else the last; CannotRepairError: two have values."""
        parameter = self.template.named(name for name, each in self.known.roles.items() if each is role)
        filled = [each for each in parameter if each.value]
        if len(filled) > 1 or len({each.name for each in parameter}) < len(parameter):
            raise CannotRepairError(NoRepairReason.DOUBLE)
        candidates = filled or parameter[-1:]
        return candidates[0] if candidates else None

    def plain_field(self, role: ParameterRole) -> TemplateField | None:
        """Return the effective parameter as `field_of`; raises also if it holds more than text."""
        parameter = self.field_of(role)
        if parameter is not None and not parameter.is_plain:
            raise CannotRepairError(NoRepairReason.COMMENT)
        return parameter

    def value_of(self, role: ParameterRole) -> str:
        """Return the value of the role's parameter; empty without one. Raises as `plain_field`."""
        parameter = self.plain_field(role)
        return parameter.value if parameter is not None else ""

    def set(self, role: ParameterRole, value: str, *behind: ParameterRole) -> None:
        """Set the role's parameter; a new one goes behind that of the first role in `behind` that exists, or the link."""
        parameter, usual = self.plain_field(role), preferred_parameter(self.known, role)
        if parameter is None:
            if not usual:
                raise CannotRepairError(NoRepairReason.OTHER_TEMPLATE)
            anchor = next((each for each in map(self.field_of, behind) if each is not None), None)
            if anchor is None:  # the link or the access date, the later one
                accessed = self.field_of(ParameterRole.ACCESS_DATE)
                is_later = accessed is not None and accessed.value and accessed.start > self.link.start
                anchor = accessed if accessed is not None and is_later else self.link
            self.put_in.append((anchor, usual, value))
            return
        # Obsolete names of the status have other values, too.
        if role is ParameterRole.STATUS and parameter.name != usual:
            self.edits.append(SpanEdit(parameter.name_span.start, parameter.name_span.end, usual))
        self.values[parameter.start] = value

    def take_out(self, role: ParameterRole) -> None:
        """Remove the role's parameter, with the white space before it."""
        parameter = self.plain_field(role)
        if parameter is None:
            return
        start = parameter.start - len(self.template.lead_of(self.template.fields.index(parameter)))
        self.edits.append(SpanEdit(start, parameter.inner.end if parameter.value else parameter.value_start, ""))

    def all_edits(self) -> list[SpanEdit]:
        """Return all edits; insertions at one place are in the order in which they were requested."""
        behind = defaultdict[int, str](str)
        for anchor, name, value in self.put_in:
            behind[anchor.start] += TemplateStyle.of(self.template, anchor).parameter(name, value)
        done = list(self.edits)
        for each in self.template.fields:
            new = behind[each.start]
            if each.start in self.values:
                done.append(self._valued(each, self.values[each.start], new))
            elif new:
                at = self.template.behind(each, new.partition("|")[0])
                done.append(SpanEdit(at, at, new))
        return done

    def _valued(self, parameter: TemplateField, value: str, behind: str) -> SpanEdit:
        """Return the edit that sets a field's value, in the template's white space, with insertions after it."""
        if parameter.value:
            return SpanEdit(parameter.inner.start, parameter.inner.end, value + behind)
        style = TemplateStyle.of(self.template, parameter)
        usual = style.after_equals.strip("\n")
        inline, newline, _ = self.template.text[parameter.value_start : parameter.end].partition("\n")
        if newline:
            new = (inline or usual) + value + behind
            return SpanEdit(parameter.value_start, parameter.value_start + len(inline), new)
        is_last = parameter.end == self.template.span.end - 2
        after = style.lead if not is_last and not style.lead.strip(" ") else ""
        return SpanEdit(parameter.value_start, parameter.end, usual + value + behind + after)


def repair_template(page: PageRepairContext, citation: Citation, remedy: LinkRemedy, draft: RepairDraft) -> None:
    """Add the edits for a citation template to the draft. Raises CannotRepairError: it is left unchanged."""
    writer = _writer(page, citation)
    if remedy.condition is LinkCondition.ALIVE:
        _revive(writer, remedy, draft)
    else:
        _repair_dead(writer, citation, remedy, draft)
    draft.edits += writer.all_edits()


def _writer(page: PageRepairContext, citation: Citation) -> _TemplateWriter:
    known = page.rules.citations.get(page.rules.name_of(citation.template))
    if known is None:
        raise CannotRepairError(NoRepairReason.OTHER_TEMPLATE)
    template = template_layout(page.text, citation.span)
    link = template.at(citation.url_span) if template is not None else None
    if template is None or link is None or not link.name:
        raise CannotRepairError(NoRepairReason.BROKEN)
    if not link.is_commented:
        raise CannotRepairError(NoRepairReason.COMMENT)
    if link.inner.start != citation.url_span.start or (link.is_plain and link.inner != citation.url_span):
        raise CannotRepairError(NoRepairReason.MALFORMED)
    if [each.name for each in template.fields].count(link.name) > 1:
        raise CannotRepairError(NoRepairReason.DOUBLE)
    others = {*known.more_urls, *(name for name, each in known.roles.items() if each is ParameterRole.URL)}
    if any(each.value and each is not link for each in template.named(others)):
        raise CannotRepairError(NoRepairReason.SEVERAL)
    return _TemplateWriter(page, template, known, link)


def _revive(writer: _TemplateWriter, remedy: LinkRemedy, draft: RepairDraft) -> None:
    """Remove the bot's own dead mark from a link that works again."""
    parameter = writer.field_of(ParameterRole.STATUS)
    if not remedy.is_ours or _status_meaning(writer, parameter) in ("", "live"):
        return
    if live := _status(writer, "live"):
        writer.set(ParameterRole.STATUS, live)
    else:
        writer.take_out(ParameterRole.STATUS)
    draft.note(RepairKind.REVIVED)


def _repair_dead(writer: _TemplateWriter, citation: Citation, remedy: LinkRemedy, draft: RepairDraft) -> None:
    url, own = citation.url, writer.page.options.own
    existing = assess_copy(writer.value_of(ParameterRole.ARCHIVE_URL), url, remedy, own)
    # The archive's address in place of the link, if any.
    value = writer.link.value if writer.link.is_plain else ""
    assessment = assess_copy(value, value, LinkRemedy(LinkCondition.DEAD), own).archive
    in_place = assess_copy(value if assessment and assessment.is_known else "", url, remedy, own)
    copy = usable_copy(remedy.copy, url, own)
    if existing.worth is CopyWorth.GOOD:
        _keep_copy(writer, existing, in_place, url, draft)
    elif in_place.worth is CopyWorth.GOOD and (copy is None or _day(in_place) is not None):
        # Move the archive URL to its parameter, and restore the original URL (B04, B15).
        moved = in_place.archive
        if moved is None or _day(in_place) is None:
            raise CannotRepairError(NoRepairReason.UNSAFE)
        address = safe_url(in_place.secure)
        writer.set(ParameterRole.URL, safe_url(url))
        _put_copy(writer, ArchivedCopy(address, moved.timestamp), ExistingCopy(CopyWorth.NONE, ""), draft)
        draft.kind = RepairKind.MOVED
    elif copy is not None:
        _put_copy(writer, copy, existing, draft)
        if in_place.worth is not CopyWorth.NONE:
            writer.set(ParameterRole.URL, safe_url(url))
            draft.kind = RepairKind.MOVED
    else:  # a status without a copy, where the wiki has one; `tag_dead` writes tags
        new = _status(writer, "dead")
        if not writer.page.is_said_alone or not new:
            raise CannotRepairError(NoRepairReason.NO_COPY)
        if _status_meaning(writer, writer.plain_field(ParameterRole.STATUS)) in ("", "live"):
            writer.set(ParameterRole.STATUS, new)
            draft.note(RepairKind.TAGGED)
        return
    _mark(writer, "usurped" if remedy.condition is LinkCondition.USURPED else "dead", draft)
    if existing.worth is CopyWorth.GOOD and draft.kind is not None:
        _correct_date(writer, existing)


def _keep_copy(
    writer: _TemplateWriter, existing: ExistingCopy, in_place: ExistingCopy, url: str, draft: RepairDraft
) -> None:
    """Keep a good copy: use https, add its date, restore the original URL."""
    if in_place.worth is not CopyWorth.NONE:
        writer.set(ParameterRole.URL, safe_url(url))
        draft.note(RepairKind.MOVED)
    if existing.secure != existing.address:
        writer.set(ParameterRole.ARCHIVE_URL, existing.secure)
        draft.note(RepairKind.TIDIED)
    draft.archive_url = existing.secure
    if existing.archive is None or _day(existing) is None:
        return
    if not writer.value_of(ParameterRole.ARCHIVE_DATE):
        _put_date(writer, existing.archive.timestamp)
        draft.note(RepairKind.TIDIED)


def _day(existing: ExistingCopy) -> date | None:
    return day_of_stamp(existing.archive.timestamp) if existing.archive is not None else None


def _put_copy(writer: _TemplateWriter, copy: ArchivedCopy, existing: ExistingCopy, draft: RepairDraft) -> None:
    writer.set(ParameterRole.ARCHIVE_URL, copy.address)
    _put_date(writer, copy.timestamp)
    draft.archive_url = copy.address
    draft.note(RepairKind.REPLACED if existing.worth is CopyWorth.BAD else RepairKind.ARCHIVED)


def _put_date(writer: _TemplateWriter, stamp: str) -> None:
    day = day_of_stamp(stamp)
    if day is None:
        raise CannotRepairError(NoRepairReason.UNSAFE)
    # In the style of the template's other dates, else the page's.
    roles = {ParameterRole.ACCESS_DATE, ParameterRole.ARCHIVE_DATE}
    names = (name for name, role in writer.known.roles.items() if role in roles)
    styles = (date_style(each.value) for each in writer.template.named(names))
    style = next((style for style in styles if style is not None), writer.page.dates)
    writer.set(ParameterRole.ARCHIVE_DATE, format_day(day, style, writer.page.language), ParameterRole.ARCHIVE_URL)


def _correct_date(writer: _TemplateWriter, existing: ExistingCopy) -> None:
    """Correct the archive date of a kept copy where its address contradicts it (B15), never as the only change.

    A shorter timestamp requests the nearest copy of any day, and one in the archive's local time may match two days.
    """
    date_text = writer.value_of(ParameterRole.ARCHIVE_DATE)
    style, day = date_style(date_text), _day(existing)
    copy = existing.archive
    digits = _NO_DIGITS.sub("", existing.address)
    is_exact = copy is not None and copy.is_known and copy.timestamp in digits
    named = read_date(date_text, today=date.max - timedelta(days=1), first=date.min)
    if is_exact and style is not None and day is not None and named not in (None, day):
        writer.set(ParameterRole.ARCHIVE_DATE, format_day(day, style, writer.page.language))


def _status(writer: _TemplateWriter, status: str) -> str:
    name = preferred_parameter(writer.known, ParameterRole.STATUS)
    return status_value(writer.page.rules, name, status) if name else ""


def _mark(writer: _TemplateWriter, status: str, draft: RepairDraft) -> None:
    """Mark the link as dead or usurped unless the text already does.

    ``unfit`` is kept. Where the copy is linked first by default, ``dead`` is written only together with other changes.
    """
    new = _status(writer, status)
    if not new:
        return
    parameter = writer.plain_field(ParameterRole.STATUS)
    meaning = _status_meaning(writer, parameter)
    is_silent = parameter is None or not parameter.value
    is_written = draft.kind not in (None, RepairKind.TIDIED)
    if is_silent and status == "dead" and not is_written and not writer.page.is_said_alone:
        return
    is_worse = status == "usurped" and meaning == "dead" and parameter is not None and parameter.value != new
    if meaning in ("", "live") or is_worse:
        writer.set(ParameterRole.STATUS, new, ParameterRole.ARCHIVE_DATE, ParameterRole.ARCHIVE_URL)
        draft.note(RepairKind.MARKED)


def _status_meaning(writer: _TemplateWriter, parameter: TemplateField | None) -> str:
    return status_meaning(writer.page.rules, parameter.name, parameter.value) if parameter is not None else ""
