"""Choice of remedies for links, from the registry: no wiki, no network."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_urls import moment_of
from links.archives.copy_store import StoredCopy
from links.check_history import date_of, day_of
from links.feedback.reports import VALID_DAYS
from links.registry.lookups import QuirkFacts, UrlFacts
from links.registry.quirks import HostQuirk
from links.registry.urls import UrlRow
from links.states import LinkState
from wiki.bot.remedies import (
    CopyPreferences,
    KnownLink,
    choose_copy,
    choose_remedies,
    condition_of,
    decision_digest,
    undated_urls,
)
from wiki.wikitext.citation_model import Citation, CitationForm, LinkCondition, TextSpan

URL = "https://gone.example.org/a"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
TODAY = day_of(NOW)
CHOOSING = CopyPreferences(NOW, ("wayback", "archive-today"))


def facts(
    state: LinkState,
    *,
    quirks: tuple[QuirkFacts, ...] = (),
    reports: int = 0,
    report_day: int | None = None,
    checked: int | None = TODAY,
) -> UrlFacts:
    row = UrlRow(
        1, URL, "gone.example.org", 1, state, 18, None, 0, 0, checked, TODAY + 7, 3, TODAY - 60,
        TODAY, 0, None, None,
    )  # fmt: skip
    until = None if report_day is None else report_day + VALID_DAYS - 1
    return UrlFacts(row, (), quirks, (), reports, until)


def stored_copy(stamp: str, service: str = "wayback", *, missed: int | None = None) -> StoredCopy:
    """Return a copy that the registry stores."""
    address = f"https://{service}.example/{stamp}/{URL}"
    return StoredCopy(service, address, stamp, 0, 0, "", False, missed)


def citation(accessed: date | None = None, url: str = URL) -> Citation:
    return Citation(url, CitationForm.CITATION, TextSpan(0, 9), TextSpan(0, 9), access_date=accessed)


def known(
    *copies: StoredCopy,
    condition: LinkCondition = LinkCondition.DEAD,
    died: int | None = TODAY - 60,
    first: int = TODAY - 600,
    is_ours: bool = False,
) -> KnownLink:
    return KnownLink(1, URL, condition, first, died, copies, is_ours)


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        (LinkState.DEAD, LinkCondition.DEAD),
        (LinkState.PERMADEAD, LinkCondition.DEAD),
        (LinkState.USURPED, LinkCondition.USURPED),
        (LinkState.ALIVE, LinkCondition.ALIVE),
        (LinkState.PERMALIVE, LinkCondition.ALIVE),
        (LinkState.UNKNOWN, None),
        (LinkState.DYING, None),
        (LinkState.BLOCKED, None),
        (LinkState.DEVIATED, None),
        (LinkState.INVALID, None),
        (LinkState.EXCLUDED, None),
    ],
)
def test_only_what_is_confirmed_counts(state: LinkState, condition: LinkCondition | None) -> None:
    """Every other state is no reason to edit a page."""
    assert condition_of(facts(state), TODAY) is condition


@pytest.mark.parametrize("kind", [HostQuirk.PRESUMED_REACHABLE, HostQuirk.UNVERIFIABLE])
def test_a_host_that_is_presumed_reachable_is_left_alone(kind: HostQuirk) -> None:
    """While that is believed; a person's mark needs no look at all."""
    fresh = (QuirkFacts(int(kind), "", TODAY - 10, TODAY - 10),)
    over = (QuirkFacts(int(kind), "", TODAY - 400, TODAY - 300),)

    assert condition_of(facts(LinkState.DEAD, quirks=fresh), TODAY) is None
    assert condition_of(facts(LinkState.DEAD, quirks=over), TODAY) is LinkCondition.DEAD
    assert condition_of(facts(LinkState.PERMADEAD, quirks=fresh), TODAY) is LinkCondition.DEAD


def test_a_report_holds_until_somebody_has_looked() -> None:
    """A reader who reaches it today may be right; after the next look the registry knows better."""
    before = facts(LinkState.DEAD, reports=1, report_day=TODAY, checked=TODAY)
    never = facts(LinkState.DEAD, reports=1, report_day=TODAY, checked=None)
    after = facts(LinkState.DEAD, reports=1, report_day=TODAY - 1, checked=TODAY)

    assert condition_of(before, TODAY) is None
    assert condition_of(never, TODAY) is None
    assert condition_of(after, TODAY) is LinkCondition.DEAD


def test_the_copy_is_the_one_nearest_before_the_day_of_access() -> None:
    """Not the newest one; of our own the nearest is asked for at that very day."""
    moments = []

    def own(_url: str, at: datetime | None) -> ArchiveMemento | None:
        moments.append(at)
        return None

    copies = stored_copy("20250101000000"), stored_copy("20250601000000", "archive-today")
    choosing = CopyPreferences(NOW, (), own)
    remedies = choose_remedies([citation(date(2025, 7, 1))], {URL: known(*copies)}, (), choosing)

    copy = remedies[URL].copy
    assert copy is not None
    assert copy.timestamp == "20250601000000"
    assert moments == [datetime(2025, 7, 1, 23, 59, 59, tzinfo=UTC)]


