"""The policy rule of a crew, put together."""

from collections.abc import Awaitable, Callable

from core.clock import Clock
from core.pages import PageInfo
from core.settings import PolicySettings, Settings
from crawler.frontier.base import Frontier, FrontierItem
from crawler.policy.book import Ask, PolicyBook
from crawler.policy.judging import Judge
from crawler.policy.lists import ListBook
from crawler.policy.origins import Getter, OriginRobots
from crawler.policy.rule import PolicyRule


def make_policy(  # noqa: PLR0913 what it works with
    frontier: Frontier,
    policy: PolicySettings,
    *,
    fetcher: Getter | None,
    settings_for: Callable[[FrontierItem], Settings],
    clock: Clock,
    ask: Ask,
    judge_network: Callable[[PageInfo], Awaitable[None]] | None = None,
) -> PolicyRule:
    """The rule.

    Args:
        frontier: holds entries, and what is known of hosts and links.
        policy: names the lists; everything else is asked for item by item.
        fetcher: asks for robots.txt files; None: only what is known already is gone by, which is
            for `explain` alone.
        settings_for: which settings hold for an item.
        clock: the time.
        ask: calls a verb of the frontier.
        judge_network: learns from hosts that cannot be reached (`crawler.network.Network.judge`).
    """
    book = PolicyBook(frontier, clock=clock, ask=ask)
    robots = OriginRobots(frontier, fetcher, ask=ask, judge=judge_network)
    judge = Judge(frontier, book, ListBook(policy.lists), robots, ask=ask)
    return PolicyRule(judge, frontier, settings_for=settings_for, clock=clock, ask=ask)
