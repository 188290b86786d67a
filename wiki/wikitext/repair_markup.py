"""Wikitext written by repairs: escaped values, archive templates, dead-link tags.

    as_value     text in a template's parameter or a link's title
    as_plain     text shown letter by letter, in a message
    url_value    a URL in a parameter, in brackets or bare
    is_url_safe  whether a URL stands safely as it is

What a page calls itself is written by anybody: it may hold markup, templates, signatures, control
characters and letters that turn the line around.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from links.archives.archive_services import WEBOID
from links.archives.archive_urls import ArchiveUrl, is_copy_of, moment_of, recognise
from wiki.wikitext.citation_model import (
    ArchivedCopy,
    CannotRepairError,
    CitationTag,
    LinkRemedy,
    NoRepairReason,
    ParameterRole,
    RepairOptions,
)
from wiki.wikitext.page_style import DateStyle, format_day, month_name
from wiki.wikitext.template_map import CitationTemplate, TemplateRules, fold_name

TITLE_LENGTH: Final = 250
_ENTITIES: Final = {
    "|": "&#124;",
    "[": "&#91;",
    "]": "&#93;",
    "{": "&#123;",
    "}": "&#125;",
    "<": "&lt;",
    ">": "&gt;",
}
_MARKUP = re.compile(r"[|\[\]{}<>]")
_AMPERSAND = re.compile(r"&(?=#?\w+;)")
_RUNS = re.compile(r"'{2,}|^'|'$|~{3,}|_{2,}|={2,}|(?<=[A-Za-z]):(?=\S)|^[*#:;=-]")
_MAGIC = re.compile(r"\b(ISBN|RFC|PMID)(?=\s)")
_UNSAFE_URL = re.compile(
    r"[\s|\[\]{}<>\"\\^`\x00-\x20\x7f\u00a0\u2028\u2029\u3000]|''|~~~"
    # Behaviour switches are written in many languages, in either case, and in Japanese with wide lines.
    r"|[_\uff3f]{2}(?=(?:\w|[^\x00-\x7f])+?[_\uff3f]{2})"
)
_NO_TITLE: Final = frozenset(
    {
        "403 forbidden",
        "404",
        "404 error",
        "404 not found",
        "500 internal server error",
        "access denied",
        "are you a robot?",
        "archive copy",
        "archived copy",
        "attention required! | cloudflare",
        "bot verification",
        "captcha",
        "domain for sale",
        "error",
        "error 404",
        "forbidden",
        "home",
        "home page",
        "index",
        "index of /",
        "internet archive wayback machine",
        "just a moment...",
        "log in",
        "login",
        "not found",
        "object moved",
        "page not found",
        "redirecting",
        "redirecting...",
        "seite nicht gefunden",
        "sign in",
        "unknown",
        "untitled",
        "untitled document",
        "wayback machine",
        "webpage",
        "website",
    }
)


def escape_value(text: str) -> str:
    """Text that a template's parameter holds, or a link shows: one line, without a meaning of its own.

    Entities are what they stand for, written anew; control characters and those that turn the line
    around are left out; what is longer than `TITLE_LENGTH` characters ends at a word.

    >>> escape_value("A | B &amp; [[C]]")
    'A &#124; B & &#91;&#91;C&#93;&#93;'
    """
    return _escaped(_shortened(_clean_line(html.unescape(text[: 8 * TITLE_LENGTH]))))


def escape_plain(text: str, most: int = 500) -> str:
    """Text to be shown letter by letter in a page: every letter that could mean something escaped."""
    text = _clean_line(text[: 2 * most])
    if len(text) > most:
        text = text[: most - 1] + "…"
    return _escaped(text)


def is_title(text: str) -> bool:
    """Whether it names a page; not what servers, shields and parking pages call themselves."""
    plain = _clean_line(html.unescape(text[: 8 * TITLE_LENGTH]))
    return len(plain) > 2 and any(map(str.isalnum, plain)) and plain.casefold() not in _NO_TITLE


def escape_url(url: str) -> str:
    """The URL with all that wikitext could take for its own percent-encoded; the same page.

    >>> escape_url("http://a.test/x|y z")
    'http://a.test/x%7Cy%20z'
    """
    written = _UNSAFE_URL.sub(_quoted, url)
    return "".join(quote(each) if _is_format(each) else each for each in written)


def is_url_safe(url: str) -> bool:
    """Whether the URL stands safely in a parameter, in brackets and bare, as it is written."""
    return bool(url) and not _UNSAFE_URL.search(url) and not any(map(_is_format, url))


def _is_format(each: str) -> bool:
    """Return whether nobody sees the letter, or it turns the line around (Unicode category Cf)."""
    return not each.isascii() and unicodedata.category(each) == "Cf"


def _quoted(match: re.Match[str]) -> str:
    return quote(match[0], safe="").replace("~", "%7E").replace("_", "%5F")


def _clean_line(text: str) -> str:
    """One line, without what nobody sees."""
    kept = (
        " " if each.isspace() else each
        for each in text
        if (each.isspace() or unicodedata.category(each) not in {"Cc", "Cf", "Cs", "Co", "Cn"})
    )
    return " ".join("".join(kept).split())


def _shortened(text: str) -> str:
    if len(text) <= TITLE_LENGTH:
        return text
    cut = text[: TITLE_LENGTH - 1]
    head, _, tail = cut.rpartition(" ")
    return (head if head and len(tail) < 40 else cut).rstrip() + "…"


def _escaped(text: str) -> str:
    text = _AMPERSAND.sub("&amp;", text)
    text = _MARKUP.sub(lambda match: _ENTITIES[match[0]], text)
    text = _MAGIC.sub(lambda match: f"{match[0][0]}&#{ord(match[0][1])};{match[0][2:]}", text)
    return _RUNS.sub(lambda match: "".join(f"&#{ord(each)};" for each in match[0]), text)


LONGEST_URL: Final = 8_192


class CopyWorth(StrEnum):
    """What an address in an archive is worth to the reader."""

    NONE = "none"  # there is none
    GOOD = "good"  # a copy of the link, as far as its text tells
    BAD = "bad"  # no archive's, of another page, or of an archive that is gone


@dataclass(frozen=True, slots=True)
class ExistingCopy:
    """An address that stands on the page.

    Attributes:
        worth: what it is worth.
        address: as it stands there.
        secure: the same with https, where its archive has that; the same when it has it.
        found: what it means; None when it is no archive's.
    """

    worth: CopyWorth
    address: str
    secure: str = ""
    found: ArchiveUrl | None = None


def assess_copy(address: str, url: str, remedy: LinkRemedy, own: tuple[str, ...]) -> ExistingCopy:
    """What the address is worth as a copy of the URL.

    What merely reads like an archive's address is somebody's archive, and stays, unless the remedy says
    that it shows nothing: bots that replace what they do not know lose good copies.
    """
    if not address:
        return ExistingCopy(CopyWorth.NONE, "")
    plain = address.replace("&amp;", "&")  # as the wiki reads it
    found = recognise(plain, own=own) if len(address) <= LONGEST_URL else None
    is_bad = (
        found is None
        or not found.is_usable
        or is_copy_of(found, url) is False
        or not {address, plain}.isdisjoint(remedy.bad_archives)
    )
    return ExistingCopy(
        CopyWorth.BAD if is_bad else CopyWorth.GOOD, address, _https_address(address, found), found
    )


def usable_copy(copy: ArchivedCopy | None, url: str, own: tuple[str, ...]) -> ArchivedCopy | None:
    """The copy, fit to be written; None when there is none.

    Raises:
        CannotRepairError: it is one of another page, of no archive, or cannot be written.
    """
    if copy is None:
        return None
    address = escape_url(copy.address)
    found = recognise(copy.address, own=own) if len(copy.address) <= LONGEST_URL else None
    stamp = copy.timestamp or (found.timestamp if found is not None else "")
    if (
        found is None
        or not found.is_usable
        or is_copy_of(found, url) is False
        or not is_url_safe(address)
        or not address.startswith(("https://", "http://"))
        or day_of_stamp(stamp) is None
    ):
        raise CannotRepairError(NoRepairReason.UNSAFE)
    return ArchivedCopy(
        _https_address(address, found), stamp, copy.service or found.service, copy.title
    )


def day_of_stamp(stamp: str) -> date | None:
    """The day of a timestamp of 4 to 14 digits; None when it says no day."""
    if not (stamp.isascii() and stamp.isdigit() and 8 <= len(stamp) <= 14) or stamp[4:8] == "0000":
        return None
    try:
        return moment_of(stamp.ljust(14, "0")).date()
    except ValueError:
        return None


def _https_address(address: str, found: ArchiveUrl | None) -> str:
    """With https where the archive's own form has it (B15); nothing else is changed."""
    if found is None or not found.is_known or not found.address.startswith("https://"):
        return address
    if found.service == WEBOID:
        return address  # our own front is at the address that its operator gave, and perhaps nowhere else
    return f"https://{address[7:]}" if address[:7].lower() == "http://" else address


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
class PageRepairContext:
    """What all repairs of a page share."""

    text: str
    rules: TemplateRules
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


