"""Dates as a page writes them."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiki.wikitext.citation_draft import read_date
from wiki.wikitext.page_style import DateStyle, date_style, format_day, page_style


@given(st.dates(date(2001, 1, 1), date(2026, 11, 21)), st.sampled_from(DateStyle), st.sampled_from(["en", "de"]))
def test_a_written_date_has_its_style_and_is_read_back(day: date, style: DateStyle, language: str) -> None:
    """Writing and knowing a style are inverse."""
    text = format_day(day, style, language)
    assert date_style(text) is style
    read = read_date(text, today=date(2026, 11, 21))
    assert read == day or (style is DateStyle.DOTS and read is None)  # days and months in doubt


@pytest.mark.parametrize(
    "text", ["", "2020", "May 2020", "yesterday", "2020-13", "1 2 2020", "x" * 50, "5 March 2020 or so"]
)
def test_what_says_no_day_has_no_style(text: str) -> None:
    """Nothing is guessed from half a date."""
    assert date_style(text) is None


def test_what_a_page_says_of_itself_counts_most() -> None:
    """Then most of its dates, then the wiki's custom."""
    dates = ["2020-01-02", "5 March 2020", "2020-01-03", "nonsense"]
    assert page_style("{{Use mdy dates|date=x}}", dates, DateStyle.DMY) is DateStyle.MDY
    assert page_style("{{use_dmy_dates}}", dates, DateStyle.ISO) is DateStyle.DMY
    assert page_style("", dates, DateStyle.DMY) is DateStyle.ISO
    assert page_style("", ["nonsense"], DateStyle.MDY) is DateStyle.MDY


def test_a_language_without_months_gets_digits() -> None:
    """No foreign words."""
    assert format_day(date(2020, 3, 5), DateStyle.DMY, "xx") == "2020-03-05"
    assert format_day(date(2020, 3, 5), DateStyle.DOTS, "xx") == "05.03.2020"
