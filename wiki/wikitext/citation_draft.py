"""Citation drafts: links found so far, text stretches, dates, and their completion.

Dates that differ by country are not read: 05/03/2020. Access dates before 2001 or after today are invalid.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache, lru_cache
from html.entities import html5
from typing import Any, Final

from core.errors import BadUrlError, InputError
from core.urls import fetch_key
from links.archives.archive_urls import SERVICES, ArchiveUrl, make_archive_url, recognise
from wiki.wikitext.citation_model import Citation, CitationForm, CitationTag, ParameterRole, TemplateParameter, TextSpan
from wiki.wikitext.link_parser import is_url
from wiki.wikitext.parser import WikitextNode
from wiki.wikitext.template_map import ArchiveTemplate, TemplateRules, fold_name, words

FIRST_ACCESS_DAY: Final = date(2001, 1, 1)  # the first wiki with citations began in that month
FIRST_ARCHIVED_DAY: Final = date(1996, 1, 1)  # no archive is older
_LONGEST: Final = 200  # characters that are examined
_YEAR = r"(?P<year>\d{4})(?!\d)"
_DAY = r"(?<!\d)(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?"
_GAP = r"(?:[\s,/-]|of\s|de\s|del\s){0,3}"
_MARKUP = re.compile(r"\[\[|\]\]|'{2,}|&nbsp;|&#160;|[\xa0\u2009\u202f\u200e\u200f]|\{\{0\}\}")


@cache
def month_numbers() -> Mapping[str, int]:
    """Return the number of each name of a month, in lower case."""
    return {name: number for number, names in enumerate(words()["read_months"], 1) for name in names}


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    month = rf"(?P<month>{'|'.join(sorted(month_numbers(), key=len, reverse=True))})\.?"
    forms = (
        r"(?<!\d)(?P<year>\d{4})[-\u2010\u2011\u2012\u2013](?P<number>\d{1,2})[-\u2010\u2011\u2012\u2013](?P<day>\d{1,2})(?!\d)",
        rf"{_DAY}{_GAP}\b{month}{_GAP}{_YEAR}",
        rf"\b{month}\s{{0,3}}{_DAY}{_GAP}(?<!\d){_YEAR}",
        rf"(?<!\d){_YEAR}{_GAP}\b{month}\s{{0,3}}{_DAY}(?!\d)",
        r"(?<!\d)(?P<day>\d{1,2})\.\s?(?P<number>\d{1,2})\.\s?(?P<year>\d{4})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})[/.](?P<number>\d{1,2})[/.](?P<day>\d{1,2})(?!\d)",
        r"(?<!\d)(?P<either>\d{1,2})[/-](?P<or>\d{1,2})[/-](?P<year>\d{4})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})\|(?P<number>\d{1,2})\|(?P<day>\d{1,2})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})(?P<number>\d\d)(?P<day>\d\d)(?:\d{6}|\d{4})?(?!\d)",
        r"(?<!\d)(?P<year>\d{4})年(?P<number>\d{1,2})月(?P<day>\d{1,2})日",
        rf"\b{month}{_GAP}(?<!\d){_YEAR}",
        r"(?<![\d-])(?P<year>\d{4})-(?P<number>\d\d)(?![\d-])",
    )
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


def read_date(text: str, *, today: date, first: date = FIRST_ACCESS_DAY) -> date | None:
    """Return the first date in the text, up to a day after `today` (time zones), or None.

    >>> read_date("5. März 2020", today=date(2026, 1, 1))
    datetime.date(2020, 3, 5)
    """
    day = _named(text[:_LONGEST]) if text else None
    in_time = day is not None and first <= day and day.toordinal() <= today.toordinal() + 1
    return day if in_time else None


@lru_cache(maxsize=8_192)  # a page's dates are mostly few, each many times
def _named(text: str) -> date | None:
    if not any(map(str.isdigit, text)):
        return None
    text = _MARKUP.sub(lambda match: " " if match[0][0] in "&\xa0\u2009\u202f" else "", text)
    for form in _forms():
        if (match := form.search(text)) is not None:
            parts = match.groupdict()
            year = int(parts["year"])
            if "either" in parts:
                one, other = int(parts["either"]), int(parts["or"])
                if one == other or one > 12 >= other:
                    return _date(year, other, one)
                return _date(year, one, other) if other > 12 else None
            month = int(parts["number"]) if "number" in parts else month_numbers()[parts["month"].casefold()]
            return _date(year, month, int(parts.get("day", "1")))
    return None


def _date(year: int, month: int, day: int) -> date | None:
    with suppress(ValueError):
        return date(year, month, day) if 1900 <= year <= 2_999 else None
    return None


LONGEST_URL: Final = 65_536  # as in core.urls: longer ones cannot be fetched
_ENTITY = re.compile(r"&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z][a-z0-9]{1,31});", re.IGNORECASE | re.ASCII)
_HOST = re.compile(r"(?:https?:)?//([a-z0-9.-]+)(?=[/:?#]|\Z)", re.IGNORECASE | re.ASCII)
_ENDS_OF_HOSTS: Final = frozenset(  # the last two labels of the hosts of archives
    ".".join(host.partition(":")[0].rsplit(".", 2)[-2:])
    for service in SERVICES.values()
    for host in (*service.hosts, *(each for form in service.forms for each in form.hosts))
)
_STAMP = re.compile(r"\d{4,14}", re.ASCII)
_SHORT = re.compile(r"[A-Za-z0-9]{4,6}", re.ASCII)  # archive.today's own names of copies


@dataclass(slots=True)
class CitationDraft:
    """Link found on the page, before completion; attributes as in `Citation` where the names agree."""

    way: CitationForm
    span: TextSpan
    url_span: TextSpan
    written: str  # the URL as written at `url_span`, without comments
    scheme: str = ""  # prefix that a template adds
    template: str = ""
    within: str = ""
    parameters: dict[ParameterRole, TemplateParameter] = field(default_factory=dict)
    title: str = ""
    reference: TextSpan | None = None
    archived: str = ""  # an archive URL next to the link
    dated: str = ""  # archive date as written
    accessed: str = ""  # words with the access date, when no parameter has it
    dead_tag: CitationTag | None = None
    dead_says: str = ""
    archive_tag: CitationTag | None = None
    is_paywalled: bool = False
    is_malformed: bool = False
    is_held: bool = False
    is_alone: bool = False  # the only content of its reference


_SHARED: Final = (
    *("way", "span", "url_span", "template", "parameters", "title", "reference", "dead_tag"),
    *("archive_tag", "is_held", "within"),
)  # attributes that a citation takes from its draft


@dataclass(frozen=True)
class CitationBuilder:
    """Builder of the citations of one page."""

    rules: TemplateRules
    today: date
    own: tuple[str, ...] = ()

    def finished(self, draft: CitationDraft) -> Citation:
        """Build the citation from its draft."""
        address = draft_address(draft)
        url, archived = address, draft.archived
        archive_url = None if draft.is_malformed else self.archive(address)
        if archive_url is not None:
            url, archived = archive_url.original or address, draft.archived or address
        status, entry = "", draft.parameters.get(ParameterRole.STATUS)
        if entry is not None and entry.value:
            values = self.rules.status.get(fold_name(entry.name), {})
            status = values.get(entry.value.casefold(), values.get("*", ""))
        if draft.dead_says == "usurped":
            status = status or draft.dead_says
        is_dead = bool(draft.dead_tag or status in ("dead", "unfit", "usurped"))
        shows_copy = archived and not status and draft.way is CitationForm.CITATION
        accessed = _value_of(draft, ParameterRole.ACCESS_DATE) or draft.accessed
        access = draft.parameters.get(ParameterRole.ACCESS)
        walled = self.rules.access.get(fold_name(access.name), ()) if access is not None else ()
        dated = _value_of(draft, ParameterRole.ARCHIVE_DATE) or draft.dated
        archive_date = read_date(dated, today=self.today, first=FIRST_ARCHIVED_DAY)
        if archive_date is None and archived:
            if archive_url is None or archived != draft.written:
                archive_url = self.archive(decode_entities(archived))
            moment = archive_url.moment if archive_url is not None else None
            archive_date = moment.date() if moment is not None else None
        shared: dict[str, Any] = {name: getattr(draft, name) for name in _SHARED}
        return Citation(
            **shared,
            url=url,
            access_date=read_date(accessed, today=self.today),
            archive_url=archived,
            archive_date=archive_date,
            status=status,
            is_paywalled=draft.is_paywalled or (access is not None and access.value.casefold() in walled),
            is_malformed=draft.is_malformed or not is_fetchable(url),
            is_convertible=draft.is_alone and not draft.is_malformed,
            address=address,
            is_treated_dead=is_dead or bool(shows_copy and self.rules.archive_implies_dead),
        )

    def archive(self, address: str) -> ArchiveUrl | None:
        """Parse an archive URL of a known service; None for any other address."""
        if not self.own and not may_be_archive(address):
            return None
        recognised = recognise(address, own=self.own)
        return recognised if recognised is not None and recognised.is_known else None

    def copy_of(
        self, template: ArchiveTemplate, day: Mapping[str, TemplateParameter]
    ) -> "tuple[str, str, TemplateParameter] | None":
        """Return (copy's address, "" if unknown; original or ""; parameter) of an archive template."""
        for name in template.address:
            value = day.get(name)
            if value is not None and is_url(value.value):
                address = decode_entities(value.value)
                archived = self.archive(address)
                if archived is not None:
                    return address, archived.original, value
                if name not in template.original:
                    return address, "", value
        named = None
        for name in template.original:
            value = day.get(name)
            if value is None or not value.value:
                continue
            original = decode_entities(value.value)
            original = original if "//" in original else f"http://{original}"
            for parameter, service in template.stamps.items():
                stamp = day.get(parameter)
                if stamp is not None and is_url(stamp.value):
                    return decode_entities(stamp.value), original, value
                archive_url = self._made(service, original, stamp)
                if archive_url:
                    return archive_url, original, value
            named = named or ("", original, value)
        return named if named is not None and is_fetchable(named[1]) else None

    def _made(self, service: str, original: str, stamp: TemplateParameter | None) -> str:
        if stamp is None:
            return ""
        digits = stamp.value.replace("-", "")
        if not _STAMP.fullmatch(digits):
            day = read_date(stamp.value, today=self.today, first=FIRST_ARCHIVED_DAY)
            digits = f"{day:%Y%m%d}" if day is not None else ""
            if not digits and service == "archive-today" and _SHORT.fullmatch(stamp.value):
                return f"https://{SERVICES[service].hosts[0]}/{stamp.value}"
        with suppress(InputError):
            return make_archive_url(service, original, digits) if digits else ""
        return ""


def _value_of(draft: CitationDraft, role: ParameterRole) -> str:
    value = draft.parameters.get(role)
    return value.value if value is not None else ""


def draft_address(draft: CitationDraft) -> str:
    """Return the link's target: entities decoded, with the scheme that the template adds."""
    address = draft.scheme + decode_entities(draft.written)[:LONGEST_URL]
    return "https:" + address if address.startswith("//") else address


def decode_entities(text: str) -> str:
    """Decode HTML character references; only those that end with ``;``.

    >>> decode_entities("http://a.test/?x=1&amp;copy=2")
    'http://a.test/?x=1&copy=2'
    """
    return _ENTITY.sub(_character, text) if "&" in text else text


def is_fetchable(url: str) -> bool:
    """Return True for a fetchable URL."""
    if url[:6].lower() in ("ftp://", "ftps:/"):
        return len(url) > 6
    with suppress(BadUrlError):
        return bool(fetch_key(url))
    return False


def may_be_archive(address: str) -> bool:
    """Return False only if `recognise` cannot find a known archive in this address (fast pre-check)."""
    host = _HOST.match(address)
    return host is None or ".".join(host[1].lower().rstrip(".").rsplit(".", 2)[-2:]) in _ENDS_OF_HOSTS


def _character(match: re.Match[str]) -> str:
    name = match[1]
    if name[0] != "#":
        return html5.get(name + ";", match[0])
    number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])  # noqa: FURB166 - "#x"
    if number < 0x20 or 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
        return match[0]
    return chr(number)


