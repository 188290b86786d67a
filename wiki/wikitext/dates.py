"""Dates as authors of wikis write them, to the day; a month counts as its first day (B05).

What could mean two days is no date: 05/03/2020 is one here and another there; 25/03/2020 is not. Nobody
saw a web page before 2001 on a wiki, nor after today.
"""

import re
from calendar import monthrange
from datetime import date
from functools import lru_cache
from typing import Final

FIRST: Final = date(2001, 1, 1)  # the first wiki with citations began in that month
FIRST_ARCHIVED: Final = date(1996, 1, 1)  # no archive is older
_LONGEST: Final = 200  # characters that are looked at
_NAMES: Final = (
    ("january", "jan", "januar", "jänner", "jaenner", "jän", "janvier", "enero", "gennaio", "gen"),
    ("february", "feb", "februar", "feber", "février", "febrero", "febbraio", "febr", "fév"),
    ("march", "mar", "märz", "maerz", "mär", "mrz", "mars", "marzo", "março", "maart"),
    ("april", "apr", "avril", "abril", "aprile", "avr", "abr", "april"),
    ("may", "mai", "mayo", "maggio", "maio", "mei", "maj", "maja", "mag"),
    ("june", "jun", "juni", "juin", "junio", "giugno", "junho", "giu"),
    ("july", "jul", "juli", "juillet", "julio", "luglio", "julho", "lug"),
    ("august", "aug", "août", "aout", "agosto", "augusti", "augustus", "ago"),
    ("september", "sep", "sept", "septembre", "septiembre", "settembre", "setembro", "set"),
    ("october", "oct", "oktober", "okt", "octobre", "octubre", "ottobre", "outubro", "out", "ott"),
    ("november", "nov", "novembre", "noviembre", "novembro"),
    ("december", "dec", "dezember", "dez", "décembre", "diciembre", "dicembre", "dezembro", "dic"),
)
_MORE: Final = {
    "januari": 1, "janeiro": 1, "stycznia": 1, "fevereiro": 2, "februari": 2, "lutego": 2,
    "marca": 3, "kwietnia": 4, "czerwca": 6, "lipca": 7, "sierpnia": 8, "września": 9,
    "października": 10, "listopada": 11, "grudnia": 12, "desember": 12, "des": 12, "déc": 12,
}  # fmt: skip
MONTHS: Final = {
    **{name: number for number, names in enumerate(_NAMES, 1) for name in names},
    **_MORE,
}
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\.?"
_YEAR = r"(?P<year>\d{4})(?!\d)"
_DAY = r"(?<!\d)(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?"
_GAP = r"(?:[\s,/-]|of\s|de\s|del\s){0,3}"
_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?<!\d)(?P<year>\d{4})[-\u2010\u2011\u2012\u2013](?P<number>\d{1,2})[-\u2010\u2011\u2012\u2013](?P<day>\d{1,2})(?!\d)",
        rf"{_DAY}{_GAP}\b{_MONTH}{_GAP}{_YEAR}",
        rf"\b{_MONTH}\s{{0,3}}{_DAY}{_GAP}(?<!\d){_YEAR}",
        rf"(?<!\d){_YEAR}{_GAP}\b{_MONTH}\s{{0,3}}{_DAY}(?!\d)",
        r"(?<!\d)(?P<day>\d{1,2})\.\s?(?P<number>\d{1,2})\.\s?(?P<year>\d{4})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})[/.](?P<number>\d{1,2})[/.](?P<day>\d{1,2})(?!\d)",
        r"(?<!\d)(?P<either>\d{1,2})[/-](?P<or>\d{1,2})[/-](?P<year>\d{4})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})\|(?P<number>\d{1,2})\|(?P<day>\d{1,2})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})(?P<number>\d\d)(?P<day>\d\d)(?:\d{6}|\d{4})?(?!\d)",
        r"(?<!\d)(?P<year>\d{4})年(?P<number>\d{1,2})月(?P<day>\d{1,2})日",
        rf"\b{_MONTH}{_GAP}(?<!\d){_YEAR}",
        r"(?<![\d-])(?P<year>\d{4})-(?P<number>\d\d)(?![\d-])",
    )
)
_MARKUP = re.compile(r"\[\[|\]\]|'{2,}|&nbsp;|&#160;|[\xa0\u2009\u202f\u200e\u200f]|\{\{0\}\}")


def read_date(text: str, *, today: date, first: date = FIRST) -> date | None:
    """The day that the text names first; None when it names none, or no possible one.

    Args:
        text: a parameter's value, or running text that begins with a date.
        today: nothing later counts; a day of grace is given, since days end at different moments.
        first: nothing earlier counts.

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
    text = _MARKUP.sub(_without, text)
    for form in _FORMS:
        found = form.search(text)
        if found is not None:
            return _day_of(found.groupdict())
    return None


def _without(found: re.Match[str]) -> str:
    return " " if found[0][0] in "&\xa0\u2009\u202f" else ""


def _day_of(parts: dict[str, str]) -> date | None:
    year = int(parts["year"])
    if "either" in parts:
        one, other = int(parts["either"]), int(parts["or"])
        if one == other or one > 12 >= other:
            return _date(year, other, one)
        return _date(year, one, other) if other > 12 else None
    number = int(parts["number"]) if "number" in parts else MONTHS[parts["month"].casefold()]
    return _date(year, number, int(parts.get("day", "1")))


def _date(year: int, month: int, day: int) -> date | None:
    if not 1 <= month <= 12 or not 1900 <= year <= 2_999:
        return None
    return date(year, month, day) if 1 <= day <= monthrange(year, month)[1] else None
