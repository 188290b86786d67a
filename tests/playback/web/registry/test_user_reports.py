"""Readers' reports on links, on the front: the way through the forms, and who is kept out."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from core.errors import TransientError
from core.layout import Layout
from core.url_patterns import parse_pattern
from core.urls import fetch_key, identity_key
from links.archives.copy_store import keep_proposed_copy
from links.check_history import day_of
from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.feedback.marks import LinkMark, MarkKind, check_mark, put_marks
from links.feedback.replacements import record_replacement_test, replacements_to_test
from links.feedback.reporter_limits import LimitedAct, ReporterDigests, limits_of
from links.registry.database import RegistryStore
from links.registry.schema import actors, copies, replacements, reports
from links.registry.urls import matcher
from links.states import LinkState
from playback.web.rate_limits import ClientAddresses, RateLimitPolicy, ReaderRates, TokenRate, parse_networks
from playback.web.registry.registry_forms import MOST_FORM_BYTES, TOKEN_S, FormTokens
from playback.web.registry.registry_service import ReportOptions
from playback.web.registry.user_reports import ReportReach, report_pattern
from tests.support.registry_builder import NOW, ORIGIN, TODAY, FixedRegistry, RegistryBuilder, RegistryFront, open_front
from tests.support.services.registries import open_registry

pytestmark = pytest.mark.slow

DEAD, FINE = "https://gone.bridges.org/a/page?x=1", "https://fine.bridges.org/"
NEW = "https://new.example.net/page"
FREE = ReaderRates(TokenRate(1e6, 1e6), TokenRate(1e6, 1e6), TokenRate(1e6, 1e6))
ACCESS = RateLimitPolicy(readers=ClientAddresses(parse_networks(["198.51.100.7"])), form_rates=FREE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RegistryStore]:
    """Yield a registry with a dead link and one that works."""
    opened = open_registry(Layout(tmp_path))
    registry_builder = RegistryBuilder(opened)
    registry_builder.page(1, "Page", DEAD, FINE)
    registry_builder.state(DEAD, LinkState.DEAD, code=18)
    registry_builder.state(FINE, LinkState.ALIVE, code=1)
    yield opened
    opened.close()


@pytest.fixture
def front(store: RegistryStore, tmp_path: Path) -> Iterator[RegistryFront]:
    """Yield the front of the registry, behind a proxy that forwards the clients' addresses."""
    report_options = ReportOptions(Layout(tmp_path), limits_of(5), keep_proposed_copy)
    with open_front(tmp_path, FixedRegistry(store), access=ACCESS, report_options=report_options) as registry_front:
        yield registry_front


def shown(front: RegistryFront, act: str = "", url: str = DEAD, who: str = "192.0.2.1") -> httpx.Response:
    """Request a report page about a URL as the client `who`; `act` names its form."""
    path = f"/links/say/{act}" if act else "/links/say"
    return front.get(f"{path}?{urlencode({'url': url})}", X_Forwarded_For=who)


def token_of(answer: httpx.Response) -> str:
    """Return the token in the form."""
    match = re.search(r'name="token" value="([^"]+)"', answer.text)
    assert match is not None, answer.text
    return match[1]


