"""One replacement for an unreachable URL: what may be one, when it is shown, how it ends."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from core.errors import BadUrlError
from links.check_result import CheckMethod, CheckResult, CheckVerdict, RedirectHop
from links.feedback.replacements import (
    FAILED_KEPT_DAYS,
    PATIENCE_DAYS,
    RETEST_DAYS,
    AddressRefusal,
    ProposalContext,
    ProposalStage,
    ProposalTakenError,
    RefusedAddressError,
    ReplacementProposal,
    next_stage,
    propose_replacement,
    record_replacement_test,
    remove_replacement,
    replacements_of,
    replacements_to_test,
    shown_replacement,
)
from links.feedback.reports import NeedlessReportError
from links.registry.database import RegistryStore
from links.registry.schema import replacements
from links.registry.urls import NotObservedError, UrlRow
from links.states import LinkState
from tests.support.feedback_reports import NOW, TODAY, watch

OLD = "https://example.org/old"
NEW = "https://new.example.net/page"
ONE, TWO = b"1" * 16, b"2" * 16
DAY = timedelta(days=1)


def result_with(verdict: CheckVerdict, final_url: str = "") -> CheckResult:
    """Return a check result with that verdict, redirected to `final_url` if there is one."""
    hops = (RedirectHop(301, final_url),) if final_url else ()
    return CheckResult(1, verdict, CheckMethod.GET, 200, final_url, hops)


def proposed(store: RegistryStore, url_id: int) -> ReplacementProposal | None:
    with store.reading() as rows:
        return replacements_of(rows, [url_id]).get(url_id)


def test_a_replacement_is_shown_only_after_a_look_found_it(store: RegistryStore) -> None:
    """Not while it waits; not beside a URL that works again; one look later it is (W17)."""
    with store.writing() as rows:
        (url_id,) = watch(rows, OLD)
        done = propose_replacement(rows, OLD, "HTTPS://new.example.net:443/page#x", ONE, NOW)
        (waiting,) = replacements_to_test(rows, TODAY, 9)
        assert shown_replacement(waiting.address, waiting.stage, LinkState.DEAD) == ""
        assert record_replacement_test(rows, waiting, result_with(CheckVerdict.OK), TODAY) is ProposalStage.WORKS
    works = proposed(store, url_id)

    assert (done.address, done.is_new) == (NEW, True)
    assert works is not None
    assert shown_replacement(works.address, works.stage, LinkState.DEAD) == NEW
    assert shown_replacement(works.address, works.stage, LinkState.ALIVE) == ""


def test_there_is_one_place(store: RegistryStore) -> None:
    """Taken while a proposal waits or works, free when it failed or was removed (W17)."""
    with store.writing() as rows:
        (url_id,) = watch(rows, OLD)
        propose_replacement(rows, OLD, NEW, ONE, NOW)
        assert not propose_replacement(rows, OLD, f"{NEW}#again", TWO, NOW).is_new
    with pytest.raises(ProposalTakenError), store.writing() as rows:
        propose_replacement(rows, OLD, f"{NEW}/2", TWO, NOW + DAY)
    with store.writing() as rows:
        (waiting,) = replacements_to_test(rows, TODAY, 9)
        assert record_replacement_test(rows, waiting, result_with(CheckVerdict.GONE), TODAY) is ProposalStage.FAILED
        assert propose_replacement(rows, OLD, f"{NEW}/2", TWO, NOW + DAY).is_new
        assert remove_replacement(rows, OLD, ONE, NOW) == f"{NEW}/2"
        assert propose_replacement(rows, OLD, f"{NEW}/3", TWO, NOW + 2 * DAY).is_new
        assert len(rows.execute(select(replacements)).all()) == 1
    last = proposed(store, url_id)

    assert last is not None
    assert last.address == f"{NEW}/3"


def test_anybody_removes_what_anybody_proposed(sqlite_store: RegistryStore) -> None:
    """And what is not there is not removed (W17)."""
    with sqlite_store.writing() as rows:
        (url_id,) = watch(rows, OLD)
        propose_replacement(rows, OLD, NEW, ONE, NOW)
        remove_replacement(rows, OLD, TWO, NOW)
    assert proposed(sqlite_store, url_id) is None
    with pytest.raises(NeedlessReportError), sqlite_store.writing() as rows:
        remove_replacement(rows, OLD, TWO, NOW + DAY)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://EXAMPLE.org./old#x", AddressRefusal.SAME),
        ("http://10.0.0.1/", AddressRefusal.PRIVATE),
        ("http://0x7f.1/", AddressRefusal.PRIVATE),
        ("http://2130706433/", AddressRefusal.PRIVATE),
        ("http://[::ffff:192.168.0.1]/", AddressRefusal.PRIVATE),
        ("http://169.254.169.254/latest/meta-data/", AddressRefusal.PRIVATE),
        ("http://printer.local/", AddressRefusal.PRIVATE),
        ("http://db.prod.internal/", AddressRefusal.PRIVATE),
        ("https://example.net:22/", AddressRefusal.PORT),
        (f"https://example.net/{'a' * 4000}", AddressRefusal.TOO_LONG),
        ("https://spam.example.net/", AddressRefusal.POLICY),
        ("https://example.org/dead", AddressRefusal.UNREACHABLE),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_can_be_no_replacement(address: str, reason: AddressRefusal, sqlite_store: RegistryStore) -> None:
    """The URL itself, what leads off the public web, what policy refuses, what is dead as well."""
    around = ProposalContext(refuses=lambda url: "it is spam" if "spam" in url else "")
    with sqlite_store.writing() as rows:
        watch(rows, OLD, "https://example.org/dead")
    with pytest.raises(RefusedAddressError) as refused, sqlite_store.writing() as rows:
        propose_replacement(rows, OLD, address, ONE, NOW, around)
    assert refused.value.reason is reason


@pytest.mark.parametrize("address", ["", "javascript:alert(1)", "mailto:a@example.org", "http:///x"])
def test_what_is_no_url_is_no_replacement(address: str, sqlite_store: RegistryStore) -> None:
    """Nobody is ever shown a link with another scheme."""
    with sqlite_store.writing() as rows:
        watch(rows, OLD)
    with pytest.raises(BadUrlError), sqlite_store.writing() as rows:
        propose_replacement(rows, OLD, address, ONE, NOW)


def test_only_unreachable_urls_that_are_watched_get_one(sqlite_store: RegistryStore) -> None:
    """The others are told apart, and no row is made (W17, W18)."""
    with sqlite_store.writing() as rows:
        watch(rows, OLD, state=LinkState.ALIVE)
    with pytest.raises(NeedlessReportError), sqlite_store.writing() as rows:
        propose_replacement(rows, OLD, NEW, ONE, NOW)
    with pytest.raises(NotObservedError), sqlite_store.writing() as rows:
        propose_replacement(rows, f"{OLD}er", NEW, ONE, NOW)


def test_the_same_page_by_https_is_a_replacement(sqlite_store: RegistryStore) -> None:
    """A move to https is the commonest of all."""
    with sqlite_store.writing() as rows:
        watch(rows, "http://example.org/old")
        assert propose_replacement(rows, "http://example.org/old", OLD, ONE, NOW).address == OLD


class _ArchiveStub:
    """Keeps what is at archive.example.net, of the right URL."""

    def __call__(self, _connection: object, url: UrlRow, address: str, _now: object) -> str:
        """Return an archive's name when the address ends with the URL, else an empty text."""
        return "some-archive" if address.endswith(url.url) else ""


