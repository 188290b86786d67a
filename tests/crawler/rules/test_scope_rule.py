"""Following links: what joins the crawl, what is told of the rest."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.profile import parse_settings
from core.config.settings import FrontierSettings, PolitenessSettings, Settings
from core.page_classes import WALLS, PageClass
from core.page_manifest import PageInfo, VisitOutcome
from crawler.capture.page_capture import CaptureResult
from crawler.frontier.base import JOB_ORDER, Frontier, FrontierItem, Lane, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.jobs.crawl_orders import Job
from crawler.jobs.job_settings import SHEET_ORDER, ExclusionRule, JobSettings
from crawler.jobs.scope import LinkDecision
from crawler.rules.scope_rule import LINKS_LIMIT, LinkLog, ScopeRule, link_counts, summarize_links
from crawler.rules.visit_rule import ALLOW_VISIT, FollowUp, RuleAction
from net.backoff import StoreRetry

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SEED = "https://a.example/docs/"


class ScopedCrawl:
    """A job of one seed, and the rule that follows its links."""

    def __init__(self, frontier: Frontier, folder: Path) -> None:
        clock = SystemClock()
        self.frontier = frontier
        self.folder = folder
        self.rule = ScopeRule(
            JobSettings(frontier, Settings(), clock=clock),
            frontier,
            StoreRetry(clock, lambda _: None),
            name="here",
            record=LinkLog(folder),
        )

    def begin(self, scope: str = "") -> None:
        """Give the job."""
        settings = parse_settings(f"[scope]\n{scope}\n")
        job = Job("mine", (SEED,), settings, Lane.HIGH, NOW)
        self.frontier.give_order(JOB_ORDER, "mine", job.to_json())

    async def follow(
        self, item: FrontierItem, *links: str, final: str = "", again: bool = False, **facts: object
    ) -> list[NewItem]:
        """Return the items that are queued after a visit to a page with these links."""
        page = PageInfo(item.id, item.url, final or item.url, "2026-11-21T12:00:00Z", VisitOutcome.COMPLETE)
        page = replace(page, outlinks=links, **facts)  # type: ignore[arg-type]
        follow_up = FollowUp()
        await self.rule.after(item, CaptureResult(page, again=again), follow_up, now=NOW)
        return follow_up.links


def item(url: str = SEED, *, hops: int = 0, hops_off: int = 0, job: str = "mine") -> FrontierItem:
    """Return an item as it is claimed."""
    return FrontierItem("id", url, "a.example", Lane.STANDARD, hops, "", 1, 1, job=job, hops_off=hops_off)


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[ScopedCrawl]:
    """Yield a crawl that has not begun."""
    with SqliteFrontier(
        tmp_path / "frontier", settings=FrontierSettings(), politeness=PolitenessSettings()
    ) as frontier:
        yield ScopedCrawl(frontier, tmp_path)


async def test_a_link_in_scope_joins_once_with_its_way(crawl: ScopedCrawl) -> None:
    """Its hops, the page that has it, the job and the job's lane; the page itself does not."""
    crawl.begin()

    links = await crawl.follow(item(), f"{SEED}x", f"{SEED}x#part", "https://A.example:443/docs/x", SEED, f"{SEED}#top")

    assert links == [NewItem(f"{SEED}x", Lane.HIGH, hops=1, via=SEED, job="mine")]


@pytest.mark.parametrize(
    ("facts", "joined"),
    [
        ({"outcome": VisitOutcome.COMPLETE}, 1),
        ({"outcome": VisitOutcome.PARTIAL}, 1),
        ({"outcome": VisitOutcome.FAILED}, 0),
        ({"outcome": VisitOutcome.SKIPPED}, 0),
        ({"again": True}, 0),
        ({"page_class": PageClass.HTTP_ERROR}, 1),
        ({"page_class": PageClass.CHALLENGE}, 0),
        ({"page_class": PageClass.PARKED}, 0),
    ],
)
async def test_links_of_pages_that_were_kept_are_followed(
    crawl: ScopedCrawl, facts: dict[str, object], joined: int
) -> None:
    """Also of those that are not whole; not of one that will be tried again."""
    crawl.begin()

    assert len(await crawl.follow(item(), f"{SEED}x", **facts)) == joined  # type: ignore[arg-type]


