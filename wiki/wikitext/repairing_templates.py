"""A citation template, repaired: parameters are filled, set, renamed or put in, in its author's style."""

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from wiki.wikitext.anatomy import Dissected, Field, Style, dissect
from wiki.wikitext.citations import Citation, Role
from wiki.wikitext.dates import read_date
from wiki.wikitext.escaping import is_url_safe
from wiki.wikitext.repairing_copies import Standing, Worth, day_of_stamp, standing, usable
from wiki.wikitext.repairing_dates import DateStyle, style_of, written
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
from wiki.wikitext.repairing_words import Page, preferred, status_said, status_value
from wiki.wikitext.rules import CitationTemplate

_NO_DIGITS: Final = re.compile(r"[.:T-]")  # within a timestamp, in the address of some archives


@dataclass
class _Writer:
    """Collects what is to be changed in one template."""

    page: Page
    template: Dissected
    known: CitationTemplate
    link: Field  # of the URL
    put_in: list[tuple[Field, str, str]] = field(default_factory=list)  # behind which, name, value
    values: dict[int, str] = field(default_factory=dict)  # by the start of the field that gets it
    edits: list[Edit] = field(default_factory=list)

    def field_of(self, role: Role) -> Field | None:
        """The parameter of the role that counts: the one with a value, else the last.

        Raises:
            CannotRepairError: there are two, and nobody knows which.
        """
        names = (name for name, each in self.known.roles.items() if each is role)
        found = self.template.named(names)
        filled = [each for each in found if each.value]
        if len(filled) > 1 or len({each.name for each in found}) < len(found):
            raise CannotRepairError(Reason.DOUBLE)
        there = filled or found[-1:]
        return there[0] if there else None

    def value_of(self, role: Role) -> str:
        """What the role's parameter says; nothing without one.

        Raises:
            CannotRepairError: it stands there twice, or holds more than text.
        """
        there = self.field_of(role)
        if there is not None and not there.is_plain:
            raise CannotRepairError(Reason.COMMENT)
        return there.value if there is not None else ""

    def set(self, role: Role, value: str, *behind: Role) -> None:
        """Give the role's parameter that value, whether it is there or not.

        Args:
            role: what the parameter is for.
            value: what it is to say; it is safe.
            behind: the roles whose parameter a new one is put behind: the first that is there.
        """
        there = self.field_of(role)
        if there is None:
            anchors = [each for each in map(self.field_of, behind) if each is not None]
            name = preferred(self.known, role)
            if not name:
                raise CannotRepairError(Reason.OTHER_TEMPLATE)
            self.put_in.append((anchors[0] if anchors else self.anchor(), name, value))
            return
        if not there.is_plain:
            raise CannotRepairError(Reason.COMMENT)
        usual = preferred(self.known, role)
        if role is Role.STATUS and there.name != usual:  # obsolete names have other values, too
            self.edits.append(Edit(there.name_span.start, there.name_span.end, usual))
        self.values[there.start] = value

    def take_out(self, role: Role) -> None:
        """Remove the role's parameter, with the white space before it."""
        there = self.field_of(role)
        if there is None:
            return
        if not there.is_plain:
            raise CannotRepairError(Reason.COMMENT)
        start = there.start - len(self.template.lead_of(self.template.fields.index(there)))
        end = there.inner.end if there.value else there.value_start
        self.edits.append(Edit(start, end, ""))

    def anchor(self) -> Field:
        """Behind what new parameters stand: the link's or the access date's, whichever is later."""
        accessed = self.field_of(Role.ACCESS_DATE)
        is_later = accessed is not None and accessed.value and accessed.start > self.link.start
        return accessed if accessed is not None and is_later else self.link

    def all_edits(self) -> list[Edit]:
        """Everything, with what is put in at one place in the order in which it was said."""
        behind: dict[int, str] = {}
        for anchor, name, value in self.put_in:
            new = Style.of(self.template, anchor).parameter(name, value)
            behind[anchor.start] = behind.get(anchor.start, "") + new
        done = list(self.edits)
        for each in self.template.fields:
            new = behind.get(each.start, "")
            if each.start in self.values:
                done.append(self._valued(each, self.values[each.start], new))
            elif new:
                at = self.template.behind(each, new.partition("|")[0])
                done.append(Edit(at, at, new))
        return done

    def _valued(self, there: Field, value: str, behind: str) -> Edit:
        """The field with that value, and what is put in behind it.

        Of an empty one the white space is kept where it is the author's style.
        """
        if there.value:
            return Edit(there.inner.start, there.inner.end, value + behind)
        style = Style.of(self.template, there)
        usual = style.after_equals.strip("\n")
        blank = self.template.text[there.value_start : there.end]
        inline, newline, _ = blank.partition("\n")
        if newline:
            new = (inline or usual) + value + behind
            return Edit(there.value_start, there.value_start + len(inline), new)
        is_last = there.end == self.template.span.end - 2
        after = style.lead if style.is_blank_before_bar and not is_last else ""
        return Edit(there.value_start, there.end, usual + value + behind + after)