def send(
    front: RegistryFront,
    act: str,
    fields: dict[str, str] | bytes | None = None,
    *,
    url: str = DEAD,
    who: str = "192.0.2.1",
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """Fill the form of an act in as it is shown, press its button."""
    if not isinstance(fields, bytes):
        given = {"url": url, "token": token_of(shown(front, act, url, who)), **(fields or {})}
        fields = urlencode(given).encode()
    request_headers = {
        "Content_Type": "application/x-www-form-urlencoded", "X_Forwarded_For": who,
        "Origin": ORIGIN, "Sec_Fetch_Site": "same-origin", **(headers or {}),
    }  # fmt: skip
    named = {name: value for name, value in request_headers.items() if value}
    return front.post(f"/links/say/{act}", fields, named)


def rows(store: RegistryStore) -> tuple[int, int]:
    """Return the numbers of stored reports and replacements."""
    with store.reading() as connection:
        return (len(connection.execute(select(reports)).all()), len(connection.execute(select(replacements)).all()))


def test_a_report_goes_through_three_pages(front: RegistryFront, store: RegistryStore) -> None:
    """The pages show the present state, the form and the result; nothing is stored before the form is sent."""
    first = shown(front)
    form = shown(front, "report")
    assert (first.status_code, form.status_code, rows(store)) == (200, 200, (0, 0))
    assert f'href="/links/say/report?{html.escape(urlencode({"url": DEAD}))}"' in first.text
    done = send(front, "report")
    assert done.status_code == 303
    after = front.get(done.headers["location"])

    assert rows(store) == (1, 0)
    assert "Your report has been saved" in after.text
    assert "1 reader reported it as reachable, last today" in after.text
    for answer in (first, form, done, after):
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers
        assert "script-src" not in answer.headers["content-security-policy"]
        assert "<script" not in answer.text


def test_a_report_is_withdrawn_by_anybody(front: RegistryFront, store: RegistryStore) -> None:
    """From another address, too; then there is nothing left to withdraw."""
    send(front, "report")
    assert send(front, "withdraw", who="203.0.113.9").status_code == 303
    assert rows(store) == (0, 0)
    again = send(front, "withdraw", who="203.0.114.9")
    assert again.status_code == 409
    assert "no reports of this link to withdraw" in again.text


def test_a_replacement_is_a_link_only_when_it_was_found_working(front: RegistryFront, store: RegistryStore) -> None:
    """Until then nobody can follow it (W17); anybody removes it."""
    assert send(front, "replace", {"address": NEW}).status_code == 303
    assert NEW not in shown(front).text
    with store.writing() as connection:
        (waiting,) = replacements_to_test(connection, TODAY, 9)
        record_replacement_test(connection, waiting, CheckResult(1, CheckVerdict.OK, CheckMethod.GET, 200), TODAY)
    assert f'href="{NEW}"' in shown(front).text
    assert send(front, "replace", {"address": f"{NEW}2"}, who="203.0.113.9").status_code == 409
    assert send(front, "remove", who="203.0.113.9").status_code == 303
    assert rows(store) == (0, 0)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (DEAD, "the same address"),
        ("http://192.168.1.1/", "public web"),
        ("javascript:alert(1)", "Only http and https"),
        ("", "empty"),
        ("https://never.example.net/", "excluded"),
        ("http://example.net:25/", "port"),
        (f"https://example.net/{'x' * 5000}", "too long"),
    ],
    ids=lambda value: value[:30],
)
def test_a_bad_replacement_is_refused_with_the_form_to_mend_it(
    address: str, words: str, front: RegistryFront, store: RegistryStore
) -> None:
    """The page says why, and what was typed is still there."""
    with store.writing() as connection:
        mark = LinkMark(0, MarkKind.NEVER, "never.example.net", "spam", "op", int(NOW.timestamp()))
        put_marks(connection, [check_mark(mark)])
    answer = send(front, "replace", {"address": address})

    assert answer.status_code == 400
    assert words in html.unescape(answer.text)
    assert html.escape(address[:100]) in answer.text
    assert token_of(answer)
    assert rows(store) == (0, 0)


def test_a_copy_in_an_archive_is_kept_among_the_copies(front: RegistryFront, store: RegistryStore) -> None:
    """It is no replacement (W17); of a page that always changes nobody chooses one (W31)."""
    copy = f"https://web.archive.org/web/20150102030405/{DEAD}"
    done = send(front, "replace", {"address": copy})
    assert done.status_code == 303
    assert "to the copies of the page" in front.get(done.headers["location"]).text
    assert rows(store) == (0, 0)
    with store.writing() as connection:
        assert connection.execute(select(copies.c.service)).scalars().all() == ["wayback"]
        connection.execute(update(copies).values(is_locked=True))
    locked = send(front, "replace", {"address": copy}, who="203.0.113.9")
    assert locked.status_code == 409
    assert "changes constantly" in locked.text
    other = "https://web.archive.org/web/2015/https://other.example.net/"
    refused = send(front, "replace", {"address": other}, who="198.18.0.1")
    assert (refused.status_code, "of a different page" in refused.text) == (400, True)