def test_a_copy_in_an_archive_goes_to_the_copies(sqlite_store: RegistryStore) -> None:
    """It takes no place, so that another URL can still be proposed (W17)."""
    around = ProposalContext(archives=_ArchiveStub())
    with sqlite_store.writing() as rows:
        (url_id,) = watch(rows, OLD)
        done = propose_replacement(rows, OLD, f"https://archive.example.net/2020/{OLD}", ONE, NOW, around)
    assert done.archive == "some-archive"
    assert proposed(sqlite_store, url_id) is None


def test_what_waits_is_tested_first_and_what_works_each_month(store: RegistryStore) -> None:
    """A day between two looks at what waits, a month at what does not."""
    with store.writing() as rows:
        ids = watch(rows, *(f"{OLD}/{n}" for n in range(3)))
        for number in range(3):
            propose_replacement(rows, f"{OLD}/{number}", NEW, bytes([number]) * 16, NOW)
        first, second, third = replacements_to_test(rows, TODAY, 9)
        record_replacement_test(rows, first, result_with(CheckVerdict.OK), TODAY)
        record_replacement_test(rows, second, result_with(CheckVerdict.FAILING), TODAY)

        def due(days: int, limit: int = 9) -> list[int]:
            return [each.url_id for each in replacements_to_test(rows, TODAY + days, limit)]

        assert due(0) == [third.url_id]
        assert due(1) == [third.url_id, second.url_id]
        assert due(1, 1) == [third.url_id]
        assert due(RETEST_DAYS) == [third.url_id, second.url_id, first.url_id]
        assert sorted(due(RETEST_DAYS)) == sorted(ids)