def usual_dates(rules: TemplateRules) -> DateStyle:
    """How dates are written where the page does not tell."""
    return _STYLES.get(rules.writing.dates, DateStyle.ISO)


def limit_rules(rules: TemplateRules, has: Callable[[str], bool]) -> TemplateRules:
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


def status_value(rules: TemplateRules, parameter: str, status: str) -> str:
    """How the parameter says that status: the wiki's own way when that is understood there.

    Returns:
        Nothing when the status is said by leaving the parameter out.
    """
    said = rules.writing.status.get(status, "")
    meant = rules.status.get(fold_name(parameter), {})
    if not said or not meant or status_meaning(rules, parameter, said) == status:
        return said
    return next((value for value, each in meant.items() if each == status and value != "*"), said)


def status_meaning(rules: TemplateRules, parameter: str, value: str) -> str:
    """What the parameter's value means: ``live``, ``dead``, ``unfit``, ``usurped``; or nothing."""
    meant = rules.status.get(fold_name(parameter), {})
    value = value.casefold()
    return (meant.get(value) or meant.get("*", "")) if value else ""


def dead_tag(page: PageRepairContext, url: str, *, is_sought: bool = True) -> str:
    """The wiki's dead-link tag; empty when it has none.

    Args:
        page: that it stands on.
        url: the link.
        is_sought: copies were looked for: only then the tag says that a repair was attempted.

    Raises:
        CannotRepairError: the URL cannot be written in it.
    """
    form = page.rules.writing.dead_tag
    if "{url}" in form and not is_url_safe(escape_url(url)):
        raise CannotRepairError(NoRepairReason.UNSAFE)
    if not is_sought:
        form = _ATTEMPTED.sub("", form)
    values = {"url": escape_url(url), "title": "", "attempted": "yes"}
    return _fill_form(form, _common_values(page) | values)