@pytest.mark.parametrize("act", ["report", "withdraw", "replace", "remove"])
def test_only_what_is_watched_is_spoken_of(act: str, front: RegistryFront, store: RegistryStore) -> None:
    """Neither page nor form makes a row for a URL (W12, W18)."""
    url = "https://unknown.example.net/"
    assert shown(front, "", url).status_code == 200
    assert shown(front, act, url).status_code == 404
    answer = send(front, act, urlencode({"url": url, "token": "1.x"}).encode())
    assert answer.status_code == 404
    assert rows(store) == (0, 0)


def test_what_works_needs_nothing(front: RegistryFront) -> None:
    """Neither a report nor a replacement; the page offers none."""
    assert "Actions" in shown(front, "", FINE).text
    assert "/links/say/report" not in shown(front, "", FINE).text
    for act in ("report", "replace"):
        answer = send(front, act, {"address": NEW}, url=FINE)
        assert answer.status_code == 409


def test_a_report_may_be_about_a_beginning_that_is_typed(front: RegistryFront, store: RegistryStore) -> None:
    """A domain with a path, of which the address is one; nothing else (W13)."""
    wrong = send(front, "report", {"reach": "prefix", "prefix": "elsewhere.example/"})
    assert (wrong.status_code, rows(store)) == (400, (0, 0))
    assert 'value="elsewhere.example/"' in wrong.text
    assert send(front, "report", {"reach": "prefix", "prefix": "bridges.org"}).status_code == 303
    assert rows(store)[0] >= 1


