"""Dates as a page writes them: ISO, 5 March 2020, March 5, 2020, 5. März 2020, 05.03.2020.

style = style_of("5 March 2020")          # DateStyle.DMY
written(date(2021, 2, 3), style, "en")    # 3 February 2021
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from typing import Final

MONTHS: Final = {
    "en": [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
    "de": [
        "Januar",
        "Februar",
        "März",
        "April",
        "Mai",
        "Juni",
        "Juli",
        "August",
        "September",
        "Oktober",
        "November",
        "Dezember",
    ],
}
_LONGEST: Final = 40  # characters a date may have
_USE: Final = re.compile(r"\{\{\s*use[ _](dmy|mdy)[ _]dates\s*[|}]", re.IGNORECASE)


class DateStyle(StrEnum):
    """How a date is written."""

    ISO = "iso"  # 2020-03-05
    DMY = "dmy"  # 5 March 2020; 5. März 2020
    MDY = "mdy"  # March 5, 2020
    YMD = "ymd"  # 2020 March 5
    DOTS = "dots"  # 05.03.2020


_FORMS: Final = (
    (DateStyle.ISO, re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)),
    (DateStyle.DOTS, re.compile(r"\d{1,2}\. ?\d{1,2}\. ?\d{4}", re.ASCII)),
    (DateStyle.DMY, re.compile(r"[0-9]{1,2}\.? [^\W\d_]{3,12}\.?,? [0-9]{4}")),
    (DateStyle.YMD, re.compile(r"[0-9]{4} [^\W\d_]{3,12} [0-9]{1,2}")),
    (DateStyle.MDY, re.compile(r"[^\W\d_]{3,12}\.? [0-9]{1,2}, ?[0-9]{4}")),
)


def style_of(text: str) -> DateStyle | None:
    """How this date is written; None when it is none that says its day."""
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    return next((style for style, form in _FORMS if form.fullmatch(text)), None)


def page_style(text: str, dates: Iterable[str], usual: DateStyle) -> DateStyle:
    """The page's style: what it says itself ({{use dmy dates}}), else what most of its dates have."""
    said = _USE.search(text)
    if said is not None:
        return DateStyle(said[1].lower())
    votes = Counter(style for style in map(style_of, dates) if style is not None)
    return votes.most_common(1)[0][0] if votes else usual


def written(day: date, style: DateStyle, language: str) -> str:
    """The day in that style; in ISO where the language's months are not known here."""
    months = MONTHS.get(language.partition("-")[0])
    if style is DateStyle.DOTS:
        return f"{day.day:02}.{day.month:02}.{day.year:04}"
    if style is DateStyle.ISO or months is None:
        return day.isoformat()
    month = months[day.month - 1]
    if style is DateStyle.MDY:
        return f"{month} {day.day}, {day.year:04}"
    if style is DateStyle.YMD:
        return f"{day.year:04} {month} {day.day}"
    return f"{day.day}{'.' if language.startswith('de') else ''} {month} {day.year:04}"


def month_name(day: date, language: str) -> str:
    """The month in words of that language, else in English: ``November``."""
    return MONTHS.get(language.partition("-")[0], MONTHS["en"])[day.month - 1]
