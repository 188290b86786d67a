"""Rules, settings and health in the console."""

from datetime import timedelta

import pytest

from core.layout import CONFIG_FILE
from crawler.frontier.base import POLICY_ORDER
from crawler.policy.policy_entries import PolicyEntry, PolicyKind, new_entry
from playback.access.takedowns import Takedown, TakedownKind, add_takedowns
from tests.support.console_server import ServedConsole
from tests.weboid.console.sample_collection import NOW


@pytest.fixture(scope="module")
def rules(served: ServedConsole) -> ServedConsole:
    """Add rules of each kind, one expired and one unreadable, and a take-down."""
    entries = [
        PolicyEntry(PolicyKind.BLACKLIST, "*.tracker.example", "Only advertisements", "Ada", NOW),
        PolicyEntry(PolicyKind.WHITELIST, "library.example", "They asked", "Ada", NOW, NOW - timedelta(days=1)),
    ]
    for each in map(new_entry, entries):
        served.frontier.give_order(POLICY_ORDER, each.id, each.to_json())
    served.frontier.give_order(POLICY_ORDER, "unknown", '{"version": 99}')
    made = Takedown(
        0, TakedownKind.HOST, "secret.example", reason="A court", ticket="RT-1", actor="Ada", decided_at=NOW
    )
    add_takedowns(served.stores.decisions, [made])
    return served


def test_rules_in_force_are_listed(rules: ServedConsole, console: ServedConsole) -> None:
    """Those that are over are not; one that cannot be read is counted."""
    text = rules.get("/rules").text

    assert "*.tracker.example" in text
    assert "They asked" not in text
    assert "secret.example" in text
    assert "RT-1" in text
    assert "1 rule of another version" in text


def test_rules_for_an_address_are_those_that_apply(rules: ServedConsole, console: ServedConsole) -> None:
    """The most specific first, take-downs of the host included."""
    tracker = rules.get("/rules", q="https://a.tracker.example/x").text
    secret = rules.get("/rules", q="https://www.secret.example/x").text

    assert "*.tracker.example" in tracker
    assert "secret.example" not in tracker
    assert "secret.example" in secret
    assert "tracker" not in secret


@pytest.mark.parametrize("words", ["https://", "http://[", "https://a b/"])
def test_what_is_no_address_is_searched_as_words(rules: ServedConsole, words: str) -> None:
    """As someone types it."""
    assert rules.get("/rules", q=words).status_code == 200


def test_settings_name_the_file_and_line_that_set_them(console: ServedConsole) -> None:
    """Defaults on request; a wrong value is named with its line."""
    path = console.layout.root / CONFIG_FILE
    path.write_text("[visit]\ntimeout_s = 90\n")
    try:
        text = console.get("/settings").text
        everything = console.get("/settings", all="1").text
        path.write_text("[visit]\ntimeout_s = 'long'\ntimeot_s = 1\n")
        wrong = console.get("/settings").text
    finally:
        path.unlink()
    without = console.get("/settings").text

    assert "visit.timeout_s" in text
    assert f"{CONFIG_FILE}, line 2" in text
    assert "politeness.min_delay_s" not in text
    assert "politeness.min_delay_s" in everything
    assert "line 2" in wrong
    assert "timeout_s?" in wrong  # the nearest key
    assert "Every setting has its default" in without


def test_passwords_are_not_shown(console: ServedConsole) -> None:
    """Those of addresses of databases, wherever an address is."""
    path = console.layout.root / CONFIG_FILE
    path.write_text(
        '[index]\nurl = "postgresql://weboid:geheim@db/x"\n[proxy]\ndedup_url = "redis://:geheim@r/0"\n[egress]\nvia = {"*" = "socks5://a:geheim@b:1"}\n'
    )
    try:
        text = console.get("/settings").text
    finally:
        path.unlink()

    assert "geheim" not in text
    assert "weboid:…@db/x" in text
    assert "a:…@b:1" in text


def test_health_is_checked_on_request(console: ServedConsole) -> None:
    """A browser is started only then."""
    assert "Check now" in console.get("/health").text
    assert "sandbox" in console.get("/health", run="1").text
