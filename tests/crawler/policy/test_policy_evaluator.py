"""The policy rule on real frontiers, in SQLite and in Redis: what decides, what is learnt from visits, and for how long."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.config.settings import EgressSettings
from core.errors import InvariantError
from core.page_manifest import VisitOutcome
from crawler.frontier.base import POLICY_ORDER, Lane
from crawler.policy.policy_entries import PolicyKind, read_entries
from crawler.rules.visit_rule import RuleAction
from render.visit import Visit
from tests.crawler.frontier.conftest import frontier, open_frontier  # noqa: F401 fixtures
from tests.crawler.policy.conftest import NOON, SITE, PolicyHarness, item

HOST = "origin.example"
NOARCHIVE = "noarchive: X-Robots-Tag says noarchive"


def seen(url: str = f"{SITE}/page", **facts: Any) -> Visit:
    """Return a visit as the browser reports it."""
    known: dict[str, Any] = {
        "url": url, "final_url": url, "started_at": NOON, "outcome": VisitOutcome.COMPLETE, "reason": "",
        "status": 200, "mime": "text/html", "headers": {}, "title": "", "redirects": (),
        "requests": (), "artifacts": (), "outlinks": (), "timings": {}, "console": (), "seconds": 1.0,
    }  # fmt: skip
    return Visit(**(known | facts))


async def test_without_entries_and_lists_everything_is_visited(world: PolicyHarness) -> None:
    """The defaults are against nothing, and ask nobody."""
    verdict = await world.before()
    assert (verdict.action, verdict.was_asked) == (RuleAction.VISIT, False)


async def test_a_blacklisted_host_is_skipped_with_the_whole_reason(world: PolicyHarness) -> None:
    """Pattern, why, who and when are recorded."""
    world.add(PolicyKind.BLACKLIST, HOST)
    verdict = await world.before()
    assert verdict.action is RuleAction.SKIP
    assert verdict.reason == "blacklist: origin.example (because, by alice, 2026-11-21)"


async def test_a_change_is_followed_within_a_second(world: PolicyHarness) -> None:
    """Given and taken back while the crawl runs."""
    assert (await world.before()).action is RuleAction.VISIT
    entry = world.add(PolicyKind.BLACKLIST, HOST)
    assert (await world.before()).action is RuleAction.SKIP
    world.frontier.take_back(POLICY_ORDER, entry.id)
    world.clock.advance(seconds=1)
    assert (await world.before()).action is RuleAction.VISIT


async def test_the_whitelist_overrides_lists_and_what_the_crawl_found(world: PolicyHarness, tmp_path: Path) -> None:
    """Also when they are more specific; a more specific blacklist entry it does not."""
    spam = tmp_path / "spam"
    spam.write_text(f"{SITE}/page\n")
    world.set(lists=(str(spam),))
    assert (await world.before()).reason == "list: spam, line 1"
    world.add(PolicyKind.AUTOBLACKLIST, f"={SITE}/page")
    assert (await world.before()).reason.startswith("autoblacklist: ")
    world.add(PolicyKind.WHITELIST, HOST)
    assert (await world.before()).action is RuleAction.VISIT
    world.add(PolicyKind.BLACKLIST, f"{SITE}/page")
    assert (await world.before()).reason.startswith("blacklist: ")


@pytest.mark.parametrize(
    ("url", "constant"),
    [
        ("http://127.0.0.1", "address:"),
        ("http://[::1]", "address:"),
        ("http://[::ffff:10.0.0.1]", "address:"),
        ("http://169.254.169.254", "address:"),
        ("http://localhost", "address:"),
        ("http://a.localhost", "address:"),
        ("http://blocked.example", "host:"),
        ("http://given.example", "address:"),
        ("http://origin.example:22", "port:"),
    ],
)
async def test_what_is_no_web_is_not_visited_whitelisted_or_not(world: PolicyHarness, url: str, constant: str) -> None:
    """Private addresses, blocked hosts and ports of other services, as far as the URL shows them."""
    egress = EgressSettings(block=("blocked.example",), resolve={"given.example": "10.0.0.1"})
    world.settings = type(world.settings)(egress=egress)
    world.add(PolicyKind.WHITELIST, "re:.")
    verdict = await world.before(site=url)
    assert verdict.action is RuleAction.FAIL
    assert verdict.reason.startswith(constant)


async def test_addresses_that_a_setting_allows_are_visited(world: PolicyHarness) -> None:
    """As the proxy allows them."""
    world.settings = type(world.settings)(egress=EgressSettings(allow=("127.0.0.0/8",)))
    assert (await world.before(site="http://127.0.0.1:8080")).action is RuleAction.VISIT
    assert (await world.before(site="http://localhost:8080")).action is RuleAction.VISIT
    world.settings = type(world.settings)(egress=EgressSettings(allow=("::1/128",)))
    assert (await world.before(site="http://localhost:8080")).action is RuleAction.VISIT
    assert (await world.before(site="http://127.0.0.1:8080")).action is RuleAction.FAIL


async def test_settings_of_a_site_hold_for_the_site(world: PolicyHarness) -> None:
    """`archive=never` and `always` decide, `noarchive` and `ban_s` replace what the profile says."""
    world.set(noarchive="ignore")
    world.add(PolicyKind.SETTING, "=never.example", key="archive", value="never")
    world.add(PolicyKind.SETTING, "=never.example/but/", key="archive", value="always")
    assert (await world.before(site="http://never.example")).action is RuleAction.SKIP
    forbids = world.rule.forbids(item())
    tagged = seen(headers={"x-robots-tag": "noarchive"})
    assert forbids(tagged) == ""
    world.add(PolicyKind.SETTING, HOST, key="noarchive", value="obey")
    await world.before()
    assert forbids(tagged) == NOARCHIVE


async def test_what_forbids_archiving_is_obeyed_unless_the_profile_says_otherwise(world: PolicyHarness) -> None:
    """Headers and metas, for us or for everybody; a whitelist entry is somebody's permission."""
    tagged = seen(headers={"x-robots-tag": "otherbot: noindex\nWeboid: noarchive"})
    meta = seen(robots_meta=(("robots", "nocache"),))
    world.set(noarchive="ignore")
    assert world.rule.forbids(item())(tagged) == ""
    world.settings = type(world.settings)()
    world.another_process()
    forbids = world.rule.forbids(item())
    assert forbids(tagged) == NOARCHIVE
    assert forbids(meta) == "noarchive: <meta name=robots> says nocache"
    assert forbids(seen()) == ""
    world.add(PolicyKind.WHITELIST, HOST)
    await world.before()
    assert forbids(tagged) == ""


