"""Entries as orders: what is kept, what decides, and what another version wrote."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError, InputError
from crawler.policy.policy_entries import (
    LINE_LIMIT_BYTES,
    LISTS_POLL_S,
    BlocklistCache,
    PolicyEntry,
    PolicyKind,
    UrlBlocklists,
    new_entry,
    read_entries,
    read_entry,
    read_lists,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BLACK_AND_WHITE = (PolicyKind.WHITELIST, PolicyKind.BLACKLIST)


def entry(kind: PolicyKind, pattern: str, *, key: str = "", value: str = "", days: int = 0) -> PolicyEntry:
    """Return an entry that is valid for so many days; 0 means for ever."""
    expires_at = NOW + timedelta(days=days) if days else None
    return PolicyEntry(kind, pattern, "because", "alice", NOW, expires_at, key, value)


def orders(*entries: PolicyEntry) -> dict[str, str]:
    """Return the entries as the frontier stores them."""
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
        return entries.of(url, BLACK_AND_WHITE, now=NOW)[0].kind

    assert decides("http://example.org/") is PolicyKind.BLACKLIST
    assert decides("http://www.example.org/") is PolicyKind.WHITELIST
    assert decides("http://www.example.org/private/x") is PolicyKind.BLACKLIST
    assert decides("http://same.example/") is PolicyKind.WHITELIST


def test_an_entry_ends_with_its_moment() -> None:
    """Before it, it holds; from it on, it does not (A16)."""
    entries = read_entries(orders(entry(PolicyKind.BLACKLIST, "example.org", days=1)))
    target = "http://example.org/"
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
    entry_by_key = entries.settings("http://www.example.org/", now=NOW)
    assert {key: each.value for key, each in entry_by_key.items()} == {"robots": "ignore", "ban_s": "60"}


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
    """The reason recorded with a skipped URL contains all that is known of the entry."""
    text = str(entry(PolicyKind.BLACKLIST, "example.org", days=30))
    assert text == "blacklist: example.org (because, by alice, 2026-11-21, until 2026-12-21 12:00 UTC)"


def test_the_same_decision_takes_the_place_of_the_earlier_one() -> None:
    """Kind, pattern and setting make the id; reason and expiry do not."""
    first = entry(PolicyKind.BLACKLIST, "example.org")
    assert first.id == replace(first, reason="other", expires_at=NOW).id
    assert first.id != replace(first, kind=PolicyKind.WHITELIST).id
    assert len({first.id, replace(first, pattern="=example.org").id}) == 2


def lists_of(folder: Path, *, name: str = "spam.txt", text: str | bytes = "") -> UrlBlocklists:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_lists([str(path)])


def refusing(lists: UrlBlocklists, url: str) -> str:
    """Return the line that refuses the URL, as reasons cite it; empty if there is none."""
    return str(lists.refusing(url) or "")


def test_a_plain_list(tmp_path: Path) -> None:
    """A pattern a line; comments, empty lines and a byte order mark are passed over."""
    text = "\ufeff# spam\n\nspam.example  # since 2026\nhttp://a.example/#!x\nb.example/x#y\n re:casino\n"
    lists = lists_of(tmp_path, text=text)
    assert lists.lines == 4
    assert lists.bad == 0
    assert refusing(lists, "https://www.spam.example/x") == "spam.txt, line 3"
    assert refusing(lists, "http://a.example/#!x") == "spam.txt, line 4"
    assert refusing(lists, "http://b.example/xyz") == "spam.txt, line 5"
    assert refusing(lists, "http://c.example/casino") == "spam.txt, line 6"
    assert refusing(lists, "http://c.example/") == ""


@pytest.mark.parametrize("name", ["wiki.spamlist", "wiki.txt"])
def test_mediawikis_spam_blacklist(tmp_path: Path, name: str) -> None:
    """Fragments for the host and what follows, by the file's name or its first line."""
    text = (
        "# format: mediawiki\n"
        "\\bcasino-[a-z]+\\.com\\b # a comment\n"
        "viagra\n"
        "example\\.org/spam\n"
        "(?<=look)behind\n"
        "a)|(b\n"
    )
    lists = lists_of(tmp_path, name=name, text=text)
    assert refusing(lists, "https://www.Casino-Royal.com/x") == f"{name}, line 2"
    assert refusing(lists, "http://buy-viagra.example/") == f"{name}, line 3"
    assert refusing(lists, "http://www.example.org/SPAM") == f"{name}, line 4"
    assert refusing(lists, "http://example.com/?q=viagra") == ""
    assert [problem.line for problem in lists.problems] == [5, 6]


def test_lines_that_are_no_patterns_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    """By file and number, with the reason; a line without end is one of them."""
    long = b"x" * (3 * LINE_LIMIT_BYTES)
    text = b"two words\n" + long + b"\nre:(\nftp://a.example/\nlatin-\xe4.example/\ngood.example\n"
    lists = lists_of(tmp_path, text=text)
    assert [problem.line for problem in lists.problems] == [1, 2, 3, 4, 5]
    assert lists.problems[0].source.endswith("spam.txt")
    assert refusing(lists, "http://good.example/") == "spam.txt, line 6"


def test_a_flood_of_bad_lines_is_counted_and_not_kept(tmp_path: Path) -> None:
    """The first hundred are named."""
    lists = lists_of(tmp_path, text="bad line\n" * 5_000)
    assert (lists.bad, len(lists.problems)) == (5_000, 100)


def test_several_lists_are_told_apart(tmp_path: Path) -> None:
    """The reason names the list that has the line."""
    (tmp_path / "one").write_text("a.example\n")
    (tmp_path / "two").write_text("\nb.example\n")
    lists = read_lists([str(tmp_path / "one"), str(tmp_path / "two")])
    assert refusing(lists, "http://a.example/") == "one, line 1"
    assert refusing(lists, "http://b.example/") == "two, line 2"


def test_a_list_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A crawl does not begin without a list that its profile names."""
    with pytest.raises(ConfigError, match=r"missing\.txt"):
        read_lists([str(tmp_path / "missing.txt")])
    with pytest.raises(ConfigError, match=r"missing\.txt"):
        BlocklistCache([str(tmp_path / "missing.txt")])


async def test_a_list_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """Within half a minute; a list that is gone for a while holds on as it was."""
    path = tmp_path / "list"
    path.write_text("a.example\n")
    book = BlocklistCache([str(path)])
    await book.refresh(monotonic=0.0)
    assert refusing(book.lists, "http://a.example/")

    path.write_text("b.example\n")
    await book.refresh(monotonic=1.0)
    assert not refusing(book.lists, "http://b.example/")
    await book.refresh(monotonic=LISTS_POLL_S)
    assert refusing(book.lists, "http://b.example/")

    path.unlink()
    await book.refresh(monotonic=2 * LISTS_POLL_S)
    assert refusing(book.lists, "http://b.example/")
    path.write_text("c.example\n")
    await book.refresh(monotonic=3 * LISTS_POLL_S)
    assert refusing(book.lists, "http://c.example/")


async def test_many_lines_are_looked_up_one_by_one(tmp_path: Path) -> None:
    """Every line is found, by its own number."""
    text = "".join(f"h{number:x}.example\n" for number in range(20_000))
    lists = lists_of(tmp_path, text=text)
    assert lists.lines == 20_000
    for number in (0, 1, 12_345, 19_999):
        assert refusing(lists, f"http://www.h{number:x}.example/") == f"spam.txt, line {number + 1}"
    assert not refusing(lists, "http://example/")
