"""A URL's captures: its calendar, its list, what changed between two, and how it is cited."""

import contextlib
import json
import re
from datetime import timedelta
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.captures import ArtifactKind
from core.page_facts import PageFact
from core.page_manifest import PageScreen, VisitOutcome
from core.timestamps import timestamp14
from playback.access import takedowns
from playback.access.control import PageFacts
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.web.page_store import CaptureMoment
from playback.web.url_history import CaptureCalendar, span_of
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, fetch, png, serving

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)


def links_of(text: str) -> list[str]:
    """Return every href of a page, unescaped."""
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', text)]


def visible(text: str) -> str:
    """Return the page's text without its mark-up."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def items_of(text: str) -> list[str]:
    """Return the list items (HTML) of the captures on a URL's page."""
    return re.findall(r"<li>\n<a class=\"thumbnail\".*?</li>", text, re.DOTALL)


_moments = st.lists(
    st.tuples(st.integers(0, 3_000), st.booleans()).map(
        lambda each: CaptureMoment(timestamp14(NOW + timedelta(days=each[0])), each[1], PageFacts("", "", "", "", ""))
    )
)


@settings(max_examples=examples(40))
@given(_moments, st.integers(0, 6))
def test_a_calendar_holds_every_capture_once(moments: list[CaptureMoment], first: int) -> None:
    """Whatever day the weeks begin with: days add up to months, months to years, years to all."""
    calendar = CaptureCalendar(moments)
    total = offered = 0
    for year in calendar.years():
        months = calendar.months(year.number, first_weekday=first)
        assert sum(month.captures for month in months) == year.captures
        for month in months:
            days = [day for week in month.weeks for day in week if day is not None]
            assert [day.date.day for day in days] == list(range(1, len(days) + 1))
            assert all(len(week) == 7 for week in month.weeks)
            total += sum(day.captures for day in days)
            offered += sum(day.offered for day in days)
            assert all(bool(day.timestamp) == bool(day.captures) for day in days)

    assert total == calendar.total == len(moments)
    assert offered == sum(each.is_offered for each in moments)


def test_a_timeline_counts_captures_and_changes_of_each_month(collection: CollectionBuilder) -> None:
    """The highest bar is a hundred per cent; captures without a text are no change, and hidden ones do not count."""
    texts = [(-40, "a"), (-39, "a"), (-38, "b"), (0, None), (1, "b"), (2, "c"), (3, "secret"), (4, "c"), (400, "d")]
    for days, text in texts:
        collection.page("https://a.example/", "<p>x</p>", at=NOW + timedelta(days=days), text=text)
    hidden = timestamp14(NOW + timedelta(days=3))
    with contextlib.closing(open_decisions(collection.layout)) as decisions:
        takedowns.add_takedowns(
            decisions, [Takedown(0, TakedownKind.CAPTURE, "https://a.example/", hidden, TakedownEffect.HIDE)]
        )
    with serving(collection) as served:
        text = served.get("/url/https://a.example/").text
    years = re.findall(r'<a href="/url/(\d{4})/.*?</a>', text, re.DOTALL)
    bars = re.findall(r'<rect (class="changed" )?x="(\d+)" y="[\d.]+" width="6" height="([\d.]+)"', text)

    assert years[:2] == ["2026", "2027"]
    assert [(bool(mark), x, height) for mark, x, height in bars] == [
        (False, "1", "75.0"), (True, "1", "25.0"), (False, "17", "100.0"), (True, "17", "25.0"),
        (False, "25", "25.0"), (True, "25", "25.0"),
    ]  # fmt: skip
    assert "7 captures 2 changes" in visible(text)
    assert "3 March 2026: 1 capture, text changed" not in text  # another year's calendar is shown
    assert "first on 20 January 2026" in visible(text)


@given(st.text("0123456789", min_size=4, max_size=8).filter(lambda text: len(text) % 2 == 0))
def test_a_period_is_a_stretch_of_time_or_nothing(period: str) -> None:
    """It begins where its digits say, and the next begins where it ends."""
    span = span_of(period)
    if span is None:
        return
    assert timestamp14(span.start).startswith(period)
    assert timestamp14(span.end - timedelta(seconds=1)).startswith(period)
    assert not timestamp14(span.end).startswith(period)