async def test_a_redirect_to_what_is_refused_is_not_kept(world: PolicyHarness, tmp_path: Path) -> None:
    """A refused URL must not be captured by way of a redirect; any other redirect is fine."""
    spam = tmp_path / "spam"
    spam.write_text("listed.example\n")
    world.set(lists=(str(spam),))
    world.add(PolicyKind.BLACKLIST, "refused.example")
    world.add(PolicyKind.WHITELIST, HOST)
    await world.before()
    forbids = world.rule.forbids(item())
    why = forbids(seen(final_url="http://refused.example/x"))
    assert why.startswith("redirect: http://refused.example/x (blacklist: refused.example")
    why = forbids(seen(final_url="http://www.listed.example/"))
    assert why == "redirect: http://www.listed.example/ (list: spam, line 1)"
    assert forbids(seen(final_url="https://origin.example/page")) == ""


async def test_a_site_that_forbids_archiving_is_left_alone_for_a_time(world: PolicyHarness) -> None:
    """A page that was skipped for noarchive bans its host, and its host alone, for `ban_s` (A05)."""
    world.set(ban_s=3600.0)
    await world.after(outcome=VisitOutcome.SKIPPED, reason=NOARCHIVE)
    verdict = await world.before("/other")
    assert verdict.action is RuleAction.SKIP
    assert verdict.reason.startswith(f"autoblacklist: =origin.example ({NOARCHIVE}, by crawl")
    assert (await world.before(site="http://www.origin.example")).action is RuleAction.VISIT
    world.clock.advance(hours=1)
    assert (await world.before("/other")).action is RuleAction.VISIT