@dataclass(slots=True)
class AdjacentItem:
    """Item of a stretch that is relevant to its neighbours; one of `draft`, `inner`, `tag`."""

    start: int  # first offset
    end: int  # end offset
    draft: CitationDraft | None = None  # a link
    inner: "TextStretch | None" = None  # the content of a tag
    name: str = ""  # of a reference, when it has one
    tag: CitationTag | None = None  # a template about a link
    copy: tuple[str, str, TemplateParameter] | None = None  # copy, original, parameter
    is_original: bool = False  # the parameter holds the original rather than the copy's address
    dated: str = ""  # archive date as written
    dead: str | None = None  # status given by a dead-link tag
    url: TemplateParameter | None = None  # the link that it names
    title: TemplateParameter | None = None  # the title that it has
    is_paywall: bool = False  # it marks the link as requiring a login
    is_hold: bool = False  # it excludes the link from bot edits


@dataclass(slots=True)
class TextStretch:
    """Part of the page that is read as a unit: the page, a tag's content, a parameter's value."""

    start: int  # first offset
    end: int  # end offset
    children: list[WikitextNode]
    reference: TextSpan | None = None  # the enclosing reference
    within: str = ""  # name of the enclosing template
    owner: TextSpan | None = None  # span of that template
    cited: CitationDraft | None = None  # that template's own link, when it is a citation
    is_value: bool = False  # it is a parameter's value
    is_ref: bool = False  # it is the whole content of its reference
    depth: int = 0  # number of enclosing templates and tags
    items: list[AdjacentItem] = field(default_factory=list)  # items found, in text order

    def inner(self, start: int, end: int, children: list[WikitextNode]) -> "TextStretch":
        """Create a nested stretch with the same context."""
        return TextStretch(start, end, children, self.reference, self.within, depth=self.depth + 1)
