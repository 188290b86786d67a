"""Entries as orders: what is kept, what decides, and what another version wrote."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.url_patterns import pattern_target
from crawler.policy.policy_entries import PolicyEntry, PolicyKind, new_entry, read_entries, read_entry

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BLACK_AND_WHITE = (PolicyKind.WHITELIST, PolicyKind.BLACKLIST)


def entry(kind: PolicyKind, pattern: str, *, key: str = "", value: str = "", days: int = 0) -> PolicyEntry:
    """An entry that holds, for so many days, or for ever."""
    expires_at = NOW + timedelta(days=days) if days else None
    return PolicyEntry(kind, pattern, "because", "alice", NOW, expires_at, key, value)


def orders(*entries: PolicyEntry) -> dict[str, str]:
    """They as the frontier keeps them."""
    return {each.id: each.to_json() for each in entries}


def test_the_most_specific_entry_decides_and_the_whitelist_at_equal_specificity() -> None:
    """A path beats its host, a host its domain; of two about the same, the one that allows."""
    entries = read_entries(
        orders(
            entry(PolicyKind.BLACKLIST, "example.org"),
            entry(PolicyKind.WHITELIST, "www.example.org"),
            entry(PolicyKind.BLACKLIST, "www.example.org/private/"),
            entry(PolicyKind.BLACKLIST, "same.example"),
            entry(PolicyKind.WHITELIST, "same.example"),
        )
    )

    def decides(url: str) -> PolicyKind:
        return entries.of(pattern_target(url), BLACK_AND_WHITE, now=NOW)[0].kind

    assert decides("http://example.org/") is PolicyKind.BLACKLIST
    assert decides("http://www.example.org/") is PolicyKind.WHITELIST
    assert decides("http://www.example.org/private/x") is PolicyKind.BLACKLIST
    assert decides("http://same.example/") is PolicyKind.WHITELIST


def test_an_entry_ends_with_its_moment() -> None:
    """Before it, it holds; from it on, it does not (A16)."""
    entries = read_entries(orders(entry(PolicyKind.BLACKLIST, "example.org", days=1)))
    target = pattern_target("http://example.org/")
    just_before = NOW + timedelta(days=1) - timedelta(microseconds=1)
    assert entries.of(target, BLACK_AND_WHITE, now=just_before)
    assert not entries.of(target, BLACK_AND_WHITE, now=NOW + timedelta(days=1))


def test_of_each_setting_the_most_specific_holds() -> None:
    """Settings are looked up one by one."""
    entries = read_entries(
        orders(
            entry(PolicyKind.SETTING, "example.org", key="robots", value="obey"),
            entry(PolicyKind.SETTING, "www.example.org", key="robots", value="ignore"),
            entry(PolicyKind.SETTING, "example.org", key="ban_s", value="60"),
        )
    )
    found = entries.settings(pattern_target("http://www.example.org/"), now=NOW)
    assert {key: each.value for key, each in found.items()} == {"robots": "ignore", "ban_s": "60"}


def test_what_cannot_be_read_is_kept_and_named() -> None:
    """Another version's entry, and no entry at all, are followed by nobody and harm nobody."""
    good = entry(PolicyKind.BLACKLIST, "example.org")
    newer = good.to_json().replace('"version":1', '"version":2')
    given_orders = orders(good) | {"newer": newer, "broken": "{", "list": "[]", "deep": "[" * 9_999}
    entries = read_entries(given_orders)
    assert list(entries.by_id) == [good.id]
    assert set(entries.unread) == {"newer", "broken", "list", "deep"}


def test_entries_that_did_not_change_are_not_read_again() -> None:
    """A new order costs its own reading alone; one that changed is read again."""
    first = entry(PolicyKind.BLACKLIST, "example.org")
    known = read_entries(orders(first))
    changed = replace(first, reason="another")
    second = entry(PolicyKind.BLACKLIST, "example.com")
    again = read_entries(orders(first, second), known=known)
    assert again.by_id[first.id] is known.by_id[first.id]
    assert read_entries(orders(changed), known=again).by_id[first.id] == changed


@pytest.mark.parametrize(
    "wrong",
    [
        entry(PolicyKind.BLACKLIST, "re:("),
        entry(PolicyKind.SETTING, "example.org", key="robots", value="perhaps"),
        entry(PolicyKind.SETTING, "example.org", key="colour", value="red"),
        entry(PolicyKind.SETTING, "example.org", key="ban_s", value="-1"),
        entry(PolicyKind.SETTING, "example.org", key="ban_s", value="inf"),
        entry(PolicyKind.SETTING, "example.org"),
        entry(PolicyKind.WHITELIST, "example.org", key="robots", value="obey"),
        replace(entry(PolicyKind.BLACKLIST, "example.org"), reason="x" * 2_000),
        replace(entry(PolicyKind.BLACKLIST, "example.org"), actor="x" * 300),
    ],
)
def test_an_entry_that_nobody_could_follow_is_refused(wrong: PolicyEntry) -> None:
    """Before it is given as an order, and when it is read."""
    with pytest.raises(InputError):
        new_entry(wrong)
    with pytest.raises(InputError):
        read_entry(wrong.to_json())


_MOMENTS = st.timedeltas(timedelta(days=-9_000), timedelta(days=30_000)).map(lambda t: NOW + t)
_ENTRIES = st.builds(
    PolicyEntry,
    st.sampled_from([PolicyKind.BLACKLIST, PolicyKind.WHITELIST, PolicyKind.AUTOBLACKLIST]),
    st.sampled_from(["example.org", "=example.org", "https://example.org/" + "x" * 20_000, "re:[a]"]),
    st.text(max_size=300),
    st.text(max_size=50),
    _MOMENTS,
    st.none() | _MOMENTS,
)


@given(_ENTRIES)
def test_an_entry_comes_back_as_it_was(made: PolicyEntry) -> None:
    """JSON and back changes nothing, the pattern's bytes least of all (A17)."""
    assert read_entry(made.to_json()) == made


def test_the_reason_names_pattern_why_who_and_until_when() -> None:
    """What is recorded with a skipped URL says all that is known."""
    text = str(entry(PolicyKind.BLACKLIST, "example.org", days=30))
    assert text == "blacklist: example.org (because, by alice, 2026-11-21, until 2026-12-21 12:00 UTC)"


def test_the_same_decision_takes_the_place_of_the_earlier_one() -> None:
    """Kind, pattern and setting make the id; reason and expiry do not."""
    first = entry(PolicyKind.BLACKLIST, "example.org")
    assert first.id == replace(first, reason="other", expires_at=NOW).id
    assert first.id != replace(first, kind=PolicyKind.WHITELIST).id
    assert len({first.id, replace(first, pattern="=example.org").id}) == 2
