"""Wikitext written by repairs: escaped values (page titles are untrusted), archive templates, dead-link tags."""

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from links.archives.archive_urls import WEBOID, ArchiveUrl, is_copy_of, moment_of, recognise
from wiki.wikitext.citation_model import (
    ArchivedCopy,
    CannotRepairError,
    CitationTag,
    LinkRemedy,
    NoRepairReason,
    ParameterRole,
    RepairOptions,
)
from wiki.wikitext.link_parser import is_escaped
from wiki.wikitext.page_style import DateStyle, format_day, month_name
from wiki.wikitext.parser import node_edges, parse
from wiki.wikitext.template_map import CitationTemplate, TemplateRules, fold_name, words

TITLE_LENGTH: Final = 250
_ENTITIES: Final = str.maketrans({each: f"&#{ord(each)};" for each in "|[]{}"} | {"<": "&lt;", ">": "&gt;"})
_AMPERSAND = re.compile(r"&(?=#?\w+;)")
_RUNS = re.compile(r"'{2,}|^'|'$|~{3,}|_{2,}|={2,}|(?<=[A-Za-z]):(?=\S)|^[*#:;=-]")
_MAGIC = re.compile(r"\b(ISBN|RFC|PMID)(?=\s)")
_UNSAFE_URL = re.compile(
    r"[\s|\[\]{}<>\"\\^`\x00-\x20\x7f\u00a0\u2028\u2029\u3000]|''|~~~"
    # Behaviour switches are written in many languages, in either case, and in Japanese with wide lines.
    r"|[_\uff3f]{2}(?=(?:\w|[^\x00-\x7f])+?[_\uff3f]{2})"
)


def escape_value(text: str) -> str:
    """Escape text as one line without markup, cut at a word after `TITLE_LENGTH` characters.

    Entities are decoded and escaped again; control and bidirectional formatting characters are removed.

    >>> escape_value("A | B &amp; [[C]]")
    'A &#124; B & &#91;&#91;C&#93;&#93;'
    """
    plain = _plain_title(text)
    if len(plain) > TITLE_LENGTH:
        cut = plain[: TITLE_LENGTH - 1]
        head, _, tail = cut.rpartition(" ")
        plain = (head if head and len(tail) < 40 else cut).rstrip() + "…"
    return _escaped(plain)


def escape_plain(text: str, most: int = 500) -> str:
    """Escape every character that could be markup, for literal display in a page."""
    text = _clean_line(text[: 2 * most])
    if len(text) > most:
        text = text[: most - 1] + "…"
    return _escaped(text)


def is_title(text: str) -> bool:
    """Return False for default titles of servers, bot walls and parking pages."""
    plain = _plain_title(text)
    return len(plain) > 2 and any(map(str.isalnum, plain)) and plain.casefold() not in words()["default_titles"]


def escape_url(url: str) -> str:
    """Percent-encode the characters of a URL that are wikitext markup; the target is the same.

    >>> escape_url("http://a.test/x|y z")
    'http://a.test/x%7Cy%20z'
    """
    written = _UNSAFE_URL.sub(lambda match: quote(match[0], safe="").replace("~", "%7E").replace("_", "%5F"), url)
    return "".join(quote(each) if _is_format(each) else each for each in written)


def is_url_safe(url: str) -> bool:
    """Return True if the URL can be written unchanged in a parameter, in brackets and bare."""
    return bool(url) and not _UNSAFE_URL.search(url) and not any(map(_is_format, url))


def safe_url(url: str) -> str:
    """Return the URL if it can be written unchanged, else raise CannotRepairError."""
    if not is_url_safe(url):
        raise CannotRepairError(NoRepairReason.UNSAFE)
    return url


def _is_format(each: str) -> bool:
    return not each.isascii() and unicodedata.category(each) == "Cf"


def _plain_title(text: str) -> str:
    return _clean_line(html.unescape(text[: 8 * TITLE_LENGTH]))


def _clean_line(text: str) -> str:
    printable = (
        " " if each.isspace() else each
        for each in text
        if (each.isspace() or unicodedata.category(each) not in {"Cc", "Cf", "Cs", "Co", "Cn"})
    )
    return " ".join("".join(printable).split())


def _escaped(text: str) -> str:
    text = _AMPERSAND.sub("&amp;", text).translate(_ENTITIES)
    text = _MAGIC.sub(lambda match: f"{match[0][0]}&#{ord(match[0][1])};{match[0][2:]}", text)
    return _RUNS.sub(lambda match: "".join(f"&#{ord(each)};" for each in match[0]), text)


LONGEST_URL: Final = 8_192


class CopyWorth(StrEnum):
    """Usability of an archive URL."""

    NONE = "none"  # there is none
    GOOD = "good"  # a copy of the link, by its text
    BAD = "bad"  # no archive's, of another page, or of an archive that is gone