async def test_a_ban_does_not_grow_with_each_page(world: PolicyHarness) -> None:
    """While a site is banned, another page of it changes nothing: versions stay, moments too."""
    await world.after(outcome=VisitOutcome.SKIPPED, reason=NOARCHIVE)
    await world.before()
    version = world.frontier.stats(world.clock.now()).version
    await world.after("/late", outcome=VisitOutcome.SKIPPED, reason=NOARCHIVE)
    assert world.frontier.stats(world.clock.now()).version == version


async def test_pages_that_were_skipped_for_other_reasons_ban_nobody(world: PolicyHarness) -> None:
    """A redirect to a refused site is not the site's word."""
    await world.after(outcome=VisitOutcome.SKIPPED, reason="redirect: http://x.example/ (list: l, line 1)")
    assert world.frontier.orders(POLICY_ORDER) == {}


async def test_without_a_time_nobody_is_banned(world: PolicyHarness) -> None:
    """`ban_s = 0` and `ban_failures_s = 0`."""
    world.set(ban_s=0.0, ban_failures_s=0.0, ban_failures=1)
    await world.after(outcome=VisitOutcome.SKIPPED, reason=NOARCHIVE)
    await world.after(outcome=VisitOutcome.FAILED, reason="dns: no such host", status=None)
    await world.after(status=404)
    assert world.frontier.orders(POLICY_ORDER) == {}
    assert (await world.before()).action is RuleAction.VISIT


@pytest.mark.parametrize("status", [404, 410])
async def test_a_link_that_is_gone_has_failed_and_is_not_asked_for_again(world: PolicyHarness, status: int) -> None:
    """For `ban_s`, whatever its spelling; the site's other pages go on (A06)."""
    world.set(ban_s=86_400.0)
    await world.after("/%7Egone", status=status)
    verdict = await world.before("/~gone")
    assert verdict.action is RuleAction.SKIP
    assert verdict.reason == (f"failed link: status {status} on 2026-11-21; not asked for again before 2026-11-22")
    assert (await world.before("/other")).action is RuleAction.VISIT
    assert (await world.before("/~gone", lane=Lane.NOW)).action is RuleAction.VISIT
    world.clock.advance(days=1)
    assert (await world.before("/~gone")).action is RuleAction.VISIT


async def test_a_link_that_works_again_is_forgotten_to_have_failed(world: PolicyHarness) -> None:
    """Somebody asked for it, and it was there."""
    await world.after(status=404)
    await world.after(status=200)
    assert (await world.before()).action is RuleAction.VISIT


@pytest.mark.parametrize(
    "facts",
    [
        {"status": 200, "redirects": (f"{SITE}/page",), "final_url": f"{SITE}/moved"},
        {"status": 403},
        {"status": 503, "again": True},
        {"status": 404, "again": True},
    ],
)
async def test_what_is_no_failure_of_a_link(world: PolicyHarness, facts: dict[str, Any]) -> None:
    """Redirects, refusals, and what is tried again."""
    await world.after(**facts)
    assert (await world.before()).action is RuleAction.VISIT


async def test_a_site_that_keeps_failing_is_left_alone(world: PolicyHarness) -> None:
    """After `ban_failures` URLs in a row, for `ban_failures_s`; what waits is put off (A07)."""
    world.set(ban_failures=3, ban_failures_s=3600.0)
    await world.after("/1", outcome=VisitOutcome.FAILED, reason="net::ERR_TIMED_OUT", status=None)
    await world.after("/2", status=500)
    assert (await world.before("/4")).action is RuleAction.VISIT
    await world.after("/3", outcome=VisitOutcome.FAILED, reason="deadline: navigate", status=None)
    verdict = await world.before("/4")
    assert verdict.action is RuleAction.LATER
    assert "3 URLs in a row failed, the last: deadline: navigate" in verdict.reason
    assert verdict.until == NOON + timedelta(hours=1, seconds=2)
    world.clock.advance(hours=1)
    assert (await world.before("/4")).action is RuleAction.VISIT


async def test_attempts_of_different_urls_count_and_those_of_one_do_not(world: PolicyHarness) -> None:
    """One broken page excludes no site, however often it is tried; many pages do before their last attempt."""
    world.set(ban_failures=2)
    for _ in range(5):
        await world.after("/1", status=500, again=True)
    assert (await world.before("/2")).action is RuleAction.VISIT
    await world.after("/2", status=500, again=True)
    assert (await world.before("/3")).action is RuleAction.LATER