def test_a_report_may_be_about_a_folder_or_a_site(front: RegistryFront, store: RegistryStore) -> None:
    """The page names what each means; the registry counts what is watched there (W13)."""
    text = shown(front, "report").text
    assert "gone.bridges.org/a/" in text
    assert send(front, "report", {"reach": "path"}).status_code == 303
    assert send(front, "withdraw", {"reach": "host"}).status_code == 303
    assert rows(store) == (0, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Origin": ""},
        {"Sec_Fetch_Site": "", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
        {"Sec_Fetch_Site": "", "Origin": "https://127.0.0.1:8080"},
        {"Sec_Fetch_Site": "", "Origin": f"{ORIGIN}.evil.example"},
    ],
    ids=lambda each: " ".join(each.values()),
)
def test_no_other_site_speaks_for_a_reader(headers: dict[str, str], front: RegistryFront, store: RegistryStore) -> None:
    """Though it had a token: the browser says where the form was sent from."""
    answer = send(front, "report", headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert rows(store) == (0, 0)


@pytest.mark.parametrize(
    "headers",
    [{"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": ""}, {"Sec_Fetch_Site": "", "Origin": ""}],
    ids=["reload", "no-fetch-metadata", "text-browser"],
)
def test_browsers_that_say_less_are_believed_with_a_token(headers: dict[str, str], front: RegistryFront) -> None:
    """A text browser says nothing, but has fetched the form itself."""
    assert send(front, "report", headers=headers).status_code == 303


def test_a_token_is_for_one_purpose_one_place_and_two_hours(front: RegistryFront, store: RegistryStore) -> None:
    """Else the form comes back with a fresh one, and its button works."""
    token = token_of(shown(front, "report"))

    def sent(act: str = "report", url: str = DEAD, form_token: str = token, who: str = "192.0.2.1") -> int:
        body = urlencode({"url": url, "token": form_token, "address": NEW}).encode()
        return send(front, act, body, who=who).status_code

    assert sent("withdraw") == 403
    assert sent("replace") == 403
    assert sent(url=FINE) == 403
    assert sent(who="192.0.3.1") == 403
    assert [sent(form_token=each) for each in ("", "1", "1.é", f"{token}0", f"1{token}")] == [403] * 5
    front.clock.seconds += TOKEN_S + 1
    assert sent() == 403
    fresh = token_of(send(front, "report", urlencode({"url": DEAD, "token": token}).encode()))
    assert rows(store) == (0, 0)
    assert sent(form_token=fresh, who="192.0.2.200") == 303


def test_one_report_a_minute_from_a_range_of_addresses(front: RegistryFront, store: RegistryStore) -> None:
    """The answer says how long to wait; another range may at once (W15)."""
    send(front, "report")
    again = send(front, "report", who="192.0.2.99")
    assert (again.status_code, again.headers["retry-after"]) == (429, "60")
    assert "60 seconds" in again.text
    assert send(front, "report", who="192.0.3.1").status_code == 303
    front.clock.seconds += 60
    assert send(front, "report").status_code == 303
    assert rows(store) == (2, 0)


def test_who_spoke_is_forgotten_the_day_after(front: RegistryFront, store: RegistryStore) -> None:
    """The digest that held the minute goes when anybody speaks on a later day."""
    send(front, "report")
    front.clock.seconds += 2 * 86_400
    send(front, "withdraw", who="203.0.113.9")
    with store.reading() as connection:
        (left,) = connection.execute(select(actors.c.act)).scalars()
    assert left == int(LimitedAct.WITHDRAW)


def test_a_day_that_is_full_says_until_when(front: RegistryFront) -> None:
    """At noon it is twelve hours to midnight (W15)."""
    for number in range(5):
        assert send(front, "report", who=f"192.0.{number}.1").status_code == 303
    full = send(front, "report", who="192.0.77.1")
    assert (full.status_code, full.headers["retry-after"]) == (429, str(12 * 3600))
    assert "midnight" in full.text


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"url=a", {"Content_Type": "text/plain"}, 415),
        (b"url=a", {"Content_Type": "multipart/form-data; boundary=x"}, 415),
        (b"url=a", {"Content_Type": "application/x-www-form-urlencoded; charset=utf-16"}, 415),
        (b"url=a", {"Content_Type": ""}, 415),
        (b"{}", {"Content_Type": "application/json"}, 415),
        (b"url=a", {"Content_Encoding": "gzip"}, 415),
        (b"url=" + b"a" * MOST_FORM_BYTES, {}, 413),
        (b"&".join(b"a%d=1" % n for n in range(50)), {}, 400),
        (b"url=%FF", {}, 400),
        (b"url=\xc3\xa9", {}, 400),
        (b"", {}, 400),
    ],
    ids=["text", "multipart", "charset", "none", "json", "gzip", "long", "fields", "utf8", "raw", "empty"],
)  # fmt: skip
def test_what_is_no_short_plain_form_is_not_read(
    body: bytes, headers: dict[str, str], status: int, front: RegistryFront, store: RegistryStore
) -> None:
    """By its kind, its length and its text."""
    assert send(front, "report", body, headers=headers).status_code == status
    assert rows(store) == (0, 0)


def test_lists_of_links_lead_to_what_can_be_said(front: RegistryFront) -> None:
    """By whole addresses. What works leads nowhere."""
    text = html.unescape(front.get("/links?dbname=dewiki@WMF&curid=1&scope=all").text)
    assert text.count("/links/say?") == 1
    assert f"{ORIGIN}/links/say?{urlencode({'url': DEAD})}" in text


def test_other_methods_and_acts_are_told_apart(front: RegistryFront) -> None:
    """405 for what a page does not take, 404 for what there is not."""
    assert front.get("/links/say/report", method="DELETE").status_code == 405
    assert front.get("/links/say", method="POST").status_code == 405
    assert front.get(f"/links/say/praise?{urlencode({'url': DEAD})}").status_code == 404
    assert send(front, "praise", b"url=a").status_code == 404
    assert front.get("/links/say/report").status_code == 400
    assert front.get("/links/say").status_code == 200