def test_the_calendar_leads_to_each_capture(served: ServedCollection, site: str) -> None:
    """One capture of a day is a link to it, several lead to the list of that day."""
    for hours in (0, 30, 31, 24 * 400):
        served.builder.page(f"{site}/a?b=c", "<p>x</p>", at=NOW + timedelta(hours=hours))
    links = links_of(served.get(f"/url/2026/{site}/a?b=c").text)

    assert f"/page/{TS}/{site}/a?b=c" in links
    assert f"/url/20260302/{site}/a?b=c" in links
    assert f"/url/2027/{site}/a?b=c" in links
    of_day = served.get(f"/url/20260302/{site}/a?b=c").text
    assert len(items_of(of_day)) == 2


def test_five_thousand_captures_have_a_calendar_and_a_list_in_parts(collection: CollectionBuilder) -> None:
    """Each capture is listed, newest first, and the page stays of a size that can be read."""
    url = "https://many.example/"
    collection._database.execute("BEGIN")
    moments = [NOW - timedelta(hours=5 * number) for number in range(5_000)]
    for number, at in enumerate(moments):
        collection._database.execute(
            "INSERT INTO pages VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                f"{number:032}", url, "example,many)/", timestamp14(at),
                int(at.timestamp() * 1000), url, "complete", "", 200, "text/html", "", 1, 1, 1.0,
                "ok", 0.9, "", "", "", "",
            ),
        )  # fmt: skip
    collection._database.execute("COMMIT")
    timestamps: list[str] = []
    with serving(collection) as served:
        text = served.get(f"/url/{url}").text
        address: str | None = f"/url/{url}"
        for _ in range(3):
            assert address is not None
            part = served.get(address).text
            timestamps += re.findall(r"<h3><a href=\"/page/(\d{14})/", part)
            address = next((each for each in re.findall(r'rel="next" href="([^"]*)"', part)), None)

    assert "5,000 captures" in text
    assert len(text) < 300_000
    assert timestamps == [timestamp14(at) for at in moments[:300]]


def test_the_list_says_what_stayed_the_same(served: ServedCollection, site: str) -> None:
    """By the digests of the texts: since when, and which captures differ."""
    for days, text in ((0, "a"), (1, "a"), (2, "a"), (3, "b")):
        served.builder.page(f"{site}/", "<p>x</p>", text=text, at=NOW + timedelta(days=days))
    served.builder.page(f"{site}/", "<p>x</p>", at=NOW + timedelta(days=4))
    words = [visible(each) for each in items_of(served.get(f"/url/{site}/").text)]

    assert len(words) == 5
    assert "Text" not in words[0]  # nobody can say
    assert "Text changed" in words[1]
    assert "Text unchanged since 1 March 2026" in words[2]
    assert "Text unchanged since 1 March 2026" in words[3]
    assert "Compare" not in words[4]


def test_captures_at_another_spelling_are_led_to(served: ServedCollection, site: str) -> None:
    """As the reader's page is; other pages under the same key are named apart."""
    served.builder.page(f"{site}/Page", "<p>x</p>")
    served.builder.page(f"{site}/page", "<p>x</p>")
    text = served.get(f"/url/{site.replace('https:', 'http:')}/Page").text

    assert "1 capture" in visible(text)
    assert f"/url/{site}/page" in links_of(text)
    moved = served.get(f"/url/{site}/PAGE")
    assert moved["Location"] in {f"/url/{site}/Page", f"/url/{site}/page"}


def test_changes_show_words_facts_links_and_pictures(served: ServedCollection, site: str) -> None:
    """Readers see two captures side by side, with their differences marked."""
    for days, text, title, links in (
        (0, "It was a dark night.", "Old <b>title", ("https://a.example/",)),
        (1, "It was a bright night.", "New title", ("https://b.example/<x>",)),
    ):
        at = NOW + timedelta(days=days)
        served.builder.page(f"{site}/", "<p>x</p>", text=text, title=title, shot=png(), at=at)
        relink(served.builder, f"{site}/", at, outlinks=links)
    later = timestamp14(NOW + timedelta(days=1))
    text = served.get(f"/changes/{TS}/{later}/{site}/").text

    assert "It was a <del>dark</del> night." in text
    assert "It was a <ins>bright</ins> night." in text
    assert "<mark>Old &lt;b&gt;title</mark>" in text
    assert "https://b.example/&lt;x&gt;" in text
    assert "https://a.example/" in text
    assert text.count("urn:thumbnail:") == 2
    assert "1 paragraph changed" in visible(text)


