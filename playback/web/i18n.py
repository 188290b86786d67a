"""Languages of the reader pages: catalogues, translation, numbers and dates.

Catalogues are ``locale/<language>/LC_MESSAGES/front.po`` (W11); the source language is English. The language is
negotiated (RFC 9110, 12.5.4) or set by the path, ``/de/page/…``; links on it keep the prefix. No cookie is set. The
language of the current request is a context variable, which Starlette propagates to its threads.
"""

import io
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_skeleton, format_time
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from babel.support import Translations

from core.errors import ConfigError

SOURCE = "en"
DOMAIN = "front"
LOCALES = Path(__file__).parent / "locale"

_PREFIX = re.compile(rb"/([a-z]{2,3})(?=/|$)")
_RANGE = re.compile(r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,5}|\*)\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")
_MOST_RANGES = 20


@dataclass(frozen=True, slots=True)
class PageLanguage:
    """Language of the current response."""

    language: str  # e.g. ``de``
    prefix: str = ""  # path prefix of the page's links: ``/de`` if the reader chose it, else empty
    path: str = "/"  # the requested path without that prefix


_DEFAULT = PageLanguage(SOURCE)
page_language: ContextVar[PageLanguage] = ContextVar("page_language", default=_DEFAULT)


@lru_cache(maxsize=1)
def languages() -> tuple[str, ...]:
    """Return the available languages, the source language first."""
    paths = LOCALES.glob(f"*/LC_MESSAGES/{DOMAIN}.po")
    return (SOURCE, *sorted({path.parent.parent.name for path in paths} - {SOURCE}))


def check_language(language: str) -> str:
    """Return the language; raise ConfigError when there is no catalogue for it."""
    if language not in languages():
        raise ConfigError(f"The front has no translation for {language!r}; there is {', '.join(languages())}.")
    return language


def wanted_language(accepted: str, default: str = SOURCE) -> str:
    """Choose the language for an Accept-Language header by Lookup (RFC 4647, 3.4), the first of equal weights.

    >>> wanted_language("fr, de-AT;q=0.8, en;q=0.5")
    'de'
    >>> wanted_language("de;q=0, *"), wanted_language("tlh"), wanted_language("")
    ('en', 'en', 'en')
    """
    preferences: list[tuple[float, str]] = []
    for text in accepted.split(",", _MOST_RANGES)[:_MOST_RANGES]:
        match = _RANGE.fullmatch(text)
        if match is not None:
            preferences.append((float(match[2] or 1), match[1].lower()))
    refused = {name for weight, name in preferences if not weight}
    for weight, name in sorted(preferences, key=lambda preference: -preference[0]):
        if not weight:
            continue
        if name == "*":
            return next((each for each in (default, *languages()) if each not in refused), default)
        base = name.partition("-")[0]
        if base in languages():
            return base
    return default


def split_prefix(path: bytes) -> tuple[str, bytes]:
    """Split a raw path into its language prefix (empty without one) and the remaining path.

    >>> split_prefix(b"/de/page/https://a.example/"), split_prefix(b"/page/x")
    (('de', b'/page/https://a.example/'), ('', b'/page/x'))
    """
    match = _PREFIX.match(path)
    language = match[1].decode() if match else ""
    if match is None or language not in languages():
        return "", path
    return language, path[match.end() :] or b"/"


def localized_path(path: str) -> str:
    """Return the path with the language prefix chosen by the reader."""
    return page_language.get().prefix + path


def translate(text: str, **values: object) -> str:
    """Return the text in the reader's language, with ``%(name)s`` filled in."""
    translation = _catalogue(page_language.get().language).ugettext(text)
    return translation % values if values else translation


def translate_count(one: str, many: str, count: int, **values: object) -> str:
    """Return the plural form for `count`, which replaces ``%(count)s``."""
    translation = _catalogue(page_language.get().language).ungettext(one, many, count)
    return translation % {"count": number(count), **values}


def noop(text: str) -> str:
    """Mark the text for translation and return it unchanged."""
    return text


def day(moment: date | datetime) -> str:
    """Format a date: ``1 March 2026``, ``1. März 2026``."""
    language = _language()
    return format_date(moment, "d MMMM y" if language == "en_GB" else "long", locale=language)


def when(moment: datetime) -> str:
    """Format date and time to the second in digits, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def minute(moment: datetime) -> str:
    """Format the time of day, in UTC."""
    return format_time(moment, "HH:mm", locale=_language())


def short_moment(moment: datetime) -> str:
    """Format day, month, year and time of day, in UTC: ``28 Nov 2026, 16:25``."""
    return f"{format_skeleton('yMMMd', moment, locale=_language())}, {minute(moment)}"


def moment_of(when_: datetime) -> str:
    """Format date and time in words, in UTC."""
    return f"{day(when_)}, {minute(when_)} UTC"


def month(number_: int) -> str:
    """Return the name of a month, from 1."""
    return str(Locale.parse(_language()).months["stand-alone"]["wide"][number_])


def month_and_year(moment: date) -> str:
    """Format month and year: ``March 2026``."""
    return format_date(moment, "LLLL y", locale=_language())


def weekdays() -> Sequence[tuple[str, str]]:
    """Return short and full names of the weekdays, in the locale's order."""
    locale = Locale.parse(_language())
    order = [(locale.first_week_day + step) % 7 for step in range(7)]
    names = locale.days["stand-alone"]
    return [(str(names["short"][each]), str(names["wide"][each])) for each in order]


def first_weekday() -> int:
    """Return the first day of the week in the locale; 0 is Monday."""
    return int(Locale.parse(_language()).first_week_day)


def number(count: float) -> str:
    """Format an integer: ``5,000``, ``5.000``."""
    return format_decimal(count, locale=_language())


def language_name(language: str) -> str:
    """Return the name of a language in that language."""
    name = Locale.parse(language).get_display_name() or language
    return name[:1].upper() + name[1:]


def language_in(language: str) -> str:
    """Return the name of any language in the reader's language; the code when there is none."""
    try:
        return Locale.parse(language).get_display_name(_language()) or language
    except (UnknownLocaleError, ValueError):
        return language


def _language() -> str:
    # English without a country has American dates; days before months are read by everyone.
    language = page_language.get().language
    return "en_GB" if language == "en" else language


@lru_cache(maxsize=64)
def _catalogue(language: str) -> Translations:
    path = LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.po"
    if language == SOURCE and not path.is_file():
        return Translations()
    with path.open("rb") as source, io.BytesIO() as compiled:
        write_mo(compiled, read_po(source, locale=language))
        compiled.seek(0)
        return Translations(compiled, domain=DOMAIN)


def set_language(language: str) -> None:
    """Set the response language from a request parameter, if given."""
    if language:
        page_language.set(replace(page_language.get(), language=language, prefix=f"/{language}"))