def repair_template(page: Page, citation: Citation, remedy: Remedy, draft: Draft) -> None:
    """Put into the draft what is to be changed in a citation template.

    Raises:
        CannotRepairError: it is left as it is.
    """
    writer = _writer(page, citation)
    if remedy.condition is Condition.ALIVE:
        _revive(writer, remedy, draft)
    else:
        _mend(writer, citation, remedy, draft)
    draft.edits += writer.all_edits()


def _writer(page: Page, citation: Citation) -> _Writer:
    known = page.rules.citations.get(page.rules.name_of(citation.template))
    if known is None:
        raise CannotRepairError(Reason.OTHER_TEMPLATE)
    template = dissect(page.text, citation.span)
    if template is None:
        raise CannotRepairError(Reason.BROKEN)
    link = template.at(citation.url_span)
    if link is None or not link.name:
        raise CannotRepairError(Reason.BROKEN)
    if not link.is_commented:
        raise CannotRepairError(Reason.COMMENT)
    if link.inner.start != citation.url_span.start or (
        link.is_plain and link.inner != citation.url_span
    ):
        raise CannotRepairError(Reason.MALFORMED)
    if [each.name for each in template.fields].count(link.name) > 1:
        raise CannotRepairError(Reason.DOUBLE)
    others = {*known.more_urls, *(name for name, each in known.roles.items() if each is Role.URL)}
    if any(each.value and each is not link for each in template.named(others)):
        raise CannotRepairError(Reason.SEVERAL)
    return _Writer(page, template, known, link)


def _revive(writer: _Writer, remedy: Remedy, draft: Draft) -> None:
    """Our own word that the link is dead, taken back."""
    there = writer.field_of(Role.STATUS)
    if not remedy.is_ours or there is None or not _is_lost(writer, there):
        return
    live = _status(writer, "live")
    if live:
        writer.set(Role.STATUS, live)
    else:
        writer.take_out(Role.STATUS)
    draft.note(RepairKind.REVIVED)


def _mend(writer: _Writer, citation: Citation, remedy: Remedy, draft: Draft) -> None:
    url, own = citation.url, writer.page.options.own
    there = standing(writer.value_of(Role.ARCHIVE_URL), url, remedy, own)
    in_place = standing(_archive_in_place(writer), url, remedy, own)
    copy = usable(remedy.copy, url, own)
    if there.worth is Worth.GOOD:
        _keep(writer, there, in_place, url, draft)
    elif in_place.worth is Worth.GOOD and (copy is None or _day(in_place) is not None):
        _move(writer, in_place, url, draft)
    elif copy is not None:
        _put_copy(writer, copy, there, draft)
        if in_place.worth is not Worth.NONE:
            _give_back(writer, url)
            draft.kind = RepairKind.MOVED
    else:
        _mark_without(writer, draft)
        return
    status = "usurped" if remedy.condition is Condition.USURPED else "dead"
    _mark(writer, status, draft)
    if there.worth is Worth.GOOD and draft.kind is not None:
        _correct_date(writer, there)


def _archive_in_place(writer: _Writer) -> str:
    """The archive's address that stands where the link should; nothing when none does."""
    value = writer.link.value if writer.link.is_plain else ""
    found = standing(value, value, Remedy(Condition.DEAD), writer.page.options.own).found
    return value if found is not None and found.is_known else ""


def _keep(writer: _Writer, there: Standing, in_place: Standing, url: str, draft: Draft) -> None:
    """A good copy stands there: its address is made secure, its date said, the link given back."""
    if in_place.worth is not Worth.NONE:
        _give_back(writer, url)
        draft.note(RepairKind.MOVED)
    if there.secure != there.address:
        writer.set(Role.ARCHIVE_URL, there.secure)
        draft.note(RepairKind.TIDIED)
    draft.archive_url = there.secure
    if there.found is None or _day(there) is None:
        return
    if not writer.value_of(Role.ARCHIVE_DATE):
        _put_date(writer, there.found.timestamp)
        draft.note(RepairKind.TIDIED)