def relink(builder: CollectionBuilder, url: str, at, **more) -> None:  # type: ignore[no-untyped-def]
    """Give the page's manifest more facts: a new record in the place of the old."""
    database = builder._database
    uri = f"urn:pageinfo:{url}"
    page_id, filename, offset = database.execute(
        "SELECT page_id, filename, offset FROM captures WHERE url = ? AND timestamp = ?", (uri, timestamp14(at))
    ).fetchone()
    database.execute("DELETE FROM captures WHERE filename = ? AND offset = ?", (filename, offset))
    facts = {
        "version": 1, "page_id": page_id, "url": url, "final_url": url,
        "captured_at": "2026-03-01T12:00:00.000Z", "outcome": "complete",
    }  # fmt: skip
    builder.artifact(
        ArtifactKind.PAGEINFO, url, json.dumps({**facts, **more}).encode(),
        mime="application/json", at=at, page_id=page_id,
    )  # fmt: skip


def test_the_moments_of_a_comparison_are_the_true_ones(served: ServedCollection, site: str) -> None:
    """Older first, both dates those of captures."""
    for days in (0, 10):
        served.builder.page(f"{site}/", "<p>x</p>", text="x", at=NOW + timedelta(days=days))
    later = timestamp14(NOW + timedelta(days=10))

    for first, second in ((later, TS), (TS, "20290101000000"), ("20200101000000", later)):
        moved = served.get(f"/changes/{first}/{second}/{site}/")
        assert moved["Location"] == f"/changes/{TS}/{later}/{site}/"
    assert "The text is the same in both" in served.get(f"/changes/{TS}/{later}/{site}/").text
    assert served.get(f"/changes/{TS}/99999999999999/{site}/").status == 404
    assert served.get(f"/changes/{TS}/{site}/").status == 404


def test_a_text_that_cannot_be_trusted_is_not_compared(served: ServedCollection, site: str) -> None:
    """Another record than the index names, another payload, a missing WARC: only facts are told."""
    later = timestamp14(NOW + timedelta(days=1))
    changes = (
        "digest = 'sha256:' || substr(digest, 8, 63) || 'x'",
        "url = url, filename = 'gone-00000.warc.gz'",
        "filename = '../../etc/passwd'",
        "offset = offset + 1",
        "digest = 'sha256:" + "0" * 64 + "'",
    )
    for number, change in enumerate(changes):
        url = f"{site}/{number}"
        served.builder.page(url, "<p>x</p>", text="some words")
        served.builder.page(url, "<p>x</p>", text="others", at=NOW + timedelta(days=1))
        served.builder._database.execute(
            f"UPDATE captures SET {change} WHERE url = ? AND timestamp = ?", (f"urn:text:{url}", TS)
        )
        reply = served.get(f"/changes/{TS}/{later}/{url}")

        assert reply.status == 200, change
        assert "cannot be read, so only" in reply.text, change
        assert "some words" not in reply.text, change


def test_a_citation_has_what_the_page_says_of_itself(served: ServedCollection, site: str) -> None:
    """From its manifest; hostile words stay words, in the page and in each form."""
    served.builder.page(f"{site}/", "<p>x</p>", title="A | title</textarea><script>")
    facts = [
        {"name": "author", "value": "A. Baker", "source": "meta:author"},
        {"name": "author", "value": "B. }} Cook", "source": "meta:author"},
        {"name": "published", "value": "2025-12-24", "source": "ld:datePublished"},
    ]
    assert all(PageFact(**each) for each in facts)
    relink(served.builder, f"{site}/", NOW, facts=facts)
    reply = served.get(f"/cite/{TS}/{site}/")
    visible_text = visible(reply.text)

    assert reply.status == 200
    assert "<script" not in reply.text
    assert reply.text.count("</textarea>") == 6
    assert "|author1=A. Baker |author2=B. &#125;&#125; Cook |title=A &#124; title" in visible_text
    assert "|date=2025-12-24" in visible_text
    assert f"|archive-url={served.front}/page/{TS}/{site}/" in visible_text
    assert 'data-versiondate="2026-03-01T12:00:00Z"' in visible_text
    assert f"{served.replay}/c/{TS}/{site}/" in visible_text


def test_what_has_no_copy_is_not_cited(served: ServedCollection, site: str) -> None:
    """Nor does its page offer to."""
    served.builder.page(f"{site}/", None, outcome=VisitOutcome.FAILED, reason="x")

    assert served.get(f"/cite/{TS}/{site}/").status == 404
    assert f"/cite/{TS}/{site}/" not in links_of(served.get(f"/page/{TS}/{site}/").text)