@dataclass(frozen=True, slots=True)
class ExistingCopy:
    """Archive URL found on the page."""

    worth: CopyWorth  # its usability
    address: str  # as written there
    secure: str = ""  # the same with https, where its archive supports that
    archive: ArchiveUrl | None = None  # parsed archive URL; None for an unknown service


def assess_copy(address: str, url: str, remedy: LinkRemedy, own: tuple[str, ...]) -> ExistingCopy:
    """Assess the address as a copy of the URL; unknown archives are kept unless the remedy lists them as bad."""
    if not address:
        return ExistingCopy(CopyWorth.NONE, "")
    plain = address.replace("&amp;", "&")  # as the wiki reads it
    recognised = recognise(plain, own=own) if len(address) <= LONGEST_URL else None
    is_bad = (
        recognised is None
        or not recognised.is_usable
        or is_copy_of(recognised, url) is False
        or not {address, plain}.isdisjoint(remedy.bad_archives)
    )
    worth = CopyWorth.BAD if is_bad else CopyWorth.GOOD
    return ExistingCopy(worth, address, _https_address(address, recognised), recognised)


def usable_copy(copy: ArchivedCopy | None, url: str, own: tuple[str, ...]) -> ArchivedCopy | None:
    """Return the copy with an address that can be written, or None; CannotRepairError: another page or archive."""
    if copy is None:
        return None
    address = escape_url(copy.address)
    recognised = recognise(copy.address, own=own) if len(copy.address) <= LONGEST_URL else None
    stamp = copy.timestamp or (recognised.timestamp if recognised is not None else "")
    if (
        recognised is None
        or not recognised.is_usable
        or is_copy_of(recognised, url) is False
        or not is_url_safe(address)
        or not address.startswith(("https://", "http://"))
        or day_of_stamp(stamp) is None
    ):
        raise CannotRepairError(NoRepairReason.UNSAFE)
    return ArchivedCopy(_https_address(address, recognised), stamp, copy.service or recognised.service, copy.title)


def day_of_stamp(stamp: str) -> date | None:
    """Return the day of a timestamp of 4 to 14 digits; None when it is incomplete."""
    if not (stamp.isascii() and stamp.isdigit() and 8 <= len(stamp) <= 14) or stamp[4:8] == "0000":
        return None
    try:
        return moment_of(stamp.ljust(14, "0")).date()
    except ValueError:
        return None


def _https_address(address: str, recognised: ArchiveUrl | None) -> str:
    """Change the scheme to https where the archive supports it (B15)."""
    if recognised is None or not recognised.is_known or not recognised.address.startswith("https://"):
        return address
    if recognised.service == WEBOID:
        return address  # our own front is at the configured address, and perhaps nowhere else
    return f"https://{address[7:]}" if address[:7].lower() == "http://" else address


_PLACE = re.compile(r"\{(address|url|title|iso|month|year|bot|attempted|stamp|date|moment)\}")
_EMPTY_BOT = re.compile(r"\|[^|{}=]*=[^|{}=]*\{bot\}")
_ATTEMPTED = re.compile(r"\|[^|{}=]*=[^|{}=]*\{attempted\}")
_STAMP = re.compile(r"(?<=\|)([^|{}=]*)(?==\{stamp\})")
_COPY_WORDS: Final = {"en": "archived copy", "de": "Archivversion"}


@dataclass(frozen=True)
class PageRepairContext:
    """Shared context of all repairs of a page."""

    text: str
    rules: TemplateRules
    options: RepairOptions
    dates: DateStyle

    @property
    def language(self) -> str:
        """Return the language of written dates."""
        return self.options.language or self.rules.language

    @property
    def is_said_alone(self) -> bool:
        """Return True if a status marks a dead link even without a copy, and is required with one."""
        return not self.rules.archive_implies_dead

    def is_escaped(self, at: int) -> bool:
        """Return `link_parser.is_escaped` of the page's text."""
        return is_escaped(self.text, at, self._edges)

    @cached_property
    def _edges(self) -> frozenset[int]:
        return node_edges(parse(self.text).children)


def usual_dates(rules: TemplateRules) -> DateStyle:
    """Return the date style for pages without a recognisable one."""
    return DateStyle.DMY if rules.writing.dates == "de" else DateStyle(rules.writing.dates)


def limit_rules(rules: TemplateRules, has: Callable[[str], bool]) -> TemplateRules:
    """Return rules that write no template that the wiki lacks (`has`: folded names); copies are plain links then."""
    writing = rules.writing
    names = {"citation": writing.citation} | {
        part: _name_in(getattr(writing, part)) for part in ("dead_tag", "archive")
    }
    unknown: dict[str, Any] = {
        part: "" for part, name in names.items() if getattr(writing, part) and not has(rules.name_of(name))
    }
    return replace(rules, writing=replace(writing, **unknown))


