"""Day numbers: a moment to the day, in two bytes (W60).

Day 0 is 1 January 2017; day 65535 is in the year 2196. All of a day's checks share its number, so two
histories can be compared (the Julian Day that begins at a day's noon is 2,457,755 more), and nobody reads from them at what hour somebody asked.

>>> from datetime import UTC, date, datetime
>>> day_of(datetime(2017, 1, 2, 23, 59, tzinfo=UTC)), date_of(0)
(1, datetime.date(2017, 1, 1))
"""

from datetime import UTC, date, datetime, timedelta

EPOCH = date(2017, 1, 1)
LAST_DAY = 0xFFFF


def day_of(moment: datetime) -> int:
    """The moment's day in UTC; what lies outside of the calendar is its first or last day."""
    return day_of_date(moment.astimezone(UTC).date())


def day_of_date(when: date) -> int:
    """The date's day; what lies outside of the calendar is its first or last day."""
    return min(max((when - EPOCH).days, 0), LAST_DAY)


def date_of(day: int) -> date:
    """The day's date."""
    return EPOCH + timedelta(days=day)
