"""Scope: which links belong to a crawl, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import SCOPE_KINDS, ScopeSettings
from core.errors import BadUrlError
from core.urls import fetch_key
from crawler.jobs.scope import Scope, SeedTerritory, describe_scope, link_key

SEEDS = st.sampled_from(
    [
        "https://www.example.org/",
        "http://example.org/docs/a",
        "https://a.example.org:8443/x/y/?q=/z/",
        "http://127.0.0.1/",
    ]
)
LINKS = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["example.org", "www.example.org", "a.example.org", "127.0.0.1", "other.net"]),
    st.sampled_from(["", ":8443", ":80", ":443"]),
    st.text("abxy/.", max_size=8),
).map(fetch_key)


def why(kind: str, seed: str, link: str, **settings: object) -> str:
    """Return the reason of the decision on a link of the seed."""
    scope = Scope(
        SeedTerritory(kind, [fetch_key(seed)]),
        ScopeSettings(kind=kind, **settings),  # type: ignore[arg-type]
    )
    return scope.decide(fetch_key(link), hops=1, hops_off=0).reason


@pytest.mark.parametrize(
    ("kind", "seed", "link", "reason"),
    [
        ("page", "https://a.org/x", "http://a.org/x", "seed"),
        ("page", "https://a.org/x", "https://a.org/x?y", "outside"),
        ("prefix", "https://a.org/docs/a?b=/x/y", "http://a.org/docs/c/d?e", "prefix"),
        ("prefix", "https://a.org/docs/", "https://a.org/docs/", "seed"),
        ("prefix", "https://a.org/docs/", "https://a.org/docsets/", "outside"),
        ("prefix", "https://a.org/docs", "https://a.org/else", "prefix"),
        ("prefix", "https://a.org/d%6Fcs/x", "https://a.org/docs/y", "prefix"),
        ("prefix", "https://a.org/docs/x", "https://www.a.org/docs/y", "outside"),
        ("prefix", "https://a.org:8443/docs/x", "https://a.org/docs/y", "outside"),
        ("host", "https://a.org/docs/", "http://A.org:80/x", "host"),
        ("host", "https://a.org/docs/", "http://a.org:81/x", "outside"),
        ("host", "https://a.org/docs/", "https://www.a.org/", "outside"),
        ("domain", "https://www.a.org/docs/", "http://a.org/", "domain"),
        ("domain", "https://www.a.org/docs/", "http://x.y.a.org:8080/", "domain"),
        ("domain", "https://www.a.org/docs/", "http://ba.org/", "outside"),
        ("domain", "https://www.com/", "http://a.com/", "outside"),
        ("domain", "http://10.0.0.1/", "http://0.0.1/", "outside"),
        ("any", "https://a.org/", "ftp.b.org/", "any"),
    ],
)
def test_a_kind_spans_what_it_says(kind: str, seed: str, link: str, reason: str) -> None:
    """Scheme does not count; a port counts unless it is the scheme's own."""
    assert why(kind, seed, link) == reason


def test_exclude_beats_include_and_scope_and_names_its_pattern() -> None:
    """Also where both are found."""
    patterns = {"include": ("x",), "exclude": ("xy", "docs")}

    assert why("host", "https://a.org/", "https://a.org/docs", **patterns) == "exclude: docs"
    assert why("host", "https://a.org/", "https://b.org/xy", **patterns) == "exclude: xy"
    assert why("host", "https://a.org/", "https://b.org/x", **patterns) == "include: x"


@pytest.mark.parametrize(("depth", "hops", "followed"), [(-1, 999, True), (0, 1, False), (2, 2, True), (2, 3, False)])
def test_depth_counts_links_from_a_seed(depth: int, hops: int, followed: bool) -> None:
    """Minus one is any number."""
    scope = Scope(SeedTerritory("any", []), ScopeSettings(kind="any", depth=depth))

    assert scope.decide("https://a.org/", hops=hops, hops_off=0).followed is followed


def test_extra_hops_lead_so_far_beyond_the_scope_and_start_again_inside() -> None:
    """A link back into the scope counts no hop."""
    scope = Scope(SeedTerritory("host", ["https://a.org/"]), ScopeSettings(kind="host", extra_hops=2))

    first = scope.decide("https://b.org/", hops=1, hops_off=0)
    second = scope.decide("https://c.org/", hops=2, hops_off=first.hops_off)
    third = scope.decide("https://d.org/", hops=3, hops_off=second.hops_off)
    back = scope.decide("https://a.org/x", hops=3, hops_off=second.hops_off)

    assert [first.hops_off, second.hops_off, back.hops_off] == [1, 2, 0]
    assert first.reason == "extra hop: 1 of 2"
    assert (third.followed, third.reason) == (False, "outside")
    assert back.followed


@given(st.lists(SEEDS, min_size=1, max_size=4), LINKS, st.sampled_from(SCOPE_KINDS))
def test_several_seeds_span_what_any_of_them_spans(seeds: list[str], link: str, kind: str) -> None:
    """A look-up in all at once says the same as one after the other."""
    together = SeedTerritory(kind, map(fetch_key, seeds))

    assert bool(together.why(link)) == any(SeedTerritory(kind, [fetch_key(s)]).why(link) for s in seeds)


@given(SEEDS, LINKS)
def test_each_kind_spans_all_that_a_narrower_one_does(seed: str, link: str) -> None:
    """A page lies within prefix within host within domain within any."""
    spans = [bool(SeedTerritory(kind, [fetch_key(seed)]).why(link)) for kind in SCOPE_KINDS]

    assert spans == sorted(spans)


@pytest.mark.parametrize(
    ("path", "trapped"),
    [
        ("a/b/a/b/a/b/a/b/a/b/a/b", True),
        ("calendar/2026/01/01/2026/01/01", False),
        ("/".join(map(str, range(60))), True),
        ("/".join(map(str, range(30))), False),
        ("?x=" + "/a" * 50, False),
    ],
)
def test_paths_that_grow_without_end_are_left(path: str, trapped: bool) -> None:
    """A relative link that leads deeper each time would never end."""
    assert why("any", "https://a.org/", f"https://a.org/{path}").startswith("trap") is trapped


@given(st.text(max_size=60))
def test_any_text_is_a_link_or_refused_with_a_reason(text: str) -> None:
    """Nothing that a page says breaks the crawl."""
    try:
        key = link_key(text)
    except BadUrlError:
        return
    assert SeedTerritory("domain", ["https://a.org/"]).why(key) in (None, "domain", "seed")


def test_a_link_that_is_too_long_is_refused() -> None:
    """No page is asked for by more."""
    with pytest.raises(BadUrlError):
        link_key("https://a.org/" + "x" * 8_000)


def test_the_scope_is_said_in_words() -> None:
    """For the dry run."""
    settings = ScopeSettings(kind="domain", depth=1, extra_hops=2, include=("a", "b"), exclude=tuple("cdefghi"))

    assert describe_scope(settings, 3) == (
        "Pages of the host of any of the 3 seeds and of its subdomains, and URLs that match a or b, at most 1 link "
        "away, and 2 links beyond these; never URLs that match c or d or e or f or g or one of 2 more."
    )
