"""Quirks of hosts and URLs: kept, refreshed, forgotten."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from links.check_result import CheckMethod, CheckResult, CheckVerdict, RedirectHop
from links.registry.database import RegistryStore
from links.registry.quirks import (
    HostQuirk,
    UrlQuirk,
    detect_host_quirks,
    detect_url_quirks,
    moved_to,
    quirks_of,
    write_host_quirks,
    write_url_quirks,
)
from links.registry.schema import host_quirks, url_quirks
from links.url_parts import url_parts_of
from tests.support.check_rows import watch

GET = HostQuirk.GET_NEEDED


def _write(store: RegistryStore, kind: HostQuirk, day: int, *, is_there: bool = True) -> None:
    with store.writing() as rows:
        write_host_quirks(rows, {(1, kind): is_there}, day=day)


def _days(store: RegistryStore) -> list[tuple[int, int]]:
    with store.reading() as rows:
        return [(row.first_day, row.last_day) for row in rows.execute(select(host_quirks))]


def test_hosts_that_need_get_are_remembered_for_200_days(sqlite_store: RegistryStore) -> None:
    """Then HEAD has to fail again (W42)."""
    watch(sqlite_store, ["http://a.example.org/"])
    _write(sqlite_store, GET, 10)

    with sqlite_store.reading() as rows:
        assert quirks_of(rows, ["a.example.org"], day=209) == {"a.example.org": {GET}}
        assert quirks_of(rows, ["a.example.org"], day=210) == {}
    _write(sqlite_store, GET, 210)
    assert _days(sqlite_store) == [(210, 210)]


def test_a_quirk_is_rewritten_after_ten_days(sqlite_store: RegistryStore) -> None:
    """Not each time that it is seen (W47)."""
    watch(sqlite_store, ["http://a.example.org/"])
    for day in (5, 9, 14, 15, 20, 26):
        _write(sqlite_store, HostQuirk.DNS_ERROR, day)

    assert _days(sqlite_store) == [(5, 26)]


def test_a_property_that_is_gone_takes_its_row_along(sqlite_store: RegistryStore) -> None:
    """At once (W47)."""
    watch(sqlite_store, ["http://a.example.org/"])
    _write(sqlite_store, HostQuirk.DNS_ERROR, 5)
    _write(sqlite_store, HostQuirk.DNS_ERROR, 6, is_there=False)

    assert _days(sqlite_store) == []


def test_a_quirk_that_was_long_not_seen_is_not_believed(sqlite_store: RegistryStore) -> None:
    """After 100 days it starts again (W47)."""
    watch(sqlite_store, ["http://a.example.org/"])
    _write(sqlite_store, HostQuirk.HTTPS_NEEDED, 5)

    with sqlite_store.reading() as rows:
        assert quirks_of(rows, ["a.example.org"], day=105) == {}
    _write(sqlite_store, HostQuirk.HTTPS_NEEDED, 105)
    assert _days(sqlite_store) == [(105, 105)]


def test_quirks_hold_for_hosts_below(store: RegistryStore) -> None:
    """Hosts below may have their own; hosts above and beside do not have them (W47)."""
    watch(store, ["http://example.org/", "http://www.example.org/", "http://example.net/"])
    _write(store, GET, 5)
    with store.writing() as rows:
        write_host_quirks(rows, {(2, HostQuirk.DNS_ERROR): True}, day=5)

    names = ["example.org", "www.example.org", "a.b.example.org", "example.net"]
    with store.reading() as rows:
        assert quirks_of(rows, names, day=6) == {
            "example.org": {GET},
            "www.example.org": {GET, HostQuirk.DNS_ERROR},
            "a.b.example.org": {GET},
        }


def test_a_moved_url_is_known_until_it_is_seen_again(store: RegistryStore) -> None:
    """With where it moved; that changes, ends, and is forgotten after 180 days (W56)."""
    ids = watch(store, ["http://a.example/x"])
    key = (ids["http://a.example/x"], UrlQuirk.MOVED)

    def write(value: str, day: int) -> list[tuple[str, int, int]]:
        with store.writing() as rows:
            write_url_quirks(rows, {key: value}, day=day)
        with store.reading() as rows:
            quirk_rows = rows.execute(select(url_quirks))
            return [(row.value, row.first_day, row.last_day) for row in quirk_rows]

    assert write("https://b.example/", 1) == [("https://b.example/", 1, 1)]
    assert write("https://b.example/", 20) == [("https://b.example/", 1, 20)]
    assert write("https://c.example/", 21) == [("https://c.example/", 21, 21)]
    assert write("https://c.example/", 201) == [("https://c.example/", 201, 201)]
    assert write("", 202) == []


@pytest.mark.parametrize(
    ("hops", "moved"),
    [
        ((), ""),
        ((RedirectHop(302, "https://b.example/"),), ""),
        ((RedirectHop(301, "https://b.example/"),), "https://b.example/"),
        ((RedirectHop(308, "https://b.example/"), RedirectHop(302, "https://c.example/")), "https://b.example/"),
        ((RedirectHop(301, "https://a.example/x"),), ""),  # the host's wish for https
        ((RedirectHop(301, "https://a.example/x"), RedirectHop(301, "https://c.example/")), "https://c.example/"),
        ((RedirectHop(301, "http://a.example/x#part"),), ""),
    ],
    ids=["none", "temporary", "permanent", "then-temporary", "https", "https-then", "fragment"],
)
def test_a_move_is_what_is_permanent_from_the_beginning_on(hops: tuple[RedirectHop, ...], moved: str) -> None:
    """A later permanent redirect behind a temporary one moves something else."""
    assert moved_to(url_parts_of("http://a.example/x"), hops) == moved


FINE = CheckResult(1, CheckVerdict.OK, CheckMethod.GET, http=200)
NO_NAME = CheckResult(66, CheckVerdict.GONE, CheckMethod.HEAD, note="dns: NXDOMAIN", whole_host=True)
UPGRADED = replace(FINE, hops=(RedirectHop(301, "https://a.example/x"),))
ONLY_HTTPS = replace(FINE, code=63, final_url="https://a.example/")
ONLY_HTTP = replace(FINE, code=63, final_url="http://a.example/")
BAD_CERTIFICATE = replace(FINE, tls_fault="expired")
DOWN = CheckResult(67, CheckVerdict.FAILING, CheckMethod.GET, note="connect: refused", whole_host=True)


@pytest.mark.parametrize(
    ("url", "finding", "kind", "seen"),
    [
        ("http://a.example/", NO_NAME, HostQuirk.DNS_ERROR, True),
        ("http://a.example/", FINE, HostQuirk.DNS_ERROR, False),
        ("http://a.example/", DOWN, HostQuirk.SERVER_ERROR, True),
        ("http://a.example/", DOWN, HostQuirk.DNS_ERROR, None),
        ("http://a.example/", FINE, HostQuirk.HTTPS_NEEDED, False),
        ("https://a.example/", FINE, HostQuirk.HTTP_NEEDED, False),
        ("https://a.example:8443/", FINE, HostQuirk.HTTP_NEEDED, None),
        ("http://a.example/", UPGRADED, HostQuirk.HTTPS_NEEDED, True),
        ("http://a.example/", ONLY_HTTPS, HostQuirk.HTTPS_NEEDED, True),
        ("https://a.example/", ONLY_HTTP, HostQuirk.HTTP_NEEDED, True),
        ("https://a.example/", BAD_CERTIFICATE, HostQuirk.HTTP_NEEDED, True),
        ("http://a.example/", FINE, GET, None),
    ],
    ids=[
        "no-name",
        "a-name",
        "down",
        "down-has-name",
        "http",
        "https",
        "own-port",
        "upgraded",
        "only-https",
        "only-http",
        "certificate",
        "head",
    ],
)
def test_findings_tell_of_hosts(url: str, finding: CheckResult, kind: HostQuirk, seen: bool | None) -> None:
    """A quirk that a result says nothing of is neither present nor absent."""
    assert detect_host_quirks(url_parts_of(url), finding).get(kind) is seen


def test_what_was_inferred_tells_of_no_host() -> None:
    """Nothing was asked."""
    inferred = CheckResult(66, CheckVerdict.GONE, CheckMethod.INFERRED, note="dns: NXDOMAIN", whole_host=True)

    assert detect_host_quirks(url_parts_of("http://a.example/"), inferred) == {}
    assert detect_url_quirks(url_parts_of("http://a.example/"), inferred) == {}


def test_a_page_that_a_browser_sees_where_we_fail_makes_the_host_unverifiable() -> None:
    """Our failures say nothing there for a while."""
    saw = CheckResult(1, CheckVerdict.OK, CheckMethod.BROWSER)
    url = url_parts_of("http://a.example/")

    assert detect_host_quirks(url, saw, is_known_failing=True) == {HostQuirk.UNVERIFIABLE: True}
    assert detect_host_quirks(url, saw) == {}