def test_without_a_day_of_access_the_day_it_was_added_counts() -> None:
    """As the page's history tells it, else as the registry first saw it (B06)."""
    copies = stored_copy("20250401000000"), stored_copy("20260101000000", "archive-today")
    first = known(*copies, first=day_of(datetime(2026, 2, 1, tzinfo=UTC)))
    added = {URL: datetime(2025, 5, 1, tzinfo=UTC)}

    seen = choose_remedies([citation()], {URL: first}, (), CHOOSING)[URL].copy
    history_copy = choose_remedies([citation()], {URL: first}, (), CopyPreferences(NOW), added)[URL].copy

    assert seen is not None
    assert history_copy is not None
    assert (seen.timestamp, history_copy.timestamp) == ("20250401000000", "20250401000000")
    assert choose_remedies([citation()], {URL: first}, (), CopyPreferences(NOW))[URL].copy != history_copy


def test_a_copy_from_after_the_death_is_none() -> None:
    """It would show an error page, or another owner's."""
    died = known(stored_copy(f"{NOW:%Y%m%d}000000"))
    usurped = known(stored_copy("20260801000000"), condition=LinkCondition.USURPED, died=None)

    assert choose_copy(died, None, CHOOSING) is None
    assert choose_copy(usurped, datetime(2026, 7, 1, tzinfo=UTC), CHOOSING) is None
    assert choose_copy(usurped, datetime(2026, 9, 1, tzinfo=UTC), CHOOSING) is not None


def test_an_older_copy_of_our_own_is_found_behind_a_late_one() -> None:
    """The nearest may be too late where an older one is good."""
    stamps = ["20240101000000", f"{NOW:%Y%m%d}000000"]

    def own(_url: str, at: datetime | None) -> ArchiveMemento | None:
        near = min(stamps, key=lambda each: abs(moment_of(each) - (at or NOW)))
        return ArchiveMemento("weboid", f"https://archive.example/{near}", near, 200)

    recent = known(first=TODAY - 61)
    copy = choose_copy(recent, None, CopyPreferences(NOW, (), own))

    assert copy is not None
    assert copy.timestamp == "20240101000000"


def test_a_copy_that_a_visit_missed_is_not_offered() -> None:
    """Nor one of which nobody tells when it was taken."""
    assert choose_copy(known(stored_copy("20250101000000", missed=TODAY)), None, CHOOSING) is None
    assert choose_copy(known(stored_copy("")), None, CHOOSING) is None


def test_what_is_held_gets_no_remedy() -> None:
    """Neither does a link that the registry does not know, or one that is alive and was never ours."""
    copy = stored_copy("20250101000000")
    assert choose_remedies([citation()], {URL: known(copy)}, (1,), CHOOSING) == {}
    assert choose_remedies([citation(url="https://other.example/")], {URL: known(copy)}, (), CHOOSING) == {}
    alive = known(condition=LinkCondition.ALIVE)
    ours = known(condition=LinkCondition.ALIVE, is_ours=True)
    assert choose_remedies([citation()], {URL: alive}, (), CHOOSING) == {}
    assert choose_remedies([citation()], {URL: ours}, (), CHOOSING)[URL].is_ours


def test_a_history_is_asked_only_where_it_matters() -> None:
    """A history is read only if there is a choice, or if a late copy would be another owner's."""
    one, two = stored_copy("20250101000000"), stored_copy("20250201000000", "archive-today")
    dated = citation(date(2025, 1, 1))

    assert undated_urls([citation()], {URL: known(one)}, (), has_own=False) == []
    assert undated_urls([citation()], {URL: known(one, two)}, (), has_own=False) == [URL]
    assert undated_urls([citation()], {URL: known(one)}, (), has_own=True) == [URL]
    assert undated_urls([dated], {URL: known(one, two)}, (), has_own=True) == []
    usurped = known(one, condition=LinkCondition.USURPED)
    assert undated_urls([citation()], {URL: usurped}, (), has_own=False) == [URL]
    assert undated_urls([citation()], {URL: usurped}, (1,), has_own=False) == []


def test_a_basis_changes_with_all_that_a_decision_hangs_on() -> None:
    """A new copy, a state, a hold or a setting: then the page is read again."""
    there = decision_digest([known()], (), "x")
    others = [
        decision_digest([known(stored_copy("20250101000000"))], (), "x"),
        decision_digest([known(condition=LinkCondition.USURPED)], (), "x"),
        decision_digest([known()], (1,), "x"),
        decision_digest([known()], (), "y"),
    ]
    assert len({there, *others}) == 5
    assert there == decision_digest([known()], (), "x")


@given(
    stamps=st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)), max_size=8),  # noqa: DTZ001
    accessed=st.none() | st.dates(date(1990, 1, 1), date(2030, 1, 1)),
    died=st.none() | st.integers(0, TODAY),
    condition=st.sampled_from([LinkCondition.DEAD, LinkCondition.USURPED]),
)
def test_no_copy_is_ever_from_after_the_death(
    stamps: list[datetime], accessed: date | None, died: int | None, condition: LinkCondition
) -> None:
    """Whatever there is to choose from; nor from the future, nor from before any archive."""
    copies = [stored_copy(f"{each:%Y%m%d%H%M%S}", f"s{number}") for number, each in enumerate(stamps)]
    at = None if accessed is None else datetime.combine(accessed, datetime.max.time(), UTC)
    copy = choose_copy(known(*copies, condition=condition, died=died), at, CHOOSING)
    if copy is None:
        return
    moment = moment_of(copy.timestamp)
    assert datetime(1996, 1, 1, tzinfo=UTC) <= moment <= NOW + timedelta(days=1)
    if died is not None:
        assert moment.date() <= date_of(died)
