"""Scope of take-downs, compared with a model that tests every one."""

import gc
import sys
from datetime import UTC, datetime, timedelta
from itertools import product
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.url_keys import replay_key
from playback.access.takedowns import (
    Takedown,
    TakedownEffect,
    TakedownKind,
    TakedownSet,
    TakedownSubject,
    normalize_target,
    takedown_key,
    url_within,
)
from tests.support.examples import examples

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEX = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
BASE32 = "XJ4BNP4PAHH6UQKBIDPF3LRCEOYAGYNDSYLXVHFUCD7WD4QACWWQ===="
SHA1 = "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"


def takedown(kind: TakedownKind, what: str, number: int = 1, **changes: Any) -> Takedown:
    """Return a take-down that blocks and never expires, unless `changes` say otherwise."""
    values: dict[str, Any] = {
        "timestamp": "",
        "effect": TakedownEffect.BLOCK,
        "reason": "",
        "ticket": "",
        "actor": "",
        "decided_at": NOW,
        "expires_at": None,
    }
    return Takedown(number=number, kind=kind, what=what, **(values | changes))


def covers(kind: TakedownKind, what: str, subject: TakedownSubject, **changes: Any) -> bool:
    """Return whether this one take-down applies to the subject."""
    takedowns = TakedownSet([takedown(kind, normalize_target(kind, what), **changes)])
    return takedowns.on(subject, NOW) is not None


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("https://example.org/A/b?x=1&y=2", True),
        ("http://www.example.org/a/b?y=2&x=1#frag", True),
        ("urn:view:https://example.org/a/b?x=1&y=2", True),
        ("urn:newkind:http://example.org/a/b?x=1&y=2", True),
        ("https://example.org/a/b", False),
        ("https://example.org:8080/a/b?x=1&y=2", False),
        ("https://sub.example.org/a/b?x=1&y=2", False),
    ],
)
def test_a_url_covers_what_shares_its_replay_key(url: str, covered: bool) -> None:
    """Scheme, www, letter case, order of arguments, fragment; its artifacts too."""
    what = "https://example.org/a/b?x=1&y=2"
    assert covers(TakedownKind.URL, what, TakedownSubject(url)) is covered


@pytest.mark.parametrize(
    ("prefix", "url", "covered"),
    [
        ("https://example.org/a", "https://example.org/a", True),
        ("https://example.org/a", "http://www.example.org/a/b/c?d", True),
        ("https://example.org/a", "https://example.org/a?q=/x", True),
        ("https://example.org/a", "https://example.org/ab", False),
        ("https://example.org/a/", "https://example.org/a/b", True),
        ("https://example.org/a/", "https://example.org/ab", False),
        ("example.org", "https://example.org/anything?at=all", True),
        ("example.org", "https://example.org/?q", True),
        ("example.org", "https://sub.example.org/", False),
        ("example.org", "https://example.org:8080/", False),
        ("example.org:8080", "http://example.org:8080/x", True),
        ("https://example.org/a/b", "https://example.org/a", False),
        ("https://example.org/a", "urn:dom:https://example.org/a/b", True),
    ],
)
def test_a_prefix_ends_where_a_segment_does(prefix: str, url: str, covered: bool) -> None:
    """On one host and port."""
    assert covers(TakedownKind.PREFIX, prefix, TakedownSubject(url)) is covered


@pytest.mark.parametrize(
    ("host", "url", "covered"),
    [
        ("example.org", "https://example.org:8443/x", True),
        ("www.example.org", "https://example.org/", True),
        ("EXAMPLE.org.", "https://a.b.example.org/", True),
        ("https://example.org/x", "https://example.org/y", True),
        ("example.org", "https://notexample.org/", False),
        ("a.example.org", "https://example.org/", False),
        ("bücher.example", "https://xn--bcher-kva.example/", True),
        ("192.0.2.1", "http://192.0.2.1:81/", True),
        ("192.0.2.1", "http://192.0.2.11/", False),
        ("[2001:db8::1]", "http://[2001:db8::1]:8080/", True),
        ("2001:db8::1", "http://[2001:db8::2]/", False),
        ("example.org", "urn:text:https://sub.example.org/", True),
    ],
)
def test_a_host_covers_every_port_and_all_below_it(host: str, url: str, covered: bool) -> None:
    """By labels, never by letters."""
    assert covers(TakedownKind.HOST, host, TakedownSubject(url)) is covered


