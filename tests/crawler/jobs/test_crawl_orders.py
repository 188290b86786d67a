"""Jobs and sheets: which settings hold for a URL, told through a real frontier."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.profile import parse_settings
from core.config.settings import PolitenessSettings, RecrawlSettings, ScopeSettings, Settings, VisitSettings
from core.errors import ConfigError, InputError
from crawler.frontier.base import JOB_ORDER, Frontier, ItemState, Lane, NewItem
from crawler.jobs.crawl_orders import Job, check_job_name, derive_job_name, parse_job, parse_live_sheet, settings_text
from crawler.jobs.job_settings import ORDERS_POLL_S, SHEET_ORDER, JobSettings
from crawler.run.job_run import submit_job
from tests.crawler.frontier.conftest import NewPlace
from tests.support.clocks import ManualClock

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SEED = "https://a.example/docs/"


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands still until it is moved."""
    return ManualClock(datetime(2026, 11, 21, 12, tzinfo=UTC))


@pytest.fixture
def frontier(new_place: NewPlace) -> Iterator[Frontier]:
    """Yield a frontier of every implementation, without host delays."""
    politeness = PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=100)
    with new_place().open(politeness) as opened:
        yield opened


def job_of(text: str = "", *, name: str = "mine", seeds: tuple[str, ...] = (SEED,)) -> Job:
    """Return a job with the settings of that profile."""
    return Job(name, seeds, parse_settings(text), Lane.STANDARD, NOW)


@given(
    st.builds(
        Settings,
        visit=st.builds(
            VisitSettings,
            timeout_s=st.floats(0, 1e9),
            user_agent=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
            headers=st.dictionaries(st.sampled_from(["DNT", "X-a"]), st.just('say "1" = {}')),
        ),
        scope=st.builds(
            ScopeSettings,
            kind=st.sampled_from(["page", "any"]),
            depth=st.integers(-1, 9),
            exclude=st.lists(st.sampled_from(["a\\.b", 'x"y', "ü"])).map(tuple),
            sitemaps=st.booleans(),
        ),
        recrawl=st.builds(RecrawlSettings, enabled=st.booleans()),
    ),
    st.sampled_from(list(Lane)),
)
def test_a_job_survives_the_way_through_the_frontier(settings: Settings, lane: Lane) -> None:
    """Its settings as TOML that a person can read."""
    job = Job("mine", (SEED,), settings, lane, NOW)

    assert parse_job("mine", job.to_json()) == job


def test_only_what_belongs_to_the_crawl_travels() -> None:
    """Egress settings are not sent with a job: they are each machine's own."""
    settings = parse_settings(
        '[egress]\nallow = ["10.0.0.0/8"]\n[visit]\ntimeout_s = 5\n[[sheet]]\nmatch = "b.example"\nscope.depth = 1\n'
    )

    text = settings_text(settings)

    assert parse_settings(text) == replace(settings, egress=Settings().egress)


@pytest.mark.parametrize("text", ["", "3", "[]", "{}", '{"version": 99}', '{"version": 1, "seeds": 3}'])
def test_an_order_that_is_no_job_is_refused_by_name(text: str) -> None:
    """Of another version, or of another program."""
    with pytest.raises(ConfigError, match="job 'mine'"):
        parse_job("mine", text)


def test_names_are_short_and_plain_and_made_from_the_seeds() -> None:
    """The order of the seeds does not matter; another seed does."""
    two = ["https://b.example/", SEED]

    assert check_job_name("Crawl-1.2_x") == "Crawl-1.2_x"
    for bad in ("", "a b", "../x", "-x", "ü", "x" * 101):
        with pytest.raises(InputError):
            check_job_name(bad)
    assert check_job_name(derive_job_name([SEED])).startswith("a.example-")
    assert derive_job_name(two).rpartition("-")[2] == derive_job_name(two[::-1]).rpartition("-")[2]
    assert derive_job_name([SEED]) != derive_job_name(["https://a.example/"])
    assert check_job_name(derive_job_name(["http://[::1]/"]))


def test_a_job_s_settings_hold_for_its_pages_and_the_machine_s_for_lists(
    frontier: Frontier, clock: ManualClock
) -> None:
    """Proxy, egress, browser and frontier stay the machine's."""
    local = parse_settings("[visit]\ntimeout_s = 7\n[proxy]\nprocesses = 3\n")
    job = job_of("[visit]\ntimeout_s = 9\n[proxy]\nprocesses = 8\n")
    frontier.give_order(JOB_ORDER, "mine", job.to_json())
    jobs = JobSettings(frontier, local, clock=clock)

    assert jobs.settings_for(SEED, "").visit.timeout_s == 7
    assert jobs.settings_for(SEED, "unknown").visit.timeout_s == 7
    assert jobs.settings_for(SEED, "mine").visit.timeout_s == 9
    assert jobs.settings_for(SEED, "mine").proxy.processes == 3


