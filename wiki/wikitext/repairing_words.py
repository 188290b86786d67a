"""What a repair writes, in the words of the wiki's template map (`wiki.wikitext.rules`)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from wiki.wikitext.citations import Role, Tag
from wiki.wikitext.escaping import as_value, is_url_safe, url_value
from wiki.wikitext.repairing_copies import day_of_stamp
from wiki.wikitext.repairing_dates import DateStyle, month_name, written
from wiki.wikitext.repairing_types import Archived, CannotRepairError, Reason, RepairOptions
from wiki.wikitext.rules import CitationTemplate, Rules, fold

_PLACE = re.compile(r"\{(address|url|title|iso|month|year|bot|attempted|stamp|date|moment)\}")
_EMPTY_BOT = re.compile(r"\|[^|{}=]*=[^|{}=]*\{bot\}")
_ATTEMPTED = re.compile(r"\|[^|{}=]*=[^|{}=]*\{attempted\}")
_STAMP = re.compile(r"(?<=\|)([^|{}=]*)(?==\{stamp\})")
_COPY_WORDS: Final = {"en": "archived copy", "de": "Archivversion"}
_STYLES: Final = {
    "dmy": DateStyle.DMY,
    "mdy": DateStyle.MDY,
    "ymd": DateStyle.YMD,
    "iso": DateStyle.ISO,
    "de": DateStyle.DMY,
}


@dataclass(frozen=True)
class Page:
    """What all repairs of a page share."""

    text: str
    rules: Rules
    options: RepairOptions
    dates: DateStyle

    @property
    def language(self) -> str:
        """In whose words dates are written."""
        return self.options.language or self.rules.language

    @property
    def is_said_alone(self) -> bool:
        """Whether a status says without a copy that a link is dead, and is needed beside one."""
        return not self.rules.archive_implies_dead


def usual_dates(rules: Rules) -> DateStyle:
    """How dates are written where the page does not tell."""
    return _STYLES.get(rules.writing.dates, DateStyle.ISO)


def limited(rules: Rules, has: Callable[[str], bool]) -> Rules:
    """The rules without writing templates that the wiki does not have.

    Then a copy is named by a plain link, and nothing is tagged or converted.

    Args:
        rules: the wiki's.
        has: whether the wiki has a template of that name (folded, no namespace).
    """
    writing = rules.writing

    def kept(form: str, name: str) -> str:
        return form if form and has(rules.name_of(name)) else ""

    return replace(
        rules,
        writing=replace(
            writing,
            citation=kept(writing.citation, writing.citation),
            dead_tag=kept(writing.dead_tag, _name_in(writing.dead_tag)),
            archive=kept(writing.archive, _name_in(writing.archive)),
        ),
    )


def status_value(rules: Rules, parameter: str, status: str) -> str:
    """How the parameter says that status: the wiki's own way when that is understood there.

    Returns:
        Nothing when the status is said by leaving the parameter out.
    """
    said = rules.writing.status.get(status, "")
    meant = rules.status.get(fold(parameter), {})
    if not said or not meant or status_said(rules, parameter, said) == status:
        return said
    return next((value for value, each in meant.items() if each == status and value != "*"), said)


def status_said(rules: Rules, parameter: str, value: str) -> str:
    """What the parameter's value means: ``live``, ``dead``, ``unfit``, ``usurped``; or nothing."""
    meant = rules.status.get(fold(parameter), {})
    value = value.casefold()
    return (meant.get(value) or meant.get("*", "")) if value else ""


def dead_tag(page: Page, url: str, *, is_sought: bool = True) -> str:
    """The wiki's dead-link tag; empty when it has none.

    Args:
        page: that it stands on.
        url: the link.
        is_sought: copies were looked for: only then the tag says that a repair was attempted.

    Raises:
        CannotRepairError: the URL cannot be written in it.
    """
    form = page.rules.writing.dead_tag
    if "{url}" in form and not is_url_safe(url_value(url)):
        raise CannotRepairError(Reason.UNSAFE)
    if not is_sought:
        form = _ATTEMPTED.sub("", form)
    values = {"url": url_value(url), "title": "", "attempted": "yes"}
    return _filled(form, _common(page) | values)