@pytest.mark.parametrize(
    "spelled", [f"sha256:{HEX}", f"sha256:{HEX.upper()}", HEX, f"sha256:{BASE32}", BASE32.rstrip("=")]
)
def test_a_digest_is_known_in_any_spelling(spelled: str) -> None:
    """Whichever of them was typed, and whichever the record has."""
    for other in (f"sha256:{HEX}", f"sha256:{BASE32}"):
        assert covers(TakedownKind.DIGEST, spelled, TakedownSubject("x:", digest=other))
        assert covers(TakedownKind.DIGEST, other, TakedownSubject("x:", digest=spelled))
    assert not covers(TakedownKind.DIGEST, spelled, TakedownSubject("x:", digest=SHA1))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TakedownKind.URL, "ftp://example.org/"),
        (TakedownKind.URL, "javascript:alert(1)"),
        (TakedownKind.URL, ""),
        (TakedownKind.URL, "https://"),
        (TakedownKind.PREFIX, "https://example.org/?q=1"),
        (TakedownKind.HOST, "a b"),
        (TakedownKind.HOST, ""),
        (TakedownKind.DIGEST, "sha256:00"),
        (TakedownKind.DIGEST, "what"),
    ],
)
def test_what_means_nothing_is_refused(kind: TakedownKind, text: str) -> None:
    """A take-down that holds for nothing would be believed."""
    with pytest.raises(InputError):
        normalize_target(kind, text)


def test_hiding_goes_before_blocking_and_the_first_before_the_later() -> None:
    """One answer for everybody who asks."""
    many = [
        takedown(TakedownKind.HOST, "example.org", 1),
        takedown(TakedownKind.URL, "https://example.org/", 2, effect=TakedownEffect.HIDE),
        takedown(TakedownKind.PREFIX, "https://example.org/", 3, effect=TakedownEffect.HIDE),
    ]
    takedowns = TakedownSet(many)
    assert takedowns.on(TakedownSubject("https://example.org/"), NOW) == many[1]
    takedowns.drop(2)
    assert takedowns.on(TakedownSubject("https://example.org/"), NOW) == many[2]
    takedowns.drop(3)
    assert takedowns.on(TakedownSubject("https://example.org/"), NOW) == many[0]


def test_a_take_down_holds_until_its_very_end() -> None:
    """Judged by the moment of each question."""
    end = NOW + timedelta(days=1)
    takedowns = TakedownSet([takedown(TakedownKind.HOST, "example.org", expires_at=end)])
    subject = TakedownSubject("https://example.org/")
    assert takedowns.on(subject, end - timedelta(microseconds=1)) is not None
    assert takedowns.on(subject, end) is None


# ------------------------------------------------------------------------------- the model

_HOSTS = ("a.example", "www.a.example", "s.a.example", "xa.example", "a.example:81", "10.0.0.1")
_PATHS = ("/", "/p", "/p/", "/p/q", "/pq", "/P?x=1", "/p/q/r?y=/p", "//p//q", "/p%2Fq")
_DIGESTS = ("", f"sha256:{HEX}", SHA1, "-")
_TIMES = ("20260301120000", "20260301120001")
_urls = st.builds(
    lambda scheme, host, path: f"{scheme}://{host}{path}",
    st.sampled_from(("http", "https")),
    st.sampled_from(_HOSTS),
    st.sampled_from(_PATHS),
)


@st.composite
def _takedowns(draw: st.DrawFn) -> list[Takedown]:
    takedowns = []
    for number in range(1, draw(st.integers(0, 6)) + 1):
        kind = draw(st.sampled_from(TakedownKind))
        if kind is TakedownKind.DIGEST:
            what = draw(st.sampled_from(_DIGESTS[1:3]))
        elif kind is TakedownKind.HOST:
            what = draw(st.sampled_from(_HOSTS)).partition(":")[0]
        else:
            what = draw(_urls)
            if kind is TakedownKind.PREFIX:
                what = what.partition("?")[0]
        takedowns.append(
            takedown(
                kind,
                normalize_target(kind, what),
                number,
                effect=draw(st.sampled_from(TakedownEffect)),
                timestamp=draw(st.sampled_from(_TIMES)) if kind is TakedownKind.CAPTURE else "",
                expires_at=draw(st.sampled_from((None, NOW, NOW + timedelta(seconds=1)))),
            )
        )
    return takedowns