def test_a_test_of_what_was_removed_meanwhile_counts_for_nothing(sqlite_store: RegistryStore) -> None:
    """Nor does it count for what was proposed in its place."""
    with sqlite_store.writing() as rows:
        (url_id,) = watch(rows, OLD)
        propose_replacement(rows, OLD, NEW, ONE, NOW)
        (waiting,) = replacements_to_test(rows, TODAY, 9)
        remove_replacement(rows, OLD, ONE, NOW)
        assert record_replacement_test(rows, waiting, result_with(CheckVerdict.OK), TODAY) is None
        propose_replacement(rows, OLD, f"{NEW}/2", TWO, NOW)
        assert record_replacement_test(rows, waiting, result_with(CheckVerdict.OK), TODAY) is None
    after = proposed(sqlite_store, url_id)

    assert after is not None
    assert after.stage is ProposalStage.WAITING


@pytest.mark.parametrize("final", [OLD, "http://127.0.0.1/", "https://spam.example.net/x", "ftp://example.net/"])
def test_what_leads_where_it_may_not_does_not_work(final: str, sqlite_store: RegistryStore) -> None:
    """Back to the dead URL, into somebody's network, to what policy refuses."""
    around = ProposalContext(refuses=lambda url: "it is spam" if "spam" in url else "")
    with sqlite_store.writing() as rows:
        watch(rows, OLD)
        propose_replacement(rows, OLD, NEW, ONE, NOW, around)
        (waiting,) = replacements_to_test(rows, TODAY, 9)
        stage = record_replacement_test(rows, waiting, result_with(CheckVerdict.OK, final), TODAY, around)
    assert stage is ProposalStage.FAILED


def test_what_failed_for_half_a_year_is_forgotten(sqlite_store: RegistryStore) -> None:
    """It was looked at each month, and may have come back until then."""
    with sqlite_store.writing() as rows:
        watch(rows, OLD)
        propose_replacement(rows, OLD, NEW, ONE, NOW)
        (it,) = replacements_to_test(rows, TODAY, 9)
        stages = [
            record_replacement_test(rows, it, result_with(CheckVerdict.GONE), TODAY + day)
            for day in (0, FAILED_KEPT_DAYS - 1, FAILED_KEPT_DAYS)
        ]
        assert stages == [ProposalStage.FAILED, ProposalStage.FAILED, None]
        assert rows.execute(select(replacements)).all() == []


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.integers(0, 40))))
def test_whatever_the_looks_say(looks: list[tuple[bool | None, int]]) -> None:
    """It works exactly when the last look was good, and waits no longer than its patience."""
    stage, since, day = ProposalStage.WAITING, 0, 0
    for works, later in looks:
        day += later
        after = next_stage(stage, works, day - since)
        if after is not stage:
            since = day
        stage = after
        assert (stage is ProposalStage.WORKS) == (works is True)
        if stage is ProposalStage.WAITING:
            assert day - since < PATIENCE_DAYS
        if works is False:
            assert stage is ProposalStage.FAILED


def test_of_proposals_at_the_same_moment_one_is_kept(store: RegistryStore) -> None:
    """The others are told that the place is taken, whatever the database."""
    with store.writing() as rows:
        (url_id,) = watch(rows, OLD)
    begin = threading.Barrier(6)

    def try_it(number: int) -> bool:
        begin.wait(timeout=240)
        try:
            with store.writing() as rows:
                propose_replacement(rows, OLD, f"{NEW}/{number}", bytes([number]) * 16, NOW)
        except ProposalTakenError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(try_it, range(6)))

    assert outcomes.count(True) == 1
    proposal = proposed(store, url_id)
    assert proposal is not None
    assert proposal.address == f"{NEW}/{outcomes.index(True)}"