def status_value(rules: TemplateRules, parameter: str, status: str) -> str:
    """Return a status in the wiki's preferred valid spelling; empty when it is expressed by omission."""
    written = rules.writing.status.get(status, "")
    entry = rules.status.get(fold_name(parameter), {})
    if not written or not entry or status_meaning(rules, parameter, written) == status:
        return written
    return next((value for value, each in entry.items() if each == status and value != "*"), written)


def status_meaning(rules: TemplateRules, parameter: str, value: str) -> str:
    """Parse the parameter's value: ``live``, ``dead``, ``unfit``, ``usurped``, or empty."""
    entry = rules.status.get(fold_name(parameter), {})
    return (entry.get(value.casefold()) or entry.get("*", "")) if value else ""


def dead_tag(page: PageRepairContext, url: str, *, is_sought: bool = True) -> str:
    """Format the dead-link tag, empty: none; with the attempt if copies were sought. Raises CannotRepairError."""
    form = page.rules.writing.dead_tag
    if "{url}" in form:
        safe_url(escape_url(url))
    if not is_sought:
        form = _ATTEMPTED.sub("", form)
    return _fill_form(page, form, {"url": escape_url(url), "title": "", "attempted": "yes"})


def archive_tag(page: PageRepairContext, url: str, copy: ArchivedCopy, title: str = "") -> str:
    """Format the archive template of a copy, empty: none; `title`: its label, escaped. Raises CannotRepairError."""
    day = day_of_stamp(copy.timestamp)
    original = escape_url(url)
    if day is None or not is_url_safe(original) or not is_url_safe(copy.address):
        raise CannotRepairError(NoRepairReason.UNSAFE)
    values = {"address": copy.address, "url": original, "stamp": copy.timestamp}
    values["date"] = format_day(day, page.dates, page.language)
    values["title"] = title or _COPY_WORDS.get(page.rules.language, _COPY_WORDS["en"])
    return _fill_form(page, _archive_form(page.rules, copy.service), values)


def is_obsolete(page: PageRepairContext, tag: CitationTag) -> bool:
    """Return True if the archive template can be replaced by the preferred one without loss."""
    rules = page.rules
    known = rules.archives.get(rules.name_of(tag.name))
    usual = rules.archives.get(rules.name_of(_name_in(rules.writing.archive)))
    if known is None or usual is None or known is usual:
        return False
    names = {*known.address, *known.original, *known.stamps, *known.date, "df"}
    return all(fold_name(name) in names or not each.value for name, each in tag.parameters.items())


def citation_text(page: PageRepairContext, url: str, title: str, copy: ArchivedCopy, status: str) -> str:
    """Format a citation template for a bare reference; empty when none can name a copy."""
    name = page.rules.writing.citation
    template = page.rules.citations.get(page.rules.name_of(name))
    day = day_of_stamp(copy.timestamp)
    if template is None or day is None:
        return ""
    parameter = preferred_parameter(template, ParameterRole.STATUS)
    value_by_role = {
        ParameterRole.URL: url,
        ParameterRole.TITLE: title,
        ParameterRole.ARCHIVE_URL: copy.address,
        ParameterRole.ARCHIVE_DATE: format_day(day, page.dates, page.language),
        ParameterRole.STATUS: status_value(page.rules, parameter, status) if parameter else "",
    }
    needed = value_by_role.keys() - {ParameterRole.STATUS}
    if not all(template.names.get(role) and value_by_role[role] for role in needed):
        return ""
    parts = (f"|{preferred_parameter(template, role)}={value}" for role, value in value_by_role.items() if value)
    return f"{{{{{name}{''.join(parts)}}}}}"


def preferred_parameter(template: CitationTemplate, role: ParameterRole) -> str:
    """Return the preferred parameter name for a role; empty without one."""
    return (template.names.get(role) or ("",))[0]


def _archive_form(rules: TemplateRules, service: str) -> str:
    """Return the wiki's archive template, with the parameter for that service; empty without one."""
    form = rules.writing.archive
    if not (match := _STAMP.search(form)):
        return form
    known = rules.archives.get(rules.name_of(_name_in(form)))
    stamps: Mapping[str, str] = known.stamps if known is not None else {}
    if not service or stamps.get(fold_name(match[1])) == service:
        return form
    other = next((name for name, each in stamps.items() if each == service), "")
    return f"{form[: match.start()]}{other}{form[match.end() :]}" if other else ""


def _fill_form(page: PageRepairContext, form: str, values: Mapping[str, str]) -> str:
    now, bot = page.options.now, escape_value(page.options.bot)
    month = month_name(now.date(), page.rules.language)
    common = {"iso": f"{now:%Y-%m-%d}", "moment": f"{now:%Y-%m-%d %H:%M:%S}", "month": month, "year": f"{now.year:04}"}
    form = form if bot else _EMPTY_BOT.sub("", form)
    return _PLACE.sub(lambda match: (common | {"bot": bot, **values}).get(match[1], ""), form)


def _name_in(form: str) -> str:
    return form.partition("{{")[2].partition("|")[0].partition("}}")[0]
