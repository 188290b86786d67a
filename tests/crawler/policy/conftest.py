"""Policy on a real frontier and through a real proxy, at a moment that the test chooses."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.certificate import write_certificate
from core.config.settings import EgressSettings, PolicySettings, PolitenessSettings, ProxySettings, Settings
from core.layout import CA_FILE, Layout
from core.page_manifest import PageInfo, VisitOutcome
from crawler.capture.page_capture import CaptureResult
from crawler.capture.proxy_fetcher import ProxyFetcher
from crawler.frontier.base import POLICY_ORDER, Frontier, FrontierItem, Lane
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.policy.policy_entries import PolicyEntry, PolicyKind
from crawler.policy.policy_rule import PolicyRule, make_policy
from crawler.rules.visit_rule import FollowUp, RuleDecision
from proxy.control.client import ProxyVisit
from tests.support.clocks import ManualClock
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SITE = "http://origin.example"


async def ask(verb: Callable[[], Any]) -> Any:
    """Call a verb of the frontier."""
    return verb()


def item(path: str = "/page", *, site: str = SITE, lane: Lane = Lane.STANDARD) -> FrontierItem:
    host = site.partition("://")[2].partition(":")[0].partition("/")[0]
    return FrontierItem("id", site + path, host, lane, 0, "", 1, token=1)


def page(path: str = "/page", *, site: str = SITE, **facts: Any) -> CaptureResult:
    """Return the result of a visit: complete with status 200 unless `facts` say otherwise."""
    again = facts.pop("again", False)
    url = site + path
    info = PageInfo("id", url, url, "2026-11-21T12:00:00.000Z", VisitOutcome.COMPLETE, status=200)
    return CaptureResult(replace(info, **facts), again=again)


@dataclass
class PolicyHarness:
    """The rule and what it works with."""

    frontier: Frontier
    settings: Settings
    clock: ManualClock
    fetcher: ProxyFetcher | None = None
    rule: PolicyRule = field(init=False)

    def __post_init__(self) -> None:
        self.another_process()

    def another_process(self) -> None:
        """Forget all that is not in the frontier."""
        fetcher = self.fetcher
        self.rule = make_policy(
            self.frontier,
            self.settings.policy,
            fetcher=None if fetcher is None else lambda: fetcher,
            settings_for=lambda _item: self.settings,
            clock=self.clock,
            ask=ask,
        )

    def set(self, **changes: Any) -> None:
        """Change `[policy]`; what lists it names is read again."""
        policy = replace(self.settings.policy, **changes)
        self.settings = replace(self.settings, policy=policy)
        self.another_process()

    def add(self, kind: PolicyKind, pattern: str, *, key: str = "", value: str = "") -> PolicyEntry:
        """Give an entry as an order; a second passes."""
        entry = PolicyEntry(kind, pattern, "because", "alice", NOON, None, key, value)
        self.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
        self.clock.advance(seconds=1)
        return entry

    async def before(self, path: str = "/page", **about: Any) -> RuleDecision:
        """Return the rule's decision on a visit."""
        return await self.rule.before(item(path, **about), now=self.clock.now())

    async def after(self, path: str = "/page", *, site: str = SITE, **facts: Any) -> FollowUp:
        """Return what the rule makes of a visit, and advance the clock by a second."""
        follow_up = FollowUp()
        captured = page(path, site=site, **facts)
        await self.rule.after(item(path, site=site), captured, follow_up, now=self.clock.now())
        self.clock.advance(seconds=1)
        return follow_up


@dataclass
class PolicyHosts:
    """Sites behind a real proxy; one set serves all tests of a module."""

    origin: ScriptedOrigin
    secure_origin: ScriptedOrigin
    proxy: ProxyInProcess
    settings: Settings


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyHosts]:
    """Start them."""
    folder = tmp_path_factory.mktemp("hosts")
    certificate = write_certificate(folder / "origin.pem", "secure.example")
    plain, secure = ScriptedOrigin(), ScriptedOrigin(certificate)
    resolve = {
        "origin.example": f"127.0.0.1:{plain.port}",
        "other.example": f"127.0.0.1:{plain.port}",
        "secure.example:443": f"127.0.0.1:{secure.port}",
        "refused.example": "127.0.0.1:1",
        "private.example": "169.254.169.254:80",
    }
    settings = Settings(
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve=resolve, ca_file=str(certificate)),
        proxy=ProxySettings(disk_reserve_bytes=0, seal_grace_s=1.0, connect_timeout_s=60.0),
    )
    (folder / "collection").mkdir()
    proxy = ProxyInProcess(Layout(folder / "collection"), settings, "proxy", folder)
    yield PolicyHosts(plain, secure, proxy, settings)
    proxy.stop()
    plain.close()
    secure.close()


@pytest.fixture
def origin(hosts: PolicyHosts) -> ScriptedOrigin:
    """Return the origin of origin.example and other.example, without answers or recorded requests."""
    hosts.origin.answers.clear()
    hosts.origin.requests.clear()
    return hosts.origin


@pytest.fixture
def secure_origin(hosts: PolicyHosts) -> ScriptedOrigin:
    """Return the origin of secure.example, without answers or recorded requests."""
    hosts.secure_origin.answers.clear()
    hosts.secure_origin.requests.clear()
    return hosts.secure_origin


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    """Yield an empty SQLite frontier."""
    with SqliteFrontier(tmp_path / "frontier.sqlite") as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock set to noon."""
    return ManualClock(NOON)


@pytest.fixture
def world(frontier: Frontier, settings: Settings, clock: ManualClock) -> PolicyHarness:
    """Policy without a proxy: robots.txt is ignored."""
    return PolicyHarness(frontier, settings, clock)


@pytest.fixture
def obeying(frontier: Frontier, clock: ManualClock, hosts: PolicyHosts, origin: ScriptedOrigin) -> PolicyHarness:
    """Policy that obeys robots.txt, which it reads through a real proxy."""

    @asynccontextmanager
    async def visits(page_id: str) -> AsyncIterator[ProxyVisit]:
        async with hosts.proxy.client.visit(page_id, bucket="default") as visit:
            yield visit

    async def agent() -> str:
        return "Mozilla/5.0 (test)"

    ca = hosts.proxy.layout.ca / CA_FILE
    fetcher = ProxyFetcher(visits, ca=ca, agent=agent)
    made = replace(hosts.settings, policy=PolicySettings(robots="obey"), politeness=PolitenessSettings(min_delay_s=0.0))
    return PolicyHarness(frontier, made, clock, fetcher)


def requested_paths(origin: ScriptedOrigin) -> list[str]:
    return [head.split(b" ")[1].decode() for head in origin.requests]