async def test_a_redirect_to_a_site_that_kept_failing_is_kept(world: PolicyHarness) -> None:
    """It has answered, so it fails no longer; a redirect to a forbidden site is still refused."""
    world.set(ban_failures=1)
    await world.after("/1", status=500)
    moved = seen("http://other.example/", final_url=f"{SITE}/page")
    why = world.rule.forbids(item(site="http://other.example"))
    await world.rule.refresh()
    assert why(moved) == ""
    await world.after(outcome=VisitOutcome.SKIPPED, reason=NOARCHIVE)
    await world.rule.refresh()
    assert why(moved).startswith("redirect: ")


@pytest.mark.parametrize("between", [{"status": 200}, {"status": 404}, {"status": 403}])
async def test_an_answer_between_failures_ends_the_row(world: PolicyHarness, between: Any) -> None:
    """A site that answers is up, whatever it answers about that page."""
    world.set(ban_failures=2)
    await world.after("/1", status=500)
    await world.after("/2", **between)
    await world.after("/3", status=500)
    assert (await world.before("/4")).action is RuleAction.VISIT


@pytest.mark.parametrize("reason", ["address: private", "limit: visit", "proxy: 407", "browser: x"])
async def test_our_own_failures_are_not_held_against_a_site(world: PolicyHarness, reason: str) -> None:
    """A request that we refused or broke is no evidence about the site."""
    world.set(ban_failures=1)
    await world.after(outcome=VisitOutcome.FAILED, reason=reason, status=None)
    assert (await world.before()).action is RuleAction.VISIT


async def test_entries_that_expired_long_ago_are_taken_out(world: PolicyHarness) -> None:
    """A day after their end, when entries are read; the others stay, unreadable ones too."""
    world.set(ban_s=60.0)
    await world.after(outcome=VisitOutcome.SKIPPED, reason=NOARCHIVE)
    world.frontier.give_order(POLICY_ORDER, "newer", '{"version":2}')
    stays = world.add(PolicyKind.BLACKLIST, "b.example")
    await world.before()
    assert len(world.frontier.orders(POLICY_ORDER)) == 3
    world.clock.advance(days=2)
    world.add(PolicyKind.BLACKLIST, "c.example")
    await world.before()
    left = world.frontier.orders(POLICY_ORDER)
    assert stays.id in left
    assert "newer" in left
    assert [each.pattern for each in read_entries(left).by_id.values()] != [f"={HOST}"]
    assert len(left) == 3


async def test_robots_that_nobody_can_fetch_are_an_error(world: PolicyHarness) -> None:
    """A crawl never goes on as if nothing were forbidden."""
    world.set(robots="obey")
    with pytest.raises(InvariantError):
        await world.before()
    world.add(PolicyKind.SETTING, HOST, key="robots", value="ignore")
    assert (await world.before()).action is RuleAction.VISIT


async def test_explain_shows_every_rule_also_behind_the_one_that_decides(world: PolicyHarness) -> None:
    """In the order in which they are asked."""
    world.add(PolicyKind.BLACKLIST, HOST)
    opinions = await world.rule.explain(item(), now=world.clock.now())
    assert [(each.rule, each.is_against) for each in opinions] == [
        ("entries", True),
        ("lists", False),
        ("failed links", False),
        ("address", False),
        ("robots.txt", False),
    ]


async def test_long_urls_are_judged_and_noted_byte_by_byte(world: PolicyHarness) -> None:
    """60,000 characters, in an entry and in a note (A17)."""
    path = "/" + "aB1" * 20_000
    world.add(PolicyKind.BLACKLIST, f"{SITE}{path}")
    assert (await world.before(path)).action is RuleAction.SKIP
    assert (await world.before(path[:-1])).action is RuleAction.VISIT
    await world.after(path[:-1], status=404)
    assert (await world.before(path[:-1])).action is RuleAction.SKIP
    world.clock.advance(seconds=timedelta(days=8).total_seconds())
    assert (await world.before(path[:-1])).action is RuleAction.VISIT