def test_a_promise_is_not_shown_to_who_made_none(front: RegistryFront) -> None:
    """An address that somebody made up says nothing that is not so."""
    query = urlencode({"url": DEAD, "done": "report"})
    assert "Your report has been saved" not in front.get(f"/links/say?{query}").text


def test_readers_are_throttled_as_by_the_form(store: RegistryStore, tmp_path: Path) -> None:
    """Nobody looks through the registry by these pages (W20, W23)."""
    with open_front(tmp_path, FixedRegistry(store), report_options=ReportOptions(Layout(tmp_path))) as front:
        codes = [shown(front).status_code for _ in range(20)]
    assert codes[0] == 200
    assert codes[-1] == 429


@pytest.mark.parametrize("is_there", [True, False], ids=["away", "none"])
def test_a_registry_that_is_away_is_said_to_be(is_there: bool, tmp_path: Path) -> None:
    """503 with the same page, and 404 when the collection has none."""
    given = FixedRegistry(TransientError("It does not answer.") if is_there else None)
    with open_front(tmp_path, given, access=ACCESS, report_options=ReportOptions(Layout(tmp_path))) as front:
        answer = shown(front)
    assert answer.status_code == (503 if is_there else 404)
    assert ("retry-after" in answer.headers) is is_there


def test_a_front_without_a_voice_has_no_such_pages(store: RegistryStore, tmp_path: Path) -> None:
    """Without report options the pages answer 404, so nothing can be sent."""
    with open_front(tmp_path, FixedRegistry(store)) as front:
        assert shown(front).status_code == 404


def test_everything_from_the_web_is_escaped(store: RegistryStore, front: RegistryFront) -> None:
    """A URL that looks like a page is shown as text."""
    bad = "https://gone.bridges.org/\"><script>alert(1)</script>'"
    RegistryBuilder(store).state(identity_key(bad), LinkState.DEAD)
    for act in ("", "report", "replace"):
        text = shown(front, act, bad).text
        assert "<script" not in text
        assert "alert(1)" in text


def test_german_readers_speak_german(front: RegistryFront) -> None:
    """Every page, and the way on stays in it."""
    answer = front.get(f"/de/links/say/report?{urlencode({'url': DEAD})}")
    assert 'lang="de"' in answer.text
    assert 'action="/de/links/say/report"' in answer.text
    assert day_of(NOW) == TODAY


HOSTS = [
    "example.org", "www.example.co.uk", "xn--mnchen-3ya.de", "münchen.de", "192.0.2.1",
    "[2001:db8::1]", "example.org:8080", "[2001:db8::1]:81", "a_b.example.org",
]  # fmt: skip


@given(
    st.sampled_from(["http", "https"]),
    st.sampled_from(HOSTS),
    st.text(alphabet="abAB/.?#!&=%*,()~_-+ ü:;@'$[]|\\", max_size=12),
    st.sampled_from(ReportReach),
)
def test_a_wider_report_means_its_own_url_too(scheme: str, host: str, path: str, reach: ReportReach) -> None:
    """Whatever the URL looks like: its folder and its host are patterns that match it."""
    url = identity_key(fetch_key(f"{scheme}://{host}/{path}"))
    assert reach is ReportReach.URL or matcher(parse_pattern(report_pattern(url, reach)))(url)


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 2**34), st.integers(0, TOKEN_S))
def test_a_token_holds_for_what_it_was_made(purpose: str, addresses: str, now: int, later: int) -> None:
    """And in no other second, nor for any other purpose."""
    tokens = FormTokens(ReporterDigests(b"k" * 32))
    token = tokens.make(purpose, addresses, now)
    assert tokens.holds(token, purpose, addresses, now + later)
    assert not tokens.holds(token, purpose, addresses, now + TOKEN_S + 1)
    assert not tokens.holds(token, purpose, addresses, now - 1)
    assert not tokens.holds(token, f"{purpose}x", addresses, now)
    assert not tokens.holds(token, purpose, f"{addresses}x", now)
    assert not FormTokens(ReporterDigests(b"j" * 32)).holds(token, purpose, addresses, now)
