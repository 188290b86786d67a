"""Dates as authors write them (B05)."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiki.wikitext.citation_draft import FIRST_ARCHIVED_DAY, month_numbers, read_date

TODAY = date(2026, 11, 21)
FIFTH = date(2020, 3, 5)


@pytest.mark.parametrize(
    "text",
    [
        "2020-03-05",
        "2020-3-5",
        "2020\u201103\u201105",
        "2020/03/05",
        "20200305",
        "20200305120000",
        "5 March 2020",
        "05 Mar 2020",
        "5 Mar. 2020",
        "5th of March, 2020",
        "March 5, 2020",
        "March 5th 2020",
        "2020 March 5",
        "Thursday, 5 March 2020, 12:03 (UTC)",
        "[[5 March]] [[2020]]",
        "5.&nbsp;März 2020",
        "5.\xa0März 2020",
        "5. März 2020",
        "5. Maerz 2020",
        "05.03.2020",
        "5. 3. 2020",
        "5 mars 2020",
        "5 de marzo de 2020",
        "5 marca 2020",
        "2020年3月5日",
        "{{date|2020|3|5}}",
        "\u200e5 March 2020",
        "\u0665 March \u0662\u0660\u0662\u0660",
    ],
)
def test_a_day_is_read_in_every_style_that_wikis_use(text: str) -> None:
    """The fifth of March 2020, however it is written."""
    assert read_date(text, today=TODAY) == FIFTH


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("25/03/2020", date(2020, 3, 25)),
        ("03/25/2020", date(2020, 3, 25)),
        ("05/05/2020", date(2020, 5, 5)),
        ("2020-03", date(2020, 3, 1)),
        ("March 2020", date(2020, 3, 1)),
        ("Jänner 2020", date(2020, 1, 1)),
        ("5. Jänner 2020", date(2020, 1, 5)),
        ("29 February 2020", date(2020, 2, 29)),
        ("2001-01-01", date(2001, 1, 1)),
        ("2026-11-22", date(2026, 11, 22)),
    ],
)
def test_what_can_mean_one_day_only_is_that_day(text: str, day: date) -> None:
    """Two numbers of which one is no month; a month counts from its first day; days end late."""
    assert read_date(text, today=TODAY) == day


@pytest.mark.parametrize(
    "text",
    [
        "05/03/2020",  # here and there another day
        "2020",
        "20",
        "",
        "yesterday",
        "30 February 2020",
        "2020-13-05",
        "2020-02-30",
        "5 March 20",
        "5 March 20200",
        "1999-12-31",
        "2000-12-31",
        "2026-11-23",
        "3020-03-05",
        "0000-00-00",
        "123456789012",
        "x" * 300 + "2020-03-05",
    ],
)
def test_what_names_no_day_is_none(text: str) -> None:
    """Ambiguous, impossible, absurd or none at all."""
    assert read_date(text, today=TODAY) is None


def test_archives_are_older_than_wikis() -> None:
    """A copy may be of 1997; an access date may not."""
    assert read_date("1997-05-05", today=TODAY) is None
    assert read_date("1997-05-05", today=TODAY, first=FIRST_ARCHIVED_DAY) == date(1997, 5, 5)


@given(
    st.dates(date(2001, 1, 1), TODAY),
    st.sampled_from(sorted(month_numbers())),
    st.sampled_from(["{d} {m} {y}", "{m} {d}, {y}", "{d}. {m} {y}", "{y} {m} {d}"]),
)
def test_every_name_of_a_month_is_read_in_every_style(day: date, name: str, style: str) -> None:
    """A date that is written with a month's name is read as that day."""
    try:
        meant = day.replace(month=month_numbers()[name])
    except ValueError:
        return
    text = style.format(d=day.day, m=name.capitalize(), y=day.year)
    assert read_date(text, today=date(2026, 12, 31)) == meant


@given(st.text(alphabet="0123456789-/. |年月日amrchJänuy", max_size=80))
def test_no_text_is_read_as_a_day_beyond_what_is_possible(text: str) -> None:
    """Whatever is written: a day between the first wiki and tomorrow, or none."""
    day = read_date(text, today=TODAY)
    assert day is None or date(2001, 1, 1) <= day <= date(2026, 11, 22)