def _holds(each: Takedown, subject: TakedownSubject) -> bool:
    """Return whether the take-down applies: the rules of docs/how-to/takedown.md, one after the other."""
    if each.expires_at is not None and each.expires_at <= NOW:
        return False
    key = replay_key(url_within(subject.url))
    host, _, path = key.partition(")")
    if each.kind is TakedownKind.DIGEST:
        return subject.digest == each.what or (
            subject.digest == SHA1 and each.what == normalize_target(TakedownKind.DIGEST, SHA1)
        )
    if each.kind is TakedownKind.HOST:
        mine = replay_key(f"http://{each.what}/").partition(")")[0].split(",")
        return host.partition(":")[0].split(",")[: len(mine)] == mine
    other = replay_key(each.what)
    if each.kind is TakedownKind.URL:
        return key == other
    if each.kind is TakedownKind.CAPTURE:
        return key == other and subject.timestamp == each.timestamp
    its_host, _, its_path = other.partition(")")
    segments = [part for part in path.partition("?")[0].split("/") if part]
    its = [part for part in its_path.split("/") if part]
    return host == its_host and segments[: len(its)] == its


_ALL_URLS = [f"{scheme}://{host}{path}" for scheme in ("http", "https") for host in _HOSTS for path in _PATHS]


@settings(max_examples=examples(25))
@given(_takedowns(), st.sampled_from(("", "urn:view:", "urn:other:")), st.sampled_from(_DIGESTS))
def test_the_answer_is_that_of_a_look_at_every_one(takedowns: list[Takedown], urn: str, digest: str) -> None:
    """For every address at every moment; put in any order, dropped and put again."""
    held = TakedownSet(reversed(takedowns))
    for each in takedowns[::2]:
        held.drop(each.number)
        held.put(each)
    subjects = [TakedownSubject(f"{urn}{url}", at, digest) for url, at in product(_ALL_URLS, _TIMES)]
    for subject in subjects:
        expected = sorted(
            (each for each in takedowns if _holds(each, subject)),
            key=lambda each: (each.effect is not TakedownEffect.HIDE, each.number),
        )
        assert held.on(subject, NOW) == (expected[0] if expected else None), subject
    for each in takedowns:
        held.drop(each.number)
    assert (len(held), held.on(subjects[0], NOW), held.state_of_digests) == (0, None, "")


def test_ten_thousand_take_downs_cost_a_question_nothing() -> None:
    """The number of calls stays that of a handful."""
    subject = TakedownSubject("https://deep.a.example/p/q/r?x=1", _TIMES[0], f"sha256:{HEX}")

    def kinds(number: int) -> list[Takedown]:
        name = f"{number:06}"
        return [
            takedown(TakedownKind.URL, f"https://h{name}.example/p", 5 * number + 1),
            takedown(TakedownKind.PREFIX, f"https://a.example/p/{name}", 5 * number + 2),
            takedown(TakedownKind.HOST, f"h{name}.a.example", 5 * number + 3),
            takedown(
                TakedownKind.CAPTURE, f"https://a.example/{name}", 5 * number + 4,
                timestamp=_TIMES[0],
            ),
            takedown(TakedownKind.DIGEST, f"sha256:{number:064x}", 5 * number + 5),
        ]  # fmt: skip

    few, many = TakedownSet(kinds(0)), TakedownSet(kinds(0))
    for number in range(1, 2_000):
        for each in kinds(number):
            many.put(each)
    assert len(many) == 10_000
    for takedowns in (few, many):
        assert takedowns.on(subject, NOW) is None
    assert _calls(many, subject) == _calls(few, subject)
    long = TakedownSubject("https://a.example" + "/x" * 4_000, _TIMES[0])
    assert many.on(long, NOW) is None


def _calls(takedowns: TakedownSet, subject: TakedownSubject) -> int:
    count = 0

    def count_one(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # others have a function called when rubbish is collected
    sys.setprofile(count_one)
    try:
        takedowns.on(subject, NOW)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_keys_are_filed_by_one_spelling() -> None:
    """Keys are normalised: digests to hexadecimal, hosts to reversed labels without `www`."""
    assert takedown_key(takedown(TakedownKind.DIGEST, f"sha256:{BASE32}")) == f"sha256:{HEX}"
    assert takedown_key(takedown(TakedownKind.HOST, "www.example.org")) == "org,example"
