"""Order and choice of a sample: by suspicion, and of every host something."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from qa.sample import SampleCandidate, SampledPage, WeightedSample, order_by_risk, weigh_candidate

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def page(number: int, host: str = "a.example", **facts: object) -> SampleCandidate:
    """Return an ordinary page of a host that was checked before."""
    plain = SampleCandidate(
        f"{number:08}", f"https://{host}/{number}", f"https://{host}/{number}", NOW,
        "20261122000000", host, host_checked=True, page_class=PageClass.OK,
    )  # fmt: skip
    return replace(plain, **facts)  # type: ignore[arg-type]


def drawn(pages: Iterable[SampleCandidate], size: int, seed: int = 1) -> list[SampledPage]:
    """Draw a sample of the pages."""
    sample = WeightedSample(size, Random(seed))
    for each in pages:
        sample.add(each)
    return sample.drawn()


def test_what_speaks_for_a_look_is_said() -> None:
    """In words, each with its weight; nothing is said of an ordinary page."""
    odd = page(
        1,
        outcome=VisitOutcome.PARTIAL,
        reason="missing: 3 of 40 resources",
        page_class=PageClass.SOFT_404,
        stored_bytes=40_000_000,
        before_bytes=4_000_000,
        host_checked=False,
    )

    assert weigh_candidate(page(2)) == SampledPage(page(2))
    assert weigh_candidate(odd).reasons == (
        "missing: 3 of 40 resources",
        "class: soft-404",
        "size: 10.0 times the previous size",
        "big: 40 MB",
        "host: never checked",
    )
    assert weigh_candidate(odd).weight > weigh_candidate(page(1, outcome=VisitOutcome.PARTIAL)).weight > 1


def test_the_suspect_come_first_and_are_drawn_more_often() -> None:
    """A sixth of a large index is suspect, and a third of the sample or more."""
    suspect = {number for number in range(6_000) if number % 6 == 0}
    pages = (
        page(number, outcome=VisitOutcome.PARTIAL if number in suspect else VisitOutcome.COMPLETE)
        for number in range(6_000)
    )

    chosen = drawn(pages, 200)

    weights = [each.weight for each in chosen]
    assert weights == sorted(weights, reverse=True)
    assert len([each for each in chosen if each.reasons]) > 67


def test_every_host_has_its_share_of_chance() -> None:
    """One host with nine tenths of the pages takes no more than others of the ordinary places."""
    pages = [page(number, "large.example") for number in range(9_000)]
    pages += [page(9_000 + number, f"h{number % 20:02}.example") for number in range(1_000)]
    pages.sort(key=lambda each: each.host)

    hosts = {each.page.host for each in drawn(pages, 100)}

    assert len(hosts) >= 20


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=8), size=st.integers(0, 60), seed=st.integers(0, 5))
def test_a_sample_is_as_large_as_asked_or_has_all(counts: list[int], size: int, seed: int) -> None:
    """No page twice, and the same again with the same dice."""
    pages = [
        page(100 * host + number, f"h{host}.example", host_checked=number % 2 == 0)
        for host, count in enumerate(counts)
        for number in range(count)
    ]

    chosen = drawn(pages, size, seed)

    ids = [each.page.page_id for each in chosen]
    assert len(ids) == len(set(ids)) == min(size, len(pages))
    assert chosen == drawn(pages, size, seed)


def test_all_are_read_in_passes_the_suspect_first() -> None:
    """None is left out, none comes twice, also when it looks less suspect after its host was checked."""
    known: set[str] = set()

    def read() -> Iterable[SampleCandidate]:
        for number in range(300):
            if f"{number:08}" in known:
                continue
            host = f"h{number // 10:02}.example"
            outcome = VisitOutcome.PARTIAL if number % 7 == 0 else VisitOutcome.COMPLETE
            checked = any(each.startswith(f"{number // 10:07}") for each in known)
            yield page(number, host, outcome=outcome, host_checked=checked)

    came = []
    for each in order_by_risk(read):
        known.add(each.page.page_id)
        came.append(each)

    assert len({each.page.page_id for each in came}) == len(came) == 300
    partial = [each.page.outcome is VisitOutcome.PARTIAL for each in came]
    assert all(partial[: sum(partial)])