def _move(writer: _Writer, in_place: Standing, url: str, draft: Draft) -> None:
    """The archive's address goes where it belongs, and the link back to its place (B04, B15)."""
    if in_place.found is None or _day(in_place) is None or not is_url_safe(in_place.secure):
        raise CannotRepairError(Reason.UNSAFE)
    _give_back(writer, url)
    copy = Archived(in_place.secure, in_place.found.timestamp)
    _put_copy(writer, copy, Standing(Worth.NONE, ""), draft)
    draft.kind = RepairKind.MOVED


def _day(there: Standing) -> date | None:
    return day_of_stamp(there.found.timestamp) if there.found is not None else None


def _give_back(writer: _Writer, url: str) -> None:
    if not is_url_safe(url):
        raise CannotRepairError(Reason.UNSAFE)
    writer.set(Role.URL, url)


def _put_copy(writer: _Writer, copy: Archived, there: Standing, draft: Draft) -> None:
    writer.set(Role.ARCHIVE_URL, copy.address)
    _put_date(writer, copy.timestamp)
    draft.archive_url = copy.address
    draft.note(RepairKind.REPLACED if there.worth is Worth.BAD else RepairKind.ARCHIVED)


def _put_date(writer: _Writer, stamp: str) -> None:
    day = day_of_stamp(stamp)
    if day is None:
        raise CannotRepairError(Reason.UNSAFE)
    style = _date_style(writer)
    said = written(day, style, writer.page.language)
    writer.set(Role.ARCHIVE_DATE, said, Role.ARCHIVE_URL)


def _correct_date(writer: _Writer, there: Standing) -> None:
    """The day of a copy that stays, where the address itself tells another than was written (B15).

    A shorter timestamp asks for the nearest copy, whatever its day, and one in the archive's own time may
    be of two days; what names no day is no contradiction. No page is edited for it alone.
    """
    said = writer.value_of(Role.ARCHIVE_DATE)
    style, day = style_of(said), _day(there)
    found = there.found
    is_exact = (
        found is not None
        and found.is_known
        and found.timestamp in _NO_DIGITS.sub("", there.address)
    )
    named = read_date(said, today=date.max - timedelta(days=1), first=date.min)
    if is_exact and style is not None and day is not None and named not in (None, day):
        writer.set(Role.ARCHIVE_DATE, written(day, style, writer.page.language))


def _date_style(writer: _Writer) -> DateStyle:
    """As the template's other dates are written, else the page's."""
    roles = {Role.ACCESS_DATE, Role.ARCHIVE_DATE}
    names = (name for name, role in writer.known.roles.items() if role in roles)
    styles = (style_of(each.value) for each in writer.template.named(names))
    return next((style for style in styles if style is not None), writer.page.dates)


def _status(writer: _Writer, status: str) -> str:
    name = preferred(writer.known, Role.STATUS)
    return status_value(writer.page.rules, name, status) if name else ""


def _mark(writer: _Writer, status: str, draft: Draft) -> None:
    """Say that the link is dead or usurped, unless the text says so already.

    Whoever wrote ``unfit`` knew more than that it does not answer. Where a copy is shown first without a
    word, ``dead`` is said only where something is written anyway.
    """
    new = _status(writer, status)
    if not new:
        return
    there = writer.field_of(Role.STATUS)
    if there is not None and not there.is_plain:
        raise CannotRepairError(Reason.COMMENT)
    said = _said(writer, there)
    is_silent = there is None or not there.value
    is_written = draft.kind not in (None, RepairKind.TIDIED)
    if is_silent and status == "dead" and not is_written and not writer.page.is_said_alone:
        return
    is_worse = status == "usurped" and said == "dead" and there is not None and there.value != new
    if said in ("", "live") or is_worse:
        writer.set(Role.STATUS, new, Role.ARCHIVE_DATE, Role.ARCHIVE_URL)
        draft.note(RepairKind.MARKED)


def _said(writer: _Writer, there: Field | None) -> str:
    """What the status says, as `status_said` has it."""
    return status_said(writer.page.rules, there.name, there.value) if there is not None else ""


def _is_lost(writer: _Writer, there: Field) -> bool:
    return _said(writer, there) not in ("", "live")


def _mark_without(writer: _Writer, draft: Draft) -> None:
    """No copy: where a status can say that alone, it does; else the tag is others' matter."""
    new = _status(writer, "dead")
    if not writer.page.is_said_alone or not new:
        raise CannotRepairError(Reason.NO_COPY)
    there = writer.field_of(Role.STATUS)
    if there is not None and not there.is_plain:
        raise CannotRepairError(Reason.COMMENT)
    if _said(writer, there) in ("", "live"):
        writer.set(Role.STATUS, new)
        draft.note(RepairKind.TAGGED)