async def test_a_list_follows_nothing(crawl: ScopedCrawl) -> None:
    """Nor does a job that nobody knows."""
    crawl.begin("kind = 'any'")

    assert await crawl.follow(item(job=""), f"{SEED}x") == []
    assert await crawl.follow(item(job="gone"), f"{SEED}x") == []


async def test_a_page_that_redirects_out_of_scope_is_one_hop_off(crawl: ScopedCrawl) -> None:
    """Its links back into the scope join; those outside count one hop more."""
    crawl.begin("extra_hops = 2")
    page = item(f"{SEED}x", hops=1)

    links = await crawl.follow(page, f"{SEED}y", "https://b.example/", final="https://b.example/z")
    far = await crawl.follow(item("https://b.example/", hops=2, hops_off=2), f"{SEED}z", "https://c.example/")

    assert {link.url: link.hops_off for link in links} == {f"{SEED}y": 0, "https://b.example/": 2}
    assert {link.url: link.hops_off for link in far} == {f"{SEED}z": 0}


@pytest.mark.parametrize(("hops", "status", "joined"), [(0, 200, 1), (1, 200, 0), (0, 404, 0)])
async def test_only_a_seed_that_leads_to_a_page_moves_the_scope(
    crawl: ScopedCrawl, hops: int, status: int, joined: int
) -> None:
    """Any other page that redirects elsewhere leads nowhere else."""
    crawl.begin("kind = 'host'")

    links = await crawl.follow(item(hops=hops), "https://b.example/x", final="https://b.example/", status=status)

    assert len(links) == joined


@pytest.mark.parametrize("page_class", sorted(WALLS))
async def test_a_seed_that_leads_to_a_wall_moves_nothing(crawl: ScopedCrawl, page_class: PageClass) -> None:
    """The site of the login, or of who asks for consent, is not the seed's."""
    crawl.begin("kind = 'host'")
    links = await crawl.follow(
        item(), "https://b.example/x", final="https://b.example/", status=200, page_class=page_class
    )

    assert links == []


async def test_what_is_no_link_is_counted_and_nothing_more(crawl: ScopedCrawl) -> None:
    """A page may say anything; and no more than so many links."""
    crawl.begin("kind = 'any'")

    links = await crawl.follow(item(), "http://", "http://x" + "x" * 300, "https://b.example/" + "y" * 9_000)
    many = await crawl.follow(item(), *(f"https://b.example/{number}" for number in range(LINKS_LIMIT + 50)))

    assert links == []
    assert len(many) == LINKS_LIMIT
    assert link_counts(crawl.frontier, now=NOW) == {"mine": {"any": LINKS_LIMIT, "url": 3}}


async def test_decisions_are_counted_by_reason_for_each_job(crawl: ScopedCrawl) -> None:
    """In the frontier, so that the counts of all machines come together."""
    crawl.begin("depth = 1\nexclude = ['bad']")
    crawl.frontier.put_note("links", "mine elsewhere", '{"prefix": 5, "trap": 1}', now=NOW)
    crawl.frontier.put_note("links", "mine newer", "[]", now=NOW)

    await crawl.follow(item(), f"{SEED}a", f"{SEED}bad", "https://b.example/")
    await crawl.follow(item(f"{SEED}a", hops=1), f"{SEED}b")

    assert link_counts(crawl.frontier, now=NOW) == {
        "mine": {"prefix": 6, "exclude": 1, "outside": 1, "depth": 1, "trap": 1}
    }
    lines = (crawl.folder / "links-mine.jsonl").read_text().splitlines()
    assert [json.loads(line)["followed"] for line in lines] == [1, 0]