def test_what_is_taken_down_is_in_no_calendar_list_or_comparison(served: ServedCollection, site: str) -> None:
    """Hidden captures leave no trace, not even a number (P-22)."""
    for days in (0, 1, 2):
        served.builder.page(f"{site}/", "<p>x</p>", title="T", at=NOW + timedelta(days=days))
    with contextlib.closing(open_decisions(served.builder.layout)) as decisions:
        for days, effect in ((1, TakedownEffect.HIDE), (2, TakedownEffect.BLOCK)):
            moment = timestamp14(NOW + timedelta(days=days))
            taken = Takedown(0, TakedownKind.CAPTURE, f"{site}/", moment, effect, "a judge", "7", "me", NOW, None)
            takedowns.add_takedowns(decisions, [taken])
    text = served.get(f"/url/{site}/").text
    hidden, blocked = (timestamp14(NOW + timedelta(days=days)) for days in (1, 2))

    assert "2 captures" in visible(text)
    assert hidden not in text
    assert "Taken down" in visible(text)
    assert served.get(f"/page/{blocked}/{site}/").status == 451
    assert served.get(f"/cite/{blocked}/{site}/").status == 451
    assert served.get(f"/changes/{TS}/{blocked}/{site}/").status == 451
    listed = json.loads(served.get(f"/api/pages?q=url:{site}").text)["pages"]
    assert [each["timestamp"] for each in listed] == [blocked, TS]
    assert [each["title"] for each in listed] == ["", "T"]


def test_a_hidden_capture_leaves_no_gap_in_a_list(served: ServedCollection, site: str) -> None:
    """A list of one still has the newest that may be shown, and so has its oldest end."""
    moments = [timestamp14(NOW + timedelta(days=days)) for days in range(4)]
    for days in range(4):
        served.builder.page(f"{site}/", "<p>x</p>", at=NOW + timedelta(days=days))
    with contextlib.closing(open_decisions(served.builder.layout)) as decisions:
        hidden = [
            Takedown(0, TakedownKind.CAPTURE, f"{site}/", each, TakedownEffect.HIDE, "", "", "me", NOW, None)
            for each in (moments[0], moments[3])
        ]
        takedowns.add_takedowns(decisions, hidden)
    text = served.get(f"/url/{site}/").text

    assert f"/changes/{moments[1]}/{moments[2]}/{site}/" in links_of(text)
    assert moments[0] not in text
    assert moments[3] not in text


PHONE = PageScreen(412, 915, 2.0, mobile=True, language="de-DE,de")
DESKTOP = PageScreen(1280, 800, language="en-US,en")


def seen_pages(served: ServedCollection, url: str) -> dict[str, list[str]]:
    """Capture a URL on a phone (3), a desktop (2), no screen (1); return timestamps by screen, newest first."""
    moments: dict[str, list[str]] = {"phone": [], "desktop": [], "": []}
    days = [("phone", 0), ("desktop", 10), ("phone", 20), ("", 400), ("desktop", 410), ("phone", 420)]
    for name, day in days:
        screen = {"phone": PHONE, "desktop": DESKTOP}.get(name)
        at = NOW + timedelta(days=day)
        served.builder.page(url, "<p>a</p>", screen=screen, at=at, text=f"day {day}")
        moments[name].insert(0, timestamp14(at))
    return moments


def captures_on(text: str) -> list[str]:
    """Return the timestamps that a URL's page lists."""
    return [re.findall(r"/page/(\d{14})/", each)[0] for each in items_of(text)]


def test_a_urls_captures_can_be_narrowed_to_a_device(served: ServedCollection, site: str) -> None:
    """Calendar, list and every link of the page stay within it; each choice says how many there are."""
    url = f"{site}/page?a=1"
    moments = seen_pages(served, url)

    everything = served.get(f"/url/{url}").text
    phones = served.get(f"/url/device=phone/{url}").text

    assert len(captures_on(everything)) == 6
    facets = re.findall(r'<nav class="facets" aria-label="Device">(.*?)</nav>', everything, re.DOTALL)
    assert visible(facets[0]).split() == (
        ["Device", "All", "6", "captures", "Desktop", "2", "captures", "Phone", "3", "captures"]
    )
    assert f"/url/device=phone/{url}" in links_of(everything)
    assert captures_on(phones) == moments["phone"]
    assert "3 captures" in visible(phones)
    chosen = re.findall(r'<a href="([^"]+)" aria-current="true"><span>Phone', phones)
    assert [unescape(each) for each in chosen] == [f"/url/device=phone/{url}"]
    own = [each for each in links_of(phones) if each.startswith("/url/")]
    assert {each for each in own if "device=phone" not in each} == {f"/url/{url}", f"/url/device=desktop/{url}"}
    year = served.get(f"/url/device=phone/{moments['phone'][0][:4]}/{url}").text
    assert captures_on(year) == moments["phone"][:1]
    compared = [each for each in links_of(phones) if each.startswith("/changes/")]
    older, newest = moments["phone"][1:], moments["phone"][0]
    assert f"/changes/{older[0]}/{newest}/{url}" in compared
    assert f"/page/{newest}/{url}" in links_of(phones)