def test_a_sheet_holds_below_its_prefix_within_half_a_second(frontier: Frontier, clock: ManualClock) -> None:
    """Set while workers run; the longest prefix holds, a live one beats the profile's."""
    job = job_of('[[sheet]]\nmatch = "a.example"\nvisit.timeout_s = 1\nvisit.language = "de"\n')
    frontier.give_order(JOB_ORDER, "mine", job.to_json())
    jobs = JobSettings(frontier, Settings(), clock=clock)
    assert jobs.settings_for(SEED, "mine").visit.timeout_s == 1

    frontier.give_order(SHEET_ORDER, "example,a,", '{"visit": {"timeout_s": 2}}')
    frontier.give_order(SHEET_ORDER, "example,a,)/docs/", '{"scope": {"exclude": ["x"]}}')
    clock.advance(seconds=ORDERS_POLL_S)

    settings = jobs.settings_for(SEED, "mine")
    assert (settings.visit.timeout_s, settings.visit.language) == (2, "de")
    assert settings.scope.exclude == ("x",)
    assert jobs.settings_for("https://a.example/", "mine").scope.exclude == ()
    assert jobs.settings_for("https://b.example/", "mine").visit == VisitSettings()
    assert jobs.scope_for(SEED + "x", "mine").excluded(SEED + "x") == "x"

    frontier.take_back(SHEET_ORDER, "example,a,")
    clock.advance(seconds=ORDERS_POLL_S)
    assert jobs.settings_for(SEED, "mine").visit.timeout_s == 1


def test_what_cannot_be_read_is_left_out_and_told(frontier: Frontier, clock: ManualClock) -> None:
    """A sheet of another version, and a job of one, keep nobody from the rest."""
    frontier.give_order(SHEET_ORDER, "example,", '{"future": {"x": 1}}')
    frontier.give_order(JOB_ORDER, "newer", '{"version": 99}')
    frontier.give_order(JOB_ORDER, "mine", job_of().to_json())
    jobs = JobSettings(frontier, Settings(), clock=clock)

    assert jobs.job("mine") is not None
    assert jobs.job("newer") is None
    assert "version" in jobs.fault("newer")
    assert jobs.settings_for(SEED, "mine").visit == VisitSettings()
    with pytest.raises(ConfigError, match="future"):
        parse_live_sheet("example,", '{"future": {"x": 1}}')


def test_where_a_seed_redirects_to_is_in_scope_on_all_machines(frontier: Frontier, clock: ManualClock) -> None:
    """Only of a seed; telling it twice changes nothing."""
    frontier.give_order(JOB_ORDER, "mine", job_of("[scope]\nkind = 'host'\n").to_json())
    here, there = (JobSettings(frontier, Settings(), clock=clock) for _ in range(2))
    here.refresh()
    there.refresh()

    here.move_seed("mine", "https://a.example/else", "https://no.example/")
    here.move_seed("mine", SEED, "https://new.example/home")
    version = frontier.stats(NOW).version
    here.move_seed("mine", SEED, "https://new.example/home")
    clock.advance(seconds=ORDERS_POLL_S)

    assert frontier.stats(NOW).version == version
    for jobs in (here, there):
        assert jobs.scope_for(SEED, "mine").holds("https://new.example/x")
        assert not jobs.scope_for(SEED, "mine").holds("https://no.example/")


async def test_a_crawl_given_again_goes_on_and_other_seeds_join_it(frontier: Frontier, clock: ManualClock) -> None:
    """The order is given once; what is known is left alone."""
    first = await submit_job(job_of(), frontier, local=Settings(), clock=clock)
    version = frontier.stats(NOW).version
    again = await submit_job(job_of(), frontier, local=Settings(), clock=clock)
    assert frontier.stats(NOW).version == version
    await submit_job(job_of(seeds=("https://b.example/",)), frontier, local=Settings(), clock=clock)

    assert first.added.added == 1
    assert again.added.duplicates == 1
    assert frontier.stats(NOW).version == version + 1
    assert parse_job("mine", frontier.orders(JOB_ORDER)["mine"]).seeds == (SEED, "https://b.example/")


async def test_a_narrower_scope_drops_what_waits_and_a_wider_one_brings_it_back(
    frontier: Frontier, clock: ManualClock
) -> None:
    """Depth, kind and exclude patterns; a seed always belongs to its crawl."""
    await submit_job(job_of("[scope]\nkind = 'any'\n"), frontier, local=Settings(), clock=clock)
    links = {"https://a.example/docs/x": 1, "https://a.example/y": 1, "https://a.example/docs/z": 3}
    frontier.add((NewItem(url, hops=hops, job="mine") for url, hops in links.items()), now=NOW)

    await submit_job(job_of("[scope]\nkind = 'prefix'\ndepth = 2\n"), frontier, local=Settings(), clock=clock)
    assert {record.outcome for record in frontier.ls(ItemState.SKIPPED)} == {
        "scope: outside",
        "scope: depth: more than 2 links",
    }

    excluding = await submit_job(
        job_of("[scope]\nkind = 'any'\nexclude = ['/y', 'docs/$']\n"), frontier, local=Settings(), clock=clock
    )
    assert excluding.revived == 1
    assert len(list(frontier.ls(ItemState.SKIPPED))) == 2

    wide = await submit_job(job_of("[scope]\nkind = 'any'\n"), frontier, local=Settings(), clock=clock)
    assert wide.revived == 2
    assert {record.item.url: record.item.hops for record in frontier.ls(ItemState.QUEUED)} == {SEED: 0, **links}


async def test_a_crawl_takes_its_seeds_over_from_lists_and_other_crawls(frontier: Frontier, clock: ManualClock) -> None:
    """Queued or done, in whatever job; or it would end before it began."""
    done = "https://b.example/"
    frontier.add([NewItem(SEED), NewItem(done, job="other")], now=NOW)
    for item in frontier.claim(now=NOW, worker="w", limit=2):
        if item.url == done:
            frontier.complete(item, now=NOW, outcome="complete")
        else:
            frontier.release(item, now=NOW)

    given_ = await submit_job(job_of(seeds=(SEED, done)), frontier, local=Settings(), clock=clock)

    assert given_.added.requeued == 2
    assert {record.item.job for record in frontier.ls(ItemState.QUEUED)} == {"mine"}
    assert frontier.job_counts("mine").queued == 2