async def test_what_is_excluded_by_now_is_skipped_before_its_visit(crawl: ScopedCrawl) -> None:
    """By the job or by a sheet, for lists, too; a job that cannot be read makes its items wait."""
    crawl.begin("exclude = ['/x']")
    crawl.frontier.give_order(SHEET_ORDER, "example,b,", '{"scope": {"exclude": ["."]}}')
    crawl.frontier.give_order(JOB_ORDER, "newer", '{"version": 99}')

    rule = ExclusionRule(crawl.rule.jobs, crawl.rule.patience)
    words = [
        await rule.before(each, now=NOW)
        for each in (item(), item(f"{SEED}/x"), item("https://b.example/", job=""), item(job="newer"))
    ]

    assert words[0] == ALLOW_VISIT
    assert [(word.action, word.reason) for word in words[1:3]] == [
        (RuleAction.SKIP, "scope: exclude /x"),
        (RuleAction.SKIP, "scope: exclude ."),
    ]
    assert words[3].action is RuleAction.LATER


def test_a_line_is_bounded_whatever_the_page(tmp_path: Path) -> None:
    """Long URLs, thousands of reasons."""
    decisions = [
        (f"https://b.example/{n}" + "x" * 5_000, LinkDecision(False, f"exclude: {n}" + "y" * 5_000))
        for n in range(2_000)
    ]

    LinkLog(tmp_path).write(summarize_links(item(), decisions, NOW))

    assert (tmp_path / "links-mine.jsonl").stat().st_size < 100_000


async def test_each_decision_is_logged_where_the_crawl_says_so(crawl: ScopedCrawl) -> None:
    """With its reason, followed or not; what is no URL, too (U17)."""
    crawl.begin("link_decisions = true")
    await crawl.follow(item(), f"{SEED}x", "https://b.example/", "http://[")

    lines = [json.loads(line) for line in (crawl.folder / "decisions-mine.jsonl").read_text().splitlines()]
    assert [(each["url"], each["followed"]) for each in lines] == [
        (f"{SEED}x", True),
        ("https://b.example/", False),
        ("http://[", False),
    ]
    assert all(each["reason"] for each in lines)
    assert {(each["page_id"], each["page"]) for each in lines} == {("id", SEED)}


async def test_decisions_are_counted_alone_unless_the_crawl_wants_them_logged(crawl: ScopedCrawl) -> None:
    """A line a page costs a thousandth of that."""
    crawl.begin()
    await crawl.follow(item(), f"{SEED}x")

    assert (crawl.folder / "links-mine.jsonl").exists()
    assert not (crawl.folder / "decisions-mine.jsonl").exists()


def test_log_of_decisions_is_bounded(tmp_path: Path) -> None:
    """Its lines, its files and their number, as those of the pages."""
    log = LinkLog(tmp_path, limit_bytes=50_000)
    decisions = [
        (f"https://b.example/{n}" + "x" * 50_000, LinkDecision(False, f"exclude: {n}" + "y" * 5_000)) for n in range(20)
    ]
    for _ in range(15):
        log.write_decisions(summarize_links(item(), decisions, NOW), decisions)

    files = list(tmp_path.glob("decisions-mine*"))
    assert len(files) <= 10
    assert all(path.stat().st_size < 100_000 for path in files)


def test_files_that_are_full_are_set_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    """Each line is in one file; nine are kept beside the current one."""
    log = LinkLog(tmp_path, limit_bytes=1)

    for number in range(15):
        log.write(summarize_links(item(f"{SEED}{number}"), [], NOW))

    text_by_name = {path.name: path.read_text() for path in tmp_path.glob("links-mine*")}
    assert sorted(text_by_name) == [f"links-mine.{number}.jsonl" for number in range(1, 10)]
    assert f"{SEED}14" in text_by_name["links-mine.1.jsonl"]
    assert f"{SEED}6" in text_by_name["links-mine.9.jsonl"]


def test_a_folder_that_takes_nothing_costs_the_record_not_the_crawl(tmp_path: Path) -> None:
    """The links themselves are in the manifests."""
    LinkLog(tmp_path / "absent").write(summarize_links(item(), [], NOW))

    assert not (tmp_path / "absent").exists()