def archive_tag(page: PageRepairContext, url: str, copy: ArchivedCopy, title: str = "") -> str:
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
    original = escape_url(url)
    if day is None or not is_url_safe(original) or not is_url_safe(copy.address):
        raise CannotRepairError(NoRepairReason.UNSAFE)
    words = _COPY_WORDS.get(page.rules.language, _COPY_WORDS["en"])
    values = {
        "address": copy.address,
        "url": original,
        "stamp": copy.timestamp,
        "date": format_day(day, page.dates, page.language),
        "title": title or words,
    }
    return _fill_form(_archive_form(page.rules, copy.service), _common_values(page) | values)


def is_obsolete(page: PageRepairContext, tag: CitationTag) -> bool:
    """Whether the archive template should give way to the one that the wiki writes, and loses nothing."""
    rules = page.rules
    known = rules.archives.get(rules.name_of(tag.name))
    usual = rules.archives.get(rules.name_of(_name_in(rules.writing.archive)))
    if known is None or usual is None or known is usual:
        return False
    told = {*known.address, *known.original, *known.stamps, *known.date, "df"}
    return all(fold_name(name) in told or not each.value for name, each in tag.parameters.items())


def citation_text(
    page: PageRepairContext, url: str, title: str, copy: ArchivedCopy, status: str
) -> str:
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
    parameter = (template.names.get(ParameterRole.STATUS) or ("",))[0]
    said = {
        ParameterRole.URL: url,
        ParameterRole.TITLE: title,
        ParameterRole.ARCHIVE_URL: copy.address,
        ParameterRole.ARCHIVE_DATE: format_day(day, page.dates, page.language),
        ParameterRole.STATUS: status_value(page.rules, parameter, status) if parameter else "",
    }
    needed = (
        ParameterRole.URL,
        ParameterRole.TITLE,
        ParameterRole.ARCHIVE_URL,
        ParameterRole.ARCHIVE_DATE,
    )
    if not all(template.names.get(role) and said[role] for role in needed):
        return ""
    parts = (
        f"|{preferred_parameter(template, role)}={value}" for role, value in said.items() if value
    )
    return f"{{{{{name}{''.join(parts)}}}}}"


def preferred_parameter(template: CitationTemplate, role: ParameterRole) -> str:
    """The parameter that is written for the role; empty: the template has none."""
    return (template.names.get(role) or ("",))[0]


def _archive_form(rules: TemplateRules, service: str) -> str:
    """The wiki's archive template, with the parameter for that service's copies; empty: none."""
    form = rules.writing.archive
    found = _STAMP.search(form)
    if not found:
        return form
    known = rules.archives.get(rules.name_of(_name_in(form)))
    stamps: Mapping[str, str] = known.stamps if known is not None else {}
    if not service or stamps.get(fold_name(found[1])) == service:
        return form
    other = next((name for name, each in stamps.items() if each == service), "")
    return f"{form[: found.start()]}{other}{form[found.end() :]}" if other else ""


def _common_values(page: PageRepairContext) -> dict[str, str]:
    now = page.options.now
    return {
        "iso": now.date().isoformat(),
        "moment": f"{now:%Y-%m-%d %H:%M:%S}",
        "month": month_name(now.date(), page.rules.language),
        "year": f"{now.year:04}",
        "bot": escape_value(page.options.bot),
    }


def _fill_form(form: str, values: Mapping[str, str]) -> str:
    if not values.get("bot"):
        form = _EMPTY_BOT.sub("", form)
    return _PLACE.sub(lambda match: values.get(match[1], ""), form)


def _name_in(form: str) -> str:
    return form.partition("{{")[2].partition("|")[0].partition("}}")[0]