def test_a_urls_captures_can_be_narrowed_to_a_language(served: ServedCollection, site: str) -> None:
    """Alone and with a device; counts of the one facet are within the other."""
    url = f"{site}/page"
    moments = seen_pages(served, url)
    at = NOW + timedelta(days=500)
    german = PageScreen(1280, 800, language="de-DE,de")
    served.builder.page(url, "<p>a</p>", screen=german, at=at)

    text = served.get(f"/url/language=de-DE/{url}").text
    both = served.get(f"/url/device=desktop;language=de-DE/{url}").text

    assert captures_on(text) == [timestamp14(at), *moments["phone"]]
    devices = re.findall(r'<nav class="facets" aria-label="Device">(.*?)</nav>', text, re.DOTALL)
    assert "All 4 captures Desktop 1 capture Phone 3 captures" in visible(devices[0])
    assert captures_on(both) == [timestamp14(at)]
    assert f"/url/device=phone;language=de-DE/{url}" in links_of(both)


def test_facets_are_offered_where_there_is_something_to_choose(served: ServedCollection, site: str) -> None:
    """A facet that no capture has redirects to all captures; an unknown facet is part of the URL."""
    url = f"{site}/one"
    served.builder.page(url, "<p>a</p>", screen=DESKTOP)
    served.builder.page(url, "<p>b</p>", screen=DESKTOP, at=NOW + timedelta(days=1))

    assert "facets" not in served.get(f"/url/{url}").text
    for facets in ("device=phone", "language=de", "device=phone;language=de"):
        answer = served.get(f"/url/{facets}/{url}")
        assert (answer.status, answer["Location"]) == (302, f"/url/{url}")
    assert served.get(f"/url/device=fridge/{url}").status == 404
    assert served.get(f"/url/device=/{url}").status == 404


def test_what_is_taken_down_does_not_tell_how_it_was_seen(served: ServedCollection, site: str) -> None:
    """A blocked capture is in no facet; of a hidden one nothing is counted."""
    url = f"{site}/page"
    moments = seen_pages(served, url)
    for effect, moment in ((TakedownEffect.BLOCK, moments["phone"][0]), (TakedownEffect.HIDE, moments["phone"][1])):
        down = Takedown(0, TakedownKind.CAPTURE, url, moment, effect, "", "", "test", NOW, None)
        with contextlib.closing(open_decisions(served.builder.layout)) as decisions:
            takedowns.add_takedowns(decisions, [down])

    text = served.get(f"/url/device=phone/{url}").text

    assert captures_on(text) == moments["phone"][2:]
    assert "All 5 captures Desktop 2 captures Phone 1 capture" in visible(text)


def test_a_phones_capture_is_offered_only_where_no_other_is_near(served: ServedCollection, site: str) -> None:
    """To readers, to Memento clients and by replay; asked for by its moment, it is shown."""
    url = f"{site}/page"
    moments = seen_pages(served, url)
    newest_phone, newest_desktop = moments["phone"][0], moments["desktop"][0]

    assert served.get(f"/latest/{url}")["Location"] == f"/page/{newest_desktop}/{url}"
    assert f"/c/{newest_desktop}/" in served.get(f"/timegate/{url}")["Location"]
    near = timestamp14(NOW + timedelta(days=19))
    assert served.get(f"/page/{near}/{url}")["Location"] == f"/page/{moments['desktop'][1]}/{url}"
    assert f"/c/{moments['desktop'][1]}/" in fetch(served.replay, f"/c/{near}/{url}")["Location"]
    assert served.get(f"/page/{newest_phone}/{url}").status == 200
    assert newest_phone in served.get(f"/timemap/link/{url}").text

    last = NOW + timedelta(days=620)
    for day in range(20):  # more than the first look at either side reads
        served.builder.page(url, "<p>a</p>", screen=PHONE, at=last - timedelta(days=day))
    assert f"/c/{timestamp14(last)}/" in served.get(f"/timegate/{url}")["Location"]
    assert served.get(f"/latest/{url}")["Location"] == f"/page/{timestamp14(last)}/{url}"