def archive_tag(page: Page, url: str, copy: Archived, title: str = "") -> str:
    """What names the copy behind a link: the wiki's archive template; empty when it has none for it.

    Args:
        page: what it is written for.
        url: the link.
        copy: safe.
        title: what it shows where it is the link itself; safe.

    Raises:
        CannotRepairError: it cannot be written.
    """
    day = day_of_stamp(copy.timestamp)
    original = url_value(url)
    if day is None or not is_url_safe(original) or not is_url_safe(copy.address):
        raise CannotRepairError(Reason.UNSAFE)
    words = _COPY_WORDS.get(page.rules.language, _COPY_WORDS["en"])
    values = {
        "address": copy.address,
        "url": original,
        "stamp": copy.timestamp,
        "date": written(day, page.dates, page.language),
        "title": title or words,
    }
    return _filled(_archive_form(page.rules, copy.service), _common(page) | values)


def is_obsolete(page: Page, tag: Tag) -> bool:
    """Whether the archive template should give way to the one that the wiki writes, and loses nothing."""
    rules = page.rules
    known = rules.archives.get(rules.name_of(tag.name))
    usual = rules.archives.get(rules.name_of(_name_in(rules.writing.archive)))
    if known is None or usual is None or known is usual:
        return False
    told = {*known.address, *known.original, *known.stamps, *known.date, "df"}
    return all(fold(name) in told or not each.value for name, each in tag.parameters.items())


def citation_text(page: Page, url: str, title: str, copy: Archived, status: str) -> str:
    """A citation template for a bare reference; empty when the wiki has none that names a copy.

    Args:
        page: what it is written for.
        url: as it stands; safe.
        title: safe.
        copy: safe.
        status: ``dead`` or ``usurped``.
    """
    name = page.rules.writing.citation
    template = page.rules.citations.get(page.rules.name_of(name))
    day = day_of_stamp(copy.timestamp)
    if template is None or day is None:
        return ""
    parameter = (template.names.get(Role.STATUS) or ("",))[0]
    said = {
        Role.URL: url,
        Role.TITLE: title,
        Role.ARCHIVE_URL: copy.address,
        Role.ARCHIVE_DATE: written(day, page.dates, page.language),
        Role.STATUS: status_value(page.rules, parameter, status) if parameter else "",
    }
    needed = (Role.URL, Role.TITLE, Role.ARCHIVE_URL, Role.ARCHIVE_DATE)
    if not all(template.names.get(role) and said[role] for role in needed):
        return ""
    parts = (f"|{preferred(template, role)}={value}" for role, value in said.items() if value)
    return f"{{{{{name}{''.join(parts)}}}}}"


def preferred(template: CitationTemplate, role: Role) -> str:
    """The parameter that is written for the role; empty: the template has none."""
    return (template.names.get(role) or ("",))[0]


def _archive_form(rules: Rules, service: str) -> str:
    """The wiki's archive template, with the parameter for that service's copies; empty: none."""
    form = rules.writing.archive
    found = _STAMP.search(form)
    if not found:
        return form
    known = rules.archives.get(rules.name_of(_name_in(form)))
    stamps: Mapping[str, str] = known.stamps if known is not None else {}
    if not service or stamps.get(fold(found[1])) == service:
        return form
    other = next((name for name, each in stamps.items() if each == service), "")
    return f"{form[: found.start()]}{other}{form[found.end() :]}" if other else ""


def _common(page: Page) -> dict[str, str]:
    now = page.options.now
    return {
        "iso": now.date().isoformat(),
        "moment": f"{now:%Y-%m-%d %H:%M:%S}",
        "month": month_name(now.date(), page.rules.language),
        "year": f"{now.year:04}",
        "bot": as_value(page.options.bot),
    }


def _filled(form: str, values: Mapping[str, str]) -> str:
    if not values.get("bot"):
        form = _EMPTY_BOT.sub("", form)
    return _PLACE.sub(lambda match: values.get(match[1], ""), form)


def _name_in(form: str) -> str:
    return form.partition("{{")[2].partition("|")[0].partition("}}")[0]
